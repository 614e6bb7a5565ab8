//! The receive loop of a data core: what other cores and the control executor ask of it.
//!
//! Owns the loop and its promise: it never waits, but for the very last call. Replies go straight to whoever awaits them; Produce calls of one sender go
//! through one queue, so that a connection's appends keep their order; everything else runs as a task of its own. A service
//! that panics costs its own call.

use std::collections::HashMap;
use std::rc::Rc;

use commitlog::TaskClass;

use crate::calls::{ProduceCall, Reply, Request};
use crate::mesh_call::{CallId, Message};
use crate::platform::{Mesh, MeshIndex, Platform};
use crate::shard::Shard;
use crate::sync::{Queue, contained};

/// Produce calls of one other core, in the order they came. Bounded by the calls that core may have under way.
type ForwardedProduces = Queue<(CallId, ProduceCall)>;

/// Receives until the node stops.
pub(super) async fn serve_mesh<P: Platform, M: Mesh<Message>>(shard: Rc<Shard<P, M>>, mesh: M) {
    let mut produces: HashMap<MeshIndex, Rc<ForwardedProduces>> = HashMap::new();
    while let Some((from, message)) = mesh.receive().await {
        match message {
            Message::Answer(id, reply) => shard.caller().answered(id, reply),
            Message::Call(id, Request::Produce(call)) => produces
                .entry(from)
                .or_insert_with(|| start_produce_queue(&shard, from))
                .push((id, call)),
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

fn start_produce_queue<P: Platform, M: Mesh<Message>>(
    shard: &Rc<Shard<P, M>>,
    from: MeshIndex,
) -> Rc<ForwardedProduces> {
    let queue = Rc::new(ForwardedProduces::default());
    let (shard, calls) = (Rc::clone(shard), Rc::clone(&queue));
    let platform = shard.platform().clone();
    let append_in_order = async move {
        loop {
            let (id, call) = calls.pop().await;
            let owed = shard.caller().owe(from, id);
            let appending = Rc::clone(&shard);
            let append = async move {
                let under_way = appending.begin_forwarded_produce(call).await;
                (owed, under_way)
            };
            // Contained: a batch that finds a bug must not end the appends of everyone else.
            let appended = contained(shard.platform(), TaskClass::Foreground, append).await;
            let Some((owed, under_way)) = appended else { continue };
            shard.platform().spawn(
                TaskClass::Foreground,
                Box::pin(async move {
                    owed.answer(Reply::Produce(under_way.answers().await)).await;
                }),
            );
        }
    };
    platform.spawn(TaskClass::Foreground, Box::pin(append_in_order));
    queue
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
        | Request::ProducerIds => unreachable!("not a call that a data core serves out of turn"),
    }
}
