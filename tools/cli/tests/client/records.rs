//! Records by hand: what `produce` makes of lines, and what `consume` prints of records.

use std::time::{Duration, Instant};

use super::*;

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn a_line_without_its_separator_is_refused_by_number_and_what_stands_before_it_is_stored() {
    let produce = ["produce", "separator-test", "-k", ":"];
    let (code, said) = failed(&with_input(&produce, "a:1\nb:2\nc\nd:4\n"));
    assert_eq!(code, 1);
    for fact in ["input line 3", "\":\"", "2 records are stored", "\nnext: write it KEY:VALUE"] {
        assert!(said.contains(fact), "{fact}: {said}");
    }
    assert_eq!(told(&["consume", "separator-test", "-k", ":"]), "a:1\nb:2\n");
    // An empty line has no separator either, as in Kafka's own producer.
    let (code, said) = failed(&with_input(&produce, "a:1\n\n"));
    assert!(code == 1 && said.contains("input line 2"), "{said}");
    let tab = ["produce", "separator-test", "-k", "\\t"];
    ok(with_input(&tab, "e\t5\n"));
    let (code, said) = failed(&with_input(&["produce", "separator-test", "-k", ""], ""));
    assert!(code == 2 && said.contains("empty"), "{said}");
}

#[test]
fn null_is_told_from_empty_both_ways() {
    let produce = ["produce", "null-test", "-k", ":", "--null", "NULL"];
    ok(with_input(&produce, "a:NULL\nb:\nNULL:c\n"));
    let text = told(&["consume", "null-test", "-k", ":"]);
    assert_eq!(text, "a:null\nb:\nnull:c\n");
    let text = told(&["consume", "null-test", "-k", ":", "--null", "\\N"]);
    assert_eq!(text, "a:\\N\nb:\n\\N:c\n");
    let json = told(&["consume", "null-test", "-o", "json"]);
    let values = ["\"value\":null", "\"value\":\"\"", "\"key\":null"];
    for (line, value) in json.lines().zip(values) {
        assert!(line.contains(value), "{value}: {line}");
    }
}

#[test]
fn consume_prints_the_fields_that_are_asked_for() {
    told(&["topic", "create", "print-test", "--partitions", "2"]);
    let produce = ["produce", "print-test", "-p", "1", "-k", ":", "-H", "a=1", "-H", "b="];
    ok(with_input(&produce, "k:v\n"));
    let print = |fields: &str, more: &[&str]| {
        let args = ["consume", "print-test", "-p", "1", "--print", fields];
        told(&[&args[..], more].concat())
    };
    assert_eq!(print("offset,partition,topic", &[]), "0\t1\tprint-test\n");
    let text = print("key,headers,value", &["--separator", " | "]);
    assert_eq!(text, "k | a=1,b= | v\n");
    let time = print("timestamp", &[]);
    assert!(time.starts_with("20") && time.ends_with("Z\n"), "{time}");
    let (code, said) = failed(&with_input(&["consume", "print-test", "--print", "size"], ""));
    assert!(code == 2 && said.contains("timestamp"), "{said}");
    let both = ["consume", "print-test", "--print", "key", "-k", ":"];
    assert_eq!(failed(&with_input(&both, "")).0, 2);
}

#[test]
fn a_negative_offset_counts_from_the_end_of_each_partition() {
    told(&["topic", "create", "last-test", "--partitions", "2"]);
    ok(with_input(&["produce", "last-test", "-p", "0"], "a\nb\nc\n"));
    ok(with_input(&["produce", "last-test", "-p", "1"], "d\n"));
    let last = |count: &str| {
        let text = told(&["consume", "last-test", "-O", count]);
        let mut found = lines(&text).into_iter().map(str::to_owned).collect::<Vec<_>>();
        found.sort();
        found
    };
    assert_eq!(last("-1"), ["c", "d"]);
    assert_eq!(last("-2"), ["b", "c", "d"]);
    assert_eq!(last("-100"), ["a", "b", "c", "d"]);
    assert_eq!(told(&["consume", "last-test", "-p", "0", "-O", "-2", "-n", "1"]), "b\n");
    assert_eq!(told(&["consume", "last-test", "-O", "-1h"]).lines().count(), 4);
    assert_eq!(told(&["consume", "last-test", "-O", "2100-01-01"]), "");
    let (code, said) = failed(&with_input(&["consume", "last-test", "-O", "-x"], ""));
    assert!(code == 2 && said.contains("N before the end"), "{said}");
}

#[test]
fn consume_stops_when_no_record_comes_for_the_time_allowed() {
    ok(with_input(&["produce", "idle-test"], "a\nb\n"));
    let started = Instant::now();
    let follow = ["consume", "idle-test", "--follow", "--idle-ms", "700"];
    assert_eq!(told(&follow), "a\nb\n");
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(700) && took < Duration::from_secs(20), "{took:?}");
    // Fewer than were asked for is not success.
    let args = ["consume", "idle-test", "-f", "-n", "3", "--idle-ms", "300"];
    let output = with_input(&args, "");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a\nb\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("2 of 3 records came, and none for 300 ms\nnext: "), "{said}");
    // What is there is read whole, however short the time.
    assert_eq!(told(&["consume", "idle-test", "--idle-ms", "100"]), "a\nb\n");
    // The name that it had before.
    assert_eq!(told(&["consume", "idle-test", "-n", "2", "--timeout-ms", "100"]), "a\nb\n");
}

#[test]
fn what_says_how_a_line_is_made_is_refused_beside_a_format_of_its_own() {
    for flags in [["--print", "key"], ["--key-separator", ":"], ["--null", "-"]] {
        for format in ["json", "yaml"] {
            let args = ["consume", "no-such-topic", "-o", format, flags[0], flags[1]];
            let (code, said) = failed(&with_input(&args, ""));
            assert!(code == 2 && said.contains(flags[0]), "{said}");
        }
    }
}

#[test]
fn single_records_of_many_runs_reach_more_than_one_partition() {
    told(&["topic", "create", "spread-test", "--partitions", "2"]);
    // By chance all go to one: once in 2^19 runs of this test.
    for _ in 0..20 {
        ok(with_input(&["produce", "spread-test"], "x\n"));
    }
    let text = told(&["consume", "spread-test", "--print", "partition"]);
    assert_eq!(text.lines().count(), 20);
    assert!(text.contains('0') && text.contains('1'), "{text}");
}

/// Stores one record a batch with these timestamps; -1 is none.
fn store(topic: &str, timestamps: &[i64]) {
    use std::io::Read;

    let mut stream = std::net::TcpStream::connect(&node().kafka).unwrap();
    for timestamp in timestamps {
        let mut builder = record::BatchBuilder::new(record::Codec::None);
        let timestamp = record::Timestamp(*timestamp);
        let value = Some(b"value".as_slice());
        builder.append(&record::NewRecord { timestamp, value, ..record::NewRecord::default() });
        let batch = builder.build();
        let data = wire::produce::PartitionProduceData {
            index: record::PartitionIndex(0),
            records: wire::Records::Inline(&batch),
        };
        let request = wire::produce::ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![wire::produce::TopicProduceData {
                name: topic.into(),
                partition_data: vec![data],
                ..Default::default()
            }],
            ..Default::default()
        };
        let call = wire::Call { version: 9, correlation_id: 1, client_id: None };
        stream.write_all(wire::encode_request(call, &request).unwrap().head()).unwrap();
        let mut size = [0; 4];
        stream.read_exact(&mut size).unwrap();
        let mut answer = vec![0; usize::try_from(u32::from_be_bytes(size)).unwrap()];
        stream.read_exact(&mut answer).unwrap();
    }
    let text = told(&["offsets", topic]);
    assert!(text.contains(&timestamps.len().to_string()), "{text}");
}

#[test]
fn records_without_timestamps_are_not_taken_for_old() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_millis()).unwrap();
    let old = now - 9 * 86_400_000;
    let check = |topic: &str, timestamps: &[i64], earliest: Option<&str>| {
        told(&["topic", "create", topic]);
        store(topic, timestamps);
        for more in [&["--dry-run"][..], &[]] {
            let delete = ["records", "delete", topic, "--before-time=-7d"];
            let output = with_input(&[&delete, more].concat(), "");
            match earliest {
                Some(earliest) => assert_eq!(words(&ok(output))[1..], [["0", earliest]], "{topic}"),
                None => {
                    let (code, said) = failed(&output);
                    assert!(code == 1 && said.contains("have no timestamp"), "{topic}: {said}");
                    assert!(said.contains("--before OFFSET") && said.contains("--all"), "{said}");
                    assert_eq!(told(&["consume", topic]).lines().count(), timestamps.len());
                }
            }
        }
    };
    check("age-none-test", &[-1, -1, -1], None);
    check("age-old-test", &[old, old, old], Some("3"));
    check("age-new-test", &[now, old], Some("0"));
    // Before one that is older by its time, and behind the last such.
    check("age-tail-test", &[-1, old, old, -1, -1], Some("3"));
    check("age-unordered-test", &[old, old - 5000, -1], Some("2"));
    check("age-middle-test", &[old, -1, old - 1, -1, now, -1], Some("3"));
    check("age-front-test", &[-1, -1, now], None);
    told(&["topic", "create", "age-empty-test"]);
    let empty = told(&["records", "delete", "age-empty-test", "--before-time=-7d"]);
    assert_eq!(words(&empty)[1..], [["0", "0"]]);
    let all = told(&["records", "delete", "age-none-test", "--all"]);
    assert_eq!(words(&all)[1..], [["0", "3"]]);
}
