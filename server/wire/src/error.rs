//! Every error code of the protocol, declared once.
//!
//! Owns number, name, whether a client may try again, and a line of text for people. It never decides which code an
//! operation answers: that is the handlers' `error_code.rs`.

use core::fmt;

/// What a client does about an error of its own accord.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It tries again: the state passes.
    Safe,
    /// It gives up and tells the application.
    Never,
}

macro_rules! error_codes {
    ($($code:literal $variant:ident $name:literal $retry:ident $text:literal;)*) => {
        /// An error code as responses carry it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(
                #[doc = concat!("`", $name, "` (", $code, "): ", $text, ".")]
                $variant,
            )*
            /// No error, which is what a response says unless told otherwise.
            #[default]
            None,
            /// A number that this release has no name for; kept as it came.
            Unlisted(i16),
        }

        impl ErrorCode {
            /// Every code with a name, ascending, but for `NONE`.
            pub const LISTED: &'static [Self] = &[$(Self::$variant),*];

            /// The number on the wire.
            #[must_use]
            pub const fn code(self) -> i16 {
                match self {
                    $(Self::$variant => $code,)*
                    Self::None => 0,
                    Self::Unlisted(code) => code,
                }
            }

            /// The code for a number.
            #[must_use]
            pub const fn from_code(code: i16) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    0 => Self::None,
                    code => Self::Unlisted(code),
                }
            }

            /// Kafka's name for it, as its tools print it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::None => "NONE",
                    Self::Unlisted(_) => "UNLISTED",
                }
            }

            /// What it means, in lower case and with no full stop.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::None => "no error",
                    Self::Unlisted(_) => "an error code that this release does not know",
                }
            }

            /// What clients do about it.
            #[must_use]
            pub const fn retry(self) -> Retry {
                match self {
                    $(Self::$variant => Retry::$retry,)*
                    Self::None | Self::Unlisted(_) => Retry::Never,
                }
            }
        }
    };
}

impl ErrorCode {
    /// Whether this says that all went well.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::None)
    }
}

impl fmt::Display for ErrorCode {
    /// `NOT_LEADER_OR_FOLLOWER (6)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.name(), self.code())
    }
}

error_codes! {
    -1 UnknownServerError "UNKNOWN_SERVER_ERROR" Never "the server failed in a way it did not foresee";
    1 OffsetOutOfRange "OFFSET_OUT_OF_RANGE" Never "the offset is below the log start or past the log end";
    2 CorruptMessage "CORRUPT_MESSAGE" Safe "a batch fails its checksum or its own structure";
    3 UnknownTopicOrPartition "UNKNOWN_TOPIC_OR_PARTITION" Safe "no such topic or partition on this node";
    4 InvalidFetchSize "INVALID_FETCH_SIZE" Never "the fetch size is not valid";
    5 LeaderNotAvailable "LEADER_NOT_AVAILABLE" Safe "the partition has no leader at the moment";
    6 NotLeaderOrFollower "NOT_LEADER_OR_FOLLOWER" Safe "this node does not lead, or does not hold, the partition";
    7 RequestTimedOut "REQUEST_TIMED_OUT" Safe "the request did not finish in its time";
    8 BrokerNotAvailable "BROKER_NOT_AVAILABLE" Never "the broker is not available";
    9 ReplicaNotAvailable "REPLICA_NOT_AVAILABLE" Safe "the replica is not available";
    10 MessageTooLarge "MESSAGE_TOO_LARGE" Never "the batch is larger than max.message.bytes";
    11 StaleControllerEpoch "STALE_CONTROLLER_EPOCH" Never "the controller has changed since";
    12 OffsetMetadataTooLarge "OFFSET_METADATA_TOO_LARGE" Never "the metadata text of the committed offset is too long";
    13 NetworkException "NETWORK_EXCEPTION" Safe "the connection ended before a response came";
    14 CoordinatorLoadInProgress "COORDINATOR_LOAD_IN_PROGRESS" Safe "the coordinator is still reading its log";
    15 CoordinatorNotAvailable "COORDINATOR_NOT_AVAILABLE" Safe "there is no coordinator at the moment";
    16 NotCoordinator "NOT_COORDINATOR" Safe "another node is the coordinator";
    17 InvalidTopicException "INVALID_TOPIC_EXCEPTION" Never "the topic name is not valid here";
    18 RecordListTooLarge "RECORD_LIST_TOO_LARGE" Never "the batch is larger than segment.bytes";
    19 NotEnoughReplicas "NOT_ENOUGH_REPLICAS" Safe "fewer replicas are in sync than min.insync.replicas; nothing was written";
    20 NotEnoughReplicasAfterAppend "NOT_ENOUGH_REPLICAS_AFTER_APPEND" Safe "written, but fewer replicas are in sync than min.insync.replicas";
    21 InvalidRequiredAcks "INVALID_REQUIRED_ACKS" Never "acks must be -1, 0 or 1";
    22 IllegalGeneration "ILLEGAL_GENERATION" Never "the group has another generation";
    23 InconsistentGroupProtocol "INCONSISTENT_GROUP_PROTOCOL" Never "the member shares no protocol with the group";
    24 InvalidGroupId "INVALID_GROUP_ID" Never "the group id is not valid";
    25 UnknownMemberId "UNKNOWN_MEMBER_ID" Never "the group does not know the member";
    26 InvalidSessionTimeout "INVALID_SESSION_TIMEOUT" Never "the session timeout is outside the group's bounds";
    27 RebalanceInProgress "REBALANCE_IN_PROGRESS" Never "the group rebalances: join again";
    28 InvalidCommitOffsetSize "INVALID_COMMIT_OFFSET_SIZE" Never "the offset commit is too large";
    29 TopicAuthorizationFailed "TOPIC_AUTHORIZATION_FAILED" Never "not allowed on this topic";
    30 GroupAuthorizationFailed "GROUP_AUTHORIZATION_FAILED" Never "not allowed on this group";
    31 ClusterAuthorizationFailed "CLUSTER_AUTHORIZATION_FAILED" Never "not allowed on this cluster";
    32 InvalidTimestamp "INVALID_TIMESTAMP" Never "a record's timestamp is outside the topic's bounds";
    33 UnsupportedSaslMechanism "UNSUPPORTED_SASL_MECHANISM" Never "the SASL mechanism is not offered";
    34 IllegalSaslState "ILLEGAL_SASL_STATE" Never "the request does not fit the state of authentication";
    35 UnsupportedVersion "UNSUPPORTED_VERSION" Never "this version of the request is not served";
    36 TopicAlreadyExists "TOPIC_ALREADY_EXISTS" Never "there is a topic of this name";
    37 InvalidPartitions "INVALID_PARTITIONS" Never "the number of partitions is not valid";
    38 InvalidReplicationFactor "INVALID_REPLICATION_FACTOR" Never "the replication factor is below 1 or above the number of nodes";
    39 InvalidReplicaAssignment "INVALID_REPLICA_ASSIGNMENT" Never "the assignment of replicas is not valid";
    40 InvalidConfig "INVALID_CONFIG" Never "a configuration key or value is not valid";
    41 NotController "NOT_CONTROLLER" Safe "another node is the controller";
    42 InvalidRequest "INVALID_REQUEST" Never "the request contradicts itself or the protocol";
    43 UnsupportedForMessageFormat "UNSUPPORTED_FOR_MESSAGE_FORMAT" Never "the log's message format cannot serve this";
    44 PolicyViolation "POLICY_VIOLATION" Never "a policy of the cluster forbids this";
    45 OutOfOrderSequenceNumber "OUT_OF_ORDER_SEQUENCE_NUMBER" Never "the producer's sequence does not follow the last one";
    46 DuplicateSequenceNumber "DUPLICATE_SEQUENCE_NUMBER" Never "the producer's sequence was used before";
    47 InvalidProducerEpoch "INVALID_PRODUCER_EPOCH" Never "the producer's epoch is older than the one known";
    48 InvalidTxnState "INVALID_TXN_STATE" Never "the transaction is in no state for this";
    49 InvalidProducerIdMapping "INVALID_PRODUCER_ID_MAPPING" Never "the transactional id belongs to another producer id";
    50 InvalidTransactionTimeout "INVALID_TRANSACTION_TIMEOUT" Never "the transaction timeout is above transaction.max.timeout.ms";
    51 ConcurrentTransactions "CONCURRENT_TRANSACTIONS" Safe "another change of this transaction is under way";
    52 TransactionCoordinatorFenced "TRANSACTION_COORDINATOR_FENCED" Never "a newer transaction coordinator has taken over";
    53 TransactionalIdAuthorizationFailed "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" Never "not allowed on this transactional id";
    54 SecurityDisabled "SECURITY_DISABLED" Never "there is no authorizer to ask or to change";
    55 OperationNotAttempted "OPERATION_NOT_ATTEMPTED" Never "another part of the request failed first";
    56 KafkaStorageError "KAFKA_STORAGE_ERROR" Safe "the disk under this partition fails or is full";
    57 LogDirNotFound "LOG_DIR_NOT_FOUND" Never "no such log directory";
    58 SaslAuthenticationFailed "SASL_AUTHENTICATION_FAILED" Never "authentication failed";
    59 UnknownProducerId "UNKNOWN_PRODUCER_ID" Never "nothing is known of this producer id";
    60 ReassignmentInProgress "REASSIGNMENT_IN_PROGRESS" Never "the partition is being reassigned";
    61 DelegationTokenAuthDisabled "DELEGATION_TOKEN_AUTH_DISABLED" Never "delegation tokens are switched off";
    62 DelegationTokenNotFound "DELEGATION_TOKEN_NOT_FOUND" Never "no such delegation token";
    63 DelegationTokenOwnerMismatch "DELEGATION_TOKEN_OWNER_MISMATCH" Never "the principal may not use this delegation token";
    64 DelegationTokenRequestNotAllowed "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" Never "delegation tokens are not served on this connection";
    65 DelegationTokenAuthorizationFailed "DELEGATION_TOKEN_AUTHORIZATION_FAILED" Never "not allowed on this delegation token";
    66 DelegationTokenExpired "DELEGATION_TOKEN_EXPIRED" Never "the delegation token has expired";
    67 InvalidPrincipalType "INVALID_PRINCIPAL_TYPE" Never "the principal type is not supported";
    68 NonEmptyGroup "NON_EMPTY_GROUP" Never "the group has members";
    69 GroupIdNotFound "GROUP_ID_NOT_FOUND" Never "no such group";
    70 FetchSessionIdNotFound "FETCH_SESSION_ID_NOT_FOUND" Safe "no such fetch session";
    71 InvalidFetchSessionEpoch "INVALID_FETCH_SESSION_EPOCH" Safe "the fetch session is at another epoch";
    72 ListenerNotFound "LISTENER_NOT_FOUND" Safe "the leader has no listener of this name";
    73 TopicDeletionDisabled "TOPIC_DELETION_DISABLED" Never "delete.topic.enable is false";
    74 FencedLeaderEpoch "FENCED_LEADER_EPOCH" Safe "the request's leader epoch is older than ours";
    75 UnknownLeaderEpoch "UNKNOWN_LEADER_EPOCH" Safe "the request's leader epoch is newer than ours";
    76 UnsupportedCompressionType "UNSUPPORTED_COMPRESSION_TYPE" Never "the request's version predates the codec";
    77 StaleBrokerEpoch "STALE_BROKER_EPOCH" Never "the broker has registered again since";
    78 OffsetNotAvailable "OFFSET_NOT_AVAILABLE" Safe "a new leader does not yet know its high watermark";
    79 MemberIdRequired "MEMBER_ID_REQUIRED" Never "join again with the member id given here";
    80 PreferredLeaderNotAvailable "PREFERRED_LEADER_NOT_AVAILABLE" Safe "the preferred leader is not available";
    81 GroupMaxSizeReached "GROUP_MAX_SIZE_REACHED" Never "the group is full";
    82 FencedInstanceId "FENCED_INSTANCE_ID" Never "another member has taken the instance id";
    83 EligibleLeadersNotAvailable "ELIGIBLE_LEADERS_NOT_AVAILABLE" Safe "no replica may lead at the moment";
    84 ElectionNotNeeded "ELECTION_NOT_NEEDED" Safe "the right replica leads already";
    85 NoReassignmentInProgress "NO_REASSIGNMENT_IN_PROGRESS" Never "the partition is not being reassigned";
    86 GroupSubscribedToTopic "GROUP_SUBSCRIBED_TO_TOPIC" Never "the group still subscribes to the topic";
    87 InvalidRecord "INVALID_RECORD" Never "a record or its batch breaks a rule of the broker";
    88 UnstableOffsetCommit "UNSTABLE_OFFSET_COMMIT" Safe "an offset waits for a transaction to end";
    89 ThrottlingQuotaExceeded "THROTTLING_QUOTA_EXCEEDED" Safe "the quota is used up";
    90 ProducerFenced "PRODUCER_FENCED" Never "a newer producer uses the transactional id";
    91 ResourceNotFound "RESOURCE_NOT_FOUND" Never "no such resource";
    92 DuplicateResource "DUPLICATE_RESOURCE" Never "the request names one resource twice";
    93 UnacceptableCredential "UNACCEPTABLE_CREDENTIAL" Never "the credential does not meet the rules";
    94 InconsistentVoterSet "INCONSISTENT_VOTER_SET" Never "sender or receiver is not one of the voters";
    95 InvalidUpdateVersion "INVALID_UPDATE_VERSION" Never "the state changed since the update was prepared";
    96 FeatureUpdateFailed "FEATURE_UPDATE_FAILED" Never "the features could not be finalized";
    97 PrincipalDeserializationFailure "PRINCIPAL_DESERIALIZATION_FAILURE" Never "a forwarded principal cannot be read";
    98 SnapshotNotFound "SNAPSHOT_NOT_FOUND" Never "no such snapshot";
    99 PositionOutOfRange "POSITION_OUT_OF_RANGE" Never "the position is outside the snapshot";
    100 UnknownTopicId "UNKNOWN_TOPIC_ID" Safe "no topic of this id on this node";
    101 DuplicateBrokerRegistration "DUPLICATE_BROKER_REGISTRATION" Never "the broker id is in use";
    102 BrokerIdNotRegistered "BROKER_ID_NOT_REGISTERED" Never "no broker of this id has registered";
    103 InconsistentTopicId "INCONSISTENT_TOPIC_ID" Safe "the log belongs to another topic id";
    104 InconsistentClusterId "INCONSISTENT_CLUSTER_ID" Never "the request is meant for another cluster";
    105 TransactionalIdNotFound "TRANSACTIONAL_ID_NOT_FOUND" Never "no such transactional id";
    106 FetchSessionTopicIdError "FETCH_SESSION_TOPIC_ID_ERROR" Safe "the fetch session mixes topic names and ids";
    107 IneligibleReplica "INELIGIBLE_REPLICA" Never "a replica of the new in-sync set may not be in it";
    108 NewLeaderElected "NEW_LEADER_ELECTED" Never "the change is done and has moved the leader";
    109 OffsetMovedToTieredStorage "OFFSET_MOVED_TO_TIERED_STORAGE" Never "the offset lies in tiered storage";
    110 FencedMemberEpoch "FENCED_MEMBER_EPOCH" Never "the member epoch is fenced: drop everything and join again";
    111 UnreleasedInstanceId "UNRELEASED_INSTANCE_ID" Never "another member still holds the instance id";
    112 UnsupportedAssignor "UNSUPPORTED_ASSIGNOR" Never "the group does not offer this assignor";
    113 StaleMemberEpoch "STALE_MEMBER_EPOCH" Never "the member epoch is old: try again after the next heartbeat";
    114 MismatchedEndpointType "MISMATCHED_ENDPOINT_TYPE" Never "the request went to an endpoint of another type";
    115 UnsupportedEndpointType "UNSUPPORTED_ENDPOINT_TYPE" Never "this endpoint type is not supported";
    116 UnknownControllerId "UNKNOWN_CONTROLLER_ID" Never "no such controller";
    117 UnknownSubscriptionId "UNKNOWN_SUBSCRIPTION_ID" Never "the telemetry subscription is unknown or old";
    118 TelemetryTooLarge "TELEMETRY_TOO_LARGE" Never "the telemetry is larger than the server takes";
    119 InvalidRegistration "INVALID_REGISTRATION" Never "the broker's registration is not valid";
    120 TransactionAbortable "TRANSACTION_ABORTABLE" Never "the transaction failed: abort it and go on";
    121 InvalidRecordState "INVALID_RECORD_STATE" Never "the record is in no state for this acknowledgement";
    122 ShareSessionNotFound "SHARE_SESSION_NOT_FOUND" Safe "no such share session";
    123 InvalidShareSessionEpoch "INVALID_SHARE_SESSION_EPOCH" Safe "the share session is at another epoch";
    124 FencedStateEpoch "FENCED_STATE_EPOCH" Never "the share state is at another epoch";
    125 InvalidVoterKey "INVALID_VOTER_KEY" Never "the voter key is not the receiver's";
    126 DuplicateVoter "DUPLICATE_VOTER" Never "the voter is in the set already";
    127 VoterNotFound "VOTER_NOT_FOUND" Never "the voter is not in the set";
    128 InvalidRegularExpression "INVALID_REGULAR_EXPRESSION" Never "the regular expression cannot be compiled";
    129 RebootstrapRequired "REBOOTSTRAP_REQUIRED" Never "the client's metadata is too old: bootstrap again";
    130 StreamsInvalidTopology "STREAMS_INVALID_TOPOLOGY" Never "the topology is not valid";
    131 StreamsInvalidTopologyEpoch "STREAMS_INVALID_TOPOLOGY_EPOCH" Never "the topology epoch is not valid";
    132 StreamsTopologyFenced "STREAMS_TOPOLOGY_FENCED" Never "the topology epoch is old";
    133 ShareSessionLimitReached "SHARE_SESSION_LIMIT_REACHED" Safe "the node holds as many share sessions as it may";
    134 GroupDeletionFailed "GROUP_DELETION_FAILED" Never "the group could not be deleted";
    135 StreamsTopologyDescriptionUpdateFailed "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED" Never "the topology description could not be taken";
    136 ControllerIdNotRegistered "CONTROLLER_ID_NOT_REGISTERED" Never "no controller of this id has registered";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_without_a_gap_and_round_trip() {
        let expected = core::iter::once(-1).chain(1..=136);
        assert!(ErrorCode::LISTED.iter().map(|code| code.code()).eq(expected));
        for code in i16::MIN..=i16::MAX {
            assert_eq!(ErrorCode::from_code(code).code(), code);
        }
        assert_eq!(ErrorCode::from_code(0), ErrorCode::None);
        assert_eq!(ErrorCode::from_code(137), ErrorCode::Unlisted(137));
    }

    #[test]
    fn retriable_codes_are_those_of_kafka_4_4() {
        // Printed by org.apache.kafka.common.protocol.Errors: `exception() instanceof RetriableException`.
        let retriable = [
            2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83,
            84, 88, 89, 100, 103, 106, 122, 123, 133,
        ];
        for code in ErrorCode::LISTED {
            let expected =
                if retriable.contains(&code.code()) { Retry::Safe } else { Retry::Never };
            assert_eq!(code.retry(), expected, "{code}");
        }
    }
}
