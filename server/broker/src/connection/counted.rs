//! What a request counts for before it has arrived.
//!
//! Owns the estimate of what a request and its answer become in memory. Must never be less than they do.

use wire::{ApiKey, REQUEST_ARRAYS_BYTES_MAX};

/// What the parsed request and its answer may take, as a multiple of its size: 300 bytes for a partition or name of 3.
const EXPANSION: usize = 100;
/// The same of a Fetch: the least that one of its partitions has on the wire is 16 bytes. It is held while the client waits for
/// records, so that it must not be more than it is.
const FETCH_EXPANSION: usize = 16;
/// The most that a request may become beside its own bytes: [`REQUEST_ARRAYS_BYTES_MAX`] of elements, each of which costs
/// less than this multiple of itself.
const EXPANDED_BYTES_MAX: usize = 16 * REQUEST_ARRAYS_BYTES_MAX;

/// What is counted for a request of `bytes` whose frame begins so. Record bytes are appended as they came: a Produce becomes
/// little beside what it is.
pub(crate) fn counted_bytes(frame_start: &[u8], bytes: usize) -> usize {
    let key = frame_start.first_chunk().map(|key| i16::from_be_bytes(*key));
    let expansion = match key {
        Some(key) if key == ApiKey::Produce.key() => 0,
        Some(key) if key == ApiKey::Fetch.key() => FETCH_EXPANSION,
        _ => EXPANSION,
    };
    bytes.saturating_add(bytes.saturating_mul(expansion).min(EXPANDED_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_as_what_it_may_become() {
        let check = |api: ApiKey, bytes, expected| {
            let start = [&api.key().to_be_bytes()[..], &[0; 20]].concat();
            assert_eq!(counted_bytes(&start, bytes), expected, "{api}");
        };
        check(ApiKey::Produce, 1 << 20, 1 << 20);
        check(ApiKey::Fetch, 100_000, 1_700_000);
        check(ApiKey::Metadata, 100_000, 10_100_000);
        check(ApiKey::Metadata, 100 << 20, (100 << 20) + EXPANDED_BYTES_MAX);
        assert_eq!(counted_bytes(&[0], 1000), 101_000, "what cannot be told is the worst");
    }
}
