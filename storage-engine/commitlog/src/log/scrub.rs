//! Reading sealed segments again, so that rot is found while there is still a copy to repair it from.
//!
//! Owns the walk over one segment. It judges as every reader does, notes what it finds as damage of the log, and changes
//! nothing; it goes round the caches, so that what consumers use stays in them. How fast it goes is its caller's to say, after
//! each read: a search for where good batches go on may read a segment twice. A disk that gives next to nothing ends it.

use std::ops::Range;
use std::rc::Rc;

use futures_lite::future::or;
use record::Offset;

use crate::disk::{Disk, DiskResult, OpenMode};
use crate::durability::count;
use crate::executor::Executor;
use crate::log::damage::Damage;
use crate::log::{Log, LogInner};
use crate::mutant::Rule;
use crate::stream::SegmentStream;
use crate::throttle::{ReadCost, Throttle};
use crate::walk::{SegmentWalk, Stretch};

/// Whether a scrub goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// With the next bytes.
    GoOn,
    /// Not now: the core stops, or the log is not this core's any more.
    Stop,
}

impl<D: Disk, E: Executor> Log<D, E> {
    /// Base offset of the first sealed segment at or above `from`; `None` where there is none.
    #[must_use]
    pub fn sealed_from(&self, from: Offset) -> Option<Offset> {
        let state = self.0.state.borrow();
        let found = state.segments.iter().find(|one| one.base >= from && one.is_sealed);
        found.map(|segment| segment.base)
    }

    /// Reads the sealed segment that starts at `base` from front to back and checks every batch. `pace` is told of every read,
    /// and no other is begun before it returns. A segment that retention takes meanwhile is read to its end and nothing noted of it.
    /// Returns how many bytes the disk did not give: what lies behind them is checked all the same, and they are no damage yet,
    /// since the next read may bring them.
    ///
    /// Errors   the file cannot be opened, or so many of its reads fail that the rest is not tried.
    pub async fn scrub(
        &self,
        base: Offset,
        pace: impl AsyncFn(ReadCost) -> Pace,
    ) -> DiskResult<u64> {
        let inner = &self.0;
        let Some((bytes, end)) = inner.sealed(base) else { return Ok(0) };
        let file = {
            let _busy = inner.busy();
            let key = inner.segment_key(base);
            let opened = inner.shared.files.get(&inner.directory, key, OpenMode::Read).await;
            opened.inspect_err(|_| count(&inner.shared.counters.io_errors, 1))?
        };
        let throttle = Rc::new(Throttle::default());
        let stream = SegmentStream::<D>::passing_unreadable(file, bytes, Rc::clone(&throttle));
        let mut walk = SegmentWalk::new(stream, 0, base, Some(end));
        let walked = or(inner.scrub_all(base, &mut walk), async {
            while pace(throttle.owed().await).await == Pace::GoOn {
                throttle.settle();
            }
            Ok(Walked::NotToTheEnd)
        });
        let walked = walked.await;
        let unreadable = walk.stream().unreadable();
        count(&inner.shared.counters.io_errors, unreadable.len() as u64);
        let unreadable_bytes = unreadable.iter().map(|range| range.end - range.start).sum();
        if walked? == Walked::ToTheEnd {
            inner.note_early_end(base, bytes, walk.expected()..end);
        }
        Ok(unreadable_bytes)
    }
}

/// How far a scrub came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walked {
    ToTheEnd,
    NotToTheEnd,
}

/// Whether one of these stretches has part of that one.
fn overlaps(stretches: &[Range<u64>], other: &Range<u64>) -> bool {
    stretches.iter().any(|one| one.start < other.end && other.start < one.end)
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// Bytes and end of the segment that starts at `base`, where it is here and sealed.
    fn sealed(&self, base: Offset) -> Option<(u64, Offset)> {
        let state = self.state.borrow();
        let segment = state.segment(base).filter(|segment| segment.is_sealed)?;
        (!self.is_closed()).then_some((segment.bytes, segment.end))
    }

    /// Walks to the end, as fast as it is let.
    async fn scrub_all(&self, base: Offset, walk: &mut SegmentWalk<D>) -> DiskResult<Walked> {
        while let Some(stretch) = walk.next(&self.shared.executor).await? {
            if let Stretch::Damage { damage, .. } = stretch {
                let is_unread = overlaps(walk.stream().unreadable(), &damage.positions);
                self.note_scrubbed(Damage::of(base, damage), is_unread);
            }
        }
        Ok(Walked::ToTheEnd)
    }

    /// What a scrub came across in a segment that may be gone by now.
    fn note_scrubbed(&self, damage: Damage, is_unread: bool) {
        if self.sealed(damage.segment).is_none() || self.shared.mutant.lacks(Rule::ScrubSaysNothing)
        {
            return;
        }
        if is_unread {
            tracing::error!(
                log = %self.identity, segment = %damage.segment,
                from = damage.positions.start, to = damage.positions.end,
                first_offset = %damage.offsets.start, end_offset = %damage.offsets.end,
                "record bytes cannot be read from the disk"
            );
            return;
        }
        self.note_damage(damage);
    }

    /// Every byte is right, and there are fewer than the segment's offsets need.
    fn note_early_end(&self, segment: Offset, bytes: u64, missing: Range<Offset>) {
        if !missing.is_empty() {
            let damage = Damage { segment, positions: bytes..bytes, offsets: missing };
            self.note_scrubbed(damage, false);
        }
    }
}
