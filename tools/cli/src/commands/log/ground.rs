//! What the node that owns the files says of them.
//!
//! Owns the way from a path to its data directory, the checkpoints there and the process that holds it. Below a checkpoint
//! a node believes that everything is on disk; above it, it checks at its next start and cuts what a crash tore. So the
//! same bytes are damage on one side and a tail on the other. It changes nothing and takes no lock.

use std::path::{Path, PathBuf};

use commitlog::checkpoint::{CHECKPOINT_DIRECTORY, CheckpointEntry, DamagedCheckpoint};
use commitlog::directory::{
    COORDINATOR_DIRECTORY, DELETED_DIRECTORY, META_FILE, STRAY_DIRECTORY, TOPICS_DIRECTORY,
    read_topic_id,
};
use commitlog::{CheckpointMap, Disk, Executor, JournalRing, JournalWaiting, inspect_journals};
use record::{PartitionIndex, TopicId, TopicPartition};

use super::files::{Partition, is_segment_name};
use crate::exit::{Exit, Failure, Outcome};

/// The log of metadata.
pub(super) const METADATA_LOG: TopicPartition =
    TopicPartition { topic_id: TopicId::METADATA, partition: PartitionIndex(0) };

/// What lies in a data directory. Any one may be what was lost; two of them in one place are no accident.
const SIGNS: [&str; 4] = [META_FILE, CHECKPOINT_DIRECTORY, COORDINATOR_DIRECTORY, TOPICS_DIRECTORY];

/// What is known beside the files themselves. By default nothing: they lie in no data directory.
#[derive(Debug, Default)]
pub(super) struct Ground {
    checkpoints: Option<CheckpointMap>,
    /// The process that holds the data directory, if one does.
    pub(super) holder: Option<u32>,
    /// Copies of a checkpoint that cannot be read.
    pub(super) damaged: Vec<DamagedCheckpoint>,
    /// The cores' journals, where no node runs that uses them.
    pub(super) rings: Vec<JournalRing>,
}

impl Ground {
    /// Reads the checkpoints; `disk` is rooted at the data directory.
    pub(super) async fn load<D: Disk>(disk: &D, holder: Option<u32>) -> Outcome<Self> {
        let loaded = CheckpointMap::load(disk).await;
        let (checkpoints, damaged) =
            loaded.map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
        Ok(Self { checkpoints: Some(checkpoints), holder, damaged, rings: Vec::new() })
    }

    /// Reads the journals too. Those of a node that runs change under the reader's eyes, and prove nothing.
    pub(super) async fn look_at_journals<D: Disk, E: Executor>(
        &mut self,
        disk: &D,
        executor: &E,
    ) -> Outcome {
        if let (Some(checkpoints), None) = (&self.checkpoints, self.holder) {
            let rings = inspect_journals(disk, executor, checkpoints).await;
            self.rings = rings.map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
        }
        Ok(())
    }

    /// What the journals have of the partition in a directory that its segments do not.
    pub(super) fn waiting(&self, directory: &str) -> impl Iterator<Item = &JournalWaiting> {
        // Below a data directory the name is that of its directory, wherever the search began.
        let name = directory.rsplit('/').next().unwrap_or_default().to_owned();
        let all = self.rings.iter().flat_map(|ring| ring.report.waiting.values());
        all.filter(move |waiting| waiting.directory.rsplit('/').next() == Some(&name))
    }

    /// Whether the files belong to a data directory.
    pub(super) fn is_known(&self) -> bool {
        self.checkpoints.is_some()
    }

    /// Whether a checkpoint could be read at all: a node that serves has written one.
    pub(super) fn has_checkpoint(&self) -> bool {
        // A checkpoint has the number of the start that wrote it.
        self.checkpoints.as_ref().is_some_and(|map| map.start_count() > 1)
    }

    /// Whether a log that no checkpoint knows is one that none has known.
    pub(super) fn knows_all(&self) -> bool {
        self.has_checkpoint() && self.damaged.iter().all(|copy| copy.has_other)
    }

    /// What the checkpoints know of a log.
    pub(super) fn entry_of(&self, log: &TopicPartition) -> Option<&CheckpointEntry> {
        self.checkpoints.as_ref()?.get(log)
    }

    /// How far the log of a partition is known to be on disk; `None` where no checkpoint knows it.
    pub(super) async fn entry<D: Disk>(
        &self,
        disk: &D,
        root: &Path,
        partition: &Partition,
    ) -> Outcome<Option<CheckpointEntry>> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(None) };
        let path = root.join(&partition.directory);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name == COORDINATOR_DIRECTORY {
            return Ok(checkpoints.get(&METADATA_LOG).copied());
        }
        let index = name.rsplit_once('-').and_then(|(_, index)| index.parse().ok());
        let Some(index) = index else { return Ok(None) };
        let id = read_topic_id(disk, &partition.directory).await;
        let id = id.map_err(|e| Failure::new(Exit::Io, format!("{}: {e}", path.display())))?;
        let log = id.map(|topic_id| TopicPartition { topic_id, partition: PartitionIndex(index) });
        Ok(log.and_then(|log| checkpoints.get(&log).copied()))
    }
}

/// Whether a directory that has these names is a data directory.
pub(super) fn are_of_data_directory(has: impl Fn(&str) -> bool) -> bool {
    SIGNS.iter().filter(|name| has(name)).count() >= 2
}

/// Whether a path is a data directory, all of it, though not all of it may be left.
pub(super) fn is_data_directory(path: &Path) -> bool {
    are_of_data_directory(|name| path.join(name).exists()) || has_metadata_log(path)
}

fn has_metadata_log(path: &Path) -> bool {
    let entries = std::fs::read_dir(path.join(COORDINATOR_DIRECTORY)).into_iter().flatten();
    entries.flatten().any(|entry| is_segment_name(&entry.file_name().to_string_lossy()))
}

/// The data directory that a path lies in; `None` for copies elsewhere, and for what a node has set aside.
pub(super) fn data_directory(path: &Path) -> Option<PathBuf> {
    let path = std::fs::canonicalize(path).ok()?;
    let found = path.ancestors().find(|path| is_data_directory(path))?;
    let below = path.strip_prefix(found).ok()?;
    let is_aside = below.starts_with(STRAY_DIRECTORY) || below.starts_with(DELETED_DIRECTORY);
    (!is_aside).then(|| found.to_owned())
}
