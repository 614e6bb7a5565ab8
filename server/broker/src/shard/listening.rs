//! The client listeners of a core, and the connections they brought.
//!
//! Owns binding, the accept loops and the count of live connections. Binding and accepting are two steps: nothing is served
//! before every log of the node is recovered, and the port is known before it is advertised.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use commitlog::TaskClass;
use futures_lite::future::or;

use crate::calls::ListenAt;
use crate::connection;
use crate::context::ListenerName;
use crate::mesh_call::Message;
use crate::platform::{Listener, Mesh, Platform};
use crate::shard::Shard;
use crate::sync::Event;

/// How long to leave a listener alone that could not accept: files run out and come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// At most one line about refused connections in this time; the metric counts them all.
const REFUSED_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// How long connections may take to finish when the core stops.
const DRAIN_TIME: Duration = Duration::from_secs(6);

/// Listeners that are bound, and what came through them.
pub(super) struct Listening<P: Platform> {
    bound: RefCell<Vec<(ListenerName, P::Listener)>>,
    connections: Cell<usize>,
    ended: Rc<Event>,
}

impl<P: Platform> Default for Listening<P> {
    fn default() -> Self {
        Self { bound: RefCell::new(Vec::new()), connections: Cell::new(0), ended: Rc::default() }
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

/// Counts a connection for as long as it lives, however it ends.
struct Counted<P: Platform, M: Mesh<Message>>(Rc<Shard<P, M>>);

impl<P: Platform, M: Mesh<Message>> Counted<P, M> {
    fn new(shard: &Rc<Shard<P, M>>) -> Self {
        let count = &shard.listening.connections;
        count.set(count.get() + 1);
        shard.metrics.connections_accepted.increment();
        shard.metrics.connections.set(count.get() as u64);
        Self(Rc::clone(shard))
    }
}

impl<P: Platform, M: Mesh<Message>> Drop for Counted<P, M> {
    fn drop(&mut self) {
        let count = &self.0.listening.connections;
        count.set(count.get() - 1);
        self.0.metrics.connections.set(count.get() as u64);
        self.0.listening.ended.notify();
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
        self.spawn_ticker();
    }

    /// Takes nothing new and waits, not for ever, until what is under way has been answered.
    pub(super) async fn drain(&self) {
        self.stopping.raise();
        self.listening.bound.take();
        let idle = async {
            while self.listening.connections.get() > 0 {
                self.listening.ended.listen().await;
            }
        };
        or(idle, self.platform.sleep(DRAIN_TIME)).await;
    }
}

async fn accept_all<P: Platform, M: Mesh<Message>>(
    shard: Rc<Shard<P, M>>,
    name: ListenerName,
    listener: P::Listener,
) {
    let mut refused_at: Option<Duration> = None;
    loop {
        match listener.accept().await {
            Ok(_) if shard.listening.connections.get() >= shard.state.connections_max => {
                shard.metrics.connections_refused.increment();
                let now = shard.platform.monotonic();
                if refused_at.is_none_or(|at| now.saturating_sub(at) >= REFUSED_LOG_INTERVAL) {
                    refused_at = Some(now);
                    let bound = shard.state.connections_max;
                    tracing::warn!(listener = %name.0, bound, "connection refused: this core has as many as max.connections and the limit of open files allow");
                }
                shard.platform.yield_if_needed().await;
            }
            Ok((reader, writer)) => {
                let (serving, name) = (Rc::clone(&shard), name.clone());
                let counted = Counted::new(&shard);
                shard.platform.spawn(
                    TaskClass::Foreground,
                    Box::pin(async move {
                        connection::serve(serving, name, reader, writer).await;
                        drop(counted);
                    }),
                );
            }
            Err(error) => {
                tracing::warn!(listener = %name.0, %error, "cannot accept connections, trying again");
                shard.platform.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
