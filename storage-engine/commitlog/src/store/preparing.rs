//! Directories of new logs, made many together before the logs are opened one by one.
//!
//! Owns the promise that goes with it: a log is opened in a directory whose name lasts, whoever made it and however far. What
//! was made in vain stays, for whoever opens the log to make lasting.

use record::TopicPartition;

use super::{Store, StoreInner};
use crate::directory::{self, PARTITION_METADATA_FILE, TOPICS_DIRECTORY};
use crate::disk::{Disk, DiskError, DiskFile as _, NewDirectory, OpenMode};
use crate::error::{AtPath, StoreError};
use crate::executor::Executor;
use crate::log::LogIdentity;
use crate::mutant::Rule;
use crate::small_file;

/// Directories made together: they share a commit of the file system's journal, and keep one thread busy for a tenth of a second.
const CREATES_MAX: usize = 256;

impl<D: Disk, E: Executor> Store<D, E> {
    /// Makes the directories of logs that are new, many at a time; lasting on return.
    ///
    /// Order   before [`Store::open_log`] of each, which makes what is missing: this only saves it the wait. A log that a
    ///         checkpoint knows is passed by: where its directory is missing, that is a loss.
    /// Errors  the first one. Those that can be made are made all the same; one that failed may be there, and is not lasting
    ///         before it is opened.
    pub async fn prepare(
        &self,
        logs: impl Iterator<Item = &LogIdentity>,
    ) -> Result<(), StoreError> {
        let inner = &self.0;
        let known = |log: &TopicPartition| {
            inner.checkpoints.get(log).is_some() || inner.entries.borrow().contains_key(log)
        };
        let new: Vec<_> = logs.filter(|identity| !known(&identity.topic_partition())).collect();
        let mut prepared = Ok(());
        for some in new.chunks(CREATES_MAX) {
            let directories = some.iter().map(|identity| new_directory(identity)).collect();
            let made = inner.shared.disk.create_dirs(TOPICS_DIRECTORY, directories).await;
            for (identity, made) in some.iter().zip(made) {
                if !matches!(made, Ok(()) | Err(DiskError::AlreadyExists)) {
                    inner.half_made.borrow_mut().insert(identity.topic_partition());
                }
                match made {
                    Ok(()) => {
                        inner.prepared.borrow_mut().insert(identity.topic_partition());
                    }
                    // Whoever made it, and however far: opening the log makes it lasting.
                    Err(DiskError::AlreadyExists) => {}
                    Err(error) if prepared.is_ok() => {
                        let path = small_file::join(TOPICS_DIRECTORY, &identity.to_string());
                        prepared = Err(error).at(&path);
                    }
                    Err(_) => {}
                }
            }
        }
        prepared
    }
}

/// The directory of a log in `topics/`.
fn new_directory(identity: &LogIdentity) -> NewDirectory {
    NewDirectory {
        name: identity.to_string(),
        file: PARTITION_METADATA_FILE.to_owned(),
        contents: directory::encode_partition_metadata(identity.topic_id),
    }
}

impl<D: Disk, E: Executor> StoreInner<D, E> {
    /// Whether this life made the log's directory lasting before it is opened.
    pub(super) fn is_prepared(&self, log: &TopicPartition) -> bool {
        self.shared.mutant.lacks(Rule::PreparedNotSynced) || self.prepared.borrow().contains(log)
    }

    /// Makes a log's directory lasting that is there with what belongs in it. The file is replaced, for the sync of whoever made it
    /// may have failed: written over in its place, a crash could leave what is no label, and with it a log that is nobody's. A full
    /// disk is no reason not to open what an earlier life made: of that no sync has failed whose loss this one could hide. Names are
    /// the file system's own: where its journal cannot be written it takes nothing any more.
    pub(super) async fn make_lasting(&self, identity: &LogIdentity) -> Result<(), StoreError> {
        let disk = &self.shared.disk;
        let directory = small_file::join(TOPICS_DIRECTORY, &identity.to_string());
        let path = small_file::join(&directory, PARTITION_METADATA_FILE);
        let sync = || async {
            let file = disk.open(&path, OpenMode::Read).await?;
            file.full_sync().await.map_err(DiskError::of_sync)
        };
        let is_half_made = self.half_made.borrow().contains(&identity.topic_partition());
        let lasting = if self.shared.mutant.lacks(Rule::PreparedSyncedAgain) {
            sync().await
        } else {
            let contents = directory::encode_partition_metadata(identity.topic_id);
            match small_file::replace(disk, &directory, PARTITION_METADATA_FILE, &contents).await {
                Err(DiskError::NoSpace) if !is_half_made => sync().await,
                replaced => replaced,
            }
        };
        lasting.at(&path)?;
        disk.sync_dir(&directory).await.map_err(DiskError::of_sync).at(&directory)?;
        disk.sync_dir(TOPICS_DIRECTORY).await.map_err(DiskError::of_sync).at(TOPICS_DIRECTORY)
    }
}
