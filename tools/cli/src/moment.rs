//! Moments as people write them: Unix milliseconds, a date and time of UTC, or how long ago.
//!
//! Owns the parsing and the printing. It never asks a clock: `now` is an argument.

use std::fmt;

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Years that have four digits.
const YEARS: std::ops::RangeInclusive<i64> = 1970..=9999;

/// A moment, perhaps in relation to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Unix milliseconds.
    At(i64),
    /// So many milliseconds ago.
    Ago(i64),
}

impl Moment {
    /// Parses one; `None` for what is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(length) = text.strip_prefix('-') {
            return duration_ms(length).map(Self::Ago);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().map(Self::At);
        }
        date_ms(text).map(Self::At)
    }

    /// Unix milliseconds.
    pub(crate) fn unix_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::At(at) => at,
            Self::Ago(length) => now_ms.saturating_sub(length).max(0),
        }
    }
}

/// `90s`, `15m`, `2h`, `7d`.
fn duration_ms(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let count: i64 = text.strip_suffix(unit)?.parse().ok().filter(|count| *count >= 0)?;
    let unit_ms = match unit {
        's' => SECOND_MS,
        'm' => MINUTE_MS,
        'h' => HOUR_MS,
        'd' => DAY_MS,
        _ => return None,
    };
    count.checked_mul(unit_ms)
}

/// `2026-11-29`, `2026-11-29T20:15`, `2026-11-29T20:15:30`, `2026-11-29T20:15:30.250`, each with or without `Z`.
fn date_ms(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let [year, month, day] = numbers(date, '-', &[4, 2, 2])?[..] else { return None };
    let (clock, millis) = match time.split_once('.') {
        Some((clock, millis)) => (clock, numbers(millis, '.', &[3])?[0]),
        None => (time, 0),
    };
    let widths: &[usize] = if clock.len() > 5 { &[2, 2, 2] } else { &[2, 2] };
    let clock = numbers(clock, ':', widths)?;
    let (hour, minute) = (clock[0], clock[1]);
    let second = clock.get(2).copied().unwrap_or(0);
    let is_real = YEARS.contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let in_day = hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + millis;
    is_real.then(|| days_before(year, month, day) * DAY_MS + in_day)
}

/// Numbers of exactly these widths.
fn numbers(text: &str, separator: char, widths: &[usize]) -> Option<Vec<i64>> {
    let parts: Vec<&str> = text.split(separator).collect();
    if parts.len() != widths.len() {
        return None;
    }
    let number = |(part, width): (&&str, &usize)| {
        let is_number = part.len() == *width && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|_| is_number)
    };
    parts.iter().zip(widths).map(number).collect()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to this one.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    let months: i64 = (1..month).map(|month| days_of(year, month)).sum();
    years + months + day - 1
}

/// Unix milliseconds as a date and time of UTC; what is not within 1970 to 9999 as the number that it is.
pub(crate) struct Utc(pub(crate) i64);

impl fmt::Display for Utc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, in_day) = (self.0.div_euclid(DAY_MS), self.0.rem_euclid(DAY_MS));
        // Leap days make it too high by six at most.
        let mut year = 1970_i64.saturating_add(days / 365);
        if days < 0 || year > YEARS.end() + 6 {
            return write!(formatter, "{}", self.0);
        }
        while days_before(year, 1, 1) > days {
            year -= 1;
        }
        if !YEARS.contains(&year) {
            return write!(formatter, "{}", self.0);
        }
        let mut day = days - days_before(year, 1, 1);
        let mut month = 1;
        while day >= days_of(year, month) {
            day -= days_of(year, month);
            month += 1;
        }
        let (hour, minute) = (in_day / HOUR_MS, in_day % HOUR_MS / MINUTE_MS);
        let (second, millis) = (in_day % MINUTE_MS / SECOND_MS, in_day % SECOND_MS);
        let day = day + 1;
        write!(
            formatter,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        let check = |text: &str, expected: Option<Moment>| {
            assert_eq!(Moment::parse(text), expected, "{text}");
        };
        let at = |at| Some(Moment::At(at));
        check("0", at(0));
        check("1700000000000", at(1_700_000_000_000));
        check("1970-01-01", at(0));
        check("2023-11-14T22:13:20Z", at(1_700_000_000_000));
        check("2023-11-14T22:13:20.250Z", at(1_700_000_000_250));
        check("2023-11-14 22:13", at(1_699_999_980_000));
        check("2000-02-29", at(951_782_400_000));
        check("2100-03-01", at(4_107_542_400_000));
        check("-90s", Some(Moment::Ago(90_000)));
        check("-15m", Some(Moment::Ago(900_000)));
        check("-2h", Some(Moment::Ago(7_200_000)));
        check("-7d", Some(Moment::Ago(604_800_000)));
        for wrong in [
            "",
            "-",
            "-h",
            "-1",
            "-1y",
            "--1h",
            "yesterday",
            "2023-02-29",
            "2100-02-29",
            "2023-13-01",
            "2023-00-01",
            "2023-1-1",
            "2023-01-01T24:00",
            "2023-01-01T00:60",
            "2023-01-01T",
            "1969-12-31",
            "2023-01-01T00:00:00.1",
            "2023-01-01T00:00:00+01:00",
            "99999999999999999999",
            "-99999999999999999999d",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn moments_are_printed_as_they_are_read() {
        let check = |ms: i64, expected: &str| {
            assert_eq!(Utc(ms).to_string(), expected);
            assert_eq!(Moment::parse(expected), Some(Moment::At(ms)));
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(1_700_000_000_250, "2023-11-14T22:13:20.250Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(4_102_444_799_999, "2099-12-31T23:59:59.999Z");
        check(253_402_300_799_999, "9999-12-31T23:59:59.999Z");
        for day in (0..2_932_896).step_by(97) {
            let ms = day * DAY_MS;
            assert_eq!(Moment::parse(&Utc(ms).to_string()), Some(Moment::At(ms)));
        }
        assert_eq!(Utc(-1).to_string(), "-1");
        assert_eq!(Utc(i64::MAX).to_string(), i64::MAX.to_string());
    }

    #[test]
    fn how_long_ago_needs_a_clock_and_stops_at_the_epoch() {
        assert_eq!(Moment::Ago(1_000).unix_ms(5_000), 4_000);
        assert_eq!(Moment::Ago(i64::MAX).unix_ms(5_000), 0);
        assert_eq!(Moment::At(7).unix_ms(5_000), 7);
    }
}
