//! The wish to stop, heard on every core.
//!
//! Owns [`StopSignal`]: asked once, by a signal or by a core that ended, and never taken back. Tasks of any executor wait
//! for it; the waker of a wait that was dropped is forgotten.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The wish to stop. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StopSignal {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_requested: AtomicBool,
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    next_key: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Shared {
    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StopSignal {
    /// Asks every core to stop. Asking again changes nothing.
    pub fn request(&self) {
        self.shared.is_requested.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut self.shared.waiters().wakers);
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Whether someone asked.
    pub fn is_requested(&self) -> bool {
        self.shared.is_requested.load(Ordering::Acquire)
    }

    /// Ends when someone asks.
    pub fn requested(&self) -> StopRequested {
        StopRequested { shared: self.shared.clone(), key: None }
    }
}

/// See [`StopSignal::requested`].
#[derive(Debug)]
pub struct StopRequested {
    shared: Arc<Shared>,
    key: Option<u64>,
}

impl Future for StopRequested {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = self.shared.clone();
        let mut waiters = shared.waiters();
        // Read under the lock: a request made before is seen here, one made after finds the waker.
        if shared.is_requested.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let key = match self.key {
            Some(key) => key,
            None => {
                waiters.next_key += 1;
                waiters.next_key
            }
        };
        self.key = Some(key);
        let is_known =
            waiters.wakers.get(&key).is_some_and(|waker| waker.will_wake(context.waker()));
        if !is_known {
            waiters.wakers.insert(key, context.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for StopRequested {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.shared.waiters().wakers.remove(&key);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::run_local;
    use nix::unistd::{Pid, gettid};
    use std::time::{Duration, Instant};

    /// Whether a thread of this process sleeps in the kernel.
    fn is_asleep(thread: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    }

    #[test]
    fn a_request_from_another_thread_wakes_a_sleeping_executor() {
        let stop = StopSignal::default();
        let from_outside = stop.clone();
        let executor = gettid();
        let asking = std::thread::spawn(move || {
            let started = Instant::now();
            let waits = || {
                let is_listened = !from_outside.shared.waiters().wakers.is_empty();
                is_listened && is_asleep(executor)
            };
            while !waits() && started.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            let has_waited = waits();
            from_outside.request();
            assert!(has_waited, "the executor never slept");
        });
        let started = Instant::now();
        run_local(async { stop.requested().await }).unwrap();
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(stop.is_requested());
        asking.join().unwrap();
    }

    #[test]
    fn a_dropped_wait_leaves_nothing_behind_and_a_late_one_ends_at_once() {
        let stop = StopSignal::default();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            let mut waiting = std::pin::pin!(stop.requested());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            assert_eq!(stop.shared.waiters().wakers.len(), 1);
        }
        assert!(stop.shared.waiters().wakers.is_empty());
        stop.request();
        assert!(std::pin::pin!(stop.requested()).poll(&mut context).is_ready());
    }
}
