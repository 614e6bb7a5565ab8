//! The core journal: small groups of many logs made lasting by one write and one sync.
//!
//! Owns `journal/`. A log's group below a bound goes into the entry set that its core writes next, and is durable with it; its
//! segment gets the bytes later, in whole blocks, from memory. Nothing is acknowledged from memory alone, and the journal forgets
//! nothing that a segment does not hold on stable storage.
//!
//! ```text
//! logs of a core     a ─┐  b ─┐  c ─┐      all that wait when the journal is free, never more waiting than that
//! journal            [ header | a | b | c ] one write, one sync ──► durable
//! ring of files      [ 0: settled ][ 1: settling ][ 2: full ][ 3: ..► ]      a file is used again once all of it is settled
//! behind             memory of a ──64 KiB, or its file is wanted──► segment of a: write, sync ──► settled
//! start              every ring: sets from the oldest that is needed on ──► segments ──► sync ──► the rings go ──► logs open
//! ```
//! - `accepted ≥ written ≥ durable ≥ settled`: checkpoints, seals and removals go by what is settled.
//! - A lane is in one place at a time: what of it is behind is settled before a large group goes to its segment directly.
//! - Writing the same bytes to their place again changes nothing; a replay writes those bytes and no others.
//!
//! ```text
//! entry.rs   the bytes                      core_journal.rs  which group goes where, and the sets
//! ring.rs    the files of one core          behind.rs        segments written behind
//! replay.rs  the sets of an earlier life    apply.rs         what the segments lack of them
//! inspect.rs the same, with nothing changed
//! ```

mod apply;
mod behind;
mod core_journal;
pub(crate) mod entry;
mod inspect;
mod replay;
mod ring;

pub use inspect::{JournalFault, JournalRing, inspect_journals};
pub use replay::{JournalReport, JournalWaiting, recover_journals};

pub(crate) use behind::JournalLane;
pub(crate) use core_journal::CoreJournal;
pub(crate) use ring::JournalPlace;

/// Directory of all rings.
pub(crate) const JOURNAL_DIRECTORY: &str = "journal";

/// How the journal of one core is made and used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// Length of each file, a multiple of 4 KiB and at least four of them.
    pub file_bytes: u64,
    /// Files of the ring, at least two.
    pub file_count: u32,
    /// Drawn by chance at each start: record bytes must not look like entries.
    pub ring: u64,
    /// A group up to so many bytes goes to the journal; a larger one to its segment, since what costs then is the bytes.
    pub group_bytes_max: u64,
    /// A group that would be in a set with fewer than this, and whose log is not behind, goes to its segment directly. One that
    /// waits for the disk gains by being alone in a set: it lasts after one transfer, and its file does not grow by it.
    pub company_min: usize,
    /// The same where no group of the set waits for the disk: alone, it would only be written twice.
    pub cached_company_min: usize,
    /// Sets that are not written before the ring is made: a core with little to write goes without.
    pub sets_before: u64,
    /// A log's segment is written once so much of it is behind.
    pub settle_bytes: u64,
    /// Memory of the core for what is behind.
    pub behind_bytes_max: u64,
}
