//! Which CPUs the cores run on.
//!
//! Owns the count of shards and their placement. The affinity mask decides, not the number of CPUs in the machine: a
//! container or `taskset` narrows it.

use std::num::NonZeroU16;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// Most data cores of one node: a slot has 16 bits and the control executor takes one place of the mesh.
pub const SHARD_COUNT_MAX: u16 = 1024;

/// How many data cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardCount {
    /// One for each CPU that this process may use.
    Auto,
    /// As many as the operator says; CPUs are used in turn where there are fewer.
    Fixed(NonZeroU16),
}

/// The CPUs this process may use, ascending. Empty where the system does not say.
pub fn cpus() -> Vec<usize> {
    let Ok(mask) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&cpu| mask.is_set(cpu).unwrap_or(false)).collect()
}

/// The CPU of each data core, by shard index; `None` where a core is not pinned.
pub fn placement(shards: ShardCount, cpus: &[usize]) -> Vec<Option<usize>> {
    let count = match shards {
        ShardCount::Auto => cpus.len().max(1),
        ShardCount::Fixed(count) => usize::from(count.get()),
    };
    let count = count.min(usize::from(SHARD_COUNT_MAX));
    (0..count).map(|shard| cpus.get(shard % cpus.len().max(1)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_take_the_cpus_of_the_mask_in_turn() {
        let fixed = |count| ShardCount::Fixed(NonZeroU16::new(count).unwrap());
        let check = |shards, cpus: &[usize], expected: &[Option<usize>]| {
            assert_eq!(placement(shards, cpus), expected, "{shards:?} on {cpus:?}");
        };
        check(ShardCount::Auto, &[2, 5], &[Some(2), Some(5)]);
        check(ShardCount::Auto, &[], &[None]);
        check(fixed(1), &[2, 5], &[Some(2)]);
        check(fixed(3), &[2, 5], &[Some(2), Some(5), Some(2)]);
        check(fixed(2), &[], &[None, None]);
        assert_eq!(placement(fixed(u16::MAX), &[0]).len(), usize::from(SHARD_COUNT_MAX));
    }

    #[test]
    fn this_process_may_use_some_cpu() {
        let cpus = cpus();
        assert!(!cpus.is_empty());
        assert!(cpus.is_sorted());
    }
}
