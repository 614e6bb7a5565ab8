//! The disk: direct I/O on the executor's ring, below one directory.
//!
//! Owns [`GlommioDisk`] and [`GlommioFile`]. Transfers and data syncs go through the ring; whatever the ring lacks (fsync,
//! names, lengths) runs in the executor's blocking pool on a descriptor of its own, so that a dropped future can never
//! reach a descriptor that was used again. What takes several calls and is done for every log at a start or a stop (look,
//! replace, set_size) makes one trip to that pool. Must never use the page cache for what is appended or fetched where the
//! file system offers direct I/O, never retry, and never follow a path out of its root.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Write as _};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::panic::AssertUnwindSafe;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use commitlog::{
    BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, IO_BYTES_MAX, Lasting, Look,
    NewDirectory, OpenMode, PathEntry, Piece,
};
use futures_lite::FutureExt;
use glommio::io::{DmaFile, OpenOptions};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, fallocate, fcntl};
use nix::sys::stat::SFlag;
use nix::unistd::{Whence, lseek};

use crate::blocking::blocking;
use crate::buffer::{Buffer, FreeList, ReadBuffer};
use crate::errno::{disk_error, runtime_error};
use crate::lock::LOCK_NAME;
use crate::platform::panic_text;
use crate::wake::gated;

/// What the free list above the slab keeps where nobody says otherwise.
pub const FREE_LIST_BYTES: usize = 8 << 20;

/// The data directory as one executor sees it.
#[derive(Debug, Clone)]
pub struct GlommioDisk {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    free: Rc<RefCell<FreeList>>,
    primed: Cell<bool>,
}

impl GlommioDisk {
    /// The disk below `root`, which must exist. To be made and used inside one executor.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_free_list(root, FREE_LIST_BYTES)
    }

    /// The same with a bound of its own for the free list.
    pub fn with_free_list(root: impl Into<PathBuf>, free_list_bytes_max: usize) -> Self {
        let free = FreeList::new(free_list_bytes_max);
        Self { shared: Rc::new(Shared { root: root.into(), free, primed: Cell::new(false) }) }
    }

    /// The directory that paths are relative to.
    pub fn root(&self) -> &Path {
        &self.shared.root
    }

    /// Lets glommio look at the device through a file that holds bytes, before any other file is opened.
    ///
    /// glommio asks each device once per thread whether it can poll, by reading from the first file opened there. An empty
    /// file makes it believe that it can; every later read would then fail with EOPNOTSUPP. [`Disk::open`] calls this too.
    ///
    /// Errors  the device's own; `Io` with EINVAL where direct I/O is refused or needs more than [`BLOCK_BYTES`].
    pub async fn prime(&self) -> DiskResult<()> {
        if self.shared.primed.get() {
            return Ok(());
        }
        let lock = self.shared.root.join(LOCK_NAME);
        let is_filled = |path: &Path| path.metadata().is_ok_and(|facts| facts.len() > 0);
        let file = if is_filled(&lock) {
            open_with(&options_of(OpenMode::Read), &lock).await?
        } else {
            let executor = glommio::executor().id();
            let name = format!(".probe-{}-{executor}", std::process::id());
            let probe = self.shared.root.join(name);
            let created = probe.clone();
            blocking(move || std::fs::write(created, [0; BLOCK_BYTES])).await?;
            let opened = open_with(&options_of(OpenMode::Read), &probe).await;
            blocking(move || std::fs::remove_file(probe)).await?;
            opened?
        };
        if file.alignment() > BLOCK_BYTES as u64 {
            return Err(DiskError::Io { errno: Errno::EINVAL as i32 });
        }
        self.shared.primed.set(true);
        Ok(())
    }

    /// Size of the file system that holds the root.
    pub async fn total_bytes(&self) -> DiskResult<u64> {
        let root = self.shared.root.clone();
        let facts = blocking(move || Ok(nix::sys::statvfs::statvfs(&root)?)).await?;
        Ok(facts.blocks().saturating_mul(facts.fragment_size()))
    }

    fn resolve(&self, path: &str) -> DiskResult<PathBuf> {
        let relative = Path::new(path);
        if relative.components().all(|part| matches!(part, Component::Normal(_))) {
            Ok(self.shared.root.join(relative))
        } else {
            Err(DiskError::Denied { errno: Errno::EINVAL as i32 })
        }
    }
}

/// Opens a file, whatever has its name.
async fn open_direct(path: &Path, mode: OpenMode) -> DiskResult<DmaFile> {
    let mut options = options_of(mode);
    // A pipe would keep who opens it waiting for a writer. Not for the first file of a device: what glommio learns of the device
    // from that holds for all, and some file systems refuse to read then.
    options.custom_flags(OFlag::O_NONBLOCK.bits());
    open_with(&options, path).await
}

fn options_of(mode: OpenMode) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    match mode {
        OpenMode::Read => {}
        OpenMode::ReadWrite => {
            options.write(true);
        }
        OpenMode::CreateNew => {
            options.write(true).create_new(true);
        }
    }
    options
}

/// Opens with direct I/O. glommio panics where `/sys` is masked or the path vanished between two of its steps.
async fn open_with(options: &OpenOptions, path: &Path) -> DiskResult<DmaFile> {
    match AssertUnwindSafe(gated(options.dma_open(path))).catch_unwind().await {
        Ok(Ok(file)) if waits_like_a_file(&file)? => Ok(file),
        Ok(Ok(_)) => Err(what_it_is(path, DiskError::Io { errno: Errno::EINVAL as i32 }).await),
        Ok(Err(error)) => Err(what_it_is(path, runtime_error(&error)).await),
        Err(panic) => {
            let panic = panic_text(panic.as_ref());
            tracing::error!(path = %path.display(), panic, "the runtime could not open a file");
            Err(DiskError::Io { errno: 0 })
        }
    }
}

/// Whether it is a file; then its transfers wait from here on, which some kernels would refuse after an open that did not.
fn waits_like_a_file(file: &DmaFile) -> DiskResult<bool> {
    // SAFETY: `file` keeps the descriptor open for as long as the borrow lives.
    let descriptor = unsafe { BorrowedFd::borrow_raw(file.as_raw_fd()) };
    let failed = |errno: Errno| disk_error(&errno.into());
    // An open file's inode is in memory: none of this waits for the device.
    let mode = nix::sys::stat::fstat(descriptor).map_err(failed)?.st_mode;
    if SFlag::from_bits_truncate(mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Ok(false);
    }
    let flags = fcntl(descriptor, FcntlArg::F_GETFL).map_err(failed)?;
    let flags = OFlag::from_bits_retain(flags) - OFlag::O_NONBLOCK;
    fcntl(descriptor, FcntlArg::F_SETFL(flags)).map_err(failed)?;
    Ok(true)
}

/// Names what cannot be opened because it is no file; `error` where that is not why.
async fn what_it_is(path: &Path, error: DiskError) -> DiskError {
    if !matches!(error, DiskError::Io { .. }) {
        return error;
    }
    let path = path.to_owned();
    // A link that leads to a file is as good as the file.
    match blocking(move || std::fs::metadata(path)).await.map(|facts| entry_kind(&facts)) {
        Ok(EntryKind::File { .. }) | Err(_) => error,
        Ok(found) => DiskError::NotAFile { found },
    }
}

impl Disk for GlommioDisk {
    type Buffer = Buffer;
    type ReadBuffer = ReadBuffer;
    type File = GlommioFile;

    fn allocate(&self, bytes: usize) -> Buffer {
        Buffer::allocate(&self.shared.free, bytes)
    }

    async fn open(&self, path: &str, mode: OpenMode) -> DiskResult<GlommioFile> {
        let path = self.resolve(path)?;
        self.prime().await?;
        Ok(GlommioFile { file: open_direct(&path, mode).await?, lasting: OnceCell::new() })
    }

    async fn create_dir(&self, path: &str) -> DiskResult<()> {
        let path = self.resolve(path)?;
        blocking(move || std::fs::create_dir(path)).await
    }

    async fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        let (from, to) = (self.resolve(from)?, self.resolve(to)?);
        blocking(move || rename(&from, &to)).await
    }

    async fn remove(&self, path: &str) -> DiskResult<()> {
        let path = self.resolve(path)?;
        blocking(move || std::fs::remove_file(path)).await
    }

    async fn remove_dir(&self, path: &str) -> DiskResult<()> {
        let path = self.resolve(path)?;
        blocking(move || std::fs::remove_dir(path)).await
    }

    async fn list(&self, path: &str) -> DiskResult<Vec<PathEntry>> {
        let path = self.resolve(path)?;
        blocking(move || list(&path)).await
    }

    async fn look(
        &self,
        path: &str,
        choose: impl FnOnce(&[PathEntry]) -> Vec<Piece> + Send + 'static,
    ) -> DiskResult<Look> {
        let path = self.resolve(path)?;
        blocking(move || {
            let entries = list(&path)?;
            let pieces = choose(&entries).into_iter();
            let pieces = pieces.filter_map(|piece| {
                let bytes = read_piece(&path, &piece)?;
                Some((piece, bytes))
            });
            let pieces = pieces.collect();
            Ok(Look { entries, pieces })
        })
        .await
    }

    async fn set_size(&self, path: &str, bytes: u64, lasting: Lasting) -> DiskResult<()> {
        let path = self.resolve(path)?;
        blocking(move || {
            let file = File::options().read(true).write(true).open(path)?;
            if file.metadata()?.len() != bytes {
                file.set_len(bytes)?;
            }
            match lasting {
                Lasting::Yes => file.sync_all(),
                Lasting::No => Ok(()),
            }
        })
        .await
    }

    async fn replace(&self, directory: &str, files: Vec<(String, Vec<u8>)>) -> DiskResult<()> {
        let directory = self.resolve(directory)?;
        blocking(move || replace(&directory, &files)).await
    }

    async fn create_dirs(&self, parent: &str, new: Vec<NewDirectory>) -> Vec<DiskResult<()>> {
        let count = new.len();
        let created = match self.resolve(parent) {
            Ok(parent) => blocking(move || Ok(create_dirs(&parent, &new))).await,
            Err(error) => Err(error),
        };
        created.unwrap_or_else(|error| vec![Err(error); count])
    }

    async fn sync_dir(&self, path: &str) -> DiskResult<()> {
        let path = self.resolve(path)?;
        blocking(move || File::open(path)?.sync_all()).await
    }

    async fn free_bytes(&self) -> DiskResult<u64> {
        let root = self.shared.root.clone();
        let facts = blocking(move || Ok(nix::sys::statvfs::statvfs(&root)?)).await?;
        Ok(facts.blocks_available().saturating_mul(facts.fragment_size()))
    }
}

/// Renames; a directory never replaces another, which the plain call would do to an empty one.
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.symlink_metadata()?.is_dir() && to.symlink_metadata().is_ok() {
        return Err(Errno::EEXIST.into());
    }
    std::fs::rename(from, to)
}

/// Everything is made first and synced then: the first sync commits the file system's journal with all that was made, and those
/// after it find nothing left to commit. That needs direct writes: bytes in the page cache get their place on disk only when
/// they are synced, and then each sync has a commit of its own.
fn create_dirs(parent: &Path, new: &[NewDirectory]) -> Vec<DiskResult<()>> {
    let mut made: Vec<std::io::Result<()>> = new.iter().map(|one| make_dir(parent, one)).collect();
    let mut go_on = |step: fn(&Path, &NewDirectory) -> std::io::Result<()>| {
        for (one, made) in new.iter().zip(&mut made).filter(|(_, made)| made.is_ok()) {
            *made = step(parent, one);
        }
    };
    // Opened again, one at a time: so many descriptors held at once would be missed elsewhere.
    go_on(|parent, NewDirectory { name, file, .. }| {
        File::open(parent.join(name).join(file))?.sync_all()
    });
    go_on(|parent, NewDirectory { name, .. }| File::open(parent.join(name))?.sync_all());
    let lasting = File::open(parent).and_then(|parent| parent.sync_all());
    let lasting = lasting.map_err(|error| disk_error(&error));
    let made = made.into_iter().map(|one| one.map_err(|error| disk_error(&error)));
    made.map(|one| one.and_then(|()| lasting.clone())).collect()
}

/// One directory with its file; nothing is synced.
fn make_dir(parent: &Path, new: &NewDirectory) -> std::io::Result<()> {
    let NewDirectory { name, file, contents } = new;
    let path = parent.join(name);
    std::fs::create_dir(&path)?;
    // The directory is new: nobody can have read an older file of that name, so it needs no temporary one.
    write_new(&path.join(file), contents).map(drop)
}

/// The bytes of a piece, if all of them are there and can be read.
///
/// Through the page cache: nothing is appended to a log that is looked at, every transfer of a segment later on is direct, and
/// a direct write drops what is cached of its place.
fn read_piece(directory: &Path, piece: &Piece) -> Option<Vec<u8>> {
    let bytes = usize::try_from(piece.range.end.checked_sub(piece.range.start)?).ok()?;
    assert!(bytes <= IO_BYTES_MAX, "a look is bounded");
    let mut contents = vec![0; bytes];
    if bytes > 0 {
        let file = File::open(directory.join(&piece.name)).ok()?;
        file.read_exact_at(&mut contents, piece.range.start).ok()?;
    }
    Some(contents)
}

/// A new file with these bytes; not synced.
fn write_new(path: &Path, contents: &[u8]) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true).custom_flags(OFlag::O_DIRECT.bits());
    let mut file = options.open(path)?;
    let mut buffer =
        vec![0; contents.len().min(IO_BYTES_MAX).next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES];
    let start = buffer.as_ptr().align_offset(BLOCK_BYTES);
    for piece in contents.chunks(IO_BYTES_MAX) {
        let block = &mut buffer[start..start + piece.len().next_multiple_of(BLOCK_BYTES)];
        let (bytes, rest) = block.split_at_mut(piece.len());
        bytes.copy_from_slice(piece);
        rest.fill(0);
        file.write_all(block)?;
    }
    file.set_len(contents.len() as u64)?;
    Ok(file)
}

/// Temporary names, syncs, renames, sync of the directory: the old bytes or the new ones, whatever happens between.
fn replace(directory: &Path, files: &[(String, Vec<u8>)]) -> std::io::Result<()> {
    let temporary = |name: &str| directory.join(format!("{name}.tmp"));
    let mut written = Vec::with_capacity(files.len());
    for (name, contents) in files {
        match std::fs::remove_file(temporary(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        written.push(write_new(&temporary(name), contents)?);
    }
    for file in written {
        // A failed sync is an error for good: the name is not put in place, and what it would have named goes with the next one.
        file.sync_all()?;
    }
    for (name, _) in files {
        rename(&temporary(name), &directory.join(name))?;
    }
    File::open(directory)?.sync_all()
}

fn entry_kind(facts: &Metadata) -> EntryKind {
    match facts.file_type() {
        kind if kind.is_file() => EntryKind::File { bytes: facts.len() },
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_symlink() => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

fn list(path: &Path) -> std::io::Result<Vec<PathEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // Gone between the listing and the look: it is as if it had gone before.
        let Ok(facts) = entry.metadata() else { continue };
        let (name, is_text) = match entry.file_name().into_string() {
            Ok(name) => (name, true),
            Err(name) => (name.to_string_lossy().into_owned(), false),
        };
        let kind = if is_text { entry_kind(&facts) } else { EntryKind::Other };
        entries.push(PathEntry { name, kind });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// An open file. Dropping it closes it.
#[derive(Debug)]
pub struct GlommioFile {
    file: DmaFile,
    /// The same file once more, for writes that last on return: opened by the first of them. `None` where it cannot be.
    lasting: OnceCell<Option<DmaFile>>,
}

impl GlommioFile {
    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: `self.file` keeps the descriptor open for as long as it lives, and the borrow does not outlive `self`.
        unsafe { BorrowedFd::borrow_raw(self.file.as_raw_fd()) }
    }

    fn duplicate(&self) -> DiskResult<OwnedFd> {
        self.descriptor().try_clone_to_owned().map_err(|error| disk_error(&error))
    }

    /// This very file, whatever its name is now, with `O_DSYNC`; `None` where it cannot be opened so, as without `/proc`.
    async fn lasting(&self) -> Option<&DmaFile> {
        if self.lasting.get().is_none() {
            let shown = PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
            let mut options = options_of(OpenMode::ReadWrite);
            options.custom_flags(OFlag::O_DSYNC.bits());
            let opened = open_with(&options, &shown).await;
            let opened = opened.inspect_err(|error| {
                tracing::info!(%error, "a file could not be opened for writes that last: each takes a sync");
            });
            // Where another came first, its descriptor is used and this one closes.
            let _ = self.lasting.set(opened.ok());
        }
        self.lasting.get().and_then(Option::as_ref)
    }
}

/// Writes all of it.
async fn write_whole(file: &DmaFile, buffer: &Buffer, position: u64) -> DiskResult<()> {
    let memory = buffer.memory();
    let asked = memory.len();
    assert!(position.is_multiple_of(BLOCK_BYTES as u64), "a write starts at a block");
    assert!(asked.is_multiple_of(BLOCK_BYTES), "a write covers whole blocks");
    assert!(asked <= IO_BYTES_MAX, "a write is split above the bound");
    let done =
        gated(file.write_rc_at(memory, position)).await.map_err(|error| runtime_error(&error))?;
    if done == asked { Ok(()) } else { Err(DiskError::Short { done, asked }) }
}

impl DiskFile for GlommioFile {
    type Buffer = Buffer;
    type ReadBuffer = ReadBuffer;

    async fn write_rc_at(&self, buffer: Rc<Buffer>, position: u64) -> DiskResult<()> {
        write_whole(&self.file, &buffer, position).await
    }

    async fn write_lasting(&self, buffer: Rc<Buffer>, position: u64) -> DiskResult<()> {
        match self.lasting().await {
            Some(file) => write_whole(file, &buffer, position).await,
            None => {
                self.write_rc_at(buffer, position).await?;
                self.data_sync().await
            }
        }
    }

    async fn read_at_aligned(&self, position: u64, bytes: usize) -> DiskResult<ReadBuffer> {
        assert!(position.is_multiple_of(BLOCK_BYTES as u64), "a read starts at a block");
        assert!(bytes.is_multiple_of(BLOCK_BYTES), "a read covers whole blocks");
        assert!(bytes <= IO_BYTES_MAX, "a read is split above the bound");
        let read = gated(self.file.read_at_aligned(position, bytes)).await;
        read.map(ReadBuffer).map_err(|error| runtime_error(&error))
    }

    async fn data_sync(&self) -> DiskResult<()> {
        gated(self.file.fdatasync()).await.map_err(|error| runtime_error(&error))
    }

    async fn full_sync(&self) -> DiskResult<()> {
        let file = File::from(self.duplicate()?);
        blocking(move || file.sync_all()).await
    }

    async fn truncate(&self, bytes: u64) -> DiskResult<()> {
        let file = File::from(self.duplicate()?);
        blocking(move || file.set_len(bytes)).await
    }

    async fn reserve(&self, range: Range<u64>) -> DiskResult<()> {
        let file = self.duplicate()?;
        blocking(move || {
            let wide = |bytes: u64| i64::try_from(bytes).map_err(|_| Errno::EFBIG);
            let (from, bytes) = (wide(range.start)?, wide(range.end.saturating_sub(range.start))?);
            Ok(fallocate(file, FallocateFlags::empty(), from, bytes)?)
        })
        .await
    }

    async fn size(&self) -> DiskResult<u64> {
        // An open file's inode is in memory: this does not wait for the device.
        let facts = nix::sys::stat::fstat(self.descriptor());
        let facts = facts.map_err(|errno| disk_error(&errno.into()))?;
        u64::try_from(facts.st_size).map_err(|_| DiskError::Io { errno: 0 })
    }

    async fn next_stored(&self, position: u64) -> DiskResult<Option<Range<u64>>> {
        // The map of a file's extents may have to be read from the device.
        let file = self.duplicate()?;
        blocking(move || next_stored(&file, position)).await
    }
}

/// Moves the place where the descriptor stands, which no transfer uses: each says its own.
fn next_stored(file: &OwnedFd, position: u64) -> std::io::Result<Option<Range<u64>>> {
    let Ok(position) = i64::try_from(position) else { return Ok(None) };
    let start = match lseek(file, position, Whence::SeekData) {
        Ok(start) => start,
        // Nothing but a hole, or the end.
        Err(Errno::ENXIO) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let end = lseek(file, start, Whence::SeekHole)?;
    Ok(Some(start.cast_unsigned()..end.cast_unsigned()))
}

#[cfg(test)]
mod tests;
