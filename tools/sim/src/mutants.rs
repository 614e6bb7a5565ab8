//! Rules switched off one at a time, and the seeds that notice.
//!
//! Owns the lists of mutants that each world must catch. One that escapes means that the oracle, not the code, is broken.

use broker::mutant::{Mutant as BrokerMutant, Rule as BrokerRule};
use commitlog::mutant::{Mutant as LogMutant, Rule};
use partition::Mutant as LeaderMutant;

use crate::log_world::WorldMutant;
use crate::runner::{Failure, Range, Stop, World, run_many};

/// A rule that is off.
#[derive(Debug, Clone, Copy)]
pub struct Named<Mutant> {
    /// What it does, in words joined by hyphens: `--mutant` of `replay` takes it as it is printed.
    pub name: &'static str,
    /// The switch.
    pub mutant: Mutant,
}

/// Every mutant of the world of logs.
pub(crate) fn of_log_world() -> Vec<Named<WorldMutant>> {
    let of_log = Rule::ALL.map(|rule| Named {
        name: name_of_rule(rule),
        mutant: WorldMutant { log: LogMutant::without(rule), ..WorldMutant::default() },
    });
    let of_leader = LeaderMutant::ALL.map(|leader| Named {
        name: name_of_leader(leader),
        mutant: WorldMutant { leader, ..WorldMutant::default() },
    });
    of_log.into_iter().chain(of_leader).collect()
}

/// Every mutant of the world of the broker: its own rules, and those below that its clients can see broken.
pub(crate) fn of_broker_world() -> Vec<Named<BrokerMutant>> {
    let own = BrokerRule::ALL.map(|rule| Named {
        name: match rule {
            BrokerRule::RepliesInOrder => "replies-out-of-order",
            BrokerRule::ForwardedAppendsInOrder => "forwarded-appends-out-of-order",
            BrokerRule::WindowSurvivesRestart => "idempotence-window-lost-at-restart",
            BrokerRule::FetchBelowHighWatermark => "fetch-above-the-high-watermark",
            BrokerRule::ProduceAnswersInTheirSlots => "produce-answer-in-the-wrong-slot",
            BrokerRule::FetchAnswersInTheirSlots => "fetch-answer-in-the-wrong-slot",
            BrokerRule::ReplayBehindSnapshot => "metadata-behind-a-snapshot-not-replayed",
        },
        mutant: BrokerMutant::without(rule),
    });
    let of_leader = LeaderMutant::ALL.map(|leader| Named {
        name: name_of_leader(leader),
        mutant: with(|mutant| mutant.leader = leader),
    });
    // A journal that is used again too early takes more sets than a broker's life has: the logs' world sees that.
    let of_log = [Rule::AckBeforeSync, Rule::LogStartAnsweredEarly, Rule::JournalToldBeforeSync];
    let of_log = of_log.map(|rule| Named {
        name: name_of_rule(rule),
        mutant: with(|mutant| mutant.log = LogMutant::without(rule)),
    });
    own.into_iter().chain(of_leader).chain(of_log).collect()
}

fn with(set: impl FnOnce(&mut BrokerMutant)) -> BrokerMutant {
    let mut mutant = BrokerMutant::default();
    set(&mut mutant);
    mutant
}

fn name_of_leader(leader: LeaderMutant) -> &'static str {
    match leader {
        LeaderMutant::DuplicateAckedBeforeDurable => {
            "duplicate-acked-before-its-original-is-durable"
        }
        LeaderMutant::HighWatermarkFromAccepted => "high-watermark-from-accepted",
        LeaderMutant::LeaderAckFromAccepted => "leader-ack-from-accepted",
        LeaderMutant::OneBatchRemembered => "one-batch-of-a-producer-remembered",
        LeaderMutant::None => "none",
    }
}

fn name_of_rule(rule: Rule) -> &'static str {
    match rule {
        Rule::AckBeforeSync => "ack-before-sync",
        Rule::NoDirectorySync => "no-directory-sync",
        Rule::AppendAfterGap => "append-after-a-gap",
        Rule::IndexTrustedWithoutCheck => "index-trusted-without-check",
        Rule::CheckpointAheadOfSync => "checkpoint-ahead-of-sync",
        Rule::BoundaryRewriteInFlight => "boundary-rewrite-in-flight",
        Rule::StaleCheckpointWins => "stale-checkpoint-of-a-vanished-shard-wins",
        Rule::DamageNotListed => "damage-found-is-not-listed",
        Rule::LogStartAnsweredEarly => "log-start-answered-early",
        Rule::RecoveredNotSynced => "recovered-not-synced",
        Rule::FailedSyncRetried => "failed-sync-retried",
        Rule::OneCheckpointBeforeRemoval => "one-checkpoint-before-removal",
        Rule::NameNotKept => "name-not-kept",
        Rule::WrittenBeforeItIs => "written-before-it-is",
        Rule::WrittenNeverSynced => "written-and-never-synced",
        Rule::ProducersNotKept => "producers-not-kept",
        Rule::PreparedNotSynced => "prepared-directory-not-synced",
        Rule::PreparedSyncedAgain => "prepared-directory-synced-again",
        Rule::ScrubSaysNothing => "scrub-says-nothing",
        Rule::StatesAheadOfSync => "states-ahead-of-sync",
        Rule::JournalToldBeforeSync => "journal-told-before-its-sync",
        Rule::JournalReclaimedEarly => "journal-reclaimed-before-segments-are-settled",
        Rule::BehindNotKept => "what-is-behind-is-not-kept-in-memory",
        Rule::CheckpointAheadOfSettling => "checkpoint-ahead-of-settling",
        Rule::ReplayNotSynced => "replay-not-synced",
        Rule::ReplayClobbers => "replay-clobbers-what-follows",
        Rule::ReplayResurrects => "replay-resurrects-segments",
        Rule::ReplayPassesGap => "replay-passes-a-gap",
        Rule::JournalLeavesUnsynced => "journal-leaves-a-file-unsynced",
    }
}

/// The mutant of that name.
#[must_use]
pub fn named<W: World>(name: &str) -> Option<Named<W::Mutant>> {
    W::mutants().into_iter().find(|one| one.name == name)
}

/// The lowest seed of `range` that notices, as far as the threads looked.
#[must_use]
pub fn hunt<W: World>(named: &Named<W::Mutant>, range: Range) -> Option<Failure> {
    run_many::<W>(range, named.mutant, Stop::AtFailure, |_, _| {}).failures.into_iter().next()
}
