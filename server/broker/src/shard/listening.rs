//! The client listeners of a core, and the connections they brought.
//!
//! Owns binding, the accept loops and the live connections: their bound, and the end of those that are silent. Binding and accepting are two steps: nothing is served
//! before every log of the node is recovered, and the port is known before it is advertised.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use commitlog::TaskClass;
use futures_lite::future::or;

use crate::calls::ListenAt;
use crate::connection::{self, Activity, ArrivalLimits};
use crate::context::ListenerName;
use crate::mesh_call::Message;
use crate::platform::{Listener, Mesh, Platform};
use crate::shard::Shard;
use crate::sync::Event;

/// How long to leave a listener alone that could not accept: files run out and come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
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
    refusal_logged_at: Cell<Option<Duration>>,
}

impl<P: Platform> Default for Listening<P> {
    fn default() -> Self {
        Self {
            bound: RefCell::default(),
            live: RefCell::default(),
            next_number: Cell::new(0),
            ended: Rc::default(),
            refusal_logged_at: Cell::new(None),
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
                let accept = accept_all(Rc::clone(&shard), name, listener);
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

    fn log_refusal(&self, say: impl FnOnce()) {
        let (now, logged_at) = (self.platform.monotonic(), &self.listening.refusal_logged_at);
        if logged_at.get().is_none_or(|at| now.saturating_sub(at) >= REFUSAL_LOG_INTERVAL) {
            logged_at.set(Some(now));
            say();
        }
    }
}

async fn accept_all<P: Platform, M: Mesh<Message>>(
    shard: Rc<Shard<P, M>>,
    name: ListenerName,
    listener: P::Listener,
) {
    loop {
        let (reader, writer) = match listener.accept().await {
            Ok(halves) => halves,
            Err(error) => {
                shard.log_refusal(|| {
                    tracing::warn!(listener = %name.0, %error, "cannot accept connections, trying again");
                });
                shard.platform.sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let activity = Activity::new(shard.platform.monotonic());
        let Some(place) = Place::take(&shard, &activity) else {
            shard.log_refusal(|| {
                let maximum = shard.settings.get().connections_max;
                tracing::warn!(listener = %name.0, maximum, "connection refused: the node has as many as max.connections and the limit of open files allow");
            });
            shard.platform.yield_if_needed().await;
            continue;
        };
        let (serving, name) = (Rc::clone(&shard), name.clone());
        shard.platform.spawn(
            TaskClass::Foreground,
            Box::pin(async move {
                connection::serve(serving, name, activity, (reader, writer)).await;
                drop(place);
            }),
        );
    }
}
