//! Checked stretches of old log, shared by whoever reads behind the tail.
//!
//! Owns extents: whole batches back to back, in the memory they were read into. An extent enters after the checksum of each
//! of its batches was right and leaves when the budget of the core is passed, the one used longest ago first. It also knows what
//! is being read ahead, so that nobody reads the same twice, and what nobody has taken yet does not push out what others read.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use record::Offset;

use crate::disk::Disk;
use crate::files::{LogKey, SegmentKey};
use crate::local::Event;
use crate::lru::Lru;
use crate::tail_cache::{Glimpse, Next, RecordSlice, Take, Taken, Taker};

/// Whole, checked batches of one segment.
#[derive(Debug)]
pub(crate) struct Extent<D: Disk> {
    /// Where the first batch starts.
    pub(crate) position: u64,
    /// Where the last batch ends.
    pub(crate) end_position: u64,
    pub(crate) first_offset: Offset,
    pub(crate) next_offset: Offset,
    /// The bytes from `position` to `end_position`, in order.
    pub(crate) pieces: Vec<RecordSlice<D>>,
    /// Whether a reader was given some of it, and not only led through it.
    pub(crate) is_taken: Cell<bool>,
}

impl<D: Disk> Extent<D> {
    /// Whole batches by `take`.
    pub(crate) fn read(&self, take: Take) -> Taken<D> {
        let mut taker = Taker::new(take);
        let mut position = self.position;
        while position < self.end_position {
            let mut head = [0; Glimpse::BYTES];
            copy_out(&self.pieces, position - self.position, &mut head);
            let batch = Glimpse::parse(&head);
            if taker.show(position, batch) == Next::Stop {
                break;
            }
            position += batch.bytes;
        }
        let (range, first_offset, next_offset) = taker.finish();
        let bytes = range.end - range.start;
        let from = range.start.saturating_sub(self.position);
        Taken { slices: cut(&self.pieces, from, bytes), first_offset, next_offset, bytes }
    }
}

/// Copies from `from` on, counted over all pieces; what is not there stays as it is.
pub(crate) fn copy_out<D: Disk>(pieces: &[RecordSlice<D>], from: u64, into: &mut [u8]) -> usize {
    let mut filled = 0;
    for piece in cut(pieces, from, into.len() as u64) {
        into[filled..filled + piece.len()].copy_from_slice(&piece);
        filled += piece.len();
    }
    filled
}

/// The `bytes` from `from` on, counted over all pieces; fewer where they end.
pub(crate) fn cut<D: Disk>(
    pieces: &[RecordSlice<D>],
    from: u64,
    bytes: u64,
) -> Vec<RecordSlice<D>> {
    let mut skip = from;
    let mut left = bytes;
    let mut slices = Vec::new();
    for piece in pieces {
        let len = piece.len() as u64;
        if left == 0 {
            break;
        }
        if skip >= len {
            skip -= len;
            continue;
        }
        let now = left.min(len - skip);
        let to = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        slices.push(piece.narrow(to(skip), to(skip + now)));
        skip = 0;
        left -= now;
    }
    slices
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ExtentKey {
    segment: SegmentKey,
    first_offset: Offset,
}

/// Of the cache, what may be read ahead and not taken yet: one part in so many.
const AHEAD_PART: usize = 2;

/// What a reader is expected to ask for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// It is being read.
    Loading { bytes: usize },
    /// It is in the cache, and nobody has asked for it yet.
    Unread { bytes: usize },
}

/// The extents of one core.
pub(crate) struct ReadCache<D: Disk> {
    extents: RefCell<Lru<ExtentKey, Rc<Extent<D>>>>,
    bytes_max: usize,
    ahead: RefCell<BTreeMap<ExtentKey, Ahead>>,
    /// Something that was being read ahead is not any more.
    loaded: Event,
}

impl<D: Disk> ReadCache<D> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            extents: RefCell::new(Lru::new(bytes_max)),
            bytes_max,
            ahead: RefCell::default(),
            loaded: Event::default(),
        }
    }

    /// Takes note that `bytes` are being read ahead from `offset` on, until [`ReadCache::end_ahead`]; false where that is there or
    /// on its way, or too much is.
    pub(crate) fn begin_ahead(&self, segment: SegmentKey, offset: Offset, bytes: usize) -> bool {
        let key = ExtentKey { segment, first_offset: offset };
        let extents = self.extents.borrow();
        let mut ahead = self.ahead.borrow_mut();
        if extents.contains(&key) || ahead.contains_key(&key) {
            return false;
        }
        // What was evicted before anybody took it waits for nobody.
        ahead.retain(|key, one| matches!(one, Ahead::Loading { .. }) || extents.contains(key));
        let waiting: usize =
            ahead.values().map(|(Ahead::Loading { bytes } | Ahead::Unread { bytes })| bytes).sum();
        let fits = waiting + bytes <= self.bytes_max / AHEAD_PART;
        if fits {
            ahead.insert(key, Ahead::Loading { bytes });
        }
        fits
    }

    /// The reading ahead is over, whatever came of it.
    pub(crate) fn end_ahead(&self, segment: SegmentKey, offset: Offset) {
        let key = ExtentKey { segment, first_offset: offset };
        let mut ahead = self.ahead.borrow_mut();
        if let Some(Ahead::Loading { bytes }) = ahead.remove(&key)
            && self.extents.borrow().contains(&key)
        {
            ahead.insert(key, Ahead::Unread { bytes });
        }
        drop(ahead);
        self.loaded.notify();
    }

    /// Waits while the batches from `offset` on are being read ahead.
    pub(crate) async fn read_ahead_ended(&self, segment: SegmentKey, offset: Offset) {
        let key = ExtentKey { segment, first_offset: offset };
        let is_loading = || matches!(self.ahead.borrow().get(&key), Some(Ahead::Loading { .. }));
        self.loaded.wait_for(|| (!is_loading()).then_some(())).await;
    }

    /// The extent that holds `offset`.
    pub(crate) fn holding(&self, segment: SegmentKey, offset: Offset) -> Option<Rc<Extent<D>>> {
        let mut extents = self.extents.borrow_mut();
        let wanted = ExtentKey { segment, first_offset: offset };
        let (key, extent) = extents.floor(&wanted)?;
        if key.segment != segment || extent.next_offset <= offset {
            return None;
        }
        let key = *key;
        let mut ahead = self.ahead.borrow_mut();
        if let Some(Ahead::Unread { .. }) = ahead.get(&key) {
            ahead.remove(&key);
        }
        extents.get(&key)
    }

    /// Where the batch with base offset `offset` starts, if the extent before it is here.
    pub(crate) fn position_after(&self, segment: SegmentKey, offset: Offset) -> Option<u64> {
        self.before(segment, offset).map(|extent| extent.end_position)
    }

    /// Whether a reader was given what comes right before `offset`: it, or another, is likely to read on.
    pub(crate) fn is_read_on(&self, segment: SegmentKey, offset: Offset) -> bool {
        self.before(segment, offset).is_some_and(|extent| extent.is_taken.get())
    }

    fn before(&self, segment: SegmentKey, offset: Offset) -> Option<Rc<Extent<D>>> {
        let extents = self.extents.borrow();
        let before = Offset(offset.0.checked_sub(1)?);
        let (key, extent) = extents.floor(&ExtentKey { segment, first_offset: before })?;
        (key.segment == segment && extent.next_offset == offset).then(|| extent.clone())
    }

    pub(crate) fn insert(&self, segment: SegmentKey, extent: Rc<Extent<D>>, memory_bytes: usize) {
        let key = ExtentKey { segment, first_offset: extent.first_offset };
        self.extents.borrow_mut().insert(key, extent, memory_bytes);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.extents.borrow().weight()
    }

    pub(crate) fn forget_segment(&self, segment: SegmentKey) {
        let key = |offset| ExtentKey { segment, first_offset: Offset(offset) };
        self.extents.borrow_mut().remove_range(key(i64::MIN)..=key(i64::MAX));
    }

    pub(crate) fn forget_log(&self, log: LogKey) {
        let key = |segment, offset| ExtentKey {
            segment: SegmentKey { log, segment: Offset(segment) },
            first_offset: Offset(offset),
        };
        self.extents.borrow_mut().remove_range(key(i64::MIN, i64::MIN)..=key(i64::MAX, i64::MAX));
    }
}
