//! Finding records by time (LO-2).
//!
//! Owns the look-up of the first record at or after a timestamp, exact inside a compressed batch, and of the record with the
//! largest timestamp.

use record::{LeaderEpoch, Offset, Timestamp};

/// A record found by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// The record's timestamp.
    pub timestamp: Timestamp,
    /// Its offset.
    pub offset: Offset,
    /// Leader epoch of its batch.
    pub leader_epoch: LeaderEpoch,
}
