//! A disk in memory and an executor without surprises: what the tests of this crate run on.
//!
//! Owns no faults but the simplest crash (everything unsynced is gone). The seeded disk with every fault lives in
//! `tools/sim`, above this crate.

pub(crate) mod world;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use commitlog::{
    AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, Executor,
    LocalTask, OpenMode, PathEntry, TaskClass,
};

#[derive(Debug)]
pub(crate) struct MemoryBuffer(Vec<u8>);

impl AlignedBuffer for MemoryBuffer {
    fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn truncate(&mut self, bytes: usize) {
        assert!(bytes.is_multiple_of(BLOCK_BYTES));
        self.0.truncate(bytes);
    }
}

#[derive(Debug, Default, Clone)]
struct Inode {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// Written since the last sync began. A failed sync drops it: a later one covers what is written after it only.
    is_dirty: bool,
}

type InodeRef = Rc<RefCell<Inode>>;

#[derive(Debug, Clone)]
enum Node {
    Directory,
    File(InodeRef),
}

#[derive(Debug, Default)]
struct Tree {
    nodes: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) syncs: u64,
    fail_writes_of: Option<(String, DiskError)>,
    fail_reads_of: Option<(String, Range<usize>)>,
    fail_syncs_of: Option<String>,
    fail_dir_syncs_of: Option<String>,
    fail_creates_of: Option<(String, DiskError)>,
    hold_writes_of: Option<String>,
    hold_syncs_of: Option<String>,
    hold_removes_of: Option<String>,
    /// What reads have given, as long as anybody holds it.
    given: Vec<Weak<[u8]>>,
    /// How many syncs of its directory fail once a segment file was made, and how.
    dir_syncs_after_create: Option<(usize, DiskError)>,
    is_created: bool,
    open_files: usize,
    free_bytes: Option<u64>,
    open_files_max: Option<usize>,
}

/// The disk; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryDisk(Rc<RefCell<Tree>>);

#[derive(Debug)]
pub(crate) struct MemoryFile {
    path: String,
    inode: InodeRef,
    tree: Rc<RefCell<Tree>>,
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.tree.borrow_mut().open_files -= 1;
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl MemoryDisk {
    /// Loses everything that is not synced.
    pub(crate) fn crash(&self) {
        let mut tree = self.0.borrow_mut();
        tree.nodes = tree.durable.clone();
        tree.fail_writes_of = None;
        tree.fail_reads_of = None;
        tree.fail_syncs_of = None;
        tree.fail_dir_syncs_of = None;
        tree.fail_creates_of = None;
        tree.hold_writes_of = None;
        tree.dir_syncs_after_create = None;
        for node in tree.nodes.values() {
            if let Node::File(inode) = node {
                let mut inode = inode.borrow_mut();
                inode.bytes = inode.durable.clone();
                inode.is_dirty = false;
            }
        }
    }

    /// All bytes of a file, to look at or to damage.
    pub(crate) fn edit<T>(&self, path: &str, edit: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let inode = match self.0.borrow().nodes.get(path) {
            Some(Node::File(inode)) => inode.clone(),
            other => panic!("{path}: {other:?}"),
        };
        let mut inode = inode.borrow_mut();
        let result = edit(&mut inode.bytes);
        inode.durable = inode.bytes.clone();
        result
    }

    pub(crate) fn delete(&self, path: &str) {
        let mut tree = self.0.borrow_mut();
        assert!(tree.nodes.remove(path).is_some(), "{path}");
        tree.durable.remove(path);
    }

    /// Removes a directory and all in it, durably.
    pub(crate) fn delete_tree(&self, path: &str) {
        let mut tree = self.0.borrow_mut();
        let inside = |name: &str| name == path || name.starts_with(&format!("{path}/"));
        tree.nodes.retain(|name, _| !inside(name));
        tree.durable.retain(|name, _| !inside(name));
    }

    /// The names below `path`, ascending.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let tree = self.0.borrow();
        tree.nodes
            .keys()
            .filter(|name| parent(name) == path && !name.is_empty())
            .map(|name| name.rsplit('/').next().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn read_bytes(&self) -> u64 {
        self.0.borrow().read_bytes
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.0.borrow().syncs
    }

    pub(crate) fn set_free_bytes(&self, bytes: u64) {
        self.0.borrow_mut().free_bytes = Some(bytes);
    }

    /// Writes fail to files whose path has this part.
    pub(crate) fn fail_writes_of(&self, part: &str, error: DiskError) {
        self.0.borrow_mut().fail_writes_of = Some((part.to_owned(), error));
    }

    /// Reads fail that touch these bytes of such a file; none of an empty range.
    pub(crate) fn fail_reads_of(&self, suffix: &str, positions: Range<usize>) {
        let struck = (suffix.to_owned(), positions);
        self.0.borrow_mut().fail_reads_of = Some(struck).filter(|(_, range)| !range.is_empty());
    }

    /// Syncs of that directory fail; the empty name is none.
    pub(crate) fn fail_dir_syncs_of(&self, path: &str) {
        self.0.borrow_mut().fail_dir_syncs_of = Some(path.to_owned()).filter(|one| !one.is_empty());
    }

    /// From now on the process may hold so many files open.
    pub(crate) fn limit_open_files(&self, open_files_max: usize) {
        self.0.borrow_mut().open_files_max = Some(open_files_max);
    }

    pub(crate) fn fail_creates_of(&self, suffix: &str, error: DiskError) {
        self.0.borrow_mut().fail_creates_of = Some((suffix.to_owned(), error));
    }

    /// Writes to such a file do not end; the empty suffix holds none.
    pub(crate) fn hold_writes_of(&self, suffix: &str) {
        self.0.borrow_mut().hold_writes_of = Some(suffix.to_owned()).filter(|one| !one.is_empty());
    }

    /// Syncs of such a file do not end; the empty suffix holds none.
    pub(crate) fn hold_syncs_of(&self, suffix: &str) {
        self.0.borrow_mut().hold_syncs_of = Some(suffix.to_owned()).filter(|one| !one.is_empty());
    }

    /// Removals of such a file do not end; the empty suffix holds none.
    pub(crate) fn hold_removes_of(&self, suffix: &str) {
        self.0.borrow_mut().hold_removes_of = Some(suffix.to_owned()).filter(|one| !one.is_empty());
    }

    /// Bytes that reads have given and that somebody still holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let mut tree = self.0.borrow_mut();
        tree.given.retain(|piece| piece.strong_count() > 0);
        tree.given.iter().filter_map(Weak::upgrade).map(|piece| piece.len()).sum()
    }

    /// Once the next segment file was made, so many syncs of directories fail.
    pub(crate) fn fail_dir_syncs_after_create(&self, count: usize, error: DiskError) {
        let mut tree = self.0.borrow_mut();
        tree.dir_syncs_after_create = Some((count, error));
        tree.is_created = false;
    }

    /// Syncs of such a file fail; the empty suffix fails none.
    pub(crate) fn fail_syncs_of(&self, suffix: &str) {
        self.0.borrow_mut().fail_syncs_of = Some(suffix.to_owned()).filter(|one| !one.is_empty());
    }
}

impl DiskFile for MemoryFile {
    type Buffer = MemoryBuffer;
    type ReadBuffer = Rc<[u8]>;

    async fn write_rc_at(&self, buffer: Rc<MemoryBuffer>, position: u64) -> DiskResult<()> {
        yield_once().await;
        let is_held = || {
            let tree = self.tree.borrow();
            tree.hold_writes_of.as_ref().is_some_and(|suffix| self.path.ends_with(suffix.as_str()))
        };
        while is_held() {
            yield_once().await;
        }
        if let Some((part, error)) = &self.tree.borrow().fail_writes_of
            && self.path.contains(part.as_str())
        {
            return Err(error.clone());
        }
        let from = usize::try_from(position).unwrap();
        assert!(from % BLOCK_BYTES == 0 && buffer.0.len().is_multiple_of(BLOCK_BYTES));
        assert!(buffer.0.len() <= commitlog::IO_BYTES_MAX);
        let mut inode = self.inode.borrow_mut();
        let to = from + buffer.0.len();
        if inode.bytes.len() < to {
            inode.bytes.resize(to, 0);
        }
        inode.bytes[from..to].copy_from_slice(&buffer.0);
        inode.is_dirty = true;
        Ok(())
    }

    async fn read_at_aligned(&self, position: u64, bytes: usize) -> DiskResult<Rc<[u8]>> {
        yield_once().await;
        let from = usize::try_from(position).unwrap();
        assert!(from % BLOCK_BYTES == 0 && bytes.is_multiple_of(BLOCK_BYTES));
        assert!(bytes <= commitlog::IO_BYTES_MAX);
        if let Some((suffix, range)) = &self.tree.borrow().fail_reads_of
            && self.path.ends_with(suffix.as_str())
            && range.start < from + bytes
            && from < range.end
        {
            return Err(DiskError::Io { errno: 5 });
        }
        let inode = self.inode.borrow();
        let piece: Rc<[u8]> =
            inode.bytes.get(from..inode.bytes.len().min(from + bytes)).unwrap_or_default().into();
        let mut tree = self.tree.borrow_mut();
        tree.given.push(Rc::downgrade(&piece));
        tree.reads += 1;
        tree.read_bytes += piece.len() as u64;
        Ok(piece)
    }

    async fn data_sync(&self) -> DiskResult<()> {
        yield_once().await;
        // What is written from here on is not covered.
        let (covered, was_dirty) = {
            let mut inode = self.inode.borrow_mut();
            (inode.bytes.clone(), std::mem::take(&mut inode.is_dirty))
        };
        let is_held = || {
            let tree = self.tree.borrow();
            tree.hold_syncs_of.as_ref().is_some_and(|suffix| self.path.ends_with(suffix.as_str()))
        };
        while is_held() {
            yield_once().await;
        }
        let mut tree = self.tree.borrow_mut();
        if let Some(suffix) = &tree.fail_syncs_of
            && self.path.ends_with(suffix.as_str())
        {
            return Err(DiskError::Io { errno: 5 });
        }
        tree.syncs += 1;
        if was_dirty {
            self.inode.borrow_mut().durable = covered;
        }
        Ok(())
    }

    async fn full_sync(&self) -> DiskResult<()> {
        self.data_sync().await
    }

    async fn truncate(&self, bytes: u64) -> DiskResult<()> {
        yield_once().await;
        let mut inode = self.inode.borrow_mut();
        inode.bytes.resize(usize::try_from(bytes).unwrap(), 0);
        inode.is_dirty = true;
        Ok(())
    }

    async fn reserve(&self, range: Range<u64>) -> DiskResult<()> {
        yield_once().await;
        let mut inode = self.inode.borrow_mut();
        let bytes = inode.bytes.len().max(usize::try_from(range.end).unwrap());
        inode.bytes.resize(bytes, 0);
        inode.is_dirty = true;
        Ok(())
    }

    async fn size(&self) -> DiskResult<u64> {
        yield_once().await;
        Ok(self.inode.borrow().bytes.len() as u64)
    }

    async fn next_stored(&self, position: u64) -> DiskResult<Option<Range<u64>>> {
        yield_once().await;
        let inode = self.inode.borrow();
        let first = usize::try_from(position).unwrap() / BLOCK_BYTES;
        let is_stored = |block: &&[u8]| block.iter().any(|byte| *byte != 0);
        let mut blocks = inode.bytes.chunks(BLOCK_BYTES).skip(first);
        let Some(before) = blocks.position(|block| is_stored(&block)) else { return Ok(None) };
        let more = blocks.take_while(is_stored).count();
        let (start, end) = (first + before, first + before + 1 + more);
        Ok(Some((start * BLOCK_BYTES) as u64..(end * BLOCK_BYTES) as u64))
    }
}

impl Disk for MemoryDisk {
    type Buffer = MemoryBuffer;
    type ReadBuffer = Rc<[u8]>;
    type File = MemoryFile;

    fn allocate(&self, bytes: usize) -> MemoryBuffer {
        // Junk, as a slab gives it: nobody may rely on zeros.
        MemoryBuffer(vec![0xaa; bytes.next_multiple_of(BLOCK_BYTES)])
    }

    async fn open(&self, path: &str, mode: OpenMode) -> DiskResult<MemoryFile> {
        yield_once().await;
        let mut tree = self.0.borrow_mut();
        if tree.open_files_max.is_some_and(|open_files_max| tree.open_files >= open_files_max) {
            return Err(DiskError::TooManyFiles { errno: 24 });
        }
        let inode = match (tree.nodes.get(path), mode) {
            (Some(Node::File(_)), OpenMode::CreateNew) => return Err(DiskError::AlreadyExists),
            (Some(Node::File(inode)), _) => inode.clone(),
            (Some(Node::Directory), _) => return Err(DiskError::Denied { errno: 21 }),
            (None, OpenMode::CreateNew) => {
                let up = parent(path).to_owned();
                if !up.is_empty() && !tree.nodes.contains_key(&up) {
                    return Err(DiskError::NotFound);
                }
                if let Some((suffix, error)) = &tree.fail_creates_of
                    && path.ends_with(suffix.as_str())
                {
                    return Err(error.clone());
                }
                tree.is_created |= path.ends_with(".log");
                let inode = InodeRef::default();
                tree.nodes.insert(path.to_owned(), Node::File(inode.clone()));
                inode
            }
            (None, _) => return Err(DiskError::NotFound),
        };
        tree.open_files += 1;
        Ok(MemoryFile { path: path.to_owned(), inode, tree: self.0.clone() })
    }

    async fn create_dir(&self, path: &str) -> DiskResult<()> {
        yield_once().await;
        let mut tree = self.0.borrow_mut();
        if tree.nodes.contains_key(path) {
            return Err(DiskError::AlreadyExists);
        }
        tree.nodes.insert(path.to_owned(), Node::Directory);
        Ok(())
    }

    async fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        yield_once().await;
        let mut tree = self.0.borrow_mut();
        if matches!(tree.nodes.get(from), Some(Node::File(_)))
            && matches!(tree.nodes.get(to), Some(Node::Directory))
        {
            return Err(DiskError::NotAFile { found: EntryKind::Directory });
        }
        let moved: Vec<String> = tree
            .nodes
            .keys()
            .filter(|name| *name == from || name.starts_with(&format!("{from}/")))
            .cloned()
            .collect();
        if moved.is_empty() {
            return Err(DiskError::NotFound);
        }
        for name in moved {
            let node = tree.nodes.remove(&name).unwrap();
            tree.nodes.insert(format!("{to}{}", &name[from.len()..]), node);
        }
        Ok(())
    }

    async fn remove(&self, path: &str) -> DiskResult<()> {
        yield_once().await;
        let is_held = || {
            let tree = self.0.borrow();
            tree.hold_removes_of.as_ref().is_some_and(|suffix| path.ends_with(suffix.as_str()))
        };
        while is_held() {
            yield_once().await;
        }
        let mut tree = self.0.borrow_mut();
        if matches!(tree.nodes.get(path), Some(Node::Directory)) {
            return Err(DiskError::NotAFile { found: EntryKind::Directory });
        }
        match tree.nodes.remove(path) {
            Some(Node::File(_)) => Ok(()),
            Some(Node::Directory) => unreachable!("asked before"),
            None => Err(DiskError::NotFound),
        }
    }

    async fn remove_dir(&self, path: &str) -> DiskResult<()> {
        yield_once().await;
        assert!(self.names(path).is_empty());
        self.0.borrow_mut().nodes.remove(path).map(|_| ()).ok_or(DiskError::NotFound)
    }

    async fn list(&self, path: &str) -> DiskResult<Vec<PathEntry>> {
        yield_once().await;
        let tree = self.0.borrow();
        if !path.is_empty() && !matches!(tree.nodes.get(path), Some(Node::Directory)) {
            return Err(DiskError::NotFound);
        }
        drop(tree);
        let entry = |name: String| {
            let full = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let kind = match self.0.borrow().nodes.get(&full) {
                Some(Node::File(inode)) => {
                    EntryKind::File { bytes: inode.borrow().bytes.len() as u64 }
                }
                _ => EntryKind::Directory,
            };
            PathEntry { name, kind }
        };
        Ok(self.names(path).into_iter().map(entry).collect())
    }

    async fn sync_dir(&self, path: &str) -> DiskResult<()> {
        yield_once().await;
        let mut tree = self.0.borrow_mut();
        if tree.open_files_max.is_some_and(|open_files_max| tree.open_files >= open_files_max) {
            return Err(DiskError::TooManyFiles { errno: 24 });
        }
        if tree.fail_dir_syncs_of.as_deref() == Some(path) {
            return Err(DiskError::Io { errno: 5 });
        }
        let is_created = tree.is_created;
        if let Some((count, error)) = &mut tree.dir_syncs_after_create
            && is_created
            && *count > 0
        {
            *count -= 1;
            return Err(error.clone());
        }
        let here = |name: &String| parent(name) == path && !name.is_empty();
        let old: Vec<String> = tree.durable.keys().filter(|name| here(name)).cloned().collect();
        for name in old {
            if !tree.nodes.contains_key(&name) {
                let below = format!("{name}/");
                tree.durable.retain(|other, _| *other != name && !other.starts_with(&below));
            }
        }
        let now: Vec<(String, Node)> = tree
            .nodes
            .iter()
            .filter(|(name, _)| here(name))
            .map(|(name, node)| (name.clone(), node.clone()))
            .collect();
        for (name, node) in now {
            // A directory that was renamed here brings what was durable in it.
            if matches!(node, Node::Directory) && !tree.durable.contains_key(&name) {
                let below = format!("{name}/");
                let inside: Vec<(String, Node)> = tree
                    .nodes
                    .iter()
                    .filter(|(other, _)| other.starts_with(&below))
                    .map(|(other, node)| (other.clone(), node.clone()))
                    .collect();
                tree.durable.extend(inside);
            }
            tree.durable.insert(name, node);
        }
        tree.syncs += 1;
        Ok(())
    }

    async fn free_bytes(&self) -> DiskResult<u64> {
        Ok(self.0.borrow().free_bytes.unwrap_or(u64::MAX))
    }
}

async fn yield_once() {
    futures_lite::future::yield_now().await;
}

/// Runs spawned tasks in turn, beside the one that is waited for.
#[derive(Clone, Default)]
pub(crate) struct TestExecutor {
    spawned: Rc<RefCell<VecDeque<LocalTask>>>,
    yields: Rc<Cell<u64>>,
    gives_way: Rc<Cell<bool>>,
}

impl Executor for TestExecutor {
    fn spawn(&self, _class: TaskClass, task: LocalTask) {
        self.spawned.borrow_mut().push_back(task);
    }

    async fn yield_if_needed(&self) {
        self.yields.set(self.yields.get() + 1);
        if self.gives_way.get() {
            yield_once().await;
        }
    }
}

impl TestExecutor {
    /// How often others could have had a turn.
    pub(crate) fn yields(&self) -> u64 {
        self.yields.get()
    }

    /// From now on others get a turn whenever they could have one.
    pub(crate) fn give_way(&self) {
        self.gives_way.set(true);
    }

    /// Runs `main` to its end; tasks that are not done then stay for the next call.
    pub(crate) fn run<T>(&self, main: impl Future<Output = T>) -> T {
        let mut main = std::pin::pin!(main);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10_000_000 {
            if let Poll::Ready(value) = main.as_mut().poll(&mut context) {
                return value;
            }
            self.step(&mut context);
        }
        panic!("no progress");
    }

    /// Runs until no task is left.
    pub(crate) fn settle(&self) {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10_000_000 {
            if self.spawned.borrow().is_empty() {
                return;
            }
            self.step(&mut context);
        }
        panic!("tasks never end");
    }

    /// A crash: no task runs on.
    pub(crate) fn drop_tasks(&self) {
        self.spawned.borrow_mut().clear();
    }

    fn step(&self, context: &mut Context<'_>) {
        let tasks = std::mem::take(&mut *self.spawned.borrow_mut());
        for mut task in tasks {
            if task.as_mut().poll(context).is_pending() {
                self.spawned.borrow_mut().push_back(task);
            }
        }
    }
}
