//! Whose turn it is: the order of what other cores forward.
//!
//! Owns a line for each thing that something waits for. A place is taken when a call arrives, so that what one connection sent
//! keeps its order, and is given up when it is dropped, however that comes about. Lines of different things know nothing of
//! each other.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::hash::Hash;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::mutant::{Mutant, Rule};

/// Places in the order they were taken; who waits for its turn has left a waker.
type Line = BTreeMap<u64, Option<Waker>>;

/// The lines of a core. Bounded by the calls that other cores may have under way.
#[derive(Debug)]
pub(super) struct Lines<K> {
    next: Cell<u64>,
    lines: RefCell<HashMap<K, Line>>,
    mutant: Mutant,
}

/// A place in one line.
#[derive(Debug)]
pub(super) struct PlaceInLine<K: Hash + Eq> {
    lines: Rc<Lines<K>>,
    key: K,
    number: u64,
}

impl<K> Lines<K> {
    /// No lines yet.
    pub(super) fn new(mutant: Mutant) -> Rc<Self> {
        Rc::new(Self { next: Cell::new(0), lines: RefCell::default(), mutant })
    }
}

impl<K: Hash + Eq + Copy> Lines<K> {
    /// Takes the last place.
    pub(super) fn join(self: &Rc<Self>, key: K) -> PlaceInLine<K> {
        let number = self.next.get();
        self.next.set(number + 1);
        self.lines.borrow_mut().entry(key).or_default().insert(number, None);
        PlaceInLine { lines: Rc::clone(self), key, number }
    }
}

impl<K: Hash + Eq> PlaceInLine<K> {
    /// Ends when all before it are gone.
    pub(super) async fn turn(&self) {
        poll_fn(|context| {
            let mut lines = self.lines.lines.borrow_mut();
            let Some(line) = lines.get_mut(&self.key) else { return Poll::Ready(()) };
            let is_first = line.keys().next() == Some(&self.number);
            if is_first || self.lines.mutant.lacks(Rule::ForwardedAppendsInOrder) {
                return Poll::Ready(());
            }
            line.insert(self.number, Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl<K: Hash + Eq> Drop for PlaceInLine<K> {
    fn drop(&mut self) {
        let mut lines = self.lines.lines.borrow_mut();
        let Some(line) = lines.get_mut(&self.key) else { return };
        line.remove(&self.number);
        let first = line.values_mut().next().and_then(Option::take);
        if line.is_empty() {
            lines.remove(&self.key);
        }
        drop(lines);
        if let Some(first) = first {
            first.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, poll_once};

    fn is_turn(place: &PlaceInLine<char>) -> bool {
        block_on(poll_once(place.turn())).is_some()
    }

    #[test]
    fn each_line_moves_on_when_its_first_place_is_given_up_and_not_before() {
        let lines = Lines::new(Mutant::default());
        let [first, second, third, other] = ['a', 'a', 'a', 'b'].map(|key| lines.join(key));
        assert_eq!([&first, &second, &third, &other].map(is_turn), [true, false, false, true]);
        drop(second);
        assert!(!is_turn(&third), "the first is still there");
        drop(first);
        assert!(is_turn(&third));
        drop((third, other));
        assert!(lines.lines.borrow().is_empty(), "a line that nobody stands in is forgotten");
    }

    #[test]
    fn who_is_next_is_woken() {
        let lines = Lines::new(Mutant::default());
        let (first, second) = (lines.join('a'), lines.join('a'));
        let served = futures_lite::future::zip(second.turn(), async {
            futures_lite::future::yield_now().await;
            drop(first);
        });
        block_on(served);
    }
}
