//! The broker as a library, generic over [`Platform`]: connections, handlers, the drivers that feed the pure cores, one shard
//! a core, the control executor's coordinator, configuration, metrics and the admin HTTP server.
//!
//! It never names a runtime, a clock or a socket type: `node` and the simulator bring those.

pub mod config;
pub mod metrics;
pub mod platform;

pub use platform::Platform;
