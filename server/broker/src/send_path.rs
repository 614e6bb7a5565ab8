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

/// Most bytes that leave before the connection counts as moved; as many as `node` gives the kernel in one call.
const SEND_BYTES_MAX: usize = 1 << 20;

/// How far a send has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// From here on the client is waited for.
    Begins,
    /// The client's side has taken so many bytes more.
    Sent(usize),
    /// All of it has left.
    Ends,
}

/// Sends the pieces of replies to one client.
pub trait SendPath<D: Disk> {
    /// Sends all of `parts`, in order, and tells how it goes. Errors: the connection is lost.
    fn send(
        &mut self,
        parts: &[Part<D>],
        tell: impl Fn(Sending),
    ) -> impl Future<Output = io::Result<()>>;

    /// Ends the connection.
    fn shutdown(&mut self) -> impl Future<Output = ()>;
}

/// Gathers the pieces where they lie.
#[derive(Debug)]
pub struct PlainSendPath<W>(pub W);

impl<D: Disk, W: ConnectionWriter> SendPath<D> for PlainSendPath<W> {
    async fn send(&mut self, parts: &[Part<D>], tell: impl Fn(Sending)) -> io::Result<()> {
        tell(Sending::Begins);
        let slices: Vec<&[u8]> = parts.iter().map(Part::as_bytes).collect();
        let mut rest = Rest { slices: &slices, offset: 0 };
        loop {
            let (piece, bytes) = rest.next();
            if bytes == 0 {
                tell(Sending::Ends);
                return Ok(());
            }
            self.0.send(&piece).await?;
            tell(Sending::Sent(bytes));
        }
    }

    async fn shutdown(&mut self) {
        self.0.shutdown().await;
    }
}

/// What has not left yet.
struct Rest<'a> {
    slices: &'a [&'a [u8]],
    /// Bytes of the first slice that have left.
    offset: usize,
}

impl<'a> Rest<'a> {
    /// What leaves next and the bytes in it: at most [`SEND_BYTES_MAX`], none at the end.
    fn next(&mut self) -> (Vec<&'a [u8]>, usize) {
        let mut piece = Vec::with_capacity(self.slices.len());
        let mut bytes = 0;
        while let Some((first, others)) = self.slices.split_first() {
            let left = first.get(self.offset..).unwrap_or_default();
            let taken = left.get(..SEND_BYTES_MAX - bytes).unwrap_or(left);
            if !taken.is_empty() {
                piece.push(taken);
                bytes += taken.len();
            }
            if taken.len() < left.len() {
                self.offset += taken.len();
                break;
            }
            (self.slices, self.offset) = (others, 0);
        }
        (piece, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_leaves_once_in_order_and_no_piece_is_larger_than_its_bound() {
        let whole: Vec<u8> = (0..=250).cycle().take(5 * SEND_BYTES_MAX / 2).collect();
        for cuts in [vec![], vec![0, 7], vec![SEND_BYTES_MAX], vec![10, 10, 2 * SEND_BYTES_MAX + 1]]
        {
            let mut slices = Vec::new();
            let mut from = 0;
            for cut in cuts.iter().copied().chain([whole.len()]) {
                slices.push(&whole[from..cut]);
                from = cut;
            }
            let mut rest = Rest { slices: &slices, offset: 0 };
            let mut left = Vec::new();
            loop {
                let (piece, bytes) = rest.next();
                assert_eq!(piece.iter().map(|slice| slice.len()).sum::<usize>(), bytes);
                if bytes == 0 {
                    break;
                }
                let is_last = left.len() + bytes == whole.len();
                assert!(bytes == SEND_BYTES_MAX || is_last, "{bytes} bytes of {cuts:?}");
                left.extend(piece.concat());
            }
            assert_eq!(left, whole, "{cuts:?}");
        }
    }
}
