//! Memory for transfers of the simulated disk.
//!
//! Owns both buffer types. Fresh write buffers hold a pattern, never zeros: a log that forgets to fill a byte shows it.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use commitlog::{AlignedBuffer, BLOCK_BYTES};

/// What fresh memory holds: not zero, not a valid length, not text.
const POISON: u8 = 0xdb;

/// Memory that a write starts from, aligned to [`BLOCK_BYTES`].
pub struct SimBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl SimBuffer {
    pub(super) fn new(bytes: usize) -> Self {
        let len = bytes.next_multiple_of(BLOCK_BYTES);
        let memory = vec![POISON; len + BLOCK_BYTES - 1];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        assert!(start < BLOCK_BYTES, "no aligned address within the slack");
        Self { memory, start, len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl fmt::Debug for SimBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SimBuffer({} bytes)", self.len)
    }
}

impl AlignedBuffer for SimBuffer {
    fn as_bytes(&self) -> &[u8] {
        self.bytes()
    }

    fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    fn truncate(&mut self, bytes: usize) {
        assert!(bytes.is_multiple_of(BLOCK_BYTES), "{bytes} is not a whole number of blocks");
        assert!(bytes <= self.len);
        self.len = bytes;
    }
}

/// What a read returned.
#[derive(Clone)]
pub struct SimReadBuffer(Rc<Vec<u8>>);

impl SimReadBuffer {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(Rc::new(bytes))
    }
}

impl Deref for SimReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
