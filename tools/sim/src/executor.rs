//! One simulated core: a single-threaded executor whose every choice comes from the seed.
//!
//! Owns tasks, virtual time and timers. Among the tasks that could run it picks one at random, so every interleaving that
//! a real core could show comes up for some seed. Time moves only when nothing can run. It never reads a clock, and it
//! never outlives a bound: a run ends by its future, by a crash, by deadlock or by the step bound.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use commitlog::{Executor, LocalTask, TaskClass};

use crate::prng::{OneIn, Prng};
use crate::trace::Trace;

/// How often a polite task really gives way: often enough to interleave, seldom enough to make progress.
const YIELD_ODDS: OneIn = OneIn(3);

/// Where a run must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// Steps (polls) this run may take before it counts as stuck.
    pub steps_max: u64,
    /// The step of this run before which the machine dies, if it dies.
    pub crash_at: Option<u64>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd<T> {
    /// The future finished.
    Done(T),
    /// `crash_at` came first.
    Crashed,
    /// Nothing could run and no timer was set, with so many tasks waiting.
    Deadlock {
        /// Tasks that wait for ever, the main one included.
        tasks: usize,
    },
    /// `steps_max` was reached: a loop without progress.
    OutOfSteps,
}

/// A simulated core. Clones are the same core.
#[derive(Clone)]
pub struct SimExecutor {
    core: Rc<Core>,
}

struct Core {
    tasks: RefCell<Vec<Option<Task>>>,
    vacant: RefCell<Vec<usize>>,
    ready: RefCell<Vec<usize>>,
    woken: Arc<Mutex<Vec<usize>>>,
    timers: RefCell<BinaryHeap<Reverse<Timer>>>,
    timer_count: Cell<u64>,
    now: Cell<Duration>,
    prng: RefCell<Prng>,
    trace: Rc<Trace>,
}

struct Task {
    future: LocalTask,
    signal: Arc<Signal>,
}

/// Puts a task into the ready list, once between two polls.
struct Signal {
    key: usize,
    is_queued: AtomicBool,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::Relaxed) {
            self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.key);
        }
    }
}

struct Timer {
    at: Duration,
    sequence: u64,
    waker: Waker,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl SimExecutor {
    /// An idle core at time zero.
    #[must_use]
    pub fn new(prng: Prng, trace: Rc<Trace>) -> Self {
        let core = Core {
            tasks: RefCell::default(),
            vacant: RefCell::default(),
            ready: RefCell::default(),
            woken: Arc::default(),
            timers: RefCell::default(),
            timer_count: Cell::new(0),
            now: Cell::new(Duration::ZERO),
            prng: RefCell::new(prng),
            trace,
        };
        Self { core: Rc::new(core) }
    }

    /// Virtual time since the core was made; it goes on across crashes.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.core.now.get()
    }

    /// Ends `duration` of virtual time later.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + use<> {
        Sleep { core: Rc::clone(&self.core), at: self.now() + duration, is_armed: false }
    }

    /// Gives way once.
    pub fn yield_now(&self) -> impl Future<Output = ()> + use<> {
        YieldOnce { has_yielded: false }
    }

    /// Runs `main` and everything it starts until it is done or a limit is met.
    ///
    /// Tasks that still run then are kept, so that the disk can crash under them; [`SimExecutor::drop_tasks`] ends them.
    pub fn run<T: 'static>(
        &self,
        main: impl Future<Output = T> + 'static,
        limits: RunLimits,
    ) -> RunEnd<T> {
        let result = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&result);
        self.start(Box::pin(async move {
            let value = main.await;
            *slot.borrow_mut() = Some(value);
        }));
        self.drive(limits, &result)
    }

    fn drive<T>(&self, limits: RunLimits, result: &RefCell<Option<T>>) -> RunEnd<T> {
        for step in 0..limits.steps_max {
            if limits.crash_at.is_some_and(|at| step >= at) {
                self.core.trace.note("crash", "", [step, 0]);
                return RunEnd::Crashed;
            }
            if !self.poll_one() {
                return RunEnd::Deadlock { tasks: self.task_count() };
            }
            if let Some(value) = result.borrow_mut().take() {
                return RunEnd::Done(value);
            }
        }
        RunEnd::OutOfSteps
    }

    /// Polls one ready task, moving time forward if there is none; false if nothing will ever be ready.
    fn poll_one(&self) -> bool {
        let Some(key) = self.next_ready() else { return false };
        let Some(mut task) = self.core.tasks.borrow_mut()[key].take() else { return true };
        self.core.trace.advance();
        self.core.trace.note("poll", "", [key as u64, 0]);
        task.signal.is_queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&task.signal));
        match task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => self.core.tasks.borrow_mut()[key] = Some(task),
            Poll::Ready(()) => {
                // Late wake-ups of a finished task must not reach whoever gets its place.
                task.signal.is_queued.store(true, Ordering::Relaxed);
                drop(task);
                self.core.vacant.borrow_mut().push(key);
            }
        }
        true
    }

    fn next_ready(&self) -> Option<usize> {
        loop {
            let mut ready = self.core.ready.borrow_mut();
            let mut woken = self.core.woken.lock().unwrap_or_else(PoisonError::into_inner);
            ready.append(&mut woken);
            drop(woken);
            if !ready.is_empty() {
                let chosen = self.core.prng.borrow_mut().index(ready.len());
                return Some(ready.swap_remove(chosen));
            }
            drop(ready);
            let Reverse(timer) = self.core.timers.borrow_mut().pop()?;
            self.core.now.set(timer.at.max(self.now()));
            timer.waker.wake();
        }
    }

    fn start(&self, future: LocalTask) {
        let mut tasks = self.core.tasks.borrow_mut();
        let key = self.core.vacant.borrow_mut().pop().unwrap_or_else(|| {
            tasks.push(None);
            tasks.len() - 1
        });
        let signal = Arc::new(Signal {
            key,
            is_queued: AtomicBool::new(true),
            woken: Arc::clone(&self.core.woken),
        });
        tasks[key] = Some(Task { future, signal });
        drop(tasks);
        self.core.ready.borrow_mut().push(key);
    }

    fn task_count(&self) -> usize {
        self.core.tasks.borrow().iter().flatten().count()
    }

    /// Forgets everything that runs, as power loss does. Futures are dropped with nothing borrowed: their drops may spawn.
    pub fn drop_tasks(&self) {
        loop {
            let tasks = self.core.tasks.take();
            let timers = self.core.timers.take();
            if tasks.iter().flatten().count() == 0 && timers.is_empty() {
                break;
            }
            drop(tasks);
            drop(timers);
        }
        self.core.vacant.borrow_mut().clear();
        self.core.ready.borrow_mut().clear();
        self.core.woken.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Executor for SimExecutor {
    fn spawn(&self, _class: TaskClass, task: LocalTask) {
        self.start(task);
    }

    async fn yield_if_needed(&self) {
        let gives_way = self.core.prng.borrow_mut().happens(YIELD_ODDS);
        if gives_way {
            self.yield_now().await;
        }
    }
}

struct YieldOnce {
    has_yielded: bool,
}

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

struct Sleep {
    core: Rc<Core>,
    at: Duration,
    is_armed: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.core.now.get() >= self.at {
            return Poll::Ready(());
        }
        // Armed once: a second waker would only come from a combinator polling on its own behalf, and those wake themselves.
        if !self.is_armed {
            self.is_armed = true;
            let sequence = self.core.timer_count.get();
            self.core.timer_count.set(sequence + 1);
            let timer = Timer { at: self.at, sequence, waker: context.waker().clone() };
            self.core.timers.borrow_mut().push(Reverse(timer));
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Keep;

    const LIMITS: RunLimits = RunLimits { steps_max: 10_000, crash_at: None };

    fn core(seed: u64) -> (SimExecutor, Rc<Trace>) {
        let trace = Rc::new(Trace::new(Keep::Hash));
        (SimExecutor::new(Prng::new(seed), Rc::clone(&trace)), trace)
    }

    /// Three tasks that write their names as they go; the order is the schedule.
    fn schedule(seed: u64) -> (String, u64) {
        let (executor, trace) = core(seed);
        let log = Rc::new(RefCell::new(String::new()));
        let inner = executor.clone();
        let shared = Rc::clone(&log);
        let end = executor.run(
            async move {
                for name in ['a', 'b', 'c'] {
                    let (log, core) = (Rc::clone(&shared), inner.clone());
                    inner.spawn(
                        TaskClass::Foreground,
                        Box::pin(async move {
                            for _ in 0..4 {
                                log.borrow_mut().push(name);
                                core.yield_now().await;
                            }
                        }),
                    );
                }
                inner.sleep(Duration::from_millis(1)).await;
            },
            LIMITS,
        );
        assert_eq!(end, RunEnd::Done(()));
        let order = log.borrow().clone();
        (order, trace.hash())
    }

    #[test]
    fn one_seed_gives_one_schedule_and_other_seeds_give_others() {
        assert_eq!(schedule(1), schedule(1));
        let distinct: std::collections::BTreeSet<String> =
            (0..20).map(|seed| schedule(seed).0).collect();
        assert!(distinct.len() > 10, "{distinct:?}");
    }

    #[test]
    fn time_moves_only_when_nothing_can_run() {
        let (executor, _) = core(2);
        let inner = executor.clone();
        let end = executor.run(
            async move {
                let before = inner.now();
                for _ in 0..50 {
                    inner.yield_now().await;
                }
                let between = inner.now();
                inner.sleep(Duration::from_secs(3)).await;
                (between - before, inner.now() - between)
            },
            LIMITS,
        );
        assert_eq!(end, RunEnd::Done((Duration::ZERO, Duration::from_secs(3))));
    }

    #[test]
    fn crash_drops_every_task_without_telling_it() {
        let (executor, _) = core(3);
        let inner = executor.clone();
        let witness = Rc::new(());
        let held = Rc::clone(&witness);
        let end = executor.run(
            async move {
                let other = inner.clone();
                inner.spawn(
                    TaskClass::Background,
                    Box::pin(async move {
                        other.sleep(Duration::from_secs(1)).await;
                        drop(held);
                    }),
                );
                loop {
                    inner.yield_now().await;
                }
            },
            RunLimits { steps_max: 1_000, crash_at: Some(17) },
        );
        assert_eq!(end, RunEnd::<()>::Crashed);
        executor.drop_tasks();
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn endless_waits_and_endless_loops_end_with_their_names() {
        let (executor, _) = core(4);
        let end = executor.run(std::future::pending::<()>(), LIMITS);
        assert_eq!(end, RunEnd::Deadlock { tasks: 1 });
        executor.drop_tasks();
        let inner = executor.clone();
        let endless = async move {
            loop {
                inner.yield_now().await;
            }
        };
        assert_eq!(executor.run(endless, LIMITS), RunEnd::<()>::OutOfSteps);
    }
}
