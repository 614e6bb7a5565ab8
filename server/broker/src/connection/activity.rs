//! Whether a connection still moves.
//!
//! Owns what both halves of a connection and the sweep of silent ones share: when something last moved, and the flag that ends it.
//! It never ends anything itself.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::sync::Flag;

/// The life signs of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Monotonic time of the last whole request or reply.
    moved_at: Cell<Duration>,
    is_idle: Cell<bool>,
    given_up: Flag,
}

impl Activity {
    /// A connection that opens now.
    #[must_use]
    pub(crate) fn new(now: Duration) -> Rc<Self> {
        let moved_at = Cell::new(now);
        Rc::new(Self { moved_at, is_idle: Cell::new(false), given_up: Flag::default() })
    }

    /// A whole request has come, or a reply has left.
    pub(crate) fn moved(&self, now: Duration) {
        self.moved_at.set(now);
    }

    /// Gives the connection up if nothing has moved for `idle_max`.
    pub(crate) fn expire(&self, now: Duration, idle_max: Duration) {
        if !self.is_given_up() && now.saturating_sub(self.moved_at.get()) >= idle_max {
            self.is_idle.set(true);
            self.give_up();
        }
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

    /// Whether that was for silence.
    #[must_use]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.get()
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
        assert!(activity.is_given_up() && activity.is_idle());
    }

    #[test]
    fn a_connection_that_was_lost_is_not_called_idle() {
        let activity = Activity::new(Duration::ZERO);
        activity.give_up();
        activity.expire(Duration::from_secs(9), Duration::from_secs(1));
        assert!(activity.is_given_up() && !activity.is_idle());
    }
}
