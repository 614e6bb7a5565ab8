//! A disk that fails, fills or stalls under one partition, on a real node: that partition says so, everything else goes on.
//!
//! The faults strike the real disk (`support/faulty.rs`). What a crash in between may do is the simulator's.

use std::time::{Duration, Instant};

use record::{Offset, PartitionIndex};
use wire::ErrorCode;
use wire::create_topics::{CreatableTopic, CreateTopicsRequest, CreateTopicsResponse};
use wire::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
};
use wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::produce::ProduceRequest;

use crate::support::{
    Client, Node, PATIENCE, Topic, batch, fetch_of, fetched, produce_of, produced, values_of,
};

/// A node of two cores, and a topic with two partitions on each that hold "before".
fn node_with_topic() -> (Node, Topic) {
    let node = Node::start(2, &[]);
    let topic = Topic::create(&mut node.connect(), 4);
    for partition in 0..4 {
        node.connect().append(&topic, partition, &batch(&["before"]));
    }
    (node, topic)
}

/// The error of a Produce of one record.
fn error_of(client: &mut Client, topic: &Topic, partition: i32, value: &str) -> ErrorCode {
    let records = batch(&[value]);
    let frame = client.call(9, &produce_of(topic, &[(partition, &records)]));
    produced(&frame).error_code
}

/// Every partition but that one takes records and gives them back, and metadata changes.
fn expect_others_served(node: &Node, topic: &Topic, but: i32) {
    let mut client = node.connect();
    for partition in (0..4).filter(|partition| *partition != but) {
        let offset = client.append(topic, partition, &batch(&["meanwhile"]));
        let read = client.read_from(topic, partition, offset);
        assert_eq!(values_of(&read), ["meanwhile"]);
    }
    let other = Topic::create(&mut client, 2);
    client.append(&other, 1, &batch(&["new"]));
}

/// Partition 3 stops for want of space and goes on: by then each log of its core, which is also partition 1's, has gone on if
/// it may. No other fault strikes any more.
fn see_another_log_resume(node: &Node, topic: &Topic) {
    let mut client = node.connect();
    node.set_faults(&[&format!("fill write {}-3/", topic.name)]);
    assert_eq!(error_of(&mut client, topic, 3, "full"), ErrorCode::KafkaStorageError);
    node.set_faults(&[]);
    wait_until_taken(&mut client, topic, 3);
}

/// A write or a sync of partition 1 fails: it is read-only until the next start, whatever the disk does later.
fn check_failing(operation: &str) {
    let (mut node, topic) = node_with_topic();
    let mut client = node.connect();
    let rule = format!("fail {operation} {}-1/", topic.name);
    node.set_faults(&[&rule]);
    assert_eq!(error_of(&mut client, &topic, 1, "lost"), ErrorCode::KafkaStorageError);
    let partition = format!("{}-1", topic.name);
    node.wait_for_log(&["ERROR", &partition, "read-only until restart", "errno 5"]);
    assert_eq!(node.metric("corelog_logs_failed"), 1);
    assert_eq!(node.metric("corelog_io_errors_total"), 1);
    expect_others_served(&node, &topic, 1);
    // What it held before can be read.
    assert_eq!(values_of(&client.read_from(&topic, 1, 0)), ["before"]);
    // Trying again would prove nothing, though it would succeed.
    node.set_faults(&[]);
    see_another_log_resume(&node, &topic);
    let records = batch(&["refused"]);
    let request = produce_of(&topic, &[(1, &records)]);
    for acks in [1, -1] {
        let frame = client.call(9, &ProduceRequest { acks, ..request.clone() });
        assert_eq!(produced(&frame).error_code, ErrorCode::KafkaStorageError);
    }
    // Nobody waits for an answer: the end of the connection says it.
    client.send(9, &ProduceRequest { acks: 0, ..request });
    client.expect_closed();
    let word = node.stop_unclean();
    assert!(word.contains(&format!("{partition}: disk failed")), "{word}");
    assert!(!word.contains(&format!("{}-3", topic.name)), "{word}");
    node.start_again();
    let mut client = node.connect();
    assert_eq!(node.metric("corelog_logs_failed"), 0);
    let offset = client.append(&topic, 1, &batch(&["after"]));
    let values = values_of(&client.read_from(&topic, 1, 0));
    assert_eq!((values.first(), values.last()), (Some(&"before".into()), Some(&"after".into())));
    // What failed may have been written; what was refused after that was not.
    assert!(offset <= 2 && !values.contains(&"refused".into()), "{values:?}");
}

#[test]
fn a_log_whose_write_fails_is_read_only_until_the_next_start_and_others_serve() {
    check_failing("write");
}

#[test]
fn a_log_whose_sync_fails_is_read_only_until_the_next_start_and_others_serve() {
    check_failing("sync");
}

#[test]
fn records_that_cannot_be_read_are_refused_while_the_disk_fails_and_no_longer() {
    let (mut node, topic) = node_with_topic();
    // What was just written is in memory: only another process has to read.
    node.stop();
    node.start_again();
    let rule = format!("fail read {}-1/", topic.name);
    node.set_faults(&[&rule]);
    let mut client = node.connect();
    let frame = client.call(12, &fetch_of(&topic, &[(1, 0)]));
    assert_eq!(fetched(&frame).error_code, ErrorCode::KafkaStorageError);
    expect_others_served(&node, &topic, 1);
    // A read that failed has changed nothing.
    assert_eq!(error_of(&mut client, &topic, 1, "after"), ErrorCode::None);
    node.set_faults(&[]);
    assert_eq!(values_of(&client.read_from(&topic, 1, 0))[0], "before");
    assert_eq!(node.metric("corelog_logs_failed"), 0);
}

#[test]
fn a_partition_whose_disk_stalls_stops_no_other_and_says_so() {
    let (node, topic) = node_with_topic();
    for operation in ["write", "sync"] {
        let rule = format!("stall {operation} {}-1/", topic.name);
        node.set_faults(&[&rule]);
        let records = batch(&["slow"]);
        let (mut patient, mut hurried) = (node.connect(), node.connect());
        let request = produce_of(&topic, &[(1, &records)]);
        patient.send(9, &request);
        let begin = Instant::now();
        let frame = hurried.call(9, &ProduceRequest { timeout_ms: 1000, ..request });
        assert_eq!(produced(&frame).error_code, ErrorCode::RequestTimedOut);
        assert!(begin.elapsed() < PATIENCE / 2);
        expect_others_served(&node, &topic, 1);
        // Consumers of what is lasting are served.
        assert_eq!(values_of(&hurried.read_from(&topic, 1, 0))[0], "before");
        let partition = format!("{}-1", topic.name);
        node.wait_for_log(&["ERROR", "the disk stands still", &partition]);
        node.wait_for_metric("corelog_logs_stalled", |count| count == 1);
        assert_eq!(node.metric("corelog_logs_failed"), 0);
        node.set_faults(&[]);
        let frame = patient.receive(9).unwrap();
        assert_eq!(produced(&frame).error_code, ErrorCode::None);
        node.wait_for_log(&["the disk goes on", &partition]);
        node.wait_for_metric("corelog_logs_stalled", |count| count == 0);
    }
    // Both records of each round were accepted: a timeout only says that nobody knew yet.
    let values = values_of(&node.connect().read_from(&topic, 1, 0));
    assert_eq!(values, ["before", "slow", "slow", "slow", "slow"]);
}

/// Produces until a record is taken.
fn wait_until_taken(client: &mut Client, topic: &Topic, partition: i32) {
    let begin = Instant::now();
    while error_of(client, topic, partition, "again") != ErrorCode::None {
        assert!(begin.elapsed() < PATIENCE, "no records are taken though there is room");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_log_that_met_a_full_disk_goes_on_when_there_is_room() {
    let (node, topic) = node_with_topic();
    let mut client = node.connect();
    let rule = format!("fill write {}-1/", topic.name);
    node.set_faults(&[&rule]);
    assert_eq!(error_of(&mut client, &topic, 1, "lost"), ErrorCode::KafkaStorageError);
    expect_others_served(&node, &topic, 1);
    node.set_faults(&[]);
    wait_until_taken(&mut client, &topic, 1);
    assert!(node.metric("corelog_logs_resumed_total") >= 1);
    let values = values_of(&client.read_from(&topic, 1, 0));
    assert_eq!((values.first(), values.last()), (Some(&"before".into()), Some(&"again".into())));
}

#[test]
fn a_disk_below_its_floor_refuses_records_only_and_takes_them_again_by_itself() {
    let node = Node::start(2, &["disk.floor.bytes=1048576"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 2);
    for value in ["a", "b"] {
        client.append(&topic, 0, &batch(&[value]));
    }
    node.set_faults(&["fill free"]);
    node.wait_for_metric("corelog_disk_below_floor", |cores| cores == 2);
    for partition in 0..2 {
        let error = error_of(&mut client, &topic, partition, "refused");
        assert_eq!(error, ErrorCode::KafkaStorageError);
    }
    // How space comes back, and what nobody has to wait for.
    assert_eq!(values_of(&client.read_from(&topic, 0, 0)), ["a", "b"]);
    let partition =
        DeleteRecordsPartition { partition_index: PartitionIndex(0), offset: Offset(1) };
    let trimmed =
        DeleteRecordsTopic { name: topic.name.as_str().into(), partitions: vec![partition] };
    let request = DeleteRecordsRequest { topics: vec![trimmed], timeout_ms: 30_000 };
    let frame = client.call(2, &request);
    let answer: DeleteRecordsResponse<'_> = frame.read();
    assert_eq!(answer.topics[0].partitions[0].error_code, ErrorCode::None);
    let other = Topic::create_with(&mut client, 2, &[("retention.bytes", "1000000")]);
    assert_eq!(deletion(&mut client, &other), ErrorCode::None);
    node.set_faults(&[]);
    wait_until_taken(&mut client, &topic, 0);
    wait_until_taken(&mut client, &topic, 1);
    assert_eq!(values_of(&client.read_from(&topic, 0, 1)), ["b", "again"]);
    node.wait_for_metric("corelog_disk_below_floor", |cores| cores == 0);
}

#[test]
fn a_log_that_cannot_be_synced_when_the_node_stops_is_named_and_the_exit_code_says_it() {
    let node_of = |settings: &[(&str, &str)]| {
        let node = Node::start(2, &["write.caching.flush.ms=60000"]);
        let topic = Topic::create_with(&mut node.connect(), 4, settings);
        node.connect().append(&topic, 1, &batch(&["before"]));
        (node, topic)
    };
    // The file of its leader epochs cannot be replaced; what it has acknowledged is on disk.
    let (mut node, topic) = node_of(&[]);
    node.set_faults(&[&format!("fail write {}-1/", topic.name)]);
    let word = node.stop_unclean();
    assert!(word.contains(&format!("{}-1: not closed", topic.name)), "{word}");
    node.set_faults(&[]);
    node.start_again();
    assert_eq!(values_of(&node.connect().read_from(&topic, 1, 0)), ["before"]);
    node.stop();
    // What it has acknowledged is not on disk.
    let (mut node, topic) = node_of(&[("write.caching", "true")]);
    node.set_faults(&[&format!("fail sync {}-1/", topic.name)]);
    let word = node.stop_unclean();
    assert!(word.contains(&format!("{}-1: acknowledged up to 1", topic.name)), "{word}");
    let is_called_clean = node.data_dir().join("clean-stop").exists();
    assert!(!is_called_clean, "offsets that clients know may be given out again");
}

/// What a node says to the creation of a topic of one partition.
fn creation(client: &mut Client, name: &str) -> ErrorCode {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
    let frame = client.call(7, &request);
    frame.read::<CreateTopicsResponse<'_>>().topics[0].error_code
}

fn deletion(client: &mut Client, topic: &Topic) -> ErrorCode {
    let state = DeleteTopicState { name: Some(topic.name.as_str().into()), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![state], ..Default::default() };
    let frame = client.call(6, &request);
    frame.read::<DeleteTopicsResponse<'_>>().responses[0].error_code
}

#[test]
fn metadata_that_met_a_full_disk_can_be_changed_again_when_there_is_room() {
    let (mut node, topic) = node_with_topic();
    let mut client = node.connect();
    node.set_faults(&["fill write coordinator/"]);
    assert_eq!(creation(&mut client, "refused"), ErrorCode::KafkaStorageError);
    node.wait_for_log(&["ERROR", "metadata is read-only until there is room again"]);
    client.append(&topic, 0, &batch(&["meanwhile"]));
    assert_eq!(creation(&mut client, "later"), ErrorCode::KafkaStorageError);
    node.set_faults(&[]);
    node.wait_for_log(&["there is room again: metadata can be changed"]);
    assert_eq!(creation(&mut client, "later"), ErrorCode::None);
    for _ in 0..2 {
        node.kill();
        node.start_again();
        client = node.connect();
        assert_eq!(creation(&mut client, "later"), ErrorCode::TopicAlreadyExists);
    }
    // What was refused is not there.
    assert_eq!(creation(&mut client, "refused"), ErrorCode::None);
    assert_eq!(values_of(&client.read_from(&topic, 0, 0)), ["before", "meanwhile"]);
}

#[test]
fn a_refused_change_that_reached_the_disk_counts_when_the_metadata_log_is_opened_again() {
    let (mut node, topic) = node_with_topic();
    let mut client = node.connect();
    node.set_faults(&["late write coordinator/"]);
    assert_eq!(creation(&mut client, "refused"), ErrorCode::KafkaStorageError);
    node.set_faults(&[]);
    // A topic and its partition.
    node.wait_for_log(&["there is room again: metadata can be changed", "found=2"]);
    // Known on every core as if it had been taken at once.
    assert_eq!(creation(&mut client, "refused"), ErrorCode::TopicAlreadyExists);
    let late = Topic { name: "refused".to_owned(), ..topic };
    for core in 0..4 {
        let mut client = node.connect();
        assert_eq!(client.append(&late, 0, &batch(&["taken"])), core);
    }
    node.kill();
    node.start_again();
    assert_eq!(node.connect().end_of(&late, 0), 4);
}

#[test]
fn a_metadata_log_that_goes_on_gives_producer_ids_while_what_it_found_is_being_opened() {
    let (node, topic) = node_with_topic();
    let mut client = node.connect();
    node.set_faults(&["late write coordinator/"]);
    assert_eq!(creation(&mut client, "refused"), ErrorCode::KafkaStorageError);
    // Its directory is made by whoever opens it, and that takes its time.
    node.set_faults(&["stall open topics/refused-0/"]);
    let begin = Instant::now();
    let next_id = |client: &mut Client| {
        let frame = client.call(4, &InitProducerIdRequest::default());
        frame.read::<InitProducerIdResponse>().error_code
    };
    while next_id(&mut client) != ErrorCode::None {
        assert!(begin.elapsed() < PATIENCE, "no ids are given");
        std::thread::sleep(Duration::from_millis(50));
    }
    node.set_faults(&[]);
    node.wait_for_log(&["there is room again: metadata can be changed", "found=2"]);
    let late = Topic { name: "refused".to_owned(), ..topic };
    assert_eq!(client.append(&late, 0, &batch(&["taken"])), 0);
}

#[test]
fn metadata_whose_disk_fails_is_read_only_until_the_next_start_and_records_flow() {
    for operation in ["write", "sync"] {
        let (mut node, topic) = node_with_topic();
        let mut client = node.connect();
        let rule = format!("fail {operation} coordinator/");
        node.set_faults(&[&rule]);
        assert_eq!(creation(&mut client, "refused"), ErrorCode::KafkaStorageError);
        node.wait_for_log(&["ERROR", "metadata is read-only until the node is restarted"]);
        // Both are looked at every second: between two looks at the one lies a look at the other.
        see_another_log_resume(&node, &topic);
        see_another_log_resume(&node, &topic);
        assert_eq!(creation(&mut client, "later"), ErrorCode::KafkaStorageError);
        client.append(&topic, 0, &batch(&["meanwhile"]));
        let word = node.stop_unclean();
        assert!(word.contains("__cluster_metadata-0: disk failed"), "{word}");
        node.start_again();
        client = node.connect();
        assert_eq!(creation(&mut client, "later"), ErrorCode::None);
        assert_eq!(values_of(&client.read_from(&topic, 0, 0)), ["before", "meanwhile"]);
    }
}

#[test]
fn a_node_whose_disk_stands_still_right_after_the_start_hears_that_it_is_to_stop() {
    let (mut node, topic) = node_with_topic();
    node.stop();
    // The copy that the stop wrote: a start writes the other first, and this one once the node is ready.
    let written_at = |copy: &&str| {
        let path = node.data_dir().join(format!("checkpoints/0.{copy}"));
        std::fs::metadata(path).and_then(|facts| facts.modified()).ok()
    };
    let last = ["a", "b"].into_iter().max_by_key(written_at).unwrap();
    node.set_faults(&[&format!("stall write checkpoints/0.{last}")]);
    node.start_again();
    node.ask_to_stop();
    node.wait_for_log(&["stopping: what was under way is answered"]);
    node.set_faults(&[]);
    node.wait_for_end();
    node.start_again();
    assert_eq!(values_of(&node.connect().read_from(&topic, 1, 0)), ["before"]);
}

#[test]
fn a_topic_that_is_offline_for_want_of_space_gives_its_space_back_when_it_is_deleted() {
    let (node, topic) = node_with_topic();
    let mut client = node.connect();
    let directory = node.data_dir().join("topics").join(format!("{}-1", topic.name));
    assert!(directory.exists());
    let place = format!("{}-1/0", topic.name);
    node.set_faults(&[&format!("fill write {place}"), &format!("fill open {place}")]);
    assert_eq!(error_of(&mut client, &topic, 1, "lost"), ErrorCode::KafkaStorageError);
    node.wait_for_log(&["ERROR", &topic.name, "offline:"]);
    assert_eq!(deletion(&mut client, &topic), ErrorCode::None);
    assert!(!directory.exists());
    let deleted = || std::fs::read_dir(node.data_dir().join("deleted")).unwrap().count();
    let begin = Instant::now();
    while deleted() > 0 {
        assert!(begin.elapsed() < PATIENCE, "the files of a deleted topic stay");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(node.metric("corelog_logs_failed"), 0);
    // The same name again is another topic.
    let again = Topic::create_named(&mut client, &topic.name, 4, &[]);
    node.set_faults(&[]);
    wait_until_taken(&mut client, &again, 1);
}
