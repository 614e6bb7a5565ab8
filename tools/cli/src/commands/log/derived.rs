//! What follows from the batches of a partition: its producers, compared with the snapshots beside them.
//!
//! Owns the comparison. A snapshot may leave a producer out that has expired, and may know one whose batches retention took:
//! only what the batches contradict is a difference.

use std::collections::BTreeMap;

use record::{BatchHeader, Offset, ProducerEpoch, ProducerId, ProducerSnapshotEntry};

/// Producers of one partition that are followed; a log with more is not compared.
const PRODUCERS_MAX: usize = 1_000_000;

/// The last batch of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LastBatch {
    epoch: ProducerEpoch,
    last_sequence: i32,
    last_offset: Offset,
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
        // A producer has an entry for each of its last batches.
        let mut newest: BTreeMap<ProducerId, &ProducerSnapshotEntry> = BTreeMap::new();
        for entry in entries {
            let known = newest.entry(entry.producer_id).or_insert(entry);
            if entry.last_offset > known.last_offset {
                *known = entry;
            }
        }
        // Producers are forgotten, by age and by number, in the order in which they last wrote, and never by what their
        // records say of the time: whoever wrote after one that is there is missing. An open transaction keeps its
        // producer whatever the order, and one without batches has no place in it.
        let in_order = newest.values().filter(|entry| {
            entry.last_offset >= Offset::ZERO && entry.current_transaction_first_offset < 0
        });
        let oldest = in_order.map(|entry| entry.last_offset).min();
        for (id, last) in &self.producers {
            if !newest.contains_key(id) && oldest.is_some_and(|oldest| last.last_offset > oldest) {
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
    use record::{BatchBuilder, BatchView, Codec, NewRecord, Producer, Timestamp};

    /// Batches of ten records each, of these producers at these times, and an entry for each.
    fn batches(written: &[(i64, i64)]) -> (Derived, Vec<ProducerSnapshotEntry>) {
        let mut derived = Derived::default();
        let mut entries: Vec<ProducerSnapshotEntry> = Vec::new();
        for (index, (id, timestamp)) in (0_i64..).zip(written) {
            let (id, timestamp) = (ProducerId(*id), Timestamp(*timestamp));
            let before = entries.iter().filter(|entry| entry.producer_id == id).count();
            let base_sequence = i32::try_from(before * 10).unwrap();
            let producer = Producer { id, epoch: ProducerEpoch(0), base_sequence };
            let mut builder = BatchBuilder::new(Codec::None).producer(producer);
            for _ in 0..10 {
                builder.append(&NewRecord { timestamp, ..NewRecord::default() });
            }
            let mut batch = builder.build();
            batch[..8].copy_from_slice(&(index * 10).to_be_bytes());
            let header = *BatchView::parse(&batch).unwrap().header();
            derived.observe(&header);
            entries.push(ProducerSnapshotEntry {
                producer_id: id,
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

    /// What is said where the snapshot behind these batches leaves some producers out.
    fn without(written: &[(i64, i64)], gone: &[i64]) -> Option<String> {
        let (derived, mut entries) = batches(written);
        entries.retain(|entry| !gone.contains(&entry.producer_id.0));
        derived.difference(Offset(10 * i64::try_from(written.len()).unwrap()), &entries)
    }

    #[test]
    fn the_newest_of_a_producers_batches_is_the_one_that_counts() {
        let (derived, entries) = batches(&[(7, 0), (7, 0), (7, 0)]);
        assert_eq!(derived.difference(Offset(30), &entries), None);
        let said = derived.difference(Offset(30), &entries[..2]).unwrap();
        assert!(said.contains("offset 19; its last batch has 0, 29, 29"), "{said}");
    }

    #[test]
    fn a_producer_that_expired_is_not_missed_whatever_the_records_say_of_the_time() {
        const HOUR: i64 = 3_600_000;
        // The records of producer 1, who stays, are older than those of 0.
        assert_eq!(without(&[(0, 48 * HOUR), (1, 0), (1, HOUR)], &[0]), None);
        // Producer 1 writes every eight hours: its window reaches back before the end of 0.
        let day =
            [(1, 0), (0, HOUR), (1, 8 * HOUR), (1, 16 * HOUR), (1, 24 * HOUR), (1, 32 * HOUR)];
        assert_eq!(without(&day, &[0]), None);
    }

    #[test]
    fn a_producer_beyond_the_bound_is_not_missed_where_all_wrote_at_one_time() {
        assert_eq!(without(&[(0, 5), (1, 5), (2, 5)], &[0, 1]), None);
    }

    #[test]
    fn a_producer_that_wrote_after_one_that_stays_is_missed() {
        let said = without(&[(0, 9), (1, 0), (2, 0)], &[1]).unwrap();
        assert_eq!(said, "producer 1 wrote offset 19 and is left out");
    }

    #[test]
    fn producers_that_stay_out_of_order_prove_nothing() {
        let (derived, mut entries) = batches(&[(0, 0), (1, 0), (2, 0)]);
        // 0 has an open transaction; the window of 9 was emptied by a newer epoch.
        entries[0].current_transaction_first_offset = 0;
        entries.remove(1);
        let emptied = ProducerSnapshotEntry {
            producer_id: ProducerId(9),
            last_sequence: -1,
            last_offset: Offset(-1),
            current_transaction_first_offset: -1,
            ..entries[0]
        };
        entries.push(emptied);
        assert_eq!(derived.difference(Offset(30), &entries), None);
    }
}
