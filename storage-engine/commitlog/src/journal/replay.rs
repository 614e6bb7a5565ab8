//! The journals of an earlier life, brought into the segments before any log opens.
//!
//! Owns which sets count. The newest set of a ring says which the oldest is that is needed, and up to which all were on stable storage
//! when it was written: all of these are replayed, in the order of their sequences. One that is missing among them was acknowledged
//! and is damaged: what lies beyond is replayed as far as its segments reach, and the ring is kept in `stray/`. Behind them come
//! sets that nobody was told are durable: they are replayed up to the first one that is torn or was never written, and those behind it
//! go with it, whether or not the disk has them. A crash at any point leads to the same replay again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use record::{Offset, TopicPartition};

use crate::checkpoint::CheckpointMap;
use crate::directory::{STRAY_DIRECTORY, free_name};
use crate::disk::{BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, OpenMode};
use crate::error::{AtPath, StoreError};
use crate::executor::Executor;
use crate::journal::JOURNAL_DIRECTORY;
use crate::journal::apply::{Effect, Known, Replay};
use crate::journal::entry::{
    SET_BYTES_MAX, SetHeader, SetPlace, decode_file_header, decode_set, decode_set_header,
};
use crate::journal::ring::{DONE_SUFFIX, SETS_AT, drop_ring, remove_done};
use crate::mutant::{Mutant, Rule};
use crate::small_file;

/// What a start found in the journals, and did with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalReport {
    /// Rings that were there.
    pub rings: u64,
    /// Entry sets that were needed.
    pub sets: u64,
    /// Groups written to their segments.
    pub groups: u64,
    /// Their record bytes.
    pub bytes: u64,
    /// Groups whose segments a checkpoint knows to hold them, or that were removed since.
    pub settled_groups: u64,
    /// Groups of logs that are gone with their topics.
    pub gone_groups: u64,
    /// Groups that could not be put in their place: what comes before them is missing, or their log.
    pub refused_groups: u64,
    /// Sets that are missing between others.
    pub missing_sets: u64,
    /// Sets behind one that was never synced and is not there: a power cut took it, and none of them was durable.
    pub dropped_sets: u64,
    /// Rings that were kept because something of them is missing, or had no place.
    pub strays: Vec<String>,
    /// Some of the groups that were refused, twenty at most: how long the segment is that they do not follow, `None` where the
    /// log's directory is gone.
    pub refusals: Vec<(JournalWaiting, Option<u64>)>,
    /// Of a look that changes nothing: what of each log would be written to its segments, all of it together.
    pub waiting: BTreeMap<TopicPartition, JournalWaiting>,
}

/// Refusals that are remembered: a person looks at some, and all are counted.
const REFUSALS_MAX: usize = 20;

/// Groups of one log that its segments do not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalWaiting {
    /// The log's directory.
    pub directory: String,
    /// Base offset of the segment that the first of them belongs to.
    pub segment: Offset,
    /// Where that begins there.
    pub position: u64,
    /// Its first offset.
    pub base_offset: Offset,
    /// One past the last offset of the last.
    pub end_offset: Offset,
    /// How many they are.
    pub group_count: u64,
}

impl JournalReport {
    pub(super) fn refuse(&mut self, refused: JournalWaiting, segment_bytes: Option<u64>) {
        self.refused_groups += refused.group_count;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push((refused, segment_bytes));
        }
    }

    /// Order   as the groups of a log follow each other.
    pub(super) fn note_waiting(&mut self, log: TopicPartition, more: JournalWaiting) {
        match self.waiting.entry(log) {
            Entry::Vacant(free) => drop(free.insert(more)),
            Entry::Occupied(mut held) => {
                let held = held.get_mut();
                held.end_offset = more.end_offset;
                held.group_count += more.group_count;
            }
        }
    }
}

/// Replays every ring of the data directory, whatever core wrote it, and removes it.
///
/// `is_known` says whether there is such a log for the metadata: nobody misses what was in the journal of one that was deleted, and
/// the checkpoint that still names it does not know.
///
/// Order   after [`crate::directory::open_or_create`] and [`CheckpointMap::load`], before any log of `topics/` opens; also where
///         this start uses no journal.
/// Errors  of the disk: the rings are as they were, and no log may be opened, for its acknowledged end is not in its files.
pub async fn recover_journals<D: Disk, E: Executor>(
    disk: &D,
    executor: &E,
    checkpoints: &CheckpointMap,
    is_known: impl Fn(&TopicPartition) -> bool,
    mutant: Mutant,
) -> Result<JournalReport, StoreError> {
    let known = Known { checkpoints, is_known: &is_known };
    let mut report = JournalReport::default();
    let entries = match disk.list(JOURNAL_DIRECTORY).await {
        Ok(entries) => entries,
        Err(DiskError::NotFound) => return Ok(report),
        Err(error) => return Err(error).at(JOURNAL_DIRECTORY),
    };
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Directory) {
        if entry.name.ends_with(DONE_SUFFIX) {
            let done = small_file::join(JOURNAL_DIRECTORY, &entry.name);
            remove_done(disk, &done).await?;
        } else {
            replay_ring(disk, executor, known, mutant, &entry.name, &mut report).await?;
        }
    }
    Ok(report)
}

async fn replay_ring<D: Disk, E: Executor>(
    disk: &D,
    executor: &E,
    known: Known<'_>,
    mutant: Mutant,
    shard: &str,
    report: &mut JournalReport,
) -> Result<(), StoreError> {
    let directory = small_file::join(JOURNAL_DIRECTORY, shard);
    let found = Found::of_ring(disk, executor, &directory).await?;
    if found.paths.is_empty() {
        return Ok(());
    }
    report.rings += 1;
    let (refused_before, missing_before) = (report.refused_groups, report.missing_sets);
    for needed in found.needed(mutant) {
        report.count(&needed);
        let mut replay = Replay::new(disk, known, mutant, Effect::Write, report);
        replay_sets(disk, executor, &found.paths, &needed.sets, &mut replay).await?;
    }
    if report.missing_sets > missing_before || report.refused_groups > refused_before {
        let kept = keep_aside(disk, shard).await?;
        tracing::error!(
            journal = %directory, %kept,
            missing_sets = report.missing_sets - missing_before,
            refused_groups = report.refused_groups - refused_before,
            "acknowledged records of the journal are damaged or have lost their log: the journal is kept"
        );
        report.strays.push(kept);
        return Ok(());
    }
    drop_ring(disk, shard).await
}

/// Gives the groups of these sets to the replay, and has it finish.
pub(super) async fn replay_sets<D: Disk, E: Executor>(
    disk: &D,
    executor: &E,
    paths: &[String],
    sets: &[SetAt],
    replay: &mut Replay<'_, D>,
) -> Result<(), StoreError> {
    for set in sets {
        let path = paths.get(set.file).map_or("", String::as_str);
        let bytes = read_set(disk, path, set).await.at(path)?;
        // It was right a moment ago: a disk that gives other bytes now is not to be believed.
        let (_, groups) = decode_set(&bytes).map_err(|_| DiskError::Io { errno: 0 }).at(path)?;
        for group in &groups {
            replay.add(group).await?;
        }
        executor.yield_if_needed().await;
    }
    replay.finish().await
}

impl JournalReport {
    pub(super) fn count(&mut self, needed: &Needed) {
        self.sets += needed.sets.len() as u64;
        self.missing_sets += needed.missing;
        self.dropped_sets += needed.dropped;
    }
}

/// A set, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SetAt {
    pub(super) file: usize,
    pub(super) position: u64,
    pub(super) header: SetHeader,
}

/// What the files of a ring hold.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) paths: Vec<String>,
    /// Rings that a file's header names.
    named: BTreeSet<u64>,
    sets: Vec<SetAt>,
    /// Where a set seems to begin that is not whole.
    pub(super) broken: Vec<SetAt>,
    /// Files whose header says nothing, by their place in `paths`.
    pub(super) headless: Vec<usize>,
}

impl Found {
    /// What lies in the directory of a ring.
    pub(super) async fn of_ring<D: Disk, E: Executor>(
        disk: &D,
        executor: &E,
        directory: &str,
    ) -> Result<Self, StoreError> {
        let entries = disk.list(directory).await.at(directory)?;
        let names = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. }));
        let paths: Vec<String> =
            names.map(|entry| small_file::join(directory, &entry.name)).collect();
        let mut found = Self::default();
        for (index, path) in paths.iter().enumerate() {
            found.look_through(disk, executor, index, path).await.at(path)?;
        }
        Ok(Self { paths, ..found })
    }

    /// Notes every set of a file: also one behind a bad block, for it may be of a file that was used before, or show that the bad
    /// one was acknowledged.
    async fn look_through<D: Disk, E: Executor>(
        &mut self,
        disk: &D,
        executor: &E,
        file: usize,
        path: &str,
    ) -> DiskResult<()> {
        let mut reader = RingReader::<D>::open(disk, path).await?;
        match decode_file_header(reader.bytes(0..SETS_AT).await?) {
            Ok(header) => drop(self.named.insert(header.ring)),
            Err(_) => self.headless.push(file),
        }
        let mut position = SETS_AT;
        while position + BLOCK_BYTES as u64 <= reader.size {
            let left = reader.size - position;
            let head = reader.bytes(position..position + BLOCK_BYTES as u64).await?;
            let mut next = position + BLOCK_BYTES as u64;
            if let Ok(header) = decode_set_header(head, left) {
                let end = position + header.padded();
                reader.spend(header.padded());
                let set = SetAt { file, position, header };
                if decode_set(reader.bytes(position..end).await?).is_ok() {
                    self.sets.push(set);
                    next = end;
                } else if self.broken.len() < BROKEN_MAX {
                    self.broken.push(set);
                }
            }
            if reader.is_spent() {
                tracing::warn!(
                    path,
                    "too many bytes look like entries of the journal: the rest is not searched"
                );
                break;
            }
            position = next;
            executor.yield_if_needed().await;
        }
        Ok(())
    }

    /// Whether a file's header names the ring; where every header is damaged, any may be the one.
    pub(super) fn is_named(&self, ring: u64) -> bool {
        self.named.is_empty() || self.named.contains(&ring)
    }

    /// What is needed of each ring that counts.
    pub(super) fn needed(&self, mutant: Mutant) -> Vec<Needed> {
        let mut rings: BTreeMap<u64, Vec<SetAt>> = BTreeMap::new();
        for set in self.sets.iter().filter(|set| self.is_named(set.header.ring)) {
            rings.entry(set.header.ring).or_default().push(*set);
        }
        rings.into_values().map(|sets| needed(sets, mutant)).collect()
    }
}

/// Broken sets that are remembered, to be named.
const BROKEN_MAX: usize = 1024;

/// What is to be replayed, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) sets: Vec<SetAt>,
    /// Sequence of the first that is needed.
    pub(super) oldest: u64,
    /// How many are not there that were durable.
    pub(super) missing: u64,
    /// How many lie behind one that never was, and is not there.
    pub(super) dropped: u64,
}

fn needed(mut sets: Vec<SetAt>, mutant: Mutant) -> Needed {
    sets.sort_by_key(|set| set.header.place.sequence);
    sets.dedup_by_key(|set| set.header.place.sequence);
    let Some(SetPlace { oldest, durable, .. }) = sets.last().map(|set| set.header.place) else {
        return Needed { sets, oldest: 0, missing: 0, dropped: 0 };
    };
    sets.retain(|set| set.header.place.sequence >= oldest);
    let sure = sets.partition_point(|set| set.header.place.sequence <= durable);
    let missing = (durable + 1).saturating_sub(oldest) - sure as u64;
    let follow = (durable + 1).max(oldest)..;
    let unsure = sets.get(sure..).unwrap_or_default().iter().zip(follow);
    let joined =
        unsure.take_while(|(set, sequence)| set.header.place.sequence == *sequence).count();
    let kept = if mutant.lacks(Rule::ReplayPassesGap) { sets.len() } else { sure + joined };
    let dropped = (sets.len() - kept) as u64;
    sets.truncate(kept);
    Needed { sets, oldest, missing, dropped }
}

async fn read_set<D: Disk>(disk: &D, path: &str, set: &SetAt) -> DiskResult<Vec<u8>> {
    let mut reader = RingReader::<D>::open(disk, path).await?;
    let range = set.position..set.position + set.header.padded();
    Ok(reader.bytes(range).await?.to_vec())
}

/// A file of a ring, read through a window that any set fits.
struct RingReader<D: Disk> {
    file: D::File,
    size: u64,
    window: Option<(u64, D::ReadBuffer)>,
    /// Bytes of what looked like a set.
    spent: u64,
}

impl<D: Disk> RingReader<D> {
    async fn open(disk: &D, path: &str) -> DiskResult<Self> {
        let file = disk.open(path, OpenMode::Read).await?;
        let size = file.size().await?;
        Ok(Self { file, size, window: None, spent: 0 })
    }

    fn spend(&mut self, bytes: u64) {
        self.spent = self.spent.saturating_add(bytes);
    }

    /// More was summed than right sets of this file can have: each of its bytes is in one.
    fn is_spent(&self) -> bool {
        self.spent > self.size.saturating_mul(4)
    }

    /// Bytes of the file, fewer at its end. Shape: from a block on, at most what a set can have.
    async fn bytes(&mut self, range: Range<u64>) -> DiskResult<&[u8]> {
        assert!(range.end - range.start <= SET_BYTES_MAX as u64);
        let holds = |start: u64, bytes: &[u8]| {
            start <= range.start && range.end <= start + bytes.len() as u64
        };
        if !self.window.as_ref().is_some_and(|(start, bytes)| holds(*start, bytes)) {
            let read = self.file.read_at_aligned(range.start, SET_BYTES_MAX).await?;
            self.window = Some((range.start, read));
        }
        let Some((start, bytes)) = &self.window else { return Ok(&[]) };
        let from = usize::try_from(range.start - start).unwrap_or(usize::MAX);
        let to = usize::try_from(range.end - start).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes.get(from..to).unwrap_or_default())
    }
}

/// Moves a ring to `stray/`, whole; lasting on return.
async fn keep_aside<D: Disk>(disk: &D, shard: &str) -> Result<String, StoreError> {
    let directory = small_file::join(JOURNAL_DIRECTORY, shard);
    small_file::ensure_directory(disk, "", STRAY_DIRECTORY).await.at(STRAY_DIRECTORY)?;
    let taken = disk.list(STRAY_DIRECTORY).await.at(STRAY_DIRECTORY)?;
    let name = free_name(&taken, &format!("{JOURNAL_DIRECTORY}-{shard}"));
    let target = small_file::join(STRAY_DIRECTORY, &name);
    disk.rename(&directory, &target).await.at(&directory)?;
    disk.sync_dir(STRAY_DIRECTORY).await.at(STRAY_DIRECTORY)?;
    disk.sync_dir(JOURNAL_DIRECTORY).await.at(JOURNAL_DIRECTORY)?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(sequence: u64, oldest: u64, durable: u64) -> SetAt {
        let place = SetPlace { sequence, oldest, durable };
        let header = SetHeader { ring: 1, place, bytes: 100, group_count: 1 };
        SetAt { file: 0, position: SETS_AT, header }
    }

    fn check(sets: &[(u64, u64, u64)], expected: &[u64], missing: u64, dropped: u64) {
        let sets = sets.iter().map(|(sequence, oldest, durable)| set(*sequence, *oldest, *durable));
        let needed = needed(sets.collect(), Mutant::NONE);
        let sequences: Vec<u64> = needed.sets.iter().map(|set| set.header.place.sequence).collect();
        let found = (sequences.as_slice(), needed.missing, needed.dropped);
        assert_eq!(found, (expected, missing, dropped));
    }

    #[test]
    fn the_newest_set_says_which_are_needed() {
        check(&[], &[], 0, 0);
        check(&[(5, 5, 4)], &[5], 0, 0);
        // Out of order by their files; what is older than the oldest that is needed was settled, whatever is left of it.
        check(&[(8, 6, 7), (3, 3, 2), (7, 6, 6), (6, 6, 5)], &[6, 7, 8], 0, 0);
        check(&[(8, 6, 7), (6, 6, 5)], &[6, 8], 1, 0);
        check(&[(8, 6, 7)], &[8], 2, 0);
        check(&[(8, 8, 7), (2, 1, 1)], &[8], 0, 0);
    }

    #[test]
    fn behind_what_lasted_sets_count_up_to_the_first_that_is_not_there() {
        check(&[(5, 5, 4), (6, 5, 4), (7, 5, 4)], &[5, 6, 7], 0, 0);
        check(&[(5, 5, 4), (7, 5, 4), (8, 5, 4)], &[5], 0, 2);
        check(&[(7, 5, 4), (8, 5, 4)], &[], 0, 2);
        // One that lasted is missing as well: that is damage, and is no reason to go on behind the other.
        check(&[(4, 4, 3), (6, 4, 5), (8, 4, 6)], &[4, 6], 1, 1);
        check(&[(9, 9, 4)], &[9], 0, 0);
    }
}
