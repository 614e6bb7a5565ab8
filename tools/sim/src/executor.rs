//! A simulated machine: the executors of its cores on one thread, whose every choice comes from the seed.
//!
//! Owns tasks, virtual time and timers. Among the tasks that could run, of whatever core, it picks one at random, so every
//! interleaving that real cores could show comes up for some seed. A core can be made to stand still: its tasks wait, and
//! nobody else's. Time moves only when nothing can run. It never reads a clock, and it never outlives a bound: a run ends
//! by its future, by a crash, by deadlock or by the step bound.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// A core of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreIndex(pub u16);

impl CoreIndex {
    /// No core of the simulated process: clients, and whoever watches. It never stands still, and its panics are never
    /// contained.
    pub const OUTSIDE: Self = Self(u16::MAX);
}

/// What becomes of a panic in a task of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panics {
    /// It ends the run: a seed that panics has failed.
    Escape,
    /// It ends the task and is counted, as on a real core.
    Contained,
}

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

/// The executor of one core of a simulated machine. Clones are the same core.
#[derive(Clone)]
pub struct SimExecutor {
    machine: Rc<Machine>,
    core: CoreIndex,
}

struct Machine {
    tasks: RefCell<Vec<Option<Task>>>,
    vacant: RefCell<Vec<usize>>,
    ready: RefCell<Vec<usize>>,
    /// Cores that stand still, and their tasks that would run.
    still: RefCell<BTreeSet<CoreIndex>>,
    held: RefCell<Vec<usize>>,
    panics: Cell<Panics>,
    panic_counts: RefCell<BTreeMap<CoreIndex, u64>>,
    woken: Arc<Mutex<Vec<usize>>>,
    timers: RefCell<BinaryHeap<Reverse<Timer>>>,
    timer_count: Cell<u64>,
    now: Cell<Duration>,
    prng: RefCell<Prng>,
    trace: Rc<Trace>,
}

struct Task {
    core: CoreIndex,
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

/// Whom a timer wakes: whoever waited for it last, and nobody once the wait is given up.
type Sleeper = Rc<RefCell<Option<Waker>>>;

struct Timer {
    at: Duration,
    sequence: u64,
    sleeper: Sleeper,
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
    /// An idle machine at time zero, as its first core sees it.
    #[must_use]
    pub fn new(prng: Prng, trace: Rc<Trace>) -> Self {
        let machine = Machine {
            tasks: RefCell::default(),
            vacant: RefCell::default(),
            ready: RefCell::default(),
            still: RefCell::default(),
            held: RefCell::default(),
            panics: Cell::new(Panics::Escape),
            panic_counts: RefCell::default(),
            woken: Arc::default(),
            timers: RefCell::default(),
            timer_count: Cell::new(0),
            now: Cell::new(Duration::ZERO),
            prng: RefCell::new(prng),
            trace,
        };
        Self { machine: Rc::new(machine), core: CoreIndex(0) }
    }

    /// Another core of the same machine.
    #[must_use]
    pub fn on_core(&self, core: CoreIndex) -> Self {
        Self { machine: Rc::clone(&self.machine), core }
    }

    /// Which core this is.
    #[must_use]
    pub fn core(&self) -> CoreIndex {
        self.core
    }

    /// What becomes of panics from now on.
    pub fn set_panics(&self, panics: Panics) {
        self.machine.panics.set(panics);
    }

    /// Tasks of this core that ended in a panic that was contained.
    #[must_use]
    pub fn panic_count(&self) -> u64 {
        self.machine.panic_counts.borrow().get(&self.core).copied().unwrap_or(0)
    }

    /// No task of this core runs until it may go on.
    pub fn stand_still(&self) {
        assert!(self.core != CoreIndex::OUTSIDE);
        self.machine.still.borrow_mut().insert(self.core);
    }

    /// Lets this core go on.
    pub fn go_on(&self) {
        self.machine.still.borrow_mut().remove(&self.core);
        self.machine.ready.borrow_mut().append(&mut self.machine.held.borrow_mut());
    }

    /// Virtual time since the machine was made; it goes on across crashes.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.machine.now.get()
    }

    /// Ends `duration` of virtual time later.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + use<> {
        let at = self.now().saturating_add(duration);
        Sleep { machine: Rc::clone(&self.machine), at, sleeper: None }
    }

    /// What comes of `future` within `duration`; `None` where it does not end.
    pub async fn within<T>(
        &self,
        duration: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let late = async {
            self.sleep(duration).await;
            None
        };
        futures_lite::future::or(async { Some(future.await) }, late).await
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
                self.machine.trace.note("crash", "", [step, 0]);
                return RunEnd::Crashed;
            }
            if !self.poll_one() {
                return RunEnd::Deadlock { tasks: self.all_task_count() };
            }
            if let Some(value) = result.borrow_mut().take() {
                return RunEnd::Done(value);
            }
        }
        RunEnd::OutOfSteps
    }

    /// Polls one ready task, moving time forward if there is none; false if nothing will ever be ready.
    fn poll_one(&self) -> bool {
        let machine = &self.machine;
        let Some(key) = self.next_ready() else { return false };
        let Some(mut task) = machine.tasks.borrow_mut()[key].take() else { return true };
        machine.trace.advance();
        machine.trace.note("poll", "", [key as u64, u64::from(task.core.0)]);
        task.signal.is_queued.store(false, Ordering::Relaxed);
        match self.poll_task(&mut task) {
            Poll::Pending => machine.tasks.borrow_mut()[key] = Some(task),
            Poll::Ready(()) => {
                // Late wake-ups of a finished task must not reach whoever gets its place.
                task.signal.is_queued.store(true, Ordering::Relaxed);
                drop(task);
                machine.vacant.borrow_mut().push(key);
            }
        }
        true
    }

    fn poll_task(&self, task: &mut Task) -> Poll<()> {
        let waker = Waker::from(Arc::clone(&task.signal));
        let mut context = Context::from_waker(&waker);
        let is_contained =
            self.machine.panics.get() == Panics::Contained && task.core != CoreIndex::OUTSIDE;
        if !is_contained {
            return task.future.as_mut().poll(&mut context);
        }
        let polled = catch_unwind(AssertUnwindSafe(|| task.future.as_mut().poll(&mut context)));
        polled.unwrap_or_else(|_| {
            *self.machine.panic_counts.borrow_mut().entry(task.core).or_default() += 1;
            Poll::Ready(())
        })
    }

    fn next_ready(&self) -> Option<usize> {
        let machine = &self.machine;
        loop {
            let mut ready = machine.ready.borrow_mut();
            let mut woken = machine.woken.lock().unwrap_or_else(PoisonError::into_inner);
            ready.append(&mut woken);
            drop(woken);
            if !ready.is_empty() {
                let chosen = machine.prng.borrow_mut().index(ready.len());
                let key = ready.swap_remove(chosen);
                if self.is_held(key) {
                    machine.held.borrow_mut().push(key);
                    continue;
                }
                return Some(key);
            }
            drop(ready);
            let Reverse(timer) = machine.timers.borrow_mut().pop()?;
            // Time does not move for a wait that was given up.
            let Some(waker) = timer.sleeper.take() else { continue };
            machine.now.set(timer.at.max(self.now()));
            waker.wake();
        }
    }

    fn is_held(&self, key: usize) -> bool {
        let still = self.machine.still.borrow();
        let tasks = self.machine.tasks.borrow();
        !still.is_empty() && tasks[key].as_ref().is_some_and(|task| still.contains(&task.core))
    }

    fn start(&self, future: LocalTask) {
        let mut tasks = self.machine.tasks.borrow_mut();
        let key = self.machine.vacant.borrow_mut().pop().unwrap_or_else(|| {
            tasks.push(None);
            tasks.len() - 1
        });
        let signal = Arc::new(Signal {
            key,
            is_queued: AtomicBool::new(true),
            woken: Arc::clone(&self.machine.woken),
        });
        tasks[key] = Some(Task { core: self.core, future, signal });
        drop(tasks);
        self.machine.ready.borrow_mut().push(key);
    }

    fn all_task_count(&self) -> usize {
        self.machine.tasks.borrow().iter().flatten().count()
    }

    /// Tasks of this core that have not ended.
    #[must_use]
    pub fn task_count(&self) -> usize {
        let tasks = self.machine.tasks.borrow();
        tasks.iter().flatten().filter(|task| task.core == self.core).count()
    }

    /// Forgets everything that runs, as power loss does. Futures are dropped with nothing borrowed: their drops may spawn.
    pub fn drop_tasks(&self) {
        loop {
            let tasks = self.machine.tasks.take();
            let timers = self.machine.timers.take();
            if tasks.iter().flatten().count() == 0 && timers.is_empty() {
                break;
            }
            drop(tasks);
            drop(timers);
        }
        self.machine.vacant.borrow_mut().clear();
        self.machine.ready.borrow_mut().clear();
        self.machine.held.borrow_mut().clear();
        self.machine.still.borrow_mut().clear();
        self.machine.woken.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Executor for SimExecutor {
    fn spawn(&self, _class: TaskClass, task: LocalTask) {
        self.start(task);
    }

    async fn yield_if_needed(&self) {
        let gives_way = self.machine.prng.borrow_mut().happens(YIELD_ODDS);
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
    machine: Rc<Machine>,
    at: Duration,
    sleeper: Option<Sleeper>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.machine.now.get() >= self.at {
            return Poll::Ready(());
        }
        // A future that one task began may be ended by another: the last one that asked is woken.
        let waker = Some(context.waker().clone());
        match &self.sleeper {
            Some(sleeper) => *sleeper.borrow_mut() = waker,
            None => {
                let sequence = self.machine.timer_count.get();
                self.machine.timer_count.set(sequence + 1);
                let sleeper = Rc::new(RefCell::new(waker));
                let timer = Timer { at: self.at, sequence, sleeper: Rc::clone(&sleeper) };
                self.machine.timers.borrow_mut().push(Reverse(timer));
                self.sleeper = Some(sleeper);
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(sleeper) = &self.sleeper {
            sleeper.take();
        }
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
        let distinct: BTreeSet<String> = (0..20).map(|seed| schedule(seed).0).collect();
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
