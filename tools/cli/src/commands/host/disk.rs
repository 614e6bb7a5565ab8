//! Direct transfers and syncs of the disk below one directory.
//!
//! Owns the files that are written for it. Their names are removed as soon as they are open, so nothing is left behind however
//! the process ends. Blocks are random: no device can make them smaller.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use broker::Platform;
use commitlog::{AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, OpenMode};
use nix::fcntl::OFlag;
use node::StopSignal;
use serde::Serialize;

use super::facts::Device;
use super::{Latency, mb_per_second, together};

/// Largest transfer, which a node's are too.
const TRANSFER_BYTES_MAX: usize = commitlog::IO_BYTES_MAX;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// The disk refused.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// The system did.
    #[error("{0}")]
    System(#[from] std::io::Error),
    /// It was told to stop.
    #[error("interrupted")]
    Interrupted,
}

/// A way to move bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// To the device.
    Write,
    /// From it.
    Read,
}

/// Transfers of one size, so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Transfers {
    /// Which way.
    pub(crate) direction: Direction,
    /// Of each.
    pub(crate) bytes: usize,
    /// In flight together.
    pub(crate) depth: usize,
    /// All together.
    pub(crate) mb_per_second: f64,
    /// Of one.
    pub(crate) latency: Latency,
}

/// What it costs to make a block of 4 KiB lasting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct SyncCost {
    /// Write and data sync of a block at the end of a file that grows.
    pub(crate) growing: Latency,
    /// The same where the file has been written before.
    pub(crate) again: Latency,
    /// One write to a file opened with O_DSYNC, that has been written before; absent where that is refused.
    pub(crate) dsync: Option<Latency>,
    /// Flushes that the device counted beside the data syncs, if it counts them.
    pub(crate) flushes: Option<Flushes>,
}

/// What reached the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Flushes {
    /// Syncs that were asked for.
    pub(crate) syncs: u64,
    /// Flushes that the device was given meanwhile, by anybody.
    pub(crate) flushes: u64,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Of the file that transfers use.
    pub(crate) file_bytes: u64,
    /// Of one kind of transfer.
    pub(crate) time: Duration,
    /// Of one kind of sync.
    pub(crate) syncs: usize,
}

/// A file without a name, of random blocks.
pub(crate) struct Probe<'a, P: Platform> {
    platform: &'a P,
    root: &'a Path,
    stop: &'a StopSignal,
    bounds: Bounds,
    /// What transfers use.
    file: <P::Disk as Disk>::File,
    /// As far as it has been written.
    filled_bytes: Cell<u64>,
}

impl<'a, P: Platform> Probe<'a, P> {
    /// Makes the file in `root`, where the platform's disk must be rooted.
    pub(crate) async fn open(
        (platform, root): (&'a P, &'a Path),
        stop: &'a StopSignal,
        bounds: Bounds,
    ) -> Result<Self, ProbeError> {
        let file = unnamed(platform, "probe").await?;
        Ok(Self { platform, root, stop, bounds, file, filled_bytes: Cell::new(0) })
    }

    /// Sequential transfers over the file, from its start again at its end. Reads need what a write has filled.
    pub(crate) async fn transfers(
        &self,
        direction: Direction,
        (bytes, depth): (usize, usize),
    ) -> Result<Transfers, ProbeError> {
        assert!(bytes <= TRANSFER_BYTES_MAX && bytes.is_multiple_of(BLOCK_BYTES));
        let end = match direction {
            Direction::Write => self.bounds.file_bytes,
            Direction::Read => self.filled_bytes.get(),
        };
        let run = Run {
            bytes,
            places: end / bytes as u64,
            next: Cell::new(0),
            times: RefCell::default(),
            until: self.platform.monotonic() + self.bounds.time,
            // A fast device need not be written to for longer than it takes to fill the file twice.
            count_max: (2 * end / bytes as u64).max(depth as u64),
        };
        let begin = self.platform.monotonic();
        let lanes =
            (0..depth).map(|_| -> Pin<Box<dyn Future<Output = Result<(), ProbeError>> + '_>> {
                match direction {
                    Direction::Write => Box::pin(self.write_lane(&run)),
                    Direction::Read => Box::pin(self.read_lane(&run)),
                }
            });
        together(lanes.collect()).await.into_iter().collect::<Result<(), ProbeError>>()?;
        let time = self.platform.monotonic() - begin;
        let times = run.times.into_inner();
        let moved = times.len() as u64 * bytes as u64;
        if direction == Direction::Write {
            // Whole passes only, or up to where the first one came.
            let reached = (run.next.get() * bytes as u64).min(run.places * bytes as u64);
            self.filled_bytes.set(self.filled_bytes.get().max(reached));
        }
        let latency = Latency::of(times).ok_or(DiskError::Short { done: 0, asked: bytes })?;
        let mb_per_second = mb_per_second(moved, time);
        Ok(Transfers { direction, bytes, depth, mb_per_second, latency })
    }

    async fn write_lane(&self, run: &Run) -> Result<(), ProbeError> {
        let buffer = self.random_buffer(run.bytes);
        while let Some(position) = run.take(self.platform.monotonic(), self.stop)? {
            let begin = self.platform.monotonic();
            self.file.write_rc_at(Rc::clone(&buffer), position).await?;
            run.note(self.platform.monotonic() - begin);
        }
        Ok(())
    }

    async fn read_lane(&self, run: &Run) -> Result<(), ProbeError> {
        while let Some(position) = run.take(self.platform.monotonic(), self.stop)? {
            let begin = self.platform.monotonic();
            let read = self.file.read_at_aligned(position, run.bytes).await?;
            run.note(self.platform.monotonic() - begin);
            if read.len() != run.bytes {
                return Err(DiskError::Short { done: read.len(), asked: run.bytes }.into());
            }
        }
        Ok(())
    }

    fn random_buffer(&self, bytes: usize) -> Rc<<P::Disk as Disk>::Buffer> {
        let mut buffer = self.platform.disk().allocate(bytes);
        self.platform.random(buffer.as_bytes_mut());
        Rc::new(buffer)
    }

    /// Single blocks, each made lasting before the next.
    pub(crate) async fn syncs(&self, device: Option<&Device>) -> Result<SyncCost, ProbeError> {
        let growing_file = unnamed(self.platform, "growing").await?;
        let before = device.and_then(Device::flush_count);
        let growing = self.write_and_sync(&growing_file).await?;
        let again = self.write_and_sync(&growing_file).await?;
        let after = device.and_then(Device::flush_count);
        let dsync = self.dsync_writes();
        let latency = |times| Latency::of(times).ok_or(ProbeError::Interrupted);
        let syncs = (growing.len() + again.len()) as u64;
        let counted = before.zip(after);
        let counted = counted.map(|(before, after)| after.saturating_sub(before));
        Ok(SyncCost {
            growing: latency(growing)?,
            again: latency(again)?,
            dsync: dsync.ok().and_then(Latency::of),
            flushes: counted.map(|flushes| Flushes { syncs, flushes }),
        })
    }

    async fn write_and_sync(
        &self,
        file: &<P::Disk as Disk>::File,
    ) -> Result<Vec<Duration>, ProbeError> {
        let buffer = self.random_buffer(BLOCK_BYTES);
        let until = self.platform.monotonic() + self.bounds.time;
        let mut times = Vec::with_capacity(self.bounds.syncs);
        while times.len() < self.bounds.syncs {
            let begin = self.platform.monotonic();
            if begin >= until && !times.is_empty() {
                break;
            }
            if self.stop.is_requested() {
                return Err(ProbeError::Interrupted);
            }
            let position = (times.len() * BLOCK_BYTES) as u64;
            file.write_rc_at(Rc::clone(&buffer), position).await?;
            file.data_sync().await?;
            times.push(self.platform.monotonic() - begin);
        }
        Ok(times)
    }

    /// In plain calls of this thread, which waits for each: a node has no such file yet, and nothing else runs here.
    fn dsync_writes(&self) -> Result<Vec<Duration>, ProbeError> {
        let path = self.root.join(probe_name("dsync"));
        let flags = OFlag::O_DIRECT.bits();
        let open = |flags| {
            File::options().write(true).create(true).truncate(false).custom_flags(flags).open(&path)
        };
        let filled = open(flags)?;
        let opened = open(flags | OFlag::O_DSYNC.bits());
        std::fs::remove_file(&path)?;
        let (buffer, file) = (self.random_buffer(BLOCK_BYTES), opened?);
        let count = self.bounds.syncs.min(256);
        for block in 0..count {
            filled.write_all_at(buffer.as_bytes(), (block * BLOCK_BYTES) as u64)?;
        }
        filled.sync_all()?;
        let until = self.platform.monotonic() + self.bounds.time / 2;
        let mut times = Vec::with_capacity(count);
        for block in 0..count {
            let begin = self.platform.monotonic();
            if begin >= until || self.stop.is_requested() {
                break;
            }
            file.write_all_at(buffer.as_bytes(), (block * BLOCK_BYTES) as u64)?;
            times.push(self.platform.monotonic() - begin);
        }
        Ok(times)
    }
}

/// One kind of transfer while it is measured.
struct Run {
    bytes: usize,
    places: u64,
    next: Cell<u64>,
    times: RefCell<Vec<Duration>>,
    until: Duration,
    count_max: u64,
}

impl Run {
    /// Where the next transfer goes; `None` where there is none.
    fn take(&self, now: Duration, stop: &StopSignal) -> Result<Option<u64>, ProbeError> {
        if stop.is_requested() {
            return Err(ProbeError::Interrupted);
        }
        let number = self.next.get();
        if number >= self.count_max || self.places == 0 || (now >= self.until && number > 0) {
            return Ok(None);
        }
        self.next.set(number + 1);
        Ok(Some(number % self.places * self.bytes as u64))
    }

    fn note(&self, time: Duration) {
        self.times.borrow_mut().push(time);
    }
}

fn probe_name(what: &str) -> String {
    format!(".corelog-{what}-{}", std::process::id())
}

/// A new file whose name is gone at once.
async fn unnamed<P: Platform>(
    platform: &P,
    what: &str,
) -> Result<<P::Disk as Disk>::File, ProbeError> {
    let (disk, name) = (platform.disk(), probe_name(what));
    let file = disk.open(&name, OpenMode::CreateNew).await?;
    disk.remove(&name).await?;
    Ok(file)
}
