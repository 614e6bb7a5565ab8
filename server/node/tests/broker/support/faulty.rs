//! The real disk, failing and stalling where a file says so.
//!
//! Owns the rules and their wrapper around the platform. A rule strikes before the real call, or after it where it says so. The
//! node reads its rules from the file at every call: a test changes them while the node runs. Every call ends in the node's own
//! disk: what takes several steps in one trip there is struck where one of its steps would be, before the first of them.
//!
//! ```text
//! fail|fill|stall  any|open|write|sync|read|remove  PART      one a line; strikes where the path contains PART
//! late             write                           PART       the disk is full, it says, and has written all the same
//! fill             free                                       nothing is free, as far as the node is told
//! ```

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use broker::Platform;
use broker::platform::Parted;
use commitlog::{
    Disk, DiskError, DiskFile, DiskResult, Executor, Lasting, LocalTask, Look, NewDirectory,
    OpenMode, PathEntry, Piece, TaskClass,
};
use node::{Buffer, CorePlatform, GlommioDisk, GlommioFile, ReadBuffer};
use record::Timestamp;

/// Where the rules for a data directory are.
pub(super) fn rules_of(data_dir: &Path) -> PathBuf {
    data_dir.with_extension("faults")
}

/// Replaces the rules, all at once.
pub(super) fn write_rules(data_dir: &Path, rules: &[&str]) {
    let (path, new) = (rules_of(data_dir), data_dir.with_extension("faults.new"));
    std::fs::write(&new, rules.join("\n")).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// How often a stalled call looks whether its rule has gone.
const STALL_LOOK: Duration = Duration::from_millis(5);
/// What a device that fails says.
const EIO: i32 = 5;

/// The rules as the node sees them.
#[derive(Debug, Clone)]
struct Rules(PathBuf);

impl Rules {
    /// What strikes an operation on that path, if anything does.
    fn strike(&self, operation: &str, path: &str) -> Option<String> {
        let rules = std::fs::read_to_string(&self.0).unwrap_or_default();
        let strikes = |rule: &&str| {
            let mut words = rule.split(' ').skip(1);
            let (on, part) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            (on == "any" || on == operation) && path.contains(part)
        };
        rules.lines().find(strikes).and_then(|rule| Some(rule.split_once(' ')?.0.to_owned()))
    }

    /// Waits while the path is stalled; fails where it fails.
    async fn pass(&self, operation: &str, path: &str) -> DiskResult<()> {
        loop {
            match self.strike(operation, path).as_deref() {
                None | Some("late") => return Ok(()),
                Some("fail") => return Err(DiskError::Io { errno: EIO }),
                Some("fill") => return Err(DiskError::NoSpace),
                Some("stall") => glommio::timer::sleep(STALL_LOOK).await,
                Some(other) => panic!("{other} is no rule"),
            }
        }
    }

    /// [`Rules::pass`] for each of these operations on that path.
    async fn pass_all(&self, operations: &[&str], path: &str) -> DiskResult<()> {
        for operation in operations {
            self.pass(operation, path).await?;
        }
        Ok(())
    }

    /// What a write that has been made says of itself.
    fn after_write(&self, path: &str) -> DiskResult<()> {
        match self.strike("write", path).as_deref() {
            Some("late") => Err(DiskError::NoSpace),
            _ => Ok(()),
        }
    }

    /// Whether a file can be opened and read, on a thread that may block.
    fn lets_read(&self, path: &str) -> bool {
        ["open", "read"].iter().all(|operation| {
            loop {
                match self.strike(operation, path).as_deref() {
                    Some("stall") => std::thread::sleep(STALL_LOOK),
                    struck => return struck.is_none(),
                }
            }
        })
    }
}

/// The disk of one core.
#[derive(Debug, Clone)]
pub(crate) struct FaultyDisk {
    real: GlommioDisk,
    rules: Rc<Rules>,
}

/// A file of a [`FaultyDisk`].
#[derive(Debug)]
pub(crate) struct FaultyFile {
    real: GlommioFile,
    rules: Rc<Rules>,
    path: String,
}

impl DiskFile for FaultyFile {
    type Buffer = Buffer;
    type ReadBuffer = ReadBuffer;

    async fn write_rc_at(&self, buffer: Rc<Buffer>, position: u64) -> DiskResult<()> {
        self.rules.pass("write", &self.path).await?;
        self.real.write_rc_at(buffer, position).await?;
        self.rules.after_write(&self.path)
    }

    async fn write_lasting(&self, buffer: Rc<Buffer>, position: u64) -> DiskResult<()> {
        self.rules.pass("write", &self.path).await?;
        self.rules.pass("sync", &self.path).await?;
        self.real.write_lasting(buffer, position).await?;
        self.rules.after_write(&self.path)
    }

    async fn read_at_aligned(&self, position: u64, bytes: usize) -> DiskResult<ReadBuffer> {
        self.rules.pass("read", &self.path).await?;
        self.real.read_at_aligned(position, bytes).await
    }

    async fn data_sync(&self) -> DiskResult<()> {
        self.rules.pass("sync", &self.path).await?;
        self.real.data_sync().await
    }

    async fn full_sync(&self) -> DiskResult<()> {
        self.rules.pass("sync", &self.path).await?;
        self.real.full_sync().await
    }

    async fn truncate(&self, bytes: u64) -> DiskResult<()> {
        self.rules.pass("write", &self.path).await?;
        self.real.truncate(bytes).await
    }

    async fn reserve(&self, range: Range<u64>) -> DiskResult<()> {
        self.rules.pass("write", &self.path).await?;
        self.real.reserve(range).await
    }

    async fn size(&self) -> DiskResult<u64> {
        self.real.size().await
    }

    async fn next_stored(&self, position: u64) -> DiskResult<Option<Range<u64>>> {
        self.rules.pass("read", &self.path).await?;
        self.real.next_stored(position).await
    }
}

impl Disk for FaultyDisk {
    type Buffer = Buffer;
    type ReadBuffer = ReadBuffer;
    type File = FaultyFile;

    fn allocate(&self, bytes: usize) -> Buffer {
        self.real.allocate(bytes)
    }

    async fn open(&self, path: &str, mode: OpenMode) -> DiskResult<FaultyFile> {
        self.rules.pass("open", path).await?;
        let real = self.real.open(path, mode).await?;
        Ok(FaultyFile { real, rules: Rc::clone(&self.rules), path: path.to_owned() })
    }

    async fn create_dir(&self, path: &str) -> DiskResult<()> {
        self.rules.pass("open", path).await?;
        self.real.create_dir(path).await
    }

    async fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        self.rules.pass("write", from).await?;
        self.real.rename(from, to).await
    }

    async fn remove(&self, path: &str) -> DiskResult<()> {
        self.rules.pass("remove", path).await?;
        self.real.remove(path).await
    }

    async fn remove_dir(&self, path: &str) -> DiskResult<()> {
        self.rules.pass("remove", path).await?;
        self.real.remove_dir(path).await
    }

    async fn list(&self, path: &str) -> DiskResult<Vec<PathEntry>> {
        self.rules.pass("read", path).await?;
        self.real.list(path).await
    }

    async fn look(
        &self,
        path: &str,
        choose: impl FnOnce(&[PathEntry]) -> Vec<Piece> + Send + 'static,
    ) -> DiskResult<Look> {
        self.rules.pass("read", path).await?;
        let (rules, directory) = (Rules::clone(&self.rules), path.to_owned());
        let choose = move |entries: &[PathEntry]| {
            let mut pieces = choose(entries);
            // What cannot be read is left out, as the disk itself does.
            pieces.retain(|piece| rules.lets_read(&format!("{directory}/{}", piece.name)));
            pieces
        };
        self.real.look(path, choose).await
    }

    async fn set_size(&self, path: &str, bytes: u64, lasting: Lasting) -> DiskResult<()> {
        self.rules.pass("open", path).await?;
        if std::fs::metadata(self.real.root().join(path)).is_ok_and(|facts| facts.len() != bytes) {
            self.rules.pass("write", path).await?;
        }
        if lasting == Lasting::Yes {
            self.rules.pass("sync", path).await?;
        }
        self.real.set_size(path, bytes, lasting).await
    }

    async fn replace(&self, directory: &str, files: Vec<(String, Vec<u8>)>) -> DiskResult<()> {
        let paths: Vec<_> =
            files.iter().map(|(name, _)| format!("{directory}/{name}.tmp")).collect();
        for path in &paths {
            self.rules.pass_all(&["remove", "open", "write", "sync"], path).await?;
        }
        self.rules.pass("sync", directory).await?;
        self.real.replace(directory, files).await?;
        paths.iter().try_for_each(|path| self.rules.after_write(path))
    }

    async fn create_dirs(&self, parent: &str, new: Vec<NewDirectory>) -> Vec<DiskResult<()>> {
        let (mut spared, mut answers) = (Vec::new(), Vec::new());
        for one in new {
            let path = format!("{parent}/{}/{}", one.name, one.file);
            let passed = self.rules.pass_all(&["open", "write", "sync"], &path).await;
            if passed.is_ok() {
                spared.push(one);
            }
            answers.push((path, passed));
        }
        if let Err(error) = self.rules.pass("sync", parent).await {
            return vec![Err(error); answers.len()];
        }
        let mut made = self.real.create_dirs(parent, spared).await.into_iter();
        let mut answer = |(path, passed): (String, DiskResult<()>)| {
            passed?;
            made.next().expect("an answer for each")?;
            self.rules.after_write(&path)
        };
        answers.into_iter().map(&mut answer).collect()
    }

    async fn sync_dir(&self, path: &str) -> DiskResult<()> {
        self.rules.pass("sync", path).await?;
        self.real.sync_dir(path).await
    }

    async fn free_bytes(&self) -> DiskResult<u64> {
        if self.rules.strike("free", "").is_some() {
            return Ok(0);
        }
        self.real.free_bytes().await
    }
}

/// A core of the real machine, but for its disk.
#[derive(Debug, Clone)]
pub(crate) struct FaultyPlatform {
    real: CorePlatform,
    disk: FaultyDisk,
}

impl FaultyPlatform {
    pub(super) fn new(real: CorePlatform) -> Self {
        let disk = real.disk();
        let rules = Rc::new(Rules(rules_of(disk.root())));
        Self { real, disk: FaultyDisk { real: disk, rules } }
    }
}

impl Executor for FaultyPlatform {
    fn spawn(&self, class: TaskClass, task: LocalTask) {
        self.real.spawn(class, task);
    }

    async fn yield_if_needed(&self) {
        self.real.yield_if_needed().await;
    }
}

impl Platform for FaultyPlatform {
    type Disk = FaultyDisk;
    type Listener = <CorePlatform as Platform>::Listener;
    type Reader = <CorePlatform as Platform>::Reader;
    type Writer = <CorePlatform as Platform>::Writer;

    fn disk(&self) -> FaultyDisk {
        self.disk.clone()
    }

    fn now(&self) -> Timestamp {
        self.real.now()
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }

    fn random(&self, bytes: &mut [u8]) {
        self.real.random(bytes);
    }

    async fn sleep(&self, duration: Duration) {
        self.real.sleep(duration).await;
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<Self::Listener> {
        self.real.listen(address).await
    }

    fn connect(
        &self,
        address: SocketAddr,
        timeout: Duration,
    ) -> impl Future<Output = io::Result<(Self::Reader, Self::Writer)>> {
        self.real.connect(address, timeout)
    }

    fn adopt(&self, parted: Parted) -> io::Result<(Self::Reader, Self::Writer)> {
        self.real.adopt(parted)
    }

    async fn disk_bytes(&self) -> u64 {
        self.real.disk_bytes().await
    }

    fn resident_bytes(&self) -> u64 {
        self.real.resident_bytes()
    }

    fn panic_count(&self) -> u64 {
        self.real.panic_count()
    }

    fn busy(&self) -> (Duration, Duration) {
        self.real.busy()
    }
}
