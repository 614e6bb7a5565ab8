//! The nouns: one newtype for each number that could be mistaken for another.
//!
//! Owns their sentinel values and their text forms. It never computes policy: what an offset *means* belongs to the
//! crate that moves it.

use core::fmt;

macro_rules! noun {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, formatter)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

noun! {
    /// The position of a record in its partition, counted in records from 0.
    Offset(i64)
}
noun! {
    /// How often the leadership of a partition has changed; -1 where none is known.
    LeaderEpoch(i32)
}
noun! {
    /// A node of the cluster, as its clients see it (0..=9999 for the node itself).
    NodeId(i32)
}
noun! {
    /// The index of a partition in its topic, from 0.
    PartitionIndex(i32)
}
noun! {
    /// The identity of an idempotent or transactional producer; -1 for none.
    ProducerId(i64)
}
noun! {
    /// The fencing epoch of a producer id; -1 for none.
    ProducerEpoch(i16)
}
noun! {
    /// Where a partition lives in its node: `shard = slot % shards`. Fixed when the partition is created.
    Slot(u16)
}
noun! {
    /// The index of a data core in its node, from 0.
    ShardIndex(u16)
}
noun! {
    /// Unix time in milliseconds; -1 where a record carries none.
    Timestamp(i64)
}

impl Offset {
    /// The first offset of every partition.
    pub const ZERO: Self = Self(0);

    /// The offset `count` records further on, or `None` past the last offset there is.
    #[must_use]
    pub fn checked_add(self, count: i64) -> Option<Self> {
        self.0.checked_add(count).map(Self)
    }
}

impl LeaderEpoch {
    /// No epoch is known.
    pub const NONE: Self = Self(-1);
}

impl NodeId {
    /// No node: "there is no leader", "the request comes from a consumer".
    pub const NONE: Self = Self(-1);
}

impl ProducerId {
    /// The batch comes from a producer without idempotence.
    pub const NONE: Self = Self(-1);
}

impl ProducerEpoch {
    /// The batch comes from a producer without idempotence.
    pub const NONE: Self = Self(-1);
}

impl Timestamp {
    /// The record carries no timestamp.
    pub const NONE: Self = Self(-1);
}

impl Slot {
    /// The data core that owns this slot on a node of `shard_count` cores.
    ///
    /// Panics if `shard_count` is 0: a node without a data core cannot own anything.
    #[must_use]
    pub fn shard(self, shard_count: u16) -> ShardIndex {
        assert!(shard_count > 0);
        ShardIndex(self.0 % shard_count)
    }
}

/// The identity of a topic, which a topic created again under the same name does not share (KIP-516).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TopicId(pub [u8; 16]);

const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl TopicId {
    /// No topic: what a request or response carries where it names a topic by name alone.
    pub const ZERO: Self = Self([0; 16]);
    /// The id Kafka reserves for its metadata topic; never dealt to a topic (MD-4).
    pub const METADATA: Self = Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    /// The length of its text form.
    pub const TEXT_BYTES: usize = 22;

    /// Reads the text form that [`fmt::Display`] writes; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != Self::TEXT_BYTES {
            return None;
        }
        let mut bits: u128 = 0;
        let (head, last) = text.as_bytes().split_at(Self::TEXT_BYTES - 1);
        for byte in head {
            bits = bits << 6 | sextet(*byte)?;
        }
        let last = sextet(*last.first()?)?;
        // 22 characters hold 132 bits: the last four must be zero, or two texts would name one id.
        if last & 0xf != 0 {
            return None;
        }
        Some(Self((bits << 2 | last >> 4).to_be_bytes()))
    }
}

fn sextet(byte: u8) -> Option<u128> {
    BASE64_URL.iter().position(|candidate| *candidate == byte).map(|index| index as u128)
}

impl fmt::Display for TopicId {
    /// 22 characters of URL-safe base64 without padding, as Kafka's tools print it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for index in 0..21 {
            let sextet = (bits >> (122 - 6 * index)) & 0x3f;
            fmt::Write::write_char(formatter, char::from(BASE64_URL[sextet as usize]))?;
        }
        fmt::Write::write_char(formatter, char::from(BASE64_URL[((bits & 0x3) << 4) as usize]))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TopicId({self})")
    }
}

/// A partition by identity rather than by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic_id: TopicId,
    /// The partition in it.
    pub partition: PartitionIndex,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn topic_id_text_is_kafkas_and_round_trips() {
        let check = |bytes: [u8; 16], text: &str| {
            assert_eq!(TopicId(bytes).to_string(), text);
            assert_eq!(TopicId::parse(text), Some(TopicId(bytes)));
        };
        check([0; 16], "AAAAAAAAAAAAAAAAAAAAAA");
        check(TopicId::METADATA.0, "AAAAAAAAAAAAAAAAAAAAAQ");
        check([0xff; 16], "_____________________w");
    }

    #[test]
    fn topic_id_text_with_stray_bits_or_characters_is_refused() {
        for text in [
            "",
            "AAAAAAAAAAAAAAAAAAAAAB",
            "AAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAAAAAAAAAAAAé",
        ] {
            assert_eq!(TopicId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn slots_spread_over_shards() {
        assert_eq!(Slot(5).shard(2), ShardIndex(1));
        assert_eq!(Slot(5).shard(1), ShardIndex(0));
    }
}
