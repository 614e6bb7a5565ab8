//! The card: rows of figures, as a table for people and as JSON for programs.

use std::fmt::Write as _;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// Behind the rounds of a row that did not settle.
const UNSETTLED: &str = "*";

/// How the card is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns.
    Table,
    /// One object.
    Json,
}

/// All rows, in the order they were measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Card {
    pub(crate) rows: Vec<Row>,
}

/// Whether the last two rounds of a scenario cost the same, within a twentieth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// They did.
    Reached,
    /// They did not: the figures are one round's among others that differ.
    Missed,
}

/// One scenario's figures; what it does not measure is absent.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Row {
    name: String,
    seconds: f64,
    /// Rounds that counted; one where nothing is repeated.
    rounds: usize,
    /// Whether the last two agreed; absent where there was only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    settled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gb_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acks_per_second: Option<f64>,
    cpu_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_seconds_per_gb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_us_per_ack: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p999_ms: Option<f64>,
}

impl Row {
    /// A row that counts bytes.
    #[expect(clippy::cast_precision_loss, reason = "bytes of a run are far below 2^53")]
    pub(crate) fn of_bytes(
        name: impl Into<String>,
        bytes: u64,
        seconds: f64,
        cpu_seconds: f64,
    ) -> Self {
        let gb = bytes as f64 / 1e9;
        Self {
            name: name.into(),
            seconds,
            rounds: 1,
            gb_per_second: Some(gb / seconds),
            cpu_seconds,
            cpu_seconds_per_gb: Some(cpu_seconds / gb),
            ..Self::default()
        }
    }

    /// A row that counts acknowledgements, one latency each.
    #[expect(clippy::cast_precision_loss, reason = "acks and seconds of a run are few")]
    pub(crate) fn of_acks(
        name: impl Into<String>,
        seconds: u64,
        cpu_seconds: f64,
        latencies: Latencies,
    ) -> Self {
        let (seconds, count) = (seconds as f64, latencies.0.len() as f64);
        Self {
            name: name.into(),
            seconds,
            rounds: 1,
            acks_per_second: Some(count / seconds),
            cpu_seconds,
            cpu_us_per_ack: Some(1e6 * cpu_seconds / count),
            ..Self::default()
        }
        .with_latencies(latencies)
    }

    /// The same row with its latencies.
    pub(crate) fn with_latencies(self, mut latencies: Latencies) -> Self {
        latencies.0.sort_unstable();
        let at = |share| latencies.quantile(share).map(|latency| latency.as_secs_f64() * 1e3);
        Self { p50_ms: at(0.5), p99_ms: at(0.99), p999_ms: at(0.999), ..self }
    }

    /// The same row as the last of so many rounds.
    pub(crate) fn of_rounds(self, rounds: usize, agreement: Agreement) -> Self {
        Self { rounds, settled: Some(agreement == Agreement::Reached), ..self }
    }

    /// CPU-seconds per GB, by which rounds are compared.
    pub(crate) fn cost(&self) -> f64 {
        self.cpu_seconds_per_gb.unwrap_or_default()
    }

    /// The row as one line.
    pub(crate) fn line(&self) -> String {
        let cell = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
        };
        let mark = if self.settled == Some(false) { UNSETTLED } else { "" };
        format!(
            "{:<48} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7}",
            self.name,
            cell(self.gb_per_second, 3),
            cell(self.acks_per_second, 0),
            cell(self.cpu_seconds_per_gb, 3),
            cell(self.cpu_us_per_ack, 1),
            cell(self.p50_ms, 2),
            cell(self.p99_ms, 2),
            cell(self.p999_ms, 2),
            format!("{}{mark}", self.rounds),
        )
    }
}

impl Card {
    /// The card as text.
    pub(crate) fn print(&self, output: Output) -> String {
        match output {
            Output::Json => serde_json::to_string_pretty(self).unwrap_or_default(),
            Output::Table => {
                let mut text = format!(
                    "{:<48} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7}\n",
                    "scenario",
                    "GB/s",
                    "acks/s",
                    "CPU-s/GB",
                    "us/ack",
                    "p50 ms",
                    "p99 ms",
                    "p99.9 ms",
                    "rounds"
                );
                for row in &self.rows {
                    // Writing into a String cannot fail.
                    let _ = writeln!(text, "{}", row.line());
                }
                if self.rows.iter().any(|row| row.settled == Some(false)) {
                    let _ = writeln!(
                        text,
                        "{UNSETTLED} its last two rounds differ by more than a twentieth"
                    );
                }
                text
            }
        }
    }
}

/// Latencies of a run, all of them: a few hundred thousand at most.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    /// Takes one more.
    pub(crate) fn push(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// Takes more.
    pub(crate) fn extend(&mut self, latencies: impl IntoIterator<Item = Duration>) {
        self.0.extend(latencies);
    }

    /// The latency that `share` of all stay within; the list is sorted.
    #[expect(clippy::cast_precision_loss, reason = "a few hundred thousand latencies")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the count")]
    fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ranks() {
        let sorted = Latencies((1..=1_000).map(Duration::from_millis).collect());
        for (share, expected_ms) in [(0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1_000)] {
            assert_eq!(sorted.quantile(share), Some(Duration::from_millis(expected_ms)));
        }
        assert_eq!(Latencies::default().quantile(0.5), None);
    }
}
