//! Bounds on memory over all connections of a core (P72).
//!
//! Owns the count of what is held: large requests that have not arrived whole or are not answered, with what they may become;
//! record bytes that were read for a Fetch and have not left; lists of producers; large answers to small requests; large
//! windows. Each has a budget of its own, so that whoever holds some of one and waits for another waits for nobody who waits
//! for him. Must never refuse: a request
//! that finds no room is not read any further until there is some, so that back-pressure reaches the client as a slow
//! connection does; a Fetch gets less.
//!
//! ```text
//! request   size known ─ take(what it may become), maybe waits ─ arrives ─ answered ─ HeldMemory dropped ─► the next goes on
//! Fetch     note_share(wanted) ─ read so much ─ resize(what was there) ─ sent ─ HeldMemory dropped
//! answer    its turn ─ take(about what it has), maybe waits ─ made ─ resize(the answer) ─ sent ─ HeldMemory dropped
//! listing   its turn ─ take(the most it may list), maybe waits ─ resize(the answer) ─ sent ─ HeldMemory dropped
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use crate::sync::{OnceSender, once};

/// Requests up to this size are not counted: a connection holds few of them, in a buffer that it has anyway.
pub(crate) const COUNTED_BYTES_MIN: usize = 16 * 1024;

/// The bound of a core and what is taken of it.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes_max: usize,
    taken: Cell<usize>,
    /// First come, first served: who asks for much must not wait for ever behind who asks for little.
    waiting: RefCell<VecDeque<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    bytes: usize,
    sender: OnceSender<HeldMemory>,
}

/// Memory that somebody holds; gives it back when dropped.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    memory: Rc<MemoryBudget>,
    bytes: usize,
    /// Where others wait for what it is a part of: there while it is held.
    held: Option<Rc<()>>,
}

/// A look at memory that somebody holds, which does not hold it.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    memory: Rc<MemoryBudget>,
    held: Weak<()>,
}

impl MemoryWatch {
    /// Whether it has not been given back.
    #[must_use]
    pub(crate) fn is_held(&self) -> bool {
        self.held.strong_count() > 0
    }

    /// Whether it is held while others wait for some of the same budget.
    #[must_use]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.is_held() && self.memory.has_waiters()
    }
}

impl HeldMemory {
    /// How much it is.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// For whoever must not keep it for long while others wait for it; `None` where nobody ever waits for this kind.
    #[must_use]
    pub(crate) fn watch(&self) -> Option<MemoryWatch> {
        let held = Rc::downgrade(self.held.as_ref()?);
        Some(MemoryWatch { memory: Rc::clone(&self.memory), held })
    }

    /// Gives back all but `bytes`, or notes more where it turned out to be more.
    pub(crate) fn resize(&mut self, bytes: usize) {
        self.memory.taken.set(self.memory.taken.get() - self.bytes + bytes);
        self.bytes = bytes;
        self.memory.serve_waiters();
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.memory.taken.set(self.memory.taken.get() - self.bytes);
        self.memory.serve_waiters();
    }
}

impl MemoryBudget {
    /// Nothing taken yet.
    #[must_use]
    pub(crate) fn new(bytes_max: usize) -> Rc<Self> {
        Rc::new(Self { bytes_max, taken: Cell::new(0), waiting: RefCell::default() })
    }

    /// Takes memory as soon as there is any. A request may overdraw the rest, or one larger than the bound could never come.
    pub(crate) async fn take(self: &Rc<Self>, bytes: usize) -> HeldMemory {
        if self.has_room() && !self.has_waiters() {
            return self.grant(bytes);
        }
        let (sender, receiver) = once();
        {
            let mut waiting = self.waiting.borrow_mut();
            if waiting.len() == waiting.capacity() {
                // Before it grows: those who gave up are forgotten.
                waiting.retain(|waiter| !waiter.sender.is_abandoned());
            }
            waiting.push_back(Waiter { bytes, sender });
        }
        receiver.await.expect("a waiter leaves the queue by being served")
    }

    fn has_room(&self) -> bool {
        self.taken.get() < self.bytes_max
    }

    fn serve_waiters(self: &Rc<Self>) {
        while self.has_room() {
            let next = self.waiting.borrow_mut().pop_front();
            let Some(waiter) = next else { return };
            if !waiter.sender.is_abandoned() {
                waiter.sender.send(self.grant(waiter.bytes));
            }
        }
    }

    /// Counts `bytes`, or half of what is left if that is less: whoever comes next finds something too.
    pub(crate) fn note_share(self: &Rc<Self>, bytes: usize) -> HeldMemory {
        self.note(bytes.min(self.bytes_max.saturating_sub(self.taken.get()) / 2))
    }

    /// Counts what is there already: those after it wait for it.
    pub(crate) fn note(self: &Rc<Self>, bytes: usize) -> HeldMemory {
        self.taken.set(self.taken.get() + bytes);
        HeldMemory { memory: Rc::clone(self), bytes, held: None }
    }

    fn grant(self: &Rc<Self>, bytes: usize) -> HeldMemory {
        let mut granted = self.note(bytes);
        granted.held = Some(Rc::default());
        granted
    }

    /// Bytes that are taken.
    #[must_use]
    pub(crate) fn taken_bytes(&self) -> usize {
        self.taken.get()
    }

    /// Whether a connection waits for room.
    #[must_use]
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.borrow().iter().any(|waiter| !waiter.sender.is_abandoned())
    }

    /// Connections that wait for room.
    #[must_use]
    pub(crate) fn waiter_count(&self) -> usize {
        let waiting = self.waiting.borrow();
        waiting.iter().filter(|waiter| !waiter.sender.is_abandoned()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, poll_once};
    use std::pin::pin;

    #[test]
    fn a_request_waits_for_those_before_it_and_one_larger_than_the_bound_is_taken_alone() {
        let memory = MemoryBudget::new(100);
        let first = block_on(memory.take(60));
        let large = block_on(memory.take(1000));
        assert_eq!(memory.taken_bytes(), 1060);
        let mut next = pin!(memory.take(1));
        assert!(block_on(poll_once(next.as_mut())).is_none());
        assert_eq!(memory.waiter_count(), 1);
        drop(first);
        assert!(block_on(poll_once(next.as_mut())).is_none(), "1000 of 100 bytes are taken");
        drop(large);
        let next = block_on(next);
        assert_eq!((memory.taken_bytes(), memory.waiter_count()), (1, 0));
        drop(next);
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[test]
    fn waiters_are_served_in_the_order_they_came() {
        let memory = MemoryBudget::new(10);
        let held = memory.note(10);
        let mut large = pin!(memory.take(50));
        let mut next = pin!(memory.take(0));
        let mut small = pin!(memory.take(1));
        assert!(block_on(poll_once(large.as_mut())).is_none());
        assert!(block_on(poll_once(next.as_mut())).is_none());
        assert!(block_on(poll_once(small.as_mut())).is_none());
        assert_eq!(memory.waiter_count(), 3);
        drop(held);
        let large = block_on(large);
        assert!(block_on(poll_once(next.as_mut())).is_none(), "50 of 10 bytes are taken");
        drop(large);
        drop(block_on(next));
        assert_eq!((block_on(small).bytes(), memory.waiter_count()), (1, 0));
    }

    #[test]
    fn who_can_do_with_less_leaves_half_to_those_who_come_next() {
        let memory = MemoryBudget::new(100);
        let mut first = memory.note_share(70);
        let second = memory.note_share(70);
        assert_eq!((first.bytes(), second.bytes(), memory.note_share(70).bytes()), (50, 25, 12));
        assert_eq!(memory.note_share(7).bytes(), 7);
        first.resize(10);
        assert_eq!((first.bytes(), memory.taken_bytes()), (10, 35));
        first.resize(500);
        assert_eq!((memory.taken_bytes(), memory.note_share(1).bytes()), (525, 0));
        drop((first, second));
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[test]
    fn memory_is_waited_for_while_it_is_held_and_another_wants_some() {
        let memory = MemoryBudget::new(10);
        assert!(memory.note_share(1).watch().is_none(), "who can do with less does not wait");
        let held = block_on(memory.take(10));
        let watch = held.watch().unwrap();
        assert_eq!((watch.is_held(), watch.is_waited_for()), (true, false));
        let mut next = pin!(memory.take(5));
        assert!(block_on(poll_once(next.as_mut())).is_none());
        assert!(watch.is_waited_for());
        drop(held);
        assert_eq!((watch.is_held(), watch.is_waited_for()), (false, false));
        assert!(block_on(next).watch().is_some_and(|watch| watch.is_held()));
    }

    #[test]
    fn who_gives_up_waiting_is_not_counted_and_takes_nothing() {
        let memory = MemoryBudget::new(10);
        let held = memory.note(10);
        {
            let mut given_up = pin!(memory.take(5));
            assert!(block_on(poll_once(given_up.as_mut())).is_none());
        }
        assert_eq!((memory.taken_bytes(), memory.waiter_count()), (10, 0));
        drop(held);
        assert_eq!(memory.taken_bytes(), 0);
    }
}
