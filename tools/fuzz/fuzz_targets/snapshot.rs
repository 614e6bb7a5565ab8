//! Any bytes as a snapshot of metadata, under a right checksum.
//!
//! Input: the file up to its checksum. Holds: what is not refused is an image that keeps every rule, and its own snapshot is
//! read back as the same.
#![no_main]

use cluster::Image;
use libfuzzer_sys::fuzz_target;
use record::crc32c;

fuzz_target!(|body: &[u8]| {
    let mut file = body.to_vec();
    file.extend_from_slice(&crc32c(body).to_be_bytes());
    let Ok(snapshot) = Image::decode_snapshot(&file) else { return };
    snapshot.image.check();
    let written = snapshot.image.encode_snapshot(snapshot.batch_crc).expect("it is small");
    let again = Image::decode_snapshot(&written).expect("what an image writes is read");
    assert_eq!(again.batch_crc, snapshot.batch_crc);
    assert_eq!(again.image.encode_snapshot(again.batch_crc), Ok(written));
});
