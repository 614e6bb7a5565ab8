//! From the broker's refusals to Kafka's error codes: the only place where one becomes the other.
//!
//! Owns [`ToErrorCode`]. A retriable code is used for every state that passes, so that applications wait rather than stop.

use cluster::{AlterRefusal, CreateRefusal, DeleteRefusal, FeatureRefusal, GrowthRefusal};
use partition::{EndReason, SequenceRefusal};
use wire::{ApiKey, ErrorCode};

use crate::drivers::metadata_log::MetadataLogError;
use crate::fetch_sessions::SessionRefusal;
use crate::metrics::SeriesNames;
use crate::refusal::{
    DeleteRecordsRefusal, DescribeProducersRefusal, FetchRefusal, ListOffsetsRefusal,
    ProduceRefusal,
};

/// What `/metrics` calls the APIs and the errors it counts by.
pub(crate) const SERIES_NAMES: SeriesNames = SeriesNames {
    api: |key| ApiKey::from_key(key).map(|api| api.api().name),
    error: |code| Some(ErrorCode::from_code(code).name()),
};

/// The code that a response carries for a refusal.
pub(crate) trait ToErrorCode {
    /// See the trait.
    fn error_code(&self) -> ErrorCode;
}

impl ToErrorCode for EndReason {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::LeadershipLost | Self::ShuttingDown => ErrorCode::NotLeaderOrFollower,
            Self::LogFailed | Self::DiskFull => ErrorCode::KafkaStorageError,
            Self::Deleted => ErrorCode::UnknownTopicOrPartition,
        }
    }
}

impl ToErrorCode for SequenceRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::StaleEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            Self::OutOfOrder { .. } => ErrorCode::OutOfOrderSequenceNumber,
            Self::Incomplete { .. } | Self::Control => ErrorCode::InvalidRecord,
            Self::Transaction { .. } => ErrorCode::InvalidTxnState,
        }
    }
}

impl ToErrorCode for ProduceRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::InvalidAcks => ErrorCode::InvalidRequiredAcks,
            Self::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
            Self::UnknownTopicId => ErrorCode::UnknownTopicId,
            Self::TopicAuthorization => ErrorCode::TopicAuthorizationFailed,
            Self::TransactionalIdAuthorization => ErrorCode::TransactionalIdAuthorizationFailed,
            Self::InvalidTransactionState => ErrorCode::InvalidTxnState,
            Self::InternalTopic => ErrorCode::InvalidTopicException,
            // Too many waiters passes like a leader that moves: the client refreshes and tries again.
            Self::NotLeader | Self::Busy { .. } => ErrorCode::NotLeaderOrFollower,
            Self::NotEnoughReplicas { .. } => ErrorCode::NotEnoughReplicas,
            Self::NotEnoughReplicasAfterAppend { .. } => ErrorCode::NotEnoughReplicasAfterAppend,
            Self::TooLarge { .. } | Self::ExpandsTooFar { .. } => ErrorCode::MessageTooLarge,
            Self::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
            Self::Corrupt { .. } => ErrorCode::CorruptMessage,
            Self::InvalidRecord { .. } => ErrorCode::InvalidRecord,
            Self::InvalidTimestamp { .. } => ErrorCode::InvalidTimestamp,
            Self::UnsupportedCompression => ErrorCode::UnsupportedCompressionType,
            Self::Sequence(refusal) => refusal.error_code(),
            Self::Storage { .. } => ErrorCode::KafkaStorageError,
            Self::TimedOut { .. } | Self::Overdue { .. } => ErrorCode::RequestTimedOut,
            Self::Failed => ErrorCode::UnknownServerError,
            Self::Ended(reason) => reason.error_code(),
        }
    }
}

impl ToErrorCode for FetchRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
            Self::UnknownTopicId => ErrorCode::UnknownTopicId,
            Self::InconsistentTopicId => ErrorCode::InconsistentTopicId,
            Self::TopicAuthorization => ErrorCode::TopicAuthorizationFailed,
            Self::NotLeader => ErrorCode::NotLeaderOrFollower,
            Self::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            Self::FencedEpoch { .. } => ErrorCode::FencedLeaderEpoch,
            Self::UnknownEpoch { .. } => ErrorCode::UnknownLeaderEpoch,
            Self::Damaged { .. } => ErrorCode::CorruptMessage,
            // Trying again would not help, which is what a code of damage or of storage makes a client do.
            Self::Expands { .. } => ErrorCode::UnknownServerError,
            Self::Storage { .. } => ErrorCode::KafkaStorageError,
            Self::Ended(reason) => reason.error_code(),
        }
    }
}

impl ToErrorCode for SessionRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            // The client opens a new one with a full fetch, which is all it can do about a session too large, too.
            Self::NotFound(_) | Self::TooLarge => ErrorCode::FetchSessionIdNotFound,
            Self::WrongEpoch { .. } => ErrorCode::InvalidFetchSessionEpoch,
            Self::OtherNaming(_) => ErrorCode::FetchSessionTopicIdError,
        }
    }
}

impl ToErrorCode for ListOffsetsRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::Read(refusal) => refusal.error_code(),
            Self::NotAvailableYet => ErrorCode::OffsetNotAvailable,
            Self::Duplicate => ErrorCode::InvalidRequest,
            Self::UnsupportedTarget(_) => ErrorCode::UnsupportedVersion,
        }
    }
}

impl ToErrorCode for DeleteRecordsRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::Read(refusal) => refusal.error_code(),
            Self::Policy => ErrorCode::PolicyViolation,
        }
    }
}

impl ToErrorCode for DescribeProducersRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::Read(refusal) => refusal.error_code(),
            Self::Name => ErrorCode::InvalidTopicException,
            Self::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
            Self::TooMany => ErrorCode::InvalidRequest,
        }
    }
}

impl ToErrorCode for MetadataLogError {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::Write { .. } | Self::Read { .. } => ErrorCode::KafkaStorageError,
            Self::Stopping => ErrorCode::NotController,
            Self::Failed => ErrorCode::UnknownServerError,
        }
    }
}

impl ToErrorCode for CreateRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::Name(_) => ErrorCode::InvalidTopicException,
            Self::MetadataTopic | Self::Duplicate { .. } | Self::CountsWithAssignments => {
                ErrorCode::InvalidRequest
            }
            Self::Exists { .. } => ErrorCode::TopicAlreadyExists,
            Self::Partitions { .. } => ErrorCode::InvalidPartitions,
            Self::TooMany(_) | Self::TooMuch { .. } => ErrorCode::PolicyViolation,
            Self::ReplicationFactor { .. } => ErrorCode::InvalidReplicationFactor,
            Self::AssignmentIndexes { .. } | Self::AssignmentReplicas(_) => {
                ErrorCode::InvalidReplicaAssignment
            }
            Self::Config(_) => ErrorCode::InvalidConfig,
            Self::IdTaken { .. } => ErrorCode::UnknownServerError,
        }
    }
}

impl ToErrorCode for DeleteRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::Disabled => ErrorCode::TopicDeletionDisabled,
            Self::UnknownName { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::UnknownId { .. } => ErrorCode::UnknownTopicId,
            Self::Duplicate | Self::Reference => ErrorCode::InvalidRequest,
        }
    }
}

impl ToErrorCode for GrowthRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::UnknownTopic { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::Duplicate { .. } => ErrorCode::InvalidRequest,
            Self::Count { .. } => ErrorCode::InvalidPartitions,
            Self::TooMany(_) => ErrorCode::PolicyViolation,
            Self::AssignmentCount { .. } | Self::AssignmentReplicas(_) => {
                ErrorCode::InvalidReplicaAssignment
            }
            Self::ReplicationFactor { .. } => ErrorCode::InvalidReplicationFactor,
        }
    }
}

impl ToErrorCode for AlterRefusal {
    fn error_code(&self) -> ErrorCode {
        match self {
            Self::Name(_) => ErrorCode::InvalidTopicException,
            Self::UnknownTopic { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::NoName
            | Self::UnknownNode { .. }
            | Self::DuplicateResource
            | Self::DuplicateName { .. }
            | Self::Null { .. }
            | Self::Operation { .. }
            | Self::ReadOnly { .. } => ErrorCode::InvalidRequest,
            // Kafka answers INVALID_REQUEST where the value is a broker's and calls that wrong itself (KAFKA-13609).
            Self::NotAList { .. } | Self::Value(_) => ErrorCode::InvalidConfig,
            Self::TooMuch { .. } => ErrorCode::PolicyViolation,
        }
    }
}

impl ToErrorCode for FeatureRefusal {
    fn error_code(&self) -> ErrorCode {
        ErrorCode::InvalidUpdateVersion
    }
}
