//! A core or a disk that stands still costs those who need it, and nobody else anything.

use std::time::Duration;

use wire::ErrorCode;

use crate::node::{Node, batch};
use crate::world::World;

/// Much sooner than anything gives up.
const AT_ONCE: Duration = Duration::from_secs(1);

#[test]
fn what_was_sent_to_a_core_that_stands_still_stays_counted_after_its_clients_have_left() {
    World::run(|world| async move {
        let node = Node::start(&world, 2, &["request.memory.bytes=1048576"]).await;
        let (topic, on) = node.topic("orders", 2).await;
        world.stand_still(1);
        let large = batch(900_000);
        let mut leaving: Vec<_> = (0..2).map(|_| node.connect(0)).collect();
        leaving.iter_mut().for_each(|client| client.send_batch(topic, on[1], &large));
        world.sleep(AT_ONCE).await;
        drop(leaving);
        world.sleep(Duration::from_secs(30)).await;
        let mut other = node.connect(0);
        other.send_batch(topic, on[0], &large);
        let early = world.within(Duration::from_secs(20), other.hear()).await;
        assert_eq!(early, None, "the bound is passed twice, and there is room for more");
        world.go_on(1);
        assert_eq!(other.produced().await, (ErrorCode::None, 0));
        node.stop().await;
    });
}
