//! The one table of APIs: keys, versions, what is advertised, what is served.
//!
//! Owns every number of it; messages, headers, the ApiVersions answer and `docs/protocol.md` all read it from here. A
//! version is advertised only when it works (PROTOCOL.md section 0, fact 5).

use core::fmt;

/// An inclusive range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The lowest.
    pub min: i16,
    /// The highest.
    pub max: i16,
}

impl Versions {
    /// The range `min..=max`.
    #[must_use]
    pub const fn new(min: i16, max: i16) -> Self {
        assert!(0 <= min);
        assert!(min <= max);
        Self { min, max }
    }

    /// Whether `version` is one of them.
    #[must_use]
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

impl fmt::Display for Versions {
    /// `3–13`, or `3` where the ends are one.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            return write!(formatter, "{}", self.min);
        }
        write!(formatter, "{}\u{2013}{}", self.min, self.max)
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Api {
    /// The number on the wire.
    pub key: i16,
    /// Kafka's name for it.
    pub name: &'static str,
    /// What it is for.
    pub text: &'static str,
    /// Versions that this crate reads and writes.
    pub codec: Versions,
    /// The first version with compact lengths and tagged fields.
    pub flexible_from: i16,
    /// Versions that a handler answers; `None` while there is no handler.
    pub served: Option<Versions>,
    /// Versions that ApiVersions names; `None` while it is not served.
    pub advertised: Option<Versions>,
}

macro_rules! api_table {
    ($(
        $key:literal $name:ident $text:literal
        codec $codec_min:literal..=$codec_max:literal, flexible $flexible:literal..
        $(, served $served_min:literal..=$served_max:literal)?
        $(, advertised $advertised_min:literal..=$advertised_max:literal)?;
    )*) => {
        /// An API that this crate can read and write.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ApiKey {
            $(
                #[doc = concat!($text, " (key ", $key, ").")]
                $name,
            )*
        }

        impl ApiKey {
            /// Every one, ascending by key.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The row of the table.
            #[must_use]
            pub const fn api(self) -> &'static Api {
                match self {
                    $(Self::$name => const {
                        let served = api_table!(@range $($served_min, $served_max)?);
                        let advertised = api_table!(@range $($advertised_min, $advertised_max)?);
                        &Api {
                            key: $key,
                            name: stringify!($name),
                            text: $text,
                            codec: Versions::new($codec_min, $codec_max),
                            flexible_from: $flexible,
                            served,
                            // What is served is advertised, unless the row says otherwise.
                            advertised: if advertised.is_some() { advertised } else { served },
                        }
                    },)*
                }
            }

            /// The API of a key; `None` for one that this crate does not know.
            #[must_use]
            pub const fn from_key(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
    (@range) => { None::<Versions> };
    (@range $min:literal, $max:literal) => { Some(Versions::new($min, $max)) };
}

api_table! {
    // Versions 0 to 2 are advertised and refused: librdkafka up to 2.10 gives up compression when they are not (KAFKA-18659).
    0 Produce "Appends batches of records"
        codec 3..=13, flexible 9.., served 3..=13, advertised 0..=13;
    1 Fetch "Reads batches of records"
        codec 4..=18, flexible 12.., served 4..=18;
    2 ListOffsets "Finds offsets by time and at the ends of a log"
        codec 1..=11, flexible 6.., served 1..=11;
    3 Metadata "Lists nodes, topics and partitions"
        codec 0..=13, flexible 9.., served 0..=13;
    // Version 6 belongs to share groups.
    10 FindCoordinator "Finds the coordinator of a group or transaction"
        codec 0..=6, flexible 3.., served 0..=5;
    18 ApiVersions "Lists the APIs and versions served"
        codec 0..=5, flexible 3.., served 0..=5;
    19 CreateTopics "Creates topics"
        codec 2..=7, flexible 5.., served 2..=7;
    20 DeleteTopics "Deletes topics"
        codec 1..=6, flexible 4.., served 1..=6;
    21 DeleteRecords "Moves the start of a log"
        codec 0..=2, flexible 2.., served 0..=2;
    // Version 6 is unstable in Kafka 4.4 (KIP-939).
    22 InitProducerId "Gives a producer its id and epoch"
        codec 0..=5, flexible 2.., served 0..=5;
    23 OffsetForLeaderEpoch "Finds where a leader epoch ends"
        codec 2..=4, flexible 4.., served 2..=4;
    32 DescribeConfigs "Lists configurations"
        codec 1..=4, flexible 4.., served 1..=4;
    33 AlterConfigs "Replaces configurations"
        codec 0..=2, flexible 2.., served 0..=2;
    35 DescribeLogDirs "Lists data directories and sizes"
        codec 1..=5, flexible 2.., served 1..=5;
    37 CreatePartitions "Adds partitions to topics"
        codec 0..=3, flexible 2.., served 0..=3;
    44 IncrementalAlterConfigs "Changes single configurations"
        codec 0..=1, flexible 1.., served 0..=1;
    46 ListPartitionReassignments "Lists partitions that are moving"
        codec 0..=0, flexible 0.., served 0..=0;
    55 DescribeQuorum "Lists the voters on cluster metadata"
        codec 0..=2, flexible 0.., served 0..=2;
    57 UpdateFeatures "Settles on feature levels"
        codec 0..=2, flexible 0.., served 0..=2;
    60 DescribeCluster "Lists the nodes of the cluster"
        codec 0..=2, flexible 0.., served 0..=2;
    61 DescribeProducers "Lists the producers that partitions remember"
        codec 0..=0, flexible 0.., served 0..=0;
    74 ListConfigResources "Lists what has configurations"
        codec 0..=1, flexible 0.., served 0..=1;
    75 DescribeTopicPartitions "Lists the partitions of topics, page by page"
        codec 0..=0, flexible 0.., served 0..=0;
}

/// Names of keys that Kafka has and this crate has no codec for yet, so that a refusal can say what was asked.
const OTHER_NAMES: &[(i16, &str)] = &[
    (4, "LeaderAndIsr"),
    (5, "StopReplica"),
    (6, "UpdateMetadata"),
    (7, "ControlledShutdown"),
    (8, "OffsetCommit"),
    (9, "OffsetFetch"),
    (11, "JoinGroup"),
    (12, "Heartbeat"),
    (13, "LeaveGroup"),
    (14, "SyncGroup"),
    (15, "DescribeGroups"),
    (16, "ListGroups"),
    (17, "SaslHandshake"),
    (24, "AddPartitionsToTxn"),
    (25, "AddOffsetsToTxn"),
    (26, "EndTxn"),
    (27, "WriteTxnMarkers"),
    (28, "TxnOffsetCommit"),
    (29, "DescribeAcls"),
    (30, "CreateAcls"),
    (31, "DeleteAcls"),
    (34, "AlterReplicaLogDirs"),
    (36, "SaslAuthenticate"),
    (38, "CreateDelegationToken"),
    (39, "RenewDelegationToken"),
    (40, "ExpireDelegationToken"),
    (41, "DescribeDelegationToken"),
    (42, "DeleteGroups"),
    (43, "ElectLeaders"),
    (45, "AlterPartitionReassignments"),
    (47, "OffsetDelete"),
    (48, "DescribeClientQuotas"),
    (49, "AlterClientQuotas"),
    (50, "DescribeUserScramCredentials"),
    (51, "AlterUserScramCredentials"),
    (52, "Vote"),
    (53, "BeginQuorumEpoch"),
    (54, "EndQuorumEpoch"),
    (56, "AlterPartition"),
    (58, "Envelope"),
    (59, "FetchSnapshot"),
    (62, "BrokerRegistration"),
    (63, "BrokerHeartbeat"),
    (64, "UnregisterBroker"),
    (65, "DescribeTransactions"),
    (66, "ListTransactions"),
    (67, "AllocateProducerIds"),
    (68, "ConsumerGroupHeartbeat"),
    (69, "ConsumerGroupDescribe"),
    (70, "ControllerRegistration"),
    (71, "GetTelemetrySubscriptions"),
    (72, "PushTelemetry"),
    (73, "AssignReplicasToDirs"),
    (76, "ShareGroupHeartbeat"),
    (77, "ShareGroupDescribe"),
    (78, "ShareFetch"),
    (79, "ShareAcknowledge"),
    (80, "AddRaftVoter"),
    (81, "RemoveRaftVoter"),
    (82, "UpdateRaftVoter"),
    (83, "InitializeShareGroupState"),
    (84, "ReadShareGroupState"),
    (85, "WriteShareGroupState"),
    (86, "DeleteShareGroupState"),
    (87, "ReadShareGroupStateSummary"),
    (88, "StreamsGroupHeartbeat"),
    (89, "StreamsGroupDescribe"),
    (90, "DescribeShareGroupOffsets"),
    (91, "AlterShareGroupOffsets"),
    (92, "DeleteShareGroupOffsets"),
    (93, "StreamsGroupTopologyDescriptionUpdate"),
];

/// Kafka's name for any key, built here or not; `"unknown"` for a number that is no key at all.
#[must_use]
pub fn name_of_key(key: i16) -> &'static str {
    if let Some(api) = ApiKey::from_key(key) {
        return api.api().name;
    }
    OTHER_NAMES.iter().find(|(other, _)| *other == key).map_or("unknown", |(_, name)| *name)
}

impl ApiKey {
    /// The number on the wire.
    #[must_use]
    pub const fn key(self) -> i16 {
        self.api().key
    }

    /// Kafka's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.api().name
    }

    /// Whether bodies of `version` have compact lengths and tagged fields.
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.api().flexible_from
    }

    /// Whether a handler answers `version`.
    #[must_use]
    pub const fn is_served(self, version: i16) -> bool {
        match self.api().served {
            Some(versions) => versions.contains(version),
            None => false,
        }
    }

    /// The version of the header before a request of `version`.
    #[must_use]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// The version of the header before a response of `version`.
    ///
    /// ApiVersions is always 0: its client does not know yet what the server can do.
    #[must_use]
    pub const fn response_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self, Self::ApiVersions) { 1 } else { 0 }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_and_round_trip() {
        assert!(ApiKey::ALL.is_sorted_by_key(|api| api.key()));
        for api in ApiKey::ALL {
            assert_eq!(ApiKey::from_key(api.key()), Some(*api));
        }
    }

    #[test]
    fn every_key_of_kafka_4_4_has_one_name() {
        for key in 0..=93 {
            let built = usize::from(ApiKey::from_key(key).is_some());
            let others = OTHER_NAMES.iter().filter(|(other, _)| *other == key).count();
            assert_eq!(built + others, 1, "key {key}");
            assert_ne!(name_of_key(key), "unknown");
        }
        assert_eq!(name_of_key(94), "unknown");
        assert_eq!(name_of_key(-1), "unknown");
    }

    #[test]
    fn what_is_served_has_a_codec_and_is_advertised() {
        for api in ApiKey::ALL {
            let row = api.api();
            let Some(served) = row.served else {
                assert_eq!(row.advertised, None, "{api}");
                continue;
            };
            assert!(row.codec.contains(served.min), "{api}");
            assert!(row.codec.contains(served.max), "{api}");
            let advertised = row.advertised.unwrap();
            assert!(advertised.min <= served.min, "{api}");
            assert_eq!(advertised.max, served.max, "{api}");
        }
    }

    #[test]
    fn ranges_that_clients_depend_on() {
        // PROTOCOL.md section 0, facts 1 and 2; section 5 of the issue.
        let check = |api: ApiKey, min, max| {
            assert_eq!(api.api().advertised, Some(Versions::new(min, max)), "{api}");
        };
        check(ApiKey::Produce, 0, 13);
        check(ApiKey::Fetch, 4, 18);
        check(ApiKey::ListOffsets, 1, 11);
        check(ApiKey::Metadata, 0, 13);
        check(ApiKey::FindCoordinator, 0, 5);
        check(ApiKey::ApiVersions, 0, 5);
        check(ApiKey::CreateTopics, 2, 7);
        check(ApiKey::DeleteTopics, 1, 6);
        check(ApiKey::InitProducerId, 0, 5);
        check(ApiKey::DeleteRecords, 0, 2);
        check(ApiKey::OffsetForLeaderEpoch, 2, 4);
        check(ApiKey::DescribeConfigs, 1, 4);
        check(ApiKey::DescribeLogDirs, 1, 5);
        check(ApiKey::AlterConfigs, 0, 2);
        check(ApiKey::CreatePartitions, 0, 3);
        check(ApiKey::IncrementalAlterConfigs, 0, 1);
        check(ApiKey::ListPartitionReassignments, 0, 0);
        check(ApiKey::DescribeQuorum, 0, 2);
        check(ApiKey::UpdateFeatures, 0, 2);
        check(ApiKey::DescribeCluster, 0, 2);
        check(ApiKey::DescribeProducers, 0, 0);
        check(ApiKey::ListConfigResources, 0, 1);
        check(ApiKey::DescribeTopicPartitions, 0, 0);
        assert!(!ApiKey::Produce.is_served(2));
        assert!(ApiKey::Produce.is_served(3));
    }

    #[test]
    fn header_versions() {
        assert_eq!(ApiKey::Metadata.request_header_version(8), 1);
        assert_eq!(ApiKey::Metadata.request_header_version(9), 2);
        assert_eq!(ApiKey::Metadata.response_header_version(8), 0);
        assert_eq!(ApiKey::Metadata.response_header_version(9), 1);
        assert_eq!(ApiKey::ApiVersions.request_header_version(3), 2);
        assert_eq!(ApiKey::ApiVersions.response_header_version(5), 0);
    }
}
