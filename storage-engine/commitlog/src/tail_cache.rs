//! The end of each log, in the memory it was written from.
//!
//! Owns the buffers after a group is sealed: the disk, consumers and followers read the same bytes. One budget for the
//! core; the oldest buffer goes first, never one whose write has not completed, and the block that holds the end of a log
//! always stays, because the next group starts with it.
//!
//! ```text
//! file position   0        4096      8192
//! group 1         [data----|--data]
//! group 2                  [--carr|data--|-----]        the boundary block is written again, same bytes first
//! chunk 1         data_from ─────► data_to
//! chunk 2                          data_from ──► data_to
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use record::Offset;

use crate::disk::{AlignedBuffer, BLOCK_BYTES, Disk, IO_BYTES_MAX};
use crate::group::GroupPart;
use crate::small_file::{block_ceiling, block_floor};

/// A stretch of record bytes that keeps its memory alive; cheap to clone, never copied.
pub struct RecordSlice<D: Disk> {
    owner: Owner<D>,
    from: usize,
    to: usize,
}

enum Owner<D: Disk> {
    Written(Rc<D::Buffer>),
    Read(D::ReadBuffer),
}

impl<D: Disk> RecordSlice<D> {
    pub(crate) fn written(buffer: Rc<D::Buffer>, from: usize, to: usize) -> Self {
        Self { owner: Owner::Written(buffer), from, to }
    }

    pub(crate) fn read(buffer: D::ReadBuffer, from: usize, to: usize) -> Self {
        Self { owner: Owner::Read(buffer), from, to }
    }

    /// The part of this slice from `from` to `to`, counted within it.
    pub(crate) fn narrow(&self, from: usize, to: usize) -> Self {
        assert!(from <= to);
        assert!(self.from + to <= self.to);
        let owner = match &self.owner {
            Owner::Written(buffer) => Owner::Written(buffer.clone()),
            Owner::Read(buffer) => Owner::Read(buffer.clone()),
        };
        Self { owner, from: self.from + from, to: self.from + to }
    }
}

impl<D: Disk> Clone for RecordSlice<D> {
    fn clone(&self) -> Self {
        self.narrow(0, self.to - self.from)
    }
}

impl<D: Disk> Deref for RecordSlice<D> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes: &[u8] = match &self.owner {
            Owner::Written(buffer) => buffer.as_bytes(),
            Owner::Read(buffer) => buffer,
        };
        &bytes[self.from..self.to]
    }
}

impl<D: Disk> fmt::Debug for RecordSlice<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RecordSlice({} bytes)", self.len())
    }
}

/// One buffer of a sealed group.
pub(crate) struct TailChunk<D: Disk> {
    /// Base offset of the segment it belongs to.
    pub(crate) segment: Offset,
    /// Where the buffer starts in the file; a multiple of the block size.
    pub(crate) position: u64,
    /// Where the bytes start that no older chunk holds.
    pub(crate) data_from: u64,
    /// One past the last byte of data.
    pub(crate) data_to: u64,
    /// Base offset of the first batch that starts in this chunk or after it.
    pub(crate) first_offset: Offset,
    /// Where that batch starts, if it does in this chunk; else `data_to`.
    pub(crate) first_position: u64,
    /// End offset of the group: when it is written, so is this chunk.
    pub(crate) end_offset: Offset,
    /// The bytes.
    pub(crate) buffer: Rc<D::Buffer>,
    /// Memory charged to the budget; 0 for a boundary block that outlived its buffer.
    pub(crate) charged: usize,
}

impl<D: Disk> TailChunk<D> {
    /// A chunk that holds only the last, partly filled block of a log whose end is `end_offset` at `end_position`.
    pub(crate) fn boundary(
        disk: &D,
        segment: Offset,
        end_position: u64,
        end_offset: Offset,
        block: &[u8],
    ) -> Self {
        let position = block_floor(end_position);
        assert!(block.len() as u64 == end_position - position);
        let mut buffer = disk.allocate(BLOCK_BYTES);
        buffer.truncate(BLOCK_BYTES);
        let bytes = buffer.as_bytes_mut();
        bytes[..block.len()].copy_from_slice(block);
        bytes[block.len()..].fill(0);
        Self {
            segment,
            position,
            data_from: position,
            data_to: end_position,
            first_offset: end_offset,
            first_position: end_position,
            end_offset,
            buffer: Rc::new(buffer),
            charged: 0,
        }
    }

    fn slice(&self, from: u64, to: u64) -> RecordSlice<D> {
        RecordSlice::written(
            self.buffer.clone(),
            offset_in(self.position, from),
            offset_in(self.position, to),
        )
    }

    fn bytes(&self, from: u64, to: u64) -> &[u8] {
        &self.buffer.as_bytes()[offset_in(self.position, from)..offset_in(self.position, to)]
    }

    /// The bytes of the last block, if it is partly filled.
    fn last_block(&self) -> &[u8] {
        self.bytes(block_floor(self.data_to), self.data_to)
    }
}

/// Where a file position lies in a buffer that starts at `start`; both within one buffer of at most 1 MiB.
fn offset_in(start: u64, position: u64) -> usize {
    usize::try_from(position - start).unwrap_or(usize::MAX)
}

/// What a batch says of itself in the first 27 bytes; only for bytes that this process validated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Glimpse {
    pub(crate) base_offset: Offset,
    pub(crate) last_offset: Offset,
    pub(crate) bytes: u64,
}

impl Glimpse {
    pub(crate) const BYTES: usize = 27;

    pub(crate) fn parse(head: &[u8; Self::BYTES]) -> Self {
        let [b0, b1, b2, b3, b4, b5, b6, b7, l0, l1, l2, l3, .., d0, d1, d2, d3] = *head;
        let base = i64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let delta = i32::from_be_bytes([d0, d1, d2, d3]);
        Self {
            base_offset: Offset(base),
            last_offset: Offset(base.saturating_add(i64::from(delta))),
            bytes: u64::from(length) + 12,
        }
    }
}

/// Which whole batches to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Take {
    /// The first batch is the one that holds this offset.
    pub(crate) from: Offset,
    /// Only batches that end at or before it.
    pub(crate) end: Offset,
    pub(crate) bytes_max: u64,
    /// Take the first batch even if it is larger than `bytes_max`.
    pub(crate) oversized_first: bool,
}

/// What was taken.
#[derive(Debug)]
pub(crate) struct Taken<D: Disk> {
    pub(crate) slices: Vec<RecordSlice<D>>,
    pub(crate) first_offset: Offset,
    pub(crate) next_offset: Offset,
    pub(crate) bytes: u64,
}

/// Decides which batches of a contiguous stretch are taken, one [`Glimpse`] at a time.
#[derive(Debug)]
pub(crate) struct Taker {
    take: Take,
    start: Option<(u64, Offset)>,
    stop: u64,
    next_offset: Offset,
}

/// What to do after a batch was shown to a [`Taker`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    Stop,
}

impl Taker {
    pub(crate) const fn new(take: Take) -> Self {
        Self { take, start: None, stop: 0, next_offset: take.from }
    }

    pub(crate) fn show(&mut self, position: u64, batch: Glimpse) -> Next {
        if batch.last_offset < self.take.from {
            return Next::Continue;
        }
        let (start, first) = self.start.unwrap_or((position, batch.base_offset));
        let stop = position + batch.bytes;
        let fits = stop - start <= self.take.bytes_max
            || (self.start.is_none() && self.take.oversized_first);
        if batch.last_offset >= self.take.end || !fits {
            return Next::Stop;
        }
        self.start = Some((start, first));
        self.stop = stop;
        self.next_offset = Offset(batch.last_offset.0.saturating_add(1));
        Next::Continue
    }

    /// The stretch that was taken (empty if none), the first batch's base offset, and the offset after the last.
    pub(crate) fn finish(self) -> (std::ops::Range<u64>, Offset, Offset) {
        match self.start {
            Some((start, first)) => (start..self.stop, first, self.next_offset),
            None => (0..0, self.take.from, self.take.from),
        }
    }
}

/// The newest chunks of one log, oldest first and without a gap.
pub(crate) struct LogTail<D: Disk> {
    chunks: RefCell<VecDeque<TailChunk<D>>>,
    written: Cell<Offset>,
    charged: Rc<Cell<usize>>,
}

impl<D: Disk> LogTail<D> {
    /// Lets chunks up to `end` go.
    pub(crate) fn set_written(&self, end: Offset) {
        self.written.set(end);
    }

    /// The bytes between the last block border and the end of the data: what the next group starts with.
    pub(crate) fn with_carry<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        let chunks = self.chunks.borrow();
        read(chunks.back().map_or(&[][..], TailChunk::last_block))
    }

    /// Whole batches by `take`; `None` unless every byte is here.
    pub(crate) fn read(&self, take: Take) -> Option<Taken<D>> {
        let chunks = self.chunks.borrow();
        let above = chunks.partition_point(|chunk| chunk.first_offset <= take.from);
        let first = above.checked_sub(1)?;
        let chunk = chunks.get(first)?;
        let (segment, mut position) = (chunk.segment, chunk.first_position);
        let mut taker = Taker::new(take);
        let mut at = first;
        let mut shown = false;
        while let Some(head) = head_at(&chunks, segment, &mut at, position) {
            let batch = Glimpse::parse(&head);
            shown = true;
            if taker.show(position, batch) == Next::Stop {
                break;
            }
            position += batch.bytes;
        }
        if !shown {
            return None;
        }
        let (range, first_offset, next_offset) = taker.finish();
        let mut slices = Vec::new();
        cut(chunks.range(first..), segment, range.clone(), &mut slices);
        Some(Taken { slices, first_offset, next_offset, bytes: range.end - range.start })
    }

    /// The part of `range` in `segment` that is here, from its first cached byte to its end; where that is.
    pub(crate) fn suffix(
        &self,
        segment: Offset,
        range: std::ops::Range<u64>,
    ) -> (u64, Vec<RecordSlice<D>>) {
        let chunks = self.chunks.borrow();
        let mut slices = Vec::new();
        let first = chunks
            .iter()
            .find(|chunk| chunk.segment == segment && chunk.data_to > range.start)
            .map_or(range.end, |chunk| chunk.data_from.max(range.start).min(range.end));
        cut(chunks.iter(), segment, first..range.end, &mut slices);
        (first, slices)
    }

    /// The blocks of a segment that hold `range`, copied into new buffers; the last one is padded with zeros.
    ///
    /// Order   every byte of the range is here, and it starts where a group does: a chunk carries what its first block has before.
    pub(crate) fn copy_blocks(
        &self,
        disk: &D,
        segment: Offset,
        range: std::ops::Range<u64>,
    ) -> Vec<GroupPart<D>> {
        let chunks = self.chunks.borrow();
        let (start, end) = (block_floor(range.start), block_ceiling(range.end));
        let mut parts: Vec<(u64, D::Buffer)> = Vec::new();
        let mut at = start;
        while at < end {
            let bytes = offset_in(at, end).min(IO_BYTES_MAX);
            let mut buffer = disk.allocate(bytes);
            buffer.truncate(bytes);
            parts.push((at, buffer));
            at += bytes as u64;
        }
        let mut next = start;
        for chunk in chunks.iter().filter(|chunk| chunk.segment == segment) {
            if chunk.data_to <= next || next >= range.end {
                continue;
            }
            assert!(chunk.position <= next);
            let to = chunk.data_to.min(range.end);
            while next < to {
                let index = offset_in(start, next) / IO_BYTES_MAX;
                let (position, buffer) = &mut parts[index];
                let stop = to.min(*position + buffer.as_bytes().len() as u64);
                let into = offset_in(*position, next)..offset_in(*position, stop);
                buffer.as_bytes_mut()[into].copy_from_slice(chunk.bytes(next, stop));
                next = stop;
            }
        }
        assert!(next == range.end);
        if let Some((position, buffer)) = parts.last_mut() {
            let filled = offset_in(*position, range.end);
            buffer.as_bytes_mut()[filled..].fill(0);
        }
        parts
            .into_iter()
            .map(|(position, buffer)| GroupPart { position, buffer: Rc::new(buffer) })
            .collect()
    }

    /// Frees the oldest charged chunk, or shrinks it to its last block if that is the end of the log.
    fn release(&self, disk: &D) -> Release {
        let mut chunks = self.chunks.borrow_mut();
        let last = chunks.len().saturating_sub(1);
        let Some(index) = chunks.iter().position(|chunk| chunk.charged > 0) else {
            return Release::Nothing;
        };
        let Some(chunk) = chunks.get_mut(index) else { return Release::Nothing };
        if chunk.end_offset > self.written.get() {
            return Release::InFlight;
        }
        self.charged.set(self.charged.get() - chunk.charged);
        if index < last {
            // Chunks before it are boundary blocks that it follows: without it they lead nowhere.
            chunks.drain(..=index);
        } else {
            let kept = TailChunk::boundary(
                disk,
                chunk.segment,
                chunk.data_to,
                chunk.end_offset,
                chunk.last_block(),
            );
            *chunk = kept;
            chunks.drain(..index);
        }
        Release::Freed
    }
}

impl<D: Disk> Drop for LogTail<D> {
    fn drop(&mut self) {
        let held: usize = self.chunks.borrow().iter().map(|chunk| chunk.charged).sum();
        self.charged.set(self.charged.get() - held);
    }
}

/// The first 27 bytes at `position`, over as many chunks as they span; `at` is where to look first and moves along.
fn head_at<D: Disk>(
    chunks: &VecDeque<TailChunk<D>>,
    segment: Offset,
    at: &mut usize,
    position: u64,
) -> Option<[u8; Glimpse::BYTES]> {
    while chunks.get(*at)?.data_to <= position {
        *at += 1;
    }
    let mut head = [0; Glimpse::BYTES];
    let mut filled = 0;
    for chunk in chunks.range(*at..) {
        let from = position + filled as u64;
        if chunk.segment != segment || chunk.data_from > from {
            return None;
        }
        let to = chunk.data_to.min(position + Glimpse::BYTES as u64);
        let piece = chunk.bytes(from, to.max(from));
        head[filled..filled + piece.len()].copy_from_slice(piece);
        filled += piece.len();
        if filled == Glimpse::BYTES {
            return Some(head);
        }
    }
    None
}

fn cut<'a, D: Disk>(
    chunks: impl Iterator<Item = &'a TailChunk<D>>,
    segment: Offset,
    range: std::ops::Range<u64>,
    slices: &mut Vec<RecordSlice<D>>,
) {
    let mut next = range.start;
    for chunk in chunks {
        if chunk.segment != segment || chunk.data_to <= next {
            continue;
        }
        if next >= range.end {
            break;
        }
        assert!(chunk.data_from <= next);
        let to = chunk.data_to.min(range.end);
        slices.push(chunk.slice(next, to));
        next = to;
    }
    assert!(next >= range.end);
}

enum Release {
    Freed,
    InFlight,
    Nothing,
}

/// Elements of the order that are never looked through for dead ones: a few KiB.
const SWEEP_MIN: usize = 256;
/// Elements in flight that one look for memory passes by.
const PASSED_MAX: usize = 64;

/// The budget of one core and the order in which chunks came.
pub(crate) struct TailCache<D: Disk> {
    disk: D,
    bytes_max: usize,
    charged: Rc<Cell<usize>>,
    /// One element a charged chunk, oldest first. Those of logs that are gone stay until they come first, or are half of all.
    order: RefCell<VecDeque<Weak<LogTail<D>>>>,
    /// Elements of `order` at which it is looked through.
    sweep_at: Cell<usize>,
}

impl<D: Disk> TailCache<D> {
    pub(crate) fn new(disk: D, bytes_max: usize) -> Self {
        let sweep_at = Cell::new(SWEEP_MIN);
        Self { disk, bytes_max, charged: Rc::default(), order: RefCell::default(), sweep_at }
    }

    /// The tail of a log that ends at `end`, with the partly filled block if there is one.
    pub(crate) fn log_tail(&self, end: Offset, boundary: Option<TailChunk<D>>) -> Rc<LogTail<D>> {
        Rc::new(LogTail {
            chunks: RefCell::new(boundary.into_iter().collect()),
            written: Cell::new(end),
            charged: self.charged.clone(),
        })
    }

    /// Memory held by charged chunks.
    pub(crate) fn bytes(&self) -> usize {
        self.charged.get()
    }

    /// Adds the chunks of a sealed group, and frees old ones if the budget is passed.
    pub(crate) fn insert(&self, tail: &Rc<LogTail<D>>, added: Vec<TailChunk<D>>) {
        {
            let mut chunks = tail.chunks.borrow_mut();
            let mut order = self.order.borrow_mut();
            for chunk in added {
                assert!(chunk.charged > 0);
                assert!(chunks.back().is_none_or(
                    |last| last.segment != chunk.segment || last.data_to == chunk.data_from
                ));
                self.charged.set(self.charged.get() + chunk.charged);
                chunks.push_back(chunk);
                order.push_back(Rc::downgrade(tail));
            }
        }
        self.sweep();
        self.shrink();
    }

    /// Lets go of elements whose log is gone, each time as many have come as there were: no budget ever asks for them.
    fn sweep(&self) {
        let mut order = self.order.borrow_mut();
        if order.len() >= self.sweep_at.get() {
            order.retain(|tail| tail.strong_count() > 0);
            self.sweep_at.set((2 * order.len()).max(SWEEP_MIN));
        }
    }

    /// Frees the oldest chunks until the budget holds, or the oldest ones are all in flight.
    pub(crate) fn shrink(&self) {
        let mut order = self.order.borrow_mut();
        let mut passed = 0;
        while self.charged.get() > self.bytes_max {
            let Some(oldest) = order.front() else { return };
            let release =
                oldest.upgrade().map_or(Release::Nothing, |tail| tail.release(&self.disk));
            match release {
                // A quiet log may have bytes in memory for long that are in the journal only: others give way meanwhile.
                Release::InFlight if passed < order.len().min(PASSED_MAX) => {
                    order.rotate_left(1);
                    passed += 1;
                }
                Release::InFlight => return,
                Release::Freed | Release::Nothing => drop(order.pop_front()),
            }
        }
    }
}
