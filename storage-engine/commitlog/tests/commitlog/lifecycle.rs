//! Logs come and go: deletion frees the name at once, strays are kept, identities are checked.

use std::cell::RefCell;
use std::rc::Rc;

use commitlog::directory::DirectoryError;
use commitlog::{CheckpointMap, Disk, OpenError, ReadError, StartKind, checkpoint, directory};
use record::{Codec, NodeId, Offset, Timestamp, TopicId};

use crate::support::MemoryDisk;
use crate::support::world::{
    DIRECTORY, LastBatches, NOW, Settings, Stopped, TOPIC, World, batch, identity, new_ids,
    open_store,
};

#[test]
fn a_deleted_log_frees_its_name_and_its_successor_starts_empty() {
    let mut world = World::new(Settings::default());
    world.fill(60, 2, 1000);
    world.checkpoint();
    for _ in 0..20 {
        world.append(&batch(Codec::None, NOW.0, 1, 5000));
    }
    let (old, next) = (world.log.clone(), TopicId([3; 16]));
    let log = world.executor.run(async {
        world.store.delete_log(old.clone()).await.unwrap();
        let fold = Rc::new(RefCell::new(LastBatches::default()));
        let options = world.settings.options;
        let (log, report) = world.store.open_log(identity(next), options, fold, NOW).await.unwrap();
        assert!(report.is_new);
        log
    });
    world.log = log;
    world.model.clear();
    world.fill(5, 1, 100);
    let request = commitlog::ReadRequest {
        from: Offset(0),
        end: Offset(5),
        bytes_max: 10,
        minimum: commitlog::AtLeastOneBatch::Yes,
    };
    let read = world.executor.run(old.read(request));
    assert!(matches!(read, Err(ReadError::Closed)), "{read:?}");
    world.settle();
    assert_eq!(world.disk.names("deleted"), Vec::<String>::new());
    world.verify(1 << 20);
    // Both copies: the older one still holds the entry, which is of no use to anybody.
    world.checkpoint();
    world.checkpoint();
    let map = world.executor.run(CheckpointMap::load(&world.disk)).unwrap().0;
    assert_eq!(map.get(&identity(TOPIC).topic_partition()).map(|entry| entry.end), None);
    assert!(map.get(&identity(next).topic_partition()).is_some());
}

#[test]
fn unknown_directories_are_moved_aside_and_known_ones_stay() {
    let mut world = World::new(Settings::default());
    world.fill(3, 1, 100);
    let (disk, executor) = (world.disk.clone(), world.executor.clone());
    let log = |topic| identity(topic).topic_partition();
    let sweep = |checkpoints: &CheckpointMap, owner: Option<TopicId>| {
        let owner = |name: &str| owner.filter(|_| name == "orders-0").map(log);
        executor.run(directory::sweep_unknown(&disk, checkpoints, owner)).unwrap()
    };
    let none = CheckpointMap::default();
    assert_eq!(sweep(&none, Some(TOPIC)), []);
    // The small file names another topic than a checkpoint: the log is offline, and stays where it is.
    world.checkpoint();
    let path = format!("{DIRECTORY}/partition.metadata");
    let before = disk.edit(&path, |bytes| {
        let before = bytes.clone();
        bytes[25] = b'A' + (bytes[25] - b'A' + 1) % 26;
        before
    });
    let written = executor.run(CheckpointMap::load(&disk)).unwrap().0;
    assert_eq!(sweep(&written, Some(TOPIC)), []);
    disk.edit(&path, |bytes| *bytes = before);
    drop(world);
    let reports = sweep(&written, None);
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].topic_id, Some(TOPIC));
    assert_eq!(disk.names("topics"), Vec::<String>::new());
    assert!(disk.names(&reports[0].to).contains(&format!("{:020}.log", 0)));
    assert!(!disk.names(&reports[0].to).is_empty());
}

#[test]
fn a_damaged_identity_is_refused_and_a_missing_one_never_invented() {
    let mut world = World::new(Settings::default());
    world.fill(1, 1, 10);
    let Stopped { disk, executor, .. } = world.drop_process();
    let open = || executor.run(directory::open_or_create(&disk, NodeId(1), new_ids));
    assert!(open().is_ok_and(|opened| !opened.is_new));
    disk.edit("meta.properties", |bytes| bytes[20] ^= 1);
    let refused = open().unwrap_err().to_string();
    assert!(refused.contains("meta.properties: byte "), "{refused}");
    disk.edit("meta.properties", Vec::clear);
    assert!(open().is_err());
    disk.delete("meta.properties");
    let refused = open().unwrap_err().to_string();
    assert!(refused.contains("missing"), "{refused}");
    assert!(disk.names(DIRECTORY).contains(&format!("{:020}.log", 0)));
}

#[test]
fn the_directory_of_another_node_is_refused_and_left_as_it_is() {
    let Stopped { disk, executor, .. } = World::new(Settings::default()).stop();
    let before = disk.names("");
    assert!(before.contains(&"clean-stop".to_owned()));
    let refused = executor.run(directory::open_or_create(&disk, NodeId(2), new_ids));
    let (found, expected) = (NodeId(1), NodeId(2));
    assert_eq!(refused, Err(DirectoryError::OtherNode { found, expected }));
    assert_eq!(disk.names(""), before);
    let opened = executor.run(directory::open_or_create(&disk, NodeId(1), new_ids)).unwrap();
    assert_eq!(opened.start, StartKind::Clean);
}

#[test]
fn an_identity_that_lost_our_lines_is_damaged_and_not_another_programs() {
    let mut world = World::new(Settings::default());
    world.fill(1, 1, 10);
    let Stopped { disk, executor, .. } = world.drop_process();
    disk.edit("meta.properties", |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let at = text.find("corelog.").unwrap();
        bytes.truncate(at);
    });
    let refused =
        executor.run(directory::open_or_create(&disk, NodeId(1), new_ids)).unwrap_err().to_string();
    assert!(refused.contains("meta.properties: byte "), "{refused}");
    assert!(disk.names(DIRECTORY).contains(&format!("{:020}.log", 0)));
}

/// What opening a log says that has a directory in place of one of its files, and the disk afterwards.
fn opened_with_a_directory_as(
    name: &str,
    is_checkpointed: bool,
) -> (Result<Offset, OpenError>, MemoryDisk) {
    let mut world = World::new(Settings::default());
    world.fill(3, 1, 100);
    if is_checkpointed {
        world.checkpoint();
    }
    let Stopped { disk, executor, settings, .. } = world.drop_process();
    let path = format!("{DIRECTORY}/{name}");
    if disk.names(DIRECTORY).iter().any(|there| there == name) {
        disk.delete(&path);
    }
    let opened = executor.run(async {
        disk.create_dir(&path).await.unwrap();
        let (store, _) = open_store(&disk, &executor, &settings).await;
        let fold = Rc::new(RefCell::new(LastBatches::default()));
        let (log, _) = store.open_log(identity(TOPIC), settings.options, fold, NOW).await?;
        assert_eq!(store.close(NOW).await, Ok(()));
        assert_eq!(store.unclosed(), []);
        Ok(log.ends().durable())
    });
    (opened, disk)
}

#[test]
fn what_has_the_name_of_a_logs_file_and_is_none_is_named_and_left_alone() {
    let check = |name, is_checkpointed| {
        let (opened, disk) = opened_with_a_directory_as(name, is_checkpointed);
        let path = format!("{DIRECTORY}/{name}");
        let expected =
            format!("{path}: a directory, where a file belongs: put the file back in its place");
        assert_eq!(opened.unwrap_err().to_string(), expected);
        assert!(disk.names(DIRECTORY).iter().any(|there| there == name), "{name} is gone");
    };
    check("00000000000000000000.log", true);
    // Nothing else tells whose the directory is.
    check("partition.metadata", false);
}

#[test]
fn what_is_in_place_of_a_file_that_can_be_made_again_keeps_no_log_from_being_opened() {
    for name in [
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ] {
        let (opened, disk) = opened_with_a_directory_as(name, true);
        assert_eq!(opened, Ok(Offset(3)), "{name}");
        let names = disk.names(DIRECTORY);
        assert!(names.contains(&format!("{name}.odd")), "{name} is deleted: {names:?}");
        disk.edit(&format!("{DIRECTORY}/{name}"), |_| ());
    }
}

#[test]
fn a_directory_in_the_way_of_a_file_that_is_replaced_is_moved_aside() {
    for name in ["checkpoints/0.a", "checkpoints/0.a.tmp", "checkpoints/0.b.tmp"] {
        let mut world = World::new(Settings::default());
        world.fill(3, 1, 100);
        world.executor.run(world.disk.create_dir(name)).unwrap();
        for _ in 0..2 {
            world.checkpoint();
        }
        let world = world.crash();
        assert_eq!(world.log.ends().durable(), Offset(3));
        let names = world.disk.names("checkpoints");
        assert!(names.contains(&"0.a".to_owned()) && names.contains(&"0.b".to_owned()));
    }
}

#[test]
fn a_checkpoint_that_is_no_file_is_named_and_not_gone_without() {
    let mut world = World::new(Settings::default());
    world.fill(3, 1, 100);
    world.checkpoint();
    let Stopped { disk, executor, .. } = world.drop_process();
    let load = || executor.run(CheckpointMap::load(&disk));
    assert!(load().is_ok());
    executor.run(disk.create_dir("checkpoints/9.b")).unwrap();
    let refused = load().unwrap_err().to_string();
    assert!(refused.starts_with("checkpoints/9.b: a directory, where a file belongs"), "{refused}");
}

#[test]
fn an_empty_directory_becomes_a_data_directory() {
    let (disk, executor) = (MemoryDisk::default(), crate::support::TestExecutor::default());
    let open = || executor.run(directory::open_or_create(&disk, NodeId(1), new_ids)).unwrap();
    let first = open();
    assert!(first.is_new);
    disk.crash();
    let second = open();
    assert!(!second.is_new);
    assert_eq!(second.cluster_id, first.cluster_id);
}

#[test]
fn files_of_vanished_shards_go_when_told() {
    let mut world = World::new(Settings { shard: "1", ..Settings::default() });
    world.fill(3, 1, 100);
    world.checkpoint();
    world.settings.shard = "0";
    let mut world = world.crash();
    world.checkpoint();
    assert_eq!(world.disk.names("checkpoints"), ["0.a", "1.a"]);
    let removed = world.executor.run(checkpoint::remove_vanished(&world.disk, &["0"]));
    assert_eq!(removed, Ok(1));
    world.fill(3, 1, 100);
    let world = world.crash();
    world.verify(1 << 20);
}

#[test]
fn the_store_keeps_entries_of_logs_that_are_not_open_yet() {
    let mut world = World::new(Settings::default());
    world.fill(3, 1, 100);
    world.checkpoint();
    let Stopped { disk, executor, settings, .. } = world.drop_process();
    executor.run(async {
        let (store, _) = open_store(&disk, &executor, &settings).await;
        store.checkpoint(NOW).await.unwrap();
        store.checkpoint(NOW).await.unwrap();
        let map = CheckpointMap::load(&disk).await.unwrap().0;
        let log = identity(TOPIC).topic_partition();
        assert_eq!(map.get(&log).unwrap().end, Offset(3));
        store.retain_entries(|_| false);
        store.checkpoint(NOW).await.unwrap();
        store.checkpoint(NOW).await.unwrap();
        assert!(CheckpointMap::load(&disk).await.unwrap().0.is_empty());
    });
}

#[test]
fn a_checkpoint_that_was_given_up_is_in_the_way_of_no_other() {
    let mut world = World::new(Settings::default());
    world.fill(3, 1, 100);
    let given_up = world.executor.run(futures_lite::future::poll_once(world.store.checkpoint(NOW)));
    assert_eq!(given_up, None, "it was written at once");
    assert!(world.store.checkpoint_due(Timestamp(NOW.0 + 60_000)), "nothing was written");
    world.checkpoint();
    let written = world.executor.run(CheckpointMap::load(&world.disk)).unwrap().0;
    let entry = written.get(&identity(TOPIC).topic_partition()).copied();
    assert_eq!(entry.map(|entry| entry.end), Some(Offset(3)));
}
