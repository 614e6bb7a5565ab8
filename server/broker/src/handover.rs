//! A connection on its way from one core to another.
//!
//! Owns what goes along, all of it plain data: the socket, what was read ahead of the next request, the fetch session, the place
//! among the node's connections. There is never a request under way: each has been answered, and its answer sent, before.
//! Wherever it ends up or is lost, dropping it closes the connection and frees its place.

use bytes::Bytes;

use crate::connection_counts::ConnectionPlace;
use crate::fetch_sessions::CarriedSession;
use crate::platform::Parted;

/// What a core gives of a connection.
#[derive(Debug)]
pub(crate) struct Departure {
    /// The socket.
    pub(crate) parted: Parted,
    /// What has arrived of requests that are not begun.
    pub(crate) read_ahead: Bytes,
    /// The fetch session of its last fetch that had one.
    pub(crate) session: Option<CarriedSession>,
    /// How often it has moved, with this time.
    pub(crate) moves: u32,
}

/// A connection that one core hands to another.
#[derive(Debug)]
pub struct Handover {
    /// What the core gives of it.
    pub(crate) departure: Departure,
    /// The listener it came in by.
    pub(crate) listener: Box<str>,
    /// Its place among the node's connections: it was counted when it came, and is still the same one.
    pub(crate) place: ConnectionPlace,
}
