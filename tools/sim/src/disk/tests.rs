//! What the fault model must be able to show, and what it must never show. The behaviour that the real disk shares is in
//! `disk_suite`.

use std::collections::BTreeSet;

use commitlog::AlignedBuffer;

use super::*;
use crate::executor::{RunEnd, RunLimits};
use crate::trace::Keep;

const LIMITS: RunLimits = RunLimits { steps_max: 100_000, crash_at: None };
const SEEDS: u64 = 200;

struct World {
    executor: SimExecutor,
    disk: SimDisk,
    trace: Rc<Trace>,
}

fn world(seed: u64) -> World {
    let trace = Rc::new(Trace::new(Keep::Hash));
    let mut prng = Prng::new(seed);
    let executor = SimExecutor::new(prng.fork(), Rc::clone(&trace));
    let disk = SimDisk::new(&executor, prng.fork(), Rc::clone(&trace));
    World { executor, disk, trace }
}

impl World {
    fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        match self.executor.run(main, LIMITS) {
            RunEnd::Done(value) => value,
            _ => panic!("the run did not end"),
        }
    }

    fn crash(&mut self) {
        self.disk = self.disk.crash();
        self.executor.drop_tasks();
    }
}

fn filled(disk: &SimDisk, bytes: usize, value: u8) -> Rc<SimBuffer> {
    let mut buffer = disk.allocate(bytes);
    buffer.as_bytes_mut().fill(value);
    Rc::new(buffer)
}

/// Makes `name` with one block of ones, lasting in every respect.
async fn base(disk: &SimDisk, name: &str) -> SimFile {
    let file = disk.open(name, OpenMode::CreateNew).await.unwrap();
    file.write_rc_at(filled(disk, BLOCK_BYTES, 1), 0).await.unwrap();
    file.full_sync().await.unwrap();
    disk.sync_dir("").await.unwrap();
    file
}

#[test]
fn unsynced_sectors_are_old_or_new_and_synced_ones_never_change() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            let file = base(&disk, "f").await;
            file.write_rc_at(filled(&disk, BLOCK_BYTES, 2), 0).await.unwrap();
        });
        world.crash();
        let bytes = world.disk.peek("f").unwrap();
        assert_eq!(bytes.len(), BLOCK_BYTES);
        let sectors: Vec<u8> = bytes.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect();
        assert!(bytes.chunks(SECTOR_BYTES).all(|s| s.iter().all(|b| *b == s[0])));
        assert!(sectors.iter().all(|value| [1, 2].contains(value)), "{sectors:?}");
        seen.insert(sectors);
    }
    assert!(seen.contains(&vec![1; 8]), "it is never lost");
    assert!(seen.contains(&vec![2; 8]), "it is never kept");
    assert!(seen.len() > 20, "it is never torn");
}

#[test]
fn length_beyond_the_last_sync_may_be_lost_kept_or_garbage() {
    let mut lengths = BTreeSet::new();
    let mut garbage = 0;
    for seed in 0..SEEDS {
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            let file = base(&disk, "f").await;
            file.write_rc_at(filled(&disk, 2 * BLOCK_BYTES, 2), BLOCK_BYTES as u64).await.unwrap();
        });
        world.crash();
        let bytes = world.disk.peek("f").unwrap();
        assert!(bytes[..BLOCK_BYTES].iter().all(|byte| *byte == 1));
        garbage += bytes[BLOCK_BYTES..].iter().filter(|byte| ![0, 2].contains(*byte)).count();
        lengths.insert(bytes.len());
    }
    assert!(lengths.contains(&BLOCK_BYTES));
    assert!(lengths.contains(&(3 * BLOCK_BYTES)));
    assert!(garbage > 0);
}

#[test]
fn names_last_only_after_the_directory_was_synced() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            disk.create_dir("d").await.unwrap();
            disk.sync_dir("").await.unwrap();
            disk.open("d/synced", OpenMode::CreateNew).await.unwrap();
            disk.sync_dir("d").await.unwrap();
            let file = disk.open("d/loose", OpenMode::CreateNew).await.unwrap();
            file.full_sync().await.unwrap();
            disk.sync_dir("").await.unwrap();
        });
        world.crash();
        assert!(world.disk.peek("d/synced").is_some());
        match world.disk.peek("d/loose") {
            Some(_) => kept += 1,
            None => lost += 1,
        }
    }
    assert!(lost > 20 && kept > 20, "lost {lost}, kept {kept}");
}

#[test]
fn a_directory_says_whether_its_names_last() {
    let world = world(1);
    let disk = world.disk.clone();
    world.run(async move {
        disk.create_dir("d").await.unwrap();
        disk.sync_dir("d").await.unwrap();
        assert!(!disk.names_last("d"), "its own name does not last");
        disk.sync_dir("").await.unwrap();
        assert!(disk.names_last("d") && !disk.names_last("none"));
        let file = disk.open("d/new.tmp", OpenMode::CreateNew).await.unwrap();
        file.full_sync().await.unwrap();
        disk.rename("d/new.tmp", "d/file").await.unwrap();
        assert!(
            !disk.names_last("d"),
            "the name that a replacement gives is there and does not last"
        );
        disk.sync_dir("d").await.unwrap();
        assert!(disk.names_last("d"));
    });
}

#[test]
fn rename_is_atomic_across_directories() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            drop(base(&disk, "f").await);
            disk.create_dir("d").await.unwrap();
            disk.sync_dir("").await.unwrap();
            disk.rename("f", "d/g").await.unwrap();
            disk.sync_dir(if seed % 2 == 0 { "" } else { "d" }).await.unwrap();
        });
        world.crash();
        let names = (world.disk.peek("f").is_some(), world.disk.peek("d/g").is_some());
        assert!(names.0 != names.1, "the file has no name or two");
        outcomes.insert(names);
    }
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn replaced_file_is_old_or_new_never_missing() {
    for seed in 0..SEEDS {
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            drop(base(&disk, "f").await);
            let file = disk.open("f.tmp", OpenMode::CreateNew).await.unwrap();
            file.write_rc_at(filled(&disk, BLOCK_BYTES, 2), 0).await.unwrap();
            file.data_sync().await.unwrap();
            disk.rename("f.tmp", "f").await.unwrap();
        });
        world.crash();
        let bytes = world.disk.peek("f").expect("the old name must stay");
        assert!(bytes == vec![1; BLOCK_BYTES] || bytes == vec![2; BLOCK_BYTES]);
    }
}

#[test]
fn data_sync_may_forget_a_cut_and_full_sync_never_does() {
    let mut data = BTreeSet::new();
    for seed in 0..SEEDS {
        let is_full = seed % 2 == 0;
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            let file = base(&disk, "f").await;
            file.truncate(100).await.unwrap();
            match is_full {
                true => file.full_sync().await.unwrap(),
                false => file.data_sync().await.unwrap(),
            }
        });
        world.crash();
        let length = world.disk.peek("f").unwrap().len();
        if is_full {
            assert_eq!(length, 100);
        } else {
            data.insert(length);
        }
    }
    assert_eq!(data, BTreeSet::from([100, BLOCK_BYTES]));
}

#[test]
fn bytes_of_a_failed_sync_may_be_gone_though_the_next_sync_succeeds() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            let file = base(&disk, "f").await;
            file.write_rc_at(filled(&disk, BLOCK_BYTES, 2), 0).await.unwrap();
            disk.set_faults(Faults { sync_error: OneIn(1), ..Faults::default() });
            assert_eq!(file.data_sync().await, Err(DiskError::Io { errno: EIO }));
            disk.set_faults(Faults::default());
            file.data_sync().await.unwrap();
            let read = file.read_at_aligned(0, BLOCK_BYTES).await.unwrap();
            assert!(read.iter().all(|byte| *byte == 2), "reads come from memory and show it");
        });
        world.crash();
        lost += usize::from(world.disk.peek("f").unwrap().contains(&1));
    }
    assert!(lost > 50, "{lost}");
}

#[test]
fn two_writes_of_a_block_in_flight_leave_either() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let world = world(seed);
        let disk = world.disk.clone();
        let value = world.run(async move {
            let file = base(&disk, "f").await;
            let (first, second) = futures_lite::future::zip(
                file.write_rc_at(filled(&disk, BLOCK_BYTES, 2), 0),
                file.write_rc_at(filled(&disk, BLOCK_BYTES, 3), 0),
            )
            .await;
            first.unwrap();
            second.unwrap();
            file.read_at_aligned(0, BLOCK_BYTES).await.unwrap()[0]
        });
        seen.insert(value);
    }
    assert_eq!(seen, BTreeSet::from([2, 3]));
}

#[test]
fn sync_covers_only_writes_that_completed_before_it_started() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            let file = base(&disk, "f").await;
            let (write, sync) = futures_lite::future::zip(
                file.write_rc_at(filled(&disk, BLOCK_BYTES, 2), 0),
                file.data_sync(),
            )
            .await;
            write.unwrap();
            sync.unwrap();
        });
        world.crash();
        lost += usize::from(world.disk.peek("f").unwrap().contains(&1));
    }
    assert!(lost > 20, "{lost}");
}

#[test]
fn full_disk_refuses_growth_and_serves_the_rest() {
    let world = world(1);
    let disk = world.disk.clone();
    world.run(async move {
        let file = base(&disk, "f").await;
        disk.set_capacity(2 * BLOCK_BYTES as u64);
        let grown = file.write_rc_at(filled(&disk, 2 * BLOCK_BYTES, 2), BLOCK_BYTES as u64).await;
        assert_eq!(grown, Err(DiskError::NoSpace));
        assert_eq!(file.size().await, Ok(BLOCK_BYTES as u64));
        file.write_rc_at(filled(&disk, BLOCK_BYTES, 3), 0).await.unwrap();
        assert_eq!(disk.free_bytes().await, Ok(BLOCK_BYTES as u64));
        disk.remove("f").await.unwrap();
        assert_eq!(disk.free_bytes().await, Ok(BLOCK_BYTES as u64), "a handle keeps the bytes");
        drop(file);
        disk.sync_dir("").await.unwrap();
        assert_eq!(disk.free_bytes().await, Ok(2 * BLOCK_BYTES as u64));
    });
}

#[test]
fn rot_flips_one_bit_for_good_and_old_handles_are_dead() {
    let mut world = world(1);
    let disk = world.disk.clone();
    let file = world.run(async move { base(&disk, "f").await });
    assert!(world.disk.rot("f", 77, 3));
    assert!(!world.disk.rot("f", BLOCK_BYTES as u64, 3));
    world.crash();
    assert_eq!(world.disk.peek("f").unwrap()[77], 1 ^ 8);
    world.run(async move {
        let dead = file.read_at_aligned(0, BLOCK_BYTES).await;
        assert_eq!(dead.err(), Some(DiskError::Io { errno: EIO }));
    });
}

#[test]
fn one_seed_gives_one_hash() {
    let run = |seed| {
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            let file = base(&disk, "f").await;
            file.write_rc_at(filled(&disk, BLOCK_BYTES, 2), 0).await.unwrap();
        });
        world.crash();
        (world.trace.hash(), world.disk.peek("f"))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn next_process_reads_what_the_device_holds() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let mut world = world(seed);
        let disk = world.disk.clone();
        world.run(async move {
            let file = base(&disk, "f").await;
            file.write_rc_at(filled(&disk, BLOCK_BYTES, 2), BLOCK_BYTES as u64).await.unwrap();
            file.write_rc_at(filled(&disk, BLOCK_BYTES, 3), 0).await.unwrap();
            disk.set_faults(Faults { sync_error: OneIn(1), ..Faults::default() });
            assert!(file.data_sync().await.is_err());
        });
        world.disk = world.disk.restart();
        world.executor.drop_tasks();
        let seen = world.disk.peek("f").unwrap();
        lost += usize::from(seen.contains(&1));
        let disk = world.disk.clone();
        world.run(async move {
            disk.set_faults(Faults::default());
            disk.open("f", OpenMode::ReadWrite).await.unwrap().full_sync().await.unwrap();
        });
        world.crash();
        assert_eq!(world.disk.peek("f").unwrap(), seen, "what it read and synced stays");
    }
    assert!(lost > 50, "{lost}");
}
