//! Aligned memory: what writes start from and what reads return.
//!
//! Owns the core's free list above the executor's slab. A [`Buffer`] goes back to the list when its last owner drops it
//! and the kernel is done with it; until then its bytes cannot be changed. The list must never grow past its two bounds.
//!
//! ```text
//! allocate ──► free list (exact size) ──► slab, registered with the ring ──► allocator
//!    drop  ──► free list, unless the buffer was shortened or is still being written
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Deref;
use std::rc::Rc;

use commitlog::{AlignedBuffer, BLOCK_BYTES};
use glommio::io::{DmaBuffer, ReadResult};

/// Most buffers the list keeps: it is searched from end to end.
const FREE_COUNT_MAX: usize = 64;

/// Buffers nobody uses, oldest first.
#[derive(Debug)]
pub(crate) struct FreeList {
    buffers: VecDeque<Rc<DmaBuffer>>,
    bytes: usize,
    bytes_max: usize,
}

impl FreeList {
    /// A list that keeps up to `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { buffers: VecDeque::new(), bytes: 0, bytes_max }))
    }

    /// The newest buffer of exactly `bytes`: its memory is the likeliest to be in a cache.
    fn take(&mut self, bytes: usize) -> Option<Rc<DmaBuffer>> {
        let position = self.buffers.iter().rposition(|buffer| buffer.len() == bytes)?;
        let buffer = self.buffers.remove(position)?;
        self.bytes -= bytes;
        Some(buffer)
    }

    /// Keeps `buffer`; lets go of the oldest ones where a bound asks for it.
    fn put(&mut self, buffer: Rc<DmaBuffer>) {
        if buffer.len() > self.bytes_max {
            return;
        }
        self.bytes += buffer.len();
        self.buffers.push_back(buffer);
        while self.bytes > self.bytes_max || self.buffers.len() > FREE_COUNT_MAX {
            let Some(oldest) = self.buffers.pop_front() else { break };
            self.bytes -= oldest.len();
        }
        assert!(self.bytes <= self.bytes_max);
    }
}

/// Memory for one write.
#[derive(Debug)]
pub struct Buffer {
    /// Shared with the write in flight only: `Rc::get_mut` proves that the kernel is not reading it.
    memory: Rc<DmaBuffer>,
    allocated_bytes: usize,
    home: Rc<RefCell<FreeList>>,
}

impl Buffer {
    /// Memory for `bytes`, rounded up to whole blocks; at least one block.
    pub(crate) fn allocate(home: &Rc<RefCell<FreeList>>, bytes: usize) -> Self {
        let allocated_bytes = bytes.max(1).next_multiple_of(BLOCK_BYTES);
        let recycled = home.borrow_mut().take(allocated_bytes);
        let memory =
            recycled.unwrap_or_else(|| Rc::new(glommio::allocate_dma_buffer(allocated_bytes)));
        assert_eq!(memory.len(), allocated_bytes);
        Self { memory, allocated_bytes, home: home.clone() }
    }

    pub(crate) fn memory(&self) -> Rc<DmaBuffer> {
        self.memory.clone()
    }

    fn memory_mut(&mut self) -> &mut DmaBuffer {
        Rc::get_mut(&mut self.memory).expect("a buffer is filled before its write starts")
    }
}

impl AlignedBuffer for Buffer {
    fn as_bytes(&self) -> &[u8] {
        self.memory.as_bytes()
    }

    fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.memory_mut().as_bytes_mut()
    }

    fn truncate(&mut self, bytes: usize) {
        assert!(bytes.is_multiple_of(BLOCK_BYTES), "a buffer is cut at whole blocks");
        assert!(bytes <= self.memory.len(), "a buffer cannot grow");
        self.memory_mut().trim_to_size(bytes);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A shortened buffer cannot get its length back. One whose write was abandoned still belongs to the kernel.
        if self.memory.len() == self.allocated_bytes && Rc::strong_count(&self.memory) == 1 {
            self.home.borrow_mut().put(self.memory.clone());
        }
    }
}

/// What a read returned: cheap to clone, keeps its memory alive.
#[derive(Debug, Clone)]
pub struct ReadBuffer(pub(crate) ReadResult);

impl Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::run_local;

    #[test]
    fn a_dropped_buffer_is_used_again_unless_it_was_cut_or_is_being_written() {
        run_local(async {
            let home = FreeList::new(1 << 20);
            let address = |buffer: &Buffer| buffer.as_bytes().as_ptr();

            let first = Buffer::allocate(&home, 5000);
            assert_eq!(first.as_bytes().len(), 8192);
            let first_address = address(&first);
            drop(first);
            let mut again = Buffer::allocate(&home, 8192);
            assert_eq!(address(&again), first_address);

            again.truncate(4096);
            assert_eq!(again.as_bytes().len(), 4096);
            drop(again);
            assert_eq!(home.borrow().bytes, 0, "a cut buffer went back");

            let written = Buffer::allocate(&home, 4096);
            let in_flight = written.memory();
            drop(written);
            assert_eq!(home.borrow().bytes, 0, "a buffer in flight went back");
            drop(in_flight);
        })
        .unwrap();
    }

    #[test]
    fn the_free_list_lets_the_oldest_go_at_its_bounds() {
        run_local(async {
            let home = FreeList::new(16 * 4096);
            let held: Vec<Buffer> = (0..20).map(|_| Buffer::allocate(&home, 4096)).collect();
            let oldest = held[0].as_bytes().as_ptr();
            drop(held);
            assert_eq!(home.borrow().bytes, 16 * 4096);
            assert!(home.borrow().buffers.iter().all(|buffer| buffer.as_ptr() != oldest));
            drop(Buffer::allocate(&home, 17 * 4096));
            assert_eq!(home.borrow().bytes, 16 * 4096, "a buffer above the bound was kept");
        })
        .unwrap();
    }
}
