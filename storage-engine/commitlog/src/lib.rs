//! One partition as files: segments, sparse indexes, group commit, recovery, and the data directory they live in.
//!
//! Owns every byte of `<data>/` except what `record` and each core's `records.rs` encode. Async and single-threaded, generic
//! over [`Disk`] and [`Executor`]: it names no runtime. It never acknowledges: it says how far bytes are accepted, written
//! and durable, and the broker decides what that is worth.
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod directory;
mod disk;
mod durability;
mod ends;
mod error;
mod executor;
mod files;
mod foreign;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod group;
mod index;
mod journal;
mod local;
mod log;
mod log_pace;
mod lru;
pub mod mutant;
mod producer_states;
mod read_cache;
mod recovery;
mod room_ahead;
pub mod scan;
mod shared;
mod small_file;
mod store;
mod stream;
mod tail_cache;
mod throttle;
mod walk;

pub use checkpoint::CheckpointMap;
pub use disk::{
    AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, IO_BYTES_MAX,
    Lasting, Look, NewDirectory, OpenMode, PathEntry, Piece,
};
pub use ends::{Ends, SafeEnd};
pub use error::{
    AppendError, IoStage, LogFailure, OpenError, ReadError, RefusedOpen, ReleaseError, StoreError,
    TrimError,
};
pub use executor::{Executor, LocalTask, TaskClass, abort_on_panic};
pub use foreign::refuse_foreign;
pub use index::IndexDamage;
pub use journal::{
    JournalFault, JournalOptions, JournalReport, JournalRing, JournalWaiting, inspect_journals,
    recover_journals,
};
pub use log::{
    Appended, AtLeastOneBatch, DamageReport, Log, LogIdentity, LogListener, LogOptions, LogStatus,
    PENDING_BYTES_CORE_MAX, PENDING_BYTES_MAX, Pace, ReadBatches, ReadRequest, RemovalReason,
    RemovedSegment, RetentionPolicy, TimestampedOffset,
};
pub use recovery::{Cut, CutReason, RecoveryReport};
pub use room_ahead::RoomAhead;
pub use store::{
    STATES_BYTES, StartKind, Store, StoreCounters, StoreOptions, Unclosed, UnclosedLog,
};
pub use stream::{BadBatch, FoundBatch};
pub use tail_cache::RecordSlice;
pub use throttle::ReadCost;
