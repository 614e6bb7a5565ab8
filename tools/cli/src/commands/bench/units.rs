//! Sizes and durations as people type them on the command line of a bench.
//!
//! Owns the suffixes. kB, MB, GB are powers of ten, as disks and networks count; KiB, MiB, GiB are powers of two.

use std::time::Duration;

const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// `1048576`, `1MiB`, `64KiB`, `10MB`.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let found = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = found.unwrap_or((text, 1));
    let number: u64 = number.trim_end().parse().map_err(|_| {
        "must be a whole number of bytes, with kB, MB, GB, KiB, MiB or GiB behind it or nothing"
            .to_owned()
    })?;
    number.checked_mul(factor).ok_or_else(|| "is too large".to_owned())
}

/// The same, where a 32-bit number is enough.
pub(super) fn parse_bytes_u32(text: &str) -> Result<u32, String> {
    u32::try_from(parse_bytes(text)?).map_err(|_| "is too large".to_owned())
}

/// `30`, `30s`, `500ms`, `2m`, `1h`; a number alone counts seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let found = units.iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, *ms)));
    let (number, ms) = found.unwrap_or((text, 1_000));
    let number: u64 = number
        .parse()
        .map_err(|_| "must be a whole number of seconds, or one with ms, s, m or h".to_owned())?;
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(|| "is too long".to_owned())
}

/// Bytes for people: `1.25 GB`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn show_bytes(bytes: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let bytes = bytes as f64;
    let unit = units.into_iter().find(|(_, factor)| bytes >= *factor);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, factor)| format!("{:.2} {unit}", bytes / factor),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_type_them() {
        for (text, expected) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("1MiB", 1 << 20),
            ("64 KiB", 65_536),
            ("10MB", 10_000_000),
            ("2GB", 2_000_000_000),
        ] {
            assert_eq!(parse_bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "MB", "-1", "1.5GB", "1 M", "99999999999TB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert!(parse_bytes_u32("4GiB").is_err());
    }

    #[test]
    fn durations_as_people_type_them() {
        for (text, ms) in
            [("30", 30_000), ("0", 0), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "1.5", "-3", "3d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_with_three_digits_or_so() {
        for (bytes, expected) in
            [(0, "0 B"), (999, "999 B"), (1_500, "1.50 kB"), (2_340_000_000, "2.34 GB")]
        {
            assert_eq!(show_bytes(bytes), expected);
        }
    }
}
