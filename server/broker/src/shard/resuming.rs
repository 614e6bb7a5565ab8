//! Logs that stopped for want of space or descriptors, and go on when there are some again.
//!
//! Owns the attempts. What was refused before it could be half done passes: a full disk, no file descriptor. A failed sync or a
//! device error never does: such a log stays read-only until the node is started again, and says so.

use std::rc::Rc;
use std::time::Duration;

use commitlog::{Disk, LogFailure, LogIdentity};
use partition::EndReason;
use record::TopicPartition;

use crate::drivers::partition::PartitionDriver;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;

/// How often it is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Free space that is worth an attempt where no disk floor says so: a segment's next groups, epochs and a checkpoint fit.
const ROOM_BYTES_MIN: u64 = 16 << 20;

/// A partition of this core that cannot be served.
#[derive(Debug, Clone)]
pub(super) struct Offline {
    /// Its log: whose files go if the topic is deleted.
    pub(super) log: LogIdentity,
    /// Why.
    pub(super) detail: String,
    /// Whether it may come back by itself.
    pub(super) is_passing: bool,
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Looks for logs to open again until the core stops. A task of its own: recovery reads, and must not hold up the clock.
    pub(super) async fn keep_resuming(self: Rc<Self>) {
        while !self.stopping.is_raised() {
            self.platform.sleep(RETRY_INTERVAL).await;
            self.resume_logs().await;
        }
    }

    /// Opens again what failed for a reason that has passed, where there is room.
    async fn resume_logs(&self) {
        let stopped = self.stopped_logs();
        if stopped.is_empty() && self.waiting_logs().is_empty() {
            return;
        }
        let wanted_bytes = self.state.disk_floor_bytes.max(ROOM_BYTES_MIN);
        let has_room = match self.platform.disk().free_bytes().await {
            Ok(free) => free >= wanted_bytes,
            Err(_) => false,
        };
        if !has_room {
            return;
        }
        for driver in stopped {
            self.release(&driver).await;
        }
        for partition in self.waiting_logs() {
            self.reopen(partition).await;
        }
    }

    /// Partitions that are offline for a reason that passes.
    fn waiting_logs(&self) -> Vec<TopicPartition> {
        let offline = self.offline.borrow();
        offline.iter().filter(|(_, why)| why.is_passing).map(|(id, _)| *id).collect()
    }

    /// Partitions whose log failed in a way that passes.
    fn stopped_logs(&self) -> Vec<Rc<PartitionDriver<P>>> {
        let partitions = self.partitions.borrow();
        let has_stopped = |driver: &&Rc<PartitionDriver<P>>| {
            driver.log().failure().is_some_and(|failure| failure.is_passing())
        };
        partitions.values().filter(has_stopped).cloned().collect()
    }

    /// Ends the leadership of a log that stopped; from here on the partition is offline until it is opened again.
    async fn release(&self, driver: &Rc<PartitionDriver<P>>) {
        let partition = driver.partition();
        let reason = match driver.log().failure() {
            Some(LogFailure::NoSpace) => EndReason::DiskFull,
            _ => EndReason::LogFailed,
        };
        let detail =
            "disk: the log stopped for want of space or descriptors and is being opened again";
        let log = driver.log().identity().clone();
        let offline = Offline { log, detail: detail.to_owned(), is_passing: true };
        let removed = self.partitions.borrow_mut().remove(&partition);
        if removed.is_none() {
            return;
        }
        self.offline.borrow_mut().insert(partition, offline);
        driver.end(reason);
        if let Err(error) = self.store.release_log(driver.log()).await {
            if self.offline.borrow_mut().remove(&partition).is_none() {
                // Its topic was deleted meanwhile, and its files with it.
                return;
            }
            tracing::error!(partition = driver.name(), %error, "read-only until the node is started again");
            // It still serves what it holds.
            self.partitions.borrow_mut().insert(partition, Rc::clone(driver));
        }
    }

    async fn reopen(&self, partition: TopicPartition) {
        let topic = self.image().topic_by_id(partition.topic_id).cloned();
        let Some(topic) = topic else {
            self.offline.borrow_mut().remove(&partition);
            return;
        };
        self.open_again(&topic, partition.partition).await;
        let is_back = self.partitions.borrow().contains_key(&partition);
        if is_back {
            self.metrics.logs_resumed.increment();
            tracing::info!(topic = %topic.name, partition = partition.partition.0, "takes records again");
        }
        // Deleted while it was opened: its files must go with it.
        if self.image().topic_by_id(partition.topic_id).is_none() {
            self.delete_topic(partition.topic_id).await;
        }
    }
}
