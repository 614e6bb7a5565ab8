//! Watches that a core which has work does not sleep.
//!
//! Owns [`Pulse`] (one an executor) and the pacemaker thread (one a process). glommio 0.9 can lose a wake-up: when its
//! preemption timer, or a notice from another core, completes between waking a task and looking for tasks to run, it runs
//! none (`run_task_queues` answers "nothing ran") and parks with the task in its queue, until something else happens. A
//! thread that loses its CPU for 200 µs at that place is enough; on a busy machine that happens many times a minute.
//! Nothing inside the executor can help, as it would sleep too. So tasks count their wakes and polls, and a thread outside
//! wakes a core that has had woken tasks and polled none for a tick. Must never cost an idle process anything.
//!
//! ```text
//! task woken ─► pending + 1, pacemaker roused if it sleeps        every TICK: pending > 0 and polls as before ─► wake core
//! task polled ─► pending - 1, polls + 1                           nothing pending for IDLE_TICKS ─► pacemaker sleeps
//! ```

use std::cell::RefCell;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a lost wake-up may last, about.
const TICK: Duration = Duration::from_millis(1);
/// Ticks without anything pending before the pacemaker sleeps: rousing it costs a system call, a tick some microseconds.
const IDLE_TICKS: u32 = 2;

/// The life signs of one executor.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Tasks woken and not yet polled.
    pending: AtomicUsize,
    polls: AtomicU64,
    /// Wakes a task that does nothing: an executor that wakes runs all it has.
    kick: Mutex<Option<Waker>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Pulse>>> = const { RefCell::new(None) };
}

/// Keeps the executor of this thread under the pacemaker's eyes; to be made and dropped inside it.
#[derive(Debug)]
pub(crate) struct Watch {
    pulse: Arc<Pulse>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let pulse = Arc::new(Pulse::default());
        let weak = Arc::downgrade(&pulse);
        let idle = std::future::poll_fn(move |context| {
            if let Some(pulse) = weak.upgrade() {
                *pulse.kick() = Some(context.waker().clone());
            }
            Poll::<()>::Pending
        });
        glommio::spawn_local(idle).detach();
        pacemaker().watch(&pulse);
        CURRENT.set(Some(pulse.clone()));
        Self { pulse }
    }

    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        CURRENT.set(None);
        let waker = self.pulse.kick().take();
        drop(waker);
    }
}

impl Pulse {
    /// The pulse of the executor that runs this.
    pub(crate) fn current() -> Arc<Self> {
        let current = CURRENT.with_borrow(Clone::clone);
        current.expect("platforms and meshes are made inside an executor that this crate started")
    }

    pub(crate) fn note_wake(&self) {
        // With the load below and their counterparts in `Pacemaker::sleep`: one of the two sides sees the other.
        self.pending.fetch_add(1, Ordering::SeqCst);
        let pacemaker = pacemaker();
        if pacemaker.is_asleep.load(Ordering::SeqCst) {
            pacemaker.rouse();
        }
    }

    pub(crate) fn note_poll(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.note_end();
    }

    /// A woken task is gone without having been polled.
    pub(crate) fn note_end(&self) {
        self.pending.fetch_sub(1, Ordering::Relaxed);
    }

    fn kick(&self) -> MutexGuard<'_, Option<Waker>> {
        self.kick.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `future` as a task whose wakes and polls are counted.
pub(crate) fn counted<F: Future>(
    pulse: &Arc<Pulse>,
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    crate::wake::behind(crate::wake::Gate::counted(pulse.clone()), future)
}

#[derive(Debug, Default)]
struct Pacemaker {
    cores: Mutex<Vec<Watched>>,
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

#[derive(Debug)]
struct Watched {
    pulse: Weak<Pulse>,
    polls: u64,
}

fn pacemaker() -> &'static Pacemaker {
    static PACEMAKER: OnceLock<Pacemaker> = OnceLock::new();
    PACEMAKER.get_or_init(Pacemaker::default)
}

impl Pacemaker {
    fn watch(&'static self, pulse: &Arc<Pulse>) {
        self.cores().push(Watched { pulse: Arc::downgrade(pulse), polls: 0 });
        self.thread.get_or_init(|| {
            let builder = thread::Builder::new().name("pacemaker".to_owned());
            let started = builder.stack_size(64 << 10).spawn(move || self.run());
            match started {
                Ok(handle) => handle.thread().clone(),
                Err(error) => {
                    tracing::warn!(%error, "no pacemaker: a lost wake-up lasts until the next event");
                    thread::current()
                }
            }
        });
    }

    fn cores(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rouse(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn run(&self) {
        let mut idle_ticks = 0;
        loop {
            thread::sleep(TICK);
            idle_ticks = if self.tick() { 0 } else { idle_ticks + 1 };
            if idle_ticks == IDLE_TICKS {
                self.sleep();
                idle_ticks = 0;
            }
        }
    }

    /// Looks at every core; true where any had work.
    fn tick(&self) -> bool {
        let mut has_work = false;
        self.cores().retain_mut(|core| {
            let Some(pulse) = core.pulse.upgrade() else { return false };
            let polls = pulse.polls.load(Ordering::Relaxed);
            if pulse.pending.load(Ordering::SeqCst) > 0 {
                has_work = true;
                if polls == core.polls
                    && let Some(waker) = pulse.kick().as_ref()
                {
                    waker.wake_by_ref();
                }
            }
            core.polls = polls;
            true
        });
        has_work
    }

    fn sleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
        let has_work = self.cores().iter().any(|core| {
            core.pulse.upgrade().is_some_and(|pulse| pulse.pending.load(Ordering::SeqCst) > 0)
        });
        while !has_work && self.is_asleep.load(Ordering::SeqCst) {
            thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::run_local;

    #[test]
    fn counts_return_to_nothing_when_tasks_end_or_are_dropped() {
        run_local(async {
            let pulse = Arc::new(Pulse::default());
            let pending = || pulse.pending.load(Ordering::SeqCst);
            drop(counted(&pulse, async {}));
            assert_eq!(pending(), 0, "dropped before its first poll");
            counted(&pulse, glommio::executor().yield_now()).await;
            assert_eq!(pending(), 0);
            assert_eq!(pulse.polls.load(Ordering::SeqCst), 2);
            let mut waiting = Box::pin(counted(&pulse, std::future::pending::<()>()));
            assert!(futures_lite::future::poll_once(waiting.as_mut()).await.is_none());
            assert_eq!(pending(), 0);
            drop(waiting);
            assert_eq!(pending(), 0);
        })
        .unwrap();
    }

    #[test]
    fn a_stalled_core_is_kicked_and_a_working_or_idle_one_is_not() {
        use crate::wake::Gate;
        let pacemaker = Pacemaker::default();
        let pulse = Arc::new(Pulse::default());
        let gate = Gate::new();
        let kicked = || gate.pass(Waker::noop());
        assert!(kicked(), "the first pass is free");
        *pulse.kick() = Some(Waker::from(gate.clone()));
        pacemaker.cores().push(Watched { pulse: Arc::downgrade(&pulse), polls: 0 });

        assert!(!pacemaker.tick(), "idle");
        assert!(!kicked());
        pulse.note_wake();
        pulse.note_wake();
        pulse.note_poll();
        assert!(pacemaker.tick(), "one polled, one pending");
        assert!(!kicked(), "a working core was disturbed");
        assert!(pacemaker.tick());
        assert!(kicked(), "pending and nothing polled since");
        pulse.note_poll();
        assert!(!pacemaker.tick());
        drop(pulse);
        assert!(!pacemaker.tick());
        assert!(pacemaker.cores().is_empty(), "an executor that ended is forgotten");
    }
}
