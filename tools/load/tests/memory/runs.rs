//! Whole runs: what they measure, what they leave, and what ends them.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use broker::Platform;
use broker::sync::beside;
use load::{
    AuditVerdict, Durability, FindingKind, Pace, Payload, ProduceOptions, ReadFrom, ReadLoad,
    RecordSize, RunEnd, Silent, TopicChoice, Unsound, Until, Workload, consume, produce,
};
use record::Codec;

use crate::world::{World, made, options, reading, sound, steady};

#[test]
fn a_run_at_a_fixed_rate_is_measured_audited_and_leaves_nothing_behind() {
    World::run(|world| async move {
        let workload = Workload { connections: 3, partitions_per_request: 2, ..steady(100) };
        let outcome = world.produce(&options(workload.clone(), 6)).await.unwrap();
        assert!(outcome.topic_left.is_none() && outcome.deletion.is_none());
        let result = sound(outcome);
        assert_eq!(result.end, RunEnd::Complete);
        assert_eq!((result.leaders, result.partitions, result.connections), (2, 6, 3));
        assert_eq!(result.unsent, 0);
        // Two seconds at 100 a second, to a request or two at the borders.
        assert!((198..=202).contains(&result.measured.requests), "{:?}", result.measured);
        // Three partitions a leader in groups of two: three batches in two requests.
        assert!(result.measured.batches.abs_diff(result.measured.requests * 3 / 2) <= 3);
        assert_eq!(result.measured.records, result.measured.batches * 8);
        assert!((198..=202).contains(&result.latency.count), "{:?}", result.latency);
        assert_eq!(result.intervals.len(), 2);
        let sum: u64 = result.intervals.iter().map(|interval| interval.bytes).sum();
        assert_eq!(sum, result.measured.bytes);
        // The warm-up is audited too.
        assert!(result.audit.acked_batches > result.measured.batches);
        assert_eq!(result.audit.matched_batches, result.audit.acked_batches);
        assert_eq!((result.audit.unacked_batches, result.audit.is_complete), (0, true));
        // It is gone: a second look does not find it.
        let again = TopicChoice::Given { name: result.topic };
        let refused = world.produce(&ProduceOptions { topic: again, ..options(workload, 1) }).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{error}");
    });
}

#[test]
fn a_run_as_fast_as_possible_ends_with_the_bytes_or_records_that_were_asked() {
    World::run(|world| async move {
        for until in [
            Until { bytes: Some(300_000), ..Until::default() },
            Until { records: Some(2_000), ..Until::default() },
        ] {
            let workload = Workload {
                pace: Pace::Closed,
                warm_up: Duration::ZERO,
                until,
                connections: 2,
                in_flight: 3,
                compression: Codec::Zstd,
                payload: Payload::Words,
                keys: 50,
                record_size: RecordSize::LogNormal { bytes_median: 80, sigma: 1.0 },
                ..steady(1)
            };
            let result = sound(world.produce(&options(workload, 4)).await.unwrap());
            let measured = result.measured;
            let has_enough = until.bytes.is_some_and(|bytes| measured.bytes >= bytes)
                || until.records.is_some_and(|records| measured.records >= records);
            assert!(has_enough, "{measured:?}");
            // And stops there, but for what was under way.
            assert!(measured.bytes < 400_000 && measured.records < 5_000, "{measured:?}");
            assert!(measured.plain_bytes > measured.bytes);
        }
    });
}

#[test]
fn a_stall_of_a_second_counts_for_every_request_that_was_due_in_it() {
    World::run(|world| async move {
        let workload = Workload { in_flight: 2, ..steady(100) };
        let options = options(workload, 1);
        let running = async { world.produce(&options).await.unwrap() };
        let stalling = world.stall(1_200, 1_000);
        let outcome = beside(running, stalling).await;
        let result = sound(outcome);
        let latency = result.latency;
        // 100 of 200 were due while it stood still and waited 0 to 1 s; a closed loop would have seen two of them.
        assert!((950.0..1_100.0).contains(&latency.max_ms), "{latency:?}");
        assert!((700.0..900.0).contains(&latency.p90_ms), "{latency:?}");
        assert!(latency.count >= 198, "{latency:?}");
        // None of it is the client's own doing.
        assert!(result.send_delay.max_ms < 1.0, "{:?}", result.send_delay);
    });
}

#[test]
fn a_rate_that_is_not_kept_is_told_with_every_request_that_did_not_leave() {
    World::run(|world| async move {
        let workload = Workload { in_flight: 2, ..steady(100) };
        let options = options(workload, 1);
        let running = async { world.produce(&options).await.unwrap() };
        // From the middle of the run until after its end nothing is answered.
        let stalling = world.stall(1_520, 5_000);
        let result = beside(running, stalling).await.result;
        // 250 were due from the first on; 150 left before the stall, two more into it.
        assert!((96..=100).contains(&result.unsent), "{}", result.unsent);
        assert_eq!((result.due, result.latency_lower_bounds), (200, result.unsent));
        // Every one that was due counts, those that never left with the time they waited until the end.
        assert_eq!(result.latency.count, 200, "{:?}", result.latency);
        assert!((700.0..1_000.0).contains(&result.latency.p90_ms), "{:?}", result.latency);
        let drained = result.drain.unwrap();
        assert!(drained.max_ms > 4_900.0 && drained.requests == 0, "{drained:?}");
        let unsent = result.unsent;
        assert_eq!(result.unsound_because, [Unsound::RateNotKept { due: 200, unsent }]);
        assert!(!result.sound && !result.is_sound() && result.audit.has_passed);
        let sent = result.audit.acked_batches;
        assert!((249..=251).contains(&(sent + result.unsent)), "{sent} + {}", result.unsent);
    });
}

#[test]
fn the_latencies_of_all_intervals_and_of_what_came_after_the_end_are_those_of_the_run() {
    World::run(|world| async move {
        let told = Told::default();
        let options = options(Workload { in_flight: 400, ..steady(100) }, 1);
        let platform = world.client();
        let running = async {
            produce(&platform, &options, &mut &told, std::future::pending()).await.unwrap()
        };
        let result = beside(running, world.stall(2_000, 1_000)).await.result;
        assert!(result.is_sound(), "{result:#?}");
        let intervals: u64 = told.intervals.borrow().iter().map(|(_, latencies)| latencies).sum();
        assert!((45..=55).contains(&told.drained.get()), "{}", told.drained.get());
        assert_eq!(intervals + told.drained.get(), result.latency.count);
        assert_eq!(result.latency.count, 200, "all that was due");
        assert!((result.drain.unwrap().max_ms - result.latency.max_ms).abs() < 1.0);
    });
}

#[test]
fn without_a_warm_up_the_first_request_counts() {
    World::run(|world| async move {
        let workload = Workload { warm_up: Duration::ZERO, connections: 4, ..steady(100) };
        let result = sound(world.produce(&options(workload.clone(), 2)).await.unwrap());
        assert_eq!((result.due, result.latency.count), (200, 200), "{result:#?}");
        assert_eq!(result.audit.acked_batches, 200);
        let closed = Workload {
            pace: Pace::Closed,
            until: Until { records: Some(1_000), ..Until::default() },
            // Of several, one may leave in the very instant that ends the run, which is no part of it.
            connections: 1,
            in_flight: 1,
            ..workload
        };
        let result = sound(world.produce(&options(closed, 2)).await.unwrap());
        assert_eq!(result.latency.count, result.audit.acked_batches, "{result:#?}");
    });
}

#[test]
fn a_run_in_which_nothing_is_answered_has_measured_nothing() {
    World::run(|world| async move {
        let options = options(Workload { in_flight: 1, ..steady(100) }, 1);
        let running = async { world.produce(&options).await.unwrap() };
        // From within the warm-up until the run gives up what is under way.
        let result = beside(running, world.stall(300, 40_000)).await.result;
        assert_eq!(result.latency.count, result.latency_lower_bounds);
        assert!(result.unsound_because.contains(&Unsound::NothingMeasured), "{result:#?}");
        assert_eq!((result.measured.requests, result.due), (0, 200));
    });
}

#[test]
fn a_run_that_is_interrupted_tells_what_it_has_and_is_audited() {
    World::run(|world| async move {
        let workload = Workload {
            until: Until { duration: Some(Duration::from_secs(3_600)), ..Until::default() },
            ..steady(50)
        };
        let platform = world.client();
        let stop = async {
            platform.sleep(Duration::from_millis(2_020)).await;
        };
        let options = options(workload, 2);
        let outcome = produce(&platform, &options, &mut Silent, stop).await.unwrap();
        let result = sound(outcome);
        assert_eq!(result.end, RunEnd::Interrupted);
        assert!((1.4..1.6).contains(&result.measured.seconds), "{:?}", result.measured);
        assert!((70..=76).contains(&result.measured.requests), "{:?}", result.measured);
    });
}

#[test]
fn a_run_whose_node_goes_away_says_so_and_is_not_sound() {
    World::run(|world| async move {
        let options = options(steady(50), 2);
        let running = async { world.produce(&options).await.unwrap() };
        let stopping = async {
            world.sleep(Duration::from_secs(1)).await;
            world.node.ask_to_stop();
        };
        let outcome = beside(running, stopping).await;
        let result = outcome.result;
        let RunEnd::Failed { reason } = &result.end else { panic!("{:?}", result.end) };
        assert!(reason.contains("connection ended"), "{reason}");
        assert_eq!(outcome.failure.map(|failure| failure.to_string()).as_ref(), Some(reason));
        assert!(!result.is_sound() && !result.audit.has_passed);
        assert_eq!(result.audit.findings[0].kind, FindingKind::Unreadable);
        assert_eq!(result.audit.verdict, AuditVerdict::NotAudited);
        // What was measured until then is told.
        assert!(result.measured.requests > 10);
        assert!(outcome.topic_left.is_some(), "there may be something to look at");
    });
}

#[test]
fn a_run_longer_than_a_broker_keeps_silent_connections_is_audited_and_cleaned_up() {
    World::run_with(&["connections.max.idle.ms=10000", "advertise=core"], |world| async move {
        let workload = Workload {
            until: Until { duration: Some(Duration::from_secs(40)), ..Until::default() },
            ..steady(10)
        };
        let outcome = world.produce(&options(workload, 1)).await.unwrap();
        assert!(outcome.deletion.is_none() && outcome.topic_left.is_none(), "{outcome:?}");
        assert!(sound(outcome).audit.matched_batches >= 400);
    });
}

#[test]
fn batches_that_the_broker_refuses_end_the_run_with_its_reason() {
    World::run(|world| async move {
        let mut options = options(steady(50), 1);
        let small = ("max.message.bytes".to_owned(), "500".to_owned());
        let TopicChoice::Made { configs, .. } = &mut options.topic else { unreachable!() };
        configs.push(small);
        let result = world.produce(&options).await.unwrap().result;
        let RunEnd::Failed { reason } = &result.end else { panic!("{:?}", result.end) };
        assert!(reason.contains("MESSAGE_TOO_LARGE"), "{reason}");
        assert_eq!(result.errors[0].name, "MESSAGE_TOO_LARGE");
        assert!(result.errors[0].count >= 1);
        assert!(result.audit.has_passed && !result.is_sound());
    });
}

#[test]
fn a_topic_that_had_records_before_is_audited_from_where_it_ended() {
    World::run(|world| async move {
        let first = ProduceOptions {
            topic: TopicChoice::Made {
                partitions: 2,
                replication_factor: 1,
                configs: Vec::new(),
                is_kept: true,
            },
            ..options(steady(50), 2)
        };
        let outcome = world.produce(&first).await.unwrap();
        let name = outcome.topic_left.clone().unwrap();
        let before = sound(outcome).audit.acked_batches;
        let again = ProduceOptions { topic: TopicChoice::Given { name: name.clone() }, ..first };
        let outcome = world.produce(&again).await.unwrap();
        assert_eq!(outcome.topic_left.as_deref(), Some(name.as_str()));
        let audit = sound(outcome).audit;
        assert!(audit.matched_batches > 0 && audit.acked_batches <= before + 3, "{audit:?}");
    });
}

#[test]
fn an_audit_that_is_bounded_says_that_it_is_not_complete() {
    World::run(|world| async move {
        let workload = Workload { audit_bytes_max: Some(10_000), ..steady(100) };
        let result = sound(world.produce(&options(workload, 2)).await.unwrap());
        assert!(!result.audit.is_complete);
        assert!(result.audit.matched_batches < result.audit.acked_batches);
        assert!(result.audit.bytes >= 10_000 / 2, "{:?}", result.audit);
    });
}

#[test]
fn what_an_acknowledgement_promises_is_taken_down() {
    World::run(|world| async move {
        let default = sound(world.produce(&options(steady(20), 1)).await.unwrap());
        assert_eq!(default.durability, Durability::D1);
        assert_eq!(default.topic_configs["write.caching"], "false");
        let mut caching = options(steady(20), 1);
        let TopicChoice::Made { configs, .. } = &mut caching.topic else { unreachable!() };
        configs.push(("write.caching".to_owned(), "true".to_owned()));
        let caching = sound(world.produce(&caching).await.unwrap());
        assert_eq!(caching.durability, Durability::D0);
        let read = sound(world.read(&reading(ReadLoad::default(), made(1))).await);
        assert_eq!(read.durability, Durability::D1);
    });
}

/// A topic that keeps a segment or two of 1 MiB, and looks for more to delete all the time.
fn expiring(mut options: ProduceOptions) -> ProduceOptions {
    let TopicChoice::Made { configs, .. } = &mut options.topic else { unreachable!() };
    let small = [("segment.bytes", "1048576"), ("retention.bytes", "1048576")];
    configs.extend(small.map(|(name, value)| (name.to_owned(), value.to_owned())));
    options
}

#[test]
fn what_retention_takes_is_counted_apart_and_is_no_damage() {
    let settings = &["advertise=core", "log.retention.check.interval.ms=300"];
    World::run_with(settings, |world| async move {
        let workload = Workload { batch_bytes: 60_000, consumers: 1, ..steady(100) };
        let result = sound(world.produce(&expiring(options(workload, 1))).await.unwrap());
        let audit = &result.audit;
        assert!(audit.expired_batches > 50, "{audit:?}");
        assert_eq!(audit.expired_batches + audit.matched_batches, audit.acked_batches);
        assert!(
            audit.matched_batches >= 10,
            "what lies above the log's start must be there: {audit:?}"
        );
    });
}

#[test]
fn consumers_beside_a_run_tell_how_long_its_batches_took_to_them() {
    World::run(|world| async move {
        let workload = Workload { consumers: 2, partitions_per_request: 2, ..steady(100) };
        let result = sound(world.produce(&options(workload, 3)).await.unwrap());
        let delivery = result.delivery.unwrap();
        // Each consumer has each batch that was due while measuring.
        assert!(delivery.count.abs_diff(2 * result.measured.batches) <= 6, "{delivery:?}");
        assert!(delivery.p50_ms > 0.0 && delivery.max_ms < 1_000.0, "{delivery:?}");
        let without = sound(world.produce(&options(steady(100), 1)).await.unwrap());
        assert_eq!(without.delivery, None);
    });
}

#[test]
fn a_stall_counts_for_every_batch_that_was_due_to_a_consumer_in_it() {
    World::run(|world| async move {
        let options = options(Workload { consumers: 1, ..steady(100) }, 1);
        let running = async { world.produce(&options).await.unwrap() };
        let stalling = world.stall(1_200, 1_000);
        let delivery = sound(beside(running, stalling).await).delivery.unwrap();
        assert!((950.0..1_100.0).contains(&delivery.max_ms), "{delivery:?}");
        assert!((700.0..900.0).contains(&delivery.p90_ms), "{delivery:?}");
    });
}

#[test]
fn a_topic_is_filled_read_once_by_every_consumer_and_deleted() {
    World::run(|world| async move {
        let load = ReadLoad { consumers: 3, partition_bytes: 5_000, ..ReadLoad::default() };
        let outcome = world.read(&reading(load, made(4))).await;
        assert!(outcome.topic_left.is_none() && outcome.deletion.is_none());
        let result = sound(outcome);
        assert_eq!(
            (result.end.clone(), result.leaders, result.connections),
            (RunEnd::Complete, 2, 6)
        );
        // Three times what there is, to a batch.
        assert!(result.measured.bytes >= 600_000, "{:?}", result.measured);
        assert_eq!(result.measured.batches % 3, 0);
        assert_eq!(result.audit.matched_batches, result.measured.batches);
        assert!(result.latency.count == result.measured.requests && result.latency.count > 6);
    });
}

#[test]
fn the_tail_is_read_again_and_again_until_there_is_enough() {
    World::run(|world| async move {
        let load = ReadLoad {
            from: ReadFrom::Tail { records: 50 },
            until: Until { records: Some(5_000), ..Until::default() },
            ..ReadLoad::default()
        };
        let result = sound(world.read(&reading(load, made(1))).await);
        assert!((5_000..5_200).contains(&result.measured.records), "{:?}", result.measured);
    });
}

#[test]
fn a_topic_without_records_or_without_a_place_is_told() {
    World::run(|world| async move {
        // A batch that is refused fills nothing.
        let small = ("max.message.bytes".to_owned(), "500".to_owned());
        let mut refused = made(1);
        let TopicChoice::Made { configs, .. } = &mut refused else { unreachable!() };
        configs.push(small);
        let platform = world.client();
        let options = reading(ReadLoad::default(), refused);
        let error = consume(&platform, &options, &mut Silent, std::future::pending()).await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("could not be filled") && error.contains("MESSAGE_TOO_LARGE"),
            "{error}"
        );
        let absent = TopicChoice::Given { name: "absent".to_owned() };
        let options = reading(ReadLoad::default(), absent);
        let error = consume(&platform, &options, &mut Silent, std::future::pending()).await;
        assert!(error.unwrap_err().to_string().contains("UNKNOWN_TOPIC_OR_PARTITION"));
    });
}

/// What an observer is told.
#[derive(Default)]
struct Told {
    started: Cell<u32>,
    audits: Cell<u32>,
    drained: Cell<u64>,
    intervals: RefCell<Vec<(u64, u64)>>,
}

impl load::Observer for &Told {
    fn filling(&mut self, until: &Until) {
        panic!("a run of produce fills nothing: {until:?}");
    }

    fn started(&mut self, target: &load::Target) {
        assert_eq!((target.partitions, target.connections), (1, 1));
        self.started.set(self.started.get() + 1);
    }

    fn interval(
        &mut self,
        interval: &load::Interval,
        latencies: &mut hdrhistogram::Histogram<u64>,
    ) {
        self.intervals.borrow_mut().push((interval.requests, latencies.len()));
        // As who writes them elsewhere does: the next second has a histogram of its own.
        *latencies = load::new_histogram();
    }

    fn drained(&mut self, interval: &load::Interval, latencies: &mut hdrhistogram::Histogram<u64>) {
        assert_eq!((interval.requests, interval.bytes), (0, 0));
        self.drained.set(self.drained.get() + latencies.len());
    }

    fn audit_started(&mut self, bytes: u64) {
        assert!(bytes > 0);
        self.audits.set(self.audits.get() + 1);
    }
}

#[test]
fn every_second_tells_what_the_named_process_used_in_it() {
    World::run(|world| async move {
        let mut options = options(steady(100), 1);
        options.broker_pid = Some(std::process::id());
        let platform = world.client();
        let outcome = produce(&platform, &options, &mut Silent, std::future::pending()).await;
        let result = sound(outcome.unwrap());
        let seconds: Vec<_> = result.intervals.iter().filter_map(|second| second.broker).collect();
        assert_eq!(seconds.len(), 2, "{:?}", result.intervals);
        assert!(seconds.iter().all(|second| second.rss_bytes > 0), "{seconds:?}");
        let used = result.broker.unwrap();
        let total = used.cpu_user_seconds + used.cpu_system_seconds;
        let sum: f64 = seconds.iter().map(|second| second.cpu_seconds).sum();
        // Hundredths of a second, cut off four times.
        assert!((sum - total).abs() < 0.05, "{sum} of {total}");
        let last = result.latency_curve.last().unwrap();
        assert!((last.ms / result.latency.max_ms - 1.0).abs() < 1e-3, "{last:?}");
    });
}

#[test]
fn an_observer_is_told_every_second_with_the_latencies_of_that_second() {
    World::run(|world| async move {
        let told = Told::default();
        let options = options(steady(100), 1);
        let platform = world.client();
        let outcome = produce(&platform, &options, &mut &told, std::future::pending()).await;
        sound(outcome.unwrap());
        assert_eq!((told.started.get(), told.audits.get()), (1, 1));
        let intervals = told.intervals.borrow();
        assert_eq!(intervals.len(), 2);
        for (requests, latencies) in intervals.iter() {
            assert!((98..=102).contains(requests) && requests.abs_diff(*latencies) <= 2);
        }
    });
}
