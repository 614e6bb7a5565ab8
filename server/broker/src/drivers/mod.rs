//! What feeds the pure cores and obeys their effects.
//!
//! Owns the pairing of cores with logs and clocks. Drivers move bytes and wait; cores decide.

pub mod admission;
mod metadata_batch;
pub mod metadata_log;
pub mod partition;
pub(crate) mod recovery;
pub(crate) mod stall;
pub(crate) mod traffic;
pub mod watched;
