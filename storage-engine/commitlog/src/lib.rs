//! One partition as files: segments, sparse indexes, group commit, recovery, and the data directory they live in.
//!
//! Owns every byte of `<data>/` except what `record` and each core's `records.rs` encode. Async and single-threaded, generic
//! over [`Disk`] and [`Executor`]: it names no runtime. It never acknowledges: it says how far bytes are accepted, written
//! and durable, and the broker decides what that is worth.
mod disk;
mod executor;

pub use disk::{
    AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, IO_BYTES_MAX,
    OpenMode, PathEntry,
};
pub use executor::{Executor, LocalTask, TaskClass, abort_on_panic};
