//! The control executor: the coordinator of a quorum of one, the node's start-up and stop, the admin server.
//!
//! Owns cluster metadata of this node: the metadata log and the image it builds. It is not on the data path: data cores get images
//! from it and ask it to change metadata. Changes are made one at a time; each is durable, applied, and known to every local core
//! before its answer leaves. What no core has to know of waits for no core: a producer gets its id while ten thousand logs of a
//! new topic are being made.

mod changes;
mod pages;
mod resuming;
mod snapshot;
mod start;
mod stopping;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::Image;
use commitlog::{Store, TaskClass};
use record::{NodeId, ShardIndex};

pub use changes::{Changed, TopicCreation, TopicDeletion, TopicToCreate};
pub use start::{ControlOptions, Ready, StartRefusal, run_control};
pub use stopping::{StopFaults, Stopped};

use crate::calls::{Reply, Request};
use crate::drivers::metadata_log::SoloMetadataLog;
use crate::mesh_call::{CallId, Caller, Message};
use crate::metrics::Replayed;
use crate::platform::{Mesh, MeshIndex, Platform};
use crate::sync::{Flag, Queue, Turns, contained};

/// The control executor's state.
pub struct Control<P: Platform, M: Mesh<Message>> {
    platform: P,
    caller: Caller<P, M>,
    node_id: NodeId,
    shard_count: u16,
    store: Store<P::Disk, P>,
    log: RefCell<SoloMetadataLog<P::Disk, P>>,
    /// The metadata log stopped, was let go of and is not open: nothing can be changed until it is.
    is_released: Cell<bool>,
    /// An attempt to open it again is queued.
    is_resuming: Cell<bool>,
    image: RefCell<Arc<Image>>,
    /// One decision at a time is made durable and applied: the next is made against the image that has it.
    deciding: Rc<Turns>,
    /// The last snapshot of metadata.
    snapshot: snapshot::Written,
    /// What brokers configure for topics that say nothing themselves.
    defaults: changes::Defaults,
    readiness: Standing,
    /// No change is made any more.
    changes_ended: Flag,
    /// Monotonic time when the process started.
    started: Duration,
    /// What the start brought from journals into segments.
    replayed: Cell<Replayed>,
}

/// What `/ready` says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Readiness {
    /// Not yet: this is under way.
    Starting(&'static str),
    /// All logs are recovered and all cores accept.
    Ready,
    /// Serving data, but metadata cannot be changed, because.
    Degraded(String),
    /// Finishing.
    Stopping,
}

/// What `/ready` says now. A node that stops never says anything else again, whatever is still done meanwhile.
#[derive(Debug)]
struct Standing(RefCell<Readiness>);

impl Standing {
    fn new(readiness: Readiness) -> Self {
        Self(RefCell::new(readiness))
    }

    fn get(&self) -> Readiness {
        self.0.borrow().clone()
    }

    fn set(&self, next: Readiness) {
        let mut now = self.0.borrow_mut();
        if *now != Readiness::Stopping {
            *now = next;
        }
    }

    fn is_stopping(&self) -> bool {
        *self.0.borrow() == Readiness::Stopping
    }
}

impl<P: Platform, M: Mesh<Message>> Control<P, M> {
    fn image(&self) -> Arc<Image> {
        Arc::clone(&self.image.borrow())
    }

    fn log(&self) -> SoloMetadataLog<P::Disk, P> {
        self.log.borrow().clone()
    }

    /// Asks every data core the same and gives the replies in their order; a core that is gone has none.
    async fn ask_all(&self, request: impl Fn() -> Request) -> Vec<(ShardIndex, Option<Reply>)> {
        ask_all(&self.caller, self.shard_count, request).await
    }
}

/// Asks every data core the same, all at once; `None` for one that is gone.
async fn ask_all<P: Platform, M: Mesh<Message>>(
    caller: &Caller<P, M>,
    shard_count: u16,
    request: impl Fn() -> Request,
) -> Vec<(ShardIndex, Option<Reply>)> {
    let mut calls = Vec::with_capacity(usize::from(shard_count));
    for shard in (0..shard_count).map(ShardIndex) {
        calls.push((shard, caller.call(shard.into(), request()).await));
    }
    let mut replies = Vec::with_capacity(calls.len());
    for (shard, call) in calls {
        replies.push((shard, call.reply().await.ok()));
    }
    replies
}

/// What is done one after the other.
enum Change {
    /// A data core asks for a change.
    Asked(MeshIndex, CallId, Request),
    /// The metadata log stopped: see whether it can go on.
    Resume,
    /// No more comes.
    End,
}

/// Calls of data cores that change metadata, in the order they came.
type Changes = Rc<Queue<Change>>;

/// Calls that no data core has to know of before they are answered; `None` for no more. Bounded by the calls of the data cores.
type Asides = Rc<Queue<Option<(MeshIndex, CallId, Request)>>>;

/// Hands replies to whoever waits and queues what changes metadata; never waits itself.
async fn receive<P: Platform, M: Mesh<Message>>(
    caller: Caller<P, M>,
    mesh: M,
    (changes, asides): (Changes, Asides),
) {
    while let Some((from, message)) = mesh.receive().await {
        match message {
            Message::Answer(id, reply) => caller.answered(id, reply),
            Message::Call(id, request @ (Request::Quorum | Request::ProducerIds)) => {
                asides.push(Some((from, id, request)));
            }
            Message::Call(id, request) => changes.push(Change::Asked(from, id, request)),
            // Nobody waits here: what is fetched lies on the data cores.
            Message::GiveUp(_) | Message::Left(_) => {}
        }
    }
    caller.close();
}

/// Makes one change after the other, until none comes any more.
async fn serve_changes<P: Platform, M: Mesh<Message>>(
    control: Rc<Control<P, M>>,
    changes: Changes,
) {
    loop {
        let (from, id, request) = match changes.pop().await {
            Change::Asked(from, id, request) => (from, id, request),
            Change::Resume => {
                let resuming = Rc::clone(&control);
                let resume = async move { resuming.resume().await };
                contained(&control.platform, TaskClass::Foreground, resume).await;
                continue;
            }
            Change::End => break,
        };
        let changing = Rc::clone(&control);
        let change = async move { serve_change(&changing, request).await };
        // Contained: a change that finds a bug must not end all later ones.
        let changed = contained(&control.platform, TaskClass::Foreground, change).await;
        let reply = changed.unwrap_or(Reply::Failed);
        // Answering waits for room in the queue: a task of its own, so that the next change does not.
        let caller = control.caller.clone();
        let answering = async move { caller.answer(from, id, reply).await };
        control.platform.spawn(TaskClass::Foreground, Box::pin(answering));
    }
    control.changes_ended.raise();
}

/// Serves calls beside the changes and beside each other, until none comes any more.
async fn serve_asides<P: Platform, M: Mesh<Message>>(control: Rc<Control<P, M>>, asides: Asides) {
    while let Some((from, id, request)) = asides.pop().await {
        let (owed, serving) = (control.caller.owe(from, id), Rc::clone(&control));
        let serve = async move {
            let reply = match request {
                Request::Quorum => Reply::Quorum(serving.quorum()),
                Request::ProducerIds => Reply::ProducerIds(serving.producer_ids().await),
                other => unreachable!("not a call that is served beside changes: {other:?}"),
            };
            owed.answer(reply).await;
        };
        control.platform.spawn(TaskClass::Foreground, Box::pin(serve));
    }
}

async fn serve_change<P: Platform, M: Mesh<Message>>(
    control: &Control<P, M>,
    request: Request,
) -> Reply {
    match request {
        Request::CreateTopics(creation) => {
            Reply::CreateTopics(control.create_topics(creation).await)
        }
        Request::DeleteTopics(deletion) => {
            Reply::DeleteTopics(control.delete_topics(deletion).await)
        }
        Request::CreatePartitions(growth) => {
            Reply::CreatePartitions(control.create_partitions(growth).await)
        }
        Request::AlterConfigs(alteration) => {
            Reply::AlterConfigs(control.alter_configs(alteration).await)
        }
        Request::UpdateFeatures(update) => {
            Reply::UpdateFeatures(control.update_features(update).await)
        }
        other => unreachable!("not a call for the control executor: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_stops_says_nothing_else_any_more() {
        let standing = Standing::new(Readiness::Starting("opening logs"));
        for next in [Readiness::Degraded("full".into()), Readiness::Ready, Readiness::Stopping] {
            standing.set(next.clone());
            assert_eq!(standing.get(), next);
        }
        assert!(standing.is_stopping());
        for later in [Readiness::Degraded("full".into()), Readiness::Ready] {
            standing.set(later);
            assert_eq!(standing.get(), Readiness::Stopping);
        }
    }
}
