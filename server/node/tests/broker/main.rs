//! The broker on a real node: a process of its own on a directory of its own, and raw clients that speak to it.
//!
//! Owns what a client can observe of the broker, one behaviour a test, one subject a file. Nothing here looks inside the
//! broker. Tests that only need topics of their own share a node; tests that stop one have theirs.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a test that meets the unexpected should fail there; its numbers are small"
)]

mod alter_configs;
mod append_time;
mod cluster_admin;
mod configs;
mod connections;
mod cores;
mod create_partitions;
mod disk_faults;
mod epochs;
mod fetch;
mod fetch_sessions;
mod handover;
mod idempotence;
mod kafka_configs;
mod life;
mod list_offsets;
mod listeners;
mod log_dirs;
mod metadata;
mod metadata_snapshot;
mod produce;
mod producers;
mod scrubbing;
mod support;
mod topics;
mod traffic;
mod trimming;
mod write_caching;

/// The child process: a node, when this binary was started to be one.
#[test]
fn child() {
    support::serve_if_child();
}
