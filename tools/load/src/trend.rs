//! Whether a long run ends as it began: throughput, latency and memory of its first and last minutes.
//!
//! Owns the length of the two windows and the judgement. It reads no clock: instants are arguments.

use std::ops::Range;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::latency::{self, LatencySummary, new_histogram};
use crate::result::Interval;

/// The windows are a tenth of the run each, and no longer than this.
const WINDOW_MAX: Duration = Duration::from_secs(300);
const WINDOWS: u32 = 10;

/// The first and the last minutes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// How long each window is.
    pub window_seconds: f64,
    /// The one at the beginning of what was measured.
    pub first: TrendWindow,
    /// The one at its end.
    pub last: TrendWindow,
    /// How much worse the last may be, in percent.
    pub tolerance_percent: u32,
    /// Whether it is not worse than that.
    pub is_steady: bool,
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TrendWindow {
    /// Millions of bytes acknowledged a second.
    pub mb_per_second: f64,
    /// Of what was due in it.
    pub latency: LatencySummary,
    /// The most resident memory of the broker in it; absent where its process was not named.
    pub broker_rss_bytes: Option<u64>,
}

/// The latencies of both windows, while the run goes on.
#[derive(Debug)]
pub(crate) struct Windows {
    first: Range<Duration>,
    last: Range<Duration>,
    first_latencies: Histogram<u64>,
    last_latencies: Histogram<u64>,
}

impl Windows {
    /// Of a run that is measured from `begin` on and for so long.
    pub(crate) fn new(begin: Duration, length: Duration) -> Self {
        let window = (length / WINDOWS).min(WINDOW_MAX);
        let end = begin + length;
        Self {
            first: begin..begin + window,
            last: end - window..end,
            first_latencies: new_histogram(),
            last_latencies: new_histogram(),
        }
    }

    /// A request that was due then took so long.
    pub(crate) fn record(&mut self, due: Duration, latency: Duration, count: u64) {
        if self.first.contains(&due) {
            latency::record_many(&mut self.first_latencies, latency, count);
        } else if self.last.contains(&due) {
            latency::record_many(&mut self.last_latencies, latency, count);
        }
    }

    /// What both tell, by the intervals of the whole run; `None` where it did not last until its end.
    pub(crate) fn conclude(&self, intervals: &[Interval], tolerance_percent: u32) -> Option<Trend> {
        let begin = self.first.start;
        let within = |window: &Range<Duration>| {
            let (from, to) = (window.start - begin, window.end - begin);
            // An interval that begins a moment before its second still belongs to it.
            let slack = Duration::from_millis(100);
            intervals.iter().filter(move |interval| {
                let (start, length) = (interval.begin, interval.seconds);
                start + slack.as_secs_f64() >= from.as_secs_f64()
                    && start + length <= (to + slack).as_secs_f64()
            })
        };
        let first = window(within(&self.first), &self.first_latencies)?;
        let last = window(within(&self.last), &self.last_latencies)?;
        let is_steady = is_steady(&first, &last, tolerance_percent);
        let window_seconds = (self.first.end - self.first.start).as_secs_f64();
        Some(Trend { window_seconds, first, last, tolerance_percent, is_steady })
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a run are far below 2^53")]
fn window<'a>(
    intervals: impl Iterator<Item = &'a Interval>,
    latencies: &Histogram<u64>,
) -> Option<TrendWindow> {
    let (mut bytes, mut seconds, mut rss) = (0, 0.0, None);
    for interval in intervals {
        bytes += interval.bytes;
        seconds += interval.seconds;
        rss = rss.max(interval.broker.map(|broker| broker.rss_bytes));
    }
    (seconds > 0.0 && !latencies.is_empty()).then(|| TrendWindow {
        mb_per_second: bytes as f64 / 1e6 / seconds,
        latency: LatencySummary::of(latencies),
        broker_rss_bytes: rss,
    })
}

#[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^53")]
fn is_steady(first: &TrendWindow, last: &TrendWindow, tolerance_percent: u32) -> bool {
    let tolerance = f64::from(tolerance_percent) / 100.0;
    let memory = first.broker_rss_bytes.zip(last.broker_rss_bytes);
    last.mb_per_second >= first.mb_per_second * (1.0 - tolerance)
        && last.latency.p999_ms <= first.latency.p999_ms * (1.0 + tolerance)
        && memory.is_none_or(|(first, last)| last as f64 <= first as f64 * (1.0 + tolerance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::IntervalUse;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A run of a hundred seconds from the fifth on, whose latency, bytes and memory change in the last ten.
    fn trend(latency_ms: u64, bytes: u64, rss_bytes: u64, seconds: u64) -> Option<Trend> {
        let mut windows = Windows::new(at(5), at(100));
        let mut intervals = Vec::new();
        for second in 0..seconds {
            let is_last = second >= 90;
            let pick = |last, first| if is_last { last } else { first };
            let latency = Duration::from_millis(pick(latency_ms, 10));
            windows.record(at(5 + second), latency, 3);
            let rss_bytes = pick(rss_bytes, 1_000);
            #[expect(clippy::cast_precision_loss, reason = "a hundred")]
            intervals.push(Interval {
                begin: second as f64,
                seconds: 1.0,
                bytes: pick(bytes, 1_000_000),
                broker: Some(IntervalUse { cpu_seconds: 0.0, rss_bytes }),
                ..Interval::default()
            });
        }
        windows.conclude(&intervals, 10)
    }

    #[test]
    fn a_run_is_steady_where_its_end_is_not_worse_than_its_beginning() {
        let same = trend(10, 1_000_000, 1_000, 100).unwrap();
        assert!(same.is_steady, "{same:?}");
        assert!((same.window_seconds - 10.0).abs() < 1e-9);
        assert_eq!((same.first.latency.count, same.last.latency.count), (30, 30));
        assert!((same.last.mb_per_second - 1.0).abs() < 1e-9);
        let is_steady = |latency_ms, bytes, rss_bytes| {
            trend(latency_ms, bytes, rss_bytes, 100).unwrap().is_steady
        };
        assert!(is_steady(5, 3_000_000, 10), "better is as well");
        assert!(!is_steady(12, 1_000_000, 1_000));
        assert!(!is_steady(10, 890_000, 1_000));
        assert!(!is_steady(10, 1_000_000, 1_101));
        assert_eq!(trend(10, 1_000_000, 1_000, 80), None, "it did not last");
    }

    #[test]
    fn windows_are_a_tenth_and_five_minutes_at_most() {
        let length = |seconds| {
            let windows = Windows::new(at(0), at(seconds));
            (windows.first, windows.last)
        };
        assert_eq!(length(60), (at(0)..at(6), at(54)..at(60)));
        assert_eq!(length(36_000), (at(0)..at(300), at(35_700)..at(36_000)));
    }
}
