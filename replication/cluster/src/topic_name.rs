//! Names of topics: which are legal, and which Kafka's metric names would confuse (MD-5).
//!
//! Owns the rule. A name that passes is also a safe directory name: no separator, no parent, no empty name.

use alloc::borrow::ToOwned;
use alloc::string::String;

use crate::config_value::excerpt;

/// Longest name, in bytes: a directory name takes 255, and `-` and a partition of up to five digits follow.
pub const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Topics that the cluster keeps for itself; clients may see them marked as internal.
pub const INTERNAL_TOPICS: [&str; 3] =
    ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// The name of Kafka's own metadata topic, which nobody may create.
pub const METADATA_TOPIC: &str = "__cluster_metadata";

/// Why a name is not one (INVALID_TOPIC_EXCEPTION, 17).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameRefusal {
    /// No characters, or too many.
    #[error("topic name of {bytes} bytes: must be 1 to {TOPIC_NAME_BYTES_MAX}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// `.` or `..`.
    #[error("topic name {name}: is a directory of its own")]
    Dots {
        /// The name.
        name: String,
    },
    /// A character outside ASCII letters, digits, `.`, `_` and `-`.
    #[error("topic name {name}: character {character:?} is not a letter, digit, '.', '_' or '-'")]
    Character {
        /// The name, cut to a bound.
        name: String,
        /// The first such character.
        character: char,
    },
    /// Equal to an existing name once `.` and `_` count as the same.
    #[error("topic name {name}: collides with {other}, since '.' and '_' count as the same")]
    Collision {
        /// The name.
        name: String,
        /// The topic that is there.
        other: String,
    },
}

/// Whether `name` may name a topic.
pub fn check_topic_name(name: &str) -> Result<(), NameRefusal> {
    let is_legal = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if name.is_empty() || name.len() > TOPIC_NAME_BYTES_MAX {
        return Err(NameRefusal::Length { bytes: name.len() });
    }
    if name == "." || name == ".." {
        return Err(NameRefusal::Dots { name: name.to_owned() });
    }
    match name.chars().find(|character| !is_legal(*character)) {
        Some(character) => Err(NameRefusal::Character { name: excerpt(name), character }),
        None => Ok(()),
    }
}

/// Whether Kafka's clients must be told that this topic is internal (MD-4).
#[must_use]
pub fn is_internal_topic(name: &str) -> bool {
    INTERNAL_TOPICS.contains(&name)
}

/// The form under which two names collide, for names that can collide at all.
pub(crate) fn collision_form(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_and_illegal_names() {
        let check = |name: &str, is_legal: bool| {
            assert_eq!(check_topic_name(name).is_ok(), is_legal, "{name}");
        };
        check("a", true);
        check("Az09._-", true);
        check("...", true);
        check(&"x".repeat(249), true);
        check(&"x".repeat(250), false);
        for name in ["", ".", "..", "a/b", "a b", "a\0", "ä", "a\n", "a:b", "a\\b"] {
            check(name, false);
        }
    }

    #[test]
    fn only_names_with_a_dot_or_an_underscore_have_a_collision_form() {
        assert_eq!(collision_form("a.b_c").as_deref(), Some("a_b_c"));
        assert_eq!(collision_form("abc-d"), None);
    }
}
