//! The broker in memory: every core of a node on one thread, in virtual time, with faults on request.
//!
//! Owns what a test against a real node cannot arrange: a core that stands still, a disk that does not answer, a panic at a
//! given place. What a client can observe of a healthy node is tested in `server/node/tests/broker`.
#![expect(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected should fail there; its numbers are small"
)]

mod calls;
mod client;
mod node;
mod panics;
mod stalls;
mod world;
