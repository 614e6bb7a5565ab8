//! What follows from the batches of a partition: its producers, compared with the snapshots beside them.
//!
//! Owns the comparison. A snapshot may leave a producer out that has expired, and may know one whose batches retention took:
//! only what the batches contradict is a difference.

use std::collections::{BTreeMap, BTreeSet};

use record::{BatchHeader, Offset, ProducerEpoch, ProducerId, ProducerSnapshotEntry, Timestamp};

/// Producers of one partition that are followed; a log with more is not compared.
const PRODUCERS_MAX: usize = 1_000_000;

/// The last batch of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LastBatch {
    epoch: ProducerEpoch,
    last_sequence: i32,
    last_offset: Offset,
    timestamp: Timestamp,
}

/// The producers of the batches so far.
#[derive(Debug, Default)]
pub(super) struct Derived {
    producers: BTreeMap<ProducerId, LastBatch>,
    /// Where the first batch began: what was before is not known.
    first: Option<Offset>,
    /// A batch is missing, so nothing can be compared any more.
    is_broken: bool,
}

impl Derived {
    /// Takes in the next batch.
    pub(super) fn observe(&mut self, header: &BatchHeader) {
        self.first.get_or_insert(header.base_offset);
        if header.producer_id == ProducerId::NONE || header.attributes.is_control() {
            return;
        }
        self.is_broken |= self.producers.len() >= PRODUCERS_MAX;
        if self.is_broken {
            return;
        }
        let last = LastBatch {
            epoch: header.producer_epoch,
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            timestamp: header.max_timestamp,
        };
        self.producers.insert(header.producer_id, last);
    }

    /// Some batches could not be read.
    pub(super) fn passes_over(&mut self) {
        self.is_broken = true;
    }

    /// The first thing that a snapshot at offset `at`, which is here, says and the batches do not bear out.
    pub(super) fn difference(
        &self,
        at: Offset,
        entries: &[ProducerSnapshotEntry],
    ) -> Option<String> {
        let first = self.first?;
        if self.is_broken || at <= first {
            return None;
        }
        // Producers expire by the time of their last batch: whoever is no older than one that is there is missing.
        let oldest = entries.iter().map(|entry| entry.timestamp).min();
        let known: BTreeSet<_> = entries.iter().map(|entry| entry.producer_id).collect();
        for (id, last) in &self.producers {
            if !known.contains(id) && oldest.is_some_and(|oldest| last.timestamp >= oldest) {
                return Some(format!(
                    "producer {id} wrote offset {} and is left out",
                    last.last_offset
                ));
            }
        }
        entries.iter().find_map(|entry| self.contradicts(entry, first))
    }

    fn contradicts(&self, entry: &ProducerSnapshotEntry, first: Offset) -> Option<String> {
        let id = entry.producer_id;
        let said = (entry.producer_epoch, entry.last_sequence, entry.last_offset);
        let Some(last) = self.producers.get(&id) else {
            return (entry.last_offset >= first)
                .then(|| format!("producer {id}: no batch of it ends at offset {}", said.2));
        };
        let found = (last.epoch, last.last_sequence, last.last_offset);
        (said != found).then(|| {
            format!(
                "producer {id}: epoch {}, sequence {}, offset {}; its last batch has {}, {}, {}",
                said.0, said.1, said.2, found.0, found.1, found.2
            )
        })
    }
}
