//! The scrubber: reads what nobody reads, so that rot does not wait for a consumer.
//!
//! Owns the order and the rate: every sealed segment of the core once a pass, a few megabytes a second, in a queue that yields
//! to all others. A start begins anywhere, since a node that is restarted often would otherwise never get to its last log. What
//! is found is damage of the log as if a reader had met it; nothing is repaired and nothing is stopped.

use std::rc::Rc;
use std::time::Duration;

use commitlog::{Pace, TaskClass};
use futures_lite::future::or;
use record::{Offset, TopicPartition};

use crate::drivers::partition::PartitionDriver;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;
use crate::sync::contained;

/// How often it is looked whether a pass is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// At most one line in this time about segments that cannot be read.
pub(super) const SCRUB_LOG_INTERVAL: Duration = Duration::from_secs(60);

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
        for partition in order {
            let scrubbing = Rc::clone(&self);
            let scrub = async move { scrubbing.scrub_one(partition).await };
            // Contained: a bug met in one log must not end the scrubbing of all.
            contained(&self.platform, TaskClass::Background, scrub).await;
            if self.stopping.is_raised() {
                return;
            }
        }
        self.metrics.scrub_passes.increment();
    }

    async fn scrub_one(&self, partition: TopicPartition) {
        let driver = self.partitions.borrow().get(&partition).cloned();
        let Some(driver) = driver else { return };
        let mut from = Offset::ZERO;
        while let Some(base) = driver.log().sealed_from(from) {
            let scrubbed = driver.log().scrub(base, async |bytes| self.pace(bytes).await).await;
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
            if self.stopping.is_raised() || !self.is_led(&driver) {
                return;
            }
            from = Offset(base.0.saturating_add(1));
        }
    }

    /// Waits for as long as reading `bytes` may take.
    async fn pace(&self, bytes: u64) -> Pace {
        self.metrics.scrubbed_bytes.add(bytes);
        let rate = self.state.config.scrub_bytes_per_second.max(1);
        let micros = bytes.saturating_mul(1_000_000) / rate;
        self.pause(Duration::from_micros(micros)).await;
        if self.stopping.is_raised() { Pace::Stop } else { Pace::GoOn }
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
