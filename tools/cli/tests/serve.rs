//! `corelog serve` as a process: what an operator sees when it refuses to start, and what no client may do to it.
//!
//! Each test runs the real binary on a directory and ports of its own.

#![expect(clippy::unwrap_used, reason = "a step that fails says where")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

mod common;

use common::corelog;

/// Far longer than any step takes: what is not over by then never ends.
const TIME_MAX: Duration = Duration::from_secs(60);

fn data_dir(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("corelog-serve-{test}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&path));
    path
}

/// A running node; killed where the test gives up on it.
struct Node {
    child: Child,
    kafka: String,
    admin: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn command(data_dir: &Path, settings: &[&str]) -> Command {
    let mut command = corelog();
    command.args(["serve", "--shards", "1", "--listen", "127.0.0.1:0", "--data-dir"]);
    command.arg(data_dir).args(["--set", "admin.listen=127.0.0.1:0"]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn spawn(data_dir: &Path, settings: &[&str]) -> Child {
    command(data_dir, settings).spawn().unwrap()
}

fn start(data_dir: &Path, settings: &[&str]) -> Node {
    let mut child = spawn(data_dir, settings);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let field = |name: &str| {
        let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
        found.map(str::to_owned).unwrap_or_default()
    };
    Node { kafka: field("kafka="), admin: field("admin="), child }
}

impl Node {
    fn stop(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        ended(&mut self.child)
    }

    fn metric(&self, name: &str) -> f64 {
        let mut page = String::new();
        let mut admin = TcpStream::connect(&self.admin).unwrap();
        admin.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        admin.read_to_string(&mut page).unwrap();
        let lines = page.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.trim().parse::<f64>().ok()).sum()
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

fn ended(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the process ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// A frame of a request with an empty client id.
fn frame(api: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    request.extend(api.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    request.extend(0_i16.to_be_bytes());
    request.extend(body);
    let mut frame = i32::try_from(request.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(request);
    frame
}

fn answer(client: &mut TcpStream) -> Vec<u8> {
    let mut size = [0; 4];
    client.read_exact(&mut size).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(size)).unwrap()];
    client.read_exact(&mut answer).unwrap();
    answer
}

/// Metadata v1 of one topic: creates it.
fn create_by_name(client: &mut TcpStream, topic: &str) {
    let mut body = 1_i32.to_be_bytes().to_vec();
    body.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
    body.extend(topic.as_bytes());
    client.write_all(&frame(3, 1, &body)).unwrap();
    answer(client);
}

/// Fetch v4 of the start of a topic that waits for ever for more than there can be.
fn endless_poll(topic: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for number in [-1, i32::MAX, i32::MAX, i32::MAX] {
        body.extend(number.to_be_bytes());
    }
    body.push(0);
    body.extend(1_i32.to_be_bytes());
    body.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
    body.extend(topic.as_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend(0_i32.to_be_bytes());
    body.extend(0_i64.to_be_bytes());
    body.extend(i32::MAX.to_be_bytes());
    frame(1, 4, &body)
}

#[test]
fn a_refused_data_directory_ends_the_process_and_names_the_file() {
    let check = |name: &str, file: &str, bytes: &[u8]| {
        let data_dir = data_dir(name);
        let node = start(&data_dir, &[]);
        create_by_name(&mut TcpStream::connect(&node.kafka).unwrap(), "orders");
        assert!(node.stop().success());
        let path = data_dir.join(file);
        std::fs::write(&path, bytes).unwrap();
        // With it, the node would do without what is damaged.
        std::fs::remove_file(data_dir.join("coordinator/metadata-snapshot")).unwrap();
        // Twice: what was found wrong must not be forgotten by the attempt.
        for _ in 0..2 {
            let mut refused = spawn(&data_dir, &[]);
            let status = ended(&mut refused);
            let mut said = String::new();
            refused.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            assert!(!status.success(), "{file}: {said}");
            let directory = file.split('/').next().unwrap();
            assert!(said.contains(&format!("corelog: {directory}")), "{file}: {said}");
            assert!(!said.contains("panicked"), "{file}: {said}");
            assert!(!said.contains("has ended"), "the reason comes first: {file}: {said}");
        }
        assert!(data_dir.join("topics/orders-0").exists(), "{file}: the topic stays where it is");
        drop(std::fs::remove_dir_all(&data_dir));
    };
    check("meta", "meta.properties", b"");
    check("lost-metadata", "coordinator/00000000000000000000.log", b"");
    check("damaged-metadata", "coordinator/00000000000000000000.log", &[7; 600]);
    // All that is left of it could be Kafka's, and what stands beside it cannot.
    check("cut-meta", "meta.properties", b"version=1\ncluster.id=x\nnode.id=1\n");
}

#[test]
fn a_service_manager_is_told_when_the_node_serves_and_when_it_stops() {
    let data_dir = data_dir("notify");
    std::fs::create_dir_all(&data_dir).unwrap();
    let path = data_dir.join("notify.socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIME_MAX)).unwrap();
    let mut command = command(&data_dir.join("data"), &[]);
    let mut child = command.env("NOTIFY_SOCKET", &path).spawn().unwrap();
    let heard = || {
        let mut buffer = [0; 64];
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    };
    assert_eq!(heard(), "READY=1");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let kafka = line.split_whitespace().find_map(|word| word.strip_prefix("kafka=")).unwrap();
    let node = Node { kafka: kafka.to_owned(), admin: String::new(), child };
    create_by_name(&mut TcpStream::connect(&node.kafka).unwrap(), "orders");
    assert!(node.stop().success());
    assert_eq!(heard(), "STOPPING=1");
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn clients_that_leave_with_long_polls_under_way_are_not_kept() {
    let data_dir = data_dir("leave");
    let node = start(&data_dir, &[]);
    let mut client = TcpStream::connect(&node.kafka).unwrap();
    create_by_name(&mut client, "orders");
    for _ in 0..3 {
        let mut leaving = TcpStream::connect(&node.kafka).unwrap();
        // More than may be under way, so that the node has stopped reading when the client goes.
        leaving.write_all(&endless_poll("orders").repeat(100)).unwrap();
        wait_until("served", || node.metric("corelog_connections{") >= 2.0);
        leaving.shutdown(Shutdown::Both).unwrap();
    }
    wait_until("all but one gone", || node.metric("corelog_connections{") <= 1.0);
    drop(client);
    assert!(node.stop().success());
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn a_client_cannot_fill_the_memory_with_requests_behind_a_long_poll() {
    let data_dir = data_dir("memory");
    let node = start(&data_dir, &[]);
    let mut client = TcpStream::connect(&node.kafka).unwrap();
    create_by_name(&mut client, "orders");
    client.write_all(&endless_poll("orders")).unwrap();
    client.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    // DeleteTopics that names nothing real, 8 MiB each.
    let name = [b'x'; 32_000];
    let count: i32 = 262;
    let mut body = count.to_be_bytes().to_vec();
    for _ in 0..count {
        body.extend(32_000_i16.to_be_bytes());
        body.extend(name);
    }
    body.extend(1_000_i32.to_be_bytes());
    let request = frame(20, 1, &body);
    let taken = (0..16).take_while(|_| client.write_all(&request).is_ok()).count();
    assert!(taken < 8, "{taken} requests of {} bytes were taken in", request.len());
    drop(client);
    assert!(node.stop().success());
    drop(std::fs::remove_dir_all(&data_dir));
}

/// Produce v3 of one batch to partition 0; the error it is answered with.
fn produce(client: &mut TcpStream, topic: &str, batch: &[u8]) -> i16 {
    let mut body = (-1_i16).to_be_bytes().to_vec();
    body.extend((-1_i16).to_be_bytes());
    body.extend(30_000_i32.to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
    body.extend(topic.as_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend(0_i32.to_be_bytes());
    body.extend(i32::try_from(batch.len()).unwrap().to_be_bytes());
    body.extend(batch);
    client.write_all(&frame(0, 3, &body)).unwrap();
    let answer = answer(client);
    // Correlation id, one topic and its name, one partition and its index.
    let at = 4 + 4 + 2 + topic.len() + 4 + 4;
    i16::from_be_bytes(answer[at..at + 2].try_into().unwrap())
}

#[test]
fn a_disk_below_its_floor_takes_no_records_and_the_node_goes_on() {
    const KAFKA_STORAGE_ERROR: i16 = 56;
    let data_dir = data_dir("floor");
    let floor = format!("disk.floor.bytes={}", i64::MAX);
    let node = start(&data_dir, &[&floor]);
    wait_until("seen", || node.metric("corelog_disk_below_floor") > 0.0);
    let mut client = TcpStream::connect(&node.kafka).unwrap();
    create_by_name(&mut client, "orders");
    assert_eq!(produce(&mut client, "orders", &[0; 70]), KAFKA_STORAGE_ERROR);
    assert!(node.stop().success());
    let node = start(&data_dir, &["disk.floor.bytes=0"]);
    let mut client = TcpStream::connect(&node.kafka).unwrap();
    assert_ne!(produce(&mut client, "orders", &[0; 70]), KAFKA_STORAGE_ERROR);
    assert!(node.stop().success());
    drop(std::fs::remove_dir_all(&data_dir));
}

/// Appends a line to a topic with the command line, which waits for its ack.
fn produce_line(node: &Node, topic: &str) {
    let mut child = corelog()
        .args(["produce", topic, "-b", &node.kafka])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a line\n").unwrap();
    assert!(child.wait().unwrap().success());
}

/// A copy of a data directory that no node runs on.
fn copy_of(data_dir: &Path) -> PathBuf {
    let copy = data_dir.with_extension("copy");
    drop(std::fs::remove_dir_all(&copy));
    assert!(Command::new("cp").arg("-r").args([data_dir, &copy]).status().unwrap().success());
    copy
}

#[test]
fn log_verify_reports_what_a_data_directory_has_lost_as_a_whole() {
    let data_dir = data_dir("census");
    let node = start(&data_dir, &[]);
    for topic in ["orders", "refunds"] {
        create_by_name(&mut TcpStream::connect(&node.kafka).unwrap(), topic);
        produce_line(&node, topic);
    }
    assert!(node.stop().success());
    let check = |edit: &dyn Fn(&Path), expected: &[&str]| {
        let copy = copy_of(&data_dir);
        edit(&copy);
        let verified = corelog().args(["log", "verify"]).arg(&copy).output().unwrap();
        let said = String::from_utf8_lossy(&verified.stdout).into_owned();
        for words in expected {
            assert!(said.contains(words), "{words}: {said}");
        }
        let code = if expected.is_empty() { 0 } else { 5 };
        assert_eq!(verified.status.code(), Some(code), "{said}");
        drop(std::fs::remove_dir_all(&copy));
    };
    let remove =
        |at: &'static str| move |copy: &Path| std::fs::remove_dir_all(copy.join(at)).unwrap();
    let rename = |copy: &Path, from: &str, to: &str| {
        std::fs::rename(copy.join(from), copy.join(to)).unwrap();
    };
    let flip = |copy: &Path, at: &str| {
        let mut bytes = std::fs::read(copy.join(at)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(copy.join(at), bytes).unwrap();
    };
    check(&|_| {}, &[]);
    check(&remove("topics/orders-0"), &["topics/orders-0: missing, with offsets 0 to 0"]);
    check(&remove("topics"), &["topics/orders-0: missing", "topics/refunds-0: missing"]);
    check(&remove("coordinator"), &["coordinator: no log of metadata"]);
    check(
        &remove("checkpoints"),
        &["checkpoints: no checkpoint; what was acknowledged is not known"],
    );
    let identity = |copy: &Path| std::fs::remove_file(copy.join("meta.properties")).unwrap();
    check(&identity, &["meta.properties: missing; the node does not start"]);
    let empty = |copy: &Path| {
        remove("checkpoints")(copy);
        std::fs::create_dir(copy.join("checkpoints")).unwrap();
    };
    check(
        &|copy| {
            empty(copy);
            remove("topics/orders-0")(copy);
            flip(copy, "topics/refunds-0/00000000000000000000.log");
        },
        &[
            "checkpoints: no checkpoint",
            "topics/orders-0: missing; without its checkpoint it is not known whether it held",
            "for want of a checkpoint the next start cuts its log here",
        ],
    );
    check(
        &|copy| {
            identity(copy);
            remove("checkpoints")(copy);
            remove("topics")(copy);
        },
        &["meta.properties: missing", "topics/orders-0: missing", "checkpoints: no checkpoint"],
    );
    check(
        &|copy| {
            rename(copy, "topics/orders-0", "topics/x");
            rename(copy, "topics/refunds-0", "topics/orders-0");
            rename(copy, "topics/x", "topics/refunds-0");
        },
        &[
            "topics/orders-0: partition.metadata names topic ",
            "topics/refunds-0: partition.metadata",
        ],
    );
    check(
        &|copy| rename(copy, "topics/orders-0", "topics/bills-0"),
        &["topics/orders-0: missing, with offsets 0 to 0", "topics/bills-0: of no topic"],
    );
    check(
        &|copy| std::fs::write(copy.join("topics/orders-0/partition.metadata"), b"?").unwrap(),
        &["topics/orders-0: partition.metadata names no topic"],
    );
    check(&|copy| flip(copy, "meta.properties"), &["meta.properties: "]);
    check(
        &|copy| {
            let epochs = copy.join("topics/orders-0/leader-epoch-checkpoint");
            std::fs::remove_file(&epochs).unwrap();
            std::fs::create_dir(&epochs).unwrap();
        },
        &["leader-epoch-checkpoint: a directory, where a file belongs"],
    );
    check(
        &|copy| {
            for entry in std::fs::read_dir(copy.join("checkpoints")).unwrap() {
                flip(copy, entry.unwrap().path().to_str().unwrap());
            }
        },
        &["nor can its other copy"],
    );
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn log_verify_says_what_to_do_about_what_it_found() {
    let data_dir = data_dir("remedies");
    let node = start(&data_dir, &[]);
    create_by_name(&mut TcpStream::connect(&node.kafka).unwrap(), "orders");
    produce_line(&node, "orders");
    assert!(node.stop().success());
    let check = |edits: &[&dyn Fn(&Path)], expected: &[&str]| {
        let copy = copy_of(&data_dir);
        edits.iter().for_each(|edit| edit(&copy));
        let verified = corelog().args(["log", "verify"]).arg(&copy).output().unwrap();
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        let next = said.lines().find_map(|line| line.strip_prefix("next: ")).unwrap();
        let places: Vec<_> = expected.iter().map(|words| next.find(words)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{said}");
        let is_only = next.split("; ").count() == expected.len();
        assert!(is_only || expected.contains(&"everything but"), "{said}");
        drop(std::fs::remove_dir_all(&copy));
    };
    let identity = |copy: &Path| std::fs::remove_file(copy.join("meta.properties")).unwrap();
    let partition = |copy: &Path| std::fs::remove_dir_all(copy.join("topics/orders-0")).unwrap();
    let batch = |copy: &Path| {
        let path = copy.join("topics/orders-0/00000000000000000000.log");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[64] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    };
    check(&[&identity], &["does not start without"]);
    check(&[&partition], &["put a missing partition back"]);
    check(&[&identity, &partition], &["does not start without", "put a missing partition back"]);
    check(&[&batch], &["everything but"]);
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn the_directory_of_another_node_is_refused_and_its_next_start_is_as_clean_as_its_stop() {
    let data_dir = data_dir("other");
    assert!(start(&data_dir, &[]).stop().success());
    let (code, said) = refusal(&data_dir, &["node.id=2"]);
    assert_eq!(code, Some(15), "{said}");
    assert!(said.contains("this directory belongs to another node"), "{said}");
    let said = log_of(start(&data_dir, &[]), "-TERM");
    assert!(said.contains("last_stop=\"clean\""), "{said}");
    drop(std::fs::remove_dir_all(&data_dir));
}

/// Makes a pipe that nobody writes to.
fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// What becomes of a start.
enum Start {
    Serves,
    Refuses,
}

#[test]
fn a_pipe_in_place_of_a_file_is_named_and_not_waited_for() {
    let data_dir = data_dir("pipes");
    let node = start(&data_dir, &[]);
    create_by_name(&mut TcpStream::connect(&node.kafka).unwrap(), "orders");
    assert!(node.stop().success());
    let check = |file: &str, outcome: Start| {
        let copy = copy_of(&data_dir);
        let path = copy.join(file);
        std::fs::remove_file(&path).unwrap();
        pipe(&path);
        let said = match outcome {
            Start::Serves => log_of(start(&copy, &[]), "-TERM"),
            Start::Refuses => {
                let (code, said) = refusal(&copy, &[]);
                assert_eq!(code, Some(15), "{file}: {said}");
                assert!(!path.metadata().unwrap().is_file(), "{file}: it is left alone");
                said
            }
        };
        assert!(said.contains(&format!("{file}: a pipe")), "{file}: {said}");
        assert!(said.contains("where a file belongs"), "{file}: {said}");
        drop(std::fs::remove_dir_all(&copy));
    };
    check("meta.properties", Start::Refuses);
    check("clean-stop", Start::Refuses);
    check("coordinator/00000000000000000000.log", Start::Refuses);
    // Without it all records are replayed; and one partition does not keep the others from being served.
    check("coordinator/metadata-snapshot", Start::Serves);
    check("topics/orders-0/partition.metadata", Start::Serves);
    let config = data_dir.join("config.toml");
    pipe(&config);
    for (args, code) in [(["serve", "--config"], 2), (["config", "check"], 6)] {
        let output = corelog().args(args).arg(&config).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains("config.toml: a pipe, where a file belongs\nnext: "), "{said}");
    }
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn a_configuration_comes_from_a_pipe_that_is_open_and_no_more_is_read_than_one_may_have() {
    let check = |path: &str| {
        let mut command = corelog();
        command.args(["config", "check", path]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = check("/dev/stdin");
    child.stdin.take().unwrap().write_all(b"node.id = 7\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("/dev/stdin:1"), "{output:?}");
    let output = check("/dev/zero").wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "/dev/zero: more than the 1048576 bytes that a configuration may have\nnext: ";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_stop_at_any_moment_of_a_start_ends_it() {
    let data_dir = data_dir("early");
    for shards in ["1", "2", "4"] {
        for moment in ["starting the cores", "metadata recovered", "listening", "logs recovered"] {
            let mut command = corelog();
            command.args(["serve", "--shards", shards, "--listen", "127.0.0.1:0", "--data-dir"]);
            command.arg(&data_dir).args(["--set", "admin.listen=127.0.0.1:0"]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let mut said =
                BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
            assert!(said.any(|line| line.contains(moment)), "{shards} {moment}");
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            // It ends when the process does, and must not be full before.
            let rest = std::thread::spawn(move || said.collect::<Vec<_>>());
            let mut node = Node { child, kafka: String::new(), admin: String::new() };
            let status = ended(&mut node.child);
            let rest = rest.join().unwrap();
            assert_eq!(status.code(), Some(0), "{shards} {moment}: {rest:?}");
        }
    }
    drop(std::fs::remove_dir_all(&data_dir));
}

/// What a start that is refused says, and its exit code.
fn refusal(data_dir: &Path, settings: &[&str]) -> (Option<i32>, String) {
    let mut refused = spawn(data_dir, settings);
    let status = ended(&mut refused);
    let mut said = String::new();
    refused.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    (status.code(), said)
}

#[test]
fn a_second_node_on_a_directory_is_told_of_the_first_though_the_port_is_taken_too() {
    let data_dir = data_dir("second");
    let node = start(&data_dir, &[]);
    let listeners = format!("listeners={}", node.kafka);
    let (code, said) = refusal(&data_dir, &[&listeners]);
    assert_eq!(code, Some(12), "{said}");
    let expected = format!("{}: locked by process {}", data_dir.display(), node.child.id());
    assert!(said.contains(&expected), "{said}");
    assert!(node.stop().success());
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn the_directory_of_another_program_is_refused_and_left_as_it_is() {
    let check = |name: &str, files: &[(&str, &str)], expected: &str| {
        let data_dir = data_dir(name);
        std::fs::create_dir_all(&data_dir).unwrap();
        for (file, text) in files {
            std::fs::write(data_dir.join(file), text).unwrap();
        }
        let (code, said) = refusal(&data_dir, &[]);
        assert_eq!(code, Some(15), "{said}");
        assert!(said.contains(expected) && said.contains("data.dir"), "{said}");
        for (file, text) in files {
            assert_eq!(std::fs::read_to_string(data_dir.join(file)).unwrap(), *text);
        }
        assert_eq!(std::fs::read_dir(&data_dir).unwrap().count(), files.len(), "{name}");
        drop(std::fs::remove_dir_all(&data_dir));
    };
    let plain = "version=1\ncluster.id=x\nnode.id=1\n";
    check("plain", &[("meta.properties", plain)], "Apache Kafka");
    let kafkas = "#\n#Sun Nov 29 22:06:06 UTC 2026\ncluster.id=x\nnode.id=1\nversion=1\n";
    check("kafkas", &[("meta.properties", kafkas), ("bootstrap.checkpoint", "")], "Apache Kafka");
    check("home", &[("thesis.txt", "mine")], "`thesis.txt` is in it");
}

/// What a node logs until it has stopped.
fn log_of(mut node: Node, end: &str) -> String {
    let pid = node.child.id().to_string();
    assert!(Command::new("kill").args([end, &pid]).status().unwrap().success());
    ended(&mut node.child);
    let mut said = String::new();
    node.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

#[test]
fn the_log_tells_what_was_found_and_how_it_ended_and_calls_nothing_a_warning_that_is_none() {
    let data_dir = data_dir("log");
    let check = |topic: &str, end: &str, expected: &[&str]| {
        let node = start(&data_dir, &[]);
        let mut client = TcpStream::connect(&node.kafka).unwrap();
        create_by_name(&mut client, topic);
        let said = log_of(node, end);
        for words in expected {
            assert!(said.contains(words), "{words:?} is missing in {said}");
        }
        assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    };
    let stopped = ["stopping; ", "connections are closed", "logs are closed", "stopped cleanly"];
    let dir = data_dir.display().to_string();
    check(
        "orders",
        "-TERM",
        &[&["corelog starts", &dir, "new", "127.0.0.1", "ready"][..], &stopped].concat(),
    );
    check("refunds", "-KILL", &["last_stop=\"clean\"", "topics=1 partitions=1", "logs recovered"]);
    check("orders", "-TERM", &["last_stop=\"unclean", "topics=2 partitions=2", "offline=0"]);
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn a_client_that_needs_a_group_is_named_in_the_log_once() {
    let data_dir = data_dir("groups");
    let node = start(&data_dir, &[]);
    let mut client = TcpStream::connect(&node.kafka).unwrap();
    for _ in 0..5 {
        client.write_all(&frame(10, 0, b"\0\x07billing")).unwrap();
        answer(&mut client);
    }
    let said = log_of(node, "-TERM");
    assert_eq!(said.matches("consumer groups are not supported yet").count(), 1, "{said}");
    assert!(said.contains("billing"), "{said}");
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn options_that_are_wrong_are_told_by_the_program_with_what_to_do() {
    let data_dir = data_dir("wrong-options");
    let check = |settings: &[&str], expected: &str| {
        let (code, said) = refusal(&data_dir, settings);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.starts_with("corelog: ") && said.contains(expected), "{said}");
        said
    };
    let said = check(&["num.partition=3"], "did you mean num.partitions");
    assert!(said.trim_end().lines().last().unwrap().starts_with("next: "), "{said}");
    assert!(!data_dir.exists());
    // The flag would hold over these.
    for (value, expected) in [("/a,/b", "one directory only"), ("", "the value is empty")] {
        let mut serve = corelog();
        let output = serve.args(["serve", "--set"]).arg(format!("data.dir={value}")).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn the_ready_line_names_every_listener_and_first_the_one_to_connect_to() {
    let data_dir = data_dir("listeners");
    let mut serve = corelog();
    serve.args(["serve", "--shards", "1", "--set", "admin.listen=none", "--data-dir"]);
    serve.arg(&data_dir).args(["--set", "listeners=IN://127.0.0.1:0,OUT://127.0.0.1:0"]);
    let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let field = |name: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap_or_default()
    };
    let (kafka, listeners) = (field("kafka="), field("listeners="));
    let all: Vec<&str> = listeners.split(',').collect();
    assert!(all.len() == 2 && all[0] == kafka && all[0] != all[1], "{line}");
    for address in all {
        create_by_name(&mut TcpStream::connect(address).unwrap(), "orders");
    }
    let node = Node { kafka: kafka.to_owned(), admin: String::new(), child };
    assert!(node.stop().success());
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn the_environment_may_name_the_file_and_the_brokers() {
    let data_dir = data_dir("environment");
    std::fs::create_dir_all(&data_dir).unwrap();
    let file = data_dir.join("corelog.toml");
    std::fs::write(&file, "num.partitions = \"many\"\n").unwrap();
    let serve = corelog().arg("serve").env("CORELOG_CONFIG", &file).output().unwrap();
    let said = String::from_utf8_lossy(&serve.stderr).into_owned();
    assert_eq!(serve.status.code(), Some(2), "{said}");
    assert!(said.contains("corelog.toml:1: num.partitions"), "{said}");
    let node = start(&data_dir.join("data"), &[]);
    let client = corelog().arg("apis").env("CORELOG_BOOTSTRAP_SERVER", &node.kafka).output();
    assert_eq!(client.unwrap().status.code(), Some(0));
    assert!(node.stop().success());
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn config_check_refuses_what_serve_would_refuse() {
    let data_dir = data_dir("config-check");
    std::fs::create_dir_all(&data_dir).unwrap();
    let file = data_dir.join("corelog.toml");
    let check = |text: &str, expected: &str| {
        std::fs::write(&file, text).unwrap();
        let checked = corelog().args(["config", "check"]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert_eq!(checked.status.code(), Some(1), "{text}: {said}");
        assert!(said.contains(expected), "{text}: {said}");
        let mut serve = corelog();
        let data_dir = data_dir.join("data");
        let served = serve.args(["serve", "--config"]).arg(&file).arg("-d").arg(&data_dir).output();
        assert_eq!(served.unwrap().status.code(), Some(2), "{text}");
        assert!(!data_dir.exists(), "{text}: what is refused touches nothing");
    };
    check("trace.filter = \"infos\"", "corelog.toml:1: trace.filter = infos: must be a level");
    // Reserved: nobody's resolver may have an address for it (RFC 6761).
    let nowhere = "max.connections.per.ip.overrides = \"nowhere.invalid:5\"\n";
    check(
        nowhere,
        "corelog.toml:1: max.connections.per.ip.overrides = nowhere.invalid: cannot be resolved",
    );
    // The first data core has the port of the one listener, and every machine has a first.
    let overlap = "[[listeners]]\nname = \"A\"\nbind = \"127.0.0.1:19000\"\nadvertise = \"core\"\n\
                   [[listeners]]\nname = \"B\"\nbind = \"127.0.0.1:19001\"\n";
    if std::thread::available_parallelism().unwrap().get() > 1 {
        check(overlap, "listener A and listener B: both would listen on port 19001");
    }
    drop(std::fs::remove_dir_all(&data_dir));
}

#[test]
fn the_doctor_makes_no_data_directory() {
    let data_dir = data_dir("doctor");
    std::fs::create_dir_all(&data_dir).unwrap();
    let asked = data_dir.join("not/yet");
    let checked = corelog().args(["doctor", "--machine", "-d"]).arg(&asked).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    let expected = format!("{}: would be made; {}: ", asked.display(), data_dir.display());
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains("MiB free"), "{said}");
    assert_eq!(std::fs::read_dir(&data_dir).unwrap().count(), 0);
    drop(std::fs::remove_dir_all(&data_dir));
}
