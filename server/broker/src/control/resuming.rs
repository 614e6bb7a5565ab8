//! The metadata log after a full disk: opened again when there is room, and metadata can be changed without a restart.
//!
//! Owns the attempts. They run between two changes and never beside one, nor beside a decision of any kind: a change is decided
//! against an image that is the log's. What had reached the disk though its change was refused counts from then on, as after a
//! restart. A failed sync or a device error never passes: then metadata is read-only until the node is started again.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cluster::{Image, MetadataRecord};
use commitlog::directory::COORDINATOR_DIRECTORY;
use commitlog::{Disk, LogIdentity, LogOptions, OpenError, RecoveryReport, Store};
use record::{Fold, PartitionIndex, ProducerBatch, ProducerSnapshotEntry, Timestamp, TopicId};

use crate::control::changes::changed_topics;
use crate::control::{Change, Changes, Control, Readiness};
use crate::drivers::metadata_log::{MetadataLog, MetadataLogError, SoloMetadataLog};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Free space that is worth an attempt: many changes and a checkpoint fit.
const ROOM_BYTES_MIN: u64 = 1 << 20;

/// A fold of a log without producers.
struct NoProducers;

impl Fold for NoProducers {
    fn apply(&mut self, _: &ProducerBatch) {}
    fn snapshot(&self) -> Vec<ProducerSnapshotEntry> {
        Vec::new()
    }
    fn restore(&mut self, _: &[ProducerSnapshotEntry]) {}
}

/// Opens the metadata log in its directory.
pub(super) async fn open_log<P: Platform>(
    store: &Store<P::Disk, P>,
    now: Timestamp,
) -> Result<(SoloMetadataLog<P::Disk, P>, RecoveryReport), OpenError> {
    let identity = LogIdentity {
        topic: cluster::METADATA_TOPIC.into(),
        topic_id: TopicId::METADATA,
        partition: PartitionIndex(0),
    };
    let fold = Rc::new(RefCell::new(NoProducers));
    let options = LogOptions::default();
    let (log, report) =
        store.open_log_at(COORDINATOR_DIRECTORY, identity, options, fold, now).await?;
    Ok((SoloMetadataLog(log), report))
}

/// Applies the committed records that `image` does not know yet; gives those.
pub(super) async fn replay(
    log: &impl MetadataLog,
    image: &mut Image,
) -> Result<Vec<MetadataRecord>, MetadataLogError> {
    let mut applied = Vec::new();
    while image.next_offset() < log.committed() {
        for record in log.read(image.next_offset()).await? {
            let refused = |error: String| {
                let at = record.offset;
                let detail = format!(
                    "metadata record at offset {at}: {error}; this version cannot serve this directory"
                );
                MetadataLogError::Read { detail }
            };
            let fact = MetadataRecord::decode(&record.value).map_err(|e| refused(e.to_string()))?;
            image.apply(record.offset, &fact).map_err(|error| refused(error.to_string()))?;
            applied.push(fact);
        }
    }
    image.check();
    Ok(applied)
}

impl<P: Platform, M: Mesh<Message>> Control<P, M> {
    /// Whether the metadata log stopped for a reason that passes.
    fn has_stopped(&self) -> bool {
        self.is_released.get() || self.log().failure().is_some_and(|failure| failure.is_passing())
    }

    /// Asks for an attempt where there is something to attempt. One at a time: the disk may take its time.
    pub(super) fn ask_to_resume(&self, changes: &Changes) {
        if self.has_stopped() && !self.is_resuming.replace(true) {
            changes.push(Change::Resume);
        }
    }

    /// Opens the metadata log again, if it stopped for a reason that has passed. What it holds beyond the image is made known
    /// while others may decide: that takes as long as its logs take to be opened.
    pub(super) async fn resume(&self) {
        self.is_resuming.set(false);
        let turn = self.deciding.take().await;
        let resumed = self.resume_in_turn().await;
        let image = self.image();
        drop(turn);
        let Some(found) = resumed else { return };
        if !found.is_empty() {
            let changed = changed_topics(&image, &found);
            self.publish(image, changed).await;
        }
        tracing::info!(found = found.len(), "there is room again: metadata can be changed");
        // It may have stopped once more meanwhile, which says so itself.
        if !self.has_stopped() && matches!(self.readiness.get(), Readiness::Degraded(_)) {
            self.readiness.set(Readiness::Ready);
        }
    }

    /// The records that the log holds beyond the image, which knows them from here on; `None` where nothing came of it. Order: the
    /// caller has the turn to decide.
    async fn resume_in_turn(&self) -> Option<Vec<MetadataRecord>> {
        if !self.has_stopped() {
            return None;
        }
        match self.platform.disk().free_bytes().await {
            Ok(free) if free >= ROOM_BYTES_MIN => {}
            Ok(_) | Err(_) => return None,
        }
        if !self.is_released.get() {
            let log = self.log();
            if let Err(error) = self.store.release_log(&log.0).await {
                tracing::error!(%error, "metadata is read-only until the node is started again");
                return None;
            }
            self.is_released.set(true);
        }
        match self.open_again().await {
            Ok(found) => Some(found),
            Err(detail) => {
                // Tried again every second: said once.
                let next = Readiness::Degraded(detail.clone());
                if self.readiness.get() != next {
                    tracing::error!("metadata cannot be changed: {detail}");
                    self.readiness.set(next);
                }
                None
            }
        }
    }

    /// Opens the log and takes over what it holds beyond the image; gives those records.
    async fn open_again(&self) -> Result<Vec<MetadataRecord>, String> {
        let opened = open_log::<P>(&self.store, self.platform.now()).await;
        let (log, report) = opened.map_err(|error| error.to_string())?;
        // Whatever is found now, a second look finds the same: no more attempts.
        self.is_released.set(false);
        let mut image = Image::clone(&self.image());
        if report.lost.is_some() || log.committed() < image.next_offset() {
            let (end, known) = (log.committed(), image.next_offset());
            return Err(format!(
                "coordinator/: ends at offset {end}, records up to {known} were acknowledged; restart the node"
            ));
        }
        let found = replay(&log, &mut image).await.map_err(|error| error.to_string())?;
        *self.log.borrow_mut() = log;
        if !found.is_empty() {
            *self.image.borrow_mut() = Arc::new(image);
        }
        Ok(found)
    }
}
