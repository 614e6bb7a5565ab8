//! The load generator against a broker in memory, in virtual time: the same engine as on sockets, on the simulator's platform.
//!
//! Owns what no real node shows at will: a core that stands still for exactly a second, a node that stops in the middle, answers
//! that are not true.
#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected should fail there")]

mod lies;
mod middleman;
mod runs;
mod workloads;
mod world;
