//! Finding records by time (LO-2).
//!
//! Owns the look-up of the first record at or after a timestamp, exact inside a compressed batch, and of the first record
//! with the largest timestamp. A time index only says where not to look, and only after its entry was seen in its batch;
//! the answer comes from records. Damage on the way is passed over: it was reported when it was found. Whoever looks into a
//! batch or waits for a turn holds no extent of the read cache meanwhile: slow look-ups would otherwise keep memory that the
//! cache counts as free.

use std::rc::Rc;

use record::batch::HEADER_BYTES;
use record::{
    BatchHeader, DECOMPRESSED_BYTES_MAX, FindError, FindStep, LeaderEpoch, Offset, RecordFinder,
    Timestamp, Wanted, WantedTime, Windows, Workspace,
};

use crate::disk::Disk;
use crate::error::ReadError;
use crate::executor::Executor;
use crate::index::{IndexDamage, MaxTimestamp};
use crate::log::damage::Readable;
use crate::log::segment::SegmentMax;
use crate::log::{Log, LogInner};
use crate::mutant::Rule;
use crate::read_cache::{Extent, copy_out, cut};
use crate::shared::{IndexOrigin, Shared};

/// A stretch of log looked through at once.
const STRETCH_BYTES: u64 = 1 << 20;
/// Bound on the records of one batch, decompressed: all that a topic's options can let in, or it could never be looked into.
const RECORDS_BYTES_MAX: usize = DECOMPRESSED_BYTES_MAX as usize;
/// Work between two polite pauses.
const STEP_NS: u32 = 20_000;
/// Batches remembered of a stretch that may hold the record: most often the first one does.
const CANDIDATES_MAX: usize = 64;
/// Bytes copied between two polite pauses.
const STEP_BYTES: usize = 64 * 1024;

/// A record found by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// The record's timestamp.
    pub timestamp: Timestamp,
    /// Its offset.
    pub offset: Offset,
    /// Leader epoch of its batch.
    pub leader_epoch: LeaderEpoch,
}

/// Offsets that may be answered.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    log_start: Offset,
    end: Offset,
}

impl<D: Disk, E: Executor> Log<D, E> {
    /// The first record, by offset, whose timestamp is `target` or later.
    ///
    /// Order   only offsets from the log start up to `end` (exclusive); `None` if no such record is there.
    pub async fn offset_for_timestamp(
        &self,
        target: Timestamp,
        end: Offset,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let inner = &self.0;
        let _busy = inner.busy();
        let bounds = inner.bounds(end);
        for base in inner.segments_within(bounds) {
            let Some(readable) = inner.readable(base) else { continue };
            match inner.first_in(readable, target, bounds).await {
                Ok(Some(found)) => return Ok((found.offset < bounds.end).then_some(found)),
                Ok(None) => {}
                // It was removed while it was looked through: what it held is below the log start.
                Err(_) if inner.is_gone(base) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The first record, by offset, that has the largest timestamp below `end`.
    pub async fn offset_of_max_timestamp(
        &self,
        end: Offset,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let inner = &self.0;
        let _busy = inner.busy();
        let bounds = inner.bounds(end);
        let mut best: Option<(Readable, MaxTimestamp)> = None;
        for base in inner.segments_within(bounds) {
            let Some(readable) = inner.readable(base) else { continue };
            let max = match inner.max_timestamp_within(readable, bounds).await {
                Err(_) if inner.is_gone(base) => None,
                max => max?,
            };
            if let Some(max) = max
                && best.is_none_or(|(_, best)| best.timestamp < max.timestamp)
            {
                best = Some((readable, max));
            }
        }
        let Some((readable, max)) = best else { return Ok(None) };
        inner.first_at(readable, max, bounds).await
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    fn bounds(&self, end: Offset) -> Bounds {
        let ends = self.ends.get();
        Bounds { log_start: ends.log_start(), end: end.min(ends.written()) }
    }

    /// Whether a segment was removed.
    fn is_gone(&self, base: Offset) -> bool {
        self.state.borrow().segment(base).is_none()
    }

    /// [`LogInner::first_since`], with a look at the largest timestamp first.
    async fn first_in(
        &self,
        readable: Readable,
        target: Timestamp,
        bounds: Bounds,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let max = self.max_timestamp(readable).await?;
        if max.is_none_or(|max| max.timestamp < target) {
            return Ok(None);
        }
        self.first_since(readable, target, bounds).await
    }

    fn segments_within(&self, bounds: Bounds) -> Vec<Offset> {
        let state = self.state.borrow();
        let within = state
            .segments
            .iter()
            .filter(|segment| segment.end > bounds.log_start && segment.base < bounds.end);
        within.map(|segment| segment.base).collect()
    }

    /// The largest timestamp of a segment, certain: of its batches, not of its index.
    pub(crate) async fn max_timestamp(
        &self,
        readable: Readable,
    ) -> Result<Option<MaxTimestamp>, ReadError> {
        loop {
            let known = {
                let state = self.state.borrow();
                let segment = state.segment(readable.base);
                segment.map(|segment| match (&segment.memory, segment.max) {
                    (Some(memory), _) => SegmentMax::Known(memory.builder.max()),
                    (None, max) => max,
                })
            };
            if let Some(SegmentMax::Known(max)) = known {
                return Ok(max);
            }
            let held = self.index(readable).await?;
            if held.origin == IndexOrigin::Built {
                let max = held.index.latest_below(readable.end);
                self.note_max(readable.base, max);
                return Ok(max);
            }
            let Some(last) = held.index.latest_below(readable.end) else {
                self.rebuild_index(readable, IndexDamage::Gap { position: 0 }).await?;
                continue;
            };
            if self.shared.mutant.lacks(Rule::IndexTrustedWithoutCheck)
                || self.is_max(readable, last).await?
            {
                self.note_max(readable.base, Some(last));
                return Ok(Some(last));
            }
            self.rebuild_index(readable, IndexDamage::time_mismatch(last)).await?;
        }
    }

    fn note_max(&self, base: Offset, max: Option<MaxTimestamp>) {
        if let Some(segment) = self.state.borrow_mut().segment_mut(base) {
            segment.max = SegmentMax::Known(max);
        }
    }

    /// Whether the batch says what the entry says, and no later batch of the segment says more.
    async fn is_max(&self, readable: Readable, entry: MaxTimestamp) -> Result<bool, ReadError> {
        let mut offset = entry.last_offset;
        let mut is_first = true;
        while let Some(stretch) = self.stretch(readable, offset, readable.end).await? {
            for (_, header) in &stretch.headers {
                if header.last_offset() < entry.last_offset {
                    continue;
                }
                let agrees = if is_first {
                    header.last_offset() == entry.last_offset
                        && header.max_timestamp == entry.timestamp
                } else {
                    header.max_timestamp <= entry.timestamp
                };
                if !agrees {
                    return Ok(false);
                }
                is_first = false;
            }
            offset = stretch.extent.next_offset;
        }
        Ok(!is_first)
    }

    /// The first record of a segment at or after `target` and not below the log start. It may lie past the end.
    async fn first_since(
        &self,
        readable: Readable,
        target: Timestamp,
        bounds: Bounds,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let begin = self.not_before(readable, target).await?.max(bounds.log_start);
        let mut offset = begin.max(readable.base);
        let time = WantedTime::AtLeast(target);
        let wanted = Wanted { time, offset_min: bounds.log_start };
        let is_wanted = |header: &BatchHeader| {
            header.max_timestamp >= target && header.last_offset() >= bounds.log_start
        };
        while let Some(some) = self.may_hold(readable, offset, bounds.end, is_wanted).await? {
            for batch in &some.batches {
                let found = self.find_record(readable, batch, wanted).await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            offset = some.next_offset;
        }
        Ok(None)
    }

    /// Batches that `is_wanted` takes for holders of what is looked for, some at a time, from the one that holds `offset` on;
    /// `None` at `end` or the segment's.
    async fn may_hold(
        &self,
        readable: Readable,
        offset: Offset,
        end: Offset,
        is_wanted: impl Fn(&BatchHeader) -> bool,
    ) -> Result<Option<Candidates>, ReadError> {
        let mut offset = offset;
        while let Some(stretch) = self.stretch(readable, offset, end).await? {
            let batches = stretch.headers.iter().filter(|(_, header)| is_wanted(header));
            let batches: Vec<_> = batches.take(CANDIDATES_MAX).copied().collect();
            let next_offset = match batches.last() {
                Some((_, last)) if batches.len() == CANDIDATES_MAX => last.next_offset(),
                _ => stretch.extent.next_offset,
            };
            if !batches.is_empty() {
                return Ok(Some(Candidates { batches, next_offset }));
            }
            offset = next_offset;
        }
        Ok(None)
    }

    /// An offset up to which no record is as late as `target`.
    async fn not_before(&self, readable: Readable, target: Timestamp) -> Result<Offset, ReadError> {
        {
            let state = self.state.borrow();
            let memory = state.segment(readable.base).and_then(|segment| segment.memory.as_ref());
            if let Some(memory) = memory {
                if let Some(entry) = memory.builder.index().older_than(target) {
                    return Ok(entry.last_offset);
                }
                if memory.from_position == 0 {
                    return Ok(readable.base);
                }
            }
        }
        loop {
            let held = self.index(readable).await?;
            let Some(entry) = held.index.older_than(target) else { return Ok(readable.base) };
            let is_trusted = held.origin == IndexOrigin::Built
                || self.shared.mutant.lacks(Rule::IndexTrustedWithoutCheck);
            if is_trusted || self.bears_out(readable, entry).await? {
                return Ok(entry.last_offset);
            }
            self.rebuild_index(readable, IndexDamage::time_mismatch(entry)).await?;
        }
    }

    /// Whether the batch that an entry names has its timestamp.
    async fn bears_out(&self, readable: Readable, entry: MaxTimestamp) -> Result<bool, ReadError> {
        let Some(stretch) = self.stretch(readable, entry.last_offset, readable.end).await? else {
            return Ok(false);
        };
        Ok(stretch.headers.iter().any(|(_, header)| {
            header.last_offset() == entry.last_offset && header.max_timestamp == entry.timestamp
        }))
    }

    /// The largest timestamp of the part of a segment that lies within the bounds.
    async fn max_timestamp_within(
        &self,
        readable: Readable,
        bounds: Bounds,
    ) -> Result<Option<MaxTimestamp>, ReadError> {
        match self.max_timestamp(readable).await? {
            None => return Ok(None),
            Some(max) if max.last_offset < bounds.end && max.last_offset >= bounds.log_start => {
                // A batch may lie across the log start, and the record in question below it.
                let is_whole = bounds.log_start <= readable.base;
                if is_whole || self.first_at(readable, max, bounds).await?.is_some() {
                    return Ok(Some(max));
                }
            }
            Some(_) => {}
        }
        let mut max = self.max_across_start(readable, bounds).await?;
        let mut offset = readable.base.max(bounds.log_start);
        while let Some(stretch) = self.stretch(readable, offset, bounds.end).await? {
            for (_, header) in &stretch.headers {
                let (timestamp, last_offset) = (header.max_timestamp, header.last_offset());
                let known = max.map_or(Timestamp::NONE, |max| max.timestamp);
                let is_within = header.base_offset >= bounds.log_start && last_offset < bounds.end;
                if is_within && timestamp > known {
                    max = Some(MaxTimestamp { timestamp, last_offset });
                }
            }
            offset = stretch.extent.next_offset;
        }
        Ok(max)
    }

    /// The same of the one batch that may lie across the log start.
    async fn max_across_start(
        &self,
        readable: Readable,
        bounds: Bounds,
    ) -> Result<Option<MaxTimestamp>, ReadError> {
        if bounds.log_start <= readable.base {
            return Ok(None);
        }
        let lies_across = |header: &BatchHeader| {
            header.base_offset < bounds.log_start && header.last_offset() < bounds.end
        };
        let Some(stretch) = self.stretch(readable, bounds.log_start, bounds.end).await? else {
            return Ok(None);
        };
        let first = stretch.headers.first().copied();
        drop(stretch);
        let Some(batch) = first.filter(|(_, header)| lies_across(header)) else { return Ok(None) };
        let largest = self.largest_from(readable, &batch, bounds).await?;
        let last_offset = batch.1.last_offset();
        Ok(largest.map(|timestamp| MaxTimestamp { timestamp, last_offset }))
    }

    /// The largest timestamp of the records of a batch that are not below the log start. By halves: one pass a bit, whatever
    /// order the records are in.
    async fn largest_from(
        &self,
        readable: Readable,
        batch: &Batch,
        bounds: Bounds,
    ) -> Result<Option<Timestamp>, ReadError> {
        let (mut low, mut high) = (0, batch.1.max_timestamp.0);
        let mut largest = None;
        while low <= high {
            let middle = low + (high - low) / 2;
            let time = WantedTime::AtLeast(Timestamp(middle));
            let wanted = Wanted { time, offset_min: bounds.log_start };
            match self.find_record(readable, batch, wanted).await? {
                Some(found) => {
                    largest = Some(found.timestamp);
                    let Some(next) = found.timestamp.0.max(middle).checked_add(1) else { break };
                    low = next;
                }
                None => high = middle - 1,
            }
        }
        Ok(largest)
    }

    /// The first record with exactly the largest timestamp, in the batch that is said to hold it.
    async fn first_at(
        &self,
        readable: Readable,
        max: MaxTimestamp,
        bounds: Bounds,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let Some(stretch) = self.stretch(readable, max.last_offset, readable.end).await? else {
            return Ok(None);
        };
        let holds = |header: &BatchHeader| header.last_offset() == max.last_offset;
        let batch = stretch.headers.iter().find(|(_, header)| holds(header)).copied();
        drop(stretch);
        let Some(batch) = batch else { return Ok(None) };
        let time = WantedTime::Exactly(max.timestamp);
        let wanted = Wanted { time, offset_min: bounds.log_start };
        self.find_record(readable, &batch, wanted).await
    }

    /// The first record of a batch that is wanted. Gives way to others as it goes: a few bytes may expand to a thousand times
    /// as many.
    async fn find_record(
        &self,
        readable: Readable,
        batch: &Batch,
        wanted: Wanted,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let (_, header) = batch;
        let range = header.base_offset..header.next_offset();
        let refused = |error| match error {
            FindError::OutputBound { output_bytes_max } => {
                let (range, bound) = (range.clone(), output_bytes_max);
                ReadError::Expands { range, bound }
            }
            // Right by its checksum and still no records: refused like any other damage.
            FindError::Damaged | FindError::LargeWindow => {
                ReadError::Damaged { range: range.clone() }
            }
        };
        let executor = &self.shared.executor;
        let mut workspace = Workspace::new();
        let Some(records) = self.records_of(readable, batch).await? else { return Ok(None) };
        let mut found = find(executor, header, &records, wanted, &mut workspace).await;
        if matches!(found, Err(FindError::LargeWindow)) {
            // Whoever waits holds nothing: the records are read again when it is their turn.
            drop(records);
            workspace.shed();
            let _turn = LargeWindow::begin(&self.shared).await;
            workspace.allow(Windows::Large);
            let Some(records) = self.records_of(readable, batch).await? else { return Ok(None) };
            found = find(executor, header, &records, wanted, &mut workspace).await;
        }
        let leader_epoch = header.partition_leader_epoch;
        Ok(found.map_err(refused)?.map(|(timestamp, offset)| TimestampedOffset {
            timestamp,
            offset,
            leader_epoch,
        }))
    }

    /// A copy of what follows a batch's header, in one piece; `None` where it is damaged by now: its header was seen in memory that
    /// has let go of it since, or rot came in between. Then it is passed over like any other.
    async fn records_of(
        &self,
        readable: Readable,
        batch: &Batch,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let (position, header) = batch;
        let extent = match self.extent_for(readable, header.base_offset, STRETCH_BYTES).await {
            Ok(extent) => extent,
            Err(ReadError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if !(extent.position..extent.end_position).contains(position) {
            // An extent holds whole batches, and a batch stays where it is: one of the two is not what it was taken for.
            return Err(ReadError::Damaged { range: header.base_offset..header.next_offset() });
        }
        let from = position - extent.position + HEADER_BYTES as u64;
        let bytes = header.total_bytes() - HEADER_BYTES;
        let mut records = Vec::with_capacity(bytes);
        for slice in cut(&extent.pieces, from, bytes as u64) {
            for piece in slice.chunks(STEP_BYTES) {
                records.extend_from_slice(piece);
                self.shared.executor.yield_if_needed().await;
            }
        }
        Ok(Some(records))
    }

    /// Checked batches from the one that holds `offset` on; `None` at `end` or the segment's.
    async fn stretch(
        &self,
        readable: Readable,
        offset: Offset,
        end: Offset,
    ) -> Result<Option<Stretch<D>>, ReadError> {
        let mut offset = offset;
        let end = end.min(readable.end);
        while offset < end {
            match self.extent_for(readable, offset, STRETCH_BYTES).await {
                Ok(extent) => {
                    let headers = headers_of(&extent, offset, end);
                    return Ok(Some(Stretch { extent, headers }));
                }
                Err(ReadError::Damaged { range }) => offset = range.end,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Looks through the records of a batch: two seconds or so for the largest, and memory for one window.
async fn find(
    executor: &impl Executor,
    header: &BatchHeader,
    records: &[u8],
    wanted: Wanted,
    workspace: &mut Workspace,
) -> Result<Option<(Timestamp, Offset)>, FindError> {
    let mut finder = RecordFinder::new(header, records, wanted, RECORDS_BYTES_MAX, workspace)?;
    loop {
        match finder.step(STEP_NS)? {
            FindStep::More => executor.yield_if_needed().await,
            FindStep::Absent => return Ok(None),
            FindStep::Found { offset, timestamp } => return Ok(Some((timestamp, offset))),
        }
    }
}

/// The one look-up of a core that decompresses with a large window, until it is dropped: a few bytes in a log would else cost
/// 128 MiB for each that asks for them.
struct LargeWindow<'a, D: Disk, E: Executor>(&'a Shared<D, E>);

impl<'a, D: Disk, E: Executor> LargeWindow<'a, D, E> {
    async fn begin(shared: &'a Shared<D, E>) -> Self {
        let free = || (!shared.large_window.replace(true)).then_some(());
        shared.large_window_free.wait_for(free).await;
        Self(shared)
    }
}

impl<D: Disk, E: Executor> Drop for LargeWindow<'_, D, E> {
    fn drop(&mut self) {
        self.0.large_window.set(false);
        self.0.large_window_free.notify();
    }
}

/// Where a batch lies, and its header.
type Batch = (u64, BatchHeader);

/// Some batches, and their headers by position.
struct Stretch<D: Disk> {
    extent: Rc<Extent<D>>,
    headers: Vec<Batch>,
}

/// Batches to look into, and where to go on behind them.
struct Candidates {
    batches: Vec<Batch>,
    next_offset: Offset,
}

fn headers_of<D: Disk>(extent: &Extent<D>, from: Offset, end: Offset) -> Vec<Batch> {
    let mut headers = Vec::new();
    let mut position = extent.position;
    while position < extent.end_position {
        let mut head = [0; HEADER_BYTES];
        copy_out(&extent.pieces, position - extent.position, &mut head);
        // Batches in an extent were checked when they entered it.
        let Ok(header) = BatchHeader::parse(&head) else { break };
        if header.base_offset >= end {
            break;
        }
        if header.last_offset() >= from {
            headers.push((position, header));
        }
        position += header.total_bytes() as u64;
    }
    headers
}
