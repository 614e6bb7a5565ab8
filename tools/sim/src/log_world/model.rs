//! What one log must hold: the list of batches it accepted, and what it promised about them.
//!
//! Owns the oracle. It is a plain list searched from the front, sharing no code with the log, so that a clever mistake there
//! has no twin here. Every check returns the property that was broken and the facts.

use std::ops::Range;
use std::rc::Rc;

use record::{Fold, Offset, ProducerBatch, ProducerSnapshotEntry};

use super::batches::Draft;
use crate::verdict::{Verdict, broken};

/// One accepted batch.
#[derive(Debug, Clone)]
pub(super) struct ModelBatch {
    pub(super) base: i64,
    pub(super) last: i64,
    pub(super) epoch: i32,
    /// As the log must return it.
    pub(super) bytes: Rc<Vec<u8>>,
    pub(super) draft: Draft,
    /// A bit of it was flipped on the disk.
    pub(super) is_rotten: bool,
    /// One of its header: what it says of itself bears nothing out any more.
    pub(super) has_rotten_header: bool,
}

impl ModelBatch {
    pub(super) fn range(&self) -> Range<Offset> {
        Offset(self.base)..Offset(self.last + 1)
    }
}

/// One log.
#[derive(Debug, Default)]
pub(super) struct LogModel {
    pub(super) batches: Vec<ModelBatch>,
    /// One past the last record that a client was told is safe.
    pub(super) acked_end: i64,
    /// One past the last record that must outlive a power cut: under write caching it follows `acked_end`.
    durable_end: i64,
    /// The highest `acked_end` since the last start, whatever became of it.
    told_end: i64,
    /// Where the log starts.
    pub(super) log_start: i64,
    /// The highest start that someone was told, or that readers saw from a checkpoint: it may not go back.
    pub(super) told_start: i64,
    /// The highest start that was ever set: none beyond it may come back.
    pub(super) start_max: i64,
    /// A crash may take the first segments of a log with all they held where nothing of it was ever acknowledged: it then starts
    /// here, where the files begin that are left.
    lost_below: i64,
}

impl LogModel {
    pub(super) fn end(&self) -> i64 {
        self.batches.last().map_or(self.lost_below, |batch| batch.last + 1)
    }

    /// The log took a batch at `base`.
    pub(super) fn accept(&mut self, draft: Draft, base: i64, epoch: i32) -> Verdict {
        if base != self.end() {
            return broken("offsets are contiguous", format!("{base} after {}", self.end()));
        }
        let mut bytes = draft.bytes.as_ref().clone();
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
        let last = base + i64::from(draft.header.last_offset_delta);
        let bytes = Rc::new(bytes);
        let (is_rotten, has_rotten_header) = (false, false);
        self.batches.push(ModelBatch {
            base,
            last,
            epoch,
            bytes,
            draft,
            is_rotten,
            has_rotten_header,
        });
        Ok(())
    }

    /// A client was told that the record at `last_offset` is safe.
    pub(super) fn acknowledge(&mut self, last_offset: i64) {
        self.acked_end = self.acked_end.max(last_offset + 1);
        self.told_end = self.told_end.max(self.acked_end);
    }

    /// The same where acknowledgements wait for stable storage: it must outlive a power cut.
    pub(super) fn acknowledge_durable(&mut self, last_offset: i64) {
        self.acknowledge(last_offset);
        self.durable_end = self.durable_end.max(last_offset + 1);
    }

    /// The log said that all below `end` is on stable storage.
    pub(super) fn became_durable(&mut self, end: i64) {
        self.durable_end = self.durable_end.max(end);
        self.acked_end = self.acked_end.max(self.durable_end.min(self.told_end));
    }

    /// The machine lost power, or a sync failed and what it covered may never reach the device: nothing but what is durable was
    /// promised for that.
    pub(super) fn power_failed(&mut self) {
        self.acked_end = self.acked_end.min(self.durable_end);
    }

    /// The log came back with this end: nothing acknowledged may be missing, and only whole batches may. Returns how many records
    /// are gone that were acknowledged and not promised to last.
    pub(super) fn recovered(&mut self, end: i64) -> Verdict<u64> {
        if end < self.acked_end {
            let detail = format!("log ends at {end}, acknowledged up to {}", self.acked_end);
            return broken("acknowledged records survive", detail);
        }
        if end > self.end() {
            let detail = format!("log ends at {end}, accepted up to {}", self.end());
            return broken("nothing is invented", detail);
        }
        if end != self.lost_below && !self.batches.iter().any(|batch| batch.last + 1 == end) {
            return broken("whole batches only", format!("log ends at {end}, inside a batch"));
        }
        self.batches.retain(|batch| batch.last < end);
        // What recovery keeps is durable: it is shown to readers, so it may not go away again.
        let lost = (self.told_end - end).max(0).unsigned_abs();
        (self.acked_end, self.durable_end, self.told_end) = (end, end, end);
        Ok(lost)
    }

    /// The log start was moved: by request or by retention.
    pub(super) fn start_moved(&mut self, log_start: i64) -> Verdict {
        if log_start > self.acked_end {
            let detail = format!("start {log_start}, acknowledged up to {}", self.acked_end);
            return broken("nothing above the high watermark goes", detail);
        }
        self.log_start = self.log_start.max(log_start);
        self.start_max = self.start_max.max(log_start);
        Ok(())
    }

    /// Someone was told that the log starts there.
    pub(super) fn start_told(&mut self, log_start: i64) {
        self.told_start = self.told_start.max(log_start);
    }

    /// The log came back with this start.
    pub(super) fn start_recovered(&mut self, log_start: i64) -> Verdict {
        if log_start < self.told_start {
            let detail = format!("log starts at {log_start}, told {}", self.told_start);
            return broken("a log start that was answered survives", detail);
        }
        if log_start > self.start_max && self.acked_end <= self.start_max {
            self.batches.retain(|batch| batch.base >= log_start);
            self.lost_below = log_start;
            self.start_max = log_start;
        }
        if log_start > self.start_max {
            let detail = format!("log starts at {log_start}, moved to {}", self.start_max);
            return broken("the log start never moves by itself", detail);
        }
        self.log_start = log_start;
        Ok(())
    }

    /// Checkpoints were tampered with: what they said of the log start may be gone with them.
    pub(super) fn forget_told_start(&mut self) {
        self.told_start = 0;
    }

    /// Bytes of the batches that readers can still reach.
    pub(super) fn held_bytes(&self) -> u64 {
        let held = self.batches.iter().filter(|batch| batch.last >= self.log_start);
        held.map(|batch| batch.bytes.len() as u64).sum()
    }

    /// Index of the batch that holds `offset`.
    pub(super) fn index_of(&self, offset: i64) -> Option<usize> {
        self.batches.iter().position(|batch| (batch.base..=batch.last).contains(&offset))
    }

    /// `bytes` were read from `from`: they must be whole batches in order, beginning with the one that holds `from`.
    /// Returns the offset that follows.
    pub(super) fn check_read(&self, from: i64, bytes: &[u8]) -> Verdict<i64> {
        let Some(first) = self.index_of(from) else {
            return broken("nothing is invented", format!("bytes at {from}, which nobody wrote"));
        };
        let mut rest = bytes;
        let mut next = from;
        for batch in &self.batches[first..] {
            if rest.is_empty() {
                break;
            }
            let Some((head, tail)) = rest.split_at_checked(batch.bytes.len()) else {
                let detail =
                    format!("{} of {} bytes at {}", rest.len(), batch.bytes.len(), batch.base);
                return broken("whole batches only", detail);
            };
            if head != batch.bytes.as_slice() {
                let at = head.iter().zip(batch.bytes.iter()).position(|(one, other)| one != other);
                let detail = format!(
                    "batch at {} of {} bytes differs from byte {at:?}",
                    batch.base,
                    head.len()
                );
                return broken("bytes are those appended", detail);
            }
            next = batch.last + 1;
            rest = tail;
        }
        if !rest.is_empty() {
            return broken("nothing is invented", format!("{} bytes behind the end", rest.len()));
        }
        Ok(next)
    }

    /// The first record at or after `target`, by offset, below `end`: (timestamp, offset, epoch).
    pub(super) fn first_at(&self, target: i64, end: i64) -> Option<(i64, i64, i32)> {
        let records = self.batches.iter().flat_map(|batch| {
            let stamps = batch.draft.timestamps.iter();
            (batch.base..).zip(stamps).map(|(offset, stamp)| (*stamp, offset, batch.epoch))
        });
        let start = self.log_start;
        records
            .into_iter()
            .find(|(stamp, offset, _)| *stamp >= target && *offset < end && *offset >= start)
    }

    /// Whether a look-up for `target` may answer so: with the first record that is right, or with an earlier one that is damaged
    /// on disk and still in memory.
    pub(super) fn may_be_first_at(
        &self,
        target: i64,
        end: i64,
        found: Option<(i64, i64, i32)>,
    ) -> Verdict {
        let mut first_right = None;
        for (index, batch) in self.batches.iter().enumerate() {
            let is_passed = batch.is_rotten || self.is_hidden(index);
            for (offset, stamp) in (batch.base..).zip(batch.draft.timestamps.iter()) {
                if *stamp < target || offset >= end || offset < self.log_start {
                    continue;
                }
                let record = Some((*stamp, offset, batch.epoch));
                if found == record && (is_passed || first_right.is_none()) {
                    return Ok(());
                }
                if !is_passed {
                    first_right = first_right.or(record);
                }
            }
            if first_right.is_some() {
                break;
            }
        }
        if found.is_none() && first_right.is_none() {
            return Ok(());
        }
        let start = self.log_start;
        let detail = format!("time {target} in {start}..{end}: {found:?}, model {first_right:?}");
        broken("look-ups by time are exact", detail)
    }

    /// The largest timestamp below `end` and the first record that has it; `None` where no record has one.
    pub(super) fn largest(&self, end: i64) -> Option<(i64, i64)> {
        let records = self.batches.iter().flat_map(|batch| {
            (batch.base..)
                .zip(batch.draft.timestamps.iter())
                .map(|(offset, stamp)| (*stamp, -offset))
        });
        let held = |offset: i64| offset < end && offset >= self.log_start;
        let best = records.filter(|(stamp, offset)| *stamp >= 0 && held(-offset)).max()?;
        Some((best.0, -best.1))
    }

    /// Kafka's OffsetForLeaderEpoch for a known `epoch`: where the next one begins, or the log's end.
    pub(super) fn epoch_end(&self, epoch: i32) -> i64 {
        let next = self.batches.iter().find(|batch| batch.epoch > epoch);
        next.map_or(self.end(), |batch| batch.base)
    }

    /// The producer state that the batches lead to.
    pub(super) fn producers(&self, mut fold: impl Fold) -> Vec<ProducerSnapshotEntry> {
        for batch in &self.batches {
            let header =
                record::BatchHeader { base_offset: Offset(batch.base), ..batch.draft.header };
            fold.apply(&ProducerBatch::from(&header));
        }
        fold.snapshot()
    }

    /// Bytes of the batches before `index` since `segment_base`: where the batch lies in its segment file.
    pub(super) fn position_of(&self, index: usize, segment_base: i64) -> u64 {
        let before = self.batches[..index].iter().filter(|batch| batch.base >= segment_base);
        before.map(|batch| batch.bytes.len() as u64).sum()
    }

    /// Whether a good batch lies between two rotten ones. The checksum does not cover its base offset, which only a neighbour can
    /// bear out: it may be taken for damaged with them. The header of the one before bears it out, if that is right, and is asked
    /// if no other rotten one lies before it.
    pub(super) fn is_hidden(&self, index: usize) -> bool {
        let at = |index: Option<usize>| index.and_then(|index| self.batches.get(index));
        let is_rotten = |index| at(index).is_some_and(|batch| batch.is_rotten);
        let (before, after) = (index.checked_sub(1), index.checked_add(1));
        let says_nothing = at(before).is_some_and(|batch| batch.has_rotten_header)
            || is_rotten(index.checked_sub(2));
        is_rotten(before) && is_rotten(after) && says_nothing
    }

    pub(super) fn has_rot(&self) -> bool {
        self.batches.iter().any(|batch| batch.is_rotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_world::batches::{Sender, Shape, draw};
    use crate::prng::Prng;
    use record::Timestamp;

    fn model() -> LogModel {
        let mut model = LogModel::default();
        let mut prng = Prng::new(1);
        for _ in 0..5 {
            let shape = Shape { block_fill: 0, bytes_max: 500, now: Timestamp(1_000) };
            let draft = draw(&mut prng, shape, Sender::PLAIN);
            model.accept(draft, model.end(), 3).unwrap();
        }
        model
    }

    fn property<T>(verdict: Verdict<T>) -> Option<&'static str> {
        verdict.err().map(|violation| violation.property)
    }

    #[test]
    fn a_power_cut_may_take_what_was_promised_for_a_killed_process_only() {
        let ends: Vec<i64> = model().batches.iter().map(|batch| batch.last + 1).collect();
        let told = || {
            let mut log = model();
            log.acknowledge_durable(ends[0] - 1);
            log.acknowledge(ends[2] - 1);
            log
        };
        let lost = Some("acknowledged records survive");
        assert_eq!(property(told().recovered(ends[1])), lost, "the process was killed");
        let mut log = told();
        log.power_failed();
        assert_eq!(log.recovered(ends[1]), Ok((ends[2] - ends[1]).unsigned_abs()));
        let mut log = told();
        log.power_failed();
        assert_eq!(property(log.recovered(0)), lost);
        let mut log = told();
        log.became_durable(ends[2]);
        log.power_failed();
        assert_eq!(property(log.recovered(ends[1])), lost);
    }

    #[test]
    fn oracle_refuses_every_kind_of_wrong_log() {
        let mut log = model();
        let (second, end) = (log.batches[1].clone(), log.end());
        log.acknowledge(second.last);
        assert_eq!(property(log.recovered(second.base)), Some("acknowledged records survive"));
        assert_eq!(property(log.recovered(end + 1)), Some("nothing is invented"));
        let mut above = log.batches.iter().filter(|batch| batch.base > second.last);
        let long = above.find(|batch| batch.last > batch.base).unwrap().last;
        assert_eq!(property(log.recovered(long)), Some("whole batches only"));
        assert_eq!(log.recovered(log.batches[2].last + 1), Ok(0));
        assert_eq!(log.acked_end, log.end());
        assert_eq!(log.batches.len(), 3);
    }

    #[test]
    fn oracle_compares_every_byte_and_the_order() {
        let log = model();
        let (first, second) = (&log.batches[0], &log.batches[1]);
        let mut both = first.bytes.as_ref().clone();
        both.extend_from_slice(&second.bytes);
        assert_eq!(log.check_read(first.base, &both), Ok(second.last + 1));
        assert_eq!(property(log.check_read(second.base, &both)), Some("bytes are those appended"));
        for at in 0..first.bytes.len() {
            let mut wrong = first.bytes.as_ref().clone();
            wrong[at] ^= 1;
            assert_eq!(property(log.check_read(0, &wrong)), Some("bytes are those appended"));
        }
        let cut = &both[..both.len() - 1];
        assert_eq!(property(log.check_read(0, cut)), Some("whole batches only"));
        assert_eq!(property(log.check_read(log.end(), &both)), Some("nothing is invented"));
    }
}
