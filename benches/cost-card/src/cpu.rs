//! CPU time of a process and of a thread, and the CPU that a thread keeps to.

use std::fs;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::error::CardError;

/// Seconds of CPU, user and system, that process `pid` has used, ended threads included. Resolution: a tick, 10 ms.
pub(crate) fn process_seconds(pid: u32) -> Result<f64, CardError> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path)?;
    let bad = || CardError::Proc(path.clone());
    // The name stands in brackets and may hold anything; fields are counted from behind it: state is the first.
    let (_, fields) = text.rsplit_once(')').ok_or_else(bad)?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<u32>);
    let mut next = || times.next().and_then(Result::ok).ok_or_else(bad);
    let ticks = f64::from(next()?) + f64::from(next()?);
    Ok(ticks / ticks_per_second()?)
}

fn ticks_per_second() -> Result<f64, CardError> {
    let found = sysconf(SysconfVar::CLK_TCK)
        .map_err(|errno| CardError::System { call: "sysconf(_SC_CLK_TCK)", errno })?;
    let ticks = found.and_then(|ticks| u32::try_from(ticks).ok()).filter(|ticks| *ticks > 0);
    ticks.map(f64::from).ok_or_else(|| CardError::Proc("_SC_CLK_TCK".into()))
}

/// Seconds of CPU that the calling thread has used; resolution a nanosecond.
pub(crate) fn thread_seconds() -> Result<f64, CardError> {
    let path = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(path)?;
    let nanoseconds =
        text.split_ascii_whitespace().next().and_then(|text| text.parse::<f64>().ok());
    nanoseconds.map(|ns| ns / 1e9).ok_or_else(|| CardError::Proc(path.into()))
}

/// Keeps the calling thread, and those it starts, to one CPU.
pub(crate) fn pin_this_thread(cpu: usize) -> Result<(), CardError> {
    let mut set = CpuSet::new();
    set.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|errno| CardError::System { call: "sched_setaffinity", errno })
}
