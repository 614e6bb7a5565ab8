//! The messages, a file for each API.

pub mod alter_configs;
pub mod api_versions;
pub mod common;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_log_dirs;
pub mod describe_producers;
pub mod describe_quorum;
pub mod describe_topic_partitions;
pub mod fetch;
pub mod find_coordinator;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod list_config_resources;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod metadata;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod update_features;

use crate::api::ApiKey;
use crate::decode::BodyError;
use crate::encode::{EncodeError, Encoded};
use crate::header::{Call, ResponseHeader, encode_request, encode_response};
use crate::message::{Message, Response};

macro_rules! any_message {
    ($(#[$doc:meta])* $any:ident, $encode:ident($frame:ty) { $($api:ident($type:ty),)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum $any<'a> {
            $(
                #[doc = concat!("Of ", stringify!($api), ".")]
                $api($type),
            )*
        }

        impl<'a> $any<'a> {
            /// Reads the body of `api` in `version`, of any version that the codec has.
            pub fn decode(api: ApiKey, version: i16, body: &'a [u8]) -> Result<Self, BodyError> {
                match api {
                    $(ApiKey::$api => <$type>::decode(version, body).map(Self::$api),)*
                }
            }

            /// The size that the body has in `version`.
            #[must_use]
            pub fn encoded_bytes(&self, version: i16) -> usize {
                match self {
                    $(Self::$api(message) => message.encoded_bytes(version),)*
                }
            }

            fn encode_as(&self, frame: $frame) -> Result<Encoded, EncodeError> {
                match self {
                    $(Self::$api(message) => $encode(frame, message),)*
                }
            }
        }
    };
}

any_message! {
    /// The body of a request of any API: for tools that look at whatever comes.
    AnyRequest, encode_request(Call<'_>) {
        Produce(produce::ProduceRequest<'a>),
        Fetch(fetch::FetchRequest<'a>),
        ListOffsets(list_offsets::ListOffsetsRequest<'a>),
        Metadata(metadata::MetadataRequest<'a>),
        FindCoordinator(find_coordinator::FindCoordinatorRequest<'a>),
        ApiVersions(api_versions::ApiVersionsRequest<'a>),
        CreateTopics(create_topics::CreateTopicsRequest<'a>),
        DeleteTopics(delete_topics::DeleteTopicsRequest<'a>),
        DeleteRecords(delete_records::DeleteRecordsRequest<'a>),
        InitProducerId(init_producer_id::InitProducerIdRequest<'a>),
        OffsetForLeaderEpoch(offset_for_leader_epoch::OffsetForLeaderEpochRequest<'a>),
        DescribeConfigs(describe_configs::DescribeConfigsRequest<'a>),
        AlterConfigs(alter_configs::AlterConfigsRequest<'a>),
        DescribeLogDirs(describe_log_dirs::DescribeLogDirsRequest<'a>),
        CreatePartitions(create_partitions::CreatePartitionsRequest<'a>),
        IncrementalAlterConfigs(incremental_alter_configs::IncrementalAlterConfigsRequest<'a>),
        ListPartitionReassignments(list_partition_reassignments::ListPartitionReassignmentsRequest<'a>),
        DescribeQuorum(describe_quorum::DescribeQuorumRequest<'a>),
        UpdateFeatures(update_features::UpdateFeaturesRequest<'a>),
        DescribeCluster(describe_cluster::DescribeClusterRequest),
        DescribeProducers(describe_producers::DescribeProducersRequest<'a>),
        ListConfigResources(list_config_resources::ListConfigResourcesRequest),
        DescribeTopicPartitions(describe_topic_partitions::DescribeTopicPartitionsRequest<'a>),
    }
}

any_message! {
    /// The body of a response of any API: for tools that look at whatever comes.
    AnyResponse, encode_answer((ResponseHeader, i16)) {
        Produce(produce::ProduceResponse<'a>),
        Fetch(fetch::FetchResponse<'a>),
        ListOffsets(list_offsets::ListOffsetsResponse<'a>),
        Metadata(metadata::MetadataResponse<'a>),
        FindCoordinator(find_coordinator::FindCoordinatorResponse<'a>),
        ApiVersions(api_versions::ApiVersionsResponse<'a>),
        CreateTopics(create_topics::CreateTopicsResponse<'a>),
        DeleteTopics(delete_topics::DeleteTopicsResponse<'a>),
        DeleteRecords(delete_records::DeleteRecordsResponse<'a>),
        InitProducerId(init_producer_id::InitProducerIdResponse),
        OffsetForLeaderEpoch(offset_for_leader_epoch::OffsetForLeaderEpochResponse<'a>),
        DescribeConfigs(describe_configs::DescribeConfigsResponse<'a>),
        AlterConfigs(alter_configs::AlterConfigsResponse<'a>),
        DescribeLogDirs(describe_log_dirs::DescribeLogDirsResponse<'a>),
        CreatePartitions(create_partitions::CreatePartitionsResponse<'a>),
        IncrementalAlterConfigs(incremental_alter_configs::IncrementalAlterConfigsResponse<'a>),
        ListPartitionReassignments(list_partition_reassignments::ListPartitionReassignmentsResponse<'a>),
        DescribeQuorum(describe_quorum::DescribeQuorumResponse<'a>),
        UpdateFeatures(update_features::UpdateFeaturesResponse<'a>),
        DescribeCluster(describe_cluster::DescribeClusterResponse<'a>),
        DescribeProducers(describe_producers::DescribeProducersResponse<'a>),
        ListConfigResources(list_config_resources::ListConfigResourcesResponse<'a>),
        DescribeTopicPartitions(describe_topic_partitions::DescribeTopicPartitionsResponse<'a>),
    }
}

impl AnyRequest<'_> {
    /// Writes the whole frame, size field first.
    pub fn encode(&self, call: Call<'_>) -> Result<Encoded, EncodeError> {
        self.encode_as(call)
    }
}

impl AnyResponse<'_> {
    /// Writes the whole frame, size field first.
    pub fn encode(&self, header: ResponseHeader, version: i16) -> Result<Encoded, EncodeError> {
        self.encode_as((header, version))
    }
}

/// [`encode_response`] with all that is not the message in one place.
fn encode_answer<'a, M: Response<'a>>(
    (header, version): (ResponseHeader, i16),
    message: &M,
) -> Result<Encoded, EncodeError> {
    encode_response(header, version, message)
}
