//! Facts of the producer window, each named, and the same facts against a model that remembers everything.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const PRODUCER: ProducerId = ProducerId(7);

/// A partition as these tests see one: a log end and the fold.
struct World {
    producers: Producers,
    end: i64,
}

impl World {
    fn new() -> Self {
        Self::with(ProducersOptions::default())
    }

    fn with(options: ProducersOptions) -> Self {
        Self { producers: Producers::new(options), end: 0 }
    }

    fn decide(&self, id: ProducerId, epoch: i16, sequence: i32, count: i32) -> Verdict {
        self.producers.decide(&attempt(id, epoch, sequence, count))
    }

    /// Appends what must be appendable; returns the base offset.
    fn append(&mut self, id: ProducerId, epoch: i16, sequence: i32, count: i32) -> i64 {
        assert_eq!(self.decide(id, epoch, sequence, count), Verdict::Append);
        let base = self.end;
        self.apply(id, epoch, sequence, count);
        base
    }

    fn apply(&mut self, id: ProducerId, epoch: i16, sequence: i32, count: i32) {
        self.producers.apply(&batch(self.end, id, epoch, sequence, count));
        self.end += i64::from(count);
        self.producers.check();
    }

    fn restart(&mut self) {
        let entries = self.producers.snapshot();
        let mut restored = Producers::new(self.producers.options);
        restored.restore(&entries);
        restored.check();
        assert_eq!(restored.snapshot(), entries);
        self.producers = restored;
    }
}

fn attempt(id: ProducerId, epoch: i16, sequence: i32, count: i32) -> Attempt {
    Attempt {
        producer_id: id,
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        last_offset_delta: count - 1,
        is_transactional: false,
        is_control: false,
    }
}

fn batch(base: i64, id: ProducerId, epoch: i16, sequence: i32, count: i32) -> ProducerBatch {
    ProducerBatch {
        producer_id: id,
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        base_offset: Offset(base),
        last_offset: Offset(base + i64::from(count) - 1),
        last_offset_delta: count - 1,
        max_timestamp: Timestamp(1_000 + base),
        is_transactional: false,
        is_control: false,
    }
}

fn duplicate(base: i64, count: i64) -> Verdict {
    Verdict::Duplicate(Duplicate {
        base_offset: Offset(base),
        last_offset: Offset(base + count - 1),
        timestamp: Timestamp(1_000 + base),
    })
}

fn out_of_order(epoch: i16, sequence: i32, expected: i32) -> Verdict {
    Verdict::Refuse(SequenceRefusal::OutOfOrder {
        producer_id: PRODUCER,
        epoch: ProducerEpoch(epoch),
        sequence,
        expected,
    })
}

#[test]
fn plain_producers_are_never_remembered() {
    let mut world = World::new();
    world.append(ProducerId::NONE, -1, -1, 3);
    world.append(ProducerId::NONE, -1, -1, 3);
    assert!(world.producers.is_empty());
}

#[test]
fn retry_gets_the_original_offsets_before_and_after_a_restart() {
    let mut world = World::new();
    world.append(ProducerId::NONE, -1, -1, 10);
    let base = world.append(PRODUCER, 0, 0, 4);
    world.append(PRODUCER, 0, 4, 2);
    assert_eq!(world.decide(PRODUCER, 0, 0, 4), duplicate(base, 4));
    world.restart();
    assert_eq!(world.decide(PRODUCER, 0, 0, 4), duplicate(base, 4));
    assert_eq!(world.decide(PRODUCER, 0, 4, 2), duplicate(base + 4, 2));
    world.append(PRODUCER, 0, 6, 1);
}

#[test]
fn exactly_five_batches_are_remembered() {
    let mut world = World::new();
    for sequence in 0..6 {
        world.append(PRODUCER, 0, sequence, 1);
    }
    for sequence in 1..6 {
        assert_eq!(world.decide(PRODUCER, 0, sequence, 1), duplicate(i64::from(sequence), 1));
    }
    assert_eq!(world.decide(PRODUCER, 0, 0, 1), out_of_order(0, 0, 6));
}

#[test]
fn duplicate_needs_the_exact_first_and_last_sequence() {
    let mut world = World::new();
    world.append(PRODUCER, 0, 0, 4);
    assert_eq!(world.decide(PRODUCER, 0, 0, 3), out_of_order(0, 0, 4));
    assert_eq!(world.decide(PRODUCER, 0, 0, 5), out_of_order(0, 0, 4));
    assert_eq!(world.decide(PRODUCER, 0, 1, 3), out_of_order(0, 1, 4));
}

#[test]
fn a_gap_is_refused_with_the_sequence_that_is_next() {
    let mut world = World::new();
    world.append(PRODUCER, 0, 0, 4);
    assert_eq!(world.decide(PRODUCER, 0, 5, 1), out_of_order(0, 5, 4));
}

#[test]
fn older_epoch_is_fenced_and_newer_starts_at_zero() {
    let mut world = World::new();
    world.append(PRODUCER, 3, 0, 4);
    let stale = SequenceRefusal::StaleEpoch {
        producer_id: PRODUCER,
        epoch: ProducerEpoch(2),
        known: ProducerEpoch(3),
    };
    assert_eq!(world.decide(PRODUCER, 2, 4, 1), Verdict::Refuse(stale));
    // A retry of the older epoch is stale, not a duplicate: its producer was fenced.
    assert_eq!(world.decide(PRODUCER, 2, 0, 4), Verdict::Refuse(stale));
    assert_eq!(world.decide(PRODUCER, 4, 4, 1), out_of_order(4, 4, 0));
    world.append(PRODUCER, 4, 0, 2);
    // The window was cleared: what was sent under epoch 3 is not a duplicate under 4.
    assert_eq!(world.decide(PRODUCER, 4, 0, 4), out_of_order(4, 0, 2));
}

#[test]
fn unknown_producer_may_start_at_any_sequence() {
    let mut world = World::new();
    world.append(PRODUCER, 9, 12_345, 1);
    world.append(PRODUCER, 9, 12_346, 1);
}

#[test]
fn sequence_continues_at_zero_after_the_largest() {
    let mut world = World::new();
    let base = world.append(PRODUCER, 0, i32::MAX - 1, 2);
    let wrapped = world.append(PRODUCER, 0, 0, 1);
    assert_eq!(world.decide(PRODUCER, 0, i32::MAX - 1, 2), duplicate(base, 2));
    assert_eq!(world.decide(PRODUCER, 0, 0, 1), duplicate(wrapped, 1));
    let mut world = World::new();
    let across = world.append(PRODUCER, 0, i32::MAX - 1, 4);
    assert_eq!(world.decide(PRODUCER, 0, i32::MAX - 1, 4), duplicate(across, 4));
    world.restart();
    assert_eq!(world.decide(PRODUCER, 0, i32::MAX - 1, 4), duplicate(across, 4));
    assert_eq!(world.decide(PRODUCER, 0, 3, 1), out_of_order(0, 3, 2));
    world.append(PRODUCER, 0, 2, 1);
}

#[test]
fn batches_that_cannot_be_a_clients_are_refused() {
    let world = World::new();
    let check = |change: fn(&mut Attempt)| {
        let mut attempt = attempt(PRODUCER, 0, 0, 1);
        change(&mut attempt);
        let verdict = world.producers.decide(&attempt);
        assert!(matches!(verdict, Verdict::Refuse(_)), "{attempt:?}: {verdict:?}");
    };
    check(|attempt| attempt.is_control = true);
    check(|attempt| attempt.is_transactional = true);
    check(|attempt| attempt.base_sequence = -1);
    check(|attempt| attempt.producer_epoch = ProducerEpoch(-1));
    check(|attempt| attempt.producer_id = ProducerId(-2));
    check(|attempt| attempt.last_offset_delta = -1);
}

#[test]
fn plain_batch_is_refused_while_its_producer_has_an_open_transaction() {
    let mut world = World::new();
    let mut open = batch(0, PRODUCER, 0, 0, 2);
    open.is_transactional = true;
    world.producers.apply(&open);
    let refusal = SequenceRefusal::Transaction { producer_id: PRODUCER };
    assert_eq!(world.decide(PRODUCER, 0, 2, 1), Verdict::Refuse(refusal));
    let marker =
        ProducerBatch { is_control: true, base_sequence: -1, ..batch(2, PRODUCER, 0, -1, 1) };
    world.producers.apply(&marker);
    assert_eq!(world.decide(PRODUCER, 0, 2, 1), Verdict::Append);
}

#[test]
fn marker_of_a_newer_epoch_empties_the_window_and_zero_is_next() {
    let mut world = World::new();
    world.append(PRODUCER, 0, 0, 2);
    let marker =
        ProducerBatch { is_control: true, base_sequence: -1, ..batch(2, PRODUCER, 1, -1, 1) };
    world.producers.apply(&marker);
    world.restart();
    assert_eq!(world.decide(PRODUCER, 1, 2, 1), out_of_order(1, 2, 0));
    assert_eq!(world.decide(PRODUCER, 1, 0, 1), Verdict::Append);
}

#[test]
fn idle_producer_expires_and_its_next_sequence_is_accepted() {
    let mut world = World::with(ProducersOptions { expiration_ms: 100, ..Default::default() });
    world.append(PRODUCER, 0, 0, 1);
    assert_eq!(world.producers.expire(Timestamp(1_000)), 0);
    assert_eq!(world.producers.expire(Timestamp(1_099)), 0);
    world.append(PRODUCER, 0, 1, 1);
    assert_eq!(world.producers.expire(Timestamp(1_150)), 0);
    assert_eq!(world.producers.expire(Timestamp(1_249)), 0);
    assert_eq!(world.producers.expire(Timestamp(1_250)), 1);
    world.producers.check();
    world.append(PRODUCER, 0, 2, 1);
}

#[test]
fn a_clock_that_steps_back_forgets_nobody_who_wrote_after_one_that_stays() {
    let mut world = World::with(ProducersOptions { expiration_ms: 100, ..Default::default() });
    world.append(ProducerId(1), 0, 0, 1);
    assert_eq!(world.producers.expire(Timestamp(1_050)), 0);
    world.append(ProducerId(2), 0, 0, 1);
    assert_eq!(world.producers.expire(Timestamp(1_000)), 0);
    assert_eq!(world.producers.expire(Timestamp(1_100)), 0);
    assert!(matches!(world.decide(ProducerId(2), 0, 0, 1), Verdict::Duplicate(_)));
    assert_eq!(world.producers.expire(Timestamp(1_150)), 2);
    world.producers.check();
}

#[test]
fn open_transaction_keeps_its_producer_from_expiry_and_eviction() {
    let options =
        ProducersOptions { expiration_ms: 100, producers_max: 2, ..ProducersOptions::default() };
    let mut world = World::with(options);
    world.producers.apply(&ProducerBatch { is_transactional: true, ..batch(0, PRODUCER, 0, 0, 1) });
    world.end = 1;
    world.append(ProducerId(8), 0, 0, 1);
    world.append(ProducerId(9), 0, 0, 1);
    assert_eq!(world.producers.len(), 2);
    assert_eq!(world.decide(ProducerId(8), 0, 5, 1), Verdict::Append);
    assert_eq!(world.producers.expire(Timestamp(0)), 0);
    assert_eq!(world.producers.expire(Timestamp(1_000)), 1);
    assert_eq!(world.producers.len(), 1);
    assert!(matches!(world.decide(PRODUCER, 0, 1, 1), Verdict::Refuse(_)));
}

#[test]
fn the_producer_that_appended_longest_ago_is_evicted() {
    let mut world = World::with(ProducersOptions { producers_max: 3, ..Default::default() });
    for id in 1..=3 {
        world.append(ProducerId(id), 0, 0, 1);
    }
    world.append(ProducerId(1), 0, 1, 1);
    world.append(ProducerId(4), 0, 0, 1);
    assert_eq!(world.producers.len(), 3);
    assert_eq!(world.decide(ProducerId(2), 0, 50, 1), Verdict::Append);
    assert!(matches!(world.decide(ProducerId(1), 0, 0, 1), Verdict::Duplicate(_)));
    assert!(matches!(world.decide(ProducerId(3), 0, 0, 1), Verdict::Duplicate(_)));
}

#[test]
fn hostile_snapshot_entries_are_dropped_without_harm() {
    let entry = ProducerSnapshotEntry {
        producer_id: PRODUCER,
        producer_epoch: ProducerEpoch(1),
        last_sequence: 9,
        last_offset: Offset(9),
        offset_delta: 9,
        timestamp: Timestamp(5),
        coordinator_epoch: -1,
        current_transaction_first_offset: -1,
    };
    let mut entries = Vec::new();
    for offset_delta in [i32::MIN, -1, 10, i32::MAX] {
        entries.push(ProducerSnapshotEntry { offset_delta, ..entry });
    }
    entries.push(ProducerSnapshotEntry { producer_id: ProducerId(-5), ..entry });
    entries.push(entry);
    entries.push(entry);
    entries.push(ProducerSnapshotEntry { producer_epoch: ProducerEpoch(0), ..entry });
    entries.push(ProducerSnapshotEntry { last_offset: Offset(i64::MIN), ..entry });
    let mut producers = Producers::new(ProducersOptions::default());
    producers.restore(&entries);
    producers.check();
    assert_eq!(producers.snapshot(), [entry]);
}

/// Remembers every batch for ever and answers from the list.
#[derive(Default)]
struct Model {
    /// By producer: epoch, first sequence, last sequence, base offset, in order of the log.
    history: BTreeMap<ProducerId, Vec<(i16, i64, i64, i64)>>,
}

impl Model {
    fn decide(&self, id: ProducerId, epoch: i16, sequence: i32, count: i32) -> Verdict {
        let Some((known, _, _, _)) = self.history.get(&id).and_then(|all| all.last()) else {
            return Verdict::Append;
        };
        let all: Vec<_> = self.history[&id].iter().filter(|batch| batch.0 == *known).collect();
        let first = i64::from(sequence);
        let last = (first + i64::from(count) - 1) % (1 << 31);
        if epoch < *known {
            return Verdict::Refuse(SequenceRefusal::StaleEpoch {
                producer_id: id,
                epoch: ProducerEpoch(epoch),
                known: ProducerEpoch(*known),
            });
        }
        if epoch == *known {
            let recent = all.iter().rev().take(5);
            if let Some(hit) = recent.into_iter().find(|hit| (hit.1, hit.2) == (first, last)) {
                return duplicate(hit.3, i64::from(count));
            }
        }
        let next = if epoch == *known {
            all.last().map_or(0, |batch| (batch.2 + 1) % (1 << 31))
        } else {
            0
        };
        if first == next {
            return Verdict::Append;
        }
        Verdict::Refuse(SequenceRefusal::OutOfOrder {
            producer_id: id,
            epoch: ProducerEpoch(epoch),
            sequence,
            expected: i32::try_from(next).unwrap(),
        })
    }

    fn append(&mut self, base: i64, id: ProducerId, epoch: i16, sequence: i32, count: i32) {
        let last = (i64::from(sequence) + i64::from(count) - 1) % (1 << 31);
        self.history.entry(id).or_default().push((epoch, i64::from(sequence), last, base));
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Sends relative to what would come next: 0 continues, negative retries, positive leaves a gap.
    Send {
        id: i64,
        epoch_step: i16,
        back: i32,
        count: i32,
    },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let send = (0_i64..3, prop_oneof![8 => Just(0_i16), 1 => Just(1), 1 => Just(-1)], -8_i32..3)
        .prop_flat_map(|(id, epoch_step, back)| {
            (1_i32..4).prop_map(move |count| Step::Send { id, epoch_step, back, count })
        });
    proptest::collection::vec(prop_oneof![20 => send, 1 => Just(Step::Restart)], 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn producers_agree_with_a_model_that_remembers_everything(
        steps in steps(),
        start in prop_oneof![Just(0_i32), Just(i32::MAX - 5)],
    ) {
        let mut world = World::new();
        let mut model = Model::default();
        let mut next: BTreeMap<i64, (i16, i32)> = BTreeMap::new();
        for step in steps {
            let Step::Send { id, epoch_step, back, count } = step else {
                world.restart();
                continue;
            };
            let (epoch, sequence) = *next.entry(id).or_insert((5, start));
            let epoch = epoch + epoch_step;
            let sequence =
                if epoch_step > 0 && back >= 0 { 0 } else { sequence.wrapping_add(back) & i32::MAX };
            let expected = model.decide(ProducerId(id), epoch, sequence, count);
            prop_assert_eq!(world.decide(ProducerId(id), epoch, sequence, count), expected);
            if expected == Verdict::Append {
                model.append(world.end, ProducerId(id), epoch, sequence, count);
                world.apply(ProducerId(id), epoch, sequence, count);
                next.insert(id, (epoch, sequence.wrapping_add(count) & i32::MAX));
            }
        }
    }

    #[test]
    fn any_snapshot_restores_into_a_state_that_holds_its_invariants(
        entries in proptest::collection::vec(
            (-2_i64..4, -1_i16..3, any::<i32>(), -2_i64..50, -2_i32..60, any::<i64>()), 0..60),
    ) {
        let entries: Vec<_> = entries.into_iter().map(|(id, epoch, sequence, offset, delta, open)| {
            ProducerSnapshotEntry {
                producer_id: ProducerId(id),
                producer_epoch: ProducerEpoch(epoch),
                last_sequence: sequence,
                last_offset: Offset(offset),
                offset_delta: delta,
                timestamp: Timestamp(open),
                coordinator_epoch: 0,
                current_transaction_first_offset: open,
            }
        }).collect();
        let options = ProducersOptions { producers_max: 2, ..Default::default() };
        let mut producers = Producers::new(options);
        producers.restore(&entries);
        producers.check();
        let again = producers.snapshot();
        producers.restore(&again);
        producers.check();
        prop_assert_eq!(producers.snapshot(), again);
    }
}
