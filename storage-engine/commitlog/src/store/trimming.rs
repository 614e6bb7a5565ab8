//! Log starts made lasting, and the segments below them removed.
//!
//! Owns the part of `log/trim.rs` that needs the store: the checkpoints in between.

use std::collections::BTreeMap;

use record::{Offset, Timestamp};

use super::Store;
use crate::disk::Disk;
use crate::error::{ReadError, StoreError, TrimError};
use crate::executor::Executor;
use crate::log::{Kept, Log, RemovalReason, RemovedSegment, RetentionPolicy};
use crate::mutant::Rule;

/// A file of a segment goes once so many checkpoints in a row have left it behind: one a copy.
const CHECKPOINTS_BEFORE_REMOVAL: usize = 2;

impl<D: Disk, E: Executor> Store<D, E> {
    /// Makes the present starts of these logs lasting, with one checkpoint for all; each is answered by itself.
    ///
    /// Order   after [`Log::raise_log_start`]; on return a start survives a crash, and may be told to whoever asked for it.
    pub async fn persist_log_starts(
        &self,
        logs: &[Log<D, E>],
        now: Timestamp,
    ) -> Vec<Result<Offset, TrimError>> {
        let starts: Vec<Offset> = logs.iter().map(|log| log.ends().log_start()).collect();
        let is_early = self.0.shared.mutant.lacks(Rule::LogStartAnsweredEarly);
        if !is_early && let Err(error) = self.checkpoint(now).await {
            tracing::warn!(%error, "checkpoint not written; log starts are not lasting yet");
        }
        let answer = |(log, log_start): (&Log<D, E>, Offset)| {
            let inner = &log.0;
            if inner.is_closed() {
                return Err(TrimError::Closed);
            }
            if !is_early && inner.checkpointed_log_start.get() < log_start {
                return Err(TrimError::NotLasting { log_start });
            }
            inner.trim_epochs(log_start);
            Ok(log_start)
        };
        logs.iter().zip(starts).map(answer).collect()
    }

    /// Removes the segments of a log that lie wholly below its start; their files are gone on return.
    ///
    /// Order   in the background: it waits for sealing, and for two checkpoints.
    pub async fn remove_below_start(
        &self,
        log: &Log<D, E>,
        now: Timestamp,
    ) -> Result<Vec<RemovedSegment>, StoreError> {
        log.0.settle().await;
        self.remove_segments(log, &BTreeMap::new(), now).await
    }

    /// Applies retention to a log: moves its start, closes a segment that is old though nothing is appended to it, and removes
    /// what lies below the start, by request or by policy.
    ///
    /// Order   in the background. Errors leave everything as it was, or as the next call finds it.
    pub async fn apply_retention(
        &self,
        log: &Log<D, E>,
        policy: RetentionPolicy,
        now: Timestamp,
    ) -> Result<Vec<RemovedSegment>, ReadError> {
        let inner = &log.0;
        if inner.is_closed() {
            return Ok(Vec::new());
        }
        // Whole segments go, and a closed one is whole once its file is.
        inner.settle().await;
        let mut chosen = inner.choose(policy, now).await?;
        if let Some((base, end)) = chosen.active {
            if !inner.roll_if_settled(Some(end), now) {
                // Something was appended meanwhile: it stays, with its segment.
                chosen.reasons.remove(&base);
                chosen.log_start = Some(base);
            }
        } else if inner.is_active_old(now) {
            inner.roll_if_settled(None, now);
        }
        if let Some(log_start) = chosen.log_start
            && let Err(error) = log.raise_log_start(log_start)
        {
            tracing::warn!(log = %log.identity(), %error, "log start not moved by retention");
        }
        Ok(self.remove_segments(log, &chosen.reasons, now).await?)
    }

    async fn remove_segments(
        &self,
        log: &Log<D, E>,
        reasons: &BTreeMap<Offset, RemovalReason>,
        now: Timestamp,
    ) -> Result<Vec<RemovedSegment>, StoreError> {
        let inner = &log.0;
        if !inner.has_segments_below() {
            return Ok(Vec::new());
        }
        let Some(held) = inner.hold_seals().await else { return Ok(Vec::new()) };
        let removed = self.remove_held(log, reasons, now).await;
        held.release();
        removed
    }

    /// [`Store::remove_segments`], with nobody sealing.
    async fn remove_held(
        &self,
        log: &Log<D, E>,
        reasons: &BTreeMap<Offset, RemovalReason>,
        now: Timestamp,
    ) -> Result<Vec<RemovedSegment>, StoreError> {
        let inner = &log.0;
        let _busy = inner.busy();
        let first = inner.first_to_stay();
        let kept = (inner.keep_a_name(first).await?, inner.keep_producers(first).await?);
        if kept != (Kept::Yes, Kept::Yes) {
            return Ok(Vec::new());
        }
        let segments = inner.take_segments_below(first);
        if segments.is_empty() && inner.state.borrow().left.is_empty() {
            return Ok(Vec::new());
        }
        let is_hasty = self.0.shared.mutant.lacks(Rule::OneCheckpointBeforeRemoval);
        let checkpoint_count = if is_hasty { 1 } else { CHECKPOINTS_BEFORE_REMOVAL };
        for _ in 0..checkpoint_count {
            let written = self.checkpoint(now).await;
            let is_past = inner.is_checkpointed_past(&segments);
            if written.is_err() || !is_past {
                // No checkpoint goes back to what another one has left behind.
                if is_past {
                    inner.leave_segments(&segments);
                } else {
                    inner.put_segments_back(segments);
                }
                return written.map(|()| Vec::new());
            }
        }
        inner.remove_left().await;
        inner.trim_epochs(inner.checkpointed_log_start.get());
        Ok(inner.remove_files(segments, reasons).await)
    }
}
