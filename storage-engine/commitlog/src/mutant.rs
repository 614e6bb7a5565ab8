//! Rules that a test may switch off, to prove that the simulator notices.
//!
//! Owns the list. Without the feature `mutants` a [`Mutant`] cannot be anything but "none", and every question about it is
//! a constant `false` that the compiler removes.

/// One safety rule, switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// `durable` moves when the write completes; the sync is skipped.
    AckBeforeSync,
    /// A fresh file's directory is not synced before its first acknowledgement.
    NoDirectorySync,
    /// Recovery appends behind a tail of zeros, at the next block, instead of cutting it.
    AppendAfterGap,
    /// An index entry is believed without looking at the batch it points to.
    IndexTrustedWithoutCheck,
    /// A checkpoint names the accepted end instead of the durable one.
    CheckpointAheadOfSync,
    /// A group's writes start while its predecessor's are in flight.
    BoundaryRewriteInFlight,
    /// The lowest sequence of a partition's checkpoints wins instead of the highest.
    StaleCheckpointWins,
    /// Damage that a read meets is refused and not listed for the operator.
    DamageNotListed,
    /// A new log start is answered before a checkpoint holds it.
    LogStartAnsweredEarly,
    /// Recovery counts what it found behind the checkpoint as durable, and does not sync it.
    RecoveredNotSynced,
    /// A sync that failed is tried again, and what it then says is believed.
    FailedSyncRetried,
    /// Files go once one copy of the checkpoint has left them behind, and the other still needs them.
    OneCheckpointBeforeRemoval,
    /// All files of a log may go, and with them the name that says where it goes on.
    NameNotKept,
    /// Under write caching `written` moves when a write is submitted, not when it completes.
    WrittenBeforeItIs,
    /// Under write caching nothing is synced until somebody waits for it.
    WrittenNeverSynced,
    /// Segments go though no snapshot says what they said of producers.
    ProducersNotKept,
    /// A directory that was made for a log, and perhaps not made lasting, is opened as it is.
    PreparedNotSynced,
    /// Such a directory's file is synced a second time, and not written again.
    PreparedSyncedAgain,
    /// A scrub passes damage by without a word.
    ScrubSaysNothing,
    /// What is known of producers is written down before the log is durable up to there.
    StatesAheadOfSync,
    /// What is in the journal counts as durable before the journal is synced.
    JournalToldBeforeSync,
    /// A file of the journal is used again though segments do not hold yet what is in it.
    JournalReclaimedEarly,
    /// What is in the journal and not in its segment is not kept in memory.
    BehindNotKept,
    /// A checkpoint names what is durable in the journal only.
    CheckpointAheadOfSettling,
    /// A start makes nothing lasting of what it replays before the journal goes.
    ReplayNotSynced,
    /// A replay writes whole blocks: zeros where newer records may follow.
    ReplayClobbers,
    /// A replay makes segments again that were removed.
    ReplayResurrects,
    /// A replay goes on behind a set that a power cut took.
    ReplayPassesGap,
    /// The journal goes on in its next file while sets of the one before are not synced.
    JournalLeavesUnsynced,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 29] = [
        Self::AckBeforeSync,
        Self::NoDirectorySync,
        Self::AppendAfterGap,
        Self::IndexTrustedWithoutCheck,
        Self::CheckpointAheadOfSync,
        Self::BoundaryRewriteInFlight,
        Self::StaleCheckpointWins,
        Self::DamageNotListed,
        Self::LogStartAnsweredEarly,
        Self::RecoveredNotSynced,
        Self::FailedSyncRetried,
        Self::OneCheckpointBeforeRemoval,
        Self::NameNotKept,
        Self::WrittenBeforeItIs,
        Self::WrittenNeverSynced,
        Self::ProducersNotKept,
        Self::PreparedNotSynced,
        Self::PreparedSyncedAgain,
        Self::ScrubSaysNothing,
        Self::StatesAheadOfSync,
        Self::JournalToldBeforeSync,
        Self::JournalReclaimedEarly,
        Self::BehindNotKept,
        Self::CheckpointAheadOfSettling,
        Self::ReplayNotSynced,
        Self::ReplayClobbers,
        Self::ReplayResurrects,
        Self::ReplayPassesGap,
        Self::JournalLeavesUnsynced,
    ];
}

/// Which rule is off, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mutant {
    #[cfg(feature = "mutants")]
    off: Option<Rule>,
}

impl Mutant {
    /// Every rule holds.
    pub const NONE: Self = Self {
        #[cfg(feature = "mutants")]
        off: None,
    };

    /// `rule` is switched off.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub const fn without(rule: Rule) -> Self {
        Self { off: Some(rule) }
    }

    /// Whether `rule` is switched off.
    #[must_use]
    pub(crate) fn lacks(self, rule: Rule) -> bool {
        #[cfg(feature = "mutants")]
        return self.off == Some(rule);
        #[cfg(not(feature = "mutants"))]
        {
            let _ = rule;
            false
        }
    }
}
