//! Starts the executors, waits for the end, and says why it came.
//!
//! Owns the start-up order, the threads and the signals. Nothing of the broker is known here: each core runs the future it
//! was given. Must never leave a core running after `run` returns.
//!
//! ```text
//! run ─ checks ─ lock ─ signals caught ──┬─ thread data-0 ─ executor ─ prime disk ─ join mesh ─ data_core(context)
//!                                        ├─ thread data-1 ─ …
//!                                        └─ thread control ─ … ─ control(context)
//!     ─ waits: a signal or a core's end ─► stop signal ─► joins all ─► reason
//! ```

use std::future::Future;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_lite::FutureExt;
use futures_lite::future::or;
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::disk::{FREE_LIST_BYTES, GlommioDisk};
use crate::exit::ExitReason;
use crate::heap;
use crate::lock::DirectoryLock;
use crate::mesh::{CoreMesh, MeshSeat, seats};
use crate::platform::{CorePlatform, panic_text};
use crate::preflight::{self, DirectoryKind, StartError};
use crate::pulse::{Watch, counted};
use crate::queue::{FIRST_SLICE, task_queue};
use crate::signals::{Blocked, Signals};
use crate::sockets;
use crate::stop::StopSignal;
use crate::topology::{self, ShardCount};

/// Shares of a core's main task, which waits nearly always.
const MAIN_SHARES: usize = 1000;
/// A signal this soon after the first is the same wish: who stops a process group and its leader sends two, and a terminal that
/// closes may send SIGHUP along with the shell's own. Nobody presses Ctrl-C again in less who has waited for an answer.
const SECOND_SIGNAL_AFTER: Duration = Duration::from_millis(500);
/// Threads for blocking calls, an executor: a slow fsync must not keep a rename waiting, and syncs that wait together share a
/// commit of the file system's journal. They sleep in the kernel nearly all of the time.
const BLOCKING_THREADS: usize = 4;
/// The control executor and client commands move little.
const SMALL_IO_MEMORY_BYTES: usize = 1 << 20;
const SMALL_RING_DEPTH: usize = 128;

/// What `run` starts.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The data directory; made where it is missing.
    pub data_dir: PathBuf,
    /// How many data cores.
    pub shards: ShardCount,
    /// Memory of each data core for transfers, registered with its ring. All of it is resident.
    pub io_memory_bytes: usize,
    /// What each core keeps above it for reuse.
    pub free_list_bytes_max: usize,
    /// Requests that a ring takes at once.
    pub ring_depth: usize,
    /// How long a data core looks for work before it sleeps: saves about 20 µs a round trip and burns the core.
    pub spin: Duration,
    /// Room of each queue between two cores.
    pub mesh_message_count_max: usize,
}

impl NodeOptions {
    /// The defaults for `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            shards: ShardCount::Auto,
            io_memory_bytes: 16 << 20,
            free_list_bytes_max: FREE_LIST_BYTES,
            ring_depth: 512,
            spin: Duration::ZERO,
            mesh_message_count_max: 1024,
        }
    }
}

/// What a core is given.
#[derive(Debug)]
pub struct CoreContext<Message: Send> {
    /// Its view of the machine.
    pub platform: CorePlatform,
    /// Its place among the others; data cores from 0, then the control executor.
    pub mesh: CoreMesh<Message>,
    /// The wish to stop, to be heard and, by whoever must, to be uttered.
    pub stop: StopSignal,
    /// How many data cores there are.
    pub shard_count: u16,
    /// Whether the data directory survives a power cut.
    pub directory_kind: DirectoryKind,
    /// How many files and sockets this process may have open.
    pub open_files_max: u64,
}

/// The machine can run a node, and its data directory is this process's until this is dropped.
#[derive(Debug)]
pub struct Claim {
    _lock: DirectoryLock,
    directory_kind: DirectoryKind,
    open_files_max: u64,
}

/// Checks the machine and takes the data directory: before anything else that another node on it would have too, such as its
/// ports, or the operator would be told of those.
pub fn claim(options: &NodeOptions) -> Result<Claim, StartError> {
    check_process()?;
    let open_files_max = preflight::raise_open_files()?;
    preflight::check_contents(&options.data_dir)?;
    let directory_kind = preflight::check_directory(&options.data_dir)?;
    let lock = DirectoryLock::acquire(&options.data_dir)?;
    Ok(Claim { _lock: lock, directory_kind, open_files_max })
}

/// [`claim`] and [`run_claimed`] in one.
pub fn run<Message, Data, DataFuture, Control, ControlFuture>(
    options: &NodeOptions,
    data_core: Data,
    control: Control,
) -> Result<ExitReason, StartError>
where
    Message: Send + 'static,
    Data: Fn(CoreContext<Message>) -> DataFuture + Clone + Send + 'static,
    DataFuture: Future<Output = ExitReason> + 'static,
    Control: FnOnce(CoreContext<Message>) -> ControlFuture + Send + 'static,
    ControlFuture: Future<Output = ExitReason> + 'static,
{
    run_claimed(options, claim(options)?, data_core, control)
}

/// Runs a node until it is told to stop, and says why it ended.
///
/// Order   all cores start at once. `SIGTERM`, `SIGINT` and `SIGHUP` become the stop signal; another one, half a second or more
///         later, ends the process at once with [`ExitReason::Forced`]. The first core to end, for whatever reason, stops the others.
/// Errors  [`StartError`] where nothing was started, or a core could not be: print it and exit with its reason.
pub fn run_claimed<Message, Data, DataFuture, Control, ControlFuture>(
    options: &NodeOptions,
    claim: Claim,
    data_core: Data,
    control: Control,
) -> Result<ExitReason, StartError>
where
    Message: Send + 'static,
    Data: Fn(CoreContext<Message>) -> DataFuture + Clone + Send + 'static,
    DataFuture: Future<Output = ExitReason> + 'static,
    Control: FnOnce(CoreContext<Message>) -> ControlFuture + Send + 'static,
    ControlFuture: Future<Output = ExitReason> + 'static,
{
    let Claim { _lock, directory_kind, open_files_max } = claim;
    heap::keep_freed_memory();
    let signals = Signals::catch().map_err(|errno| StartError::Signals { errno })?;
    let placement = topology::placement(options.shards, &topology::cpus());
    let shard_count = u16::try_from(placement.len()).expect("placement keeps to SHARD_COUNT_MAX");
    tracing::info!(data_cores = shard_count, cpus = %cpu_list(&placement), process_open_files = open_files_max, "starting the cores");
    if directory_kind == DirectoryKind::Memory {
        tracing::warn!(
            "data.dir is on a file system in memory: nothing in it survives the end of this machine"
        );
    }
    let mut seats = seats(shard_count + 1, options.mesh_message_count_max);
    let control_seat = seats.pop().expect("the control executor has a seat");

    let mut cores = Cores::new(signals)?;
    let plan = |name: String, cpu, io_memory_bytes, ring_depth| CorePlan {
        name,
        cpu,
        io_memory_bytes,
        ring_depth,
        spin: options.spin,
        data_dir: options.data_dir.clone(),
        free_list_bytes_max: options.free_list_bytes_max,
        shard_count,
        directory_kind,
        open_files_max,
    };
    let start = || {
        let _blocked = Blocked::here().map_err(|errno| StartError::Signals { errno })?;
        for (shard, (seat, cpu)) in seats.into_iter().zip(placement).enumerate() {
            let name = format!("data-{shard}");
            let plan = plan(name, cpu, options.io_memory_bytes, options.ring_depth);
            cores.start(plan, seat, data_core.clone())?;
        }
        let plan = plan("control".to_owned(), None, SMALL_IO_MEMORY_BYTES, SMALL_RING_DEPTH);
        cores.start(plan, control_seat, control)
    };
    let started = start();
    if started.is_err() {
        // The seats of the cores that did not start are gone by now, so the others come to their end.
        cores.stop.request();
    }
    let ended = cores.wait();
    started.and(ended)
}

/// Runs one future on an executor of its own in this thread: client commands and tests.
pub fn run_local<F: Future>(future: F) -> Result<F::Output, StartError> {
    check_process()?;
    let builder = LocalExecutorBuilder::new(Placement::Unbound)
        .name("local")
        .io_memory(SMALL_IO_MEMORY_BYTES)
        .ring_depth(SMALL_RING_DEPTH);
    Ok(run_watched(&make_executor("local", builder)?, future))
}

/// Runs the main task of an executor under the pacemaker's eyes.
fn run_watched<F: Future>(executor: &LocalExecutor, main: F) -> F::Output {
    executor.run(async move {
        let watch = Watch::start();
        let main = counted(watch.pulse(), main);
        // SAFETY: it is awaited at once, and where that await is dropped, so is the task.
        let main =
            unsafe { glommio::spawn_scoped_local_into(main, task_queue("main", MAIN_SHARES)) };
        let main = main.expect("the queue lives as long as its executor");
        let ended = counted(watch.pulse(), main).await;
        sockets::end().await;
        ended
    })
}

/// The CPUs of the data cores in their order, for people.
fn cpu_list(placement: &[Option<usize>]) -> String {
    let name = |cpu: &Option<usize>| cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    placement.iter().map(name).collect::<Vec<_>>().join(",")
}

fn check_process() -> Result<(), StartError> {
    // A peer that goes away while we write is an error of that connection, not the end of the process.
    // SAFETY: ignoring a signal installs no handler of ours.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) }
        .map_err(|errno| StartError::Signals { errno })?;
    preflight::check_memlock()?;
    preflight::check_io_uring()
}

/// glommio panics where the kernel lacks an operation, `/sys` is masked or a CPU is offline.
fn make_executor(core: &str, builder: LocalExecutorBuilder) -> Result<LocalExecutor, StartError> {
    let builder = builder
        .preempt_timer(FIRST_SLICE)
        .blocking_thread_pool_placement(PoolPlacement::Unbound(BLOCKING_THREADS));
    let failed = |cause: String| StartError::Core { core: core.to_owned(), cause };
    match catch_unwind(AssertUnwindSafe(|| builder.make())) {
        Ok(made) => made.map_err(|error| failed(error.to_string())),
        Err(panic) => Err(failed(panic_text(panic.as_ref()).to_owned())),
    }
}

/// One core before it runs.
#[derive(Debug)]
struct CorePlan {
    name: String,
    cpu: Option<usize>,
    io_memory_bytes: usize,
    ring_depth: usize,
    spin: Duration,
    data_dir: PathBuf,
    free_list_bytes_max: usize,
    shard_count: u16,
    directory_kind: DirectoryKind,
    open_files_max: u64,
}

impl CorePlan {
    fn executor(&self) -> Result<LocalExecutor, StartError> {
        let builder = |placement| {
            LocalExecutorBuilder::new(placement)
                .name(&self.name)
                .io_memory(self.io_memory_bytes)
                .ring_depth(self.ring_depth)
                .spin_before_park(self.spin)
        };
        let Some(cpu) = self.cpu else {
            return make_executor(&self.name, builder(Placement::Unbound));
        };
        match make_executor(&self.name, builder(Placement::Fixed(cpu))) {
            Ok(executor) => Ok(executor),
            Err(error) => {
                // Placement reads /sys, which a container may mask; an unpinned core is slower and right.
                tracing::warn!(core = self.name, cpu, %error, "the core cannot be pinned");
                make_executor(&self.name, builder(Placement::Unbound))
            }
        }
    }

    /// The whole life of a core, on its own thread.
    fn run<Message, Main, MainFuture>(
        self,
        seat: MeshSeat<Message>,
        stop: StopSignal,
        main: Main,
    ) -> Result<ExitReason, StartError>
    where
        Message: Send + 'static,
        Main: FnOnce(CoreContext<Message>) -> MainFuture,
        MainFuture: Future<Output = ExitReason> + 'static,
    {
        let executor = self.executor()?;
        run_watched(&executor, async move {
            let disk = GlommioDisk::with_free_list(&self.data_dir, self.free_list_bytes_max);
            disk.prime().await.map_err(|error| unusable(&self.data_dir, &error))?;
            // A core that could not start may leave the others waiting for its seat: then the stop that it caused ends them. The
            // stop is looked at first: a seat that was given up counts as taken, and nobody is there to serve with.
            let joined = async { Some(seat.join().await) };
            let stopped = async {
                stop.requested().await;
                None
            };
            let Some(mesh) = or(stopped, joined).await else { return Ok(ExitReason::Done) };
            let context = CoreContext {
                mesh,
                platform: CorePlatform::new(disk),
                stop,
                shard_count: self.shard_count,
                directory_kind: self.directory_kind,
                open_files_max: self.open_files_max,
            };
            match AssertUnwindSafe(main(context)).catch_unwind().await {
                Ok(reason) => Ok(reason),
                Err(panic) => {
                    let panic = panic_text(panic.as_ref());
                    tracing::error!(core = self.name, panic, "the core's main task panicked");
                    Ok(ExitReason::Bug)
                }
            }
        })
    }
}

fn unusable(path: &Path, error: &commitlog::DiskError) -> StartError {
    let source = std::io::Error::other(error.to_string());
    StartError::DirectoryUnusable { path: path.to_owned(), source }
}

/// How one core ended.
type CoreEnd = (String, Result<ExitReason, StartError>);

/// Tells the waiting thread that a core has ended, even if it ended in a panic; says nothing of one that never began.
struct EndNotice {
    end: Option<CoreEnd>,
    ends: Sender<CoreEnd>,
    wake: Arc<EventFd>,
}

impl EndNotice {
    fn new(ends: Sender<CoreEnd>, wake: Arc<EventFd>) -> Self {
        Self { end: None, ends, wake }
    }

    /// The core's thread runs: from here on its end is told.
    fn begin(&mut self, core: &str) {
        self.note((core.to_owned(), Ok(ExitReason::Bug)));
    }

    fn note(&mut self, end: CoreEnd) {
        self.end = Some(end);
    }
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            // Fails only where nobody waits any more.
            drop(self.ends.send(end));
            let _ = self.wake.write(1);
        }
    }
}

/// The running cores.
struct Cores {
    signals: Signals,
    first_signal: Option<Instant>,
    stop: StopSignal,
    threads: Vec<JoinHandle<()>>,
    ends_in: Sender<CoreEnd>,
    ends: Receiver<CoreEnd>,
    wake: Arc<EventFd>,
}

impl Cores {
    fn new(signals: Signals) -> Result<Self, StartError> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = EventFd::from_flags(flags).map_err(|errno| StartError::Signals { errno })?;
        let (ends_in, ends) = channel();
        let wake = Arc::new(wake);
        let stop = StopSignal::default();
        Ok(Self { signals, first_signal: None, stop, threads: Vec::new(), ends_in, ends, wake })
    }

    fn start<Message, Main, MainFuture>(
        &mut self,
        plan: CorePlan,
        seat: MeshSeat<Message>,
        main: Main,
    ) -> Result<(), StartError>
    where
        Message: Send + 'static,
        Main: FnOnce(CoreContext<Message>) -> MainFuture + Send + 'static,
        MainFuture: Future<Output = ExitReason> + 'static,
    {
        let name = plan.name.clone();
        let stop = self.stop.clone();
        let mut notice = EndNotice::new(self.ends_in.clone(), self.wake.clone());
        let life = move || {
            let name = plan.name.clone();
            notice.begin(&name);
            let end = plan.run(seat, stop, main);
            notice.note((name, end));
        };
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(life)
            .map_err(|error| StartError::Core { core: name, cause: error.to_string() })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Waits until every core has ended; the first end that was not asked for decides the reason.
    fn wait(mut self) -> Result<ExitReason, StartError> {
        let mut verdict = Ok(ExitReason::Done);
        let mut unasked = None;
        let mut left = self.threads.len();
        while left > 0 {
            self.sleep();
            self.take_signals();
            while let Ok((core, end)) = self.ends.try_recv() {
                left -= 1;
                let is_first = !self.stop.is_requested();
                if is_first && matches!(end, Ok(ExitReason::Done)) {
                    unasked = Some(core);
                }
                self.stop.request();
                if matches!(verdict, Ok(ExitReason::Done)) {
                    verdict = end;
                }
            }
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() && matches!(verdict, Ok(ExitReason::Done)) {
                verdict = Ok(ExitReason::Bug);
            }
        }
        // Only now: a core ends so too when a start is refused, and then the refusal is what there is to say.
        if let (Some(core), Ok(ExitReason::Done)) = (unasked, &verdict) {
            tracing::info!(core, "the core has ended unasked, and the others with it");
        }
        verdict
    }

    /// Until a signal or an end arrives.
    fn sleep(&self) {
        let mut sources = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
        ];
        // Interrupted or not: the caller looks at both anyway.
        let _ = poll(&mut sources, PollTimeout::NONE);
        let _ = self.wake.read();
    }

    fn take_signals(&mut self) {
        let (count, signal) = self.signals.take();
        for _ in 0..count {
            let first = *self.first_signal.get_or_insert_with(Instant::now);
            if first.elapsed() >= SECOND_SIGNAL_AFTER {
                tracing::warn!(signal, "a further signal: ending at once, the next start recovers");
                std::process::exit(i32::from(ExitReason::Forced.number()));
            }
            if !self.stop.is_requested() {
                tracing::info!(
                    signal,
                    "stopping; another signal, half a second later or more, ends at once"
                );
            }
            self.stop.request();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_core_that_began_is_told_to_have_ended() {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap());
        let (ends_in, ends) = channel();
        // The system refused the thread: its closure is dropped, and nobody waits for that core.
        drop(EndNotice::new(ends_in.clone(), wake.clone()));
        assert!(ends.try_recv().is_err());
        assert!(wake.read().is_err());
        let panicked = std::thread::spawn(move || {
            let mut notice = EndNotice::new(ends_in, wake);
            notice.begin("data-0");
            panic!("before the core says how it ended");
        });
        assert!(panicked.join().is_err());
        assert!(matches!(ends.try_recv(), Ok((core, Ok(ExitReason::Bug))) if core == "data-0"));
    }
}
