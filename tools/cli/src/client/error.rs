//! What can go wrong between a client and a broker, and what to do about it.
//!
//! Owns the one list, which errors pass by themselves, and the advice. It never retries: [`super::Client`] does.

use std::io;
use std::time::Duration;

use record::NodeId;
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
    /// Nothing listens where a broker says that it is: another address than the one that was given.
    #[error("broker {node} is advertised as {address}, and there: {source}")]
    Misled {
        /// Which.
        node: NodeId,
        /// Where it says that it is.
        address: Address,
        /// The system's answer.
        source: io::Error,
    },
    /// What listens there is no broker, or does not speak plainly.
    #[error("{address}: speaks {speaks}, not Kafka's protocol")]
    Foreign {
        /// Where.
        address: Address,
        /// What it speaks.
        speaks: Speaks,
    },
    /// The connection ended in the middle.
    #[error("{address}: the connection ended during {api}: {reason}")]
    Broken {
        /// With whom.
        address: Address,
        /// Doing what.
        api: ApiKey,
        /// How far it had come.
        delivery: Delivery,
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
        /// How far it had come.
        delivery: Delivery,
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
    #[error("{} ({})", told(place, *code, message.as_deref()), code.name())]
    Refused {
        /// What it was about: a topic, a partition.
        place: String,
        /// Its code.
        code: ErrorCode,
        /// What it added.
        message: Option<String>,
    },
    /// Nobody serves these partitions, and none of them is waited for.
    #[error(
        "{}: offline: {} ({})", listed(places), why_offline(*code, reason.as_deref()), code.name()
    )]
    Offline {
        /// Which; at least one.
        places: Vec<String>,
        /// The code that says so.
        code: ErrorCode,
        /// What the broker added.
        reason: Option<String>,
    },
    /// A topic's answer lacks what was asked.
    #[error("{place}: the answer does not mention it")]
    NotMentioned {
        /// What.
        place: String,
    },
    /// The cluster has no such node.
    #[error("no node {node}; there are: {}", listed(known))]
    NoSuchNode {
        /// Which.
        node: NodeId,
        /// Those that there are.
        known: Vec<NodeId>,
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

/// How far a request came before its connection was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The system did not take all of it: nobody has acted on it.
    Unsent,
    /// It may have arrived.
    Sent,
}

/// What may be found at a port that is not Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// TLS.
    Tls,
    /// HTTP.
    Http,
    /// Something else.
    Other,
}

impl std::fmt::Display for Speaks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Tls => "TLS",
            Self::Http => "HTTP",
            Self::Other => "something else",
        })
    }
}

fn shown(versions: Option<Versions>) -> String {
    versions.map_or_else(|| "no version".to_owned(), |versions| format!("versions {versions}"))
}

/// The broker's own words, or the protocol's where it adds none.
fn said(code: ErrorCode, message: Option<&str>) -> String {
    message.filter(|message| !message.is_empty()).unwrap_or_else(|| code.text()).to_owned()
}

/// The same behind what it is about, which brokers name by themselves at times.
fn told(place: &str, code: ErrorCode, message: Option<&str>) -> String {
    let said = said(code, message);
    let name = place.strip_prefix("topic ").unwrap_or(place);
    let kinds = ["topic name ", "topic ", ""];
    let is_named = kinds.iter().any(|kind| {
        let rest = said.strip_prefix(kind).and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with(": "))
    });
    if is_named { said } else { format!("{place}: {said}") }
}

fn why_offline(code: ErrorCode, reason: Option<&str>) -> String {
    match (code, reason.filter(|reason| !reason.is_empty())) {
        (_, Some(reason)) => reason.to_owned(),
        (ErrorCode::LeaderNotAvailable, None) => "no broker leads it".to_owned(),
        (_, None) => "its node cannot open the log".to_owned(),
    }
}

/// Some of them: clusters may have thousands of nodes, where each core is a broker, and of partitions.
pub(crate) fn listed(items: &[impl ToString]) -> String {
    const LISTED_MAX: usize = 10;
    let shown: Vec<String> = items.iter().take(LISTED_MAX).map(ToString::to_string).collect();
    match items.len().saturating_sub(LISTED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
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
            Self::Refused { code, .. } | Self::Offline { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether there is no such topic or partition.
    pub(crate) fn is_absence(&self) -> bool {
        self.code() == Some(ErrorCode::UnknownTopicOrPartition)
    }

    /// Whether what `asked` asks for may have been done all the same, or still be done. What a client asks before, of the
    /// versions that a broker knows above all, may fail too, and changes nothing.
    pub(crate) fn may_be_done(&self, asked: ApiKey) -> bool {
        match self {
            Self::Broken { api, delivery, .. } | Self::TimedOut { api, delivery, .. } => {
                *api == asked && *delivery == Delivery::Sent
            }
            Self::Refused { code, .. } => matches!(
                code,
                ErrorCode::RequestTimedOut
                    | ErrorCode::NetworkException
                    | ErrorCode::KafkaStorageError
            ),
            _ => false,
        }
    }

    /// Whether it may pass when the metadata is asked for again and the request repeated.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Misled { .. } | Self::Broken { .. } => true,
            Self::Refused { code, .. } => code.retry() == Retry::Safe,
            _ => false,
        }
    }

    /// Whether the other end closed the connection before it had answered anything.
    pub(crate) fn is_hang_up(&self) -> bool {
        matches!(self, Self::Broken { api: ApiKey::ApiVersions, .. })
    }

    fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::Unreachable { source, .. } => advice_for_address(source.kind()),
            Self::Misled { .. } => {
                "see whether that broker runs; if it does, it is advertised where clients cannot reach it: \
                 corelog doctor explains, its advertised.listeners mends it"
            }
            Self::Foreign { speaks, .. } => match speaks {
                Speaks::Tls => {
                    "this client has no TLS yet: name a plaintext listener with -b HOST:PORT"
                }
                Speaks::Http => {
                    "a web server, maybe a node's admin.listen: name Kafka's port with -b HOST:PORT, the one \
                     behind kafka= in the ready line of serve"
                }
                Speaks::Other => {
                    "name Kafka's port with -b HOST:PORT, the one behind kafka= in the ready line of serve"
                }
            },
            Self::Broken { .. } if self.is_hang_up() => HANG_UP_ADVICE,
            Self::Broken { .. } => BROKEN_ADVICE,
            Self::TimedOut { .. } => LATE_ADVICE,
            Self::NoCommonVersion { .. } => "use a corelog of about the node's age",
            Self::Refused { code, .. } => return advice_for(*code).map(str::to_owned),
            Self::Malformed { .. } => BUG_ADVICE,
            Self::Offline { code: ErrorCode::LeaderNotAvailable, .. } => {
                "bring back a node that holds it: corelog topic describe shows its replicas, corelog cluster describe \
                 the nodes that run"
            }
            Self::Offline { .. } => OFFLINE_ADVICE,
            Self::NotMentioned { .. } => {
                "corelog cluster describe shows the brokers, corelog topic list the topics"
            }
            Self::NoSuchNode { .. } => "corelog cluster describe shows where each of them is",
            Self::Unsendable { .. } => {
                "corelog topic describe shows the partitions, corelog cluster describe the brokers"
            }
        };
        Some(advice.to_owned())
    }
}

/// What to do where a connection is closed before a byte has come.
pub(crate) const HANG_UP_ADVICE: &str = "a node closes at once what is beyond max.connections or, of one address, \
    max.connections.per.ip, and its log says so: close other clients, or raise them; if it does not, this is not its Kafka \
    port, or the node is stopping";

/// What to do about partitions whose log cannot be opened.
pub(crate) const OFFLINE_ADVICE: &str = "the node's log says why (offline: ...): a full disk and a lack of file descriptors pass by \
    themselves, once there is room; otherwise stop it, bring back from a copy what is missing or damaged (corelog log verify DIR \
    names it) and start it again (docs/operations.md, \"A partition is offline\")";

/// What to do where a connection ended in the middle.
pub(crate) const BROKEN_ADVICE: &str = "see the node's log: it names the connection and why it was closed; if it does not, this is not \
     its Kafka port, or the node is stopping";

/// What to do where nothing was answered in time.
pub(crate) const LATE_ADVICE: &str =
    "see whether the node is busy or stopped, or allow more time with --timeout-ms";

/// What to do with an answer that cannot be.
pub(crate) const BUG_ADVICE: &str = "a bug of the client or the broker: report it with the output of corelog version and corelog apis";

/// What to do where nobody answers at an address.
pub(crate) fn advice_for_address(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there: start a node (corelog serve), or name the right port with -b HOST:PORT"
        }
        // What `dial` says where there is no address to try.
        io::ErrorKind::NotFound => {
            "correct the name in -b HOST:PORT, or give the broker's IP address"
        }
        io::ErrorKind::TimedOut
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => {
            "no way leads there: correct -b HOST:PORT, or open the firewall; a node listens on 127.0.0.1 \
             unless its listeners say otherwise"
        }
        _ => "start a node (corelog serve), or name one with -b HOST:PORT",
    }
}

/// What to do about a broker's refusal.
pub(crate) fn advice_for(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::UnknownTopicOrPartition => {
            "corelog topic list shows what is there, corelog topic create makes one"
        }
        ErrorCode::TopicAlreadyExists => "use it as it is, or pass --if-not-exists",
        ErrorCode::InvalidTopicException => {
            "use 1 to 249 letters, digits, dots, underscores or dashes"
        }
        ErrorCode::OffsetOutOfRange => {
            "corelog offsets TOPIC shows what there is: the first offset of each partition, and where it ends"
        }
        ErrorCode::MessageTooLarge => {
            "send less in one record, or raise the bound: corelog topic alter TOPIC -c max.message.bytes=N"
        }
        ErrorCode::RecordListTooLarge => {
            "send less in one record, or raise the bound: corelog topic alter TOPIC -c segment.bytes=N"
        }
        ErrorCode::KafkaStorageError => {
            "see the node's log and corelog_disk_free_bytes of its metrics: the disk is full, and with space it goes on by \
             itself, or it is failing, and needs a restart of the node once it is mended (docs/operations.md)"
        }
        ErrorCode::CorruptMessage => {
            "the records at that offset are damaged on disk: corelog log verify shows how far; \
             --offset N starts behind them"
        }
        ErrorCode::InvalidReplicationFactor => "there are fewer nodes than replicas: ask for fewer",
        ErrorCode::InvalidPartitions => {
            "corelog topic describe shows how many there are: there can only be more"
        }
        ErrorCode::InvalidConfig => {
            "corelog config explain KEY says what an option may be; corelog config describe --all lists them, with \
             --topic NAME, --node ID or --all-nodes"
        }
        ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend => {
            "corelog topic describe shows who is in sync: bring nodes back, or lower min.insync.replicas"
        }
        ErrorCode::LeaderNotAvailable | ErrorCode::NotLeaderOrFollower => {
            "corelog topic describe shows the leaders; see the log of the node that should lead"
        }
        ErrorCode::RequestTimedOut => {
            "see whether the node's disk keeps up, or allow more time with --timeout-ms"
        }
        ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::SaslAuthenticationFailed => {
            "the cluster allows it to certain users only, and this client has no user yet: ask its administrator, or \
             use a client that can log in"
        }
        _ => return None,
    })
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Unreachable { .. }
            | ClientError::Misled { .. }
            | ClientError::Foreign { .. }
            | ClientError::Broken { .. }
            | ClientError::NoCommonVersion { .. }
            | ClientError::Malformed { .. } => Exit::Unreachable,
            ClientError::TimedOut { .. } => Exit::TimedOut,
            ClientError::Refused { .. }
            | ClientError::Offline { .. }
            | ClientError::NotMentioned { .. }
            | ClientError::NoSuchNode { .. }
            | ClientError::Unsendable { .. } => Exit::Refused,
        };
        let failure = Self::new(exit, error.to_string());
        match error.advice() {
            Some(advice) => failure.advise(advice),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address { host: "b".into(), port: 1 }
    }

    #[test]
    fn each_way_not_to_reach_a_broker_has_its_own_advice() {
        let next = |kind: io::ErrorKind| {
            let error = ClientError::Unreachable { address: address(), source: kind.into() };
            Failure::from(error).next.unwrap()
        };
        assert!(next(io::ErrorKind::ConnectionRefused).contains("corelog serve"));
        assert!(next(io::ErrorKind::NotFound).contains("name"));
        assert!(next(io::ErrorKind::TimedOut).contains("firewall"));
        let source = io::ErrorKind::ConnectionRefused.into();
        let misled = ClientError::Misled { node: NodeId(1), address: address(), source };
        let misled = Failure::from(misled);
        assert_eq!(misled.exit, Exit::Unreachable);
        assert!(misled.fact.starts_with("broker 1 is advertised as b:1"), "{}", misled.fact);
        assert!(misled.next.unwrap().contains("advertised.listeners"));
        let foreign = |speaks| {
            Failure::from(ClientError::Foreign { address: address(), speaks }).next.unwrap()
        };
        assert!(foreign(Speaks::Tls).contains("plaintext"));
        assert!(foreign(Speaks::Http).contains("admin.listen"));
        assert!(foreign(Speaks::Other).contains("kafka="));
    }

    #[test]
    fn a_refusal_gives_the_brokers_own_words_and_the_protocols_only_for_want_of_them() {
        let said = |message| {
            ClientError::check("t", ErrorCode::InvalidConfig, message).unwrap_err().to_string()
        };
        assert_eq!(
            said(Some("x = 1: must be 2 to 3")),
            "t: x = 1: must be 2 to 3 (INVALID_CONFIG)"
        );
        let protocols = format!("t: {} (INVALID_CONFIG)", ErrorCode::InvalidConfig.text());
        assert_eq!([said(None), said(Some(""))], [protocols.clone(), protocols]);
        // What it is about is named once.
        assert_eq!(said(Some("topic t: is gone")), "topic t: is gone (INVALID_CONFIG)");
        assert_eq!(said(Some("topic name t: is none")), "topic name t: is none (INVALID_CONFIG)");
        assert_eq!(said(Some("t: is gone")), "t: is gone (INVALID_CONFIG)");
        assert_eq!(said(Some("topic tt: is gone")), "t: topic tt: is gone (INVALID_CONFIG)");
    }

    #[test]
    fn partitions_that_nobody_serves_are_named_with_why_and_what_to_do() {
        let check = |places: &[&str], code, reason: Option<&str>, fact: &str, next: &str| {
            let places = places.iter().map(ToString::to_string).collect();
            let reason = reason.map(str::to_owned);
            let failure = Failure::from(ClientError::Offline { places, code, reason });
            assert_eq!((failure.exit, &failure.fact[..]), (Exit::Refused, fact));
            assert!(failure.next.unwrap().contains(next), "{fact}");
        };
        let (storage, leader) = (ErrorCode::KafkaStorageError, ErrorCode::LeaderNotAvailable);
        let fact = "t-0, t-2: offline: its node cannot open the log (KAFKA_STORAGE_ERROR)";
        check(&["t-0", "t-2"], storage, None, fact, "corelog log verify");
        let fact = "t-0: offline: topics/t-0: missing (KAFKA_STORAGE_ERROR)";
        check(&["t-0"], storage, Some("topics/t-0: missing"), fact, "start it again");
        let fact = "t-0: offline: no broker leads it (LEADER_NOT_AVAILABLE)";
        check(&["t-0"], leader, None, fact, "bring back a node");
    }

    #[test]
    fn a_node_that_is_not_there_is_refused_with_those_that_are_within_a_bound() {
        let failure =
            |known: Vec<NodeId>| Failure::from(ClientError::NoSuchNode { node: NodeId(99), known });
        assert_eq!(failure(vec![NodeId(1), NodeId(4)]).fact, "no node 99; there are: 1, 4");
        let many = failure((0..12).map(NodeId).collect());
        assert!(many.fact.ends_with("8, 9 and 2 more"), "{}", many.fact);
        assert_eq!(many.exit, Exit::Refused);
    }

    #[test]
    fn refusals_that_a_person_meets_say_what_to_do() {
        for (code, word) in [
            (ErrorCode::UnknownTopicOrPartition, "topic create"),
            (ErrorCode::InvalidConfig, "config explain"),
            (ErrorCode::MessageTooLarge, "max.message.bytes"),
            (ErrorCode::RecordListTooLarge, "segment.bytes"),
            (ErrorCode::KafkaStorageError, "disk"),
            (ErrorCode::TopicAuthorizationFailed, "administrator"),
            (ErrorCode::ClusterAuthorizationFailed, "administrator"),
            (ErrorCode::InvalidPartitions, "topic describe"),
            (ErrorCode::NotEnoughReplicas, "min.insync.replicas"),
            (ErrorCode::RequestTimedOut, "--timeout-ms"),
        ] {
            let error = ClientError::check("t-0", code, None).unwrap_err();
            let next = Failure::from(error).next.unwrap_or_default();
            assert!(next.contains(word), "{code:?}: {next}");
        }
    }
}
