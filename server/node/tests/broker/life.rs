//! Starts, stops and crashes, as clients live through them (P24).

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use record::TopicId;
use wire::describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
use wire::fetch::{FetchRequest, FetchResponse};
use wire::metadata::{MetadataRequest, MetadataResponse};
use wire::produce::{ProduceRequest, ProduceResponse};
use wire::{ErrorCode, Retry};

use crate::support::{Client, Node, Topic, batch, fetch_of, fetched, produce_of, values_of};

/// Every topic's name and id.
fn topics(client: &mut Client) -> Vec<(String, TopicId)> {
    let frame = client.call(12, &MetadataRequest::default());
    let answer: MetadataResponse<'_> = frame.read();
    let topics = answer.topics.iter();
    topics.map(|topic| (topic.name.as_deref().unwrap().to_owned(), topic.topic_id)).collect()
}

fn cluster_id(client: &mut Client) -> String {
    let frame = client.call(0, &DescribeClusterRequest::default());
    frame.read::<DescribeClusterResponse<'_>>().cluster_id.into_owned()
}

/// The leader epoch that metadata tells of the topic's first partition.
fn leader_epoch(client: &mut Client) -> i32 {
    let frame = client.call(12, &MetadataRequest::default());
    frame.read::<MetadataResponse<'_>>().topics[0].partitions[0].leader_epoch.0
}

/// Several ends of a node, each before anything else happened: everything must be there after each.
fn check_ends(ends: &[fn(&mut Node)], epochs: &[i32]) {
    let mut node = Node::start(2, &["advertise=core"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 2);
    let (known, cluster) = (topics(&mut client), cluster_id(&mut client));
    let mut values = Vec::new();
    for (round, (end, epoch)) in ends.iter().zip(epochs).enumerate() {
        for acks in [1, -1] {
            let value = format!("{round}-{acks}");
            let records = batch(&[&value]);
            let request = produce_of(&topic, &[(0, &records), (1, &records)]);
            client.call(9, &ProduceRequest { acks, ..request });
            values.push(value);
        }
        end(&mut node);
        node.start_again();
        client = node.connect();
        assert_eq!(
            (topics(&mut client), cluster_id(&mut client)),
            (known.clone(), cluster.clone())
        );
        assert_eq!(leader_epoch(&mut client), *epoch, "round {round}");
        for partition in 0..2 {
            assert_eq!(values_of(&client.read_from(&topic, partition, 0)), values, "round {round}");
        }
    }
}

/// What a stop waits for requests that do not end, by default: whoever takes less waited for none.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn stops_in_a_row_lose_nothing_and_keep_the_epoch() {
    check_ends(&[Node::stop, Node::stop, Node::stop], &[0, 0, 0]);
}

#[test]
fn kills_in_a_row_lose_nothing_that_was_acknowledged_and_begin_new_epochs() {
    check_ends(&[Node::kill, Node::kill, Node::stop, Node::kill], &[1, 2, 2, 3]);
}

#[test]
fn a_node_that_is_started_and_ended_at_once_keeps_everything() {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    client.append(&topic, 0, &batch(&["kept"]));
    for end in [Node::stop, Node::stop, Node::kill, Node::kill, Node::stop] {
        end(&mut node);
        node.start_again();
    }
    assert_eq!(values_of(&node.connect().read_from(&topic, 0, 0)), ["kept"]);
}

/// What a client that never stops asking learns until its connection ends: acknowledged values, and errors.
#[derive(Default)]
struct Seen {
    acknowledged: BTreeSet<String>,
    answers: usize,
    errors: Vec<ErrorCode>,
}

/// Produces one value after the other until the connection ends, five under way at once.
fn produce_until_the_end(
    mut client: Client,
    topic: &Topic,
    name: &str,
    started: &Sender<()>,
) -> Seen {
    let mut seen = Seen::default();
    let mut sent = 0;
    'connected: loop {
        while sent < seen.answers + 5 {
            let value = format!("{name}-{sent}");
            let records = batch(&[&value]);
            if client.try_send(9, &produce_of(topic, &[(0, &records), (1, &records)])).is_err() {
                break 'connected;
            }
            sent += 1;
        }
        let Some(frame) = client.receive(9) else { break };
        let answer: ProduceResponse<'_> = frame.read();
        let codes: Vec<_> =
            answer.responses[0].partition_responses.iter().map(|one| one.error_code).collect();
        if codes == [ErrorCode::None; 2] {
            seen.acknowledged.insert(format!("{name}-{}", seen.answers));
        }
        seen.errors.extend(codes);
        seen.answers += 1;
        if seen.answers == 10 {
            started.send(()).unwrap();
        }
    }
    seen
}

/// Reads from the beginning over and over until the connection ends.
fn fetch_until_the_end(mut client: Client, topic: &Topic, started: &Sender<()>) -> Seen {
    let mut seen = Seen::default();
    let request =
        FetchRequest { max_wait_ms: 20_000, min_bytes: 5000, ..fetch_of(topic, &[(0, 0), (1, 0)]) };
    while client.try_send(12, &request).is_ok() {
        if seen.answers == 0 {
            started.send(()).unwrap();
        }
        let Some(frame) = client.receive(12) else { break };
        let answer: FetchResponse<'_> = frame.read();
        seen.errors.push(answer.error_code);
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        seen.errors.extend(partitions.map(|data| data.error_code));
        seen.answers += 1;
    }
    seen
}

fn wait_for(started: &Receiver<()>, count: usize) {
    for _ in 0..count {
        started.recv().unwrap();
    }
}

#[test]
fn clients_of_a_node_that_stops_see_retriable_errors_only_and_keep_what_was_acknowledged() {
    let mut node = Node::start(2, &["advertise=core"]);
    let topic = Topic::create(&mut node.connect(), 2);
    let (telling, started) = channel();
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for core in 0..2 {
            for index in 0..2 {
                let (client, topic, telling) =
                    (node.connect_to_core(core), &topic, telling.clone());
                let name = format!("c{core}i{index}");
                threads.push(
                    scope.spawn(move || produce_until_the_end(client, topic, &name, &telling)),
                );
            }
            let (client, topic, telling) = (node.connect_to_core(core), &topic, telling.clone());
            threads.push(scope.spawn(move || fetch_until_the_end(client, topic, &telling)));
        }
        wait_for(&started, threads.len());
        node.ask_to_stop();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    node.wait_for_end();
    for error in seen.iter().flat_map(|one| &one.errors) {
        let may_try_again = error.retry() == Retry::Safe;
        assert!(error.is_none() || may_try_again, "{error}");
    }
    node.start_again();
    let mut client = node.connect();
    for partition in 0..2 {
        let mut stored = Vec::new();
        let end = client.end_of(&topic, partition);
        while (stored.len() as i64) < end {
            stored.extend(values_of(&client.read_from(&topic, partition, stored.len() as i64)));
        }
        let stored: BTreeSet<String> = stored.into_iter().collect();
        let acknowledged = seen.iter().flat_map(|one| &one.acknowledged);
        let missing: Vec<_> = acknowledged.filter(|value| !stored.contains(*value)).collect();
        assert!(missing.is_empty(), "acknowledged and not there: {missing:?}");
    }
}

#[test]
fn a_fetch_that_waits_is_answered_by_a_node_that_stops_and_does_not_hold_it_up() {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    let mut reader = node.connect();
    reader.send(12, &FetchRequest { max_wait_ms: 25_000, ..fetch_of(&topic, &[(0, 0)]) });
    node.wait_for_metric("corelog_fetches_parked", |parked| parked == 1);
    let started = Instant::now();
    node.stop();
    let frame = reader.receive(12).unwrap();
    let answer = fetched(&frame);
    assert!(answer.error_code.is_none() || answer.error_code.retry() == Retry::Safe);
    reader.expect_closed();
    assert!(started.elapsed() < SHUTDOWN_TIMEOUT, "{:?}", started.elapsed());
}

#[test]
fn idle_clients_do_not_hold_up_a_stop() {
    let mut node = Node::start(2, &["advertise=core"]);
    let mut clients: Vec<_> = (0..20).map(|index| node.connect_to_core(index % 2)).collect();
    for client in &mut clients {
        client.expect_alive();
    }
    let started = Instant::now();
    node.stop();
    assert!(started.elapsed() < SHUTDOWN_TIMEOUT, "{:?}", started.elapsed());
    for client in &mut clients {
        client.expect_closed();
    }
}
