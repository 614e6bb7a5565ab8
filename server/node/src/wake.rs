//! A waker of our own between a future and its task.
//!
//! Owns [`Gate`]: it hands a future a waker that is not the task's, so that the future is polled only when something happened
//! to *it*. glommio's sources and channels keep one more copy of the waker for every poll that finds nothing, and a task
//! has room for 32,767 copies: without the gate a task that waits for a disk and is woken often by something else (a
//! receive loop, a select) ends in a panic. Must never hold its lock while it wakes.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::pulse::Pulse;

/// Remembers that something happened, and whom to tell.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Starts true: a future must be polled once before anything can wake it.
    open: AtomicBool,
    task: Mutex<Option<Waker>>,
    /// Where a whole task stands behind the gate: its core's counters.
    pulse: Option<Arc<Pulse>>,
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { open: AtomicBool::new(true), task: Mutex::new(None), pulse: None })
    }

    /// The gate of a whole task.
    pub(crate) fn counted(pulse: Arc<Pulse>) -> Arc<Self> {
        pulse.note_wake();
        Arc::new(Self { open: AtomicBool::new(true), task: Mutex::new(None), pulse: Some(pulse) })
    }

    /// True when the gate was opened since the last call that said so. The task is woken when it opens next.
    ///
    /// Order   the task is noted before the flag is read: an opening in between is seen by one of the two.
    pub(crate) fn pass(&self, task: &Waker) -> bool {
        {
            let mut noted = self.task.lock().unwrap_or_else(PoisonError::into_inner);
            match noted.as_ref() {
                Some(waker) if waker.will_wake(task) => {}
                _ => *noted = Some(task.clone()),
            }
        }
        let was_open = self.open.swap(false, Ordering::AcqRel);
        if was_open && let Some(pulse) = &self.pulse {
            pulse.note_poll();
        }
        was_open
    }

    /// Lets the next call pass without waking anyone: for who knows that there is more to find.
    pub(crate) fn reopen(&self) {
        self.open.store(true, Ordering::Release);
    }
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let was_open = self.open.swap(true, Ordering::AcqRel);
        if !was_open && let Some(pulse) = &self.pulse {
            pulse.note_wake();
        }
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if *self.open.get_mut()
            && let Some(pulse) = &self.pulse
        {
            pulse.note_end();
        }
    }
}

/// Runs `future` behind a gate of its own.
pub(crate) fn gated<F: Future>(future: F) -> impl Future<Output = F::Output> {
    behind(Gate::new(), future)
}

/// Runs `future` behind `gate`.
pub(crate) async fn behind<F: Future>(gate: Arc<Gate>, future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(gate.clone());
    std::future::poll_fn(move |context| {
        if gate.pass(context.waker()) {
            future.as_mut().poll(&mut Context::from_waker(&waker))
        } else {
            Poll::Pending
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_gated_future_is_polled_only_when_it_was_woken() {
        let polls = Cell::new(0);
        let mut future = pin!(gated(std::future::poll_fn(|_| {
            polls.set(polls.get() + 1);
            if polls.get() == 2 { Poll::Ready(()) } else { Poll::Pending }
        })));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100_000 {
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(polls.get(), 1, "polled again without a reason");
    }

    #[test]
    fn an_opened_gate_wakes_the_newest_task_and_passes_once() {
        let gate = Gate::new();
        let task = Gate::new();
        assert!(task.pass(Waker::noop()));
        assert!(gate.pass(&Waker::from(task.clone())), "the first poll is free");
        assert!(!gate.pass(&Waker::from(task.clone())));
        Waker::from(gate.clone()).wake();
        assert!(task.pass(Waker::noop()), "the task was not woken");
        assert!(gate.pass(&Waker::from(task.clone())));
        assert!(!gate.pass(&Waker::from(task)));
    }
}
