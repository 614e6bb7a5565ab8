//! The only door into the image: one record at a time, in the log's order.
//!
//! Owns what each record does. A record that does not fit the image is an error of the log, never a panic, and changes nothing;
//! who reads the log refuses to start on it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use record::{NodeId, Offset, PartitionIndex, Slot, TopicId};

use crate::bounds::Bounds;
use crate::image::{
    Image, NODE_ID_MAX, Node, PARTITIONS_PER_TOPIC_MAX, Partition, REPLICAS_MAX, Topic,
};
use crate::records::{MetadataRecord, NodeRegistration, PartitionChange, PartitionState};
use crate::topic_config::{TOPIC_CONFIGS_REMOVED, topic_config};
use crate::topic_name::{NameRefusal, check_topic_name, collision_form};

/// Why a record does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Records are missing, or come twice.
    #[error("metadata offset {offset}: {expected} comes next")]
    OutOfOrder {
        /// The record's offset.
        offset: Offset,
        /// The next one to apply.
        expected: Offset,
    },
    /// The log belongs to another cluster.
    #[error("cluster id {found}: this is cluster {expected}")]
    OtherCluster {
        /// In the record.
        found: String,
        /// In the image.
        expected: String,
    },
    /// A level that this version does not know, or a step back.
    #[error("feature level {level}: must be {}", Bounds(current, known))]
    FeatureLevel {
        /// In the record.
        level: u16,
        /// In the image.
        current: u16,
        /// The highest that this version knows.
        known: u16,
    },
    /// A node id outside its range, or a node without cores or listeners.
    #[error("node {node}: id must be 0 to {NODE_ID_MAX}, with a core and a listener at least")]
    Node {
        /// The node.
        node: NodeId,
    },
    /// A name that is none, or collides.
    #[error(transparent)]
    Name(#[from] NameRefusal),
    /// A topic that is there already, by name or identity, or a reserved identity.
    #[error("topic {name} with id {id}: name or id is taken")]
    TopicTaken {
        /// The name.
        name: String,
        /// The identity.
        id: TopicId,
    },
    /// No such topic.
    #[error("topic id {id}: unknown")]
    UnknownTopic {
        /// The identity.
        id: TopicId,
    },
    /// No such partition.
    #[error("topic id {id}: partition {index} is unknown")]
    UnknownPartition {
        /// The topic.
        id: TopicId,
        /// The partition.
        index: PartitionIndex,
    },
    /// A partition that does not continue the topic's, or whose fields contradict each other.
    #[error("topic id {id}: partition {index} does not follow, or its replicas contradict")]
    Partition {
        /// The topic.
        id: TopicId,
        /// The partition.
        index: PartitionIndex,
    },
    /// A configuration that this version does not know.
    #[error("topic id {id}: configuration {name} is unknown")]
    UnknownConfig {
        /// The topic.
        id: TopicId,
        /// The name.
        name: String,
    },
    /// Producer ids that are not the next ones.
    #[error("producer ids from {first}, {count} of them: {expected} comes next")]
    ProducerIds {
        /// The first of the block.
        first: i64,
        /// How many.
        count: i32,
        /// The next that is free.
        expected: i64,
    },
}

/// The highest feature level that this version knows.
pub const FEATURE_LEVEL_KNOWN: u16 = 1;

impl Image {
    /// Takes in the record at `offset`.
    ///
    /// Order   every offset once, ascending without a gap.
    /// Errors  the record does not fit; the image is as before.
    pub fn apply(&mut self, offset: Offset, record: &MetadataRecord) -> Result<(), ApplyError> {
        if offset != self.next_offset {
            return Err(ApplyError::OutOfOrder { offset, expected: self.next_offset });
        }
        self.take(offset, record)?;
        self.next_offset = Offset(offset.0 + 1);
        Ok(())
    }

    /// Takes in what the record at `offset` says.
    pub(crate) fn take(
        &mut self,
        offset: Offset,
        record: &MetadataRecord,
    ) -> Result<(), ApplyError> {
        match record {
            MetadataRecord::NoOp => {}
            MetadataRecord::Cluster { cluster_id } => self.apply_cluster(cluster_id)?,
            MetadataRecord::FeatureLevel { level } => self.apply_feature_level(*level)?,
            MetadataRecord::NodeRegister(node) => self.apply_register(offset, node)?,
            MetadataRecord::NodeUnregister { node } => {
                Arc::make_mut(&mut self.nodes).remove(node);
            }
            MetadataRecord::Topic { name, id } => self.apply_topic(name, *id)?,
            MetadataRecord::TopicRemove { id } => self.apply_topic_remove(*id)?,
            MetadataRecord::Partition(state) => self.apply_partition(state)?,
            MetadataRecord::PartitionChange(change) => self.apply_change(change)?,
            MetadataRecord::TopicConfig { id, name, value } => {
                self.apply_topic_config(*id, name, value.as_ref())?;
            }
            MetadataRecord::NodeConfig { node, name, value } => {
                self.apply_node_config(*node, name, value.as_ref());
            }
            MetadataRecord::ProducerIdBlock { first, count, .. } => {
                self.apply_producer_ids(*first, *count)?;
            }
        }
        Ok(())
    }

    fn apply_cluster(&mut self, cluster_id: &Arc<str>) -> Result<(), ApplyError> {
        match &self.cluster_id {
            Some(expected) if expected != cluster_id => Err(ApplyError::OtherCluster {
                found: String::from(&**cluster_id),
                expected: String::from(&**expected),
            }),
            _ => {
                self.cluster_id = Some(Arc::clone(cluster_id));
                Ok(())
            }
        }
    }

    fn apply_feature_level(&mut self, level: u16) -> Result<(), ApplyError> {
        let (current, known) = (self.feature_level, FEATURE_LEVEL_KNOWN);
        if level < current || level > known {
            return Err(ApplyError::FeatureLevel { level, current, known });
        }
        self.feature_level = level;
        Ok(())
    }

    fn apply_register(
        &mut self,
        offset: Offset,
        node: &NodeRegistration,
    ) -> Result<(), ApplyError> {
        let id = node.node;
        let is_whole = (0..=NODE_ID_MAX).contains(&id.0) && node.shards > 0;
        if !is_whole || node.listeners.is_empty() {
            return Err(ApplyError::Node { node: id });
        }
        let node = Node {
            id,
            incarnation: node.incarnation,
            epoch: offset,
            directory_id: node.directory_id,
            listeners: node.listeners.clone(),
            rack: node.rack.clone(),
            shards: node.shards,
        };
        Arc::make_mut(&mut self.nodes).insert(id, Arc::new(node));
        Ok(())
    }

    fn apply_topic(&mut self, name: &Arc<str>, id: TopicId) -> Result<(), ApplyError> {
        check_topic_name(name)?;
        let is_reserved = id == TopicId::ZERO || id == TopicId::METADATA;
        if is_reserved || self.topic(name).is_some() || self.names.get(&id).is_some() {
            return Err(ApplyError::TopicTaken { name: String::from(&**name), id });
        }
        let form = collision_form(name);
        if let Some(other) = form.as_deref().and_then(|form| self.collision_forms.get(form)) {
            let (name, other) = (String::from(&**name), String::from(&**other));
            return Err(NameRefusal::Collision { name, other }.into());
        }
        if let Some(form) = form {
            self.collision_forms.insert(Arc::from(form), Arc::clone(name));
        }
        let topic =
            Topic { name: Arc::clone(name), id, partitions: Vec::new(), configs: BTreeMap::new() };
        self.topics.insert(Arc::clone(name), Arc::new(topic));
        self.names.insert(id, Arc::clone(name));
        Ok(())
    }

    fn apply_topic_remove(&mut self, id: TopicId) -> Result<(), ApplyError> {
        let name = self.names.remove(&id).ok_or(ApplyError::UnknownTopic { id })?;
        if let Some(form) = collision_form(&name) {
            self.collision_forms.remove(form.as_str());
        }
        if let Some(topic) = self.topics.remove(&*name) {
            self.partition_count -= topic.partitions.len();
        }
        Ok(())
    }

    fn apply_partition(&mut self, state: &PartitionState) -> Result<(), ApplyError> {
        let (id, index) = (state.topic_id, state.index);
        let topic = self.topic_mut(id)?;
        let follows = usize::try_from(index.0) == Ok(topic.partitions.len());
        let is_whole = is_whole(&state.replicas, &state.isr, state.leader)
            && state.leader_epoch.0 >= 0
            && state.partition_epoch >= 0;
        if !follows || !is_whole || topic.partitions.len() >= PARTITIONS_PER_TOPIC_MAX {
            return Err(ApplyError::Partition { id, index });
        }
        topic.partitions.push(Partition {
            slot: state.slot,
            shard_override: state.shard_override,
            leader: state.leader,
            leader_epoch: state.leader_epoch,
            partition_epoch: state.partition_epoch,
            replicas: state.replicas.clone(),
            isr: state.isr.clone(),
        });
        self.partition_count += 1;
        if let Some(preferred) = state.replicas.first() {
            let next = Slot(state.slot.0.wrapping_add(1));
            Arc::make_mut(&mut self.slots_next).insert(*preferred, next);
        }
        Ok(())
    }

    fn apply_change(&mut self, change: &PartitionChange) -> Result<(), ApplyError> {
        let (id, index) = (change.topic_id, change.index);
        let known = self.topic_by_id(id).ok_or(ApplyError::UnknownTopic { id })?;
        let partition = known.partition(index).ok_or(ApplyError::UnknownPartition { id, index })?;
        let is_newer = change.partition_epoch > partition.partition_epoch
            && change.leader_epoch >= partition.leader_epoch;
        if !is_newer || !is_whole(&partition.replicas, &change.isr, change.leader) {
            return Err(ApplyError::Partition { id, index });
        }
        let position = usize::try_from(index.0).unwrap_or(usize::MAX);
        let partition = self.topic_mut(id)?.partitions.get_mut(position);
        let partition = partition.ok_or(ApplyError::UnknownPartition { id, index })?;
        partition.leader = change.leader;
        partition.leader_epoch = change.leader_epoch;
        partition.partition_epoch = change.partition_epoch;
        partition.isr.clone_from(&change.isr);
        partition.shard_override = change.shard_override;
        Ok(())
    }

    fn apply_topic_config(
        &mut self,
        id: TopicId,
        name: &str,
        value: Option<&Arc<str>>,
    ) -> Result<(), ApplyError> {
        let Some(row) = topic_config(name) else {
            if TOPIC_CONFIGS_REMOVED.contains(&name) {
                return Ok(());
            }
            return Err(ApplyError::UnknownConfig { id, name: String::from(name) });
        };
        let configs = &mut self.topic_mut(id)?.configs;
        match value {
            Some(value) => configs.insert(row.name, Arc::clone(value)),
            None => configs.remove(row.name),
        };
        Ok(())
    }

    fn apply_node_config(&mut self, node: NodeId, name: &Arc<str>, value: Option<&Arc<str>>) {
        let configs = Arc::make_mut(&mut self.node_configs).entry(node).or_default();
        match value {
            Some(value) => configs.insert(Arc::clone(name), Arc::clone(value)),
            None => configs.remove(name),
        };
    }

    fn apply_producer_ids(&mut self, first: i64, count: i32) -> Result<(), ApplyError> {
        let expected = self.producer_id_next;
        let next = (first == expected && count > 0).then(|| first.checked_add(count.into()));
        let next = next.flatten().ok_or(ApplyError::ProducerIds { first, count, expected })?;
        self.producer_id_next = next;
        Ok(())
    }

    fn topic_mut(&mut self, id: TopicId) -> Result<&mut Topic, ApplyError> {
        let unknown = ApplyError::UnknownTopic { id };
        let Some(name) = self.names.get(&id) else {
            return Err(unknown);
        };
        self.topics.get_mut(name).map(Arc::make_mut).ok_or(unknown)
    }
}

/// Whether replicas, in-sync set and leader fit each other.
fn is_whole(replicas: &[NodeId], isr: &[NodeId], leader: NodeId) -> bool {
    let unique = |nodes: &[NodeId]| {
        nodes.iter().enumerate().all(|(index, node)| !nodes[..index].contains(node))
    };
    (1..=REPLICAS_MAX).contains(&replicas.len())
        && isr.len() <= replicas.len()
        && !isr.is_empty()
        && unique(replicas)
        && unique(isr)
        && isr.iter().all(|node| replicas.contains(node))
        && (leader == NodeId::NONE || isr.contains(&leader))
}
