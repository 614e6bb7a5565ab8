//! Where a partition stands against its checkpoint while its segments go by.
//!
//! Owns the judgement on which side of the checkpoint bytes lie, and what is compared on the way: epochs and producers. It
//! reads no file.

use std::collections::VecDeque;

use commitlog::checkpoint::CheckpointEntry;
use record::{BatchHeader, EpochTable, Offset};

use super::derived::Derived;
use super::files::{Partition, Segment};

/// One partition, on its way from front to back.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// What its checkpoint says.
    pub(super) entry: Option<CheckpointEntry>,
    /// It lies in a data directory, so that what no checkpoint covers is for a start to judge.
    pub(super) has_ground: bool,
    /// A tail has begun that the next start cuts, or a segment that it sets aside.
    pub(super) is_cut: bool,
    /// The place where the checkpoint stands went by, or was spoken of.
    pub(super) is_past: bool,
    /// Producers of the batches so far.
    pub(super) derived: Derived,
    /// Path and contents of the leader epochs, until they are found wrong.
    pub(super) epochs: Option<(String, EpochTable)>,
    /// The first place that a journal has and the segments do not, by segment and position, and where the log ends with that.
    pub(super) waiting: Option<((Offset, u64), Offset)>,
    /// Snapshots that stand further on.
    pub(super) snapshots: VecDeque<(Offset, String)>,
}

impl Standing {
    /// The beginning of a partition.
    pub(super) fn new(entry: Option<CheckpointEntry>, has_ground: bool) -> Self {
        let is_past = entry.is_none_or(|entry| entry.position == 0);
        Self { entry, has_ground, is_past, ..Self::default() }
    }

    /// Whether a start checks these bytes before it believes them, and cuts what it does not believe.
    pub(super) fn is_above(&self, segment: Offset, position: u64) -> bool {
        let above = |entry: CheckpointEntry| {
            segment > entry.segment || (segment == entry.segment && position >= entry.position)
        };
        self.has_ground && self.entry.is_none_or(above)
    }

    /// Whether the next start writes what belongs here from a journal.
    pub(super) fn is_in_journal(&self, segment: Offset, position: u64) -> bool {
        self.waiting.is_some_and(|(from, _)| from <= (segment, position))
    }

    /// The checkpoint, if it stands in this segment and has not gone by.
    fn awaited(&self, segment: Offset) -> Option<CheckpointEntry> {
        self.entry.filter(|entry| entry.segment == segment && !self.is_past)
    }

    /// A good stretch ended at `position`, where offset `end` follows: what is wrong if the checkpoint stands here or before.
    pub(super) fn arrive(&mut self, segment: Offset, position: u64, end: Offset) -> Option<String> {
        let entry = self.awaited(segment).filter(|entry| position >= entry.position)?;
        self.is_past = true;
        let agrees = position == entry.position && end == entry.end;
        (!agrees).then(|| {
            format!(
                "offset {end} follows at byte {position}, by its checkpoint offset {} at byte {}",
                entry.end, entry.position
            )
        })
    }

    /// Bad bytes up to `position` were reported: no second word about the checkpoint in them.
    pub(super) fn pass(&mut self, segment: Offset, position: u64) {
        if self.awaited(segment).is_some_and(|entry| position >= entry.position) {
            self.is_past = true;
        }
    }

    /// The segment was not read: nothing is known of what lies in it.
    pub(super) fn skip(&mut self, segment: Offset) {
        self.derived.passes_over();
        self.pass(segment, u64::MAX);
    }

    /// The segment ended after `filled` bytes: what is wrong if its checkpoint stands further on.
    pub(super) fn leave(&mut self, segment: Offset, filled: u64, end: Offset) -> Option<String> {
        let entry = self.awaited(segment)?;
        self.is_past = true;
        Some(format!(
            "ends after byte {filled}, its checkpoint knows {} bytes: offsets {} are missing",
            entry.position,
            span(end, entry.end)
        ))
    }

    /// What the checkpoint knows in front of the first segment, and nothing holds.
    pub(super) fn missing_front(&self, first: Option<&Segment>) -> Option<String> {
        let entry = self.entry?;
        match first {
            None if entry.end > entry.log_start => Some(format!(
                "no segment: offsets {} are missing",
                span(entry.log_start, entry.end)
            )),
            Some(first) if first.base > entry.log_start => {
                let gone = span(entry.log_start, first.base);
                Some(format!("starts at offset {}: offsets {gone} are missing", first.base))
            }
            _ => None,
        }
    }

    /// What the checkpoint knows behind the segments that are there. `reached`: where those before its own end.
    pub(super) fn missing_back(&self, partition: &Partition, reached: Offset) -> Option<String> {
        let entry = self.entry?;
        let is_there = partition.segments.iter().any(|segment| segment.base == entry.segment);
        let is_emptied = partition.segments.is_empty();
        if is_there || is_emptied || entry.end <= reached {
            return None;
        }
        let missing = span(reached.max(entry.log_start), entry.end);
        Some(format!("{:020}.log is missing: offsets {missing}", entry.segment.0))
    }

    /// The first batch that the leader epochs contradict; they are not asked again then.
    ///
    /// Epochs are written before a checkpoint that passes them: above it, the file may not know the newest.
    pub(super) fn epoch_difference(
        &mut self,
        segment: Offset,
        position: u64,
        header: &BatchHeader,
    ) -> Option<(String, String)> {
        let (_, table) = self.epochs.as_ref()?;
        // Of what lies below the log start, and only waits to be removed with its segment, the file says nothing any more.
        // In a copy of the directory alone it is the only one that knows the start.
        let in_file = || table.entries().first().map_or(Offset::ZERO, |first| first.start_offset);
        let log_start = self.entry.map_or_else(in_file, |entry| entry.log_start);
        if header.last_offset() < log_start {
            return None;
        }
        let offset = header.base_offset.max(log_start);
        let (said, found) = (table.epoch_at(offset), header.partition_leader_epoch);
        let may_be_news = !self.has_ground || self.is_above(segment, position);
        let is_news = may_be_news && table.latest().is_none_or(|latest| found > latest);
        if found.0 < 0 || said == Some(found) || is_news {
            return None;
        }
        let said = said.map_or("none".to_owned(), |epoch| epoch.to_string());
        let problem = format!("epoch {said} for offset {offset}, its batch has {found}");
        self.epochs.take().map(|(path, _)| (path, problem))
    }
}

/// `from` up to `end`, which is not included, as people say it.
fn span(from: Offset, end: Offset) -> String {
    format!("{from} to {}", end.0.saturating_sub(1))
}
