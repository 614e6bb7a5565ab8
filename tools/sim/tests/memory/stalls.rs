//! A core or a disk that stands still costs those who need it, and nobody else anything.

use std::time::Duration;

use sim::platform::NetworkPace;
use wire::ErrorCode;
use wire::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::describe_log_dirs::DescribeLogDirsRequest;
use wire::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, PartitionAsked, TopicAsked,
};
use wire::fetch::FetchRequest;
use wire::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::produce::ProduceRequest;

use crate::client::{Client, Heard, Topic, VERSION, ends_of, fetch_of, produce_of, produced, read};
use crate::node::{Node, batch};
use crate::world::World;

/// A disk holds so many batches of [`LARGE_BYTES`] in memory for a partition that it does not write.
const FILLING: i64 = 67;
const LARGE_BYTES: usize = 1_000_000;

/// Much sooner than anything gives up.
const AT_ONCE: Duration = Duration::from_secs(1);

#[test]
fn what_was_sent_to_a_core_that_stands_still_stays_counted_after_its_clients_have_left() {
    let large = batch(900_000);
    check_stays_counted(move |client, topic, partition| {
        client.send_batch(topic, partition, &large);
    });
    // The others do not exist: the other core is asked for one.
    let many = 40_000;
    check_stays_counted(move |client, topic, partition| {
        let partitions = std::iter::once(partition).chain(10..many);
        client.send(7, &ends_of(topic, partitions));
    });
    check_stays_counted(move |client, topic, partition| {
        let partitions = std::iter::once(partition).chain(10..many);
        client.send(11, &fetch_of(topic, partitions));
    });
}

/// Two clients send a request that takes more than half of the memory for requests, and leave.
fn check_stays_counted(send: impl Fn(&mut Client, Topic, i32) + 'static) {
    World::run(|world| async move {
        let node = Node::start(&world, 2, &["request.memory.bytes=1048576"]).await;
        let (topic, on) = node.topic("orders", 2).await;
        world.stand_still(1);
        let mut leaving: Vec<_> = (0..2).map(|_| node.connect(0)).collect();
        leaving.iter_mut().for_each(|client| send(client, topic, on[1]));
        world.sleep(AT_ONCE).await;
        drop(leaving);
        world.sleep(Duration::from_secs(30)).await;
        let mut other = node.connect(0);
        other.send_batch(topic, on[0], &batch(900_000));
        let early = world.within(Duration::from_secs(20), other.hear()).await;
        assert_eq!(early, None, "the bound is passed twice, and there is room for more");
        world.go_on(1);
        assert_eq!(other.produced().await, (ErrorCode::None, 0));
        node.stop().await;
    });
}

#[test]
fn a_partition_whose_disk_stands_still_stops_no_other_and_appends_nothing_too_late() {
    World::run(|world| async move {
        let node = Node::start(&world, 2, &[]).await;
        let (topic, on) = node.topic_of("orders", 4).await;
        let [slow, quick] = on[1][..] else { panic!("not two partitions a core: {on:?}") };
        world.disk().hold(&format!("orders-{slow}/"));
        // As much as a log holds in memory.
        let large = batch(LARGE_BYTES);
        let mut filling = node.connect(0);
        for _ in 0..FILLING {
            let request = produce_of(topic, &[slow], &large);
            filling.send(VERSION, &ProduceRequest { acks: 0, ..request });
        }
        world.sleep(AT_ONCE).await;
        let mut waiting = node.connect(0);
        let request = produce_of(topic, &[slow, quick], &large);
        waiting.send(VERSION, &ProduceRequest { timeout_ms: 5000, ..request });
        world.sleep(AT_ONCE).await;
        let mut other = node.connect(0);
        other.send_batch(topic, quick, &batch(100));
        let Some(Heard::Frame(answer)) = world.within(AT_ONCE, other.hear()).await else {
            panic!("an append waits for the disk of another partition");
        };
        assert_eq!(produced(&answer)[0], (ErrorCode::None, 1));
        let Some(Heard::Frame(answer)) = world.within(AT_ONCE * 4, waiting.hear()).await else {
            panic!("an append waits for longer than its request allows");
        };
        assert_eq!(produced(&answer), [(ErrorCode::RequestTimedOut, -1), (ErrorCode::None, 0)]);
        world.disk().release();
        world.sleep(AT_ONCE).await;
        assert_eq!(other.append(topic, slow, &batch(100)).await, (ErrorCode::None, 67));
        node.stop().await;
    });
}

/// Who leaves while waiting leaves nothing behind that takes effect later.
#[test]
fn a_request_that_waits_for_memory_ends_with_its_client() {
    World::run(|world| async move {
        let node = Node::start(&world, 1, &["request.memory.bytes=1048576"]).await;
        let topic = node.connect(0).create("orders", 2).await;
        world.disk().hold("orders-0/");
        let large = batch(LARGE_BYTES);
        let mut filling = node.connect(0);
        for _ in 0..FILLING {
            let request = produce_of(topic, &[0], &large);
            filling.send(VERSION, &ProduceRequest { acks: 0, ..request });
        }
        world.sleep(AT_ONCE).await;
        // They wait for room in the log, and keep what they hold.
        let mut holding: Vec<_> = (0..2).map(|_| node.connect(0)).collect();
        holding.iter_mut().for_each(|client| client.send_batch(topic, 0, &large));
        world.sleep(AT_ONCE).await;
        let mut leaving = node.connect(0);
        leaving.send_batch(topic, 1, &batch(100_000));
        let early = world.within(AT_ONCE, leaving.hear()).await;
        assert_eq!(early, None, "there is room for more than the bound");
        drop(leaving);
        world.sleep(Duration::from_secs(20)).await;
        world.disk().release();
        for client in &mut holding {
            assert_eq!(client.produced().await.0, ErrorCode::None);
        }
        assert_eq!(node.connect(0).append(topic, 1, &batch(100)).await, (ErrorCode::None, 0));
        node.stop().await;
    });
}

#[test]
fn an_append_that_waits_for_room_ends_with_its_client() {
    check_ends_with_its_client(0);
    // By way of another core.
    check_ends_with_its_client(1);
}

fn check_ends_with_its_client(owner: usize) {
    World::run(move |world| async move {
        let node = Node::start(&world, 2, &[]).await;
        let (topic, on) = node.topic("orders", 2).await;
        let slow = on[owner];
        world.disk().hold(&format!("orders-{slow}/"));
        let large = batch(LARGE_BYTES);
        let mut filling = node.connect(u16::try_from(owner).unwrap());
        for _ in 0..FILLING {
            let request = produce_of(topic, &[slow], &large);
            filling.send(VERSION, &ProduceRequest { acks: 0, ..request });
        }
        world.sleep(AT_ONCE).await;
        let mut leaving = node.connect(0);
        for _ in 0..3 {
            let request = produce_of(topic, &[slow], &large);
            leaving.send(VERSION, &ProduceRequest { timeout_ms: 600_000, ..request });
        }
        world.sleep(AT_ONCE).await;
        let held = "corelog_request_memory_bytes";
        assert!(node.metric(held).await > 0, "nothing waits");
        drop(leaving);
        world.sleep(Duration::from_secs(30)).await;
        assert_eq!(node.metric(held).await, 0, "who has left is waited for");
        world.disk().release();
        world.sleep(AT_ONCE).await;
        let appended = node.connect(0).append(topic, slow, &batch(100)).await;
        assert_eq!(appended, (ErrorCode::None, FILLING), "nothing of it was appended");
        node.stop().await;
    });
}

#[test]
fn a_client_that_has_ended_its_half_is_told_of_each_partition_by_itself() {
    World::run(|world| async move {
        let node = Node::start(&world, 2, &[]).await;
        let (topic, on) = node.topic_of("orders", 4).await;
        let (full, good, far) = (on[0][0], on[0][1], on[1][0]);
        for stalled in [full, far] {
            world.disk().hold(&format!("orders-{stalled}/"));
        }
        let large = batch(LARGE_BYTES);
        for (core, stalled) in [(0, full), (1, far)] {
            let mut filling = node.connect(core);
            for _ in 0..FILLING {
                let request = produce_of(topic, &[stalled], &large);
                filling.send(VERSION, &ProduceRequest { acks: 0, ..request });
            }
            world.sleep(AT_ONCE).await;
            drop(filling);
        }
        let mut leaving = node.connect(0);
        // The other core's log has no room, and this core's has.
        let request = produce_of(topic, &[far, good], &large);
        leaving.send(VERSION, &ProduceRequest { timeout_ms: 600_000, ..request });
        world.sleep(AT_ONCE).await;
        // Half of it is the other core's already when there is no sense in beginning the rest.
        let request = produce_of(topic, &[far, full], &large);
        leaving.send(VERSION, &ProduceRequest { timeout_ms: 600_000, ..request });
        world.sleep(AT_ONCE).await;
        leaving.end_sending();
        let Heard::Frame(answer) = leaving.hear().await else { panic!("it is not answered") };
        let expected = [(ErrorCode::NotLeaderOrFollower, -1), (ErrorCode::None, 0)];
        assert_eq!(produced(&answer), expected);
        world.disk().release();
        world.sleep(AT_ONCE).await;
        let appended = node.connect(1).append(topic, far, &batch(100)).await;
        assert_eq!(appended, (ErrorCode::None, FILLING), "what was refused was appended");
        node.stop().await;
    });
}

#[test]
fn a_producer_gets_its_id_while_the_logs_of_a_new_topic_are_made() {
    World::run(|world| async move {
        let node = Node::start(&world, 1, &[]).await;
        world.disk().hold("late-0");
        let mut creating = node.connect(0);
        creating.send_creation("late", 600);
        world.sleep(AT_ONCE).await;
        assert!(world.disk().is_waited_for());
        let mut other = node.connect(0);
        other.send(4, &InitProducerIdRequest::default());
        let Some(Heard::Frame(answer)) = world.within(AT_ONCE, other.hear()).await else {
            panic!("a producer waits for the logs of a topic");
        };
        let given: InitProducerIdResponse = read(4, &answer);
        assert_eq!(given.error_code, ErrorCode::None);
        let partitions = vec![PartitionAsked::default()];
        let topics = vec![TopicAsked { topic_name: "__cluster_metadata".into(), partitions }];
        other.send(0, &DescribeQuorumRequest { topics });
        let Some(Heard::Frame(answer)) = world.within(AT_ONCE, other.hear()).await else {
            panic!("who asks for the quorum waits for the logs of a topic");
        };
        let told: DescribeQuorumResponse<'_> = read(0, &answer);
        assert_eq!(told.topics[0].partitions[0].error_code, ErrorCode::None);
        world.disk().release();
        assert!(matches!(creating.hear().await, Heard::Frame(_)));
        node.stop().await;
    });
}

#[test]
fn a_client_that_takes_no_answers_gives_back_the_memory_that_others_wait_for() {
    let pace = NetworkPace::Ragged { unread_bytes_max: 16 << 10 };
    World::run_paced(pace, |world| async move {
        let node = Node::start(&world, 1, &["request.memory.bytes=1048576"]).await;
        let (topic, on) = node.topic("orders", 1).await;
        let mut greedy = node.connect(0);
        let names: Vec<String> = (0..20_000).map(|number| format!("nowhere-{number}")).collect();
        let topics = names.iter().map(|name| MetadataRequestTopic {
            name: Some(name.as_str().into()),
            ..Default::default()
        });
        let topics = Some(topics.collect());
        let all =
            MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
        greedy.send(9, &all);
        world.sleep(AT_ONCE).await;
        let mut other = node.connect(0);
        other.send_batch(topic, on[0], &batch(900_000));
        let patience = Duration::from_secs(20);
        assert_eq!(world.within(patience, other.hear()).await, None, "there is room for more");
        let Some(Heard::Frame(answer)) = world.within(patience, other.hear()).await else {
            panic!("who takes no answers has the memory of all");
        };
        assert_eq!(produced(&answer)[0], (ErrorCode::None, 0));
        node.stop().await;
    });
}

#[test]
fn a_produce_behind_a_long_poll_has_its_whole_time_when_its_turn_comes() {
    World::run(|world| async move {
        let node = Node::start(&world, 1, &[]).await;
        let (topic, on) = node.topic("orders", 1).await;
        let mut client = node.connect(0);
        let poll = fetch_of(topic, std::iter::once(0));
        client.send(11, &FetchRequest { max_wait_ms: 3000, ..poll });
        world.disk().hold("orders-0/");
        let records = batch(100);
        let request = produce_of(topic, &on, &records);
        client.send(VERSION, &ProduceRequest { timeout_ms: 2000, ..request });
        world.sleep(Duration::from_millis(3500)).await;
        world.disk().release();
        assert!(matches!(client.hear().await, Heard::Frame(_)));
        assert_eq!(client.produced().await, (ErrorCode::None, 0));
        node.stop().await;
    });
}

#[test]
fn connections_are_looked_after_while_the_disk_does_not_say_how_much_is_free() {
    World::run(|world| async move {
        let node = Node::start(&world, 1, &["connections.max.idle.ms=20000"]).await;
        world.disk().hold_free_space();
        world.sleep(Duration::from_secs(2)).await;
        assert!(world.disk().is_waited_for());
        let mut silent = node.connect(0);
        assert_eq!(silent.hear().await, Heard::Closed);
        world.disk().release();
        node.stop().await;
    });
}

#[test]
fn deadlines_are_kept_while_the_node_stops() {
    World::run(|world| async move {
        let node = Node::start(&world, 1, &[]).await;
        let (topic, on) = node.topic("orders", 1).await;
        let mut client = node.connect(0);
        client.append(topic, on[0], &batch(100)).await;
        world.disk().hold("orders-0/");
        let records = batch(100);
        let request = produce_of(topic, &on, &records);
        client.send(VERSION, &ProduceRequest { timeout_ms: 3000, ..request });
        world.sleep(AT_ONCE).await;
        node.ask_to_stop();
        let Some(Heard::Frame(answer)) = world.within(AT_ONCE * 4, client.hear()).await else {
            panic!("an answer waits for longer than its request allows");
        };
        assert_eq!(produced(&answer)[0].0, ErrorCode::RequestTimedOut);
        world.disk().release();
        node.stop().await;
    });
}

#[test]
fn a_stop_waits_for_logs_that_are_being_opened_and_the_next_start_has_all_of_them() {
    World::run(|world| async move {
        let node = Node::start(&world, 1, &[]).await;
        world.disk().hold("late-0");
        let mut client = node.connect(0);
        client.send_creation("late", 600);
        world.sleep(AT_ONCE).await;
        assert!(world.disk().is_waited_for());
        node.ask_to_stop();
        // Longer than what is under way may take.
        world.sleep(Duration::from_secs(60)).await;
        assert!(!node.has_ended(), "the logs were called closed while one was being opened");
        world.disk().release();
        node.stop().await;

        let node = Node::start(&world, 1, &[]).await;
        let (topic, _) = node.known_topic("late").await;
        let mut client = node.connect(0);
        for partition in [0, 599] {
            let appended = client.append(topic, partition, &batch(100)).await;
            assert_eq!(appended, (ErrorCode::None, 0));
        }
        node.stop().await;
    });
}

#[test]
fn a_core_that_stands_still_holds_no_scrape_for_ever_and_readiness_not_at_all() {
    World::run(|world| async move {
        let node = Node::start(&world, 2, &[]).await;
        world.stand_still(1);
        let scrapes: Vec<_> = (0..100).map(|_| node.ask_for_page("/metrics")).collect();
        world.sleep(Duration::from_millis(100)).await;
        let ready = world.within(AT_ONCE, node.page("/ready")).await.flatten();
        assert!(ready.is_some_and(|page| page.starts_with("HTTP/1.1 200 ")));
        let late = world.within(Duration::from_secs(10), node.page("/metrics")).await.flatten();
        assert!(late.is_some_and(|page| page.starts_with("HTTP/1.1 503 ")));
        drop(scrapes);
        world.go_on(1);
        world.sleep(AT_ONCE).await;
        let page = node.page("/metrics").await;
        assert!(page.is_some_and(|page| page.starts_with("HTTP/1.1 200 ")));
        node.stop().await;
    });
}

/// P72 for answers to a few bytes: those that nobody takes keep others waiting, for a while, and are not made without end.
#[test]
fn large_answers_that_nobody_takes_are_bounded_over_all_connections() {
    let pace = NetworkPace::Ragged { unread_bytes_max: 16 << 10 };
    World::run_paced(pace, |world| async move {
        let node = Node::start(&world, 1, &[]).await;
        const NAMES: [&str; 16] =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
        for name in NAMES {
            node.connect(0).create(name, 1).await;
        }
        let resource = |name: &'static str| DescribeConfigsResource {
            resource_type: 2,
            resource_name: name.into(),
            configuration_keys: None,
        };
        let request = DescribeConfigsRequest {
            resources: NAMES.map(resource).to_vec(),
            include_synonyms: true,
            include_documentation: true,
        };
        let mut patient = node.connect(0);
        let bytes = patient.call(4, &request).await.len();
        assert!(bytes > 50_000, "{bytes}");
        let mut silent: Vec<Client> = (0..300).map(|_| node.connect(0)).collect();
        for client in &mut silent {
            (0..4).for_each(|_| client.send(4, &request));
        }
        world.sleep(AT_ONCE).await;
        patient.send(4, &request);
        let early = world.within(Duration::from_secs(20), patient.hear()).await;
        assert!(early.is_none(), "there is room for more than the bound");
        // Small answers wait for nobody; and who takes nothing is closed in the end.
        let topic = node.known_topic("a");
        assert!(world.within(AT_ONCE, topic).await.is_some());
        assert!(matches!(patient.hear().await, Heard::Frame(_)));
        drop(silent);
        node.stop().await;
    });
}

/// What is known only once the answer is made is bounded like the rest, and given back as soon.
#[test]
fn sizes_of_logs_that_nobody_takes_are_bounded_and_keep_others_waiting_for_half_a_minute_at_most() {
    let pace = NetworkPace::Ragged { unread_bytes_max: 16 << 10 };
    World::run_paced(pace, |world| async move {
        let node = Node::start(&world, 1, &[]).await;
        node.connect(0).create("wide", 2_000).await;
        let request = DescribeLogDirsRequest::default();
        let mut patient = node.connect(0);
        let bytes = patient.call(4, &request).await.len();
        assert!(bytes > 40_000, "{bytes}");
        let mut silent: Vec<Client> = (0..500).map(|_| node.connect(0)).collect();
        for client in &mut silent {
            (0..2).for_each(|_| client.send(4, &request));
        }
        world.sleep(AT_ONCE).await;
        patient.send(4, &request);
        let early = world.within(Duration::from_secs(20), patient.hear()).await;
        assert!(early.is_none(), "there is room for more than the bound");
        let late = world.within(Duration::from_secs(20), patient.hear()).await;
        assert!(matches!(late, Some(Heard::Frame(_))), "{late:?}");
        drop(silent);
        node.stop().await;
    });
}
