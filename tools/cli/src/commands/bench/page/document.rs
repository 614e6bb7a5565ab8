//! The page of one run, or of several side by side.
//!
//! ```text
//!   title · a verdict for each run · figures (with ratios to the first run) · charts · what was asked · findings
//! ```
//!
//! Owns the order of the page and which charts there are. It is one file: drawings are inline, nothing is loaded, no script runs.

use load::{CurvePoint, Interval, LatencySummary, RunResult};

use super::axis::{Axis, figure, number};
use super::chart::{Chart, Line, Point, Stroke, Thin};
use super::markup::Markup;

/// Colours that lines are told apart by.
pub(super) const SERIES: usize = 8;
/// Runs of one page that have all three latencies of every second; of more, one each.
const RUNS_WITH_ALL_LATENCIES: usize = 3;
/// Findings of the audit that are shown of a run: the result has no more.
const FINDINGS_MAX: usize = 100;

/// What the page says of a run.
#[derive(Debug)]
pub(super) struct PageRun<'a> {
    /// Its name: the file, as a rule.
    pub(super) name: String,
    /// What it did, in a line.
    pub(super) what: String,
    pub(super) result: &'a RunResult,
    /// Of the audit, in a line.
    pub(super) audit: String,
    /// What a reader must know beside, a line each.
    pub(super) remarks: Vec<String>,
    /// Why its figures are not to be believed; empty where they are.
    pub(super) unsound: Vec<String>,
    /// What was asked, by name.
    pub(super) settings: Vec<(String, String)>,
    /// The same figures in the same order for every run.
    pub(super) figures: Vec<PageFigure>,
}

/// A figure of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageFigure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) is_higher_better: bool,
    pub(super) value: Option<f64>,
}

/// Why ratios are not shown, or something that a reader of them must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Comparable {
    Yes,
    /// The ratios are shown, and are no ratios of speed.
    Warned(String),
    /// They are not shown.
    No(String),
}

/// The whole page.
pub(super) fn document(runs: &[PageRun<'_>], comparable: &Comparable) -> String {
    let mut markup = Markup::default();
    markup.verbatim("<!DOCTYPE html>\n");
    markup.element("html", &[("lang", "en")], |markup| {
        let title = match runs {
            [only] => format!("{}: corelog bench", only.result.topic),
            _ => format!("{} runs: corelog bench", runs.len()),
        };
        markup.element("head", &[], |markup| {
            markup.void("meta", &[("charset", "utf-8")]);
            let scaled = "width=device-width, initial-scale=1";
            markup.void("meta", &[("name", "viewport"), ("content", scaled)]);
            // Nothing is loaded and nothing runs, whatever a topic is called.
            let policy = "default-src 'none'; style-src 'unsafe-inline'";
            markup.void("meta", &[("http-equiv", "Content-Security-Policy"), ("content", policy)]);
            markup.leaf("title", &[], &title);
            markup.element("style", &[], |markup| markup.verbatim(include_str!("page.css")));
        });
        markup.element("body", &[], |markup| {
            markup.element("main", &[], |markup| body(runs, comparable, markup));
        });
    });
    let mut text = markup.finish();
    text.push('\n');
    text
}

fn body(runs: &[PageRun<'_>], comparable: &Comparable, markup: &mut Markup) {
    markup.element("header", &[], |markup| {
        markup.leaf("p", &[("class", "over")], "corelog bench");
        match runs {
            [only] => markup.leaf("h1", &[], &only.what),
            _ => markup.leaf("h1", &[], &format!("{} runs side by side", runs.len())),
        }
    });
    markup.element("section", &[("class", "runs")], |markup| {
        for (series, run) in runs.iter().enumerate() {
            verdict(series, run, runs.len(), markup);
        }
    });
    if let [only] = runs {
        tiles(only, markup);
    }
    if let Comparable::No(why) | Comparable::Warned(why) = comparable {
        markup.leaf("p", &[("class", "warning")], &format!("Not comparable: {why}"));
    }
    if runs.len() > 1 {
        figures(runs, comparable, markup);
    }
    markup.element("section", &[("class", "charts")], |markup| {
        for chart in charts(runs) {
            chart.draw(markup);
        }
    });
    if runs.len() == 1 {
        figures(runs, comparable, markup);
    }
    settings(runs, markup);
    findings(runs, markup);
}

fn verdict(series: usize, run: &PageRun<'_>, count: usize, markup: &mut Markup) {
    let is_sound = run.unsound.is_empty();
    let class = if is_sound { "run sound" } else { "run unsound" };
    markup.element("div", &[("class", class)], |markup| {
        markup.element("p", &[("class", "name")], |markup| {
            if count > 1 {
                let class = format!("swatch s{}", series % SERIES);
                markup.leaf("span", &[("class", &class)], "");
            }
            markup.leaf("strong", &[], &run.name);
            let verdict = if is_sound { "sound" } else { "not sound" };
            markup.leaf("span", &[("class", "verdict")], verdict);
        });
        if count > 1 {
            markup.leaf("p", &[], &run.what);
        }
        markup.leaf("p", &[], &format!("Audit {}", run.audit));
        for remark in &run.remarks {
            markup.leaf("p", &[], remark);
        }
        for reason in &run.unsound {
            markup.leaf("p", &[("class", "reason")], reason);
        }
    });
}

/// The figures that a reader looks for first, large.
fn tiles(run: &PageRun<'_>, markup: &mut Markup) {
    const WANTED: [(&str, &str); 7] = [
        ("throughput", "MB/s"),
        ("requests", "1/s"),
        ("latency p50", "ms"),
        ("latency p99", "ms"),
        ("latency p99.9", "ms"),
        ("latency max", "ms"),
        ("broker CPU", "s/GB"),
    ];
    markup.element("section", &[("class", "tiles")], |markup| {
        for (name, unit) in WANTED {
            let found =
                run.figures.iter().find(|figure| (figure.name, figure.unit) == (name, unit));
            let Some(value) = found.and_then(|figure| figure.value) else { continue };
            markup.element("div", &[], |markup| {
                markup.leaf("p", &[("class", "value")], &figure(value));
                markup.leaf("p", &[("class", "what")], &format!("{name}, {unit}"));
            });
        }
    });
}

fn figures(runs: &[PageRun<'_>], comparable: &Comparable, markup: &mut Markup) {
    let Some((first, others)) = runs.split_first() else { return };
    let has_ratios = !matches!(comparable, Comparable::No(_));
    markup.element("section", &[], |markup| {
        markup.leaf("h2", &[], "Figures");
        table(markup, |markup| {
            markup.element("thead", &[], |markup| {
                markup.element("tr", &[], |markup| {
                    for head in ["figure", "unit"] {
                        markup.leaf("th", &[("scope", "col")], head);
                    }
                    for (index, run) in runs.iter().enumerate() {
                        named_column(index, run, runs.len(), markup);
                        if index > 0 && has_ratios {
                            let number = [("class", "number"), ("scope", "col")];
                            markup.leaf("th", &number, "ratio");
                        }
                    }
                });
            });
            markup.element("tbody", &[], |markup| {
                for (row, base) in first.figures.iter().enumerate() {
                    let values: Vec<Option<f64>> = others
                        .iter()
                        .map(|run| run.figures.get(row).and_then(|figure| figure.value))
                        .collect();
                    if base.value.is_none() && values.iter().all(Option::is_none) {
                        continue;
                    }
                    markup.element("tr", &[], |markup| {
                        markup.leaf("th", &[("scope", "row")], base.name);
                        markup.leaf("td", &[("class", "unit")], base.unit);
                        cell("number", base.value, markup);
                        for value in values {
                            cell("number", value, markup);
                            if has_ratios {
                                ratio(base, value, markup);
                            }
                        }
                    });
                }
            });
        });
        if has_ratios && !others.is_empty() {
            let note = "Each ratio is that to the first run, coloured where it is better or worse by more than a twentieth. Runs \
                        of one program differ from each other: run both sides in turn, A B B A, and compare several.";
            markup.leaf("p", &[("class", "note")], note);
        }
    });
}

/// A table may be wider than a small screen: it scrolls, the page does not.
fn table(markup: &mut Markup, content: impl FnOnce(&mut Markup)) {
    markup.element("div", &[("class", "scroll")], |markup| {
        markup.element("table", &[], content);
    });
}

fn named_column(index: usize, run: &PageRun<'_>, count: usize, markup: &mut Markup) {
    markup.element("th", &[("class", "number"), ("scope", "col")], |markup| {
        if count > 1 {
            let class = format!("swatch s{}", index % SERIES);
            markup.leaf("span", &[("class", &class)], "");
            markup.text(&run.name);
        } else {
            markup.text("value");
        }
    });
}

fn cell(class: &str, value: Option<f64>, markup: &mut Markup) {
    let text = value.map_or("–".to_owned(), figure);
    markup.leaf("td", &[("class", class)], &text);
}

fn ratio(base: &PageFigure, value: Option<f64>, markup: &mut Markup) {
    /// Less than this tells nothing of two single runs.
    const TOLD: f64 = 1.05;
    let ratio = base.value.zip(value).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
    let class = match ratio {
        Some(ratio) if ratio > TOLD && base.is_higher_better => "number better",
        Some(ratio) if ratio < 1.0 / TOLD && !base.is_higher_better => "number better",
        Some(ratio) if (1.0 / TOLD..=TOLD).contains(&ratio) => "number",
        Some(_) => "number worse",
        None => "number",
    };
    let shown = |ratio: f64| if ratio < 0.1 { figure(ratio) } else { number(ratio, 2) };
    let text = ratio.map_or("–".to_owned(), |ratio| format!("{} ×", shown(ratio)));
    markup.leaf("td", &[("class", class)], &text);
}

fn settings(runs: &[PageRun<'_>], markup: &mut Markup) {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in runs.iter().flat_map(|run| &run.settings) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let value = |run: &PageRun<'_>, name: &str| {
        let found = run.settings.iter().find(|(setting, _)| setting == name);
        found.map_or("–".to_owned(), |(_, value)| value.clone())
    };
    markup.element("section", &[], |markup| {
        markup.leaf("h2", &[], "What was asked");
        table(markup, |markup| {
            markup.element("thead", &[], |markup| {
                markup.element("tr", &[], |markup| {
                    markup.leaf("th", &[("scope", "col")], "setting");
                    for (index, run) in runs.iter().enumerate() {
                        named_column(index, run, runs.len(), markup);
                    }
                });
            });
            markup.element("tbody", &[], |markup| {
                for name in names {
                    let values: Vec<String> = runs.iter().map(|run| value(run, name)).collect();
                    let is_same = values.windows(2).all(|two| two[0] == two[1]);
                    let class = if is_same { "" } else { "differs" };
                    markup.element("tr", &[("class", class)], |markup| {
                        markup.leaf("th", &[("scope", "row")], name);
                        for value in &values {
                            markup.leaf("td", &[("class", "number")], value);
                        }
                    });
                }
            });
        });
    });
}

fn findings(runs: &[PageRun<'_>], markup: &mut Markup) {
    if runs.iter().all(|run| run.result.audit.findings.is_empty() && run.result.errors.is_empty()) {
        return;
    }
    markup.element("section", &[], |markup| {
        markup.leaf("h2", &[], "What went wrong");
        markup.element("ul", &[("class", "findings")], |markup| {
            for run in runs {
                for error in &run.result.errors {
                    let message = error.first_message.as_deref().unwrap_or("no message");
                    let text = format!(
                        "{}: {} × {} ({}), first in partition {}: {message}",
                        run.name, error.count, error.name, error.code, error.first_partition
                    );
                    markup.leaf("li", &[], &text);
                }
                for finding in run.result.audit.findings.iter().take(FINDINGS_MAX) {
                    let text = format!(
                        "{}: partition {} offset {}: {}: {}",
                        run.name,
                        finding.partition,
                        finding.offset,
                        finding.kind.text(),
                        finding.fact
                    );
                    markup.leaf("li", &[], &text);
                }
            }
        });
    });
}

/// The charts, those without anything to draw left out.
fn charts(runs: &[PageRun<'_>]) -> Vec<Chart> {
    let has_broker =
        runs.iter().any(|run| run.result.intervals.iter().any(|second| second.broker.is_some()));
    let mut charts = vec![throughput(runs), latency(runs), curve(runs)];
    if has_broker {
        charts.push(cpu(runs));
        charts.push(memory(runs));
    }
    charts
}

fn throughput(runs: &[PageRun<'_>]) -> Chart {
    let lines = over_time(runs, Thin::Mean, |second| {
        (second.seconds > 0.0).then(|| count(second.bytes) / 1e6 / second.seconds)
    });
    from_zero("Throughput", "MB/s", runs, lines)
}

fn cpu(runs: &[PageRun<'_>]) -> Chart {
    let lines = over_time(runs, Thin::Mean, |second| {
        let used = second.broker?;
        (second.seconds > 0.0).then(|| used.cpu_seconds / second.seconds * 100.0)
    });
    from_zero("Broker CPU", "% of one CPU", runs, lines)
}

fn memory(runs: &[PageRun<'_>]) -> Chart {
    let lines =
        over_time(runs, Thin::Largest, |second| Some(count(second.broker?.rss_bytes) / 1e6));
    from_zero("Broker memory", "MB resident", runs, lines)
}

fn latency(runs: &[PageRun<'_>]) -> Chart {
    type Rank = (&'static str, Stroke, fn(&Interval) -> f64);
    const RANKS: [Rank; 3] = [
        ("p50", Stroke::Thin, |second| second.p50_ms),
        ("p99", Stroke::Solid, |second| second.p99_ms),
        ("max", Stroke::Dotted, |second| second.max_ms),
    ];
    let is_crowded = runs.len() > RUNS_WITH_ALL_LATENCIES;
    let mut lines = Vec::new();
    for (index, (name, stroke, value)) in RANKS.into_iter().enumerate() {
        if is_crowded && name != "p99" {
            continue;
        }
        // A second without an answer has no latency, which is not a latency of zero.
        let some =
            over_time(runs, Thin::Largest, |second| (second.max_ms > 0.0).then(|| value(second)));
        lines.extend(some.into_iter().map(|line| match runs {
            [_] => Line { name: name.to_owned(), series: index, ..line },
            _ if is_crowded => line,
            _ => Line { name: format!("{} {name}", line.name), stroke, ..line },
        }));
    }
    let (min, max) = range(&lines);
    let note = if is_crowded { "The 99th percentile of every second." } else { "" };
    let (x, y) = (Axis::seconds(seconds(runs)), Axis::latency(min, max));
    Chart { title: "Latency", unit: "of each second, log scale", x, y, lines, note }
}

/// The curve of each run; of a result without one, its five ranks.
fn curve(runs: &[PageRun<'_>]) -> Chart {
    let lines: Vec<Line> = runs
        .iter()
        .enumerate()
        .map(|(series, run)| {
            let saved = &run.result.latency_curve;
            let ranks = summary_points(&run.result.latency);
            let points = if saved.is_empty() { &ranks } else { saved };
            let points = points.iter().map(|point| Point { x: point.quantile, y: Some(point.ms) });
            let points: Vec<Point> = points.collect();
            let name = run.name.clone();
            let points = Thin::Largest.apply(&points);
            Line { name, series: series % SERIES, stroke: Stroke::Solid, points }
        })
        .collect();
    let (min, max) = range(&lines);
    let most = runs.iter().map(|run| run.result.latency.count).max().unwrap_or(0);
    let (x, y) = (Axis::ranks(most), Axis::latency(min, max));
    let note = "So large a part of the requests was answered within this time; the last point is the slowest of all.";
    Chart { title: "Latency by percentile", unit: "both scales logarithmic", x, y, lines, note }
}

fn summary_points(latency: &LatencySummary) -> Vec<CurvePoint> {
    if latency.count == 0 {
        return Vec::new();
    }
    let ranks = [
        (0.0, latency.min_ms),
        (0.5, latency.p50_ms),
        (0.9, latency.p90_ms),
        (0.99, latency.p99_ms),
        (0.999, latency.p999_ms),
        (0.9999, latency.p9999_ms),
        (1.0, latency.max_ms),
    ];
    ranks.into_iter().map(|(quantile, ms)| CurvePoint { quantile, ms }).collect()
}

fn over_time(
    runs: &[PageRun<'_>],
    thin: Thin,
    value: impl Fn(&Interval) -> Option<f64>,
) -> Vec<Line> {
    let line = |(series, run): (usize, &PageRun<'_>)| {
        let points = run.result.intervals.iter().map(|second| {
            let middle = second.begin + second.seconds / 2.0;
            Point { x: middle, y: value(second).filter(|value| value.is_finite()) }
        });
        let points = thin.apply(&points.collect::<Vec<_>>());
        let name = run.name.clone();
        Line { name, series: series % SERIES, stroke: Stroke::Solid, points }
    };
    runs.iter().enumerate().map(line).collect()
}

fn from_zero(
    title: &'static str,
    unit: &'static str,
    runs: &[PageRun<'_>],
    lines: Vec<Line>,
) -> Chart {
    let (_, max) = range(&lines);
    let (x, y) = (Axis::seconds(seconds(runs)), Axis::from_zero(max, unit));
    Chart { title, unit, x, y, lines, note: "" }
}

/// How long the longest of the runs took.
fn seconds(runs: &[PageRun<'_>]) -> f64 {
    let ends = runs.iter().flat_map(|run| &run.result.intervals);
    ends.map(|second| second.begin + second.seconds).fold(0.0, f64::max)
}

/// The least above zero and the largest of all values.
fn range(lines: &[Line]) -> (f64, f64) {
    let values = lines.iter().flat_map(|line| &line.points).filter_map(|point| point.y);
    let values: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    let min = values.iter().copied().reduce(f64::min).unwrap_or(1.0);
    (min, values.into_iter().reduce(f64::max).unwrap_or(1.0))
}

#[expect(clippy::cast_precision_loss, reason = "a place on paper")]
fn count(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
