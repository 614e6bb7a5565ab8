//! What can be said of this machine without a node: the kernel, the limits, the clock, the disk.
//!
//! Owns the bounds that are a matter of advice; what a node cannot start without is `node`'s own preflight.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use broker::Platform;
use broker::config::DiskFloor;
use commitlog::Disk;
use node::DirectoryKind;

use super::Check;
use crate::moment::{Moment, Utc};

/// Files that a node of some thousand partitions and connections may have open.
const OPEN_FILES_ADVISED: u64 = 65_536;
/// No clock that is right is before this.
const CLOCK_MIN: &str = "2025-01-01";

/// The checks that need neither a node nor a ring.
pub(super) fn checks(data_dir: Option<&Path>) -> Vec<Check> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(-1, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let mut checks = vec![io_uring(), memlock(), open_files(), clock(now)];
    checks.extend(data_dir.map(directory));
    checks
}

pub(crate) fn io_uring() -> Check {
    match node::check_io_uring() {
        Ok(()) => Check::ok("io_uring", "a ring can be made"),
        Err(error) => of_start_error("io_uring", &error),
    }
}

pub(crate) fn memlock() -> Check {
    match node::check_memlock() {
        Ok(()) => Check::ok("memlock", "the rings' memory may be locked"),
        Err(error) => of_start_error("memlock", &error),
    }
}

/// `node` says fact and fix in one sentence, divided by a colon; one within the brackets of an error number does not count.
fn of_start_error(name: &'static str, error: &node::StartError) -> Check {
    let text = error.to_string();
    let behind_number = text.find("): ").map(|at| at + 1);
    match behind_number.or_else(|| text.find(": ")) {
        Some(colon) => {
            let (fact, fix) = text.split_at(colon);
            Check::failed(name, fact, fix.trim_start_matches(": "))
        }
        None => Check::failed(name, text, "see docs/operations.md"),
    }
}

pub(crate) fn open_files() -> Check {
    match node::raise_open_files() {
        Ok(limit) => judge_open_files(limit),
        Err(error) => of_start_error("nofile", &error),
    }
}

fn judge_open_files(limit: u64) -> Check {
    let fact = format!("{limit} files may be open");
    if limit < OPEN_FILES_ADVISED {
        let fix = format!(
            "raise the hard limit to {OPEN_FILES_ADVISED} (LimitNOFILE=, docker: --ulimit nofile={OPEN_FILES_ADVISED}): \
             every connection and many segments need one"
        );
        return Check::warning("nofile", fact, fix);
    }
    Check::ok("nofile", fact)
}

fn clock(now_ms: i64) -> Check {
    let earliest = Moment::parse(CLOCK_MIN).map_or(0, |moment| moment.unix_ms(now_ms));
    let fact = format!("the clock says {}", Utc(now_ms));
    if now_ms < earliest {
        let fix = "set the clock, and keep it right with NTP (timedatectl set-ntp true): records are \
                   stamped and found by it";
        return Check::failed("clock", fact, fix);
    }
    Check::ok("clock", fact)
}

pub(crate) fn directory(path: &Path) -> Check {
    let place = path.display();
    if let Err(error) = node::check_contents(path) {
        let fix = "choose an empty directory, or run as the user whose node this is";
        return Check::failed("data.dir", error.to_string(), fix);
    }
    // Making it is the node's: whoever runs this may be another user than the node's.
    let probed = nearest_existing(path);
    let found = if probed == path {
        format!("{place}: ")
    } else {
        format!("{place}: would be made; {}: ", probed.display())
    };
    match node::check_directory(probed) {
        Ok(DirectoryKind::Direct) => {
            Check::ok("data.dir", format!("{found}written and read directly"))
        }
        Ok(DirectoryKind::Memory) => Check::warning(
            "data.dir",
            format!("{found}a file system in memory"),
            "use a directory on a disk: nothing here survives a power cut",
        ),
        Err(error) => Check::failed(
            "data.dir",
            error.to_string(),
            "use a directory on ext4 or xfs that this user may write",
        ),
    }
}

/// The path itself, or what above it is there.
pub(crate) fn nearest_existing(path: &Path) -> &Path {
    let found = path.ancestors().find(|at| at.symlink_metadata().is_ok());
    // Above a relative path there is the current directory.
    found.filter(|at| !at.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Free space against the floor below which a node takes no records.
pub(crate) async fn disk_space<P: Platform>(platform: &P) -> Check {
    match platform.disk().free_bytes().await {
        Ok(free) => judge_space(free, platform.disk_bytes().await),
        Err(error) => Check::failed(
            "disk",
            format!("free space cannot be told: {error}"),
            "see whether the file system is mounted and healthy",
        ),
    }
}

fn judge_space(free: u64, whole: u64) -> Check {
    const MIB: u64 = 1 << 20;
    let floor = DiskFloor::Auto.bytes(whole);
    let fact = format!(
        "{} MiB free, produce is refused below {} MiB (the default of disk.floor.bytes)",
        free / MIB,
        floor / MIB
    );
    let fix = "free some space, use a larger disk, or set disk.floor.bytes";
    match free {
        _ if free < floor => Check::failed("disk", fact, fix),
        _ if free < floor.saturating_mul(4) => Check::warning("disk", fact, fix),
        _ => Check::ok("disk", fact),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn limits_clock_and_space_have_their_bounds() {
        let verdict = |check: Check| check.verdict;
        assert_eq!(verdict(judge_open_files(1_024)), Verdict::Warning);
        assert_eq!(verdict(judge_open_files(65_536)), Verdict::Ok);
        assert_eq!(verdict(clock(0)), Verdict::Failed);
        assert_eq!(verdict(clock(-1)), Verdict::Failed);
        assert_eq!(verdict(clock(1_764_447_300_000)), Verdict::Ok);
        let gib = 1 << 30;
        assert_eq!(verdict(judge_space(255 << 20, 10 * gib)), Verdict::Failed);
        assert_eq!(verdict(judge_space(gib - 1, 10 * gib)), Verdict::Warning);
        assert_eq!(verdict(judge_space(gib, 10 * gib)), Verdict::Ok);
        assert_eq!(verdict(judge_space(10 * gib, 1_000 * gib)), Verdict::Failed);
    }

    #[test]
    fn what_a_node_would_refuse_is_divided_into_fact_and_fix() {
        let error = node::StartError::IoUringDisabled { value: 2 };
        let check = of_start_error("io_uring", &error);
        assert_eq!(check.fact, "io_uring is switched off");
        assert!(check.fix.unwrap().contains("sysctl -w"));
        let errno = nix::errno::Errno::EPERM;
        let check = of_start_error("io_uring", &node::StartError::IoUringSeccomp { errno });
        assert!(check.fact.starts_with("io_uring is blocked (") && check.fact.ends_with(')'));
        assert!(check.fix.unwrap().starts_with("allow io_uring_setup"));
        let error = node::StartError::MemoryLock { bytes: 65_536 };
        let check = of_start_error("memlock", &error);
        assert_eq!(check.fact, "memlock limit is 65536 bytes");
        assert!(check.fix.unwrap().contains("LimitMEMLOCK="));
    }
}
