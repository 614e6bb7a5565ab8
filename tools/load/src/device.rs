//! The block device under the broker's files, and what it was asked to do.
//!
//! Owns the way from a directory or a process to the device, and what its counters can tell. A kill cannot show that a sync was left
//! out, since the kernel keeps what was written; a device that was asked for no flush shows it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};

/// Fields of `/sys/block/DEVICE/stat`, counted from 0 (Linux, Documentation/block/stat.rst).
const WRITES_FIELD: usize = 4;
const FLUSHES_FIELD: usize = 15;

/// Why the flushes of a device cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The path, or what is behind it, cannot be looked at.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// It lies on no block device of its own: an overlay, a file system in memory, one over several devices.
    #[error("{}: lies on no single block device ({major}:{minor})", path.display())]
    NoDevice {
        /// Which.
        path: PathBuf,
        /// Of the file system.
        major: u64,
        /// Of the file system.
        minor: u64,
    },
    /// Counters that do not look as they should.
    #[error("{}: tells no flushes", path.display())]
    Form {
        /// Which.
        path: PathBuf,
    },
    /// No file of the process lies on a block device.
    #[error("process {pid}: has no file of a log open; name its directory")]
    NoFiles {
        /// Which.
        pid: u32,
    },
}

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    directory: PathBuf,
    name: String,
}

/// What it has done since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceSample {
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
}

impl Device {
    /// The one under a path.
    pub(crate) fn of_path(path: &Path) -> Result<Self, DeviceError> {
        let read = |source| DeviceError::Read { path: path.to_owned(), source };
        let number = fs::metadata(path).map_err(read)?.dev();
        let (major, minor) = (major(number), minor(number));
        let none = DeviceError::NoDevice { path: path.to_owned(), major, minor };
        let Ok(mut directory) = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")) else {
            return Err(none);
        };
        // Flushes are counted for whole devices only.
        if directory.join("partition").exists() {
            directory.pop();
        }
        let Some(name) = directory.file_name() else { return Err(none) };
        let name = name.to_string_lossy().into_owned();
        Ok(Self { directory, name })
    }

    /// The one under the log files that a process has open.
    pub(crate) fn of_process(pid: u32) -> Result<Self, DeviceError> {
        let path = PathBuf::from(format!("/proc/{pid}/fd"));
        let read = |source| DeviceError::Read { path: path.clone(), source };
        let mut counts: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for entry in fs::read_dir(&path).map_err(read)?.flatten() {
            let Ok(file) = fs::read_link(entry.path()) else { continue };
            if is_segment(&file)
                && let Some(directory) = file.parent()
            {
                *counts.entry(directory.to_owned()).or_default() += 1;
            }
        }
        let directory = counts.into_iter().max_by_key(|(_, count)| *count);
        directory
            .map_or(Err(DeviceError::NoFiles { pid }), |(directory, _)| Self::of_path(&directory))
    }

    /// As the system calls it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What it has done by now.
    pub(crate) fn sample(&self) -> Result<DeviceSample, DeviceError> {
        let path = self.directory.join("stat");
        let text = fs::read_to_string(&path)
            .map_err(|source| DeviceError::Read { path: path.clone(), source })?;
        counters(&text).ok_or(DeviceError::Form { path })
    }

    /// Why a sync need not be a flush that is counted; `None` where it is one.
    pub(crate) fn hides_flushes(&self) -> Option<&'static str> {
        let read = |file: &str| fs::read_to_string(self.directory.join("queue").join(file));
        let is = |file, expected: &str| read(file).is_ok_and(|text| text.trim() == expected);
        if is("write_cache", "write through") {
            return Some("it says that it has no volatile cache, and is sent no flushes");
        }
        is("fua", "1").then_some("it takes writes that need no flush (FUA), which are not counted")
    }
}

/// Whether it is a segment of a log, by its name: what a broker prints may go to a file that ends so as well, elsewhere.
fn is_segment(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let base = name.strip_suffix(".log").unwrap_or_default();
    base.len() == 20 && base.bytes().all(|byte| byte.is_ascii_digit())
}

fn counters(stat: &str) -> Option<DeviceSample> {
    let fields: Vec<u64> =
        stat.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(DeviceSample { writes: *fields.get(WRITES_FIELD)?, flushes: *fields.get(FLUSHES_FIELD)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_flushes_are_found_among_the_counters() {
        let stat = "  1 2 3 4 50 6 7 8 9 10 11 12 13 14 15 160 17\n";
        assert_eq!(counters(stat), Some(DeviceSample { writes: 50, flushes: 160 }));
        // Before Linux 5.5 there were fewer fields.
        for stat in ["", "1 2 3 4 5 6 7 8 9 10 11", "1 2 3 4 x 6 7 8 9 10 11 12 13 14 15 16 17"] {
            assert_eq!(counters(stat), None, "{stat}");
        }
    }

    #[test]
    fn segments_are_told_from_what_a_process_prints() {
        assert!(is_segment(Path::new("/data/orders-0/00000000000000000042.log")));
        for other in ["/var/log/broker.log", "/d/00000000000000000042.index", "/d/42.log", "/"] {
            assert!(!is_segment(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn what_lies_on_no_device_is_told() {
        let error = Device::of_path(Path::new("/proc/self")).unwrap_err().to_string();
        assert!(error.starts_with("/proc/self: lies on no single block device (0:"), "{error}");
        let error = Device::of_path(Path::new("/no/such")).unwrap_err().to_string();
        assert!(error.starts_with("/no/such: No such file"), "{error}");
        // Above any pid that Linux gives out.
        assert!(Device::of_process(u32::MAX - 1).is_err());
    }
}
