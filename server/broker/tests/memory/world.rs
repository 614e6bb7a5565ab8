//! Time, tasks and the platform: every core is a set of tasks of one thread.
//!
//! Owns the executor. Virtual time moves only when nothing can run. A task that panics is dropped and counted, as on a real
//! core; the tasks of a core that stands still are not run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use broker::Platform;
use commitlog::{Executor, LocalTask, TaskClass};
use record::Timestamp;

use crate::disk::MemoryDisk;
use crate::net::{Network, TestListener, TestReader, TestWriter};

/// 2026-01-01: batches of tests are younger than a topic asks for.
const WALL_CLOCK_START_MS: i64 = 1_767_225_600_000;
/// A test whose virtual time goes beyond it waits for something that never comes.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// The task that waits for the outcome.
const MAIN: u64 = 0;

/// A call of the platform that can be made to panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The next look at the wall clock.
    Now,
    /// The next look at the monotonic clock.
    Monotonic,
}

#[derive(Default)]
struct Shared {
    time: Cell<Duration>,
    next_task: Cell<u64>,
    tasks: RefCell<BTreeMap<u64, (u16, LocalTask)>>,
    woken: Arc<Mutex<VecDeque<u64>>>,
    timers: RefCell<BTreeMap<(Duration, u64), Waker>>,
    next_timer: Cell<u64>,
    still: RefCell<BTreeSet<u16>>,
    /// How many calls of that kind go well before one panics.
    faults: RefCell<BTreeMap<(u16, Fault), u32>>,
    panics: RefCell<BTreeMap<u16, u64>>,
    disk: MemoryDisk,
    network: Network,
}

/// The world of one test. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct World(Rc<Shared>);

struct TaskWaker {
    task: u64,
    woken: Arc<Mutex<VecDeque<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap().push_back(self.task);
    }
}

impl World {
    /// Runs `body` to its end, and everything it started beside it.
    pub(crate) fn run<F: Future<Output = ()>>(body: impl FnOnce(World) -> F) {
        let world = Self::default();
        world.0.next_task.set(MAIN + 1);
        let mut main = pin!(body(world.clone()));
        world.wake(MAIN);
        loop {
            let Some(task) = world.next_woken() else {
                world.let_time_pass();
                continue;
            };
            if task == MAIN {
                if main.as_mut().poll(&mut Context::from_waker(&world.waker(MAIN))).is_ready() {
                    break;
                }
            } else {
                world.poll(task);
            }
        }
        // Tasks hold the world and the world its tasks.
        drop(world.0.tasks.take());
        world.0.timers.take();
    }

    /// What a core sees of it.
    pub(crate) fn platform(&self, core: u16) -> TestPlatform {
        TestPlatform { world: self.clone(), core }
    }

    pub(crate) fn disk(&self) -> &MemoryDisk {
        &self.0.disk
    }

    pub(crate) fn network(&self) -> &Network {
        &self.0.network
    }

    /// No task of the core runs until it may go on.
    pub(crate) fn stand_still(&self, core: u16) {
        self.0.still.borrow_mut().insert(core);
    }

    /// Lets the core go on.
    pub(crate) fn go_on(&self, core: u16) {
        self.0.still.borrow_mut().remove(&core);
        let tasks = self.0.tasks.borrow();
        tasks.iter().filter(|(_, (of, _))| *of == core).for_each(|(task, _)| self.wake(*task));
    }

    /// Makes the next call of that kind panic on that core.
    pub(crate) fn fail(&self, core: u16, fault: Fault) {
        self.fail_after(core, fault, 0);
    }

    /// Makes one call panic after `count` that go well.
    pub(crate) fn fail_after(&self, core: u16, fault: Fault, count: u32) {
        self.0.faults.borrow_mut().insert((core, fault), count);
    }

    /// Tasks of a core that have not ended.
    pub(crate) fn task_count(&self, core: u16) -> usize {
        self.0.tasks.borrow().values().filter(|(of, _)| *of == core).count()
    }

    /// Tasks of a core that ended in a panic.
    pub(crate) fn panic_count(&self, core: u16) -> u64 {
        self.0.panics.borrow().get(&core).copied().unwrap_or(0)
    }

    pub(crate) fn time(&self) -> Duration {
        self.0.time.get()
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        let (number, at) = (self.0.next_timer.get(), self.time() + duration);
        self.0.next_timer.set(number + 1);
        poll_fn(|context| {
            if self.time() >= at {
                return Poll::Ready(());
            }
            self.0.timers.borrow_mut().insert((at, number), context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// What comes of `future` within `duration`; `None` where it does not end.
    pub(crate) async fn within<T>(
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

    fn spawn(&self, core: u16, task: LocalTask) {
        let number = self.0.next_task.get();
        self.0.next_task.set(number + 1);
        self.0.tasks.borrow_mut().insert(number, (core, task));
        self.wake(number);
    }

    fn wake(&self, task: u64) {
        self.0.woken.lock().unwrap().push_back(task);
    }

    fn waker(&self, task: u64) -> Waker {
        Waker::from(Arc::new(TaskWaker { task, woken: Arc::clone(&self.0.woken) }))
    }

    fn next_woken(&self) -> Option<u64> {
        self.0.woken.lock().unwrap().pop_front()
    }

    fn poll(&self, number: u64) {
        let taken = self.0.tasks.borrow_mut().remove(&number);
        // It has ended, or its core stands still: then it is woken again when the core goes on.
        let Some((core, mut task)) = taken else { return };
        if self.0.still.borrow().contains(&core) {
            self.0.tasks.borrow_mut().insert(number, (core, task));
            return;
        }
        let waker = self.waker(number);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_pending() { Some(task) } else { None }
        }));
        match polled {
            Ok(Some(task)) => {
                self.0.tasks.borrow_mut().insert(number, (core, task));
            }
            Ok(None) => {}
            Err(_) => *self.0.panics.borrow_mut().entry(core).or_default() += 1,
        }
    }

    fn let_time_pass(&self) {
        let next = self.0.timers.borrow_mut().pop_first();
        let ((at, _), waker) = next.expect("nothing can run any more, and nothing is waited for");
        assert!(at < TIME_MAX, "the test waits for something that does not come");
        self.0.time.set(self.time().max(at));
        waker.wake();
    }
}

/// The machine as one core sees it.
#[derive(Clone)]
pub(crate) struct TestPlatform {
    world: World,
    core: u16,
}

impl TestPlatform {
    fn meet(&self, fault: Fault) {
        let mut faults = self.world.0.faults.borrow_mut();
        let Some(left) = faults.get_mut(&(self.core, fault)) else { return };
        if *left > 0 {
            *left -= 1;
            return;
        }
        faults.remove(&(self.core, fault));
        drop(faults);
        panic!("the test wants this call of core {} to panic: {fault:?}", self.core);
    }
}

impl Executor for TestPlatform {
    fn spawn(&self, _class: TaskClass, task: LocalTask) {
        self.world.spawn(self.core, task);
    }

    async fn yield_if_needed(&self) {
        futures_lite::future::yield_now().await;
    }
}

impl Platform for TestPlatform {
    type Disk = MemoryDisk;
    type Listener = TestListener;
    type Reader = TestReader;
    type Writer = TestWriter;

    fn disk(&self) -> MemoryDisk {
        self.world.0.disk.clone()
    }

    fn now(&self) -> Timestamp {
        self.meet(Fault::Now);
        let passed = i64::try_from(self.world.time().as_millis()).unwrap();
        Timestamp(WALL_CLOCK_START_MS + passed)
    }

    fn monotonic(&self) -> Duration {
        self.meet(Fault::Monotonic);
        self.world.time()
    }

    fn random(&self, bytes: &mut [u8]) {
        let number = self.world.0.next_timer.get() + 1;
        self.world.0.next_timer.set(number);
        bytes.fill(0);
        for (byte, of_number) in bytes.iter_mut().zip(number.to_be_bytes().into_iter().rev()) {
            *byte = of_number;
        }
    }

    async fn sleep(&self, duration: Duration) {
        self.world.sleep(duration).await;
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<TestListener> {
        Ok(self.world.0.network.listen(address))
    }

    async fn connect(
        &self,
        _address: SocketAddr,
        _timeout: Duration,
    ) -> io::Result<(TestReader, TestWriter)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn disk_bytes(&self) -> u64 {
        1 << 40
    }

    fn resident_bytes(&self) -> u64 {
        0
    }

    fn panic_count(&self) -> u64 {
        self.world.panic_count(self.core)
    }

    fn busy(&self) -> (Duration, Duration) {
        (Duration::ZERO, self.world.time())
    }
}
