//! Where new partitions go: which nodes hold them, and which core of a node.
//!
//! Owns the bounds on their number, the spreading of replicas over nodes, the check of replicas placed by hand and the dealing of
//! slots. Creating topics and adding partitions share it; neither can deal a slot that the other has dealt.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use record::{LeaderEpoch, NodeId, PartitionIndex, Slot, TopicId};

use crate::image::{Image, REPLICAS_MAX};
use crate::records::{MetadataRecord, PartitionState};

/// Partitions that one request may create: with a few replicas each, their records take less than 1 MiB. Names and values of
/// configurations have a bound of their own ([`crate::ALTERED_BYTES_MAX`]).
pub const PARTITIONS_PER_REQUEST_MAX: usize = 10_000;

/// More partitions than there may be (44).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyPartitions {
    /// In the cluster.
    #[error("{count} more partitions: {present} of {maximum} are taken")]
    InCluster {
        /// As asked.
        count: usize,
        /// In the cluster now, and in the same request before.
        present: usize,
        /// The bound.
        maximum: usize,
    },
    /// In one request.
    #[error("{count} partitions in one request: {PARTITIONS_PER_REQUEST_MAX} are allowed")]
    InRequest {
        /// As asked, in all.
        count: usize,
    },
}

/// Replicas placed by hand that are not distinct registered nodes, or not as many as the topic's other partitions have (39).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "assignments: partition {index}: replicas must be distinct registered nodes, equally many for all"
)]
pub struct AssignedReplicas {
    /// The partition.
    pub index: PartitionIndex,
}

/// What the topics of one request already take.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Names, by the form in which they could collide.
    pub(crate) forms: BTreeMap<String, String>,
    /// Identities.
    pub(crate) ids: BTreeSet<TopicId>,
    /// Partitions.
    pub(crate) partition_count: usize,
    /// Bytes of configurations.
    pub(crate) config_bytes: usize,
    slots_next: BTreeMap<NodeId, Slot>,
}

impl Taken {
    /// At the start of a request.
    pub(crate) fn of(image: &Image) -> Self {
        Self {
            forms: BTreeMap::new(),
            ids: BTreeSet::new(),
            partition_count: 0,
            config_bytes: 0,
            slots_next: (*image.slots_next).clone(),
        }
    }

    /// The record of a new partition, on the next slot of its preferred leader.
    pub(crate) fn deal(
        &mut self,
        topic_id: TopicId,
        index: PartitionIndex,
        replicas: Vec<NodeId>,
    ) -> MetadataRecord {
        let leader = replicas.first().copied().unwrap_or(NodeId::NONE);
        let next = self.slots_next.entry(leader).or_default();
        let slot = *next;
        *next = Slot(slot.0.wrapping_add(1));
        MetadataRecord::Partition(PartitionState {
            topic_id,
            index,
            slot,
            shard_override: None,
            leader,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
            isr: replicas.clone(),
            replicas,
        })
    }
}

impl Image {
    /// Whether so many more partitions may be, beside those that the request has taken.
    pub(crate) fn check_partition_count(
        &self,
        count: usize,
        maximum: usize,
        taken: &Taken,
    ) -> Result<(), TooManyPartitions> {
        let in_request = taken.partition_count.saturating_add(count);
        if in_request > PARTITIONS_PER_REQUEST_MAX {
            return Err(TooManyPartitions::InRequest { count: in_request });
        }
        let present = self.partition_count + taken.partition_count;
        if present.saturating_add(count) > maximum {
            return Err(TooManyPartitions::InCluster { count, present, maximum });
        }
        Ok(())
    }

    /// Round robin over the nodes, beginning with the one that was dealt the fewest slots; `None` if the factor is not possible.
    pub(crate) fn spread(
        &self,
        count: usize,
        factor: i32,
        taken: &Taken,
    ) -> Option<Vec<Vec<NodeId>>> {
        let factor = usize::try_from(factor).ok().filter(|factor| *factor > 0)?;
        let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
        if factor > nodes.len().min(REPLICAS_MAX) {
            return None;
        }
        let dealt = |node: &NodeId| taken.slots_next.get(node).copied().unwrap_or_default();
        let start = (0..nodes.len()).min_by_key(|index| nodes.get(*index).map(dealt))?;
        let replicas_of = |partition: usize| {
            nodes.iter().cycle().skip((start + partition) % nodes.len()).take(factor).copied()
        };
        Some((0..count).map(|partition| replicas_of(partition).collect()).collect())
    }

    /// Whether `replicas` can hold a partition of a topic that has `factor` of each.
    pub(crate) fn check_replicas(
        &self,
        index: PartitionIndex,
        replicas: &[NodeId],
        factor: usize,
    ) -> Result<(), AssignedReplicas> {
        let distinct: BTreeSet<_> = replicas.iter().collect();
        let is_possible = !replicas.is_empty()
            && replicas.len() <= REPLICAS_MAX
            && distinct.len() == replicas.len()
            && replicas.iter().all(|node| self.nodes.contains_key(node))
            && replicas.len() == factor;
        if is_possible { Ok(()) } else { Err(AssignedReplicas { index }) }
    }
}
