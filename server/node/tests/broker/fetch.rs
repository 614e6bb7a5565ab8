//! Fetch: what is visible, when it is answered, how much it carries, and what is refused (FE).

use std::time::{Duration, Instant};

use record::{Codec, LeaderEpoch, Offset, TopicId};
use wire::ErrorCode;
use wire::fetch::{FetchRequest, FetchResponse};

use crate::support::{
    Client, Node, Topic, batch, batch_of, fetch_of, fetched, offsets_of, plain, produce_of,
    produced, record, values_of,
};

/// A wait that no test sits through: it ends early or the test fails.
const LONG_MS: i32 = 20_000;
const LONG: Duration = Duration::from_millis(LONG_MS as u64);

fn topic_and_client() -> (Client, Topic) {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    (client, topic)
}

/// The bytes of records in each partition of an answer.
fn sizes(answer: &FetchResponse<'_>) -> Vec<usize> {
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| partition.records.inline().len()).collect()
}

#[test]
fn every_version_carries_records_and_the_ends_of_the_log() {
    let (mut client, topic) = topic_and_client();
    client.append(&topic, 0, &batch(&["a", "b"]));
    for version in 4..=18 {
        let frame = client.call(version, &fetch_of(&topic, &[(0, 0)]));
        let answer = fetched(&frame);
        assert_eq!(answer.error_code, ErrorCode::None, "v{version}");
        assert_eq!(values_of(answer.records.inline()), ["a", "b"]);
        assert_eq!((answer.high_watermark, answer.last_stable_offset), (Offset(2), Offset(2)));
        assert_eq!(answer.log_start_offset.0, if version >= 5 { 0 } else { -1 });
        assert_eq!(answer.aborted_transactions, None);
    }
}

#[test]
fn a_reader_of_committed_records_gets_an_empty_list_of_aborted_ones() {
    let (mut client, topic) = topic_and_client();
    client.append(&topic, 0, &batch(&["a"]));
    let request = FetchRequest { isolation_level: 1, ..fetch_of(&topic, &[(0, 0)]) };
    let frame = client.call(12, &request);
    let answer = fetched(&frame);
    assert_eq!(answer.aborted_transactions, Some(Vec::new()));
    assert_eq!(values_of(answer.records.inline()), ["a"]);
}

#[test]
fn a_fetch_inside_a_batch_is_given_the_whole_batch() {
    let (mut client, topic) = topic_and_client();
    client.append(&topic, 0, &batch(&["0", "1", "2"]));
    client.append(&topic, 0, &batch(&["3", "4"]));
    for codec in Codec::ALL {
        let base = client.append(&topic, 0, &batch_of(codec, &[record(0, b"x"), record(0, b"y")]));
        let whole = client.read_from(&topic, 0, base);
        assert_eq!(client.read_from(&topic, 0, base + 1), whole, "{codec}");
    }
    for (from, first) in [(0, 0), (1, 0), (2, 0), (3, 3), (4, 3)] {
        let bytes = client.read_from(&topic, 0, from);
        assert_eq!(bytes[..8], i64::to_be_bytes(first), "from {from}");
    }
}

#[test]
fn the_end_is_empty_and_beyond_it_is_out_of_range() {
    let (mut client, topic) = topic_and_client();
    client.append(&topic, 0, &batch(&["a", "b"]));
    for (from, expected) in [
        (2, ErrorCode::None),
        (3, ErrorCode::OffsetOutOfRange),
        (i64::MAX, ErrorCode::OffsetOutOfRange),
        (-1, ErrorCode::OffsetOutOfRange),
        (i64::MIN, ErrorCode::OffsetOutOfRange),
    ] {
        let frame = client.call(12, &fetch_of(&topic, &[(0, from)]));
        let answer = fetched(&frame);
        assert_eq!(answer.error_code, expected, "from {from}");
        assert!(answer.records.inline().is_empty());
    }
}

#[test]
fn topics_and_partitions_that_are_not_there_have_their_own_codes() {
    let (mut client, topic) = topic_and_client();
    let unknown = Topic { name: "no-such-topic".into(), id: TopicId([9; 16]) };
    for (topic, version, partition, expected) in [
        (&unknown, 4, 0, ErrorCode::UnknownTopicOrPartition),
        (&unknown, 12, 0, ErrorCode::UnknownTopicOrPartition),
        (&unknown, 13, 0, ErrorCode::UnknownTopicId),
        (&unknown, 18, 0, ErrorCode::UnknownTopicId),
        (&topic, 12, 1, ErrorCode::UnknownTopicOrPartition),
        (&topic, 13, 1, ErrorCode::UnknownTopicOrPartition),
        (&topic, 13, -1, ErrorCode::UnknownTopicOrPartition),
    ] {
        let frame = client.call(version, &fetch_of(topic, &[(partition, 0)]));
        let answer = fetched(&frame);
        assert_eq!(answer.error_code, expected, "v{version} partition {partition}");
        assert_eq!(answer.high_watermark, Offset(-1));
    }
}

#[test]
fn a_leader_epoch_must_be_the_current_one_or_none() {
    let (mut client, topic) = topic_and_client();
    for (version, epoch, expected) in [
        (9, -1, ErrorCode::None),
        (9, 0, ErrorCode::None),
        (12, 1, ErrorCode::UnknownLeaderEpoch),
        (18, i32::MAX, ErrorCode::UnknownLeaderEpoch),
    ] {
        let mut request = fetch_of(&topic, &[(0, 0)]);
        request.topics[0].partitions[0].current_leader_epoch = LeaderEpoch(epoch);
        let frame = client.call(version, &request);
        assert_eq!(fetched(&frame).error_code, expected, "v{version} epoch {epoch}");
    }
}

#[test]
fn an_unclean_start_begins_a_new_epoch_and_fences_the_old_one() {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    client.append(&topic, 0, &batch(&["before"]));
    node.kill();
    node.start_again();
    let mut client = node.connect();
    client.append(&topic, 0, &batch(&["after"]));
    let epochs: Vec<i32> = [0, 1]
        .map(|offset| {
            let bytes = client.read_from(&topic, 0, offset);
            i32::from_be_bytes(*bytes[12..].first_chunk().unwrap())
        })
        .to_vec();
    assert_eq!(epochs, [0, 1]);
    for (epoch, expected) in [
        (0, ErrorCode::FencedLeaderEpoch),
        (1, ErrorCode::None),
        (2, ErrorCode::UnknownLeaderEpoch),
    ] {
        let mut request = fetch_of(&topic, &[(0, 0)]);
        request.topics[0].partitions[0].current_leader_epoch = LeaderEpoch(epoch);
        let frame = client.call(12, &request);
        assert_eq!(fetched(&frame).error_code, expected, "epoch {epoch}");
        let mut request = crate::support::list_of(&topic, &[(0, -1)]);
        request.topics[0].partitions[0].current_leader_epoch = LeaderEpoch(epoch);
        let frame = client.call(7, &request);
        assert_eq!(crate::support::listed(&frame)[0].error_code, expected, "epoch {epoch}");
    }
    // KIP-951: who leads, and where it is, beside the error that sends a client to look for it.
    for (version, leader_id, endpoints) in
        [(9, -1, 0), (11, -1, 0), (12, 1, 0), (16, 1, 1), (18, 1, 1)]
    {
        let mut request = fetch_of(&topic, &[(0, 0)]);
        request.topics[0].partitions[0].current_leader_epoch = LeaderEpoch(0);
        let frame = client.call(version, &request);
        let answer: FetchResponse<'_> = frame.read();
        let leader = &answer.responses[0].partitions[0].current_leader;
        let known = (leader.leader_id.0, leader.leader_epoch.0);
        assert_eq!(known, (leader_id, leader_id), "v{version}");
        assert_eq!(answer.node_endpoints.len(), endpoints, "v{version}");
        for endpoint in &answer.node_endpoints {
            let port = i32::from(node.address().port());
            assert_eq!(
                (endpoint.node_id.0, &*endpoint.host, endpoint.port),
                (1, "127.0.0.1", port)
            );
        }
    }
    // FE-8: a reader whose last record is of epoch 0 and who is past its end has records that were lost.
    let mut request = fetch_of(&topic, &[(0, 2)]);
    request.topics[0].partitions[0].last_fetched_epoch = LeaderEpoch(0);
    let frame = client.call(12, &request);
    let answer = fetched(&frame);
    assert_eq!(
        (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset),
        (LeaderEpoch(0), Offset(1))
    );
    assert!(answer.records.inline().is_empty());
    // And also past the end of all there is: OFFSET_OUT_OF_RANGE would send it to the start or the end.
    request.topics[0].partitions[0].fetch_offset = Offset(100);
    let frame = client.call(12, &request);
    let answer = fetched(&frame);
    assert_eq!(
        (answer.error_code, answer.diverging_epoch.end_offset),
        (ErrorCode::None, Offset(1))
    );
    request.topics[0].partitions[0].fetch_offset = Offset(2);
    // One that read an epoch newer than all there are knows nothing that is known here.
    request.topics[0].partitions[0].last_fetched_epoch = LeaderEpoch(2);
    let frame = client.call(12, &request);
    assert_eq!(fetched(&frame).error_code, ErrorCode::OffsetOutOfRange);
}

#[test]
fn a_partition_that_is_asked_for_twice_is_read_once_from_where_it_is_asked_for_last() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 2);
    for value in ["a", "b"] {
        client.append(&topic, 0, &batch(&[value]));
        client.append(&topic, 1, &batch(&[value]));
    }
    for version in [12, 13] {
        let mut request = fetch_of(&topic, &[(0, 0), (1, 1), (0, 1)]);
        request.topics.extend(fetch_of(&topic, &[(0, 0), (0, 1)]).topics);
        let frame = client.call(version, &request);
        let answer: FetchResponse<'_> = frame.read();
        let partitions: Vec<_> =
            answer.responses.iter().flat_map(|topic| &topic.partitions).collect();
        let values: Vec<_> = partitions
            .iter()
            .map(|read| (read.partition_index.0, values_of(read.records.inline())))
            .collect();
        assert_eq!(values, [(0, vec!["b".to_owned()]), (1, vec!["b".to_owned()])], "v{version}");
        assert_eq!(answer.responses.len(), 1);
    }
}

/// As many waiters as a partition takes would leave none to others.
#[test]
fn a_partition_that_is_asked_for_sixty_thousand_times_waits_once() {
    let node = Node::start(2, &[]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    let request = FetchRequest { max_wait_ms: LONG_MS, ..fetch_of(&topic, &[(0, 0); 60_000]) };
    let mut greedy: Vec<Client> = (0..3).map(|_| node.connect()).collect();
    for greedy in &mut greedy {
        greedy.send(12, &request);
    }
    node.wait_for_metric("corelog_fetches_parked", |parked| parked == 3);
    let mut reader = node.connect();
    reader.send(12, &FetchRequest { max_wait_ms: LONG_MS, ..fetch_of(&topic, &[(0, 0)]) });
    node.wait_for_metric("corelog_fetches_parked", |parked| parked == 4);
    client.append(&topic, 0, &batch(&["a"]));
    for client in greedy.iter_mut().chain([&mut reader]) {
        let frame = client.receive(12).unwrap();
        assert_eq!(values_of(fetched(&frame).records.inline()), ["a"]);
    }
}

#[test]
fn a_fetch_that_waits_is_woken_by_an_append() {
    let node = Node::start(1, &[]);
    let mut writer = node.connect();
    let topic = Topic::create(&mut writer, 1);
    let mut reader = node.connect();
    for round in 0..10 {
        let started = Instant::now();
        reader.send(12, &FetchRequest { max_wait_ms: LONG_MS, ..fetch_of(&topic, &[(0, round)]) });
        node.wait_for_metric("corelog_fetches_parked", |parked| parked == 1);
        writer.append(&topic, 0, &batch(&["wake"]));
        let frame = reader.receive(12).unwrap();
        assert_eq!(offsets_of(fetched(&frame).records.inline()), [round]);
        assert!(started.elapsed() < LONG);
    }
}

#[test]
fn a_fetch_waits_until_there_are_min_bytes() {
    let node = Node::start(1, &[]);
    let mut writer = node.connect();
    let topic = Topic::create(&mut writer, 1);
    let mut reader = node.connect();
    let records = plain(1000);
    let min_bytes = records.len() as i32 * 3;
    let started = Instant::now();
    let request = FetchRequest { max_wait_ms: LONG_MS, min_bytes, ..fetch_of(&topic, &[(0, 0)]) };
    reader.send(12, &request);
    node.wait_for_metric("corelog_fetches_parked", |parked| parked == 1);
    for _ in 0..3 {
        writer.append(&topic, 0, &records);
    }
    let frame = reader.receive(12).unwrap();
    assert_eq!(offsets_of(fetched(&frame).records.inline()), [0, 1, 2]);
    assert!(started.elapsed() < LONG);
}

#[test]
fn a_fetch_is_answered_empty_when_its_time_is_over_and_not_before() {
    let (mut client, topic) = topic_and_client();
    let wait = Duration::from_millis(150);
    let started = Instant::now();
    let frame = client.call(12, &FetchRequest { max_wait_ms: 150, ..fetch_of(&topic, &[(0, 0)]) });
    assert!(started.elapsed() >= wait, "{:?}", started.elapsed());
    let answer = fetched(&frame);
    assert_eq!((answer.error_code, answer.high_watermark), (ErrorCode::None, Offset(0)));
    assert!(answer.records.inline().is_empty());
}

#[test]
fn too_few_bytes_are_sent_when_the_time_is_over() {
    let (mut client, topic) = topic_and_client();
    client.append(&topic, 0, &batch(&["little"]));
    let request =
        FetchRequest { max_wait_ms: 100, min_bytes: 1 << 20, ..fetch_of(&topic, &[(0, 0)]) };
    let frame = client.call(12, &request);
    assert_eq!(values_of(fetched(&frame).records.inline()), ["little"]);
}

#[test]
fn what_is_there_or_wrong_is_answered_at_once() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 2);
    client.append(&topic, 0, &batch(&["there"]));
    let wait = |request| FetchRequest { max_wait_ms: LONG_MS, ..request };
    let mut fenced = fetch_of(&topic, &[(0, 1), (1, 0)]);
    fenced.topics[0].partitions[1].current_leader_epoch = LeaderEpoch(5);
    let started = Instant::now();
    for request in [
        wait(fetch_of(&topic, &[(1, 0), (0, 0)])),
        wait(fetch_of(&topic, &[(1, 0), (9, 0)])),
        wait(fetch_of(&topic, &[(1, 0), (0, 2)])),
        wait(fenced),
        FetchRequest { min_bytes: 0, ..wait(fetch_of(&topic, &[(1, 0)])) },
        // The minimum is capped by the maximum.
        FetchRequest { min_bytes: i32::MAX, max_bytes: 10, ..wait(fetch_of(&topic, &[(0, 0)])) },
        wait(FetchRequest { topics: Vec::new(), ..fetch_of(&topic, &[]) }),
        FetchRequest { max_wait_ms: -1, ..fetch_of(&topic, &[(1, 0)]) },
    ] {
        client.call(12, &request);
    }
    assert!(started.elapsed() < LONG);
}

/// What comes later would bring no more: as in Kafka the limit of the partition counts as filled.
#[test]
fn a_batch_that_does_not_fit_is_no_reason_to_wait() {
    let (mut client, topic) = topic_and_client();
    let records = plain(10_000);
    for _ in 0..2 {
        client.append(&topic, 0, &records);
    }
    let fits = records.len() as i32;
    let read = |client: &mut Client, bytes_max, min_bytes, max_wait_ms| {
        let mut request = fetch_of(&topic, &[(0, 0)]);
        request.topics[0].partitions[0].partition_max_bytes = bytes_max;
        let frame = client.call(12, &FetchRequest { min_bytes, max_wait_ms, ..request });
        offsets_of(fetched(&frame).records.inline())
    };
    let started = Instant::now();
    assert_eq!(read(&mut client, fits + 5000, fits + 5000, LONG_MS), [0]);
    assert_eq!(read(&mut client, fits + 5000, fits + 1, LONG_MS), [0]);
    assert!(started.elapsed() < LONG);
    // More than the partition may bring is waited for, though more is there.
    let (started, wait) = (Instant::now(), Duration::from_millis(150));
    assert_eq!(read(&mut client, fits + 5000, fits + 5001, 150), [0]);
    assert!(started.elapsed() >= wait, "{:?}", started.elapsed());
}

#[test]
fn a_fetch_that_reads_to_the_end_of_a_segment_does_not_wait_for_more_than_there_is_in_the_next() {
    let mut client = Node::shared().connect();
    let topic = Topic::create_with(&mut client, 1, &[("segment.bytes", "1048576")]);
    let records = plain(600_000);
    for _ in 0..2 {
        client.append(&topic, 0, &records);
    }
    let min_bytes = records.len() as i32 + 1;
    let started = Instant::now();
    let request = FetchRequest { max_wait_ms: LONG_MS, min_bytes, ..fetch_of(&topic, &[(0, 0)]) };
    let frame = client.call(12, &request);
    assert_eq!(offsets_of(fetched(&frame).records.inline()), [0]);
    assert!(started.elapsed() < LONG);
}

#[test]
fn the_first_batch_goes_whole_whatever_the_limits_and_the_rest_keeps_to_them() {
    // Of its own: where others leave their answers lying, everybody's are smaller.
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create_with(&mut client, 3, &[("max.message.bytes", "4194304")]);
    let (large, small) = (plain(2 << 20), plain(100));
    client.append(&topic, 1, &large);
    client.append(&topic, 1, &small);
    client.append(&topic, 2, &small);
    let sizes_of = |client: &mut Client, max_bytes, partition_max_bytes, from: &[(i32, i64)]| {
        let mut request = FetchRequest { max_bytes, ..fetch_of(&topic, from) };
        for partition in &mut request.topics[0].partitions {
            partition.partition_max_bytes = partition_max_bytes;
        }
        sizes(&client.call(12, &request).read())
    };
    let all = [(0, 0), (1, 0), (2, 0)];
    let (big, little) = (large.len(), small.len());
    for (max_bytes, partition_max, from, expected) in [
        (1024, 1024, &all[..], &[0, big, 0][..]),
        (1024, 1 << 20, &all, &[0, big, 0]),
        (50 << 20, 1024, &all, &[0, big, little]),
        (50 << 20, 1 << 20, &all, &[0, big, little]),
        (50 << 20, 4 << 20, &all, &[0, big + little, little]),
        (1, 1, &[(2, 0), (1, 0)], &[little, 0]),
        (0, 0, &[(2, 0)], &[little]),
        (-1, -1, &[(2, 0)], &[little]),
        (i32::MAX, i32::MAX, &[(2, 0), (1, 1)], &[little, little]),
    ] {
        let found = sizes_of(&mut client, max_bytes, partition_max, from);
        assert_eq!(found, expected, "max_bytes={max_bytes} partition_max_bytes={partition_max}");
    }
}

#[test]
fn batches_are_never_cut() {
    let (mut client, topic) = topic_and_client();
    let records = plain(1000);
    for _ in 0..5 {
        client.append(&topic, 0, &records);
    }
    let one = records.len() as i32;
    for (limit, count) in [(one, 1), (one * 2 - 1, 1), (one * 2, 2), (one * 5 - 1, 4), (one * 9, 5)]
    {
        let mut request = fetch_of(&topic, &[(0, 0)]);
        request.topics[0].partitions[0].partition_max_bytes = limit;
        let by_partition = client.call(12, &request);
        assert_eq!(offsets_of(fetched(&by_partition).records.inline()).len(), count);
        let request = FetchRequest { max_bytes: limit, ..fetch_of(&topic, &[(0, 0)]) };
        let by_request = client.call(12, &request);
        assert_eq!(offsets_of(fetched(&by_request).records.inline()).len(), count);
    }
}

#[test]
fn a_reader_that_leaves_takes_its_wait_along() {
    let (mut client, topic) = topic_and_client();
    for _ in 0..50 {
        let mut reader = Node::shared().connect();
        reader.send(12, &FetchRequest { max_wait_ms: LONG_MS, ..fetch_of(&topic, &[(0, 0)]) });
    }
    client.append(&topic, 0, &batch(&["still served"]));
    assert_eq!(values_of(&client.read_from(&topic, 0, 0)), ["still served"]);
}

#[test]
fn answers_name_partitions_in_the_order_of_the_request() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 4);
    for partition in 0..4 {
        client.append(&topic, partition, &batch(&[&format!("p{partition}")]));
    }
    let frame = client.call(13, &fetch_of(&topic, &[(2, 0), (9, 0), (0, 0), (3, 1), (1, 0)]));
    let answer: FetchResponse<'_> = frame.read();
    let found: Vec<_> = answer.responses[0]
        .partitions
        .iter()
        .map(|data| (data.partition_index.0, values_of(data.records.inline()).concat()))
        .collect();
    let expected = [(2, "p2"), (9, ""), (0, "p0"), (3, ""), (1, "p1")];
    assert_eq!(found, expected.map(|(index, value)| (index, value.to_owned())));
}

#[test]
fn records_that_left_the_cache_are_read_from_disk_as_they_were() {
    let (mut client, topic) = topic_and_client();
    // 24 MiB against the 8 MiB of cache that these nodes have.
    let records = plain(1 << 19);
    for round in 0..48 {
        let frame = client.call(9, &produce_of(&topic, &[(0, &records)]));
        assert_eq!(produced(&frame).base_offset, Offset(round));
    }
    for offset in [0, 1, 20, 47] {
        let bytes = client.read_from(&topic, 0, offset);
        assert_eq!(bytes[..8], offset.to_be_bytes());
        assert_eq!(bytes[16..records.len()], records[16..]);
    }
}

#[test]
fn any_negative_leader_epoch_means_that_the_client_knows_none() {
    let (mut client, topic) = topic_and_client();
    client.append(&topic, 0, &batch(&["a"]));
    let mut request = fetch_of(&topic, &[(0, 0)]);
    request.topics[0].partitions[0].current_leader_epoch = LeaderEpoch(-5);
    request.topics[0].partitions[0].last_fetched_epoch = LeaderEpoch(-5);
    let frame = client.call(13, &request);
    let answer = fetched(&frame);
    assert_eq!(answer.error_code, ErrorCode::None);
    assert_eq!(values_of(answer.records.inline()), ["a"]);
}
