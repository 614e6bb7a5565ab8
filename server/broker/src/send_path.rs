//! How a reply leaves: header bytes and record bytes, in order, none of them copied.
//!
//! Owns the parts of a reply and the seam through which they are sent. Plain sockets gather them with `sendmsg`; TLS and kernel
//! page passing get their own implementations here, and nothing above this file changes.

use std::future::Future;
use std::io;

use bytes::Bytes;
use commitlog::{Disk, RecordSlice};

use crate::platform::ConnectionWriter;

/// One piece of a reply.
#[derive(Debug)]
pub enum Part<D: Disk> {
    /// Encoded by a handler, or record bytes that another core copied.
    Bytes(Bytes),
    /// Record bytes in an I/O buffer of this core.
    Records(RecordSlice<D>),
}

impl<D: Disk> Part<D> {
    /// The bytes of the piece.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Records(slice) => slice,
        }
    }
}

/// Sends the pieces of replies to one client.
pub trait SendPath<D: Disk> {
    /// Sends all of `parts`, in order. Errors: the connection is lost.
    fn send(&mut self, parts: &[Part<D>]) -> impl Future<Output = io::Result<()>>;

    /// Ends the connection.
    fn shutdown(&mut self) -> impl Future<Output = ()>;
}

/// Gathers the pieces where they lie.
#[derive(Debug)]
pub struct PlainSendPath<W>(pub W);

impl<D: Disk, W: ConnectionWriter> SendPath<D> for PlainSendPath<W> {
    async fn send(&mut self, parts: &[Part<D>]) -> io::Result<()> {
        let slices: Vec<&[u8]> = parts.iter().map(Part::as_bytes).collect();
        self.0.send(&slices).await
    }

    async fn shutdown(&mut self) {
        self.0.shutdown().await;
    }
}
