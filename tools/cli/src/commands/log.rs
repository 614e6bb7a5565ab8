//! `corelog log`: what lies in log files, with no node running.
//!
//! Owns the arguments and what is shown. Nothing is ever changed: a node that runs meanwhile is not disturbed, what it has
//! not written yet is not seen, and what it is writing is a note.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use node::{CorePlatform, GlommioDisk};

use crate::OutputArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, Output};

mod census;
mod check;
mod derived;
mod files;
mod ground;
mod journals;
mod show;
mod standing;

use check::{Checker, Depth};
use files::{PartOf, Partition};
use ground::Ground;
use show::{Item, TABLE_HEADINGS, Totals};
use standing::Standing;

const DUMP_EXAMPLES: &str = "\
Examples:
  corelog log dump corelog-data/topics/orders-0
  corelog log dump corelog-data/topics/orders-0/00000000000000000000.log
  corelog log dump corelog-data/topics -o json

It exits with 5 where bytes are no batches. What a recovery has set aside in stray/ is shown too, where it is named.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  corelog log verify corelog-data
  corelog log verify corelog-data/topics/orders-0 -o json

It checks every batch of every .log: place, checksum, offsets, and each record in it; every entry of
.index and .timeindex; producer snapshots and leader epochs against the batches; and in a data directory
that everything is there which its metadata and its checkpoints know, and what a core's journal holds
that no segment does: the next start writes it there. It exits with 5 where anything is wrong. What lies
above a checkpoint and is torn is a note: the next start of the node cuts it, or has it in the journal.
Of a node that runs the journals are left out. stray/ and deleted/ are too, unless they are named.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// List the batches of log files, one a line
    Dump(DumpArgs),
    /// Check log files and everything that is derived from them
    Verify(VerifyArgs),
}

/// Arguments of `dump`.
#[derive(Debug, Args)]
#[command(after_help = DUMP_EXAMPLES)]
pub(crate) struct DumpArgs {
    /// Files (.log, or of stray/) or directories, which are searched
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Files (.log) or directories, which are searched
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub(crate) fn run(command: &LogCommand) -> Outcome {
    match command {
        LogCommand::Dump(args) => dump(args),
        LogCommand::Verify(args) => verify(args),
    }
}

fn dump(args: &DumpArgs) -> Outcome {
    let format = args.output.output;
    let mut output = Output::new(format);
    let totals = visit(&args.paths, Depth::Headers, async |checker, found, is_alone| {
        let Found::Partition(partition) = found else { return Ok(()) };
        let mut standing = checker.standing(partition).await?;
        for segment in partition.logs() {
            if format == Format::Table {
                output.with(|sink| {
                    if !is_alone {
                        writeln!(sink, "{}", checker.shown(&segment.path))?;
                    }
                    writeln!(sink, "{TABLE_HEADINGS}")
                })?;
            }
            let mut print = |item: &Item<'_>| output.with(|sink| item.write(sink, format));
            let mut alone = Standing::default();
            let standing = match segment.part_of {
                PartOf::Log => &mut standing,
                PartOf::Copy { .. } => &mut alone,
            };
            checker.segment(segment, standing, &mut print).await?;
        }
        Ok(())
    })?;
    output.flush()?;
    damage_of(&totals, "corelog log verify says what follows from it")
}

fn verify(args: &VerifyArgs) -> Outcome {
    let format = args.output.output;
    let mut output = Output::new(format);
    let mut remedies = BTreeSet::new();
    let totals = visit(&args.paths, Depth::Records, async |checker, found, _| {
        let mut print = |item: &Item<'_>| match item {
            Item::Finding(finding) => {
                remedies.extend(finding.remedy());
                output.with(|sink| item.write(sink, format))
            }
            Item::Batch(_) | Item::ZeroTail(_) => Ok(()),
        };
        match found {
            Found::Partition(partition) => checker.partition(partition, &mut print).await?,
            Found::DataDirectory(partitions) => checker.census(partitions, &mut print).await?,
        }
        checker.beside_progress(|| output.flush())
    })?;
    output.show(&totals)?;
    // The gravest first.
    let advice: Vec<&str> = remedies.iter().map(|remedy| remedy.advice()).collect();
    damage_of(&totals, &advice.join("; "))
}

/// How a run ends that has found so much.
fn damage_of(totals: &Totals, advice: &str) -> Outcome {
    let fact = match totals.problems {
        0 => return Ok(()),
        1 => "1 problem found".to_owned(),
        count => format!("{count} problems found"),
    };
    Err(Failure::new(Exit::Damaged, fact).advise(advice))
}

/// What there is to look at.
enum Found<'a> {
    /// The files of one partition.
    Partition(&'a Partition),
    /// All partitions of a data directory, after they were looked at one by one.
    DataDirectory(&'a [Partition]),
}

/// Calls `visit` for what is found at or below the paths, and says whether one segment is all there is.
fn visit(
    paths: &[PathBuf],
    depth: Depth,
    mut visit: impl AsyncFnMut(&mut Checker<GlommioDisk, CorePlatform>, Found<'_>, bool) -> Outcome,
) -> Outcome<Totals> {
    crate::commands::run(Path::new("."), async |platform| {
        let mut totals = Totals::default();
        for path in paths {
            let (root, name) = files::split(path)?;
            let disk = GlommioDisk::new(&root);
            // Before the files: what a checkpoint knows is there, or was removed since.
            let ground = ground(path, &platform, depth).await?;
            let partitions = files::find(&disk, &root, name.as_deref()).await?;
            let segments = || partitions.iter().flat_map(Partition::logs);
            let bytes = segments().map(|segment| segment.bytes).sum();
            let is_alone = paths.len() == 1 && segments().count() == 1;
            let checker = Checker::new(disk, platform.clone(), root, ground, depth);
            // The lines of a dump show well enough on a terminal how far it has come.
            let is_shown = depth == Depth::Records || !std::io::stdout().is_terminal();
            let mut checker = if is_shown { checker.of_bytes(bytes) } else { checker };
            for partition in &partitions {
                visit(&mut checker, Found::Partition(partition), is_alone).await?;
            }
            if ground::is_data_directory(path) {
                visit(&mut checker, Found::DataDirectory(&partitions), is_alone).await?;
            }
            totals.add(checker.finish());
        }
        Ok(totals)
    })
}

/// What the node that a path belongs to says of it, and whether it runs.
async fn ground(path: &Path, platform: &CorePlatform, depth: Depth) -> Outcome<Ground> {
    let Some(directory) = ground::data_directory(path) else { return Ok(Ground::default()) };
    let holder = node::directory_holder(&directory);
    if let Some(process) = holder {
        let place = directory.display();
        eprintln!(
            "corelog: {place}: process {process} runs on it; what it is writing may look torn"
        );
    }
    let disk = GlommioDisk::new(&directory);
    let mut ground = Ground::load(&disk, holder).await?;
    if depth == Depth::Records {
        ground.look_at_journals(&disk, platform).await?;
    }
    for copy in ground.damaged.iter().filter(|copy| copy.has_other) {
        let place = directory.join(&copy.path);
        eprintln!("corelog: {}: {}; another copy stands in", place.display(), copy.damage);
    }
    Ok(ground)
}
