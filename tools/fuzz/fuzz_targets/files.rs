//! Any bytes as a checkpoint, an index, an identity or a topic id.
//!
//! Holds: see `commitlog::fuzzing`, which shows these decoders.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| commitlog::fuzzing::decode_every_file(data));
