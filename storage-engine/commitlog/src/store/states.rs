//! Writing down what is known of producers, so that recovery need not read a segment from its front.
//!
//! Owns when. What is known belongs to the end that was accepted, and may be written once the log is durable up to there: it
//! is taken at one checkpoint and written after a later one. Nothing waits for it, and nothing is lost without it.

use std::rc::Rc;

use record::{TopicPartition, encode_snapshot};

use crate::disk::Disk;
use crate::executor::Executor;
use crate::log::LogInner;
use crate::mutant::Rule;
use crate::producer_states::{self, ProducerState, ProducerStates};
use crate::store::StoreInner;

/// What was known at one of a log's ends.
pub(super) struct Captured<D: Disk, E: Executor> {
    id: TopicPartition,
    log: Rc<LogInner<D, E>>,
    state: ProducerState,
}

impl<D: Disk, E: Executor> Captured<D, E> {
    /// Whether the log cannot lose what the state speaks of any more.
    fn is_durable(&self) -> bool {
        self.log.ends.get().durable() >= self.state.offset
    }

    /// Whether it will become so.
    fn is_awaited(&self) -> bool {
        !self.is_durable() && self.log.failure.get().is_none()
    }
}

impl<D: Disk, E: Executor> StoreInner<D, E> {
    /// Writes what was taken before, if it may be, or takes what is known now, if it is time.
    ///
    /// Order   after a checkpoint was written, whose ends are then past those of what is written here.
    pub(super) async fn write_states(&self) {
        let captured = self.states.borrow_mut().take();
        if let Some(captured) = captured {
            let is_early = self.shared.mutant.lacks(Rule::StatesAheadOfSync);
            if !is_early && captured.iter().any(Captured::is_awaited) {
                *self.states.borrow_mut() = Some(captured);
                self.shared.changed.set(true);
                return;
            }
            let kept = captured.into_iter().filter(|one| is_early || one.is_durable());
            let states: ProducerStates = kept.map(|one| (one.id, one.state)).collect();
            if let Err(error) = producer_states::write(&self.shared.disk, &self.name, &states).await
            {
                tracing::warn!(%error, "what is known of producers not written: a recovery would read more");
            }
            return;
        }
        if self.shared.bytes_since_states.get() >= self.states_bytes {
            self.shared.bytes_since_states.set(0);
            let captured = self.capture_states().await;
            *self.states.borrow_mut() = Some(captured);
            // The next checkpoint may come though nothing else moves.
            self.shared.changed.set(true);
        }
    }

    /// What is known now of the logs whose newest snapshot says less.
    async fn capture_states(&self) -> Vec<Captured<D, E>> {
        let logs: Vec<_> = self.logs.borrow().iter().map(|(id, log)| (*id, log.clone())).collect();
        let mut captured = Vec::new();
        for (id, log) in logs {
            if let Some(state) = log.producer_state() {
                captured.push(Captured { id, log, state });
            }
            self.shared.executor.yield_if_needed().await;
        }
        captured
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// What is known of producers at the end that is accepted; `None` where a snapshot has it, or there is nothing to know.
    fn producer_state(&self) -> Option<ProducerState> {
        let (end, snapshot_at) = {
            let state = self.state.borrow();
            (state.end, state.snapshot_at)
        };
        if self.failure.get().is_some() || end.position == 0 || snapshot_at == Some(end.offset) {
            return None;
        }
        let snapshot = encode_snapshot(&self.fold.borrow().snapshot());
        let (segment, position) = (end.segment, end.position);
        Some(ProducerState { segment, position, offset: end.offset, snapshot })
    }
}
