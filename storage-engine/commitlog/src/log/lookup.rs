//! From an offset to a place in a segment: indexes are loaded, verified when used, and rebuilt when wrong.
//!
//! Owns the trust in an index. An entry from a file is believed after its batch was seen; whatever is missing, short, zero or
//! wrong costs time, never a wrong answer.

use std::rc::Rc;

use record::Offset;

use crate::disk::{Disk, DiskError, DiskResult, OpenMode};
use crate::error::ReadError;
use crate::executor::{Executor, TaskClass};
use crate::files::{Suffix, segment_name};
use crate::index::{INDEX_ENTRIES_MAX, IndexBuilder, IndexDamage, SegmentIndex, TIME_ENTRY_BYTES};
use crate::log::LogInner;
use crate::log::damage::{Damage, Readable};
use crate::log::segment::SegmentMax;
use crate::mutant::Rule;
use crate::shared::{HeldIndex, IndexKey, IndexOrigin};
use crate::small_file;
use crate::stream::SegmentStream;
use crate::walk::{SegmentWalk, Stretch};

/// Where to begin reading for an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) position: u64,
    /// Base offset of the batch there, if known.
    pub(crate) base_offset: Option<Offset>,
    /// Last offset of the batch there, where an index says so.
    pub(crate) last_offset: Option<Offset>,
    /// Set if an index file gave the position: a surprise there speaks against the index first.
    pub(crate) origin: Option<IndexOrigin>,
}

impl Start {
    pub(crate) const fn exact(position: u64, base_offset: Offset) -> Self {
        Self { position, base_offset: Some(base_offset), last_offset: None, origin: None }
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// Where to begin for `offset` in the segment that starts at `base`.
    pub(crate) async fn start_for(
        &self,
        readable: Readable,
        offset: Offset,
    ) -> Result<Start, ReadError> {
        // Who reads on knows the place; an index knows that of a batch before it.
        let key = self.segment_key(readable.base);
        if let Some(position) = self.shared.read_cache.position_after(key, offset) {
            return Ok(Start::exact(position, offset));
        }
        if let Some(start) = self.start_in_memory(readable.base, offset) {
            return Ok(start);
        }
        let held = self.index(readable).await?;
        Ok(match held.index.at_or_before(offset) {
            Some((last_offset, position)) => Start {
                position,
                base_offset: None,
                last_offset: Some(last_offset),
                origin: Some(held.origin),
            },
            None => Start { origin: Some(held.origin), ..Start::exact(0, readable.base) },
        })
    }

    /// From the part of the index that this process made itself.
    fn start_in_memory(&self, base: Offset, offset: Offset) -> Option<Start> {
        let state = self.state.borrow();
        let memory = state.segment(base)?.memory.as_ref()?;
        if offset < memory.from_offset {
            return None;
        }
        Some(match memory.builder.index().at_or_before(offset) {
            Some((last_offset, position)) => {
                Start { position, base_offset: None, last_offset: Some(last_offset), origin: None }
            }
            None => Start::exact(memory.from_position, memory.from_offset),
        })
    }

    /// The part of a segment that its index file covers now: all of it, or what lies before the part in memory. Not what was
    /// readable a while ago: a segment that was sealed since has the index of the whole.
    fn indexed(&self, readable: Readable) -> Readable {
        let state = self.state.borrow();
        let Some(segment) = state.segment(readable.base) else { return readable };
        let (bytes, end) = match &segment.memory {
            Some(memory) => (memory.from_position, memory.from_offset),
            None => (segment.bytes, segment.end),
        };
        Readable { bytes, end, ..readable }
    }

    /// The index of a segment, without the part that is in memory.
    pub(crate) async fn index(&self, readable: Readable) -> Result<Rc<HeldIndex>, ReadError> {
        let (indexed, _work) = match self.index_or_work(readable, |_| true).await {
            Turn::Held(held) => return Ok(held),
            Turn::Work(indexed, work) => (indexed, work),
        };
        match self.load_index(indexed).await? {
            Ok(index) => Ok(self.hold(self.index_key(indexed), index, IndexOrigin::File)),
            Err(damage) => {
                let (log, segment) = (&self.identity, readable.base);
                match damage {
                    // Every crash leaves the newest segment without one.
                    IndexDamage::Missing => {
                        tracing::info!(%log, %segment, "no index yet: making it from the log");
                    }
                    damage => {
                        tracing::warn!(%log, %segment, %damage, "index unusable: rebuilding it from the log");
                    }
                }
                self.rebuild(indexed).await
            }
        }
    }

    /// Drops what an index file said, and makes the index from the batches, unless somebody has just done so.
    pub(crate) async fn rebuild_index(
        &self,
        readable: Readable,
        damage: IndexDamage,
    ) -> Result<Rc<HeldIndex>, ReadError> {
        let is_built = |held: &HeldIndex| held.origin == IndexOrigin::Built;
        let (indexed, _work) = match self.index_or_work(readable, is_built).await {
            Turn::Held(held) => return Ok(held),
            Turn::Work(indexed, work) => (indexed, work),
        };
        tracing::warn!(
            log = %self.identity, segment = %readable.base, %damage,
            "index wrong: rebuilding it from the log"
        );
        // Nobody takes over meanwhile what was just found to be wrong: sealing would put it on disk again.
        self.shared.indexes.borrow_mut().remove(&self.index_key(indexed));
        self.rebuild(indexed).await
    }

    /// The index in memory if it `will_do`; else the caller's turn to make it, once nobody else is at it.
    async fn index_or_work(
        &self,
        readable: Readable,
        will_do: impl Fn(&HeldIndex) -> bool,
    ) -> Turn<'_, D, E> {
        loop {
            let indexed = self.indexed(readable);
            let key = self.index_key(indexed);
            let in_work = &self.shared.indexes_in_work;
            if !in_work.borrow().contains(&key) {
                let held = self.shared.indexes.borrow_mut().get(&key);
                return match held.filter(|held| will_do(held)) {
                    Some(held) => Turn::Held(held),
                    None => Turn::Work(indexed, self.begin_work(key)),
                };
            }
            let done = || (!in_work.borrow().contains(&key)).then_some(());
            self.shared.index_ready.wait_for(done).await;
        }
    }

    fn index_key(&self, indexed: Readable) -> IndexKey {
        IndexKey { segment: self.segment_key(indexed.base), bytes: indexed.bytes }
    }

    fn begin_work(&self, key: IndexKey) -> Work<'_, D, E> {
        self.shared.indexes_in_work.borrow_mut().insert(key);
        Work { inner: self, key }
    }

    pub(crate) fn hold(
        &self,
        key: IndexKey,
        index: SegmentIndex,
        origin: IndexOrigin,
    ) -> Rc<HeldIndex> {
        let weight = index.weight();
        let held = Rc::new(HeldIndex { index, origin });
        self.shared.indexes.borrow_mut().insert(key, held.clone(), weight);
        held
    }

    async fn load_index(&self, indexed: Readable) -> DiskResult<Result<SegmentIndex, IndexDamage>> {
        if indexed.bytes == 0 {
            return Ok(Ok(SegmentIndex::new(indexed.base)));
        }
        let Some(offsets) = self.read_index_file(indexed.base, Suffix::Index).await? else {
            return Ok(Err(IndexDamage::Missing));
        };
        let Some(times) = self.read_index_file(indexed.base, Suffix::TimeIndex).await? else {
            return Ok(Err(IndexDamage::Missing));
        };
        if self.shared.mutant.lacks(Rule::IndexTrustedWithoutCheck) {
            return Ok(Ok(SegmentIndex::decode_unchecked(indexed.base, &offsets, &times)));
        }
        Ok(SegmentIndex::decode(indexed.base, indexed.end, indexed.bytes, &offsets, &times))
    }

    async fn read_index_file(&self, base: Offset, suffix: Suffix) -> DiskResult<Option<Vec<u8>>> {
        let path = small_file::join(&self.directory, &segment_name(base, suffix));
        // One byte more than the largest index: a longer file is seen to be too long.
        let bytes_max = INDEX_ENTRIES_MAX * TIME_ENTRY_BYTES + 1;
        small_file::read(&self.shared.disk, &path, bytes_max).await
    }

    /// Makes missing index files of sealed segments again, in the background.
    pub(crate) fn rebuild_later(&self, segments: Vec<Offset>) {
        let Some(inner) = self.this.upgrade() else { return };
        if segments.is_empty() {
            return;
        }
        let rebuild = async move {
            for base in segments {
                let _busy = inner.busy();
                let Some(readable) = inner.readable(base) else { continue };
                if inner.is_closed() {
                    return;
                }
                if let Err(error) = inner.index(readable).await {
                    tracing::warn!(log = %inner.identity, segment = %base, %error, "index not rebuilt");
                }
            }
        };
        self.shared.executor.spawn(TaskClass::Background, Box::pin(rebuild));
    }

    /// Reads the whole part, notes its damage and its largest timestamp, and keeps the index.
    async fn rebuild(&self, indexed: Readable) -> Result<Rc<HeldIndex>, ReadError> {
        let built = self.scan_index(indexed).await?;
        let is_sealed = {
            let mut state = self.state.borrow_mut();
            // Its file is no use: a clean stop has to write it, even if nothing is appended until then.
            state.tidy_at = state.tidy_at.filter(|(base, _)| *base != indexed.base);
            let segment = state.segment_mut(indexed.base);
            segment.is_some_and(|segment| {
                // While the front was scanned the segment may have grown and been sealed: what the front says is then neither the
                // segment's largest timestamp nor its index.
                let is_whole = segment.memory.is_none() && segment.bytes == indexed.bytes;
                if is_whole {
                    segment.max = SegmentMax::Known(built.max());
                }
                segment.is_sealed && is_whole
            })
        };
        let mut complete = built;
        if is_sealed {
            complete.finish();
        }
        let key = self.index_key(indexed);
        let held = self.hold(key, complete.index().clone(), IndexOrigin::Built);
        if is_sealed {
            self.write_index_later(indexed.base, held.clone());
        }
        Ok(held)
    }

    async fn scan_index(&self, indexed: Readable) -> DiskResult<IndexBuilder> {
        let mut builder = IndexBuilder::new(indexed.base, None);
        if indexed.bytes == 0 {
            return Ok(builder);
        }
        let key = self.segment_key(indexed.base);
        let file = self.shared.files.get(&self.directory, key, OpenMode::Read).await?;
        let stream = SegmentStream::<D>::new(file, indexed.bytes);
        let mut walk = SegmentWalk::new(stream, 0, indexed.base, Some(indexed.end));
        let interval = self.options.get().index_interval_bytes;
        while let Some(stretch) = walk.next(&self.shared.executor).await? {
            match stretch {
                Stretch::Batch { position, header } => builder.observe(&header, position, interval),
                Stretch::Damage { damage, .. } => {
                    self.note_damage(Damage::of(indexed.base, damage));
                }
                Stretch::ZeroTail { .. } => {}
            }
        }
        Ok(builder)
    }

    /// Puts a rebuilt index of a sealed segment back on disk; if that fails, the next start builds it again. A log that closes
    /// meanwhile waits for it: the scan behind an index is worth more than the wait for two small files.
    fn write_index_later(&self, base: Offset, held: Rc<HeldIndex>) {
        let Some(inner) = self.busy_task() else { return };
        let write = async move {
            let is_gone = || inner.state.borrow().segment(base).is_none();
            if is_gone() {
                return;
            }
            let (disk, directory) = (&inner.shared.disk, &inner.directory);
            if let Err(error) = write_index(disk, directory, base, &held.index).await {
                tracing::warn!(%directory, segment = %base, %error, "rebuilt index not written");
            }
            // Retention may have taken the segment meanwhile, its index files before these.
            if is_gone() {
                remove_index(disk, directory, base).await;
            }
        };
        self.shared.executor.spawn(TaskClass::Background, Box::pin(write));
    }
}

/// Removes both index files of a segment that is gone. What stays is swept by a later start.
async fn remove_index<D: Disk>(disk: &D, directory: &str, base: Offset) {
    for suffix in [Suffix::Index, Suffix::TimeIndex] {
        let path = small_file::join(directory, &segment_name(base, suffix));
        match disk.remove(&path).await {
            Ok(()) | Err(DiskError::NotFound) => {}
            Err(error) => tracing::warn!(%path, %error, "index of a removed segment not removed"),
        }
    }
}

/// Writes both index files of a segment; lasting on return.
pub(crate) async fn write_index<D: Disk>(
    disk: &D,
    directory: &str,
    base: Offset,
    index: &SegmentIndex,
) -> DiskResult<()> {
    let offsets = segment_name(base, Suffix::Index);
    small_file::replace(disk, directory, &offsets, &index.encode_offsets()).await?;
    let times = segment_name(base, Suffix::TimeIndex);
    small_file::replace(disk, directory, &times, &index.encode_times()).await
}

/// What became of asking for an index.
enum Turn<'a, D: Disk, E: Executor> {
    /// It is there.
    Held(Rc<HeldIndex>),
    /// The caller makes it, for this part of the segment.
    Work(Readable, Work<'a, D, E>),
}

/// Marks an index as in work until it is dropped, whatever way that comes.
struct Work<'a, D: Disk, E: Executor> {
    inner: &'a LogInner<D, E>,
    key: IndexKey,
}

impl<D: Disk, E: Executor> Drop for Work<'_, D, E> {
    fn drop(&mut self) {
        self.inner.shared.indexes_in_work.borrow_mut().remove(&self.key);
        self.inner.shared.index_ready.notify();
    }
}
