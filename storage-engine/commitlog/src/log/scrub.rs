//! Reading sealed segments again, so that rot is found while there is still a copy to repair it from.
//!
//! Owns the walk over one segment. It judges as every reader does, notes what it finds as damage of the log, and changes
//! nothing; it goes round the caches, so that what consumers use stays in them. How fast it goes is its caller's to say.

use record::Offset;

use crate::disk::{Disk, DiskResult, OpenMode};
use crate::executor::Executor;
use crate::log::damage::Damage;
use crate::log::{Log, LogInner};
use crate::stream::SegmentStream;
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

    /// Reads the sealed segment that starts at `base` from front to back and checks every batch. `pace` is told how many bytes
    /// were read since it was asked last. A segment that retention takes meanwhile is read to its end and nothing noted of it.
    ///
    /// Errors   the file cannot be opened or read.
    pub async fn scrub(&self, base: Offset, pace: impl AsyncFn(u64) -> Pace) -> DiskResult<()> {
        let inner = &self.0;
        let Some((bytes, end)) = inner.sealed(base) else { return Ok(()) };
        let file = {
            let _busy = inner.busy();
            let key = inner.segment_key(base);
            inner.shared.files.get(&inner.directory, key, OpenMode::Read).await?
        };
        let mut walk = SegmentWalk::new(SegmentStream::<D>::new(file, bytes), 0, base, Some(end));
        let mut told = 0;
        loop {
            let stretch = walk.next(&inner.shared.executor).await?;
            let read = walk.bytes_read();
            if read > told && pace(read - told).await == Pace::Stop {
                return Ok(());
            }
            told = read;
            match stretch {
                Some(Stretch::Damage { damage, .. }) if inner.sealed(base).is_some() => {
                    inner.note_damage(Damage::of(base, damage));
                }
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// Bytes and end of the segment that starts at `base`, where it is here and sealed.
    fn sealed(&self, base: Offset) -> Option<(u64, Offset)> {
        let state = self.state.borrow();
        let segment = state.segment(base).filter(|segment| segment.is_sealed)?;
        (!self.is_closed()).then_some((segment.bytes, segment.end))
    }
}
