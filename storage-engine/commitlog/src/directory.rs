//! The data directory: whose it is, how it was left, and what in it belongs to nobody.
//!
//! Owns `meta.properties`, `partition.metadata`, the clean-stop marker, `stray/` and `deleted/`. Nothing is deleted on doubt:
//! what is unknown is moved to `stray/` and reported.
//!
//! ```text
//! meta.properties      version=1 | cluster.id=… | node.id=… | directory.id=… | corelog.format.version=1 | corelog.crc32=…
//!                      one a line; the last is the CRC-32 (8 hexadecimal digits) of all bytes before its own line
//! partition.metadata   version: 0⏎topic_id: <22 characters>                         Kafka's bytes, without a final newline
//! clean-stop           corelog clean stop 1⏎                                        there from a clean stop to the next start
//! ```

use record::{NodeId, TopicId, TopicPartition};

use crate::checkpoint::{CHECKPOINT_DIRECTORY, CheckpointMap};
use crate::disk::{Disk, DiskError, DiskResult, EntryKind, PathEntry};
use crate::error::{AtPath, StoreError};
use crate::foreign::{names_corelog, refuse_foreign};
use crate::journal::JOURNAL_DIRECTORY;
use crate::small_file;
use crate::store::StartKind;

/// One directory a log: `<topic>-<partition>`.
pub const TOPICS_DIRECTORY: &str = "topics";
/// What belongs to nobody.
pub const STRAY_DIRECTORY: &str = "stray";
/// What is being removed.
pub const DELETED_DIRECTORY: &str = "deleted";
/// The metadata log.
pub const COORDINATOR_DIRECTORY: &str = "coordinator";
/// What the metadata log came to, up to an offset.
pub const METADATA_SNAPSHOT_FILE: &str = "metadata-snapshot";
/// Who the directory belongs to.
pub const META_FILE: &str = "meta.properties";
/// The id of the topic whose log a directory holds.
pub const PARTITION_METADATA_FILE: &str = "partition.metadata";
const CLEAN_STOP_FILE: &str = "clean-stop";
const CLEAN_STOP_TEXT: &[u8] = b"corelog clean stop 1\n";
/// The newest format that this build reads.
const FORMAT_VERSION: u32 = Format::WithJournal as u32;
/// Most bytes that it can have.
pub const META_BYTES_MAX: usize = 4096;
/// Nested directories are never ours: removal stops there.
const REMOVE_DEPTH_MAX: usize = 4;

/// What a build must know to open the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// All that is acknowledged is in the segments.
    Plain = 1,
    /// Some of it may be in `journal/` only: a build that knows no journal would lose it, and give its offsets out again.
    WithJournal = 2,
}

impl Format {
    fn of_version(version: u32) -> Option<Self> {
        [Self::Plain, Self::WithJournal].into_iter().find(|format| *format as u32 == version)
    }
}

/// What a new directory is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIds {
    /// The cluster's id.
    pub cluster_id: TopicId,
    /// The node's id.
    pub node_id: NodeId,
    /// The directory's own id.
    pub directory_id: TopicId,
}

/// The directory, opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDirectory {
    /// The cluster it belongs to; text by `Display`.
    pub cluster_id: TopicId,
    /// The node it belongs to.
    pub node_id: NodeId,
    /// Its own id.
    pub directory_id: TopicId,
    /// How it was left.
    pub start: StartKind,
    /// Greater than at any start before that wrote a checkpoint.
    pub start_count: u32,
    /// It was empty before.
    pub is_new: bool,
}

/// What is wrong with `meta.properties`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetaDamage {
    /// Not text, or longer than it can be.
    #[error("not text")]
    NotText,
    /// A line that is missing or not as written.
    #[error("`{key}` missing or malformed")]
    Line {
        /// Its key.
        key: &'static str,
    },
    /// The checksum differs.
    #[error("crc {computed:08x}, file says {stored:08x}")]
    Crc {
        /// Over the bytes.
        computed: u32,
        /// In the file.
        stored: u32,
    },
    /// Written by a later version.
    #[error("format version {found}, this build reads {FORMAT_VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
}

/// Why the directory was refused. Nothing was changed in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// The identity is damaged.
    #[error(
        "{META_FILE}: byte {offset}: {damage}; restore the file from a copy (its ids are also in the log of an earlier \
         start), or start with an empty directory"
    )]
    Meta {
        /// Where in the file.
        offset: usize,
        /// How.
        damage: MetaDamage,
    },
    /// It was written by a later version.
    #[error(
        "{META_FILE}: format version {found}, and this build reads {FORMAT_VERSION}: a later Corelog has written here; start \
         that one, nothing was changed"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// It is Apache Kafka's.
    #[error(
        "a data directory of Apache Kafka, which Corelog does not take over; nothing was changed; point data.dir at an empty \
         directory, and bring the records over through a client"
    )]
    Kafka,
    /// It is some other program's.
    #[error(
        "not empty, and no data directory of Corelog: `{name}` is in it; nothing was changed; point data.dir at an empty directory"
    )]
    Foreign {
        /// What was found there.
        name: String,
    },
    /// It is another node's.
    #[error(
        "{META_FILE}: node.id={found}, the configuration says {expected}: this directory belongs to another node; correct \
         node.id or data.dir"
    )]
    OtherNode {
        /// Whose it is.
        found: NodeId,
        /// Who asks.
        expected: NodeId,
    },
    /// There are logs, but no identity.
    #[error(
        "{META_FILE}: missing, yet `{TOPICS_DIRECTORY}` holds data; restore the file from a copy, or point data.dir elsewhere"
    )]
    MetaMissing,
    /// The disk failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(crate) fn encode_meta(ids: &NewIds, format: Format) -> Vec<u8> {
    let mut text = format!(
        "version=1\ncluster.id={}\nnode.id={}\ndirectory.id={}\ncorelog.format.version={}\n",
        ids.cluster_id, ids.node_id, ids.directory_id, format as u32
    );
    let crc = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("corelog.crc32={crc:08x}\n"));
    text.into_bytes()
}

pub(crate) fn decode_meta(bytes: &[u8]) -> Result<(NewIds, Format), (usize, MetaDamage)> {
    let text = str::from_utf8(bytes).map_err(|error| (error.valid_up_to(), MetaDamage::NotText))?;
    let crc_key = "corelog.crc32";
    let crc_line = MetaDamage::Line { key: crc_key };
    let at = text.rfind("corelog.crc32=").ok_or((text.len(), crc_line))?;
    let (body, last) = text.split_at(at);
    let stored = last
        .strip_prefix("corelog.crc32=")
        .and_then(|rest| rest.strip_suffix('\n'))
        .filter(|digits| digits.len() == 8)
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .ok_or((at, crc_line))?;
    let computed = crc32fast::hash(body.as_bytes());
    if stored != computed {
        return Err((at, MetaDamage::Crc { computed, stored }));
    }
    let value = |key: &'static str| {
        let mut offset = 0;
        for line in body.split_inclusive('\n') {
            let text = line.trim_end_matches('\n');
            if let Some((name, value)) = text.split_once('=')
                && name == key
            {
                return Ok((offset, value));
            }
            offset += line.len();
        }
        Err((body.len(), MetaDamage::Line { key }))
    };
    let id = |key: &'static str| {
        let (offset, text) = value(key)?;
        TopicId::parse(text).ok_or((offset, MetaDamage::Line { key }))
    };
    let number = |key: &'static str| {
        let (offset, text) = value(key)?;
        text.parse::<i32>()
            .map_err(|_| (offset, MetaDamage::Line { key }))
            .map(|number| (offset, number))
    };
    let (offset, version) = number("corelog.format.version")?;
    let found = u32::try_from(version).unwrap_or(u32::MAX);
    let unknown = (offset, MetaDamage::Version { found });
    let format = Format::of_version(found).ok_or(unknown)?;
    if number("version")?.1 != 1 {
        return Err(unknown);
    }
    let ids = NewIds {
        cluster_id: id("cluster.id")?,
        node_id: NodeId(number("node.id")?.1),
        directory_id: id("directory.id")?,
    };
    Ok((ids, format))
}

/// Who a data directory says it belongs to; `None` where it does not say. Nothing is changed.
pub async fn read_identity<D: Disk>(disk: &D) -> Result<Option<NewIds>, DirectoryError> {
    let meta = small_file::read(disk, META_FILE, META_BYTES_MAX).await.at(META_FILE)?;
    let Some(bytes) = meta else { return Ok(None) };
    if !names_corelog(&bytes) {
        // What stands beside it tells Kafka's from ours that has lost its lines.
        let beside = disk.list("").await.at("")?;
        refuse_foreign(beside.iter().map(|entry| entry.name.as_str()), Some(&bytes))?;
    }
    decode_meta(&bytes).map(|(ids, _)| Some(ids)).map_err(refusal)
}

/// Says what a build must know to open the directory from here on; lasting on return.
///
/// Order   [`Format::WithJournal`] before anything is acknowledged from a journal; [`Format::Plain`] once none holds anything.
pub async fn set_format<D: Disk>(disk: &D, format: Format) -> Result<(), DirectoryError> {
    let bytes = small_file::read(disk, META_FILE, META_BYTES_MAX).await.at(META_FILE)?;
    let bytes = bytes.ok_or(DirectoryError::MetaMissing)?;
    let (ids, found) = decode_meta(&bytes).map_err(refusal)?;
    if found != format {
        let contents = encode_meta(&ids, format);
        small_file::replace(disk, "", META_FILE, &contents).await.at(META_FILE)?;
    }
    Ok(())
}

/// The last thing that a clean stop does: where no journal holds anything, builds that know none may open the directory again, and
/// the marker says that every core closed its store.
pub async fn leave_in_order<D: Disk>(disk: &D) -> Result<(), StoreError> {
    if !holds_journal(disk).await? {
        match set_format(disk, Format::Plain).await {
            Ok(()) => {}
            Err(DirectoryError::Store(error)) => return Err(error),
            // The next start refuses it and says what to do; the logs are in order all the same.
            Err(error) => tracing::error!(%error, "the identity was damaged while the node ran"),
        }
    }
    write_clean_stop(disk).await
}

/// Whether a journal is there that a start replays.
async fn holds_journal<D: Disk>(disk: &D) -> Result<bool, StoreError> {
    match disk.list(JOURNAL_DIRECTORY).await {
        Ok(entries) => Ok(!entries.is_empty()),
        Err(DiskError::NotFound) => Ok(false),
        Err(error) => Err(error).at(JOURNAL_DIRECTORY),
    }
}

fn refusal((offset, damage): (usize, MetaDamage)) -> DirectoryError {
    match damage {
        MetaDamage::Version { found } => DirectoryError::Version { found },
        damage => DirectoryError::Meta { offset, damage },
    }
}

/// Opens the data directory of the node of that id, or makes it one if it is empty.
///
/// Order   the caller has asked [`refuse_foreign`] and holds the lock. The clean-stop marker is removed, and its removal
///         synced, before anything else is written: it counts for one start.
/// Errors  an identity that is damaged, of a later version, of another node, or missing though there is data, and the
///         directory of another program are refused; nothing is changed then.
pub async fn open_or_create<D: Disk>(
    disk: &D,
    node_id: NodeId,
    new_ids: impl Fn() -> NewIds,
) -> Result<DataDirectory, DirectoryError> {
    let (ids, is_new) = match read_identity(disk).await? {
        Some(NewIds { node_id: found, .. }) if found != node_id => {
            return Err(DirectoryError::OtherNode { found, expected: node_id });
        }
        Some(ids) => (ids, false),
        None if holds_data(disk).await? => return Err(DirectoryError::MetaMissing),
        None => (new_ids(), true),
    };
    let start = take_clean_stop(disk).await?;
    if is_new {
        small_file::replace(disk, "", META_FILE, &encode_meta(&ids, Format::Plain))
            .await
            .at(META_FILE)?;
    }
    for name in [TOPICS_DIRECTORY, CHECKPOINT_DIRECTORY, DELETED_DIRECTORY, STRAY_DIRECTORY] {
        small_file::ensure_directory(disk, "", name).await.at(name)?;
    }
    let (checkpoints, _) = CheckpointMap::load(disk).await?;
    Ok(DataDirectory {
        cluster_id: ids.cluster_id,
        node_id: ids.node_id,
        directory_id: ids.directory_id,
        start,
        start_count: checkpoints.start_count(),
        is_new,
    })
}

/// Whether any log lives here.
async fn holds_data<D: Disk>(disk: &D) -> Result<bool, StoreError> {
    for name in [TOPICS_DIRECTORY, COORDINATOR_DIRECTORY] {
        match disk.list(name).await {
            Ok(entries) if entries.is_empty() => {}
            Ok(_) => return Ok(true),
            Err(DiskError::NotFound) => {}
            Err(error) => return Err(error).at(name),
        }
    }
    Ok(false)
}

async fn take_clean_stop<D: Disk>(disk: &D) -> Result<StartKind, StoreError> {
    let marker = small_file::read(disk, CLEAN_STOP_FILE, META_BYTES_MAX).await;
    let Some(text) = marker.at(CLEAN_STOP_FILE)? else { return Ok(StartKind::Unclean) };
    disk.remove(CLEAN_STOP_FILE).await.at(CLEAN_STOP_FILE)?;
    disk.sync_dir("").await.at("")?;
    Ok(if text == CLEAN_STOP_TEXT { StartKind::Clean } else { StartKind::Unclean })
}

/// Notes that every core closed its store. The last thing a clean stop writes.
pub async fn write_clean_stop<D: Disk>(disk: &D) -> Result<(), StoreError> {
    small_file::replace(disk, "", CLEAN_STOP_FILE, CLEAN_STOP_TEXT).await.at(CLEAN_STOP_FILE)
}

/// The bytes of the metadata snapshot, if there is one; what lies past `bytes_max` is left out.
pub async fn read_metadata_snapshot<D: Disk>(
    disk: &D,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let path = small_file::join(COORDINATOR_DIRECTORY, METADATA_SNAPSHOT_FILE);
    small_file::read(disk, &path, bytes_max).await.at(&path)
}

/// Replaces the metadata snapshot; lasting on return.
pub async fn write_metadata_snapshot<D: Disk>(disk: &D, bytes: &[u8]) -> Result<(), StoreError> {
    let path = small_file::join(COORDINATOR_DIRECTORY, METADATA_SNAPSHOT_FILE);
    small_file::replace(disk, COORDINATOR_DIRECTORY, METADATA_SNAPSHOT_FILE, bytes).await.at(&path)
}

/// The text of `partition.metadata`.
pub(crate) fn encode_partition_metadata(topic_id: TopicId) -> Vec<u8> {
    format!("version: 0\ntopic_id: {topic_id}").into_bytes()
}

/// The topic id in `partition.metadata`; `None` where the file is missing, damaged, or none.
pub async fn read_topic_id<D: Disk>(disk: &D, directory: &str) -> DiskResult<Option<TopicId>> {
    let path = small_file::join(directory, PARTITION_METADATA_FILE);
    match small_file::read(disk, &path, META_BYTES_MAX).await {
        Ok(bytes) => Ok(bytes.as_deref().and_then(decode_topic_id)),
        Err(DiskError::NotAFile { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The topic id that the text of a `partition.metadata` holds.
pub(crate) fn decode_topic_id(bytes: &[u8]) -> Option<TopicId> {
    let text = str::from_utf8(bytes).ok()?;
    let id = text.strip_prefix("version: 0\ntopic_id: ")?;
    TopicId::parse(id.trim_end_matches('\n'))
}

/// A directory that was moved aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrayReport {
    /// Where it was.
    pub from: String,
    /// Where it is.
    pub to: String,
    /// The topic it says it belongs to; `None` where it does not say.
    pub topic_id: Option<TopicId>,
}

/// Moves every log directory aside that the metadata does not know, or knows as another topic's.
///
/// `known` gives the log that a directory name stands for. Nothing is deleted. A directory that names another topic than a
/// checkpoint that knows its log stays: its own word has no checksum, and `open_log` refuses it.
pub async fn sweep_unknown<D: Disk>(
    disk: &D,
    checkpoints: &CheckpointMap,
    known: impl Fn(&str) -> Option<TopicPartition>,
) -> Result<Vec<StrayReport>, StoreError> {
    let mut reports = Vec::new();
    for entry in disk.list(TOPICS_DIRECTORY).await.at(TOPICS_DIRECTORY)? {
        if entry.kind != EntryKind::Directory {
            continue;
        }
        let expected = known(&entry.name);
        let was_created = |log| checkpoints.get(&log).is_some_and(|entry| entry.created);
        if expected.is_some_and(was_created) {
            // Whatever it says of itself, it is for `open_log` to judge, which looks.
            continue;
        }
        let path = small_file::join(TOPICS_DIRECTORY, &entry.name);
        let found = read_topic_id(disk, &path).await.at(&path)?;
        // A log whose own word is lost is for `open_log` to judge as well.
        let is_ours = expected.is_some_and(|log| found.is_none_or(|found| found == log.topic_id));
        if !is_ours {
            reports.push(move_to_stray(disk, &entry.name, found).await?);
        }
    }
    Ok(reports)
}

/// Moves `topics/<name>` to `stray/`; lasting on return.
pub(crate) async fn move_to_stray<D: Disk>(
    disk: &D,
    name: &str,
    topic_id: Option<TopicId>,
) -> Result<StrayReport, StoreError> {
    let partition = name.rsplit_once('-').map_or("0", |(_, partition)| partition);
    let wanted = match topic_id {
        Some(id) => format!("{id}-{partition}"),
        None => format!("unknown-{name}"),
    };
    small_file::ensure_directory(disk, "", STRAY_DIRECTORY).await.at(STRAY_DIRECTORY)?;
    let taken = disk.list(STRAY_DIRECTORY).await.at(STRAY_DIRECTORY)?;
    let from = small_file::join(TOPICS_DIRECTORY, name);
    let to = small_file::join(STRAY_DIRECTORY, &free_name(&taken, &wanted));
    disk.rename(&from, &to).await.at(&from)?;
    // The new name first: a crash between the two syncs may show both, never neither.
    disk.sync_dir(STRAY_DIRECTORY).await.at(STRAY_DIRECTORY)?;
    disk.sync_dir(TOPICS_DIRECTORY).await.at(TOPICS_DIRECTORY)?;
    tracing::warn!(%from, %to, "directory belongs to no known topic: moved aside, nothing deleted");
    Ok(StrayReport { from, to, topic_id })
}

/// Makes `stray/<name>/`.
pub(crate) async fn ensure_stray<D: Disk>(disk: &D, name: &str) -> Result<(), StoreError> {
    small_file::ensure_directory(disk, "", STRAY_DIRECTORY).await.at(STRAY_DIRECTORY)?;
    small_file::ensure_directory(disk, STRAY_DIRECTORY, name).await.at(STRAY_DIRECTORY)
}

/// `name`, or with a number behind it if that is taken.
pub(crate) fn free_name(taken: &[PathEntry], name: &str) -> String {
    let is_taken = |name: &str| taken.iter().any(|entry| entry.name == name);
    if !is_taken(name) {
        return name.to_owned();
    }
    // One more candidate than there are names: one of them is free.
    (1..=taken.len() + 1)
        .map(|number| format!("{name}.{number}"))
        .find(|candidate| !is_taken(candidate))
        .unwrap_or_else(|| format!("{name}.{}", taken.len() + 2))
}

/// Removes everything in `deleted/`: topics that went before the last stop. Returns how many directories went.
pub async fn sweep_deleted<D: Disk>(disk: &D) -> Result<usize, StoreError> {
    let mut removed = 0;
    for entry in disk.list(DELETED_DIRECTORY).await.at(DELETED_DIRECTORY)? {
        let path = small_file::join(DELETED_DIRECTORY, &entry.name);
        remove_tree(disk, path).await?;
        removed += 1;
    }
    Ok(removed)
}

/// Removes a file, or a directory and all in it.
pub(crate) async fn remove_tree<D: Disk>(disk: &D, path: String) -> Result<(), StoreError> {
    // Depth first with a stack of our own: directories come back after their contents.
    let mut pending = vec![(path, 0)];
    while let Some((path, depth)) = pending.pop() {
        match disk.list(&path).await {
            Ok(entries) if !entries.is_empty() && depth < REMOVE_DEPTH_MAX => {
                pending.push((path.clone(), depth));
                for entry in entries {
                    let child = small_file::join(&path, &entry.name);
                    if entry.kind == EntryKind::Directory {
                        pending.push((child, depth + 1));
                    } else {
                        disk.remove(&child).await.at(&child)?;
                    }
                }
            }
            Ok(_) => disk.remove_dir(&path).await.at(&path)?,
            Err(DiskError::NotFound) => {}
            Err(_) => disk.remove(&path).await.at(&path)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> NewIds {
        NewIds {
            cluster_id: TopicId([1; 16]),
            node_id: NodeId(7),
            directory_id: TopicId([0xff; 16]),
        }
    }

    const GOLDEN: &str = "version=1\ncluster.id=AQEBAQEBAQEBAQEBAQEBAQ\nnode.id=7\n\
        directory.id=_____________________w\ncorelog.format.version=1\ncorelog.crc32=2a090932\n";

    #[test]
    fn meta_properties_golden_bytes() {
        assert_eq!(String::from_utf8(encode_meta(&ids(), Format::Plain)).unwrap(), GOLDEN);
        assert_eq!(decode_meta(GOLDEN.as_bytes()), Ok((ids(), Format::Plain)));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_of_the_identity_is_refused() {
        let bytes = encode_meta(&ids(), Format::Plain);
        for length in 0..bytes.len() {
            assert!(decode_meta(&bytes[..length]).is_err(), "cut to {length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // Upper and lower case of a hexadecimal digit say the same.
            if flipped.eq_ignore_ascii_case(&bytes) && bit / 8 > bytes.len() - 10 {
                continue;
            }
            assert!(decode_meta(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_later_format_is_called_that_and_not_damage() {
        let body = GOLDEN.split("corelog.crc32").next().unwrap();
        let later = body.replace("corelog.format.version=1", "corelog.format.version=3");
        let whole = format!("{later}corelog.crc32={:08x}\n", crc32fast::hash(later.as_bytes()));
        let refused = decode_meta(whole.as_bytes()).map_err(refusal).unwrap_err();
        assert_eq!(refused, DirectoryError::Version { found: 3 });
    }

    #[test]
    fn a_directory_with_a_journal_says_so_to_builds_that_know_none() {
        let bytes = encode_meta(&ids(), Format::WithJournal);
        let expected = GOLDEN
            .replace("corelog.format.version=1", "corelog.format.version=2")
            .replace("2a090932", "01245af1");
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        assert_eq!(decode_meta(expected.as_bytes()), Ok((ids(), Format::WithJournal)));
    }

    #[test]
    fn partition_metadata_golden_bytes() {
        assert_eq!(
            encode_partition_metadata(TopicId([0; 16])),
            b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"
        );
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let entry = |name: &str| PathEntry { name: name.to_owned(), kind: EntryKind::Directory };
        assert_eq!(free_name(&[], "a-0"), "a-0");
        assert_eq!(free_name(&[entry("a-0"), entry("a-0.1")], "a-0"), "a-0.2");
    }
}
