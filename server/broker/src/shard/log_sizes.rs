//! The sizes of logs, over all cores of the node.
//!
//! Owns the question and its way to the other cores. A core that is going down is left out.

use record::ShardIndex;

use crate::calls::{LogSize, Reply, Request};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;

/// Whose logs are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// Those of the core that is asked.
    This,
    /// Those of every core of the node.
    All,
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// The logs and their sizes; every core is asked before the first one answers.
    pub async fn log_sizes(&self, cores: Cores) -> Vec<LogSize> {
        let mut calls = Vec::new();
        if cores == Cores::All {
            for shard in (0..self.state.shard_count).map(ShardIndex) {
                if shard != self.index() {
                    calls.push(self.caller.call(shard.into(), Request::LogSizes).await);
                }
            }
        }
        let mut sizes = self.log_sizes_here();
        for call in calls {
            if let Ok(Reply::LogSizes(theirs)) = call.reply().await {
                sizes.extend(theirs);
            }
        }
        sizes
    }

    /// The logs of this core and their sizes.
    pub fn log_sizes_here(&self) -> Vec<LogSize> {
        let partitions = self.partitions.borrow();
        let sizes = partitions.iter().map(|(partition, driver)| LogSize {
            partition: *partition,
            bytes: driver.log().size_bytes(),
        });
        sizes.collect()
    }
}
