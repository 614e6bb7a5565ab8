//! Any bytes as a record of the metadata log.
//!
//! Holds: what decodes encodes to bytes that decode to the same, and takes no more of them than it came in.
#![no_main]

use cluster::MetadataRecord;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(record) = MetadataRecord::decode(data) {
        let encoded = record.encode();
        assert!(encoded.len() <= data.len());
        assert_eq!(MetadataRecord::decode(&encoded), Ok(record));
    }
});
