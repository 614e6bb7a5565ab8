//! Read buffers that come back.
//!
//! Owns buffers whose frames may still be in use, and gives a buffer out again only when the last slice of it is gone; and some of
//! the smallest, which connections that wait for a request do without.
//! It never waits and never grows past its bound.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::READ_BYTES_MIN;

/// Smaller buffers are left to the allocator, but for the smallest.
const POOLED_BYTES_MIN: usize = 16 * 1024;

/// Buffers looked at for one that fits: bounds the work of a take.
const BUFFERS_MAX: usize = 32;

/// Large buffers come in multiples of this, so that frames of nearly one size fit each other's buffers.
const STEP_BYTES: usize = 64 * 1024;

/// Bytes of the smallest buffers that are kept: of one size, free, and taken and given back by each read of a quiet connection.
const SMALLEST_BYTES_MAX: usize = 256 * 1024;

/// A larger buffer than this multiple of what is needed would be wasted on it.
pub(super) const WASTE_FACTOR: usize = 4;

/// The retired read buffers of one core.
#[derive(Debug)]
pub struct BufferPool {
    /// Oldest first.
    retired: VecDeque<Bytes>,
    retired_bytes: usize,
    /// Of [`READ_BYTES_MIN`] each; nothing of them is in use.
    smallest: Vec<BytesMut>,
    bytes_max: usize,
}

impl BufferPool {
    /// A pool that keeps at most `bytes_max` bytes, those still in use as frames included.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self { retired: VecDeque::new(), retired_bytes: 0, smallest: Vec::new(), bytes_max }
    }

    /// Bytes that the pool keeps.
    #[must_use]
    pub const fn retained_bytes(&self) -> usize {
        self.retired_bytes + self.smallest.len() * READ_BYTES_MIN
    }

    /// A buffer of at least `bytes_min` bytes, all initialised, whatever is in them.
    pub(super) fn take(&mut self, bytes_min: usize) -> BytesMut {
        self.reuse(bytes_min).unwrap_or_else(|| {
            let step = if bytes_min > STEP_BYTES { STEP_BYTES } else { 1 };
            BytesMut::zeroed(bytes_min.next_multiple_of(step))
        })
    }

    /// The same, if there is one here that is free.
    pub(super) fn reuse(&mut self, bytes_min: usize) -> Option<BytesMut> {
        if bytes_min <= READ_BYTES_MIN
            && let Some(buffer) = self.smallest.pop()
        {
            return Some(buffer);
        }
        let bytes_max = bytes_min.saturating_mul(WASTE_FACTOR);
        let fits = |buffer: &Bytes| {
            bytes_min <= buffer.len() && buffer.len() <= bytes_max && buffer.is_unique()
        };
        // From the newest on: its bytes are the likeliest to be in a cache.
        let index = self.retired.iter().rposition(fits)?;
        let buffer = self.retired.remove(index)?;
        self.retired_bytes -= buffer.len();
        // Unique a moment ago, and nobody else has a handle to clone.
        buffer.try_into_mut().ok()
    }

    /// Takes back a buffer of [`READ_BYTES_MIN`] that nothing of is in use.
    pub(super) fn rest(&mut self, buffer: BytesMut) {
        assert_eq!(buffer.len(), READ_BYTES_MIN);
        let bytes = (self.smallest.len() + 1) * READ_BYTES_MIN;
        if bytes <= SMALLEST_BYTES_MAX && bytes <= self.bytes_max - self.retired_bytes {
            self.smallest.push(buffer);
        }
    }

    /// Takes back a buffer that may still be in use as frames. The oldest go when there are too many.
    pub(super) fn retire(&mut self, buffer: Bytes) {
        if buffer.len() < POOLED_BYTES_MIN || buffer.len() > self.bytes_max {
            return;
        }
        self.retired_bytes += buffer.len();
        self.retired.push_back(buffer);
        while self.retained_bytes() > self.bytes_max || self.retired.len() > BUFFERS_MAX {
            let Some(oldest) = self.retired.pop_front() else { break };
            self.retired_bytes -= oldest.len();
        }
    }
}
