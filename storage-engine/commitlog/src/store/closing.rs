//! The clean stop of a core's logs, and which of them it could not leave in order.
//!
//! Owns the order of a stop: all that was accepted is durable, files are in order, a last checkpoint says so, and then nothing
//! touches a file any more. A log that failed is in the way of no other; it is named, for whoever stops the node.

use std::fmt;
use std::rc::Rc;

use record::Timestamp;

use super::Store;
use crate::disk::Disk;
use crate::error::{LogFailure, ReadError, StoreError};
use crate::executor::Executor;
use crate::local::join_all;
use crate::log::LogInner;

/// Logs closed together: enough to keep the device busy with syncs.
const CLOSES_MAX: usize = 8;

/// Why a log was not left in order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unclosed {
    /// It had failed, or failed then: what it had not acknowledged is not on disk, and the next start checks its files.
    #[error("{0}")]
    Failed(LogFailure),
    /// All of it is on disk; what stands beside its segments is not, and the next start makes it again.
    #[error("not closed: {0}")]
    Untidy(ReadError),
    /// It has acknowledged what is not on disk.
    #[error("acknowledged records are not on stable storage")]
    Owing(StoreError),
}

/// A log that a stop could not leave in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnclosedLog {
    /// Which: `<topic>-<partition>`.
    pub log: String,
    /// Why.
    pub why: Unclosed,
}

impl fmt::Display for UnclosedLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            // It begins with the log's name.
            Unclosed::Owing(error) => write!(formatter, "{error}"),
            why => write!(formatter, "{}: {why}", self.log),
        }
    }
}

impl<D: Disk, E: Executor> Store<D, E> {
    /// Closes every log for a clean stop: all that was accepted is durable, files have their exact length, indexes and
    /// snapshots are written, and a last checkpoint says so. The caller then writes the marker.
    ///
    /// Order   on return [`Store::unclosed`] names the logs that are not in order. `Ok` with such logs is a clean stop all the
    ///         same: what the checkpoint says is true, and the next start looks at a log whose files are otherwise.
    pub async fn close(&self, now: Timestamp) -> Result<(), StoreError> {
        let logs: Vec<_> = self.0.logs.borrow().values().cloned().collect();
        for some in logs.chunks(CLOSES_MAX) {
            let left = join_all(some.iter().map(|log| close_one(log)).collect()).await;
            self.0.unclosed.borrow_mut().extend(left.into_iter().flatten());
        }
        let released = self.0.unsettled.borrow().values().map(owing).collect::<Vec<_>>();
        self.0.unclosed.borrow_mut().extend(released);
        self.checkpoint(now).await?;
        let mut unsettled = None;
        for log in logs {
            unsettled = log.unsettled().or(unsettled);
            log.close().await;
            *log.listener.borrow_mut() = None;
        }
        self.0.shared.durability.retire().await?;
        unsettled.or_else(|| self.0.owed_by_released()).map_or(Ok(()), Err)
    }

    /// The logs that [`Store::close`] could not leave in order.
    #[must_use]
    pub fn unclosed(&self) -> Vec<UnclosedLog> {
        self.0.unclosed.borrow().clone()
    }
}

async fn close_one<D: Disk, E: Executor>(log: &Rc<LogInner<D, E>>) -> Option<UnclosedLog> {
    log.drain().await;
    // Whatever becomes of it: what is not in the segments then stays in the journal, for the next start.
    log.settle().await;
    if let Some(unsettled) = log.unsettled() {
        return Some(owing(&unsettled));
    }
    let named = |why| Some(UnclosedLog { log: log.identity.to_string(), why });
    match log.failure.get() {
        // Its topic is gone, though its files may not be.
        Some(LogFailure::Closed) => return None,
        Some(failure) => return named(Unclosed::Failed(failure)),
        None => {}
    }
    let error = log.tidy().await.err()?;
    // Its checkpoint does not match its files then, and the next start checks them.
    tracing::warn!(log = %log.identity, %error, "log not closed cleanly");
    named(Unclosed::Untidy(error))
}

fn owing(unsettled: &StoreError) -> UnclosedLog {
    let log = match unsettled {
        StoreError::Unsettled { log, .. } => log.clone(),
        StoreError::Io { path, .. } => path.clone(),
        StoreError::Recover { .. } => String::new(),
    };
    UnclosedLog { log, why: Unclosed::Owing(unsettled.clone()) }
}
