//! A segment's batches in their order, and the stretches between them that cannot be believed.
//!
//! Owns the one judgement where damage begins and where it ends: reads, recovery, rebuilt indexes and `log verify` all ask
//! here, so that none of them calls a batch damaged that another one serves. It changes nothing and skips nothing.
//!
//! ```text
//! whole, right, next in order                       a batch
//! whole, right, offsets missing before it           damage without a byte; then the batch
//! whole, right, but its neighbours say otherwise    damage: the checksum does not cover the base offset
//! anything else                                     damage, up to where good batches go on
//! ```

use std::ops::Range;

use record::{BatchHeader, Offset};

use crate::disk::{Disk, DiskResult};
use crate::executor::Executor;
use crate::stream::{BadBatch, END_UNKNOWN, FoundBatch, SegmentStream, contradicts_itself};

/// One stretch of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stretch {
    /// A whole batch with the right checksum, next in order.
    Batch { position: u64, header: BatchHeader },
    /// Bytes that are no batch, or not the one that should be here. Walking goes on behind them.
    Damage { damage: DamagedStretch, reason: BadBatch },
    /// Zeros up to the end, where no batch is missing.
    ZeroTail { positions: Range<u64> },
}

/// What cannot be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DamagedStretch {
    /// Empty where only offsets are missing.
    pub(crate) positions: Range<u64>,
    /// Empty where the bytes are not known to hold any.
    pub(crate) offsets: Range<Offset>,
}

/// A segment on its way from front to back.
pub(crate) struct SegmentWalk<D: Disk> {
    stream: SegmentStream<D>,
    position: u64,
    expected: Offset,
    /// One past the last offset that the bytes must hold, where that is known.
    end: Option<Offset>,
}

impl<D: Disk> SegmentWalk<D> {
    /// Starts at `position`, where the batch with base offset `expected` should be.
    pub(crate) fn new(
        stream: SegmentStream<D>,
        position: u64,
        expected: Offset,
        end: Option<Offset>,
    ) -> Self {
        Self { stream, position, expected, end }
    }

    pub(crate) fn stream(&mut self) -> &mut SegmentStream<D> {
        &mut self.stream
    }

    /// Bytes read from the disk so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.stream.bytes_read()
    }

    /// The length of what is walked.
    pub(crate) fn limit(&self) -> u64 {
        self.stream.limit()
    }

    /// One past the last offset of what went by.
    pub(crate) fn expected(&self) -> Offset {
        self.expected
    }

    /// The next stretch; `None` at the end.
    pub(crate) async fn next<E: Executor>(&mut self, executor: &E) -> DiskResult<Option<Stretch>> {
        let position = self.position;
        match self.stream.find(executor, position).await? {
            FoundBatch::End => Ok(None),
            FoundBatch::ZeroTail if self.end.is_none_or(|end| end <= self.expected) => {
                self.position = self.limit();
                Ok(Some(Stretch::ZeroTail { positions: position..self.limit() }))
            }
            FoundBatch::ZeroTail => Ok(Some(self.damage(executor, BadBatch::Zeros).await?)),
            FoundBatch::Batch(header)
                if header.base_offset == self.expected && self.holds(&header) =>
            {
                self.position += header.total_bytes() as u64;
                self.expected = header.next_offset();
                Ok(Some(Stretch::Batch { position, header }))
            }
            FoundBatch::Batch(header) => {
                let (found, expected) = (header.base_offset, self.expected);
                let reason = BadBatch::Offset { found, expected };
                Ok(Some(self.damage(executor, reason).await?))
            }
            FoundBatch::Bad(reason) => Ok(Some(self.damage(executor, reason).await?)),
        }
    }

    /// How far the damage at hand reaches, whatever made the caller refuse it.
    pub(crate) async fn next_damage<E: Executor>(
        &mut self,
        executor: &E,
    ) -> DiskResult<DamagedStretch> {
        let (position, expected) = (self.position, self.expected);
        (self.position, self.expected) = match self.gap(executor).await? {
            Some(goes_on) => (position, goes_on),
            None => self.resume(executor).await?,
        };
        let (positions, offsets) = (position..self.position, expected..self.expected);
        Ok(DamagedStretch { positions, offsets })
    }

    async fn damage<E: Executor>(&mut self, executor: &E, reason: BadBatch) -> DiskResult<Stretch> {
        Ok(Stretch::Damage { damage: self.next_damage(executor).await?, reason })
    }

    /// Whether the offsets of a batch are among those that should be here.
    fn holds(&self, header: &BatchHeader) -> bool {
        self.end.is_none_or(|end| header.next_offset() <= end)
    }

    /// Where offsets go on if the batch at hand is right and only what lies before it is missing.
    ///
    /// The checksum does not cover a base offset: what follows must agree with it.
    async fn gap<E: Executor>(&mut self, executor: &E) -> DiskResult<Option<Offset>> {
        let FoundBatch::Batch(header) = self.stream.find(executor, self.position).await? else {
            return Ok(None);
        };
        if header.base_offset <= self.expected || !self.holds(&header) {
            return Ok(None);
        }
        let next = self.position + header.total_bytes() as u64;
        let agrees = match self.stream.find(executor, next).await? {
            FoundBatch::Batch(follower) => {
                let end = self.end.unwrap_or(END_UNKNOWN);
                follower.base_offset == header.next_offset()
                    && !self.stream.is_outvoted(next, &follower, end).await?
            }
            FoundBatch::End | FoundBatch::ZeroTail => {
                self.end.is_none_or(|end| end == header.next_offset())
            }
            FoundBatch::Bad(_) => false,
        };
        Ok(agrees.then_some(header.base_offset))
    }

    /// Where good batches go on behind the bad bytes at hand: position and base offset.
    async fn resume<E: Executor>(&mut self, executor: &E) -> DiskResult<(u64, Offset)> {
        let end = self.end.unwrap_or(END_UNKNOWN);
        let mut at_end = (self.limit(), self.end.unwrap_or(self.expected));
        // Most damage leaves the length alone: then the next batch is where this one says, and only this one is lost.
        if let Ok(header) = self.stream.header_at(self.position).await? {
            let next = self.position + header.total_bytes() as u64;
            // Length and last offset must agree on it: a flipped length alone may lead to a batch further on, and every good
            // batch between would be taken for damaged.
            let deltas = i64::from(header.last_offset_delta) + 1;
            let claimed = Offset(self.expected.0.saturating_add(deltas));
            let believed =
                if header.base_offset == self.expected { claimed } else { self.expected };
            match self.stream.find(executor, next).await? {
                // Where this batch contradicts itself the next one may have rotted to say the same.
                FoundBatch::Batch(follower)
                    if follower.base_offset == claimed
                        && follower.next_offset() <= end
                        && (!contradicts_itself(&header)
                            || !self.is_contradicted(next, &follower).await?) =>
                {
                    return Ok((next, claimed));
                }
                FoundBatch::End => return Ok((next, self.end.unwrap_or(believed))),
                // Zeros may reach far: a flipped length can lead into them past good batches.
                FoundBatch::ZeroTail if self.end.is_none() => at_end = (next, believed),
                FoundBatch::Batch(_) | FoundBatch::ZeroTail | FoundBatch::Bad(_) => {}
            }
            // One of the two may have rotted, and the batch behind the next one as well: what the other says bears out the first
            // batch that is whole.
            if header.base_offset == self.expected {
                let (from, offsets) = (self.position + 1, self.expected..end);
                let first = self.stream.find_candidate(executor, from, offsets).await?;
                if let Some((position, found)) = first
                    && (found.base_offset == claimed
                        || (position == next && contradicts_itself(&header)))
                    && !self.is_contradicted(position, &found).await?
                {
                    return Ok((position, found.base_offset));
                }
            }
        }
        let offsets = self.expected..end;
        let found = self.stream.find_next(executor, self.position + 1, offsets).await?;
        Ok(found.map_or(at_end, |(position, header)| (position, header.base_offset)))
    }

    /// Whether what lies behind a batch says that its base offset, which no checksum covers, is not that one.
    async fn is_contradicted(&mut self, position: u64, found: &BatchHeader) -> DiskResult<bool> {
        let behind = position + found.total_bytes() as u64;
        if behind >= self.limit() {
            return Ok(self.end.is_some_and(|end| end != found.next_offset()));
        }
        let Ok(next) = self.stream.header_at(behind).await? else { return Ok(false) };
        let end = self.end.unwrap_or(END_UNKNOWN);
        Ok(next.base_offset != found.next_offset()
            || self.stream.is_outvoted(behind, &next, end).await?)
    }
}
