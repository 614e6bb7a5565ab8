//! Where the requests of one connection go, and whether the connection should go there too (DESIGN section 8).
//!
//! Owns the count of requests in a row that concern partitions of one other core alone, and the rule that keeps a connection from
//! going to and fro: each move makes the next one need twice as many, and none comes soon after another. Pure: it moves nothing.
//!
//! ```text
//! request ─ owners of its partitions ─► all one other core? ─ count + 1 ─ enough ─► destination
//!                                      └ this core, or several ─► 0
//! ```

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use record::ShardIndex;

use crate::fetch_sessions::SessionId;

/// How long a connection that was moved stays at least.
const STAY_MIN: Duration = Duration::from_secs(1);
/// So many moves make the next one harder, each twice as hard; further ones do not.
const HARDER_MOVES_MAX: u32 = 6;

/// What is known of one connection's requests on this core.
#[derive(Debug)]
pub(crate) struct Routing {
    here: ShardIndex,
    /// Requests in a row after which the connection moves; `None` for never.
    after: Option<u32>,
    /// How often it has moved.
    moves: u32,
    /// Monotonic time before which it stays.
    stays_until: Cell<Duration>,
    /// The one other core that the last requests concerned, and how many they were.
    streak: Cell<Option<(ShardIndex, u32)>>,
    /// The fetch session that its last fetch with one was of.
    session: Cell<SessionId>,
}

impl Routing {
    /// Of a connection that a client has just made.
    #[must_use]
    pub(crate) fn new(here: ShardIndex, after: Option<u32>) -> Rc<Self> {
        let (stays_until, session) = (Cell::default(), Cell::new(SessionId::NONE));
        Rc::new(Self { here, after, moves: 0, stays_until, streak: Cell::default(), session })
    }

    /// Of one that has come from another core at `now`, for the `moves`th time.
    #[must_use]
    pub(crate) fn moved(
        here: ShardIndex,
        after: Option<u32>,
        (moves, now): (u32, Duration),
        session: SessionId,
    ) -> Rc<Self> {
        let stays_until = Cell::new(now.saturating_add(STAY_MIN));
        let (streak, session) = (Cell::default(), Cell::new(session));
        Rc::new(Self { here, after, moves, stays_until, streak, session })
    }

    /// A request concerned partitions of these cores. One that concerned none says nothing.
    pub(crate) fn note(&self, owners: impl IntoIterator<Item = ShardIndex>) {
        let mut owners = owners.into_iter();
        let Some(first) = owners.next() else { return };
        if first == self.here || owners.any(|owner| owner != first) {
            self.streak.set(None);
            return;
        }
        let before = self.streak.get().filter(|(core, _)| *core == first);
        let count = before.map_or(0, |(_, count)| count);
        self.streak.set(Some((first, count.saturating_add(1))));
    }

    /// The core where the connection should be served from now on. The time is asked for only where it matters.
    #[must_use]
    pub(crate) fn destination(&self, now: impl FnOnce() -> Duration) -> Option<ShardIndex> {
        let needed = self.after?.saturating_mul(1 << self.moves.min(HARDER_MOVES_MAX));
        let (core, count) = self.streak.get()?;
        (count >= needed && now() >= self.stays_until.get()).then_some(core)
    }

    /// It could not be moved: it is left in peace for a while.
    pub(crate) fn stay(&self, now: Duration) {
        self.stays_until.set(now.saturating_add(STAY_MIN));
    }

    /// How often it will have moved when it has moved once more.
    #[must_use]
    pub(crate) fn next_moves(&self) -> u32 {
        self.moves.saturating_add(1)
    }

    /// A fetch was of this session. One without a session says nothing: the client may go on in the one before.
    pub(crate) fn note_session(&self, id: SessionId) {
        if id != SessionId::NONE {
            self.session.set(id);
        }
    }

    /// The client has ended this session: another connection may get its number.
    pub(crate) fn forget_session(&self, id: SessionId) {
        if self.session.get() == id {
            self.session.set(SessionId::NONE);
        }
    }

    /// The session of its last fetch with one; [`SessionId::NONE`] for none.
    #[must_use]
    pub(crate) fn session(&self) -> SessionId {
        self.session.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ShardIndex = ShardIndex(0);
    const A: ShardIndex = ShardIndex(1);
    const B: ShardIndex = ShardIndex(2);

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Where a new connection goes after these requests, each given by the owners of its partitions.
    fn check(requests: &[&[ShardIndex]], expected: Option<ShardIndex>) {
        let routing = Routing::new(HERE, Some(3));
        for owners in requests {
            routing.note(owners.iter().copied());
        }
        assert_eq!(routing.destination(|| at(0)), expected, "{requests:?}");
    }

    #[test]
    fn enough_requests_in_a_row_for_one_other_core_and_nothing_less() {
        check(&[&[A], &[A]], None);
        check(&[&[A], &[A], &[A]], Some(A));
        check(&[&[A, A], &[A], &[A, A, A], &[A]], Some(A));
        check(&[&[HERE], &[HERE], &[HERE], &[HERE]], None);
        // What concerns no partition neither counts nor breaks the row.
        check(&[&[A], &[], &[A], &[], &[A]], Some(A));
        check(&[&[], &[], &[]], None);
        // This core's own, several cores at once, or another core: it begins anew.
        check(&[&[A], &[A], &[HERE], &[A], &[A]], None);
        check(&[&[A], &[A], &[A, HERE], &[A]], None);
        check(&[&[A], &[A], &[A, B], &[A], &[A]], None);
        check(&[&[A], &[A], &[B], &[B]], None);
        check(&[&[A], &[A], &[B], &[B], &[B]], Some(B));
    }

    #[test]
    fn a_client_that_alternates_never_moves() {
        let routing = Routing::new(HERE, Some(2));
        for round in 0..10_000 {
            routing.note([[A, B, HERE][round % 3]]);
            assert_eq!(routing.destination(|| at(1 << 40)), None);
        }
    }

    #[test]
    fn a_connection_that_has_moved_stays_a_while_and_each_move_needs_twice_as_many_requests() {
        for (moves, needed) in [(1, 6), (2, 12), (6, 192), (7, 192), (u32::MAX, 192)] {
            let routing = Routing::moved(HERE, Some(3), (moves, at(500)), SessionId(7));
            assert_eq!(routing.session(), SessionId(7));
            for _ in 1..needed {
                routing.note([A]);
            }
            assert_eq!(routing.destination(|| at(9_999)), None, "{moves} moves");
            routing.note([A]);
            assert_eq!(routing.destination(|| at(1_499)), None, "too soon");
            assert_eq!(routing.destination(|| at(1_500)), Some(A), "{moves} moves");
        }
    }

    #[test]
    fn a_session_is_remembered_until_it_is_ended_or_another_takes_its_place() {
        let routing = Routing::new(HERE, None);
        let [first, second] = [SessionId(7), SessionId(8)];
        routing.note_session(first);
        routing.note_session(SessionId::NONE);
        routing.forget_session(second);
        assert_eq!(routing.session(), first);
        routing.note_session(second);
        routing.forget_session(first);
        assert_eq!(routing.session(), second);
        routing.forget_session(second);
        assert_eq!(routing.session(), SessionId::NONE);
    }

    #[test]
    fn where_moving_is_switched_off_or_failed_the_connection_stays() {
        let off = Routing::new(HERE, None);
        let on = Routing::new(HERE, Some(1));
        for _ in 0..1000 {
            off.note([A]);
            on.note([A]);
        }
        assert_eq!(off.destination(|| at(9_999)), None);
        assert_eq!(on.destination(|| at(9_999)), Some(A));
        on.stay(at(9_999));
        assert_eq!(on.destination(|| at(10_998)), None);
        assert_eq!(on.destination(|| at(10_999)), Some(A));
    }
}
