//! Any body in any version of any API, requests and responses: what is read can be written and read again.
//!
//! Input: one byte for the direction (even: a request), two each for key and version, the rest is the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{AnyRequest, AnyResponse, ApiKey, Call, Encoded, RequestHeader, ResponseHeader};

fn frame(encoded: Encoded) -> Vec<u8> {
    let total_bytes = encoded.total_bytes();
    let frame = encoded.into_bytes().expect("nothing that was read is apart");
    assert_eq!(frame.len(), total_bytes);
    frame[4..].to_vec()
}

fn check_request(api: ApiKey, version: i16, body: &[u8]) {
    let Ok(request) = AnyRequest::decode(api, version, body) else { return };
    // Unknown tags and bytes left over get lost; nothing is ever added.
    assert!(request.encoded_bytes(version) <= body.len());
    let call = Call { version, correlation_id: 1, client_id: None };
    let frame = frame(request.encode(call).expect("what fits a frame fits it again"));
    let body = match RequestHeader::decode(&frame) {
        Ok((header, body)) => {
            assert_eq!((header.api, header.version), (api, version));
            body
        }
        Err(_) => {
            assert!(!api.is_served(version));
            // Key, version, correlation id, null client id, and no tags where there could be some.
            &frame[if api.request_header_version(version) == 2 { 11 } else { 10 }..]
        }
    };
    assert_eq!(body.len(), request.encoded_bytes(version));
    assert_eq!(AnyRequest::decode(api, version, body), Ok(request));
}

fn check_response(api: ApiKey, version: i16, body: &[u8]) {
    let Ok(response) = AnyResponse::decode(api, version, body) else { return };
    assert!(response.encoded_bytes(version) <= body.len());
    let header = ResponseHeader { correlation_id: 1 };
    let frame = frame(response.encode(header, version).expect("what fits a frame fits it again"));
    let (read, body) = ResponseHeader::decode(api, version, &frame).expect("just written");
    assert_eq!(read, header);
    assert_eq!(body.len(), response.encoded_bytes(version));
    assert_eq!(AnyResponse::decode(api, version, body), Ok(response));
}

fuzz_target!(|input: &[u8]| {
    let [direction, key_high, key_low, version_high, version_low, body @ ..] = input else {
        return;
    };
    let key = i16::from_be_bytes([*key_high, *key_low]);
    let version = i16::from_be_bytes([*version_high, *version_low]);
    let Some(api) = ApiKey::from_key(key) else { return };
    if direction % 2 == 0 {
        check_request(api, version, body);
    } else {
        check_response(api, version, body);
    }
});
