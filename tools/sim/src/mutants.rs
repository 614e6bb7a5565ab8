//! Rules switched off one at a time, and the seeds that notice.
//!
//! Owns the list of mutants that this world must catch. One that escapes means that the oracle, not the log, is broken.

use commitlog::mutant::{Mutant as LogMutant, Rule};
use partition::Mutant as LeaderMutant;

use crate::log_world::WorldMutant;
use crate::runner::{Failure, Range, Stop, run_many};

/// A rule that is off.
#[derive(Debug, Clone, Copy)]
pub struct Named {
    /// What it does, in words joined by hyphens: `--mutant` of `replay` takes it as it is printed.
    pub name: &'static str,
    /// The switch.
    pub mutant: WorldMutant,
}

/// Every mutant.
#[must_use]
pub fn all() -> Vec<Named> {
    let of_log = Rule::ALL.map(|rule| Named {
        name: name_of(rule),
        mutant: WorldMutant { log: LogMutant::without(rule), ..WorldMutant::default() },
    });
    let of_leader = LeaderMutant::ALL.map(|leader| Named {
        name: match leader {
            LeaderMutant::DuplicateAckedBeforeDurable => {
                "duplicate-acked-before-its-original-is-durable"
            }
            LeaderMutant::HighWatermarkFromAccepted => "high-watermark-from-accepted",
            LeaderMutant::LeaderAckFromAccepted => "leader-ack-from-accepted",
            LeaderMutant::OneBatchRemembered => "one-batch-of-a-producer-remembered",
            LeaderMutant::None => "none",
        },
        mutant: WorldMutant { leader, ..WorldMutant::default() },
    });
    of_log.into_iter().chain(of_leader).collect()
}

fn name_of(rule: Rule) -> &'static str {
    match rule {
        Rule::AckBeforeSync => "ack-before-sync",
        Rule::NoDirectorySync => "no-directory-sync",
        Rule::AppendAfterGap => "append-after-a-gap",
        Rule::IndexTrustedWithoutCheck => "index-trusted-without-check",
        Rule::CheckpointAheadOfSync => "checkpoint-ahead-of-sync",
        Rule::BoundaryRewriteInFlight => "boundary-rewrite-in-flight",
        Rule::StaleCheckpointWins => "stale-checkpoint-of-a-vanished-shard-wins",
        Rule::DamageNotListed => "damage-found-is-not-listed",
    }
}

/// The mutant of that name.
#[must_use]
pub fn named(name: &str) -> Option<Named> {
    all().into_iter().find(|one| one.name == name)
}

/// The lowest seed of `range` that notices, as far as the threads looked.
#[must_use]
pub fn hunt(named: &Named, range: Range) -> Option<Failure> {
    run_many(range, named.mutant, Stop::AtFailure, |_, _| {}).failures.into_iter().next()
}
