//! The bytes of the metadata log.
//!
//! Owns every metadata record's type number, version and layout (docs/formats.md, "Metadata records"). A number is never used
//! again. A type or version that this version does not know is an error, and the reader refuses to start: skipping it could lose
//! a topic. Unknown tagged fields are stepped over; they stay in the log.
//!
//! ```text
//! key null · value: uvarint frame = 1 | uvarint type | uvarint version | fields | tagged fields
//!
//!  1 NoOp             -
//!  2 Cluster          cluster_id string
//!  3 FeatureLevel     level u16
//!  4 NodeRegister     node i32, incarnation uuid, directory uuid, shards u16, rack string?,
//!                     listeners [name string, host string, port u16, security i8, advertise i8 (0 node, 1 core), tags]
//!  5 NodeUnregister   node i32
//!  6 Topic            name string, id uuid
//!  7 TopicRemove      id uuid
//!  8 Partition        topic uuid, index i32, slot u16, leader i32, leader epoch i32, partition epoch i32,
//!                     replicas [i32], isr [i32]                                       tag 0: shard override u16
//!  9 PartitionChange  topic uuid, index i32, leader i32, leader epoch i32, partition epoch i32, isr [i32]
//!                                                                                     tag 0: shard override u16
//! 10 TopicConfig      topic uuid, name string, value string?                          null removes
//! 11 NodeConfig       node i32 (-1: all), name string, value string?                  null removes
//! 12 ProducerIdBlock  node i32, first i64, count i32
//! ```
//!
//! Strings and arrays are compact; integers are big-endian. Golden bytes: `records/tests.rs`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use record::codec::{DecodeError, Reader, Sink, Writer};
use record::{LeaderEpoch, NodeId, PartitionIndex, ShardIndex, Slot, TopicId};

use crate::image::{Advertise, ListenerEndpoint};

/// The frame that all metadata records use.
pub const FRAME: u32 = 1;

const NO_OP: u32 = 1;
const CLUSTER: u32 = 2;
const FEATURE_LEVEL: u32 = 3;
const NODE_REGISTER: u32 = 4;
const NODE_UNREGISTER: u32 = 5;
const TOPIC: u32 = 6;
const TOPIC_REMOVE: u32 = 7;
const PARTITION: u32 = 8;
const PARTITION_CHANGE: u32 = 9;
const TOPIC_CONFIG: u32 = 10;
const NODE_CONFIG: u32 = 11;
const PRODUCER_ID_BLOCK: u32 = 12;

const SHARD_OVERRIDE_TAG: u32 = 0;

/// A node as it registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRegistration {
    /// Its id.
    pub node: NodeId,
    /// Its process.
    pub incarnation: [u8; 16],
    /// Its data directory.
    pub directory_id: [u8; 16],
    /// Its data cores.
    pub shards: u16,
    /// Where it stands, if told.
    pub rack: Option<Arc<str>>,
    /// Its listeners.
    pub listeners: Vec<ListenerEndpoint>,
}

/// A partition as it is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    /// Its topic.
    pub topic_id: TopicId,
    /// Its index there.
    pub index: PartitionIndex,
    /// Which core it lives on.
    pub slot: Slot,
    /// The core to use instead.
    pub shard_override: Option<ShardIndex>,
    /// Who leads.
    pub leader: NodeId,
    /// 0 at creation.
    pub leader_epoch: LeaderEpoch,
    /// 0 at creation.
    pub partition_epoch: i32,
    /// Who holds it, the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// Who of them is in sync.
    pub isr: Vec<NodeId>,
}

/// What may change of a partition, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionChange {
    /// Its topic.
    pub topic_id: TopicId,
    /// Its index there.
    pub index: PartitionIndex,
    /// Who leads.
    pub leader: NodeId,
    /// Not below the one before.
    pub leader_epoch: LeaderEpoch,
    /// Above the one before.
    pub partition_epoch: i32,
    /// Who is in sync.
    pub isr: Vec<NodeId>,
    /// The core to use instead of the slot's.
    pub shard_override: Option<ShardIndex>,
}

/// One fact of the metadata log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataRecord {
    /// Nothing: moves the log end.
    NoOp,
    /// Whose log this is: the first record.
    Cluster {
        /// The cluster's id.
        cluster_id: Arc<str>,
    },
    /// Every node understands this level.
    FeatureLevel {
        /// The level.
        level: u16,
    },
    /// A process took its place.
    NodeRegister(NodeRegistration),
    /// A node is gone for good.
    NodeUnregister {
        /// Which.
        node: NodeId,
    },
    /// A topic exists; its partitions follow.
    Topic {
        /// Its name.
        name: Arc<str>,
        /// Its identity.
        id: TopicId,
    },
    /// A topic and all its partitions are gone.
    TopicRemove {
        /// Its identity.
        id: TopicId,
    },
    /// The next partition of a topic.
    Partition(PartitionState),
    /// A partition changed.
    PartitionChange(PartitionChange),
    /// A topic's configuration.
    TopicConfig {
        /// The topic.
        id: TopicId,
        /// The configuration.
        name: Arc<str>,
        /// Its value; `None` to go back to the default.
        value: Option<Arc<str>>,
    },
    /// A node's configuration, or with [`NodeId::NONE`] that of all.
    NodeConfig {
        /// The node.
        node: NodeId,
        /// The configuration.
        name: Arc<str>,
        /// Its value; `None` to go back to the default.
        value: Option<Arc<str>>,
    },
    /// Producer ids that only this node hands out.
    ProducerIdBlock {
        /// The node.
        node: NodeId,
        /// The first.
        first: i64,
        /// How many.
        count: i32,
    },
}

/// Why a value is not a metadata record that this version understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Another frame: written by a newer version.
    #[error("metadata frame {frame}: this version reads {FRAME}")]
    Frame {
        /// The frame.
        frame: u32,
    },
    /// A type that this version does not know.
    #[error("metadata record type {kind} version {version}: this version does not know it")]
    Unknown {
        /// The type.
        kind: u32,
        /// Its version.
        version: u32,
    },
    /// A number outside its field's values.
    #[error("metadata record type {kind}: {value} is not a value of {what}")]
    Value {
        /// The type.
        kind: u32,
        /// The field.
        what: &'static str,
        /// What it holds.
        value: i64,
    },
    /// The bytes are not what the type promises.
    #[error("metadata record: {0}")]
    Malformed(#[from] DecodeError),
}

impl MetadataRecord {
    /// The value of the log's record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(Vec::with_capacity(64));
        writer.uvarint(FRAME);
        writer.uvarint(self.kind());
        writer.uvarint(0);
        self.encode_fields(&mut writer);
        writer.into_sink()
    }

    /// Reads the value of a log's record.
    pub fn decode(value: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(value);
        let frame = reader.uvarint()?;
        if frame != FRAME {
            return Err(RecordError::Frame { frame });
        }
        let (kind, version) = (reader.uvarint()?, reader.uvarint()?);
        if version != 0 {
            return Err(RecordError::Unknown { kind, version });
        }
        let record = decode_fields(kind, &mut reader)?;
        reader.finish()?;
        Ok(record)
    }

    /// The topic that it changes.
    #[must_use]
    pub fn topic_id(&self) -> Option<TopicId> {
        match self {
            Self::Topic { id, .. } | Self::TopicRemove { id } | Self::TopicConfig { id, .. } => {
                Some(*id)
            }
            Self::Partition(state) => Some(state.topic_id),
            Self::PartitionChange(change) => Some(change.topic_id),
            _ => None,
        }
    }

    fn kind(&self) -> u32 {
        match self {
            Self::NoOp => NO_OP,
            Self::Cluster { .. } => CLUSTER,
            Self::FeatureLevel { .. } => FEATURE_LEVEL,
            Self::NodeRegister(_) => NODE_REGISTER,
            Self::NodeUnregister { .. } => NODE_UNREGISTER,
            Self::Topic { .. } => TOPIC,
            Self::TopicRemove { .. } => TOPIC_REMOVE,
            Self::Partition(_) => PARTITION,
            Self::PartitionChange(_) => PARTITION_CHANGE,
            Self::TopicConfig { .. } => TOPIC_CONFIG,
            Self::NodeConfig { .. } => NODE_CONFIG,
            Self::ProducerIdBlock { .. } => PRODUCER_ID_BLOCK,
        }
    }

    fn encode_fields<S: Sink>(&self, writer: &mut Writer<S>) {
        match self {
            Self::NoOp => {}
            Self::Cluster { cluster_id } => writer.compact_string(cluster_id),
            Self::FeatureLevel { level } => writer.u16(*level),
            Self::NodeRegister(node) => encode_registration(node, writer),
            Self::NodeUnregister { node } => writer.i32(node.0),
            Self::Topic { name, id } => {
                writer.compact_string(name);
                writer.uuid(&id.0);
            }
            Self::TopicRemove { id } => writer.uuid(&id.0),
            Self::Partition(state) => return encode_partition(state, writer),
            Self::PartitionChange(change) => return encode_change(change, writer),
            Self::TopicConfig { id, name, value } => {
                writer.uuid(&id.0);
                writer.compact_string(name);
                writer.compact_nullable_string(value.as_deref());
            }
            Self::NodeConfig { node, name, value } => {
                writer.i32(node.0);
                writer.compact_string(name);
                writer.compact_nullable_string(value.as_deref());
            }
            Self::ProducerIdBlock { node, first, count } => {
                writer.i32(node.0);
                writer.i64(*first);
                writer.i32(*count);
            }
        }
        writer.no_tagged_fields();
    }
}

fn encode_registration<S: Sink>(node: &NodeRegistration, writer: &mut Writer<S>) {
    writer.i32(node.node.0);
    writer.uuid(&node.incarnation);
    writer.uuid(&node.directory_id);
    writer.u16(node.shards);
    writer.compact_nullable_string(node.rack.as_deref());
    writer.compact_array_len(Some(node.listeners.len()));
    for listener in &node.listeners {
        writer.compact_string(&listener.name);
        writer.compact_string(&listener.host);
        writer.u16(listener.port);
        writer.i8(listener.security);
        writer.i8(match listener.advertise {
            Advertise::Node => 0,
            Advertise::Core => 1,
        });
        writer.no_tagged_fields();
    }
}

fn encode_partition<S: Sink>(state: &PartitionState, writer: &mut Writer<S>) {
    writer.uuid(&state.topic_id.0);
    writer.i32(state.index.0);
    writer.u16(state.slot.0);
    writer.i32(state.leader.0);
    writer.i32(state.leader_epoch.0);
    writer.i32(state.partition_epoch);
    encode_nodes(&state.replicas, writer);
    encode_nodes(&state.isr, writer);
    encode_shard_override(state.shard_override, writer);
}

fn encode_change<S: Sink>(change: &PartitionChange, writer: &mut Writer<S>) {
    writer.uuid(&change.topic_id.0);
    writer.i32(change.index.0);
    writer.i32(change.leader.0);
    writer.i32(change.leader_epoch.0);
    writer.i32(change.partition_epoch);
    encode_nodes(&change.isr, writer);
    encode_shard_override(change.shard_override, writer);
}

fn encode_nodes<S: Sink>(nodes: &[NodeId], writer: &mut Writer<S>) {
    writer.compact_array_len(Some(nodes.len()));
    for node in nodes {
        writer.i32(node.0);
    }
}

fn encode_shard_override<S: Sink>(shard: Option<ShardIndex>, writer: &mut Writer<S>) {
    let Some(shard) = shard else {
        writer.no_tagged_fields();
        return;
    };
    writer.uvarint(1);
    writer.tagged_field(SHARD_OVERRIDE_TAG, 2);
    writer.u16(shard.0);
}

fn decode_fields(kind: u32, reader: &mut Reader<'_>) -> Result<MetadataRecord, RecordError> {
    let record = match kind {
        NO_OP => MetadataRecord::NoOp,
        CLUSTER => MetadataRecord::Cluster { cluster_id: text(reader)? },
        FEATURE_LEVEL => MetadataRecord::FeatureLevel { level: reader.u16()? },
        NODE_REGISTER => MetadataRecord::NodeRegister(decode_registration(reader)?),
        NODE_UNREGISTER => MetadataRecord::NodeUnregister { node: NodeId(reader.i32()?) },
        TOPIC => MetadataRecord::Topic { name: text(reader)?, id: TopicId(reader.uuid()?) },
        TOPIC_REMOVE => MetadataRecord::TopicRemove { id: TopicId(reader.uuid()?) },
        PARTITION => return Ok(MetadataRecord::Partition(decode_partition(reader)?)),
        PARTITION_CHANGE => return Ok(MetadataRecord::PartitionChange(decode_change(reader)?)),
        TOPIC_CONFIG => MetadataRecord::TopicConfig {
            id: TopicId(reader.uuid()?),
            name: text(reader)?,
            value: reader.compact_nullable_string()?.map(Arc::from),
        },
        NODE_CONFIG => MetadataRecord::NodeConfig {
            node: NodeId(reader.i32()?),
            name: text(reader)?,
            value: reader.compact_nullable_string()?.map(Arc::from),
        },
        PRODUCER_ID_BLOCK => MetadataRecord::ProducerIdBlock {
            node: NodeId(reader.i32()?),
            first: reader.i64()?,
            count: reader.i32()?,
        },
        _ => return Err(RecordError::Unknown { kind, version: 0 }),
    };
    reader.skip_tagged_fields()?;
    Ok(record)
}

fn decode_registration(reader: &mut Reader<'_>) -> Result<NodeRegistration, RecordError> {
    /// Two lengths, a port, two bytes and no tagged field.
    const LISTENER_BYTES_MIN: usize = 7;
    let node = NodeId(reader.i32()?);
    let (incarnation, directory_id) = (reader.uuid()?, reader.uuid()?);
    let shards = reader.u16()?;
    let rack = reader.compact_nullable_string()?.map(Arc::from);
    let count = reader.compact_array_len(LISTENER_BYTES_MIN)?;
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let (name, host, port, security) =
            (text(reader)?, text(reader)?, reader.u16()?, reader.i8()?);
        let advertise = match reader.i8()? {
            0 => Advertise::Node,
            1 => Advertise::Core,
            other => {
                let value = other.into();
                return Err(RecordError::Value { kind: NODE_REGISTER, what: "advertise", value });
            }
        };
        reader.skip_tagged_fields()?;
        listeners.push(ListenerEndpoint { name, host, port, security, advertise });
    }
    Ok(NodeRegistration { node, incarnation, directory_id, shards, rack, listeners })
}

fn decode_partition(reader: &mut Reader<'_>) -> Result<PartitionState, RecordError> {
    Ok(PartitionState {
        topic_id: TopicId(reader.uuid()?),
        index: PartitionIndex(reader.i32()?),
        slot: Slot(reader.u16()?),
        leader: NodeId(reader.i32()?),
        leader_epoch: LeaderEpoch(reader.i32()?),
        partition_epoch: reader.i32()?,
        replicas: decode_nodes(reader)?,
        isr: decode_nodes(reader)?,
        shard_override: decode_shard_override(reader)?,
    })
}

fn decode_change(reader: &mut Reader<'_>) -> Result<PartitionChange, RecordError> {
    Ok(PartitionChange {
        topic_id: TopicId(reader.uuid()?),
        index: PartitionIndex(reader.i32()?),
        leader: NodeId(reader.i32()?),
        leader_epoch: LeaderEpoch(reader.i32()?),
        partition_epoch: reader.i32()?,
        isr: decode_nodes(reader)?,
        shard_override: decode_shard_override(reader)?,
    })
}

fn decode_nodes(reader: &mut Reader<'_>) -> Result<Vec<NodeId>, DecodeError> {
    let count = reader.compact_array_len(4)?;
    let mut nodes = Vec::with_capacity(count);
    for _ in 0..count {
        nodes.push(NodeId(reader.i32()?));
    }
    Ok(nodes)
}

fn decode_shard_override(reader: &mut Reader<'_>) -> Result<Option<ShardIndex>, DecodeError> {
    let mut shard = None;
    reader.tagged_fields(|tag, field| {
        if tag == SHARD_OVERRIDE_TAG {
            shard = Some(ShardIndex(field.u16()?));
        }
        Ok(())
    })?;
    Ok(shard)
}

fn text(reader: &mut Reader<'_>) -> Result<Arc<str>, DecodeError> {
    reader.compact_string().map(Arc::from)
}

#[cfg(test)]
mod tests;
