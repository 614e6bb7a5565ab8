//! Why a run could not be made, or could not go on.
//!
//! Owns the list. What a broker refuses batch by batch is no error of the run: it is counted.

use std::io;
use std::time::Duration;

use record::{Offset, PartitionIndex};
use wire::{ApiKey, BodyError, EncodeError, ErrorCode, FrameError, Retry};

use crate::address::Address;
use crate::process::ProcessError;
use crate::workload::WorkloadError;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The workload makes no sense.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The process that was to be watched cannot be.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The name has no address, or nothing listens there.
    #[error("{address}: {source}")]
    Unreachable {
        /// Where.
        address: Address,
        /// The system's answer.
        source: io::Error,
    },
    /// No bootstrap server was given.
    #[error("no broker to ask")]
    NoBootstrap,
    /// The connection ended in the middle.
    #[error("{address}: the connection ended during {api}: {source}")]
    Broken {
        /// With whom.
        address: Address,
        /// Doing what.
        api: ApiKey,
        /// How.
        source: io::Error,
    },
    /// A request could not be sent to its end.
    #[error("the connection ended while a request of {api} was sent: {source}")]
    Sending {
        /// Which.
        api: ApiKey,
        /// The system's answer.
        source: io::Error,
    },
    /// What comes is no answer of Kafka's.
    #[error("{address}: {source}")]
    Frame {
        /// From whom.
        address: Address,
        /// What is wrong with it.
        source: FrameError,
    },
    /// No answer in time.
    #[error("{address}: no answer to {api} within {} ms", within.as_millis())]
    TimedOut {
        /// Of whom.
        address: Address,
        /// To what.
        api: ApiKey,
        /// The time that was allowed.
        within: Duration,
    },
    /// No version that both know.
    #[error("{address}: serves no version of {api} that this client can use")]
    NoCommonVersion {
        /// Whose.
        address: Address,
        /// Of what.
        api: ApiKey,
    },
    /// The answer's bytes are wrong.
    #[error("{address}: the answer to {api} cannot be read: {source}")]
    Malformed {
        /// Whose.
        address: Address,
        /// To what.
        api: ApiKey,
        /// Where and why.
        source: BodyError,
    },
    /// The answer belongs to another request.
    #[error("{address}: an answer numbered {found}, expected {expected}")]
    Numbered {
        /// Whose.
        address: Address,
        /// What it says.
        found: i32,
        /// What was due.
        expected: i32,
    },
    /// The broker said no.
    #[error("{place}: {} ({}){}", code.text(), code.name(), said(message))]
    Refused {
        /// What it was about: a topic, a partition.
        place: String,
        /// Its code.
        code: ErrorCode,
        /// What it added.
        message: Option<String>,
    },
    /// An answer lacks what was asked.
    #[error("{place}: the answer to {api} does not mention it")]
    NotMentioned {
        /// What.
        place: String,
        /// Where it should stand.
        api: ApiKey,
    },
    /// An answer is about something else, or about one thing twice.
    #[error("{place}: the answer to {api} mentions it, which was not asked, or mentions it twice")]
    Unasked {
        /// What.
        place: String,
        /// Where it stands.
        api: ApiKey,
    },
    /// A batch was acknowledged without a place: no audit could look for it.
    #[error("{place}: a batch was acknowledged at offset {}, where none can be", offset.0)]
    Unplaced {
        /// The partition.
        place: String,
        /// What the broker said.
        offset: Offset,
    },
    /// A partition that no topic has, or one twice.
    #[error("{place}: the metadata names it twice, or a number below zero")]
    Layout {
        /// Which.
        place: String,
    },
    /// More than a run can hold.
    #[error("{topic}: {count} {what}: at most {count_max}")]
    TooMany {
        /// Of which topic.
        topic: String,
        /// What there are too many of.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many there may be.
        count_max: usize,
    },
    /// No request could be made.
    #[error("{api}: {source}")]
    Unsendable {
        /// Of what.
        api: ApiKey,
        /// Why.
        source: EncodeError,
    },
    /// Every answer is an error.
    #[error("{code}: {}; {count} batches in a row were refused: the run cannot go on", code.text())]
    OnlyErrors {
        /// How many.
        count: u64,
        /// The last one's code.
        code: ErrorCode,
    },
    /// A partition is led by another broker now.
    #[error(
        "{place}: {} ({}): its leader has moved or the topic is gone",
        code.text(),
        code.name()
    )]
    LeaderMoved {
        /// Which.
        place: String,
        /// What the old one says.
        code: ErrorCode,
    },
    /// Partitions have no leader.
    #[error("{topic}: {count} of its partitions have no leader: {}", listed(partitions, *count))]
    Offline {
        /// Whose.
        topic: String,
        /// The first of them.
        partitions: Vec<PartitionIndex>,
        /// How many.
        count: usize,
    },
    /// A topic that was to be read could not be filled.
    #[error("topic {topic} could not be filled: {reason}")]
    Unfilled {
        /// Which.
        topic: String,
        /// Why.
        reason: String,
    },
    /// There is no record to read.
    #[error("{topic}: has no record")]
    NothingToRead {
        /// Which topic.
        topic: String,
    },
    /// A task of the client ended in a panic.
    #[error("a connection's task ended in a panic")]
    Panicked,
}

/// The first of so many.
fn listed(partitions: &[PartitionIndex], count: usize) -> String {
    let mut text: Vec<String> = partitions.iter().map(ToString::to_string).collect();
    if count > partitions.len() {
        text.push("and others".to_owned());
    }
    text.join(", ")
}

fn said(message: &Option<String>) -> String {
    message.as_ref().map(|message| format!(": {message}")).unwrap_or_default()
}

impl LoadError {
    /// Turns a code of a response into an error, unless it is none.
    pub(crate) fn check(
        place: impl FnOnce() -> String,
        code: ErrorCode,
        message: Option<&str>,
    ) -> Result<(), Self> {
        if code.is_none() {
            return Ok(());
        }
        Err(Self::Refused { place: place(), code, message: message.map(ToOwned::to_owned) })
    }

    /// Whether there is no such topic or partition.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Refused { code: ErrorCode::UnknownTopicOrPartition, .. })
    }

    /// Whether partitions have no leader.
    pub(crate) fn is_offline(&self) -> bool {
        matches!(self, Self::Offline { .. })
    }

    /// Whether it may pass by itself.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Refused { code, .. } => code.retry() == Retry::Safe,
            Self::NotMentioned { .. } | Self::Offline { .. } => true,
            _ => false,
        }
    }
}
