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

/// How a request arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrival {
    /// Monotonic time since when it holds memory.
    since: Duration,
    /// What has come of it since then.
    bytes: usize,
}

/// How long and how slowly a request may arrive while others wait for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArrivalLimits {
    /// In all.
    pub(crate) time_max: Duration,
    /// Before the rate counts.
    pub(crate) grace: Duration,
    /// On average over its time.
    pub(crate) bytes_per_second_min: u64,
}

impl ArrivalLimits {
    fn is_slow(self, arrival: Arrival, now: Duration) -> bool {
        let taken = now.saturating_sub(arrival.since);
        let bytes = arrival.bytes as u128 * 1000;
        let expected = taken.as_millis() * u128::from(self.bytes_per_second_min);
        taken >= self.time_max || (taken >= self.grace && bytes < expected)
    }
}

/// The life signs of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Monotonic time of the last whole request or reply.
    moved_at: Cell<Duration>,
    /// The request that holds memory and has not arrived whole.
    arrival: Cell<Option<Arrival>>,
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
            arrival: Cell::new(None),
            lapse: Cell::new(None),
            given_up: Flag::default(),
        })
    }

    /// A whole request has come, or a reply has left.
    pub(crate) fn moved(&self, now: Duration) {
        self.moved_at.set(now);
    }

    /// A request that is counted begins to arrive.
    pub(crate) fn begin_arrival(&self, now: Duration) {
        self.arrival.set(Some(Arrival { since: now, bytes: 0 }));
    }

    /// So much more of it has come.
    pub(crate) fn note_arrival(&self, bytes: usize) {
        let noted = self.arrival.get();
        self.arrival.set(noted.map(|noted| Arrival { bytes: noted.bytes + bytes, ..noted }));
    }

    /// It is there.
    pub(crate) fn end_arrival(&self) {
        self.arrival.set(None);
    }

    /// Gives the connection up if nothing has moved for `idle_max`.
    pub(crate) fn expire(&self, now: Duration, idle_max: Duration) {
        if !self.is_given_up() && now.saturating_sub(self.moved_at.get()) >= idle_max {
            self.lapse.set(Some(Lapse::Idle));
            self.give_up();
        }
    }

    /// Gives the connection up if its request arrives too slowly. True when that ended it.
    pub(crate) fn expire_arrival(&self, now: Duration, limits: ArrivalLimits) -> bool {
        let is_slow = self.arrival.get().is_some_and(|arrival| limits.is_slow(arrival, now));
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

    const LIMITS: ArrivalLimits = ArrivalLimits {
        time_max: Duration::from_secs(30),
        grace: Duration::from_secs(2),
        bytes_per_second_min: 1000,
    };

    #[test]
    fn a_request_may_take_its_time_and_not_longer() {
        let at = Duration::from_secs;
        let activity = Activity::new(at(100));
        assert!(!activity.expire_arrival(at(999), LIMITS), "nothing is arriving");
        activity.begin_arrival(at(110));
        activity.note_arrival(1 << 20);
        assert!(!activity.expire_arrival(at(139), LIMITS));
        activity.end_arrival();
        assert!(!activity.expire_arrival(at(140), LIMITS), "it has arrived");
        activity.begin_arrival(at(110));
        activity.note_arrival(1 << 20);
        assert!(activity.expire_arrival(at(140), LIMITS));
        assert_eq!(activity.lapse(), Some(Lapse::SlowRequest));
        assert!(!activity.expire_arrival(at(150), LIMITS), "only once");
    }

    #[test]
    fn a_request_that_trickles_in_is_given_up_early() {
        let at = Duration::from_millis;
        let activity = Activity::new(at(0));
        activity.note_arrival(1 << 20);
        activity.begin_arrival(at(0));
        assert!(!activity.expire_arrival(at(1999), LIMITS), "it has only begun");
        activity.note_arrival(2000);
        assert!(!activity.expire_arrival(at(2000), LIMITS));
        assert!(activity.expire_arrival(at(2001), LIMITS));
    }
}
