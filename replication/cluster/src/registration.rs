//! A node takes its place, and takes producer ids.
//!
//! Owns registration (who may, which leader epochs it bumps) and the blocks of producer ids (ID-7). It plans against the image
//! and changes nothing.

use alloc::sync::Arc;
use alloc::vec::Vec;

use record::{LeaderEpoch, NodeId, ProducerId};

use crate::Decision;
use crate::apply::FEATURE_LEVEL_KNOWN;
use crate::image::{Image, NODE_ID_MAX};
use crate::records::{MetadataRecord, NodeRegistration, PartitionChange};

/// Producer ids in one block, as in Kafka: a node writes one record for each thousand producers.
pub const PRODUCER_IDS_PER_BLOCK: i32 = 1_000;
/// Listeners one node may have.
pub const LISTENERS_MAX: usize = 64;

/// Whether the node stopped cleanly before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaderEpochs {
    /// The node's last stop was clean, or it leads nothing: its epochs still describe its logs.
    Keep,
    /// The last stop was not clean: offsets that were accepted but not safe may be given out again, so every leadership
    /// of the node begins a new epoch (P90).
    Bump,
}

/// Why a node may not take its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterRefusal {
    /// The id is outside its range.
    #[error("node.id = {node}: must be 0 to {NODE_ID_MAX}")]
    NodeId {
        /// The id.
        node: NodeId,
    },
    /// It has no core.
    #[error("node {node}: has no data core")]
    NoShards {
        /// The id.
        node: NodeId,
    },
    /// None, too many, or two of one name.
    #[error("node {node}: {count} listeners: must be 1 to {LISTENERS_MAX} with distinct names")]
    Listeners {
        /// The id.
        node: NodeId,
        /// How many.
        count: usize,
    },
    /// The id is taken by another data directory: its replicas may be gone (R9).
    #[error("node {node}: another data directory has registered under this id")]
    OtherDirectory {
        /// The id.
        node: NodeId,
    },
    /// The metadata log is another cluster's.
    #[error("the metadata log belongs to another cluster")]
    OtherCluster,
}

/// Why no producer ids are left: 2^63 were handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("producer ids are exhausted at {next}")]
pub struct ProducerIdsExhausted {
    /// The next that would be free.
    pub next: i64,
}

/// Producer ids that one node may hand out, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProducerIdBlock {
    next: i64,
    end: i64,
}

impl ProducerIdBlock {
    /// The next id; `None` when the block is used up and another must be asked for.
    pub fn take(&mut self) -> Option<ProducerId> {
        if self.next >= self.end {
            return None;
        }
        let id = ProducerId(self.next);
        self.next += 1;
        Some(id)
    }

    /// How many ids are left.
    #[must_use]
    pub fn remaining(&self) -> i64 {
        self.end - self.next
    }

    /// Splits the first `count` ids off, fewer if fewer are left: what one core may hand out.
    pub fn split(&mut self, count: i64) -> Self {
        let end = self.next + count.clamp(0, self.remaining());
        let part = Self { next: self.next, end };
        self.next = end;
        part
    }
}

impl Image {
    /// The records with which a node starts: in an empty log also whose cluster it is.
    ///
    /// Order   append them before the node leads anything; the reply is the number of leaderships that begin a new epoch.
    pub fn decide_register(
        &self,
        cluster_id: &Arc<str>,
        node: &NodeRegistration,
        epochs: LeaderEpochs,
    ) -> Result<Decision<usize>, RegisterRefusal> {
        self.check_registration(cluster_id, node)?;
        let mut records = Vec::new();
        if self.cluster_id.is_none() {
            records.push(MetadataRecord::Cluster { cluster_id: Arc::clone(cluster_id) });
        }
        if self.feature_level < FEATURE_LEVEL_KNOWN {
            records.push(MetadataRecord::FeatureLevel { level: FEATURE_LEVEL_KNOWN });
        }
        records.push(MetadataRecord::NodeRegister(node.clone()));
        let before = records.len();
        if epochs == LeaderEpochs::Bump {
            records.extend(self.bumped_leaderships(node.node));
        }
        let reply = records.len() - before;
        Ok(Decision { records, reply })
    }

    fn check_registration(
        &self,
        cluster_id: &Arc<str>,
        node: &NodeRegistration,
    ) -> Result<(), RegisterRefusal> {
        let id = node.node;
        if self.cluster_id.as_ref().is_some_and(|known| known != cluster_id) {
            return Err(RegisterRefusal::OtherCluster);
        }
        if !(0..=NODE_ID_MAX).contains(&id.0) {
            return Err(RegisterRefusal::NodeId { node: id });
        }
        if node.shards == 0 {
            return Err(RegisterRefusal::NoShards { node: id });
        }
        let count = node.listeners.len();
        let mut names: Vec<_> = node.listeners.iter().map(|listener| &listener.name).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() != count || !(1..=LISTENERS_MAX).contains(&count) {
            return Err(RegisterRefusal::Listeners { node: id, count });
        }
        let known = self.node(id);
        if known.is_some_and(|known| known.directory_id != node.directory_id) {
            return Err(RegisterRefusal::OtherDirectory { node: id });
        }
        Ok(())
    }

    fn bumped_leaderships(&self, node: NodeId) -> impl Iterator<Item = MetadataRecord> {
        self.topics_sorted().into_iter().flat_map(move |topic| {
            let led = topic.indexed().filter(move |(_, partition)| partition.leader == node);
            led.map(move |(index, partition)| {
                MetadataRecord::PartitionChange(PartitionChange {
                    topic_id: topic.id,
                    index,
                    leader: node,
                    leader_epoch: LeaderEpoch(partition.leader_epoch.0.saturating_add(1)),
                    partition_epoch: partition.partition_epoch.saturating_add(1),
                    isr: partition.isr.clone(),
                    shard_override: partition.shard_override,
                })
            })
        })
    }

    /// The next block of producer ids for `node`. Hand ids out only once the record is committed.
    pub fn decide_producer_ids(
        &self,
        node: NodeId,
    ) -> Result<Decision<ProducerIdBlock>, ProducerIdsExhausted> {
        let (next, count) = (self.producer_id_next, PRODUCER_IDS_PER_BLOCK);
        let end = next.checked_add(count.into()).ok_or(ProducerIdsExhausted { next })?;
        let records = alloc::vec![MetadataRecord::ProducerIdBlock { node, first: next, count }];
        Ok(Decision { records, reply: ProducerIdBlock { next, end } })
    }
}

#[cfg(test)]
mod tests;
