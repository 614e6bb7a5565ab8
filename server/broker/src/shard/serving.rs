//! The receive loop of a data core: what other cores and the control executor ask of it.
//!
//! Owns the loop and its promise: it never waits, but for the very last call. Replies go straight to whoever awaits them;
//! everything else runs as a task of its own. A Produce takes its places in the lines of its partitions before its task
//! starts, so that a connection's appends keep their order. A service that panics costs its own call. A wait that was given up
//! ends at once: whoever reads and is answered by one core leaves nothing behind on the others. The appends of a connection that
//! is lost end together, as far as they have no place in a log: none of them is passed by one that came after it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use commitlog::TaskClass;
use futures_lite::future::or;

use crate::calls::{ConnectionNumber, ProduceCall, Reply, Request, WaitCall};
use crate::mesh_call::{CallId, Message, Owed};
use crate::platform::{Mesh, MeshIndex, Platform};
use crate::shard::Shard;
use crate::sync::{Event, Flag};

/// The waits that other cores have under way here.
type Waits = Rc<RefCell<HashMap<(MeshIndex, CallId), Rc<Event>>>>;

/// The connections of other cores that have appends here without a place in their logs: how many, and whether the connection is
/// lost.
type Appends = Rc<RefCell<BTreeMap<(MeshIndex, ConnectionNumber), (usize, Flag)>>>;

/// Receives until the node stops.
pub(super) async fn serve_mesh<P: Platform, M: Mesh<Message>>(shard: Rc<Shard<P, M>>, mesh: M) {
    let (waits, appends) = (Waits::default(), Appends::default());
    while let Some((from, message)) = mesh.receive().await {
        match message {
            Message::Answer(id, reply) => shard.caller().answered(id, reply),
            Message::GiveUp(id) => {
                let given_up = waits.borrow_mut().remove(&(from, id));
                if let Some(given_up) = given_up {
                    given_up.notify();
                }
            }
            Message::Left(connection) => {
                let noted = appends.borrow().get(&(from, connection)).map(|(_, left)| left.clone());
                if let Some(left) = noted {
                    left.raise();
                }
            }
            Message::Call(id, Request::Wait(call)) => {
                let waiting = wait(&shard, &waits, (from, id), call);
                shard.platform().spawn(TaskClass::Foreground, Box::pin(waiting));
            }
            Message::Call(id, Request::Produce(call)) => {
                let producing = produce(&shard, &appends, (from, id), call);
                shard.platform().spawn(TaskClass::Foreground, Box::pin(producing));
            }
            Message::Call(id, Request::Stop) => {
                let stopped = Reply::Stopped(shard.stop().await);
                shard.caller().answer(from, id, stopped).await;
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

/// A wait of another core while it is under way.
struct NotedWait {
    waits: Waits,
    key: (MeshIndex, CallId),
}

impl Drop for NotedWait {
    fn drop(&mut self) {
        self.waits.borrow_mut().remove(&self.key);
    }
}

/// Waits until there is more, or nobody waits for it any more. Noted before its task starts: giving it up may be the very next
/// message.
fn wait<P: Platform, M: Mesh<Message>>(
    shard: &Rc<Shard<P, M>>,
    waits: &Waits,
    key: (MeshIndex, CallId),
    call: WaitCall,
) -> impl Future<Output = ()> + use<P, M> {
    let event = Event::new();
    let given_up = event.listen();
    waits.borrow_mut().insert(key, event);
    let noted = NotedWait { waits: Rc::clone(waits), key };
    let owed: Owed<P, M> = shard.caller().owe(key.0, key.1);
    let shard = Rc::clone(shard);
    async move {
        let waited = async { Some(shard.wait_here(&call).await) };
        let given_up = async {
            given_up.await;
            None
        };
        let ended = or(waited, given_up).await;
        drop(noted);
        if let Some(waited) = ended {
            owed.answer(Reply::Woken(waited)).await;
        }
    }
}

/// An append of another core's connection that has no place yet.
struct NotedAppend {
    appends: Appends,
    key: (MeshIndex, ConnectionNumber),
    left: Flag,
}

impl NotedAppend {
    fn new(appends: &Appends, key: (MeshIndex, ConnectionNumber)) -> Self {
        let mut noted = appends.borrow_mut();
        let (count, left) = noted.entry(key).or_default();
        *count += 1;
        Self { appends: Rc::clone(appends), key, left: left.clone() }
    }
}

impl Drop for NotedAppend {
    fn drop(&mut self) {
        let mut appends = self.appends.borrow_mut();
        let Some((count, _)) = appends.get_mut(&self.key) else { return };
        *count -= 1;
        if *count == 0 {
            appends.remove(&self.key);
        }
    }
}

/// Appends what another core forwards, unless its connection is lost before. It takes its places here, where calls come in their
/// order: its task may start in any.
fn produce<P: Platform, M: Mesh<Message>>(
    shard: &Rc<Shard<P, M>>,
    appends: &Appends,
    (from, id): (MeshIndex, CallId),
    call: ProduceCall,
) -> impl Future<Output = ()> + use<P, M> {
    let noted = NotedAppend::new(appends, (from, call.connection));
    let (owed, call) = (shard.caller().owe(from, id), shard.line_up(from, call));
    let shard = Rc::clone(shard);
    async move {
        let left = async {
            noted.left.raised().await;
            None
        };
        let appending = async { Some(shard.begin_forwarded_produce(call).await) };
        let under_way = or(left, appending).await;
        drop(noted);
        let reply = match under_way {
            Some(under_way) => Reply::Produce(under_way.answers().await),
            // Not a list without entries: a client that has ended its half only may still be told of each partition.
            None => Reply::Done,
        };
        owed.answer(reply).await;
    }
}

async fn serve<P: Platform, M: Mesh<Message>>(shard: &Rc<Shard<P, M>>, request: Request) -> Reply {
    match request {
        Request::Fetch(call) => Reply::Fetch(shard.forwarded_fetch(&call).await),
        Request::ListOffsets(call) => Reply::ListOffsets(shard.list_offsets_here(&call).await),
        Request::EpochEnds(call) => Reply::EpochEnds(shard.epoch_ends_here(&call).await),
        Request::DeleteRecords(call) => {
            Reply::DeleteRecords(shard.delete_records_here(&call).await)
        }
        Request::Producers(call) => Reply::Producers(shard.producers_here(&call).await),
        Request::LogSizes => Reply::LogSizes(shard.log_sizes_here()),
        Request::TakeOver(handover) => {
            shard.take_over(*handover);
            Reply::Done
        }
        Request::Accept => {
            shard.accept();
            Reply::Done
        }
        Request::Settle => match shard.store.checkpoint_both(shard.platform.now()).await {
            Ok(()) => Reply::Done,
            Err(error) => {
                tracing::warn!(%error, "where the logs are was not written down; the next start tries again");
                Reply::NotSettled
            }
        },
        Request::ForgetOthers => {
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
        Request::PartitionTraffic { count_max } => {
            Reply::PartitionTraffic(shard.busiest_partitions(count_max).await)
        }
        Request::Metrics => Reply::Metrics(Box::new(shard.metrics_snapshot())),
        Request::Produce(_)
        | Request::Wait(_)
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
