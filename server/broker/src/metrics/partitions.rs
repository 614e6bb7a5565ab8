//! What single partitions do, as Prometheus text.
//!
//! Owns the metrics that have one series a partition. They have pages of their own: the page of a node's metrics must not grow
//! with its partitions, of which there may be ten thousand.

use super::render::{Family, line, page_of};
use super::{Metric, MetricKind, MetricUnit};

/// Partitions on the page of the busiest.
pub const BUSIEST_COUNT: usize = 100;

const LABELS: &[&str] = &["topic", "partition", "core"];

const fn metric(
    name: &'static str,
    (kind, unit): (MetricKind, MetricUnit),
    help: &'static str,
) -> Metric {
    Metric { name, kind, unit, labels: LABELS, help }
}

/// The metrics of a partition, ascending by name: the order of [`PartitionTraffic::values`].
pub(crate) const PARTITION_METRICS: [Metric; 7] = [
    metric(
        "corelog_partition_appended_bytes_total",
        (MetricKind::Counter, MetricUnit::Bytes),
        "Bytes of record batches appended since the partition was opened.",
    ),
    metric(
        "corelog_partition_appends_total",
        (MetricKind::Counter, MetricUnit::Count),
        "Batches appended, which is how often a Produce named the partition with success.",
    ),
    metric("corelog_partition_bytes", (MetricKind::Gauge, MetricUnit::Bytes), "Size of its log."),
    metric(
        "corelog_partition_fetched_bytes_total",
        (MetricKind::Counter, MetricUnit::Bytes),
        "Bytes of record batches read by consumers.",
    ),
    metric(
        "corelog_partition_fetches_total",
        (MetricKind::Counter, MetricUnit::Count),
        "Reads by consumers that found records.",
    ),
    metric(
        "corelog_partition_log_end_offset",
        (MetricKind::Gauge, MetricUnit::Count),
        "One past the last offset that may be acknowledged.",
    ),
    metric(
        "corelog_partition_log_start_offset",
        (MetricKind::Gauge, MetricUnit::Count),
        "The first offset that is there.",
    ),
];

/// One partition and what it has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTraffic {
    /// Its topic.
    pub topic: String,
    /// Its number there, as text.
    pub partition: String,
    /// The core that owns it.
    pub core: u16,
    /// Bytes a second of late, in and out.
    pub rate: u64,
    /// A value of each of [`PARTITION_METRICS`].
    pub values: [u64; PARTITION_METRICS.len()],
}

/// The page of these partitions, in their order within each family: the busiest first.
#[must_use]
pub fn render_partitions(partitions: &[PartitionTraffic]) -> String {
    let family = |(index, metric): (usize, Metric)| {
        let lines = partitions.iter().map(|partition| {
            let core = partition.core.to_string();
            let labels: [(&str, &str); 3] =
                [("topic", &partition.topic), ("partition", &partition.partition), ("core", &core)];
            line(metric.name, &labels, &partition.values[index].to_string())
        });
        Family { metric, lines: lines.collect() }
    };
    page_of(PARTITION_METRICS.into_iter().enumerate().map(family).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_has_a_line_in_every_family() {
        let partition = |topic: &str, values| PartitionTraffic {
            topic: topic.to_owned(),
            partition: "3".to_owned(),
            core: 1,
            rate: 0,
            values,
        };
        let page = render_partitions(&[
            partition("b\"usy", [10, 2, 30, 40, 5, 60, 7]),
            partition("a", [1; 7]),
        ]);
        let labels = "{topic=\"b\\\"usy\",partition=\"3\",core=\"1\"}";
        for expected in [
            "corelog_partition_appended_bytes_total",
            "corelog_partition_appends_total",
            "corelog_partition_bytes",
            "corelog_partition_fetched_bytes_total",
            "corelog_partition_fetches_total",
            "corelog_partition_log_end_offset",
            "corelog_partition_log_start_offset",
        ]
        .iter()
        .zip([10, 2, 30, 40, 5, 60, 7])
        .map(|(name, value)| format!("{name}{labels} {value}"))
        {
            assert!(page.lines().any(|line| line == expected), "{expected} in {page}");
        }
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines.len(), 7 * 4);
        assert!(lines[3].contains("topic=\"a\""), "the order is the caller's");
        assert!(PARTITION_METRICS.is_sorted_by_key(|metric| metric.name));
    }
}
