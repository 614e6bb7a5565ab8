//! Rules that a test may switch off, one at a time, to prove that its oracle notices.
//!
//! Owns the list. Without the feature `mutants` the only value is [`Mutant::None`] and every question below is a constant.

/// The rule that is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mutant {
    /// All rules hold.
    #[default]
    None,
    /// ID-2: a retry is acknowledged at once, although its original may still be lost.
    #[cfg(feature = "mutants")]
    DuplicateAckedBeforeDurable,
    /// R1: the high watermark follows what was accepted, not what is safe.
    #[cfg(feature = "mutants")]
    HighWatermarkFromAccepted,
    /// PR-1: acks=1 is answered as soon as the batch is accepted.
    #[cfg(feature = "mutants")]
    LeaderAckFromAccepted,
    /// ID-1: only the newest batch of a producer is remembered.
    #[cfg(feature = "mutants")]
    OneBatchRemembered,
}

impl Mutant {
    /// All mutants, for a test that must catch each.
    #[cfg(feature = "mutants")]
    pub const ALL: [Self; 4] = [
        Self::DuplicateAckedBeforeDurable,
        Self::HighWatermarkFromAccepted,
        Self::LeaderAckFromAccepted,
        Self::OneBatchRemembered,
    ];

    pub(crate) const fn acks_duplicate_at_once(self) -> bool {
        #[cfg(feature = "mutants")]
        return matches!(self, Self::DuplicateAckedBeforeDurable);
        #[cfg(not(feature = "mutants"))]
        false
    }

    pub(crate) const fn commits_accepted(self) -> bool {
        #[cfg(feature = "mutants")]
        return matches!(self, Self::HighWatermarkFromAccepted);
        #[cfg(not(feature = "mutants"))]
        false
    }

    pub(crate) const fn acks_accepted(self) -> bool {
        #[cfg(feature = "mutants")]
        return matches!(self, Self::LeaderAckFromAccepted);
        #[cfg(not(feature = "mutants"))]
        false
    }

    pub(crate) const fn remembers_one_batch(self) -> bool {
        #[cfg(feature = "mutants")]
        return matches!(self, Self::OneBatchRemembered);
        #[cfg(not(feature = "mutants"))]
        false
    }
}
