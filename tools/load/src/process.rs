//! What a process has used, from `/proc`.
//!
//! Owns the reading of four small files. What the system does not let us read of a foreign process is absent, not zero.

use std::fs;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

use crate::result::{IntervalUse, ProcessUse};

/// Linux has told times in hundredths to user space for ever; asked all the same.
const TICKS_PER_SECOND: u32 = 100;

/// A process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Sample {
    user: Duration,
    system: Duration,
    rss_bytes: u64,
    rss_bytes_peak: u64,
    threads: u64,
    /// Of the threads that live, added up.
    voluntary_switches: u64,
    involuntary_switches: u64,
    /// Of the kernel's threads that work for its io_uring and live.
    io_workers: Duration,
    read_bytes: Option<u64>,
    written_bytes: Option<u64>,
}

/// Why there is no sample.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The process is gone, or is not ours to see.
    #[error("/proc/{pid}/{file}: {source}")]
    Read {
        /// Which process.
        pid: u32,
        /// Which file.
        file: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file does not look as it should.
    #[error("/proc/{pid}/{file}: not understood")]
    Form {
        /// Which process.
        pid: u32,
        /// Which file.
        file: &'static str,
    },
}

impl Sample {
    /// Reads the process now. `/proc` answers from memory: this takes microseconds a thread.
    pub(crate) fn of(pid: u32) -> Result<Self, ProcessError> {
        let read =
            |file: &'static str| {
                fs::read_to_string(format!("/proc/{pid}/{file}"))
                    .map_err(|source| ProcessError::Read { pid, file, source })
            };
        let form = |file: &'static str| ProcessError::Form { pid, file };
        let (user, system) = times(&read("stat")?).ok_or_else(|| form("stat"))?;
        let status = read("status")?;
        let kib = |key| field(&status, key).map(|kib| kib * 1024);
        let io = read("io").unwrap_or_default();
        let (voluntary_switches, involuntary_switches, io_workers) = threads(pid);
        Ok(Self {
            user,
            system,
            rss_bytes: kib("VmRSS:").ok_or_else(|| form("status"))?,
            rss_bytes_peak: kib("VmHWM:").ok_or_else(|| form("status"))?,
            threads: field(&status, "Threads:").ok_or_else(|| form("status"))?,
            voluntary_switches,
            involuntary_switches,
            io_workers,
            read_bytes: field(&io, "read_bytes:"),
            written_bytes: field(&io, "write_bytes:"),
        })
    }

    /// What was used since `before`, over `bytes` and `requests`.
    #[expect(clippy::cast_precision_loss, reason = "bytes of a run are far below 2^53")]
    pub(crate) fn since(&self, before: &Self, bytes: u64, requests: u64) -> ProcessUse {
        let user = self.user.saturating_sub(before.user).as_secs_f64();
        let system = self.system.saturating_sub(before.system).as_secs_f64();
        let per = |count: f64| (count > 0.0).then(|| (user + system) / count);
        let difference = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        ProcessUse {
            cpu_user_seconds: user,
            cpu_system_seconds: system,
            cpu_seconds_per_gb: per(bytes as f64 / 1e9),
            cpu_us_per_request: per(requests as f64 / 1e6),
            rss_bytes: self.rss_bytes,
            rss_bytes_peak: self.rss_bytes_peak,
            threads: self.threads,
            voluntary_context_switches: self
                .voluntary_switches
                .saturating_sub(before.voluntary_switches),
            involuntary_context_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
            io_worker_cpu_seconds: self.io_workers.saturating_sub(before.io_workers).as_secs_f64(),
            disk_read_bytes: difference(self.read_bytes, before.read_bytes),
            disk_written_bytes: difference(self.written_bytes, before.written_bytes),
        }
    }
}

/// What is looked at every second: two files, where a [`Sample`] reads one of every thread, and a JVM has a hundred of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pulse {
    cpu: Duration,
    rss_bytes: u64,
}

impl Pulse {
    /// Reads the process now; `None` where it is gone.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let (user, system) = times(&read("stat")?)?;
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        let page_bytes = u64::try_from(page_bytes?).ok()?;
        let pages: u64 = read("statm")?.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(Self { cpu: user + system, rss_bytes: pages.saturating_mul(page_bytes) })
    }

    /// Resident memory.
    pub(crate) fn rss_bytes(&self) -> u64 {
        self.rss_bytes
    }

    /// What was used since `before`.
    pub(crate) fn since(&self, before: &Self) -> IntervalUse {
        let cpu_seconds = self.cpu.saturating_sub(before.cpu).as_secs_f64();
        IntervalUse { cpu_seconds, rss_bytes: self.rss_bytes }
    }
}

/// User and system time. The name stands in brackets and may hold anything: fields are counted from behind it.
fn times(stat: &str) -> Option<(Duration, Duration)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    let ticks = ticks.and_then(|ticks| u32::try_from(ticks).ok()).filter(|ticks| *ticks > 0);
    let tick = Duration::from_secs(1) / ticks.unwrap_or(TICKS_PER_SECOND);
    let mut next = || {
        let ticks = u32::try_from(times.next()?.ok()?).unwrap_or(u32::MAX);
        Some(tick * ticks)
    };
    Some((next()?, next()?))
}

/// The number behind `key` at the start of a line.
fn field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Voluntary and involuntary switches of all threads, since the process's own file tells those of its first thread only; and the CPU
/// time of the kernel's workers among them.
fn threads(pid: u32) -> (u64, u64, Duration) {
    let mut sums = (0, 0, Duration::ZERO);
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return sums };
    for thread in threads.flatten() {
        // A thread that ended meanwhile is not counted.
        let read = |file| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let status = read("status");
        sums.0 += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        sums.1 += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        if is_io_worker(&status) {
            sums.2 += times(&read("stat")).map_or(Duration::ZERO, |(user, system)| user + system);
        }
    }
    sums
}

/// Whether a thread is one that the kernel runs for an io_uring of the process (`iou-wrk-PID`).
fn is_io_worker(status: &str) -> bool {
    let name = status.lines().find_map(|line| line.strip_prefix("Name:"));
    name.is_some_and(|name| name.trim_start().starts_with("iou-wrk"))
}

/// CPU time of the kernel's own threads that work off writes, flushes and the journals of file systems, of the whole machine: whose
/// work it is, the kernel does not tell.
pub(crate) fn kernel_workers() -> Duration {
    let Ok(processes) = fs::read_dir("/proc") else { return Duration::ZERO };
    let stats = processes.flatten().filter_map(|process| {
        let path = process.path();
        let is_number = process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        is_number.then(|| fs::read_to_string(path.join("stat")).ok()).flatten()
    });
    let worked = stats.filter(|stat| is_kernel_worker(stat)).filter_map(|stat| times(&stat));
    worked.map(|(user, system)| user + system).sum()
}

fn is_kernel_worker(stat: &str) -> bool {
    let name = stat.split_once('(').map_or("", |(_, rest)| rest);
    ["kworker/", "jbd2/", "xfsaild/", "flush-"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let tick = Duration::from_millis(10);
        for name in ["java", "a) b (c", "x)"] {
            let stat = format!("42 ({name}) S 1 1 1 0 -1 4194560 9 0 0 0 150 25 3 4 20 0 9 0");
            assert_eq!(times(&stat), Some((tick * 150, tick * 25)), "{stat}");
        }
        for stat in ["", "42 (java", "42 (java) S 1 2", "1 (a) S 1 1 1 0 -1 4 9 0 0 0 x 25 3"] {
            assert_eq!(times(stat), None, "{stat}");
        }
    }

    #[test]
    fn threads_of_the_kernel_are_known_by_their_names() {
        assert!(is_io_worker("Name:\tiou-wrk-4711\nUmask:\t0022\n"));
        assert!(!is_io_worker("Name:\tcorelog\nUmask:\t0022\n"));
        assert!(is_kernel_worker("44 (kworker/1:1H-kblockd) I 2 0 0 0"));
        assert!(is_kernel_worker("61 (jbd2/vda-8) S 2 0 0 0"));
        assert!(!is_kernel_worker("99 (a kworker/1) S 1 0 0 0"));
    }

    #[test]
    fn fields_are_found_by_the_start_of_their_line() {
        let text = "VmHWM:\t  900 kB\nVmRSS:\t  512 kB\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(field(text, "VmRSS:"), Some(512));
        assert_eq!(field(text, "voluntary_ctxt_switches:"), None);
        assert_eq!(field(text, "VmSwap:"), None);
    }

    #[test]
    fn a_process_that_works_uses_time_and_one_that_is_gone_is_told() {
        let pid = std::process::id();
        let (pulse, before) = (Pulse::of(pid).unwrap(), Sample::of(pid).unwrap());
        let mut sum = 0_u64;
        while Sample::of(pid).unwrap().user <= before.user + Duration::from_millis(10) {
            sum = (0..1_000_000_u64).fold(sum, |sum, number| sum.rotate_left(3) ^ number);
        }
        let used = Sample::of(pid).unwrap().since(&before, 2_000_000_000, 0);
        assert!(used.cpu_user_seconds > 0.0, "{used:?} {sum}");
        let per_gb = used.cpu_seconds_per_gb.unwrap();
        let total = used.cpu_user_seconds + used.cpu_system_seconds;
        assert!((per_gb * 2.0 / total - 1.0).abs() < 1e-9);
        assert_eq!(used.cpu_us_per_request, None);
        assert!(used.rss_bytes > 0 && used.rss_bytes <= used.rss_bytes_peak && used.threads > 0);
        let second = Pulse::of(pid).unwrap().since(&pulse);
        assert!(second.cpu_seconds >= total && second.cpu_seconds < total + 5.0, "{second:?}");
        // The kernel keeps the count of pages per thread and adds it up now and then.
        assert!(second.rss_bytes.abs_diff(used.rss_bytes) < 64 << 20, "{second:?} {used:?}");
        assert_eq!(Pulse::of(u32::MAX - 1), None);
        // Above any pid that Linux gives out.
        let error = Sample::of(u32::MAX - 1).unwrap_err().to_string();
        assert!(error.contains("4294967294/stat"), "{error}");
    }
}
