//! A segment read from front to back, one batch at a time.
//!
//! Owns the judgement of bytes on disk: whole batch, tail of zeros, end, or bad. Memory is one window whatever a header
//! claims; a batch larger than the window is checked piece by piece. Nothing here trusts a byte before its checksum.

use std::ops::Range;
use std::rc::Rc;

use record::batch::HEADER_BYTES;
use record::{BatchError, BatchHeader, Crc, Offset};

use crate::disk::{BLOCK_BYTES, Disk, DiskFile, DiskResult};
use crate::executor::Executor;
use crate::small_file::{block_ceiling, block_floor};
use crate::throttle::{ReadCost, Throttle};

/// One read: large enough that the device streams, small enough that others get their turn.
const WINDOW_BYTES: usize = 256 * 1024;
/// Work between two polite pauses: about 20 µs of checksum.
const STEP_BYTES: usize = 64 * 1024;
/// The end of offsets that go on who knows how far.
pub(crate) const END_UNKNOWN: Offset = Offset(i64::MAX);
/// Where a batch keeps its format version, which is always 2.
const MAGIC_POSITION: u64 = 16;
const MAGIC: u8 = 2;
/// What one search for a batch may read and sum up, beyond twice the bytes that it passes: a second or less of a disk. Records
/// whose bytes were made to look like batches could otherwise ask for the square of their number.
const SEARCH_BYTES_MAX: u64 = 256 << 20;
/// A search gives others their turn after so many places that looked like a batch, each worth some 50 ns.
const CANDIDATES_STEP: u32 = 256;
/// Reads of one segment that may fail before the rest of it is given up: a lost stretch of 256 KiB costs 65, and a dying disk
/// takes seconds over each.
const FAILED_READS_MAX: u64 = 256;
/// No batch is larger: a request that brings one is refused above it.
const BATCH_BYTES_MAX: usize = 1 << 30;

/// Why bytes are not a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadBatch {
    /// The file ends inside it.
    #[error("batch of {needed} bytes, {left} left in the file")]
    Truncated {
        /// Bytes it claims.
        needed: u64,
        /// Bytes there are.
        left: u64,
    },
    /// The header holds values that no batch has.
    #[error("{0}")]
    Header(#[from] BatchError),
    /// The checksum differs.
    #[error("crc {computed:#010x}, header {stored:#010x}")]
    Crc {
        /// Over the bytes.
        computed: u32,
        /// In the header.
        stored: u32,
    },
    /// A whole batch, but not the one that follows.
    #[error("base offset {found}, expected {expected}")]
    Offset {
        /// In the header.
        found: Offset,
        /// After the last batch.
        expected: Offset,
    },
    /// Zeros where a batch should be, and something else after them.
    #[error("zeros followed by other bytes")]
    Gap,
    /// Only zeros from here on, where batches are known to be missing.
    #[error("zeros where a batch should be")]
    Zeros,
}

/// What lies at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBatch {
    /// Nothing: the file ends here.
    End,
    /// Only zeros up to the end of the file.
    ZeroTail,
    /// A whole batch with the right checksum.
    Batch(BatchHeader),
    /// Anything else.
    Bad(BadBatch),
}

/// Whether a batch is believed for itself alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follower {
    /// It is: a mistake costs a copy.
    Any,
    /// Another such batch must follow it, or the end, or zeros.
    Right,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    Batch(u64, BatchHeader),
    Nothing,
    /// Its work was used up. Something looks like a batch, more often than chance has it.
    GaveUp,
}

/// What one search has cost and seen.
#[derive(Debug, Default)]
struct SearchWork {
    summed_bytes: u64,
    read_bytes_before: u64,
    bytes_max: u64,
    /// A byte that is not zero: no tail of zeros begins at or before it.
    nonzero_at: Option<u64>,
}

/// Where the bytes of a segment come from.
#[derive(Debug)]
enum Source<D: Disk> {
    File(Rc<D::File>),
    /// They were read already, from that position on.
    Memory(u64, Rc<Vec<u8>>),
}

/// What stands for a block that the disk does not give.
static NO_BLOCK: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// What could not be read, of a stream that goes on behind it.
#[derive(Debug)]
struct Passed {
    /// Told of every read.
    throttle: Rc<Throttle>,
    failed_reads: u64,
    /// Whole blocks, ascending as they were met.
    unreadable: Vec<Range<u64>>,
    /// A read up to here failed: blocks before it are read one at a time, so that no good one is lost with a bad one.
    single_until: u64,
    /// Where the last peek failed: many candidates may end in one block, and each would cost a read that fails.
    peek_failed_at: Option<u64>,
}

impl Passed {
    fn holds(&self, position: u64) -> bool {
        self.unreadable.iter().any(|range| range.contains(&position))
    }

    /// Takes in a block that cannot be read; the last stretch grows where it goes on.
    fn add(&mut self, start: u64) {
        let end = start + BLOCK_BYTES as u64;
        match self.unreadable.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.unreadable.push(start..end),
        }
    }

    /// A read of the file; `None` where it failed and that is to be passed.
    async fn read<F: DiskFile>(
        &mut self,
        file: &F,
        position: u64,
        bytes: usize,
    ) -> DiskResult<Option<F::ReadBuffer>> {
        match file.read_at_aligned(position, bytes).await {
            Ok(read) => {
                let read_bytes = read.len() as u64;
                if read_bytes > 0 {
                    self.throttle.spend(ReadCost { read_bytes, failed_reads: 0 }).await;
                }
                Ok(Some(read))
            }
            Err(error) => {
                self.failed_reads += 1;
                self.throttle.spend(ReadCost { read_bytes: 0, failed_reads: 1 }).await;
                if self.failed_reads < FAILED_READS_MAX { Ok(None) } else { Err(error) }
            }
        }
    }
}

/// Reads one segment file up to `limit`.
#[derive(Debug)]
pub(crate) struct SegmentStream<D: Disk> {
    source: Source<D>,
    limit: u64,
    window: Option<(u64, D::ReadBuffer)>,
    bytes_read: u64,
    passed: Option<Passed>,
    /// No hole begins in it, as far as was asked.
    stored: Range<u64>,
}

impl<D: Disk> SegmentStream<D> {
    pub(crate) fn new(file: Rc<D::File>, limit: u64) -> Self {
        Self {
            source: Source::File(file),
            limit,
            window: None,
            bytes_read: 0,
            passed: None,
            stored: 0..0,
        }
    }

    /// The same, and a block that cannot be read is zeros: no batch that has part of it is whole, and all others are. Every read
    /// asks `throttle` for leave. Errors: [`FAILED_READS_MAX`] reads failed; the last one's.
    pub(crate) fn passing_unreadable(
        file: Rc<D::File>,
        limit: u64,
        throttle: Rc<Throttle>,
    ) -> Self {
        let passed = Passed {
            throttle,
            failed_reads: 0,
            unreadable: Vec::new(),
            single_until: 0,
            peek_failed_at: None,
        };
        Self { passed: Some(passed), ..Self::new(file, limit) }
    }

    /// The blocks that could not be read, so far.
    pub(crate) fn unreadable(&self) -> &[Range<u64>] {
        self.passed.as_ref().map_or(&[], |passed| &passed.unreadable)
    }

    /// The same over bytes that were read already. Order: they hold all up to `limit`, and nothing before `start` is asked for.
    pub(crate) fn of_bytes(start: u64, bytes: Rc<Vec<u8>>, limit: u64) -> Self {
        assert!(limit <= start + bytes.len() as u64);
        let bytes_read = bytes.len() as u64;
        let source = Source::Memory(start, bytes);
        Self { source, limit, window: None, bytes_read, passed: None, stored: 0..0 }
    }

    /// Bytes read from the disk so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Some bytes at `position`: at least one below the limit, empty at it (or where the file is shorter than it was).
    pub(crate) async fn bytes_at(&mut self, position: u64) -> DiskResult<&[u8]> {
        if position >= self.limit {
            return Ok(&[]);
        }
        let file = match &self.source {
            Source::File(file) => file,
            Source::Memory(start, bytes) => {
                assert!(*start <= position);
                return Ok(between(bytes, *start, position, self.limit));
            }
        };
        let inside = self.window.as_ref().is_some_and(|(start, window)| {
            *start <= position && position < start + window.len() as u64
        });
        if !inside {
            let start = block_floor(position);
            self.window = read_window::<D>(file, start, self.limit, &mut self.passed).await?;
            self.bytes_read += self.window.as_ref().map_or(0, |(_, window)| window.len() as u64);
        }
        match &self.window {
            Some((start, window)) => Ok(between(window, *start, position, self.limit)),
            None => Ok(between(&NO_BLOCK, block_floor(position), position, self.limit)),
        }
    }

    /// `position`, or where stored bytes follow it if a hole lies there: a hole reads as zeros, for a question instead of a read
    /// for each of its windows. A wrong answer could cost the copy of bytes past the end, or good ones behind damage; nothing
    /// that was acknowledged lies behind zeros otherwise.
    async fn past_hole(&mut self, position: u64) -> u64 {
        let Source::File(file) = &self.source else { return position };
        let in_window = self.window.as_ref().is_some_and(|(start, window)| {
            *start <= position && position < start + window.len() as u64
        });
        if in_window || self.stored.contains(&position) || position >= self.limit {
            return position;
        }
        match file.next_stored(position).await {
            Ok(None) => self.limit,
            Ok(Some(stored)) => {
                let start = stored.start;
                self.stored = stored;
                start.clamp(position, self.limit)
            }
            // Then it is read, and whatever is wrong shows there.
            Err(_) => {
                self.stored = position..self.limit;
                position
            }
        }
    }

    /// The 61 bytes at `position`, or as many as there are.
    async fn head_at(&mut self, position: u64) -> DiskResult<([u8; HEADER_BYTES], usize)> {
        let mut head = [0; HEADER_BYTES];
        let mut filled = 0;
        while filled < HEADER_BYTES {
            let bytes = self.bytes_at(position + filled as u64).await?;
            if bytes.is_empty() {
                break;
            }
            let now = bytes.len().min(HEADER_BYTES - filled);
            head[filled..filled + now].copy_from_slice(&bytes[..now]);
            filled += now;
        }
        Ok((head, filled))
    }

    /// The header at `position` if it could be one; the checksum is not looked at.
    pub(crate) async fn header_at(
        &mut self,
        position: u64,
    ) -> DiskResult<Result<BatchHeader, BadBatch>> {
        let (head, filled) = self.head_at(position).await?;
        let left = self.limit.saturating_sub(position);
        if filled < HEADER_BYTES {
            return Ok(Err(BadBatch::Truncated { needed: HEADER_BYTES as u64, left }));
        }
        Ok(match BatchHeader::parse(&head) {
            Ok(header) if header.total_bytes() as u64 > left => {
                Err(BadBatch::Truncated { needed: header.total_bytes() as u64, left })
            }
            Ok(header) => Ok(header),
            Err(error) => Err(error.into()),
        })
    }

    /// The checksum of the batch of `bytes` at `position`; `None` where the file ended early.
    async fn checksum<E: Executor>(
        &mut self,
        executor: &E,
        position: u64,
        bytes: usize,
    ) -> DiskResult<Option<u32>> {
        let mut crc = Crc::of_batch();
        let mut done = 0;
        while done < bytes {
            let piece = self.bytes_at(position + done as u64).await?;
            if piece.is_empty() {
                return Ok(None);
            }
            let now = piece.len().min(bytes - done).min(STEP_BYTES);
            crc.update(&piece[..now]);
            done += now;
            executor.yield_if_needed().await;
        }
        Ok(Some(crc.value()))
    }

    /// Judges what lies at `position`.
    pub(crate) async fn find<E: Executor>(
        &mut self,
        executor: &E,
        position: u64,
    ) -> DiskResult<FoundBatch> {
        if position >= self.limit {
            return Ok(FoundBatch::End);
        }
        let header = match self.header_at(position).await? {
            Ok(header) => header,
            Err(bad) => return self.judge_bad(executor, position, bad).await,
        };
        let bytes = header.total_bytes();
        let Some(computed) = self.checksum(executor, position, bytes).await? else {
            let left = self.limit - position;
            return Ok(FoundBatch::Bad(BadBatch::Truncated { needed: bytes as u64, left }));
        };
        if computed != header.crc {
            let stored = header.crc;
            return Ok(FoundBatch::Bad(BadBatch::Crc { computed, stored }));
        }
        Ok(FoundBatch::Batch(header))
    }

    /// Tells a tail of zeros from damage: by every byte that is left, never by one field.
    async fn judge_bad<E: Executor>(
        &mut self,
        executor: &E,
        position: u64,
        bad: BadBatch,
    ) -> DiskResult<FoundBatch> {
        Ok(match self.first_nonzero(executor, position).await? {
            None => FoundBatch::ZeroTail,
            Some(at) if at >= position + HEADER_BYTES as u64 => FoundBatch::Bad(BadBatch::Gap),
            Some(_) => FoundBatch::Bad(bad),
        })
    }

    /// Where the zeros end that begin at `from`; `None` if nothing else follows.
    async fn first_nonzero<E: Executor>(
        &mut self,
        executor: &E,
        from: u64,
    ) -> DiskResult<Option<u64>> {
        let mut at = from;
        loop {
            at = self.past_hole(at).await;
            let bytes = self.bytes_at(at).await?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let step = &bytes[..bytes.len().min(STEP_BYTES)];
            if let Some(other) = step.iter().position(|byte| *byte != 0) {
                return Ok(Some(at + other as u64));
            }
            at += step.len() as u64;
            executor.yield_if_needed().await;
        }
    }

    /// The first whole batch at or after `from` whose offsets lie in `offsets` and that is followed by the batch that goes on
    /// where it ends, by the end of `offsets`, or by zeros.
    ///
    /// A record may hold bytes that look like a batch: asking for the follower as well makes it unlikely, not impossible,
    /// that they are taken for one. So the caller first tries where the damaged batch itself says it ends. Where so much
    /// looks like a batch that the work is used up, none is found.
    pub(crate) async fn find_next<E: Executor>(
        &mut self,
        executor: &E,
        from: u64,
        offsets: Range<Offset>,
    ) -> DiskResult<Option<(u64, BatchHeader)>> {
        match self.search(executor, from, offsets, Follower::Right).await? {
            Search::Batch(position, header) => Ok(Some((position, header))),
            Search::Nothing => Ok(None),
            Search::GaveUp => {
                tracing::warn!(from, "too many bytes look like a batch: search given up");
                Ok(None)
            }
        }
    }

    /// The first batch at or after `from` that is whole and in `offsets`, whatever follows it: not to be believed for itself.
    pub(crate) async fn find_candidate<E: Executor>(
        &mut self,
        executor: &E,
        from: u64,
        offsets: Range<Offset>,
    ) -> DiskResult<Option<(u64, BatchHeader)>> {
        Ok(match self.search(executor, from, offsets, Follower::Any).await? {
            Search::Batch(position, header) => Some((position, header)),
            Search::Nothing | Search::GaveUp => None,
        })
    }

    /// Whether a whole batch may lie at or after `from`: a yes costs a copy of it, a no may cost the batch.
    pub(crate) async fn may_hold_batch<E: Executor>(
        &mut self,
        executor: &E,
        from: u64,
    ) -> DiskResult<bool> {
        let offsets = Offset::ZERO..END_UNKNOWN;
        let found = self.search(executor, from, offsets, Follower::Any).await?;
        Ok(found != Search::Nothing)
    }

    async fn search<E: Executor>(
        &mut self,
        executor: &E,
        from: u64,
        offsets: Range<Offset>,
        follower: Follower,
    ) -> DiskResult<Search> {
        let mut work = SearchWork {
            read_bytes_before: self.bytes_read,
            bytes_max: self
                .limit
                .saturating_sub(from)
                .saturating_mul(2)
                .saturating_add(SEARCH_BYTES_MAX),
            ..SearchWork::default()
        };
        let mut at = from;
        let mut candidates = 0_u32;
        loop {
            if work.summed_bytes + self.bytes_read - work.read_bytes_before > work.bytes_max {
                return Ok(Search::GaveUp);
            }
            // No batch has its version in a hole.
            at = self.past_hole(at + MAGIC_POSITION).await - MAGIC_POSITION;
            let bytes = self.bytes_at(at + MAGIC_POSITION).await?;
            if bytes.is_empty() {
                return Ok(Search::Nothing);
            }
            let step = &bytes[..bytes.len().min(STEP_BYTES)];
            let Some(magic) = step.iter().position(|byte| *byte == MAGIC) else {
                at += step.len() as u64;
                executor.yield_if_needed().await;
                continue;
            };
            at += magic as u64;
            let found = self.accept(executor, at, &offsets, follower, &mut work).await?;
            if let Some(header) = found {
                return Ok(Search::Batch(at, header));
            }
            at += 1;
            candidates = candidates.wrapping_add(1);
            if candidates.is_multiple_of(CANDIDATES_STEP) {
                executor.yield_if_needed().await;
            }
        }
    }

    /// The batch at `position` if it is one. Order: the cheapest question first, the checksum last.
    async fn accept<E: Executor>(
        &mut self,
        executor: &E,
        position: u64,
        offsets: &Range<Offset>,
        follower: Follower,
        work: &mut SearchWork,
    ) -> DiskResult<Option<BatchHeader>> {
        let Ok(header) = self.header_at(position).await? else { return Ok(None) };
        let bytes = header.total_bytes();
        if header.base_offset < offsets.start
            || header.next_offset() > offsets.end
            || bytes > BATCH_BYTES_MAX
        {
            return Ok(None);
        }
        if follower == Follower::Right
            && !self.is_followed(executor, position, &header, offsets.end, work).await?
        {
            return Ok(None);
        }
        work.summed_bytes += bytes as u64;
        let computed = self.checksum(executor, position, bytes).await?;
        Ok((computed == Some(header.crc)).then_some(header))
    }

    /// Whether a header follows that goes on where this one ends, or the end, or only zeros. No checksum covers a base offset:
    /// one that nothing bears out may have rotted, and its batch would be served as another one.
    async fn is_followed<E: Executor>(
        &mut self,
        executor: &E,
        position: u64,
        header: &BatchHeader,
        end: Offset,
        work: &mut SearchWork,
    ) -> DiskResult<bool> {
        let expected = header.next_offset();
        let next_position = position + header.total_bytes() as u64;
        if next_position >= self.limit {
            return Ok(end == END_UNKNOWN || expected == end);
        }
        if let Some(next) = self.peek_header(next_position).await? {
            // Its own bytes need not all be there: where a file lost its end, the header of what was torn is the last witness.
            return if next.base_offset == expected {
                Ok(!self.is_outvoted(next_position, &next, end).await?)
            } else {
                self.has_wrong_base(next_position, &next, expected, end).await
            };
        }
        if work.nonzero_at.is_some_and(|nonzero_at| nonzero_at >= next_position) {
            return Ok(false);
        }
        work.nonzero_at = self.first_nonzero(executor, next_position).await?;
        Ok(work.nonzero_at.is_none())
    }

    /// Whether only the base offset of a header is wrong: what lies behind its batch goes on as if it were `expected`, and is not
    /// gainsaid itself. Where the same bit of two base offsets rotted, the second bears out the first, and everybody who is right
    /// looks like the one who is wrong.
    async fn has_wrong_base(
        &mut self,
        position: u64,
        header: &BatchHeader,
        expected: Offset,
        end: Offset,
    ) -> DiskResult<bool> {
        let offsets = i64::from(header.last_offset_delta) + 1;
        let goes_on = Offset(expected.0.saturating_add(offsets));
        let behind = position + header.total_bytes() as u64;
        if behind >= self.limit {
            return Ok(behind == self.limit && end != END_UNKNOWN && goes_on == end);
        }
        let Some(follower) = self.peek_header(behind).await? else { return Ok(false) };
        if follower.base_offset != goes_on {
            return Ok(false);
        }
        let said = self.said_behind(behind, &follower, end).await?;
        Ok(contradicts_itself(&follower) || said.is_none_or(|said| said == follower.next_offset()))
    }

    /// Whether a base offset that is next in order was made to look so: what lies behind its batch says another one, and is borne
    /// out itself, by what lies behind it or by the end. A batch that contradicts itself is not held against its base offset: it
    /// is its end that is not known.
    pub(crate) async fn is_outvoted(
        &mut self,
        position: u64,
        header: &BatchHeader,
        end: Offset,
    ) -> DiskResult<bool> {
        if contradicts_itself(header) {
            return Ok(false);
        }
        let behind = position + header.total_bytes() as u64;
        if behind >= self.limit {
            return Ok(behind == self.limit && end != END_UNKNOWN && end != header.next_offset());
        }
        let Some(follower) = self.peek_header(behind).await? else { return Ok(false) };
        if follower.base_offset == header.next_offset() {
            return Ok(false);
        }
        let said = self.said_behind(behind, &follower, end).await?;
        Ok(said == Some(follower.next_offset()))
    }

    /// The offset that goes on behind a batch, as what lies there says it; `None` if nothing there does.
    async fn said_behind(
        &mut self,
        position: u64,
        header: &BatchHeader,
        end: Offset,
    ) -> DiskResult<Option<Offset>> {
        let behind = position + header.total_bytes() as u64;
        if behind >= self.limit {
            return Ok((behind == self.limit && end != END_UNKNOWN).then_some(end));
        }
        Ok(self.peek_header(behind).await?.map(|next| next.base_offset))
    }

    /// The header at `position`, whether or not the file holds all of its batch.
    async fn any_header_at(&mut self, position: u64) -> DiskResult<Option<BatchHeader>> {
        let (head, filled) = self.head_at(position).await?;
        Ok((filled == HEADER_BYTES).then(|| BatchHeader::parse(&head).ok()).flatten())
    }

    /// [`SegmentStream::any_header_at`] for a position that may be far from the window, which stays where it is.
    async fn peek_header(&mut self, position: u64) -> DiskResult<Option<BatchHeader>> {
        let inside = self.window.as_ref().is_some_and(|(start, window)| {
            *start <= position && position + HEADER_BYTES as u64 <= start + window.len() as u64
        });
        let Source::File(file) = &self.source else {
            return self.any_header_at(position).await;
        };
        if inside || self.limit - position < HEADER_BYTES as u64 {
            return self.any_header_at(position).await;
        }
        let start = block_floor(position);
        let blocks = match &mut self.passed {
            None => Some(file.read_at_aligned(start, 2 * BLOCK_BYTES).await?),
            Some(passed) if passed.peek_failed_at == Some(start) || passed.holds(start) => None,
            Some(passed) => {
                let blocks = passed.read(&**file, start, 2 * BLOCK_BYTES).await?;
                if blocks.is_none() {
                    passed.peek_failed_at = Some(start);
                }
                blocks
            }
        };
        let Some(blocks) = blocks else { return self.any_header_at(position).await };
        self.bytes_read += blocks.len() as u64;
        let from = usize::try_from(position - start).unwrap_or(usize::MAX);
        let head = blocks.get(from..from + HEADER_BYTES).unwrap_or_default();
        Ok(BatchHeader::parse(head).ok())
    }
}

/// Whether the last offset of a damaged batch is not borne out by how many records it says to hold: then it is that field which
/// rotted, and the batch behind it may be right about where it begins. Where the two agree, and the next batch says something
/// else, it is the next one that is wrong.
pub(crate) fn contradicts_itself(header: &BatchHeader) -> bool {
    i64::from(header.records_count) != i64::from(header.last_offset_delta) + 1
}

/// The bytes of a file from `start` on, as many as one read brings; `None` where the disk does not give the first block, and
/// that is to be passed.
async fn read_window<D: Disk>(
    file: &D::File,
    start: u64,
    limit: u64,
    passed: &mut Option<Passed>,
) -> DiskResult<Option<(u64, D::ReadBuffer)>> {
    let wanted = usize::try_from(block_ceiling(limit) - start).unwrap_or(WINDOW_BYTES);
    let wanted = wanted.min(WINDOW_BYTES);
    let Some(passed) = passed else {
        return Ok(Some((start, file.read_at_aligned(start, wanted).await?)));
    };
    if passed.holds(start) {
        return Ok(None);
    }
    if start >= passed.single_until {
        match passed.read(file, start, wanted).await? {
            Some(window) => return Ok(Some((start, window))),
            None => passed.single_until = start + wanted as u64,
        }
    }
    let window = passed.read(file, start, BLOCK_BYTES).await?;
    if window.is_none() {
        passed.add(start);
    }
    Ok(window.map(|window| (start, window)))
}

/// The part of `bytes`, which begin at `start`, from `position` to `limit`.
fn between(bytes: &[u8], start: u64, position: u64, limit: u64) -> &[u8] {
    let from = usize::try_from(position - start).unwrap_or(usize::MAX);
    let to = usize::try_from(limit - start).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(from..to).unwrap_or_default()
}

const _: () = assert!(WINDOW_BYTES.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(STEP_BYTES <= WINDOW_BYTES);
