//! Bytes that rot: exactly the batch that is hit is refused, indexes are made again, everything else is served.

use commitlog::{LogOptions, ReadError};
use record::{BatchHeader, Codec, Offset, Timestamp};

use crate::support::world::{DIRECTORY, NOW, Settings, Stopped, World, batch};

/// Reads batch by batch: bytes, or the offsets that are refused.
fn read_all(world: &World) -> Vec<Result<Vec<u8>, std::ops::Range<Offset>>> {
    let mut from = Offset(0);
    let mut found = Vec::new();
    while from < world.log.ends().durable() {
        match world.read_at(from, 1) {
            Ok((bytes, next)) => {
                found.push(Ok(bytes));
                from = next;
            }
            Err(ReadError::Damaged { range }) => {
                from = range.end;
                found.push(Err(range));
            }
            Err(other) => panic!("{other}"),
        }
    }
    found
}

#[test]
fn one_flipped_bit_in_a_sealed_segment_costs_one_batch() {
    let size = World::sealed().model[0].len();
    // Every field of the header, and the records.
    let bits = (0..61 * 8).step_by(5).chain([61 * 8 + 5, size * 8 - 1]);
    for (round, bit) in bits.enumerate() {
        let hit = [0, 5, 14][round % 3];
        let world = World::sealed();
        let position: usize = world.model[..hit].iter().map(Vec::len).sum();
        let path = format!("{DIRECTORY}/{:020}.log", 0);
        world.disk.edit(&path, |bytes| bytes[position + bit / 8] ^= 1 << (bit % 8));
        let header = BatchHeader::parse(&world.model[hit]).unwrap();
        let refused = header.base_offset..header.next_offset();
        let world = if round % 2 == 0 { world.crash() } else { world.stop().start() };
        let found = read_all(&world);
        let expected =
            world.model.iter().enumerate().map(|(at, bytes)| {
                if at == hit { Err(refused.clone()) } else { Ok(bytes.clone()) }
            });
        assert!(found == expected.collect::<Vec<_>>(), "batch {hit}, bit {bit}");
        let [damage] = &world.store.damage()[..] else {
            panic!("batch {hit}, bit {bit}: {:?}", world.store.damage())
        };
        assert_eq!(damage.offsets, refused);
        assert_eq!(damage.positions.start, position as u64);
    }
}

#[test]
fn the_rest_of_a_segment_is_served_after_a_hole() {
    let world = World::sealed();
    let position: usize = world.model[..7].iter().map(Vec::len).sum();
    let to: usize = world.model[..10].iter().map(Vec::len).sum();
    let path = format!("{DIRECTORY}/{:020}.log", 0);
    world.disk.edit(&path, |bytes| bytes[position + 1..to - 1].fill(0x55));
    let world = world.crash();
    let found = read_all(&world);
    assert_eq!(found.len(), world.model.len() - 2);
    assert_eq!(found[7], Err(Offset(14)..Offset(20)));
    assert_eq!(found[8].as_ref().unwrap(), &world.model[10]);
}

fn damage_indexes(stopped: &Stopped, damage: impl Fn(&mut Vec<u8>)) {
    for name in stopped.disk.names(DIRECTORY) {
        if name.ends_with("index") {
            stopped.disk.edit(&format!("{DIRECTORY}/{name}"), &damage);
        }
    }
}

#[test]
fn a_damaged_index_is_made_again_and_every_answer_is_right() {
    type Damage = (&'static str, fn(&mut Vec<u8>));
    let kinds: [Damage; 7] = [
        ("zeroed", |bytes| bytes.fill(0)),
        ("seven bytes", |bytes| bytes.truncate(7)),
        ("empty", Vec::clear),
        ("half", |bytes| bytes.truncate(bytes.len() / 48 * 24)),
        ("random", |bytes| {
            let mut state = 12345_u32;
            for byte in bytes.iter_mut() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (state >> 24) as u8;
            }
        }),
        ("shifted", |bytes| {
            for byte in bytes.iter_mut().skip(7).step_by(8) {
                *byte = byte.wrapping_add(1);
            }
        }),
        ("long", |bytes| bytes.extend_from_slice(&[0xff; 24])),
    ];
    for (name, damage) in kinds {
        let stopped = World::sealed().stop();
        damage_indexes(&stopped, damage);
        let world = stopped.start();
        for (index, expected) in world.model.iter().enumerate().rev() {
            let (bytes, _) = world.read_at(Offset(index as i64 * 2 + 1), 1).unwrap();
            assert!(&bytes == expected, "{name}: batch {index}");
            let target = Timestamp(NOW.0 + index as i64 * 10 + 1);
            let found = world
                .executor
                .run(world.log.offset_for_timestamp(target, world.log.ends().durable()))
                .unwrap()
                .unwrap();
            assert_eq!(found.offset, Offset(index as i64 * 2 + 1), "{name}");
        }
        world.settle();
        assert_eq!(world.store.damage(), [], "{name}");
    }
}

#[test]
fn deleted_indexes_come_back() {
    let stopped = World::sealed().stop();
    let names: Vec<String> =
        stopped.disk.names(DIRECTORY).into_iter().filter(|name| name.ends_with("index")).collect();
    let path = |name: &str| format!("{DIRECTORY}/{name}");
    let before: Vec<Vec<u8>> =
        names.iter().map(|name| stopped.disk.edit(&path(name), |bytes| bytes.clone())).collect();
    for name in &names {
        stopped.disk.delete(&path(name));
    }
    let world = stopped.start();
    world.settle();
    let stopped = world.stop();
    for (name, before) in names.iter().zip(before) {
        let after = stopped.disk.edit(&path(name), |bytes| bytes.clone());
        assert!(after == before, "{name}");
    }
}

#[test]
fn an_index_ahead_of_its_log_proves_nothing() {
    let mut stopped = World::sealed().stop();
    let names = stopped.disk.names(DIRECTORY);
    let newest = names.iter().rfind(|name| name.ends_with(".log")).unwrap();
    let cut: usize = stopped.model[117..].iter().map(Vec::len).sum();
    let path = format!("{DIRECTORY}/{newest}");
    stopped.disk.edit(&path, |bytes| bytes.truncate(bytes.len() - cut));
    stopped.model.truncate(117);
    let mut world = stopped.start();
    // The offsets that the checkpoint knows are never given to other records.
    assert_eq!(world.log.ends().durable(), Offset(240));
    for index in 0..20 {
        world.append_synced(&batch(Codec::None, NOW.0 + 2000 + index, 2, 1900));
    }
    let world = world.stop().start();
    let mut found = read_all(&world);
    assert_eq!(found.remove(117), Err(Offset(234)..Offset(240)));
    assert!(found == world.model.iter().cloned().map(Ok).collect::<Vec<_>>());
}

#[test]
fn first_segments_that_are_gone_are_damage_and_not_a_new_start() {
    let mut world = World::new(Settings::default());
    world.fill(120, 2, 1000);
    world.settle();
    world.checkpoint();
    let names = world.files(".log");
    assert!(names.len() >= 3);
    world.disk.delete(&format!("{DIRECTORY}/{}", names[0]));
    let first = Offset(names[1].trim_end_matches(".log").parse().unwrap());
    let world = world.crash();
    assert_eq!(world.log.ends().log_start(), Offset(0));
    let refused = ReadError::Damaged { range: Offset(0)..first };
    assert_eq!(world.read_at(Offset(0), 10), Err(refused.clone()));
    assert_eq!(world.read_at(Offset(first.0 - 1), 10), Err(refused));
    let (_, next) = world.read_at(first, 10).unwrap();
    assert_eq!(next, Offset(first.0 + 2));
}

#[test]
fn damage_behind_missing_segments_is_passed() {
    let settings = Settings { tail_cache_bytes: 0, read_cache_bytes: 0, ..Settings::default() };
    let mut world = World::new(settings);
    world.fill(120, 2, 1000);
    world.settle();
    world.checkpoint();
    let names = world.files(".log");
    assert!(names.len() >= 3);
    world.disk.delete(&format!("{DIRECTORY}/{}", names[0]));
    let first = Offset(names[1].trim_end_matches(".log").parse().unwrap());
    world.disk.edit(&format!("{DIRECTORY}/{}", names[1]), |bytes| bytes[100] ^= 1);
    let world = world.crash();
    let second = Offset(first.0 + 2);
    let (_, next) = world.read_at(second, 10).unwrap();
    assert_eq!(next, Offset(second.0 + 2));
    assert_eq!(
        world.read_at(first, 10),
        Err(ReadError::Damaged { range: first..second }),
        "a batch of its own, apart from what is missing"
    );
    let missing = ReadError::Damaged { range: Offset(0)..first };
    assert_eq!(world.read_at(Offset(0), 10), Err(missing));
    // Nothing reads on for ever, so that the log can be closed.
    world.stop();
}

#[test]
fn a_batch_whose_base_offset_rots_is_refused_listed_and_never_served_as_another() {
    let mut settings = Settings { tail_cache_bytes: 0, ..Settings::default() };
    // An entry for every batch: the read begins at the one that is hit.
    settings.options.index_interval_bytes = 0;
    let mut world = World::new(settings);
    world.fill(20, 2, 900);
    let position: usize = world.model[..10].iter().map(Vec::len).sum();
    let path = format!("{DIRECTORY}/{:020}.log", 0);
    // 20 becomes 28, and the checksum does not cover it.
    world.disk.edit(&path, |bytes| bytes[position + 7] ^= 8);
    let range = Offset(20)..Offset(22);
    assert_eq!(world.read_at(Offset(21), 1), Err(ReadError::Damaged { range: range.clone() }));
    let listed = world.store.damage();
    let listed: Vec<_> = listed.iter().map(|one| (one.segment, one.offsets.clone())).collect();
    assert_eq!(listed, [(Offset(0), range)]);
    for at in (0..20).filter(|at| *at != 10) {
        let (bytes, _) = world.read_at(Offset(at as i64 * 2), 1).unwrap();
        assert!(bytes == world.model[at], "batch {at}");
    }
}

/// Bytes of a batch that a row hits. No checksum covers the first two, and the next three say where a batch goes on.
const BASE: usize = 7;
const LENGTH: usize = 11;
const MAGIC: usize = 16;
const DELTA: usize = 26;
const PAYLOAD: usize = 80;

/// What it is, what is hit (batch, byte, bits), and the offsets that are refused.
type Row = (&'static str, &'static [(usize, usize, u8)], &'static [(i64, i64)]);

/// Batches of ten records, 0 to 60.
const ROWS: [Row; 31] = [
    ("payload, then base up", &[(0, PAYLOAD, 1), (1, BASE, 16)], &[(0, 20)]),
    ("payload, then base down", &[(0, PAYLOAD, 1), (1, BASE, 8)], &[(0, 20)]),
    ("header, then base up", &[(0, MAGIC, 1), (1, BASE, 16)], &[(0, 20)]),
    ("header, then base down", &[(0, MAGIC, 1), (1, BASE, 8)], &[(0, 20)]),
    (
        "payload, then base up, then header",
        &[(0, PAYLOAD, 1), (1, BASE, 16), (2, MAGIC, 1)],
        &[(0, 30)],
    ),
    (
        "payload, then base down, then payload",
        &[(0, PAYLOAD, 1), (1, BASE, 8), (2, PAYLOAD, 1)],
        &[(0, 30)],
    ),
    (
        "header, then base down, then base up",
        &[(0, MAGIC, 1), (1, BASE, 8), (2, BASE, 8)],
        &[(0, 30)],
    ),
    ("last offset", &[(0, DELTA, 16)], &[(0, 10)]),
    ("last offset, next but one", &[(0, DELTA, 16), (2, MAGIC, 1)], &[(0, 10), (20, 30)]),
    ("last offset, then base", &[(0, DELTA, 16), (1, BASE, 8)], &[(0, 20)]),
    ("last offset, next but one's base", &[(0, DELTA, 16), (2, BASE, 8)], &[(0, 10), (20, 30)]),
    ("length, next but one", &[(0, LENGTH, 1), (2, MAGIC, 1)], &[(0, 10), (20, 30)]),
    ("payload, next but one's base", &[(0, PAYLOAD, 1), (2, BASE, 8)], &[(0, 10), (20, 30)]),
    ("payload, next but one's header", &[(0, PAYLOAD, 1), (2, MAGIC, 1)], &[(0, 10), (20, 30)]),
    ("header, next but one's base up", &[(0, MAGIC, 1), (2, BASE, 8)], &[(0, 10), (20, 30)]),
    ("header, next but one's base down", &[(0, MAGIC, 1), (2, BASE, 16)], &[(0, 10), (20, 30)]),
    // Nothing bears out what lies between: not served is better than served wrong.
    ("header, next but one's header", &[(0, MAGIC, 1), (2, MAGIC, 1)], &[(0, 30)]),
    ("base of the last but one, behind a header", &[(3, MAGIC, 1), (4, BASE, 8)], &[(30, 50)]),
    ("base of the last up, behind a header", &[(4, MAGIC, 1), (5, BASE, 8)], &[(40, 60)]),
    ("base of the last down, behind a header", &[(4, MAGIC, 1), (5, BASE, 2)], &[(40, 60)]),
    ("base of the last, behind a payload", &[(4, PAYLOAD, 1), (5, BASE, 2)], &[(40, 60)]),
    // The same bit of two base offsets: the second bears out the first, and both are wrong.
    ("payload, then two bases", &[(0, PAYLOAD, 1), (1, BASE, 1), (2, BASE, 1)], &[(0, 30)]),
    ("header, then two bases", &[(0, MAGIC, 1), (1, BASE, 1), (2, BASE, 1)], &[(0, 30)]),
    ("last offset, then two bases", &[(0, DELTA, 16), (1, BASE, 1), (2, BASE, 1)], &[(0, 30)]),
    ("two bases", &[(1, BASE, 1), (2, BASE, 1)], &[(10, 30)]),
    ("two bases at the end", &[(4, BASE, 1), (5, BASE, 1)], &[(40, 60)]),
    (
        "payload, then two bases at the end",
        &[(3, PAYLOAD, 1), (4, BASE, 1), (5, BASE, 1)],
        &[(30, 60)],
    ),
    (
        "payload and base, twice",
        &[(0, PAYLOAD, 1), (1, BASE, 1), (2, PAYLOAD, 1), (3, BASE, 1)],
        &[(0, 40)],
    ),
    (
        "header and base, twice",
        &[(0, MAGIC, 1), (1, BASE, 1), (2, MAGIC, 1), (3, BASE, 1)],
        &[(0, 40)],
    ),
    (
        "payload and base, twice, up to the end",
        &[(2, PAYLOAD, 1), (3, BASE, 1), (4, PAYLOAD, 1), (5, BASE, 1)],
        &[(20, 60)],
    ),
    ("last offset, and the base that it leads to", &[(0, DELTA, 8), (1, BASE, 8)], &[(0, 20)]),
];

#[test]
fn what_lies_behind_rotten_bytes_is_served_if_its_neighbours_bear_it_out_and_never_under_other_offsets()
 {
    for (name, hits, refused) in ROWS {
        let options = LogOptions { segment_bytes: 7_500, ..LogOptions::default() };
        let (tail_cache_bytes, read_cache_bytes) = (0, 0);
        let mut world = World::new(Settings {
            options,
            tail_cache_bytes,
            read_cache_bytes,
            ..Settings::default()
        });
        // The seventh does not fit: the segment ends with the sixth.
        world.fill(7, 10, 100);
        world.settle();
        assert_eq!(world.log.sealed_from(Offset(0)), Some(Offset(0)));
        assert_eq!(world.files(".log")[1], format!("{:020}.log", 60));
        let path = format!("{DIRECTORY}/{:020}.log", 0);
        for (hit, at, bits) in hits {
            let position: usize = world.model[..*hit].iter().map(Vec::len).sum();
            world.disk.edit(&path, |bytes| bytes[position + at] ^= bits);
        }
        let refused = refused.iter().map(|(from, to)| Offset(*from)..Offset(*to));
        let refused: Vec<std::ops::Range<Offset>> = refused.collect();
        let found = read_all(&world);
        let errors: Vec<_> = found.iter().filter_map(|one| one.clone().err()).collect();
        assert_eq!(errors, refused, "{name}");
        let right = world.model.iter().filter(|bytes| {
            let base = BatchHeader::parse(bytes).unwrap().base_offset;
            !refused.iter().any(|range| range.contains(&base))
        });
        let served: Vec<_> = found.into_iter().filter_map(Result::ok).collect();
        assert!(served.iter().eq(right), "{name}");
        let listed = world.store.damage();
        let listed: Vec<_> = listed.iter().map(|one| one.offsets.clone()).collect();
        assert_eq!(listed, refused, "{name}");
    }
}

#[test]
fn damage_that_recovery_comes_across_is_remembered_up_to_a_bound() {
    let mut world = World::new(Settings::default());
    for _ in 0..2_400 {
        world.append(&batch(Codec::None, NOW.0, 1, 10));
    }
    world.sync();
    let stopped = world.stop();
    for name in stopped.disk.names(DIRECTORY) {
        let path = format!("{DIRECTORY}/{name}");
        if name.ends_with(".snapshot") {
            // So that the batches are looked at.
            stopped.disk.delete(&path);
        } else if name.ends_with(".log") {
            let batch_bytes = stopped.model[0].len();
            stopped.disk.edit(&path, |bytes| {
                bytes.chunks_mut(2 * batch_bytes).for_each(|two| two[batch_bytes - 1] ^= 1);
            });
        }
    }
    let world = stopped.start();
    let damage = world.store.damage();
    assert_eq!(damage.len(), 1024);
    assert_eq!(damage[1].offsets, Offset(2)..Offset(3));
    // What is not remembered is refused all the same.
    assert!(matches!(world.read_at(Offset(2_398), 1), Err(ReadError::Damaged { .. })));
    assert!(world.read_at(Offset(2_399), 1).is_ok());
}

#[test]
fn damage_below_the_log_start_is_searched_once_however_often_it_is_passed() {
    let world = World::sealed();
    world.log.set_high_watermark(world.log.ends().durable());
    // Before the first entry of the index: who reads the next batch comes by.
    world.disk.edit(&format!("{DIRECTORY}/{:020}.log", 0), |bytes| bytes[100] ^= 1);
    world.log.raise_log_start(Offset(2)).unwrap();
    let read = || {
        // The cache keeps what was read last.
        world.read_at(Offset(200), 1).unwrap();
        let before = world.disk.read_bytes();
        assert!(world.read_at(Offset(2), 1).unwrap().0 == world.model[1]);
        world.disk.read_bytes() - before
    };
    let (first, second) = (read(), read());
    assert!(second < first, "{first} bytes, then {second}");
    assert_eq!((second, world.store.damage()), (read(), Vec::new()));
}
