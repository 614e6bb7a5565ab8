//! Room ahead: blocks that a busy segment has before its next groups come.
//!
//! Owns when a segment grows ahead of its end, and by how much. A write that extends its file cannot be issued without a
//! kernel worker and changes the file's length each time; one into room that is there already can. Nothing depends on it: a
//! segment without room ahead, on a file system that has none to give, is written all the same. Must never give room to a
//! segment that is not the one being appended to, nor while its file is cut.
//!
//! ```text
//! file of a busy log   [ groups written | room: reads as zeros, at most `step_bytes_max` ]
//!                                     end                                             length
//! ```
//!
//! What is there at a crash, a roll or a stop is cut off like any tail of zeros.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use record::Offset;

use crate::disk::{Disk, DiskError, DiskFile};
use crate::group::GroupEnd;
use crate::small_file::{block_ceiling, block_floor};

/// When and how far segments grow ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomAhead {
    /// Only behind a group at least this large, in bytes: groups are what arrived during a sync, so that large ones tell of a
    /// busy log, and ten thousand logs that write now and then take no room.
    pub group_bytes_min: u64,
    /// Room is given in steps as large as what this life wrote to the segment, at least so many bytes…
    pub step_bytes_min: u64,
    /// …and at most so many.
    pub step_bytes_max: u64,
    /// Of all logs of a core together, in bytes. Those that come later get none.
    pub core_bytes_max: u64,
    /// None where the disk has less than so many bytes free: it is to be filled with records.
    pub free_bytes_min: u64,
}

impl Default for RoomAhead {
    fn default() -> Self {
        Self {
            group_bytes_min: 64 << 10,
            step_bytes_min: 1 << 20,
            step_bytes_max: 16 << 20,
            core_bytes_max: 512 << 20,
            free_bytes_min: 4 << 30,
        }
    }
}

/// The room that all logs of a core have ahead.
#[derive(Debug)]
pub(crate) struct RoomOfCore {
    rules: RoomAhead,
    given_bytes: Rc<Cell<u64>>,
    /// The file system has none to give.
    is_refused: Cell<bool>,
}

/// A part of it, given back when it is dropped.
#[derive(Debug)]
struct Share {
    of: Rc<Cell<u64>>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.set(self.of.get().saturating_sub(self.bytes));
    }
}

/// The room of one log's active segment.
#[derive(Debug, Default)]
pub(crate) struct RoomOfLog {
    is_growing: Cell<bool>,
    room: RefCell<Option<Room>>,
}

#[derive(Debug)]
struct Room {
    segment: Offset,
    /// Where this life began to write to the segment.
    from: u64,
    /// Where the room ends; 0 where there is none.
    to: u64,
    share: Option<Share>,
}

/// A segment that is to grow.
#[derive(Debug)]
pub(crate) struct Growth {
    from: u64,
    to: u64,
    share: Share,
    segment: Offset,
    written_from: u64,
}

impl RoomOfLog {
    /// Whether a file is growing now: it must not be cut meanwhile.
    pub(crate) fn is_growing(&self) -> bool {
        self.is_growing.get()
    }
}

impl RoomOfCore {
    pub(crate) fn new(rules: RoomAhead) -> Self {
        Self { rules, given_bytes: Rc::default(), is_refused: Cell::new(false) }
    }

    /// Takes note of a group that was written, `group_bytes` of it up to `end`; gives how far the segment should grow now. It is
    /// growing from then on, until [`RoomOfCore::grow`] ends.
    pub(crate) fn note_written(
        &self,
        log: &RoomOfLog,
        group_bytes: u64,
        end: &GroupEnd,
        segment_bytes_max: u64,
    ) -> Option<Growth> {
        if self.is_refused.get() || log.is_growing.get() {
            return None;
        }
        let of_segment = log.room.take().filter(|room| room.segment == end.segment);
        let room = of_segment.unwrap_or_else(|| Room {
            segment: end.segment,
            from: end.position.saturating_sub(group_bytes),
            to: 0,
            share: None,
        });
        let (written_from, had) = (room.from, room.to);
        let growth = self.growth(&room, group_bytes, end, segment_bytes_max);
        let Some((to, bytes)) = growth else {
            *log.room.borrow_mut() = Some(room);
            return None;
        };
        // What was left of the room before goes over into the new one.
        drop(room);
        self.given_bytes.set(self.given_bytes.get() + bytes);
        let share = Share { of: self.given_bytes.clone(), bytes };
        log.is_growing.set(true);
        let from = had.max(block_ceiling(end.position));
        Some(Growth { from, to, share, segment: end.segment, written_from })
    }

    /// Where the room should end, and what that is more than there is written.
    fn growth(
        &self,
        room: &Room,
        group_bytes: u64,
        end: &GroupEnd,
        segment_bytes_max: u64,
    ) -> Option<(u64, u64)> {
        let RoomAhead { group_bytes_min, step_bytes_min, step_bytes_max, core_bytes_max, .. } =
            self.rules;
        let written = end.position.saturating_sub(room.from);
        if group_bytes < group_bytes_min || written < step_bytes_min {
            return None;
        }
        let step = written.min(step_bytes_max);
        if room.to > end.position + step / 2 {
            return None;
        }
        let to = block_floor((end.position + step).min(segment_bytes_max));
        let there = room.to.max(block_ceiling(end.position));
        let bytes = to.checked_sub(there).filter(|more| *more > 0).map(|_| to - end.position)?;
        let others = self.given_bytes.get() - room.share.as_ref().map_or(0, |share| share.bytes);
        (others + bytes <= core_bytes_max).then_some((to, bytes))
    }

    /// Lets the file grow. Whatever comes of it, the log goes on.
    pub(crate) async fn grow<D: Disk>(
        &self,
        disk: &D,
        file: &D::File,
        log: &RoomOfLog,
        growth: Growth,
    ) {
        let Growth { from, to, share, segment, written_from } = growth;
        let has_space = disk.free_bytes().await.is_ok_and(|free| free >= self.rules.free_bytes_min);
        let grown = if has_space { file.reserve(from..to).await } else { Err(DiskError::NoSpace) };
        let room = match grown {
            Ok(()) => Room { segment, from: written_from, to, share: Some(share) },
            Err(error) => {
                if error != DiskError::NoSpace && !self.is_refused.replace(true) {
                    tracing::info!(%error, "segments do not grow ahead on this file system");
                }
                // As if nothing had been written so far: the next try comes after another step.
                Room { segment, from: from.max(written_from), to: 0, share: None }
            }
        };
        *log.room.borrow_mut() = Some(room);
        log.is_growing.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: RoomAhead = RoomAhead {
        group_bytes_min: 8192,
        step_bytes_min: 16384,
        step_bytes_max: 65536,
        core_bytes_max: 98304,
        free_bytes_min: 0,
    };

    fn end(segment: i64, position: u64) -> GroupEnd {
        let segment = Offset(segment);
        GroupEnd { segment, position, offset: Offset(0), max: None, total_bytes: 0 }
    }

    /// What [`RoomOfCore::grow`] does where the disk has the room.
    fn take(log: &RoomOfLog, growth: Growth) -> (u64, u64) {
        let Growth { from, to, share, segment, written_from } = growth;
        let room = Room { segment, from: written_from, to, share: Some(share) };
        *log.room.borrow_mut() = Some(room);
        log.is_growing.set(false);
        (from, to)
    }

    #[test]
    fn room_is_as_large_as_what_was_written_and_comes_before_it_is_used_up() {
        let (core, log) = (RoomOfCore::new(RULES), RoomOfLog::default());
        assert!(core.note_written(&log, 8192, &end(0, 8192), 1 << 30).is_none(), "too early");
        let growth = core.note_written(&log, 8192, &end(0, 16384), 1 << 30).unwrap();
        assert!(log.is_growing());
        assert!(core.note_written(&log, 8192, &end(0, 24576), 1 << 30).is_none(), "twice at once");
        assert_eq!(take(&log, growth), (16384, 32768));
        // More than half of it is left, then less.
        assert!(core.note_written(&log, 8192, &end(0, 20480), 1 << 30).is_none());
        let growth = core.note_written(&log, 8192, &end(0, 28672), 1 << 30).unwrap();
        assert_eq!(take(&log, growth), (32768, 57344));
        let growth = core.note_written(&log, 8192, &end(0, 409_600), 1 << 30).unwrap();
        assert_eq!(take(&log, growth), (409_600, 475_136), "no step is larger than the rules say");
        assert_eq!(core.given_bytes.get(), 65536, "what was used up is given back");
    }

    #[test]
    fn small_groups_and_full_segments_get_none() {
        let (core, log) = (RoomOfCore::new(RULES), RoomOfLog::default());
        assert!(core.note_written(&log, 4096, &end(0, 8192), 1 << 30).is_none());
        assert!(core.note_written(&log, 4096, &end(0, 409_600), 1 << 30).is_none());
        assert!(core.note_written(&log, 8192, &end(0, 417_792), 420_000).is_none(), "it is full");
        let growth = core.note_written(&log, 8192, &end(0, 417_792), 430_000).unwrap();
        assert_eq!(take(&log, growth), (417_792, 425_984));
    }

    #[test]
    fn all_logs_together_keep_to_the_bound_of_the_core() {
        let core = RoomOfCore::new(RULES);
        let logs: Vec<RoomOfLog> = (0..3).map(|_| RoomOfLog::default()).collect();
        let mut grown = 0;
        for log in &logs {
            assert!(core.note_written(log, 8192, &end(0, 8192), 1 << 30).is_none());
            if let Some(growth) = core.note_written(log, 65536, &end(0, 73_728), 1 << 30) {
                take(log, growth);
                grown += 1;
            }
        }
        assert_eq!(grown, 1);
        // A roll gives it back.
        assert!(core.note_written(&logs[0], 8192, &end(9, 8192), 1 << 30).is_none());
        assert_eq!(core.given_bytes.get(), 0);
        assert!(core.note_written(&logs[1], 8192, &end(0, 81_920), 1 << 30).is_some());
    }
}
