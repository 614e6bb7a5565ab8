//! The counters, the histogram's bounds, and the text as Prometheus reads it.

use super::*;

const FACTS: NodeFacts = NodeFacts {
    version: "0.1.0",
    resident_bytes: 50_000_000,
    disk_free_bytes: 7,
    uptime: Duration::from_millis(1_500),
    replayed: Replayed { groups: 12, bytes: 3_600, time: Duration::from_millis(250) },
};

const NAMES: SeriesNames = SeriesNames {
    api: |key| match key {
        0 => Some("Produce"),
        1 => Some("Fetch"),
        _ => None,
    },
    error: |code| match code {
        0 => Some("NONE"),
        -1 => Some("UNKNOWN_SERVER_ERROR"),
        _ => None,
    },
};

fn key(api: i16, version: i16, error: i16) -> RequestKey {
    RequestKey { api, version, error }
}

fn lines_of(page: &str, family: &str) -> Vec<String> {
    let is_of = |line: &&str| line.starts_with(family) && !line.starts_with('#');
    page.lines().filter(is_of).map(str::to_owned).collect()
}

#[test]
fn counters_only_grow_and_gauges_stop_at_zero() {
    let metrics = CoreMetrics::new();
    metrics.syncs.increment();
    metrics.syncs.add(4);
    metrics.syncs.raise_to(3);
    assert_eq!(metrics.syncs.get(), 5);
    metrics.syncs.raise_to(9);
    assert_eq!(metrics.syncs.get(), 9);
    metrics.connections.decrement();
    assert_eq!(metrics.connections.get(), 0);
    metrics.connections.increment();
    {
        let _held = metrics.connections.hold();
        assert_eq!(metrics.connections.get(), 2);
    }
    assert_eq!(metrics.connections.get(), 1);
}

#[test]
fn cores_are_added_up_or_told_apart_as_each_metric_says() {
    let (first, second) = (CoreMetrics::new(), CoreMetrics::new());
    first.removed_bytes.add(5);
    second.removed_bytes.add(7);
    first.partitions.set(3);
    second.partitions.set(4);
    first.busy.add_time(Duration::from_micros(1_250_500));
    let page = render(&[first.snapshot("0"), second.snapshot("1")], &FACTS, NAMES);
    assert_eq!(lines_of(&page, "corelog_removed_bytes"), ["corelog_removed_bytes_total 12"]);
    assert_eq!(
        lines_of(&page, "corelog_partitions"),
        ["corelog_partitions{core=\"0\"} 3", "corelog_partitions{core=\"1\"} 4"]
    );
    assert_eq!(
        lines_of(&page, "corelog_core_busy"),
        [
            "corelog_core_busy_seconds_total{core=\"0\"} 1.2505",
            "corelog_core_busy_seconds_total{core=\"1\"} 0"
        ]
    );
    assert_eq!(lines_of(&page, "corelog_build_info"), ["corelog_build_info{version=\"0.1.0\"} 1"]);
    assert_eq!(lines_of(&page, "corelog_uptime"), ["corelog_uptime_seconds 1.5"]);
}

#[test]
fn requests_are_counted_by_api_version_and_error() {
    let (first, second) = (CoreMetrics::new(), CoreMetrics::new());
    for metrics in [&first, &second] {
        metrics.request(key(0, 9, 0), Duration::from_micros(60));
    }
    first.request(key(0, 9, 19), Duration::from_micros(60));
    first.request(key(1, 12, -1), Duration::from_micros(60));
    first.request(key(77, 0, 0), Duration::from_micros(60));
    let page = render(&[first.snapshot("0"), second.snapshot("1")], &FACTS, NAMES);
    let expected = [
        "corelog_requests_total{api=\"Produce\",version=\"9\",error=\"NONE\"} 2",
        "corelog_requests_total{api=\"Produce\",version=\"9\",error=\"19\"} 1",
        "corelog_requests_total{api=\"Fetch\",version=\"12\",error=\"UNKNOWN_SERVER_ERROR\"} 1",
        "corelog_requests_total{api=\"77\",version=\"0\",error=\"NONE\"} 1",
    ];
    assert_eq!(lines_of(&page, "corelog_requests_total"), expected);
}

#[test]
fn series_beyond_the_bound_are_counted_together() {
    let metrics = CoreMetrics::new();
    let versions = i16::try_from(REQUEST_SERIES_MAX).unwrap() + 10;
    for version in 0..versions {
        metrics.request(key(0, version, 0), Duration::ZERO);
    }
    metrics.request(key(0, 0, 0), Duration::ZERO);
    let page = render(&[metrics.snapshot("0")], &FACTS, NAMES);
    let lines = lines_of(&page, "corelog_requests_total");
    assert_eq!(lines.len(), REQUEST_SERIES_MAX + 1);
    assert!(lines[0].starts_with("corelog_requests_total{api=\"other\",version=\"other\""));
    assert!(lines[0].ends_with("} 10"));
    assert!(lines[1].ends_with("} 2"));
}

#[test]
fn a_duration_falls_into_the_bucket_whose_bound_it_does_not_pass() {
    let mut histogram = Histogram::default();
    for time_us in [0, 50, 51, 30_000_000, 30_000_001] {
        histogram.record(Duration::from_micros(time_us));
    }
    let cumulative: Vec<_> = histogram.cumulative().collect();
    assert_eq!(cumulative[0], (50, 2));
    assert_eq!(cumulative[1], (100, 3));
    assert_eq!(cumulative.last(), Some(&(30_000_000, 4)));
    assert_eq!(histogram.count(), 5);
    histogram.record(Duration::MAX);
    assert_eq!(histogram.count(), 6);
    let mut twice = histogram.clone();
    twice.merge(&histogram);
    assert_eq!(twice.count(), 12);
    assert!(BUCKET_BOUNDS_US.is_sorted());
}

#[test]
fn latencies_are_written_as_a_prometheus_histogram() {
    let metrics = CoreMetrics::new();
    metrics.request(key(0, 9, 0), Duration::from_micros(50));
    metrics.request(key(0, 9, 0), Duration::from_millis(3));
    let page = render(&[metrics.snapshot("0")], &FACTS, NAMES);
    let lines = lines_of(&page, "corelog_request_seconds");
    assert_eq!(lines.len(), BUCKET_BOUNDS_US.len() + 3);
    assert_eq!(lines[0], "corelog_request_seconds_bucket{api=\"Produce\",le=\"0.00005\"} 1");
    assert_eq!(lines[6], "corelog_request_seconds_bucket{api=\"Produce\",le=\"0.005\"} 2");
    let tail = [
        "corelog_request_seconds_bucket{api=\"Produce\",le=\"30\"} 2",
        "corelog_request_seconds_bucket{api=\"Produce\",le=\"+Inf\"} 2",
        "corelog_request_seconds_sum{api=\"Produce\"} 0.00305",
        "corelog_request_seconds_count{api=\"Produce\"} 2",
    ];
    assert_eq!(lines[lines.len() - 4..], tail);
}

#[test]
fn stages_are_histograms_of_each_core_and_its_requests_are_counted() {
    let (first, second) = (CoreMetrics::new(), CoreMetrics::new());
    first.stage(Stage::Sync, Duration::from_micros(90));
    first.stage(Stage::Sync, Duration::from_secs(5));
    second.request(key(0, 9, 0), Duration::ZERO);
    second.request(key(1, 9, 0), Duration::ZERO);
    let page = render(&[first.snapshot("0"), second.snapshot("1")], &FACTS, NAMES);
    let stages = lines_of(&page, "corelog_stage_seconds");
    assert_eq!(stages.len(), 2 * Stage::ALL.len() * (STAGE_BOUNDS_COUNT + 3));
    let bucket =
        |bound| format!("corelog_stage_seconds_bucket{{core=\"0\",stage=\"sync\",le=\"{bound}\"}}");
    for line in [
        format!("{} 0", bucket("0.000064")),
        format!("{} 1", bucket("0.000128")),
        format!("{} 1", bucket("4.194304")),
        format!("{} 2", bucket("+Inf")),
        "corelog_stage_seconds_sum{core=\"0\",stage=\"sync\"} 5.00009".to_owned(),
        "corelog_stage_seconds_count{core=\"0\",stage=\"sync\"} 2".to_owned(),
        "corelog_stage_seconds_count{core=\"1\",stage=\"read\"} 0".to_owned(),
    ] {
        assert!(stages.contains(&line), "{line}");
    }
    let requests = lines_of(&page, "corelog_core_requests_total");
    let expected = [0, 2].map(|n| format!("corelog_core_requests_total{{core=\"{}\"}} {n}", n / 2));
    assert_eq!(requests, expected);
}

#[test]
fn labels_are_escaped() {
    let metrics = CoreMetrics::new();
    let page = render(&[metrics.snapshot("a\\b\"c\nd")], &FACTS, NAMES);
    let lines = lines_of(&page, "corelog_partitions");
    assert_eq!(lines, ["corelog_partitions{core=\"a\\\\b\\\"c\\nd\"} 0"]);
}

#[test]
fn the_page_is_sorted_and_every_family_has_help_and_type_once() {
    let metrics = CoreMetrics::new();
    metrics.request(key(0, 9, 0), Duration::ZERO);
    let page = render(&[metrics.snapshot("0")], &FACTS, NAMES);
    let heads = |word: &str| -> Vec<String> {
        let lines = page.lines().filter_map(|line| line.strip_prefix(word));
        lines.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    let helps = heads("# HELP ");
    assert_eq!(helps, heads("# TYPE "));
    assert!(helps.is_sorted());
    let mut declared: Vec<String> = all_metrics().map(|metric| metric.name.to_owned()).collect();
    declared.sort_unstable();
    assert_eq!(helps, declared);
    declared.dedup();
    assert_eq!(helps.len(), declared.len());
    for sample in page.lines().filter(|line| !line.starts_with('#')) {
        let value = sample.rsplit(' ').next().unwrap_or_default();
        assert!(value.parse::<f64>().is_ok(), "{sample}");
    }
}

#[test]
fn names_say_the_unit_and_whether_they_count() {
    for metric in all_metrics().chain(partitions::PARTITION_METRICS) {
        let name = metric.name;
        assert!(name.starts_with("corelog_"), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
        match metric.unit {
            MetricUnit::Bytes => assert!(name.contains("_bytes"), "{name}"),
            MetricUnit::Seconds => assert!(name.contains("_seconds"), "{name}"),
            MetricUnit::Count => {}
        }
        assert!(metric.help.ends_with('.'), "{name}");
    }
}

#[test]
fn snapshots_cross_threads() {
    fn crosses<T: Send>() {}
    crosses::<Snapshot>();
}

#[test]
fn the_page_for_operators_has_one_line_for_each_metric() {
    let page = docs::operations_metrics_markdown();
    let count = all_metrics().count() + partitions::PARTITION_METRICS.len();
    assert_eq!(page.lines().count(), count + 2);
    assert!(page.lines().all(|line| line.matches('|').count() == 6));
}
