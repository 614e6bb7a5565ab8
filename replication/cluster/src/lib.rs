//! The cluster's metadata: the records of its log, the image they build, the decisions that write them.
//!
//! Owns what exists (nodes, topics, partitions, configurations, producer ids) and who may change it. It never names a clock, a
//! file or a socket: time, identity and random numbers are arguments. Two doors:
//!
//! ```text
//! decide_*(&Image, request) ─► Decision { records to append as one batch, reply to give once they are committed }
//! apply(offset, record)     ─► the image; nothing else changes it, so that replaying the log gives it again
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod alter_configs;
mod apply;
mod bounds;
mod config_value;
mod cow;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod effective;
mod endpoint;
mod features;
mod image;
mod nearest;
mod placement;
mod records;
mod registration;
mod snapshot;
mod topic_config;
mod topic_name;

#[cfg(test)]
mod testing;

use alloc::vec::Vec;

pub use alter_configs::{
    ALTERED_BYTES_MAX, AlterConfigs, AlterRefusal, ConfigChange, ConfigEdit, ConfigOperation,
    ConfigTarget,
};
pub use apply::{ApplyError, FEATURE_LEVEL_KNOWN};
pub use bounds::Bounds;
pub use config_value::{
    Allowed, CONFIG_VALUE_BYTES_MAX, ConfigRefusal, ConfigType, check_value, excerpt, list_items,
    parse_boolean, plain_form,
};
pub use create_partitions::{CreatePartitions, GrowthOutcome, GrowthRefusal, TopicGrowth};
pub use create_topics::{
    CreateDefaults, CreateOutcome, CreateRefusal, CreateTopics, CreatedTopic, Intent, NewTopic,
};
pub use delete_topics::{DeleteOutcome, DeleteRefusal, Deletion, TopicReference};
pub use effective::{BrokerConfig, BrokerConfigs, ConfigSource, ConfigSynonym, DescribedConfig};
pub use endpoint::{CORE_ID_STEP, Endpoint, endpoint, endpoint_id, endpoints, node_of_endpoint};
pub use features::{
    FEATURE_LEVEL_MIN, FEATURE_NAME, FeatureRefusal, FeatureUpdate, UpdateFeatures,
};
pub use image::{
    Advertise, Image, ListenerEndpoint, NODE_ID_MAX, Node, PARTITIONS_PER_TOPIC_MAX, Partition,
    REPLICAS_MAX, Topic,
};
pub use nearest::nearest;
pub use placement::{AssignedReplicas, PARTITIONS_PER_REQUEST_MAX, TooManyPartitions};
pub use records::{
    FRAME, MetadataRecord, NodeRegistration, PartitionChange, PartitionState, RecordError,
};
pub use registration::{
    LISTENERS_MAX, LeaderEpochs, PRODUCER_IDS_PER_BLOCK, ProducerIdBlock, ProducerIdsExhausted,
    RegisterRefusal,
};
pub use snapshot::{
    METADATA_SNAPSHOT_BYTES_MAX, MetadataSnapshot, MetadataSnapshotError, SnapshotTooLarge,
};
pub use topic_config::{
    Accepted, Built, TOPIC_CONFIGS, TOPIC_CONFIGS_REMOVED, TopicConfig, TopicSettings,
    check_topic_config, topic_config, topic_config_behind,
};
pub use topic_name::{
    INTERNAL_TOPICS, METADATA_TOPIC, NameRefusal, TOPIC_NAME_BYTES_MAX, check_topic_name,
    is_internal_topic,
};

/// What a request leads to.
///
/// Order   apply the records, or learn that they failed, before the next request is decided: a decision counts on nothing
///         having changed since.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<Reply> {
    /// To be appended to the metadata log as one batch; none where nothing changes.
    pub records: Vec<MetadataRecord>,
    /// To be given once the records are committed and applied.
    pub reply: Reply,
}
