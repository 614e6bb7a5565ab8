//! Which log files there are below a path.
//!
//! Owns the names of files. A directory is searched for partitions: directories that hold a `.log` or say that they are one.
//! What is neither is left alone; what cannot be listed is an error, never a silent gap. What a node has set aside (`stray/`,
//! `deleted/`) is no partition of it: it is searched only where it is named.

use std::path::{Path, PathBuf};

use commitlog::directory::{
    DELETED_DIRECTORY, META_FILE, PARTITION_METADATA_FILE, STRAY_DIRECTORY,
};
use commitlog::{Disk, EntryKind};
use record::Offset;

use crate::exit::{Exit, Failure, Outcome};

/// Deeper than any data directory: a loop ends here.
const DEPTH_MAX: usize = 6;
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
    /// `.snapshot` files, ascending: the offset each stands at, and its path.
    pub(super) snapshots: Vec<(Offset, String)>,
    /// Path of the leader epochs.
    pub(super) epochs: Option<String>,
    /// Paths of directories that stand where one of these files belongs.
    pub(super) misplaced: Vec<String>,
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
        let entries = disk.list(&directory).await;
        let entries = entries.map_err(|e| Failure::new(Exit::Io, format!("{}: {e}", place())))?;
        let is_whole = name.is_none();
        let mut partition =
            Partition { directory: directory.clone(), is_whole, ..Partition::default() };
        let mut below = Vec::new();
        let is_data_directory = entries.iter().any(|entry| entry.name == META_FILE);
        let is_aside =
            |name: &str| is_data_directory && [STRAY_DIRECTORY, DELETED_DIRECTORY].contains(&name);
        for entry in entries {
            let path = join(&directory, &entry.name);
            match entry.kind {
                EntryKind::Directory if is_aside(&entry.name) => {}
                EntryKind::Directory if is_file_name(&entry.name) => {
                    partition.misplaced.push(path);
                }
                EntryKind::Directory if name.is_none() && depth_left > 0 => {
                    below.push((path, depth_left - 1));
                }
                EntryKind::File { bytes } if name.is_none_or(|name| name == entry.name) => {
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

impl Partition {
    fn take(&mut self, path: String, name: &str, bytes: u64) {
        if let Some(base) = base_of(name, ".log") {
            self.segments.push(Segment { path, base, bytes });
        } else if let Some(at) = base_of(name, ".snapshot") {
            self.snapshots.push((at, path));
        } else if name == EPOCHS_FILE {
            self.epochs = Some(path);
        } else if name == PARTITION_METADATA_FILE {
            self.has_metadata = true;
        }
    }

    fn is_empty(&self) -> bool {
        let has_files = !self.segments.is_empty() || !self.snapshots.is_empty();
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
    fn a_sibling_has_the_same_name() {
        let path = "t-0/00000000000000000042.log".to_owned();
        let segment = Segment { path, base: Offset(42), bytes: 0 };
        assert_eq!(segment.sibling("index"), "t-0/00000000000000000042.index");
    }
}
