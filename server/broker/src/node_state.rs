//! What the control executor tells every data core before it opens its logs.
//!
//! Owns one `Send + Sync` struct, shared and, but for the counts of connections, never changed: what changes later travels as
//! an image.

use std::sync::Arc;

use cluster::{BrokerConfigs, Image};
use commitlog::{CheckpointMap, StartKind};
use record::NodeId;

use crate::config::Config;
use crate::connection_counts::ConnectionCounts;
use crate::mutant::Mutant;

/// The node as it starts.
#[derive(Debug)]
pub struct NodeState {
    /// This node.
    pub node_id: NodeId,
    /// How many data cores it has.
    pub shard_count: u16,
    /// Its configuration.
    pub config: Arc<Config>,
    /// Every option, as DescribeConfigs and the topics' defaults see it.
    pub broker_configs: Arc<BrokerConfigs>,
    /// Cluster metadata as of now.
    pub image: Arc<Image>,
    /// What the last run of this node knew to be on disk.
    pub checkpoints: Arc<CheckpointMap>,
    /// Sealed segments that each core may keep open.
    pub open_files_max: usize,
    /// Client connections that open files allow; `max.connections` may be less.
    pub connections_max: usize,
    /// Free space below which produce requests are refused; 0 for none.
    pub disk_floor_bytes: u64,
    /// Whether the last run ended cleanly.
    pub start: StartKind,
    /// Checkpoint sequences of this run start here.
    pub sequence_base: u64,
    /// Client connections of all cores: `max.connections` and `max.connections.per.ip` are the node's.
    pub connections: Arc<ConnectionCounts>,
    /// The rule that is off, if any.
    pub mutant: Mutant,
}
