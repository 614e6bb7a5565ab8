//! Topics whose acknowledgements do not wait for a sync (`write.caching`), as clients and operators see them.

use wire::ErrorCode;

use crate::alter_configs::edit;
use crate::support::{Client, Node, Topic, batch, values_of};
use crate::trimming::delete;

/// Resource type and operation of IncrementalAlterConfigs.
const TOPIC: i8 = 2;
const SET: i8 = 0;

/// So long that no turn of syncs comes by itself.
const NEVER: &str = "write.caching.flush.ms=60000";

fn append(client: &mut Client, topic: &Topic, values: std::ops::Range<i64>) {
    for value in values {
        assert_eq!(client.append(topic, 0, &batch(&[&value.to_string()])), value);
    }
}

fn all(range: std::ops::Range<i64>) -> Vec<String> {
    range.map(|value| value.to_string()).collect()
}

#[test]
fn acknowledged_without_a_sync_and_there_after_the_process_was_killed_twice() {
    let mut node = Node::start(1, &[NEVER]);
    let mut client = node.connect();
    let topic = Topic::create_with(&mut client, 1, &[("write.caching", "true")]);
    let before = node.metric("corelog_syncs_total");
    append(&mut client, &topic, 0..20);
    assert_eq!(node.metric("corelog_syncs_total"), before);
    let bytes: usize = (0..20).map(|value| batch(&[&value.to_string()]).len()).sum();
    assert_eq!(node.metric("corelog_unsynced_bytes"), bytes as u64, "what a power cut may take");
    assert_eq!(values_of(&client.read_from(&topic, 0, 0)), all(0..20), "visible at once");
    for _ in 0..2 {
        node.kill();
        node.start_again();
        let mut client = node.connect();
        let end = client.end_of(&topic, 0);
        assert_eq!(values_of(&client.read_from(&topic, 0, 0)), all(0..end));
        append(&mut client, &topic, end..end + 5);
    }
    assert_eq!(node.connect().end_of(&topic, 0), 30);
    node.stop();
}

#[test]
fn synced_a_little_later_without_anyone_asking() {
    let node = Node::start(1, &["write.caching.flush.ms=1", "write.caching=true"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    for value in 0..3 {
        let before = node.metric("corelog_syncs_total");
        append(&mut client, &topic, value..value + 1);
        node.wait_for_metric("corelog_syncs_total", |syncs| syncs > before);
        node.wait_for_metric("corelog_unsynced_bytes", |bytes| bytes == 0);
    }
}

#[test]
fn each_topic_has_its_own_and_it_changes_while_it_is_used() {
    let node = Node::start(1, &[NEVER, "write.caching=true"]);
    let mut client = node.connect();
    let synced = Topic::create_with(&mut client, 1, &[("write.caching", "false")]);
    let cached = Topic::create(&mut client, 1);
    append(&mut client, &cached, 0..3);
    let before = node.metric("corelog_syncs_total");
    let unsynced = node.metric("corelog_unsynced_bytes");
    append(&mut client, &synced, 0..3);
    assert_eq!(node.metric("corelog_unsynced_bytes"), unsynced, "synced when acknowledged");
    let after = node.metric("corelog_syncs_total");
    assert!(after >= before + 3, "{before} {after}");
    append(&mut client, &cached, 3..6);
    assert_eq!(node.metric("corelog_syncs_total"), after);

    let off = [("write.caching", SET, Some("false"))];
    assert_eq!(edit(&mut client, TOPIC, &cached.name, &off), ErrorCode::None);
    append(&mut client, &cached, 6..9);
    let synced_now = node.metric("corelog_syncs_total");
    assert!(synced_now >= after + 3, "{after} {synced_now}");
    let wrong = [("write.caching", SET, Some("sometimes"))];
    assert_eq!(edit(&mut client, TOPIC, &cached.name, &wrong), ErrorCode::InvalidConfig);
    assert_eq!(values_of(&client.read_from(&cached, 0, 0)), all(0..9));
}

#[test]
fn records_that_no_sync_covers_yet_can_be_deleted() {
    let mut node = Node::start(1, &[NEVER]);
    let mut client = node.connect();
    let topic = Topic::create_with(&mut client, 1, &[("write.caching", "true")]);
    append(&mut client, &topic, 0..7);
    assert_eq!(delete(&mut client, &topic, 2, &[(0, -1)]), [(ErrorCode::None, 7)]);
    append(&mut client, &topic, 7..9);
    assert_eq!(delete(&mut client, &topic, 2, &[(0, 8)]), [(ErrorCode::None, 8)]);
    node.kill();
    node.start_again();
    let mut client = node.connect();
    assert_eq!(values_of(&client.read_from(&topic, 0, 8)), all(8..9));
    node.stop();
}
