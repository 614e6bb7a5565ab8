//! Directories of new logs, made many together before the logs are opened one by one.
//!
//! Owns the promise that goes with it: a log is opened in a directory whose name lasts, whoever made it and however far. What
//! was made in vain stays, for whoever opens the log to make lasting.

use record::TopicPartition;

use super::{Store, StoreInner};
use crate::directory::{self, PARTITION_METADATA_FILE, TOPICS_DIRECTORY};
use crate::disk::{Disk, NewDirectory};
use crate::error::{AtPath, StoreError};
use crate::executor::Executor;
use crate::log::LogIdentity;
use crate::mutant::Rule;

/// Directories made together: they share a commit of the file system's journal, and keep one thread busy for a tenth of a second.
const CREATES_MAX: usize = 256;

impl<D: Disk, E: Executor> Store<D, E> {
    /// Makes the directories of logs that are new, many at a time; lasting on return.
    ///
    /// Order   before [`Store::open_log`] of each, which makes what is missing: this only saves it the wait. A log that a
    ///         checkpoint knows is passed by: where its directory is missing, that is a loss.
    /// Errors  the first one: some may have been made, and are not lasting before they are opened.
    pub async fn prepare(
        &self,
        logs: impl Iterator<Item = &LogIdentity>,
    ) -> Result<(), StoreError> {
        let inner = &self.0;
        let known = |log: &TopicPartition| {
            inner.checkpoints.get(log).is_some() || inner.entries.borrow().contains_key(log)
        };
        let new: Vec<_> = logs.filter(|identity| !known(&identity.topic_partition())).collect();
        for some in new.chunks(CREATES_MAX) {
            let directories = some.iter().map(|identity| NewDirectory {
                name: identity.to_string(),
                file: PARTITION_METADATA_FILE.to_owned(),
                contents: directory::encode_partition_metadata(identity.topic_id),
            });
            let directories = directories.collect();
            inner
                .shared
                .disk
                .create_dirs(TOPICS_DIRECTORY, directories)
                .await
                .at(TOPICS_DIRECTORY)?;
            let lasting = some.iter().map(|identity| identity.topic_partition());
            inner.prepared.borrow_mut().extend(lasting);
        }
        Ok(())
    }
}

impl<D: Disk, E: Executor> StoreInner<D, E> {
    /// Whether this life made the log's directory lasting before it is opened.
    pub(super) fn is_prepared(&self, log: &TopicPartition) -> bool {
        self.shared.mutant.lacks(Rule::PreparedNotSynced) || self.prepared.borrow().contains(log)
    }
}
