//! The mesh in memory: a bounded queue from every core to every other.
//!
//! Owns the queues. Messages of one pair of cores keep their order; which pair is served next is a matter of the seed. A core
//! has left once its main task has ended.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use broker::Message;
use broker::platform::{Mesh, MeshIndex};

use crate::prng::Prng;

#[derive(Default)]
struct Core {
    queue_from: Vec<RefCell<VecDeque<Message>>>,
    waker: RefCell<Option<Waker>>,
    has_left: Cell<bool>,
}

struct Shared {
    cores: Vec<Core>,
    messages_max: usize,
    prng: RefCell<Prng>,
}

/// One core's end.
#[derive(Clone)]
pub struct SimMesh {
    shared: Rc<Shared>,
    index: MeshIndex,
}

/// The ends of `count` cores, with room for so many messages from each to each.
#[must_use]
pub fn mesh(count: u16, messages_max: usize, prng: Prng) -> Vec<SimMesh> {
    let core = |_| Core {
        queue_from: (0..count).map(|_| RefCell::default()).collect(),
        ..Core::default()
    };
    let cores = (0..count).map(core).collect();
    let shared = Rc::new(Shared { cores, messages_max, prng: RefCell::new(prng) });
    let end = |index| SimMesh { shared: Rc::clone(&shared), index: MeshIndex(index) };
    (0..count).map(end).collect()
}

impl SimMesh {
    /// This core's main task has ended.
    pub fn leave(&self) {
        self.core(self.index).has_left.set(true);
        for core in &self.shared.cores {
            if let Some(waker) = core.waker.take() {
                waker.wake();
            }
        }
    }

    fn core(&self, index: MeshIndex) -> &Core {
        &self.shared.cores[usize::from(index.0)]
    }

    fn next(&self) -> Option<(MeshIndex, Message)> {
        let queues = &self.core(self.index).queue_from;
        let full: Vec<usize> =
            (0..queues.len()).filter(|from| !queues[*from].borrow().is_empty()).collect();
        if full.is_empty() {
            return None;
        }
        let from = *self.shared.prng.borrow_mut().pick(&full);
        let message = queues[from].borrow_mut().pop_front()?;
        Some((MeshIndex(u16::try_from(from).expect("a few cores")), message))
    }
}

impl Mesh<Message> for SimMesh {
    fn index(&self) -> MeshIndex {
        self.index
    }

    fn count(&self) -> u16 {
        u16::try_from(self.shared.cores.len()).expect("a few cores")
    }

    fn try_send(&self, to: MeshIndex, message: Message) -> Result<(), Message> {
        let other = self.core(to);
        let mut queue = other.queue_from[usize::from(self.index.0)].borrow_mut();
        if other.has_left.get() || queue.len() >= self.shared.messages_max {
            return Err(message);
        }
        queue.push_back(message);
        if let Some(waker) = other.waker.take() {
            waker.wake();
        }
        Ok(())
    }

    fn has_left(&self, other: MeshIndex) -> bool {
        self.core(other).has_left.get()
    }

    async fn receive(&self) -> Option<(MeshIndex, Message)> {
        poll_fn(|context| {
            if let Some(next) = self.next() {
                return Poll::Ready(Some(next));
            }
            let others = self.shared.cores.iter().enumerate();
            let mut others = others.filter(|(index, _)| *index != usize::from(self.index.0));
            if others.all(|(_, core)| core.has_left.get()) {
                return Poll::Ready(None);
            }
            *self.core(self.index).waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}
