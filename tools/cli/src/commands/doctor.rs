//! `corelog doctor`: looks for what keeps nodes from running and clients from reaching them, and names the fix.
//!
//! Owns the list of checks, their order and what is shown. It changes nothing but a probe file, which it removes again, in the
//! data directory or, where that is yet to be made, in the directory above it.

mod advertised;
pub(crate) mod local;
mod partitions;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::client::Client;
use crate::commands::run as run_local;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Output, Show};
use crate::{ClusterArgs, OutputArgs};

const EXAMPLES: &str = "\
Examples:
  corelog doctor
  corelog doctor -b broker.example:9092
  corelog doctor --machine --data-dir /var/lib/corelog
  corelog doctor -o json";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Check this machine alone: there is no node to ask yet
    #[arg(long)]
    machine: bool,
    /// Check that a node could keep its data here
    #[arg(short, long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// Works, and may not be meant.
    Warning,
    /// Does not work.
    Failed,
}

impl Verdict {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) verdict: Verdict,
    /// What was found.
    fact: String,
    /// What to do about it.
    fix: Option<String>,
}

impl Check {
    pub(crate) fn ok(name: &'static str, fact: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, fact: fact.into(), fix: None }
    }

    pub(crate) fn warning(
        name: &'static str,
        fact: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { name, verdict: Verdict::Warning, fact: fact.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn failed(
        name: &'static str,
        fact: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { name, verdict: Verdict::Failed, fact: fact.into(), fix: Some(fix.into()) }
    }

    /// A line, and another for what to do.
    pub(crate) fn show(&self, sink: &mut dyn Write) -> io::Result<()> {
        writeln!(sink, "{:<8} {:<11} {}", self.verdict.name(), self.name, self.fact)?;
        match &self.fix {
            Some(fix) => writeln!(sink, "{:<20} fix: {fix}", ""),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    checks: Vec<Check>,
}

impl Show for Report {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.checks.iter().try_for_each(|check| check.show(sink))
    }
}

/// Runs every check; fails if one has.
pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    let options = args.cluster.options()?;
    let mut checks = local::checks(args.data_dir.as_deref());
    // A client needs a ring of its own: without one the rest cannot be asked, and has been explained.
    let is_needed = |check: &Check| ["io_uring", "memlock"].contains(&check.name);
    let can_ask = !checks.iter().any(|check| is_needed(check) && check.verdict == Verdict::Failed);
    if can_ask {
        let data_dir = args.data_dir.as_deref().map(local::nearest_existing);
        let root = data_dir.unwrap_or(Path::new(".")).to_owned();
        run_local(&root, async |platform| {
            if args.data_dir.is_some() {
                checks.push(local::disk_space(&platform).await);
            }
            if !args.machine {
                let mut client = Client::new(platform, options.clone());
                checks.extend(advertised::checks(&mut client, &options).await);
            }
            Ok(())
        })?;
    }
    let failed = checks.iter().filter(|check| check.verdict == Verdict::Failed).count();
    output.show(&Report { checks })?;
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Refused, "1 check failed")),
        count => Err(Failure::new(Exit::Refused, format!("{count} checks failed"))),
    }
}
