//! The client commands as processes against a running node: what a person and a script see.

#![expect(clippy::unwrap_used, reason = "a step that fails says where")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

const BINARY: &str = env!("CARGO_BIN_EXE_corelog");

#[path = "client/bench.rs"]
mod bench;
#[path = "client/errors.rs"]
mod errors;
#[path = "client/offline.rs"]
mod offline;
#[path = "client/progress.rs"]
mod progress;
#[path = "client/records.rs"]
mod records;

/// A node; the system ends it with us.
struct Node {
    kafka: String,
    admin: String,
    _child: Child,
}

impl Node {
    /// A node with these options, on a directory of that name.
    fn start(name: &str, settings: &[&str]) -> Self {
        let data_dir = data_dir_of(name);
        drop(std::fs::remove_dir_all(&data_dir));
        // A shell that waits for the end of its input, which is the end of this process, however that comes.
        let script = "data_dir=$1; shift; \"$0\" serve --shards 1 --listen 127.0.0.1:0 \
                      --data-dir \"$data_dir\" \"$@\" & node=$!; \
                      cat >/dev/null; kill -9 $node; rm -rf \"$data_dir\"";
        let mut child = Command::new("sh")
            .args(["-c", script, BINARY])
            .arg(data_dir)
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let field = |name: &str| {
            let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            found.unwrap().to_owned()
        };
        Self { kafka: field("kafka="), admin: field("admin="), _child: child }
    }
}

fn data_dir_of(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("corelog-{name}-{}", std::process::id()))
}

fn data_dir() -> PathBuf {
    data_dir_of("client")
}

/// The node that the tests share; each has topics of its own there.
fn node() -> &'static Node {
    static NODE: OnceLock<Node> = OnceLock::new();
    NODE.get_or_init(|| Node::start("client", &["admin.listen=none", "broker.rack=rack-7"]))
}

/// Runs a command without a node.
fn alone(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Runs a command on the node with some input.
fn with_input(args: &[&str], input: &str) -> Output {
    on(&node().kafka, args, input)
}

/// Runs a command on the node at that address with some input.
fn on(address: &str, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(BINARY)
        .args(args)
        .args(["-b", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that fails early does not read what it is given.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap()
}

/// What a command prints that must succeed.
fn told(args: &[&str]) -> String {
    ok(with_input(args, ""))
}

fn ok(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The code and the words of a command that must fail.
fn failed(output: &Output) -> (i32, String) {
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code().unwrap(), said)
}

fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn cluster_describe_tells_how_clients_reach_the_brokers() {
    let port = node().kafka.rsplit(':').next().unwrap();
    let table = told(&["cluster", "describe"]);
    let lines = words(&table);
    assert_eq!(lines[0][0], "cluster");
    let cluster_id = lines[0][1];
    assert_eq!(lines[1], ["BROKER", "HOST", "PORT", "RACK", "CONTROLLER"]);
    assert_eq!(lines[2], ["1", "127.0.0.1", port, "rack-7", "yes"]);
    assert_eq!(lines.len(), 3);
    let json = told(&["cluster", "describe", "-o", "json"]);
    let expected = format!(
        "{{\"cluster_id\":\"{cluster_id}\",\"controller\":1,\"brokers\":[{{\"broker\":1,\
         \"host\":\"127.0.0.1\",\"port\":{port},\"rack\":\"rack-7\"}}]}}\n"
    );
    assert_eq!(json, expected);
    let yaml = told(&["cluster", "describe", "-o", "yaml"]);
    let end = format!(
        "controller: 1\nbrokers:\n  - broker: 1\n    host: \"127.0.0.1\"\n    port: {port}\n    rack: rack-7\n"
    );
    assert!(yaml.starts_with("---\ncluster_id: ") && yaml.ends_with(&end), "{yaml}");
}

#[test]
fn apis_lists_what_the_broker_serves() {
    let table = told(&["apis"]);
    assert!(table.starts_with("KEY  API"), "{table}");
    let row = |name: &str| table.lines().find(|line| line.contains(name)).unwrap().to_owned();
    // What is advertised, though versions 0 to 2 are refused.
    assert!(row(" Produce ").contains("0\u{2013}13"), "{table}");
    assert!(row(" Fetch ").contains("4\u{2013}18"), "{table}");
    let json = told(&["apis", "-o", "json"]);
    let fetch = "{\"key\":1,\"name\":\"Fetch\",\"min_version\":4,\"max_version\":18,";
    assert!(json.contains(fetch), "{json}");
}

#[test]
fn offsets_finds_ends_and_times() {
    told(&["topic", "create", "offsets-test", "--partitions", "2"]);
    let produce = ["produce", "offsets-test", "--partition", "1"];
    ok(with_input(&produce, "a\nb\nc\n"));
    let ends = told(&["offsets", "offsets-test"]);
    let expected = [
        vec!["PARTITION", "EARLIEST", "LATEST", "BETWEEN"],
        vec!["0", "0", "0", "0"],
        vec!["1", "0", "3", "3"],
    ];
    assert_eq!(words(&ends), expected);
    let json = told(&["offsets", "offsets-test", "-p", "1", "-o", "json"]);
    assert!(json.contains("\"latest\":3,\"between\":3"), "{json}");
    let found = |at: &str| {
        let place = format!("--at={at}");
        let json = told(&["offsets", "offsets-test", &place, "-p", "1", "-o", "json"]);
        let offset = json.split("\"offset\":").nth(1).unwrap();
        offset.split(',').next().unwrap().to_owned()
    };
    assert_eq!(found("earliest"), "0");
    assert_eq!(found("latest"), "3");
    assert_eq!(found("-1h"), "0");
    assert_eq!(found("0"), "0");
    assert_eq!(found("2026-01-01T00:00:00Z"), "0");
    assert_eq!(found("9999-01-01"), "null");
    let newest = told(&["offsets", "offsets-test", "--at", "max-timestamp"]);
    let lines = words(&newest);
    assert_eq!(lines[1], ["0", "none", "-"]);
    assert_eq!(lines[2][0], "1");
    assert!(lines[2][2].ends_with('Z'), "{newest}");
    let (code, said) = failed(&with_input(&["offsets", "offsets-test", "-p", "7"], ""));
    assert!(code == 1 && said.contains("offsets-test-7: no such partition"), "{said}");
    let (code, said) = failed(&with_input(&["offsets", "offsets-test", "--at", "soon"], ""));
    assert!(code == 2 && said.contains("-15m"), "{said}");
    let (code, said) = failed(&with_input(&["offsets", "no-such-topic"], ""));
    assert!(code == 1 && said.contains("no-such-topic"), "{said}");
}

#[test]
fn config_explain_needs_no_node_and_helps_with_spelling() {
    let text = ok(alone(&["config", "explain", "fetch.max.bytes"]));
    for fact in ["bytes", "1024 to 2147483647", "57671680", "CORELOG_FETCH_MAX_BYTES"] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    let yaml = ok(alone(&["config", "explain", "log.dirs", "-o", "yaml"]));
    assert!(yaml.contains("key: data.dir") && yaml.contains("- log.dirs"), "{yaml}");
    let (code, said) = failed(&alone(&["config", "explain", "fetch.max.byte"]));
    assert!(code == 1 && said.contains("did you mean fetch.max.bytes?"), "{said}");
}

#[test]
fn config_check_tells_every_error_with_its_line_and_writes_nothing() {
    let file = std::env::temp_dir().join(format!("corelog-check-{}.toml", std::process::id()));
    let path = file.to_str().unwrap();
    std::fs::write(&file, "num.partitions = 3\nnode.id = -5\nfetch.max.byte = 1\n").unwrap();
    let (code, said) = failed(&alone(&["config", "check", path]));
    assert_eq!(code, 1);
    for fact in [":2: ", "node.id", ":3: ", "did you mean fetch.max.bytes"] {
        assert!(said.contains(fact), "{fact}: {said}");
    }
    std::fs::write(&file, "num.partitions = 3\n").unwrap();
    let text = ok(alone(&["config", "check", path]));
    let lines = words(&text);
    assert_eq!(lines[1], ["OPTION", "VALUE", "SET", "AT"]);
    assert_eq!(lines[2][..2], ["num.partitions", "3"]);
    assert!(lines[2][2].ends_with(".toml:1"), "{text}");
    let listeners = "[[listeners]]\nname = \"IN\"\nbind = \"127.0.0.1:0\"\nadvertised = \"in.example.org:9092\"\n\
                     advertise = \"core\"\n";
    std::fs::write(&file, listeners).unwrap();
    let text = ok(alone(&["config", "check", path]));
    for row in
        [["advertised.listeners", "IN://in.example.org:9092"], ["listeners.advertise", "IN=core"]]
    {
        assert!(words(&text).iter().any(|words| words.starts_with(&row)), "{row:?}: {text}");
    }
    let twice = "[[listeners]]\nbind = \"127.0.0.1:0\"\n".repeat(2);
    std::fs::write(&file, twice).unwrap();
    let (code, said) = failed(&alone(&["config", "check", path]));
    assert!(code == 1 && said.contains("the name stands twice"), "{said}");
    assert!(!said.contains("next:"), "an option's meaning is no help here: {said}");
    std::fs::remove_file(&file).unwrap();
    let (code, said) = failed(&alone(&["config", "check", path]));
    assert!(code == 6 && said.contains("No such file"), "{said}");
}

#[test]
fn options_of_topics_are_altered_all_or_none() {
    told(&["topic", "create", "alter-test", "-c", "segment.bytes=2097152"]);
    let value_of = |key: &str| {
        let args = ["config", "describe", "--topic", "alter-test", key];
        let table = told(&args);
        words(&table)[1].iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let alter =
        ["topic", "alter", "alter-test", "-c", "retention.ms=5000", "--reset", "segment.bytes"];
    let dry: Vec<&str> = alter.iter().copied().chain(["--dry-run"]).collect();
    assert_eq!(told(&dry), "alter-test: could be changed\n");
    assert_eq!(value_of("segment.bytes")[..3], ["segment.bytes", "2097152", "topic"]);
    assert_eq!(told(&alter), "alter-test: changed\n");
    assert_eq!(value_of("retention.ms")[..3], ["retention.ms", "5000", "topic"]);
    assert_eq!(value_of("segment.bytes")[..3], ["segment.bytes", "1073741824", "default"]);
    let wrong =
        ["topic", "alter", "alter-test", "-c", "retention.ms=6000", "-c", "segment.bytes=1"];
    let (code, said) = failed(&with_input(&wrong, ""));
    assert!(
        code == 1 && said.contains("segment.bytes") && said.contains("INVALID_CONFIG"),
        "{said}"
    );
    assert_eq!(value_of("retention.ms")[..3], ["retention.ms", "5000", "topic"]);
    let again = ["config", "alter", "--topic", "alter-test", "--reset", "retention.ms"];
    assert_eq!(told(&again), "topic alter-test: changed\n");
    let table = told(&["config", "describe", "--topic", "alter-test"]);
    assert_eq!(table, "topic alter-test: every option has its default\n");
    let (code, _) = failed(&with_input(&["topic", "alter", "alter-test"], ""));
    assert_eq!(code, 2);
}

#[test]
fn options_of_a_node_are_shown_and_altered() {
    let table = told(&["config", "describe", "--node", "1"]);
    let rack = words(&table).into_iter().find(|row| row[0] == "broker.rack").unwrap();
    assert_eq!(rack, ["broker.rack", "rack-7", "static", "at", "start"]);
    let alter = ["config", "alter", "--node", "1", "-c", "log.index.interval.bytes=8192"];
    assert_eq!(told(&alter), "node 1: changed\n");
    let row = told(&["config", "describe", "--node", "1", "log.index.interval.bytes"]);
    assert_eq!(words(&row)[1], ["log.index.interval.bytes", "8192", "node", "any", "time"]);
    told(&["config", "alter", "--node", "1", "--reset", "log.index.interval.bytes"]);
    let fixed = ["config", "alter", "--node", "1", "-c", "broker.rack=other"];
    let (code, said) = failed(&with_input(&fixed, ""));
    let expected =
        "node 1: broker.rack = other: cannot be changed while the node runs (INVALID_REQUEST)\n";
    assert!(code == 1 && said.contains(expected) && said.contains("next: set it in"), "{said}");
    for verb in [&["describe"][..], &["alter", "-c", "num.partitions=2"]] {
        let args = [&["config"], verb, &["--node", "7"]].concat();
        let (code, said) = failed(&with_input(&args, ""));
        assert!(code == 1 && said.contains("no node 7; there are: 1\n"), "{said}");
    }
    let unknown = |owner: &[&str], key: &str| {
        let args = [&["config", "describe"], owner, &[key]].concat();
        let (code, said) = failed(&with_input(&args, ""));
        assert!(code == 1 && said.contains(": unknown option\n"), "{args:?}: {said}");
        said
    };
    assert!(unknown(&["--node", "1"], "num.partition").contains("did you mean num.partitions?"));
    assert!(unknown(&["--all-nodes"], "num.partition").contains("did you mean num.partitions?"));
    unknown(&["--node", "1"], "quite.another.thing");
    told(&["topic", "create", "describe-test"]);
    let topic = ["--topic", "describe-test"];
    assert!(unknown(&topic, "retention.m").contains("did you mean retention.ms?"));
}

#[test]
fn partitions_are_added_and_never_taken() {
    told(&["topic", "create", "grow-test"]);
    let grow = |total: &'static str| ["topic", "add-partitions", "grow-test", "--total", total];
    assert_eq!(told(&grow("3")), "grow-test: changed\n");
    ok(with_input(&["produce", "grow-test", "-p", "2"], "there\n"));
    assert_eq!(told(&["consume", "grow-test", "-p", "2", "-n", "1"]), "there\n");
    let (code, said) = failed(&with_input(&grow("2"), ""));
    assert!(code == 1 && said.contains("INVALID_PARTITIONS"), "{said}");
}

#[test]
fn the_example_configuration_is_right_with_and_without_what_is_commented_out() {
    let example = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/corelog.toml");
    let text = ok(alone(&["config", "check", example.to_str().unwrap()]));
    let live = words(&text).len();
    assert!(text.contains("data.dir") && !text.contains("warning:"), "{text}");
    // A comment that begins with a key, or with a table, is an option that is switched off.
    let begins_option = |line: &&str| {
        let rest = line.strip_prefix('#').unwrap_or_default();
        rest.starts_with(|first: char| first.is_ascii_lowercase() || first == '[')
    };
    let source = std::fs::read_to_string(&example).unwrap();
    assert!(source.lines().filter(begins_option).count() > 5);
    let all = source.lines().map(|line| match begins_option(&line) {
        true => &line[1..],
        false => line,
    });
    let file = data_dir_of("example").with_extension("toml");
    std::fs::write(&file, all.collect::<Vec<_>>().join("\n")).unwrap();
    let text = ok(alone(&["config", "check", file.to_str().unwrap()]));
    assert!(words(&text).len() > live + 5, "{text}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn records_are_deleted_from_the_front() {
    told(&["topic", "create", "trim-test", "--partitions", "2"]);
    ok(with_input(&["produce", "trim-test", "-p", "0"], "a\nb\nc\n"));
    ok(with_input(&["produce", "trim-test", "-p", "1"], "d\ne\n"));
    let delete = ["records", "delete", "trim-test", "-p", "0", "--before", "1"];
    assert_eq!(words(&told(&delete)), [["PARTITION", "EARLIEST"], ["0", "1"]]);
    assert_eq!(told(&["consume", "trim-test", "-p", "0", "-n", "2"]), "b\nc\n");
    // Nothing is as old as that.
    let old = ["records", "delete", "trim-test", "--before-time=-1h", "-o", "json"];
    let expected =
        "\"partitions\":[{\"partition\":0,\"earliest\":1},{\"partition\":1,\"earliest\":0}]";
    assert!(told(&old).contains(expected));
    let (code, said) =
        failed(&with_input(&["records", "delete", "trim-test", "--before", "9"], ""));
    assert!(code == 1 && said.contains("OFFSET_OUT_OF_RANGE"), "{said}");
    assert!(said.contains("; trim-test-0 starts at 1 and ends at 3"), "{said}");
    // Everything is older than that.
    let future = ["records", "delete", "trim-test", "-p", "1", "--before-time", "9999-01-01"];
    assert_eq!(words(&told(&future))[1..], [["1", "2"]]);
    let all = told(&["records", "delete", "trim-test", "--all"]);
    assert_eq!(words(&all)[1..], [["0", "3"], ["1", "2"]]);
    let (code, _) = failed(&with_input(&["records", "delete", "trim-test"], ""));
    assert_eq!(code, 2);
}

#[test]
fn a_deletion_of_records_that_one_partition_refuses_tells_what_is_gone() {
    told(&["topic", "create", "trim-some-test", "--partitions", "3"]);
    ok(with_input(&["produce", "trim-some-test", "-p", "0"], "a\nb\nc\n"));
    ok(with_input(&["produce", "trim-some-test", "-p", "1"], "d\ne\n"));
    ok(with_input(&["produce", "trim-some-test", "-p", "2"], "f\ng\nh\ni\n"));
    let delete = ["records", "delete", "trim-some-test", "--before", "3"];
    let tried = |args: &[&str], heading: &[&str], tail: &str| {
        let output = with_input(args, "");
        assert_eq!(output.status.code(), Some(1));
        let table = String::from_utf8(output.stdout).unwrap();
        let rows = words(&table);
        assert_eq!((&rows[0][..], &rows[1..]), (heading, &[vec!["0", "3"], vec!["2", "3"]][..]));
        let said = String::from_utf8(output.stderr).unwrap();
        for fact in ["trim-some-test-1: ", "OFFSET_OUT_OF_RANGE", tail] {
            assert!(said.contains(fact), "{fact}: {said}");
        }
        let next = said.lines().last().unwrap();
        assert!(next.starts_with("next: corelog offsets") && !next.contains("--offset"), "{next}");
    };
    let dry: Vec<&str> = delete.iter().copied().chain(["--dry-run"]).collect();
    let tail = "could be cut short: 2 of 3 partitions, as shown; not 1";
    tried(&dry, &["PARTITION", "EARLIEST", "WOULD", "BE"], tail);
    assert_eq!(told(&["consume", "trim-some-test", "-p", "0", "-n", "3"]), "a\nb\nc\n");
    let tail = "; cut short: 2 of 3 partitions, as shown; not 1";
    tried(&delete, &["PARTITION", "EARLIEST"], tail);
    let ends = told(&["offsets", "trim-some-test"]);
    let expected = [["0", "3", "3", "0"], ["1", "0", "2", "2"], ["2", "3", "4", "1"]];
    assert_eq!(words(&ends)[1..], expected);
    // What is gone is gone: an earlier start is no way back, and no error.
    let earlier = ["records", "delete", "trim-some-test", "-p", "0", "--before", "1", "-o", "json"];
    let dry: Vec<&str> = earlier.iter().copied().chain(["--dry-run"]).collect();
    let starts = "\"partitions\":[{\"partition\":0,\"earliest\":3}]";
    for (args, outcome) in [(&dry[..], "could be deleted"), (&earlier[..], "deleted")] {
        let json = told(args);
        let outcome = format!("\"outcome\":\"{outcome}\"");
        assert!(json.contains(&outcome) && json.contains(starts), "{json}");
    }
}

#[test]
fn produce_puts_headers_on_every_record() {
    let produce = ["produce", "headers-test", "-H", "source=import", "--header", "empty="];
    ok(with_input(&produce, "a\nb\n"));
    let json = told(&["consume", "headers-test", "-n", "2", "-o", "json"]);
    let expected = "\"headers\":[{\"key\":\"source\",\"value\":\"import\"},{\"key\":\"empty\",\"value\":\"\"}]";
    assert_eq!(json.matches(expected).count(), 2, "{json}");
    let (code, said) = failed(&with_input(&["produce", "headers-test", "-H", "novalue"], ""));
    assert!(code == 2 && said.contains("KEY=VALUE"), "{said}");
}

#[test]
fn doctor_finds_a_node_well_and_names_what_is_wrong() {
    told(&["topic", "create", "doctor-test"]);
    let text = told(&["doctor"]);
    for fact in ["io_uring", "memlock", "nofile", "clock", "bootstrap", "this machine only", "skew"]
    {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    let data_dir = data_dir().join("doctor");
    let output = alone(&["doctor", "--machine", "-d", data_dir.to_str().unwrap(), "-o", "json"]);
    let json = String::from_utf8(output.stdout).unwrap();
    let named = "\"name\":\"data.dir\",\"verdict\":";
    assert!(json.contains(named) && json.contains("\"name\":\"disk\""), "{json}");
    assert!(!json.contains("bootstrap"), "{json}");
    // Nobody listens at port 1.
    let output = alone(&["doctor", "-b", "127.0.0.1:1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("FAILED   bootstrap") && text.contains("fix: start a node"), "{text}");
}

#[test]
fn shells_and_man_are_told_of_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = ok(alone(&["completions", shell]));
        for word in ["doctor", "describe", "bootstrap-server"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert!(ok(alone(&["man"])).contains(".TH corelog 1"));
    let dir = std::env::temp_dir().join(format!("corelog-man-{}", std::process::id()));
    ok(alone(&["man", "--dir", dir.to_str().unwrap()]));
    for page in ["corelog.1", "corelog-serve.1", "corelog-topic-create.1", "corelog-doctor.1"] {
        let text = std::fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn yaml_carries_whole_records() {
    ok(with_input(&["produce", "yaml-test", "-k", ":"], "key:yes\n"));
    let yaml = told(&["consume", "yaml-test", "-n", "1", "-o", "yaml"]);
    assert!(yaml.starts_with("---\ntopic: yaml-test\npartition: 0\noffset: 0\n"), "{yaml}");
    assert!(yaml.contains("\nkey: key\nvalue: \"yes\"\nheaders: []\n"), "{yaml}");
}
