//! `corelog bench` as a process against a running node: what it measures, what it leaves, and that its audit can fail.

use std::path::Path;

use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use load::{AuditVerdict, Durability, FindingKind, FlushVerdict, RunEnd, RunResult, Unsound};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

const REFUSED: i32 = 1;
const DAMAGED: i32 = 5;
const IO: i32 = 6;
const UNSOUND: i32 = 7;

/// A file that is gone with the test.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("corelog-bench-{}-{name}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// The node's own process: the child of the shell that started it.
fn pid_of(node: &Node) -> String {
    let shell = node._child.id();
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let is_node = |pid: &&str| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "corelog"
    };
    children.split_whitespace().find(is_node).unwrap().to_owned()
}

fn result(json: &str) -> RunResult {
    serde_json::from_str(json).unwrap()
}

fn topics() -> String {
    told(&["topic", "list"])
}

#[test]
fn a_run_of_produce_is_measured_audited_saved_and_leaves_no_topic() {
    let (save, log) = (TempFile::new("run.json"), TempFile::new("run.hlog"));
    let pid = pid_of(node());
    let args = [
        "bench",
        "produce",
        "--warm-up",
        "0",
        "--duration",
        "1500ms",
        "--request-rate",
        "200",
        // All that are due may leave, though the disk stands still for a while.
        "--in-flight",
        "200",
        "--partitions",
        "4",
        "--partitions-per-request",
        "2",
        "--connections",
        "2",
        "--batch-bytes",
        "16KiB",
        "-z",
        "lz4",
        "--keys",
        "10",
        "--consumers",
        "1",
        "--broker-pid",
        &pid,
        "--save",
        save.path(),
        "--hdr-log",
        log.path(),
        "-o",
        "json",
    ];
    let output = with_input(&args, "");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let result = result(&ok(output));
    assert!(result.is_sound(), "{result:#?}");
    assert_eq!(
        (result.end.clone(), result.partitions, result.connections),
        (RunEnd::Complete, 4, 2)
    );
    // However busy the machine: 1.5 s at 200 a second were due, and each left or is told.
    let due = result.audit.acked_batches / 2 + result.unsent;
    assert!((300..=1_000).contains(&due), "{due}");
    // However late its threads wake: what was due from the first instant on counts, once.
    assert_eq!(result.due, result.latency.count, "{result:#?}");
    assert!((300..400).contains(&result.due), "{result:#?}");
    assert_eq!(result.durability, Durability::D1);
    assert!(result.measured.requests > 0);
    assert_eq!(result.measured.batches, 2 * result.measured.requests);
    assert!(result.measured.plain_bytes > result.measured.bytes);
    assert_eq!(result.audit.matched_batches, result.audit.acked_batches);
    assert!(result.delivery.unwrap().count > 0);
    let broker = result.broker.unwrap();
    assert!(broker.rss_bytes > 0 && broker.threads > 0 && broker.cpu_seconds_per_gb.is_some());
    assert!(result.client.unwrap().cpu_us_per_request.is_some());
    // Progress: a line for each interval, and what was read back.
    let interval_count = result.intervals.len();
    assert!((1..=2).contains(&interval_count));
    let lines = said.lines().filter(|line| line.contains("requests/s"));
    assert_eq!(lines.count(), interval_count, "{said}");
    assert!(said.contains("reading back"), "{said}");
    let saved = std::fs::read_to_string(save.path()).unwrap();
    let saved: RunResult = serde_json::from_str(&saved).unwrap();
    assert_eq!(saved.measured, result.measured);
    let log = std::fs::read(log.path()).unwrap();
    let intervals =
        IntervalLogIterator::new(&log).filter(|entry| matches!(entry, Ok(LogEntry::Interval(_))));
    let drained = usize::from(result.drain.is_some());
    assert_eq!(intervals.count(), interval_count + drained, "{}", String::from_utf8_lossy(&log));
    assert!(!topics().contains(&result.topic));
}

#[test]
fn a_run_for_people_says_the_same_in_a_table() {
    let args = [
        "bench",
        "produce",
        "--warm-up",
        "0",
        "--bytes",
        "8MB",
        "--batch-bytes",
        "64KiB",
        "-q",
        "--keep-topic",
    ];
    let output = with_input(&args, "");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let table = ok(output);
    for expected in ["throughput ", "latency (sent)", "audit           passed: ", "client "] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    let topic = said.strip_prefix("corelog: topic ").unwrap();
    let topic = topic.strip_suffix(" is still there\n").unwrap();
    assert!(topics().contains(topic));
    told(&["topic", "delete", topic]);
}

/// A run without an end, once its first second is over.
struct Running {
    child: Child,
    said: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(BINARY)
            .args(["bench", "produce", "-b", &node().kafka, "--warm-up", "0", "--duration", "1h"])
            // At no rate: a machine that stands still for a moment would not keep it.
            .args(["--connections", "1", "--in-flight", "1", "--batch-bytes", "4KiB", "-o", "json"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = said.by_ref().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("requests/s")));
        Self { child, said }
    }

    /// Sends it Ctrl-C; gives its exit code, its result and what it said from then on.
    fn interrupt(self) -> (Option<i32>, RunResult, String) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        // As `timeout -s INT` does: to the process, and at once to its group. It counts as one.
        for _ in 0..2 {
            kill(pid, Signal::SIGINT).unwrap();
        }
        let said: Vec<String> = self.said.map_while(Result::ok).collect();
        let output = self.child.wait_with_output().unwrap();
        let result = result(&String::from_utf8(output.stdout).unwrap());
        (output.status.code(), result, said.join("\n"))
    }
}

#[test]
fn ctrl_c_ends_the_sending_and_the_run_is_audited_all_the_same() {
    let (code, result, said) = Running::start(&[]).interrupt();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stopping"), "{said}");
    assert_eq!(result.end, RunEnd::Interrupted);
    assert!(result.is_sound() && result.audit.matched_batches > 0, "{result:#?}");
    assert!(!topics().contains(&result.topic));
}

#[test]
fn records_that_go_while_they_are_acknowledged_fail_the_audit() {
    told(&["topic", "create", "bench-robbed"]);
    let running = Running::start(&["--topic", "bench-robbed"]);
    told(&["records", "delete", "bench-robbed", "--all"]);
    let (code, result, said) = running.interrupt();
    assert_eq!(code, Some(DAMAGED), "{said}");
    assert!(said.contains("the audit failed") && said.contains("next: "), "{said}");
    let finding = &result.audit.findings[0];
    assert_eq!(finding.kind, FindingKind::Missing);
    assert!(finding.fact.contains("which no retention explains"), "{finding:?}");
    assert!(topics().contains("bench-robbed"), "it was not ours to delete");
}

#[test]
fn a_topic_is_filled_read_by_two_consumers_and_deleted() {
    let args = [
        "bench",
        "consume",
        "--fill",
        "8MB",
        "--partitions",
        "2",
        "--consumers",
        "2",
        "-o",
        "json",
    ];
    let output = with_input(&args, "");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.contains("filling a topic first: 8.00 MB"), "{said}");
    let result = result(&ok(output));
    assert!(result.is_sound() && result.end == RunEnd::Complete, "{result:#?}");
    assert!(result.measured.bytes >= 16_000_000, "{:?}", result.measured);
    assert_eq!(result.audit.matched_batches, result.measured.batches);
    assert!(!topics().contains(&result.topic));
    told(&["topic", "create", "bench-empty"]);
    let (code, said) = failed(&with_input(&["bench", "consume", "--topic", "bench-empty"], ""));
    assert_eq!(code, REFUSED);
    assert!(said.contains("bench-empty: has no record") && said.contains("next: "), "{said}");
}

#[test]
fn what_cannot_be_run_says_why_and_what_to_do() {
    let check = |args: &[&str], code: i32, facts: &[&str]| {
        let args: Vec<&str> = ["bench", "produce"].iter().chain(args).copied().collect();
        let (found, said) = failed(&with_input(&args, ""));
        assert_eq!(found, code, "{args:?}: {said}");
        for fact in facts {
            assert!(said.contains(fact), "{args:?}: {fact}: {said}");
        }
    };
    check(&["--topic", "bench-absent"], REFUSED, &["bench-absent", "next: "]);
    check(&["--broker-pid", "4194999"], IO, &["/proc/4194999/stat", "next: "]);
    check(&["--in-flight", "0"], 2, &["must be 1 to 10000"]);
    check(&["--hdr-log", "/no/such/dir/x"], IO, &["/no/such/dir/x"]);
    assert!(!Path::new("/no/such/dir").exists());
}

#[test]
fn two_saved_results_are_compared_and_what_is_none_is_refused() {
    let (a, b) = (TempFile::new("a.json"), TempFile::new("b.json"));
    for (file, in_flight) in [(&a, "1"), (&b, "4")] {
        let args = ["bench", "produce", "-q", "--warm-up", "0", "--bytes", "2MB"];
        let more = ["--batch-bytes", "64KiB", "--in-flight", in_flight, "--save", file.path()];
        ok(with_input(&[&args[..], &more].concat(), ""));
    }
    let compare = |a: &str, b: &str, format: &str| {
        Command::new(BINARY).args(["bench", "compare", a, b, "-o", format]).output().unwrap()
    };
    let table = ok(compare(a.path(), b.path(), "table"));
    assert!(table.contains("asked of them: in_flight = 1 and 4"), "{table}");
    assert!(table.contains("DIFFERENT WORK"), "{table}");
    let json = ok(compare(a.path(), a.path(), "json"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"][0]["name"], "throughput");
    assert_eq!(json["rows"][0]["ratio"], 1.0);
    assert!(ok(compare(a.path(), b.path(), "yaml")).starts_with("---\n"));

    let changed = TempFile::new("changed.json");
    let saved = std::fs::read_to_string(a.path()).unwrap();
    let check = |text: &str, fact: &str| {
        std::fs::write(changed.path(), text).unwrap();
        let output = compare(a.path(), changed.path(), "table");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(REFUSED), "{said}");
        assert!(said.contains(fact) && said.contains("next: "), "{fact}: {said}");
    };
    check("{", "not JSON");
    check("{}", "no result of a bench: missing field");
    check(&saved.replace("\"format\": 1", "\"format\": 2"), "of format 2");
    check(&saved.replace("\"has_passed\": true", "\"has_passed\": false"), "not audited");
    check(&saved.replace("\"durability\": \"d1\"", "\"durability\": \"d0\""), "on disk");
    std::fs::write(
        changed.path(),
        saved.replace("\"durability\": \"d1\"", "\"durability\": \"d0\""),
    )
    .unwrap();
    let across = ["bench", "compare", a.path(), changed.path(), "--across-classes"];
    let across = ok(Command::new(BINARY).args(across).output().unwrap());
    assert!(across.contains("DIFFERENT DURABILITY") && across.contains("  1.000"), "{across}");
    assert_eq!(compare("/no/such", a.path(), "table").status.code(), Some(IO));
}

/// Runs a bench whose standard error is a pipe that nobody reads and that is full; gives its exit code and what it printed.
fn with_stuck_terminal(args: &[&str]) -> (Option<i32>, String) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
    while writer.write(&[b'x'; 1_024]).is_ok() {}
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty())).unwrap();
    let mut child = Command::new(BINARY)
        .args(["bench", "produce", "-b", &node().kafka])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(writer)
        .spawn()
        .unwrap();
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    // Only now somebody reads what it could not say.
    drop(reader);
    (child.wait().unwrap().code(), printed)
}

#[test]
fn a_terminal_that_takes_nothing_does_not_hold_up_the_run() {
    let args =
        ["--warm-up", "0", "--duration", "3s", "--request-rate", "100", "--batch-bytes", "4KiB"];
    // All that are due may leave, though the disk stands still for a while.
    let args = [&args[..], &["--in-flight", "400"]].concat();
    let (code, printed) = with_stuck_terminal(&[&args[..], &["-o", "json"]].concat());
    assert_eq!(code, Some(0), "{printed}");
    let result = result(&printed);
    assert!(result.is_sound(), "{result:#?}");
    assert_eq!((result.intervals.len(), result.latency.count), (3, result.due));
}

#[test]
fn a_failed_audit_is_told_by_the_exit_code_whatever_becomes_of_the_output() {
    told(&["topic", "create", "bench-robbed-full"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = Command::new(BINARY)
        .args(["bench", "produce", "-b", &node().kafka, "--topic", "bench-robbed-full"])
        .args(["--warm-up", "0", "--duration", "1h", "--request-rate", "100"])
        .args(["--batch-bytes", "4KiB", "--hdr-log", "/dev/full"])
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("requests/s")));
    told(&["records", "delete", "bench-robbed-full", "--all"]);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    let said = said.collect::<Vec<_>>().join("\n");
    assert_eq!(child.wait().unwrap().code(), Some(DAMAGED), "{said}");
    for fact in ["/dev/full: ", "standard output: ", "the audit failed"] {
        assert!(said.contains(fact), "{fact}: {said}");
    }
}

#[test]
fn a_rate_that_is_not_kept_has_an_exit_code_of_its_own() {
    // More than any broker takes, one request at a time.
    let args = ["bench", "produce", "-q", "--warm-up", "0", "--duration", "1s", "-o", "json"];
    let rate = ["--request-rate", "1000000", "--in-flight", "1", "--batch-bytes", "1KiB"];
    let output = with_input(&[&args[..], &rate].concat(), "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(UNSOUND), "{said}");
    assert!(said.contains("the rate was not kept: ") && said.contains("next: "), "{said}");
    let result = result(&String::from_utf8(output.stdout).unwrap());
    assert!(!result.sound && result.audit.verdict == AuditVerdict::Passed, "{result:#?}");
    let [Unsound::RateNotKept { due, unsent }] = result.unsound_because[..] else {
        panic!("{:?}", result.unsound_because)
    };
    assert!(due >= 1_000_000, "{due}");
    assert_eq!((result.latency_lower_bounds, result.latency.count), (unsent, due));
    assert!(result.latency.p99_ms > 900.0, "{:?}", result.latency);
}

#[test]
fn a_mixed_run_tells_of_both_halves_of_idle_connections_and_of_flushes() {
    let pid = pid_of(node());
    let args = ["bench", "mixed", "-q", "-o", "json", "--fill", "8MB", "--cold-consumers", "2"];
    let sending = ["--request-rate", "100", "--batch-bytes", "4KiB", "--warm-up", "0"];
    // All that are due may leave, though the disk stands still for a while.
    let room = ["--in-flight", "400"];
    let more = ["--duration", "2s", "--consumers", "1", "--fetch-sessions"];
    let beside = ["--idle-connections", "20", "--broker-pid", &pid];
    let result =
        result(&ok(with_input(&[&args[..], &sending, &room, &more, &beside].concat(), "")));
    assert!(result.sound && result.measured.requests > 0, "{result:#?}");
    let read = result.beside.unwrap();
    assert!(read.measured.bytes >= 16_000_000 && read.audit.is_complete, "{read:#?}");
    let idle = result.idle.unwrap();
    assert_eq!((idle.connections, idle.lost), (20, 0));
    assert!(idle.broker_bytes_per_connection.is_some());
    let flush = result.flush.unwrap();
    // On one connection. Where the test's directory lies on no device that counts, nothing is known.
    assert_eq!(flush.flushes_min, result.audit.acked_batches / 400);
    let proven = [FlushVerdict::Passed, FlushVerdict::Unknown];
    assert!(proven.contains(&flush.verdict), "{flush:?}");
    assert!(!topics().contains(&result.topic));
}
