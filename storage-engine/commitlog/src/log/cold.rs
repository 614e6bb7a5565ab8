//! Reading behind the tail: from the disk, checked once per batch as it enters the read cache.
//!
//! Owns the loading of extents. A load reads at least 256 KiB in several transfers at once, and as much as its first batch
//! needs. What the tail cache holds is taken from there, above all the block that holds the end of the log.

use std::cell::Cell;
use std::rc::Rc;

use record::batch::HEADER_BYTES;
use record::{BatchHeader, Crc, EpochTable, LeaderEpoch, Offset};

use crate::disk::{Disk, DiskError, DiskFile, DiskResult, IO_BYTES_MAX, OpenMode};
use crate::durability::count;
use crate::executor::Executor;
use crate::local::join_all;
use crate::log::LogInner;
use crate::log::damage::Readable;
use crate::read_cache::{Extent, copy_out, cut};
use crate::small_file::{block_ceiling, block_floor};
use crate::tail_cache::RecordSlice;

/// One transfer of a cold read, or a little more: four of them keep a device busy that one leaves idle.
const TRANSFER_BYTES: u64 = 256 * 1024;
/// Transfers in flight together.
const TRANSFERS_MAX: usize = 4;
/// A batch above this is only loaded if its length is borne out by what follows it.
const UNQUESTIONED_BYTES: u64 = IO_BYTES_MAX as u64;

const _: () = assert!(TRANSFER_BYTES * TRANSFERS_MAX as u64 == IO_BYTES_MAX as u64);

/// Where to load from, and what is known of the batch there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoadFrom {
    pub(crate) position: u64,
    /// Its base offset, if known.
    pub(crate) base_offset: Option<Offset>,
    /// Its last offset, if known. The checksum does not cover a base offset: one of the two must bear it out, or a batch
    /// that rotted there would be kept and served as another one.
    pub(crate) last_offset: Option<Offset>,
    /// Bytes that the caller can use.
    pub(crate) bytes_wanted: u64,
}

/// What a load found.
#[derive(Debug)]
pub(crate) enum Loaded<D: Disk> {
    /// At least one whole batch.
    Extent(Rc<Extent<D>>),
    /// The first batch is damaged.
    Bad,
}

/// Record bytes in memory, contiguous from `position`.
struct Pieces<D: Disk> {
    position: u64,
    bytes: u64,
    slices: Vec<RecordSlice<D>>,
    memory_bytes: usize,
}

impl<D: Disk> Pieces<D> {
    fn end(&self) -> u64 {
        self.position + self.bytes
    }

    fn push(&mut self, slice: RecordSlice<D>) {
        self.bytes += slice.len() as u64;
        self.slices.push(slice);
    }

    /// The header at `position` if it is all here; `Some(None)` if what is here is no header.
    fn header_at(&self, position: u64) -> Option<Option<BatchHeader>> {
        let mut head = [0; HEADER_BYTES];
        let filled = copy_out(&self.slices, position - self.position, &mut head);
        (filled == HEADER_BYTES).then(|| BatchHeader::parse(&head).ok())
    }

    async fn checksum<E: Executor>(&self, executor: &E, position: u64, bytes: u64) -> u32 {
        let mut crc = Crc::of_batch();
        for slice in cut(&self.slices, position - self.position, bytes) {
            for step in slice.chunks(64 * 1024) {
                crc.update(step);
                executor.yield_if_needed().await;
            }
        }
        crc.value()
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// What is readable of the segment that starts at `base`.
    pub(crate) fn readable(&self, base: Offset) -> Option<Readable> {
        let state = self.state.borrow();
        let segment = state.segment(base)?;
        let written = state.written_at;
        let (bytes, end) = if base < written.segment {
            (segment.bytes, segment.end)
        } else if base == written.segment {
            (written.position, written.offset)
        } else {
            (0, base)
        };
        Some(Readable { base, bytes, end })
    }

    /// Loads whole batches from `from` on into the read cache.
    pub(crate) async fn load(&self, readable: Readable, from: LoadFrom) -> DiskResult<Loaded<D>> {
        let wanted = load_bytes(&from);
        let mut pieces =
            Pieces { position: from.position, bytes: 0, slices: Vec::new(), memory_bytes: 0 };
        self.fetch(readable, &mut pieces, from.position + wanted).await?;
        if let Some(Some(header)) = pieces.header_at(from.position) {
            let end = from.position + header.total_bytes() as u64;
            if end > readable.bytes {
                return Ok(Loaded::Bad);
            }
            if end > pieces.end() {
                if !self.is_borne_out(readable, &header, end).await? {
                    return Ok(Loaded::Bad);
                }
                self.fetch(readable, &mut pieces, end).await?;
            }
        }
        let epochs = self.state.borrow().epochs.clone();
        let Some(checked) = self.check_batches(&pieces, &epochs, from, readable.end).await else {
            return Ok(Loaded::Bad);
        };
        let extent = Rc::new(Extent {
            position: from.position,
            end_position: checked.end_position,
            first_offset: checked.first_offset,
            next_offset: checked.next_offset,
            pieces: cut(&pieces.slices, 0, checked.end_position - from.position),
            is_taken: Cell::new(false),
        });
        let key = self.segment_key(readable.base);
        // Bytes that are also in the tail cache count here as well: the extent may outlive them there.
        let memory_bytes = pieces.memory_bytes.max(usize::try_from(pieces.bytes).unwrap_or(0));
        self.shared.read_cache.insert(key, extent.clone(), memory_bytes);
        Ok(Loaded::Extent(extent))
    }

    /// Whether a large batch that claims to end at `end` does: its follower is there, or the segment ends.
    async fn is_borne_out(
        &self,
        readable: Readable,
        header: &BatchHeader,
        end: u64,
    ) -> DiskResult<bool> {
        if header.total_bytes() as u64 <= UNQUESTIONED_BYTES || end == readable.bytes {
            return Ok(true);
        }
        let mut follower = Pieces { position: end, bytes: 0, slices: Vec::new(), memory_bytes: 0 };
        self.fetch(readable, &mut follower, end + HEADER_BYTES as u64).await?;
        let next = follower.header_at(end).flatten();
        Ok(next.is_some_and(|next| next.base_offset == header.next_offset()))
    }

    /// Appends bytes to `pieces` up to `to` at least, the end of what is readable at most.
    async fn fetch(&self, readable: Readable, pieces: &mut Pieces<D>, to: u64) -> DiskResult<()> {
        let to = to.min(readable.bytes);
        let (cached_from, cached) = self.tail.suffix(readable.base, pieces.end()..readable.bytes);
        let disk_to = to.min(cached_from);
        if pieces.end() < disk_to {
            self.fetch_from_disk(readable, pieces, disk_to).await?;
        }
        // A read may have given more than was asked for; never more than what is readable.
        if pieces.end() >= cached_from && pieces.end() < to {
            let skip = pieces.end() - cached_from;
            for slice in cut(&cached, skip, to - pieces.end()) {
                pieces.push(slice);
            }
        }
        Ok(())
    }

    async fn fetch_from_disk(
        &self,
        readable: Readable,
        pieces: &mut Pieces<D>,
        to: u64,
    ) -> DiskResult<()> {
        let key = self.segment_key(readable.base);
        let file = self.shared.files.get(&self.directory, key, OpenMode::Read).await?;
        let end = block_ceiling(to);
        let mut start = block_floor(pieces.end());
        // In equal parts: a last one of a block or two would cost as much time as all of them together.
        let parts = ((end - start) / TRANSFER_BYTES).max(1);
        let part = block_ceiling((end - start).div_ceil(parts));
        while start < end {
            let mut transfers = Vec::with_capacity(TRANSFERS_MAX);
            while transfers.len() < TRANSFERS_MAX && start < end {
                let bytes = (end - start).min(part);
                let asked = usize::try_from(bytes).unwrap_or(IO_BYTES_MAX);
                let (file, at) = (&file, start);
                transfers.push(async move { (at, asked, file.read_at_aligned(at, asked).await) });
                start += bytes;
            }
            for (at, asked, result) in join_all(transfers).await {
                let counters = &self.shared.counters;
                let buffer = result.inspect_err(|_| count(&counters.io_errors, 1))?;
                count(&counters.reads, 1);
                count(&counters.read_bytes, buffer.len() as u64);
                let from = pieces.end().saturating_sub(at);
                let until = (at + buffer.len() as u64).min(to).saturating_sub(at);
                if at > pieces.end() || until <= from {
                    // The file is shorter than what was written to it.
                    return Err(DiskError::Short { done: buffer.len(), asked });
                }
                pieces.memory_bytes += buffer.len();
                let narrow = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
                pieces.push(RecordSlice::read(buffer, narrow(from), narrow(until)));
            }
        }
        Ok(())
    }

    /// Checks batch after batch; `None` if the first is damaged.
    async fn check_batches(
        &self,
        pieces: &Pieces<D>,
        epochs: &EpochTable,
        from: LoadFrom,
        end: Offset,
    ) -> Option<Checked> {
        let mut checked: Option<Checked> = None;
        let mut position = from.position;
        let mut expected = from.base_offset;
        let mut expected_last = from.last_offset;
        while let Some(Some(header)) = pieces.header_at(position) {
            let bytes = header.total_bytes() as u64;
            let follows = expected.is_none_or(|expected| header.base_offset == expected)
                && expected_last.take().is_none_or(|last| header.last_offset() == last);
            if position + bytes > pieces.end() || !follows || header.next_offset() > end {
                break;
            }
            let computed = pieces.checksum(&self.shared.executor, position, bytes).await;
            let before = checked.as_ref().map(|checked| checked.last_epoch);
            let after = pieces.header_at(position + bytes).flatten();
            if computed != header.crc || !epoch_is_credible(epochs, &header, before, after) {
                break;
            }
            position += bytes;
            expected = Some(header.next_offset());
            let first_offset = checked.map_or(header.base_offset, |checked| checked.first_offset);
            checked = Some(Checked {
                first_offset,
                end_position: position,
                next_offset: header.next_offset(),
                last_epoch: header.partition_leader_epoch,
            });
        }
        checked
    }
}

/// How much is read for a caller, unless its first batch is larger.
pub(crate) fn load_bytes(from: &LoadFrom) -> u64 {
    from.bytes_wanted.clamp(TRANSFER_BYTES, IO_BYTES_MAX as u64)
}

struct Checked {
    first_offset: Offset,
    end_position: u64,
    next_offset: Offset,
    last_epoch: LeaderEpoch,
}

/// The checksum does not cover the leader epoch. It is damaged if the epoch table disagrees and a neighbour bears the table
/// out; a table that its neighbours contradict as well is itself what is wrong.
fn epoch_is_credible(
    epochs: &EpochTable,
    header: &BatchHeader,
    before: Option<LeaderEpoch>,
    after: Option<BatchHeader>,
) -> bool {
    let Some(by_table) = epochs.epoch_at(header.base_offset) else { return true };
    if header.partition_leader_epoch == by_table {
        return true;
    }
    match (before, after) {
        (_, Some(after)) => {
            epochs.epoch_at(after.base_offset) != Some(after.partition_leader_epoch)
        }
        (Some(before), None) => before != by_table,
        (None, None) => false,
    }
}
