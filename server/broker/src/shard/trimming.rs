//! The heads of logs: DeleteRecords across cores, and retention.
//!
//! Owns when records go, never whether they may: the log refuses what lies above its high watermark. Both run beside the data
//! path: a look at one log at a time, with a pause between two.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use cluster::{Topic, TopicSettings};
use commitlog::{RemovalReason, RemovedSegment, RetentionPolicy, TaskClass};
use partition::Isolation;
use record::{Offset, ShardIndex, Timestamp};

use crate::calls::{DeleteRecordsAnswer, DeleteRecordsCall, DeleteRecordsEntry, Reply, Request};
use crate::drivers::partition::PartitionDriver;
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::{DeleteRecordsRefusal, FetchRefusal};
use crate::shard::{Owned, Shard};

/// How often the retention task looks whether its interval is over, or the core stops.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// A wall clock that runs so far ahead of the monotonic one between two looks was set, or is wrong (P29)…
const JUMP_MS: i64 = 60 * 60 * 1000;
/// …and records do not age for so long, that someone can put it right before anything is deleted by it.
const JUMP_PAUSE: Duration = Duration::from_secs(60 * 60);

/// What one look at the clocks said.
#[derive(Debug, Clone, Copy)]
struct Look {
    monotonic: Duration,
    wall: Timestamp,
}

/// Whether the wall clock can be believed enough to delete by it.
#[derive(Debug, Default)]
struct ClockWatch {
    last: Cell<Option<Look>>,
    distrusted_until: Cell<Duration>,
}

impl ClockWatch {
    /// Looks at both clocks; false while the wall clock is not believed.
    fn look(&self, monotonic: Duration, wall: Timestamp) -> bool {
        if let Some(last) = self.last.replace(Some(Look { monotonic, wall })) {
            let elapsed = i64::try_from(monotonic.saturating_sub(last.monotonic).as_millis());
            let expected = last.wall.0.saturating_add(elapsed.unwrap_or(i64::MAX));
            let ahead_ms = wall.0.saturating_sub(expected);
            if ahead_ms > JUMP_MS {
                self.distrusted_until.set(monotonic.saturating_add(JUMP_PAUSE));
                tracing::error!(
                    ahead_ms,
                    "the wall clock jumped: records do not age for an hour; put the clock right if it is wrong"
                );
            } else if ahead_ms < -JUMP_MS {
                // Set back: what was believed wrong is right again.
                self.distrusted_until.set(Duration::ZERO);
            }
        }
        monotonic >= self.distrusted_until.get()
    }
}

/// What may be kept of a topic's logs.
fn policy_of(settings: &TopicSettings, is_clock_good: bool) -> RetentionPolicy {
    let age_ms_max = (settings.deletes && is_clock_good).then_some(settings.retention_ms);
    let bytes_max = settings.deletes.then_some(settings.retention_bytes);
    RetentionPolicy {
        age_ms_max: age_ms_max.filter(|age_ms| *age_ms >= 0),
        // Negative: no bound.
        bytes_max: bytes_max.and_then(|bytes| u64::try_from(bytes).ok()),
    }
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Whether records of a topic may be deleted by request: its policy deletes records.
    pub fn may_delete_records(&self, topic: &Topic) -> bool {
        self.settings_of(topic).deletes
    }

    /// Moves log starts wherever the partitions are; the request takes `memory` until all owners have answered. Order: ascending
    /// by slot.
    pub(crate) async fn delete_records(
        self: &Rc<Self>,
        entries: Vec<(ShardIndex, DeleteRecordsEntry)>,
        memory: Option<&Rc<HeldMemory>>,
    ) -> Vec<DeleteRecordsAnswer> {
        let request = |entries| Request::DeleteRecords(DeleteRecordsCall { entries });
        let (mine, forwarded) = self.forward(entries, memory, |entry| entry.slot, request).await;
        let mut answers = self.delete_records_here(&DeleteRecordsCall { entries: mine }).await;
        for part in forwarded {
            let theirs = |reply| match reply {
                Reply::DeleteRecords(theirs) => Some(theirs),
                _ => None,
            };
            let missing = |slot, _| {
                let outcome = Err(FetchRefusal::NotLeader.into());
                DeleteRecordsAnswer { slot, outcome }
            };
            answers.extend(part.answers(theirs, missing).await);
        }
        answers.sort_by_key(|answer| answer.slot);
        answers
    }

    /// Moves log starts of partitions that this core owns: all of them in memory, one checkpoint for all, then the answers. Files
    /// go afterwards, in the background.
    pub async fn delete_records_here(
        self: &Rc<Self>,
        call: &DeleteRecordsCall,
    ) -> Vec<DeleteRecordsAnswer> {
        let mut answers = Vec::with_capacity(call.entries.len());
        let mut moved = Vec::new();
        for entry in &call.entries {
            // All at once: one after another they would wait for a sync each.
            if let Owned::Here(driver) = self.owned(entry.partition) {
                driver.log().sync_soon();
            }
        }
        for entry in &call.entries {
            match self.move_start(entry).await {
                Ok(driver) => moved.push((entry.slot, driver)),
                Err(refusal) => {
                    answers.push(DeleteRecordsAnswer { slot: entry.slot, outcome: Err(refusal) });
                }
            }
            self.platform().yield_if_needed().await;
        }
        if moved.is_empty() {
            return answers;
        }
        let logs: Vec<_> = moved.iter().map(|(_, driver)| driver.log().clone()).collect();
        let starts = self.store.persist_log_starts(&logs, self.platform.now()).await;
        for ((slot, _), start) in moved.iter().zip(starts) {
            answers.push(DeleteRecordsAnswer { slot: *slot, outcome: start.map_err(Into::into) });
        }
        let shard = Rc::clone(self);
        let remove = async move {
            for (_, driver) in moved {
                let log = driver.log();
                match shard.store.remove_below_start(log, shard.platform.now()).await {
                    Ok(removed) => shard.count_removed(&removed),
                    Err(error) => {
                        tracing::warn!(partition = driver.name(), %error, "segments below the log start stay for now");
                    }
                }
            }
        };
        self.platform.spawn(TaskClass::Background, Box::pin(remove));
        answers
    }

    async fn move_start(
        &self,
        entry: &DeleteRecordsEntry,
    ) -> Result<Rc<PartitionDriver<P>>, DeleteRecordsRefusal> {
        let driver = match self.owned(entry.partition) {
            Owned::Here(driver) => driver,
            Owned::Offline(detail) => return Err(FetchRefusal::Storage { detail }.into()),
            Owned::NotHere => return Err(FetchRefusal::NotLeader.into()),
        };
        let high_watermark = driver.read_view(Isolation::ReadUncommitted).high_watermark;
        let offset = if entry.offset == Offset(-1) { high_watermark } else { entry.offset };
        if offset < Offset::ZERO || offset > high_watermark {
            let start = driver.log().ends().log_start();
            return Err(FetchRefusal::OutOfRange { offset, start, end: high_watermark }.into());
        }
        if offset > Offset::ZERO {
            // Under write caching what goes may not be on disk yet, and a log never starts behind what is.
            let durable = driver.log().durable_through(Offset(offset.0 - 1)).await;
            durable.map_err(|failure| FetchRefusal::Storage { detail: failure.to_string() })?;
        }
        driver.log().raise_log_start(offset)?;
        Ok(driver)
    }

    /// Applies retention to every log of this core, again and again, until the core stops.
    pub(super) async fn keep_retention(self: Rc<Self>) {
        let clock = ClockWatch::default();
        let interval = self.state.config.retention_check_interval;
        let mut looked_at = self.platform.monotonic();
        while !self.stopping.is_raised() {
            self.platform.sleep(LOOK_INTERVAL.min(interval)).await;
            let now = self.platform.monotonic();
            let is_clock_good = clock.look(now, self.platform.now());
            if now.saturating_sub(looked_at) < interval {
                continue;
            }
            looked_at = now;
            self.apply_retention(is_clock_good).await;
        }
    }

    async fn apply_retention(&self, is_clock_good: bool) {
        let drivers: Vec<_> = self.partitions.borrow().values().cloned().collect();
        for driver in drivers {
            if self.stopping.is_raised() {
                return;
            }
            let settings = {
                let image = self.image.borrow();
                let Some(topic) = image.topic_by_id(driver.partition().topic_id) else { continue };
                image.topic_settings(self.state.node_id, topic, &self.state.broker_configs)
            };
            let policy = policy_of(&settings, is_clock_good);
            let now = self.platform.now();
            match self.store.apply_retention(driver.log(), policy, now).await {
                Ok(removed) => self.count_removed(&removed),
                Err(error) => {
                    tracing::warn!(partition = driver.name(), %error, "retention not applied; tried again later");
                }
            }
            self.platform.yield_if_needed().await;
        }
    }

    fn count_removed(&self, removed: &[RemovedSegment]) {
        let metrics = self.metrics();
        for segment in removed {
            metrics.removed_bytes.add(segment.bytes);
            match segment.reason {
                RemovalReason::Age => metrics.segments_removed_by_age.increment(),
                RemovalReason::Size => metrics.segments_removed_by_size.increment(),
                RemovalReason::LogStart => metrics.segments_removed_by_request.increment(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_ahead_ages_nothing_for_an_hour() {
        let clock = ClockWatch::default();
        let at = |seconds: u64, wall_ms: i64| {
            clock.look(Duration::from_secs(seconds), Timestamp(wall_ms))
        };
        assert!(at(0, 1_000));
        assert!(at(10, 11_000));
        let years = 10 * 365 * 24 * 3_600_000;
        assert!(!at(20, years));
        assert!(!at(30, years + 10_000));
        assert!(at(20 + 3_600, years + 3_600_000));
        // Set back within the hour: right again at once.
        let ten_minutes = 20 + 3_600 + 600;
        assert!(!at(ten_minutes, 2 * years));
        assert!(at(ten_minutes + 10, years));
    }

    #[test]
    fn only_topics_that_delete_have_bounds_and_negative_means_none() {
        let image = cluster::Image::default();
        let mut settings = image.default_settings(record::NodeId(1), &Default::default());
        let week = Some(7 * 24 * 3_600_000);
        assert_eq!(
            policy_of(&settings, true),
            RetentionPolicy { age_ms_max: week, bytes_max: None }
        );
        assert_eq!(policy_of(&settings, false), RetentionPolicy::default());
        (settings.retention_ms, settings.retention_bytes) = (-1, 5);
        let by_size = RetentionPolicy { age_ms_max: None, bytes_max: Some(5) };
        assert_eq!(policy_of(&settings, true), by_size);
        settings.deletes = false;
        assert_eq!(policy_of(&settings, true), RetentionPolicy::default());
    }
}
