//! What the broker says about the topic of a run: what an acknowledgement promises there, and what its log may lose by itself.
//!
//! Owns the options that are asked for and what follows from them. A broker that does not say leaves them unknown; nothing is
//! guessed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The options that say something about a run, as DescribeConfigs names them.
pub(crate) const OPTIONS: [&str; 14] = [
    WRITE_CACHING,
    FLUSH_MESSAGES,
    "flush.ms",
    CLEANUP_POLICY,
    RETENTION_BYTES,
    RETENTION_MS,
    "segment.bytes",
    "segment.ms",
    "min.insync.replicas",
    "compression.type",
    "max.message.bytes",
    "message.timestamp.type",
    "index.interval.bytes",
    "preallocate",
];
const WRITE_CACHING: &str = "write.caching";
const FLUSH_MESSAGES: &str = "flush.messages";
const CLEANUP_POLICY: &str = "cleanup.policy";
const RETENTION_BYTES: &str = "retention.bytes";
const RETENTION_MS: &str = "retention.ms";

/// What an acknowledgement says of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The broker does not say.
    #[default]
    Unknown,
    /// The record is in the broker's or the kernel's memory: a power cut may lose it.
    D0,
    /// The record is on stable storage.
    D1,
}

impl Durability {
    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "unknown: the broker does not tell the topic's options",
            Self::D0 => "D0: acknowledged before it is on disk",
            Self::D1 => "D1: acknowledged once it is on disk",
        }
    }

    /// What a topic with these options promises.
    ///
    /// Source  Corelog syncs before every acknowledgement but where `write.caching` is true, and takes `flush.messages` without
    ///         effect; Kafka has no `write.caching`, and syncs before the acknowledgement where `flush.messages` is 1.
    pub(crate) fn of(options: &BTreeMap<String, String>) -> Self {
        match (options.get(WRITE_CACHING), options.get(FLUSH_MESSAGES)) {
            (Some(caching), _) if caching == "true" => Self::D0,
            (Some(_), _) => Self::D1,
            (None, Some(flush)) if flush == "1" => Self::D1,
            (None, Some(_)) => Self::D0,
            (None, None) => Self::Unknown,
        }
    }
}

/// Whether the topic's own options explain that records are gone which were appended at most so long ago.
pub(crate) fn may_expire(options: &BTreeMap<String, String>, age: Duration) -> bool {
    let is_deleting = options
        .get(CLEANUP_POLICY)
        .is_none_or(|policy| policy.split(',').any(|one| one.trim() == "delete"));
    let number = |name| options.get(name).and_then(|value: &String| value.parse::<i64>().ok());
    let has_size = number(RETENTION_BYTES).is_some_and(|bytes| bytes >= 0);
    let is_old = number(RETENTION_MS)
        .and_then(|ms| u64::try_from(ms).ok())
        .is_some_and(|ms| age >= Duration::from_millis(ms));
    is_deleting && (has_size || is_old)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_acknowledgement_promises_what_the_topic_says() {
        for (pairs, expected) in [
            (
                &[("write.caching", "false"), ("flush.messages", "9223372036854775807")][..],
                Durability::D1,
            ),
            (&[("write.caching", "true"), ("flush.messages", "1")], Durability::D0),
            (&[("flush.messages", "1")], Durability::D1),
            (&[("flush.messages", "9223372036854775807")], Durability::D0),
            (&[("retention.ms", "5")], Durability::Unknown),
            (&[], Durability::Unknown),
        ] {
            assert_eq!(Durability::of(&options(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn records_expire_by_size_or_age_and_by_nothing_else() {
        let minute = Duration::from_secs(60);
        for (pairs, expected) in [
            (&[][..], false),
            (&[("retention.bytes", "-1"), ("retention.ms", "604800000")], false),
            (&[("retention.bytes", "1000000")], true),
            (&[("retention.bytes", "1000000"), ("cleanup.policy", "compact")], false),
            (&[("retention.bytes", "1000000"), ("cleanup.policy", "compact, delete")], true),
            (&[("retention.ms", "59000"), ("cleanup.policy", "delete")], true),
            (&[("retention.ms", "61000")], false),
            (&[("retention.ms", "-1")], false),
        ] {
            assert_eq!(may_expire(&options(pairs), minute), expected, "{pairs:?}");
        }
    }
}
