//! How a command ends: the exit codes, each declared once, and a failure that says what to do next.
//!
//! Owns the numbers of every command but `serve`, whose reasons are `node`'s. It never prints by itself: `main` does,
//! once.

use std::fmt;
use std::io;

/// The exit codes of the client commands. Scripts rely on them: a number is never used again for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// A broker or a file refused what was asked (topic exists, record too large).
    Refused = 1,
    /// The command line is wrong; clap's own code.
    Usage = 2,
    /// No broker answers at the given addresses, or the one that does speaks another protocol.
    Unreachable = 3,
    /// A broker answered, but not in the time allowed; or too few records came in it.
    TimedOut = 4,
    /// `log verify` or `log dump` found damage, or the audit of a bench did.
    Damaged = 5,
    /// A file, pipe or terminal of this machine failed.
    Io = 6,
    /// The figures of a bench are not to be believed: the rate was not kept, or nothing was measured.
    Unsound = 7,
    /// A bench could not read back what was acknowledged: whether it is there is not known.
    Unaudited = 8,
}

/// The table of `corelog --help`; kept beside the numbers it explains.
pub(crate) const EXIT_CODES_HELP: &str = "\
Exit codes:
  0  done                          4  no answer, or no record, in time
  1  refused by a broker or file   5  damage: log files, or a bench audit
  2  wrong command line            6  a local file or pipe failed
  3  no broker reachable           7  figures of a bench that do not hold
  8  a bench that was not audited  10 and up: see serve --help";

/// Why a command ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The number.
    pub(crate) exit: Exit,
    /// Place, fact, bound, consequence; lower case, no full stop.
    pub(crate) fact: String,
    /// What to do now, where we know it.
    pub(crate) next: Option<String>,
}

impl Failure {
    /// A failure without advice.
    pub(crate) fn new(exit: Exit, fact: impl Into<String>) -> Self {
        Self { exit, fact: fact.into(), next: None }
    }

    /// The same with what to do next.
    pub(crate) fn advise(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// The same with one more fact.
    pub(crate) fn adding(mut self, fact: &str) -> Self {
        self.fact = format!("{}; {fact}", self.fact);
        self
    }

    /// A local file or stream failed.
    pub(crate) fn io(place: impl fmt::Display, error: &io::Error) -> Self {
        let failure = Self::new(Exit::Io, format!("{place}: {error}"));
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory => failure.advise("correct the path"),
            io::ErrorKind::PermissionDenied => {
                failure.advise("run it as a user who may, or change the owner or mode of the file")
            }
            io::ErrorKind::StorageFull => failure.advise("free some space on that file system"),
            _ => failure,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.fact)?;
        match &self.next {
            Some(next) => write!(formatter, "\nnext: {next}"),
            None => Ok(()),
        }
    }
}

/// What a command hands back: nothing, or why not.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_code() {
        let codes = [
            Exit::Refused,
            Exit::Usage,
            Exit::Unreachable,
            Exit::TimedOut,
            Exit::Damaged,
            Exit::Io,
            Exit::Unsound,
            Exit::Unaudited,
        ];
        for code in codes {
            let number = format!("{}  ", code as u8);
            assert!(EXIT_CODES_HELP.contains(&number), "{code:?}");
        }
    }

    #[test]
    fn advice_follows_the_fact() {
        let failure = Failure::new(Exit::Refused, "orders: there already").advise("use another");
        assert_eq!(failure.to_string(), "orders: there already\nnext: use another");
    }
}
