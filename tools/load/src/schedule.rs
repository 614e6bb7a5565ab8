//! When requests are due in an open loop.
//!
//! Owns the arithmetic only: instants come in as durations since some fixed one. The schedule does not know what the broker
//! does; a request that leaves late was due all the same.

use std::time::Duration;

/// One connection's share of a fixed rate: every `lanes`-th instant, from the `lane`-th on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Schedule {
    start: Duration,
    /// Between two requests of all connections.
    interval_ns: f64,
    lane: u64,
    lanes: u64,
}

impl Schedule {
    /// The share of connection `lane` of `lanes`, from `start` on. Panics if the rate or `lanes` is not above zero.
    pub(crate) fn new(start: Duration, requests_per_second: f64, lane: u64, lanes: u64) -> Self {
        assert!(requests_per_second > 0.0);
        assert!(lane < lanes);
        Self { start, interval_ns: 1e9 / requests_per_second, lane, lanes }
    }

    /// When the connection's `number`-th request is due.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nanoseconds of days are below 2^53"
    )]
    pub(crate) fn due(&self, number: u64) -> Duration {
        // Multiplied, not added up: a rounding error must not grow into a drift.
        let place = number.saturating_mul(self.lanes).saturating_add(self.lane);
        self.start + Duration::from_nanos((place as f64 * self.interval_ns) as u64)
    }

    /// How many of the connection's requests are due before `instant`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nanoseconds of days are below 2^53"
    )]
    pub(crate) fn count_before(&self, instant: Duration) -> u64 {
        let passed_ns = instant.saturating_sub(self.start).as_nanos() as f64;
        let lane_interval_ns = self.interval_ns * self.lanes as f64;
        let guess = (passed_ns / lane_interval_ns) as u64;
        // The quotient may be off by one either way: `due` decides, so that both always agree.
        let mut count = guess.saturating_sub(1);
        while self.due(count) < instant {
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_a_rate_without_gap_or_overlap() {
        let start = Duration::from_secs(5);
        let lanes: Vec<Schedule> =
            (0..4).map(|lane| Schedule::new(start, 1_000.0, lane, 4)).collect();
        let mut due: Vec<u128> = (0..25)
            .flat_map(|number| lanes.iter().map(move |lane| lane.due(number)))
            .map(|due| (due - start).as_micros())
            .collect();
        due.sort_unstable();
        let expected: Vec<u128> = (0..100).map(|place| place * 1_000).collect();
        assert_eq!(due, expected);
    }

    #[test]
    fn what_is_due_before_an_instant_is_counted_as_it_is_scheduled() {
        let start = Duration::from_millis(700);
        for (rate, lanes) in [(1_000.0, 1), (3.0, 2), (77.7, 5), (250_000.0, 64)] {
            for lane in [0, lanes - 1] {
                let schedule = Schedule::new(start, rate, lane, lanes);
                for ms in [0, 700, 701, 950, 1_700, 2_345] {
                    let instant = Duration::from_millis(ms);
                    let expected = (0..).take_while(|number| schedule.due(*number) < instant);
                    let expected = expected.count() as u64;
                    assert_eq!(schedule.count_before(instant), expected, "{schedule:?} {ms}");
                }
            }
        }
    }

    #[test]
    fn a_rate_whose_interval_is_no_whole_number_does_not_drift() {
        let schedule = Schedule::new(Duration::ZERO, 3.0, 0, 1);
        assert_eq!(schedule.due(3 * 86_400).as_secs(), 86_400);
        let fast = Schedule::new(Duration::ZERO, 300_000.0, 0, 1);
        assert_eq!(fast.due(300_000 * 3_600).as_millis(), 3_600_000);
    }
}
