//! Bringing a log back: from its directory and its checkpoint to a log that takes appends.
//!
//! Owns the judgement of what is there. It cuts nothing below the checkpoint, deletes nothing that could hold a record, and
//! leaves every byte that it counts durable before the log opens. What the checkpoint says is durable is not synced again: a
//! node with many logs, nearly all of them idle, starts in the time that it takes to look at them.
//!
//! ```text
//! segments      [ sealed ][ sealed ][ S ........P......end | zeros or bad ]
//! checkpoint                          P: durable, a batch ends here
//! below P       not read; damage there is found, isolated and reported when it is read
//! P to end      every batch checked; the first that is not whole and next in order ends the log
//! past end      zeros: cut. Anything else: cut too, and copied to stray/ first if a whole batch is in it
//! ```
//!
//! Where the file ends before P, nothing is cut: the log goes on at the end that the checkpoint knows (`short.rs`).

mod below;
mod beyond;
mod epochs;
mod fold;
pub(crate) mod look;
mod scan;
mod short;

use std::cell::RefCell;
use std::rc::Rc;

use record::{EpochTable, Fold, LeaderEpoch, Offset, Timestamp};

use crate::checkpoint::CheckpointEntry;
use crate::disk::{BLOCK_BYTES, Disk, DiskError, EntryKind, OpenMode};
use crate::error::{AtPath, OpenError, StoreError};
use crate::executor::Executor;
use crate::files::{LogKey, SegmentKey, Suffix, parse_segment_name, segment_name};
use crate::group::GroupEnd;
use crate::index::{MaxTimestamp, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES};
use crate::log::{DAMAGE_MAX, Damage, LogIdentity, LogOptions, Segment};
use crate::producer_states::ProducerState;
use crate::recovery::beyond::Tails;
use crate::recovery::fold::Known;
use crate::recovery::look::Looked;
use crate::shared::Shared;
use crate::small_file::{self, TEMPORARY_SUFFIX, block_floor};
use crate::store::StartKind;
use crate::stream::{BadBatch, SegmentStream};
use crate::tail_cache::TailChunk;

/// Why a log was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutReason {
    /// Only zeros followed, as a crash leaves them.
    ZeroTail,
    /// What followed was no batch.
    Bad(BadBatch),
}

/// Where a log was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Base offset of the segment.
    pub segment: Offset,
    /// Bytes kept of it.
    pub position: u64,
    /// Why there.
    pub reason: CutReason,
}

/// What opening a log found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    /// The log is new.
    pub is_new: bool,
    /// The last stop was clean and the files are as it left them: nothing was scanned.
    pub is_clean: bool,
    /// The log end.
    pub end: Offset,
    /// Bytes of segments read.
    pub bytes_read: u64,
    /// Where the log was cut, if it was.
    pub cut: Option<Cut>,
    /// What was moved or copied to `stray/`.
    pub strays: Vec<String>,
    /// The epoch table was rebuilt from the batches.
    pub epochs_rebuilt: bool,
    /// Acknowledged offsets that are gone: the file ends before its checkpoint. Reads of them are refused, the log goes on
    /// behind them.
    pub lost: Option<std::ops::Range<Offset>>,
}

/// One `.log` file in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogFile {
    base: Offset,
    bytes: u64,
}

/// What the directory holds.
#[derive(Debug, Default)]
struct Listing {
    /// Ascending.
    logs: Vec<LogFile>,
    /// Ascending.
    snapshots: Vec<Offset>,
    indexes: Vec<(Offset, u64)>,
    time_indexes: Vec<(Offset, u64)>,
}

impl Listing {
    /// Whether both index files of a segment could be whole.
    fn has_indexes(&self, base: Offset) -> bool {
        let whole = |files: &[(Offset, u64)], entry: usize| {
            files.iter().any(|(at, bytes)| *at == base && bytes % entry as u64 == 0)
        };
        whole(&self.indexes, OFFSET_ENTRY_BYTES) && whole(&self.time_indexes, TIME_ENTRY_BYTES)
    }
}

/// A log, ready to take appends.
pub(crate) struct Recovered<D: Disk> {
    pub(crate) segments: Vec<Segment>,
    pub(crate) end: GroupEnd,
    pub(crate) log_start: Offset,
    pub(crate) high_watermark: Offset,
    pub(crate) boundary: Option<TailChunk<D>>,
    pub(crate) epochs: EpochTable,
    pub(crate) epochs_changed: bool,
    pub(crate) damage: Vec<Damage>,
    pub(crate) snapshot_at: Option<Offset>,
    /// Older ones, which go once no copy of the checkpoint can ask for them.
    pub(crate) superseded: Vec<(Offset, Offset)>,
    /// Bases of files below the log start that are to go.
    pub(crate) left: Vec<Offset>,
    pub(crate) tidy_at: Option<(Offset, u64)>,
    /// Sealed segments whose index files are missing or not whole.
    pub(crate) unindexed: Vec<Offset>,
    pub(crate) report: RecoveryReport,
}

/// What recovery is told.
pub(crate) struct Recovery<'a, D: Disk, E: Executor> {
    pub(crate) shared: &'a Shared<D, E>,
    pub(crate) key: LogKey,
    pub(crate) identity: &'a LogIdentity,
    pub(crate) directory: &'a str,
    pub(crate) entry: Option<CheckpointEntry>,
    pub(crate) start: StartKind,
    pub(crate) options: LogOptions,
    pub(crate) fold: &'a Rc<RefCell<dyn Fold>>,
    pub(crate) now: Timestamp,
    /// The newest leader epoch that the metadata knows: no batch has a later one.
    pub(crate) newest_epoch: LeaderEpoch,
    /// The directory, and what was read along with it. Nothing but recovery changes a file before it is done.
    pub(crate) looked: &'a Looked,
    /// What was known of producers at one of its durable ends.
    pub(crate) state: Option<&'a ProducerState>,
}

/// The front of the log that is taken as it is, and where checking begins.
struct Plan {
    /// Index into the listing of the segment that is scanned first.
    first_scanned: usize,
    /// Where scanning begins in it, and at which offset.
    position: u64,
    offset: Offset,
    max: Option<MaxTimestamp>,
    first_timestamp: Timestamp,
    is_clean: bool,
    /// The segment before is shorter than the checkpoint says.
    is_short: bool,
}

impl Plan {
    /// Nothing is taken as it is; everything from `offset` on is checked.
    const fn begin_at(offset: Offset) -> Self {
        Self {
            first_scanned: 0,
            position: 0,
            offset,
            max: None,
            first_timestamp: Timestamp::NONE,
            is_clean: false,
            is_short: false,
        }
    }

    /// Where the offsets of a segment of the front end: where the next one begins, or the log goes on.
    fn front_end(&self, listing: &Listing, index: usize) -> Offset {
        let next = index + 1;
        if next < self.first_scanned || (next == self.first_scanned && self.position > 0) {
            return listing.logs.get(next).map_or(self.offset, |log| log.base);
        }
        self.offset
    }
}

/// Whether damage was come across for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noted {
    Now,
    Before,
}

/// Remembers damage once, however often it is come across, and no more of it than an open log does; says whether it is news.
/// Walks show it in order, and a later one begins again at the front.
fn note(damage: &mut Vec<Damage>, found: Damage) -> Noted {
    let place = |known: &Damage| (known.segment, known.positions.start, known.offsets.start);
    let at = damage.partition_point(|known| place(known) < place(&found));
    if damage.get(at) == Some(&found) || damage.len() >= DAMAGE_MAX {
        return Noted::Before;
    }
    damage.insert(at, found);
    Noted::Now
}

impl<D: Disk, E: Executor> Recovery<'_, D, E> {
    /// Recovers a log whose directory is there.
    pub(crate) async fn run(&self) -> Result<Recovered<D>, OpenError> {
        let mut listing = self.list().await?;
        let left = self.leave_below_start(&mut listing);
        let plan = self.plan(&listing)?;
        let mut report = RecoveryReport { is_clean: plan.is_clean, ..RecoveryReport::default() };
        let (mut epochs, mut epochs_changed) =
            self.load_epochs(&listing, &plan, &mut report).await?;
        if !plan.is_clean {
            // What the file says of the part that is scanned now is not asked.
            epochs_changed |= epochs.truncate_tail(plan.offset);
        }
        let mut damage = Vec::new();
        self.take_short(&listing, &plan, &mut damage, &mut report).await?;
        let known = Known::Asked;
        let restored = self.restore_fold(&listing, &plan, known, &mut damage, &mut report).await?;
        epochs_changed |= self
            .hold_epochs_against_batches(
                &listing,
                &plan,
                restored.last_epoch,
                &mut epochs,
                &mut report,
            )
            .await?;
        let mut segments = self.sealed_segments(&listing, &plan);
        let scanned = self.scan(&listing, &plan, restored.end, &mut epochs, &mut report).await?;
        if scanned.end.offset < restored.end {
            // What was durable is not there: what is known of it is not of this log any more.
            let known = Known::NotAsked;
            let again = self.restore_fold(&listing, &plan, known, &mut damage, &mut report).await?;
            self.scan(&listing, &plan, again.end, &mut epochs.clone(), &mut report).await?;
        }
        epochs_changed |= scanned.epochs_changed;
        segments.extend(scanned.segments);
        let tails = Tails { reason: scanned.reason, zeros: scanned.zero_tails };
        epochs_changed |= epochs.truncate_tail(scanned.end.offset);
        if !plan.is_clean {
            self.settle(&listing, &plan, &segments, &tails, &mut report).await?;
        }
        self.remove_snapshots_past(&listing, scanned.end.offset).await?;
        report.end = scanned.end.offset;
        let first = segments.first().map_or(scanned.end.offset, |segment| segment.base);
        let log_start = self.entry.map_or(first, |entry| entry.log_start).min(scanned.end.offset);
        if log_start < first {
            // Only a checkpoint moves the log start: the segments that held these offsets are gone without one.
            let lost = Damage { segment: first, positions: 0..0, offsets: log_start..first };
            tracing::error!(log = %self.identity, ?lost, "the first segments are missing");
            damage.push(lost);
        }
        damage.retain(|damage| !damage.is_below(log_start));
        epochs_changed |= epochs.truncate_head(log_start);
        let active = segments.last().map(|segment| (segment.base, segment.bytes));
        let tidy_at = active.filter(|(base, _)| plan.is_clean && listing.has_indexes(*base));
        let unindexed = segments
            .iter()
            .filter(|segment| segment.is_sealed && !listing.has_indexes(segment.base))
            .map(|segment| segment.base)
            .collect();
        Ok(Recovered {
            boundary: self.boundary(&segments, scanned.end).await?,
            segments,
            end: scanned.end,
            log_start,
            high_watermark: self
                .entry
                .map_or(log_start, |entry| entry.high_watermark)
                .min(scanned.end.offset),
            epochs,
            epochs_changed,
            damage,
            snapshot_at: restored.snapshot_at,
            superseded: superseded(&listing.snapshots, restored.snapshot_at),
            left,
            tidy_at,
            unindexed,
            report,
        })
    }

    async fn list(&self) -> Result<Listing, OpenError> {
        let disk = &self.shared.disk;
        let mut listing = Listing::default();
        for entry in &self.looked.entries {
            let EntryKind::File { bytes } = entry.kind else { continue };
            let name = entry.name.as_str();
            if name.ends_with(TEMPORARY_SUFFIX) {
                // Never put in place, so never relied upon. Who wrote the label of the directory again has used it up.
                let path = small_file::join(self.directory, name);
                match disk.remove(&path).await {
                    Ok(()) | Err(DiskError::NotFound) => {}
                    Err(error) => return Err(OpenError::Io { path, error }),
                }
            } else if let Some(base) = parse_segment_name(name, Suffix::Log) {
                listing.logs.push(LogFile { base, bytes });
            } else if let Some(at) = parse_segment_name(name, Suffix::Snapshot) {
                listing.snapshots.push(at);
            } else if let Some(base) = parse_segment_name(name, Suffix::Index) {
                listing.indexes.push((base, bytes));
            } else if let Some(base) = parse_segment_name(name, Suffix::TimeIndex) {
                listing.time_indexes.push((base, bytes));
            }
        }
        // Twenty digits sort by name as they do by number; a listing need not be sorted for that.
        listing.logs.sort_by_key(|log| log.base);
        listing.snapshots.sort();
        Ok(listing)
    }

    /// Where to begin. Without a segment file that is where the log ends: it never got a record, or lost all of them to a later
    /// log start, and goes on with the producers that its snapshot remembers.
    fn plan(&self, listing: &Listing) -> Result<Plan, OpenError> {
        let Some(entry) = self.entry else {
            let first = listing.logs.first().map(|first| first.base);
            // A snapshot was written where everything was durable: no offset below it may be given out again.
            let offset = first.or_else(|| listing.snapshots.last().copied());
            return Ok(Plan::begin_at(offset.unwrap_or(Offset::ZERO)));
        };
        let at = listing.logs.binary_search_by_key(&entry.segment, |log| log.base);
        let Ok(index) = at else {
            if entry.position > 0 || (listing.logs.is_empty() && entry.end > entry.log_start) {
                let name = segment_name(entry.segment, Suffix::Log);
                return Err(OpenError::Missing { path: small_file::join(self.directory, &name) });
            }
            // The checkpoint names a segment that had no byte yet: all before it is sealed, whatever follows is scanned.
            let first_scanned = listing.logs.partition_point(|log| log.base < entry.segment);
            let is_clean = self.start == StartKind::Clean && first_scanned == listing.logs.len();
            return Ok(Plan { first_scanned, is_clean, ..Plan::begin_at(entry.end) });
        };
        let bytes = listing.logs.get(index).map_or(0, |log| log.bytes);
        if bytes < entry.position {
            let first_scanned = index + 1;
            return Ok(Plan { first_scanned, is_short: true, ..Plan::begin_at(entry.end) });
        }
        let is_last = index + 1 == listing.logs.len();
        let max = (entry.max_timestamp > Timestamp::NONE).then_some(MaxTimestamp {
            timestamp: entry.max_timestamp,
            last_offset: entry.max_timestamp_offset,
        });
        Ok(Plan {
            first_scanned: index,
            position: entry.position,
            max,
            first_timestamp: entry.first_timestamp,
            is_clean: self.start == StartKind::Clean && is_last && bytes == entry.position,
            ..Plan::begin_at(entry.end)
        })
    }

    fn sealed_segments(&self, listing: &Listing, plan: &Plan) -> Vec<Segment> {
        let sealed = listing.logs.iter().enumerate().take(plan.first_scanned);
        sealed
            .map(|(index, log)| Segment {
                end: plan.front_end(listing, index),
                bytes: log.bytes,
                is_sealed: true,
                has_file: true,
                memory: None,
                ..Segment::fresh(log.base, self.now)
            })
            .collect()
    }

    /// The last block of the log, which the next group starts with.
    async fn boundary(
        &self,
        segments: &[Segment],
        end: GroupEnd,
    ) -> Result<Option<TailChunk<D>>, OpenError> {
        let has_file = segments.last().is_some_and(|segment| segment.has_file);
        if !has_file || end.position.is_multiple_of(BLOCK_BYTES as u64) {
            return Ok(None);
        }
        let path = self.log_path(end.segment);
        let start = block_floor(end.position);
        let wanted = usize::try_from(end.position - start).unwrap_or(BLOCK_BYTES);
        let mut stream = self.stream(end.segment, start, end.position).await?;
        let bytes = stream.bytes_at(start).await.at(&path)?;
        if bytes.len() != wanted {
            let error = DiskError::Short { done: bytes.len(), asked: wanted };
            return Err(OpenError::Io { path, error });
        }
        let chunk =
            TailChunk::boundary(&self.shared.disk, end.segment, end.position, end.offset, bytes);
        Ok(Some(chunk))
    }

    /// A segment from `from` to `limit`: the bytes that were read along with the directory where they are among them.
    async fn stream(
        &self,
        base: Offset,
        from: u64,
        limit: u64,
    ) -> Result<SegmentStream<D>, StoreError> {
        if let Some((start, bytes)) =
            self.looked.piece(&segment_name(base, Suffix::Log), from, limit)
        {
            return Ok(SegmentStream::of_bytes(start, Rc::clone(bytes), limit));
        }
        let file = self.open_segment(base, OpenMode::Read).await?;
        Ok(SegmentStream::new(file, limit))
    }

    fn log_path(&self, base: Offset) -> String {
        small_file::join(self.directory, &segment_name(base, Suffix::Log))
    }

    async fn open_segment(&self, base: Offset, mode: OpenMode) -> Result<Rc<D::File>, StoreError> {
        let key = SegmentKey { log: self.key, segment: base };
        self.shared.files.get(self.directory, key, mode).await.at(&self.log_path(base))
    }
}

/// The snapshots that are older than the one that was used, with it.
fn superseded(snapshots: &[Offset], used: Option<Offset>) -> Vec<(Offset, Offset)> {
    let older = |used: Offset| snapshots.iter().take_while(move |at| **at < used);
    used.into_iter().flat_map(|used| older(used).map(move |at| (*at, used))).collect()
}

impl<D: Disk> Recovered<D> {
    /// A log without a segment.
    pub(crate) fn empty(end: Offset, now: Timestamp, report: RecoveryReport) -> Self {
        Self {
            segments: vec![Segment::fresh(end, now)],
            end: GroupEnd { segment: end, position: 0, offset: end, max: None, total_bytes: 0 },
            log_start: end,
            high_watermark: end,
            boundary: None,
            epochs: EpochTable::new(),
            epochs_changed: false,
            damage: Vec::new(),
            snapshot_at: None,
            superseded: Vec::new(),
            left: Vec::new(),
            tidy_at: None,
            unindexed: Vec::new(),
            report,
        }
    }
}
