//! The cluster's metadata as one value: nodes, topics, partitions, configurations, the next producer id.
//!
//! Owns the types and their lookups. The image changes through [`Image::apply`] only, so that replaying the log gives the same
//! image everywhere. It is cheap to share: a copy shares every topic that has not changed since (`Arc<Image>` goes to
//! every core).

use alloc::collections::{BTreeMap, BTreeSet};
#[cfg(test)]
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use record::{LeaderEpoch, NodeId, Offset, PartitionIndex, ShardIndex, Slot, TopicId};

use crate::cow::CowMap;
use crate::topic_name::collision_form;

/// Largest `node.id`: with `advertise = "core"` a core's own id is `core * 10000 + node.id`.
pub const NODE_ID_MAX: i32 = 9_999;
/// Partitions one topic may have; a partition's directory name leaves room for five digits.
pub const PARTITIONS_PER_TOPIC_MAX: usize = 100_000;

/// Replicas one partition may have.
pub const REPLICAS_MAX: usize = 64;

/// Whether the cores of a node share one identity towards its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advertise {
    /// One id and one port; a core forwards what it does not own.
    Node,
    /// Every core is a broker of its own: id `core * 10000 + node.id`, port `base + core`.
    Core,
}

/// One listener of a node, as its clients reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerEndpoint {
    /// The listener's name.
    pub name: Arc<str>,
    /// Where clients connect to; empty where only the connection's own local address is right.
    pub host: Arc<str>,
    /// The port of core 0.
    pub port: u16,
    /// Kafka's number of the security protocol (0: plaintext).
    pub security: i8,
    /// Whether cores show themselves.
    pub advertise: Advertise,
}

/// A registered node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// The process that registered: a new one each start.
    pub incarnation: [u8; 16],
    /// Offset of the registration: newer is larger (Kafka's broker epoch).
    pub epoch: Offset,
    /// The identity of its data directory.
    pub directory_id: [u8; 16],
    /// Its listeners, in the order of its configuration.
    pub listeners: Vec<ListenerEndpoint>,
    /// Where it stands, if told.
    pub rack: Option<Arc<str>>,
    /// How many data cores it has.
    pub shards: u16,
}

impl Node {
    /// Its listener of that name.
    #[must_use]
    pub fn listener(&self, name: &str) -> Option<&ListenerEndpoint> {
        self.listeners.iter().find(|listener| &*listener.name == name)
    }
}

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Which core of a node it lives on.
    pub slot: Slot,
    /// The core to use instead of the slot's, on every node.
    pub shard_override: Option<ShardIndex>,
    /// Who leads; [`NodeId::NONE`] for nobody.
    pub leader: NodeId,
    /// How often the leadership has changed.
    pub leader_epoch: LeaderEpoch,
    /// How often anything here has changed; every change is a compare-and-set on it.
    pub partition_epoch: i32,
    /// Who holds it, the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// Who of them is in sync.
    pub isr: Vec<NodeId>,
}

impl Partition {
    /// The core that owns it on a node of `shards` cores.
    #[must_use]
    pub fn shard(&self, shards: u16) -> ShardIndex {
        match self.shard_override {
            // A node with fewer cores than the override was made for still has to put it somewhere.
            Some(shard) => Slot(shard.0).shard(shards),
            None => self.slot.shard(shards),
        }
    }
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its identity.
    pub id: TopicId,
    /// Its partitions, by index.
    pub partitions: Vec<Partition>,
    /// What was set for it, by name.
    pub configs: BTreeMap<&'static str, Arc<str>>,
}

impl Topic {
    /// The partition of that index.
    #[must_use]
    pub fn partition(&self, index: PartitionIndex) -> Option<&Partition> {
        self.partitions.get(usize::try_from(index.0).ok()?)
    }

    /// The partitions with their indexes.
    pub fn indexed(&self) -> impl Iterator<Item = (PartitionIndex, &Partition)> {
        (0..).map(PartitionIndex).zip(&self.partitions)
    }

    /// How many replicas its first partition has: its replication factor.
    #[must_use]
    pub fn replication_factor(&self) -> usize {
        self.partitions.first().map_or(0, |partition| partition.replicas.len())
    }
}

/// What was set for a node while it ran, by name.
pub(crate) type NodeConfigs = BTreeMap<Arc<str>, Arc<str>>;

/// The cluster's metadata.
#[derive(Debug, Clone, Default)]
pub struct Image {
    pub(crate) cluster_id: Option<Arc<str>>,
    pub(crate) feature_level: u16,
    pub(crate) next_offset: Offset,
    pub(crate) topics: CowMap<Arc<str>, Arc<Topic>>,
    pub(crate) names: CowMap<TopicId, Arc<str>>,
    /// Topics whose name could collide with another's, by the form in which it would.
    pub(crate) collision_forms: CowMap<Arc<str>, Arc<str>>,
    pub(crate) nodes: Arc<BTreeMap<NodeId, Arc<Node>>>,
    /// By node, [`NodeId::NONE`] for what holds for all.
    pub(crate) node_configs: Arc<BTreeMap<NodeId, NodeConfigs>>,
    /// The slot to deal next, by preferred leader.
    pub(crate) slots_next: Arc<BTreeMap<NodeId, Slot>>,
    pub(crate) producer_id_next: i64,
    pub(crate) partition_count: usize,
}

impl Image {
    /// The cluster's id, once the first record of the log has been applied.
    #[must_use]
    pub fn cluster_id(&self) -> Option<&Arc<str>> {
        self.cluster_id.as_ref()
    }

    /// The level of features that every node has agreed to.
    #[must_use]
    pub fn feature_level(&self) -> u16 {
        self.feature_level
    }

    /// The offset of the next record to apply.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// The topic of that name.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name)
    }

    /// The topic of that identity.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(self.names.get(&id)?)
    }

    /// All topics, in no particular order.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.iter().map(|(_, topic)| topic)
    }

    /// All topics, ascending by name.
    #[must_use]
    pub fn topics_sorted(&self) -> Vec<&Arc<Topic>> {
        let mut topics: Vec<_> = self.topics().collect();
        topics.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        topics
    }

    /// How many topics there are.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// How many partitions there are in all topics.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// The node of that id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(&id)
    }

    /// All registered nodes, ascending by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// Asserts every invariant. Cost: a walk over everything.
    pub fn check(&self) {
        let mut partition_count = 0;
        assert_eq!(self.topics.len(), self.names.len());
        for (name, topic) in self.topics.iter() {
            assert_eq!(*name, topic.name);
            assert_eq!(self.names.get(&topic.id), Some(name));
            assert!(topic.id != TopicId::ZERO);
            assert!(topic.id != TopicId::METADATA);
            if let Some(form) = collision_form(name) {
                assert_eq!(self.collision_forms.get(form.as_str()), Some(name));
            }
            partition_count += topic.partitions.len();
            topic.partitions.iter().for_each(check_partition);
        }
        assert_eq!(self.partition_count, partition_count);
        assert!(self.collision_forms.len() <= self.topics.len());
        for (id, node) in self.nodes.iter() {
            assert_eq!(*id, node.id);
            assert!((0..=NODE_ID_MAX).contains(&id.0));
            assert!(node.epoch < self.next_offset);
            assert!(node.shards > 0);
        }
        assert!(self.producer_id_next >= 0);
    }

    /// Every known fact as text, for tests that compare two images.
    #[cfg(test)]
    pub(crate) fn facts(&self) -> String {
        use core::fmt::Write as _;
        let mut text = String::new();
        for topic in self.topics_sorted() {
            writeln!(text, "{topic:?}").unwrap();
        }
        let Self { cluster_id, feature_level, next_offset, nodes, node_configs, .. } = self;
        writeln!(text, "{cluster_id:?} {feature_level} {next_offset} {nodes:?}").unwrap();
        let (slots, producer_id) = (&self.slots_next, self.producer_id_next);
        writeln!(text, "{node_configs:?} {slots:?} {producer_id}").unwrap();
        text
    }
}

fn check_partition(partition: &Partition) {
    let replicas: BTreeSet<_> = partition.replicas.iter().collect();
    let isr: BTreeSet<_> = partition.isr.iter().collect();
    assert!(!replicas.is_empty());
    assert_eq!(replicas.len(), partition.replicas.len());
    assert_eq!(isr.len(), partition.isr.len());
    assert!(!isr.is_empty());
    assert!(isr.is_subset(&replicas));
    assert!(partition.leader == NodeId::NONE || isr.contains(&partition.leader));
    assert!(partition.leader_epoch.0 >= 0);
    assert!(partition.partition_epoch >= 0);
}
