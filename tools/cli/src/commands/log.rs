//! `corelog log`.
use crate::OutputArgs;
use crate::exit::{Exit, Failure, Outcome};
use clap::{Args, Subcommand};
use std::path::PathBuf;

const DUMP_EXAMPLES: &str = "\
Examples:
  corelog log dump corelog-data/topics/orders-0
  corelog log dump corelog-data/topics/orders-0/00000000000000000000.log -o json";
const VERIFY_EXAMPLES: &str = "\
Examples:
  corelog log verify corelog-data
  corelog log verify corelog-data/topics/orders-0 -o json";
/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// List the batches
    Dump(DumpArgs),
    /// Check
    Verify(VerifyArgs),
}
/// Arguments of `dump`.
#[derive(Debug, Args)]
#[command(after_help = DUMP_EXAMPLES)]
pub(crate) struct DumpArgs {
    /// Files or directories
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}
/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Files or directories
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}
/// Runs.
pub(crate) fn run(command: &LogCommand) -> Outcome {
    let _ = command;
    Err(Failure::new(Exit::Io, "x"))
}
