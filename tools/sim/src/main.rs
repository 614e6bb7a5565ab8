//! `sim`: runs seeds, hunts mutants, replays a failure.
//!
//! Owns the command line only.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand, ValueEnum};
use sim::broker_world::BrokerWorld;
use sim::log_world::LogWorld;
use sim::runner::{Failure, Range, Stop, World, run_many, run_one};
use sim::trace::Keep;

/// From so many seeds on it is no chance if something never happens: of so many logs' worlds about forty replay a journal.
const MANY_SEEDS: u64 = 200;

/// The deterministic worlds of Corelog: its logs, and the whole broker with its clients.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Which world.
    #[arg(long, value_enum, global = true, default_value_t = WorldOption::Log)]
    world: WorldOption,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WorldOption {
    /// The logs of one node on a failing disk.
    Log,
    /// The whole broker: clients, cores, crashes.
    Broker,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run many seeds; exit 1 if one breaks a property.
    Run {
        /// How many seeds.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Switch off each safety rule in turn; exit 1 if no seed notices one.
    Mutants {
        /// How many seeds each may take.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
    },
    /// Run one seed and print its trace.
    Replay {
        /// The seed.
        seed: u64,
        /// The rule that is off, by the name that `mutants` prints.
        #[arg(long, value_name = "NAME")]
        mutant: Option<String>,
    },
}

fn main() -> ExitCode {
    let Arguments { command, world } = Arguments::parse();
    match world {
        WorldOption::Log => obey::<LogWorld>(command),
        WorldOption::Broker => obey::<BrokerWorld>(command),
    }
}

fn obey<W: World>(command: Command) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match command {
        Command::Run { seeds, from } => run::<W>(Range { from, seeds, threads }),
        Command::Mutants { seeds } => hunt::<W>(Range { from: 0, seeds, threads }),
        Command::Replay { seed, mutant } => {
            match mutant.as_deref().map_or_else(|| Ok(W::Mutant::default()), named::<W>) {
                Ok(mutant) => replay::<W>(seed, mutant),
                Err(problem) => {
                    eprintln!("{problem}");
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn run<W: World>(range: Range) -> ExitCode {
    let started = Instant::now();
    let progress = |done: u64, failure: Option<&Failure>| {
        if let Some(failure) = failure {
            println!("{failure}");
        }
        if done.is_multiple_of(1_000) {
            println!("{done} of {} seeds, {} s", range.seeds, started.elapsed().as_secs());
        }
    };
    let report = run_many::<W>(range, W::Mutant::default(), Stop::AtEnd, progress);
    println!("{report} ms={}", started.elapsed().as_millis());
    // A world in which nothing happens passes as well.
    let missed = W::missed(&report.stats).filter(|_| range.seeds >= MANY_SEEDS);
    if let Some(missed) = missed {
        println!("of so many seeds some should have done it: {missed}");
    }
    if report.failures.is_empty() && missed.is_none() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(feature = "mutants")]
fn hunt<W: World>(range: Range) -> ExitCode {
    let mut has_escaped = false;
    println!("{:<60} {:>6}  property", "mutant", "seed");
    for named in W::mutants() {
        match sim::mutants::hunt::<W>(&named, range) {
            Some(found) => println!("{:<60} {:>6}  {}", named.name, found.seed, found.what),
            None => {
                has_escaped = true;
                println!("{:<60} {:>6}  escaped {} seeds", named.name, "-", range.seeds);
            }
        }
    }
    if has_escaped { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(not(feature = "mutants"))]
fn hunt<W: World>(_: Range) -> ExitCode {
    eprintln!("built without mutants: cargo run -p sim --features mutants -- mutants");
    ExitCode::FAILURE
}

#[cfg(feature = "mutants")]
fn named<W: World>(name: &str) -> Result<W::Mutant, String> {
    let known = sim::mutants::named::<W>(name);
    known.map(|named| named.mutant).ok_or_else(|| {
        let names: Vec<&str> = W::mutants().iter().map(|named| named.name).collect();
        format!("no mutant `{name}`; one of {}", names.join(", "))
    })
}

#[cfg(not(feature = "mutants"))]
fn named<W: World>(_: &str) -> Result<W::Mutant, String> {
    Err("built without mutants: cargo run -p sim --features mutants -- replay …".to_owned())
}

fn replay<W: World>(seed: u64, mutant: W::Mutant) -> ExitCode {
    let (outcome, failure) = run_one::<W>(seed, mutant, Keep::Lines);
    if let Some(outcome) = outcome {
        for line in &outcome.lines {
            println!("{line}");
        }
        println!("seed {seed}, hash {:016x}", outcome.hash);
    }
    match failure {
        Some(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}
