//! Retention (LG-2): how far whole segments may go, by the age of their records and by the size of the log.
//!
//! Owns the choice, nothing of the removal. Segments go from the head and the first one that must stay ends it. Nothing at or
//! above the high watermark, or past what is durable, is ever chosen.

use std::collections::BTreeMap;
use std::rc::Rc;

use record::{Offset, Timestamp};

use crate::disk::Disk;
use crate::error::ReadError;
use crate::executor::Executor;
use crate::log::trim::RemovalReason;
use crate::log::{Damage, LogInner, LogOptions};

/// What may be kept of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionPolicy {
    /// Milliseconds that a segment stays after its newest record (`retention.ms`); `None` for ever.
    pub age_ms_max: Option<i64>,
    /// Bytes that the log may hold (`retention.bytes`); `None` for no bound.
    pub bytes_max: Option<u64>,
}

/// What a look at a log chose.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// Why each segment goes, by its base offset.
    pub(crate) reasons: BTreeMap<Offset, RemovalReason>,
    /// Where the log is to start.
    pub(crate) log_start: Option<Offset>,
    /// Base and end of the segment that takes appends, if it is among them: it must be rolled first.
    pub(crate) active: Option<(Offset, Offset)>,
}

/// One segment, as retention sees it.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    base: Offset,
    end: Offset,
    bytes: u64,
    is_active: bool,
    opened_at: Timestamp,
}

impl LogOptions {
    /// `segment.ms` of one segment: less the part of `segment.jitter.ms` that its base offset decides, so that logs that were
    /// created together do not all roll together. A function of its arguments: a seed is a bug report.
    pub(crate) fn segment_ms_of(&self, log_seed: u64, base: Offset) -> i64 {
        let jitter = self.segment_jitter_ms.min(self.segment_ms).max(0).cast_unsigned();
        if jitter == 0 {
            return self.segment_ms;
        }
        // SplitMix64's finisher: neighbouring offsets give unrelated parts.
        let mut mixed = log_seed ^ base.0.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = (mixed ^ (mixed >> 31)) % jitter;
        self.segment_ms - part.cast_signed()
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// Chooses what goes by `policy` at `now`.
    pub(crate) async fn choose(
        self: &Rc<Self>,
        policy: RetentionPolicy,
        now: Timestamp,
    ) -> Result<Chosen, ReadError> {
        let candidates = self.candidates();
        let mut chosen = Chosen::default();
        let mut left = candidates.as_slice();
        while let (Some(age_ms_max), Some((first, rest))) = (policy.age_ms_max, left.split_first())
        {
            let mut newest = self.newest_record(*first).await?;
            if self.is_damaged(*first) {
                // What cannot be read has no age that could be known. The records of the next segment came later: they speak for
                // it, so that damage neither goes early nor keeps what follows it for ever.
                let Some(next) = rest.first() else { break };
                newest = newest.max(self.newest_record(*next).await?);
            }
            if now.0.saturating_sub(newest.0) <= age_ms_max {
                break;
            }
            chosen.add(*first, RemovalReason::Age);
            left = rest;
            self.shared.executor.yield_if_needed().await;
        }
        let held: u64 = self.state.borrow().segments.iter().map(|segment| segment.bytes).sum();
        let gone: u64 = candidates.iter().map(|one| one.bytes).sum::<u64>()
            - left.iter().map(|one| one.bytes).sum::<u64>();
        let mut held = held.saturating_sub(gone);
        while let (Some(bytes_max), Some((first, rest))) = (policy.bytes_max, left.split_first()) {
            if held.saturating_sub(first.bytes) < bytes_max {
                break;
            }
            held -= first.bytes;
            chosen.add(*first, RemovalReason::Size);
            left = rest;
        }
        Ok(chosen)
    }

    /// Segments that could go, from the head: wholly below the high watermark and durable, not empty.
    fn candidates(&self) -> Vec<Candidate> {
        let state = self.state.borrow();
        let bound = self.high_watermark.get().min(state.durable_at.offset);
        let active = state.active().base;
        let could_go = state.segments.iter().take_while(|one| one.end <= bound && one.bytes > 0);
        could_go
            .map(|one| Candidate {
                base: one.base,
                end: one.end,
                bytes: one.bytes,
                is_active: one.base == active,
                opened_at: one.opened_at,
            })
            .collect()
    }

    /// Whether damage is known within a segment.
    fn is_damaged(&self, candidate: Candidate) -> bool {
        let state = self.state.borrow();
        let lies_within = |damage: &Damage| {
            damage.offsets.start < candidate.end && candidate.base < damage.offsets.end
        };
        state.damage_from(self.ends.get().log_start()).any(lies_within)
    }

    /// The largest timestamp of a segment; when it was opened, where none of its records has one.
    async fn newest_record(&self, candidate: Candidate) -> Result<Timestamp, ReadError> {
        let _busy = self.busy();
        let Some(readable) = self.readable(candidate.base) else { return Ok(candidate.opened_at) };
        let max = self.max_timestamp(readable).await?;
        Ok(max.map_or(candidate.opened_at, |max| max.timestamp))
    }

    /// Whether the active segment is older than `segment.ms` though nothing is appended to it.
    pub(crate) fn is_active_old(&self, now: Timestamp) -> bool {
        let state = self.state.borrow();
        let active = state.active();
        let age_ms = now.0.saturating_sub(active.opened_at.0);
        let options = self.options.get();
        active.bytes > 0 && age_ms > options.segment_ms_of(self.jitter_seed(), active.base)
    }

    /// Tells this log's jitter from that of others.
    pub(crate) fn jitter_seed(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.identity.topic_id.0;
        let topic = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        topic ^ u64::from(self.identity.partition.0.cast_unsigned())
    }
}

impl Chosen {
    fn add(&mut self, candidate: Candidate, reason: RemovalReason) {
        self.reasons.insert(candidate.base, reason);
        self.log_start = Some(candidate.end);
        if candidate.is_active {
            self.active = Some((candidate.base, candidate.end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_shortens_segment_ms_by_a_part_that_offset_and_log_decide() {
        let options =
            LogOptions { segment_ms: 1_000, segment_jitter_ms: 400, ..LogOptions::default() };
        let of = |seed, base| options.segment_ms_of(seed, Offset(base));
        let drawn: std::collections::BTreeSet<_> = (0..100).map(|base| of(7, base)).collect();
        assert!(drawn.iter().all(|ms| (601..=1_000).contains(ms)), "{drawn:?}");
        assert!(drawn.len() > 50, "{drawn:?}");
        assert_eq!(of(7, 3), of(7, 3));
        assert_ne!(of(7, 3), of(8, 3));
        let without = LogOptions { segment_jitter_ms: 0, ..options };
        assert_eq!(without.segment_ms_of(7, Offset(3)), 1_000);
        let too_much = LogOptions { segment_jitter_ms: i64::MAX, ..options };
        assert!((1..=1_000).contains(&too_much.segment_ms_of(7, Offset(3))));
    }
}
