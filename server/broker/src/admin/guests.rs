//! Who is connected to the admin server.
//!
//! Owns the bound on connections and whose place is taken for another: that of the one which has been connected longest without
//! having asked for anything. Who sends nothing must not keep a probe or a scraper out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::sync::Flag;

/// Connections at once.
const GUESTS_MAX: usize = 64;

/// The connections of an admin server.
#[derive(Debug, Default)]
pub struct Guests {
    next: Cell<u64>,
    /// All that have a place.
    present: Cell<usize>,
    /// Those of them that have not asked yet, the oldest first.
    silent: RefCell<BTreeMap<u64, Flag>>,
}

/// A connection's place.
#[derive(Debug)]
pub struct Guest {
    guests: Rc<Guests>,
    number: u64,
    dismissed: Flag,
}

impl Guests {
    /// A place for a new connection, if need be that of a silent one; `None` while all are being answered.
    #[must_use]
    pub fn admit(self: &Rc<Self>) -> Option<Guest> {
        if self.present.get() >= GUESTS_MAX {
            let (_, oldest) = self.silent.borrow_mut().pop_first()?;
            self.present.set(self.present.get() - 1);
            oldest.raise();
        }
        let (number, dismissed) = (self.next.get(), Flag::default());
        self.next.set(number + 1);
        self.present.set(self.present.get() + 1);
        self.silent.borrow_mut().insert(number, dismissed.clone());
        Some(Guest { guests: Rc::clone(self), number, dismissed })
    }
}

impl Guest {
    /// Its request is there: it keeps its place until it is answered.
    pub fn has_asked(&self) {
        self.guests.silent.borrow_mut().remove(&self.number);
    }

    /// Ends when its place is another's.
    pub async fn dismissed(&self) {
        self.dismissed.raised().await;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.has_asked();
        if !self.dismissed.is_raised() {
            self.guests.present.set(self.guests.present.get() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_been_silent_longest_goes_for_another_and_who_is_answered_stays() {
        let guests = Rc::<Guests>::default();
        let mut admitted: Vec<Guest> = (0..GUESTS_MAX).filter_map(|_| guests.admit()).collect();
        assert_eq!(admitted.len(), GUESTS_MAX);
        admitted[0].has_asked();
        let next = guests.admit().unwrap();
        assert!(!admitted[0].dismissed.is_raised());
        assert!(admitted[1].dismissed.is_raised());
        assert!(!admitted[2].dismissed.is_raised());
        assert_eq!(guests.present.get(), GUESTS_MAX);
        admitted.iter().chain([&next]).for_each(Guest::has_asked);
        assert!(guests.admit().is_none(), "all are being answered");
        drop(admitted.remove(1));
        assert!(guests.admit().is_none(), "its place was another's already");
        drop(admitted.pop());
        let last = guests.admit().unwrap();
        drop((admitted, next, last));
        assert_eq!((guests.present.get(), guests.silent.borrow().len()), (0, 0));
    }
}
