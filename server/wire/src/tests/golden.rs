//! Every row of `tests/golden.tsv`: bytes to Kafka's JSON, and that JSON to bytes.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use record::codec::Reader;
use serde_json::Value;

use super::json::Json;
use super::{Golden, golden_rows};
use crate::api::ApiKey;
use crate::decode::Decoder;
use crate::encode::{Content, encode};
use crate::field::{Placed, Records};
use crate::header::{RawRequestHeader, ResponseHeader};
use crate::message::{Message, body_at};
use crate::messages::*;

/// The body alone, through the same two passes as a frame.
fn body<'a, M: Message<'a>>(message: &M, version: i16) -> Vec<u8> {
    let encoded = encode(&Placed(message, body_at(M::API, version))).unwrap();
    encoded.head()[4..].to_vec()
}

/// Checks one row. `strip` empties the record sets, whose content Kafka's JSON lacks.
fn check<'a, M>(row: &'a Golden, strip: impl Fn(&mut M))
where
    M: Message<'a> + Json<'a> + PartialEq + core::fmt::Debug,
{
    let Golden { line, name, version, json, ref bytes } = *row;
    let at = body_at(M::API, version);
    let json: Value = serde_json::from_str(json).unwrap();
    let mut decoder = Decoder::new(bytes);
    let mut decoded = M::decode_from(version, &mut decoder)
        .unwrap_or_else(|error| panic!("line {line}, {name} v{version}: {error}"));
    decoder.finish().unwrap();
    assert_eq!(decoded.to_json(at), json, "line {line}, {name} v{version}");
    assert_eq!(body(&decoded, version), *bytes, "line {line}, {name} v{version}");
    assert_eq!(decoded.encoded_bytes(version), bytes.len(), "line {line}, {name} v{version}");

    let from_json = M::from_json(&json, at);
    let with_records = decoded.encoded_bytes(version) != from_json.encoded_bytes(version);
    strip(&mut decoded);
    assert_eq!(from_json, decoded, "line {line}, {name} v{version}");
    if !with_records {
        assert_eq!(body(&from_json, version), *bytes, "line {line}, {name} v{version}");
    }
    assert!(
        !with_records || name == "ProduceRequest" || name == "FetchResponse",
        "line {line}, {name} v{version}: written differently from its JSON"
    );
}

fn strip(records: &mut Records<'_>) {
    if matches!(records, Records::Inline(_)) {
        *records = Records::EMPTY;
    }
}

fn check_produce(row: &Golden) {
    check::<produce::ProduceRequest<'_>>(row, |message| {
        let partitions = message.topic_data.iter_mut().flat_map(|topic| &mut topic.partition_data);
        partitions.for_each(|partition| strip(&mut partition.records));
    });
}

fn check_fetch(row: &Golden) {
    check::<fetch::FetchResponse<'_>>(row, |message| {
        let partitions = message.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        partitions.for_each(|partition| strip(&mut partition.records));
    });
}

macro_rules! check_row {
    ($row:expr, $($name:literal: $type:ty,)*) => {
        match $row.name {
            "ProduceRequest" => check_produce($row),
            "FetchResponse" => check_fetch($row),
            "RequestHeader" => check_request_header($row),
            "ResponseHeader" => check_response_header($row),
            $($name => check::<$type>($row, |_| ()),)*
            name => panic!("line {}: no check for {name}", $row.line),
        }
    };
}

fn check_any(row: &Golden) {
    check_row! { row,
        "ProduceResponse": produce::ProduceResponse<'_>,
        "FetchRequest": fetch::FetchRequest<'_>,
        "ListOffsetsRequest": list_offsets::ListOffsetsRequest<'_>,
        "ListOffsetsResponse": list_offsets::ListOffsetsResponse<'_>,
        "MetadataRequest": metadata::MetadataRequest<'_>,
        "MetadataResponse": metadata::MetadataResponse<'_>,
        "FindCoordinatorRequest": find_coordinator::FindCoordinatorRequest<'_>,
        "FindCoordinatorResponse": find_coordinator::FindCoordinatorResponse<'_>,
        "ApiVersionsRequest": api_versions::ApiVersionsRequest<'_>,
        "ApiVersionsResponse": api_versions::ApiVersionsResponse<'_>,
        "CreateTopicsRequest": create_topics::CreateTopicsRequest<'_>,
        "CreateTopicsResponse": create_topics::CreateTopicsResponse<'_>,
        "DeleteTopicsRequest": delete_topics::DeleteTopicsRequest<'_>,
        "DeleteTopicsResponse": delete_topics::DeleteTopicsResponse<'_>,
        "DeleteRecordsRequest": delete_records::DeleteRecordsRequest<'_>,
        "DeleteRecordsResponse": delete_records::DeleteRecordsResponse<'_>,
        "InitProducerIdRequest": init_producer_id::InitProducerIdRequest<'_>,
        "InitProducerIdResponse": init_producer_id::InitProducerIdResponse,
        "OffsetForLeaderEpochRequest": offset_for_leader_epoch::OffsetForLeaderEpochRequest<'_>,
        "OffsetForLeaderEpochResponse": offset_for_leader_epoch::OffsetForLeaderEpochResponse<'_>,
        "DescribeConfigsRequest": describe_configs::DescribeConfigsRequest<'_>,
        "DescribeConfigsResponse": describe_configs::DescribeConfigsResponse<'_>,
        "AlterConfigsRequest": alter_configs::AlterConfigsRequest<'_>,
        "AlterConfigsResponse": alter_configs::AlterConfigsResponse<'_>,
        "DescribeLogDirsRequest": describe_log_dirs::DescribeLogDirsRequest<'_>,
        "DescribeLogDirsResponse": describe_log_dirs::DescribeLogDirsResponse<'_>,
        "CreatePartitionsRequest": create_partitions::CreatePartitionsRequest<'_>,
        "CreatePartitionsResponse": create_partitions::CreatePartitionsResponse<'_>,
        "IncrementalAlterConfigsRequest": incremental_alter_configs::IncrementalAlterConfigsRequest<'_>,
        "IncrementalAlterConfigsResponse": incremental_alter_configs::IncrementalAlterConfigsResponse<'_>,
        "ListPartitionReassignmentsRequest": list_partition_reassignments::ListPartitionReassignmentsRequest<'_>,
        "ListPartitionReassignmentsResponse": list_partition_reassignments::ListPartitionReassignmentsResponse<'_>,
        "DescribeQuorumRequest": describe_quorum::DescribeQuorumRequest<'_>,
        "DescribeQuorumResponse": describe_quorum::DescribeQuorumResponse<'_>,
        "UpdateFeaturesRequest": update_features::UpdateFeaturesRequest<'_>,
        "UpdateFeaturesResponse": update_features::UpdateFeaturesResponse<'_>,
        "DescribeClusterRequest": describe_cluster::DescribeClusterRequest,
        "DescribeClusterResponse": describe_cluster::DescribeClusterResponse<'_>,
        "DescribeProducersRequest": describe_producers::DescribeProducersRequest<'_>,
        "DescribeProducersResponse": describe_producers::DescribeProducersResponse<'_>,
        "ListConfigResourcesRequest": list_config_resources::ListConfigResourcesRequest,
        "ListConfigResourcesResponse": list_config_resources::ListConfigResourcesResponse<'_>,
        "DescribeTopicPartitionsRequest": describe_topic_partitions::DescribeTopicPartitionsRequest<'_>,
        "DescribeTopicPartitionsResponse": describe_topic_partitions::DescribeTopicPartitionsResponse<'_>,
    }
}

fn check_request_header(row: &Golden) {
    let mut reader = Reader::new(&row.bytes);
    let header = RawRequestHeader::read(&mut reader, row.version).unwrap();
    reader.finish().unwrap();
    let json = serde_json::json!({
        "requestApiKey": header.key,
        "requestApiVersion": header.version,
        "correlationId": header.correlation_id,
        "clientId": header.client_id,
    });
    let mut expected: Value = serde_json::from_str(row.json).unwrap();
    // A header of version 0 has no client id; there is none since Kafka 4.
    expected.as_object_mut().unwrap().entry("clientId").or_insert(Value::Null);
    assert_eq!(json, expected, "line {}", row.line);
    let written = encode(&RequestHeaderOf(header, row.version)).unwrap();
    assert_eq!(written.head()[4..], row.bytes, "line {}", row.line);
}

fn check_response_header(row: &Golden) {
    let mut reader = Reader::new(&row.bytes);
    let header = ResponseHeader::read(&mut reader, row.version).unwrap();
    reader.finish().unwrap();
    let json = serde_json::json!({ "correlationId": header.correlation_id });
    assert_eq!(json, serde_json::from_str::<Value>(row.json).unwrap(), "line {}", row.line);
    let written = encode(&ResponseHeaderOf(header, row.version)).unwrap();
    assert_eq!(written.head()[4..], row.bytes, "line {}", row.line);
}

struct RequestHeaderOf<'a>(RawRequestHeader<'a>, i16);

impl Content for RequestHeaderOf<'_> {
    fn write<O: crate::encode::Output>(&self, encoder: &mut crate::encode::Encoder<O>) {
        self.0.write(encoder, self.1);
    }
}

struct ResponseHeaderOf(ResponseHeader, i16);

impl Content for ResponseHeaderOf {
    fn write<O: crate::encode::Output>(&self, encoder: &mut crate::encode::Encoder<O>) {
        self.0.write(encoder, self.1);
    }
}

#[test]
fn every_row_decodes_to_its_json_and_encodes_to_its_bytes() {
    let mut rows = 0;
    for row in golden_rows() {
        check_any(&row);
        rows += 1;
    }
    assert_eq!(rows, 1220);
}

#[test]
fn every_version_of_every_codec_has_its_five_rows() {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for row in golden_rows() {
        *counts.entry((row.name, row.version)).or_default() += 1;
    }
    for api in ApiKey::ALL {
        let versions = api.api().codec;
        for version in versions.min..=versions.max {
            for kind in ["Request", "Response"] {
                let name = format!("{api}{kind}");
                assert_eq!(counts.get(&(&*name, version)), Some(&5), "{name} v{version}");
            }
        }
    }
}
