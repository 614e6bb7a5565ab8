//! `corelog tune`: measures this machine and nodes on it, and says how a node should be configured here.
//!
//! Owns the arguments, the order of the measurements and what is shown. Everything that is started or written for it is gone
//! when it ends; only `--write` and `undo` change a file, the one that they are given.

mod child;
mod curve;
mod proposal;
mod report;
mod settings;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use broker::Platform;
use broker::config::DiskFloor;
use clap::{Args, Subcommand};
use commitlog::Disk;
use node::{CorePlatform, StopSignal};

use self::child::Scratch;
use self::curve::{Advertise, Candidate, Point, Times};
use self::report::Report;
use super::host::disk::{Bounds, Direction, Probe, ProbeError, SyncCost, Transfers};
use super::host::facts::{Device, System, file_system};
use super::host::loopback::{self, Loopback};
use crate::OutputArgs;
use crate::commands::signals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Output, say};

const EXAMPLES: &str = "\
Examples:
  corelog tune --dir /var/lib/corelog
  corelog tune --quick -o json
  corelog tune --dir /var/lib/corelog --write /etc/corelog.toml
  corelog tune undo /etc/corelog.toml

It starts nodes of its own with 1, 2, 4 … shards up to the CPUs that it may use, in a directory that
it makes in --dir and removes, and puts short loads on them: give it the machine alone. It takes
about 15 seconds a candidate, half of that with --quick, and wants 6 GB of free space.";

const UNDO_EXAMPLES: &str = "\
Examples:
  corelog tune undo /etc/corelog.toml";

/// Of the file that transfers go to, and of one kind of them.
const FILE_BYTES: u64 = 512 << 20;
const TRANSFER_TIME: Duration = Duration::from_millis(1_000);
const SYNCS: usize = 500;
/// Sizes and depths that are tried: a small group, one of a few partitions, and the largest transfer.
const TRANSFERS: [(usize, usize); 6] =
    [(4 << 10, 1), (4 << 10, 32), (128 << 10, 8), (1 << 20, 1), (1 << 20, 4), (1 << 20, 8)];
const TRANSFERS_QUICK: [(usize, usize); 2] = [(128 << 10, 8), (1 << 20, 8)];
/// Of one node and its loads; what nodes need at least, or nothing is started.
const SPACE_NEEDED: u64 = 6 << 30;
/// Tried beside the default on the candidate that is proposed.
const LARGE_MEMORY_BYTES: i64 = 64 << 20;
const SPIN_US: i64 = 50;
/// With fewer CPUs a core that spins takes them from others.
const SPIN_CPUS_MIN: usize = 4;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct TuneArgs {
    /// Measure the disk of this directory, which must be there: the data directory's, or what is above it
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Measure less of each: the order of candidates shows, the last tenth does not
    #[arg(long)]
    quick: bool,
    /// Put what is proposed into this configuration file; the old one is kept beside it
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    command: Option<TuneCommand>,
}

#[derive(Debug, Subcommand)]
enum TuneCommand {
    /// Put a configuration file back as it was before tune --write
    #[command(after_help = UNDO_EXAMPLES)]
    Undo {
        /// The file that --write was given
        file: PathBuf,
    },
}

/// Measures, proposes, and writes where it is asked to.
pub(crate) fn run(args: &TuneArgs) -> Outcome {
    if let Some(TuneCommand::Undo { file }) = &args.command {
        let undone = write::undo(file)?;
        say(format_args!(
            "{} is as it was before tune; what was there is kept in {}",
            file.display(),
            undone.display()
        ));
        return Ok(());
    }
    if let Some(path) = &args.write {
        // Told before minutes are spent.
        write::check(path)?;
    }
    let words = signals::Words {
        first: Some("stopping; what was started is ended and removed"),
        second: Some("ended; a directory .corelog-tune-… may be left"),
    };
    let stop = signals::watch(&signals::ENDING, words)?;
    let root = args.dir.canonicalize().map_err(|error| Failure::io(args.dir.display(), &error))?;
    let mut report =
        super::run(&root, async |platform| measure(&platform, &root, args, &stop).await)?;
    let mut written = Ok(());
    if let Some(path) = &args.write {
        match write::write(path, &report.proposals) {
            Ok(Some(kept)) => {
                report.written = Some(path.display().to_string());
                report.kept = Some(kept.display().to_string());
            }
            Ok(None) => say(format_args!("{} has all of it already: unchanged", path.display())),
            Err(failure) => written = Err(failure),
        }
    }
    // What was measured is shown also where it could not be written: it took minutes.
    let shown = Output::new(args.output.output).offer(&report);
    written.and(shown)
}

/// What a command that was told to stop says.
fn interrupted() -> Failure {
    Failure::new(Exit::Refused, "interrupted; what was started has ended and is removed")
}

async fn measure(
    platform: &CorePlatform,
    root: &Path,
    args: &TuneArgs,
    stop: &StopSignal,
) -> Outcome<Report> {
    check_space(platform, root).await?;
    let (system, device) = (System::look(), Device::of(root));
    if let Some(load) = system.busy_load() {
        say(format_args!(
            "{load:.1} threads are at work here: what is measured beside them is what they leave"
        ));
    }
    say("measuring the disk and the loopback");
    let disk = measure_disk((platform, root), (args, device.as_ref()), stop).await;
    let (transfers, syncs) = disk.map_err(|error| match error {
        ProbeError::Interrupted => interrupted(),
        error => Failure::new(Exit::Io, format!("{}: {error}", root.display()))
            .advise("corelog self-test says what is wrong with a disk"),
    })?;
    let network = loopback::measure(platform, stop, TRANSFER_TIME).await;
    if stop.is_requested() {
        return Err(interrupted());
    }
    let network: Loopback = network.map_err(|error| Failure::io("loopback", &error))?;
    let curve = measure_nodes(platform, root, (args, system.cpus.len()), stop).await?;
    Ok(Report {
        directory: root.display().to_string(),
        file_system: file_system(root),
        settings: settings::worth_a_change(&system, device.as_ref()),
        system,
        device,
        transfers,
        sync_costs: proposal::of_sync(&syncs),
        syncs,
        loopback: network,
        proposals: curve.proposals,
        curve: curve.points,
        written: None,
        kept: None,
    })
}

async fn check_space(platform: &CorePlatform, root: &Path) -> Outcome {
    let free = platform.disk().free_bytes().await;
    let free =
        free.map_err(|error| Failure::new(Exit::Io, format!("{}: {error}", root.display())))?;
    let needed = SPACE_NEEDED + DiskFloor::Auto.bytes(platform.disk_bytes().await);
    if free >= needed {
        return Ok(());
    }
    let fact = format!(
        "{}: {} MB free, {} MB are needed",
        root.display(),
        free / 1_000_000,
        needed / 1_000_000
    );
    Err(Failure::new(Exit::Io, fact)
        .advise("free some space, or name a directory on another disk with --dir"))
}

async fn measure_disk(
    place: (&CorePlatform, &Path),
    (args, device): (&TuneArgs, Option<&Device>),
    stop: &StopSignal,
) -> Result<(Vec<Transfers>, SyncCost), ProbeError> {
    let share = if args.quick { 2 } else { 1 };
    let bounds = Bounds {
        file_bytes: FILE_BYTES / u64::from(share),
        time: TRANSFER_TIME / share,
        syncs: SYNCS,
    };
    let probe = Probe::open(place, stop, bounds).await?;
    // Filled once before anything counts: the first write of a place is another than the second.
    probe.transfers(Direction::Write, (1 << 20, 8)).await?;
    let shapes: &[_] = if args.quick { &TRANSFERS_QUICK } else { &TRANSFERS };
    let mut all = Vec::new();
    for direction in [Direction::Write, Direction::Read] {
        for shape in shapes {
            all.push(probe.transfers(direction, *shape).await?);
        }
    }
    Ok((all, probe.syncs(device).await?))
}

struct Curve {
    points: Vec<Point>,
    proposals: Vec<proposal::Proposal>,
}

async fn measure_nodes(
    platform: &CorePlatform,
    root: &Path,
    (args, cpus): (&TuneArgs, usize),
    stop: &StopSignal,
) -> Outcome<Curve> {
    let scratch = Scratch::new(root)?;
    let (warm_up, measure) = if args.quick { (500, 2_000) } else { (1_000, 4_000) };
    let times =
        Times { warm_up: Duration::from_millis(warm_up), measure: Duration::from_millis(measure) };
    let candidates = curve::candidates(cpus);
    // The first node touches memory that the machine may have to find first: it is measured again where that counts.
    let mut points = Vec::with_capacity(candidates.len());
    for (number, candidate) in candidates.iter().enumerate() {
        let (of, name) = (candidates.len(), describe(candidate));
        say(format_args!("node {} of {of}: {name}", number + 1));
        points.push(curve::measure(platform, &scratch, (candidate, times), stop).await?);
    }
    let mut proposals = proposal::of_curve(&points);
    if let Some(best) = proposal::best_of(&points).filter(|_| !args.quick) {
        let with = |key: &'static str, value: i64| Candidate {
            settings: vec![(key, value.to_string())],
            ..best.candidate.clone()
        };
        let mut tried = with("io.memory.bytes", LARGE_MEMORY_BYTES);
        say(format_args!("{}, with more memory for transfers", describe(&tried)));
        let point = curve::measure(platform, &scratch, (&tried, times), stop).await?;
        let mut found = vec![proposal::of_memory(best, &point, LARGE_MEMORY_BYTES)];
        let mut beside = vec![point];
        if cpus >= SPIN_CPUS_MIN {
            tried = with("io.spin.us", SPIN_US);
            say(format_args!("{}, spinning", describe(&tried)));
            let point = curve::measure(platform, &scratch, (&tried, times), stop).await?;
            found.push(proposal::of_spin(best, &point, SPIN_US));
            beside.push(point);
        }
        proposals.extend(found.into_iter().flatten());
        points.extend(beside);
    }
    Ok(Curve { points, proposals })
}

fn describe(candidate: &Candidate) -> String {
    let Candidate { shards, advertise, .. } = candidate;
    let plural = if *shards == 1 { "" } else { "s" };
    let way = match advertise {
        Advertise::Node => "one broker",
        Advertise::Core => "one broker a core",
    };
    format!("{shards} shard{plural}, {way}")
}
