//! The mesh in memory: a bounded queue from every core to every other.
//!
//! Owns the queues. A core has left once the test says so: its main task has ended.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use broker::Message;
use broker::platform::{Mesh, MeshIndex};

/// Room of each queue.
const MESSAGES_MAX: usize = 64;

#[derive(Default)]
struct Core {
    queue_from: Vec<RefCell<VecDeque<Message>>>,
    waker: RefCell<Option<Waker>>,
    has_left: Cell<bool>,
}

/// One core's end.
#[derive(Clone)]
pub(crate) struct TestMesh {
    cores: Rc<Vec<Core>>,
    index: MeshIndex,
}

/// The ends of all cores.
pub(crate) fn mesh(count: u16) -> Vec<TestMesh> {
    let core = |_| Core {
        queue_from: (0..count).map(|_| RefCell::default()).collect(),
        ..Core::default()
    };
    let cores: Rc<Vec<Core>> = Rc::new((0..count).map(core).collect());
    let end = |index| TestMesh { cores: Rc::clone(&cores), index: MeshIndex(index) };
    (0..count).map(end).collect()
}

impl TestMesh {
    /// This core's main task has ended.
    pub(crate) fn leave(&self) {
        self.core(self.index).has_left.set(true);
        for core in self.cores.iter() {
            if let Some(waker) = core.waker.take() {
                waker.wake();
            }
        }
    }

    fn core(&self, index: MeshIndex) -> &Core {
        &self.cores[usize::from(index.0)]
    }

    fn next(&self) -> Option<(MeshIndex, Message)> {
        let queues = self.core(self.index).queue_from.iter();
        (0..)
            .zip(queues)
            .find_map(|(from, queue)| Some((MeshIndex(from), queue.borrow_mut().pop_front()?)))
    }
}

impl Mesh<Message> for TestMesh {
    fn index(&self) -> MeshIndex {
        self.index
    }

    fn count(&self) -> u16 {
        self.cores.len() as u16
    }

    fn try_send(&self, to: MeshIndex, message: Message) -> Result<(), Message> {
        let other = self.core(to);
        let mut queue = other.queue_from[usize::from(self.index.0)].borrow_mut();
        if other.has_left.get() || queue.len() >= MESSAGES_MAX {
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
            let others = self.cores.iter().enumerate();
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
