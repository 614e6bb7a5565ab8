//! One core's view of the machine: its queues, clocks, timers and randomness.
//!
//! Owns [`CorePlatform`] and the counting of panics. A task that panics is dropped, logged and counted; the core goes on.
//! Where state may be wrong after a panic the caller wraps the step in `commitlog::abort_on_panic`. Must never be used
//! outside the executor it was made in.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use broker::Platform;
use broker::platform::Parted;
use commitlog::{Executor, LocalTask, TaskClass};
use futures_lite::FutureExt;
use glommio::TaskQueueHandle;
use nix::time::{ClockId, clock_gettime};
use record::Timestamp;

use crate::disk::GlommioDisk;
use crate::net::{TcpListener, TcpReader, TcpWriter};
use crate::pulse::{Pulse, counted};
use crate::queue::task_queue;

/// Size of a page of memory on the machines that are supported.
const PAGE_BYTES: u64 = 4096;

/// Shares of a core: ten times as much for who waits as for what nobody waits for.
pub(crate) const FOREGROUND_SHARES: usize = 1000;
const REPLICATION_SHARES: usize = 500;
const BACKGROUND_SHARES: usize = 100;

/// The platform of one executor. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CorePlatform {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: GlommioDisk,
    pulse: Arc<Pulse>,
    foreground: TaskQueueHandle,
    replication: TaskQueueHandle,
    background: TaskQueueHandle,
    started: Duration,
    /// The executor hands its statistics out once and starts again from zero: they are added up here.
    busy: Cell<Duration>,
    panic_count: Cell<u64>,
    last_panic: RefCell<Option<String>>,
}

impl CorePlatform {
    /// Makes the queues of the executor that runs this. Call it once an executor.
    pub fn new(disk: GlommioDisk) -> Self {
        Self {
            shared: Rc::new(Shared {
                disk,
                pulse: Pulse::current(),
                foreground: task_queue("foreground", FOREGROUND_SHARES),
                replication: task_queue("replication", REPLICATION_SHARES),
                background: task_queue("background", BACKGROUND_SHARES),
                started: monotonic(),
                busy: Cell::default(),
                panic_count: Cell::default(),
                last_panic: RefCell::default(),
            }),
        }
    }

    /// What the last of them said.
    pub fn last_panic(&self) -> Option<String> {
        self.shared.last_panic.borrow().clone()
    }

    fn queue(&self, class: TaskClass) -> TaskQueueHandle {
        match class {
            TaskClass::Foreground => self.shared.foreground,
            TaskClass::Replication => self.shared.replication,
            TaskClass::Background => self.shared.background,
        }
    }

    fn note_panic(&self, class: TaskClass, panic: &(dyn Any + Send)) {
        let text = panic_text(panic);
        tracing::error!(?class, panic = text, "a task panicked and was dropped; the core goes on");
        self.shared.panic_count.set(self.shared.panic_count.get() + 1);
        *self.shared.last_panic.borrow_mut() = Some(text.to_owned());
    }
}

/// What a panic said, where it said it in words.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<&str>() {
        Some(text) => text,
        None => panic.downcast_ref::<String>().map_or("(no text)", String::as_str),
    }
}

/// Time since the machine started, suspension included: a lease must not last longer because the machine slept.
fn monotonic() -> Duration {
    let time =
        clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has had this clock since 2.6.39");
    Duration::from(time)
}

impl Executor for CorePlatform {
    fn spawn(&self, class: TaskClass, task: LocalTask) {
        let platform = self.clone();
        let contained = async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                platform.note_panic(class, panic.as_ref());
            }
        };
        let contained = counted(&self.shared.pulse, contained);
        let task = glommio::spawn_local_into(contained, self.queue(class));
        task.expect("the queues live as long as their executor").detach();
    }

    async fn yield_if_needed(&self) {
        glommio::yield_if_needed().await;
    }
}

impl Platform for CorePlatform {
    type Disk = GlommioDisk;
    type Listener = TcpListener;
    type Reader = TcpReader;
    type Writer = TcpWriter;

    fn disk(&self) -> GlommioDisk {
        self.shared.disk.clone()
    }

    fn now(&self) -> Timestamp {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        monotonic()
    }

    fn random(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes)
            .expect("the system's generator has worked since the machine started");
    }

    async fn sleep(&self, duration: Duration) {
        glommio::timer::sleep(duration).await;
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(address)
    }

    async fn connect(
        &self,
        address: SocketAddr,
        timeout: Duration,
    ) -> io::Result<(TcpReader, TcpWriter)> {
        crate::net::connect(address, timeout).await
    }

    fn adopt(&self, parted: Parted) -> io::Result<(TcpReader, TcpWriter)> {
        crate::net::adopt(parted)
    }

    async fn disk_bytes(&self) -> u64 {
        self.shared.disk.total_bytes().await.unwrap_or(0)
    }

    fn resident_bytes(&self) -> u64 {
        // Second field: resident pages. procfs answers from memory, so this does not block the core.
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0) * PAGE_BYTES
    }

    fn panic_count(&self) -> u64 {
        self.shared.panic_count.get()
    }

    fn busy(&self) -> (Duration, Duration) {
        let busy = self.shared.busy.get() + glommio::executor().executor_stats().total_runtime();
        self.shared.busy.set(busy);
        (busy, monotonic().saturating_sub(self.shared.started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::run_local;
    use crate::testing::TempDir;

    fn with_platform<F: Future<Output = ()>>(body: impl FnOnce(CorePlatform) -> F) {
        let directory = TempDir::new();
        let disk = GlommioDisk::new(directory.path());
        run_local(async { body(CorePlatform::new(disk)).await }).unwrap();
    }

    #[test]
    fn a_panicking_task_is_counted_and_the_others_go_on() {
        with_platform(|platform| async move {
            let done = Rc::new(Cell::new(0));
            for number in 0..6 {
                let done = done.clone();
                let class = [TaskClass::Foreground, TaskClass::Replication, TaskClass::Background]
                    [number % 3];
                let task = async move {
                    glommio::yield_if_needed().await;
                    assert!(number % 2 == 0, "task {number} fails");
                    done.set(done.get() + 1);
                };
                platform.spawn(class, Box::pin(task));
            }
            let deadline = platform.monotonic() + Duration::from_secs(20);
            while done.get() + platform.panic_count() < 6 && platform.monotonic() < deadline {
                platform.sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(done.get(), 3);
            assert_eq!(platform.panic_count(), 3);
            assert!(platform.last_panic().unwrap().ends_with("fails"));
        });
    }

    #[test]
    fn clocks_go_forward_and_busy_never_exceeds_the_time_that_passed() {
        with_platform(|platform| async move {
            let before = platform.monotonic();
            platform.sleep(Duration::from_millis(5)).await;
            assert!(platform.monotonic() >= before + Duration::from_millis(5));
            let spin_until = platform.monotonic() + Duration::from_millis(10);
            while platform.monotonic() < spin_until {
                glommio::executor().yield_now().await;
            }
            platform.sleep(Duration::from_millis(1)).await;
            let (busy, passed) = platform.busy();
            assert!(busy >= Duration::from_millis(5), "{busy:?}");
            assert!(busy <= passed, "{busy:?} of {passed:?}");
            let (later, _) = platform.busy();
            assert!(later >= busy, "the executor's statistics start again, ours must not");
            // 2020-01-01: the wall clock of any machine that runs this is later.
            assert!(platform.now().0 > 1_577_836_800_000);
        });
    }

    #[test]
    fn random_bytes_differ() {
        with_platform(|platform| async move {
            let (mut a, mut b) = ([0; 32], [0; 32]);
            platform.random(&mut a);
            platform.random(&mut b);
            assert_ne!(a, b);
            assert_ne!(a, [0; 32]);
        });
    }
}
