//! A panic outside a step of a core costs the connection or the request that it came in, and nobody else anything.

use sim::platform::Trap;
use wire::ErrorCode;

use crate::client::{Heard, end_of, ended_at};
use crate::node::{Node, batch};
use crate::world::World;

#[test]
fn a_panic_in_a_reply_closes_that_connection_and_gives_its_place_back() {
    World::run(|world| async move {
        let node = Node::start(&world, 1, &[]).await;
        let (topic, _) = node.topic("orders", 1).await;
        let before = node.metric("corelog_connections").await;
        let mut unlucky = node.connect(0);
        // The first look at the clock is the reader's, when the frame has come; this one is the reply's.
        unlucky.call(7, &end_of(topic, 0)).await;
        world.fail_after(0, Trap::Monotonic, 1);
        unlucky.send(7, &end_of(topic, 0));
        assert_eq!(unlucky.hear().await, Heard::Closed);
        assert_eq!(world.panic_count(0), 1);
        let bytes = node.connect(0).call(7, &end_of(topic, 0)).await;
        assert_eq!(ended_at(&bytes).0, ErrorCode::None);
        world.sleep(std::time::Duration::from_secs(10)).await;
        assert!(node.metric("corelog_connections").await <= before);
        node.stop().await;
    });
}

#[test]
fn a_panic_in_an_append_closes_that_connection_and_gives_its_place_back() {
    World::run(|world| async move {
        let node = Node::start(&world, 1, &[]).await;
        let (topic, _) = node.topic("orders", 1).await;
        let before = node.metric("corelog_connections").await;
        let mut unlucky = node.connect(0);
        world.fail(0, Trap::Now);
        unlucky.send_batch(topic, 0, &batch(100));
        assert_eq!(unlucky.hear().await, Heard::Closed);
        assert_eq!(world.panic_count(0), 1);
        assert_eq!(node.connect(0).append(topic, 0, &batch(100)).await, (ErrorCode::None, 0));
        world.sleep(std::time::Duration::from_secs(10)).await;
        assert!(node.metric("corelog_connections").await <= before);
        node.stop().await;
    });
}

#[test]
fn a_panic_in_a_forwarded_append_fails_that_request_and_the_next_ones_are_served() {
    World::run(|world| async move {
        let node = Node::start(&world, 2, &[]).await;
        let (topic, on) = node.topic("orders", 2).await;
        let mut unlucky = node.connect(0);
        world.fail(1, Trap::Now);
        let failed = unlucky.append(topic, on[1], &batch(100)).await;
        assert_eq!(failed, (ErrorCode::UnknownServerError, -1));
        assert_eq!(world.panic_count(1), 1);
        let appended = unlucky.append(topic, on[1], &batch(100)).await;
        assert_eq!(appended, (ErrorCode::None, 0));
        node.stop().await;
    });
}

#[test]
fn a_panic_in_a_change_of_metadata_fails_that_request_and_the_next_ones_are_made() {
    World::run(|world| async move {
        let node = Node::start(&world, 1, &[]).await;
        let mut client = node.connect(0);
        // The control executor is behind the only data core.
        world.fail(1, Trap::Now);
        let failed = client.try_create("lost", 1).await;
        assert_eq!(failed, Err(ErrorCode::UnknownServerError));
        assert_eq!(world.panic_count(1), 1);
        client.create("orders", 1).await;
        node.stop().await;
    });
}

#[test]
fn deadlines_are_kept_after_a_panic_in_looking_at_them() {
    World::run(|world| async move {
        let settings = ["connections.max.idle.ms=20000"];
        let node = Node::start(&world, 1, &settings).await;
        let mut silent = node.connect(0);
        world.sleep(std::time::Duration::from_secs(1)).await;
        world.fail(0, Trap::Monotonic);
        world.sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(world.panic_count(0), 1);
        assert_eq!(silent.hear().await, Heard::Closed, "it has been silent for too long");
        node.stop().await;
    });
}
