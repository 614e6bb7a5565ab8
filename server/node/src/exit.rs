//! Why the process ends, as a number that a service manager can act on.
//!
//! Owns the one list of exit codes: number, name and meaning stand together here and nowhere else.

use std::fmt;
use std::process::{ExitCode, Termination};

macro_rules! exit_reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal,)+) => {
        /// Why the process ends.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ExitReason {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        impl ExitReason {
            /// Every reason, ascending by number.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The exit code.
            pub const fn number(self) -> u8 {
                match self { $(Self::$name => $number,)+ }
            }

            /// The name, as the log shows it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// What it means and what to do, for the operator.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

exit_reasons! {
    /// Stopped as asked; everything is on disk and the next start is quick.
    Done = 0,
    /// The configuration or the command line is wrong; nothing was touched.
    Config = 2,
    /// io_uring cannot be used: too old a kernel, a sysctl, or a container's seccomp profile.
    IoUringBlocked = 10,
    /// The limit of locked memory (ulimit -l) is below what the rings need.
    MemoryLock = 11,
    /// Another process holds the data directory.
    DirectoryLocked = 12,
    /// The data directory cannot be created, read or written, or its file system has no direct I/O.
    DirectoryUnusable = 13,
    /// A listener's address is in use, not this machine's, or not allowed.
    AddressUnavailable = 14,
    /// The data directory's contents are refused: another node's or program's, a newer format, or damage that needs a decision.
    DataRefused = 15,
    /// The system refused threads, memory or rings while the cores were started.
    CoreFailed = 16,
    /// The data directory's file system is full: nothing acknowledged is lost; free some space and start again.
    DiskFull = 17,
    /// Stopped as asked, but not everything could be left in order: the last line says what; the next start recovers.
    UncleanStop = 18,
    /// A bug of ours: please report it with the log.
    Bug = 70,
    /// A second signal arrived before the clean stop was done; the next start recovers.
    Forced = 130,
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

impl From<ExitReason> for ExitCode {
    fn from(reason: ExitReason) -> Self {
        Self::from(reason.number())
    }
}

impl Termination for ExitReason {
    fn report(self) -> ExitCode {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_every_reason_says_what_it_means() {
        let numbers: Vec<u8> = ExitReason::ALL.iter().map(|reason| reason.number()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        for reason in ExitReason::ALL {
            assert_eq!(*reason as u8, reason.number());
            assert!(reason.meaning().ends_with('.'), "{reason}");
        }
        assert_eq!(ExitReason::Config.to_string(), "Config (2)");
    }
}
