//! "Did you mean": the known name closest to one that is unknown.
//!
//! Owns one distance (insertions, deletions, replacements) and its bound. It never looks at more than
//! [`NAME_BYTES_MAX`] bytes of what a peer sent.

use alloc::vec::Vec;

/// Longer names get no suggestion: nobody mistypes that much of a name, and the cost grows with its length.
const NAME_BYTES_MAX: usize = 128;

/// The candidate with the smallest distance from `name`, if that is at most a third of the name's length (and at least 2).
///
/// Order   the first of several equally close ones.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let distance_max = (name.len() / 3).max(2);
    candidates
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= distance_max)
        .map(|candidate| (distance(name.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Letters' case is ignored, and `_` and `-` count as `.`: the usual slips are free.
fn distance(left: &[u8], right: &[u8]) -> usize {
    let plain = |byte: &u8| match byte {
        b'_' | b'-' => b'.',
        other => other.to_ascii_lowercase(),
    };
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (left_index, left_byte) in left.iter().enumerate() {
        let mut diagonal = left_index;
        let mut previous = left_index + 1;
        if let Some(first) = row.first_mut() {
            *first = previous;
        }
        for (cell, right_byte) in row.iter_mut().skip(1).zip(right) {
            let replaced = diagonal + usize::from(plain(left_byte) != plain(right_byte));
            diagonal = *cell;
            *cell = replaced.min(previous + 1).min(diagonal + 1);
            previous = *cell;
        }
    }
    row.last().copied().unwrap_or(left.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["retention.ms", "retention.bytes", "segment.ms", "cleanup.policy"];

    #[test]
    fn the_closest_name_is_suggested_and_a_stranger_is_not() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(nearest(name, NAMES.into_iter()), expected, "{name}");
        };
        check("retention_ms", Some("retention.ms"));
        check("RETENTION.MS", Some("retention.ms"));
        check("retention.byte", Some("retention.bytes"));
        check("cleanup.polcy", Some("cleanup.policy"));
        check("segmnt.ms", Some("segment.ms"));
        check("zookeeper.connect", None);
        check("", None);
        check(&"x".repeat(100_000), None);
    }

    #[test]
    fn distance_counts_single_edits() {
        let check = |left: &str, right: &str, expected: usize| {
            assert_eq!(distance(left.as_bytes(), right.as_bytes()), expected, "{left} {right}");
        };
        check("", "", 0);
        check("abc", "", 3);
        check("", "abc", 3);
        check("kitten", "sitting", 3);
        check("a_b", "a.b", 0);
        check("ab", "ba", 2);
    }
}
