//! Connections that move to the core that all their requests concern (DESIGN section 8).
//!
//! Owns the pace of moves and both ends of one. A connection that arrives where the node is stopping, or where its socket cannot
//! be taken up, is closed, which clients take as any lost connection. Must never move one with a request under way.
//!
//! ```text
//! core that has it   destination ─ reading stops ─ all answers sent ─ part ─► Handover ──mesh──► core that owns the partitions
//! ```

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

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Where a connection should be served from now on, if it may move now.
    pub(crate) fn destination_of(&self, routing: &Routing) -> Option<ShardIndex> {
        let core = routing.destination(|| self.platform.monotonic())?;
        let is_due = self.platform.monotonic() >= self.handover_at.get();
        let may = is_due && !self.stopping.is_raised();
        (may && core.0 < self.state.shard_count).then_some(core)
    }

    /// Takes note that a connection moves.
    pub(crate) fn note_handover(&self) {
        self.handover_at.set(self.platform.monotonic().saturating_add(HANDOVER_INTERVAL_MIN));
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
            Err(error) => return self.report_no_accept(&listener, &error),
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
