//! Letting go of a log whose failure passes, so that it can be opened again.
//!
//! Owns the rule when that is safe. A write that was refused (no space, no descriptor) has promised nothing, and recovery
//! judges what it left like any torn tail: the log goes on at its last whole batch, at or past its durable end. A failed
//! sync is another matter: its log stays as it is until the process ends. What was promised under write caching and is not
//! durable yet (its directory could not even be opened) is owed until recovery has made it so: no stop is clean before.

use std::rc::Rc;

use record::{Timestamp, TopicPartition};

use super::{Store, StoreInner};
use crate::disk::Disk;
use crate::error::{LogFailure, ReleaseError, StoreError};
use crate::executor::Executor;
use crate::log::{Log, LogInner};

impl<D: Disk, E: Executor> Store<D, E> {
    /// Closes a log that failed in a way that passes, and forgets its handles; its files and its checkpoint entry stay.
    ///
    /// Order   on return nothing of the log is in flight; [`Store::open_log`] recovers it like after a crash.
    /// Errors  `NotPassing`: it did not fail, or its bytes cannot be trusted before the next start.
    pub async fn release_log(&self, log: &Log<D, E>) -> Result<(), ReleaseError> {
        let inner = &log.0;
        inner.is_closing.set(true);
        // A sync may still be under way, and fail: only a lane at rest has said its last word.
        let idle = || (inner.busy_count.get() == 0 && inner.lane.is_idle()).then_some(());
        inner.moved.wait_for(idle).await;
        let failure = inner.failure.get();
        if !failure.is_some_and(|failure| failure.is_passing()) {
            return Err(ReleaseError::NotPassing { failure });
        }
        inner.settle().await;
        let failure = inner.failure.get();
        if inner.is_behind() || !failure.is_some_and(|failure| failure.is_passing()) {
            // Recovery would not find what is in the journal only, and give its offsets out again.
            return Err(ReleaseError::NotPassing { failure });
        }
        // Whatever recovery makes of the log's end, a later replay must not put older bytes there: what a checkpoint covers it
        // leaves alone.
        let now = self.0.checkpointed_at.get().unwrap_or(Timestamp::NONE);
        if inner.lane.journal.was_used() && self.checkpoint_both(now).await.is_err() {
            return Err(ReleaseError::NotPassing { failure });
        }
        let log_id = inner.identity.topic_partition();
        let is_ours =
            self.0.logs.borrow().get(&log_id).is_some_and(|known| Rc::ptr_eq(known, inner));
        if !is_ours {
            return Err(ReleaseError::NotPassing { failure: Some(LogFailure::Closed) });
        }
        self.0.note_unsettled(log_id, inner);
        // Recovery begins at the last entry that was noted, not at what is durable now: only that one has its epochs on disk.
        inner.failure.set(Some(LogFailure::Closed));
        *inner.listener.borrow_mut() = None;
        inner.moved.notify();
        self.0.shared.forget_log(inner.key);
        self.0.logs.borrow_mut().remove(&log_id);
        self.0.shared.changed.set(true);
        Ok(())
    }
}

impl<D: Disk, E: Executor> StoreInner<D, E> {
    /// Remembers what a log that is let go of has promised and not made lasting.
    fn note_unsettled(&self, id: TopicPartition, log: &LogInner<D, E>) {
        if let Some(unsettled) = log.unsettled() {
            self.unsettled.borrow_mut().insert(id, unsettled);
        }
    }

    /// A log is open again, and recovery has left nothing behind that is not lasting: nothing is owed, unless promised records
    /// are not there any more. Then the debt stays until the process ends: no stop is clean.
    pub(super) fn settle(&self, id: TopicPartition, log: &LogInner<D, E>) {
        let mut unsettled = self.unsettled.borrow_mut();
        let Some(StoreError::Unsettled { safe_end, .. }) = unsettled.get(&id) else { return };
        let found = log.ends.get().safe_end();
        if found >= *safe_end {
            unsettled.remove(&id);
        } else {
            tracing::error!(
                log = %log.identity, promised = %safe_end, %found,
                "records that were acknowledged under write caching are gone"
            );
        }
    }

    /// What the first of those logs owes that were let go of and not opened again.
    pub(super) fn owed_by_released(&self) -> Option<StoreError> {
        self.unsettled.borrow().values().next().cloned()
    }
}
