//! Reading whole batches by offset.
//!
//! Owns the two paths. Hot: every byte is in the tail cache, no await. Cold: extents through the read cache, found by an index
//! entry that is checked against its batch. Record bytes are never copied.

use std::rc::Rc;

use record::Offset;

use crate::disk::Disk;
use crate::error::ReadError;
use crate::executor::{Executor, TaskClass};
use crate::files::SegmentKey;
use crate::index::IndexDamage;
use crate::log::cold::{LoadFrom, Loaded, load_bytes};
use crate::log::damage::{Damage, Readable};
use crate::log::lookup::Start;
use crate::log::{BusyTask, Log, LogInner};
use crate::mutant::Rule;
use crate::read_cache::Extent;
use crate::shared::IndexOrigin;
use crate::tail_cache::{RecordSlice, Take, Taken};

/// An index entry is followed this far for an offset; beyond it, entries are missing and the index is made anew.
const WALK_BYTES_MAX: u64 = 4 << 20;

/// Whether the first batch is given though it is larger than asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtLeastOneBatch {
    /// It is: without it a consumer could never pass a batch larger than its limit.
    Yes,
    /// It is not: another partition already filled the answer.
    No,
}

/// What to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// The first batch is the one that holds this offset.
    pub from: Offset,
    /// Batches end at or before it: the high watermark, or the last stable offset.
    pub end: Offset,
    /// Bytes to return at most.
    pub bytes_max: usize,
    /// See [`AtLeastOneBatch`].
    pub minimum: AtLeastOneBatch,
}

/// Whole batches exactly as they were appended.
#[derive(Debug)]
pub struct ReadBatches<D: Disk> {
    /// The bytes, in order.
    pub slices: Vec<RecordSlice<D>>,
    /// Their number.
    pub bytes: usize,
    /// Base offset of the first batch, which may be below what was asked for; `from` if there is none.
    pub first_offset: Offset,
    /// Where to go on.
    pub next_offset: Offset,
}

impl<D: Disk> ReadBatches<D> {
    fn empty(from: Offset) -> Self {
        Self { slices: Vec::new(), bytes: 0, first_offset: from, next_offset: from }
    }
}

impl<D: Disk> From<Taken<D>> for ReadBatches<D> {
    fn from(taken: Taken<D>) -> Self {
        Self {
            slices: taken.slices,
            bytes: usize::try_from(taken.bytes).unwrap_or(usize::MAX),
            first_offset: taken.first_offset,
            next_offset: taken.next_offset,
        }
    }
}

impl<D: Disk, E: Executor> Log<D, E> {
    /// Reads whole batches, from memory or disk.
    ///
    /// Order   batches of one segment at a time: read on from `next_offset`. Nothing at or past `end` or the written end.
    /// Errors  `BelowStart`, `BeyondEnd`: the offset. `Damaged`: it lies in bytes that are wrong on disk. `Io`: try again.
    pub async fn read(&self, request: ReadRequest) -> Result<ReadBatches<D>, ReadError> {
        if let Some(hot) = self.try_read_hot(&request) {
            return hot;
        }
        let take = self.0.take(&request);
        let read = self.0.read_cold(take).await;
        let (asked, log_start) = (request.from, self.ends().log_start());
        if read.is_err() && asked < log_start {
            // Its file went while it was read.
            return Err(ReadError::BelowStart { asked, log_start });
        }
        Ok(read?.into())
    }

    /// Reads whole batches if all of them are in memory; `None` if the disk is needed.
    #[must_use]
    pub fn try_read_hot(&self, request: &ReadRequest) -> Option<Result<ReadBatches<D>, ReadError>> {
        if self.0.is_closed() {
            return Some(Err(ReadError::Closed));
        }
        let ends = self.0.ends.get();
        let asked = request.from;
        if asked < ends.log_start() {
            return Some(Err(ReadError::BelowStart { asked, log_start: ends.log_start() }));
        }
        if asked > ends.accepted() {
            return Some(Err(ReadError::BeyondEnd { asked, end: ends.accepted() }));
        }
        let take = self.0.take(request);
        if asked >= take.end {
            return Some(Ok(ReadBatches::empty(asked)));
        }
        Some(Ok(self.0.tail.read(take)?.into()))
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    fn take(&self, request: &ReadRequest) -> Take {
        Take {
            from: request.from,
            end: request.end.min(self.ends.get().written()),
            bytes_max: request.bytes_max as u64,
            oversized_first: request.minimum == AtLeastOneBatch::Yes,
        }
    }

    async fn read_cold(&self, take: Take) -> Result<Taken<D>, ReadError> {
        let base = self.state.borrow().segment_of(take.from).base;
        let Some(readable) = self.readable(base) else {
            let log_start = self.ends.get().log_start();
            return Err(ReadError::BelowStart { asked: take.from, log_start });
        };
        let extent = self.extent_for(readable, take.from, take.bytes_max).await?;
        extent.is_taken.set(true);
        self.read_on(base, &extent, take);
        Ok(extent.read(take))
    }

    /// Reads ahead what follows `extent` for a reader that came to it from the one before: while its bytes are sent, the disk
    /// brings the next.
    fn read_on(&self, base: Offset, extent: &Extent<D>, take: Take) {
        let key = self.segment_key(base);
        let cache = &self.shared.read_cache;
        // Of no batch but the first: whether the tail cache has it.
        let next = Take { from: extent.next_offset, bytes_max: 0, ..take };
        let Some(readable) = self.readable(base) else { return };
        if !cache.is_read_on(key, extent.first_offset)
            || extent.end_position >= readable.bytes
            || next.from >= take.end
            || self.damage_holding(next.from).is_some()
            || self.tail.read(next).is_some()
        {
            return;
        }
        let from = LoadFrom {
            position: extent.end_position,
            base_offset: Some(next.from),
            last_offset: None,
            bytes_wanted: take.bytes_max,
        };
        let bytes = usize::try_from(load_bytes(&from)).unwrap_or(usize::MAX);
        if !cache.begin_ahead(key, next.from, bytes) {
            return;
        }
        let Some(task) = self.busy_task() else { return cache.end_ahead(key, next.from) };
        let ahead = ReadAhead { task, segment: key, offset: next.from };
        // The reader may be waiting for it by then: no less urgent than its own reading would be.
        let load = async move {
            if !ahead.task.is_closed() {
                // What fails, or is damaged, the reader meets by itself.
                drop(ahead.task.load(readable, from).await);
            }
        };
        self.shared.executor.spawn(TaskClass::Foreground, Box::pin(load));
    }

    /// The checked stretch of log that holds `offset`, which lies below the end of `readable`.
    pub(crate) async fn extent_for(
        &self,
        readable: Readable,
        offset: Offset,
        bytes_wanted: u64,
    ) -> Result<Rc<Extent<D>>, ReadError> {
        let _busy = self.busy();
        if self.is_closed() {
            return Err(ReadError::Closed);
        }
        let key = self.segment_key(readable.base);
        self.shared.read_cache.read_ahead_ended(key, offset).await;
        if self.is_closed() {
            return Err(ReadError::Closed);
        }
        if let Some(extent) = self.shared.read_cache.holding(key, offset) {
            return Ok(extent);
        }
        if let Some(range) = self.damage_holding(offset) {
            return Err(ReadError::Damaged { range });
        }
        let mut start = self.start_for(readable, offset).await?;
        let mut begun = start.position;
        loop {
            if start.position >= readable.bytes {
                return Err(self.ends_early(readable, offset, start));
            }
            let is_checked = !self.shared.mutant.lacks(Rule::IndexTrustedWithoutCheck);
            let from = LoadFrom {
                position: start.position,
                base_offset: start.base_offset,
                last_offset: start.last_offset.filter(|_| is_checked),
                bytes_wanted,
            };
            let step = match self.load(readable, from).await? {
                Loaded::Extent(extent) => self.judge_extent(&start, offset, &extent, begun),
                Loaded::Bad => self.judge_bad(readable, start).await?,
            };
            match step {
                Step::Found(extent) => return Ok(extent),
                Step::Damaged(damage) if damage.offsets.end > offset => {
                    return Err(ReadError::Damaged { range: damage.offsets });
                }
                Step::Damaged(damage) => {
                    // What moves neither bytes nor offsets on would be met again for ever, and `busy` would keep the log from
                    // closing. Missing offsets take no byte.
                    let moves_on = damage.positions.end > start.position
                        || start.base_offset.is_some_and(|base| damage.offsets.end > base);
                    assert!(moves_on);
                    start = Start::exact(damage.positions.end, damage.offsets.end);
                }
                Step::GoOn(next) => start = next,
                Step::IndexWrong(damage) => {
                    self.rebuild_index(readable, damage).await?;
                    start = self.start_for(readable, offset).await?;
                    begun = start.position;
                }
            }
        }
    }

    fn judge_extent(
        &self,
        start: &Start,
        offset: Offset,
        extent: &Rc<Extent<D>>,
        begun: u64,
    ) -> Step<D> {
        if self.shared.mutant.lacks(Rule::IndexTrustedWithoutCheck) {
            if offset < extent.next_offset {
                return Step::Found(extent.clone());
            }
        } else if start.origin == Some(IndexOrigin::File)
            && extent.end_position - begun > WALK_BYTES_MAX
            && extent.next_offset <= offset
        {
            return Step::IndexWrong(IndexDamage::Gap { position: begun });
        }
        if offset < extent.next_offset {
            return Step::Found(extent.clone());
        }
        Step::GoOn(Start {
            position: extent.end_position,
            base_offset: Some(extent.next_offset),
            last_offset: None,
            origin: start.origin,
        })
    }

    async fn judge_bad(&self, readable: Readable, start: Start) -> Result<Step<D>, ReadError> {
        if let Some(damage) = self.damage_at(readable.base, start.position) {
            return Ok(Step::Damaged(damage));
        }
        if let Some(offset) = start.last_offset
            && start.origin == Some(IndexOrigin::File)
        {
            let position = start.position;
            return Ok(Step::IndexWrong(IndexDamage::Mismatch { position, offset }));
        }
        let Some(expected) = start.base_offset else {
            // An entry leads into damage. Where its offsets begin is known only from the batch before.
            return Ok(Step::GoOn(self.step_back(readable, start).await?));
        };
        let damage = self.find_damage(readable, start.position, expected).await?;
        self.note_damage(damage.clone());
        Ok(Step::Damaged(damage))
    }

    /// The entry before the one that `start` came from.
    async fn step_back(&self, readable: Readable, start: Start) -> Result<Start, ReadError> {
        let before = start.last_offset.map_or(readable.base, |last| Offset(last.0 - 1));
        if before < readable.base {
            return Ok(Start::exact(0, readable.base));
        }
        let earlier = self.start_for(readable, before).await?;
        if earlier.position < start.position {
            return Ok(earlier);
        }
        Ok(Start::exact(0, readable.base))
    }

    /// The batches end before the segment's offsets do.
    fn ends_early(&self, readable: Readable, offset: Offset, start: Start) -> ReadError {
        let from = start.base_offset.unwrap_or(offset).min(offset);
        let range = from..readable.end;
        self.note_damage(Damage {
            segment: readable.base,
            positions: readable.bytes..readable.bytes,
            offsets: range.clone(),
        });
        ReadError::Damaged { range }
    }
}

/// A reading ahead, over when it is dropped, whatever way that comes.
struct ReadAhead<D: Disk, E: Executor> {
    task: BusyTask<D, E>,
    segment: SegmentKey,
    offset: Offset,
}

impl<D: Disk, E: Executor> Drop for ReadAhead<D, E> {
    fn drop(&mut self) {
        self.task.shared.read_cache.end_ahead(self.segment, self.offset);
    }
}

enum Step<D: Disk> {
    Found(Rc<Extent<D>>),
    GoOn(Start),
    Damaged(Damage),
    IndexWrong(IndexDamage),
}
