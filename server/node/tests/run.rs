//! A whole node as a process: start-up order, signals, exit codes.
//!
//! Each test starts this same binary again as a child that runs one scenario, because signals and limits belong to a process.

#![expect(clippy::unwrap_used, reason = "a scenario that fails says where")]

use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use broker::Platform;
use broker::platform::{ConnectionReader, ConnectionWriter, Listener, Mesh, MeshIndex};
use commitlog::{AlignedBuffer, Disk, DiskFile, Executor, OpenMode, TaskClass};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;
use node::{CoreContext, ExitReason, NodeOptions, ShardCount, StartError};

const SCENARIO: &str = "CORELOG_RUN_SCENARIO";
const DATA_DIR: &str = "CORELOG_RUN_DATA_DIR";
const SHARDS: u16 = 2;
/// Signals within this time are one wish to stop: as docs/operations.md has it.
const SAME_WISH: Duration = Duration::from_millis(500);
/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

fn say(text: &str) {
    println!("SAID {text}");
}

/// What a core does until it is told to stop.
async fn serve(context: CoreContext<u32>) -> ExitReason {
    say("up");
    context.stop.requested().await;
    say("down");
    ExitReason::Done
}

/// Every core sends its index to every other, writes a file of its own and serves one connection to itself.
async fn work(context: CoreContext<u32>) -> ExitReason {
    let (platform, mesh) = (&context.platform, &context.mesh);
    let own = mesh.index();
    for to in (0..mesh.count()).map(MeshIndex).filter(|&to| to != own) {
        mesh.try_send(to, u32::from(own.0)).unwrap();
    }
    for _ in 1..mesh.count() {
        let (from, message) = mesh.receive().await.unwrap();
        assert_eq!(message, u32::from(from.0));
    }
    let disk = platform.disk();
    let file = disk.open(&format!("core-{}", own.0), OpenMode::CreateNew).await.unwrap();
    let mut buffer = disk.allocate(4096);
    buffer.as_bytes_mut().fill(1);
    file.write_rc_at(buffer.into(), 0).await.unwrap();
    file.data_sync().await.unwrap();
    let listener = platform.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_address();
    let client = platform.clone();
    let ping = async move {
        let (_reader, mut writer) = client.connect(address, Duration::from_secs(10)).await.unwrap();
        writer.send(&[b"ping"]).await.unwrap();
    };
    platform.spawn(TaskClass::Foreground, Box::pin(ping));
    let (mut reader, _writer) = listener.accept().await.unwrap();
    let mut received = [0; 8];
    assert_eq!(reader.read(&mut received).await.unwrap(), 4);
    say("worked");
    serve(context).await
}

/// The child: runs the scenario it was started for and ends the process with the reason.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let data_dir = PathBuf::from(std::env::var_os(DATA_DIR).unwrap());
    let mut options = NodeOptions::new(data_dir);
    options.shards = ShardCount::Fixed(NonZeroU16::new(SHARDS).unwrap());
    options.io_memory_bytes = 1 << 20;
    let is_first = |context: &CoreContext<u32>| context.mesh.index() == MeshIndex(0);
    let ended = match scenario.as_str() {
        "serve" => node::run(&options, serve, serve),
        "terminal" => with_hangup(SigHandler::SigDfl, &options),
        "nohup" => with_hangup(SigHandler::SigIgn, &options),
        "work" => node::run(&options, work, work),
        "deaf" => node::run(
            &options,
            |_context: CoreContext<u32>| async {
                say("up");
                std::future::pending().await
            },
            serve,
        ),
        "panic" => node::run(
            &options,
            move |context| async move {
                assert!(!is_first(&context), "core 0 fails");
                serve(context).await
            },
            serve,
        ),
        "refuse" => {
            node::run(&options, serve, |_: CoreContext<u32>| async { ExitReason::DataRefused })
        }
        "ask" => node::run(&options, serve, |context: CoreContext<u32>| async move {
            context.stop.request();
            ExitReason::Done
        }),
        "deep" => {
            options.ring_depth = 1 << 20;
            node::run(&options, serve, serve)
        }
        "memlock" => {
            setrlimit(Resource::RLIMIT_MEMLOCK, 65_536, 65_536).unwrap();
            node::run(&options, serve, serve)
        }
        "few-files" => {
            setrlimit(Resource::RLIMIT_NOFILE, 20, 20).unwrap();
            node::run(&options, serve, serve)
        }
        "files" => {
            setrlimit(Resource::RLIMIT_NOFILE, 100, 100).unwrap();
            node::run(&options, serve, out_of_files)
        }
        other => panic!("no scenario {other}"),
    };
    let reason = ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        error.reason()
    });
    std::process::exit(reason.number().into());
}

/// Serves as a process does that was started with SIGHUP so.
fn with_hangup(handler: SigHandler, options: &NodeOptions) -> Result<ExitReason, StartError> {
    // SAFETY: neither of the two is a handler of ours.
    unsafe { signal(Signal::SIGHUP, handler) }.unwrap();
    node::run(options, serve, serve)
}

/// An accept without a free descriptor fails with EMFILE, and works again when there is one.
async fn out_of_files(context: CoreContext<u32>) -> ExitReason {
    let platform = &context.platform;
    let listener = platform.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let client = std::net::TcpStream::connect(listener.local_address()).unwrap();
    let mut held = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        held.push(file);
    }
    let error = listener.accept().await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(nix::libc::EMFILE));
    drop(held);
    listener.accept().await.unwrap();
    drop(client);
    context.stop.request();
    ExitReason::Done
}

struct Node {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Node {
    fn start(scenario: &str, data_dir: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(SCENARIO, scenario)
            .env(DATA_DIR, data_dir)
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// Waits until `count` cores have said `text`.
    fn wait_for(&mut self, text: &str, count: usize) {
        let mut seen = 0;
        let mut line = String::new();
        while seen < count {
            line.clear();
            let bytes = self.output.read_line(&mut line).unwrap();
            assert_ne!(bytes, 0, "the node ended after {seen} of {count} {text:?}");
            seen += usize::from(line.contains(&format!("SAID {text}\n")));
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().try_into().unwrap()), signal).unwrap();
    }

    /// How it ended, with the rest of its output and its errors.
    fn end(mut self) -> (ExitStatus, String, String) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.process.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                self.process.kill().unwrap();
                panic!("the node did not end within a minute");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let (mut output, mut errors) = (String::new(), String::new());
        self.output.read_to_string(&mut output).unwrap();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.process.wait().unwrap(), output, errors)
    }
}

struct DataDir(PathBuf);

impl DataDir {
    fn new(name: &str) -> Self {
        let name = format!("corelog-run-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn check_end(node: Node, reason: ExitReason, errors_say: &str) -> String {
    let (status, output, errors) = node.end();
    assert_eq!(status.code(), Some(reason.number().into()), "{output}\n{errors}");
    assert!(errors.contains(errors_say), "{errors_say:?} is missing in: {errors}");
    output
}

#[test]
fn each_signal_stops_every_core_and_the_end_is_clean() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let data = DataDir::new(signal.as_str());
        let mut node = Node::start("terminal", &data.0);
        node.wait_for("up", 3);
        node.signal(signal);
        node.wait_for("down", 3);
        check_end(node, ExitReason::Done, "");
    }
}

#[test]
fn a_node_that_was_started_to_outlive_its_terminal_does() {
    let data = DataDir::new("nohup");
    let mut node = Node::start("nohup", &data.0);
    node.wait_for("up", 3);
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.process.id())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let hangup = 1_u64 << (Signal::SIGHUP as i32 - 1);
    assert_ne!(u64::from_str_radix(ignored.trim(), 16).unwrap() & hangup, 0, "{status}");
    node.signal(Signal::SIGHUP);
    node.signal(Signal::SIGTERM);
    check_end(node, ExitReason::Done, "");
}

#[test]
fn cores_reach_each_other_the_disk_and_the_network() {
    let data = DataDir::new("work");
    let mut node = Node::start("work", &data.0);
    node.wait_for("worked", 3);
    node.signal(Signal::SIGTERM);
    check_end(node, ExitReason::Done, "");
    for core in 0..3 {
        assert_eq!(data.0.join(format!("core-{core}")).metadata().unwrap().len(), 4096);
    }
}

#[test]
fn a_second_signal_ends_a_node_that_does_not_listen() {
    let data = DataDir::new("deaf");
    let mut node = Node::start("deaf", &data.0);
    node.wait_for("up", 3);
    let first = Instant::now();
    node.signal(Signal::SIGTERM);
    node.wait_for("down", 1);
    // Those that come with the first are the same wish.
    while node.process.try_wait().unwrap().is_none() {
        node.signal(Signal::SIGTERM);
        std::thread::yield_now();
    }
    assert!(first.elapsed() >= SAME_WISH, "one wish to stop has ended it");
    check_end(node, ExitReason::Forced, "");
}

#[test]
fn two_signals_at_once_are_one_wish_to_stop() {
    let data = DataDir::new("twice");
    let mut node = Node::start("serve", &data.0);
    node.wait_for("up", 3);
    node.signal(Signal::SIGTERM);
    node.signal(Signal::SIGINT);
    check_end(node, ExitReason::Done, "");
}

#[test]
fn too_few_open_files_are_refused_before_anything_starts() {
    let data = DataDir::new("nofile");
    let node = Node::start("few-files", &data.0);
    check_end(node, ExitReason::CoreFailed, "ulimit -n");
}

#[test]
fn the_first_core_to_end_stops_the_others_and_gives_the_reason() {
    let data = DataDir::new("ends");
    check_end(Node::start("panic", &data.0), ExitReason::Bug, "core 0 fails");
    check_end(Node::start("refuse", &data.0), ExitReason::DataRefused, "");
    check_end(Node::start("ask", &data.0), ExitReason::Done, "");
}

#[test]
fn a_core_that_cannot_start_is_named_and_the_others_end() {
    let data = DataDir::new("deep");
    check_end(Node::start("deep", &data.0), ExitReason::CoreFailed, "error: data-");
}

/// glommio parks a thread that loses its CPU between its first poll and its first task, and nobody could wake it then.
#[test]
fn executors_start_where_others_take_their_cpu_away() {
    const STARTERS: usize = 8;
    const STARTS: usize = 50;
    let is_over = &AtomicBool::new(false);
    let (started, starts) = channel();
    std::thread::scope(|scope| {
        for _ in 0..STARTERS {
            scope.spawn(move || while !is_over.load(Ordering::Relaxed) {});
            let started = started.clone();
            // Detached: one that hangs must fail this test, not keep it.
            std::thread::spawn(move || {
                for _ in 0..STARTS {
                    started.send(node::run_local(async {}).is_ok()).unwrap();
                }
            });
        }
        let all: Vec<_> =
            (0..STARTERS * STARTS).map_while(|_| starts.recv_timeout(PATIENCE).ok()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(all, [true; STARTERS * STARTS], "one of them hangs");
    });
}

#[test]
fn a_locked_directory_names_its_holder() {
    let data = DataDir::new("lock");
    let mut first = Node::start("serve", &data.0);
    first.wait_for("up", 3);
    let expected = format!("locked by process {}", first.process.id());
    check_end(Node::start("serve", &data.0), ExitReason::DirectoryLocked, &expected);
    first.signal(Signal::SIGTERM);
    check_end(first, ExitReason::Done, "");
    let mut third = Node::start("serve", &data.0);
    third.wait_for("up", 3);
    third.signal(Signal::SIGKILL);
    third.end();
    let mut fourth = Node::start("serve", &data.0);
    fourth.wait_for("up", 3);
    fourth.signal(Signal::SIGTERM);
    check_end(fourth, ExitReason::Done, "");
}

#[test]
fn too_little_lockable_memory_is_refused_before_anything_starts() {
    let data = DataDir::new("memlock");
    check_end(
        Node::start("memlock", &data.0),
        ExitReason::MemoryLock,
        "memlock limit is 65536 bytes",
    );
    assert!(!data.0.exists(), "something was made before the check");
}

#[test]
fn accept_without_a_free_descriptor_is_an_error_that_heals() {
    let data = DataDir::new("files");
    check_end(Node::start("files", &data.0), ExitReason::Done, "");
}
