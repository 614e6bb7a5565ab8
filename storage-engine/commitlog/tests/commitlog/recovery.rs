//! After a crash: what was durable is there, what was not is gone as a suffix, and the log takes appends again.

use commitlog::{BadBatch, CutReason, LogOptions, OpenError};
use record::{BatchHeader, Codec, LeaderEpoch, Offset, TopicId};

use crate::support::world::{
    DIRECTORY, LastBatches, NOW, Settings, Stopped, World, batch, identity, open_store,
};

fn log_path(world: &World, index: usize) -> String {
    format!("{DIRECTORY}/{}", world.files(".log")[index])
}

#[test]
fn durable_batches_survive_and_others_are_a_lost_suffix() {
    for checkpointed in [false, true] {
        let mut world = World::new(Settings::default());
        world.fill(30, 3, 500);
        if checkpointed {
            world.checkpoint();
        }
        world.fill(5, 3, 500);
        let durable = world.log.ends().durable();
        world.append(&batch(Codec::None, NOW.0, 1, 100));
        let mut world = world.crash();
        assert_eq!(world.log.ends().durable(), durable);
        assert!(!world.report.is_clean);
        world.verify(1 << 20);
        world.model.pop();
        world.fill(5, 1, 5000);
        let world = world.crash();
        world.verify(1 << 20);
        assert_eq!(world.log.ends().durable(), Offset(durable.0 + 5));
    }
}

#[test]
fn rolled_segments_survive_whether_sealed_or_not() {
    let mut world = World::new(Settings::default());
    for _ in 0..6 {
        world.fill(20, 2, 3000);
        world.checkpoint();
        assert!(world.log.segment_count() > 1);
        world = world.crash();
        world.verify(100_000);
        world.fill(20, 2, 3000);
        world.settle();
        world = world.crash();
        world.verify(100_000);
    }
    assert_eq!(world.store.damage(), []);
}

#[test]
fn sealed_files_have_their_exact_length() {
    let mut world = World::new(Settings::default());
    world.fill(60, 2, 1000);
    world.settle();
    let sealed = world.log.segment_count() - 1;
    assert!(sealed >= 1);
    let logs = world.files(".log");
    let lengths: usize = logs[..sealed]
        .iter()
        .map(|name| world.disk.edit(&format!("{DIRECTORY}/{name}"), |bytes| bytes.len()))
        .sum();
    let before: usize = world
        .model
        .iter()
        .filter(|batch| {
            let base = BatchHeader::parse(batch).unwrap().base_offset;
            format!("{:020}.log", base.0) < logs[sealed]
        })
        .map(Vec::len)
        .sum();
    assert_eq!(lengths, before);
    assert_eq!(world.files(".index").len(), sealed);
    assert_eq!(world.files(".timeindex").len(), sealed);
    assert_eq!(world.files(".snapshot").len(), sealed);
}

#[test]
fn a_clean_stop_leaves_nothing_to_do() {
    let mut world = World::new(Settings::default());
    world.fill(60, 2, 1000);
    let (end, fold) = (world.log.ends().durable(), world.fold.borrow().clone());
    let stopped = world.stop();
    let marker = stopped.disk.edit("clean-stop", |bytes| bytes.clone());
    assert_eq!(marker, b"corelog clean stop 1\n");
    let bytes_before = stopped.disk.read_bytes();
    let mut world = stopped.start();
    assert!(world.report.is_clean);
    assert!(world.disk.read_bytes() - bytes_before < 20_000);
    assert_eq!(world.report.bytes_read, 0);
    assert_eq!(world.log.ends().durable(), end);
    assert_eq!(*world.fold.borrow(), fold);
    world.verify(1 << 20);
    // The marker counts once.
    world.fill(3, 2, 1000);
    let world = world.crash();
    assert!(!world.report.is_clean);
    world.verify(1 << 20);
    let bytes: u64 = world.model.iter().map(|batch| batch.len() as u64).sum();
    assert_eq!(world.log.size_bytes(), bytes);
    let world = world.stop().start();
    world.verify(1 << 20);
    let files: usize = world
        .files(".log")
        .iter()
        .map(|name| world.disk.edit(&format!("{DIRECTORY}/{name}"), |bytes| bytes.len()))
        .sum();
    assert_eq!(files as u64, bytes);
}

#[test]
fn a_second_clean_stop_writes_nothing_new() {
    let mut world = World::new(Settings::default());
    world.fill(10, 2, 1000);
    let world = world.stop().start();
    let writes = world.disk.syncs();
    let stopped = world.stop();
    // A checkpoint and the marker, each a file and its directory.
    assert!(stopped.disk.syncs() - writes <= 4, "{}", stopped.disk.syncs() - writes);
}

#[test]
fn a_tail_of_zeros_is_cut_before_the_first_append() {
    let mut world = World::new(Settings::default());
    world.fill(5, 1, 100);
    world.checkpoint();
    world.fill(5, 1, 100);
    world.disk.edit(&log_path(&world, 0), |bytes| bytes.resize(bytes.len() + 70_000, 0));
    let mut world = world.crash();
    assert_eq!(world.report.cut.unwrap().reason, CutReason::ZeroTail);
    assert_eq!(world.report.strays, Vec::<String>::new());
    world.fill(10, 1, 100);
    let mut world = world.stop().start();
    world.fill(1, 1, 100);
    let world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(21));
    world.verify(1 << 20);
}

#[test]
fn a_batch_whose_checksum_is_zero_is_a_batch() {
    // The last four bytes of the value make the checksum 0: CRC is linear, so 32 tries of one bit each solve for it.
    let zero_crc = |bytes: &mut Vec<u8>| {
        let length = bytes.len();
        let value_end = length - 1;
        let crc_with = |bytes: &[u8]| record::crc32c(&bytes[21..]);
        let base = crc_with(bytes);
        let mut rows = Vec::new();
        for bit in 0..32 {
            let at = value_end - 4 + bit / 8;
            bytes[at] ^= 1 << (bit % 8);
            rows.push((crc_with(bytes) ^ base, 1_u32 << bit));
            bytes[at] ^= 1 << (bit % 8);
        }
        let (mut target, mut solution) = (base, 0);
        for column in 0..32 {
            let pivot = rows.iter().position(|row| row.0 >> column & 1 == 1).unwrap();
            let row = rows.swap_remove(pivot);
            for other in &mut rows {
                if other.0 >> column & 1 == 1 {
                    *other = (other.0 ^ row.0, other.1 ^ row.1);
                }
            }
            if target >> column & 1 == 1 {
                (target, solution) = (target ^ row.0, solution ^ row.1);
            }
        }
        for bit in 0..32 {
            bytes[value_end - 4 + bit / 8] ^= u8::from(solution >> bit & 1 == 1) << (bit % 8);
        }
        bytes[17..21].fill(0);
        assert_eq!(crc_with(bytes), 0);
    };
    let mut world = World::new(Settings::default());
    world.fill(1, 1, 100);
    let mut bytes = batch(Codec::None, NOW.0, 1, 100);
    zero_crc(&mut bytes);
    world.append_synced(&bytes);
    world.fill(1, 1, 100);
    let world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(3));
    world.verify(1 << 20);
}

#[test]
fn what_lies_beyond_a_bad_batch_is_kept_aside() {
    let mut world = World::new(Settings::default());
    world.fill(3, 1, 1000);
    world.checkpoint();
    world.fill(5, 1, 1000);
    let bad = world.model[..4].iter().map(Vec::len).sum::<usize>();
    world.disk.edit(&log_path(&world, 0), |bytes| bytes[bad + 500] ^= 1);
    let tail: Vec<u8> = world.model[5..].concat();
    let mut world = world.crash();
    assert!(matches!(world.report.cut.unwrap().reason, CutReason::Bad(BadBatch::Crc { .. })));
    assert_eq!(world.log.ends().durable(), Offset(4));
    let [stray] = world.report.strays.as_slice() else { panic!("{:?}", world.report) };
    let kept = world.disk.edit(stray, |bytes| bytes.clone());
    assert!(kept.windows(tail.len()).any(|window| window == tail));
    world.model.truncate(4);
    world.fill(3, 1, 1000);
    let world = world.crash();
    world.verify(1 << 20);
    assert_eq!(world.log.ends().durable(), Offset(7));
}

#[test]
fn a_whole_batch_between_a_rotten_and_a_torn_one_is_kept_aside() {
    let mut world = World::new(Settings::default());
    world.fill(3, 1, 1000);
    world.checkpoint();
    world.fill(3, 1, 1000);
    let rotten = world.model[..3].iter().map(Vec::len).sum::<usize>();
    let torn = world.model[..5].iter().map(Vec::len).sum::<usize>();
    world.disk.edit(&log_path(&world, 0), |bytes| {
        bytes[rotten + 500] ^= 1;
        bytes[torn + 14..].fill(0);
    });
    let whole = world.model[4].clone();
    let mut world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(3));
    let [stray] = world.report.strays.as_slice() else { panic!("{:?}", world.report) };
    let kept = world.disk.edit(stray, |bytes| bytes.clone());
    assert!(kept.windows(whole.len()).any(|window| window == whole));
    world.model.truncate(3);
    world.fill(3, 1, 1000);
    world.crash().verify(1 << 20);
}

#[test]
fn records_made_to_look_like_batches_cost_a_bounded_search() {
    let options = LogOptions { segment_bytes: 4 << 20, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    world.fill(2, 1, 100);
    let header = BatchHeader::parse(&world.model[1]).unwrap();
    // Each says that it is 300 kB long and ends where the next of them could begin.
    let fake = BatchHeader { base_offset: Offset(3), length: 61 * 5000 - 12, ..header }.encode();
    let mut builder = record::BatchBuilder::new(Codec::None);
    let value = fake.repeat(10_000);
    builder.append(&record::NewRecord { value: Some(&value), ..record::NewRecord::default() });
    world.append_synced(&builder.build());
    world.fill(1, 1, 100);
    let position = world.model[..2].iter().map(Vec::len).sum::<usize>();
    world.disk.edit(&log_path(&world, 0), |bytes| bytes[position + 8..position + 12].fill(0x7f));
    let before = world.disk.read_bytes();
    let world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(2));
    // It cannot tell what is in there: then it is kept.
    assert_eq!(world.report.strays.len(), 1);
    let read = world.disk.read_bytes() - before;
    assert!(read < 400 << 20, "{read} bytes read");
}

#[test]
fn a_torn_batch_alone_is_cut_and_not_kept() {
    let mut world = World::new(Settings::default());
    world.fill(4, 1, 1000);
    let torn = world.model[..3].iter().map(Vec::len).sum::<usize>();
    world.disk.edit(&log_path(&world, 0), |bytes| bytes[torn + 200..].fill(0));
    let world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(3));
    assert_eq!(world.report.strays, Vec::<String>::new());
}

#[test]
fn a_later_segment_that_does_not_follow_is_moved_aside() {
    let options = LogOptions { segment_bytes: 3000, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    world.fill(9, 1, 1000);
    let segments = world.log.segment_count();
    assert!(segments >= 3);
    // No checkpoint yet: the first segment loses its last batch.
    let keep = world.model[0].len();
    world.disk.edit(&log_path(&world, 0), |bytes| bytes.truncate(keep));
    let mut world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(1));
    assert_eq!(world.report.strays.len(), segments - 1);
    world.model.truncate(1);
    world.fill(9, 1, 1000);
    let world = world.crash();
    world.verify(1 << 20);
}

#[test]
fn a_log_that_was_created_is_never_recreated_empty() {
    for whole_directory in [true, false] {
        let mut world = World::new(Settings::default());
        world.fill(3, 1, 100);
        world.checkpoint();
        let Stopped { disk, executor, settings, .. } = world.drop_process();
        if whole_directory {
            disk.delete_tree(DIRECTORY);
        } else {
            disk.delete(&format!("{DIRECTORY}/{:020}.log", 0));
        }
        executor.run(async {
            // Twice: the entry must outlive the first start that could not use it.
            for _ in 0..2 {
                let (store, _) = open_store(&disk, &executor, &settings).await;
                let fold = std::rc::Rc::new(std::cell::RefCell::new(LastBatches::default()));
                let opened = store
                    .open_log(identity(crate::support::world::TOPIC), settings.options, fold, NOW)
                    .await;
                let Err(OpenError::Missing { .. }) = opened else { panic!("{opened:?}") };
                store.checkpoint(NOW).await.unwrap();
                store.checkpoint(NOW).await.unwrap();
            }
        });
    }
}

#[test]
fn a_directory_of_another_topic_is_moved_aside() {
    let mut world = World::new(Settings::default());
    world.fill(3, 1, 100);
    world.checkpoint();
    let Stopped { disk, executor, settings, .. } = world.drop_process();
    let other = TopicId([8; 16]);
    executor.run(async {
        let (store, _) = open_store(&disk, &executor, &settings).await;
        let fold = std::rc::Rc::new(std::cell::RefCell::new(LastBatches::default()));
        let (log, report) =
            store.open_log(identity(other), settings.options, fold, NOW).await.unwrap();
        assert!(report.is_new);
        assert_eq!(log.ends().accepted(), Offset(0));
    });
    let strays = disk.names("stray");
    assert_eq!(strays, [format!("{}-0", crate::support::world::TOPIC)]);
    assert!(disk.names(&format!("stray/{}", strays[0])).contains(&format!("{:020}.log", 0)));
}

#[test]
fn a_directory_that_names_another_topic_than_its_checkpoint_stays_where_it_is() {
    let mut world = World::new(Settings::default());
    world.fill(3, 1, 100);
    world.checkpoint();
    let Stopped { disk, executor, settings, .. } = world.drop_process();
    let path = format!("{DIRECTORY}/partition.metadata");
    let before = disk.edit(&path, |bytes| {
        let before = bytes.clone();
        // One digit of the id: it parses, and names nobody.
        bytes[25] = b'A' + (bytes[25] - b'A' + 1) % 26;
        before
    });
    executor.run(async {
        let (store, _) = open_store(&disk, &executor, &settings).await;
        let fold = std::rc::Rc::new(std::cell::RefCell::new(LastBatches::default()));
        let topic = identity(crate::support::world::TOPIC);
        let opened = store.open_log(topic.clone(), settings.options, fold.clone(), NOW).await;
        let Err(OpenError::Missing { .. }) = opened else { panic!("{opened:?}") };
        assert_eq!(disk.names("stray"), Vec::<String>::new());
        // Put right by hand, every record is there.
        disk.edit(&path, |bytes| *bytes = before);
        let (log, _) = store.open_log(topic, settings.options, fold, NOW).await.unwrap();
        assert_eq!(log.ends().durable(), Offset(3));
    });
}

#[test]
fn damaged_small_files_are_written_again() {
    for (name, keep) in [
        ("leader-epoch-checkpoint", 0),
        ("leader-epoch-checkpoint", 3),
        ("partition.metadata", 0),
        ("partition.metadata", 9),
    ] {
        for clean in [true, false] {
            let mut world = World::new(Settings::default());
            for epoch in [0, 3, 7] {
                world.epoch = LeaderEpoch(epoch);
                world.fill(4, 2, 3000);
            }
            world.checkpoint();
            let epochs = world.log.epochs();
            let fold = world.fold.borrow().clone();
            let damage = |disk: &crate::support::MemoryDisk| {
                disk.edit(&format!("{DIRECTORY}/{name}"), |bytes| bytes.truncate(keep));
            };
            let world = if clean {
                let stopped = world.stop();
                damage(&stopped.disk);
                stopped.start()
            } else {
                damage(&world.disk);
                world.crash()
            };
            assert_eq!(world.log.epochs(), epochs, "{name} {keep}");
            assert_eq!(*world.fold.borrow(), fold);
            world.verify(1 << 20);
            world.checkpoint();
            let text = world.disk.edit(&format!("{DIRECTORY}/leader-epoch-checkpoint"), |bytes| {
                String::from_utf8(bytes.clone()).unwrap()
            });
            assert_eq!(text, "0\n3\n0 0\n3 8\n7 16\n");
        }
    }
}

#[test]
fn damaged_checkpoints_and_snapshots_cost_time_only() {
    let mut world = World::new(Settings::default());
    world.fill(40, 2, 2000);
    world.checkpoint();
    world.settle();
    world.fill(10, 2, 2000);
    world.checkpoint();
    let fold = world.fold.borrow().clone();
    for name in world.disk.names("checkpoints") {
        world.disk.edit(&format!("checkpoints/{name}"), |bytes| bytes[30] ^= 4);
    }
    for name in world.files(".snapshot") {
        world.disk.edit(&format!("{DIRECTORY}/{name}"), |bytes| bytes.truncate(5));
    }
    let mut world = world.crash();
    world.verify(1 << 20);
    assert_eq!(*world.fold.borrow(), fold);
    world.fill(10, 2, 2000);
    let world = world.stop().start();
    world.verify(1 << 20);
}

#[test]
fn a_snapshot_that_cannot_be_read_is_moved_aside_and_not_deleted() {
    let mut world = World::new(Settings::default());
    world.fill(10, 2, 1000);
    let stopped = world.stop();
    let name = format!("{:020}.snapshot", 20);
    stopped.disk.edit(&format!("{DIRECTORY}/{name}"), |bytes| bytes[12] ^= 1);
    let world = stopped.start();
    assert_eq!(world.fold.borrow().0.len(), 1);
    let directory = format!("stray/{}-0", crate::support::world::TOPIC);
    assert_eq!(world.disk.names(&directory), [name.as_str()]);
    assert_eq!(world.report.strays, [format!("{directory}/{name}")]);
}

#[test]
fn a_snapshot_of_more_than_a_million_batches_is_read_whole() {
    let mut world = World::new(Settings::default());
    world.fill(1, 1, 10);
    let entry = world.fold.borrow().0[0];
    let many = (0..1_000_001)
        .map(|id| record::ProducerSnapshotEntry { producer_id: record::ProducerId(id), ..entry });
    let many: Vec<_> = many.collect();
    let stopped = world.stop();
    let path = format!("{DIRECTORY}/{:020}.snapshot", 1);
    stopped.disk.edit(&path, |bytes| *bytes = record::encode_snapshot(&many));
    let world = stopped.start();
    assert_eq!(world.fold.borrow().0.len(), many.len());
}

#[test]
fn producer_state_survives_crashes_at_any_batch() {
    let mut world = World::new(Settings::default());
    for round in 0..12 {
        world.fill(7, 2, 1500);
        if round % 2 == 0 {
            world.checkpoint();
        }
        if round % 3 == 0 {
            world.settle();
        }
        let fold = world.fold.borrow().clone();
        world = if round % 4 == 3 { world.stop().start() } else { world.crash() };
        assert_eq!(*world.fold.borrow(), fold, "round {round}");
    }
}

#[test]
fn a_partition_moves_between_shards_without_losing_its_place() {
    let mut world = World::new(Settings::default());
    world.fill(10, 1, 100);
    world.checkpoint();
    // Shard 1 owns it for a while: shard 0's file goes stale.
    world.settings.shard = "1";
    let mut world = world.crash();
    world.fill(10, 1, 100);
    world.checkpoint();
    let end = world.log.ends().durable();
    // Damage below the newest checkpoint and above the stale one: whoever believes the stale one cuts here.
    let position: usize = world.model[..15].iter().map(Vec::len).sum();
    world.disk.edit(&log_path(&world, 0), |bytes| bytes[position + 70] ^= 1);
    world.settings.shard = "0";
    let world = world.crash();
    assert_eq!(world.log.ends().durable(), end);
    assert_eq!(world.report.cut.map(|cut| cut.reason), Some(CutReason::ZeroTail));
}

#[test]
fn what_a_checkpoint_says_is_durable_is_not_synced_again() {
    let syncs_of_a_start = |behind_the_checkpoint: usize| {
        let mut world = World::new(Settings::default());
        world.fill(3, 1, 100);
        world.checkpoint();
        world.fill(behind_the_checkpoint, 1, 100);
        let disk = world.disk.clone();
        let before = disk.syncs();
        let mut world = world.kill();
        let syncs = disk.syncs() - before;
        // Twice: what the first recovery left is what the second one finds.
        world.verify(1 << 20);
        world.fill(2, 1, 100);
        world.kill().verify(1 << 20);
        syncs
    };
    let idle = syncs_of_a_start(0);
    // The file, whatever the number of batches.
    assert_eq!(syncs_of_a_start(1), idle + 1);
    assert_eq!(syncs_of_a_start(9), idle + 1);
}

#[test]
fn a_log_that_holds_nothing_has_no_file_but_its_name() {
    let world = World::new(Settings::default());
    world.checkpoint();
    let nothing = ["partition.metadata"];
    assert_eq!(world.files(""), nothing);
    let world = world.kill();
    world.checkpoint();
    let world = world.stop().start();
    assert_eq!(world.files(""), nothing);
    let mut world = world;
    world.fill(2, 1, 100);
    world.crash().verify(1 << 20);
}

#[test]
fn a_file_that_was_made_many_times_longer_costs_no_read_of_its_hole() {
    for garbage_bytes in [0, 500] {
        let mut world = World::new(Settings::default());
        world.fill(10, 1, 500);
        world.checkpoint();
        let path = format!("{DIRECTORY}/{:020}.log", 0);
        world.disk.edit(&path, |bytes| {
            bytes.resize(64 << 20, 0);
            bytes.resize((64 << 20) + garbage_bytes, 0x55);
        });
        let before = world.disk.read_bytes();
        let world = world.crash();
        let read = world.disk.read_bytes() - before;
        assert!(read < 2 << 20, "{read} bytes");
        let expected = match garbage_bytes {
            0 => CutReason::ZeroTail,
            _ => CutReason::Bad(BadBatch::Gap),
        };
        assert_eq!(
            world.report.cut.map(|cut| cut.reason),
            Some(expected),
            "what lies behind it counts"
        );
        assert_eq!(world.log.ends().durable(), Offset(10));
        world.verify(1 << 20);
    }
}

#[test]
fn a_batch_behind_a_hole_is_kept_aside_and_its_copy_has_the_hole() {
    let mut world = World::new(Settings::default());
    world.fill(10, 1, 500);
    world.checkpoint();
    let path = format!("{DIRECTORY}/{:020}.log", 0);
    let late = world.model[9].clone();
    world.disk.edit(&path, |bytes| {
        bytes.resize(64 << 20, 0);
        bytes.extend_from_slice(&late);
    });
    let before = world.disk.read_bytes();
    let world = world.crash();
    let read = world.disk.read_bytes() - before;
    assert!(read < 4 << 20, "{read} bytes");
    let [stray] = &world.report.strays[..] else { panic!("{:?}", world.report.strays) };
    let kept = world.disk.edit(stray, |bytes| bytes.clone());
    assert!(kept.ends_with(&late));
    assert!(kept.len() > 60 << 20, "as long as what was cut");
    world.verify(1 << 20);
}
