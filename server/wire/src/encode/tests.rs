use alloc::vec;
use alloc::vec::Vec;

use record::PartitionIndex;

use super::*;
use crate::fetch::{FetchResponse, FetchableTopicResponse, PartitionData};
use crate::field::Records;
use crate::header::{ResponseHeader, encode_response};
use crate::message::Message;

const HEADER: ResponseHeader = ResponseHeader { correlation_id: 9 };

fn response(records: &[Records<'static>]) -> FetchResponse<'static> {
    let partitions = records.iter().zip(0..).map(|(records, index)| PartitionData {
        partition_index: PartitionIndex(index),
        records: *records,
        ..PartitionData::default()
    });
    let topic = FetchableTopicResponse {
        topic: "orders".into(),
        partitions: partitions.collect(),
        ..FetchableTopicResponse::default()
    };
    FetchResponse { responses: vec![topic], ..FetchResponse::default() }
}

/// The frame as the sender puts it together from the segments and its own slices.
fn sent(encoded: &Encoded, slices: &[&[u8]]) -> Vec<u8> {
    let mut sent = Vec::new();
    let mut next = 0;
    for segment in encoded.segments() {
        match segment {
            Segment::Head(bytes) => sent.extend_from_slice(bytes),
            Segment::Apart { index, bytes } => {
                assert_eq!(index, next);
                assert_eq!(slices[index].len(), bytes);
                sent.extend_from_slice(slices[index]);
                next += 1;
            }
        }
    }
    assert_eq!(next, slices.len());
    sent
}

#[test]
fn records_apart_give_the_frame_that_records_inline_give() {
    let large = &[7; 300][..];
    for version in 4..=18 {
        let inline = response(&[Records::Inline(b"first"), Records::EMPTY, Records::Inline(large)]);
        let inline = encode_response(HEADER, version, &inline).unwrap().into_bytes().unwrap();
        let apart = response(&[
            Records::Apart { bytes: 5 },
            Records::Apart { bytes: 0 },
            Records::Apart { bytes: 300 },
        ]);
        let encoded = encode_response(HEADER, version, &apart).unwrap();
        assert_eq!(encoded.total_bytes(), inline.len());
        assert_eq!(encoded.cuts().len(), 3);
        assert_eq!(encoded.head().len(), inline.len() - 305);
        assert_eq!(sent(&encoded, &[b"first", b"", large]), inline);
        assert_eq!(apart.encoded_bytes(version), inline.len() - 4 - header_bytes(version));
        assert!(encoded.into_bytes().is_err());
    }
}

const fn header_bytes(version: i16) -> usize {
    if version >= 12 { 5 } else { 4 }
}

#[test]
fn head_and_cuts_are_allocated_once_and_to_size() {
    let apart = response(&[Records::Apart { bytes: 5 }, Records::Null]);
    let Encoded { head, cuts } = encode_response(HEADER, 18, &apart).unwrap();
    assert_eq!((head.len(), cuts.len()), (head.capacity(), cuts.capacity()));
}

#[test]
fn a_frame_above_31_bits_is_refused() {
    let two = response(&[Records::Apart { bytes: 1 << 30 }, Records::Apart { bytes: 1 << 30 }]);
    let refusal = encode_response(HEADER, 12, &two).unwrap_err();
    assert!(matches!(refusal, EncodeError::FrameTooLong { .. }), "{refusal}");
    let one = response(&[Records::Apart { bytes: 1 << 31 }]);
    let refusal = encode_response(HEADER, 12, &one).unwrap_err();
    assert_eq!(refusal, EncodeError::FrameTooLong { bytes: 1 << 31 });
}
