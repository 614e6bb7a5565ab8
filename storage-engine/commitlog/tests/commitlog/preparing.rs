//! Directories made many together: what that did not finish is made lasting before a record is acknowledged in it.

use std::cell::RefCell;
use std::rc::Rc;

use commitlog::{DiskError, LogIdentity};
use record::{LeaderEpoch, Offset, PartitionIndex};

use crate::support::world::{
    LastBatches, NOW, Settings, TOPIC, TestStore, World, identity, open_store,
};
use crate::support::{MemoryDisk, TestExecutor};

struct Started {
    disk: MemoryDisk,
    executor: TestExecutor,
    settings: Settings,
    store: TestStore,
}

fn start(disk: MemoryDisk, settings: Settings) -> Started {
    let executor = TestExecutor::default();
    let (store, _) = executor.run(open_store(&disk, &executor, &settings));
    Started { disk, executor, settings, store }
}

impl Started {
    fn prepare(&self) -> bool {
        let log = identity(TOPIC);
        self.executor.run(self.store.prepare([&log].into_iter())).is_ok()
    }

    fn open(self) -> World {
        let Self { disk, executor, settings, store } = self;
        let fold = Rc::new(RefCell::new(LastBatches::default()));
        let opened = store.open_log(identity(TOPIC), settings.options, fold.clone(), NOW);
        let (log, report) = executor.run(opened).unwrap();
        let (model, epoch) = (Vec::new(), LeaderEpoch(0));
        World { disk, executor, settings, store, log, report, fold, model, epoch }
    }
}

/// Makes the directory, and fails to make its name lasting.
fn made_in_vain(settings: Settings) -> Started {
    let started = start(MemoryDisk::default(), settings);
    started.disk.fail_dir_syncs_of("topics");
    assert!(!started.prepare());
    started.disk.fail_dir_syncs_of("");
    assert_eq!(started.disk.names("topics"), ["orders-0"]);
    started
}

fn left_after_a_crash(started: Started) -> Offset {
    let mut world = started.open();
    world.fill(5, 1, 100);
    world.crash().log.ends().durable()
}

#[test]
fn a_log_opened_in_a_directory_that_was_made_in_vain_keeps_its_records() {
    assert_eq!(left_after_a_crash(made_in_vain(Settings::default())), Offset(5));
}

#[cfg(feature = "mutants")]
#[test]
fn without_the_sync_of_a_directory_that_was_made_in_vain_records_are_lost() {
    use commitlog::mutant::{Mutant, Rule};
    let mutant = Mutant::without(Rule::PreparedNotSynced);
    let started = made_in_vain(Settings { mutant, ..Settings::default() });
    assert_eq!(left_after_a_crash(started), Offset(0));
}

/// Makes the directory, and its file's sync fails: what the file holds may be in no place but memory.
fn file_not_synced(settings: Settings) -> Started {
    let started = start(MemoryDisk::default(), settings);
    started.disk.fail_syncs_of("partition.metadata");
    assert!(!started.prepare());
    started.disk.fail_syncs_of("");
    assert_eq!(started.disk.names("topics/orders-0"), ["partition.metadata"]);
    started
}

#[test]
fn a_file_whose_sync_failed_is_written_again_before_records_are_acknowledged_beside_it() {
    for is_prepared_again in [false, true] {
        let started = file_not_synced(Settings::default());
        if is_prepared_again {
            assert!(started.prepare(), "a directory that is there is no error");
        }
        assert_eq!(left_after_a_crash(started), Offset(5));
    }
    // Whoever made it is gone, and has told nobody.
    let Started { disk, settings, .. } = file_not_synced(Settings::default());
    assert_eq!(left_after_a_crash(start(disk, settings)), Offset(5));
}

#[cfg(feature = "mutants")]
#[test]
fn with_a_second_sync_alone_of_a_file_whose_sync_failed_records_are_lost() {
    use commitlog::mutant::{Mutant, Rule};
    let mutant = Mutant::without(Rule::PreparedSyncedAgain);
    let started = file_not_synced(Settings { mutant, ..Settings::default() });
    assert_eq!(left_after_a_crash(started), Offset(0));
}

#[test]
fn a_directory_that_a_killed_process_made_is_lasting_once_it_is_opened() {
    let Started { disk, settings, .. } = made_in_vain(Settings::default());
    let next = start(disk, settings);
    assert!(next.prepare());
    assert_eq!(left_after_a_crash(next), Offset(5));
}

#[test]
fn what_was_prepared_needs_no_further_sync_to_be_opened() {
    let started = start(MemoryDisk::default(), Settings::default());
    assert!(started.prepare());
    let syncs = started.disk.syncs();
    let world = started.open();
    assert_eq!(world.disk.syncs(), syncs);
    assert!(!world.report.is_new, "its directory was there");
}

#[test]
fn a_directory_that_is_as_it_should_be_is_opened_on_a_full_disk() {
    let next = {
        let Started { disk, settings, .. } = made_in_vain(Settings::default());
        start(disk, settings)
    };
    next.disk.fail_creates_of(".tmp", DiskError::NoSpace);
    // Records in it are as safe as in any.
    assert_eq!(left_after_a_crash(next), Offset(5));
}

#[test]
fn a_directory_that_cannot_be_made_is_in_the_way_of_no_other() {
    let started = start(MemoryDisk::default(), Settings::default());
    let of = |partition| LogIdentity { partition: PartitionIndex(partition), ..identity(TOPIC) };
    // More than are made together.
    let logs: Vec<LogIdentity> = (0..600).map(of).collect();
    started.disk.fail_creates_of("orders-7/partition.metadata", DiskError::NoSpace);
    let prepared = started.executor.run(started.store.prepare(logs.iter()));
    let said = prepared.unwrap_err().to_string();
    assert!(said.contains("topics/orders-7"), "{said}");
    let syncs = started.disk.syncs();
    for identity in logs.iter().filter(|log| log.partition != PartitionIndex(7)) {
        let fold = Rc::new(RefCell::new(LastBatches::default()));
        let options = started.settings.options;
        let opened = started.store.open_log(identity.clone(), options, fold, NOW);
        started.executor.run(opened).unwrap();
    }
    assert_eq!(started.disk.syncs(), syncs, "each of them was lasting");
}
