//! Request and reply over the mesh.
//!
//! Owns call numbers, the table of calls under way and the bound on them. A receive loop hands replies in here and never waits;
//! only tasks of connections and drivers wait. Every call of a core that has left the mesh ends with [`CallError`], and every
//! call whose service panics with [`Reply::Failed`]: none is left without an answer. A wait that nobody waits for any more is
//! given up, and so is an append that has no place yet, so that they do not linger where they are served.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use commitlog::TaskClass;
use partition::FETCH_WAITERS_MAX;

use crate::calls::{ConnectionNumber, Reply, Request, WaitCall};
use crate::memory::HeldMemory;
use crate::platform::{Mesh, MeshIndex, Platform};
use crate::sync::{Event, OnceSender, once};

/// Calls that one core may have under way to one other: the bound on what that one's queues hold for it.
const CALLS_MAX: usize = 2048;
/// Fetches that wait for one other core. They are idle and cost next to nothing there, so they have a bound of their own: what
/// is to be done must not wait behind them.
const WAITS_MAX: usize = FETCH_WAITERS_MAX;
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
    /// Nobody waits for the answer to this wait any more. It may come too late, or not at all where the queue is full.
    GiveUp(CallId),
    /// The connection is lost: what was sent by it and has no place in a log yet shall not get one. It may come too late, or not
    /// at all where the queue is full.
    Left(ConnectionNumber),
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
    pending: RefCell<BTreeMap<u64, Pending>>,
    /// How many of them there are of a kind to one core.
    under_way: RefCell<BTreeMap<(MeshIndex, CallKind), usize>>,
    room: Rc<Event>,
    /// The connection that each core was last told to have lost, with nothing sent there by it since.
    left: RefCell<BTreeMap<MeshIndex, ConnectionNumber>>,
    is_closed: Cell<bool>,
    /// Messages that found their queue full.
    full_count: Cell<u64>,
}

/// What a call is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CallKind {
    /// Something is to be done. It stays in the other core's queue until it is, whether or not anyone waits for the reply.
    Work,
    /// Something is waited for. It holds nothing there, and ends soon by itself where nobody waits for it any more.
    Wait,
}

impl CallKind {
    fn bound(self) -> usize {
        match self {
            Self::Work => CALLS_MAX,
            Self::Wait => WAITS_MAX,
        }
    }
}

/// Who owes a reply, where it goes, and what the request takes in memory until then.
#[derive(Debug)]
struct Pending {
    to: MeshIndex,
    kind: CallKind,
    sender: OnceSender<Reply>,
    _memory: Option<Rc<HeldMemory>>,
}

impl Calls {
    fn has_room(&self, to: MeshIndex, kind: CallKind) -> bool {
        let under_way = self.under_way.borrow();
        under_way.get(&(to, kind)).is_none_or(|count| *count < kind.bound())
    }

    /// Notes a call. Once this core receives nothing any more there is nothing to note: its reply cannot come.
    fn begin(&self, id: u64, pending: Pending) {
        if !self.is_closed.get() {
            *self.under_way.borrow_mut().entry((pending.to, pending.kind)).or_default() += 1;
            self.pending.borrow_mut().insert(id, pending);
        }
    }

    fn is_under_way(&self, id: u64) -> bool {
        self.pending.borrow().contains_key(&id)
    }

    /// Whether the other core knows already that the connection is lost.
    fn knows_left(&self, to: MeshIndex, connection: ConnectionNumber) -> bool {
        self.left.borrow().get(&to) == Some(&connection)
    }

    /// Something is sent by a connection: what was said of it before does not hold for that.
    fn note_sending(&self, to: MeshIndex, connection: ConnectionNumber) {
        if self.knows_left(to, connection) {
            self.left.borrow_mut().remove(&to);
        }
    }

    /// The call is over.
    fn end(&self, id: u64) -> Option<Pending> {
        let ended = self.pending.borrow_mut().remove(&id)?;
        if let Some(count) = self.under_way.borrow_mut().get_mut(&(ended.to, ended.kind)) {
            *count -= 1;
        }
        self.room.notify();
        Some(ended)
    }
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

/// A call that has been queued; awaiting it gives the reply. Where it is dropped the reply goes nowhere, and what the request
/// takes stays counted until the other core has answered or left.
#[derive(Debug)]
pub struct PendingCall<M: Mesh<Message>> {
    mesh: M,
    to: MeshIndex,
    id: u64,
    kind: CallKind,
    /// Of a Produce: the connection that is lost where the reply is not waited for.
    connection: Option<ConnectionNumber>,
    receiver: crate::sync::OnceReceiver<Reply>,
    calls: Rc<Calls>,
}

impl<M: Mesh<Message>> PendingCall<M> {
    /// The reply. Errors: the other core, or this one, is going down.
    pub async fn reply(mut self) -> Result<Reply, CallError> {
        let to = self.to;
        let reply = (&mut self.receiver).await;
        reply.ok_or(CallError { to })
    }
}

impl<M: Mesh<Message>> Drop for PendingCall<M> {
    fn drop(&mut self) {
        if self.kind == CallKind::Wait && self.calls.end(self.id).is_some() {
            // Where the queue is full it ends by itself a little later.
            self.mesh.try_send(self.to, Message::GiveUp(CallId(self.id))).ok();
        }
        // Where it is full, what waits for room does so until its deadline.
        if let Some(connection) = self.connection
            && self.calls.is_under_way(self.id)
            && !self.calls.knows_left(self.to, connection)
            && self.mesh.try_send(self.to, Message::Left(connection)).is_ok()
        {
            // Its other calls there go by the same word: a connection may leave thousands behind at once.
            self.calls.left.borrow_mut().insert(self.to, connection);
        }
    }
}

/// A call that is not in the other core's queue yet: dropped before it is, it is over, for nobody will answer it.
struct Unsent<'a> {
    calls: &'a Calls,
    id: Option<u64>,
}

impl Unsent<'_> {
    fn note_sent(mut self) {
        self.id = None;
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            drop(self.calls.end(id));
        }
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
    pub async fn call(&self, to: MeshIndex, request: Request) -> PendingCall<M> {
        self.call_with(to, request, None).await
    }

    /// [`Caller::call`] of a request that takes `memory` until it is answered.
    pub(crate) async fn call_with(
        &self,
        to: MeshIndex,
        request: Request,
        memory: Option<Rc<HeldMemory>>,
    ) -> PendingCall<M> {
        while !self.calls.has_room(to, CallKind::Work) {
            self.calls.room.listen().await;
        }
        self.queue(to, request, CallKind::Work, memory).await
    }

    /// Queues a wait; `None` where there are as many as there may be.
    pub async fn try_wait(&self, to: MeshIndex, call: WaitCall) -> Option<PendingCall<M>> {
        if !self.calls.has_room(to, CallKind::Wait) {
            return None;
        }
        Some(self.queue(to, Request::Wait(call), CallKind::Wait, None).await)
    }

    async fn queue(
        &self,
        to: MeshIndex,
        request: Request,
        kind: CallKind,
        memory: Option<Rc<HeldMemory>>,
    ) -> PendingCall<M> {
        let id = self.calls.next.get();
        self.calls.next.set(id + 1);
        let (sender, receiver) = once();
        self.calls.begin(id, Pending { to, kind, sender, _memory: memory });
        let (mesh, calls) = (self.mesh.clone(), Rc::clone(&self.calls));
        let connection = match &request {
            Request::Produce(call) => Some(call.connection),
            _ => None,
        };
        if let Some(connection) = connection {
            calls.note_sending(to, connection);
        }
        let pending = PendingCall { mesh, to, id, kind, connection, receiver, calls };
        let unsent = Unsent { calls: &self.calls, id: Some(id) };
        self.post(to, Message::Call(CallId(id), request)).await;
        unsent.note_sent();
        pending
    }

    /// Queues a request and awaits its reply.
    pub async fn ask(&self, to: MeshIndex, request: Request) -> Result<Reply, CallError> {
        self.call(to, request).await.reply().await
    }

    /// [`Caller::ask`] of a request that takes `memory` until it is answered.
    pub(crate) async fn ask_with(
        &self,
        to: MeshIndex,
        request: Request,
        memory: Option<Rc<HeldMemory>>,
    ) -> Result<Reply, CallError> {
        self.call_with(to, request, memory).await.reply().await
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
        if let Some(pending) = self.calls.end(id.0) {
            pending.sender.send(reply);
        }
    }

    /// Ends every call under way and every later one: this core receives nothing any more.
    pub fn close(&self) {
        self.calls.is_closed.set(true);
        drop(self.calls.pending.take());
        self.calls.under_way.take();
        self.calls.room.notify();
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
                drop(self.calls.end(id));
            }
        }
    }

    /// Work that other cores were asked to do and have not answered.
    pub(crate) fn work_under_way(&self) -> usize {
        let under_way = self.calls.under_way.borrow();
        under_way
            .iter()
            .filter(|((_, kind), _)| *kind == CallKind::Work)
            .map(|(_, count)| count)
            .sum()
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
