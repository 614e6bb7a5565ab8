//! Whether the figures of a run may be believed, and if not, why not.
//!
//! Owns the list of reasons and the order in which they count: what is wrong with the records comes before what is wrong with the
//! figures. Everything that judges a run (a table, an exit code, a comparison) judges by this list.

use serde::{Deserialize, Serialize};

use crate::audit::AuditVerdict;
use crate::flushes::{FlushReport, FlushVerdict};
use crate::result::{RunEnd, RunResult};

/// A rate is kept where at most one request in so many that were due did not leave.
const UNSENT_ONE_IN: u64 = 100;

/// Why the figures of a run are not to be believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Unsound {
    /// What was acknowledged is not there as it was sent, or what was read is not whole and in order.
    AuditFailed {
        /// How much was found.
        findings: u64,
    },
    /// It could not go on.
    RunFailed {
        /// Why.
        reason: String,
    },
    /// Requests had no answer.
    Unanswered {
        /// How many.
        requests: u64,
    },
    /// Batches were refused.
    Refused {
        /// How many.
        batches: u64,
        /// The commonest error's name.
        commonest: String,
    },
    /// Batches were acknowledged as durable, and the device was not asked to flush them.
    NotFlushed {
        /// Flushes of the device.
        flushes: u64,
        /// How many there must have been.
        flushes_min: u64,
    },
    /// Flushes were to be shown, and cannot be counted.
    FlushesUnknown {
        /// Why.
        reason: String,
    },
    /// The end of the run was worse than its beginning.
    NotSteady,
    /// Nobody could look whether the records are there.
    NotAudited {
        /// Why.
        reason: String,
    },
    /// More than one request in a hundred was due and did not leave before the end.
    RateNotKept {
        /// Requests that were due while measuring.
        due: u64,
        /// Of them, those that never left.
        unsent: u64,
    },
    /// More batches waited for a consumer than are kept track of: how long these took is not known.
    DeliveriesUncounted {
        /// How many.
        batches: u64,
    },
    /// No request that was due while measuring was answered.
    NothingMeasured,
}

impl Unsound {
    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::AuditFailed { findings } => format!("the audit failed: {findings} findings"),
            Self::RunFailed { reason } => format!("the run failed: {reason}"),
            Self::Unanswered { requests } => format!("{requests} requests were never answered"),
            Self::Refused { batches, commonest } => {
                format!("{batches} batches were refused, most with {commonest}")
            }
            Self::NotFlushed { flushes, flushes_min } => format!(
                "the device was flushed {flushes} times, and {flushes_min} acknowledged requests followed each other: not all that was \
                 acknowledged as durable can have been"
            ),
            Self::FlushesUnknown { reason } => format!("flushes cannot be counted: {reason}"),
            Self::NotSteady => {
                "the last minutes were worse than the first: see the trend".to_owned()
            }
            Self::NotAudited { reason } => format!("not audited: {reason}"),
            Self::RateNotKept { due, unsent } => format!(
                "the rate was not kept: {unsent} of {due} requests that were due never left, and count with the time they had \
                 waited by the end, which is less than their latency"
            ),
            Self::DeliveriesUncounted { batches } => format!(
                "how long {batches} batches took to consumers was not counted, since too many waited at once"
            ),
            Self::NothingMeasured => {
                "nothing was measured: no request that was due while measuring was answered"
                    .to_owned()
            }
        }
    }
}

impl RunResult {
    /// Whether its figures may be believed.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.reasons().is_empty()
    }

    /// Why they may not, the gravest first. Of a saved result it is found anew: older releases did not save it.
    #[must_use]
    pub fn reasons(&self) -> Vec<Unsound> {
        let mut reasons = Vec::new();
        let audit = &self.audit;
        let verdict = audit.judge();
        if verdict == AuditVerdict::Failed {
            reasons.push(Unsound::AuditFailed { findings: audit.finding_count });
        }
        if let Some(flush) =
            self.flush.as_ref().filter(|flush| flush.verdict == FlushVerdict::Failed)
        {
            let (flushes, flushes_min) = (flush.flushes, flush.flushes_min);
            reasons.push(Unsound::NotFlushed { flushes, flushes_min });
        }
        if let RunEnd::Failed { reason } = &self.end {
            reasons.push(Unsound::RunFailed { reason: reason.clone() });
        }
        if self.unanswered > 0 {
            reasons.push(Unsound::Unanswered { requests: self.unanswered });
        }
        if let Some(first) = self.errors.first() {
            let batches = self.errors.iter().map(|error| error.count).sum();
            reasons.push(Unsound::Refused { batches, commonest: first.name.clone() });
        }
        if verdict == AuditVerdict::NotAudited {
            let first = audit.findings.first().map(|finding| finding.fact.clone());
            let reason = first.unwrap_or_else(|| "nothing was looked at".to_owned());
            reasons.push(Unsound::NotAudited { reason });
        }
        if let Some(reason) = self.flush.as_ref().and_then(FlushReport::missed) {
            reasons.push(Unsound::FlushesUnknown { reason });
        }
        if !self.is_rate_kept() {
            reasons.push(Unsound::RateNotKept { due: self.due, unsent: self.unsent });
        }
        if self.delivery_uncounted > 0 {
            reasons.push(Unsound::DeliveriesUncounted { batches: self.delivery_uncounted });
        }
        if self.measured.requests == 0 && self.latency.count == self.latency_lower_bounds {
            reasons.push(Unsound::NothingMeasured);
        }
        if self.trend.is_some_and(|trend| !trend.is_steady) {
            reasons.push(Unsound::NotSteady);
        }
        reasons.extend(self.beside.iter().flat_map(|beside| beside.reasons()));
        reasons
    }

    /// Whether requests left at the rate that was asked. A closed loop has none.
    #[must_use]
    pub fn is_rate_kept(&self) -> bool {
        self.unsent.saturating_mul(UNSENT_ONE_IN) <= self.due || self.unsent == 0
    }

    /// Takes down whether it is sound, for those who read the saved result.
    pub(crate) fn judged(mut self) -> Self {
        self.unsound_because = self.reasons();
        self.sound = self.unsound_because.is_empty();
        self
    }
}
