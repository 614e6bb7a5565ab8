//! Rings looked at as they lie: for `corelog log verify`.
//!
//! Owns nothing of the rules: it takes the way of a replay, with nothing changed, so that what it says of a ring is what the next start
//! makes of it. Where a set is missing, and which one, is all that it adds.

use crate::checkpoint::CheckpointMap;
use crate::disk::{Disk, DiskError, EntryKind};
use crate::error::{AtPath, StoreError};
use crate::executor::Executor;
use crate::journal::JOURNAL_DIRECTORY;
use crate::journal::apply::{Effect, Known, Replay};
use crate::journal::replay::{Found, JournalReport, Needed, SetAt, replay_sets};
use crate::journal::ring::DONE_SUFFIX;
use crate::mutant::Mutant;
use crate::small_file;

/// A ring, and what a start would do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRing {
    /// Its directory.
    pub directory: String,
    /// What is wrong with it.
    pub faults: Vec<JournalFault>,
    /// What a replay would find and do.
    pub report: JournalReport,
}

/// Something of a ring that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalFault {
    /// Sets that are missing, and were on stable storage when the newest one was written.
    Missing {
        /// The file that the first of them was in, or the set before it.
        path: String,
        /// Where the set before it ends; `None` where that one is missing too.
        position: Option<u64>,
        /// How many.
        count: u64,
    },
    /// A set behind the last one that counts, which was never known to be on stable storage.
    Torn {
        /// The file.
        path: String,
        /// Where it begins.
        position: u64,
    },
    /// A file's header says nothing. The sets in it count where another file names their ring.
    Header {
        /// The file.
        path: String,
    },
}

/// Looks at every ring of a data directory on which no node runs, and changes nothing.
///
/// Errors  of the disk.
pub async fn inspect_journals<D: Disk, E: Executor>(
    disk: &D,
    executor: &E,
    checkpoints: &CheckpointMap,
) -> Result<Vec<JournalRing>, StoreError> {
    let entries = match disk.list(JOURNAL_DIRECTORY).await {
        Ok(entries) => entries,
        Err(DiskError::NotFound) => return Ok(Vec::new()),
        Err(error) => return Err(error).at(JOURNAL_DIRECTORY),
    };
    let is_ring = |name: &str| !name.ends_with(DONE_SUFFIX);
    let mut rings = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Directory) {
        if is_ring(&entry.name) {
            let directory = small_file::join(JOURNAL_DIRECTORY, &entry.name);
            rings.push(inspect(disk, executor, checkpoints, directory).await?);
        }
    }
    Ok(rings)
}

async fn inspect<D: Disk, E: Executor>(
    disk: &D,
    executor: &E,
    checkpoints: &CheckpointMap,
    directory: String,
) -> Result<JournalRing, StoreError> {
    let found = Found::of_ring(disk, executor, &directory).await?;
    let mut report = JournalReport { rings: 1, ..JournalReport::default() };
    let path_of = |file: usize| found.paths.get(file).cloned().unwrap_or_default();
    let headless = found.headless.iter().map(|file| JournalFault::Header { path: path_of(*file) });
    let mut faults: Vec<JournalFault> = headless.collect();
    for needed in found.needed(Mutant::NONE) {
        faults.extend(missing(&needed, path_of));
        faults.extend(torn(&found, &needed, path_of));
        report.count(&needed);
        // Which topics were deleted since the last checkpoint only the metadata says, which a start reads.
        let known = Known { checkpoints, is_known: &|_| true };
        let mut replay = Replay::new(disk, known, Mutant::NONE, Effect::None, &mut report);
        replay_sets(disk, executor, &found.paths, &needed.sets, &mut replay).await?;
    }
    Ok(JournalRing { directory, faults, report })
}

/// Where the sequences of what was durable leave some out.
fn missing(needed: &Needed, path_of: impl Fn(usize) -> String) -> Vec<JournalFault> {
    let (mut faults, mut left) = (Vec::new(), needed.missing);
    // What is missing before the first that is there has no place that is known.
    let mut before: Option<&SetAt> = None;
    let mut expected = needed.oldest;
    for set in &needed.sets {
        let count = set.header.place.sequence.saturating_sub(expected).min(left);
        if count > 0 {
            faults.push(gap(before.unwrap_or(set), before.is_some(), count, &path_of));
            left -= count;
        }
        before = Some(set);
        expected = set.header.place.sequence.saturating_add(1);
    }
    if left > 0 {
        faults.push(match before {
            Some(last) => gap(last, true, left, &path_of),
            None => JournalFault::Missing { path: path_of(0), position: None, count: left },
        });
    }
    faults
}

/// So many are missing behind a set, or somewhere before it.
fn gap(
    beside: &SetAt,
    is_behind: bool,
    count: u64,
    path_of: impl Fn(usize) -> String,
) -> JournalFault {
    let end = beside.position + beside.header.padded();
    JournalFault::Missing { path: path_of(beside.file), position: is_behind.then_some(end), count }
}

/// The set that was being written at the end, if something of it arrived.
fn torn(found: &Found, needed: &Needed, path_of: impl Fn(usize) -> String) -> Option<JournalFault> {
    let newest = needed.sets.last()?;
    let is_next = |set: &&SetAt| {
        set.header.ring == newest.header.ring
            && set.header.place.sequence == newest.header.place.sequence + 1
    };
    let set = found.broken.iter().find(is_next)?;
    Some(JournalFault::Torn { path: path_of(set.file), position: set.position })
}
