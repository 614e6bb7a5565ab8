//! `corelog bench`: load for any broker that speaks Kafka's protocol, measured and audited.
//!
//! Owns the verbs. The work is `load`'s; arguments, progress and what is shown stand here.

use clap::Subcommand;

use crate::exit::Outcome;

mod aside;
mod compare;
mod consume;
mod failure;
mod mixed;
mod options;
mod page;
mod produce;
mod report;
mod session;
mod told;
mod units;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Send batches that were encoded beforehand, measure the acknowledgements, and read everything back
    Produce(Box<options::ProduceArgs>),
    /// Read a topic with consumers beside each other, check every batch, and measure
    Consume(Box<consume::ConsumeArgs>),
    /// Send to a topic and catch up on it at the same time, with figures of each
    Mixed(Box<mixed::MixedArgs>),
    /// Show two saved results side by side, with their ratios
    Compare(compare::CompareArgs),
    /// Draw saved results as one HTML page
    Page(page::PageArgs),
}

/// Runs one.
pub(crate) fn run(command: &BenchCommand) -> Outcome {
    match command {
        BenchCommand::Produce(args) => produce::run(args),
        BenchCommand::Consume(args) => consume::run(args),
        BenchCommand::Mixed(args) => mixed::run(args),
        BenchCommand::Compare(args) => compare::run(args),
        BenchCommand::Page(args) => page::run(args),
    }
}
