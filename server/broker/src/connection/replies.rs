//! The replies of one connection: computed in any order, sent in the order of the requests.
//!
//! Owns the bounded queue between a connection's reader and its writer, and the loop that empties it. A reply is a future: that
//! of a Produce is already under way when it is queued (its append is done), every other starts when its turn comes, and a
//! Produce behind it waits for that: a request sees the effects of those before it, and only of those (PR-5). It never
//! reorders and never drops a reply.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use commitlog::Disk;
use futures_lite::future::{or, poll_once};

use crate::connection::Activity;
use crate::memory::HeldMemory;
use crate::mutant::{Mutant, Rule};
use crate::send_path::{Part, SendPath, Sending};
use crate::sync::{Event, beside};

/// Requests of one connection that may be under way: a client that sends without reading is not read any further.
const REPLIES_MAX: usize = 64;
/// Bytes of requests, with what they count for, that one connection may have waiting in memory; beyond it nothing is read until
/// some are answered. One request alone may be larger: `socket.request.max.bytes` bounds that.
const HELD_BYTES_MAX: usize = 16 << 20;
/// Bytes after which finished replies are sent before more are gathered.
const GATHER_BYTES: usize = 256 * 1024;

/// What to do when a request has been served.
#[derive(Debug)]
pub(crate) enum Served<D: Disk> {
    /// Send this; what its parts hold in memory is counted until they have left.
    Reply(Vec<Part<D>>, Option<HeldMemory>),
    /// Say nothing (acks=0).
    Silence,
    /// End the connection: the protocol has no other way to refuse.
    Close,
}

/// A reply that is on its way.
pub(crate) type PendingReply<D> = Pin<Box<dyn Future<Output = Served<D>> + 'static>>;

/// What became of the requests before one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// They have been served.
    Served,
    /// The connection is lost, and with it those that had not been: what comes after them must not take effect either.
    Dropped,
}

/// A request that has begun: its reply, and what of it stays in memory meanwhile.
pub(crate) struct Begun<D: Disk> {
    /// The reply.
    pub reply: PendingReply<D>,
    /// Bytes that are held until it leaves: of the frame, or what it counts for.
    pub held_bytes: usize,
    /// The core's memory that they are counted in; other cores that have a part of the request may hold it for longer.
    memory: Option<Rc<HeldMemory>>,
    /// Whether it has taken effect already; if not it does when its turn comes.
    is_under_way: bool,
}

impl<D: Disk> Begun<D> {
    /// A request that has taken effect, and whose reply may still have to wait.
    pub(crate) fn now(reply: PendingReply<D>, held_bytes: usize) -> Self {
        Self { reply, held_bytes, memory: None, is_under_way: true }
    }

    /// A request that is served when its turn comes.
    pub(crate) fn later(reply: PendingReply<D>, held_bytes: usize) -> Self {
        Self { reply, held_bytes, memory: None, is_under_way: false }
    }

    /// The same, with what its request takes in memory.
    #[must_use]
    pub(crate) fn holding(self, memory: Option<Rc<HeldMemory>>) -> Self {
        // One connection must not take the memory of all with requests that become much.
        let counted_bytes = memory.as_ref().map_or(0, |memory| memory.bytes());
        Self { memory, held_bytes: self.held_bytes.max(counted_bytes), ..self }
    }
}

/// The queue between reader and writer.
pub(crate) struct ReplyQueue<D: Disk> {
    replies: RefCell<VecDeque<Begun<D>>>,
    /// Replies that have been queued and have not left.
    under_way: Cell<usize>,
    /// Those of them that have not been served yet.
    unserved: Cell<usize>,
    /// Bytes of their requests that are still held.
    held_bytes: Cell<usize>,
    ended: Cell<bool>,
    changed: Rc<Event>,
    activity: Rc<Activity>,
    mutant: Mutant,
}

impl<D: Disk> std::fmt::Debug for ReplyQueue<D> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ReplyQueue").field("queued", &self.replies.borrow().len()).finish()
    }
}

impl<D: Disk> ReplyQueue<D> {
    /// An empty queue.
    #[must_use]
    pub(crate) fn new(activity: Rc<Activity>, mutant: Mutant) -> Rc<Self> {
        Rc::new(Self {
            replies: RefCell::new(VecDeque::new()),
            under_way: Cell::new(0),
            unserved: Cell::new(0),
            held_bytes: Cell::new(0),
            ended: Cell::new(false),
            changed: Event::new(),
            activity,
            mutant,
        })
    }

    /// Waits until another request may be read.
    pub(crate) async fn room(&self) {
        let room = async {
            while self.under_way.get() >= REPLIES_MAX || self.held_bytes.get() > HELD_BYTES_MAX {
                self.changed.listen().await;
            }
        };
        or(room, self.activity.given_up()).await;
    }

    /// Waits until every request that is served in its turn has been served.
    pub(crate) async fn all_served(&self) -> Earlier {
        let served = async {
            while self.unserved.get() > 0 {
                self.changed.listen().await;
            }
            Earlier::Served
        };
        let given_up = async {
            self.activity.given_up().await;
            Earlier::Dropped
        };
        or(served, given_up).await
    }

    /// Waits until every reply has been sent.
    pub(crate) async fn all_sent(&self) {
        let sent = async {
            while !self.is_empty() {
                self.changed.listen().await;
            }
        };
        or(sent, self.activity.given_up()).await;
    }

    /// Whether every reply has been sent.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.get() == 0
    }

    fn note_served(&self, is_under_way: bool) {
        if !is_under_way {
            self.unserved.set(self.unserved.get() - 1);
            self.changed.notify();
        }
    }

    /// Queues a reply behind those before it.
    pub(crate) fn push(&self, begun: Begun<D>) {
        self.unserved.set(self.unserved.get() + usize::from(!begun.is_under_way));
        self.under_way.set(self.under_way.get() + 1);
        self.held_bytes.set(self.held_bytes.get() + begun.held_bytes);
        self.replies.borrow_mut().push_back(begun);
        self.changed.notify();
    }

    /// No more requests come; what is queued is still sent.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.changed.notify();
    }

    async fn pop(&self) -> Option<Begun<D>> {
        loop {
            let next = if self.mutant.lacks(Rule::RepliesInOrder) {
                self.replies.borrow_mut().pop_back()
            } else {
                self.replies.borrow_mut().pop_front()
            };
            if next.is_some() {
                return next;
            }
            if self.ended.get() {
                return None;
            }
            self.changed.listen().await;
        }
    }

    /// Serves a reply, if it has not been, or ends waiting for it: a client that is gone must not leave a long poll behind.
    async fn serve(&self, next: &mut Next<D>) {
        if next.served.is_some() {
            return;
        }
        let gone = async {
            self.activity.given_up().await;
            Served::Close
        };
        let served = or(&mut next.begun.reply, gone).await;
        if let Served::Reply(_, Some(memory)) = &served {
            self.activity.note_memory(memory.watch());
        }
        next.served = Some(served);
        self.note_served(next.begun.is_under_way);
    }

    /// Sends replies until the reader has ended and the queue is empty, or the connection is given up. `tell` is told how each
    /// send goes.
    pub(crate) async fn run(&self, mut path: impl SendPath<D>, tell: impl Fn(Sending)) {
        // Started while others were gathered, and not finished then.
        let mut ahead: Option<Next<D>> = None;
        loop {
            let next = match ahead.take() {
                Some(next) => Some(next),
                None => self.pop().await.map(Next::new),
            };
            let Some(next) = next else { break };
            // In memory of its own, which goes back: a connection that waits for requests would keep room for answers.
            match Box::pin(self.send_from(next, &mut path, &tell)).await {
                GoOn::With(next) => ahead = next,
                GoOn::No => break,
            }
        }
        self.activity.give_up();
        drop(self.replies.take());
        path.shutdown().await;
    }

    /// Sends a reply, and those behind it that can leave with it.
    async fn send_from(
        &self,
        mut next: Next<D>,
        path: &mut impl SendPath<D>,
        tell: &impl Fn(Sending),
    ) -> GoOn<D> {
        let mut ahead: Option<Next<D>> = None;
        self.serve(&mut next).await;
        let mut gathered = Gathered::default();
        let mut go_on = gathered.take(next);
        while go_on && gathered.bytes < GATHER_BYTES {
            let queued = self.replies.borrow_mut().pop_front();
            let Some(mut next) = queued.map(Next::new) else { break };
            if poll_once(self.serve(&mut next)).await.is_none() {
                ahead = Some(next);
                break;
            }
            go_on = gathered.take(next);
        }
        if !gathered.parts.is_empty() {
            // A client that never reads must not keep the task and its buffers for ever.
            let given_up = async {
                self.activity.given_up().await;
                false
            };
            let sending = async { path.send(&gathered.parts, tell).await.is_ok() };
            let sending = or(sending, given_up);
            go_on &= match &mut ahead {
                // What has been started may hold what others wait for: it goes on while the client takes its time.
                Some(next) => beside(sending, self.serve(next)).await,
                None => sending.await,
            };
        }
        if !go_on {
            return GoOn::No;
        }
        self.under_way.set(self.under_way.get() - gathered.replies);
        self.held_bytes.set(self.held_bytes.get() - gathered.held_bytes);
        self.changed.notify();
        GoOn::With(ahead)
    }
}

/// What comes after some replies.
enum GoOn<D: Disk> {
    /// The next one, which may have been started.
    With(Option<Next<D>>),
    /// Nothing: the connection ends.
    No,
}

/// The reply whose turn it is.
struct Next<D: Disk> {
    begun: Begun<D>,
    served: Option<Served<D>>,
}

impl<D: Disk> Next<D> {
    fn new(begun: Begun<D>) -> Self {
        Self { begun, served: None }
    }
}

/// Finished replies that leave in one call.
struct Gathered<D: Disk> {
    parts: Vec<Part<D>>,
    bytes: usize,
    replies: usize,
    held_bytes: usize,
    /// Given back when they have left.
    memory: Vec<Rc<HeldMemory>>,
}

impl<D: Disk> Default for Gathered<D> {
    fn default() -> Self {
        Self { parts: Vec::new(), bytes: 0, replies: 0, held_bytes: 0, memory: Vec::new() }
    }
}

impl<D: Disk> Gathered<D> {
    /// Takes a finished reply in; false when the connection ends with it.
    fn take(&mut self, Next { begun, served }: Next<D>) -> bool {
        self.replies += 1;
        self.held_bytes += begun.held_bytes;
        self.memory.extend(begun.memory);
        match served.expect("a reply is gathered once it is served") {
            Served::Reply(parts, memory) => {
                self.memory.extend(memory.map(Rc::new));
                self.bytes += parts.iter().map(|part| part.as_bytes().len()).sum::<usize>();
                self.parts.extend(parts);
                true
            }
            Served::Silence => true,
            Served::Close => false,
        }
    }
}
