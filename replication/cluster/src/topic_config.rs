//! The configurations of a topic: one table, its validation, and the typed values that the data path reads.
//!
//! Owns names, types, defaults, bounds and what is built of each ([`TOPIC_CONFIGS`]). It never stores a value: the image does.

mod table;

pub use table::TOPIC_CONFIGS;

use record::batch::TimestampType;

use crate::config_value::{check_value, excerpt, list_items};
use crate::{Allowed, ConfigRefusal, ConfigType, nearest};

/// How much of a configuration is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Built {
    /// The broker acts on it.
    Now,
    /// Stored and listed; nothing acts on it yet, or nothing needs to.
    Listed,
    /// Only these values, which the broker acts on; Kafka's other values are refused until what they ask for is built.
    Only(&'static [&'static str]),
}

/// One topic configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopicConfig {
    /// Kafka's name.
    pub name: &'static str,
    /// Kafka's type.
    pub kind: ConfigType,
    /// Kafka's default, where the broker sets none.
    pub default: &'static str,
    /// What a value must satisfy.
    pub allowed: Allowed,
    /// Broker options whose value it takes where the topic sets none; the first that is set counts.
    pub broker_synonyms: &'static [&'static str],
    /// How much of it is built.
    pub built: Built,
    /// What it does, with its unit.
    pub doc: &'static str,
}

/// Names that Kafka 4.0 removed and old clients still send: accepted, ignored, never listed (RB-8).
pub const TOPIC_CONFIGS_REMOVED: [&str; 3] = [
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
];

/// What became of a configuration that passed its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted<'a> {
    /// Keep this value under this name.
    Keep {
        /// The name, as the table has it.
        name: &'static str,
        /// The value, without outer spaces.
        value: &'a str,
    },
    /// The name does nothing any more.
    Ignore,
}

/// The row of a name.
#[must_use]
pub fn topic_config(name: &str) -> Option<&'static TopicConfig> {
    let index = TOPIC_CONFIGS.binary_search_by(|config| config.name.cmp(name)).ok()?;
    TOPIC_CONFIGS.get(index)
}

/// Whether a client may set this (MD-9, P96).
pub fn check_topic_config<'a>(
    name: &str,
    value: Option<&'a str>,
) -> Result<Accepted<'a>, ConfigRefusal> {
    if TOPIC_CONFIGS_REMOVED.contains(&name) {
        return Ok(Accepted::Ignore);
    }
    let Some(config) = topic_config(name) else {
        let nearest = nearest(name, TOPIC_CONFIGS.iter().map(|config| config.name));
        return Err(ConfigRefusal::Unknown { name: excerpt(name), nearest });
    };
    let name = config.name;
    let value = value.ok_or(ConfigRefusal::Null { name })?;
    let value = check_built_value(name, config.kind, (config.allowed, config.built), value)?;
    Ok(Accepted::Keep { name, value })
}

/// [`check_value`], and whether what the value asks for is built: the one check of a topic's configuration and of the broker's
/// default for it.
pub(crate) fn check_built_value<'a>(
    name: &'static str,
    kind: ConfigType,
    (allowed, built): (Allowed, Built),
    value: &'a str,
) -> Result<&'a str, ConfigRefusal> {
    let value = check_value(name, kind, allowed, value)?;
    if let Built::Only(supported) = built {
        let is_supported = match kind {
            ConfigType::Boolean => supported.iter().any(|word| word.eq_ignore_ascii_case(value)),
            ConfigType::List => list_items(value).all(|item| supported.contains(&item)),
            _ => supported.contains(&value),
        };
        if !is_supported {
            return Err(ConfigRefusal::NotBuilt { name, value: excerpt(value), supported });
        }
    }
    Ok(value)
}

/// The topic configuration that falls back on this broker option.
#[must_use]
pub fn topic_config_behind(broker_option: &str) -> Option<&'static TopicConfig> {
    TOPIC_CONFIGS.iter().find(|row| row.broker_synonyms.contains(&broker_option))
}

/// The configurations that the data path reads, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicSettings {
    /// Largest batch as sent.
    pub max_message_bytes: u32,
    /// Size at which a segment is closed.
    pub segment_bytes: u32,
    /// Age at which a segment is closed.
    pub segment_ms: i64,
    /// Largest random part taken off `segment_ms`.
    pub segment_jitter_ms: i64,
    /// Whether old records go at all: `delete` is in the clean-up policy.
    pub deletes: bool,
    /// How long a segment stays after its newest record; -1 for ever.
    pub retention_ms: i64,
    /// Bytes that a partition may hold; -1 for no bound.
    pub retention_bytes: i64,
    /// Bytes of log between two index entries.
    pub index_interval_bytes: u32,
    /// Replicas that must be in sync for acks=all; cap it by the number of replicas (PR-6).
    pub min_insync_replicas: u16,
    /// Largest batch after decompression.
    pub max_decompressed_message_bytes: u32,
    /// Whose clock stamps records.
    pub timestamp_type: TimestampType,
    /// How far behind the clock a record may be stamped.
    pub timestamp_before_max_ms: i64,
    /// How far ahead of the clock a record may be stamped.
    pub timestamp_after_max_ms: i64,
    /// Acknowledgements do not wait for stable storage.
    pub write_caching: bool,
}

impl TopicSettings {
    /// Reads the numbers from the effective values; a value that is not a number of its range counts as the default, which only
    /// a metadata log written by others can hold.
    pub(crate) fn from_effective<'a>(value_of: impl Fn(&'static str) -> Option<&'a str>) -> Self {
        let number = |name: &'static str| -> i64 {
            let default = topic_config(name).and_then(|config| config.default.parse().ok());
            let is_allowed = |number: &i64| match topic_config(name).map(|row| row.allowed) {
                Some(Allowed::Range(minimum, maximum)) => (minimum..=maximum).contains(number),
                _ => true,
            };
            let set = value_of(name).and_then(|value| value.parse().ok()).filter(is_allowed);
            set.or(default).unwrap_or_default()
        };
        let cleanup_policy = value_of("cleanup.policy").unwrap_or("delete");
        let bytes = |name| u32::try_from(number(name)).unwrap_or(u32::MAX);
        Self {
            max_message_bytes: bytes("max.message.bytes"),
            segment_bytes: bytes("segment.bytes"),
            segment_ms: number("segment.ms"),
            segment_jitter_ms: number("segment.jitter.ms"),
            deletes: cleanup_policy.split(',').any(|policy| policy.trim() == "delete"),
            retention_ms: number("retention.ms"),
            retention_bytes: number("retention.bytes"),
            index_interval_bytes: bytes("index.interval.bytes"),
            min_insync_replicas: u16::try_from(number("min.insync.replicas")).unwrap_or(u16::MAX),
            max_decompressed_message_bytes: bytes("max.decompressed.message.bytes"),
            timestamp_type: match value_of("message.timestamp.type") {
                Some("LogAppendTime") => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max_ms: number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: number("message.timestamp.after.max.ms"),
            write_caching: value_of("write.caching")
                .is_some_and(|value| value.eq_ignore_ascii_case("true")),
        }
    }
}

#[cfg(test)]
mod tests;
