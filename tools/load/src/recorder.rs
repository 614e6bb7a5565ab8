//! What counts, and when: answers come in, sums and histograms come out.
//!
//! ```text
//!   ── warm-up ──┤ begin ├── interval ──┼── interval ──┼── … ──┤ finish ├── what was under way is answered
//!                └ bytes and records count by when the answer came, latencies by when the request was due ┘
//! ```
//!
//! A request that was due while measuring counts its latency whenever its answer comes: the slowest answers come last, and a run
//! that left them out would be faster than it was. One that has no answer counts with the time that has passed, which is less than
//! its latency: it is a lower bound, and counted as one. Owns the sums. It reads no clock: instants are arguments.

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use hdrhistogram::Histogram;
use record::PartitionIndex;
use wire::ErrorCode;

use crate::latency::{self, CurvePoint, LatencySummary, new_histogram};
use crate::result::{ErrorCount, Interval, IntervalUse, Measured};
use crate::trend::{Trend, Windows};
use crate::workload::Until;

/// Intervals that are kept: a week of seconds.
const INTERVALS_MAX: usize = 7 * 86_400;
/// Distinct error codes that are kept; the protocol has fewer.
const CODES_MAX: usize = 256;
/// Characters of a message that are kept.
const MESSAGE_CHARS_MAX: usize = 400;

/// What one answer acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) batches: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) plain_bytes: u64,
    pub(crate) errors: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.batches += other.batches;
        self.records += other.records;
        self.bytes += other.bytes;
        self.plain_bytes += other.plain_bytes;
        self.errors += other.errors;
    }
}

/// The times of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// When it was due; in a closed loop, when it was sent.
    pub(crate) due: Duration,
    /// When it could have left at the earliest: it was due, and there was room in flight.
    pub(crate) free: Duration,
    /// When it left.
    pub(crate) sent: Duration,
}

/// What is counted of a run.
#[derive(Debug)]
pub(crate) struct Recorder {
    until: Until,
    begin: Option<Duration>,
    end: Option<Duration>,
    /// Bytes acknowledged, whenever.
    bytes_acked: u64,
    total: Sums,
    interval: Sums,
    interval_begin: Duration,
    intervals: Vec<Interval>,
    total_latencies: Histogram<u64>,
    interval_latencies: Histogram<u64>,
    /// Of the latencies, those that are lower bounds: no answer came.
    lower_bounds: u64,
    send_delays: Histogram<u64>,
    /// Made when the first comes: most runs have none.
    deliveries: Option<Histogram<u64>>,
    delivery_lower_bounds: u64,
    /// The first and last minutes, where they are compared.
    windows: Option<Windows>,
    errors: BTreeMap<i16, ErrorCount>,
}

impl Recorder {
    /// One that counts nothing yet.
    pub(crate) fn new(until: Until) -> Self {
        Self {
            until,
            begin: None,
            end: None,
            bytes_acked: 0,
            total: Sums::default(),
            interval: Sums::default(),
            interval_begin: Duration::ZERO,
            intervals: Vec::new(),
            total_latencies: new_histogram(),
            interval_latencies: new_histogram(),
            lower_bounds: 0,
            send_delays: new_histogram(),
            deliveries: None,
            delivery_lower_bounds: 0,
            windows: None,
            errors: BTreeMap::new(),
        }
    }

    /// From `instant` on it counts, which may be still to come.
    pub(crate) fn begin(&mut self, instant: Duration) {
        self.begin = Some(instant);
        self.interval_begin = instant;
    }

    /// Compares the first and last minutes of what is measured from `begin` on for so long.
    pub(crate) fn watch(&mut self, begin: Duration, length: Duration) {
        self.windows = Some(Windows::new(begin, length));
    }

    /// What they tell; before the intervals are taken out.
    pub(crate) fn trend(&self, tolerance_percent: u32) -> Option<Trend> {
        self.windows.as_ref()?.conclude(&self.intervals, tolerance_percent)
    }

    /// When measuring began, or begins; `None` before that is known.
    pub(crate) fn begun(&self) -> Option<Duration> {
        self.begin
    }

    /// From `now` on only latencies of what was due before do.
    pub(crate) fn finish(&mut self, now: Duration) {
        self.end = Some(now);
    }

    /// When measuring ended; `None` while it goes on.
    pub(crate) fn ended(&self) -> Option<Duration> {
        self.end
    }

    fn counts(&self, instant: Duration) -> bool {
        self.begin.is_some_and(|begin| instant >= begin) && self.end.is_none_or(|end| instant < end)
    }

    /// A request was answered at `now`.
    pub(crate) fn answered(&mut self, now: Duration, times: Times, sums: Sums) {
        self.bytes_acked += sums.bytes;
        if self.counts(now) {
            self.total.add(&sums);
            self.interval.add(&sums);
        }
        if self.counts(times.due) {
            let latency = now.saturating_sub(times.due);
            latency::record(&mut self.total_latencies, latency);
            latency::record(&mut self.interval_latencies, latency);
            if let Some(windows) = &mut self.windows {
                windows.record(times.due, latency, 1);
            }
            latency::record(&mut self.send_delays, times.sent.saturating_sub(times.free));
        }
    }

    /// So many requests that were due then had no answer at `until`: their latencies are at least what has passed by then.
    pub(crate) fn never_answered(&mut self, due: Duration, until: Duration, count: u64) {
        if count > 0 && self.counts(due) {
            let passed = until.saturating_sub(due);
            latency::record_many(&mut self.total_latencies, passed, count);
            latency::record_many(&mut self.interval_latencies, passed, count);
            if let Some(windows) = &mut self.windows {
                windows.record(due, passed, count);
            }
            self.lower_bounds += count;
        }
    }

    /// So many consumers did not have a batch at `until`, whose request was due then.
    pub(crate) fn never_delivered(&mut self, due: Duration, until: Duration, count: u64) {
        if count > 0 && self.counts(due) {
            let deliveries = self.deliveries.get_or_insert_with(new_histogram);
            latency::record_many(deliveries, until.saturating_sub(due), count);
            self.delivery_lower_bounds += count;
        }
    }

    /// A consumer had a batch at `arrival`, whose request was due then.
    pub(crate) fn delivered(&mut self, due: Duration, arrival: Duration) {
        if self.counts(due) {
            let deliveries = self.deliveries.get_or_insert_with(new_histogram);
            latency::record(deliveries, arrival.saturating_sub(due));
        }
    }

    /// A batch was refused. Errors count from the first request on: a warm-up that fails is no warm-up.
    pub(crate) fn refused(
        &mut self,
        partition: PartitionIndex,
        code: ErrorCode,
        message: Option<&str>,
    ) {
        if self.errors.len() >= CODES_MAX && !self.errors.contains_key(&code.code()) {
            return;
        }
        let error = self.errors.entry(code.code()).or_insert_with(|| ErrorCount {
            code: code.code(),
            name: code.name().to_owned(),
            count: 0,
            first_partition: partition.0,
            first_message: message.map(|text| text.chars().take(MESSAGE_CHARS_MAX).collect()),
        });
        error.count += 1;
    }

    /// Bytes acknowledged in the whole run, the warm-up included.
    pub(crate) fn bytes_acked(&self) -> u64 {
        self.bytes_acked
    }

    /// Whether as much was acknowledged as was asked.
    pub(crate) fn has_enough(&self) -> bool {
        let reached = |bound: Option<u64>, sum: u64| bound.is_some_and(|bound| sum >= bound);
        reached(self.until.bytes, self.total.bytes)
            || reached(self.until.records, self.total.records)
    }

    /// Ends an interval at `now` and gives it with its latencies, which the caller may take, and leave an empty
    /// histogram; `broker` is what the broker used in it.
    pub(crate) fn tick(
        &mut self,
        now: Duration,
        broker: Option<IntervalUse>,
    ) -> (Interval, &mut Histogram<u64>) {
        let interval = Interval { broker, ..self.end_interval(now) };
        if self.intervals.len() < INTERVALS_MAX {
            self.intervals.push(interval);
        }
        (interval, &mut self.interval_latencies)
    }

    /// What came after the end, when nothing more comes: the latencies of what was due before. `None` where there was none.
    pub(crate) fn drained(&mut self, now: Duration) -> Option<(Interval, &mut Histogram<u64>)> {
        if self.interval_latencies.is_empty() {
            return None;
        }
        Some((self.end_interval(now), &mut self.interval_latencies))
    }

    fn end_interval(&mut self, now: Duration) -> Interval {
        let begin = self.begin.unwrap_or(now);
        let [p50_ms, p99_ms, p999_ms, max_ms] = latency::ranks(&self.interval_latencies);
        let sums = mem::take(&mut self.interval);
        let interval = Interval {
            begin: self.interval_begin.saturating_sub(begin).as_secs_f64(),
            seconds: now.saturating_sub(self.interval_begin).as_secs_f64(),
            requests: sums.requests,
            records: sums.records,
            bytes: sums.bytes,
            errors: sums.errors,
            p50_ms,
            p99_ms,
            p999_ms,
            max_ms,
            broker: None,
        };
        self.interval_begin = now;
        interval
    }

    /// Makes the latencies of the next interval count from nothing: after what [`Recorder::tick`] gave was used.
    pub(crate) fn next_interval(&mut self) {
        // Emptying takes tens of microseconds of the thread that sends: not where somebody has taken it.
        if !self.interval_latencies.is_empty() {
            self.interval_latencies.reset();
        }
    }

    /// The sums while measuring.
    #[expect(clippy::cast_precision_loss, reason = "bytes of a run are far below 2^53")]
    pub(crate) fn measured(&self) -> Measured {
        let ends = self.begin.zip(self.end);
        let seconds = ends.map_or(0.0, |(begin, end)| end.saturating_sub(begin).as_secs_f64());
        let a_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let Sums { requests, batches, records, bytes, plain_bytes, .. } = self.total;
        Measured {
            seconds,
            requests,
            batches,
            records,
            bytes,
            plain_bytes,
            mb_per_second: a_second(bytes) / 1e6,
            records_per_second: a_second(records),
            requests_per_second: a_second(requests),
        }
    }

    /// What the latencies tell.
    pub(crate) fn latency(&self) -> LatencySummary {
        LatencySummary::of(&self.total_latencies)
    }

    /// The curve of the latencies.
    pub(crate) fn latency_curve(&self) -> Vec<CurvePoint> {
        latency::curve(&self.total_latencies)
    }

    /// How many of the latencies are lower bounds.
    pub(crate) fn lower_bounds(&self) -> u64 {
        self.lower_bounds
    }

    /// The same of the deliveries.
    pub(crate) fn delivery_lower_bounds(&self) -> u64 {
        self.delivery_lower_bounds
    }

    /// What the client added.
    pub(crate) fn send_delay(&self) -> LatencySummary {
        LatencySummary::of(&self.send_delays)
    }

    /// How long batches took to consumers.
    pub(crate) fn delivery(&self) -> LatencySummary {
        self.deliveries.as_ref().map(LatencySummary::of).unwrap_or_default()
    }

    /// The intervals; they are taken out.
    pub(crate) fn take_intervals(&mut self) -> Vec<Interval> {
        mem::take(&mut self.intervals)
    }

    /// What was refused, the commonest first.
    pub(crate) fn errors(&self) -> Vec<ErrorCount> {
        let mut errors: Vec<ErrorCount> = self.errors.values().cloned().collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn due(ms: u64) -> Times {
        Times { due: at(ms), free: at(ms), sent: at(ms) }
    }

    fn one() -> Sums {
        Sums { requests: 1, batches: 2, records: 20, bytes: 1_000, plain_bytes: 3_000, errors: 0 }
    }

    fn recorder(until: Until) -> Recorder {
        let mut recorder = Recorder::new(until);
        recorder.answered(at(50), due(10), one());
        recorder.begin(at(1_000));
        recorder
    }

    #[test]
    fn the_warm_up_counts_nowhere() {
        let mut recorder = recorder(Until::default());
        // Sent before the beginning, answered after it: bytes yes, latency no.
        recorder.answered(at(1_100), due(900), one());
        recorder.answered(at(1_500), due(1_490), one());
        recorder.finish(at(2_000));
        let measured = recorder.measured();
        assert_eq!((measured.requests, measured.batches, measured.bytes), (2, 4, 2_000));
        assert!((measured.records_per_second - 40.0).abs() < 1e-9);
        let latency = recorder.latency();
        assert_eq!(latency.count, 1);
        assert!((latency.max_ms - 10.0).abs() < 0.02, "{latency:?}");
    }

    #[test]
    fn the_slowest_answers_count_although_they_come_after_the_end() {
        let mut recorder = recorder(Until::default());
        recorder.finish(at(2_000));
        recorder.answered(at(9_000), due(1_999), one());
        recorder.answered(at(9_000), due(2_000), one());
        assert_eq!(recorder.measured().requests, 0);
        assert_eq!(recorder.latency().count, 1);
        assert!(recorder.latency().max_ms > 6_990.0);
    }

    #[test]
    fn what_was_never_answered_counts_at_least_what_has_passed() {
        let mut recorder = recorder(Until::default());
        recorder.answered(at(1_500), due(1_490), one());
        let (_, latencies) = recorder.tick(at(2_000), None);
        assert_eq!(latencies.len(), 1);
        recorder.next_interval();
        recorder.finish(at(2_000));
        recorder.never_answered(at(900), at(2_000), 5);
        recorder.never_answered(at(1_200), at(2_000), 3);
        recorder.answered(at(2_600), due(1_800), one());
        assert_eq!((recorder.latency().count, recorder.lower_bounds()), (5, 3));
        assert!((recorder.latency().p90_ms / 800.0 - 1.0).abs() < 0.002);
        // What came after the end has an interval of its own, without sums.
        let (drained, latencies) = recorder.drained(at(2_700)).unwrap();
        assert_eq!((drained.requests, drained.bytes, latencies.len()), (0, 0, 4));
        assert!((drained.begin - 1.0).abs() < 1e-9 && (drained.seconds - 0.7).abs() < 1e-9);
        recorder.next_interval();
        assert!(recorder.drained(at(2_800)).is_none());
        assert_eq!(recorder.take_intervals().len(), 1);
    }

    #[test]
    fn who_takes_the_latencies_of_an_interval_leaves_an_empty_histogram() {
        let mut recorder = recorder(Until::default());
        recorder.answered(at(1_500), due(1_490), one());
        let mut taken = new_histogram();
        mem::swap(recorder.tick(at(2_000), None).1, &mut taken);
        recorder.next_interval();
        recorder.answered(at(2_500), due(2_490), one());
        assert_eq!((taken.len(), recorder.tick(at(3_000), None).1.len()), (1, 1));
    }

    #[test]
    fn latency_counts_from_when_a_request_was_due_and_the_delay_from_when_it_could_leave() {
        let mut recorder = recorder(Until::default());
        // Due at 1,100; no room until 1,700; left at 1,705; answered at 1,800.
        let times = Times { due: at(1_100), free: at(1_700), sent: at(1_705) };
        recorder.answered(at(1_800), times, one());
        assert!((recorder.latency().max_ms - 700.0).abs() < 1.0);
        assert!((recorder.send_delay().max_ms - 5.0).abs() < 0.01);
    }

    #[test]
    fn intervals_add_up_and_have_latencies_of_their_own() {
        let mut recorder = recorder(Until::default());
        recorder.answered(at(1_100), due(1_090), one());
        let (first, latencies) = recorder.tick(at(2_000), None);
        assert_eq!((first.requests, latencies.len()), (1, 1));
        recorder.next_interval();
        recorder.answered(at(2_100), due(1_100), one());
        recorder.answered(at(2_200), due(2_150), one());
        let (second, _) = recorder.tick(at(2_500), None);
        assert_eq!((second.requests, second.bytes), (2, 2_000));
        assert!((second.begin - 1.0).abs() < 1e-9 && (second.seconds - 0.5).abs() < 1e-9);
        assert!(second.max_ms > 990.0 && first.max_ms < 11.0);
        recorder.finish(at(2_500));
        let sum: u64 = recorder.take_intervals().iter().map(|interval| interval.requests).sum();
        assert_eq!(sum, recorder.measured().requests);
    }

    #[test]
    fn a_run_has_enough_at_the_first_bound_that_is_reached() {
        let has_enough = |until: Until, answers: u64| {
            let mut recorder = recorder(until);
            for number in 0..answers {
                recorder.answered(at(1_001 + number), due(1_000), one());
            }
            recorder.has_enough()
        };
        let bytes = Until { bytes: Some(3_000), ..Until::default() };
        let records = Until { records: Some(40), bytes: Some(1 << 40), ..Until::default() };
        assert_eq!([2, 3].map(|answers| has_enough(bytes, answers)), [false, true]);
        assert_eq!([1, 2].map(|answers| has_enough(records, answers)), [false, true]);
        assert!(!has_enough(Until::default(), 1_000));
    }

    #[test]
    fn errors_are_counted_by_code_with_what_the_first_said() {
        let mut recorder = Recorder::new(Until::default());
        let storage = ErrorCode::KafkaStorageError;
        recorder.refused(PartitionIndex(3), ErrorCode::RequestTimedOut, None);
        recorder.refused(PartitionIndex(7), storage, Some("disk"));
        recorder.refused(PartitionIndex(8), storage, Some("other"));
        let errors = recorder.errors();
        assert_eq!(errors.len(), 2);
        assert_eq!((errors[0].code, errors[0].count), (56, 2));
        assert_eq!(errors[0].name, "KAFKA_STORAGE_ERROR");
        assert_eq!(errors[0].first_partition, 7);
        assert_eq!(errors[0].first_message.as_deref(), Some("disk"));
    }
}
