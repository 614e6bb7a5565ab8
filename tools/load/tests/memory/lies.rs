//! Answers that are not true: each is told, and none is believed.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use broker::Platform;
use load::{
    AuditReport, AuditVerdict, Check, FindingKind, ReadLoad, RunEnd, RunResult, TopicChoice,
    Workload,
};
use record::{Batches, Found, NodeId, Offset, PartitionIndex};
use wire::ErrorCode;

use crate::middleman::{LIAR_PORT, Lie};
use crate::world::{World, options, reading, steady};

/// Runs behind the liar; gives what came of it to `check`.
fn run_behind(lie: Lie, partitions: i32, check: impl FnOnce(Result<RunResult, String>) + 'static) {
    World::run_behind(lie, move |world| async move {
        let mut options = options(steady(50), partitions);
        options.workload.partitions_per_request = 2;
        options.bootstrap[0].port = LIAR_PORT;
        let ran = world.produce(&options).await;
        check(ran.map(|outcome| outcome.result).map_err(|error| error.to_string()));
    });
}

/// Runs behind a broker that gives back other records than it holds; gives the kinds of the findings.
fn read_back(change: impl Fn(&[u8]) -> Vec<u8> + 'static, expected: &'static [FindingKind]) {
    run_behind(Lie::Fetch(Rc::new(change)), 1, move |ran| {
        let result = ran.unwrap();
        assert!(!result.audit.has_passed && !result.is_sound(), "{:?}", result.audit);
        assert_eq!(result.end, RunEnd::Complete);
        let mut kinds: Vec<FindingKind> = Vec::new();
        for finding in &result.audit.findings {
            if !kinds.contains(&finding.kind) {
                kinds.push(finding.kind);
            }
        }
        assert_eq!(kinds, expected, "{:?}", result.audit);
    });
}

/// The batches of an answer.
fn batches(records: &[u8]) -> Vec<Vec<u8>> {
    let batches = Batches::new(records).filter_map(|(_, found)| match found {
        Found::Whole(view) => Some(view.bytes().to_vec()),
        _ => None,
    });
    batches.collect()
}

#[test]
fn a_middleman_who_does_not_lie_changes_nothing() {
    run_behind(Lie::Fetch(Rc::new(<[u8]>::to_vec)), 2, |ran| {
        let result = ran.unwrap();
        assert!(result.is_sound() && result.audit.matched_batches > 100, "{result:#?}");
    });
}

#[test]
fn records_that_come_back_changed_are_found() {
    let flip = |records: &[u8]| {
        let mut records = records.to_vec();
        records.iter_mut().last().into_iter().for_each(|byte| *byte ^= 1);
        records
    };
    read_back(flip, &[FindingKind::Corrupt]);
}

#[test]
fn a_batch_that_does_not_come_back_is_found() {
    let without_first = |records: &[u8]| {
        let mut batches = batches(records);
        if batches.len() > 1 {
            batches.remove(0);
        }
        batches.concat()
    };
    read_back(without_first, &[FindingKind::Gap, FindingKind::Missing]);
}

#[test]
fn a_batch_that_comes_back_twice_is_found() {
    let first_twice = |records: &[u8]| {
        let mut batches = batches(records);
        batches.extend(batches.first().cloned());
        batches.concat()
    };
    read_back(first_twice, &[FindingKind::Overlap, FindingKind::Unacked]);
}

#[test]
fn a_broker_that_gives_the_same_for_ever_does_not_keep_the_audit_for_ever() {
    let first = OnceCell::new();
    let the_same = move |records: &[u8]| {
        let batch = batches(records).into_iter().next().unwrap_or_default();
        first.get_or_init(|| batch).clone()
    };
    // That it could not be read any further comes behind the findings that are told.
    read_back(the_same, &[FindingKind::Overlap]);
}

#[test]
fn an_answer_that_names_a_partition_twice_or_another_one_ends_the_run() {
    for (lie, fact) in [
        (
            Lie::Produce(|response| {
                for partition in &mut response.responses[0].partition_responses {
                    partition.index = PartitionIndex(1);
                }
            }),
            "-1: the answer to Produce mentions it, which was not asked, or mentions it twice",
        ),
        (
            Lie::Produce(|response| {
                response.responses[0].partition_responses[0].index = PartitionIndex(7);
            }),
            "-7: the answer to Produce mentions it",
        ),
        (
            Lie::Produce(|response| {
                response.responses[0].partition_responses.pop();
            }),
            "-1: the answer to Produce does not mention it",
        ),
        (
            Lie::Produce(|response| {
                response.responses[0].partition_responses[0].base_offset = Offset(-1);
            }),
            "-0: a batch was acknowledged at offset -1",
        ),
        (
            // What the ledger could not hold would be looked for by nobody.
            Lie::Produce(|response| {
                response.responses[0].partition_responses[0].base_offset = Offset(1 << 48);
            }),
            "-0: a batch was acknowledged at offset 281474976710656",
        ),
    ] {
        run_behind(lie, 2, move |ran| {
            let result = ran.unwrap();
            let RunEnd::Failed { reason } = &result.end else { panic!("{:?}", result.end) };
            assert!(reason.contains(fact), "{reason}: {fact}");
            // What the node holds although nobody knows for sure is allowed for.
            assert!(result.audit.has_passed && result.audit.unacked_batches > 0, "{result:#?}");
        });
    }
}

#[test]
fn acknowledgements_at_other_places_than_the_batches_fail_the_audit() {
    let lie = Lie::Produce(|response| {
        for partition in &mut response.responses[0].partition_responses {
            partition.base_offset.0 += 1;
        }
    });
    run_behind(lie, 1, |ran| {
        let audit = ran.unwrap().audit;
        assert!(!audit.has_passed && audit.has_contradicted(), "{audit:?}");
        assert_eq!(audit.matched_batches, 0);
        assert_eq!(audit.findings[0].kind, FindingKind::Missing);
    });
}

#[test]
fn a_batch_that_was_refused_and_is_there_all_the_same_is_allowed_for() {
    let lie = Lie::Produce(|response| {
        response.responses[0].partition_responses[0].error_code = ErrorCode::RequestTimedOut;
    });
    run_behind(lie, 2, |ran| {
        let result = ran.unwrap();
        assert!(result.audit.has_passed && !result.is_sound(), "{result:#?}");
        assert_eq!(result.errors[0].name, "REQUEST_TIMED_OUT");
        assert_eq!(result.audit.unacked_batches, result.errors[0].count);
    });
}

#[test]
fn metadata_that_cannot_be_true_is_refused_before_anything_is_sent() {
    for (lie, fact) in [
        (
            Lie::Metadata(|response| {
                response.topics[0].partitions[0].partition_index = PartitionIndex(1);
            }),
            "-1: the metadata names it twice, or a number below zero",
        ),
        (
            Lie::Metadata(|response| {
                response.topics[0].partitions[0].partition_index = PartitionIndex(i32::MIN);
            }),
            "-2147483648: the metadata names it twice",
        ),
        (
            Lie::Metadata(|response| {
                let partition = response.topics[0].partitions[0].clone();
                response.topics[0].partitions = vec![partition; 200_001];
            }),
            "200001 partitions: at most 200000",
        ),
    ] {
        run_behind(lie, 2, move |ran| {
            let error = ran.unwrap_err();
            assert!(error.contains(fact), "{error}: {fact}");
        });
    }
}

#[test]
fn partitions_without_a_leader_are_named_at_once_where_the_topic_was_there_before() {
    let lie = Lie::Metadata(|response| {
        for partition in &mut response.topics[0].partitions[1..] {
            partition.leader_id = NodeId(-1);
            partition.error_code = ErrorCode::LeaderNotAvailable;
        }
    });
    World::run_behind(lie, |world| async move {
        let mut options = options(steady(50), 3);
        let TopicChoice::Made { is_kept, .. } = &mut options.topic else { unreachable!() };
        *is_kept = true;
        let name = world.produce(&options).await.unwrap().topic_left.unwrap();
        options.bootstrap[0].port = LIAR_PORT;
        options.topic = TopicChoice::Given { name };
        let before = world.client().monotonic();
        let error = world.produce(&options).await.unwrap_err().to_string();
        assert!(error.ends_with(": 2 of its partitions have no leader: 1, 2"), "{error}");
        let passed = world.client().monotonic() - before;
        assert!(
            passed < Duration::from_secs(1),
            "{passed:?} of the ten seconds that a request may take"
        );
    });
}

#[test]
fn a_log_that_is_too_short_fails_a_bounded_audit() {
    // The last partition's batches are not there: the end that the broker tells is where the run began.
    let lie = Lie::Ends(|offset| offset / 2);
    World::run_behind(lie, |world| async move {
        let mut options = options(Workload { audit_bytes_max: Some(1), ..steady(50) }, 1);
        options.bootstrap[0].port = LIAR_PORT;
        let audit = world.produce(&options).await.unwrap().result.audit;
        assert_eq!(audit.verdict, AuditVerdict::Failed, "{audit:?}");
        assert!(audit.finding_count >= 60, "half of all batches: {audit:?}");
        assert!(audit.findings[0].fact.starts_with("the log ends at "), "{audit:?}");
    });
}

#[test]
fn a_run_that_fails_does_not_accuse_the_broker_of_what_nobody_waited_for() {
    // Consumers get nothing, and in the middle an answer cannot be true.
    let answers = Rc::new(Cell::new(0));
    let lie = Lie::Both(
        Rc::new(|_| Vec::new()),
        Rc::new(move |response| {
            answers.set(answers.get() + 1);
            if answers.get() == 60 {
                response.responses[0].partition_responses[0].index = PartitionIndex(7);
            }
        }),
    );
    World::run_behind(lie, |world| async move {
        let mut options = options(Workload { consumers: 1, ..steady(50) }, 1);
        options.bootstrap[0].port = LIAR_PORT;
        let result = world.produce(&options).await.unwrap().result;
        assert!(matches!(result.end, RunEnd::Failed { .. }), "{result:#?}");
        let audit = &result.audit;
        assert!(
            audit.findings.iter().all(|found| found.kind != FindingKind::Undelivered),
            "{audit:?}"
        );
        assert_eq!(audit.undelivered_batches, 59, "{audit:?}");
        // How long they would have taken is at least how long they had.
        assert_eq!(result.delivery_lower_bounds, result.delivery.unwrap().count);
        assert!(result.delivery_lower_bounds > 20, "{result:#?}");
    });
}

#[test]
fn a_batch_that_a_waiting_consumer_does_not_get_fails_the_run() {
    const KEPT_BACK: i64 = 80;
    let without_one = |records: &[u8]| {
        let mut batches = batches(records);
        batches.retain(|batch| i64::from_be_bytes(*batch.first_chunk().unwrap()) != KEPT_BACK);
        batches.concat()
    };
    World::run_behind(Lie::Fetch(Rc::new(without_one)), |world| async move {
        let mut options = options(steady(20), 1);
        options.workload.consumers = 1;
        options.bootstrap[0].port = LIAR_PORT;
        let audit = world.produce(&options).await.unwrap().result.audit;
        assert!(audit.has_contradicted(), "{audit:?}");
        let undelivered =
            audit.findings.iter().find(|finding| finding.kind == FindingKind::Undelivered).unwrap();
        assert_eq!(undelivered.offset, KEPT_BACK);
        assert!(undelivered.fact.starts_with("1 acknowledged batches"), "{undelivered:?}");
    });
}

/// Fills a topic, and reads it behind a broker that gives back other records; gives the audit of the reading to `verify`.
fn consume_behind(
    change: impl Fn(&[u8]) -> Vec<u8> + 'static,
    check: Check,
    verify: impl FnOnce(AuditReport) + 'static,
) {
    let is_lying = Rc::new(Cell::new(false));
    let own = Rc::clone(&is_lying);
    let change = move |records: &[u8]| {
        if is_lying.get() { change(records) } else { records.to_vec() }
    };
    World::run_behind(Lie::Fetch(Rc::new(change)), move |world| async move {
        let mut filling = options(steady(50), 1);
        filling.topic = TopicChoice::Made {
            partitions: 1,
            replication_factor: 1,
            configs: Vec::new(),
            is_kept: true,
        };
        filling.bootstrap[0].port = LIAR_PORT;
        let topic = world.produce(&filling).await.unwrap().topic_left.unwrap();
        own.set(true);
        let load = ReadLoad { check, partition_bytes: 20_000, ..ReadLoad::default() };
        let outcome = world.read(&reading(load, TopicChoice::Given { name: topic })).await;
        assert_eq!(outcome.result.end, RunEnd::Complete);
        verify(outcome.result.audit);
    });
}

#[test]
fn records_that_a_consumer_gets_changed_are_found_where_checksums_are_looked_at() {
    let flip = |records: &[u8]| {
        let mut batches = batches(records);
        for batch in &mut batches {
            batch.iter_mut().last().into_iter().for_each(|byte| *byte ^= 1);
        }
        batches.concat()
    };
    consume_behind(flip, Check::Crc, |audit| {
        assert!(!audit.has_passed && audit.has_contradicted(), "{audit:?}");
        assert_eq!(audit.finding_count, audit.matched_batches, "every batch, each once");
        assert!(audit.findings.iter().all(|finding| finding.kind == FindingKind::Corrupt));
    });
    consume_behind(flip, Check::Offsets, |audit| assert!(audit.has_passed, "{audit:?}"));
}

#[test]
fn a_consumer_that_gets_the_same_for_ever_gives_up() {
    let first = OnceCell::new();
    let the_same = move |records: &[u8]| {
        let batch = batches(records).into_iter().next().unwrap_or_default();
        first.get_or_init(|| batch).clone()
    };
    consume_behind(the_same, Check::Crc, |audit| {
        assert_eq!((audit.has_passed, audit.unreadable_count), (false, 1), "{audit:?}");
        assert_eq!(audit.findings[0].kind, FindingKind::Overlap);
    });
}

#[test]
fn a_consumer_from_which_a_batch_is_kept_finds_the_gap() {
    let without_second = |records: &[u8]| {
        let mut batches = batches(records);
        if batches.len() > 2 {
            batches.remove(1);
        }
        batches.concat()
    };
    consume_behind(without_second, Check::Crc, |audit| {
        assert!(!audit.has_passed, "{audit:?}");
        assert!(audit.findings.iter().all(|finding| finding.kind == FindingKind::Gap));
    });
}
