//! What can go wrong between a client and a broker, and what to do about it.
//!
//! Owns the one list, which errors pass by themselves, and the advice. It never retries: [`super::Client`] does.

use std::io;
use std::time::Duration;

use wire::{ApiKey, BodyError, ErrorCode, Retry, Versions};

use crate::client::address::Address;
use crate::exit::{Exit, Failure};

/// Why a request has no answer, or a bad one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The name has no address, or nothing listens there.
    #[error("{address}: {source}")]
    Unreachable {
        /// Where.
        address: Address,
        /// The system's answer.
        source: io::Error,
    },
    /// The connection ended in the middle.
    #[error("{address}: the connection ended during {api}: {reason}")]
    Broken {
        /// With whom.
        address: Address,
        /// Doing what.
        api: ApiKey,
        /// How.
        reason: String,
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
    #[error("{address}: serves {api} in {}, and this client knows {ours}", shown(*theirs))]
    NoCommonVersion {
        /// Whose.
        address: Address,
        /// Of what.
        api: ApiKey,
        /// What it serves; `None` for not at all.
        theirs: Option<Versions>,
        /// What the client can read and write.
        ours: Versions,
    },
    /// The answer's bytes are wrong.
    #[error("{address}: the answer to {api} v{version} cannot be read: {source}")]
    Malformed {
        /// Whose.
        address: Address,
        /// To what.
        api: ApiKey,
        /// In which version.
        version: i16,
        /// Where and why.
        source: BodyError,
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
    /// A topic's answer lacks what was asked.
    #[error("{place}: the answer does not mention it")]
    NotMentioned {
        /// What.
        place: String,
    },
    /// No request could be made of it.
    #[error("{place}: {reason}")]
    Unsendable {
        /// What.
        place: String,
        /// Why.
        reason: String,
    },
}

fn shown(versions: Option<Versions>) -> String {
    versions.map_or_else(|| "no version".to_owned(), |versions| format!("versions {versions}"))
}

fn said(message: &Option<String>) -> String {
    message.as_ref().map(|message| format!(": {message}")).unwrap_or_default()
}

impl ClientError {
    /// Turns a code of a response into an error, unless it is none.
    pub(crate) fn check(place: &str, code: ErrorCode, message: Option<&str>) -> Result<(), Self> {
        if code == ErrorCode::None {
            return Ok(());
        }
        Err(Self::Refused {
            place: place.to_owned(),
            code,
            message: message.map(ToOwned::to_owned),
        })
    }

    /// The code that a broker answered, where it is that.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether it may pass when the metadata is asked for again and the request repeated.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } => true,
            Self::Refused { code, .. } => code.retry() == Retry::Safe,
            _ => false,
        }
    }

    fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::Unreachable { address, .. } => {
                format!(
                    "start a node (corelog serve), or name one with -b HOST:PORT (tried {address})"
                )
            }
            Self::Broken { .. } => {
                "see the node's log: it names the connection and why it was closed; is this its Kafka port?"
                    .to_owned()
            }
            Self::TimedOut { .. } => {
                "see whether the node is busy or stopped, or allow more time with --timeout-ms".to_owned()
            }
            Self::NoCommonVersion { .. } => "use a corelog of about the node's age".to_owned(),
            Self::Refused { code, .. } => return advice_for(*code),
            Self::Malformed { .. } | Self::NotMentioned { .. } | Self::Unsendable { .. } => {
                return None;
            }
        };
        Some(advice)
    }
}

fn advice_for(code: ErrorCode) -> Option<String> {
    let advice = match code {
        ErrorCode::UnknownTopicOrPartition => {
            "corelog topic list shows what is there, corelog topic create makes one"
        }
        ErrorCode::TopicAlreadyExists => "use it as it is, or pass --if-not-exists",
        ErrorCode::InvalidTopicException => {
            "use 1 to 249 letters, digits, dots, underscores or dashes"
        }
        ErrorCode::OffsetOutOfRange => {
            "corelog topic describe shows the offsets there are; --offset beginning starts at the first"
        }
        ErrorCode::MessageTooLarge => {
            "raise the topic's max.message.bytes, or send less in one record"
        }
        ErrorCode::KafkaStorageError => {
            "see the node's log: its disk is full, read-only or failing"
        }
        ErrorCode::CorruptMessage => {
            "the records at that offset are damaged on disk: corelog log verify shows how far; \
             --offset N starts behind them"
        }
        ErrorCode::InvalidReplicationFactor => "there are fewer nodes than replicas: ask for fewer",
        _ => return None,
    };
    Some(advice.to_owned())
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Unreachable { .. }
            | ClientError::Broken { .. }
            | ClientError::NoCommonVersion { .. }
            | ClientError::Malformed { .. } => Exit::Unreachable,
            ClientError::TimedOut { .. } => Exit::TimedOut,
            ClientError::Refused { .. }
            | ClientError::NotMentioned { .. }
            | ClientError::Unsendable { .. } => Exit::Refused,
        };
        let failure = Self::new(exit, error.to_string());
        match error.advice() {
            Some(advice) => failure.advise(advice),
            None => failure,
        }
    }
}
