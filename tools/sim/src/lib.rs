//! The deterministic worlds: a seeded executor, a seeded disk with every fault a disk is allowed, workloads and oracles.
//!
//! Owns the simulation of a node's logs ([`log_world`]) and of the whole broker ([`broker_world`]). A seed and a commit are the whole bug report: nothing here reads a
//! clock, the system's randomness or the network, and every failure names the command that replays it.

pub mod broker_world;
pub mod disk;
pub mod disk_suite;
pub mod executor;
pub mod log_world;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod panics;
pub mod platform;
pub mod prng;
pub mod runner;
pub mod trace;
mod verdict;

pub use verdict::Violation;
