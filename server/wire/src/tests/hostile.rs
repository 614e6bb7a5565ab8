//! Hostile bytes: refused within bounds, never a panic.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use record::codec::DecodeError;
use record::{PartitionIndex, TopicId};

use super::{Golden, golden_rows};
use crate::api::ApiKey;
use crate::decode::{BodyError, REQUEST_ARRAYS_BYTES_MAX};
use crate::fetch::FetchRequest;
use crate::message::Message;
use crate::messages::{AnyRequest, AnyResponse};
use crate::metadata::{MetadataRequest, MetadataResponse};
use crate::produce::ProduceRequest;

/// Decodes as whatever the row's name says; `None` for headers.
fn decode(row: &Golden, body: &[u8]) -> Option<Result<usize, BodyError>> {
    let version = row.version;
    let api = |name: &str| ApiKey::ALL.iter().copied().find(|api| api.name() == name);
    if let Some(name) = row.name.strip_suffix("Request") {
        let decoded = AnyRequest::decode(api(name)?, version, body);
        return Some(decoded.map(|message| message.encoded_bytes(version)));
    }
    let name = row.name.strip_suffix("Response")?;
    let decoded = AnyResponse::decode(api(name)?, version, body);
    Some(decoded.map(|message| message.encoded_bytes(version)))
}

#[test]
fn a_body_cut_at_any_byte_is_refused() {
    let mut cuts = 0;
    for row in golden_rows() {
        for len in 0..row.bytes.len() {
            let Some(decoded) = decode(&row, &row.bytes[..len]) else { break };
            let (line, name, version) = (row.line, row.name, row.version);
            assert!(decoded.is_err(), "line {line}, {name} v{version}, cut at {len}");
            cuts += 1;
        }
    }
    assert!(cuts > 70_000, "{cuts}");
}

#[test]
fn a_body_with_any_byte_changed_never_panics_and_what_is_read_can_be_measured() {
    let (mut read, mut refused) = (0, 0);
    for row in golden_rows().step_by(3) {
        let mut body = row.bytes.clone();
        for at in 0..body.len() {
            for change in [0x01, 0x80, 0xff] {
                body[at] ^= change;
                match decode(&row, &body) {
                    Some(Ok(bytes)) => {
                        read += 1;
                        // Padded varints, unknown tags and bytes left over get lost; nothing is ever added.
                        assert!(bytes <= body.len(), "line {}, byte {at} ^ {change}", row.line);
                    }
                    Some(Err(_)) => refused += 1,
                    None => {}
                }
                body[at] ^= change;
            }
        }
    }
    assert!(read > 10_000, "{read}");
    assert!(refused > 10_000, "{refused}");
}

proptest! {
    #[test]
    fn random_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        for api in ApiKey::ALL {
            let versions = api.api().codec;
            for version in versions.min..=versions.max {
                let _ = AnyRequest::decode(*api, version, &body);
                let _ = AnyResponse::decode(*api, version, &body);
            }
        }
    }
}

#[test]
fn versions_outside_the_codec_are_refused() {
    for api in ApiKey::ALL {
        let versions = api.api().codec;
        for version in [i16::MIN, -1, versions.min - 1, versions.max + 1, i16::MAX] {
            let refusal = BodyError::Version { api: *api, version, versions };
            assert_eq!(AnyRequest::decode(*api, version, &[0; 64]), Err(refusal));
            assert_eq!(AnyResponse::decode(*api, version, &[0; 64]), Err(refusal));
        }
    }
}

#[test]
fn arrays_that_cannot_fit_are_refused() {
    let classic = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0];
    let refusal = MetadataRequest::decode(4, &classic).unwrap_err();
    let expected = DecodeError::TooMany {
        what: "array",
        at: 0,
        count: 0x7fff_ffff,
        element_bytes_min: 2,
        left: 3,
    };
    assert_eq!(refusal, BodyError::Malformed(expected));

    let compact = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0];
    let refusal = MetadataRequest::decode(12, &compact).unwrap_err();
    // A topic of version 12: 16 bytes of id, a null name, no tags.
    let expected = DecodeError::TooMany {
        what: "array",
        at: 0,
        count: 0xffff_fffe,
        element_bytes_min: 18,
        left: 3,
    };
    assert_eq!(refusal, BodyError::Malformed(expected));
}

#[test]
fn a_body_may_not_become_much_more_memory_than_it_has_bytes() {
    // Names without a letter: one byte each on the wire, 24 in memory.
    let count = 100_000;
    let mut writer = record::codec::Writer::new(vec![0x02, 0x02, 0x01]);
    writer.compact_array_len(Some(count));
    let mut body = writer.into_sink();
    body.extend(core::iter::repeat_n(0x01, count));
    body.extend([0, 0, 0, 0]);
    let refusal = crate::describe_configs::DescribeConfigsRequest::decode(4, &body).unwrap_err();
    assert!(matches!(refusal, BodyError::Expands { bytes: 2_400_000, .. }), "{refusal}");
    assert!(refusal.to_string().contains("budget"));
}

#[test]
fn a_request_may_not_have_more_elements_than_a_broker_can_answer() {
    let check = |count: usize, is_read: bool| {
        let mut body = i32::try_from(count).unwrap().to_be_bytes().to_vec();
        body.extend(core::iter::repeat_n([0, 1, b'a'], count).flatten());
        body.extend([0; 4]);
        let request = crate::delete_topics::DeleteTopicsRequest::decode(3, &body);
        assert_eq!(request.is_ok(), is_read, "{count}");
    };
    let element_bytes = size_of::<alloc::borrow::Cow<'_, str>>();
    check(REQUEST_ARRAYS_BYTES_MAX / element_bytes, true);
    check(REQUEST_ARRAYS_BYTES_MAX / element_bytes + 1, false);
}

#[test]
fn the_partitions_of_a_produce_come_with_batches_or_are_few_and_are_never_too_many() {
    let check = |count: usize, batch: Option<&[u8]>, is_read: bool| {
        let mut body = vec![0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b't'];
        body.extend(i32::try_from(count).unwrap().to_be_bytes());
        for _ in 0..count {
            body.extend([0; 4]);
            let bytes = batch.map_or(-1, |batch| i32::try_from(batch.len()).unwrap());
            body.extend(bytes.to_be_bytes());
            body.extend(batch.unwrap_or_default());
        }
        let request = ProduceRequest::decode(7, &body);
        assert_eq!(request.is_ok(), is_read, "{count}: {:?}", request.err());
    };
    // The smallest batch that there is.
    check(50_000, Some(&[7; 61]), true);
    check(200_000, Some(&[7; 61]), false);
    check(1000, None, true);
    check(10_000, None, false);
}

#[test]
fn null_is_refused_where_the_version_forbids_it() {
    let refused = |result: Result<(), BodyError>, what| {
        assert_eq!(result, Err(BodyError::Malformed(DecodeError::Null { what, at: 0 })));
    };
    refused(MetadataRequest::decode(0, &[0xff; 4]).map(drop), "array");
    assert_eq!(MetadataRequest::decode(1, &[0xff; 4]).unwrap().topics, None);
    refused(crate::create_topics::CreateTopicsRequest::decode(5, &[0; 7]).map(drop), "array");
}

#[test]
fn strings_above_the_classic_bound_are_refused_in_compact_form_too() {
    let mut body = vec![0x81, 0x80, 0x02];
    body.extend([b'x'; 0x8000]);
    body.extend([0; 64]);
    let refusal = crate::api_versions::ApiVersionsRequest::decode(3, &body).unwrap_err();
    assert_eq!(refusal, BodyError::StringTooLong { at: 0, bytes: 0x8000 });
}

/// A tag section with fields that no version knows.
fn unknown_tags() -> Vec<u8> {
    let mut section = vec![2, 0x63, 3, 1, 2, 3, 0xff, 0x7f, 0x81, 0x01];
    section.extend([9; 129]);
    section
}

#[test]
fn unknown_tags_are_stepped_over_at_every_level() {
    let tags = unknown_tags();
    let mut body = vec![2];
    body.extend([5; 16]);
    body.extend([3, b'a', b'b']);
    body.extend(&tags);
    body.extend([1, 0]);
    body.extend(&tags);
    let request = MetadataRequest::decode(12, &body).unwrap();
    let topics = request.topics.unwrap();
    assert_eq!(topics.len(), 1);
    assert_eq!((topics[0].topic_id, topics[0].name.as_deref()), (TopicId([5; 16]), Some("ab")));
    assert!(request.allow_auto_topic_creation);

    for len in 0..body.len() {
        assert!(MetadataRequest::decode(12, &body[..len]).is_err(), "cut at {len}");
    }
}

#[test]
fn known_tags_come_in_any_order_among_unknown_ones() {
    let mut body = vec![0; 4 + 4 + 4 + 1 + 4 + 4];
    body.extend([1, 1, 1]);
    // Tag 1 (replica state), 77, tag 0 (cluster id).
    body.extend([3, 1, 13, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    body.extend([77, 2, 1, 1, 0, 3, 3, b'c', b'd']);
    let request = FetchRequest::decode(15, &body).unwrap();
    assert_eq!(request.cluster_id.as_deref(), Some("cd"));
    assert_eq!(request.replica_state.replica_id, record::NodeId(7));
    assert_eq!(request.replica_state.replica_epoch, 8);
}

#[test]
fn a_known_tag_must_fill_its_size() {
    let mut body = vec![0; 4 + 4 + 4 + 1 + 4 + 4];
    body.extend([1, 1, 1]);
    body.extend([1, 0, 4, 3, b'c', b'd', b'!']);
    let refusal = FetchRequest::decode(15, &body).unwrap_err();
    assert!(matches!(refusal, BodyError::Malformed(DecodeError::Trailing { left: 1, .. })));
}

#[test]
fn record_sets_are_bytes_of_the_frame() {
    let rows = golden_rows().filter(|row| row.name == "ProduceRequest" && row.version >= 9);
    let mut sets = 0;
    for row in rows {
        let frame = bytes::Bytes::from(row.bytes);
        let request = ProduceRequest::decode(row.version, &frame).unwrap();
        for partition in request.topic_data.iter().flat_map(|topic| &topic.partition_data) {
            let records = partition.records.inline();
            if !records.is_empty() {
                // Panics unless the slice lies in the frame.
                assert_eq!(frame.slice_ref(records), records);
                sets += 1;
            }
        }
    }
    assert!(sets > 10, "{sets}");
}

#[test]
fn absent_fields_have_their_defaults_and_null_is_written_as_empty_where_it_is_forbidden() {
    let response = MetadataResponse::decode(0, &[0; 8]).unwrap();
    assert_eq!(response.controller_id, record::NodeId::NONE);
    assert_eq!(response.cluster_authorized_operations, i32::MIN);

    let all = MetadataRequest::default();
    assert_eq!(all.topics, None);
    assert_eq!(all.encoded_bytes(0), 4);
    let partition = crate::fetch::FetchPartition::default();
    assert_eq!(partition.partition, PartitionIndex(0));
    assert_eq!(partition.high_watermark, record::Offset(i64::MAX));
}
