//! Facts of the leader role, each named, and the whole of it against a model that keeps plain lists.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use record::{Fold, ProducerBatch, ProducerEpoch, Timestamp};

use super::*;
use crate::ProducersOptions;

const NEVER: Duration = Duration::MAX;

fn leader() -> Leader {
    leader_with(LogProgress::settled(Offset(0), Offset(0)), InSync::ALONE)
}

fn leader_with(log: LogProgress, in_sync: InSync) -> Leader {
    let start = LeaderStart {
        epoch: LeaderEpoch(5),
        log,
        checkpointed_high_watermark: Offset(0),
        in_sync,
        mutant: Mutant::None,
    };
    Leader::new(&start)
}

fn progress(durable: i64, written: i64, accepted: i64) -> LogProgress {
    LogProgress {
        log_start: Offset(0),
        durable: Offset(durable),
        safe_end: Offset(durable),
        written: Offset(written),
        accepted: Offset(accepted),
    }
}

fn waiter(token: u64, acks: Acks, last_offset: i64) -> ProduceWaiter {
    ProduceWaiter {
        token: WaiterToken(token),
        acks,
        written: Written::Now,
        last_offset: Offset(last_offset),
        deadline: NEVER,
    }
}

fn fetch(token: u64, seen_end: i64) -> FetchWaiter {
    FetchWaiter {
        token: WaiterToken(token),
        isolation: Isolation::ReadUncommitted,
        seen_end: Offset(seen_end),
    }
}

fn step(leader: &mut Leader, input: Input) -> Vec<Effect> {
    step_at(leader, 0, input)
}

fn step_at(leader: &mut Leader, now_ms: u64, input: Input) -> Vec<Effect> {
    let mut out = Vec::new();
    leader.step(Duration::from_millis(now_ms), input, &mut out);
    leader.check();
    out
}

fn completed(token: u64, outcome: ProduceOutcome) -> Effect {
    Effect::CompleteProduce { token: WaiterToken(token), outcome }
}

fn acked(token: u64) -> Effect {
    completed(token, ProduceOutcome::Acked)
}

fn woken(tokens: &[u64]) -> Effect {
    Effect::WakeFetches { tokens: tokens.iter().map(|token| WaiterToken(*token)).collect() }
}

#[test]
fn recovered_log_is_committed_to_its_end_at_once() {
    let leader = leader_with(LogProgress::settled(Offset(3), Offset(9)), InSync::ALONE);
    leader.check();
    assert_eq!(leader.high_watermark(), Offset(9));
    assert_eq!(leader.read_view(Isolation::ReadCommitted).latest, Latest::Known(Offset(9)));
}

#[test]
fn producers_are_answered_only_when_their_batch_is_durable() {
    let mut leader = leader();
    assert_eq!(step(&mut leader, Input::Log(progress(0, 0, 10))), []);
    assert_eq!(step(&mut leader, Input::Wait(waiter(1, Acks::InSync, 4))), []);
    assert_eq!(step(&mut leader, Input::Wait(waiter(2, Acks::Leader, 4))), []);
    assert_eq!(step(&mut leader, Input::Wait(waiter(3, Acks::InSync, 9))), []);
    assert_eq!(step(&mut leader, Input::Log(progress(0, 10, 10))), []);
    assert_eq!(
        step(&mut leader, Input::Log(progress(4, 10, 10))),
        [Effect::HighWatermark(Offset(4))]
    );
    let effects = step(&mut leader, Input::Log(progress(5, 10, 10)));
    assert_eq!(effects, [Effect::HighWatermark(Offset(5)), acked(2), acked(1)]);
    let effects = step(&mut leader, Input::Log(progress(10, 10, 10)));
    assert_eq!(effects, [Effect::HighWatermark(Offset(10)), acked(3)]);
}

#[test]
fn write_caching_answers_at_the_written_end() {
    let mut leader = leader();
    step(&mut leader, Input::Log(progress(0, 0, 5)));
    step(&mut leader, Input::Wait(waiter(1, Acks::InSync, 4)));
    let cached = LogProgress { safe_end: Offset(5), ..progress(0, 5, 5) };
    let effects = step(&mut leader, Input::Log(cached));
    assert_eq!(effects, [Effect::HighWatermark(Offset(5)), acked(1)]);
}

#[test]
fn batch_that_is_safe_already_is_answered_at_once() {
    let mut leader = leader();
    step(&mut leader, Input::Log(progress(5, 5, 5)));
    assert_eq!(step(&mut leader, Input::Wait(waiter(1, Acks::Leader, 4))), [acked(1)]);
    assert_eq!(step(&mut leader, Input::Wait(waiter(2, Acks::InSync, 4))), [acked(2)]);
}

#[test]
fn duplicate_waits_until_the_high_watermark_passed_its_original() {
    let mut leader = leader();
    step(&mut leader, Input::Log(progress(0, 0, 9)));
    step(&mut leader, Input::Wait(waiter(1, Acks::InSync, 8)));
    for (token, acks) in [(2, Acks::Leader), (3, Acks::InSync)] {
        let retry = ProduceWaiter { written: Written::Before, ..waiter(token, acks, 4) };
        assert_eq!(step(&mut leader, Input::Wait(retry)), []);
    }
    let effects = step(&mut leader, Input::Log(progress(5, 9, 9)));
    assert_eq!(effects, [Effect::HighWatermark(Offset(5)), acked(2), acked(3)]);
}

#[test]
fn duplicate_with_one_ack_waits_for_the_high_watermark_although_its_original_is_durable() {
    let frozen = InSync { members: 1, minimum: 2 };
    let mut leader = leader_with(LogProgress::settled(Offset(0), Offset(0)), frozen);
    step(&mut leader, Input::Log(progress(5, 5, 5)));
    let retry = ProduceWaiter { written: Written::Before, ..waiter(1, Acks::Leader, 4) };
    assert_eq!(step(&mut leader, Input::Wait(retry)), []);
    let effects = step(&mut leader, Input::InSync(InSync { members: 2, minimum: 2 }));
    assert_eq!(effects, [Effect::HighWatermark(Offset(5)), acked(1)]);
}

#[test]
fn below_the_minimum_appends_are_refused_and_the_high_watermark_stands() {
    let mut leader = leader();
    step(&mut leader, Input::InSync(InSync { members: 1, minimum: 2 }));
    let refusal = AppendRefusal::NotEnoughReplicas { in_sync: 1, minimum: 2 };
    assert_eq!(leader.admit(Some(Acks::InSync)), Err(refusal));
    assert_eq!(leader.admit(Some(Acks::Leader)), Ok(()));
    assert_eq!(leader.admit(None), Ok(()));
    step(&mut leader, Input::Log(progress(0, 0, 5)));
    step(&mut leader, Input::Wait(waiter(1, Acks::Leader, 4)));
    // acks=1 is answered by the leader's own disk, but nobody sees the records.
    assert_eq!(step(&mut leader, Input::Log(progress(5, 5, 5))), [acked(1)]);
    assert_eq!(leader.high_watermark(), Offset(0));
    assert_eq!(leader.read_view(Isolation::ReadUncommitted).end, Offset(0));
}

#[test]
fn shrinking_below_the_minimum_after_the_commit_is_told_to_the_producer() {
    let mut leader = leader();
    step(&mut leader, Input::Log(progress(5, 5, 5)));
    step(&mut leader, Input::InSync(InSync { members: 1, minimum: 2 }));
    let outcome = ProduceOutcome::NotEnoughReplicasAfterAppend { in_sync: 1, minimum: 2 };
    let effects = step(&mut leader, Input::Wait(waiter(1, Acks::InSync, 4)));
    assert_eq!(effects, [completed(1, outcome)]);
}

#[test]
fn late_producers_time_out_and_the_rest_stays_in_order() {
    let mut leader = leader();
    step(&mut leader, Input::Log(progress(0, 0, 9)));
    assert_eq!(leader.next_deadline(), None);
    for (token, deadline_ms) in [(1, 300), (2, 100), (3, 200)] {
        let deadline = Duration::from_millis(deadline_ms);
        let acks = if token == 3 { Acks::Leader } else { Acks::InSync };
        let last_offset = i64::try_from(token).unwrap();
        step(
            &mut leader,
            Input::Wait(ProduceWaiter { deadline, ..waiter(token, acks, last_offset) }),
        );
    }
    assert_eq!(leader.next_deadline(), Some(Duration::from_millis(100)));
    assert_eq!(step_at(&mut leader, 99, Input::Time), []);
    let timed_out = |token| completed(token, ProduceOutcome::TimedOut);
    assert_eq!(step_at(&mut leader, 100, Input::Time), [timed_out(2)]);
    assert_eq!(leader.next_deadline(), Some(Duration::from_millis(200)));
    assert_eq!(step_at(&mut leader, 250, Input::Time), [timed_out(3)]);
    let effects = step_at(&mut leader, 250, Input::Log(progress(9, 9, 9)));
    assert_eq!(effects, [Effect::HighWatermark(Offset(9)), acked(1)]);
    assert_eq!(leader.next_deadline(), None);
}

#[test]
fn one_effect_wakes_all_parked_fetches() {
    let mut leader = leader();
    for token in [3, 1, 2] {
        assert_eq!(step(&mut leader, Input::WaitFetch(fetch(token, 0))), []);
    }
    step(&mut leader, Input::CancelFetch(WaiterToken(2)));
    assert_eq!(step(&mut leader, Input::Log(progress(0, 5, 5))), []);
    let effects = step(&mut leader, Input::Log(progress(5, 5, 5)));
    assert_eq!(effects, [Effect::HighWatermark(Offset(5)), woken(&[1, 3])]);
    assert_eq!(leader.fetch_waiter_count(), 0);
    // Between the answer and the parking the high watermark may move: such a fetch never sleeps.
    assert_eq!(step(&mut leader, Input::WaitFetch(fetch(4, 0))), [woken(&[4])]);
    assert_eq!(step(&mut leader, Input::WaitFetch(fetch(5, 5))), []);
}

#[test]
fn fetch_beyond_the_bound_is_answered_instead_of_parked() {
    let mut leader = leader();
    let mut out = Vec::new();
    for token in 0..FETCH_WAITERS_MAX as u64 {
        leader.step(Duration::ZERO, Input::WaitFetch(fetch(token, 0)), &mut out);
    }
    assert_eq!(out, []);
    let effects = step(&mut leader, Input::WaitFetch(fetch(u64::MAX, 0)));
    assert_eq!(effects, [Effect::AnswerFetch { token: WaiterToken(u64::MAX) }]);
}

#[test]
fn produce_beyond_the_bound_is_refused_before_it_is_appended() {
    let mut leader = leader();
    let mut out = Vec::new();
    let end = i64::try_from(PRODUCE_WAITERS_MAX).unwrap() + 1;
    leader.step(Duration::ZERO, Input::Log(progress(0, 0, end)), &mut out);
    for index in 0..end - 1 {
        let token = u64::try_from(index).unwrap();
        let waits = Input::Wait(waiter(token, Acks::InSync, index));
        leader.step(Duration::ZERO, waits, &mut out);
    }
    assert_eq!(out, []);
    let (waiting, maximum) = (PRODUCE_WAITERS_MAX, PRODUCE_WAITERS_MAX);
    let refusal = AppendRefusal::Busy { waiting, maximum };
    assert_eq!(leader.admit(Some(Acks::Leader)), Err(refusal));
    assert_eq!(leader.admit(None), Ok(()));
    let effects = step(&mut leader, Input::Wait(waiter(u64::MAX, Acks::InSync, end - 1)));
    assert_eq!(effects, [completed(u64::MAX, ProduceOutcome::WaitersFull)]);
}

#[test]
fn the_end_of_a_leadership_fails_every_waiter_with_its_reason() {
    for reason in [EndReason::LeadershipLost, EndReason::Deleted, EndReason::ShuttingDown] {
        let mut leader = leader();
        step(&mut leader, Input::Log(progress(0, 5, 5)));
        step(&mut leader, Input::Wait(waiter(1, Acks::InSync, 4)));
        step(&mut leader, Input::Wait(waiter(2, Acks::Leader, 3)));
        step(&mut leader, Input::WaitFetch(fetch(3, 0)));
        let effects = step(&mut leader, Input::End(reason));
        let ended = |token| completed(token, ProduceOutcome::Ended(reason));
        assert_eq!(effects, [ended(2), ended(1), woken(&[3])]);
        assert_eq!(leader.admit(None), Err(AppendRefusal::Ended(reason)));
        let refusal = Err(FetchRefusal::Ended(reason));
        assert_eq!(leader.check_epoch(LeaderEpoch::NONE), refusal);
        let late = waiter(4, Acks::Leader, 4);
        assert_eq!(step(&mut leader, Input::Wait(late)), [ended(4)]);
        assert_eq!(step(&mut leader, Input::WaitFetch(fetch(5, 0))), [woken(&[5])]);
    }
}

#[test]
fn failed_log_refuses_records_and_still_serves_what_it_holds() {
    let mut leader = leader();
    step(&mut leader, Input::Log(progress(5, 5, 9)));
    step(&mut leader, Input::Wait(waiter(1, Acks::InSync, 8)));
    let outcome = ProduceOutcome::Ended(EndReason::LogFailed);
    assert_eq!(step(&mut leader, Input::End(EndReason::LogFailed)), [completed(1, outcome)]);
    assert_eq!(leader.admit(None), Err(AppendRefusal::Ended(EndReason::LogFailed)));
    let view = leader.admit_fetch(LeaderEpoch(5), Offset(2), Isolation::ReadUncommitted);
    assert_eq!(view.unwrap().end, Offset(5));
    assert_eq!(step(&mut leader, Input::WaitFetch(fetch(2, 5))), []);
    step(&mut leader, Input::End(EndReason::LeadershipLost));
    let lost = Err(FetchRefusal::Ended(EndReason::LeadershipLost));
    assert_eq!(leader.check_epoch(LeaderEpoch(5)), lost);
}

#[test]
fn fetch_is_refused_outside_the_log_and_for_other_epochs() {
    let mut leader = leader_with(LogProgress::settled(Offset(3), Offset(5)), InSync::ALONE);
    let moved = LogProgress { log_start: Offset(3), ..progress(5, 5, 9) };
    step(&mut leader, Input::Log(moved));
    let admit = |epoch, offset| {
        leader
            .admit_fetch(LeaderEpoch(epoch), Offset(offset), Isolation::ReadUncommitted)
            .map(|view| view.end)
    };
    let out_of_range = |offset| {
        Err(FetchRefusal::OutOfRange {
            offset: Offset(offset),
            log_start: Offset(3),
            log_end: Offset(9),
        })
    };
    assert_eq!(admit(5, 3), Ok(Offset(5)));
    assert_eq!(admit(-1, 9), Ok(Offset(5)));
    assert_eq!(admit(-1, 2), out_of_range(2));
    assert_eq!(admit(-1, 10), out_of_range(10));
    assert_eq!(admit(-1, i64::MIN), out_of_range(i64::MIN));
    let (current, older, newer) = (LeaderEpoch(5), LeaderEpoch(4), LeaderEpoch(6));
    assert_eq!(admit(4, 3), Err(FetchRefusal::Fenced { asked: older, current }));
    assert_eq!(admit(6, 3), Err(FetchRefusal::UnknownEpoch { asked: newer, current }));
}

#[test]
fn latest_is_not_told_before_the_high_watermark_reached_the_start_of_the_term() {
    let in_sync = InSync { members: 1, minimum: 2 };
    let mut leader = leader_with(LogProgress::settled(Offset(0), Offset(9)), in_sync);
    assert_eq!(leader.read_view(Isolation::ReadUncommitted).latest, Latest::NotYet);
    step(&mut leader, Input::InSync(InSync { members: 2, minimum: 2 }));
    assert_eq!(leader.read_view(Isolation::ReadUncommitted).latest, Latest::Known(Offset(9)));
}

#[test]
fn checkpointed_high_watermark_outside_the_log_is_clamped() {
    for (checkpointed, expected) in [(0, 3), (5, 5), (100, 9), (i64::MIN, 3)] {
        let start = LeaderStart {
            epoch: LeaderEpoch(0),
            log: LogProgress::settled(Offset(3), Offset(9)),
            checkpointed_high_watermark: Offset(checkpointed),
            in_sync: InSync { members: 1, minimum: 2 },
            mutant: Mutant::None,
        };
        let leader = Leader::new(&start);
        leader.check();
        assert_eq!(leader.high_watermark(), Offset(expected));
    }
}

#[test]
fn late_report_of_the_log_is_ignored() {
    let mut leader = leader();
    step(&mut leader, Input::Log(progress(5, 6, 9)));
    assert_eq!(step(&mut leader, Input::Log(progress(4, 6, 9))), []);
    assert_eq!(leader.log(), &progress(5, 6, 9));
}

#[test]
#[should_panic(expected = "assertion failed")]
fn report_that_contradicts_an_earlier_one_is_a_bug() {
    let mut leader = leader();
    step(&mut leader, Input::Log(progress(5, 6, 9)));
    step(&mut leader, Input::Log(progress(4, 7, 9)));
}

#[test]
fn decide_puts_the_partitions_checks_before_the_producers() {
    let mut producers = Producers::new(ProducersOptions::default());
    producers.apply(&ProducerBatch {
        producer_id: ProducerId(1),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        base_offset: Offset(0),
        last_offset: Offset(1),
        last_offset_delta: 1,
        max_timestamp: Timestamp(7),
        is_transactional: false,
        is_control: false,
    });
    let attempt = |base_sequence, last_offset_delta| Attempt {
        producer_id: ProducerId(1),
        producer_epoch: ProducerEpoch(0),
        base_sequence,
        last_offset_delta,
        is_transactional: false,
        is_control: false,
    };
    let mut leader = leader();
    let acks = Some(Acks::InSync);
    assert_eq!(leader.decide(&producers, &attempt(2, 0), acks), AppendDecision::Append);
    let duplicate =
        Duplicate { base_offset: Offset(0), last_offset: Offset(1), timestamp: Timestamp(7) };
    let decision = leader.decide(&producers, &attempt(0, 1), acks);
    assert_eq!(decision, AppendDecision::Duplicate(duplicate));
    let decision = leader.decide(&producers, &attempt(9, 0), acks);
    assert!(matches!(decision, AppendDecision::Refuse(AppendRefusal::Sequence(_))));
    step(&mut leader, Input::InSync(InSync { members: 1, minimum: 2 }));
    let refusal = AppendRefusal::NotEnoughReplicas { in_sync: 1, minimum: 2 };
    assert_eq!(leader.decide(&producers, &attempt(9, 0), acks), AppendDecision::Refuse(refusal));
}

/// What each mutant gives away, so that a simulator with the same promise in its oracle can see it.
#[cfg(feature = "mutants")]
#[test]
fn every_mutant_breaks_its_rule() {
    for mutant in Mutant::ALL {
        let start = LeaderStart {
            epoch: LeaderEpoch(0),
            log: LogProgress::settled(Offset(0), Offset(0)),
            checkpointed_high_watermark: Offset(0),
            in_sync: InSync::ALONE,
            mutant,
        };
        let mut leader = Leader::new(&start);
        let mut producers = Producers::new(ProducersOptions { mutant, ..Default::default() });
        for offset in 0..2 {
            producers.apply(&ProducerBatch {
                producer_id: ProducerId(1),
                producer_epoch: ProducerEpoch(0),
                base_sequence: i32::try_from(offset).unwrap(),
                base_offset: Offset(offset),
                last_offset: Offset(offset),
                last_offset_delta: 0,
                max_timestamp: Timestamp(7),
                is_transactional: false,
                is_control: false,
            });
        }
        let first = Attempt {
            producer_id: ProducerId(1),
            producer_epoch: ProducerEpoch(0),
            base_sequence: 0,
            last_offset_delta: 0,
            is_transactional: false,
            is_control: false,
        };
        let forgets = producers.decide(&first)
            != Verdict::Duplicate(Duplicate {
                base_offset: Offset(0),
                last_offset: Offset(0),
                timestamp: Timestamp(7),
            });
        let shows = !step(&mut leader, Input::Log(progress(0, 0, 5))).is_empty();
        let acks_early = !step(&mut leader, Input::Wait(waiter(1, Acks::Leader, 4))).is_empty();
        let retry = ProduceWaiter { written: Written::Before, ..waiter(2, Acks::Leader, 3) };
        let retry_early = !step(&mut leader, Input::Wait(retry)).is_empty();
        match mutant {
            Mutant::None => panic!("not a mutant"),
            Mutant::DuplicateAckedBeforeDurable => assert!(retry_early && !shows && !acks_early),
            Mutant::HighWatermarkFromAccepted => assert!(shows && !acks_early),
            Mutant::LeaderAckFromAccepted => assert!(acks_early && !shows && !retry_early),
            Mutant::OneBatchRemembered => assert!(forgets),
        }
        assert_eq!(forgets, mutant == Mutant::OneBatchRemembered);
    }
}

/// Every rule said as a plain question over plain lists.
struct Model {
    log: LogProgress,
    high_watermark: i64,
    in_sync: InSync,
    ended: Option<EndReason>,
    produces: Vec<ProduceWaiter>,
    fetches: Vec<FetchWaiter>,
}

impl Model {
    /// Who must have been answered by now, and how; forgets them.
    fn settle(&mut self, now: Duration) -> Vec<(u64, ProduceOutcome)> {
        if self.in_sync.minimum <= self.in_sync.members {
            self.high_watermark = self.high_watermark.max(self.log.safe_end.0);
        }
        let mut done = Vec::new();
        let (high_watermark, log, in_sync) = (self.high_watermark, self.log, self.in_sync);
        let ended = self.ended;
        self.produces.retain(|waiter| {
            let own = waiter.acks == Acks::Leader && waiter.written == Written::Now;
            let passed = if own { log.safe_end.0 } else { high_watermark } > waiter.last_offset.0;
            let short = in_sync.members < in_sync.minimum;
            let InSync { members, minimum } = in_sync;
            let outcome = match ended {
                Some(reason) => ProduceOutcome::Ended(reason),
                // A duplicate with acks=1 asked for no replicas.
                None if passed && short && waiter.acks == Acks::InSync => {
                    ProduceOutcome::NotEnoughReplicasAfterAppend { in_sync: members, minimum }
                }
                None if passed => ProduceOutcome::Acked,
                None if waiter.deadline <= now => ProduceOutcome::TimedOut,
                None => return true,
            };
            done.push((waiter.token.0, outcome));
            false
        });
        done.sort_unstable_by_key(|entry| entry.0);
        done
    }

    fn woken(&mut self, by_end: bool) -> Vec<u64> {
        let serves = matches!(self.ended, None | Some(EndReason::LogFailed | EndReason::DiskFull));
        let high_watermark = self.high_watermark;
        let mut tokens = Vec::new();
        self.fetches.retain(|waiter| {
            let stays = !by_end && serves && high_watermark <= waiter.seen_end.0;
            if !stays {
                tokens.push(waiter.token.0);
            }
            stays
        });
        tokens.sort_unstable();
        tokens
    }
}

#[derive(Debug, Clone)]
enum Event {
    Append(i64),
    Write,
    Sync(i64),
    Produce { acks: Acks, written: Written, back: i64, wait_ms: u64 },
    Fetch { back: i64 },
    Cancel(u64),
    InSync(InSync),
    Pass(u64),
    End(EndReason),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let acks = prop_oneof![Just(Acks::Leader), Just(Acks::InSync)];
    let written = prop_oneof![3 => Just(Written::Now), 1 => Just(Written::Before)];
    let reason = prop_oneof![
        Just(EndReason::LeadershipLost),
        Just(EndReason::LogFailed),
        Just(EndReason::DiskFull)
    ];
    let event = prop_oneof![
        6 => (1_i64..5).prop_map(Event::Append),
        4 => Just(Event::Write),
        4 => (1_i64..9).prop_map(Event::Sync),
        8 => (acks, written, 0_i64..6, 1_u64..60).prop_map(|(acks, written, back, wait_ms)| {
            Event::Produce { acks, written, back, wait_ms }
        }),
        4 => (-1_i64..3).prop_map(|back| Event::Fetch { back }),
        1 => (0_u64..40).prop_map(Event::Cancel),
        1 => (1_u16..3, 1_u16..3)
            .prop_map(|(members, minimum)| Event::InSync(InSync { members, minimum })),
        3 => (1_u64..30).prop_map(Event::Pass),
        1 => reason.prop_map(Event::End),
    ];
    proptest::collection::vec(event, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn leader_agrees_with_a_model_that_keeps_plain_lists(events in events()) {
        let log = LogProgress::settled(Offset(0), Offset(0));
        let mut leader = leader_with(log, InSync::ALONE);
        let mut model = Model {
            log, high_watermark: 0, in_sync: InSync::ALONE, ended: None,
            produces: vec![], fetches: vec![],
        };
        let mut now = Duration::ZERO;
        for (token, event) in (0_u64..).zip(events) {
            let was_ended = model.ended;
            let input = input_of(&event, token, &mut model, &mut now);
            let by_end = matches!(event, Event::End(_));
            let mut out = Vec::new();
            leader.step(now, input, &mut out);
            leader.check();
            let done = model.settle(now);
            let woken = model.woken(by_end);
            prop_assert_eq!(leader.high_watermark(), Offset(model.high_watermark));
            let mut answered = Vec::new();
            let mut looked = Vec::new();
            for effect in &out {
                match effect {
                    Effect::HighWatermark(end) => prop_assert_eq!(end.0, model.high_watermark),
                    Effect::CompleteProduce { token, outcome } => answered.push((token.0, *outcome)),
                    Effect::WakeFetches { tokens } => looked.extend(tokens.iter().map(|token| token.0)),
                    Effect::AnswerFetch { .. } => prop_assert!(false, "never that many"),
                }
            }
            answered.sort_unstable_by_key(|entry| entry.0);
            prop_assert_eq!(answered, done, "after {:?}, ended before: {:?}", event, was_ended);
            prop_assert_eq!(looked, woken);
            let earliest = model.produces.iter().map(|waiter| waiter.deadline).min();
            if let Some(earliest) = earliest {
                prop_assert!(leader.next_deadline().is_some_and(|deadline| deadline <= earliest));
            }
            prop_assert_eq!(leader.produce_waiter_count(), model.produces.len());
            prop_assert_eq!(leader.fetch_waiter_count(), model.fetches.len());
        }
    }
}

/// Applies the event to the model's plain state and says it in the leader's words.
fn input_of(event: &Event, token: u64, model: &mut Model, now: &mut Duration) -> Input {
    let log = &mut model.log;
    match *event {
        Event::Append(count) => {
            log.accepted.0 += count;
            Input::Log(*log)
        }
        Event::Write => {
            log.written = log.accepted;
            Input::Log(*log)
        }
        Event::Sync(count) => {
            log.durable.0 = (log.durable.0 + count).min(log.written.0);
            log.safe_end = log.durable;
            Input::Log(*log)
        }
        Event::Produce { acks, written, back, wait_ms } => {
            let waiter = ProduceWaiter {
                token: WaiterToken(token),
                acks,
                written,
                last_offset: Offset((log.accepted.0 - 1 - back).max(0)),
                deadline: *now + Duration::from_millis(wait_ms),
            };
            model.produces.push(waiter);
            Input::Wait(waiter)
        }
        Event::Fetch { back } => {
            let waiter = fetch(token, model.high_watermark - back);
            model.fetches.push(waiter);
            Input::WaitFetch(waiter)
        }
        Event::Cancel(token) => {
            model.fetches.retain(|waiter| waiter.token.0 != token);
            Input::CancelFetch(WaiterToken(token))
        }
        Event::InSync(in_sync) => {
            model.in_sync = in_sync;
            Input::InSync(in_sync)
        }
        Event::Pass(ms) => {
            *now += Duration::from_millis(ms);
            Input::Time
        }
        Event::End(reason) => {
            if !matches!(model.ended, Some(EndReason::LeadershipLost)) {
                model.ended = Some(reason);
            }
            Input::End(reason)
        }
    }
}
