//! The table of metrics for docs/operations.md, written from the declarations.
//!
//! Owns its columns.

use super::{all_metrics, partitions::PARTITION_METRICS};

/// Every metric, ascending by name: type, unit, labels, meaning.
#[must_use]
pub fn operations_metrics_markdown() -> String {
    let mut metrics: Vec<_> = all_metrics().chain(PARTITION_METRICS).collect();
    metrics.sort_by_key(|metric| metric.name);
    let mut page = String::from(
        "| metric | type | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    for metric in metrics {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let row = [
            &format!("`{}`", metric.name),
            metric.kind.name(),
            metric.unit.name(),
            &labels.join(", "),
            metric.help,
        ];
        page.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    page
}
