//! Whether a connection still moves.
//!
//! Owns what both halves of a connection and the sweep of silent ones share: when something last moved, since when a large
//! request has been arriving and a piece of an answer waiting to be taken, how long the client has been waited for while it held
//! memory, the word to a long poll that others wait for what the connection holds, and the flag that ends it. It never ends
//! anything itself.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::memory::MemoryWatch;
use crate::sync::{Event, Flag};

/// Why the sweep gave a connection up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// Nothing moved for too long.
    Idle,
    /// A request took too long to arrive, and others waited for its memory.
    SlowRequest,
    /// The client did not take its answers.
    Stalled,
}

/// How long a connection may be silent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// `connections.max.idle.ms`: with nothing that moves.
    pub(crate) idle_max: Duration,
    /// `connections.send.timeout.ms`: with a piece of an answer that the client does not take.
    pub(crate) send_max: Duration,
    /// With a large request that arrives slowly; `None` while nobody waits for its memory.
    pub(crate) arrival: Option<ArrivalLimits>,
    /// Waiting for the client to take its answers, in all, while it holds memory that others wait for.
    pub(crate) contended_max: Duration,
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
    /// Monotonic time since when a piece of an answer has been on its way.
    sending_since: Cell<Option<Duration>>,
    /// The same of all that is being sent.
    sending_begun: Cell<Option<Duration>>,
    /// How long it took to send what has been sent.
    sent_time: Cell<Duration>,
    /// Memory that is held until answers have left, with `sent_time` as it was.
    memory: RefCell<Vec<(MemoryWatch, Duration)>>,
    /// Others wait for memory that the connection holds.
    hurried: Rc<Event>,
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
            sending_since: Cell::new(None),
            sending_begun: Cell::new(None),
            sent_time: Cell::default(),
            memory: RefCell::default(),
            hurried: Event::new(),
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

    /// Answers begin to leave.
    pub(crate) fn begin_sending(&self, now: Duration) {
        self.sending_begun.set(Some(now));
        self.sending_since.set(Some(now));
    }

    /// A piece of them has left, and the next begins to.
    pub(crate) fn piece_sent(&self, now: Duration) {
        self.sending_since.set(Some(now));
    }

    /// They have left.
    pub(crate) fn end_sending(&self, now: Duration) {
        let taken = self.sending_time(now);
        self.sent_time.set(self.sent_time.get().saturating_add(taken));
        self.sending_begun.set(None);
        self.sending_since.set(None);
    }

    /// How long what is being sent has been.
    fn sending_time(&self, now: Duration) -> Duration {
        self.sending_begun.get().map_or(Duration::ZERO, |begun| now.saturating_sub(begun))
    }

    /// Memory is held until its answer has left. As many as there are answers under way at most: those that have left are
    /// forgotten.
    pub(crate) fn note_memory(&self, watch: Option<MemoryWatch>) {
        let Some(watch) = watch else { return };
        // What the client took before is not held against it, but for the piece that is on its way.
        let sending = self.sending_begun.get().zip(self.sending_since.get());
        let taken = sending.map_or(Duration::ZERO, |(begun, since)| since.saturating_sub(begun));
        let sent_time = self.sent_time.get().saturating_add(taken);
        let mut memory = self.memory.borrow_mut();
        memory.retain(|(watch, _)| watch.is_held());
        memory.push((watch, sent_time));
    }

    /// Whether others wait for memory that the connection holds.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.memory.borrow().iter().any(|(watch, _)| watch.is_waited_for())
    }

    /// Tells a long poll of the connection to look whether it is waited for: itself, or the requests behind it, which have to wait
    /// for it.
    pub(crate) fn hurry(&self) {
        if self.memory.borrow().iter().any(|(watch, _)| watch.is_held()) {
            self.hurried.notify();
        }
    }

    /// Ends while others wait for memory that the connection holds.
    pub(crate) async fn hurried(&self) {
        while !self.is_waited_for() {
            self.hurried.listen().await;
        }
    }

    /// Whether others have waited for so long for memory that this client only has to take its answers to give back.
    fn contends(&self, now: Duration, max: Duration) -> bool {
        let sent_time = self.sent_time.get().saturating_add(self.sending_time(now));
        let memory = self.memory.borrow();
        self.sending_begun.get().is_some()
            && memory.iter().any(|(watch, noted)| {
                sent_time.saturating_sub(*noted) >= max && watch.is_waited_for()
            })
    }

    /// Gives the connection up if it has been silent for too long; why, when that ended it.
    pub(crate) fn expire(&self, now: Duration, patience: &Patience) -> Option<Lapse> {
        if self.is_given_up() {
            return None;
        }
        let is_over = |since: Duration, max| now.saturating_sub(since) >= max;
        let arrival = patience.arrival.zip(self.arrival.get());
        let lapse = if arrival.is_some_and(|(limits, arrival)| limits.is_slow(arrival, now)) {
            Lapse::SlowRequest
        } else if self.sending_since.get().is_some_and(|at| is_over(at, patience.send_max))
            || self.contends(now, patience.contended_max)
        {
            Lapse::Stalled
        } else if is_over(self.moved_at.get(), patience.idle_max) {
            Lapse::Idle
        } else {
            return None;
        };
        self.lapse.set(Some(lapse));
        self.give_up();
        Some(lapse)
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
    use crate::memory::MemoryBudget;
    use futures_lite::future::{block_on, poll_once};

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const PATIENCE: Patience = Patience {
        idle_max: Duration::from_secs(100),
        send_max: Duration::from_secs(20),
        arrival: Some(LIMITS),
        contended_max: Duration::from_secs(30),
    };

    const LIMITS: ArrivalLimits = ArrivalLimits {
        time_max: Duration::from_secs(30),
        grace: Duration::from_secs(2),
        bytes_per_second_min: 1000,
    };

    #[test]
    fn only_a_connection_on_which_nothing_moves_expires() {
        let activity = Activity::new(at(100));
        assert_eq!(activity.expire(at(199), &PATIENCE), None);
        activity.moved(at(150));
        assert_eq!(activity.expire(at(249), &PATIENCE), None);
        assert!(!activity.is_given_up());
        assert_eq!(activity.expire(at(250), &PATIENCE), Some(Lapse::Idle));
        assert!(activity.is_given_up());
        assert_eq!(activity.lapse(), Some(Lapse::Idle));
        assert_eq!(activity.expire(at(999), &PATIENCE), None, "only once");
    }

    #[test]
    fn a_connection_that_was_lost_is_not_called_idle() {
        let activity = Activity::new(Duration::ZERO);
        activity.give_up();
        assert_eq!(activity.expire(at(999), &PATIENCE), None);
        assert!(activity.is_given_up());
        assert_eq!(activity.lapse(), None);
    }

    #[test]
    fn a_request_may_take_its_time_while_nobody_waits_and_not_longer() {
        let activity = Activity::new(at(100));
        assert_eq!(activity.expire(at(199), &PATIENCE), None, "nothing is arriving");
        activity.begin_arrival(at(110));
        activity.note_arrival(1 << 20);
        assert_eq!(activity.expire(at(139), &PATIENCE), None);
        let alone = Patience { arrival: None, ..PATIENCE };
        assert_eq!(activity.expire(at(140), &alone), None);
        activity.end_arrival();
        assert_eq!(activity.expire(at(140), &PATIENCE), None, "it has arrived");
        activity.begin_arrival(at(110));
        activity.note_arrival(1 << 20);
        assert_eq!(activity.expire(at(140), &PATIENCE), Some(Lapse::SlowRequest));
        assert_eq!(activity.expire(at(150), &PATIENCE), None, "only once");
    }

    #[test]
    fn a_request_that_trickles_in_is_given_up_early() {
        let at = Duration::from_millis;
        let activity = Activity::new(at(0));
        activity.note_arrival(1 << 20);
        activity.begin_arrival(at(0));
        assert_eq!(activity.expire(at(1999), &PATIENCE), None, "it has only begun");
        activity.note_arrival(2000);
        assert_eq!(activity.expire(at(2000), &PATIENCE), None);
        assert_eq!(activity.expire(at(2001), &PATIENCE), Some(Lapse::SlowRequest));
    }

    #[test]
    fn a_client_that_takes_its_answers_piece_by_piece_is_served_and_one_that_takes_none_is_not() {
        let activity = Activity::new(at(100));
        activity.begin_sending(at(100));
        for piece in [100, 119, 138] {
            assert_eq!(activity.expire(at(piece), &PATIENCE), None);
            activity.piece_sent(at(piece));
        }
        activity.end_sending(at(140));
        assert_eq!(activity.expire(at(170), &PATIENCE), None, "nothing is on its way");
        activity.begin_sending(at(170));
        assert_eq!(activity.expire(at(190), &PATIENCE), Some(Lapse::Stalled));
    }

    #[test]
    fn a_client_that_holds_what_others_wait_for_takes_its_answers_in_time_however_many_pieces() {
        let budget = MemoryBudget::new(10);
        let activity = Activity::new(at(100));
        activity.begin_sending(at(100));
        let held = block_on(budget.take(10));
        activity.note_memory(held.watch());
        activity.piece_sent(at(115));
        activity.end_sending(at(116));
        // Between answers the client is not waited for.
        let mut next = Box::pin(budget.take(1));
        assert!(block_on(poll_once(&mut next)).is_none());
        assert_eq!(activity.expire(at(150), &PATIENCE), None);
        activity.begin_sending(at(160));
        assert_eq!(activity.expire(at(173), &PATIENCE), None);
        activity.piece_sent(at(173));
        drop(next);
        assert_eq!(activity.expire(at(180), &PATIENCE), None, "nobody waits");
        let mut next = Box::pin(budget.take(1));
        assert!(block_on(poll_once(&mut next)).is_none());
        assert_eq!(activity.expire(at(180), &PATIENCE), Some(Lapse::Stalled));
    }

    #[test]
    fn a_long_poll_is_hurried_while_others_wait_for_what_its_connection_holds() {
        let budget = MemoryBudget::new(10);
        let (activity, other) = (Activity::new(at(0)), Activity::new(at(0)));
        let held = block_on(budget.take(10));
        activity.note_memory(held.watch());
        let mut hurried = Box::pin(activity.hurried());
        let mut untouched = Box::pin(other.hurried());
        let mut tell = || {
            activity.hurry();
            other.hurry();
            let is_told = block_on(poll_once(&mut hurried)).is_some();
            (is_told, block_on(poll_once(&mut untouched)).is_some())
        };
        assert_eq!(tell(), (false, false), "nobody waits");
        let mut next = Box::pin(budget.take(1));
        assert!(block_on(poll_once(&mut next)).is_none());
        assert_eq!(tell(), (true, false), "the other holds nothing");
        // Who comes later is told at once.
        assert!(block_on(poll_once(&mut Box::pin(activity.hurried()))).is_some());
    }

    #[test]
    fn what_a_client_took_before_it_held_memory_is_not_held_against_it() {
        let budget = MemoryBudget::new(10);
        let activity = Activity::new(at(100));
        activity.begin_sending(at(100));
        activity.piece_sent(at(119));
        activity.piece_sent(at(138));
        let held = block_on(budget.take(10));
        activity.note_memory(held.watch());
        let mut next = Box::pin(budget.take(1));
        assert!(block_on(poll_once(&mut next)).is_none());
        assert_eq!(activity.expire(at(141), &PATIENCE), None);
    }
}
