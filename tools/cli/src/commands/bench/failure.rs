//! How a run that could not be made, or could not go on, ends the command: its exit code, and what to do next.
//!
//! Owns the one mapping. What a client of one request would be told is told in the same words.

use load::LoadError;
use nix::errno::Errno;
use wire::ErrorCode;

use crate::client::{BROKEN_ADVICE, BUG_ADVICE, LATE_ADVICE, advice_for, advice_for_address};
use crate::exit::{Exit, Failure};

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let failure = Self::new(exit(&error), error.to_string());
        match advice(&error) {
            Some(advice) => failure.advise(advice),
            None => failure,
        }
    }
}

fn exit(error: &LoadError) -> Exit {
    match error {
        LoadError::Workload(_) => Exit::Usage,
        LoadError::TimedOut { .. } => Exit::TimedOut,
        LoadError::Process(_) => Exit::Io,
        LoadError::Refused { .. }
        | LoadError::LeaderMoved { .. }
        | LoadError::Offline { .. }
        | LoadError::OnlyErrors { .. }
        | LoadError::NotMentioned { .. }
        | LoadError::TooMany { .. }
        | LoadError::Unfilled { .. }
        | LoadError::NothingToRead { .. }
        | LoadError::Unsendable { .. } => Exit::Refused,
        LoadError::Unreachable { .. }
        | LoadError::NoBootstrap
        | LoadError::Broken { .. }
        | LoadError::Sending { .. }
        | LoadError::Frame { .. }
        | LoadError::NoCommonVersion { .. }
        | LoadError::Malformed { .. }
        | LoadError::Numbered { .. }
        | LoadError::Unasked { .. }
        | LoadError::Unplaced { .. }
        | LoadError::Layout { .. }
        | LoadError::Panicked => Exit::Unreachable,
    }
}

fn advice(error: &LoadError) -> Option<&'static str> {
    Some(match error {
        LoadError::Unreachable { source, .. }
            if source.raw_os_error() == Some(Errno::EMFILE as i32) =>
        {
            "this process may not open so many connections: raise its limit (ulimit -n), or ask for fewer"
        }
        LoadError::Unreachable { source, .. } => advice_for_address(source.kind()),
        LoadError::NoBootstrap => "name a broker with -b HOST:PORT",
        LoadError::Broken { .. } | LoadError::Sending { .. } => BROKEN_ADVICE,
        LoadError::Frame { .. } => {
            "name Kafka's port with -b HOST:PORT; corelog doctor explains what is there"
        }
        LoadError::TimedOut { .. } => LATE_ADVICE,
        LoadError::NoCommonVersion { .. } => "corelog apis lists what the broker serves",
        LoadError::Refused { code, .. } | LoadError::OnlyErrors { code, .. } => match *code {
            ErrorCode::MessageTooLarge => {
                "send smaller batches (--batch-bytes), or to a topic that takes them (-c max.message.bytes=N)"
            }
            code => return advice_for(code),
        },
        LoadError::NotMentioned { .. } => {
            "corelog cluster describe shows the brokers, corelog topic list the topics"
        }
        LoadError::LeaderMoved { .. } => {
            "run it again when the cluster is at rest: corelog topic describe shows the leaders"
        }
        LoadError::Offline { .. } => {
            "corelog topic describe shows who should lead them: start those brokers, or see their logs"
        }
        LoadError::TooMany { .. } => "use a topic with fewer",
        LoadError::NothingToRead { .. } => {
            "fill it first, or leave --topic out: a topic is made and filled then"
        }
        LoadError::Unfilled { .. } => {
            "corelog bench produce shows what becomes of batches; the node's log may say why"
        }
        LoadError::Process(_) => "correct --broker-pid: a process of this machine",
        LoadError::Malformed { .. }
        | LoadError::Numbered { .. }
        | LoadError::Unasked { .. }
        | LoadError::Unplaced { .. }
        | LoadError::Layout { .. }
        | LoadError::Panicked => BUG_ADVICE,
        // They say what may be.
        LoadError::Workload(_) | LoadError::Unsendable { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use load::Address;

    use super::*;

    #[test]
    fn a_run_that_could_not_be_made_says_what_to_do() {
        let check = |error: LoadError, exit: Exit, advice: &str| {
            let failure = Failure::from(error);
            assert_eq!(failure.exit, exit, "{failure}");
            assert!(failure.next.as_deref().is_some_and(|next| next.contains(advice)), "{failure}");
        };
        let unreachable = |source: io::Error| LoadError::Unreachable {
            address: Address { host: "b".to_owned(), port: 1 },
            source,
        };
        let refused = io::ErrorKind::ConnectionRefused.into();
        check(unreachable(refused), Exit::Unreachable, "nothing listens there");
        let many = io::Error::from_raw_os_error(Errno::EMFILE as i32);
        check(unreachable(many), Exit::Unreachable, "ulimit -n");
        let code = ErrorCode::MessageTooLarge;
        check(LoadError::OnlyErrors { count: 1, code }, Exit::Refused, "--batch-bytes");
        let code = ErrorCode::NotLeaderOrFollower;
        let moved = LoadError::LeaderMoved { place: "t-0".to_owned(), code };
        check(moved, Exit::Refused, "at rest");
        check(LoadError::Panicked, Exit::Unreachable, "report it");
    }
}
