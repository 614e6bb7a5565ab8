//! Connections that move to the core that all their requests concern (DESIGN section 8).
//!
//! Owns the pace of moves and both ends of one. A connection that arrives where the node is stopping, or where its socket cannot
//! be taken up, is closed, which clients take as any lost connection. Must never move one with a request under way.
//!
//! ```text
//! core that has it   destination ─ reading stops ─ all answers sent ─ part ─► Handover ──mesh──► core that owns the partitions
//! ```

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use record::ShardIndex;

use crate::calls::Request;
use crate::connection::Routing;
use crate::connection_counts::ConnectionPlace;
use crate::context::ListenerName;
use crate::fetch_sessions::SessionId;
use crate::handover::{Departure, Handover};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::{Arrival, Shard};

/// Between two moves from one core: 500 a second keep both cores below a tenth of their time.
const HANDOVER_INTERVAL_MIN: Duration = Duration::from_millis(2);

/// The pace of moves from one core.
#[derive(Debug, Default)]
pub(super) struct HandoverPace {
    /// Monotonic time from which the next connection may move.
    next_at: Cell<Duration>,
}

impl HandoverPace {
    fn take_turn(&self, now: Duration) -> bool {
        let is_due = now >= self.next_at.get();
        if is_due {
            self.next_at.set(now.saturating_add(HANDOVER_INTERVAL_MIN));
        }
        is_due
    }
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Where a connection should be served from now on.
    pub(crate) fn destination_of(&self, routing: &Routing) -> Option<ShardIndex> {
        let core = routing.destination(|| self.platform.monotonic())?;
        let may = !self.stopping.is_raised() && core.0 < self.state.shard_count;
        may.then_some(core)
    }

    /// Whether a connection may begin to move now. From here on the turn is its own: it comes to rest before it moves, and would
    /// have done so for nothing if another took the turn meanwhile.
    pub(crate) fn take_handover_turn(&self) -> bool {
        self.handover_pace.take_turn(self.platform.monotonic())
    }

    /// Gives a connection to another core. Where that one has left the mesh, the connection is closed.
    pub(super) async fn hand_over(
        &self,
        to: ShardIndex,
        listener: &ListenerName,
        (departure, place): (Departure, ConnectionPlace),
    ) {
        let handover = Handover { departure, listener: Box::from(&*listener.0), place };
        // Nobody waits for the answer: from here on the connection is the other core's.
        drop(self.caller.call(to.into(), Request::TakeOver(Box::new(handover))).await);
    }

    /// Goes on with a connection of another core.
    pub(super) fn take_over(self: &Rc<Self>, handover: Handover) {
        if self.stopping.is_raised() {
            return;
        }
        let Handover { departure, listener, place } = handover;
        let Departure { parted, read_ahead, session, moves } = departure;
        let listener = ListenerName(Rc::from(listener));
        let halves = match self.platform.adopt(parted) {
            Ok(halves) => halves,
            Err(error) => {
                // Mostly a client that has gone meanwhile: what was moving is nobody's any more.
                tracing::debug!(listener = %listener.0, %error, "a connection that moved here is lost");
                return;
            }
        };
        let now = self.platform.monotonic();
        let mut session_id = SessionId::NONE;
        if let Some(session) = session {
            session_id = session.id();
            self.fetch_sessions.borrow_mut().adopt(now, session);
        }
        let after = self.handover_after(&listener);
        let routing = Routing::moved(self.index(), after, (moves, now), session_id);
        self.metrics.connections_handed_over.increment();
        let arrival = Arrival { listener, routing, read_ahead: Some(read_ahead) };
        self.begin_serving(arrival, halves, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_of_one_connection_and_the_next_comes_after_a_while() {
        let pace = HandoverPace::default();
        let take = |micros| pace.take_turn(Duration::from_micros(micros));
        assert_eq!([take(0), take(0), take(1_999)], [true, false, false]);
        assert_eq!([take(2_000), take(2_001), take(9_000)], [true, false, true]);
    }
}
