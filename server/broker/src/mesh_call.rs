//! Request and reply over the mesh.
//!
//! Owns call numbers, the table of calls under way and the bound on them. A receive loop hands replies in here and never waits;
//! only tasks of connections and drivers wait. Every call of a core that has left the mesh ends with [`CallError`], and every
//! call whose service panics with [`Reply::Failed`]: none is left without an answer.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use commitlog::TaskClass;

use crate::calls::{Reply, Request};
use crate::platform::{Mesh, MeshIndex, Platform};
use crate::sync::{Event, OnceSender, once};

/// Calls that one core may have under way to all others together: the bound on what their queues hold for it.
const CALLS_MAX: usize = 4096;
/// How long to leave a full queue alone before trying again.
const FULL_QUEUE_PAUSE: Duration = Duration::from_micros(50);
/// How often it is looked whether a core that owes replies has left.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// A number that ties a reply to its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(u64);

/// What travels over the mesh.
#[derive(Debug)]
pub enum Message {
    /// Do this and answer under this number.
    Call(CallId, Request),
    /// The answer.
    Answer(CallId, Reply),
}

/// The other core, or the whole node, is going down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("core {to} of this node is stopping", to = to.0)]
pub struct CallError {
    /// Who was called.
    pub to: MeshIndex,
}

/// One core's end of all its calls.
#[derive(Debug)]
pub struct Caller<P, M> {
    platform: P,
    mesh: M,
    calls: Rc<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    next: Cell<u64>,
    pending: RefCell<HashMap<u64, Pending>>,
    room: Rc<Event>,
    is_closed: Cell<bool>,
    /// Messages that found their queue full.
    full_count: Cell<u64>,
}

/// Who owes a reply, and where it goes.
#[derive(Debug)]
struct Pending {
    to: MeshIndex,
    sender: OnceSender<Reply>,
}

impl<P: Clone, M: Clone> Clone for Caller<P, M> {
    fn clone(&self) -> Self {
        Self {
            platform: self.platform.clone(),
            mesh: self.mesh.clone(),
            calls: Rc::clone(&self.calls),
        }
    }
}

/// A call that has been queued; awaiting it gives the reply.
#[derive(Debug)]
pub struct PendingCall {
    to: MeshIndex,
    id: u64,
    receiver: crate::sync::OnceReceiver<Reply>,
    calls: Rc<Calls>,
}

impl PendingCall {
    /// The reply. Errors: the other core, or this one, is going down.
    pub async fn reply(mut self) -> Result<Reply, CallError> {
        let to = self.to;
        let reply = (&mut self.receiver).await;
        reply.ok_or(CallError { to })
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.calls.pending.borrow_mut().remove(&self.id);
        self.calls.room.notify();
    }
}

/// An answer that is owed. Where whoever owes it panics, the answer is that it did.
#[derive(Debug)]
pub struct Owed<P: Platform, M: Mesh<Message>> {
    caller: Caller<P, M>,
    to: MeshIndex,
    id: CallId,
}

impl<P: Platform, M: Mesh<Message>> Owed<P, M> {
    /// Answers.
    pub async fn answer(self, reply: Reply) {
        self.caller.post(self.to, Message::Answer(self.id, reply)).await;
    }
}

impl<P: Platform, M: Mesh<Message>> Drop for Owed<P, M> {
    fn drop(&mut self) {
        // Not where a core ends with calls under way: its tasks are dropped and nothing can be started any more.
        if !std::thread::panicking() {
            return;
        }
        let (caller, to, id) = (self.caller.clone(), self.to, self.id);
        let failed = async move { caller.answer(to, id, Reply::Failed).await };
        self.caller.platform.spawn(TaskClass::Foreground, Box::pin(failed));
    }
}

impl<P: Platform, M: Mesh<Message>> Caller<P, M> {
    /// The calls of one core.
    pub fn new(platform: P, mesh: M) -> Self {
        Self { platform, mesh, calls: Rc::new(Calls::default()) }
    }

    /// Where this core stands on the mesh.
    pub fn index(&self) -> MeshIndex {
        self.mesh.index()
    }

    /// The control executor's place: the last.
    pub fn control(&self) -> MeshIndex {
        MeshIndex(self.mesh.count() - 1)
    }

    /// Queues a request. Order: requests of one task to one core arrive in the order of these calls.
    pub async fn call(&self, to: MeshIndex, request: Request) -> PendingCall {
        while self.calls.pending.borrow().len() >= CALLS_MAX {
            self.calls.room.listen().await;
        }
        let id = self.calls.next.get();
        self.calls.next.set(id + 1);
        let (sender, receiver) = once();
        if !self.calls.is_closed.get() {
            self.calls.pending.borrow_mut().insert(id, Pending { to, sender });
        }
        let pending = PendingCall { to, id, receiver, calls: Rc::clone(&self.calls) };
        self.post(to, Message::Call(CallId(id), request)).await;
        pending
    }

    /// Queues a request and awaits its reply.
    pub async fn ask(&self, to: MeshIndex, request: Request) -> Result<Reply, CallError> {
        self.call(to, request).await.reply().await
    }

    /// What a call is owed; for whoever does something that may fail in an unforeseen way.
    pub fn owe(&self, to: MeshIndex, id: CallId) -> Owed<P, M> {
        Owed { caller: self.clone(), to, id }
    }

    /// Answers a call.
    pub async fn answer(&self, to: MeshIndex, id: CallId, reply: Reply) {
        self.post(to, Message::Answer(id, reply)).await;
    }

    /// Hands a reply to whoever waits for it; one that nobody waits for any more is dropped.
    pub fn answered(&self, id: CallId, reply: Reply) {
        let pending = self.calls.pending.borrow_mut().remove(&id.0);
        if let Some(pending) = pending {
            pending.sender.send(reply);
        }
    }

    /// Ends every call under way and every later one: this core receives nothing any more.
    pub fn close(&self) {
        self.calls.is_closed.set(true);
        drop(self.calls.pending.take());
    }

    /// Ends the calls to cores that leave without an answer, until this core itself stops receiving.
    pub async fn watch(&self) {
        while !self.calls.is_closed.get() {
            self.platform.sleep(WATCH_INTERVAL).await;
            let has_left = |pending: &Pending| self.mesh.has_left(pending.to);
            let lost: Vec<u64> = {
                let pending = self.calls.pending.borrow();
                pending.iter().filter(|(_, call)| has_left(call)).map(|(id, _)| *id).collect()
            };
            for id in lost {
                drop(self.calls.pending.borrow_mut().remove(&id));
            }
        }
    }

    /// Messages that had to wait because a queue was full.
    pub fn full_count(&self) -> u64 {
        self.calls.full_count.get()
    }

    async fn post(&self, to: MeshIndex, message: Message) {
        let Err(mut message) = self.mesh.try_send(to, message) else { return };
        self.calls.full_count.set(self.calls.full_count.get() + 1);
        // To a core that has left nothing arrives: `watch` ends the call.
        while !self.mesh.has_left(to) {
            self.platform.sleep(FULL_QUEUE_PAUSE).await;
            match self.mesh.try_send(to, message) {
                Ok(()) => return,
                Err(returned) => message = returned,
            }
        }
    }
}
