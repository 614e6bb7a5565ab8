//! The core journal: what is durable in it only is there after any crash, and goes to the segments in the end.

use std::cell::RefCell;
use std::rc::Rc;

use commitlog::directory::{self, Format};
use commitlog::mutant::Mutant;
use commitlog::{
    BLOCK_BYTES, CheckpointMap, DiskError, JournalFault, JournalOptions, JournalReport,
    JournalRing, LogFailure, LogIdentity, LogOptions, SafeEnd, inspect_journals, recover_journals,
};
use record::{BatchHeader, Codec, Offset, PartitionIndex, TopicId, TopicPartition};

use crate::support::world::{DIRECTORY, LastBatches, NOW, Settings, TOPIC, TestLog, World, batch};

const FILE_BYTES: u64 = 16 * BLOCK_BYTES as u64;

const OPTIONS: JournalOptions = JournalOptions {
    file_bytes: FILE_BYTES,
    file_count: 3,
    ring: 0x0123_4567_89ab_cdef,
    group_bytes_max: 8_000,
    company_min: 1,
    cached_company_min: 1,
    sets_before: 0,
    settle_bytes: 1 << 20,
    behind_bytes_max: 1 << 20,
};

fn settings(journal: JournalOptions) -> Settings {
    Settings { journal: Some(journal), ..Settings::default() }
}

/// A world whose ring is made: the first group asks for it, and goes to its segment.
fn world(journal: JournalOptions) -> World {
    let mut world = World::new(settings(journal));
    world.fill(1, 1, 100);
    world.settle();
    assert_eq!(world.disk.names("journal/0").len(), journal.file_count as usize);
    world
}

/// Another log beside the world's.
fn beside(world: &World, partition: i32) -> TestLog {
    let identity = LogIdentity {
        topic: "orders".into(),
        topic_id: TOPIC,
        partition: PartitionIndex(partition),
    };
    let fold = Rc::new(RefCell::new(LastBatches::default()));
    let opened = world.store.open_log(identity, world.settings.options, fold, NOW);
    world.executor.run(opened).unwrap().0
}

fn append(world: &World, log: &TestLog, bytes: usize) {
    let bytes = batch(Codec::None, NOW.0, 1, bytes);
    let header = BatchHeader::parse(&bytes).unwrap();
    log.append(NOW, world.epoch, &header, &bytes).unwrap();
}

fn cached() -> LogOptions {
    LogOptions { safe_end: SafeEnd::Written, ..settings(OPTIONS).options }
}

/// A world whose log is under write caching, and whose ring is made.
fn cached_world() -> World {
    let settings = Settings { options: cached(), ..settings(OPTIONS) };
    let mut world = World::new(settings);
    world.fill(1, 1, 100);
    world.settle();
    assert_eq!(world.disk.names("journal/0").len(), OPTIONS.file_count as usize);
    world
}

/// Appends a batch and waits until it counts as safe.
fn append_written(world: &mut World, bytes: usize) {
    world.append(&batch(Codec::None, NOW.0, 1, bytes));
    wait_until(world, &|| world.log.ends().safe_end() == world.log.ends().accepted());
    world.log.check();
}

fn wait_until(world: &World, is_so: &dyn Fn() -> bool) {
    world.executor.run(async {
        while !is_so() {
            futures_lite::future::yield_now().await;
        }
    });
}

fn recover(world: &crate::support::world::Stopped) -> JournalReport {
    recover_where(world, |_| true)
}

fn recover_where(
    world: &crate::support::world::Stopped,
    is_known: impl Fn(&TopicPartition) -> bool,
) -> JournalReport {
    world.executor.run(async {
        let (checkpoints, _) = CheckpointMap::load(&world.disk).await.unwrap();
        let (disk, executor) = (&world.disk, &world.executor);
        recover_journals(disk, executor, &checkpoints, is_known, Mutant::NONE).await.unwrap()
    })
}

fn segment_bytes(world: &World) -> usize {
    world.disk.edit(&format!("{DIRECTORY}/00000000000000000000.log"), |bytes| bytes.len())
}

#[test]
fn one_sync_makes_groups_of_many_logs_durable() {
    let world = world(OPTIONS);
    let logs: Vec<TestLog> = (1..=8).map(|partition| beside(&world, partition)).collect();
    let (syncs, sets) = (world.disk.syncs(), world.store.counters().journal_sets);
    logs.iter().for_each(|log| append(&world, log, 100));
    for log in &logs {
        world.executor.run(log.durable_through(Offset(0))).unwrap();
    }
    assert_eq!(world.disk.syncs() - syncs, 1);
    let counters = world.store.counters();
    assert_eq!((counters.journal_sets - sets, counters.journal_groups), (1, 8));
    assert!(world.disk.names("topics/orders-3").iter().all(|name| !name.ends_with(".log")));
}

#[test]
fn what_is_in_the_journal_only_is_read_and_survives_a_crash() {
    let mut world = world(OPTIONS);
    let before = segment_bytes(&world);
    world.fill(12, 2, 300);
    assert_eq!(segment_bytes(&world), before, "the segment has its first group");
    world.verify(1 << 20);
    world.checkpoint();
    let mut world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(25));
    world.verify(1 << 20);
    assert!(world.disk.names("journal").is_empty());
    // And once more, without a word of the journal.
    world.fill(1, 1, 100);
    let world = world.crash();
    world.verify(1 << 20);
}

#[test]
fn a_ring_is_used_again_once_its_segments_are_settled() {
    let mut world = world(OPTIONS);
    // Each takes a block of the journal: several times round.
    world.fill(100, 1, 1_000);
    world.verify(1 << 20);
    let counters = world.store.counters();
    assert!(counters.journal_sets >= 99, "{counters:?}");
    assert!(counters.journal_settles > 2, "{counters:?}");
    let world = world.crash();
    world.verify(1 << 20);
    assert_eq!(world.log.ends().durable(), Offset(101));
}

#[test]
fn a_large_group_follows_what_is_behind_into_the_segment() {
    let mut world = world(OPTIONS);
    world.fill(3, 1, 500);
    world.fill(1, 2, 9_000);
    assert_eq!(world.store.counters().journal_behind_bytes, 0);
    world.fill(3, 1, 500);
    world.verify(1 << 20);
    let mut world = world.crash();
    world.verify(1 << 20);
    world.fill(3, 1, 500);
    world.verify(1 << 20);
}

#[test]
fn a_clean_stop_leaves_no_journal_and_whole_segments() {
    let mut world = world(OPTIONS);
    world.fill(20, 1, 500);
    let end: usize = world.model.iter().map(Vec::len).sum();
    let stopped = world.stop();
    assert!(stopped.disk.names("journal").is_empty());
    let world = stopped.start();
    assert!(world.report.is_clean);
    assert_eq!(segment_bytes(&world), end);
    world.verify(1 << 20);
}

#[test]
fn a_crash_during_a_replay_leads_to_the_same_replay_again() {
    let mut world = world(OPTIONS);
    world.fill(12, 2, 300);
    world.executor.drop_tasks();
    world.disk.crash();
    let stopped = world.drop_process();
    stopped.disk.fail_syncs_of(".log");
    let failed = stopped.executor.run(async {
        let (checkpoints, _) = CheckpointMap::load(&stopped.disk).await.unwrap();
        let (disk, executor) = (&stopped.disk, &stopped.executor);
        recover_journals(disk, executor, &checkpoints, |_| true, Mutant::NONE).await
    });
    assert!(failed.is_err());
    stopped.disk.crash();
    let report = recover(&stopped);
    assert_eq!((report.groups, report.strays.len()), (12, 0), "{report:?}");
    let world = stopped.start();
    world.verify(1 << 20);
}

#[test]
fn a_segment_that_a_killed_process_made_is_made_lasting_before_the_journal_goes() {
    let options = LogOptions { segment_bytes: 6_000, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..settings(OPTIONS) });
    world.fill(1, 1, 100);
    world.settle();
    // The first one's name is known to last.
    world.checkpoint();
    world.fill(8, 1, 1_500);
    let stopped = world.drop_process();
    // Killed between the bytes and the name.
    stopped.disk.fail_dir_syncs_of(DIRECTORY);
    let failed = stopped.executor.run(async {
        let (checkpoints, _) = CheckpointMap::load(&stopped.disk).await.unwrap();
        let (disk, executor) = (&stopped.disk, &stopped.executor);
        recover_journals(disk, executor, &checkpoints, |_| true, Mutant::NONE).await
    });
    assert!(failed.is_err());
    stopped.disk.fail_dir_syncs_of("");
    let report = recover(&stopped);
    assert_eq!(report.strays.len(), 0, "{report:?}");
    stopped.disk.crash();
    let world = stopped.start();
    assert_eq!(world.log.ends().durable(), Offset(9));
    world.verify(1 << 20);
}

#[test]
fn a_set_that_is_missing_between_others_is_reported_and_the_ring_kept() {
    let mut world = world(OPTIONS);
    world.fill(12, 1, 300);
    world.executor.drop_tasks();
    world.disk.crash();
    let stopped = world.drop_process();
    // The fifth set: sets begin at the second block, and each of these takes one.
    stopped.disk.edit("journal/0/0000.journal", |bytes| bytes[5 * BLOCK_BYTES + 200] ^= 1);
    let report = recover(&stopped);
    assert_eq!(report.missing_sets, 1, "{report:?}");
    assert_eq!(report.strays, ["stray/journal-0"]);
    assert_eq!(stopped.disk.names("stray/journal-0").len(), 3);
    let world = stopped.start();
    // The log ends where the damage begins; what lies beyond it is in stray/.
    assert_eq!(world.log.ends().durable(), Offset(5));
}

/// The one ring, as it lies.
fn inspect(world: &crate::support::world::Stopped) -> JournalRing {
    world.executor.run(async {
        let (checkpoints, _) = CheckpointMap::load(&world.disk).await.unwrap();
        let rings = inspect_journals(&world.disk, &world.executor, &checkpoints).await.unwrap();
        let [ring] = rings.try_into().unwrap();
        ring
    })
}

#[test]
fn a_look_at_a_ring_says_what_a_start_does_with_it_and_changes_nothing() {
    let check = |edit: &dyn Fn(&mut Vec<u8>), file: &str, faults: &[JournalFault]| {
        let mut world = world(OPTIONS);
        world.fill(12, 1, 300);
        world.executor.drop_tasks();
        world.disk.crash();
        let stopped = world.drop_process();
        stopped.disk.edit(&format!("journal/0/{file}"), |bytes| edit(bytes));
        let segment = format!("{DIRECTORY}/00000000000000000000.log");
        let before = stopped.disk.edit(&segment, |bytes| bytes.clone());
        let ring = inspect(&stopped);
        assert_eq!(stopped.disk.edit(&segment, |bytes| bytes.clone()), before);
        assert_eq!((ring.directory.as_str(), ring.faults.as_slice()), ("journal/0", faults));
        let did = recover(&stopped);
        let counts = |report: &JournalReport| {
            let JournalReport { sets, groups, bytes, refused_groups, missing_sets, .. } = *report;
            (sets, groups, bytes, refused_groups, missing_sets)
        };
        assert_eq!(counts(&ring.report), counts(&did));
        ring.report
    };
    let report = check(&|_| {}, "0000.journal", &[]);
    assert_eq!((report.sets, report.groups, report.refusals.len()), (12, 12, 0));
    let waiting = report.waiting.values().next().unwrap();
    assert_eq!((waiting.base_offset, waiting.end_offset), (Offset(1), Offset(13)));
    assert_eq!((waiting.directory.as_str(), waiting.group_count), (DIRECTORY, 12));

    let path = "journal/0/0000.journal".to_owned();
    let position = Some(5 * BLOCK_BYTES as u64);
    let missing = JournalFault::Missing { path: path.clone(), position, count: 1 };
    let report = check(&|bytes| bytes[5 * BLOCK_BYTES + 200] ^= 1, "0000.journal", &[missing]);
    assert_eq!((report.sets, report.missing_sets), (11, 1));

    let missing = JournalFault::Missing { path: path.clone(), position: None, count: 1 };
    check(&|bytes| bytes[BLOCK_BYTES + 200] ^= 1, "0000.journal", &[missing]);
    let torn = "journal/0/0001.journal".to_owned();
    let torn = JournalFault::Torn { path: torn, position: 4 * BLOCK_BYTES as u64 };
    check(&|bytes| bytes[4 * BLOCK_BYTES + 200] ^= 1, "0001.journal", &[torn]);
    check(&|bytes| bytes[9] ^= 1, "0000.journal", &[JournalFault::Header { path }]);
}

#[test]
fn a_look_at_a_ring_names_what_its_segment_does_not_reach() {
    let mut world = world(OPTIONS);
    world.fill(12, 1, 300);
    world.executor.drop_tasks();
    world.disk.crash();
    let stopped = world.drop_process();
    stopped.disk.edit(&format!("{DIRECTORY}/00000000000000000000.log"), Vec::clear);
    let report = inspect(&stopped).report;
    let (refused, segment_bytes) = &report.refusals[0];
    assert_eq!((refused.base_offset, *segment_bytes), (Offset(1), Some(0)));
    assert_eq!((report.refused_groups, report.groups), (12, 0));
}

#[test]
fn the_last_set_may_be_torn() {
    let mut world = world(OPTIONS);
    world.fill(12, 1, 300);
    world.executor.drop_tasks();
    world.disk.crash();
    let mut stopped = world.drop_process();
    stopped.disk.edit("journal/0/0001.journal", |bytes| bytes[4 * BLOCK_BYTES + 200] ^= 1);
    let report = recover(&stopped);
    assert_eq!((report.groups, report.missing_sets), (11, 0), "{report:?}");
    stopped.model.pop();
    let world = stopped.start();
    world.verify(1 << 20);
    assert_eq!(world.log.ends().durable(), Offset(12));
}

#[test]
fn sets_of_another_ring_count_for_nothing() {
    let mut world = world(OPTIONS);
    world.fill(12, 1, 300);
    world.executor.drop_tasks();
    world.disk.crash();
    let mut stopped = world.drop_process();
    for name in ["journal/0/0000.journal", "journal/0/0001.journal", "journal/0/0002.journal"] {
        // Another ring's header: what lies behind it was left by an earlier one.
        stopped.disk.edit(name, |bytes| {
            bytes[8] ^= 1;
            let crc = record::crc32c(&bytes[..32]);
            bytes[32..36].copy_from_slice(&crc.to_be_bytes());
        });
    }
    let report = recover(&stopped);
    assert_eq!((report.sets, report.groups), (0, 0), "{report:?}");
    stopped.model.truncate(1);
    stopped.start().verify(1 << 20);
}

#[test]
fn a_topic_that_is_gone_stays_gone() {
    let world = world(OPTIONS);
    let log = beside(&world, 1);
    append(&world, &log, 100);
    world.executor.run(log.durable_through(Offset(0))).unwrap();
    world.executor.run(world.store.delete_log(log)).unwrap();
    assert_eq!(world.store.counters().journal_behind_bytes, 0);
    let stopped = world.drop_process();
    let report = recover(&stopped);
    assert_eq!(report.gone_groups, 1, "{report:?}");
    assert!(report.strays.is_empty());
    assert!(!stopped.disk.names("topics").contains(&"orders-1".to_owned()));
}

/// What a start finds where a log's directory went and the last checkpoint still has it.
fn without_a_directory(is_known: bool) -> JournalReport {
    let world = world(OPTIONS);
    let log = beside(&world, 1);
    append(&world, &log, 100);
    world.executor.run(log.durable_through(Offset(0))).unwrap();
    world.checkpoint();
    world.executor.run(world.store.delete_log(log)).unwrap();
    let stopped = world.drop_process();
    stopped.disk.crash();
    recover_where(&stopped, |log| is_known || log.partition != PartitionIndex(1))
}

#[test]
fn nobody_misses_what_the_journal_has_of_a_topic_that_was_deleted_after_the_last_checkpoint() {
    let report = without_a_directory(false);
    assert_eq!((report.gone_groups, report.refused_groups), (1, 0), "{report:?}");
    assert!(report.strays.is_empty());
}

#[test]
fn the_ring_of_a_log_whose_directory_was_lost_is_kept() {
    let report = without_a_directory(true);
    assert_eq!((report.gone_groups, report.refused_groups), (0, 1), "{report:?}");
    assert_eq!(report.strays, ["stray/journal-0"]);
}

#[test]
fn another_topic_of_the_same_name_is_not_written_to() {
    let mut world = world(OPTIONS);
    world.fill(3, 1, 300);
    world.executor.drop_tasks();
    world.disk.crash();
    let stopped = world.drop_process();
    let other = TopicId([5; 16]);
    stopped.disk.edit(&format!("{DIRECTORY}/partition.metadata"), |bytes| {
        *bytes = format!("version: 0\ntopic_id: {other}").into_bytes();
    });
    let report = recover(&stopped);
    assert_eq!((report.groups, report.gone_groups), (0, 3), "{report:?}");
}

#[test]
fn a_failed_sync_of_the_journal_ends_those_logs_and_others_go_on_without_it() {
    let mut world = world(OPTIONS);
    let log = beside(&world, 1);
    world.fill(3, 1, 300);
    world.disk.fail_syncs_of(".journal");
    append(&world, &log, 100);
    let failed = world.executor.run(log.durable_through(Offset(0)));
    assert!(matches!(failed, Err(LogFailure::Io { errno: 5, .. })), "{failed:?}");
    world.fill(3, 1, 300);
    assert_eq!(world.store.counters().journal_behind_bytes, 0);
    world.verify(1 << 20);
    world.disk.fail_syncs_of("");
    let world = world.crash();
    world.verify(1 << 20);
}

#[test]
fn a_disk_without_room_for_a_journal_serves_without_one() {
    let mut world = World::new(settings(OPTIONS));
    world.disk.fail_writes_of(".journal", DiskError::NoSpace);
    world.fill(5, 1, 300);
    world.settle();
    assert_eq!(world.store.counters().journal_sets, 0);
    assert!(world.disk.names("journal").is_empty());
    let world = world.crash();
    world.verify(1 << 20);
}

#[test]
fn a_disk_with_room_for_little_more_than_a_journal_serves_without_one() {
    let ring_bytes = FILE_BYTES * u64::from(OPTIONS.file_count);
    let check = |free_bytes: u64, files: usize| {
        let mut world = World::new(settings(OPTIONS));
        world.disk.set_free_bytes(free_bytes);
        world.fill(5, 1, 300);
        world.settle();
        let is_made = world.disk.names("").contains(&"journal".to_owned());
        assert_eq!(is_made, files > 0, "{free_bytes} bytes free");
        if is_made {
            assert_eq!(world.disk.names("journal/0").len(), files);
        }
        world.verify(1 << 20);
    };
    check(16 * ring_bytes - 1, 0);
    check(16 * ring_bytes, 3);
}

#[test]
fn one_log_alone_goes_to_its_segment() {
    let mut world = World::new(settings(JournalOptions { company_min: 2, ..OPTIONS }));
    world.fill(20, 1, 300);
    assert_eq!(world.store.counters().journal_sets, 0);
    assert!(world.disk.names("").iter().all(|name| name != "journal"));
}

#[test]
fn one_log_alone_under_write_caching_goes_to_its_segment_and_one_that_waits_does_not() {
    let journal = JournalOptions { cached_company_min: 2, ..OPTIONS };
    for (options, is_used) in [(cached(), false), (settings(OPTIONS).options, true)] {
        let mut world = World::new(Settings { options, ..settings(journal) });
        world.fill(20, 1, 300);
        world.store.sync_written();
        world.settle();
        assert_eq!(world.store.counters().journal_sets > 0, is_used);
        world.verify(1 << 20);
    }
}

#[test]
fn a_core_with_little_to_write_makes_no_ring() {
    let journal = JournalOptions { sets_before: 3, ..OPTIONS };
    let mut world = World::new(settings(journal));
    for sets in 1..=4 {
        world.fill(1, 1, 300);
        world.settle();
        let is_made = world.disk.names("").contains(&"journal".to_owned());
        assert_eq!(is_made, sets > 3, "after {sets} sets");
    }
    world.fill(1, 1, 300);
    assert_eq!(world.store.counters().journal_sets, 1);
    world.verify(1 << 20);
}

#[test]
fn a_directory_says_that_it_may_hold_a_journal() {
    let world = World::new(settings(OPTIONS));
    let version = |world: &World| {
        let text = world.disk.edit("meta.properties", |bytes| bytes.clone());
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("corelog.format.version="));
        line.map(str::to_owned)
    };
    assert_eq!(version(&world).as_deref(), Some("1"));
    world.executor.run(directory::set_format(&world.disk, Format::WithJournal)).unwrap();
    assert_eq!(version(&world).as_deref(), Some("2"));
    world.executor.run(directory::leave_in_order(&world.disk)).unwrap();
    assert_eq!(version(&world).as_deref(), Some("1"));
}

/// The sequence of the set at `position` of a file of the ring; 0 where there is none.
fn sequence_at(world: &crate::support::world::Stopped, name: &str, position: usize) -> u64 {
    world.disk.edit(&format!("journal/0/{name}"), |bytes| {
        let sequence = &bytes[position + 16..position + 24];
        u64::from_be_bytes(sequence.try_into().unwrap())
    })
}

#[test]
fn a_torn_write_into_a_file_that_is_used_again_takes_nothing_that_is_needed() {
    // Eight sets of a block each, and a mark, fit a file.
    let mut world = world(OPTIONS);
    world.disk.hold_writes_of(".log");
    world.fill(24, 1, 1_000);
    // Every file is full of what is behind: the newest set calls all of it needed, and settling it lets the first file be used again.
    world.disk.hold_writes_of("");
    world.fill(1, 1, 1_000);
    let stopped = world.drop_process();
    stopped.disk.crash();
    let sets = [1, 2].map(|block| sequence_at(&stopped, "0000.journal", block * BLOCK_BYTES));
    assert!(
        sets[0] > sets[1],
        "{sets:?}: the newest set is the first of a file that was used before"
    );
    // As if only half of its sectors had arrived.
    stopped.disk.edit("journal/0/0000.journal", |bytes| {
        bytes[BLOCK_BYTES + 512..2 * BLOCK_BYTES].fill(0x5a);
    });
    let report = recover(&stopped);
    assert_eq!((report.missing_sets, report.strays), (0, Vec::new()));
}

#[test]
fn a_log_that_fails_beside_a_set_in_flight_keeps_what_the_set_makes_durable() {
    let at_once = JournalOptions { settle_bytes: 1, ..OPTIONS };
    let no_memory = Settings { tail_cache_bytes: 0, read_cache_bytes: 0, ..settings(at_once) };
    let mut world = World::new(no_memory);
    while world.log.size_bytes() + 5_080 <= 65_536 {
        world.fill(1, 1, 5_000);
        world.settle();
    }
    // The next segment begins and is settled, and the first one's seal waits for its sync; then a set is on its way.
    let first_segment = format!("{:020}.log", 0);
    world.disk.hold_syncs_of(&first_segment);
    world.fill(1, 1, 5_000);
    assert_eq!(world.log.segment_count(), 2);
    wait_until(&world, &|| world.store.counters().journal_behind_bytes == 0);
    world.disk.hold_writes_of(".journal");
    world.append(&batch(Codec::None, NOW.0, 1, 5_000));
    world.disk.fail_syncs_of(&first_segment);
    world.disk.hold_syncs_of("");
    wait_until(&world, &|| world.log.failure().is_some());
    // The set comes through; its segment's turn has not come yet.
    world.disk.hold_writes_of(".log");
    let accepted = world.log.ends().accepted();
    wait_until(&world, &|| world.log.ends().durable() == accepted);
    world.verify(1 << 20);
    world.disk.hold_writes_of("");
    world.disk.fail_syncs_of("");
    world.settle();
    world.crash().verify(1 << 20);
}

#[test]
fn under_write_caching_a_set_is_told_before_any_sync_and_survives_a_kill() {
    let mut world = cached_world();
    let (syncs, durable) = (world.disk.syncs(), world.log.ends().durable());
    (0..5).for_each(|_| append_written(&mut world, 300));
    assert_eq!(world.disk.syncs(), syncs);
    assert_eq!(world.log.ends().durable(), durable);
    assert_eq!(world.store.counters().journal_sets, 5);
    world.verify(1 << 20);
    let world = world.kill();
    assert_eq!(world.log.ends().durable(), Offset(6));
    world.verify(1 << 20);
    // And once more, without a word of the journal.
    let world = world.crash();
    world.verify(1 << 20);
    assert_eq!(world.log.ends().durable(), Offset(6));
}

#[test]
fn one_sync_of_the_journal_makes_all_that_is_cached_durable() {
    let mut world = cached_world();
    let logs: Vec<TestLog> = (1..=8).map(|partition| beside(&world, partition)).collect();
    logs.iter().for_each(|log| append(&world, log, 100));
    append_written(&mut world, 300);
    let written = || logs.iter().all(|log| log.ends().safe_end() == Offset(1));
    wait_until(&world, &written);
    let syncs = world.disk.syncs();
    world.store.sync_written();
    world.settle();
    assert_eq!(world.disk.syncs() - syncs, 1);
    assert!(logs.iter().all(|log| log.ends().durable() == Offset(1)));
    let world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(2));
    world.verify(1 << 20);
}

#[test]
fn what_a_power_cut_takes_of_the_cached_is_a_tail() {
    let mut world = cached_world();
    (0..3).for_each(|_| append_written(&mut world, 300));
    world.sync();
    (0..5).for_each(|_| append_written(&mut world, 300));
    let stopped = world.drop_process();
    let path = "journal/0/0000.journal";
    // The sets from the second that was never synced on are on the disk, the first one is not.
    stopped.disk.edit(path, |bytes| bytes[BLOCK_BYTES * 4..BLOCK_BYTES * 5].fill(0));
    let report = recover(&stopped);
    assert_eq!((report.sets, report.missing_sets, report.dropped_sets), (3, 0, 4), "{report:?}");
    assert_eq!(report.strays, Vec::<String>::new());
    let world = stopped.start();
    assert_eq!(world.log.ends().durable(), Offset(4));
    world.verify(1 << 20);
    let world = world.crash();
    world.verify(1 << 20);
    assert_eq!(world.log.ends().durable(), Offset(4));
}

#[test]
fn a_set_that_is_synced_comes_after_what_was_not() {
    let mut world = cached_world();
    let durable = beside(&world, 1);
    durable.set_options(settings(OPTIONS).options);
    (0..3).for_each(|_| append_written(&mut world, 300));
    assert_eq!(world.log.ends().durable(), Offset(1));
    append(&world, &durable, 100);
    world.executor.run(durable.durable_through(Offset(0))).unwrap();
    assert_eq!(world.log.ends().durable(), Offset(4));
    // What is absent before it is damage, and no tail.
    let stopped = world.drop_process();
    stopped.disk.edit("journal/0/0000.journal", |bytes| {
        bytes[BLOCK_BYTES * 2..BLOCK_BYTES * 3].fill(0);
    });
    let report = recover(&stopped);
    assert_eq!((report.missing_sets, report.dropped_sets), (1, 0), "{report:?}");
    assert_eq!(report.strays.len(), 1);
}

#[test]
fn a_ring_of_cached_sets_is_used_again_and_stops_in_order() {
    let mut world = cached_world();
    (0..100).for_each(|_| append_written(&mut world, 1_000));
    world.verify(1 << 20);
    assert!(world.store.counters().journal_sets >= 100);
    let stopped = world.stop();
    assert_eq!(stopped.disk.names("journal"), Vec::<String>::new());
    let world = stopped.start();
    assert_eq!(world.log.ends().durable(), Offset(101));
    world.verify(1 << 20);
}

#[test]
fn a_file_of_the_journal_is_synced_before_the_next_one_is_used() {
    let mut world = cached_world();
    // More than one file holds, and nobody asks for a sync before the end.
    (0..20).for_each(|_| append_written(&mut world, 300));
    world.sync();
    let world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(21));
    world.verify(1 << 20);
}

#[test]
fn a_large_group_waits_for_what_is_cached_before_it() {
    let mut world = cached_world();
    (0..3).for_each(|_| append_written(&mut world, 300));
    append_written(&mut world, 9_000);
    append_written(&mut world, 300);
    world.verify(1 << 20);
    let world = world.kill();
    assert_eq!(world.log.ends().durable(), Offset(6));
    world.verify(1 << 20);
}

#[test]
fn a_failed_sync_of_cached_sets_ends_those_logs() {
    let mut world = cached_world();
    (0..3).for_each(|_| append_written(&mut world, 300));
    world.disk.fail_syncs_of(".journal");
    world.store.sync_written();
    world.settle();
    assert!(matches!(world.log.failure(), Some(LogFailure::Io { errno: 5, .. })));
    assert_eq!(world.log.ends().durable(), Offset(1));
    let log = beside(&world, 1);
    append(&world, &log, 100);
    wait_until(&world, &|| log.ends().safe_end() == Offset(1));
    world.disk.fail_syncs_of("");
    // The process's end takes nothing of what was written.
    let world = world.kill();
    assert_eq!(world.log.ends().durable(), Offset(4));
    world.verify(1 << 20);
}

#[test]
fn a_cached_log_that_is_deleted_frees_the_journal() {
    let world = cached_world();
    let log = beside(&world, 1);
    append(&world, &log, 100);
    wait_until(&world, &|| log.ends().safe_end() == Offset(1));
    assert!(world.store.counters().journal_behind_bytes > 0);
    world.executor.run(world.store.delete_log(log.clone())).unwrap();
    assert_eq!(world.store.counters().journal_behind_bytes, 0);
    world.store.sync_written();
    world.settle();
}
