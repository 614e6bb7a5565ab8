//! What can go wrong while measuring. Every error ends the run: half a card is no card.

use std::io;

use nix::errno::Errno;

/// Why there is no card.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CardError {
    /// A scenario against a broker without its process.
    #[error("--pid is needed: the broker's process, whose CPU time is counted")]
    PidNeeded,
    /// A socket or a file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// The call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// A request cannot be written.
    #[error("request: {0}")]
    Encode(#[from] wire::EncodeError),
    /// The broker's answer is no answer.
    #[error("answer: {0}")]
    Body(#[from] wire::BodyError),
    /// The broker refused.
    #[error("{what}: the broker answered {code:?}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// Its error code.
        code: wire::ErrorCode,
    },
    /// The broker answered something else than was asked.
    #[error("{what}: got {got}, expected {expected}")]
    Unexpected {
        /// What differs.
        what: &'static str,
        /// What came.
        got: i64,
        /// What was due.
        expected: i64,
    },
    /// Fetched bytes are no batch, or their checksum is wrong.
    #[error("fetched batch: {0}")]
    Batch(#[from] record::BatchError),
    /// A file of /proc does not look as it should.
    #[error("{0}: not understood")]
    Proc(String),
    /// A helper thread ended in a panic.
    #[error("a thread of the floor panicked")]
    Thread,
}
