//! What the system says of itself: the disk's device, its file system, the CPUs, limits and settings.
//!
//! Owns the reading of `/proc` and `/sys`. What is not said there is absent: containers hide much of it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Lines of `/proc` files that are looked at.
const LINES_MAX: usize = 4_096;

/// The block device that a directory is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Device {
    /// As the kernel calls it: `vda`, `nvme0n1`.
    pub(crate) name: String,
    /// The scheduler in use: `none`, `mq-deadline`.
    pub(crate) scheduler: Option<String>,
    /// `write back`: it has a cache that a sync must flush. `write through`: it says that it has none.
    pub(crate) cache: Option<String>,
    /// Whether it says that it turns.
    pub(crate) is_rotational: Option<bool>,
    /// The smallest block that it writes.
    pub(crate) logical_block_bytes: Option<u64>,
    #[serde(skip)]
    directory: PathBuf,
}

impl Device {
    /// Of the file system that holds `path`; `None` where it is on no single device.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let number = path.metadata().ok()?.dev();
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        let found = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        // A partition's directory stands in that of its disk, which has the queue.
        let directory = found.ancestors().take(2).find(|at| at.join("queue").is_dir())?.to_owned();
        let queue = |name: &str| word(&directory.join("queue").join(name));
        let scheduler = queue("scheduler").map(|names| chosen(&names).to_owned());
        Some(Self {
            name: directory.file_name()?.to_string_lossy().into_owned(),
            scheduler,
            cache: queue("write_cache"),
            is_rotational: queue("rotational").map(|text| text == "1"),
            logical_block_bytes: queue("logical_block_size").and_then(|text| text.parse().ok()),
            directory,
        })
    }

    /// Flushes that the device was given since the system started; `None` where it does not count them.
    pub(crate) fn flush_count(&self) -> Option<u64> {
        // Documentation/block/stat.rst: the sixteenth number, since Linux 5.5.
        word(&self.directory.join("stat"))?.split_whitespace().nth(15)?.parse().ok()
    }
}

/// The file's text without the blanks around it.
fn word(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The name in brackets, or the only one.
fn chosen(names: &str) -> &str {
    let inside = names.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(names, |(name, _)| name)
}

/// The kind of the file system that holds `path`, as `/proc/self/mountinfo` has it.
pub(crate) fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    file_system_in(&mounts, &path)
}

/// That of the mount whose place is the longest that leads to `path`; the last of them lies over those before.
fn file_system_in(mounts: &str, path: &Path) -> Option<String> {
    let found = mounts.lines().take(LINES_MAX).filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        // Blanks in a place are written as `\040`.
        let place = before.split(' ').nth(4)?.replace("\\040", " ");
        let kind = after.split(' ').next()?.to_owned();
        path.starts_with(&place).then_some((place.len(), kind))
    });
    found.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// The machine around a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct System {
    /// Its release: `6.18.1`.
    pub(crate) kernel: Option<String>,
    /// The CPUs that this process may use.
    pub(crate) cpus: Vec<usize>,
    /// Of those, the ones that share a core with one before them.
    pub(crate) sibling_cpus: Vec<usize>,
    /// NUMA nodes of the machine.
    pub(crate) numa_nodes: usize,
    /// How the first CPU chooses its frequency.
    pub(crate) governor: Option<String>,
    /// Memory, in bytes.
    pub(crate) memory_bytes: Option<u64>,
    /// `net.core.somaxconn`: connections that wait to be accepted.
    pub(crate) somaxconn: Option<u64>,
    /// Files and sockets that a process may open at most.
    pub(crate) open_files: Option<u64>,
    /// Memory that it may lock at most; absent: any.
    pub(crate) locked_bytes: Option<u64>,
    /// `kernel.io_uring_disabled`; absent before Linux 6.6.
    pub(crate) io_uring_disabled: Option<u64>,
    /// Threads that ran or waited for a disk over the last minute, on average.
    pub(crate) load: Option<f64>,
    /// Interrupts of the disk and of network devices.
    pub(crate) interrupts: Vec<Interrupt>,
}

/// An interrupt, and who handles it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Interrupt {
    /// Its number.
    pub(crate) number: u32,
    /// Its device, as `/proc/interrupts` calls it.
    pub(crate) device: String,
    /// The CPUs that may handle it: `0-3`.
    pub(crate) cpus: String,
}

impl System {
    /// As it is now.
    pub(crate) fn look() -> Self {
        use nix::sys::resource::{Resource, getrlimit};
        let sysctl = |name: &str| word(Path::new("/proc/sys").join(name).as_path());
        let number = |name: &str| sysctl(name).and_then(|text| text.parse().ok());
        let hard = |resource| getrlimit(resource).ok().map(|(_, hard)| hard);
        let cpus = node::cpus();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        Self {
            kernel: sysctl("kernel/osrelease"),
            sibling_cpus: siblings(&cpus, |cpu| {
                let topology = "topology/thread_siblings_list";
                word(Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}/{topology}")))
            }),
            cpus,
            numa_nodes: numa_nodes(),
            governor: word(Path::new(governor)),
            memory_bytes: memory_bytes(&memory),
            somaxconn: number("net/core/somaxconn"),
            open_files: hard(Resource::RLIMIT_NOFILE),
            locked_bytes: hard(Resource::RLIMIT_MEMLOCK).filter(|bytes| *bytes != u64::MAX),
            io_uring_disabled: number("kernel/io_uring_disabled"),
            load: word(Path::new("/proc/loadavg"))
                .and_then(|text| text.split(' ').next()?.parse().ok()),
            interrupts: interrupts(),
        }
    }
}

impl System {
    /// What keeps the machine busy now, if it is more than half of it: measured beside that, everything is what is left.
    pub(crate) fn busy_load(&self) -> Option<f64> {
        let cpus = f64::from(u32::try_from(self.cpus.len()).unwrap_or(u32::MAX));
        self.load.filter(|load| *load > cpus / 2.0)
    }
}

/// CPUs of which one that stands before them is a thread of the same core.
fn siblings(cpus: &[usize], threads_of: impl Fn(usize) -> Option<String>) -> Vec<usize> {
    let shares = |cpu: &&usize| {
        let threads = threads_of(**cpu).map(|list| parse_cpus(&list)).unwrap_or_default();
        threads.iter().any(|thread| thread < *cpu && cpus.contains(thread))
    };
    cpus.iter().filter(shares).copied().collect()
}

/// A list as the kernel writes it: `0-2,5`.
pub(crate) fn parse_cpus(list: &str) -> Vec<usize> {
    /// What a kernel can be built for at most.
    const CPUS_MAX: usize = 8_192;
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.trim().split_once('-').unwrap_or((range.trim(), range.trim()));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        (last < CPUS_MAX).then_some(first..=last)
    });
    ranges.flatten().collect()
}

fn numa_nodes() -> usize {
    let online = word(Path::new("/sys/devices/system/node/online"));
    online.map_or(1, |list| parse_cpus(&list).len().max(1))
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1_024)
}

fn interrupts() -> Vec<Interrupt> {
    let table = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let found = devices_in(&table).into_iter().filter_map(|(number, device)| {
        let cpus = word(Path::new(&format!("/proc/irq/{number}/smp_affinity_list")))?;
        Some(Interrupt { number, device, cpus })
    });
    found.collect()
}

/// The numbers and names of interrupts that belong to disks and network devices.
fn devices_in(table: &str) -> Vec<(u32, String)> {
    /// Starts of the names that common drivers give, and ends of virtio's.
    const STARTS: [&str; 8] = ["nvme", "eth", "ens", "enp", "eno", "mlx", "ena", "ixgbe"];
    const PARTS: [&str; 4] = ["-req.", "-input.", "-output.", "-TxRx-"];
    let found = table.lines().take(LINES_MAX).filter_map(|line| {
        let (number, _) = line.trim_start().split_once(':')?;
        let device = line.split_whitespace().last()?;
        let is_ours = STARTS.iter().any(|start| device.starts_with(start))
            || PARTS.iter().any(|part| device.contains(part));
        Some((number.parse().ok()?, device.to_owned())).filter(|_| is_ours)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let mounts = "1 0 254:0 / / rw - ext4 /dev/vda rw\n\
                      2 1 0:22 / /dev/shm rw shared:2 - tmpfs tmpfs rw\n\
                      3 1 259:1 / /my\\040data rw - xfs /dev/nvme0n1 rw\nnonsense\n";
        for (path, kind) in [
            ("/var/lib", "ext4"),
            ("/dev/shm/x", "tmpfs"),
            ("/dev/shmx", "ext4"),
            ("/my data/topics", "xfs"),
        ] {
            assert_eq!(file_system_in(mounts, Path::new(path)).as_deref(), Some(kind), "{path}");
        }
        assert_eq!(file_system_in("", Path::new("/")), None);
        assert!(file_system(Path::new("/")).is_some(), "this machine has one");
    }

    #[test]
    fn lists_of_cpus_are_read_and_the_second_threads_of_cores_found() {
        assert_eq!(parse_cpus("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse_cpus("3"), [3]);
        assert_eq!(parse_cpus(""), [0; 0]);
        assert_eq!(parse_cpus("x,1-99999"), [0; 0]);
        let pairs = |cpu: usize| Some(format!("{},{}", cpu % 2, cpu % 2 + 2));
        assert_eq!(siblings(&[0, 1, 2, 3], pairs), [2, 3]);
        assert_eq!(siblings(&[2, 3], pairs), [0; 0], "alone on their cores");
        assert_eq!(siblings(&[0, 1], |_| None), [0; 0]);
    }

    #[test]
    fn interrupts_of_disks_and_networks_are_told_from_others() {
        let table = "           CPU0       CPU1\n  0:   9   0  IO-APIC   2-edge  timer\n\
             24:  5  1  PCI-MSIX-0000:00:01.0   0-edge  virtio0-config\n\
             25:  5  1  PCI-MSIX-0000:00:01.0   1-edge  virtio0-req.0\n\
             26:  5  1  PCI-MSIX  1-edge  nvme0q1\nNMI:  0  0  Non-maskable interrupts\n";
        let expected = [(25, "virtio0-req.0".to_owned()), (26, "nvme0q1".to_owned())];
        assert_eq!(devices_in(table), expected);
    }

    #[test]
    fn the_chosen_scheduler_is_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
        assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
    }

    #[test]
    fn this_machine_has_cpus_and_a_kernel() {
        let system = System::look();
        assert!(!system.cpus.is_empty() && system.numa_nodes >= 1);
        assert!(system.kernel.is_some() && system.memory_bytes.is_some());
        assert!(system.sibling_cpus.len() < system.cpus.len());
        let cpus = vec![0, 1, 2, 3];
        let with = |load| System { load, cpus: cpus.clone(), ..System::look() }.busy_load();
        assert_eq!([None, Some(2.0), Some(2.1)].map(with), [None, None, Some(2.1)]);
    }
}
