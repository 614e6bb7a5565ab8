use alloc::vec::Vec;

use super::*;
use crate::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use crate::error::ErrorCode;
use crate::message::Message;
use crate::metadata::MetadataRequest;

fn raw(key: i16, version: i16, rest: &[u8]) -> Vec<u8> {
    [&key.to_be_bytes(), &version.to_be_bytes(), &[0, 0, 0, 7][..], rest].concat()
}

#[test]
fn headers_of_both_versions_are_read() {
    let check = |version, rest: &[u8], client_id: Option<&'static str>| {
        let client_id = client_id.map(Text::Borrowed);
        let frame = raw(3, version, rest);
        let (header, body) = RequestHeader::decode(&frame).unwrap();
        let expected =
            RequestHeader { api: ApiKey::Metadata, version, correlation_id: 7, client_id };
        assert_eq!((header, body), (expected, &b"body"[..]));
    };
    check(8, b"\x00\x02mebody", Some("me"));
    check(8, b"\xff\xffbody", None);
    check(9, b"\x00\x02me\x00body", Some("me"));
    // One tagged field of a later header.
    check(9, b"\x00\x02me\x01\x05\x03abcbody", Some("me"));
    // Not UTF-8: a name is not worth the connection.
    check(8, b"\x00\x04m\xff\xc3ebody", Some("m\u{fffd}\u{fffd}e"));
}

#[test]
fn what_is_not_served_is_named() {
    let check = |key, version, expected: HeaderError, text: &str| {
        let frame = raw(key, version, b"\xff\xff");
        assert_eq!(RequestHeader::decode(&frame), Err(expected));
        assert_eq!(alloc::format!("{expected}"), text);
        let closes = !matches!(expected, HeaderError::ApiVersionsTooNew { .. });
        assert_eq!(RequestHeader::check_start(&frame).is_err(), closes);
        assert_eq!(RequestHeader::check_start(&frame[..7]), Ok(()));
    };
    let unknown = |key, version| HeaderError::UnknownApi { key, version };
    check(99, 0, unknown(99, 0), "unknown (key 99) v0 is not served");
    check(-1, 0, unknown(-1, 0), "unknown (key -1) v0 is not served");
    check(4, 1, unknown(4, 1), "LeaderAndIsr (key 4) v1 is not served");
    // A name without a codec.
    check(45, 0, unknown(45, 0), "AlterPartitionReassignments (key 45) v0 is not served");
    let version = |api, version| HeaderError::UnsupportedVersion { api, version };
    check(0, 2, version(ApiKey::Produce, 2), "Produce v2 is not served");
    check(0, 14, version(ApiKey::Produce, 14), "Produce v14 is not served");
    check(10, 6, version(ApiKey::FindCoordinator, 6), "FindCoordinator v6 is not served");
    check(3, -1, version(ApiKey::Metadata, -1), "Metadata v-1 is not served");
    let too_new = HeaderError::ApiVersionsTooNew { version: 6, correlation_id: 7 };
    check(18, 6, too_new, "ApiVersions v6 is not served");
}

#[test]
fn a_header_cut_anywhere_is_refused() {
    let frame = raw(3, 9, b"\x00\x02me\x01\x05\x03abc");
    for len in 0..frame.len() {
        let refusal = RequestHeader::decode(&frame[..len]);
        assert!(matches!(refusal, Err(HeaderError::Malformed(_))), "{len}: {refusal:?}");
    }
}

#[test]
fn a_request_frame_is_read_back() {
    for version in 0..=13 {
        let body = MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() };
        let call = Call { version, correlation_id: 5, client_id: Some("cli") };
        let frame = encode_request(call, &body).unwrap().into_bytes().unwrap();
        assert_eq!(frame[..4], (i32::try_from(frame.len()).unwrap() - 4).to_be_bytes());
        let (header, rest) = RequestHeader::decode(&frame[4..]).unwrap();
        assert_eq!((header.version, header.correlation_id), (version, 5));
        assert_eq!(header.client_id, Some("cli".into()));
        assert_eq!(MetadataRequest::decode(version, rest).unwrap(), body);
    }
}

#[test]
fn strings_that_no_frame_can_hold_are_refused() {
    let long = "x".repeat(0x8000);
    let call = Call { version: 3, correlation_id: 5, client_id: None };
    let body = ApiVersionsRequest { client_software_name: (&*long).into(), ..Default::default() };
    let refusal = Err(EncodeError::StringTooLong { bytes: 0x8000 });
    assert_eq!(encode_request(call, &body), refusal);
    let call = Call { client_id: Some(&long), ..call };
    assert_eq!(encode_request(call, &ApiVersionsRequest::default()), refusal);
}

#[test]
fn a_client_that_is_too_new_is_told_what_is_served_in_version_0() {
    let answer = ApiVersionsResponse::unsupported();
    let header = ResponseHeader { correlation_id: 7 };
    let frame = encode_response(header, 0, &answer).unwrap().into_bytes().unwrap();
    // Size, correlation id, error 35, one key: 18, versions 0 to 5. No tags: header and body are version 0.
    assert_eq!(frame[..], [0, 0, 0, 16, 0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5],);
    let (read, body) = ResponseHeader::decode(ApiKey::ApiVersions, 9, &frame[4..]).unwrap();
    assert_eq!(read, header);
    assert_eq!(ApiVersionsResponse::decode_answer(5, body).unwrap(), answer);
}

#[test]
fn the_advertised_answer_comes_from_the_table() {
    let answer = ApiVersionsResponse::advertised();
    assert_eq!(answer.error_code, ErrorCode::None);
    let produce = answer.api_keys.iter().find(|api| api.api_key == 0).unwrap();
    assert_eq!((produce.min_version, produce.max_version), (0, 13));
    let keys: Vec<_> = answer.api_keys.iter().map(|api| api.api_key).collect();
    let expected =
        [0, 1, 2, 3, 10, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 44, 46, 55, 57, 60, 61, 74, 75];
    assert_eq!(keys, expected);
    let header = ResponseHeader { correlation_id: 1 };
    for version in 0..=5 {
        let frame = encode_response(header, version, &answer).unwrap().into_bytes().unwrap();
        let (_, body) = ResponseHeader::decode(ApiKey::ApiVersions, version, &frame[4..]).unwrap();
        assert_eq!(ApiVersionsResponse::decode_answer(version, body).unwrap(), answer);
    }
}
