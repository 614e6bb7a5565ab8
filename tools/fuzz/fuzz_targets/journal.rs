//! Any bytes as a file header of the core journal, and as one of its entry sets.
//!
//! Holds: see `commitlog::fuzzing`, which shows these decoders.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| commitlog::fuzzing::decode_journal(data));
