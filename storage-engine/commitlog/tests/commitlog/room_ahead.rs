//! Busy segments have room ahead of their end, and nothing of it stays where it would be in the way.

use commitlog::RoomAhead;
use record::Codec;

use crate::support::world::{DIRECTORY, NOW, Settings, World, batch};

const SEGMENT: &str = "00000000000000000000.log";

fn busy() -> World {
    let options = commitlog::LogOptions { segment_bytes: 1 << 20, ..Settings::default().options };
    let mut world = World::new(Settings { options, ..Settings::default() });
    for _ in 0..8 {
        world.append_synced(&batch(Codec::None, NOW.0, 1, 6000));
    }
    world.settle();
    world
}

#[test]
fn a_busy_segment_is_longer_than_what_is_written_and_a_stop_cuts_it() {
    let world = busy();
    let path = format!("{DIRECTORY}/{SEGMENT}");
    let (written, length) = (world.log.size_bytes(), world.disk.edit(&path, |bytes| bytes.len()));
    assert!(length as u64 >= written + 8192, "{length} bytes hold {written}");
    world.verify(1 << 20);
    let world = world.stop().start();
    assert_eq!(world.disk.edit(&path, |bytes| bytes.len()) as u64, written);
    world.verify(1 << 20);
}

#[test]
fn a_crash_leaves_zeros_behind_the_end_and_recovery_cuts_them() {
    let mut world = busy().crash().crash();
    let path = format!("{DIRECTORY}/{SEGMENT}");
    assert_eq!(world.report.cut.map(|cut| cut.position), None, "the first start cut it already");
    let length = world.disk.edit(&path, |bytes| bytes.len());
    assert_eq!(length as u64, world.log.size_bytes());
    world.append_synced(&batch(Codec::None, NOW.0, 1, 6000));
    world.verify(1 << 20);
}

#[test]
fn a_rolled_segment_has_its_exact_length() {
    let mut world = busy();
    for _ in 0..300 {
        world.append_synced(&batch(Codec::None, NOW.0, 1, 6000));
    }
    world.settle();
    assert!(world.log.segment_count() > 1);
    let path = format!("{DIRECTORY}/{SEGMENT}");
    let length = world.disk.edit(&path, |bytes| bytes.len());
    assert!(!length.is_multiple_of(4096), "{length} bytes");
    world.verify(1 << 20);
}

#[test]
fn a_disk_with_little_space_is_left_for_records() {
    let rules = RoomAhead { free_bytes_min: 2 << 20, ..Settings::default().room_ahead };
    let options = commitlog::LogOptions { segment_bytes: 1 << 20, ..Settings::default().options };
    let settings = Settings { room_ahead: rules, options, ..Settings::default() };
    let mut world = World::new(settings);
    world.disk.set_free_bytes(1 << 20);
    for _ in 0..8 {
        world.append_synced(&batch(Codec::None, NOW.0, 1, 6000));
    }
    world.settle();
    let path = format!("{DIRECTORY}/{SEGMENT}");
    let length = world.disk.edit(&path, |bytes| bytes.len()) as u64;
    assert_eq!(length, world.log.size_bytes().next_multiple_of(4096));
}
