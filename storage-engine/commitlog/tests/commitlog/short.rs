//! Segments that are shorter than their checkpoint: what is left is served, what is gone is said, no offset is given twice.

use commitlog::{LogOptions, ReadError};
use record::{BatchHeader, Codec, Offset};

use crate::support::world::{DIRECTORY, NOW, Settings, World, batch};

fn path() -> String {
    format!("{DIRECTORY}/{:020}.log", 0)
}

/// Twenty batches of a record each, in the checkpoint; the file then loses what `keep` does not leave.
fn shortened(keep: impl Fn(&World) -> usize) -> World {
    let settings = Settings { tail_cache_bytes: 0, read_cache_bytes: 0, ..Settings::default() };
    let mut world = World::new(settings);
    world.fill(20, 1, 1000);
    world.checkpoint();
    let keep = keep(&world);
    world.disk.edit(&path(), |bytes| bytes.truncate(keep));
    world.crash()
}

fn bytes_of(world: &World, batches: usize) -> usize {
    world.model[..batches].iter().map(Vec::len).sum()
}

/// Reads each offset on its own: right, or refused as part of `lost`.
fn check(world: &World, lost: &[std::ops::Range<i64>]) {
    for expected in &world.model {
        let base = BatchHeader::parse(expected).unwrap().base_offset;
        let found = world.read_at(base, 1);
        match lost.iter().find(|lost| lost.contains(&base.0)) {
            Some(lost) => {
                let range = Offset(lost.start)..Offset(lost.end);
                assert_eq!(found, Err(ReadError::Damaged { range }), "{base}");
            }
            None => assert!(found.unwrap().0 == *expected, "{base}"),
        }
    }
}

/// The offsets of the model's batches that were appended at `end` and later follow the lost ones.
fn append(world: &mut World, count: usize) {
    world.fill(count, 1, 100);
}

#[test]
fn lost_acknowledged_offsets_are_damage_and_are_never_given_again() {
    for torn_bytes in [0, 300] {
        let mut world = shortened(|world| bytes_of(world, 17) + torn_bytes);
        assert_eq!(world.log.ends().durable(), Offset(20));
        assert_eq!(world.report.lost, Some(Offset(17)..Offset(20)));
        let lost = 17..20;
        check(&world, std::slice::from_ref(&lost));
        let [damage] = &world.store.damage()[..] else { panic!("{:?}", world.store.damage()) };
        assert_eq!(damage.offsets, Offset(17)..Offset(20));
        // What is left of the torn batch is kept aside.
        assert_eq!(world.report.strays.len(), usize::from(torn_bytes > 0));
        append(&mut world, 5);
        assert_eq!(world.log.ends().durable(), Offset(25));
        check(&world, std::slice::from_ref(&lost));
        // Once under the old checkpoint, once under a new one, once after a clean stop.
        let world = world.crash();
        assert_eq!(world.log.ends().durable(), Offset(25));
        check(&world, std::slice::from_ref(&lost));
        world.checkpoint();
        let mut world = world.crash();
        check(&world, std::slice::from_ref(&lost));
        append(&mut world, 1);
        let world = world.stop().start();
        assert_eq!(world.log.ends().durable(), Offset(26));
        check(&world, std::slice::from_ref(&lost));
    }
}

#[test]
fn a_flipped_bit_below_the_checkpoint_costs_its_batch_and_nothing_behind_it() {
    let world = shortened(|world| {
        let position = bytes_of(world, 5);
        world.disk.edit(&path(), |bytes| bytes[position + 200] ^= 1);
        bytes_of(world, 17)
    });
    assert_eq!(world.log.ends().durable(), Offset(20));
    check(&world, &[5..6, 17..20]);
    assert_eq!(world.store.damage().len(), 2, "{:?}", world.store.damage());
}

#[test]
fn the_last_whole_batch_behind_damage_is_served_where_the_torn_one_bears_out_its_offset() {
    let damaged_before_the_last = |torn_bytes| {
        shortened(|world| {
            let position = bytes_of(world, 15);
            world.disk.edit(&path(), |bytes| bytes[position..position + 61].fill(0x55));
            bytes_of(world, 17) + torn_bytes
        })
    };
    let world = damaged_before_the_last(300);
    assert_eq!(world.log.ends().durable(), Offset(20));
    check(&world, &[15..16, 17..20]);
    // Without a word of that header nothing says which offsets the batch has: no checksum covers them.
    for torn_bytes in [0, 40] {
        check(&damaged_before_the_last(torn_bytes), std::slice::from_ref(&(15..20)));
    }
}

#[test]
fn an_emptied_segment_is_damage_from_its_first_offset() {
    let mut world = shortened(|_| 0);
    assert_eq!(world.log.ends().durable(), Offset(20));
    let lost = 0..20;
    check(&world, std::slice::from_ref(&lost));
    append(&mut world, 3);
    let world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(23));
    check(&world, std::slice::from_ref(&lost));
}

#[test]
fn producers_keep_what_their_snapshot_knows_of_lost_batches() {
    let settings = Settings { tail_cache_bytes: 0, ..Settings::default() };
    let mut world = World::new(settings);
    world.fill(20, 1, 1000);
    let fold = world.fold.borrow().clone();
    let stopped = world.stop();
    let keep: usize = stopped.model[..17].iter().map(Vec::len).sum();
    stopped.disk.edit(&path(), |bytes| bytes.truncate(keep));
    let world = stopped.start();
    assert_eq!(*world.fold.borrow(), fold);
    assert_eq!(world.log.ends().durable(), Offset(20));
}

#[test]
fn a_lost_tail_is_said_though_more_is_damaged_before_it_than_is_remembered() {
    let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    for _ in 0..2_400 {
        world.append(&batch(Codec::None, NOW.0, 1, 10));
    }
    world.sync();
    world.checkpoint();
    let newest = world.files(".log").pop().unwrap();
    assert_eq!(newest, format!("{:020}.log", 0), "one segment");
    let batch_bytes = world.model[0].len();
    world.disk.edit(&path(), |bytes| {
        bytes.truncate(2_398 * batch_bytes);
        bytes.chunks_mut(2 * batch_bytes).for_each(|two| two[batch_bytes - 1] ^= 1);
    });
    let world = world.crash();
    assert_eq!(world.report.lost, Some(Offset(2_398)..Offset(2_400)));
    let damage = world.store.damage();
    assert_eq!(damage.len(), 1024);
    assert!(damage.iter().any(|one| one.offsets == (Offset(2_398)..Offset(2_400))));
    assert_eq!(damage[0].offsets, Offset(0)..Offset(1));
}
