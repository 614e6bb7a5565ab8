//! Nodes that are started to be measured.
//!
//! Owns the process and its directory: both are gone when a [`Child`] is dropped, and the process ends with this one however
//! that ends (`serve --with-parent`). Nothing of the environment reaches its options.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use node::StopSignal;

use super::curve::Candidate;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::say;

/// How long a fresh node may take to serve, and to stop.
const START_TIME_MAX: Duration = Duration::from_secs(20);
const STOP_TIME_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether it has.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Of what a node says on standard error when it does not start.
const REASON_BYTES_MAX: u64 = 4_096;

/// A directory of this process's own below the one that is measured; gone when it is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it.
    pub(super) fn new(root: &Path) -> Outcome<Self> {
        let path = root.join(format!(".corelog-tune-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| Failure::io(path.display(), &error))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            say(format_args!("{}: {error}; remove it", self.0.display()));
        }
    }
}

/// A running node.
pub(super) struct Child {
    process: std::process::Child,
    directory: PathBuf,
    /// Where clients connect.
    pub(super) kafka: load::Address,
    /// Where its metrics are.
    pub(super) admin: String,
}

impl Child {
    /// Starts a node and waits until it serves.
    pub(super) fn start(
        scratch: &Scratch,
        candidate: &Candidate,
        stop: &StopSignal,
    ) -> Outcome<Self> {
        let directory = scratch.0.join("data");
        let log = scratch.0.join("log");
        let failed = |error: std::io::Error| Failure::io("a node to be measured", &error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CORELOG_") || name == "NOTIFY_SOCKET" {
                command.env_remove(name);
            }
        }
        let shards = candidate.shards.to_string();
        let own = std::process::id().to_string();
        command.args(["serve", "--with-parent", &own, "--listen", "127.0.0.1:0"]);
        command.args(["--shards", &shards]);
        command.arg("--data-dir").arg(&directory);
        let mut set = |key: &str, value: &str| {
            command.args(["--set", &format!("{key}={value}")]);
        };
        set("admin.listen", "127.0.0.1:0");
        set("advertise", candidate.advertise.name());
        set("trace.filter", "error");
        for (key, value) in &candidate.settings {
            set(key, value);
        }
        let log_file = fs::File::create(&log).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file);
        // Ctrl-C is for this process: it ends its nodes itself.
        command.process_group(0);
        let process = command.spawn().map_err(failed)?;
        // From here on it is ended by being dropped.
        let nowhere = load::Address { host: String::new(), port: 0 };
        let mut child = Self { process, directory, kafka: nowhere, admin: String::new() };
        let Some(line) = child.ready_line(stop) else {
            let mut said = String::new();
            if let Ok(file) = fs::File::open(&log) {
                drop(file.take(REASON_BYTES_MAX).read_to_string(&mut said));
            }
            let said = said.lines().last().unwrap_or("it says nothing").to_owned();
            let fact = format!("a node with {shards} data cores does not start: {said}");
            return Err(
                Failure::new(Exit::Refused, fact).advise("corelog self-test says what is wrong")
            );
        };
        let field = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name));
        let address = field("kafka=").and_then(|address| address.rsplit_once(':'));
        if let Some((host, port)) = address {
            child.kafka = load::Address { host: host.to_owned(), port: port.parse().unwrap_or(0) };
        }
        child.admin = field("admin=").unwrap_or_default().to_owned();
        Ok(child)
    }

    /// Its first line on standard output; `None` where none comes in time, or it is told to stop.
    fn ready_line(&mut self, stop: &StopSignal) -> Option<String> {
        let mut out = BufReader::new(self.process.stdout.take()?);
        let (sender, lines) = channel();
        // Its read ends when the node does.
        let reading = thread::Builder::new().name("ready".to_owned());
        let reader = reading.spawn(move || {
            let mut line = String::new();
            if out.read_line(&mut line).is_ok_and(|count| count > 0) {
                drop(sender.send(line));
            }
            drop(std::io::copy(&mut out, &mut std::io::sink()));
        });
        reader.ok()?;
        let begin = Instant::now();
        while begin.elapsed() < START_TIME_MAX && !stop.is_requested() {
            match lines.recv_timeout(LOOK_INTERVAL) {
                Ok(line) => return Some(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).ok().map(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill(pid, Signal::SIGTERM);
        }
        let begin = Instant::now();
        while begin.elapsed() < STOP_TIME_MAX && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(LOOK_INTERVAL);
        }
        // Both fail where it has ended, and then nothing is left to be done.
        drop(self.process.kill());
        drop(self.process.wait());
        drop(fs::remove_dir_all(&self.directory));
    }
}
