//! A disk in memory that can be made to stand still.
//!
//! Owns no crashes and no errors: the seeded disk with every fault lives in `tools/sim`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use commitlog::{
    AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, OpenMode,
    PathEntry,
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
        self.0.truncate(bytes);
    }
}

type Bytes = Rc<RefCell<Vec<u8>>>;

#[derive(Debug, Clone)]
enum Node {
    Directory,
    File(Bytes),
}

#[derive(Debug, Default)]
struct Shared {
    nodes: RefCell<BTreeMap<String, Node>>,
    /// Operations on names that contain one of these wait.
    held: RefCell<Vec<String>>,
    is_space_held: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// The disk; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryDisk(Rc<Shared>);

#[derive(Debug)]
pub(crate) struct MemoryFile {
    path: String,
    bytes: Bytes,
    disk: MemoryDisk,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl MemoryDisk {
    /// Operations on names that contain `part` wait until they are released.
    pub(crate) fn hold(&self, part: &str) {
        self.0.held.borrow_mut().push(part.to_owned());
    }

    /// The question for free space is not answered until it is released.
    pub(crate) fn hold_free_space(&self) {
        self.0.is_space_held.set(true);
    }

    pub(crate) fn release(&self) {
        self.0.held.borrow_mut().clear();
        self.0.is_space_held.set(false);
        self.0.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Whether anything waits.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.0.waiting.borrow().is_empty()
    }

    /// The directories whose names begin so.
    pub(crate) fn directories(&self, prefix: &str) -> Vec<String> {
        let nodes = self.0.nodes.borrow();
        let found = nodes
            .iter()
            .filter(|(name, node)| name.starts_with(prefix) && matches!(node, Node::Directory));
        found.map(|(name, _)| name.clone()).collect()
    }

    async fn wait_while(&self, is_held: impl Fn() -> bool) {
        futures_lite::future::yield_now().await;
        poll_fn(|context| {
            if is_held() {
                self.0.waiting.borrow_mut().push(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    async fn pass(&self, path: &str) {
        self.wait_while(|| self.0.held.borrow().iter().any(|part| path.contains(part.as_str())))
            .await;
    }

    fn names(&self, path: &str) -> Vec<String> {
        let nodes = self.0.nodes.borrow();
        let names = nodes.keys().filter(|name| parent(name) == path);
        names.map(|name| name.rsplit('/').next().unwrap().to_owned()).collect()
    }
}

impl DiskFile for MemoryFile {
    type Buffer = MemoryBuffer;
    type ReadBuffer = Rc<[u8]>;

    async fn write_rc_at(&self, buffer: Rc<MemoryBuffer>, position: u64) -> DiskResult<()> {
        self.disk.pass(&self.path).await;
        let from = usize::try_from(position).unwrap();
        let mut bytes = self.bytes.borrow_mut();
        let to = from + buffer.0.len();
        if bytes.len() < to {
            bytes.resize(to, 0);
        }
        bytes[from..to].copy_from_slice(&buffer.0);
        Ok(())
    }

    async fn read_at_aligned(&self, position: u64, count: usize) -> DiskResult<Rc<[u8]>> {
        self.disk.pass(&self.path).await;
        let from = usize::try_from(position).unwrap();
        let bytes = self.bytes.borrow();
        Ok(bytes.get(from..bytes.len().min(from + count)).unwrap_or_default().into())
    }

    async fn data_sync(&self) -> DiskResult<()> {
        self.disk.pass(&self.path).await;
        Ok(())
    }

    async fn full_sync(&self) -> DiskResult<()> {
        self.data_sync().await
    }

    async fn truncate(&self, count: u64) -> DiskResult<()> {
        self.disk.pass(&self.path).await;
        self.bytes.borrow_mut().resize(usize::try_from(count).unwrap(), 0);
        Ok(())
    }

    async fn size(&self) -> DiskResult<u64> {
        Ok(self.bytes.borrow().len() as u64)
    }
}

impl Disk for MemoryDisk {
    type Buffer = MemoryBuffer;
    type ReadBuffer = Rc<[u8]>;
    type File = MemoryFile;

    fn allocate(&self, bytes: usize) -> MemoryBuffer {
        MemoryBuffer(vec![0xaa; bytes.next_multiple_of(BLOCK_BYTES)])
    }

    async fn open(&self, path: &str, mode: OpenMode) -> DiskResult<MemoryFile> {
        self.pass(path).await;
        let mut nodes = self.0.nodes.borrow_mut();
        let bytes = match (nodes.get(path), mode) {
            (Some(Node::File(_)), OpenMode::CreateNew) => return Err(DiskError::AlreadyExists),
            (Some(Node::File(bytes)), _) => Rc::clone(bytes),
            (Some(Node::Directory), _) => return Err(DiskError::Denied { errno: 21 }),
            (None, OpenMode::CreateNew) => {
                let bytes = Bytes::default();
                nodes.insert(path.to_owned(), Node::File(Rc::clone(&bytes)));
                bytes
            }
            (None, _) => return Err(DiskError::NotFound),
        };
        Ok(MemoryFile { path: path.to_owned(), bytes, disk: self.clone() })
    }

    async fn create_dir(&self, path: &str) -> DiskResult<()> {
        self.pass(path).await;
        let mut nodes = self.0.nodes.borrow_mut();
        if nodes.contains_key(path) {
            return Err(DiskError::AlreadyExists);
        }
        nodes.insert(path.to_owned(), Node::Directory);
        Ok(())
    }

    async fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        self.pass(from).await;
        let mut nodes = self.0.nodes.borrow_mut();
        let below = format!("{from}/");
        let is_moved = |name: &&String| *name == from || name.starts_with(&below);
        let moved: Vec<String> = nodes.keys().filter(is_moved).cloned().collect();
        if moved.is_empty() {
            return Err(DiskError::NotFound);
        }
        for name in moved {
            let node = nodes.remove(&name).unwrap();
            nodes.insert(format!("{to}{}", &name[from.len()..]), node);
        }
        Ok(())
    }

    async fn remove(&self, path: &str) -> DiskResult<()> {
        self.pass(path).await;
        self.0.nodes.borrow_mut().remove(path).map(|_| ()).ok_or(DiskError::NotFound)
    }

    async fn remove_dir(&self, path: &str) -> DiskResult<()> {
        self.remove(path).await
    }

    async fn list(&self, path: &str) -> DiskResult<Vec<PathEntry>> {
        self.pass(path).await;
        let nodes = self.0.nodes.borrow();
        if !path.is_empty() && !matches!(nodes.get(path), Some(Node::Directory)) {
            return Err(DiskError::NotFound);
        }
        let entry = |name: String| {
            let full = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let kind = match nodes.get(&full) {
                Some(Node::File(bytes)) => EntryKind::File { bytes: bytes.borrow().len() as u64 },
                _ => EntryKind::Directory,
            };
            PathEntry { name, kind }
        };
        Ok(self.names(path).into_iter().map(entry).collect())
    }

    async fn sync_dir(&self, path: &str) -> DiskResult<()> {
        self.pass(path).await;
        Ok(())
    }

    async fn free_bytes(&self) -> DiskResult<u64> {
        self.wait_while(|| self.0.is_space_held.get()).await;
        Ok(1 << 40)
    }
}
