//! Logs that go with their topic.
//!
//! Owns the way of their files: first out of `topics/`, lasting on return, so that the name is free; then, in the background,
//! out of existence. It deletes nothing that does not name the topic that is gone.

use record::TopicPartition;

use super::Store;
use crate::directory::{self, DELETED_DIRECTORY, TOPICS_DIRECTORY};
use crate::disk::{Disk, DiskError};
use crate::error::{AtPath, StoreError};
use crate::executor::{Executor, TaskClass};
use crate::log::{Log, LogIdentity};
use crate::small_file;

impl<D: Disk, E: Executor> Store<D, E> {
    /// Deletes a log of `topics/`: its name is free on return, its files go in the background.
    pub async fn delete_log(&self, log: Log<D, E>) -> Result<(), StoreError> {
        let inner = &log.0;
        inner.close().await;
        let log_id = inner.identity.topic_partition();
        self.0.shared.forget_log(inner.key);
        self.move_to_deleted(&inner.directory, log_id).await?;
        self.0.shared.durability.forget(inner.as_ref());
        self.0.logs.borrow_mut().remove(&log_id);
        self.forget(&log_id);
        self.0.shared.changed.set(true);
        Ok(())
    }

    /// The same for a log that could not be opened, is being released, or was: what lies in its place goes if it names the topic.
    /// Anything else stays for the next start, which moves it aside.
    ///
    /// Order   nobody opens it any more: what is being opened is left alone.
    pub async fn delete_unopened(&self, identity: &LogIdentity) -> Result<(), StoreError> {
        let log_id = identity.topic_partition();
        if self.0.opening.borrow().contains(&log_id) {
            return Ok(());
        }
        if let Some(log) = self.log(&log_id) {
            // Whoever releases it finds it closed.
            return self.delete_log(log).await;
        }
        let path = small_file::join(TOPICS_DIRECTORY, &identity.to_string());
        let names = match directory::read_topic_id(&self.0.shared.disk, &path).await {
            Ok(names) => names,
            Err(DiskError::NotFound) => None,
            Err(error) => return Err(error).at(&path),
        };
        if names == Some(identity.topic_id) {
            self.move_to_deleted(&path, log_id).await?;
        }
        self.forget(&log_id);
        Ok(())
    }

    /// Moves a directory to `deleted/`, lasting on return, and removes it in the background.
    async fn move_to_deleted(&self, path: &str, log: TopicPartition) -> Result<(), StoreError> {
        let disk = &self.0.shared.disk;
        let taken = disk.list(DELETED_DIRECTORY).await.at(DELETED_DIRECTORY)?;
        let wanted = format!("{}-{}", log.topic_id, log.partition);
        let target = small_file::join(DELETED_DIRECTORY, &directory::free_name(&taken, &wanted));
        disk.rename(path, &target).await.at(path)?;
        disk.sync_dir(DELETED_DIRECTORY).await.at(DELETED_DIRECTORY)?;
        disk.sync_dir(TOPICS_DIRECTORY).await.at(TOPICS_DIRECTORY)?;
        let disk = disk.clone();
        let remove = async move {
            if let Err(error) = directory::remove_tree(&disk, target).await {
                // The next start sweeps `deleted/` again.
                tracing::warn!(%error, "deleted log not removed");
            }
        };
        self.0.shared.executor.spawn(TaskClass::Background, Box::pin(remove));
        Ok(())
    }
}
