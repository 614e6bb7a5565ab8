//! The receive loop of a data core: what other cores and the control executor ask of it.
//!
//! Owns the loop and its promise: it never waits, but for the very last call. Replies go straight to whoever awaits them;
//! everything else runs as a task of its own. A Produce takes its places in the lines of its partitions before its task
//! starts, so that a connection's appends keep their order. A service that panics costs its own call.

use std::rc::Rc;

use commitlog::TaskClass;

use crate::calls::{Reply, Request};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;

/// Receives until the node stops.
pub(super) async fn serve_mesh<P: Platform, M: Mesh<Message>>(shard: Rc<Shard<P, M>>, mesh: M) {
    while let Some((from, message)) = mesh.receive().await {
        match message {
            Message::Answer(id, reply) => shard.caller().answered(id, reply),
            Message::Call(id, Request::Produce(call)) => {
                // Here, where calls come in their order; the task may start in any.
                let (owed, call) = (shard.caller().owe(from, id), shard.line_up(from, call));
                let serving = Rc::clone(&shard);
                let produce = async move {
                    let under_way = serving.begin_forwarded_produce(call).await;
                    owed.answer(Reply::Produce(under_way.answers().await)).await;
                };
                shard.platform().spawn(TaskClass::Foreground, Box::pin(produce));
            }
            Message::Call(id, Request::Stop) => {
                shard.stop().await;
                shard.caller().answer(from, id, Reply::Done).await;
                break;
            }
            Message::Call(id, request) => {
                let serving = Rc::clone(&shard);
                let owed = shard.caller().owe(from, id);
                shard.platform().spawn(
                    TaskClass::Foreground,
                    Box::pin(async move { owed.answer(serve(&serving, request).await).await }),
                );
            }
        }
    }
    shard.caller().close();
}

async fn serve<P: Platform, M: Mesh<Message>>(shard: &Rc<Shard<P, M>>, request: Request) -> Reply {
    match request {
        Request::Fetch(call) => Reply::Fetch(shard.forwarded_fetch(&call).await),
        Request::Wait(call) => Reply::Woken(shard.wait_here(&call).await),
        Request::ListOffsets(call) => Reply::ListOffsets(shard.list_offsets_here(&call).await),
        Request::Accept => {
            shard.accept();
            shard.forget_others().await;
            Reply::Done
        }
        Request::Apply(change) => {
            shard.apply(&change).await;
            Reply::Done
        }
        // As a task, like everything that waits: replies of other cores are part of what is under way.
        Request::Drain => {
            shard.drain().await;
            Reply::Done
        }
        Request::Metrics => Reply::Metrics(Box::new(shard.metrics_snapshot())),
        Request::Produce(_)
        | Request::Open(_)
        | Request::Listen(_)
        | Request::Stop
        | Request::CreateTopics(_)
        | Request::DeleteTopics(_)
        | Request::CreatePartitions(_)
        | Request::AlterConfigs(_)
        | Request::UpdateFeatures(_)
        | Request::Quorum
        | Request::ProducerIds => unreachable!("not a call that a data core serves out of turn"),
    }
}
