//! The bytes of a metadata snapshot: the image at one offset, so that a start replays only what came after.
//!
//! Owns the format (docs/formats.md, "Metadata snapshot"). A snapshot is a copy, never the only word: a reader that cannot use
//! it replays the log from its beginning. What it holds goes through the same door as the log's records, so that it can make
//! no image that a log could not. It names the batch that it ends with by its checksum: only of the log that has this batch
//! is it a copy.
//!
//! ```text
//! 0        4         6          8             16                    20                 28
//! | magic  | version | reserved | next offset | CRC of the batch    | next producer id | slots | facts | CRC-32C of all before |
//! | "CLMS" | = 2     | = 0      |             | before next offset  |                  |
//! slots   count u32, each: node i32, next slot u16
//! facts   count u32, each: offset i64, length u32, a metadata record
//! ```
//! A fact's offset is that of the record that it stands for where that can be seen (a node's registration), else -1.

use alloc::sync::Arc;
use alloc::vec::Vec;

use record::codec::{DecodeError, Reader, Writer};
use record::{NodeId, Offset, Slot, crc32c};

use crate::apply::ApplyError;
use crate::image::{Image, Node, Topic};
use crate::records::{MetadataRecord, NodeRegistration, PartitionState, RecordError};

const MAGIC: &[u8; 4] = b"CLMS";
const VERSION: u16 = 2;
/// The same without the checksum of a batch: of which log it is a copy, nobody can tell.
const VERSION_WITHOUT_BATCH: u16 = 1;
const CRC_BYTES: usize = 4;
/// Node and slot.
const SLOT_BYTES: usize = 6;
/// Offset, length, and the shortest record.
const FACT_BYTES_MIN: usize = 8 + 4 + 4;
/// Of a fact whose offset says nothing.
const NO_OFFSET: Offset = Offset(-1);

/// A larger file is neither written nor read: some million partitions.
pub const METADATA_SNAPSHOT_BYTES_MAX: usize = 256 << 20;

/// What a snapshot holds.
#[derive(Debug, Clone)]
pub struct MetadataSnapshot {
    /// The image at one offset.
    pub image: Image,
    /// The checksum of the batch that ends before that offset, as its header has it.
    pub batch_crc: u32,
}

/// An image is too large for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it would be {bytes} bytes long, the bound is {bytes_max}")]
pub struct SnapshotTooLarge {
    /// What it would be.
    pub bytes: usize,
    /// The bound.
    pub bytes_max: usize,
}

/// Why a snapshot is of no use; the log has everything that it would have said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataSnapshotError {
    /// The checksum of the bytes is another one.
    #[error("crc {computed:#010x}, file says {stored:#010x}")]
    Crc {
        /// Over the bytes.
        computed: u32,
        /// In the file.
        stored: u32,
    },
    /// Not a snapshot of metadata, or of a later version.
    #[error("magic or version {version} unknown")]
    Unknown {
        /// The version found.
        version: u16,
    },
    /// Of format version 1: whole, and it names no batch of the log that it is a copy of.
    #[error("format version {VERSION_WITHOUT_BATCH}, which does not say of which log it is a copy")]
    Earlier {
        /// It holds all records before this one.
        next_offset: Offset,
    },
    /// The bytes are not what the format promises.
    #[error("{0}")]
    Malformed(#[from] DecodeError),
    /// A fact that this version does not understand.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// Facts that contradict each other.
    #[error("{0}")]
    Apply(#[from] ApplyError),
    /// A number that no image has.
    #[error("{value} is no {what}")]
    Value {
        /// What it would be.
        what: &'static str,
        /// What it is.
        value: i64,
    },
}

impl Image {
    /// The bytes of a snapshot of this image; `batch_crc` is the checksum of the batch that ends before its next offset.
    ///
    /// Errors  [`METADATA_SNAPSHOT_BYTES_MAX`]: nobody would read it.
    pub fn encode_snapshot(&self, batch_crc: u32) -> Result<Vec<u8>, SnapshotTooLarge> {
        self.encode_within(METADATA_SNAPSHOT_BYTES_MAX, batch_crc)
    }

    fn encode_within(&self, bytes_max: usize, batch_crc: u32) -> Result<Vec<u8>, SnapshotTooLarge> {
        let facts = self.snapshot_facts();
        let mut writer = Writer::new(Vec::with_capacity(64 + 96 * facts.len()));
        writer.raw(MAGIC);
        writer.u16(VERSION);
        writer.u16(0);
        writer.i64(self.next_offset.0);
        writer.u32(batch_crc);
        writer.i64(self.producer_id_next);
        writer.array_len(Some(self.slots_next.len()));
        for (node, slot) in self.slots_next.iter() {
            writer.i32(node.0);
            writer.u16(slot.0);
        }
        writer.array_len(Some(facts.len()));
        for (offset, record) in facts {
            let value = record.encode();
            writer.i64(offset.0);
            writer.array_len(Some(value.len()));
            writer.raw(&value);
        }
        let mut bytes = writer.into_sink();
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        match bytes.len() {
            length if length > bytes_max => Err(SnapshotTooLarge { bytes: length, bytes_max }),
            _ => Ok(bytes),
        }
    }

    /// What a snapshot holds.
    pub fn decode_snapshot(bytes: &[u8]) -> Result<MetadataSnapshot, MetadataSnapshotError> {
        let left = bytes.len();
        let short = DecodeError::Truncated { what: "crc", at: 0, needed: CRC_BYTES, left };
        let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or(short)?;
        let (computed, stored) = (crc32c(body), u32::from_be_bytes(*crc));
        if computed != stored {
            return Err(MetadataSnapshotError::Crc { computed, stored });
        }
        let mut reader = Reader::new(body);
        let magic = reader.take(MAGIC.len())?;
        let version = reader.u16()?;
        let is_known = magic == MAGIC && [VERSION_WITHOUT_BATCH, VERSION].contains(&version);
        if !is_known {
            return Err(MetadataSnapshotError::Unknown { version });
        }
        reader.u16()?;
        if version == VERSION_WITHOUT_BATCH {
            let next_offset = Offset(reader.i64()?);
            return Err(MetadataSnapshotError::Earlier { next_offset });
        }
        let snapshot = decode_body(&mut reader)?;
        reader.finish()?;
        Ok(snapshot)
    }

    /// Everything that the image knows, in an order in which it can be applied.
    fn snapshot_facts(&self) -> Vec<(Offset, MetadataRecord)> {
        let mut facts = Vec::new();
        if let Some(cluster_id) = &self.cluster_id {
            let cluster_id = Arc::clone(cluster_id);
            facts.push((NO_OFFSET, MetadataRecord::Cluster { cluster_id }));
        }
        let level = self.feature_level;
        facts.push((NO_OFFSET, MetadataRecord::FeatureLevel { level }));
        facts.extend(self.nodes().map(|node| (node.epoch, registration(node))));
        for (node, configs) in self.node_configs.iter() {
            facts.extend(configs.iter().map(|(name, value)| {
                let (name, value) = (Arc::clone(name), Some(Arc::clone(value)));
                (NO_OFFSET, MetadataRecord::NodeConfig { node: *node, name, value })
            }));
        }
        // By name: the same image has the same bytes, whatever way it came about.
        for topic in self.topics_sorted() {
            add_topic(topic, &mut facts);
        }
        facts
    }
}

fn registration(node: &Node) -> MetadataRecord {
    MetadataRecord::NodeRegister(NodeRegistration {
        node: node.id,
        incarnation: node.incarnation,
        directory_id: node.directory_id,
        shards: node.shards,
        rack: node.rack.clone(),
        listeners: node.listeners.clone(),
    })
}

fn add_topic(topic: &Topic, facts: &mut Vec<(Offset, MetadataRecord)>) {
    let id = topic.id;
    facts.push((NO_OFFSET, MetadataRecord::Topic { name: Arc::clone(&topic.name), id }));
    facts.extend(topic.indexed().map(|(index, partition)| {
        let state = PartitionState {
            topic_id: id,
            index,
            slot: partition.slot,
            shard_override: partition.shard_override,
            leader: partition.leader,
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            replicas: partition.replicas.clone(),
            isr: partition.isr.clone(),
        };
        (NO_OFFSET, MetadataRecord::Partition(state))
    }));
    facts.extend(topic.configs.iter().map(|(name, value)| {
        let (name, value) = (Arc::from(*name), Some(Arc::clone(value)));
        (NO_OFFSET, MetadataRecord::TopicConfig { id, name, value })
    }));
}

fn decode_body(reader: &mut Reader<'_>) -> Result<MetadataSnapshot, MetadataSnapshotError> {
    let bounded = |what: &'static str, value: i64| {
        if value >= 0 { Ok(value) } else { Err(MetadataSnapshotError::Value { what, value }) }
    };
    let next_offset = Offset(bounded("offset", reader.i64()?)?);
    let batch_crc = reader.u32()?;
    let producer_id_next = bounded("producer id", reader.i64()?)?;
    let mut slots = alloc::collections::BTreeMap::new();
    for _ in 0..reader.array_len(SLOT_BYTES)? {
        slots.insert(NodeId(reader.i32()?), Slot(reader.u16()?));
    }
    let mut image = Image::default();
    for _ in 0..reader.array_len(FACT_BYTES_MIN)? {
        let offset = Offset(reader.i64()?);
        let bytes = reader.array_len(1)?;
        let record = MetadataRecord::decode(reader.take(bytes)?)?;
        if matches!(record, MetadataRecord::NodeRegister(_))
            && !(Offset::ZERO..next_offset).contains(&offset)
        {
            return Err(MetadataSnapshotError::Value { what: "node epoch", value: offset.0 });
        }
        image.take(offset, &record)?;
    }
    image.next_offset = next_offset;
    image.producer_id_next = producer_id_next;
    // Those of removed topics were dealt as well.
    image.slots_next = Arc::new(slots);
    Ok(MetadataSnapshot { image, batch_crc })
}

#[cfg(test)]
mod tests;
