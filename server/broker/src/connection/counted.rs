//! What a request counts for before it has arrived.
//!
//! Owns the estimate of what a request and its answer become in memory. Must never be less than they do.

use wire::{ApiKey, REQUEST_ARRAYS_BYTES_MAX};

use crate::memory::COUNTED_BYTES_MIN;

/// What the parsed request and its answer may take, as a multiple of its size: 300 bytes for a partition or name of 3.
const EXPANSION: usize = 100;
/// The same of a Fetch: the least that one of its partitions has on the wire is 16 bytes. It is held while the client waits for
/// records, so that it must not be more than it is.
const FETCH_EXPANSION: usize = 16;
/// The same of a DescribeConfigs: a name of 7 bytes is answered with every option, its documentation and its synonyms.
const DESCRIBE_CONFIGS_EXPANSION: usize = 1500;
/// The most that a request may become beside its own bytes: [`REQUEST_ARRAYS_BYTES_MAX`] of elements, each of which costs
/// less than this multiple of itself.
const EXPANDED_BYTES_MAX: usize = 16 * REQUEST_ARRAYS_BYTES_MAX;

/// Whether a request of `bytes` whose frame begins so is counted at all: most are too small for that.
pub(crate) fn is_counted(frame_start: &[u8], bytes: usize) -> bool {
    bytes > COUNTED_BYTES_MIN
        || counted_bytes(frame_start, bytes) > COUNTED_BYTES_MIN * (1 + EXPANSION)
}

/// What is counted for a request of `bytes` whose frame begins so. Record bytes are appended as they came: a Produce becomes
/// little beside what it is.
pub(crate) fn counted_bytes(frame_start: &[u8], bytes: usize) -> usize {
    let key = frame_start.first_chunk().map(|key| i16::from_be_bytes(*key));
    let expansion = match key {
        Some(key) if key == ApiKey::Produce.key() => 0,
        Some(key) if key == ApiKey::Fetch.key() => FETCH_EXPANSION,
        Some(key) if key == ApiKey::DescribeConfigs.key() => DESCRIBE_CONFIGS_EXPANSION,
        _ => EXPANSION,
    };
    let expanded = bytes.saturating_mul(expansion).min(EXPANDED_BYTES_MAX);
    bytes.saturating_add(expanded)
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
        assert_eq!(counted_bytes(&[0], 1000), 101_000, "what cannot be told is a lot");
    }

    #[test]
    fn a_small_request_is_counted_where_its_answer_is_large() {
        let check = |api: ApiKey, bytes, expected| {
            let start = [&api.key().to_be_bytes()[..], &[0; 20]].concat();
            assert_eq!(is_counted(&start, bytes), expected, "{api} {bytes}");
        };
        // Its answer is counted when its turn comes: it may wait behind a long poll of its connection.
        check(ApiKey::DescribeProducers, 30, false);
        check(ApiKey::Metadata, COUNTED_BYTES_MIN, false);
        check(ApiKey::Metadata, COUNTED_BYTES_MIN + 1, true);
        check(ApiKey::DescribeConfigs, 1000, false);
        check(ApiKey::DescribeConfigs, 1200, true);
    }
}
