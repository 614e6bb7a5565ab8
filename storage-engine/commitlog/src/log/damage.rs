//! Damage: bytes that are there and wrong.
//!
//! Owns what is known of it; `walk` says where it begins and ends. Damage is isolated: reads inside it are refused, reads
//! on either side are served, and nothing is cut or skipped.

use std::ops::Range;
use std::rc::Rc;

use record::{Offset, PartitionIndex, TopicId};

use crate::disk::{Disk, DiskResult, OpenMode};
use crate::executor::Executor;
use crate::log::{LogInner, LogState};
use crate::mutant::Rule;
use crate::stream::SegmentStream;
use crate::walk::{DamagedStretch, SegmentWalk};

/// Stretches of damage remembered a log. Beyond it damage is still refused, found again by each read.
pub(crate) const DAMAGE_MAX: usize = 1024;

/// One damaged stretch of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) segment: Offset,
    /// Empty where no byte is wrong and offsets are missing: a file that ends too early, segments that are gone.
    pub(crate) positions: Range<u64>,
    pub(crate) offsets: Range<Offset>,
}

/// One damaged stretch, for metrics and tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamageReport {
    /// The topic's name.
    pub topic: Rc<str>,
    /// Its id.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: PartitionIndex,
    /// Base offset of the segment: names the file.
    pub segment: Offset,
    /// Bytes of the file that are damaged; empty where it ends too early, or files before it are gone.
    pub positions: Range<u64>,
    /// Offsets that cannot be read.
    pub offsets: Range<Offset>,
}

/// What is readable of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readable {
    pub(crate) base: Offset,
    /// Bytes that are written.
    pub(crate) bytes: u64,
    /// One past the last offset that they hold.
    pub(crate) end: Offset,
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// The damage report of this log.
    pub(crate) fn damage(&self) -> Vec<DamageReport> {
        let state = self.state.borrow();
        state
            .damage_from(self.ends.get().log_start())
            .map(|damage| DamageReport {
                topic: self.identity.topic.clone(),
                topic_id: self.identity.topic_id,
                partition: self.identity.partition,
                segment: damage.segment,
                positions: damage.positions.clone(),
                offsets: damage.offsets.clone(),
            })
            .collect()
    }

    /// Known damage that starts at `position`: bytes that are wrong, so that who passes them gets on.
    pub(crate) fn damage_at(&self, segment: Offset, position: u64) -> Option<Damage> {
        let state = self.state.borrow();
        let at = |damage: &&Damage| {
            damage.segment == segment
                && damage.positions.start == position
                && !damage.positions.is_empty()
        };
        state.damage.iter().find(at).cloned()
    }

    /// Known damage that holds `offset`.
    pub(crate) fn damage_holding(&self, offset: Offset) -> Option<Range<Offset>> {
        let state = self.state.borrow();
        let holds = |damage: &&Damage| damage.offsets.contains(&offset);
        state.damage.iter().find(holds).map(|damage| damage.offsets.clone())
    }

    /// Remembers damage, and says it where anybody can ask for its offsets.
    pub(crate) fn note_damage(&self, damage: Damage) {
        if self.shared.mutant.lacks(Rule::DamageNotListed) {
            return;
        }
        let log_start = self.ends.get().log_start();
        let mut state = self.state.borrow_mut();
        if state.damage.contains(&damage) || !state.has_room_for(&damage, log_start) {
            return;
        }
        if !damage.is_below(log_start) {
            tracing::error!(
                log = %self.identity, segment = %damage.segment,
                from = damage.positions.start, to = damage.positions.end,
                first_offset = %damage.offsets.start, end_offset = %damage.offsets.end,
                "record bytes are damaged on disk; reads of these offsets are refused"
            );
        }
        state.damage.push(damage);
    }

    /// How much of what is readable its file holds, and the offset that follows: what is behind it in memory is right.
    fn in_file(&self, readable: Readable) -> (u64, Offset) {
        let in_file = self.state.borrow().in_file_at;
        if readable.base == in_file.segment && in_file.position < readable.bytes {
            return (in_file.position, in_file.offset);
        }
        (readable.bytes, readable.end)
    }

    /// How far the bytes that are bad at `position`, where offset `expected` should start, reach.
    pub(crate) async fn find_damage(
        &self,
        readable: Readable,
        position: u64,
        expected: Offset,
    ) -> DiskResult<Damage> {
        let key = self.segment_key(readable.base);
        let file = self.shared.files.get(&self.directory, key, OpenMode::Read).await?;
        let (bytes, end) = self.in_file(readable);
        let stream = SegmentStream::<D>::new(file, bytes);
        let mut walk = SegmentWalk::new(stream, position, expected, Some(end));
        let found = walk.next_damage(&self.shared.executor).await?;
        Ok(Damage::of(readable.base, found))
    }
}

impl<D: Disk> LogState<D> {
    /// Known damage that somebody can still ask for.
    pub(crate) fn damage_from(&self, log_start: Offset) -> impl Iterator<Item = &Damage> {
        self.damage.iter().filter(move |damage| !damage.is_below(log_start))
    }

    /// Makes room for one more; what nobody can ask for gives way to what somebody can.
    fn has_room_for(&mut self, damage: &Damage, log_start: Offset) -> bool {
        if self.damage.len() < DAMAGE_MAX {
            return true;
        }
        if damage.is_below(log_start) {
            return false;
        }
        let passed_by = self.damage.iter().position(|known| known.is_below(log_start));
        passed_by.map(|at| self.damage.remove(at)).is_some()
    }
}

impl Damage {
    /// A damaged stretch of the segment that starts at `segment`.
    pub(crate) fn of(segment: Offset, found: DamagedStretch) -> Self {
        Self { segment, positions: found.positions, offsets: found.offsets }
    }

    /// Whether nobody can ask for any of it any more: then it is no damage to report.
    pub(crate) fn is_below(&self, log_start: Offset) -> bool {
        self.offsets.end <= log_start && self.offsets.start < log_start
    }
}
