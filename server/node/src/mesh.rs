//! The mesh: a bounded queue from every core to every other.
//!
//! Owns [`CoreMesh`] and the seats it is made from. Each pair of cores has a queue of its own, so that order holds within
//! a pair and a busy core cannot use up another's room. Must never wait in a send.
//!
//! ```text
//! seats(3, room) ── seat 0 ─► thread of core 0 ─ join().await ─► CoreMesh      queues 0→1, 0→2, 1→0, 1→2, 2→0, 2→1
//!                ── seat 1 ─► thread of core 1 ─ …
//!                ── seat 2 ─► control thread
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use broker::platform::{Mesh, MeshIndex};
use futures_lite::Stream;
use glommio::channels::shared_channel::{
    ConnectedReceiver, ConnectedSender, SharedReceiver, SharedSender, new_bounded,
};
use glommio::{GlommioError, ResourceType};

use crate::pulse::{Pulse, counted};
use crate::wake::Gate;

/// One core's ends of the queues, before they are bound to its executor.
pub struct MeshSeat<Message: Send> {
    index: MeshIndex,
    /// By the index of the other core; `None` at our own.
    ends: Vec<Option<(SharedSender<Message>, SharedReceiver<Message>)>>,
}

impl<Message: Send> fmt::Debug for MeshSeat<Message> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeshSeat({} of {})", self.index.0, self.ends.len())
    }
}

/// The seats of `count` cores, in order of their index; each queue has room for `message_count_max`.
pub fn seats<Message: Send>(count: u16, message_count_max: usize) -> Vec<MeshSeat<Message>> {
    assert!(count > 0, "a mesh has at least one core");
    let size = usize::from(count);
    let mut senders: Vec<Vec<Option<SharedSender<Message>>>> = Vec::with_capacity(size);
    let mut receivers: Vec<Vec<Option<SharedReceiver<Message>>>> =
        (0..size).map(|_| (0..size).map(|_| None).collect()).collect();
    for from in 0..size {
        let mut row = Vec::with_capacity(size);
        for (to, receivers) in receivers.iter_mut().enumerate() {
            if from == to {
                row.push(None);
                continue;
            }
            let (sender, receiver) = new_bounded(message_count_max);
            row.push(Some(sender));
            receivers[from] = Some(receiver);
        }
        senders.push(row);
    }
    let rows = senders.into_iter().zip(receivers);
    (0..count)
        .zip(rows)
        .map(|(index, (senders, receivers))| MeshSeat {
            index: MeshIndex(index),
            ends: senders.into_iter().zip(receivers).map(|(s, r)| s.zip(r)).collect(),
        })
        .collect()
}

impl<Message: Send + 'static> MeshSeat<Message> {
    /// Takes the seat in the current executor; ends when every other core has taken its own, or given it up.
    pub async fn join(self) -> CoreMesh<Message> {
        let pulse = &Pulse::current();
        // Each end waits for its other end: all at once, or two cores could wait for each other's next.
        let joining: Vec<_> = self
            .ends
            .into_iter()
            .map(|end| {
                end.map(|(sender, receiver)| {
                    let sender = glommio::spawn_local(counted(pulse, sender.connect()));
                    let receiver = glommio::spawn_local(counted(pulse, receiver.connect()));
                    (sender, receiver)
                })
            })
            .collect();
        let mut peers = Vec::with_capacity(joining.len());
        for end in joining {
            peers.push(match end {
                Some((sender, receiver)) => Some(Peer::new(sender.await, receiver.await)),
                None => None,
            });
        }
        CoreMesh { shared: Rc::new(Shared { index: self.index, peers, turn: Cell::new(0) }) }
    }
}

/// One other core.
struct Peer<Message: Send> {
    sender: ConnectedSender<Message>,
    receiver: RefCell<ConnectedReceiver<Message>>,
    /// glommio keeps a copy of the waker for every look at an empty queue; behind the gate an idle queue is looked at once.
    gate: Arc<Gate>,
    waker: Waker,
    is_closed: Cell<bool>,
    /// What a send found out; `is_closed` is what a receive did, once all that was sent before is received.
    has_left: Cell<bool>,
}

impl<Message: Send> Peer<Message> {
    fn new(sender: ConnectedSender<Message>, receiver: ConnectedReceiver<Message>) -> Self {
        let gate = Gate::new();
        let waker = Waker::from(gate.clone());
        let receiver = RefCell::new(receiver);
        let (is_closed, has_left) = (Cell::new(false), Cell::new(false));
        Self { sender, receiver, gate, waker, is_closed, has_left }
    }

    fn poll_receive(&self, task: &Waker) -> Poll<Option<Message>> {
        if self.is_closed.get() {
            return Poll::Ready(None);
        }
        if !self.gate.pass(task) {
            return Poll::Pending;
        }
        let mut receiver = self.receiver.borrow_mut();
        let polled = Pin::new(&mut *receiver).poll_next(&mut Context::from_waker(&self.waker));
        match &polled {
            // There may be more, and no one will say so.
            Poll::Ready(Some(_)) => self.gate.reopen(),
            Poll::Ready(None) => self.is_closed.set(true),
            Poll::Pending => {}
        }
        polled
    }
}

struct Shared<Message: Send> {
    index: MeshIndex,
    peers: Vec<Option<Peer<Message>>>,
    /// Whose queue is looked at first next time, so that a busy core cannot keep the others out.
    turn: Cell<usize>,
}

/// The mesh as one core sees it. Cheap to clone; one task at a time may receive.
pub struct CoreMesh<Message: Send> {
    shared: Rc<Shared<Message>>,
}

impl<Message: Send> Clone for CoreMesh<Message> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<Message: Send> fmt::Debug for CoreMesh<Message> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CoreMesh({} of {})", self.shared.index.0, self.shared.peers.len())
    }
}

impl<Message: Send> Shared<Message> {
    fn poll_receive(&self, task: &Waker) -> Poll<Option<(MeshIndex, Message)>> {
        let count = self.peers.len();
        let first = self.turn.get();
        let mut is_open = false;
        for step in 0..count {
            let index = (first + step) % count;
            let Some(peer) = &self.peers[index] else { continue };
            match peer.poll_receive(task) {
                Poll::Ready(Some(message)) => {
                    self.turn.set((index + 1) % count);
                    let from = u16::try_from(index).expect("the mesh was made from a u16");
                    return Poll::Ready(Some((MeshIndex(from), message)));
                }
                Poll::Ready(None) => {}
                Poll::Pending => is_open = true,
            }
        }
        if is_open { Poll::Pending } else { Poll::Ready(None) }
    }
}

impl<Message: Send + 'static> Mesh<Message> for CoreMesh<Message> {
    fn index(&self) -> MeshIndex {
        self.shared.index
    }

    fn count(&self) -> u16 {
        u16::try_from(self.shared.peers.len()).expect("the mesh was made from a u16")
    }

    fn try_send(&self, to: MeshIndex, message: Message) -> Result<(), Message> {
        let peer = self.shared.peers.get(usize::from(to.0)).and_then(Option::as_ref);
        let peer = peer.expect("a core sends to another core of its own mesh");
        // It leaves one end after the other: between the two a queue that nobody will read still takes messages.
        if peer.is_closed.get() {
            return Err(message);
        }
        match peer.sender.try_send(message) {
            Ok(()) => Ok(()),
            Err(GlommioError::WouldBlock(ResourceType::Channel(message))) => Err(message),
            Err(GlommioError::Closed(ResourceType::Channel(message))) => {
                peer.has_left.set(true);
                Err(message)
            }
            Err(_) => unreachable!("a send to a queue fails because it is full or closed"),
        }
    }

    fn has_left(&self, other: MeshIndex) -> bool {
        let peer = self.shared.peers.get(usize::from(other.0)).and_then(Option::as_ref);
        peer.is_some_and(|peer| peer.is_closed.get() || peer.has_left.get())
    }

    async fn receive(&self) -> Option<(MeshIndex, Message)> {
        std::future::poll_fn(|context| self.shared.poll_receive(context.waker())).await
    }
}

#[cfg(test)]
mod tests;
