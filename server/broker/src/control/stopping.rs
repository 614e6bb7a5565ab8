//! The end of a node, and what it could not leave in order.
//!
//! Owns the order of a stop, and its last word:
//!
//! ```text
//! stop   all cores drain · all cores close · metadata log closed · clean-stop marker written last
//! ```
//!
//! The marker is never written by a node that did not stop whole, and a node that could not leave everything in order never ends
//! as if it had.

use std::fmt;

use commitlog::{DiskError, StoreError, UnclosedLog, directory};
use record::ShardIndex;

use crate::calls::{Reply, Request};
use crate::control::start::millis;
use crate::control::{Asides, Change, Changes, Control, Readiness, StartRefusal};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Faults that the last word of a node names; of more it says how many.
const NAMED_MAX: usize = 10;

/// How a node ended that had served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// Everything is on disk, and in order.
    InOrder,
    /// Not all of it.
    NotInOrder(StopFaults),
}

/// Something that a stop could not leave in order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum StopFault {
    #[error("{0}")]
    Log(UnclosedLog),
    #[error("core {}: {error}", core.0)]
    Core { core: ShardIndex, error: StoreError },
    #[error("core {}: ended before its logs were closed", core.0)]
    Ended { core: ShardIndex },
    #[error("{0}")]
    Node(StoreError),
}

/// What a stop could not leave in order; its text is one line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopFaults {
    faults: Vec<StopFault>,
    /// The directory says that all else is as a clean stop leaves it.
    is_marked: bool,
}

impl fmt::Display for StopFaults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("stopped, and not everything is in order: ")?;
        for (index, fault) in self.faults.iter().take(NAMED_MAX).enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(formatter, "{between}{fault}")?;
        }
        match self.faults.len().saturating_sub(NAMED_MAX) {
            0 => {}
            more => write!(formatter, "; and {more} more, which the log names")?,
        }
        formatter.write_str(match self.is_marked {
            true => "; the next start checks these",
            false => "; the next start recovers",
        })
    }
}

impl StopFaults {
    fn note_core(&mut self, core: ShardIndex, reply: Option<Reply>) {
        let Some(Reply::Stopped(stop)) = reply else {
            self.faults.push(StopFault::Ended { core });
            return;
        };
        self.note_logs(stop.unclosed);
        match stop.error {
            // Its log is among them.
            None | Some(StoreError::Unsettled { .. }) => {}
            Some(error) => self.faults.push(StopFault::Core { core, error }),
        }
    }

    fn note_logs(&mut self, unclosed: Vec<UnclosedLog>) {
        for log in unclosed {
            tracing::warn!("not left in order: {log}");
            self.faults.push(StopFault::Log(log));
        }
    }

    fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }
}

impl<P: Platform, M: Mesh<Message>> Control<P, M> {
    /// Ends the service of every core, and closes all that is open. Errors: no room on disk for what a stop notes.
    pub(super) async fn stop(
        &self,
        changes: &Changes,
        asides: &Asides,
    ) -> Result<Stopped, StartRefusal> {
        self.readiness.set(Readiness::Stopping);
        let platform = &self.platform;
        let since = |begun| millis(platform.monotonic().saturating_sub(begun));
        let begun = platform.monotonic();
        // Two rounds: a core that closed its logs first would leave the others' last requests without an answer.
        self.ask_all(|| Request::Drain).await;
        tracing::info!(
            ms = since(begun),
            "stopping: what was under way is answered, connections are closed"
        );
        let begun = platform.monotonic();
        let replies = self.ask_all(|| Request::Stop).await;
        // Whoever asked is gone; what was asked is made, or the log would change while it is closed.
        self.end_changes(changes, asides).await;
        self.write_snapshot().await;
        let closed = self.store.close(platform.now()).await;
        let mut faults = StopFaults::default();
        let mut is_whole = true;
        for (core, reply) in replies {
            is_whole &= matches!(&reply, Some(Reply::Stopped(stop)) if stop.error.is_none());
            faults.note_core(core, reply);
        }
        faults.note_logs(self.store.unclosed());
        if let Err(error) = closed {
            is_whole = false;
            faults.note_refusal(error)?;
        }
        tracing::info!(ms = since(begun), "stopping: the logs are closed");
        if is_whole && let Err(error) = directory::leave_in_order(&platform.disk()).await {
            is_whole = false;
            faults.note_refusal(error)?;
        }
        faults.is_marked = is_whole;
        match (is_whole, faults.is_empty()) {
            (true, true) => tracing::info!("stopped cleanly: the next start reads almost nothing"),
            (true, false) => tracing::warn!("stopped, but not every log in order"),
            (false, _) => {
                tracing::warn!("stopped, but not every core in order: the next start recovers");
            }
        }
        Ok(if faults.is_empty() { Stopped::InOrder } else { Stopped::NotInOrder(faults) })
    }

    /// On return nothing changes metadata any more.
    async fn end_changes(&self, changes: &Changes, asides: &Asides) {
        changes.push(Change::End);
        asides.push(None);
        self.changes_ended.raised().await;
        // Producer ids that are being given out; later ones are refused.
        drop(self.deciding.take().await);
    }
}

impl StopFaults {
    /// What the disk refused to the node itself. Errors: it is full, which has a word of its own.
    fn note_refusal(&mut self, error: StoreError) -> Result<(), StartRefusal> {
        if matches!(error, StoreError::Io { error: DiskError::NoSpace, .. }) {
            return Err(error.into());
        }
        self.faults.push(StopFault::Node(error));
        Ok(())
    }
}
