//! Rules that a test may switch off, one at a time, to prove that the simulator of the whole broker notices.
//!
//! Owns the broker's own list, and carries those of the crates below to where they are asked for. Without the feature
//! `mutants` a [`Mutant`] cannot be anything but "none", and every question about it is a constant `false`.

/// One rule of the broker, switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Replies of one connection leave in the order of its requests.
    RepliesInOrder,
    /// What one connection forwards to another core is appended there in its order.
    ForwardedAppendsInOrder,
    /// A producer's last batches are remembered over a restart.
    WindowSurvivesRestart,
    /// Fetch shows nothing at or above the high watermark.
    FetchBelowHighWatermark,
    /// The answer of another core for one partition of a Produce goes where that partition stands in the request.
    ProduceAnswersInTheirSlots,
    /// The same of a Fetch.
    FetchAnswersInTheirSlots,
    /// A start that has a snapshot of metadata replays what came after it.
    ReplayBehindSnapshot,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 7] = [
        Self::RepliesInOrder,
        Self::ForwardedAppendsInOrder,
        Self::WindowSurvivesRestart,
        Self::FetchBelowHighWatermark,
        Self::ProduceAnswersInTheirSlots,
        Self::FetchAnswersInTheirSlots,
        Self::ReplayBehindSnapshot,
    ];
}

/// Which rule is off, if any: of the broker, of its leaders or of its logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mutant {
    /// Of the logs.
    pub log: commitlog::mutant::Mutant,
    /// Of the leaders.
    pub leader: partition::Mutant,
    #[cfg(feature = "mutants")]
    off: Option<Rule>,
}

impl Mutant {
    /// `rule` is switched off.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn without(rule: Rule) -> Self {
        Self { off: Some(rule), ..Self::default() }
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
