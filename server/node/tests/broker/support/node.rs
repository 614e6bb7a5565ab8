//! A node in a process of its own, started, stopped and killed.
//!
//! The process is this same test binary: it runs `node::run` as `corelog serve` does. A pipe ties its life to ours: when the
//! tests end, however they end, its standard input ends and so does the node.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use broker::config::{Config, Sources};
use broker::{ControlOptions, Message, Platform, Ready, Stopped};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use node::{AddressReservation, CoreContext, ExitReason, NodeOptions, ShardCount};

use super::faulty::{FaultyPlatform, rules_of, write_rules};
use super::{Client, Topic};

const DATA_DIR: &str = "BROKER_TEST_DATA_DIR";
const SHARDS: &str = "BROKER_TEST_SHARDS";
const SETTINGS: &str = "BROKER_TEST_SETTINGS";
const READY: &str = "READY ";
const REFUSED: &str = "REFUSED ";

/// A node, and the directory that outlives its process.
pub(crate) struct Node {
    directory: PathBuf,
    shards: u16,
    settings: Vec<String>,
    process: Option<Process>,
}

struct Process {
    child: Child,
    output: Output,
    /// Held: its end is the child's sign that we are gone.
    _life: ChildStdin,
    kafka: SocketAddr,
    admin: SocketAddr,
    /// Every listener, that of `kafka` first.
    listeners: Vec<SocketAddr>,
}

impl Node {
    /// The node of one core that tests share: each has topics of its own there.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Node> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(1, &[]))
    }

    /// The node of two cores that tests share. Each core is a broker of its own to clients, so that a test can choose by which
    /// it comes.
    pub(crate) fn shared_pair() -> &'static Self {
        static SHARED: OnceLock<Node> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(2, &["advertise=core"]))
    }

    /// A fresh node of `shards` cores with these options.
    pub(crate) fn start(shards: u16, settings: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("corelog-broker-{}-{count}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut node = Self { directory, shards, settings, process: None };
        node.start_again();
        node
    }

    /// Starts the process on the directory as it is.
    pub(crate) fn start_again(&mut self) {
        // Noted before it is ready: where it never is, it is killed like every other.
        let process = self.spawn();
        (process.kafka, process.admin, process.listeners) = process.output.wait_for_ready();
    }

    /// Starts the process on a directory that it must refuse to serve; gives what it says of it.
    pub(crate) fn start_refused(&mut self) -> String {
        let output = &self.spawn().output;
        let said = output.wait_for_line(|line| line.starts_with(REFUSED));
        output.wait_for_end();
        let status = self.process.take().unwrap().child.wait().unwrap();
        assert_eq!(status.code(), Some(ExitReason::DataRefused.number().into()));
        said
    }

    fn spawn(&mut self) -> &mut Process {
        assert!(self.process.is_none(), "the node is running");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(DATA_DIR, &self.directory)
            .env(SHARDS, self.shards.to_string())
            .env(SETTINGS, self.settings.join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let life = child.stdin.take().unwrap();
        let output = Output::of(child.stdout.take().unwrap());
        let unready = (Ipv4Addr::UNSPECIFIED, 0).into();
        let listeners = Vec::new();
        let process =
            Process { child, output, _life: life, kafka: unready, admin: unready, listeners };
        self.process.insert(process)
    }

    /// From now on these rules strike the node's disk, and no others: see `faulty`.
    pub(crate) fn set_faults(&self, rules: &[&str]) {
        write_rules(&self.directory, rules);
    }

    /// Waits for a line of the node's log that has all these words.
    pub(crate) fn wait_for_log(&self, words: &[&str]) -> String {
        let output = &self.process.as_ref().unwrap().output;
        output.wait_for_line(|line| words.iter().all(|word| line.contains(word)))
    }

    /// How many cores the next process has.
    pub(crate) fn set_shards(&mut self, shards: u16) {
        self.shards = shards;
    }

    /// Stops the node as an operator does and waits until it has ended well.
    pub(crate) fn stop(&mut self) {
        self.ask_to_stop();
        self.wait_for_end();
    }

    /// Stops the node, which cannot leave everything in order; gives its last word.
    pub(crate) fn stop_unclean(&mut self) -> String {
        self.ask_to_stop();
        let mut process = self.process.take().unwrap();
        let word = process.output.wait_for_line(|line| line.starts_with("stopped, and not"));
        process.output.wait_for_end();
        let status = process.child.wait().unwrap();
        assert_eq!(status.code(), Some(ExitReason::UncleanStop.number().into()));
        word
    }

    /// Asks the node to stop.
    pub(crate) fn ask_to_stop(&self) {
        let id = self.process.as_ref().unwrap().child.id();
        kill(Pid::from_raw(id.cast_signed()), Signal::SIGTERM).unwrap();
    }

    /// Waits until the node has ended, which it must have done well.
    pub(crate) fn wait_for_end(&mut self) {
        self.process.as_ref().unwrap().output.wait_for_end();
        let mut process = self.process.take().unwrap();
        let status = process.child.wait().unwrap();
        assert_eq!(status.code(), Some(ExitReason::Done.number().into()));
    }

    /// Ends the process at once, as a crash does.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.child.kill().unwrap();
        process.child.wait().unwrap();
    }

    /// Its data directory.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.directory
    }

    /// Turns one bit of a segment's file over, as a disk does.
    pub(crate) fn flip_bit(&self, topic: &Topic, partition: i32, base_offset: i64, at: u64) {
        let directory = self.directory.join(format!("topics/{}-{partition}", topic.name));
        let path = directory.join(format!("{base_offset:020}.log"));
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        file.sync_all().unwrap();
    }

    /// The address of core 0, which is the node's.
    pub(crate) fn address(&self) -> SocketAddr {
        self.process.as_ref().unwrap().kafka
    }

    /// The address of the listener at that place of the configuration.
    pub(crate) fn listener(&self, index: usize) -> SocketAddr {
        self.process.as_ref().unwrap().listeners[index]
    }

    /// The address of the admin server.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.process.as_ref().unwrap().admin
    }

    /// A client of the node.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// A client that is served by that core.
    pub(crate) fn connect_to_core(&self, core: u16) -> Client {
        let mut address = self.address();
        address.set_port(address.port() + core);
        Client::connect(address)
    }

    /// The sum of a metric over its series.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = super::client::http_get(self.process.as_ref().unwrap().admin, "/metrics");
        let is_series = |rest: &str| rest.starts_with([' ', '{']);
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name).filter(|rest| is_series(rest))?;
            rest.rsplit_once(' ')?.1.parse::<u64>().ok()
        });
        let values: Vec<u64> = values.collect();
        assert!(!values.is_empty(), "no metric {name} in {text}");
        values.into_iter().sum()
    }
}

impl Node {
    /// Asks for a metric until it is as wanted: each question is a request that the node answers, so nothing is waited for blindly.
    pub(crate) fn wait_for_metric(&self, name: &str, is_wanted: impl Fn(u64) -> bool) {
        let begin = Instant::now();
        loop {
            let value = self.metric(name);
            if is_wanted(value) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{name} is still {value}");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
        let _ = std::fs::remove_file(rules_of(&self.directory));
    }
}

/// What a node prints, line by line; it ends with the node.
struct Output {
    /// Locked: tests share nodes.
    lines: Mutex<Receiver<String>>,
}

impl Output {
    fn of(output: ChildStdout) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Read to the end whether or not anyone listens: a node must not wait for us in a print.
                let _ = sender.send(line);
            }
        });
        Self { lines: lines.into() }
    }

    fn wait_for_ready(&self) -> (SocketAddr, SocketAddr, Vec<SocketAddr>) {
        let mut said = Vec::new();
        let lines = self.lines.lock().unwrap();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    if let Some(addresses) = line.strip_prefix(READY) {
                        let mut addresses = addresses.split(' ');
                        let mut next = || addresses.next().map(|text| text.parse().unwrap());
                        let (kafka, admin) = (next().unwrap(), next().unwrap());
                        return (kafka, admin, std::iter::from_fn(next).collect());
                    }
                    said.push(line);
                }
                Err(error) => panic!("the node was not ready: {error}; it said {said:?}"),
            }
        }
    }

    fn wait_for_line(&self, is_wanted: impl Fn(&str) -> bool) -> String {
        let (begin, lines) = (Instant::now(), self.lines.lock().unwrap());
        let mut said = Vec::new();
        loop {
            match lines.recv_timeout(PATIENCE.saturating_sub(begin.elapsed())) {
                Ok(line) if is_wanted(&line) => return line,
                Ok(line) => said.push(line),
                Err(error) => panic!("the node did not say it: {error}; it said {said:#?}"),
            }
        }
    }

    fn wait_for_end(&self) {
        let begin = Instant::now();
        let lines = self.lines.lock().unwrap();
        loop {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            match lines.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => panic!("the node did not end"),
            }
        }
    }
}

/// Runs a node if this process was started to be one, and never returns then.
pub(crate) fn serve_if_child() {
    let Some(data_dir) = std::env::var_os(DATA_DIR).map(PathBuf::from) else { return };
    end_with_parent(data_dir.clone());
    let shards: u16 = std::env::var(SHARDS).unwrap().parse().unwrap();
    let (port, _reserved) = reserve_ports(shards);
    let settings = std::env::var(SETTINGS).unwrap();
    let config = config_of(&data_dir, port, &settings);
    let options = NodeOptions {
        shards: ShardCount::Fixed(NonZeroU16::new(shards).unwrap()),
        io_memory_bytes: 1 << 20,
        ..NodeOptions::new(&data_dir)
    };
    start_log();
    let data_core = |context: CoreContext<Message>| async move {
        broker::run_data_core(FaultyPlatform::new(context.platform), context.mesh).await;
        ExitReason::Done
    };
    let control = move |context: CoreContext<Message>| control(context, config);
    let ended = node::run(&options, data_core, control);
    let reason = ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        error.reason()
    });
    std::process::exit(reason.number().into());
}

/// What a node says of itself goes where its `READY` line goes: a test can wait for a line.
fn start_log() {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_target(false)
        .with_ansi(false)
        .with_writer(std::io::stdout)
        .init();
}

/// Nobody stops a node that tests share: it ends when they do, and takes its directory with it.
fn end_with_parent(data_dir: PathBuf) {
    std::thread::spawn(move || {
        let mut nothing = [0];
        while !matches!(std::io::stdin().read(&mut nothing), Ok(0) | Err(_)) {}
        let _ = std::fs::remove_dir_all(data_dir);
        std::process::exit(1);
    });
}

/// Ports in a row, one a core, that nobody else has.
fn reserve_ports(count: u16) -> (u16, Vec<AddressReservation>) {
    let row = node::reserve_row((Ipv4Addr::LOCALHOST, 0).into(), count).unwrap();
    (row[0].address().port(), row)
}

fn config_of(data_dir: &Path, port: u16, settings: &str) -> Config {
    let own = [
        format!("data.dir={}", data_dir.display()),
        format!("listeners=127.0.0.1:{port}"),
        "admin.listen=127.0.0.1:0".to_owned(),
        "tail.cache.bytes=8388608".to_owned(),
        // The smallest: every node of these tests makes one, and there are hundreds of them.
        "journal.bytes=8388608".to_owned(),
    ];
    let given = settings.lines().map(str::to_owned);
    let sources = Sources { sets: own.into_iter().chain(given).collect(), ..Sources::default() };
    Config::load(&sources).unwrap()
}

async fn control(context: CoreContext<Message>, config: Config) -> ExitReason {
    let options = ControlOptions {
        config: config.into(),
        shard_count: context.shard_count,
        open_files_max: 256,
        connections_max: 1024,
        started: context.platform.monotonic(),
        mutant: broker::mutant::Mutant::default(),
    };
    let ready = |ready: &Ready| {
        let listeners: Vec<String> = ready.listeners.iter().map(ToString::to_string).collect();
        let listeners = listeners.join(" ");
        println!("\n{READY}{} {} {listeners}", ready.kafka, ready.admin.unwrap());
    };
    let stop = context.stop.requested();
    let platform = FaultyPlatform::new(context.platform);
    match broker::run_control(platform, context.mesh, options, stop, ready).await {
        Ok(Stopped::InOrder) => ExitReason::Done,
        Ok(Stopped::NotInOrder(faults)) => {
            println!("\n{faults}");
            ExitReason::UncleanStop
        }
        Err(refusal) => {
            println!("\n{REFUSED}{refusal}");
            ExitReason::DataRefused
        }
    }
}

/// Longer than anything takes that works: a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
