//! What is wrong with a configuration, and where.
//!
//! Owns the messages: place, key, value, bound, nearest known key. A file is refused with all its errors, in the order of its
//! lines.

use std::fmt;

use cluster::ConfigRefusal;

use super::overlap::Overlap;

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line of the file.
    File {
        /// The file's name, as it was given.
        name: String,
        /// The line, from 1.
        line: usize,
    },
    /// A variable of the environment.
    Environment {
        /// The variable's name.
        name: String,
    },
    /// A flag of the command line: `--set` or one that stands for an option.
    Flag {
        /// The flag.
        name: String,
    },
    /// Nowhere.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(formatter, "{name}:{line}"),
            Self::Environment { name } => write!(formatter, "environment {name}"),
            Self::Flag { name } => write!(formatter, "{name}"),
            Self::Default => write!(formatter, "default"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML.
    #[error("{place}: {message}{hint}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser says, in one line.
        message: String,
        /// What may help.
        hint: &'static str,
    },
    /// The file is too large to be one.
    #[error("{name}: {bytes} bytes, a configuration may have {maximum}")]
    TooLarge {
        /// The file.
        name: String,
        /// Its size.
        bytes: usize,
        /// The bound.
        maximum: usize,
    },
    /// No such option.
    #[error("{place}: {key}: unknown option{}", hint(*nearest))]
    UnknownKey {
        /// Where.
        place: Place,
        /// The key, cut to a bound.
        key: String,
        /// A known key like it.
        nearest: Option<&'static str>,
    },
    /// An option of Kafka's that does nothing here.
    #[error("{place}: {key}: an option of Kafka's that has no effect in Corelog; remove it")]
    KafkaOnly {
        /// Where.
        place: Place,
        /// The key.
        key: &'static str,
    },
    /// A value of another type than the option's.
    #[error("{place}: {key} = {value}: must be {form}")]
    WrongType {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// The value, cut to a bound.
        value: String,
        /// What it should look like.
        form: String,
    },
    /// A value outside the option's bound.
    #[error("{place}: {refusal}{in_words}")]
    Value {
        /// Where.
        place: Place,
        /// Which bound.
        refusal: ConfigRefusal,
        /// The bound in larger units; empty where that says nothing more.
        in_words: String,
    },
    /// The same option twice in one source, by two of its names or two spellings.
    #[error("{place}: {key}: set already at {first}")]
    Twice {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// Where it was set before.
        first: Place,
    },
    /// `--set` without a key and a value.
    #[error("--set {text}: must be KEY=VALUE")]
    SetForm {
        /// What followed, cut to a bound.
        text: String,
    },
    /// Not an address to bind.
    #[error("{place}: {key} = {value}: {problem}")]
    Address {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// The value, cut to a bound.
        value: String,
        /// What is wrong with it.
        problem: AddressProblem,
    },
    /// Not a limit of an address.
    #[error("{place}: max.connections.per.ip.overrides = {item}: {problem}")]
    AddressLimit {
        /// Where.
        place: Place,
        /// The item, cut to a bound.
        item: String,
        /// What is wrong with it.
        problem: AddressLimitProblem,
    },
    /// Two addresses of the node are the same.
    #[error("{place}: {overlap}")]
    Overlap {
        /// Where the listeners were set.
        place: Place,
        /// Which, and where.
        overlap: Overlap,
    },
    /// Not an address to advertise.
    #[error("{place}: {key} = {value}: {problem}")]
    Advertised {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// The value, cut to a bound.
        value: String,
        /// What is wrong with it.
        problem: AdvertisedProblem,
    },
    /// A listener that contradicts itself or another.
    #[error("{place}: listener {listener}: {problem}")]
    Listener {
        /// Where.
        place: Place,
        /// Its name, cut to a bound.
        listener: String,
        /// What is wrong.
        problem: ListenerProblem,
    },
    /// A filter in which a word is no level: it would be taken for a module's name, and everything else be silent.
    #[error(
        "{place}: trace.filter = {value}: must be a level (off, error, warn, info, debug, trace), or MODULE=LEVEL, separated \
         by commas"
    )]
    TraceFilter {
        /// Where.
        place: Place,
        /// The value, cut to a bound.
        value: String,
    },
    /// Not one directory.
    #[error("{place}: data.dir = {value:?}: {problem}")]
    DataDir {
        /// Where.
        place: Place,
        /// The value, cut to a bound.
        value: String,
        /// What is wrong with it.
        problem: DataDirProblem,
    },
    /// An option of the node among the fields of a listener: TOML takes what follows a table's head for the table's.
    #[error(
        "{place}: {key}: no field of a listener; an option of the node stands above the first [table] or [[listeners]]"
    )]
    Misplaced {
        /// Where.
        place: Place,
        /// The key as it stands there, cut to a bound.
        key: String,
    },
    /// Roles that this version cannot separate.
    #[error("{place}: process.roles: must be broker,coordinator: one node has both roles for now")]
    Roles {
        /// Where.
        place: Place,
    },
}

/// What can be wrong with the data directory's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DataDirProblem {
    /// No name at all.
    #[error("the value is empty: give the path of a directory")]
    Empty,
    /// Kafka's list of several.
    #[error("one directory only, and no comma in its name: a node keeps everything in one place")]
    Several,
}

/// What can be wrong with an address to bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressProblem {
    /// Not of the form.
    #[error("must be IP:PORT, such as 127.0.0.1:9092 or [::1]:9092")]
    Form,
    /// A name instead of an address.
    #[error(
        "a host name cannot be bound: give an address of this machine, or 0.0.0.0 (and [::] with IPv6) for all of them; the \
         name that clients use belongs into advertised.listeners"
    )]
    Name,
    /// An IPv6 address without its brackets.
    #[error("an IPv6 address stands in brackets, such as [::1]:9092")]
    Brackets,
    /// A number that is no port.
    #[error("the port must be 0 to 65535")]
    Port,
}

/// What can be wrong with the limit of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressLimitProblem {
    /// Not of the form.
    #[error("must be HOST:COUNT, such as 127.0.0.1:200, ::1:3 or client1.example.org:50")]
    Form,
    /// A count out of its bound.
    #[error("the count must be 0 to 2147483647")]
    Count,
    /// Another item is about the same host.
    #[error("the host stands twice")]
    Twice,
}

/// What can be wrong with an address to advertise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdvertisedProblem {
    /// Not of the form.
    #[error("must be HOST:PORT, such as broker1.example.org:9092")]
    Form,
    /// Every address is no address.
    #[error(
        "0.0.0.0 and [::] are where a listener binds; here must be the name or address by which clients reach this machine"
    )]
    Wildcard,
    /// An IPv6 address without its brackets.
    #[error("an IPv6 address stands in brackets, such as [2001:db8::7]:9092")]
    Brackets,
}

/// What can be wrong with a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ListenerProblem {
    /// Another has the same name.
    #[error("the name stands twice")]
    NameTwice,
    /// No bind address.
    #[error("bind is missing")]
    NoBind,
    /// The name is empty, too long, or has other characters.
    #[error("a name has 1 to 64 letters, digits, '_', '-' or '.'")]
    Name,
    /// Its name promises what it does not do.
    #[error(
        "a listener of this name would be taken for an encrypted or authenticated one, and only PLAINTEXT is supported yet"
    )]
    SecureName,
    /// A protocol that is not built.
    #[error("security: only PLAINTEXT is supported yet")]
    Security,
    /// `advertised.listeners` names a listener that is not there.
    #[error("advertised, but not among the listeners")]
    NotThere,
    /// No listener at all, or too many.
    #[error("there must be 1 to 64 listeners")]
    Count,
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Sorts the errors by their place.
    pub(crate) fn new(mut errors: Vec<ConfigError>) -> Self {
        assert!(!errors.is_empty());
        errors.sort_by(|left, right| left.place().cmp(&right.place()));
        Self(errors)
    }

    /// Each of them, by place.
    #[must_use]
    pub fn errors(&self) -> &[ConfigError] {
        &self.0
    }
}

impl ConfigError {
    /// Whether it is about what one option may be, which `corelog config explain` tells.
    #[must_use]
    pub const fn is_about_an_option(&self) -> bool {
        matches!(self, Self::UnknownKey { .. } | Self::WrongType { .. } | Self::Value { .. })
    }

    fn place(&self) -> Option<&Place> {
        match self {
            Self::Syntax { place, .. }
            | Self::UnknownKey { place, .. }
            | Self::KafkaOnly { place, .. }
            | Self::WrongType { place, .. }
            | Self::Value { place, .. }
            | Self::Twice { place, .. }
            | Self::Address { place, .. }
            | Self::AddressLimit { place, .. }
            | Self::Overlap { place, .. }
            | Self::Advertised { place, .. }
            | Self::Listener { place, .. }
            | Self::TraceFilter { place, .. }
            | Self::DataDir { place, .. }
            | Self::Misplaced { place, .. }
            | Self::Roles { place } => Some(place),
            Self::TooLarge { .. } | Self::SetForm { .. } => None,
        }
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; did you mean {key}"))
}

/// A file that is none of ours has an error in nearly every line: what fills a screen says so as well as all of them.
const ERRORS_SHOWN_MAX: usize = 50;

fn lines(errors: &[ConfigError]) -> String {
    let mut lines: Vec<_> =
        errors.iter().take(ERRORS_SHOWN_MAX).map(ConfigError::to_string).collect();
    if errors.len() > ERRORS_SHOWN_MAX {
        lines.push(format!("and {} more errors", errors.len() - ERRORS_SHOWN_MAX));
    }
    lines.join("\n")
}
