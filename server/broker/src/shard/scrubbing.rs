//! The scrubber: reads what nobody reads, so that rot does not wait for a consumer.
//!
//! Owns the order and the rate: every sealed segment of the core once a pass, a few megabytes a second, in a queue that yields
//! to all others. A start begins anywhere, since a node that is restarted often would otherwise never get to its last log. What
//! is found is damage of the log as if a reader had met it; nothing is repaired and nothing is stopped. A disk that refuses reads
//! gets a pause after each, and its pass ends when many were refused: another one begins elsewhere, at its time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use commitlog::{Pace, ReadCost, TaskClass};
use futures_lite::future::or;
use record::{Offset, TopicPartition};

use crate::drivers::partition::PartitionDriver;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;
use crate::sync::contained;

/// How often it is looked whether a pass is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// After a read that failed: the disk may have been busy with it for seconds, and others want it as well.
const FAILED_READ_PAUSE: Duration = Duration::from_millis(500);
/// A pass ends after so many: eight minutes of pauses.
const FAILED_READS_A_PASS_MAX: u64 = 1_000;
/// At most one line in this time about segments that cannot be read.
pub(super) const SCRUB_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// What one pass has met.
#[derive(Debug, Default)]
struct Pass {
    failed_reads: Cell<u64>,
}

impl Pass {
    fn is_given_up(&self) -> bool {
        self.failed_reads.get() >= FAILED_READS_A_PASS_MAX
    }
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Scrubs pass after pass until the core stops.
    pub(super) async fn keep_scrubbing(self: Rc<Self>) {
        let config = &self.state.config;
        let (rate, interval) = (config.scrub_bytes_per_second, config.scrub_interval);
        if rate == 0 {
            return;
        }
        let mut due = self.platform.monotonic();
        while !self.stopping.is_raised() {
            let now = self.platform.monotonic();
            if now < due {
                self.pause(LOOK_INTERVAL.min(due - now)).await;
                continue;
            }
            due = now.saturating_add(interval);
            Rc::clone(&self).scrub_all().await;
        }
    }

    /// One pass over all logs, from any of them on.
    async fn scrub_all(self: Rc<Self>) {
        let mut order: Vec<TopicPartition> = self.partitions.borrow().keys().copied().collect();
        let first = self.any_below(order.len());
        order.rotate_left(first);
        let pass = Rc::new(Pass::default());
        for partition in order {
            let (scrubbing, pass_of_one) = (Rc::clone(&self), Rc::clone(&pass));
            let scrub = async move { scrubbing.scrub_one(partition, &pass_of_one).await };
            // Contained: a bug met in one log must not end the scrubbing of all.
            contained(&self.platform, TaskClass::Background, scrub).await;
            if self.stopping.is_raised() {
                return;
            }
            if pass.is_given_up() {
                let failed_reads = pass.failed_reads.get();
                tracing::warn!(
                    failed_reads,
                    "the disk refuses reads: this pass of the scrubber is given up"
                );
                return;
            }
        }
        self.metrics.scrub_passes.increment();
    }

    async fn scrub_one(&self, partition: TopicPartition, pass: &Pass) {
        let driver = self.partitions.borrow().get(&partition).cloned();
        let Some(driver) = driver else { return };
        let mut from = Offset::ZERO;
        while let Some(base) = driver.log().sealed_from(from) {
            let scrubbed = driver.log().scrub(base, async |cost| self.pace(cost, pass).await).await;
            if !matches!(scrubbed, Ok(0)) {
                self.metrics.scrub_failures.increment();
            }
            match scrubbed {
                Ok(0) => {}
                // The log has said which.
                Ok(bytes) => {
                    tracing::warn!(partition = driver.name(), segment = %base, bytes, "not scrubbed in whole");
                }
                Err(error) => {
                    if let Some(unlogged) = self.scrub_pace.due(self.platform.monotonic()) {
                        let partition = driver.name();
                        tracing::warn!(partition, segment = %base, %error, unlogged, "not scrubbed");
                    }
                    // What keeps one segment from being opened keeps the next: a want of descriptors, most often.
                    self.pause(LOOK_INTERVAL).await;
                }
            }
            if self.stopping.is_raised() || pass.is_given_up() || !self.is_led(&driver) {
                return;
            }
            from = Offset(base.0.saturating_add(1));
        }
    }

    /// Waits for as long as a read may take.
    async fn pace(&self, cost: ReadCost, pass: &Pass) -> Pace {
        let ReadCost { read_bytes, failed_reads } = cost;
        self.metrics.scrubbed_bytes.add(read_bytes);
        pass.failed_reads.set(pass.failed_reads.get().saturating_add(failed_reads));
        let rate = self.state.config.scrub_bytes_per_second.max(1);
        let micros = read_bytes.saturating_mul(1_000_000) / rate;
        let for_failed = FAILED_READ_PAUSE.saturating_mul(u32::try_from(failed_reads).unwrap_or(1));
        self.pause(Duration::from_micros(micros).saturating_add(for_failed)).await;
        let ends = self.stopping.is_raised() || pass.is_given_up();
        if ends { Pace::Stop } else { Pace::GoOn }
    }

    async fn pause(&self, duration: Duration) {
        or(self.platform.sleep(duration), self.stopping.raised()).await;
    }

    fn is_led(&self, driver: &Rc<PartitionDriver<P>>) -> bool {
        let partitions = self.partitions.borrow();
        partitions.get(&driver.partition()).is_some_and(|known| Rc::ptr_eq(known, driver))
    }

    /// A number below `count`, each as likely as the others; 0 where there is none.
    fn any_below(&self, count: usize) -> usize {
        let mut bytes = [0; size_of::<usize>()];
        self.platform.random(&mut bytes);
        usize::from_ne_bytes(bytes).checked_rem(count).unwrap_or(0)
    }
}
