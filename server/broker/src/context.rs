//! Who asks, over what, and whether they may.
//!
//! Owns the request context that every handler gets and the one question every handler asks before it acts. Everyone may do
//! everything until security exists; the question is asked all the same, so that no handler has to be found later.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::calls::ConnectionNumber;
use crate::connection::{Activity, Routing};
use crate::endpoint::Approach;

/// Who is behind a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// Nobody has said who they are.
    Anonymous,
}

/// The listener a connection came in by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerName(pub Rc<str>);

/// What an operation would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Read records.
    Read,
    /// Write records.
    Write,
    /// Create a topic.
    Create,
    /// Delete a topic.
    Delete,
    /// See that it exists.
    Describe,
    /// Change it: more partitions.
    Alter,
    /// See its configuration.
    DescribeConfigs,
    /// Change its configuration.
    AlterConfigs,
    /// Become an idempotent producer.
    IdempotentWrite,
}

/// What an operation would touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// A topic by name.
    Topic(&'a str),
    /// A consumer group by name.
    Group(&'a str),
    /// The cluster itself.
    Cluster,
}

/// The answer to [`RequestContext::authorize`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Allowed,
    /// Refuse, and say nothing about what is there (QA-3).
    Denied,
}

/// When one request went through its stages: where the next one is measured from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    /// Monotonic time when the frame was complete.
    pub received: Duration,
    /// Monotonic time when its batches had their places, of a Produce that waits for more.
    pub appended: Option<Duration>,
}

/// What a handler knows about the request besides its bytes.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// The connection, of this core's.
    pub connection: ConnectionNumber,
    /// Who asks.
    pub principal: Principal,
    /// By which listener.
    pub listener: ListenerName,
    /// The client id of the request header, if it sent one.
    pub client: Option<Rc<str>>,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// This end: what a wildcard listener advertises.
    pub local: SocketAddr,
    /// Time stamps of this request.
    pub stages: Stages,
    /// Which cores the requests of the connection concern.
    pub(crate) routing: Rc<Routing>,
    /// Whether the connection still moves, and whether others wait for what it holds.
    pub(crate) activity: Rc<Activity>,
}

impl RequestContext {
    /// Whether the principal may do this.
    #[must_use]
    pub fn authorize(&self, _operation: Operation, _resource: Resource<'_>) -> Verdict {
        match self.principal {
            // Without security configured a listener is as open as Kafka's plaintext one.
            Principal::Anonymous => Verdict::Allowed,
        }
    }

    /// How the client came here.
    #[must_use]
    pub fn approach(&self) -> Approach<'_> {
        Approach { listener: &self.listener.0, connected_to: self.local }
    }

    /// [`RequestContext::authorize`] as a yes or no.
    #[must_use]
    pub fn may(&self, operation: Operation, resource: Resource<'_>) -> bool {
        self.authorize(operation, resource) == Verdict::Allowed
    }
}
