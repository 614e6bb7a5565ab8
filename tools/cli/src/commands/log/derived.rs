//! What follows from the batches of a partition: its producers, compared with the snapshots beside them.
//!
//! Owns the comparison. A snapshot may leave a producer out that has expired, and may know one whose batches retention took:
//! only what the batches contradict is a difference.

use std::collections::BTreeMap;

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
        // A producer has an entry for each of its last batches.
        let mut newest: BTreeMap<ProducerId, &ProducerSnapshotEntry> = BTreeMap::new();
        for entry in entries {
            let known = newest.entry(entry.producer_id).or_insert(entry);
            if entry.last_offset > known.last_offset {
                *known = entry;
            }
        }
        for (id, last) in &self.producers {
            if !newest.contains_key(id) && oldest.is_some_and(|oldest| last.timestamp >= oldest) {
                return Some(format!(
                    "producer {id} wrote offset {} and is left out",
                    last.last_offset
                ));
            }
        }
        newest.into_values().find_map(|entry| self.contradicts(entry, first))
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

#[cfg(test)]
mod tests {
    use super::*;
    use record::{BatchBuilder, BatchView, Codec, NewRecord, Producer};

    /// Batches of ten records each of one producer, and an entry for each.
    fn batches(count: i64) -> (Derived, Vec<ProducerSnapshotEntry>) {
        let mut derived = Derived::default();
        let mut entries = Vec::new();
        for index in 0..count {
            let base_sequence = i32::try_from(index * 10).unwrap();
            let producer = Producer { id: ProducerId(7), epoch: ProducerEpoch(0), base_sequence };
            let mut builder = BatchBuilder::new(Codec::None).producer(producer);
            for _ in 0..10 {
                builder.append(&NewRecord { value: Some(b"v"), ..NewRecord::default() });
            }
            let mut batch = builder.build();
            batch[..8].copy_from_slice(&(index * 10).to_be_bytes());
            let header = *BatchView::parse(&batch).unwrap().header();
            derived.observe(&header);
            entries.push(ProducerSnapshotEntry {
                producer_id: ProducerId(7),
                producer_epoch: ProducerEpoch(0),
                last_sequence: header.last_sequence(),
                last_offset: header.last_offset(),
                offset_delta: 9,
                timestamp: header.max_timestamp,
                coordinator_epoch: -1,
                current_transaction_first_offset: -1,
            });
        }
        (derived, entries)
    }

    #[test]
    fn the_newest_of_a_producers_batches_is_the_one_that_counts() {
        let (derived, entries) = batches(3);
        assert_eq!(derived.difference(Offset(30), &entries), None);
        let said = derived.difference(Offset(30), &entries[..2]).unwrap();
        assert!(said.contains("offset 19; its last batch has 0, 29, 29"), "{said}");
    }
}
