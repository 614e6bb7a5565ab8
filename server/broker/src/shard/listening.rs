//! The client listeners of a core, and the connections they brought.
//!
//! Owns binding, the accept loops and the live connections: their bound, and the end of those that are silent. Binding and
//! accepting are two steps: nothing is served before every log of the node is recovered, and the port is known before it is
//! advertised.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::Advertise;
use commitlog::TaskClass;
use futures_lite::future::or;

use crate::accept::accept_each;
use crate::calls::{ConnectionNumber, ListenAt};
use crate::connection::{self, Activity, ArrivalLimits, EndReason, Lapse, Patience, Routing};
use crate::connection_counts::{ConnectionBounds, ConnectionPlace, NoPlace};
use crate::context::ListenerName;
use crate::log_pace::LogPace;
use crate::mesh_call::Message;
use crate::platform::{ConnectionReader, Listener, Mesh, Platform};
use crate::shard::Shard;
use crate::sync::Event;

/// How long a request may take to arrive, and how slowly it may come, while others wait for the memory that it holds. A client
/// may take as long to take its answers.
const ARRIVAL_LIMITS: ArrivalLimits = ArrivalLimits {
    time_max: Duration::from_secs(30),
    grace: Duration::from_secs(2),
    bytes_per_second_min: 64 << 10,
};
/// At most one line in this time about connections that cannot be taken in, or are given up; metrics count them all.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Listeners that are bound, and what came through them.
pub(super) struct Listening<P: Platform> {
    bound: RefCell<Vec<(ListenerName, P::Listener)>>,
    /// Connections being served, by a number that is never used again.
    live: RefCell<BTreeMap<ConnectionNumber, Rc<Activity>>>,
    next_number: Cell<u64>,
    ended: Rc<Event>,
    refusal_pace: LogPace,
    address_pace: LogPace,
    slow_pace: LogPace,
}

impl<P: Platform> Default for Listening<P> {
    fn default() -> Self {
        Self {
            bound: RefCell::default(),
            live: RefCell::default(),
            next_number: Cell::new(0),
            ended: Rc::default(),
            refusal_pace: LogPace::new(REFUSAL_LOG_INTERVAL),
            address_pace: LogPace::new(REFUSAL_LOG_INTERVAL),
            slow_pace: LogPace::new(REFUSAL_LOG_INTERVAL),
        }
    }
}

impl<P: Platform> Listening<P> {
    /// Binds the client listeners; gives back their addresses, with the ports that port 0 became.
    pub(super) async fn bind(
        &self,
        platform: &P,
        at: Vec<ListenAt>,
    ) -> Result<Vec<SocketAddr>, String> {
        let mut addresses = Vec::with_capacity(at.len());
        for ListenAt { name, address } in at {
            let listener = platform
                .listen(address)
                .await
                .map_err(|error| format!("listener {name}: {address}: {error}"))?;
            addresses.push(listener.local_address());
            self.bound.borrow_mut().push((ListenerName(name.into()), listener));
        }
        Ok(addresses)
    }
}

/// A connection as a core begins to serve it.
pub(crate) struct Arrival {
    /// The listener it came in by.
    pub(crate) listener: ListenerName,
    /// What is known of its requests.
    pub(crate) routing: Rc<Routing>,
    /// What another core has read of it and not cut into requests; `None` for a new one.
    pub(crate) read_ahead: Option<Bytes>,
}

/// A connection that is served, for as long as it lives, however it ends.
struct Live<P: Platform, M: Mesh<Message>> {
    shard: Rc<Shard<P, M>>,
    number: ConnectionNumber,
    place: Option<ConnectionPlace>,
}

impl<P: Platform, M: Mesh<Message>> Live<P, M> {
    fn begin(shard: &Rc<Shard<P, M>>, activity: &Rc<Activity>, place: ConnectionPlace) -> Self {
        let next = &shard.listening.next_number;
        let number = ConnectionNumber(next.replace(next.get() + 1));
        shard.listening.live.borrow_mut().insert(number, Rc::clone(activity));
        Self { shard: Rc::clone(shard), number, place: Some(place) }
    }

    /// It is not served here any more, and keeps its place among those of the node.
    fn leave(mut self) -> Option<ConnectionPlace> {
        self.place.take()
    }
}

impl<P: Platform, M: Mesh<Message>> Drop for Live<P, M> {
    fn drop(&mut self) {
        self.shard.listening.live.borrow_mut().remove(&self.number);
        self.shard.listening.ended.notify();
    }
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Serves what connects from now on.
    pub(super) fn accept(self: &Rc<Self>) {
        for (name, listener) in self.listening.bound.take() {
            let shard = Rc::clone(self);
            let accepting = async move {
                let failed = |error: &io::Error| shard.report_no_accept(&name, error);
                let taken = |reader, writer| shard.take_in(&name, reader, writer);
                let accept = accept_each(&shard.platform, listener, failed, taken);
                or(accept, shard.stopping.raised()).await;
            };
            self.platform.spawn(TaskClass::Foreground, Box::pin(accepting));
        }
        self.spawn_clockwork();
    }

    /// Takes nothing new and waits, not for ever, until what is under way has been answered.
    pub(super) async fn drain(&self) {
        self.stopping.raise();
        self.listening.bound.take();
        let idle = async {
            while self.connection_count() > 0 {
                self.listening.ended.listen().await;
            }
        };
        or(idle, self.platform.sleep(self.state.config.shutdown_timeout)).await;
    }

    /// Connections being served here.
    pub(super) fn connection_count(&self) -> usize {
        self.listening.live.borrow().len()
    }

    /// Ends connections that have been silent for too long.
    pub(super) async fn end_silent_connections(&self, now: Duration) {
        let config = &self.state.config;
        let others_wait = self.request_memory.has_waiters();
        let patience = Patience {
            idle_max: config.connection_idle_max,
            send_max: config.connection_send_max,
            arrival: others_wait.then_some(ARRIVAL_LIMITS),
            contended_max: ARRIVAL_LIMITS.time_max,
        };
        let live: Vec<Rc<Activity>> = self.listening.live.borrow().values().cloned().collect();
        for activity in live {
            match activity.expire(now, &patience) {
                Some(Lapse::Idle) => self.metrics.connections_idle.increment(),
                Some(Lapse::Stalled) => self.metrics.connections_stalled.increment(),
                Some(Lapse::SlowRequest) => self.metrics.slow_requests.increment(),
                None => {}
            }
            self.platform.yield_if_needed().await;
        }
    }

    /// Tells long polls to end where their connections hold memory that others wait for.
    pub(super) async fn hurry_long_polls(&self) {
        if !self.request_memory.has_waiters() {
            return;
        }
        let live: Vec<Rc<Activity>> = self.listening.live.borrow().values().cloned().collect();
        for activity in live {
            activity.hurry();
            self.platform.yield_if_needed().await;
        }
    }

    /// Serves a new connection, or refuses it: dropping both halves closes it.
    fn take_in(self: &Rc<Self>, name: &ListenerName, reader: P::Reader, writer: P::Writer) {
        let settings = self.settings.get();
        let peer = reader.peer_address();
        let own_limit = self.state.config.address_limits.of(peer.ip());
        let bounds = ConnectionBounds {
            in_all_max: settings.connections_max,
            per_address_max: own_limit.unwrap_or(settings.connections_per_address_max),
        };
        let place = match self.state.connections.take(peer.ip(), bounds) {
            Ok(place) => place,
            Err(refused) => return self.report_no_place(name, peer, refused, bounds),
        };
        self.metrics.connections_accepted.increment();
        let routing = Routing::new(self.index(), self.handover_after(name));
        let arrival = Arrival { listener: name.clone(), routing, read_ahead: None };
        self.begin_serving(arrival, (reader, writer), place);
    }

    /// Serves a connection that has its place, until it ends or moves.
    pub(super) fn begin_serving(
        self: &Rc<Self>,
        arrival: Arrival,
        halves: (P::Reader, P::Writer),
        place: ConnectionPlace,
    ) {
        let activity = Activity::new(self.platform.monotonic());
        let live = Live::begin(self, &activity, place);
        let (serving, listener) = (Rc::clone(self), arrival.listener.clone());
        let serve = async move {
            let shard = Rc::clone(&serving);
            let arrival = (live.number, arrival);
            let departure = connection::serve(serving, arrival, activity, halves).await;
            let place = live.leave();
            if let Some(((to, departure), place)) = departure.zip(place) {
                shard.hand_over(to, &listener, (departure, place)).await;
            }
        };
        self.platform.spawn(TaskClass::Foreground, Box::pin(serve));
    }

    /// After how many requests in a row for one other core a connection of this listener moves there; `None` for never: where
    /// every core is a broker of its own, clients find theirs by themselves.
    pub(super) fn handover_after(&self, name: &ListenerName) -> Option<u32> {
        let config = &self.state.config;
        let listener = config.listeners.iter().find(|listener| *listener.name == *name.0)?;
        let moves = listener.advertise == Advertise::Node && self.state.shard_count > 1;
        config.connection_handover_after.filter(|_| moves)
    }

    /// Says in the log, but not for each, that a client was too slow for the others.
    pub(crate) fn report_slow_client(&self, peer: SocketAddr, reason: &EndReason) {
        if let Some(unlogged) = self.listening.slow_pace.due(self.platform.monotonic()) {
            tracing::warn!(%peer, unlogged, "connection closed: {reason}");
        }
    }

    fn report_no_place(
        &self,
        name: &ListenerName,
        peer: SocketAddr,
        refused: NoPlace,
        bounds: ConnectionBounds,
    ) {
        let (listener, now) = (&name.0, self.platform.monotonic());
        match refused {
            NoPlace::InAll => {
                self.metrics.connections_refused.increment();
                if let Some(unlogged) = self.listening.refusal_pace.due(now) {
                    let maximum = bounds.in_all_max;
                    tracing::warn!(%listener, %peer, maximum, unlogged, "connection refused: the node has as many as max.connections and the limit of open files allow");
                }
            }
            NoPlace::OfAddress => {
                self.metrics.connections_refused_per_address.increment();
                if let Some(unlogged) = self.listening.address_pace.due(now) {
                    let maximum = bounds.per_address_max;
                    tracing::warn!(%listener, %peer, maximum, unlogged, "connection refused: its address has as many as max.connections.per.ip or an override allows");
                }
            }
        }
    }

    pub(super) fn report_no_accept(&self, name: &ListenerName, error: &io::Error) {
        if let Some(unlogged) = self.listening.refusal_pace.due(self.platform.monotonic()) {
            tracing::warn!(listener = %name.0, %error, unlogged, "cannot accept connections, trying again");
        }
    }
}
