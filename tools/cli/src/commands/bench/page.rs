//! `corelog bench page`: saved results as one HTML file that needs nothing else.
//!
//! Owns what the page is told of a run, and the file. How it is drawn is `document`'s.

use std::path::{Path, PathBuf};

use clap::Args;
use load::{Job, RunResult, Unsound};

use super::compare::{self, Refusal};
use super::report;
use crate::exit::{Exit, Failure, Outcome};
use crate::replace;

mod axis;
mod chart;
mod document;
mod markup;

use document::{Comparable, PageFigure, PageRun};

const EXAMPLES: &str = "\
Examples:
  corelog bench page run.json --out run.html
  corelog bench page kafka.json corelog.json --out both.html

The files are those that --save of a bench wrote. Of several runs each has a colour, and every
figure its ratio to the first, unless their acknowledgements promise different things. The page is
one file without scripts: nothing is loaded when it is opened. Its time is that of each run, from
when measuring began.";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PageArgs {
    /// Saved results, the one first that the others are compared with
    #[arg(value_name = "FILE", required = true, num_args = 1..=document::SERIES)]
    files: Vec<PathBuf>,
    /// Where the page goes
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Show ratios of runs whose acknowledgements promise different things
    #[arg(long)]
    across_classes: bool,
}

/// Runs it.
pub(super) fn run(args: &PageArgs) -> Outcome {
    if args.files.len() > document::SERIES {
        let fact = format!("{} results: a page has at most {}", args.files.len(), document::SERIES);
        return Err(Failure::new(Exit::Usage, fact).advise("name fewer, or make several pages"));
    }
    let results = args.files.iter().map(|path| compare::read(path));
    let results = results.collect::<Outcome<Vec<RunResult>>>()?;
    let names = names(&args.files);
    let runs: Vec<(String, &RunResult)> = names.into_iter().zip(&results).collect();
    replace::replace(&args.out, page(&runs, args.across_classes)?.as_bytes())
}

/// Draws the page of one run, which is called by its topic.
pub(super) fn write(path: &Path, result: &RunResult) -> Outcome {
    replace::replace(path, page(&[(result.topic.clone(), result)], false)?.as_bytes())
}

fn page(runs: &[(String, &RunResult)], is_across: bool) -> Outcome<String> {
    let described = runs.iter().map(|(name, result)| describe(name.clone(), result));
    let described = described.collect::<Outcome<Vec<PageRun<'_>>>>()?;
    let comparable = comparable(runs, is_across);
    Ok(document::document(&described, &comparable))
}

fn describe(name: String, result: &RunResult) -> Outcome<PageRun<'_>> {
    let figures = compare::figures(result).map(|(name, unit, better, value)| PageFigure {
        name,
        unit,
        is_higher_better: better == compare::Better::Higher,
        value,
    });
    let asked = compare::flat(result)?.into_iter().map(|(name, value)| {
        // The text itself, not JSON's quotes around it.
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name, text)
    });
    let told = result.topic_configs.iter();
    let settings = asked.chain(told.map(|(key, value)| (format!("topic {key}"), value.clone())));
    Ok(PageRun {
        name,
        what: report::run_line(result),
        result,
        audit: report::audit_text(result),
        remarks: remarks(result),
        unsound: unsound(result),
        settings: settings.collect(),
        figures: figures.collect(),
    })
}

/// Whether the figures of all runs may be held against those of the first.
fn comparable(runs: &[(String, &RunResult)], is_across: bool) -> Comparable {
    let Some(((_, first), others)) = runs.split_first() else { return Comparable::Yes };
    let mut refusals = others.iter().filter_map(|(_, other)| compare::refusal(first, other));
    let gravest = refusals.clone().find(|refusal| *refusal == Refusal::Kind);
    match gravest.or_else(|| refusals.next()) {
        None => Comparable::Yes,
        Some(Refusal::Durability) if is_across => {
            Comparable::Warned(Refusal::Durability.text().to_owned())
        }
        Some(refusal) => Comparable::No(refusal.text().to_owned()),
    }
}

/// What a reader must know of a run beside its figures.
fn remarks(result: &RunResult) -> Vec<String> {
    let mut remarks = Vec::new();
    if matches!(result.job, Job::Produce(_)) {
        remarks.push(format!("Durability {}", report::durability_line(result)));
    }
    if result.latency_lower_bounds > 0 {
        let line = report::lower_bounds_line(result.latency_lower_bounds, "had no answer");
        remarks.push(format!("Latencies: {line}"));
    }
    remarks
}

/// Why the figures of a run are not to be believed; empty where they are.
fn unsound(result: &RunResult) -> Vec<String> {
    result.reasons().iter().map(Unsound::text).collect()
}

/// Files by their names; by their whole paths where two have the same.
fn names(files: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let names: Vec<String> = files.iter().map(short).collect();
    let is_unique = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    if names.iter().all(is_unique) {
        return names;
    }
    files.iter().map(|path| path.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use load::{Durability, ReadLoad};

    use super::*;
    use crate::commands::bench::report::testing;

    #[test]
    fn runs_are_called_by_their_files_and_by_whole_paths_where_two_are_alike() {
        let check = |files: &[&str], expected: &[&str]| {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!(names(&files), expected);
        };
        check(&["a/kafka.json", "b/corelog.json"], &["kafka", "corelog"]);
        check(&["a/run.json", "b/run.json"], &["a/run.json", "b/run.json"]);
    }

    #[test]
    fn a_page_tells_figures_settings_and_what_is_not_to_be_believed() {
        let (first, mut second) = (testing::result(), testing::result());
        second.errors = testing::errors();
        let named = |text: &str, result| (text.to_owned(), result);
        let text = page(&[named("first", &first), named("second", &second)], false).unwrap();
        for expected in [
            "<th scope=\"row\">throughput</th>",
            "<th scope=\"row\">pace.loop</th>",
            "batches were refused",
            "KAFKA_STORAGE_ERROR",
            "1.00 ×</td>",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let mut reading = testing::result();
        reading.job = Job::Consume(ReadLoad::default());
        let text = page(&[named("first", &first), named("second", &reading)], true).unwrap();
        assert!(text.contains("one run sent and the other read") && !text.contains(" ×</td>"));
    }

    #[test]
    fn runs_of_different_durability_have_ratios_only_where_that_is_asked() {
        let (first, mut second) = (testing::result(), testing::result());
        second.durability = Durability::D0;
        second.latency_lower_bounds = 3;
        let runs = [("first".to_owned(), &first), ("second".to_owned(), &second)];
        for is_across in [false, true] {
            let text = page(&runs, is_across).unwrap();
            assert!(text.contains("its speed is bought with records"), "{text}");
            assert!(text.contains("<p>Durability D0: acknowledged before"), "{text}");
            assert!(text.contains("3 of them had no answer"), "{text}");
            assert_eq!(text.contains(" ×</td>"), is_across, "{text}");
        }
    }
}
