//! One simulated file: what a running process reads, what a crash cannot take away, and what lies between.
//!
//! Owns the rules of writes, cuts, syncs and crashes for the bytes of one file; names belong to `tree`. It never decides
//! when an operation completes: the disk calls it at submission and at completion.
//!
//! ```text
//! write submitted ──► in flight ──completed──► pending (visible) ──sync that started later──► durable
//!                         └────────crash────────────┴──► each sector old or new, in any combination
//! ```

use std::ops::Range;
use std::rc::Rc;

use commitlog::BLOCK_BYTES;

use super::SimBuffer;
use crate::prng::{OneIn, Prng};

/// What a device writes whole or not at all (DESIGN section 4, torn-write assumption).
pub const SECTOR_BYTES: usize = 512;

/// How often a sector that was never synced holds whatever the device had there before.
const GARBAGE_ODDS: OneIn = OneIn(8);

/// A write or a change of length that completed and that no sync covers yet.
#[derive(Debug)]
enum Change {
    Write {
        position: usize,
        buffer: Rc<SimBuffer>,
    },
    /// Only some sectors of a write arrived: it failed, was abandoned, or its sync failed.
    Sectors {
        position: usize,
        buffer: Rc<SimBuffer>,
        landed: Vec<bool>,
    },
    Length {
        bytes: usize,
    },
    /// Room at the end: what is read there is zeros until it is written, whatever the device had.
    Room {
        from: usize,
        to: usize,
    },
}

#[derive(Debug)]
struct Pending {
    sequence: u64,
    change: Change,
}

#[derive(Debug)]
struct InFlight {
    id: u64,
    position: usize,
    buffer: Rc<SimBuffer>,
    /// By block: whether another write of it completed while this one was in flight.
    has_rival: Vec<bool>,
}

/// Which kind of sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncKind {
    Data,
    Full,
}

/// What an inclination of the crashing machine does to writes that no sync covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    LoseAll,
    KeepAll,
    Mixed,
}

/// The bytes of one file.
#[derive(Debug, Default)]
pub(super) struct FileImage {
    visible: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
    in_flight: Vec<InFlight>,
    sequence: u64,
    /// A data sync left a cut behind that only a full sync makes lasting.
    owes_cut: bool,
}

impl FileImage {
    pub(super) fn len(&self) -> usize {
        self.visible.len()
    }

    pub(super) fn durable_len(&self) -> usize {
        self.durable.len()
    }

    /// Takes note of a write that the device may start on; returns its id.
    pub(super) fn submit(&mut self, position: usize, buffer: Rc<SimBuffer>) -> u64 {
        self.sequence += 1;
        let id = self.sequence;
        let has_rival = vec![false; buffer.len() / BLOCK_BYTES];
        self.in_flight.push(InFlight { id, position, buffer, has_rival });
        id
    }

    /// The device reports the write as done. A block that another write completed meanwhile may be either's.
    pub(super) fn complete(&mut self, id: u64, prng: &mut Prng) {
        let Some(write) = self.take_in_flight(id) else { return };
        self.mark_rivals(&write);
        if write.has_rival.contains(&true) {
            let mut landed = Vec::with_capacity(write.buffer.len() / SECTOR_BYTES);
            for has_rival in &write.has_rival {
                let has_landed = !*has_rival || prng.coin();
                landed.resize(landed.len() + BLOCK_BYTES / SECTOR_BYTES, has_landed);
            }
            self.land(write.position, &write.buffer, landed);
            return;
        }
        copy_in(&mut self.visible, write.position, write.buffer.bytes());
        self.push(Change::Write { position: write.position, buffer: write.buffer });
    }

    /// Tells every write still in flight which of its blocks `done` has just written.
    fn mark_rivals(&mut self, done: &InFlight) {
        let range = done.position..done.position + done.buffer.len();
        for other in &mut self.in_flight {
            for (index, has_rival) in other.has_rival.iter_mut().enumerate() {
                *has_rival |= range.contains(&(other.position + index * BLOCK_BYTES));
            }
        }
    }

    /// The write failed or was abandoned: any of its sectors may have landed.
    pub(super) fn abandon(&mut self, id: u64, prng: &mut Prng) {
        self.fail(id, usize::MAX, prng);
    }

    /// The write found no space: any of its sectors below the file's end may have landed, none beyond.
    pub(super) fn refuse(&mut self, id: u64, prng: &mut Prng) {
        self.fail(id, self.visible.len(), prng);
    }

    fn fail(&mut self, id: u64, end: usize, prng: &mut Prng) {
        let Some(write) = self.take_in_flight(id) else { return };
        let landed: Vec<bool> = (0..write.buffer.len() / SECTOR_BYTES)
            .map(|sector| write.position + (sector + 1) * SECTOR_BYTES <= end && prng.coin())
            .collect();
        if landed.contains(&true) {
            self.mark_rivals(&write);
            self.land(write.position, &write.buffer, landed);
        }
    }

    fn land(&mut self, position: usize, buffer: &Rc<SimBuffer>, landed: Vec<bool>) {
        copy_sectors(&mut self.visible, position, buffer.bytes(), &landed);
        self.push(Change::Sectors { position, buffer: Rc::clone(buffer), landed });
    }

    fn push(&mut self, change: Change) {
        self.sequence += 1;
        self.pending.push(Pending { sequence: self.sequence, change });
    }

    fn take_in_flight(&mut self, id: u64) -> Option<InFlight> {
        let index = self.in_flight.iter().position(|write| write.id == id)?;
        Some(self.in_flight.swap_remove(index))
    }

    /// Sets the length at once; lasting after a full sync.
    pub(super) fn set_len(&mut self, bytes: usize) {
        self.visible.resize(bytes, 0);
        self.push(Change::Length { bytes });
    }

    /// Makes the file at least as long as the range needs, at once.
    pub(super) fn reserve(&mut self, range: Range<usize>) {
        let Range { start, end } = range;
        if self.visible.len() < end {
            let from = start.max(self.visible.len().next_multiple_of(SECTOR_BYTES));
            self.visible.resize(end, 0);
            self.push(Change::Room { from, to: end });
        }
    }

    /// What a read of the range sees now: of writes in flight, any sectors.
    pub(super) fn read(&self, position: usize, bytes: usize, prng: &mut Prng) -> Vec<u8> {
        let end = self.visible.len().min(position.saturating_add(bytes));
        let mut out = self.visible.get(position..end).unwrap_or_default().to_vec();
        for write in &self.in_flight {
            for (index, sector) in write.buffer.bytes().chunks(SECTOR_BYTES).enumerate() {
                let at = write.position + index * SECTOR_BYTES;
                if at < position || at + SECTOR_BYTES > position + out.len() || prng.coin() {
                    continue;
                }
                out[at - position..at - position + SECTOR_BYTES].copy_from_slice(sector);
            }
        }
        out
    }

    /// The first stretch of blocks that ends behind `position` and is stored. Of a block that reads as zeros, and that nothing in
    /// flight touches, a coin decides: file systems may have it written or not.
    pub(super) fn next_stored(&self, position: usize, prng: &mut Prng) -> Option<Range<usize>> {
        let mut stored: Option<Range<usize>> = None;
        for start in (position - position % BLOCK_BYTES..self.visible.len()).step_by(BLOCK_BYTES) {
            let end = self.visible.len().min(start + BLOCK_BYTES);
            let is_touched = |write: &InFlight| {
                write.position < end && start < write.position + write.buffer.len()
            };
            let is_hole = self.visible[start..end].iter().all(|byte| *byte == 0)
                && !self.in_flight.iter().any(is_touched)
                && prng.coin();
            match &mut stored {
                Some(_) if is_hole => break,
                Some(range) => range.end = end,
                None if is_hole => {}
                None => stored = Some(start..end),
            }
        }
        stored
    }

    /// What a sync submitted now covers: every change completed so far, and the length it leaves.
    pub(super) fn sync_mark(&self) -> (u64, usize) {
        (self.sequence, self.visible.len())
    }

    /// The sync of that mark succeeded.
    pub(super) fn synced(&mut self, kind: SyncKind, mark: (u64, usize), prng: &mut Prng) {
        let (covered, len) = mark;
        let count = self.pending.iter().take_while(|one| one.sequence <= covered).count();
        for one in self.pending.drain(..count) {
            // A cut is not needed to read anything back: fdatasync does not promise it, so a coin decides.
            let is_cut =
                matches!(one.change, Change::Length { bytes } if bytes < self.durable.len());
            if is_cut && kind == SyncKind::Data && prng.coin() {
                self.owes_cut = true;
                continue;
            }
            apply(&mut self.durable, &one.change);
        }
        if kind == SyncKind::Full && self.owes_cut {
            self.durable.truncate(len);
            self.owes_cut = false;
        }
    }

    /// The sync of that mark failed: of what it covered, any sectors will never reach the device, whatever later syncs say.
    pub(super) fn sync_failed(&mut self, mark: (u64, usize), prng: &mut Prng) {
        for one in self.pending.iter_mut().take_while(|one| one.sequence <= mark.0) {
            if let Change::Write { position, buffer } = &one.change {
                let sectors = buffer.len() / SECTOR_BYTES;
                let landed = (0..sectors).map(|_| prng.coin()).collect();
                let (position, buffer) = (*position, Rc::clone(buffer));
                one.change = Change::Sectors { position, buffer, landed };
            }
        }
    }

    /// The machine dies: whatever no sync covers is lost, kept or torn. Returns how many sectors a torn write lost.
    pub(super) fn crash(&mut self, mood: Mood, prng: &mut Prng) -> u64 {
        let never_synced = self.durable.len().next_multiple_of(SECTOR_BYTES);
        let mut torn = 0;
        let mut changes: Vec<Change> = self.pending.drain(..).map(|one| one.change).collect();
        prng.shuffle(&mut self.in_flight);
        changes.extend(
            self.in_flight
                .drain(..)
                .map(|write| Change::Write { position: write.position, buffer: write.buffer }),
        );
        let mut image = std::mem::take(&mut self.durable);
        let mut rooms = Vec::new();
        for change in &changes {
            torn += crash_change(&mut image, change, mood, prng);
            if let Change::Room { from, to } = change
                && image.len() >= *to
            {
                rooms.push(*from..*to);
            }
        }
        if mood == Mood::Mixed && never_synced < image.len() {
            spoil(&mut image, never_synced, &rooms, prng);
        }
        self.visible.clone_from(&image);
        self.durable = image;
        self.owes_cut = false;
        torn
    }

    /// The process ends and the machine goes on: the next one reads what the device holds, without what failed syncs lost.
    pub(super) fn restart(&mut self, prng: &mut Prng) {
        for id in self.in_flight.iter().map(|write| write.id).collect::<Vec<_>>() {
            self.abandon(id, prng);
        }
        let len = self.visible.len();
        self.visible.clone_from(&self.durable);
        for one in &self.pending {
            apply(&mut self.visible, &one.change);
        }
        if self.owes_cut {
            self.visible.truncate(len);
        }
    }

    /// Flips one bit of a byte that is durable and that no unsynced change touches; false where there is none.
    pub(super) fn rot(&mut self, position: usize, bit: u8) -> bool {
        if position >= self.durable.len() || position >= self.visible.len() {
            return false;
        }
        if self.pending.iter().any(|one| touches(&one.change, position)) {
            return false;
        }
        self.durable[position] ^= 1 << bit;
        self.visible[position] ^= 1 << bit;
        true
    }

    /// Replaces everything, durably: a tamperer between two runs of the process.
    pub(super) fn replace(&mut self, bytes: Vec<u8>) {
        self.pending.clear();
        self.visible.clone_from(&bytes);
        self.durable = bytes;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.visible
    }
}

fn touches(change: &Change, at: usize) -> bool {
    match change {
        Change::Write { position, buffer } | Change::Sectors { position, buffer, .. } => {
            (*position..*position + buffer.len()).contains(&at)
        }
        Change::Length { .. } => true,
        Change::Room { from, .. } => *from <= at,
    }
}

fn copy_in(image: &mut Vec<u8>, position: usize, bytes: &[u8]) {
    if image.len() < position + bytes.len() {
        image.resize(position + bytes.len(), 0);
    }
    image[position..position + bytes.len()].copy_from_slice(bytes);
}

fn copy_sectors(image: &mut Vec<u8>, position: usize, bytes: &[u8], landed: &[bool]) {
    for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
        if landed.get(index).copied().unwrap_or(false) {
            copy_in(image, position + index * SECTOR_BYTES, sector);
        }
    }
}

fn apply(image: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { position, buffer } => copy_in(image, *position, buffer.bytes()),
        Change::Sectors { position, buffer, landed } => {
            copy_sectors(image, *position, buffer.bytes(), landed);
        }
        Change::Length { bytes } => image.resize(*bytes, 0),
        Change::Room { to, .. } => image.resize((*to).max(image.len()), 0),
    }
}

/// Applies one unsynced change to the image that survives, or part of it, or nothing.
fn crash_change(image: &mut Vec<u8>, change: &Change, mood: Mood, prng: &mut Prng) -> u64 {
    let fate = match mood {
        Mood::LoseAll => 0,
        Mood::KeepAll => 1,
        Mood::Mixed => prng.below(4),
    };
    match (fate, change) {
        (0, Change::Write { position, buffer }) => {
            // The file may have grown although no byte of the write arrived.
            if mood == Mood::Mixed && prng.coin() && image.len() < position + buffer.len() {
                image.resize(position + buffer.len(), 0);
            }
            0
        }
        (0, _) => 0,
        (1, _) | (_, Change::Length { .. } | Change::Room { .. }) => {
            apply(image, change);
            0
        }
        (_, Change::Write { position, buffer } | Change::Sectors { position, buffer, .. }) => {
            let sectors = buffer.len() / SECTOR_BYTES;
            let landed: Vec<bool> = match change {
                Change::Sectors { landed, .. } => {
                    landed.iter().map(|one| *one && prng.coin()).collect()
                }
                _ => (0..sectors).map(|_| prng.coin()).collect(),
            };
            copy_sectors(image, *position, buffer.bytes(), &landed);
            landed.iter().filter(|one| !**one).count() as u64
        }
    }
}

/// Sectors that were never synced and read as zeros may as well hold what the device had there before, but not in room that was
/// given as such.
fn spoil(image: &mut [u8], never_synced: usize, rooms: &[Range<usize>], prng: &mut Prng) {
    let starts = (never_synced..image.len()).step_by(SECTOR_BYTES);
    for start in starts {
        let end = image.len().min(start + SECTOR_BYTES);
        let sector = &mut image[start..end];
        if sector.iter().all(|byte| *byte == 0)
            && !rooms.iter().any(|room| room.contains(&start))
            && prng.happens(GARBAGE_ODDS)
        {
            prng.fill(sector);
        }
    }
}
