//! Errors that a newcomer meets: each says what is wrong, and its last line what to do now.

use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::*;

const REFUSED: i32 = 1;
const UNREACHABLE: i32 = 3;

/// That a command fails so, saying these words, and in its last line what to do.
fn check(address: &str, args: &[&str], input: &str, code: i32, facts: &[&str], next: &str) {
    let output = on(address, args, input);
    let (found, said) = failed(&output);
    assert_eq!(found, code, "{args:?}: {said}");
    for fact in facts {
        assert!(said.contains(fact), "{args:?}: {fact}: {said}");
    }
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("next: ") && last.contains(next), "{args:?}: {next}: {said}");
}

/// What listens at the wrong port: reads what comes, answers with `bytes` and hangs up.
fn foreign(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            drop(client.read(&mut [0; 512]));
            drop(client.write_all(bytes));
        }
    });
    address
}

/// Says something in TLS to who begins a handshake, and nothing to anybody else.
fn tls_server() -> String {
    const HANDSHAKE: u8 = 0x16;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let mut hello = [0; 512];
            // A record whose length is that of what came, with a message whose length is that of the rest.
            let count = client.read(&mut hello).unwrap_or(0);
            let is_whole = count > 9
                && hello[..2] == [HANDSHAKE, 3]
                && usize::from(u16::from_be_bytes([hello[3], hello[4]])) == count - 5
                && usize::from(u16::from_be_bytes([hello[7], hello[8]])) == count - 9;
            if is_whole {
                drop(client.write_all(&[HANDSHAKE, 3, 3, 0, 4, 14, 0, 0, 0]));
            }
        }
    });
    address
}

#[test]
fn an_address_without_a_broker() {
    let started = Instant::now();
    let list = ["topic", "list"];
    check("127.0.0.1:1", &list, "", UNREACHABLE, &["127.0.0.1:1: "], "corelog serve");
    check("no-such-host.invalid", &list, "", UNREACHABLE, &["no-such-host"], "correct the name");
    // A server that answers bytes which begin no handshake with an alert, and one that hangs up, as OpenSSL's does.
    let tls = foreign(&[0x15, 3, 1, 0, 2, 2, 0x46]);
    check(&tls, &list, "", UNREACHABLE, &["speaks TLS"], "plaintext listener");
    let tls = tls_server();
    check(&tls, &list, "", UNREACHABLE, &["speaks TLS"], "plaintext listener");
    let ssh = foreign(b"SSH-2.0-OpenSSH_9.2p1\r\n");
    check(&ssh, &list, "", UNREACHABLE, &["not Kafka's protocol"], "kafka=");
    let silent = foreign(b"");
    check(&silent, &list, "", UNREACHABLE, &["the connection ended"], "Kafka port");
    // None of them is waited for.
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn the_admin_port_is_recognised() {
    let node = Node::start("admin-port", &["admin.listen=127.0.0.1:0"]);
    check(&node.admin, &["topic", "list"], "", UNREACHABLE, &["HTTP"], "kafka=");
}

#[test]
fn a_broker_that_is_advertised_where_nobody_answers() {
    let settings = ["admin.listen=none", "advertised.listeners=PLAINTEXT://127.0.0.1:1"];
    let node = Node::start("misled", &settings);
    let offsets = ["offsets", "misled", "--timeout-ms", "5000"];
    ok(on(&node.kafka, &["topic", "create", "misled"], ""));
    let facts = ["broker 1 is advertised as 127.0.0.1:1"];
    check(&node.kafka, &offsets, "", UNREACHABLE, &facts, "corelog doctor");
}

#[test]
fn names_and_options_that_are_wrong() {
    let address = &node().kafka;
    let absent = ["consume", "errors-absent"];
    check(address, &absent, "", REFUSED, &["errors-absent"], "topic create");
    let slash = ["topic", "create", "a/b"];
    check(address, &slash, "", REFUSED, &["INVALID_TOPIC_EXCEPTION"], "letters");
    let key = ["topic", "create", "errors-config", "-c", "retention.millis=5"];
    let facts = ["INVALID_CONFIG", "retention.ms"];
    check(address, &key, "", REFUSED, &facts, "config explain");
    let value = ["topic", "create", "errors-config", "-c", "segment.bytes=1"];
    check(address, &value, "", REFUSED, &["segment.bytes", "1048576"], "config explain");
    told(&["topic", "create", "errors-there"]);
    let again = ["topic", "create", "errors-there"];
    check(address, &again, "", REFUSED, &["TOPIC_ALREADY_EXISTS"], "--if-not-exists");
    let replicas = ["topic", "create", "errors-replicas", "--replication-factor", "3"];
    check(address, &replicas, "", REFUSED, &["replica"], "ask for fewer");
    let partition = ["produce", "errors-there", "--partition", "7"];
    check(address, &partition, "a\n", REFUSED, &["errors-there-7"], "topic describe");
    let offset = ["consume", "errors-there", "--offset", "9"];
    check(address, &offset, "", REFUSED, &["offset 9 is not there"], "--offset beginning");
    let fewer = ["topic", "add-partitions", "errors-there", "--total", "1"];
    check(address, &fewer, "", REFUSED, &["INVALID_PARTITIONS"], "topic describe");
    let option = ["config", "alter", "--node", "1", "-c", "message.max.byte=1"];
    check(address, &option, "", REFUSED, &["message.max.byte"], "config explain");
}

#[test]
fn a_topic_that_is_absent_is_not_waited_for() {
    const ABSENT: &str = "errors-typo";
    let started = Instant::now();
    let facts = [ABSENT, "UNKNOWN_TOPIC_OR_PARTITION"];
    for args in [
        &["topic", "delete", ABSENT][..],
        &["topic", "alter", ABSENT, "-c", "retention.ms=5000"],
        &["topic", "add-partitions", ABSENT, "--total", "3"],
        &["topic", "describe", ABSENT],
        &["config", "describe", "--topic", ABSENT],
        &["config", "alter", "--topic", ABSENT, "--reset", "retention.ms"],
        &["records", "delete", ABSENT, "--all"],
        &["offsets", ABSENT],
    ] {
        check(&node().kafka, args, "", REFUSED, &facts, "topic create");
    }
    assert_eq!(told(&["topic", "delete", ABSENT, "--if-exists"]), "errors-typo: not there\n");
    // Each of them asks within 30 s: one that asks again until then is found.
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_record_that_is_too_large() {
    told(&["topic", "create", "errors-large", "-c", "max.message.bytes=1000"]);
    let lines = format!("a\n{}\n", "x".repeat(2000));
    let facts = ["errors-large-0", "MESSAGE_TOO_LARGE", "record is stored"];
    let produce = ["produce", "errors-large"];
    check(&node().kafka, &produce, &lines, REFUSED, &facts, "max.message.bytes=N");
}

#[test]
fn a_disk_that_is_full() {
    let node = Node::start("full", &["admin.listen=none", "disk.floor.bytes=9223372036854775807"]);
    let produce = ["produce", "orders", "--timeout-ms", "6000"];
    let facts = ["KAFKA_STORAGE_ERROR", "no record is stored"];
    // The disk is looked at every few seconds.
    let started = Instant::now();
    while on(&node.kafka, &produce, "a\n").status.success() {
        assert!(started.elapsed() < Duration::from_secs(60), "produce is not refused");
    }
    check(&node.kafka, &produce, "a\n", REFUSED, &facts, "disk is full");
}

#[test]
fn a_file_that_is_not_there() {
    let produce = ["produce", "orders", "--file", "/no/such/file"];
    check("127.0.0.1:1", &produce, "", 6, &["/no/such/file"], "correct the path");
}

#[test]
fn records_of_a_topic_that_keeps_them_are_not_deleted_and_a_dry_run_says_so() {
    told(&["topic", "create", "errors-kept", "-c", "cleanup.policy="]);
    ok(with_input(&["produce", "errors-kept"], "a\n"));
    let delete = ["records", "delete", "errors-kept", "--all"];
    let dry = [&delete[..], &["--dry-run"]].concat();
    let facts = ["topic errors-kept: cleanup.policy is empty", "POLICY_VIOLATION"];
    let next = "corelog topic alter errors-kept -c cleanup.policy=delete";
    for args in [&dry[..], &delete] {
        check(&node().kafka, args, "", REFUSED, &facts, next);
    }
    told(&["topic", "alter", "errors-kept", "-c", "cleanup.policy=delete"]);
    assert_eq!(words(&told(&delete))[1..], [["0", "1"]]);
}

#[test]
fn an_option_that_there_is_not_is_not_taken_back() {
    let address = &node().kafka;
    for topic in ["errors-reset", "errors-reset-2"] {
        told(&["topic", "create", topic, "-c", "retention.ms=5000"]);
    }
    let both = ["topic", "alter", "errors-reset", "errors-reset-2", "--reset", "retention.ms"];
    let wrong = [&both[..], &["--reset", "retention.m"]].concat();
    let facts = ["topic errors-reset: retention.m: unknown option"];
    check(address, &wrong, "", REFUSED, &facts, "did you mean retention.ms?");
    let described = told(&["topic", "describe", "errors-reset"]);
    assert!(described.contains("retention.ms"), "nothing is changed: {described}");
    let owners: [(&[&str], &str); 3] = [
        (&["--topic", "errors-reset"], "--topic errors-reset --all"),
        (&["--node", "1"], "--node 1 --all"),
        (&["--all-nodes"], "docs/operations.md"),
    ];
    for (owner, next) in owners {
        for flags in [&[][..], &["--dry-run"]] {
            let reset = ["config", "alter", "--reset", "quite.another"];
            let args = [&reset[..], owner, flags].concat();
            check(address, &args, "", REFUSED, &["quite.another: unknown option"], next);
        }
    }
    assert_eq!(told(&both), "errors-reset: changed\nerrors-reset-2: changed\n");
    // Names of Kafka's are taken too.
    told(&["config", "alter", "--node", "1", "--reset", "log.index.interval.bytes"]);
    // One of the two flags is enough, and a command line that has neither is told of both.
    let (code, said) = failed(&with_input(&["config", "alter", "--node", "1"], ""));
    assert!(code == 2 && said.contains("<--config <KEY=VALUE>|--reset <KEY>>"), "{said}");
}

#[test]
fn an_option_of_kafkas_that_does_nothing_is_refused_with_what_to_do() {
    let alter = ["config", "alter", "--node", "1", "-c", "num.io.threads=4"];
    let facts = ["num.io.threads = 4: cannot be changed"];
    check(&node().kafka, &alter, "", REFUSED, &facts, "leave num.io.threads out");
}

#[test]
fn a_name_too_like_another_is_told_from_one_that_is_none() {
    told(&["topic", "create", "errors.like"]);
    let facts = ["topic name errors_like: collides with errors.like"];
    let create = ["topic", "create", "errors_like"];
    check(&node().kafka, &create, "", REFUSED, &facts, "differs from it in more than");
}

#[test]
fn what_an_error_is_about_is_named_once() {
    for args in [
        &["topic", "delete", "errors-once"][..],
        &["topic", "alter", "errors-once", "-c", "retention.ms=5"],
        &["config", "describe", "--topic", "errors-once"],
    ] {
        let (_, said) = failed(&with_input(args, ""));
        assert!(said.starts_with("corelog: topic errors-once: does not exist ("), "{said}");
    }
}

#[test]
fn bounds_are_written_for_people() {
    let address = &node().kafka;
    let create = |flags: &[&'static str]| [&["topic", "create", "errors-bound"], flags].concat();
    let partitions = create(&["-p", "999999"]);
    let facts = ["must be 1 to 100000, or -1 for the default"];
    check(address, &partitions, "", REFUSED, &facts, "--partitions N");
    let facts = ["segment.bytes = 1: must be 1048576 to 2147483647 (INVALID_CONFIG)"];
    check(address, &create(&["-c", "segment.bytes=1"]), "", REFUSED, &facts, "config explain");
    let replicas = create(&["-r", "2"]);
    check(address, &replicas, "", REFUSED, &["must be 1, the number of nodes"], "ask for fewer");
    let (code, said) = failed(&with_input(&create(&["-p", "0"]), ""));
    assert!(code == 2 && said.contains("must be a whole number, 1 to 2147483647\n"), "{said}");
}

#[test]
fn a_flag_of_kafkas_tools_is_met_with_what_stands_for_it() {
    let (code, said) = failed(&alone(&["consume", "orders", "--group", "g"]));
    let last = said.lines().last().unwrap();
    assert!(
        code == 2 && last.starts_with("next: ") && last.contains("no consumer groups"),
        "{said}"
    );
    assert!(!said.contains("tip:"), "{said}");
}

#[test]
fn a_node_that_takes_no_more_connections_is_not_taken_for_another_program() {
    let node = Node::start("per-ip", &["admin.listen=none", "max.connections.per.ip=1"]);
    // One connection is enough for it.
    let text = ok(on(&node.kafka, &["doctor"], ""));
    assert!(text.contains("and answers") && text.contains("partitions  0 of 0"), "{text}");
    // The last connection may be counted a moment longer, and take the place of the one that is held.
    let started = Instant::now();
    let text = loop {
        let _held = std::net::TcpStream::connect(&node.kafka).unwrap();
        let output = on(&node.kafka, &["doctor"], "");
        if !output.status.success() {
            break String::from_utf8(output.stdout).unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(60), "never refused");
    };
    assert!(
        text.contains("FAILED   bootstrap") && text.contains("max.connections.per.ip"),
        "{text}"
    );
    let _held = std::net::TcpStream::connect(&node.kafka).unwrap();
    let output = on(&node.kafka, &["topic", "list"], "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() || said.contains("max.connections.per.ip"), "{said}");
}
