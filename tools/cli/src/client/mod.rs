//! A small Kafka client over `trait Platform`: enough for a person's commands, not a library for applications.
//!
//! ```text
//!   commands ── Client ── metadata: who leads what ── one connection a broker ── wire ── Platform's sockets
//!                  └ retries: on codes that pass by themselves, metadata first, until the time is up
//! ```
//!
//! Owns routing and retries. One task uses a client at a time; a consumer's fetch tasks have connections of their own.

mod address;
mod admin;
mod cluster;
mod configs;
mod connection;
mod consumer;
mod error;
mod metadata;
mod offsets;
mod producer;
mod records;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tls_probe;
mod together;

use std::collections::BTreeMap;
use std::time::Duration;

use broker::Platform;
use record::NodeId;
use wire::Request;

pub(crate) use address::Address;
pub(crate) use admin::NewTopic;
pub(crate) use cluster::{Broker, Cluster};
pub(crate) use configs::{Commit, ConfigChange, ConfigOwner, ConfigSource, ConfigState};
pub(crate) use connection::{Answer, CallOptions, Connection};
pub(crate) use consumer::{Consumer, Fetched};
pub(crate) use error::{
    BROKEN_ADVICE, BUG_ADVICE, ClientError, HANG_UP_ADVICE, LATE_ADVICE, OFFLINE_ADVICE,
    advice_for, advice_for_address, listed,
};
#[cfg(test)]
pub(crate) use error::{Delivery, Speaks};
pub(crate) use metadata::{AutoCreate, Topic};
pub(crate) use offsets::{FoundOffset, OffsetAt, Survey};
pub(crate) use producer::{Acks, OutgoingHeaders, OutgoingRecord, Producer, ProducerOptions};
pub(crate) use records::CutShort;

use crate::exit::Outcome;

/// Pause before the first repeated attempt; doubled each time up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause between attempts: how late a recovery is noticed.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How to reach a cluster.
#[derive(Debug, Clone)]
pub(crate) struct ClientOptions {
    /// Whom to ask first.
    pub(crate) bootstrap: Vec<Address>,
    /// How long an operation may take with all its attempts.
    pub(crate) timeout: Duration,
}

impl ClientOptions {
    /// Options from the command line.
    pub(crate) fn parse(bootstrap: &str, timeout_ms: u32) -> Outcome<Self> {
        let bootstrap = Address::parse_list(bootstrap)?;
        Ok(Self { bootstrap, timeout: Duration::from_millis(u64::from(timeout_ms)) })
    }
}

/// A client of one cluster.
pub(crate) struct Client<P: Platform> {
    platform: P,
    options: ClientOptions,
    /// What the last metadata said.
    brokers: BTreeMap<NodeId, Address>,
    /// For what any broker answers.
    any: Option<Connection<P>>,
    /// For what only a leader answers.
    leaders: BTreeMap<NodeId, Connection<P>>,
}

impl<P: Platform> Client<P> {
    /// A client that has not connected yet.
    pub(crate) fn new(platform: P, options: ClientOptions) -> Self {
        Self { platform, options, brokers: BTreeMap::new(), any: None, leaders: BTreeMap::new() }
    }

    /// The platform it runs on.
    pub(crate) fn platform(&self) -> &P {
        &self.platform
    }

    /// Whether an open connection leads to that address, as it is written.
    pub(crate) fn is_connected_to(&self, address: &Address) -> bool {
        self.any.iter().chain(self.leaders.values()).any(|open| open.address() == address)
    }

    /// How long an operation may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// The attempts of one operation.
    pub(crate) fn attempts(&self) -> Attempts<P> {
        let until = self.platform.monotonic() + self.options.timeout;
        Attempts { platform: self.platform.clone(), until, pause: PAUSE_MIN }
    }

    /// Tries `once` until it succeeds, fails for good, or the time is up. A topic that is absent is told at once: it is a
    /// name that was mistyped far more often than one that is about to be there.
    pub(crate) async fn retried<T>(
        &mut self,
        mut once: impl AsyncFnMut(&mut Self) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut attempts = self.attempts();
        loop {
            match once(self).await {
                Err(error) if self.passes(&error) && !error.is_absence() => {
                    attempts.pause(error).await?;
                }
                result => return result,
            }
        }
    }

    /// Asks any broker, once.
    pub(crate) async fn ask_any<'q, Q: Request<'q>>(
        &mut self,
        request: &Q,
    ) -> Result<Answer, ClientError> {
        let mut connection = self.take_any().await?;
        let options = CallOptions::within(self.options.timeout);
        let answer = connection.call(request, options).await?;
        // Kept only now: after an error the connection is of no use.
        self.any = Some(connection);
        Ok(answer)
    }

    /// A connection to any broker, one that is open already where there is one; the caller puts it into `any` again.
    async fn take_any(&mut self) -> Result<Connection<P>, ClientError> {
        let open = self.any.take();
        // A leader's will do: a node may allow an address few connections.
        match open.or_else(|| self.leaders.pop_first().map(|(_, connection)| connection)) {
            Some(connection) => Ok(connection),
            None => self.dial_any().await,
        }
    }

    /// Asks one broker, once.
    pub(crate) async fn ask<'q, Q: Request<'q>>(
        &mut self,
        node: NodeId,
        request: &Q,
        options: CallOptions,
    ) -> Result<Answer, ClientError> {
        let mut connection = self.take_leader(node).await?;
        let answer = connection.call(request, options).await?;
        self.keep_leader(node, connection);
        Ok(answer)
    }

    /// The connection to one broker, made where there is none; the caller brings it back with [`Client::keep_leader`].
    pub(crate) async fn take_leader(&mut self, node: NodeId) -> Result<Connection<P>, ClientError> {
        if let Some(connection) = self.leaders.remove(&node) {
            return Ok(connection);
        }
        let Some(address) = self.brokers.get(&node) else {
            return Err(ClientError::NotMentioned { place: format!("broker {node}") });
        };
        // What any broker was asked through may lead to this one.
        if let Some(connection) = self.any.take_if(|any| any.address() == address) {
            return Ok(connection);
        }
        let opened = Connection::open(&self.platform, address, self.options.timeout).await;
        opened.map_err(|error| match error {
            // The address of the command line worked: what the cluster makes of it does not.
            ClientError::Unreachable { address, source }
                if !self.options.bootstrap.contains(&address) =>
            {
                ClientError::Misled { node, address, source }
            }
            error => error,
        })
    }

    /// Brings back a connection that is still good.
    pub(crate) fn keep_leader(&mut self, node: NodeId, connection: Connection<P>) {
        // The metadata may have moved the broker meanwhile.
        if self.brokers.get(&node) == Some(connection.address()) {
            self.leaders.insert(node, connection);
        }
    }

    /// The first that answers: those of the metadata after those of the command line.
    async fn dial_any(&self) -> Result<Connection<P>, ClientError> {
        let mut last = None;
        for address in self.options.bootstrap.iter().chain(self.brokers.values()) {
            match Connection::open(&self.platform, address, self.options.timeout).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(ClientError::NotMentioned { place: "bootstrap servers".to_owned() }))
    }

    /// Whether `error` may pass. A cluster that was never reached is not waited for: the address is probably wrong.
    pub(crate) fn passes(&self, error: &ClientError) -> bool {
        let is_unreached = self.brokers.is_empty();
        let is_of_address =
            matches!(error, ClientError::Unreachable { .. } | ClientError::Broken { .. });
        error.passes() && !(is_unreached && is_of_address)
    }
}

/// The attempts of one operation: when to try again, and when to stop.
pub(crate) struct Attempts<P: Platform> {
    platform: P,
    until: Duration,
    pause: Duration,
}

impl<P: Platform> Attempts<P> {
    /// Waits before the next attempt; gives the error back when the time is up.
    pub(crate) async fn pause(&mut self, error: ClientError) -> Result<(), ClientError> {
        let left = self.until.saturating_sub(self.platform.monotonic());
        if left < self.pause {
            return Err(error);
        }
        self.platform.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }

    /// Starts to count anew: something was achieved.
    pub(crate) fn restart(&mut self, timeout: Duration) {
        self.until = self.platform.monotonic() + timeout;
        self.pause = PAUSE_MIN;
    }
}
