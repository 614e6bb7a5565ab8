//! The page as a reader and a parser see it: whole, well formed, and closed to what it is given.

use load::{ErrorCount, Finding, FindingKind, IntervalUse};

use super::*;
use crate::commands::bench::report::testing;

const HOSTILE: &str = "</style></svg><script src=http://x/>alert('&')</script>\" onload=\"\u{0}";

fn second(begin: f64, bytes: u64, p50_ms: f64) -> Interval {
    Interval {
        begin,
        seconds: 1.0,
        requests: 10,
        bytes,
        p50_ms,
        p99_ms: p50_ms * 4.0,
        max_ms: p50_ms * 20.0,
        broker: Some(IntervalUse { cpu_seconds: 0.5, rss_bytes: 64_000_000 }),
        ..Interval::default()
    }
}

fn result() -> RunResult {
    let mut result = testing::result();
    result.intervals = (0..20_u32).map(|n| second(f64::from(n), 800_000_000, 1.5)).collect();
    result.latency = LatencySummary { count: 20_000, p50_ms: 1.5, max_ms: 30.0, ..result.latency };
    result.latency_curve = [(0.0, 0.4), (0.5, 1.5), (0.99, 6.0), (1.0, 30.0)]
        .map(|(quantile, ms)| CurvePoint { quantile, ms })
        .to_vec();
    result
}

fn run<'a>(name: &str, result: &'a RunResult) -> PageRun<'a> {
    let figure =
        |name, unit, is_higher_better, value| PageFigure { name, unit, is_higher_better, value };
    PageRun {
        name: name.to_owned(),
        what: format!("produce to {}", result.topic),
        result,
        audit: "passed".to_owned(),
        remarks: Vec::new(),
        unsound: Vec::new(),
        settings: vec![("batch_bytes".to_owned(), "1048576".to_owned())],
        figures: vec![
            figure("throughput", "MB/s", true, Some(result.measured.mb_per_second)),
            figure("latency p99", "ms", false, Some(result.latency.p99_ms)),
            figure("delivered p99", "ms", false, None),
        ],
    }
}

/// Panics unless every element closes in order, every value is quoted, and nothing stands there that an XML parser refuses.
/// Gives the names of all elements.
fn parse(page: &str) -> Vec<String> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    while let Some(begin) = rest.find('<') {
        check_text(&rest[..begin]);
        let end = begin + rest[begin..].find('>').expect("a tag ends");
        let tag = &rest[begin + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed out of order");
            continue;
        }
        let (inner, is_void) = tag.strip_suffix('/').map_or((tag, false), |inner| (inner, true));
        let (name, attributes) = inner.split_once(' ').unwrap_or((inner, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{name}");
        check_attributes(attributes);
        seen.push(name.to_owned());
        if !is_void {
            open.push(name.to_owned());
        }
    }
    assert_eq!(open, Vec::<String>::new(), "left open");
    assert_eq!(rest.trim(), "");
    seen
}

fn check_attributes(mut text: &str) {
    let mut names = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect("a value in quotes");
        let (value, rest) = rest.split_once('"').expect("an end of the value");
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(!name.is_empty() && name.chars().all(is_name), "{name:?}");
        assert!(!names.contains(&name), "{name} twice");
        names.push(name);
        check_text(value);
        assert!(rest.is_empty() || rest.starts_with(' '), "{rest:?}");
        text = rest.trim_start();
    }
}

fn check_text(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    for (at, _) in text.match_indices('&') {
        let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        assert!(entities.iter().any(|entity| text[at..].starts_with(entity)), "{}", &text[at..]);
    }
}

#[test]
fn a_page_of_one_run_has_every_part_and_loads_nothing() {
    let result = result();
    let page = document(&[run("first", &result)], &Comparable::Yes);
    let elements = parse(&page);
    let count = |name: &str| elements.iter().filter(|element| *element == name).count();
    // Throughput, latency, percentiles, CPU and memory; the three lines of latency have a legend.
    assert_eq!((count("figure"), count("script"), count("img"), count("link")), (5, 0, 0, 0));
    for expected in [
        "<title>t: corelog bench</title>",
        "<span class=\"verdict\">sound</span>",
        "MB/s</span>",
        "99.99 %</text>",
        "<th scope=\"row\">batch_bytes</th><td class=\"number\">1048576</td>",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    for foreign in ["http:", "https:", "url(", "@import", "delivered p99"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn several_runs_have_colours_and_ratios_to_the_first() {
    let (first, mut second) = (result(), result());
    second.measured.mb_per_second = 3.0;
    second.latency.p99_ms = 4.0;
    let runs = [run("kafka", &first), run("corelog", &second)];
    let page = document(&runs, &Comparable::Yes);
    parse(&page);
    assert!(page.contains("<td class=\"number better\">3.00 ×</td>"), "{page}");
    for class in ["line s0 solid", "line s1 dotted", "swatch s1"] {
        assert!(page.contains(class), "{class}");
    }
    let page = document(&runs, &Comparable::No("one was synced".to_owned()));
    assert!(page.contains("one was synced") && !page.contains(" ×</td>"), "{page}");
}

#[test]
fn more_runs_than_lines_can_be_told_apart_have_one_latency_each() {
    let result = result();
    let runs: Vec<PageRun<'_>> = (0..SERIES).map(|n| run(&format!("r{n}"), &result)).collect();
    let page = document(&runs, &Comparable::Yes);
    parse(&page);
    assert!(page.contains("99th percentile of every second") && !page.contains("line s0 thin"));
}

#[test]
fn what_a_run_says_of_itself_stays_text() {
    let mut result = result();
    result.topic = HOSTILE.to_owned();
    result.errors =
        vec![ErrorCount { first_message: Some(HOSTILE.to_owned()), ..testing::errors().remove(0) }];
    result.audit.findings = vec![Finding {
        kind: FindingKind::Missing,
        partition: 3,
        offset: 70,
        fact: HOSTILE.to_owned(),
    }];
    let mut hostile = run(HOSTILE, &result);
    hostile.settings.push((HOSTILE.to_owned(), HOSTILE.to_owned()));
    hostile.unsound.push(HOSTILE.to_owned());
    hostile.remarks.push(HOSTILE.to_owned());
    let runs = [hostile, run("second", &result)];
    let page = document(&runs, &Comparable::No(HOSTILE.to_owned()));
    let elements = parse(&page);
    assert!(!elements.iter().any(|element| element == "script"));
    assert_eq!(elements.iter().filter(|element| *element == "style").count(), 1);
}

#[test]
fn nothing_one_point_and_absurd_values_are_drawn_all_the_same() {
    let changes: [fn(&mut RunResult); 6] = [
        |result| result.intervals.clear(),
        |result| result.intervals.truncate(1),
        |result| result.latency_curve.clear(),
        |result| {
            result.intervals.clear();
            result.latency = LatencySummary::default();
            result.latency_curve.clear();
        },
        |result| {
            for (index, second) in result.intervals.iter_mut().enumerate() {
                second.bytes = u64::MAX;
                second.begin = if index == 3 { 1e300 } else { -1e300 };
                (second.seconds, second.max_ms, second.p50_ms) = (1e-300, f64::MAX, -1.0);
            }
            result.latency.count = u64::MAX;
            result.latency_curve = vec![CurvePoint { quantile: 7.0, ms: f64::MAX }];
        },
        |result| result.intervals = vec![second(0.0, 1, 1.0); 100_000],
    ];
    for change in changes {
        let mut result = result();
        change(&mut result);
        let page = document(&[run("first", &result)], &Comparable::Yes);
        parse(&page);
        assert!(page.len() < 200_000, "{} bytes", page.len());
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
