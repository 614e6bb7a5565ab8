//! The metadata snapshot beside its log: what is damaged, and what one of them has and the other has not.
//!
//! A snapshot that cannot be read costs nothing. One that proves that committed records are gone stops the start, for as long
//! as it lies there: passed by once, it would be believed when the log has come as far again with other records.

use std::path::{Path, PathBuf};

use record::{Batches, Found};
use wire::metadata::{MetadataRequest, MetadataResponse};

use crate::support::{Client, Node, Topic, batch, values_of};

fn snapshot_of(node: &Node) -> PathBuf {
    node.data_dir().join("coordinator/metadata-snapshot")
}

fn topic_names(client: &mut Client) -> Vec<String> {
    let frame = client.call(12, &MetadataRequest::default());
    let answer: MetadataResponse<'_> = frame.read();
    let names = answer.topics.iter().map(|topic| topic.name.as_deref().unwrap().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The metadata log loses its last batch, as to rot.
fn cut_last_batch(log: &Path) {
    let bytes = std::fs::read(log).unwrap();
    let batches = Batches::new(&bytes).take_while(|(_, found)| matches!(found, Found::Whole(_)));
    let (last, _) = batches.last().unwrap();
    let file = std::fs::File::options().write(true).open(log).unwrap();
    file.set_len(last as u64).unwrap();
}

fn remove_checkpoints(node: &Node) {
    for copy in ["a", "b"] {
        let path = node.data_dir().join(format!("checkpoints/coordinator.{copy}"));
        // One stop after one start has written one of them at least.
        let _ = std::fs::remove_file(path);
    }
}

/// A node that stopped well with topics "kept" and "gone", and lost the record of the latter.
fn node_that_lost_its_last_change() -> (Node, Topic) {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    let kept = Topic::create_named(&mut client, "kept", 1, &[]);
    client.append(&kept, 0, &batch(&["before"]));
    Topic::create_named(&mut client, "gone", 1, &[]);
    node.stop();
    cut_last_batch(&node.data_dir().join("coordinator/00000000000000000000.log"));
    (node, kept)
}

#[track_caller]
fn check_refused(node: &mut Node, words: &[&str]) {
    // Twice: what was found must not be forgotten by the attempt.
    for _ in 0..2 {
        let said = node.start_refused();
        for word in words {
            assert!(said.contains(word), "{word} is missing: {said}");
        }
    }
}

const SNAPSHOT: &str = "coordinator/metadata-snapshot";

#[test]
fn a_snapshot_ahead_of_its_log_stops_every_start_until_it_is_removed() {
    let (mut node, kept) = node_that_lost_its_last_change();
    let snapshot = snapshot_of(&node);
    check_refused(&mut node, &["checkpoints/coordinator.a and .b", SNAPSHOT, "are gone from disk"]);
    remove_checkpoints(&node);
    check_refused(
        &mut node,
        &[SNAPSHOT, "the metadata log ends at", "are gone from disk", "remove"],
    );
    let aside = std::fs::read(&snapshot).unwrap();
    std::fs::remove_file(&snapshot).unwrap();
    // Served without what is gone; the log goes on past the offset at which the snapshot ended.
    node.start_again();
    let mut client = node.connect();
    assert_eq!(topic_names(&mut client), ["kept"]);
    for name in ["new-a", "new-b", "new-c"] {
        Topic::create_named(&mut client, name, 1, &[]);
    }
    let expected = ["kept", "new-a", "new-b", "new-c"];
    for _ in 0..2 {
        node.kill();
        node.start_again();
        client = node.connect();
        assert_eq!(topic_names(&mut client), expected);
        assert_eq!(values_of(&client.read_from(&kept, 0, 0)), ["before"]);
    }
    // Not ahead any more, and still of a log that is no more.
    node.kill();
    std::fs::write(&snapshot, aside).unwrap();
    check_refused(&mut node, &[SNAPSHOT, "another batch", "are gone from disk", "remove"]);
    std::fs::remove_file(&snapshot).unwrap();
    node.start_again();
    assert_eq!(topic_names(&mut node.connect()), expected);
}

#[test]
fn a_snapshot_without_a_log_stops_the_start() {
    let (mut node, _) = node_that_lost_its_last_change();
    remove_checkpoints(&node);
    for entry in std::fs::read_dir(node.data_dir().join("coordinator")).unwrap() {
        let path = entry.unwrap().path();
        if path != snapshot_of(&node) {
            std::fs::remove_file(path).unwrap();
        }
    }
    check_refused(&mut node, &[SNAPSHOT, "the metadata log ends at 0", "are gone from disk"]);
    assert!(node.data_dir().join("topics/kept-0").exists(), "it stays where it is");
}

#[test]
fn a_snapshot_that_cannot_be_read_costs_a_longer_replay_and_nothing_else() {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create_named(&mut client, "kept", 1, &[]);
    client.append(&topic, 0, &batch(&["before"]));
    for rule in ["fail read", "fail open"] {
        node.stop();
        assert!(snapshot_of(&node).exists());
        node.set_faults(&[&format!("{rule} {SNAPSHOT}")]);
        node.start_again();
        // The next one is written over it.
        node.set_faults(&[]);
        client = node.connect();
        assert_eq!(topic_names(&mut client), ["kept"]);
        assert_eq!(values_of(&client.read_from(&topic, 0, 0)), ["before"]);
    }
    node.stop();
    let mut bytes = std::fs::read(snapshot_of(&node)).unwrap();
    bytes[20] ^= 1;
    std::fs::write(snapshot_of(&node), bytes).unwrap();
    node.start_again();
    assert_eq!(topic_names(&mut node.connect()), ["kept"]);
}

/// As version 1 was written: without the checksum of a batch.
fn turn_into_version_1(snapshot: &Path) {
    let bytes = std::fs::read(snapshot).unwrap();
    let mut body = bytes[..bytes.len() - 4].to_vec();
    body[5] = 1;
    body.drain(16..20);
    let crc = record::crc32c(&body);
    body.extend_from_slice(&crc.to_be_bytes());
    std::fs::write(snapshot, body).unwrap();
}

#[test]
fn a_snapshot_of_version_1_above_damage_of_its_log_refuses_the_start_in_words() {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    Topic::create_named(&mut client, "kept", 1, &[]);
    Topic::create_named(&mut client, "later", 1, &[]);
    node.stop();
    turn_into_version_1(&snapshot_of(&node));
    // Of a whole log it is not missed, and the next stop writes one of this version.
    node.start_again();
    assert_eq!(topic_names(&mut node.connect()), ["kept", "later"]);
    node.stop();
    let snapshot = snapshot_of(&node);
    assert_eq!(std::fs::read(&snapshot).unwrap()[5], 2);
    // A record of the first batch rots, below both checkpoints: this version's snapshot stands in for it.
    let log = node.data_dir().join("coordinator/00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    node.start_again();
    assert_eq!(topic_names(&mut node.connect()), ["kept", "later"]);
    node.stop();
    turn_into_version_1(&snapshot);
    let words = [
        "coordinator/",
        SNAPSHOT,
        "holds all records before offset",
        "format version 1",
        "not believed",
        "restore coordinator/ from a copy",
    ];
    check_refused(&mut node, &words);
}
