//! Latencies: histograms, what is told of them, and hdrhistogram's own interval log.
//!
//! Owns the range and the precision. A latency beyond the range counts as the largest there is, never as none.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError};
use hdrhistogram::serialization::{V2DeflateSerializeError, V2DeflateSerializer};
use record::Timestamp;
use serde::{Deserialize, Serialize};

/// What a histogram tells apart at least: one microsecond.
const LOWEST_NS: u64 = 1_000;
/// The longest latency: an hour, which no request waits.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Digits that are kept: one in a thousand.
const DIGITS: u8 = 3;
/// Points of a curve between the median and 75 %, between there and 87.5 %, and so on: as hdrhistogram's own plots have them.
const CURVE_TICKS: u32 = 5;

/// What stands above the intervals of a log.
const HEADING: &[u8] =
    b"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// An empty histogram of nanoseconds.
#[must_use]
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS)
        .expect("the bounds are constants that it takes")
}

/// Counts one latency.
pub(crate) fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
}

/// Counts so many like it.
pub(crate) fn record_many(histogram: &mut Histogram<u64>, latency: Duration, count: u64) {
    let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    histogram.saturating_record_n(ns, count);
}

/// What an interval tells, in milliseconds: p50, p99, p99.9 and the largest. Cheaper than a whole summary, since it is taken on
/// the thread that sends.
pub(crate) fn ranks(histogram: &Histogram<u64>) -> [f64; 4] {
    if histogram.is_empty() {
        return [0.0; 4];
    }
    let at = |quantile| ms(histogram.value_at_quantile(quantile));
    [at(0.5), at(0.99), at(0.999), ms(histogram.max())]
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of an hour are below 2^53")]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// What a run tells of its latencies, in milliseconds; all zero where there were none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many were counted.
    pub count: u64,
    /// The smallest.
    pub min_ms: f64,
    /// The mean.
    pub mean_ms: f64,
    /// Half are within.
    pub p50_ms: f64,
    /// Nine of ten are.
    pub p90_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// 999 of 1,000.
    pub p999_ms: f64,
    /// 9,999 of 10,000.
    pub p9999_ms: f64,
    /// The largest.
    pub max_ms: f64,
}

impl LatencySummary {
    /// What `histogram` tells.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| ms(histogram.value_at_quantile(quantile));
        Self {
            count: histogram.len(),
            min_ms: ms(histogram.min()),
            mean_ms: histogram.mean() / 1e6,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            p9999_ms: at(0.9999),
            max_ms: ms(histogram.max()),
        }
    }
}

/// One point of the curve of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CurvePoint {
    /// This part of the latencies, 0 to 1, ...
    pub quantile: f64,
    /// ... is within this time.
    pub ms: f64,
}

/// The curve that `histogram` tells, ascending, the largest latency last; empty where there were none.
///
/// Shape   [`CURVE_TICKS`] points for every halving of what is left above: some 130 for a hundred million latencies.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of an hour are below 2^53")]
pub(crate) fn curve(histogram: &Histogram<u64>) -> Vec<CurvePoint> {
    let points = histogram.iter_quantiles(CURVE_TICKS).map(|step| CurvePoint {
        quantile: step.quantile_iterated_to(),
        ms: step.value_iterated_to().min(histogram.max()) as f64 / 1e6,
    });
    points.collect()
}

/// Why an interval log could not be written.
#[derive(Debug, thiserror::Error)]
pub enum HdrLogError {
    /// The file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A histogram.
    #[error("histogram: {0}")]
    Serialize(V2DeflateSerializeError),
}

impl From<IntervalLogWriterError<V2DeflateSerializeError>> for HdrLogError {
    fn from(error: IntervalLogWriterError<V2DeflateSerializeError>) -> Self {
        match error {
            IntervalLogWriterError::SerializeError(error) => Self::Serialize(error),
            IntervalLogWriterError::IoError(error) => Self::Io(error),
        }
    }
}

/// An interval log as hdrhistogram's own tools read it: a histogram of nanoseconds for every interval, V2, compressed.
pub struct HdrLog<W: Write> {
    sink: W,
    serializer: V2DeflateSerializer,
}

impl<W: Write> HdrLog<W> {
    /// Begins a log whose intervals count from `start`, with lines that say what it is.
    pub fn begin(mut sink: W, start: Timestamp, comment: &str) -> Result<Self, HdrLogError> {
        let mut serializer = V2DeflateSerializer::new();
        let start = Duration::from_millis(u64::try_from(start.0).unwrap_or(0));
        IntervalLogWriterBuilder::new()
            .add_comment(comment)
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("[Unit: nanoseconds]")
            .with_start_time(UNIX_EPOCH + start)
            .with_base_time(UNIX_EPOCH + start)
            .begin_log_with(&mut sink, &mut serializer)?;
        sink.write_all(HEADING)?;
        Ok(Self { sink, serializer })
    }

    /// Writes the latencies of one interval, which began so long after the start.
    pub fn interval(
        &mut self,
        begin: Duration,
        length: Duration,
        histogram: &Histogram<u64>,
    ) -> Result<(), HdrLogError> {
        let mut writer =
            IntervalLogWriterBuilder::new().begin_log_with(&mut self.sink, &mut self.serializer)?;
        writer.write_histogram(histogram, begin, length, None)?;
        Ok(())
    }

    /// Sends on what is buffered.
    pub fn finish(mut self) -> Result<W, HdrLogError> {
        self.sink.flush()?;
        Ok(self.sink)
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn a_summary_has_the_ranks_in_milliseconds() {
        let mut histogram = new_histogram();
        for ms in 1..=1_000 {
            record(&mut histogram, Duration::from_millis(ms));
        }
        let summary = LatencySummary::of(&histogram);
        assert_eq!(summary.count, 1_000);
        for (found, expected) in [
            (summary.min_ms, 1.0),
            (summary.p50_ms, 500.0),
            (summary.p90_ms, 900.0),
            (summary.p99_ms, 990.0),
            (summary.p999_ms, 999.0),
            (summary.max_ms, 1_000.0),
        ] {
            assert!((found / expected - 1.0).abs() < 0.001, "{found} for {expected}");
        }
        assert_eq!(LatencySummary::of(&new_histogram()), LatencySummary::default());
    }

    #[test]
    fn a_curve_rises_through_the_ranks_to_the_largest() {
        let mut histogram = new_histogram();
        for ms in 1..=100_000 {
            record(&mut histogram, Duration::from_millis(ms));
        }
        let points = curve(&histogram);
        assert!(points.len() < 120, "{}", points.len());
        assert!(points.windows(2).all(|two| two[0].quantile <= two[1].quantile));
        for point in &points {
            // A histogram of three digits, and steps that end on a whole rank.
            let expected = point.quantile * 100_000.0;
            assert!((point.ms - expected).abs() < 0.002 * expected + 2.0, "{point:?}");
        }
        let last = points.last().unwrap();
        assert!(last.quantile == 1.0 && (last.ms / 100_000.0 - 1.0).abs() < 0.001, "{last:?}");
        assert_eq!(curve(&new_histogram()), []);
    }

    #[test]
    fn no_latency_is_too_short_or_too_long_to_count() {
        let mut histogram = new_histogram();
        for latency in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            record(&mut histogram, latency);
        }
        assert_eq!(histogram.len(), 3);
        assert!(LatencySummary::of(&histogram).max_ms >= 3_600_000.0);
    }

    #[test]
    fn an_interval_log_is_read_back_as_it_was_written() {
        let mut log = HdrLog::begin(Vec::new(), Timestamp(1_700_000_000_500), "a test").unwrap();
        let mut histogram = new_histogram();
        for second in 0..3 {
            histogram.reset();
            for latency in 0..=second {
                record(&mut histogram, Duration::from_millis(latency + 1));
            }
            let begin = Duration::from_secs(second);
            log.interval(begin, Duration::from_secs(1), &histogram).unwrap();
        }
        let written = log.finish().unwrap();
        let text = String::from_utf8(written.clone()).unwrap();
        assert!(text.starts_with("#a test\n#[Histogram log format version 1.3]\n"), "{text}");
        assert!(text.contains("#[BaseTime: 1700000000.500 (seconds since epoch)]\n"), "{text}");
        let mut deserializer = Deserializer::new();
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(&written) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let encoded = interval.encoded_histogram();
                let histogram: Histogram<u64> =
                    deserializer.deserialize(&mut decode_base64(encoded).as_slice()).unwrap();
                found.push((interval.start_timestamp().as_secs(), histogram.len()));
            }
        }
        assert_eq!(found, [(0, 1), (1, 2), (2, 3)]);
    }

    /// Standard alphabet, padded.
    fn decode_base64(text: &str) -> Vec<u8> {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = text.bytes().filter(|byte| *byte != b'=');
        let value = |byte: u8| alphabet.iter().position(|digit| *digit == byte).unwrap();
        let digits: Vec<u32> = digits.map(|byte| u32::try_from(value(byte)).unwrap()).collect();
        let mut bytes = Vec::new();
        for chunk in digits.chunks(4) {
            let bits = chunk.iter().fold(0, |bits, digit| bits << 6 | digit);
            let bits = bits << (6 * (4 - chunk.len()));
            bytes.extend(&bits.to_be_bytes()[1..chunk.len()]);
        }
        bytes
    }
}
