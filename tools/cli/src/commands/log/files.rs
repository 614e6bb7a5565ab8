//! Which log files there are below a path.
//!
//! Owns the names of files. A directory is searched for partitions: directories that hold a `.log` or say that they are one.
//! What is neither is left alone; what cannot be listed is an error, never a silent gap. What a node has set aside (`stray/`,
//! `deleted/`) is no partition of it: it is searched only where it is named.

use std::path::{Path, PathBuf};

use commitlog::directory::{DELETED_DIRECTORY, PARTITION_METADATA_FILE, STRAY_DIRECTORY};
use commitlog::{BLOCK_BYTES, Disk, DiskError, EntryKind};
use record::Offset;

use super::ground;
use crate::exit::{Exit, Failure, Outcome};

/// Directories within each other that are searched: far more than a data directory has, so that a loop ends.
const DEPTH_MAX: usize = 16;
/// Digits of a segment's name.
const NAME_DIGITS: usize = 20;
/// The leader epochs of a partition.
const EPOCHS_FILE: &str = "leader-epoch-checkpoint";

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// Of its `.log`, below the root.
    pub(super) path: String,
    /// Its first offset, by its name.
    pub(super) base: Offset,
    /// Length of its `.log`.
    pub(super) bytes: u64,
    /// Where its batches belong.
    pub(super) part_of: PartOf,
}

/// What a segment's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartOf {
    /// A log: its first batch has the offset of its name.
    Log,
    /// What a recovery has kept of a segment that it cut or moved away. Which offset comes first only its batches say.
    Copy {
        /// Where they begin: a copy holds whole blocks.
        start: u64,
    },
}

impl Segment {
    /// The path of a file beside it.
    pub(super) fn sibling(&self, extension: &str) -> String {
        format!("{}.{extension}", self.path.strip_suffix(".log").unwrap_or(&self.path))
    }
}

/// The log files of one directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Partition {
    /// The directory, below the root.
    pub(super) directory: String,
    /// All its files were looked at, not one that was named.
    pub(super) is_whole: bool,
    /// It says whose it is: a partition even where it holds no log.
    pub(super) has_metadata: bool,
    /// Segments, ascending by offset.
    pub(super) segments: Vec<Segment>,
    /// What a recovery has set aside, where this directory is in `stray/`; by name.
    pub(super) copies: Vec<Segment>,
    /// `.snapshot` files, ascending: the offset each stands at, and its path.
    pub(super) snapshots: Vec<(Offset, String)>,
    /// Path of the leader epochs.
    pub(super) epochs: Option<String>,
    /// What stands where one of these files belongs: its path, and what it is.
    pub(super) misplaced: Vec<(String, EntryKind)>,
}

/// The directory to work in, and the one file in it that is meant, if it is a file.
pub(super) fn split(path: &Path) -> Outcome<(PathBuf, Option<String>)> {
    let failed = |error| Failure::io(path.display(), &error);
    if std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok((path.to_owned(), None));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok((parent.unwrap_or(Path::new(".")).to_owned(), Some(name.to_owned())))
}

/// The partitions at or below the root; with `name`, that one file of the root.
pub(super) async fn find<D: Disk>(
    disk: &D,
    root: &Path,
    name: Option<&str>,
) -> Outcome<Vec<Partition>> {
    let mut found = Vec::new();
    let mut left = vec![(String::new(), DEPTH_MAX)];
    while let Some((directory, depth_left)) = left.pop() {
        let place = || root.join(&directory).display().to_string();
        let entries = match disk.list(&directory).await {
            // Gone between the listing of its parent and its own: it is as if it had gone before.
            Err(DiskError::NotFound) if !directory.is_empty() => continue,
            entries => entries,
        };
        let entries = entries.map_err(|e| Failure::new(Exit::Io, format!("{}: {e}", place())))?;
        let is_whole = name.is_none();
        let mut partition =
            Partition { directory: directory.clone(), is_whole, ..Partition::default() };
        let mut below = Vec::new();
        let has = |name: &str| entries.iter().any(|entry| entry.name == name);
        let is_data_directory = ground::are_of_data_directory(has);
        let is_meant = |found: &str| name.is_none_or(|name| name == found);
        let is_aside =
            |name: &str| is_data_directory && [STRAY_DIRECTORY, DELETED_DIRECTORY].contains(&name);
        for entry in entries {
            let path = join(&directory, &entry.name);
            match entry.kind {
                EntryKind::Directory if is_aside(&entry.name) => {}
                EntryKind::Directory | EntryKind::Link | EntryKind::Other
                    if is_file_name(&entry.name) && is_meant(&entry.name) =>
                {
                    partition.misplaced.push((path, entry.kind));
                }
                EntryKind::Directory if name.is_none() => {
                    let Some(depth_left) = depth_left.checked_sub(1) else {
                        return Err(too_deep(&root.join(path)));
                    };
                    below.push((path, depth_left));
                }
                EntryKind::File { bytes } if is_meant(&entry.name) => {
                    partition.take(path, &entry.name, bytes);
                }
                _ => {}
            }
        }
        // Taken from the end: the first name comes first.
        left.extend(below.into_iter().rev());
        if !partition.is_empty() {
            partition.segments.sort_by_key(|segment| segment.base);
            partition.snapshots.sort();
            partition.copies.sort_by(|left, right| left.path.cmp(&right.path));
            found.push(partition);
        }
    }
    if found.is_empty() {
        let place = name.map_or(root.to_owned(), |name| root.join(name));
        let fact = format!("{}: no log file", place.display());
        let next = "name a NNNNNNNNNNNNNNNNNNNN.log, a partition's directory or a data directory";
        return Err(Failure::new(Exit::Refused, fact).advise(next));
    }
    Ok(found)
}

fn too_deep(path: &Path) -> Failure {
    let fact = format!("{}: deeper than {DEPTH_MAX} directories, not searched", path.display());
    Failure::new(Exit::Refused, fact).advise("name a directory further down, or break the loop")
}

impl Partition {
    /// The logs in it, whatever they are part of.
    pub(super) fn logs(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().chain(&self.copies)
    }

    fn take(&mut self, path: String, name: &str, bytes: u64) {
        if let Some(base) = base_of(name, ".log") {
            self.segments.push(Segment { path, base, bytes, part_of: PartOf::Log });
        } else if let Some((base, start)) = copy_of(name) {
            self.copies.push(Segment { path, base, bytes, part_of: PartOf::Copy { start } });
        } else if let Some(at) = base_of(name, ".snapshot") {
            self.snapshots.push((at, path));
        } else if name == EPOCHS_FILE {
            self.epochs = Some(path);
        } else if name == PARTITION_METADATA_FILE {
            self.has_metadata = true;
        }
    }

    fn is_empty(&self) -> bool {
        let has_files = self.logs().next().is_some() || !self.snapshots.is_empty();
        let is_named = self.has_metadata || !self.misplaced.is_empty();
        !has_files && self.epochs.is_none() && !is_named
    }
}

/// Whether a file of a partition is called so.
fn is_file_name(name: &str) -> bool {
    let extensions = [".log", ".index", ".timeindex", ".snapshot"];
    let is_segment = extensions.iter().any(|extension| base_of(name, extension).is_some());
    is_segment || [EPOCHS_FILE, PARTITION_METADATA_FILE].contains(&name)
}

/// Whether a segment is called so.
pub(super) fn is_segment_name(name: &str) -> bool {
    base_of(name, ".log").is_some()
}

/// Of a name that recovery gives in `stray/`: the segment's first offset, and where in the file the first batch begins.
///
/// `<base>-at-<position>` is the rest of a segment from the block on that holds the position; `<base>.log` is a whole one.
/// Where a name was taken, `.1`, `.2`, … follow.
fn copy_of(name: &str) -> Option<(Offset, u64)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = name.rsplit_once('.').filter(|(_, number)| is_number(number));
    let stem = numbered.map_or(name, |(stem, _)| stem);
    if let Some(base) = base_of(stem, ".log").filter(|_| numbered.is_some()) {
        return Some((base, 0));
    }
    let (base, position) = stem.split_once("-at-")?;
    let base = base_of(base, "")?;
    let position: u64 = position.parse().ok().filter(|_| is_number(position))?;
    Some((base, position % BLOCK_BYTES as u64))
}

fn base_of(name: &str, extension: &str) -> Option<Offset> {
    let digits = name.strip_suffix(extension)?;
    let is_offset = digits.len() == NAME_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| is_offset).map(Offset)
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_segments() {
        let check = |name: &str, expected: Option<i64>| {
            assert_eq!(base_of(name, ".log"), expected.map(Offset), "{name}");
        };
        check("00000000000000000042.log", Some(42));
        check("09223372036854775807.log", Some(i64::MAX));
        check("99999999999999999999.log", None);
        check("42.log", None);
        check("+0000000000000000042.log", None);
        check("00000000000000000042.index", None);
    }

    #[test]
    fn names_of_what_a_recovery_sets_aside() {
        let check = |name: &str, expected: Option<(i64, u64)>| {
            let expected = expected.map(|(base, start)| (Offset(base), start));
            assert_eq!(copy_of(name), expected, "{name}");
        };
        check("00000000000000000042-at-0", Some((42, 0)));
        check("00000000000000000042-at-4196", Some((42, 100)));
        check("00000000000000000042-at-4196.3", Some((42, 100)));
        check("00000000000000000042.log.1", Some((42, 0)));
        check("00000000000000000042.log", None);
        check("00000000000000000042-at-", None);
        check("00000000000000000042-at-+1", None);
        check("42-at-0", None);
        check("00000000000000000042.index.1", None);
    }

    #[test]
    fn a_sibling_has_the_same_name() {
        let path = "t-0/00000000000000000042.log".to_owned();
        let segment = Segment { path, base: Offset(42), bytes: 0, part_of: PartOf::Log };
        assert_eq!(segment.sibling("index"), "t-0/00000000000000000042.index");
    }
}
