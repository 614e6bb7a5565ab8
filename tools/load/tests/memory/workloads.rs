//! Workloads of several parts: consumers that stay behind, connections that do nothing, long runs, sending beside reading.

use std::time::Duration;

use load::{
    FetchMode, FlushVerdict, Job, Pace, ReadLoad, Silent, TopicChoice, Unsound, Until, Workload,
    mixed,
};

use crate::world::{World, made, options, reading, sound, steady};

#[test]
fn consumers_that_stay_behind_read_what_is_old_enough() {
    World::run(|world| async move {
        let consumer_lag = Duration::from_millis(640);
        let workload = Workload { consumers: 2, consumer_lag, ..steady(100) };
        let result = sound(world.produce(&options(workload, 2)).await.unwrap());
        assert_eq!(result.delivery, None, "they are late because they are asked to be");
        let read = result.read_beside.unwrap();
        // 250 batches in two and a half seconds, of which the last 64 are too young, and a mark's worth and an answer's more or less.
        assert!((2 * 170..=2 * 205).contains(&read.batches), "{read:?}");
        assert_eq!(read.skipped_offsets, 0);
    });
}

#[test]
fn fetches_in_sessions_bring_what_whole_ones_do() {
    World::run(|world| async move {
        for fetches in [FetchMode::Session, FetchMode::Whole] {
            let workload = Workload { consumers: 1, fetches, ..steady(100) };
            let result = sound(world.produce(&options(workload, 4)).await.unwrap());
            assert!(result.delivery.unwrap().count >= 190, "{result:#?}");
            let load = ReadLoad { fetches, partition_bytes: 5_000, ..ReadLoad::default() };
            let result = sound(world.read(&reading(load, made(4))).await);
            assert!(result.audit.is_complete && result.measured.bytes >= 200_000, "{result:#?}");
        }
    });
}

#[test]
fn connections_that_do_nothing_are_open_until_the_end() {
    World::run(|world| async move {
        let mut options = options(Workload { idle_connections: 50, ..steady(50) }, 2);
        options.broker_pid = Some(std::process::id());
        let idle = sound(world.produce(&options).await.unwrap()).idle.unwrap();
        assert_eq!((idle.connections, idle.lost), (50, 0));
        assert!(
            idle.broker_rss_bytes_before.is_some() && idle.broker_bytes_per_connection.is_some()
        );
    });
    // A broker that closes what is silent for so long.
    World::run_with(&["connections.max.idle.ms=10000", "advertise=core"], |world| async move {
        let until = Until { duration: Some(Duration::from_secs(20)), ..Until::default() };
        let workload = Workload { idle_connections: 7, until, ..steady(50) };
        let idle = sound(world.produce(&options(workload, 2)).await.unwrap()).idle.unwrap();
        assert_eq!((idle.connections, idle.lost), (7, 7));
        assert_eq!(idle.broker_bytes_per_connection, None, "its process was not named");
    });
}

#[test]
fn a_run_that_ends_worse_than_it_began_is_not_steady() {
    World::run(|world| async move {
        let until = Until { duration: Some(Duration::from_secs(20)), ..Until::default() };
        let workload = Workload { steady_percent: Some(10), until, in_flight: 500, ..steady(50) };
        let trend =
            sound(world.produce(&options(workload.clone(), 1)).await.unwrap()).trend.unwrap();
        assert!(trend.is_steady && (trend.window_seconds - 2.0).abs() < 1e-9, "{trend:?}");
        assert_eq!((trend.first.latency.count, trend.last.latency.count), (100, 100));
        let options = options(workload, 1);
        let running = async { world.produce(&options).await.unwrap() };
        let stalled = world.stall(19_000, 500);
        let result = broker::sync::beside(running, stalled).await.result;
        assert_eq!(result.unsound_because, [Unsound::NotSteady], "{result:#?}");
        assert!(result.trend.unwrap().last.latency.p999_ms > 400.0);
    });
}

#[test]
fn a_mixed_run_sends_and_catches_up_on_one_topic_with_figures_of_each() {
    World::run(|world| async move {
        let producing = options(steady(100), 1);
        let until = Until { duration: Some(Duration::from_secs(2)), ..Until::default() };
        let load = ReadLoad { consumers: 2, partition_bytes: 2_000, until, ..ReadLoad::default() };
        let reading = reading(load, made(2));
        let platform = world.client();
        let runs = (&producing, &reading);
        let outcome = mixed(&platform, runs, &mut Silent, std::future::pending()).await.unwrap();
        assert!(outcome.topic_left.is_none() && outcome.deletion.is_none());
        let result = sound(outcome);
        assert!(matches!(&result.job, Job::Produce(load) if load.pace != Pace::Closed));
        assert!((198..=202).contains(&result.measured.requests), "{result:#?}");
        let beside = result.beside.as_ref().unwrap();
        assert!(matches!(beside.job, Job::Consume(_)) && beside.topic == result.topic);
        // What was filled, once for each consumer, and nothing of what is appended meanwhile.
        assert!((400_000..440_000).contains(&beside.measured.bytes), "{beside:#?}");
        // What is wrong with one half is wrong with the whole.
        let mut wrong = result.clone();
        wrong.beside.as_mut().unwrap().errors = vec![load::ErrorCount {
            code: 1,
            name: "X".to_owned(),
            count: 2,
            first_partition: 0,
            first_message: None,
        }];
        assert!(!wrong.is_sound());
    });
}

#[test]
fn flushes_that_cannot_be_counted_fail_only_a_run_that_was_to_show_them() {
    World::run(|world| async move {
        // The simulated broker's disk is nobody's device.
        for require_flushes in [false, true] {
            let mut options = options(steady(50), 1);
            options.broker_dir = Some("/proc/self".into());
            options.require_flushes = require_flushes;
            let result = world.produce(&options).await.unwrap().result;
            let flush = result.flush.as_ref().unwrap();
            assert_eq!((flush.verdict, flush.device.as_ref()), (FlushVerdict::Unknown, None));
            // Five in flight: every fifth of a connection's requests left after the one before was answered.
            assert_eq!(flush.flushes_min, result.audit.acked_batches / 5, "{flush:?}");
            assert_eq!(result.is_sound(), !require_flushes, "{result:#?}");
        }
        let mut options = options(steady(50), 1);
        let TopicChoice::Made { configs, .. } = &mut options.topic else { unreachable!() };
        configs.push(("write.caching".to_owned(), "true".to_owned()));
        options.broker_dir = Some("/proc/self".into());
        let flush = sound(world.produce(&options).await.unwrap()).flush.unwrap();
        assert_eq!(flush.verdict, FlushVerdict::NotDemanded, "{flush:?}");
    });
}
