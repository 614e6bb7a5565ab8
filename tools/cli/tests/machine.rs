//! `corelog top`, `self-test` and `tune` as processes: against real nodes, a real disk and a real terminal, to their end and
//! cut short. What they start and write must be gone afterwards.

#![expect(clippy::unwrap_used, reason = "a step that fails says where")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;
use serde_json::Value;

mod common;

use common::corelog;

/// Far longer than any step takes: what is not over by then never ends.
const TIME_MAX: Duration = Duration::from_secs(120);

/// A directory of a test's own; gone with it.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("corelog-machine-{test}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A process that is killed where the test gives up on it.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }

    /// Its exit code, once it has ended by itself.
    fn code(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("the process ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits for `is_so`; the test fails where it does not come true.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < TIME_MAX, "{what}: not within {TIME_MAX:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A node on so many cores, with its addresses for clients and for metrics.
fn start_node(directory: &Path, shards: &str, admin: &str) -> (Running, String, String) {
    let mut command = corelog();
    command.args(["serve", "--shards", shards, "--listen", "127.0.0.1:0", "--data-dir"]);
    command.arg(directory).args(["--set", &format!("admin.listen={admin}")]);
    let mut node = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(node.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let field = |name: &str| {
        let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
        found.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
    };
    let addresses = (field("kafka="), field("admin="));
    (node, addresses.0, addresses.1)
}

fn produce_lines(kafka: &str, topic: &str, lines: &str) {
    let mut command = corelog();
    command.args(["produce", topic, "-b", kafka]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {:?} {said}", output.stdout))
}

#[test]
fn top_shows_the_cores_and_partitions_of_a_node_once() {
    let directory = Directory::new("top-once");
    let (_node, kafka, admin) = start_node(&directory.0.join("data"), "1", "127.0.0.1:0");
    produce_lines(&kafka, "orders", "a\nb\nc\n");
    let once = |format: &str| {
        let mut command = corelog();
        command.args(["top", "--once", "--interval-ms", "200", "-a", &admin, "-o", format]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    };
    let view = json(&once("json"));
    assert_eq!(view["cores"].as_array().unwrap().len(), 1);
    assert_eq!(view["cores"][0]["partitions"], 1.0);
    assert!(view["cores"][0]["busy"].as_f64().unwrap() <= 1.0);
    assert_eq!(view["partitions"][0]["topic"], "orders");
    assert_eq!(view["partitions"][0]["end_offset"], 3.0);
    let stages: Vec<_> =
        view["stages"].as_array().unwrap().iter().map(|one| &one["stage"]).collect();
    assert_eq!(stages, ["read", "queue", "decode", "append", "sync", "send"]);
    let table = String::from_utf8(once("table").stdout).unwrap();
    assert!(table.contains("orders-0") && table.contains("SYNC P99"), "{table}");
    assert!(!table.contains('\x1b'), "escape codes without a terminal: {table}");
}

#[test]
fn top_asks_again_until_a_node_that_went_away_is_back() {
    let directory = Directory::new("top-back");
    let (node, _, admin) = start_node(&directory.0.join("data"), "1", "127.0.0.1:0");
    let mut command = corelog();
    command.args(["top", "--interval-ms", "100", "-a", &admin, "-o", "json"]);
    let mut top = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut views = BufReader::new(top.0.stdout.take().unwrap());
    let mut faults = BufReader::new(top.0.stderr.take().unwrap());
    let (mut view, mut fault) = (String::new(), String::new());
    views.read_line(&mut view).unwrap();
    drop(node);
    faults.read_line(&mut fault).unwrap();
    assert!(fault.contains(&admin) && fault.contains("asking again"), "{fault}");
    let (_node, _, again) = start_node(&directory.0.join("data"), "2", &admin);
    assert_eq!(again, admin);
    // Views of the life before, which had one core, may still be on their way.
    let core_count = |view: &str| {
        let view: Value = serde_json::from_str(view).unwrap();
        view["cores"].as_array().unwrap().len()
    };
    while core_count(&view) == 1 {
        view.clear();
        views.read_line(&mut view).unwrap();
    }
    top.signal(Signal::SIGINT);
    assert_eq!(top.code(), Some(0));
}

#[test]
fn a_wrong_address_is_told_at_once() {
    let directory = Directory::new("top-wrong");
    let (_node, kafka, _) = start_node(&directory.0.join("data"), "1", "127.0.0.1:0");
    // Nobody listens there; and a port that speaks another protocol.
    for (address, said) in [("127.0.0.1:1", "refused"), (kafka.as_str(), "admin address")] {
        let output = corelog().args(["top", "-a", address]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{output:?}");
    }
}

#[test]
fn a_standard_error_that_takes_nothing_changes_no_exit_code() {
    let mut command = corelog();
    command.args(["top", "--once", "-a", "127.0.0.1:1"]);
    command.stderr(File::options().write(true).open("/dev/full").unwrap());
    assert_eq!(command.status().unwrap().code(), Some(3));
}

#[test]
fn a_reader_that_goes_away_makes_no_failed_check_a_success() {
    let directory = Directory::new("self-test-pipe");
    let file = directory.0.join("file");
    std::fs::write(&file, "").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = corelog();
    // A file is no directory: that check fails, and nothing is measured.
    command.args(["self-test", "--dir"]).arg(&file).stdout(writer);
    assert_eq!(command.output().unwrap().status.code(), Some(1));
}

#[test]
fn top_draws_on_a_terminal_within_its_size_and_gives_it_back() {
    let directory = Directory::new("top-terminal");
    let (_node, kafka, admin) = start_node(&directory.0.join("data"), "1", "127.0.0.1:0");
    produce_lines(&kafka, "orders", "a\n");
    let size = Winsize { ws_row: 9, ws_col: 30, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).unwrap();
    let modes = || tcgetattr(&pty.slave).unwrap().local_flags;
    let before = modes();
    assert!(before.contains(LocalFlags::ICANON | LocalFlags::ECHO));
    let end = |descriptor: &OwnedFd| Stdio::from(descriptor.try_clone().unwrap());
    let mut command = corelog();
    command.args(["top", "--interval-ms", "100", "-a", &admin]).env("TERM", "xterm");
    command.stdin(end(&pty.slave)).stdout(end(&pty.slave)).stderr(Stdio::null());
    let mut top = Running(command.spawn().unwrap());
    let mut terminal = File::from(pty.master.try_clone().unwrap());
    let mut drawn = Vec::new();
    let mut read_until = |wanted: &str| {
        let mut room = [0; 4096];
        while !String::from_utf8_lossy(&drawn).contains(wanted) {
            let count = terminal.read(&mut room).unwrap();
            drawn.extend(&room[..count]);
        }
        String::from_utf8_lossy(&drawn).into_owned()
    };
    read_until("CORE  BUSY");
    assert!(!modes().contains(LocalFlags::ICANON), "keys come one by one");
    File::from(pty.master.try_clone().unwrap()).write_all(b"q").unwrap();
    assert_eq!(top.code(), Some(0));
    let drawn = read_until("\x1b[?1049l");
    assert_eq!(modes(), before, "the terminal is as it was");
    for frame in drawn.split("\x1b[H").skip(1) {
        let frame = frame.split("\x1b[J").next().unwrap();
        let lines: Vec<&str> = frame.split("\r\n").collect();
        assert!(lines.len() <= 9, "{lines:?}");
        for line in lines {
            // The terminal adds a return of its own.
            let line = line.trim_end_matches('\r');
            assert!(line.trim_end_matches("\x1b[K").chars().count() <= 30, "{line:?}");
        }
    }
}

#[test]
fn self_test_measures_and_leaves_nothing() {
    let directory = Directory::new("self-test");
    let mut command = corelog();
    command.args(["self-test", "-o", "json", "--dir"]).arg(&directory.0);
    let report = json(&command.output().unwrap());
    let names: Vec<&str> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for name in
        ["io_uring", "data.dir", "file system", "write", "read", "sync", "flushes", "loopback"]
    {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert_eq!(report["transfers"].as_array().unwrap().len(), 2);
    assert!(report["syncs"]["growing"]["p50_us"].as_f64().unwrap() > 0.0);
    assert!(report["loopback"]["mb_per_second"].as_f64().unwrap() > 0.0);
    assert!(report["seconds"].as_f64().unwrap() < 20.0, "{report}");
    assert_eq!(directory.names(), [""; 0]);
}

#[test]
fn self_test_that_is_interrupted_says_so_and_leaves_nothing() {
    let directory = Directory::new("self-test-cut");
    let mut command = corelog();
    command.args(["self-test", "--dir"]).arg(&directory.0);
    let mut test = Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let path = format!("/proc/{}/fd", test.0.id());
    // It has its file open, which has no name by then.
    wait_until("it measures", || {
        let files = std::fs::read_dir(&path).unwrap().flatten();
        files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|target| target.to_string_lossy().contains(".corelog-probe"))
    });
    test.signal(Signal::SIGINT);
    assert_eq!(test.code(), Some(1));
    let mut said = String::new();
    test.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("interrupted; nothing is left behind"), "{said}");
    assert_eq!(directory.names(), [""; 0]);
}

/// Processes whose command line names the directory.
fn processes_of(directory: &Path) -> usize {
    let directory = directory.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
    lines
        .filter(|line| {
            let line = String::from_utf8_lossy(line);
            line.contains("--with-parent") && line.contains(directory)
        })
        .count()
}

fn tune(directory: &Path) -> Command {
    let mut command = corelog();
    command.args(["tune", "--quick", "-o", "json", "--dir"]).arg(directory);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn tune_measures_nodes_writes_what_it_proposes_and_undoes_it() {
    let directory = Directory::new("tune");
    let scratch = directory.0.join("disk");
    let config = directory.0.join("node.toml");
    std::fs::create_dir(&scratch).unwrap();
    let old = "# Ours.\nnode.id = 7\nshards = \"auto\" # all\n";
    std::fs::write(&config, old).unwrap();
    let mut command = tune(&scratch);
    command.arg("--write").arg(&config).stdout(Stdio::piped()).stderr(Stdio::piped());
    let report = json(&command.output().unwrap());
    let curve = report["curve"].as_array().unwrap();
    assert!(!curve.is_empty());
    for point in curve {
        assert!(point["mb_per_second"].as_f64().unwrap() > 0.0, "{point}");
        assert!(point["cpu_seconds_per_gb"].as_f64().unwrap() > 0.0, "{point}");
        assert!(point["p999_ms"].as_f64().unwrap() >= point["p50_ms"].as_f64().unwrap(), "{point}");
        let is_forwarding = point["shards"] != 1 && point["advertise"] == "node";
        assert_eq!(
            point["forwarded_per_request"].as_f64().unwrap() > 0.0,
            is_forwarding,
            "{point}"
        );
    }
    let written = std::fs::read_to_string(&config).unwrap();
    let shards = &report["proposals"][0]["value"];
    assert!(
        written.contains(&format!("# Ours.\nnode.id = 7\nshards = {shards} # all\n")),
        "{written}"
    );
    assert!(written.contains("advertise = "), "{written}");
    assert!(corelog().args(["config", "check"]).arg(&config).output().unwrap().status.success());
    assert!(corelog().args(["tune", "undo"]).arg(&config).output().unwrap().status.success());
    assert_eq!(std::fs::read_to_string(&config).unwrap(), old);
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "everything is removed");
    assert_eq!(processes_of(&scratch), 0);
}

#[test]
fn tune_that_is_interrupted_ends_its_nodes_and_removes_their_data() {
    let directory = Directory::new("tune-cut");
    let mut running = Running(tune(&directory.0).spawn().unwrap());
    wait_until("a node runs", || processes_of(&directory.0) == 1);
    running.signal(Signal::SIGINT);
    assert_eq!(running.code(), Some(1));
    assert_eq!(processes_of(&directory.0), 0);
    assert_eq!(directory.names(), [""; 0]);
}

#[test]
fn nodes_of_a_tune_that_is_killed_end_with_it() {
    let directory = Directory::new("tune-killed");
    let running = Running(tune(&directory.0).spawn().unwrap());
    wait_until("a node runs", || processes_of(&directory.0) == 1);
    drop(running);
    wait_until("the node has ended", || processes_of(&directory.0) == 0);
}
