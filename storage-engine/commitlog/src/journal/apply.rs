//! Groups of a journal, put in their places in the segments.
//!
//! Owns the care that this needs: bytes go exactly where they were, nothing before or behind them is touched, and nothing is made
//! again that went. Written twice they are the same.
//!
//! ```text
//! checkpoint names this place or a later one      the segment holds it, or is gone
//! no directory, or that of another topic          the log is gone; lost where the metadata and a checkpoint know it
//! no such segment, and one behind it              it was removed: segments are made in order, each once the last is lasting
//! no such segment, and the group is its first     made
//! the segment is there                            its name is made lasting, unless a checkpoint says that it is
//! the segment ends before the group begins        refused: what lies between was acknowledged, and is missing
//! ```

use std::collections::BTreeMap;
use std::rc::Rc;

use record::{Offset, TopicPartition};

use crate::checkpoint::{CheckpointEntry, CheckpointMap};
use crate::directory::{TOPICS_DIRECTORY, read_topic_id};
use crate::disk::{
    AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, IO_BYTES_MAX,
    Lasting, OpenMode,
};
use crate::error::{AtPath, StoreError};
use crate::files::{Suffix, parse_segment_name, segment_name};
use crate::journal::entry::JournalGroup;
use crate::journal::replay::{JournalReport, JournalWaiting};
use crate::mutant::{Mutant, Rule};
use crate::small_file::{self, block_ceiling, block_floor};

/// Bytes of one log that are written together.
const RUN_BYTES_MAX: usize = 1 << 20;
/// Bytes of all logs in memory.
const RUNS_BYTES_MAX: usize = 32 << 20;

/// What a replay does with the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Puts them in their places.
    Write,
    /// Finds out where they would go, and changes nothing.
    None,
}

/// What is known of logs before any of them opens.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) checkpoints: &'a CheckpointMap,
    /// Whether there is such a log for the metadata.
    pub(super) is_known: &'a dyn Fn(&TopicPartition) -> bool,
}

/// A replay under way.
pub(super) struct Replay<'a, D: Disk> {
    disk: &'a D,
    effect: Effect,
    known: Known<'a>,
    mutant: Mutant,
    report: &'a mut JournalReport,
    targets: BTreeMap<TopicPartition, Target>,
    written: BTreeMap<TopicPartition, Written>,
    /// Groups that follow each other, not written yet.
    runs: BTreeMap<TopicPartition, Run>,
    run_bytes: usize,
}

/// Where a log's groups go.
#[derive(Debug)]
enum Target {
    /// Its segments' lengths, by base.
    Here(BTreeMap<Offset, u64>),
    /// Nowhere: the topic is gone.
    Gone,
    /// The metadata and a checkpoint know it, and its directory is not there.
    Lost,
}

#[derive(Debug)]
struct Run {
    directory: String,
    segment: Offset,
    position: u64,
    bytes: Vec<u8>,
    base_offset: Offset,
    end_offset: Offset,
    group_count: u64,
}

/// Where the last run of a log ended that was written.
#[derive(Debug, Clone, Copy)]
struct Written {
    segment: Offset,
    position: u64,
    end_offset: Offset,
}

impl Run {
    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }

    fn into_waiting(self) -> JournalWaiting {
        let Self { directory, segment, position, base_offset, end_offset, group_count, .. } = self;
        JournalWaiting { directory, segment, position, base_offset, end_offset, group_count }
    }
}

impl<'a, D: Disk> Replay<'a, D> {
    pub(super) fn new(
        disk: &'a D,
        known: Known<'a>,
        mutant: Mutant,
        effect: Effect,
        report: &'a mut JournalReport,
    ) -> Self {
        let (targets, written, runs) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { disk, effect, known, mutant, report, targets, written, runs, run_bytes: 0 }
    }

    /// Takes the next group; it is in its segment, on stable storage, once [`Replay::finish`] returned.
    pub(super) async fn add(&mut self, group: &JournalGroup<'_>) -> Result<(), StoreError> {
        if self.is_settled(group) && !self.mutant.lacks(Rule::ReplayResurrects) {
            self.report.settled_groups += 1;
            return Ok(());
        }
        if let Some(run) = self.runs.get_mut(&group.log)
            && run.segment == group.segment
            && run.end() == group.position
            && run.bytes.len() + group.bytes.len() <= RUN_BYTES_MAX
        {
            run.bytes.extend_from_slice(group.bytes);
            run.end_offset = group.end_offset;
            run.group_count += 1;
        } else {
            self.flush(group.log).await?;
            self.end_segment_before(group).await?;
            let run = Run {
                directory: small_file::join(TOPICS_DIRECTORY, group.name),
                segment: group.segment,
                position: group.position,
                bytes: group.bytes.to_vec(),
                base_offset: group.base_offset,
                end_offset: group.end_offset,
                group_count: 1,
            };
            self.runs.insert(group.log, run);
        }
        self.run_bytes += group.bytes.len();
        if self.run_bytes > RUNS_BYTES_MAX {
            return self.finish().await;
        }
        Ok(())
    }

    /// Writes what is left.
    pub(super) async fn finish(&mut self) -> Result<(), StoreError> {
        while let Some(log) = self.runs.keys().next().copied() {
            self.flush(log).await?;
        }
        Ok(())
    }

    /// Whether a checkpoint says that the segment holds the group, or that it is one below those that are left.
    fn is_settled(&self, group: &JournalGroup<'_>) -> bool {
        let end = group.position + group.bytes.len() as u64;
        self.known.checkpoints.get(&group.log).is_some_and(|entry| {
            group.segment < entry.segment
                || (group.segment == entry.segment && end <= entry.position)
        })
    }

    async fn flush(&mut self, log: TopicPartition) -> Result<(), StoreError> {
        let Some(run) = self.runs.remove(&log) else { return Ok(()) };
        self.run_bytes -= run.bytes.len();
        if !self.targets.contains_key(&log) {
            let target = self.look(log, &run.directory).await?;
            self.targets.insert(log, target);
        }
        let segments = match self.targets.get_mut(&log) {
            Some(Target::Here(segments)) => segments,
            Some(Target::Lost) => {
                self.report.refuse(run.into_waiting(), None);
                return Ok(());
            }
            Some(Target::Gone) | None => {
                self.report.gone_groups += run.group_count;
                return Ok(());
            }
        };
        let bytes = segments.get(&run.segment).copied();
        let was_removed = bytes.is_none()
            && segments.range(run.segment..).next().is_some()
            && !self.mutant.lacks(Rule::ReplayResurrects);
        if was_removed {
            self.report.settled_groups += run.group_count;
            return Ok(());
        }
        if bytes.unwrap_or(0) < run.position {
            if self.effect == Effect::Write {
                tracing::error!(
                    directory = %run.directory, segment = %run.segment, position = run.position, found = ?bytes,
                    "the segment ends before records that the journal has: they are not joined to it"
                );
            }
            self.report.refuse(run.into_waiting(), Some(bytes.unwrap_or(0)));
            return Ok(());
        }
        let is_named = names(self.known.checkpoints.get(&log), run.segment)
            || self.written.get(&log).is_some_and(|written| written.segment == run.segment);
        let name = if is_named && bytes.is_some() { Lasting::Yes } else { Lasting::No };
        let end = match self.effect {
            Effect::Write => write_run(self.disk, &run, bytes, name, self.mutant).await?,
            Effect::None => block_ceiling(run.end()).max(bytes.unwrap_or(0)),
        };
        segments.insert(run.segment, end);
        let Run { segment, end_offset, .. } = run;
        self.written.insert(log, Written { segment, position: run.end(), end_offset });
        self.report.groups += run.group_count;
        self.report.bytes += run.bytes.len() as u64;
        if self.effect == Effect::None {
            self.report.note_waiting(log, run.into_waiting());
        }
        Ok(())
    }

    /// Where a group begins the next segment, the one before ends at what was written last: a write that was torn may have left
    /// anything behind it, and the log would seem to end there.
    async fn end_segment_before(&mut self, group: &JournalGroup<'_>) -> Result<(), StoreError> {
        let Some(written) = self.written.get(&group.log).copied() else { return Ok(()) };
        let is_next = written.segment < group.segment && written.end_offset == group.segment;
        let Some(Target::Here(segments)) = self.targets.get_mut(&group.log) else { return Ok(()) };
        if !is_next || segments.insert(written.segment, written.position) == Some(written.position)
        {
            return Ok(());
        }
        if self.effect == Effect::None {
            return Ok(());
        }
        let directory = small_file::join(TOPICS_DIRECTORY, group.name);
        let path = small_file::join(&directory, &segment_name(written.segment, Suffix::Log));
        self.disk.set_size(&path, written.position, Lasting::Yes).await.at(&path)
    }

    /// Looks for the log's directory, and makes sure that it is this log's.
    async fn look(&self, log: TopicPartition, directory: &str) -> Result<Target, StoreError> {
        let was_created = self.known.checkpoints.get(&log).is_some_and(|entry| entry.created);
        // A deletion is decided before any directory goes, and checkpoints forget the log some time after it.
        let is_missed = was_created && (self.known.is_known)(&log);
        let absent = if is_missed { Target::Lost } else { Target::Gone };
        let entries = match self.disk.list(directory).await {
            Ok(entries) => entries,
            Err(DiskError::NotFound | DiskError::NotADirectory) => return Ok(absent),
            Err(error) => return Err(error).at(directory),
        };
        // A label that is damaged is for whoever opens the log to judge.
        let label = read_topic_id(self.disk, directory).await.at(directory)?;
        if label.is_some_and(|topic_id| topic_id != log.topic_id) {
            return Ok(absent);
        }
        let segments = entries.iter().filter_map(|entry| match entry.kind {
            EntryKind::File { bytes } => {
                parse_segment_name(&entry.name, Suffix::Log).map(|base| (base, bytes))
            }
            _ => None,
        });
        Ok(Target::Here(segments.collect()))
    }
}

/// Whether a checkpoint speaks of bytes in that segment: its name is lasting then.
fn names(entry: Option<&CheckpointEntry>, segment: Offset) -> bool {
    entry.is_some_and(|entry| entry.segment == segment && entry.position > 0)
}

/// Writes a run into its segment, which has so many bytes, or is made; on stable storage on return. Returns the segment's length.
///
/// A file that is there need not be there after a power cut: the process that made it may have been killed before it had the
/// directory synced, and after this the journal goes.
async fn write_run<D: Disk>(
    disk: &D,
    run: &Run,
    bytes: Option<u64>,
    name: Lasting,
    mutant: Mutant,
) -> Result<u64, StoreError> {
    let path = small_file::join(&run.directory, &segment_name(run.segment, Suffix::Log));
    let end = write_blocks(disk, &path, run, bytes, mutant).await.at(&path)?;
    if name == Lasting::No {
        disk.sync_dir(&run.directory).await.at(&run.directory)?;
    }
    Ok(end)
}

/// The same; the name of a file that is made is not on stable storage.
async fn write_blocks<D: Disk>(
    disk: &D,
    path: &str,
    run: &Run,
    bytes: Option<u64>,
    mutant: Mutant,
) -> DiskResult<u64> {
    let mode = if bytes.is_none() { OpenMode::CreateNew } else { OpenMode::ReadWrite };
    let file = disk.open(path, mode).await?;
    let (start, end) = (block_floor(run.position), block_ceiling(run.end()));
    let length = usize::try_from(end - start).unwrap_or(usize::MAX);
    let mut blocks = vec![0; length];
    // What the first and the last block hold besides is not ours: it is written back as it is.
    for at in [start, end - BLOCK_BYTES as u64] {
        if bytes.is_some_and(|bytes| at < bytes) {
            let block = file.read_at_aligned(at, BLOCK_BYTES).await?;
            let into = usize::try_from(at - start).unwrap_or(usize::MAX);
            blocks[into..into + block.len()].copy_from_slice(&block);
        }
    }
    let from = usize::try_from(run.position - start).unwrap_or(usize::MAX);
    let to = from + run.bytes.len();
    blocks[from..to].copy_from_slice(&run.bytes);
    if mutant.lacks(Rule::ReplayClobbers) {
        blocks[to..].fill(0);
    }
    for (index, piece) in blocks.chunks(IO_BYTES_MAX).enumerate() {
        let mut buffer = disk.allocate(piece.len());
        buffer.truncate(piece.len());
        buffer.as_bytes_mut().copy_from_slice(piece);
        file.write_rc_at(Rc::new(buffer), start + (index * IO_BYTES_MAX) as u64).await?;
    }
    if !mutant.lacks(Rule::ReplayNotSynced) {
        file.full_sync().await?;
    }
    Ok(end.max(bytes.unwrap_or(0)))
}
