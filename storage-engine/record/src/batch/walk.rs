//! The walk over batches that lie back to back, as a segment or a fetch response holds them.
//!
//! Owns the judgement of what lies at a position: a whole batch, the beginning of one, a tail of zeros, or something
//! else. The end of data is judged from the whole header, never from the checksum, which may well be zero (P01).

use super::{BatchError, BatchView, HEADER_BYTES};

/// What lies at a position.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// A whole batch. Its checksum has not been verified.
    Whole(BatchView<'a>),
    /// The beginning of a batch, or of its header.
    Truncated {
        /// Bytes the batch takes (or its header, where not even that is whole).
        needed: usize,
        /// Bytes there are.
        left: usize,
    },
    /// Room that was filled with zeros ahead of use: 61 zero bytes, or fewer up to the end of the bytes.
    ZeroTail {
        /// Bytes from here to the end, zero or not.
        left: usize,
    },
    /// Bytes that are no batch. Nothing behind them can be trusted to start where it seems to.
    Corrupt(BatchError),
}

/// Judges what lies at the start of `bytes`; `None` where there are none.
#[must_use]
pub fn first_batch(bytes: &[u8]) -> Option<Found<'_>> {
    let left = bytes.len();
    // No batch starts with 61 zero bytes: its magic is 2.
    let head = bytes.first_chunk::<HEADER_BYTES>().map_or(bytes, <[u8; HEADER_BYTES]>::as_slice);
    if head.is_empty() {
        return None;
    }
    if head.iter().all(|byte| *byte == 0) {
        return Some(Found::ZeroTail { left });
    }
    Some(match BatchView::split_first(bytes) {
        Ok((view, _)) => Found::Whole(view),
        Err(BatchError::Truncated { needed, left }) => Found::Truncated { needed, left },
        Err(error) => Found::Corrupt(error),
    })
}

/// Iterates over the batches in a byte slice: (position, what lies there).
///
/// Order   ascending; whole batches, then at most one other item, which is the last.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
    ended: bool,
}

impl<'a> Batches<'a> {
    /// Walks `bytes` from their start, which must be the start of a batch.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0, ended: false }
    }

    /// Where the next item lies; after a whole batch, where it ends.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = (usize, Found<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let at = self.position;
        let found = first_batch(self.bytes.get(at..)?)?;
        match &found {
            Found::Whole(view) => self.position += view.bytes().len(),
            _ => self.ended = true,
        }
        Some((at, found))
    }
}
