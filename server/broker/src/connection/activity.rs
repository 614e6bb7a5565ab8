//! Whether a connection still moves.
//!
//! Owns what both halves of a connection and the sweep of silent ones share: when something last moved, since when a large
//! request has been arriving, and the flag that ends it.
//! It never ends anything itself.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::sync::Flag;

/// Why the sweep gave a connection up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// Nothing moved for too long.
    Idle,
    /// A request took too long to arrive, and others waited for its memory.
    SlowRequest,
}

/// The life signs of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Monotonic time of the last whole request or reply.
    moved_at: Cell<Duration>,
    /// Monotonic time since when it holds memory for a request that has not arrived whole.
    arriving_since: Cell<Option<Duration>>,
    lapse: Cell<Option<Lapse>>,
    given_up: Flag,
}

impl Activity {
    /// A connection that opens now.
    #[must_use]
    pub(crate) fn new(now: Duration) -> Rc<Self> {
        let moved_at = Cell::new(now);
        Rc::new(Self {
            moved_at,
            arriving_since: Cell::new(None),
            lapse: Cell::new(None),
            given_up: Flag::default(),
        })
    }

    /// A whole request has come, or a reply has left.
    pub(crate) fn moved(&self, now: Duration) {
        self.moved_at.set(now);
    }

    /// A request that is counted begins to arrive, or has arrived.
    pub(crate) fn set_arriving_since(&self, since: Option<Duration>) {
        self.arriving_since.set(since);
    }

    /// Gives the connection up if nothing has moved for `idle_max`.
    pub(crate) fn expire(&self, now: Duration, idle_max: Duration) {
        if !self.is_given_up() && now.saturating_sub(self.moved_at.get()) >= idle_max {
            self.lapse.set(Some(Lapse::Idle));
            self.give_up();
        }
    }

    /// Gives the connection up if its request has been arriving for `arrival_max`. True when that ended it.
    pub(crate) fn expire_arrival(&self, now: Duration, arrival_max: Duration) -> bool {
        let is_slow =
            self.arriving_since.get().is_some_and(|at| now.saturating_sub(at) >= arrival_max);
        if !is_slow || self.is_given_up() {
            return false;
        }
        self.lapse.set(Some(Lapse::SlowRequest));
        self.give_up();
        true
    }

    /// Nothing more will be read or sent.
    pub(crate) fn give_up(&self) {
        self.given_up.raise();
    }

    /// Whether nothing more will be read or sent.
    #[must_use]
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.is_raised()
    }

    /// Why, where the sweep did it.
    #[must_use]
    pub(crate) fn lapse(&self) -> Option<Lapse> {
        self.lapse.get()
    }

    /// Ends when nothing more will be read or sent.
    pub(crate) async fn given_up(&self) {
        self.given_up.raised().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_on_which_nothing_moves_expires() {
        let at = Duration::from_secs;
        let activity = Activity::new(at(100));
        activity.expire(at(109), at(10));
        assert!(!activity.is_given_up());
        activity.moved(at(105));
        activity.expire(at(114), at(10));
        assert!(!activity.is_given_up());
        activity.expire(at(115), at(10));
        assert!(activity.is_given_up());
        assert_eq!(activity.lapse(), Some(Lapse::Idle));
    }

    #[test]
    fn a_connection_that_was_lost_is_not_called_idle() {
        let activity = Activity::new(Duration::ZERO);
        activity.give_up();
        activity.expire(Duration::from_secs(9), Duration::from_secs(1));
        assert!(activity.is_given_up());
        assert_eq!(activity.lapse(), None);
    }

    #[test]
    fn a_request_may_take_its_time_and_not_longer() {
        let at = Duration::from_secs;
        let activity = Activity::new(at(100));
        assert!(!activity.expire_arrival(at(999), at(30)), "nothing is arriving");
        activity.set_arriving_since(Some(at(110)));
        assert!(!activity.expire_arrival(at(139), at(30)));
        activity.set_arriving_since(None);
        assert!(!activity.expire_arrival(at(140), at(30)), "it has arrived");
        activity.set_arriving_since(Some(at(110)));
        assert!(activity.expire_arrival(at(140), at(30)));
        assert_eq!(activity.lapse(), Some(Lapse::SlowRequest));
        assert!(!activity.expire_arrival(at(150), at(30)), "only once");
    }
}
