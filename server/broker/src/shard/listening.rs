//! The client listeners of a core, and the connections they brought.
//!
//! Owns binding, the accept loops and the live connections: their bound, and the end of those that are silent. Binding and accepting are two steps: nothing is served
//! before every log of the node is recovered, and the port is known before it is advertised.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use commitlog::TaskClass;
use futures_lite::future::or;

use crate::accept::accept_each;
use crate::calls::ListenAt;
use crate::connection::{self, Activity, ArrivalLimits};
use crate::context::ListenerName;
use crate::log_pace::LogPace;
use crate::mesh_call::Message;
use crate::platform::{Listener, Mesh, Platform};
use crate::shard::Shard;
use crate::sync::Event;

/// How long a request may take to arrive, and how slowly it may come, while others wait for the memory that it holds.
const ARRIVAL_LIMITS: ArrivalLimits = ArrivalLimits {
    time_max: Duration::from_secs(30),
    grace: Duration::from_secs(2),
    bytes_per_second_min: 64 << 10,
};
/// At most one line in this time about connections that cannot be taken in; metrics count them all.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Listeners that are bound, and what came through them.
pub(super) struct Listening<P: Platform> {
    bound: RefCell<Vec<(ListenerName, P::Listener)>>,
    /// Connections being served, by a number that is never used again.
    live: RefCell<BTreeMap<u64, Rc<Activity>>>,
    next_number: Cell<u64>,
    ended: Rc<Event>,
    refusal_pace: LogPace,
}

impl<P: Platform> Default for Listening<P> {
    fn default() -> Self {
        Self {
            bound: RefCell::default(),
            live: RefCell::default(),
            next_number: Cell::new(0),
            ended: Rc::default(),
            refusal_pace: LogPace::new(REFUSAL_LOG_INTERVAL),
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

/// A connection's place among those of this node, for as long as it lives, however it ends.
struct Place<P: Platform, M: Mesh<Message>> {
    shard: Rc<Shard<P, M>>,
    number: u64,
}

impl<P: Platform, M: Mesh<Message>> Place<P, M> {
    /// `None` where the node has `max.connections` already.
    fn take(shard: &Rc<Shard<P, M>>, activity: &Rc<Activity>) -> Option<Self> {
        let maximum = shard.settings.get().connections_max;
        let taken = shard.state.connection_count.fetch_add(1, Ordering::Relaxed);
        let number = shard.listening.next_number.get();
        shard.listening.next_number.set(number + 1);
        shard.listening.live.borrow_mut().insert(number, Rc::clone(activity));
        // From here on dropping it gives the place back.
        let place = Self { shard: Rc::clone(shard), number };
        if usize::try_from(taken).is_ok_and(|taken| taken >= maximum) {
            shard.metrics.connections_refused.increment();
            return None;
        }
        shard.metrics.connections_accepted.increment();
        Some(place)
    }
}

impl<P: Platform, M: Mesh<Message>> Drop for Place<P, M> {
    fn drop(&mut self) {
        self.shard.state.connection_count.fetch_sub(1, Ordering::Relaxed);
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

    /// Ends connections on which nothing has moved for `connections.max.idle.ms`; and, where others wait for memory, those whose
    /// request holds some and does not arrive.
    pub(super) fn end_silent_connections(&self, now: Duration) {
        let idle_max = self.state.config.connection_idle_max;
        let live: Vec<Rc<Activity>> = self.listening.live.borrow().values().cloned().collect();
        let others_wait = self.request_memory.waiter_count() > 0;
        for activity in live {
            activity.expire(now, idle_max);
            if others_wait && activity.expire_arrival(now, ARRIVAL_LIMITS) {
                self.metrics.slow_requests.increment();
            }
        }
    }

    /// Serves a new connection, or refuses it: dropping both halves closes it.
    fn take_in(self: &Rc<Self>, name: &ListenerName, reader: P::Reader, writer: P::Writer) {
        let activity = Activity::new(self.platform.monotonic());
        let Some(place) = Place::take(self, &activity) else {
            if let Some(unlogged) = self.listening.refusal_pace.due(self.platform.monotonic()) {
                let maximum = self.settings.get().connections_max;
                tracing::warn!(listener = %name.0, maximum, unlogged, "connection refused: the node has as many as max.connections and the limit of open files allow");
            }
            return;
        };
        let (serving, name) = (Rc::clone(self), name.clone());
        self.platform.spawn(
            TaskClass::Foreground,
            Box::pin(async move {
                connection::serve(serving, name, activity, (reader, writer)).await;
                drop(place);
            }),
        );
    }

    fn report_no_accept(&self, name: &ListenerName, error: &io::Error) {
        if let Some(unlogged) = self.listening.refusal_pace.due(self.platform.monotonic()) {
            tracing::warn!(listener = %name.0, %error, unlogged, "cannot accept connections, trying again");
        }
    }
}
