//! The replies of one connection: computed in any order, sent in the order of the requests.
//!
//! Owns the bounded queue between a connection's reader and its writer, and the loop that empties it. A reply is a future: that
//! of a Produce is already under way when it is queued (its append is done), every other starts when its turn comes, so that
//! a request sees the effects of those before it (PR-5). It never reorders and never drops a reply.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use commitlog::Disk;
use futures_lite::future::{or, poll_once};

use crate::send_path::{Part, SendPath};
use crate::sync::{Event, Flag};

/// Requests of one connection that may be under way: a client that sends without reading is not read any further.
const REPLIES_MAX: usize = 64;
/// Bytes of such requests: their frames stay in memory until they are answered. One frame more than this is let in, or the
/// largest could never be served.
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes after which finished replies are sent before more are gathered.
const GATHER_BYTES: usize = 256 * 1024;

/// What to do when a request has been served.
#[derive(Debug)]
pub(crate) enum Served<D: Disk> {
    /// Send this.
    Reply(Vec<Part<D>>),
    /// Say nothing (acks=0).
    Silence,
    /// End the connection: the protocol has no other way to refuse.
    Close,
}

/// A reply that is on its way.
pub(crate) type PendingReply<D> = Pin<Box<dyn Future<Output = Served<D>> + 'static>>;

/// A reply that waits for its turn, and the size of its request.
struct Queued<D: Disk> {
    reply: PendingReply<D>,
    request_bytes: usize,
}

/// The queue between reader and writer.
pub(crate) struct ReplyQueue<D: Disk> {
    replies: RefCell<VecDeque<Queued<D>>>,
    /// The writer holds one reply that has left the queue and counts against the bound.
    in_hand: Cell<usize>,
    /// Frames of the requests that are not answered yet.
    request_bytes: Cell<usize>,
    ended: Cell<bool>,
    changed: Rc<Event>,
    /// Raised when nothing more can be sent.
    pub lost: Flag,
}

impl<D: Disk> std::fmt::Debug for ReplyQueue<D> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ReplyQueue").field("queued", &self.replies.borrow().len()).finish()
    }
}

impl<D: Disk> ReplyQueue<D> {
    /// An empty queue.
    #[must_use]
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            replies: RefCell::new(VecDeque::new()),
            in_hand: Cell::new(0),
            request_bytes: Cell::new(0),
            ended: Cell::new(false),
            changed: Event::new(),
            lost: Flag::default(),
        })
    }

    /// Waits until another request may be read.
    pub(crate) async fn room(&self) {
        while self.is_full() && !self.lost.is_raised() {
            self.changed.listen().await;
        }
    }

    fn is_full(&self) -> bool {
        self.replies.borrow().len() + self.in_hand.get() >= REPLIES_MAX
            || self.request_bytes.get() >= REQUEST_BYTES_MAX
    }

    /// Queues a reply behind those before it; `request_bytes` is the size of the frame that asked for it.
    pub(crate) fn push(&self, reply: PendingReply<D>, request_bytes: usize) {
        self.request_bytes.set(self.request_bytes.get() + request_bytes);
        self.replies.borrow_mut().push_back(Queued { reply, request_bytes });
        self.changed.notify();
    }

    /// No more requests come; what is queued is still sent.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.changed.notify();
    }

    async fn pop(&self) -> Option<Queued<D>> {
        loop {
            if let Some(reply) = self.replies.borrow_mut().pop_front() {
                return Some(reply);
            }
            if self.ended.get() {
                return None;
            }
            self.changed.listen().await;
        }
    }

    /// The reply, or the end of waiting for it: a client that is gone must not leave a long poll behind.
    async fn unless_lost(&self, reply: PendingReply<D>) -> Served<D> {
        let gone = async {
            self.lost.raised().await;
            Served::Close
        };
        or(reply, gone).await
    }

    /// Sends replies until the reader has ended and the queue is empty, or the connection is lost.
    pub(crate) async fn run(&self, mut path: impl SendPath<D>) {
        while let Some(Queued { reply, request_bytes }) = self.pop().await {
            self.in_hand.set(1);
            let mut answered_bytes = request_bytes;
            let mut gathered = Gathered::default();
            let mut go_on = gathered.take(self.unless_lost(reply).await);
            while go_on && gathered.bytes < GATHER_BYTES {
                let Some(mut next) = self.replies.borrow_mut().pop_front() else { break };
                match poll_once(&mut next.reply).await {
                    Some(served) => {
                        answered_bytes += next.request_bytes;
                        go_on = gathered.take(served);
                    }
                    None => {
                        self.replies.borrow_mut().push_front(next);
                        break;
                    }
                }
            }
            let sent = gathered.parts.is_empty() || path.send(&gathered.parts).await.is_ok();
            self.in_hand.set(0);
            self.request_bytes.set(self.request_bytes.get() - answered_bytes);
            if !sent || !go_on {
                break;
            }
            self.changed.notify();
        }
        self.lost.raise();
        self.changed.notify();
        self.replies.borrow_mut().clear();
        path.shutdown().await;
    }
}

/// Finished replies that leave in one call.
struct Gathered<D: Disk> {
    parts: Vec<Part<D>>,
    bytes: usize,
}

impl<D: Disk> Default for Gathered<D> {
    fn default() -> Self {
        Self { parts: Vec::new(), bytes: 0 }
    }
}

impl<D: Disk> Gathered<D> {
    /// Takes a finished reply in; false when the connection ends with it.
    fn take(&mut self, served: Served<D>) -> bool {
        match served {
            Served::Reply(parts) => {
                self.bytes += parts.iter().map(|part| part.as_bytes().len()).sum::<usize>();
                self.parts.extend(parts);
                true
            }
            Served::Silence => true,
            Served::Close => false,
        }
    }
}
