//! What a removal of segments left behind when it was cut short.
//!
//! Owns the judgement of what is left: wholly below the checkpoint's log start, before the segment where recovery begins, and
//! with its producers in a later snapshot. Any subset of such files may be there, for removals are no more ordered than other
//! changes of a directory. Nothing is removed here: the other copy of the checkpoint may still need it, so it waits for the
//! same two checkpoints as any removal.

use std::collections::BTreeSet;

use record::Offset;

use crate::disk::Disk;
use crate::executor::Executor;
use crate::recovery::{Listing, Recovery};

impl<D: Disk, E: Executor> Recovery<'_, D, E> {
    /// Takes segments that are to go off the listing and returns the bases of their files.
    pub(super) fn leave_below_start(&self, listing: &mut Listing) -> Vec<Offset> {
        let Some(entry) = self.entry else { return Vec::new() };
        let newest = listing.snapshots.iter().copied().filter(|at| *at <= entry.end).max();
        let Some(newest) = newest else { return Vec::new() };
        let bases = listing.logs.iter().map(|log| log.base);
        // The last one ends where recovery begins, if that is past it.
        let next = bases.clone().skip(1).chain([entry.segment]);
        let is_left = |(base, next): &(Offset, Offset)| {
            *base < entry.segment && *next <= entry.log_start.min(newest) && *base < *next
        };
        let left = bases.zip(next).take_while(is_left).count();
        // The last file's name says where the log goes on: it stays until there is a next.
        let left = left.min(listing.logs.len().saturating_sub(1));
        let mut bases: BTreeSet<Offset> = listing.logs.drain(..left).map(|log| log.base).collect();
        let first = listing.logs.first().map_or(entry.segment, |log| log.base);
        let beside = listing.indexes.iter().chain(&listing.time_indexes).map(|(base, _)| *base);
        let beside = beside.chain(listing.snapshots.iter().copied().filter(|at| *at != newest));
        bases.extend(beside.filter(|base| *base < first && *base < entry.log_start));
        bases.into_iter().collect()
    }
}
