//! `corelog self-test`: whether this machine's disk and network do what a node relies on, and how well.
//!
//! Owns the bounds between well, badly and not at all. What it writes is bounded, has no name while it is there, and is gone when
//! it ends, however it does.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use broker::Platform;
use broker::config::DiskFloor;
use clap::Args;
use commitlog::{BLOCK_BYTES, Disk};
use node::{CorePlatform, StopSignal};
use serde::Serialize;

use super::doctor::{Check, Verdict, local};
use super::host::Latency;
use super::host::disk::{Bounds, Direction, Flushes, Probe, ProbeError, SyncCost, Transfers};
use super::host::facts::{Device, System, file_system};
use super::host::loopback::{self, Loopback};
use crate::OutputArgs;
use crate::commands::signals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Output, Show};

const EXAMPLES: &str = "\
Examples:
  corelog self-test
  corelog self-test --dir /var/lib/corelog
  corelog self-test -o json

It takes a few seconds and writes at most 256 MiB, in files without a name. Nothing is left. The
exit code is 1 where a check failed.";

/// Of the file that transfers go to.
const FILE_BYTES: u64 = 256 << 20;
/// Of one kind of transfer, of sync and of socket: together they stay below 20 seconds.
const TIME_EACH: Duration = Duration::from_secs(2);
const SYNCS: usize = 1_000;
const LOOPBACK_TIME: Duration = Duration::from_secs(1);
/// As a node moves bytes: by the mebibyte, eight at once.
const TRANSFER: (usize, usize) = (1 << 20, 8);

/// Slower than this and a sync is what a producer waits for.
const SYNC_P99_SLOW_US: f64 = 10_000.0;
const SYNC_P99_FAILED_US: f64 = 1_000_000.0;
/// Slower than the slowest disk that is sold.
const TRANSFER_SLOW_MB: f64 = 80.0;
const ROUND_TRIP_SLOW_US: f64 = 500.0;
const LOOPBACK_SLOW_MB: f64 = 500.0;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SelfTestArgs {
    /// The directory whose disk is tested: the data directory, or what is above it
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    directory: String,
    checks: Vec<Check>,
    transfers: Vec<Transfers>,
    syncs: Option<SyncCost>,
    loopback: Option<Loopback>,
    seconds: f64,
    /// Of all checks together.
    verdict: Verdict,
}

impl Show for Report {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        for check in &self.checks {
            check.show(sink)?;
        }
        let (directory, seconds) = (&self.directory, self.seconds);
        let word = match self.verdict {
            Verdict::Ok => "a node runs well here",
            Verdict::Warning => "a node runs here, not as well as it could: see the warnings",
            Verdict::Failed => "do not keep data here before what failed is mended",
        };
        writeln!(sink, "\n{}: {word} ({directory}, {seconds:.1} s)", self.verdict.name())
    }
}

/// Runs every check; fails if one has.
pub(crate) fn run(args: &SelfTestArgs) -> Outcome {
    let words = signals::Words { first: Some("stopping"), second: None };
    let stop = signals::watch(&signals::ENDING, words)?;
    let root = local::nearest_existing(&args.dir).to_owned();
    let mut output = Output::new(args.output.output);
    let system = System::look();
    let mut checks = vec![
        kernel(&system),
        load(&system),
        local::io_uring(),
        local::memlock(),
        local::open_files(),
    ];
    checks.push(local::directory(&args.dir));
    checks.push(kind_of(file_system(&root)));
    // Without a ring, or where nothing can be written directly, nothing can be measured, and it has been said why.
    let can_measure = checks.iter().all(|check| check.verdict != Verdict::Failed);
    let report = if can_measure {
        super::run(&root, async |platform| measure(&platform, &root, checks, &stop).await)?
    } else {
        Report::of(&root, checks)
    };
    // A reader that went away does not turn a failed check into success.
    let shown = output.offer(&report);
    let failed = report.checks.iter().filter(|check| check.verdict == Verdict::Failed).count();
    match failed {
        0 => shown,
        1 => Err(Failure::new(Exit::Refused, "1 check failed")),
        count => Err(Failure::new(Exit::Refused, format!("{count} checks failed"))),
    }
}

impl Report {
    fn of(root: &Path, checks: Vec<Check>) -> Self {
        let mut report = Self {
            directory: root.display().to_string(),
            checks,
            transfers: Vec::new(),
            syncs: None,
            loopback: None,
            seconds: 0.0,
            verdict: Verdict::Ok,
        };
        report.judge();
        report
    }

    /// The worst of all.
    fn judge(&mut self) {
        let has = |verdict| self.checks.iter().any(|check| check.verdict == verdict);
        self.verdict = match () {
            () if has(Verdict::Failed) => Verdict::Failed,
            () if has(Verdict::Warning) => Verdict::Warning,
            () => Verdict::Ok,
        };
    }
}

async fn measure(
    platform: &CorePlatform,
    root: &Path,
    checks: Vec<Check>,
    stop: &StopSignal,
) -> Outcome<Report> {
    let begin = platform.monotonic();
    let mut report = Report::of(root, checks);
    let free = platform.disk().free_bytes().await.unwrap_or(0);
    report.checks.push(local::disk_space(platform).await);
    let device = Device::of(root);
    report.checks.push(block_size(device.as_ref()));
    // A quarter of what a node may still take: a full disk would harm whoever uses it.
    let room = free.saturating_sub(DiskFloor::Auto.bytes(platform.disk_bytes().await)) / 4;
    let file_bytes = FILE_BYTES.min(room) / TRANSFER.0 as u64 * TRANSFER.0 as u64;
    if file_bytes == 0 {
        let fix = "free some space: with less nothing is written to find out";
        report.checks.push(Check::failed("transfers", "too little free space to measure", fix));
    } else {
        let bounds = Bounds { file_bytes, time: TIME_EACH, syncs: SYNCS };
        match test_disk((platform, root), stop, (bounds, device.as_ref()), &mut report).await {
            Ok(()) => {}
            Err(ProbeError::Interrupted) => return Err(interrupted()),
            Err(error) => {
                let fix = "see the kernel's log (dmesg) for what the device said, and try another directory";
                report.checks.push(Check::failed("disk i/o", error.to_string(), fix));
            }
        }
    }
    match loopback::measure(platform, stop, LOOPBACK_TIME).await {
        _ if stop.is_requested() => return Err(interrupted()),
        Ok(loopback) => {
            report.checks.push(judge_loopback(&loopback));
            report.loopback = Some(loopback);
        }
        Err(error) => {
            let fix = "see that the loopback is up (ip link show lo) and no firewall closes it";
            report.checks.push(Check::failed("loopback", error.to_string(), fix));
        }
    }
    report.seconds = (platform.monotonic() - begin).as_secs_f64();
    report.judge();
    Ok(report)
}

fn interrupted() -> Failure {
    Failure::new(Exit::Refused, "interrupted; nothing is left behind")
}

async fn test_disk(
    place: (&CorePlatform, &Path),
    stop: &StopSignal,
    (bounds, device): (Bounds, Option<&Device>),
    report: &mut Report,
) -> Result<(), ProbeError> {
    let probe = Probe::open(place, stop, bounds).await?;
    for direction in [Direction::Write, Direction::Read] {
        let transfers = probe.transfers(direction, TRANSFER).await?;
        report.checks.push(judge_transfers(&transfers));
        report.transfers.push(transfers);
    }
    let syncs = probe.syncs(device).await?;
    report.checks.push(judge_sync(&syncs.growing));
    report.checks.push(judge_dsync(syncs.dsync.as_ref()));
    report.checks.push(judge_flushes(device, syncs.flushes));
    report.syncs = Some(syncs);
    Ok(())
}

fn kernel(system: &System) -> Check {
    let release = system.kernel.as_deref().unwrap_or("unknown");
    let cpus = system.cpus.len();
    let fact = format!("Linux {release}, {cpus} CPU{} to use", if cpus == 1 { "" } else { "s" });
    let numbers = release.split(['.', '-']).filter_map(|part| part.parse::<u32>().ok());
    let version: Vec<u32> = numbers.take(2).collect();
    if version.as_slice() < [5, 8].as_slice() {
        return Check::failed(
            "kernel",
            fact,
            "use Linux 5.8 or newer: older ones lack parts of io_uring",
        );
    }
    Check::ok("kernel", fact)
}

fn load(system: &System) -> Check {
    match system.busy_load() {
        Some(load) => Check::warning(
            "load",
            format!("{load:.1} threads at work over the last minute"),
            "measure again when nothing else runs here: what follows is what was left",
        ),
        None => Check::ok("load", "nothing else of weight runs here"),
    }
}

fn kind_of(kind: Option<String>) -> Check {
    let kind = kind.unwrap_or_else(|| "unknown".to_owned());
    let fix = match kind.as_str() {
        "ext4" | "xfs" => return Check::ok("file system", kind),
        "overlay" => "use a volume or a bind mount on ext4 or xfs, not the container's own layer",
        "tmpfs" | "ramfs" => "use a directory on a disk: nothing here survives a power cut",
        "nfs" | "nfs4" | "cifs" | "9p" | "virtiofs" | "fuse" => {
            "use a local disk: what a sync means is up to another machine here"
        }
        _ => "ext4 and xfs are what nodes are tested on",
    };
    Check::warning("file system", kind, fix)
}

fn block_size(device: Option<&Device>) -> Check {
    let Some(device) = device else {
        let fix = "nothing, if the directory is meant to be there; blocks of 4096 bytes were written above";
        return Check::warning("device", "the directory is on no single block device", fix);
    };
    let unknown = || "unknown".to_owned();
    let scheduler = device.scheduler.clone().unwrap_or_else(unknown);
    let cache = device.cache.clone().unwrap_or_else(unknown);
    let block = device.logical_block_bytes;
    let blocks = block.map_or_else(unknown, |bytes| bytes.to_string());
    let fact =
        format!("{}: blocks of {blocks} bytes, scheduler {scheduler}, cache {cache}", device.name);
    if block.is_some_and(|bytes| bytes > BLOCK_BYTES as u64) {
        let fix = "use a device with blocks of 4096 bytes or less: logs are written in those";
        return Check::failed("device", fact, fix);
    }
    Check::ok("device", fact)
}

fn judge_transfers(transfers: &Transfers) -> Check {
    let (name, verb) = match transfers.direction {
        Direction::Write => ("write", "written"),
        Direction::Read => ("read", "read"),
    };
    let Transfers { mb_per_second, latency, depth, .. } = transfers;
    let fact = format!(
        "{mb_per_second:.0} MB/s {verb} directly in order, 1 MiB x {depth}, p99 {:.1} ms",
        latency.p99_us / 1e3
    );
    if *mb_per_second < TRANSFER_SLOW_MB {
        return Check::warning(
            name,
            fact,
            "use a faster disk: this one bounds every producer and consumer",
        );
    }
    Check::ok(name, fact)
}

fn judge_sync(latency: &Latency) -> Check {
    let Latency { p50_us, p99_us, max_us, .. } = *latency;
    let fact = format!(
        "4 KiB made lasting in {:.2} ms (p50), {:.2} ms (p99), {:.1} ms at most",
        p50_us / 1e3,
        p99_us / 1e3,
        max_us / 1e3
    );
    let fix = "acknowledgements wait for this: use a disk with a protected cache (most data-centre SSDs), or one that nobody else uses";
    match p99_us {
        _ if p99_us > SYNC_P99_FAILED_US => Check::failed("sync", fact, fix),
        _ if p99_us > SYNC_P99_SLOW_US => Check::warning("sync", fact, fix),
        _ => Check::ok("sync", fact),
    }
}

fn judge_dsync(latency: Option<&Latency>) -> Check {
    match latency {
        Some(Latency { p50_us, p99_us, .. }) => Check::ok(
            "o_dsync",
            format!(
                "4 KiB written through in {:.2} ms (p50), {:.2} ms (p99)",
                p50_us / 1e3,
                p99_us / 1e3
            ),
        ),
        None => Check::warning(
            "o_dsync",
            "the file system refuses direct files that write through",
            "use ext4 or xfs",
        ),
    }
}

/// Whether syncs reach the device. One that is asked of nobody makes every acknowledgement a lie at the next power cut.
fn judge_flushes(device: Option<&Device>, flushes: Option<Flushes>) -> Check {
    let name = "flushes";
    let Some((device, Flushes { syncs, flushes })) = device.zip(flushes) else {
        let fix = "see with the storage's maker whether a sync reaches stable storage";
        return Check::warning(
            name,
            "the device does not count them: syncs cannot be checked",
            fix,
        );
    };
    let fact = format!("{}: {flushes} flushes counted over {syncs} syncs", device.name);
    if device.cache.as_deref() == Some("write through") {
        let fact = format!("{fact}; it says that it has no cache to flush");
        return Check::ok(name, fact);
    }
    match flushes {
        0 => Check::failed(
            name,
            fact,
            "syncs do not reach the device: look for the mount options nobarrier and barrier=0, and for a hypervisor with an unsafe cache mode",
        ),
        _ if flushes < syncs / 2 => Check::warning(
            name,
            fact,
            "fewer flushes than syncs: look at what lies between the file system and the device",
        ),
        _ => Check::ok(name, fact),
    }
}

fn judge_loopback(loopback: &Loopback) -> Check {
    let Loopback { round_trip, mb_per_second } = loopback;
    let fact = format!(
        "round trip {:.0} us (p50), {:.0} us (p99); {mb_per_second:.0} MB/s one way, both ends on one core",
        round_trip.p50_us, round_trip.p99_us
    );
    if round_trip.p50_us > ROUND_TRIP_SLOW_US || *mb_per_second < LOOPBACK_SLOW_MB {
        let fix = "see what else runs here (top), how the CPU is clocked (its governor) and what filters packets (nft list ruleset)";
        return Check::warning("loopback", fact, fix);
    }
    Check::ok("loopback", fact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p50_us: f64, p99_us: f64) -> Latency {
        Latency { count: 100, p50_us, p99_us, max_us: p99_us }
    }

    fn device(cache: &str) -> Option<Device> {
        let mut device = Device::of(Path::new("/"))?;
        device.cache = Some(cache.to_owned());
        Some(device)
    }

    #[test]
    fn slow_is_warned_of_and_what_loses_data_fails() {
        use Verdict::{Failed, Ok, Warning};
        let sync = |p99_us| judge_sync(&latency(100.0, p99_us)).verdict;
        assert_eq!([9e3, 1.1e4, 1.1e6].map(sync), [Ok, Warning, Failed]);
        let moved = |mb_per_second| {
            let latency = latency(1.0, 2.0);
            let transfers = Transfers {
                direction: Direction::Read,
                bytes: 1,
                depth: 1,
                mb_per_second,
                latency,
            };
            judge_transfers(&transfers).verdict
        };
        assert_eq!([79.0, 81.0].map(moved), [Warning, Ok]);
        let loopback = |p50_us, mb_per_second| {
            judge_loopback(&Loopback { round_trip: latency(p50_us, 1e3), mb_per_second }).verdict
        };
        assert_eq!(loopback(50.0, 2_000.0), Ok);
        assert_eq!(loopback(501.0, 2_000.0), Warning);
        assert_eq!(loopback(50.0, 499.0), Warning);
        assert_eq!(
            [None, Some(latency(1.0, 2.0))].map(|one| judge_dsync(one.as_ref()).verdict),
            [Warning, Ok]
        );
    }

    #[test]
    fn a_sync_that_flushes_nothing_fails_unless_there_is_nothing_to_flush() {
        let Some(back) = device("write back") else { return };
        let judge = |device: &Device, flushes| {
            judge_flushes(Some(device), Some(Flushes { syncs: 100, flushes })).verdict
        };
        let verdicts = [0, 49, 50, 300].map(|flushes| judge(&back, flushes));
        assert_eq!(verdicts, [Verdict::Failed, Verdict::Warning, Verdict::Ok, Verdict::Ok]);
        assert_eq!(judge(&device("write through").unwrap(), 0), Verdict::Ok);
        assert_eq!(judge_flushes(Some(&back), None).verdict, Verdict::Warning);
    }

    #[test]
    fn old_kernels_and_strange_file_systems_are_named() {
        let system = |kernel: &str| System { kernel: Some(kernel.to_owned()), ..System::look() };
        for (release, verdict) in [
            ("5.7.19-generic", Verdict::Failed),
            ("4.18.0", Verdict::Failed),
            ("5.8.0", Verdict::Ok),
            ("6.18.1-rc2", Verdict::Ok),
            ("10.0.0", Verdict::Ok),
        ] {
            assert_eq!(kernel(&system(release)).verdict, verdict, "{release}");
        }
        assert_eq!(kind_of(Some("xfs".to_owned())).verdict, Verdict::Ok);
        for kind in ["overlay", "tmpfs", "nfs4", "btrfs", "unknown"] {
            assert_eq!(kind_of(Some(kind.to_owned())).verdict, Verdict::Warning, "{kind}");
        }
    }

    #[test]
    fn the_verdict_is_that_of_the_worst_check() {
        let (good, bad) = (Check::ok("a", "b"), Check::warning("a", "b", "c"));
        let worst = Check::failed("a", "b", "c");
        let verdict = |checks: &[&Check]| {
            Report::of(Path::new("x"), checks.iter().copied().cloned().collect()).verdict
        };
        assert_eq!(verdict(&[&good]), Verdict::Ok);
        assert_eq!(verdict(&[&bad, &good]), Verdict::Warning);
        assert_eq!(verdict(&[&good, &worst, &bad]), Verdict::Failed);
    }
}
