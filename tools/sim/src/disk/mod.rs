//! The simulated disk: `commitlog`'s seam in memory, with every fault a real disk is allowed.
//!
//! Owns the model of what survives. Nothing else in a world may decide it. What it promises, and what the log must
//! therefore survive, by kind of file:
//!
//! ```text
//!                         .log               .index .timeindex   checkpoints, epochs, producers   names
//! crash: unsynced writes  any subset lost,   the same            the same                   any subset of unsynced
//!                         each torn at 512 B                                                creates, renames, removes
//! crash: file length      as before, or up to any unsynced write's end; beyond the last sync zeros or garbage,
//!                         in room that was reserved zeros only
//! bit rot below the sync  yes                while down          while down, without rot in a .log        no
//! tampering while down    no                 deleted, zeroed, random, cut, extended, entries wrong           no
//! read error (EIO)        yes                yes                 yes                        -
//! write, sync error       yes                yes                 yes                        create, rename, sync
//! failed sync             covered sectors may never reach the device, whatever later syncs say; reads of the running process
//!                         still show them, the next process finds them gone (transfers are direct: no page cache keeps them)
//! no space                yes: the failed write may have landed in part
//! slow                    any operation, by virtual time; operations in flight together complete in any order
//! ```
//!
//! Torn writes (DESIGN section 4): each 512-byte sector lands old or new; garbage appears only in sectors never synced. A
//! rename is atomic and changes of one name keep their order. `data_sync` makes growth of a file lasting and leaves a cut to
//! a coin; `full_sync` makes both lasting. Two writes of one block in flight together leave either, block by block.

mod buffer;
mod image;
mod tree;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use commitlog::{
    BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, IO_BYTES_MAX, OpenMode,
    PathEntry,
};

pub use buffer::{SimBuffer, SimReadBuffer};
pub use image::SECTOR_BYTES;

use crate::executor::SimExecutor;
use crate::prng::{OneIn, Prng};
use crate::trace::Trace;
use image::{FileImage, Mood, SyncKind};
use tree::{Directory, Node, NodeId, Tree};

#[cfg(test)]
mod tests;

/// Linux's numbers, as the real disk reports them.
const EIO: i32 = 5;
const EBADF: i32 = 9;

/// Faults that strike while the process runs. The default is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Only operations on paths that contain this; empty for all.
    pub aimed_at: &'static str,
    /// A read fails.
    pub read_error: OneIn,
    /// A write fails; any of its sectors may have landed.
    pub write_error: OneIn,
    /// A sync fails; any sector it covered may be gone for good.
    pub sync_error: OneIn,
    /// A create, rename, remove or directory sync fails.
    pub name_error: OneIn,
    /// An operation takes up to 50 ms instead of up to 200 µs.
    pub slow: OneIn,
}

/// What the disk has seen since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Reads that returned.
    pub reads: u64,
    /// Bytes they returned.
    pub read_bytes: u64,
    /// Writes that completed.
    pub writes: u64,
    /// Bytes they wrote.
    pub written_bytes: u64,
    /// Syncs of files and directories that succeeded.
    pub syncs: u64,
    /// Crashes.
    pub crashes: u64,
    /// Sectors of torn writes that crashes lost.
    pub sectors_torn: u64,
    /// Errors returned on purpose, full disks excluded.
    pub errors: u64,
    /// Writes refused because the disk was full.
    pub refused: u64,
}

impl DiskStats {
    /// Adds what another disk has seen.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
        self.syncs += other.syncs;
        self.crashes += other.crashes;
        self.sectors_torn += other.sectors_torn;
        self.errors += other.errors;
        self.refused += other.refused;
    }
}

/// A simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    shared: Rc<Shared>,
    generation: u64,
}

struct Shared {
    state: RefCell<State>,
    stats: Cell<DiskStats>,
    executor: SimExecutor,
    trace: Rc<Trace>,
}

struct State {
    tree: Tree,
    prng: Prng,
    faults: Faults,
    capacity: u64,
    /// Operations on paths that contain one of these wait.
    held: Vec<String>,
    is_space_held: bool,
    waiting: Vec<Waker>,
    generation: u64,
    open: BTreeMap<NodeId, u32>,
    /// Files of which a sync failed.
    failed_syncs: BTreeSet<Rc<str>>,
}

/// An open file of a [`SimDisk`].
pub struct SimFile {
    disk: SimDisk,
    node: NodeId,
    path: Rc<str>,
    mode: OpenMode,
}

impl SimDisk {
    /// An empty disk without faults and without a capacity that matters.
    #[must_use]
    pub fn new(executor: &SimExecutor, prng: Prng, trace: Rc<Trace>) -> Self {
        let state = State {
            tree: Tree::new(),
            prng,
            faults: Faults::default(),
            capacity: u64::MAX,
            held: Vec::new(),
            is_space_held: false,
            waiting: Vec::new(),
            generation: 0,
            open: BTreeMap::new(),
            failed_syncs: BTreeSet::new(),
        };
        let shared = Shared {
            state: RefCell::new(state),
            stats: Cell::default(),
            executor: executor.clone(),
            trace,
        };
        Self { shared: Rc::new(shared), generation: 0 }
    }

    /// Files of which a sync failed since this was asked last: what was written to them and not synced before may never reach
    /// the device.
    #[must_use]
    pub fn take_failed_syncs(&self) -> BTreeSet<Rc<str>> {
        std::mem::take(&mut self.shared.state.borrow_mut().failed_syncs)
    }

    /// From now on these faults strike.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.state.borrow_mut().faults = faults;
    }

    /// Which faults strike now.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.shared.state.borrow().faults
    }

    /// From now on all files together hold at most so many bytes.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.state.borrow_mut().capacity = bytes;
    }

    /// From now on operations on paths that contain `part` wait, until [`SimDisk::release`].
    pub fn hold(&self, part: &str) {
        self.shared.trace.note("hold", part, [0, 0]);
        self.shared.state.borrow_mut().held.push(part.to_owned());
    }

    /// From now on the question for free space waits, until [`SimDisk::release`].
    pub fn hold_free_space(&self) {
        self.shared.state.borrow_mut().is_space_held = true;
    }

    /// Lets everything go on that waits.
    pub fn release(&self) {
        let waiting = {
            let mut state = self.shared.state.borrow_mut();
            state.held.clear();
            state.is_space_held = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether anything waits for [`SimDisk::release`].
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        !self.shared.state.borrow().waiting.is_empty()
    }

    /// Bytes all files hold.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.shared.state.borrow().tree.used_bytes()
    }

    /// What has happened so far.
    #[must_use]
    pub fn stats(&self) -> DiskStats {
        self.shared.stats.get()
    }

    /// Power fails. Handles and clones made before answer EIO from now on; the returned disk is what the next start finds.
    ///
    /// Order   call it before the tasks that hold operations in flight are dropped: a dropped write is a failed one.
    #[must_use]
    pub fn crash(&self) -> Self {
        let mut guard = self.shared.state.borrow_mut();
        let state = &mut *guard;
        let mood = match state.prng.below(4) {
            0 => Mood::LoseAll,
            1 => Mood::KeepAll,
            _ => Mood::Mixed,
        };
        let torn = state.tree.crash(mood, &mut state.prng);
        self.shared.count(|stats| {
            stats.crashes += 1;
            stats.sectors_torn += torn;
        });
        self.shared.trace.note("disk-crash", "", [torn, mood as u64]);
        self.restart_in(state)
    }

    /// The process ends (killed or done) and the machine does not: nothing is lost, only handles die.
    #[must_use]
    pub fn restart(&self) -> Self {
        let mut guard = self.shared.state.borrow_mut();
        let state = &mut *guard;
        state.tree.restart(&mut state.prng);
        self.restart_in(state)
    }

    fn restart_in(&self, state: &mut State) -> Self {
        state.generation += 1;
        state.open.clear();
        state.held.clear();
        state.is_space_held = false;
        state.waiting.clear();
        Self { shared: Rc::clone(&self.shared), generation: state.generation }
    }

    /// Whether a crash now would leave a directory, and every name in it, as it is.
    #[must_use]
    pub fn names_last(&self, path: &str) -> bool {
        self.shared.state.borrow().tree.names_last(path)
    }

    /// Flips one bit of a durable byte; false if that byte is not durable.
    pub fn rot(&self, path: &str, position: u64, bit: u8) -> bool {
        let mut state = self.shared.state.borrow_mut();
        let Ok(id) = state.tree.find(path) else { return false };
        if !matches!(state.tree.node(id), Node::File(_)) {
            return false;
        }
        let has_flipped = state.tree.file(id).rot(to_usize(position), bit & 7);
        if has_flipped {
            self.shared.trace.note("rot", path, [position, u64::from(bit)]);
        }
        has_flipped
    }

    /// The bytes of a file as a process would read them now.
    #[must_use]
    pub fn peek(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.shared.state.borrow();
        match state.tree.node(state.tree.find(path).ok()?) {
            Node::File(image) => Some(image.bytes().to_vec()),
            _ => None,
        }
    }

    /// Replaces the bytes of a file, durably, as a tamperer does while nobody runs.
    pub fn poke(&self, path: &str, bytes: Vec<u8>) {
        let mut state = self.shared.state.borrow_mut();
        if let Ok(id) = state.tree.find(path) {
            self.shared.trace.note("poke", path, [bytes.len() as u64, 0]);
            state.tree.file(id).replace(bytes);
        }
    }

    /// Removes a file, durably, as a tamperer does while nobody runs.
    pub fn erase(&self, path: &str) {
        let mut guard = self.shared.state.borrow_mut();
        let state = &mut *guard;
        self.shared.trace.note("erase", path, [0, 0]);
        if state.tree.remove_file(path).is_ok() {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            if let Ok(parent) = state.tree.find(parent) {
                state.tree.sync(parent, &mut state.prng);
            }
        }
    }

    /// Every file's path and length, ascending.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        let state = self.shared.state.borrow();
        let mut files = Vec::new();
        let mut todo = vec![(String::new(), tree::ROOT)];
        while let Some((path, id)) = todo.pop() {
            match state.tree.node(id) {
                Node::File(image) => files.push((path, image.len() as u64)),
                Node::Directory(directory) => {
                    todo.extend(directory.visible.iter().map(|(name, id)| match path.as_str() {
                        "" => (name.clone(), *id),
                        _ => (format!("{path}/{name}"), *id),
                    }));
                }
                Node::Gone => {}
            }
        }
        files.sort();
        files
    }

    /// Time passes; then an old handle learns that its process is gone.
    async fn take_time(
        &self,
        operation: &'static str,
        path: &str,
        numbers: [u64; 2],
    ) -> DiskResult<()> {
        self.shared.trace.note(operation, path, numbers);
        self.check_generation()?;
        let pause = self.shared.state.borrow_mut().draw_pause(path);
        match pause {
            Pause::None => {}
            Pause::Yield => self.shared.executor.yield_now().await,
            Pause::Sleep(duration) => self.shared.executor.sleep(duration).await,
        }
        self.wait_while(|state| state.held.iter().any(|part| path.contains(part.as_str()))).await;
        self.check_generation()
    }

    async fn wait_while(&self, is_held: impl Fn(&State) -> bool) {
        poll_fn(|context| {
            let mut state = self.shared.state.borrow_mut();
            if !is_held(&state) {
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn check_generation(&self) -> DiskResult<()> {
        if self.shared.state.borrow().generation == self.generation {
            return Ok(());
        }
        Err(DiskError::Io { errno: EIO })
    }

    /// Whether this operation fails, by the odds that `choose` names.
    fn strikes(&self, path: &str, choose: impl Fn(&Faults) -> OneIn) -> bool {
        let mut guard = self.shared.state.borrow_mut();
        let state = &mut *guard;
        let is_struck =
            path.contains(state.faults.aimed_at) && state.prng.happens(choose(&state.faults));
        if is_struck {
            self.shared.trace.note("fault", path, [0, 0]);
            self.shared.count(|stats| stats.errors += 1);
        }
        is_struck
    }

    /// One change of names: takes time, may fail, is noted.
    async fn change_names<T>(
        &self,
        operation: &'static str,
        path: &str,
        change: impl FnOnce(&mut State) -> DiskResult<T>,
    ) -> DiskResult<T> {
        self.take_time(operation, path, [0, 0]).await?;
        if self.strikes(path, |faults| faults.name_error) {
            return Err(DiskError::Io { errno: EIO });
        }
        change(&mut self.shared.state.borrow_mut())
    }

    fn handle(&self, node: NodeId, path: &str, mode: OpenMode) -> SimFile {
        *self.shared.state.borrow_mut().open.entry(node).or_default() += 1;
        SimFile { disk: self.clone(), node, path: path.into(), mode }
    }
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut DiskStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }
}

enum Pause {
    None,
    Yield,
    Sleep(Duration),
}

impl State {
    fn draw_pause(&mut self, path: &str) -> Pause {
        let faults = self.faults;
        if path.contains(faults.aimed_at) && self.prng.happens(faults.slow) {
            return Pause::Sleep(Duration::from_micros(self.prng.between(5_000, 50_000)));
        }
        match self.prng.below(8) {
            0 => Pause::None,
            1..4 => Pause::Yield,
            _ => Pause::Sleep(Duration::from_micros(self.prng.between(20, 200))),
        }
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.tree.used_bytes())
    }

    fn forget_unnamed(&mut self) {
        let open = &self.open;
        self.tree.forget_unnamed(|id| open.contains_key(&id));
    }
}

impl Disk for SimDisk {
    type Buffer = SimBuffer;
    type ReadBuffer = SimReadBuffer;
    type File = SimFile;

    fn allocate(&self, bytes: usize) -> SimBuffer {
        SimBuffer::new(bytes)
    }

    async fn open(&self, path: &str, mode: OpenMode) -> DiskResult<SimFile> {
        let node = match mode {
            OpenMode::CreateNew => {
                let create = |state: &mut State| {
                    if state.free() < BLOCK_BYTES as u64 {
                        return Err(DiskError::NoSpace);
                    }
                    state.tree.create(path, Node::File(FileImage::default()))
                };
                self.change_names("create", path, create).await?
            }
            OpenMode::Read | OpenMode::ReadWrite => {
                self.take_time("open", path, [0, 0]).await?;
                let state = self.shared.state.borrow();
                let id = state.tree.find(path)?;
                match state.tree.node(id) {
                    Node::File(_) => id,
                    _ => return Err(DiskError::NotAFile { found: EntryKind::Directory }),
                }
            }
        };
        Ok(self.handle(node, path, mode))
    }

    async fn create_dir(&self, path: &str) -> DiskResult<()> {
        let make = |state: &mut State| {
            state.tree.create(path, Node::Directory(Directory::default())).map(|_| ())
        };
        self.change_names("mkdir", path, make).await
    }

    async fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        self.shared.trace.note("rename-to", to, [0, 0]);
        let rename = |state: &mut State| {
            state.tree.rename(from, to)?;
            state.forget_unnamed();
            Ok(())
        };
        self.change_names("rename", from, rename).await
    }

    async fn remove(&self, path: &str) -> DiskResult<()> {
        let remove = |state: &mut State| {
            state.tree.remove_file(path)?;
            state.forget_unnamed();
            Ok(())
        };
        self.change_names("remove", path, remove).await
    }

    async fn remove_dir(&self, path: &str) -> DiskResult<()> {
        self.change_names("rmdir", path, |state: &mut State| state.tree.remove_dir(path)).await
    }

    async fn list(&self, path: &str) -> DiskResult<Vec<PathEntry>> {
        self.take_time("list", path, [0, 0]).await?;
        let state = self.shared.state.borrow();
        let directory = state.tree.directory(state.tree.find(path)?)?;
        let entry = |(name, id): (&String, &NodeId)| PathEntry {
            name: name.clone(),
            kind: match state.tree.node(*id) {
                Node::File(image) => EntryKind::File { bytes: image.len() as u64 },
                Node::Directory(_) => EntryKind::Directory,
                Node::Gone => EntryKind::Other,
            },
        };
        Ok(directory.visible.iter().map(entry).collect())
    }

    async fn sync_dir(&self, path: &str) -> DiskResult<()> {
        let sync = |state: &mut State| {
            let id = state.tree.find(path)?;
            state.tree.directory(id)?;
            state.tree.sync(id, &mut state.prng);
            state.forget_unnamed();
            Ok(())
        };
        self.change_names("sync-dir", path, sync).await?;
        self.shared.count(|stats| stats.syncs += 1);
        Ok(())
    }

    async fn free_bytes(&self) -> DiskResult<u64> {
        self.take_time("free", "", [0, 0]).await?;
        self.wait_while(|state| state.is_space_held).await;
        Ok(self.shared.state.borrow().free())
    }
}

/// A write that the device may be working on. Dropping it before the end is a failed write.
struct Flight<'a> {
    file: &'a SimFile,
    id: Option<u64>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.file.with_image(|image, prng| image.abandon(id, prng));
    }
}

impl SimFile {
    fn with_image<T>(&self, act: impl FnOnce(&mut FileImage, &mut Prng) -> T) -> Option<T> {
        let mut guard = self.disk.shared.state.borrow_mut();
        let state = &mut *guard;
        // An old handle's file may be gone since the crash: its operations end without a trace.
        if state.generation != self.disk.generation {
            return None;
        }
        Some(act(state.tree.file(self.node), &mut state.prng))
    }

    fn image<T>(&self, act: impl FnOnce(&mut FileImage, &mut Prng) -> T) -> DiskResult<T> {
        self.with_image(act).ok_or(DiskError::Io { errno: EIO })
    }

    fn writable(&self) -> DiskResult<()> {
        match self.mode {
            OpenMode::Read => Err(DiskError::Denied { errno: EBADF }),
            OpenMode::ReadWrite | OpenMode::CreateNew => Ok(()),
        }
    }

    async fn sync(&self, operation: &'static str, kind: SyncKind) -> DiskResult<()> {
        let mark = self.image(|image, _| image.sync_mark())?;
        self.disk.take_time(operation, &self.path, [0, 0]).await?;
        if self.disk.strikes(&self.path, |faults| faults.sync_error) {
            self.image(|image, prng| image.sync_failed(mark, prng))?;
            let path = Rc::clone(&self.path);
            self.disk.shared.state.borrow_mut().failed_syncs.insert(path);
            return Err(DiskError::Io { errno: EIO });
        }
        self.image(|image, prng| image.synced(kind, mark, prng))?;
        self.disk.shared.count(|stats| stats.syncs += 1);
        Ok(())
    }

    /// Whether growing the file to `end` fits the disk.
    fn has_room(&self, end: u64) -> bool {
        let mut guard = self.disk.shared.state.borrow_mut();
        let state = &mut *guard;
        if state.capacity == u64::MAX || state.generation != self.disk.generation {
            return true;
        }
        let len = state.tree.file(self.node).len() as u64;
        end.saturating_sub(len) <= state.free()
    }
}

impl DiskFile for SimFile {
    type Buffer = SimBuffer;
    type ReadBuffer = SimReadBuffer;

    async fn write_rc_at(&self, buffer: Rc<SimBuffer>, position: u64) -> DiskResult<()> {
        let bytes = buffer.len();
        assert!(
            position.is_multiple_of(BLOCK_BYTES as u64),
            "write at {position} of {}",
            self.path
        );
        assert!(bytes > 0 && bytes <= IO_BYTES_MAX, "write of {bytes} bytes to {}", self.path);
        self.writable()?;
        let end = position + bytes as u64;
        let id = self.image(|image, _| image.submit(to_usize(position), buffer))?;
        let mut flight = Flight { file: self, id: Some(id) };
        self.disk.take_time("write", &self.path, [position, bytes as u64]).await?;
        if !self.has_room(end) {
            self.disk.shared.count(|stats| stats.refused += 1);
            flight.id = None;
            self.image(|image, prng| image.refuse(id, prng))?;
            return Err(DiskError::NoSpace);
        }
        if self.disk.strikes(&self.path, |faults| faults.write_error) {
            return Err(DiskError::Io { errno: EIO });
        }
        flight.id = None;
        self.image(|image, prng| image.complete(id, prng))?;
        self.disk.shared.count(|stats| {
            stats.writes += 1;
            stats.written_bytes += bytes as u64;
        });
        Ok(())
    }

    async fn read_at_aligned(&self, position: u64, bytes: usize) -> DiskResult<SimReadBuffer> {
        assert!(position.is_multiple_of(BLOCK_BYTES as u64), "read at {position} of {}", self.path);
        assert!(
            bytes.is_multiple_of(BLOCK_BYTES) && bytes <= IO_BYTES_MAX,
            "read of {bytes} bytes"
        );
        self.disk.take_time("read", &self.path, [position, bytes as u64]).await?;
        if self.disk.strikes(&self.path, |faults| faults.read_error) {
            return Err(DiskError::Io { errno: EIO });
        }
        let read = self.image(|image, prng| image.read(to_usize(position), bytes, prng))?;
        self.disk.shared.count(|stats| {
            stats.reads += 1;
            stats.read_bytes += read.len() as u64;
        });
        Ok(SimReadBuffer::new(read))
    }

    async fn data_sync(&self) -> DiskResult<()> {
        self.sync("data-sync", SyncKind::Data).await
    }

    async fn full_sync(&self) -> DiskResult<()> {
        self.sync("full-sync", SyncKind::Full).await
    }

    async fn truncate(&self, bytes: u64) -> DiskResult<()> {
        self.writable()?;
        self.disk.take_time("truncate", &self.path, [bytes, 0]).await?;
        if self.disk.strikes(&self.path, |faults| faults.write_error) {
            return Err(DiskError::Io { errno: EIO });
        }
        self.image(|image, _| image.set_len(to_usize(bytes)))
    }

    async fn reserve(&self, range: Range<u64>) -> DiskResult<()> {
        let blocks = BLOCK_BYTES as u64;
        assert!(range.start.is_multiple_of(blocks) && range.end.is_multiple_of(blocks));
        self.writable()?;
        self.disk.take_time("reserve", &self.path, [range.start, range.end]).await?;
        if !self.has_room(range.end) {
            self.disk.shared.count(|stats| stats.refused += 1);
            return Err(DiskError::NoSpace);
        }
        if self.disk.strikes(&self.path, |faults| faults.write_error) {
            return Err(DiskError::Io { errno: EIO });
        }
        self.image(|image, _| image.reserve(to_usize(range.start)..to_usize(range.end)))
    }

    async fn size(&self) -> DiskResult<u64> {
        self.disk.take_time("size", &self.path, [0, 0]).await?;
        self.image(|image, _| image.len() as u64)
    }

    async fn next_stored(&self, position: u64) -> DiskResult<Option<Range<u64>>> {
        self.disk.take_time("next-stored", &self.path, [position, 0]).await?;
        if self.disk.strikes(&self.path, |faults| faults.read_error) {
            return Err(DiskError::Io { errno: EIO });
        }
        let found = self.image(|image, prng| image.next_stored(to_usize(position), prng))?;
        Ok(found.map(|range| range.start as u64..range.end as u64))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut guard = self.disk.shared.state.borrow_mut();
        let state = &mut *guard;
        if state.generation != self.disk.generation {
            return;
        }
        let Some(count) = state.open.get_mut(&self.node) else { return };
        *count -= 1;
        if *count == 0 {
            state.open.remove(&self.node);
        }
    }
}

impl std::fmt::Debug for SimFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SimFile({})", self.path)
    }
}

fn to_usize(position: u64) -> usize {
    usize::try_from(position).expect("simulated files are far below the address space")
}
