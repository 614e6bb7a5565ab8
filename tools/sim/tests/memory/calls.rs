//! The calls of one core to another: their bounds, whoever still waits for the replies.

use std::time::Duration;

use broker::Message;
use broker::calls::{ConnectionNumber, ProduceCall, Reply, Request, WaitCall, Waited, ZstdAllowed};
use broker::mesh_call::{CallId, Caller};
use broker::platform::{Mesh, MeshIndex};
use commitlog::{Executor, TaskClass};
use partition::{Acks, Isolation};
use sim::platform::{SimMesh, SimPlatform, mesh};
use sim::prng::Prng;
use wire::ErrorCode;
use wire::fetch::FetchRequest;

use crate::client::fetch_of;
use crate::node::{Node, batch};
use crate::world::World;

const OTHER: MeshIndex = MeshIndex(1);
/// More than may be under way.
const MANY: usize = 100_000;

fn pair(world: &World) -> (Caller<SimPlatform, SimMesh>, SimMesh) {
    let mut ends = mesh(2, 64, Prng::new(1));
    let other = ends.pop().unwrap();
    (Caller::new(world.platform(0), ends.pop().unwrap()), other)
}

async fn received(other: &SimMesh) -> CallId {
    match other.receive().await {
        Some((_, Message::Call(id, _))) => id,
        unexpected => panic!("{unexpected:?}"),
    }
}

/// A call that is queued at once, and dropped; `None` where it finds no room.
async fn give_up_call(world: &World, caller: &Caller<SimPlatform, SimMesh>) -> Option<()> {
    let call = caller.call(OTHER, Request::Metrics);
    world.within(Duration::from_millis(10), call).await.map(drop)
}

#[test]
fn calls_that_nobody_waits_for_keep_their_places_until_they_are_answered() {
    World::run(|world| async move {
        let (caller, other) = pair(&world);
        let mut owed = Vec::new();
        while give_up_call(&world, &caller).await.is_some() {
            owed.push(received(&other).await);
            assert!(owed.len() < MANY, "nothing bounds what the other core is sent");
        }
        caller.answered(owed.pop().unwrap(), Reply::Done);
        assert_eq!(give_up_call(&world, &caller).await, Some(()));
        assert_eq!(give_up_call(&world, &caller).await, None);
        let watching = caller.clone();
        let watch = async move { watching.watch().await };
        world.platform(0).spawn(TaskClass::Background, Box::pin(watch));
        other.leave();
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(give_up_call(&world, &caller).await, Some(()), "it owes nothing any more");
    });
}

#[test]
fn a_call_that_was_given_up_before_it_was_queued_keeps_no_place() {
    World::run(|world| async move {
        let (caller, other) = pair(&world);
        for _ in 0..MANY / 10 {
            let call = caller.call(OTHER, Request::Metrics);
            let is_queued = world.within(Duration::from_micros(1), call).await.is_some();
            assert!(is_queued || caller.full_count() > 0);
        }
        let mut owed = 0;
        while world.within(Duration::from_millis(1), received(&other)).await.is_some() {
            owed += 1;
        }
        assert!(owed < 1000, "the queue took {owed}");
        assert_eq!(give_up_call(&world, &caller).await, Some(()));
    });
}

#[test]
fn a_lost_connection_is_told_of_once_however_much_it_leaves_behind() {
    World::run(|world| async move {
        let (caller, other) = pair(&world);
        let produce = |connection| {
            Request::Produce(ProduceCall {
                connection: ConnectionNumber(connection),
                acks: Some(Acks::InSync),
                timeout: Duration::from_secs(1),
                deadline: Duration::from_secs(1),
                zstd: ZstdAllowed::No,
                entries: Vec::new(),
            })
        };
        let lost = async |messages: usize| {
            let mut lost = Vec::new();
            for _ in 0..messages {
                match other.receive().await {
                    Some((_, Message::Left(connection))) => lost.push(connection.0),
                    Some((_, Message::Call(..))) => {}
                    unexpected => panic!("{unexpected:?}"),
                }
            }
            lost
        };
        for connection in [7, 7, 8, 7] {
            let mut pending = Vec::new();
            for _ in 0..20 {
                pending.push(caller.call(OTHER, produce(connection)).await);
            }
            drop(pending);
            // What it sends afterwards it may lose again.
            assert_eq!(lost(21).await, [connection]);
        }
        let one = world.within(Duration::from_millis(10), lost(1)).await;
        assert_eq!(one, None, "nothing more is said");
    });
}

#[test]
fn what_is_to_be_done_does_not_wait_behind_those_who_wait() {
    World::run(|world| async move {
        let (caller, other) = pair(&world);
        let wait = || WaitCall {
            isolation: Isolation::ReadUncommitted,
            positions: Vec::new(),
            duration: Duration::from_secs(1),
        };
        let mut waiting = Vec::new();
        while let Some(pending) = caller.try_wait(OTHER, wait()).await {
            waiting.push((pending, received(&other).await));
            assert!(waiting.len() < MANY, "nothing bounds who waits");
        }
        assert_eq!(give_up_call(&world, &caller).await, Some(()));
        let (pending, id) = waiting.pop().unwrap();
        caller.answered(id, Reply::Woken(Waited::LookAgain));
        assert!(pending.reply().await.is_ok());
        assert!(caller.try_wait(OTHER, wait()).await.is_some());
    });
}

#[test]
fn a_fetch_that_one_core_answers_leaves_nothing_behind_on_the_others() {
    World::run(|world| async move {
        let node = Node::start(&world, 2, &[]).await;
        let (topic, on) = node.topic("orders", 2).await;
        let mut reader = node.connect(0);
        world.sleep(Duration::from_secs(10)).await;
        let idle = world.task_count(1);
        let wanted = fetch_of(topic, on.iter().copied());
        reader.send(11, &FetchRequest { max_wait_ms: 30_000, ..wanted });
        world.sleep(Duration::from_millis(100)).await;
        assert_eq!(world.task_count(1), idle + 1, "it waits there");
        let appended = node.connect(0).append(topic, on[0], &batch(100)).await;
        assert_eq!(appended, (ErrorCode::None, 0));
        world.sleep(Duration::from_millis(1)).await;
        assert_eq!(world.task_count(1), idle);
        node.stop().await;
    });
}
