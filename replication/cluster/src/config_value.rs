//! What a configuration value may be: its type, its bound, and the refusal that names both.
//!
//! Owns the check of one value against one rule, for topics here and for the broker's own options. It never knows which
//! options exist.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::Bounds;

/// Longest value of an option, in bytes: what Kafka's own records can hold.
pub const CONFIG_VALUE_BYTES_MAX: usize = 32_767;

/// The type of an option, with Kafka's number for it in DescribeConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigType {
    /// `true` or `false`.
    Boolean = 1,
    /// Text.
    String = 2,
    /// A whole number of 32 bits.
    Int = 3,
    /// A whole number of 16 bits.
    Short = 4,
    /// A whole number of 64 bits.
    Long = 5,
    /// A number with a fraction.
    Double = 6,
    /// Texts with commas between them.
    List = 7,
    /// The name of a Java class.
    Class = 8,
    /// A secret: its value is never told.
    Password = 9,
}

impl ConfigType {
    /// Kafka's number.
    #[must_use]
    pub const fn code(self) -> i8 {
        self as i8
    }

    /// What a value of this type looks like, for messages.
    #[must_use]
    pub const fn form(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::String => "text",
            Self::Int => "a whole number of 32 bits",
            Self::Short => "a whole number of 16 bits",
            Self::Long => "a whole number of 64 bits",
            Self::Double => "a number",
            Self::List => "a list with commas",
            Self::Class => "a class name",
            Self::Password => "a secret",
        }
    }
}

/// What a value of the right type must still satisfy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Allowed {
    /// Everything.
    Any,
    /// A whole number from the first to the second, both included.
    Range(i64, i64),
    /// A number from the first to the second, both included.
    Fraction(f64, f64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of these words; one that stands twice counts once.
    ListOf(&'static [&'static str]),
    /// `*`, or a list of `partition:node`.
    PartitionReplicas,
}

/// Why a value was refused. `broker` answers INVALID_CONFIG (40) with this text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigRefusal {
    /// There is no such option.
    #[error("{name}: unknown option{}", Hint(*nearest))]
    Unknown {
        /// As it was sent, cut to a bound.
        name: String,
        /// A known name like it.
        nearest: Option<&'static str>,
    },
    /// An option without a value.
    #[error("{name}: null is not a value")]
    Null {
        /// The option.
        name: &'static str,
    },
    /// Not of the option's type.
    #[error("{name} = {value}: must be {form}")]
    WrongType {
        /// The option.
        name: &'static str,
        /// As it was sent, cut to a bound.
        value: String,
        /// What it should look like.
        form: &'static str,
    },
    /// Outside the option's range.
    #[error("{name} = {value}: must be {}", Bounds(minimum, maximum))]
    OutOfRange {
        /// The option.
        name: &'static str,
        /// The value.
        value: i64,
        /// The smallest allowed.
        minimum: i64,
        /// The largest allowed.
        maximum: i64,
    },
    /// Outside the option's range of fractions.
    #[error("{name} = {value}: must be {}", Bounds(minimum, maximum))]
    FractionOutOfRange {
        /// The option.
        name: &'static str,
        /// The value.
        value: f64,
        /// The smallest allowed.
        minimum: f64,
        /// The largest allowed.
        maximum: f64,
    },
    /// Not among the words that are allowed.
    #[error("{name} = {value}: must be {}", Words(allowed))]
    NotOneOf {
        /// The option.
        name: &'static str,
        /// As it was sent, cut to a bound.
        value: String,
        /// What is allowed.
        allowed: &'static [&'static str],
    },
    /// Kafka allows it, but what it asks for is not built.
    #[error("{name} = {value}: not supported yet; supported: {}", Words(supported))]
    NotBuilt {
        /// The option.
        name: &'static str,
        /// As it was sent, cut to a bound.
        value: String,
        /// What is supported.
        supported: &'static [&'static str],
    },
    /// Too many bytes.
    #[error("{name}: {bytes} bytes, {maximum} are allowed")]
    TooLong {
        /// The option.
        name: &'static str,
        /// The size that was sent.
        bytes: usize,
        /// The bound.
        maximum: usize,
    },
}

struct Hint(Option<&'static str>);

impl core::fmt::Display for Hint {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(name) => write!(formatter, "; did you mean {name}"),
            None => Ok(()),
        }
    }
}

struct Words<'a>(&'a [&'static str]);

impl core::fmt::Display for Words<'_> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (index, word) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let word = if word.is_empty() { "(empty)" } else { word };
            write!(formatter, "{separator}{word}")?;
        }
        Ok(())
    }
}

/// The value as it is kept (without outer spaces), or why it cannot be.
pub fn check_value<'a>(
    name: &'static str,
    kind: ConfigType,
    allowed: Allowed,
    value: &'a str,
) -> Result<&'a str, ConfigRefusal> {
    let bytes = value.len();
    if bytes > CONFIG_VALUE_BYTES_MAX {
        return Err(ConfigRefusal::TooLong { name, bytes, maximum: CONFIG_VALUE_BYTES_MAX });
    }
    let value = value.trim();
    let wrong_type = || ConfigRefusal::WrongType { name, value: excerpt(value), form: kind.form() };
    match kind {
        ConfigType::Boolean if parse_boolean(value).is_none() => return Err(wrong_type()),
        ConfigType::Int | ConfigType::Short | ConfigType::Long => {
            let number: i64 = value.parse().map_err(|_| wrong_type())?;
            let (minimum, maximum) = match (allowed, kind) {
                (Allowed::Range(minimum, maximum), _) => (minimum, maximum),
                (_, ConfigType::Int) => (i32::MIN.into(), i32::MAX.into()),
                (_, ConfigType::Short) => (i16::MIN.into(), i16::MAX.into()),
                _ => (i64::MIN, i64::MAX),
            };
            if number < minimum || number > maximum {
                return Err(ConfigRefusal::OutOfRange { name, value: number, minimum, maximum });
            }
        }
        ConfigType::Double => {
            let number: f64 = value.parse().map_err(|_| wrong_type())?;
            let (minimum, maximum) = match allowed {
                Allowed::Fraction(minimum, maximum) => (minimum, maximum),
                _ => (f64::MIN, f64::MAX),
            };
            if !(minimum..=maximum).contains(&number) {
                let value = number;
                return Err(ConfigRefusal::FractionOutOfRange { name, value, minimum, maximum });
            }
        }
        _ => {}
    }
    check_words(name, allowed, value)?;
    Ok(value)
}

fn check_words(name: &'static str, allowed: Allowed, value: &str) -> Result<(), ConfigRefusal> {
    let words = |text| list_items(text);
    match allowed {
        Allowed::OneOf(allowed) if !allowed.contains(&value) => {
            Err(ConfigRefusal::NotOneOf { name, value: excerpt(value), allowed })
        }
        Allowed::ListOf(allowed) => {
            if words(value).all(|word| allowed.contains(&word)) {
                return Ok(());
            }
            Err(ConfigRefusal::NotOneOf { name, value: excerpt(value), allowed })
        }
        Allowed::PartitionReplicas => {
            let is_pair = |word: &str| {
                word.split_once(':').is_some_and(|(partition, node)| {
                    partition.parse::<u32>().is_ok() && node.parse::<u32>().is_ok()
                })
            };
            if value == "*" || words(value).all(is_pair) {
                return Ok(());
            }
            let form = "*, or partition:node with commas";
            Err(ConfigRefusal::WrongType { name, value: excerpt(value), form })
        }
        _ => Ok(()),
    }
}

/// Kafka's booleans, in any case.
#[must_use]
pub fn parse_boolean(value: &str) -> Option<bool> {
    if value.eq_ignore_ascii_case("true") {
        return Some(true);
    }
    value.eq_ignore_ascii_case("false").then_some(false)
}

/// The items of a list value, without outer spaces; none for an empty value.
pub fn list_items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// A value in the one form in which it is told, whatever form it was set in: `false` for `FALSE`, `7` for `007`, and each
/// item of a list once. What is not of its type stays as it is.
#[must_use]
pub fn plain_form(kind: ConfigType, value: &str) -> String {
    let plain = match kind {
        ConfigType::Boolean => parse_boolean(value).map(|flag| flag.to_string()),
        ConfigType::Int | ConfigType::Short | ConfigType::Long => {
            value.parse().ok().map(|number: i64| number.to_string())
        }
        ConfigType::Double => value.parse().ok().map(as_java_tells),
        ConfigType::List => {
            let mut seen = BTreeSet::new();
            let once: Vec<&str> = list_items(value).filter(|item| seen.insert(*item)).collect();
            Some(once.join(","))
        }
        ConfigType::String | ConfigType::Class | ConfigType::Password => None,
    };
    plain.unwrap_or_else(|| String::from(value))
}

/// A number as Java writes it: `0.5`, `1.0`, `1.0E7`, `1.0E-4`.
fn as_java_tells(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return format!("{number:?}");
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// As much of a peer's text as a message may repeat.
#[must_use]
pub fn excerpt(text: &str) -> String {
    const EXCERPT_CHARS_MAX: usize = 80;
    text.chars()
        .take(EXCERPT_CHARS_MAX)
        .map(|character| if character.is_control() { '?' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_in_one_form_however_it_was_set() {
        use ConfigType::{Boolean, Double, Int, List, Long, Short, String as Words};
        let rows = [
            (Boolean, "FALSE", "false"),
            (Boolean, "True", "true"),
            (Boolean, "maybe", "maybe"),
            (Int, "007", "7"),
            (Short, "-0", "0"),
            (Long, "+9223372036854775807", "9223372036854775807"),
            (Long, "auto", "auto"),
            (Double, "0.50", "0.5"),
            (Double, "1", "1.0"),
            (Double, "0.00010", "1.0E-4"),
            (Double, "10000000", "1.0E7"),
            (Double, "1.7976931348623157E308", "1.7976931348623157E308"),
            (List, "delete,delete", "delete"),
            (List, " compact , delete ,,compact", "compact,delete"),
            (List, "", ""),
            (Words, "CreateTime", "CreateTime"),
        ];
        for (kind, value, expected) in rows {
            assert_eq!(plain_form(kind, value), expected, "{kind:?} {value:?}");
        }
    }

    #[test]
    fn a_word_of_a_list_may_stand_twice_and_must_be_known() {
        let check = |value| {
            let allowed = Allowed::ListOf(&["compact", "delete"]);
            check_value("cleanup.policy", ConfigType::List, allowed, value).is_ok()
        };
        assert!(check("delete,delete"));
        assert!(check("delete, compact,delete"));
        assert!(check(""));
        assert!(!check("delete,deleted"));
        assert!(!check("DELETE"));
    }
}
