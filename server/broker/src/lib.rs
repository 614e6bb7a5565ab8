//! The broker as a library, generic over [`Platform`]: connections, handlers, the drivers that feed the pure cores, one shard
//! a core, the control executor's coordinator, configuration, metrics and the admin HTTP server.
//!
//! It never names a runtime, a clock or a socket type: `node` and the simulator bring those.

mod accept;
pub mod admin;
pub mod calls;
pub mod config;
mod connection;
pub mod connection_counts;
pub mod context;
pub mod control;
pub mod drivers;
pub mod endpoint;
mod error_code;
pub mod fetch_sessions;
mod handlers;
pub mod handover;
mod log_pace;
mod memory;
pub mod mesh_call;
pub mod metrics;
pub mod mutant;
pub mod node_state;
pub mod platform;
pub mod refusal;
pub mod send_path;
pub mod shard;
pub mod sync;

pub use control::{ControlOptions, Ready, StartRefusal, StopFaults, Stopped, run_control};
pub use mesh_call::Message;
pub use platform::Platform;
pub use shard::run_data_core;
