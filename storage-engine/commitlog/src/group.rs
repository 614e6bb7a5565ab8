//! Groups: the bytes that one round of writing and syncing makes lasting.
//!
//! Owns the filling of buffers. A buffer is filled once, from the front, and never changed after its group is sealed; the
//! first one starts at the block that holds the end of the log and carries the bytes already there.

use std::rc::Rc;

use record::batch::HEADER_BYTES;
use record::{BatchHeader, LeaderEpoch, Offset};

use crate::disk::{AlignedBuffer, BLOCK_BYTES, Disk, IO_BYTES_MAX};
use crate::index::MaxTimestamp;
use crate::small_file::{block_ceiling, block_floor};
use crate::tail_cache::TailChunk;

/// Above this a group is closed and the next begins: one round stays short, and eight transfers fill the device's queue.
pub(crate) const GROUP_BYTES_MAX: u64 = 8 * IO_BYTES_MAX as u64;

/// How far a group reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupEnd {
    /// Base offset of the segment.
    pub(crate) segment: Offset,
    /// Bytes of the segment up to here.
    pub(crate) position: u64,
    /// One past the last offset.
    pub(crate) offset: Offset,
    /// Largest timestamp in the segment up to here.
    pub(crate) max: Option<MaxTimestamp>,
    /// Bytes appended since the log was opened.
    pub(crate) total_bytes: u64,
}

/// One transfer of a group.
#[derive(Debug)]
pub(crate) struct GroupPart<D: Disk> {
    pub(crate) position: u64,
    pub(crate) buffer: Rc<D::Buffer>,
}

/// A sealed group: what is written, where, and what that makes lasting.
#[derive(Debug)]
pub(crate) struct Group<D: Disk> {
    /// The first group of a segment creates its file.
    pub(crate) is_first_of_segment: bool,
    /// Where its own bytes begin; the parts begin at the block that holds this.
    pub(crate) start: GroupEnd,
    pub(crate) parts: Vec<GroupPart<D>>,
    pub(crate) end: GroupEnd,
}

impl<D: Disk> Group<D> {
    /// Bytes that are written, carried ones and padding included.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.buffer.as_bytes().len() as u64).sum()
    }
}

#[derive(Debug)]
struct OpenPart<B> {
    buffer: B,
    /// Bytes of memory, before the buffer was shortened.
    capacity: usize,
    position: u64,
    data_from: u64,
    filled: usize,
    first_batch: Option<(Offset, u64)>,
}

impl<B: AlignedBuffer> OpenPart<B> {
    fn free(&self) -> usize {
        self.capacity - self.filled
    }

    fn end_position(&self) -> u64 {
        self.position + self.filled as u64
    }

    fn fill(&mut self, bytes: &[u8]) {
        self.buffer.as_bytes_mut()[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }
}

/// A group that still takes batches.
#[derive(Debug)]
pub(crate) struct OpenGroup<D: Disk> {
    is_first_of_segment: bool,
    start: GroupEnd,
    parts: Vec<OpenPart<D::Buffer>>,
    data_bytes: u64,
    carry: Vec<u8>,
    end: GroupEnd,
}

/// A batch and where it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed<'a> {
    pub(crate) batch: &'a [u8],
    pub(crate) base_offset: Offset,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) next_offset: Offset,
}

impl<D: Disk> Group<D> {
    /// Its own bytes, in order.
    pub(crate) fn data(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let (start, end) = (self.start.position, self.end.position);
        self.parts.iter().map(move |part| {
            let bytes = part.buffer.as_bytes();
            let within = |position: u64| {
                let offset = position.saturating_sub(part.position);
                usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len())
            };
            &bytes[within(start)..within(end)]
        })
    }

    /// Their number.
    pub(crate) const fn data_bytes(&self) -> u64 {
        self.end.position - self.start.position
    }
}

impl<D: Disk> OpenGroup<D> {
    /// Starts where the log ends. `carry` is what the last, partly filled block holds.
    pub(crate) fn new(end: GroupEnd, carry: &[u8], is_first_of_segment: bool) -> Self {
        assert!(carry.len() as u64 == end.position - block_floor(end.position));
        let (start, carry) = (end, carry.to_vec());
        Self { is_first_of_segment, start, parts: Vec::new(), data_bytes: 0, carry, end }
    }

    pub(crate) const fn end(&self) -> GroupEnd {
        self.end
    }

    pub(crate) const fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The bytes between the last block border and the end.
    pub(crate) fn with_carry<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        let Some(last) = self.parts.last() else { return read(&self.carry) };
        let from = last.filled - last.filled % BLOCK_BYTES;
        read(&last.buffer.as_bytes()[from..last.filled])
    }

    /// Copies a batch to the end, with `header` in place of its own: the one copy it gets.
    pub(crate) fn append(
        &mut self,
        disk: &D,
        header: &BatchHeader,
        placed: Placed<'_>,
        max: Option<MaxTimestamp>,
    ) {
        let batch = placed.batch;
        let start = self.end.position;
        self.copy(disk, &header.encode(), batch.len());
        self.note_start(placed.base_offset, start);
        self.copy(disk, &batch[HEADER_BYTES..], batch.len() - HEADER_BYTES);
        self.data_bytes += batch.len() as u64;
        self.end.total_bytes += batch.len() as u64;
        self.end.offset = placed.next_offset;
        self.end.max = max;
        assert!(self.end.position == start + batch.len() as u64);
    }

    fn note_start(&mut self, base_offset: Offset, start: u64) {
        let holder = self.parts.iter_mut().rev().find(|part| part.position <= start);
        if let Some(part) = holder {
            part.first_batch.get_or_insert((base_offset, start));
        }
    }

    /// `expected` bytes will follow in all, these included.
    fn copy(&mut self, disk: &D, mut bytes: &[u8], expected: usize) {
        let mut expected = expected;
        while !bytes.is_empty() {
            if self.parts.last().is_none_or(|part| part.free() == 0) {
                self.add_part(disk, expected);
            }
            let Some(part) = self.parts.last_mut() else { return };
            let (now, later) = bytes.split_at(bytes.len().min(part.free()));
            part.fill(now);
            self.end.position += now.len() as u64;
            expected -= now.len();
            bytes = later;
        }
    }

    /// Adds a buffer: as large as what is known to come, or as the group already is, since groups under load go on growing.
    fn add_part(&mut self, disk: &D, expected: usize) {
        let carry = std::mem::take(&mut self.carry);
        let grown = usize::try_from(self.data_bytes).unwrap_or(IO_BYTES_MAX);
        let capacity = (carry.len() + expected)
            .max(grown)
            .clamp(BLOCK_BYTES, IO_BYTES_MAX)
            .next_multiple_of(BLOCK_BYTES);
        let mut buffer = disk.allocate(capacity);
        buffer.truncate(capacity);
        let mut part = OpenPart {
            buffer,
            capacity,
            position: self.end.position - carry.len() as u64,
            data_from: self.end.position,
            filled: 0,
            first_batch: None,
        };
        assert!(part.position % BLOCK_BYTES as u64 == 0);
        part.fill(&carry);
        self.parts.push(part);
    }

    /// Closes the group: what goes to the disk, and the same buffers for the tail cache.
    pub(crate) fn seal(self) -> (Group<D>, Vec<TailChunk<D>>) {
        assert!(self.data_bytes > 0);
        let end = self.end;
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut chunks = Vec::with_capacity(self.parts.len());
        let mut following = end.offset;
        for mut part in self.parts.into_iter().rev() {
            let data_to = part.end_position();
            let whole =
                usize::try_from(block_ceiling(data_to) - part.position).unwrap_or(part.capacity);
            part.buffer.truncate(whole);
            part.buffer.as_bytes_mut()[part.filled..].fill(0);
            let buffer = Rc::new(part.buffer);
            let (first_offset, first_position) = part.first_batch.unwrap_or((following, data_to));
            following = first_offset;
            chunks.push(TailChunk {
                segment: end.segment,
                position: part.position,
                data_from: part.data_from,
                data_to,
                first_offset,
                first_position,
                end_offset: end.offset,
                buffer: buffer.clone(),
                charged: part.capacity,
            });
            parts.push(GroupPart { position: part.position, buffer });
        }
        parts.reverse();
        chunks.reverse();
        let (is_first_of_segment, start) = (self.is_first_of_segment, self.start);
        (Group { is_first_of_segment, start, parts, end }, chunks)
    }
}
