use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn table(entries: &[(i32, i64)]) -> EpochTable {
    let mut table = EpochTable::new();
    for (epoch, start) in entries {
        assert!(table.assign(LeaderEpoch(*epoch), Offset(*start)));
    }
    table
}

fn pairs(table: &EpochTable) -> Vec<(i32, i64)> {
    table.entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
}

#[test]
fn assign_keeps_both_columns_ascending() {
    let check = |before: &[(i32, i64)], (epoch, offset): (i32, i64), after: &[(i32, i64)]| {
        let mut table = table(before);
        let changed = table.assign(LeaderEpoch(epoch), Offset(offset));
        assert_eq!(pairs(&table), after, "{before:?} + {epoch}@{offset}");
        assert_eq!(changed, before != after, "{before:?} + {epoch}@{offset}");
    };
    check(&[], (0, 0), &[(0, 0)]);
    check(&[], (-1, 0), &[]);
    check(&[(0, 0)], (0, 50), &[(0, 0)]);
    check(&[(0, 0)], (2, 10), &[(0, 0), (2, 10)]);
    // Nothing was written in epoch 1: epoch 2 starts where it would have.
    check(&[(0, 0), (1, 10)], (2, 10), &[(0, 0), (2, 10)]);
    check(&[(0, 0), (1, 10)], (3, 5), &[(0, 0), (3, 5)]);
    // A flipped bit in the one field the checksum does not cover heals with the next batch.
    check(&[(0, 0), (9, 10)], (0, 11), &[(0, 0)]);
    check(&[(0, 0), (9, 10)], (1, 11), &[(0, 0), (1, 11)]);
    check(&[(5, 7)], (5, 3), &[(5, 3)]);
}

#[test]
fn end_offsets_follow_kafkas_rule() {
    let table = table(&[(2, 10), (5, 20), (6, 35)]);
    let check = |asked, expected: Option<(i32, i64)>| {
        let end = table.end_offset_for(LeaderEpoch(asked), Offset(40));
        assert_eq!(end.map(|end| (end.epoch.0, end.end_offset.0)), expected, "{asked}");
    };
    check(-1, None);
    // Below the first known epoch: where that one starts, under the number asked for (P23).
    check(0, Some((0, 10)));
    check(2, Some((2, 20)));
    check(3, Some((2, 20)));
    check(4, Some((2, 20)));
    check(5, Some((5, 35)));
    check(6, Some((6, 40)));
    check(7, None);
    assert_eq!(EpochTable::new().end_offset_for(LeaderEpoch(0), Offset(0)), None);
}

#[test]
fn truncation_cuts_the_table_with_the_log() {
    let tail = |end, expected: &[(i32, i64)]| {
        let mut table = table(&[(2, 10), (5, 20), (6, 35)]);
        assert_eq!(table.truncate_tail(Offset(end)), expected.len() < 3, "{end}");
        assert_eq!(pairs(&table), expected, "{end}");
    };
    tail(36, &[(2, 10), (5, 20), (6, 35)]);
    tail(35, &[(2, 10), (5, 20)]);
    tail(20, &[(2, 10)]);
    tail(0, &[]);
    let head = |start, expected: &[(i32, i64)]| {
        let mut table = table(&[(2, 10), (5, 20), (6, 35)]);
        let changed = table.truncate_head(Offset(start));
        assert_eq!(pairs(&table), expected, "{start}");
        assert_eq!(changed, expected[0] != (2, 10), "{start}");
    };
    head(0, &[(2, 10), (5, 20), (6, 35)]);
    head(10, &[(2, 10), (5, 20), (6, 35)]);
    head(15, &[(2, 15), (5, 20), (6, 35)]);
    head(20, &[(5, 20), (6, 35)]);
    head(34, &[(5, 34), (6, 35)]);
    head(99, &[(6, 99)]);
}

#[test]
fn epoch_of_an_offset() {
    let table = table(&[(2, 10), (5, 20)]);
    let epochs = [9, 10, 19, 20, 99].map(|offset| table.epoch_at(Offset(offset)).map(|e| e.0));
    assert_eq!(epochs, [None, Some(2), Some(2), Some(5), Some(5)]);
}

#[test]
fn checkpoint_text_is_kafkas() {
    let table = table(&[(0, 0), (3, 4711)]);
    assert_eq!(table.encode(), "0\n2\n0 0\n3 4711\n");
    assert_eq!(EpochTable::decode(b"0\n2\n0 0\n3 4711\n"), Ok(table));
    assert_eq!(EpochTable::decode(b"0\n0\n"), Ok(EpochTable::new()));
}

#[test]
fn a_damaged_checkpoint_is_refused_with_its_line() {
    use EpochFileError::{Count, Malformed, Order, Truncated, Version};
    let check = |file: &[u8], expected| assert_eq!(EpochTable::decode(file), Err(expected));
    check(b"", Truncated { line: 1 });
    check(b"0\n", Truncated { line: 2 });
    check(b"1\n0\n", Version { version: 1 });
    check(b"0\n1\n", Count { claimed: 1, found: 0 });
    check(b"0\n1\n0 0\n1 1\n", Count { claimed: 1, found: 2 });
    check(b"0\n18446744073709551615\n0 0\n", Count { claimed: u64::MAX, found: 1 });
    check(b"0\n1\n0 47", Truncated { line: 3 });
    check(b"0\n2\n5 0\n5 9\n", Order { line: 4 });
    check(b"0\n2\n5 9\n6 9\n", Order { line: 4 });
    check(b"0\n1\n-1 0\n", Malformed { line: 3 });
    check(b"0\n1\n2147483648 0\n", Malformed { line: 3 });
    check(b"0\n1\n0  0\n", Malformed { line: 3 });
    check(b"0\n1\n0 0 \n", Malformed { line: 3 });
    check(b"\0\0\0\0\n", Malformed { line: 1 });
}

proptest! {
    #[test]
    fn random_histories_keep_the_invariant_and_round_trip(
        steps in prop::collection::vec((0_u8..3, 0_i32..8, 0_i64..64), 0..40),
    ) {
        let mut table = EpochTable::new();
        for (kind, epoch, offset) in steps {
            match kind {
                0 => { table.assign(LeaderEpoch(epoch), Offset(offset)); }
                1 => { table.truncate_tail(Offset(offset)); }
                _ => { table.truncate_head(Offset(offset)); }
            }
            for pair in table.entries().windows(2) {
                prop_assert!(pair[0].epoch < pair[1].epoch);
                prop_assert!(pair[0].start_offset < pair[1].start_offset);
            }
        }
        prop_assert_eq!(EpochTable::decode(table.encode().as_bytes()), Ok(table));
    }

    #[test]
    fn any_bytes_are_read_or_refused(file in "[0-9 \\n-]{0,40}") {
        if let Ok(table) = EpochTable::decode(file.as_bytes()) {
            prop_assert_eq!(EpochTable::decode(table.encode().as_bytes()), Ok(table));
        }
    }
}
