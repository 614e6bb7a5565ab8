//! The log on a disk in memory: one behaviour a file. Faults that need a seed are in `tools/sim`.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a test that meets the unexpected should fail there; its numbers are small"
)]

mod append_and_read;
mod damage;
mod epochs;
mod failure;
mod journal;
mod lifecycle;
#[cfg(feature = "mutants")]
mod mutants;
mod preparing;
mod producer_states;
mod read_ahead;
mod recovery;
mod room_ahead;
mod scrub;
mod sealing;
mod short;
mod support;
mod time;
mod trim;
mod write_caching;
