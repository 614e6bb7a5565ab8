//! Axes: where a value lies, which values are marked, and what stands beside the marks.
//!
//! Owns the choice of marks. Whatever the values are, there are a few marks, they rise, and every place is within the axis.

/// Marks of an upright linear axis, about; of the wider one of seconds.
const TICKS_WANTED: f64 = 5.0;
const SECONDS_WANTED: f64 = 8.0;
/// Decades that are all named; of more every second, third, ... is.
const DECADES_NAMED_MAX: i32 = 8;
/// Values beyond are drawn at the border: no run reaches them, and a file can hold anything.
const VALUE_MAX: f64 = 1e15;
/// The shortest and the longest latency that have a place of their own, in milliseconds: a nanosecond, and thirty years.
const MS_RANGE: (f64, f64) = (1e-6, 1e12);
/// The rarest rank that is marked: one in a million million.
const NINES_MAX: u32 = 12;

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    /// Ascending.
    pub(super) ticks: Vec<Tick>,
    /// What it counts.
    pub(super) caption: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    /// Every factor of ten is as long.
    Log,
    /// 90 %, 99 %, 99.9 %, ... lie as far apart.
    Ranks,
}

/// A mark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    /// Empty for a line without a name.
    pub(super) label: String,
}

impl Axis {
    /// From zero to `max` or a little more.
    pub(super) fn from_zero(max: f64, caption: &'static str) -> Self {
        Self::linear(max, TICKS_WANTED, caption)
    }

    fn linear(max: f64, wanted: f64, caption: &'static str) -> Self {
        let max = if max.is_finite() && max > 0.0 { max.min(VALUE_MAX) } else { 1.0 };
        let step = round_step(max / wanted);
        let count = (max / step - 1e-9).ceil().max(1.0);
        let mut ticks = Vec::new();
        let mut index = 0.0;
        while index <= count {
            let value = index * step;
            ticks.push(Tick { value, label: plain(value, step) });
            index += 1.0;
        }
        Self { scale: Scale::Linear, from: 0.0, to: count * step, ticks, caption }
    }

    /// Seconds of a run that took so long: what was measured fills the width.
    pub(super) fn seconds(max: f64) -> Self {
        let mut axis = Self::linear(max, SECONDS_WANTED, "seconds since measuring began");
        if max.is_finite() && max > 0.0 && max < axis.to {
            axis.to = max;
            axis.ticks.retain(|tick| tick.value <= max);
        }
        axis
    }

    /// Latencies between two, in milliseconds, decade by decade.
    pub(super) fn latency(min_ms: f64, max_ms: f64) -> Self {
        let within = |ms: f64| if ms.is_finite() { ms.clamp(MS_RANGE.0, MS_RANGE.1) } else { 1.0 };
        let first = decade(within(min_ms.min(max_ms)).log10().floor());
        let last = decade(within(max_ms).log10().ceil()).max(first + 1);
        let decades = last - first;
        let every = (decades + DECADES_NAMED_MAX - 1) / DECADES_NAMED_MAX;
        let mut ticks = Vec::new();
        for exponent in first..=last {
            let value = 10_f64.powi(exponent);
            let is_named = (exponent - first) % every == 0;
            ticks.push(Tick { value, label: if is_named { ms(value) } else { String::new() } });
            if exponent < last && decades <= 3 {
                for factor in [2.0, 5.0] {
                    let label = if decades <= 2 { ms(value * factor) } else { String::new() };
                    ticks.push(Tick { value: value * factor, label });
                }
            }
        }
        let (from, to) = (10_f64.powi(first), 10_f64.powi(last));
        Self { scale: Scale::Log, from, to, ticks, caption: "latency" }
    }

    /// Ranks up to the rarest of `count` values.
    #[expect(clippy::cast_precision_loss, reason = "a place on paper")]
    pub(super) fn ranks(count: u64) -> Self {
        let nines_max = (count.max(100) as f64).log10().min(f64::from(NINES_MAX));
        let mut ticks = vec![
            Tick { value: 0.0, label: "0 %".to_owned() },
            Tick { value: 0.5, label: "50 %".to_owned() },
        ];
        for nines in (1..=NINES_MAX).take_while(|nines| f64::from(*nines) <= nines_max + 1e-9) {
            let value = 1.0 - 10_f64.powf(-f64::from(nines));
            let places = nines.saturating_sub(2) as usize;
            ticks.push(Tick { value, label: format!("{:.places$} %", value * 100.0) });
        }
        let to = 1.0 - 10_f64.powf(-nines_max);
        Self { scale: Scale::Ranks, from: 0.0, to, ticks, caption: "part of the requests" }
    }

    /// Where a value lies, from 0 to 1; what is beyond the axis lies at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let measure = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(MS_RANGE.0).log10(),
            // The largest of all is at rank 1, which has no place: it is drawn at the end.
            Scale::Ranks => -(1.0 - value.clamp(0.0, 1.0 - 1e-15)).log10(),
        };
        let (from, to) = (measure(self.from), measure(self.to));
        let place = (measure(value) - from) / (to - from);
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "of a value within MS_RANGE")]
fn decade(exponent: f64) -> i32 {
    exponent as i32
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// A value on an axis with such steps.
fn plain(value: f64, step: f64) -> String {
    if value >= 1e9 || (value > 0.0 && step < 1e-6) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let places = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1].into_iter().rev();
    let places = places.take_while(|place| step < place * 9.999_999).count();
    number(value, places)
}

/// A number with so many places and its thousands apart.
pub(super) fn number(value: f64, places: usize) -> String {
    if !value.is_finite() || value.abs() >= VALUE_MAX {
        return format!("{value:.3e}");
    }
    let text = format!("{:.places$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{grouped}{rest}")
}

/// A figure with as many places as it has meaning: three digits or so, and none of a count.
pub(super) fn figure(value: f64) -> String {
    let places = match value.abs() {
        large if large >= 100.0 || large.fract() == 0.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 1.0 => 2,
        small if small >= 0.001 => 3,
        _ => 6,
    };
    number(value, places)
}

/// A time that is given in milliseconds, in the unit that suits it.
pub(super) fn ms(ms: f64) -> String {
    let units = [("s", 1_000.0), ("ms", 1.0), ("µs", 1e-3)];
    let unit = units.into_iter().find(|(_, length)| ms >= length * (1.0 - 1e-9));
    let (name, length) = unit.unwrap_or(("ns", 1e-6));
    let text = figure(ms / length);
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        let named = axis.ticks.iter().map(|tick| tick.label.as_str());
        named.filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn linear_axes_have_round_marks_from_zero() {
        for (max, expected) in [
            (873.0, vec!["0", "200", "400", "600", "800", "1,000"]),
            (10.0, vec!["0", "2", "4", "6", "8", "10"]),
            (0.07, vec!["0.00", "0.02", "0.04", "0.06", "0.08"]),
            (0.0, vec!["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
            (2.4e12, vec!["0", "5e11", "1e12", "1.5e12", "2e12", "2.5e12"]),
        ] {
            assert_eq!(labels(&Axis::from_zero(max, "")), expected, "{max}");
        }
    }

    #[test]
    fn an_axis_of_seconds_ends_with_the_run() {
        let axis = Axis::seconds(27.0);
        assert_eq!(labels(&axis), ["0", "5", "10", "15", "20", "25"]);
        assert!((axis.place(27.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn latencies_are_marked_by_decades_in_units_that_suit() {
        assert_eq!(labels(&Axis::latency(0.3, 45.0)), ["100 µs", "1 ms", "10 ms", "100 ms"]);
        assert_eq!(
            labels(&Axis::latency(1.5, 70.0)),
            ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "100 ms"]
        );
        assert_eq!(labels(&Axis::latency(1.0, 1.0)), ["1 ms", "2 ms", "5 ms", "10 ms"]);
        let all = Axis::latency(0.0, f64::MAX);
        assert!((3..=10).contains(&labels(&all).len()), "{:?}", labels(&all));
    }

    #[test]
    fn ranks_are_marked_as_far_as_there_are_values_for_them() {
        assert_eq!(labels(&Axis::ranks(0)), ["0 %", "50 %", "90 %", "99 %"]);
        let marked = ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"];
        assert_eq!(labels(&Axis::ranks(12_345)), marked);
        let axis = Axis::ranks(10_000);
        assert!((axis.place(0.9) - 0.25).abs() < 1e-9 && (axis.place(0.99) - 0.5).abs() < 1e-9);
        assert!(labels(&Axis::ranks(u64::MAX)).len() <= 2 + NINES_MAX as usize);
    }

    #[test]
    fn every_place_is_within_the_axis_whatever_the_value() {
        let values =
            [0.0, -1.0, 1e-300, 1.0, 7.5, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for max in values {
            for axis in [
                Axis::from_zero(max, ""),
                Axis::seconds(max),
                Axis::latency(max, max),
                Axis::latency(1.0, max),
                Axis::latency(max, 1.0),
            ] {
                assert!((2..=60).contains(&axis.ticks.len()), "{max}: {axis:?}");
                assert!(axis.ticks.windows(2).all(|two| two[0].value < two[1].value), "{axis:?}");
                for value in values {
                    assert!((0.0..=1.0).contains(&axis.place(value)), "{value} on {axis:?}");
                }
            }
        }
        assert!(values.iter().all(|value| (0.0..=1.0).contains(&Axis::ranks(500).place(*value))));
    }

    #[test]
    fn figures_have_three_digits_or_so() {
        for (value, expected) in [
            (0.0, "0"),
            (2.0, "2"),
            (1_234_567.8, "1,234,568"),
            (123.4, "123"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (0.1234, "0.123"),
            (-4_000.0, "-4,000"),
            (1e300, "1.000e300"),
        ] {
            assert_eq!(figure(value), expected);
        }
        for (value, expected) in [
            (0.02, "20 µs"),
            (0.0000004, "0.4 ns"),
            (1.5, "1.5 ms"),
            (100.0, "100 ms"),
            (2_000.0, "2 s"),
        ] {
            assert_eq!(ms(value), expected);
        }
    }
}
