//! The disk as the log sees it: aligned reads and writes, syncs, and a tree of names.
//!
//! Owns the traits only. `node` implements them with direct I/O on io_uring, `sim` in memory with faults; one behaviour
//! suite (`sim::disk_suite`) is passed by both. The traits never hide a failure and never retry.
//!
//! ```text
//! write_rc_at   whole blocks of 4 KiB; the bytes are somewhere, a crash may lose or tear them (512-byte sectors)
//! write_lasting the same, and these bytes survive a crash; nothing is said of any other write
//! data_sync     every completed write of this file, and its length as far as reading them back needs it, survives a crash
//! full_sync     the same and all of the file's metadata
//! sync_dir      names created, renamed or removed in that directory survive a crash
//! ```

use std::fmt;
use std::future::Future;
use std::ops::{Deref, Range};
use std::rc::Rc;

use crate::small_file;

/// Alignment and granularity of every transfer.
pub const BLOCK_BYTES: usize = 4096;
/// Largest single transfer: above it the kernel splits anyway and one request delays the others.
pub const IO_BYTES_MAX: usize = 1 << 20;

/// Memory a transfer can start from: aligned to [`BLOCK_BYTES`], length a multiple of it.
pub trait AlignedBuffer: fmt::Debug + 'static {
    /// All bytes.
    fn as_bytes(&self) -> &[u8];
    /// All bytes, to be filled. A buffer is filled once, before it is shared.
    fn as_bytes_mut(&mut self) -> &mut [u8];
    /// Shortens the buffer to its first `bytes`, a multiple of [`BLOCK_BYTES`] and at most its length: what a transfer writes.
    fn truncate(&mut self, bytes: usize);
}

/// How [`Disk::open`] treats a name that is, or is not, there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must be there; reads only.
    Read,
    /// The file must be there; reads and writes.
    ReadWrite,
    /// The file must not be there; it is created empty for reads and writes.
    CreateNew,
}

/// Why a disk refused. The path is the caller's to add: it knows what the file meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The name does not exist.
    #[error("not found")]
    NotFound,
    /// The name exists already.
    #[error("already exists")]
    AlreadyExists,
    /// No space left (ENOSPC, EDQUOT). Nothing is promised about the bytes of the failed transfer.
    #[error("no space left on device")]
    NoSpace,
    /// Refused by the file system's permissions, or it is read-only.
    #[error("permission denied (errno {errno})")]
    Denied {
        /// The system's number.
        errno: i32,
    },
    /// Too many open files.
    #[error("too many open files (errno {errno})")]
    TooManyFiles {
        /// The system's number.
        errno: i32,
    },
    /// Something else has the name of a file.
    #[error("{found}, where a file belongs: put the file back in its place")]
    NotAFile {
        /// What.
        found: EntryKind,
    },
    /// Something else has the name of a directory.
    #[error("no directory, where one belongs: put it back in its place")]
    NotADirectory,
    /// The device failed, or an error with no name of its own here.
    #[error("input/output error (errno {errno})")]
    Io {
        /// The system's number; 0 where there was none.
        errno: i32,
    },
    /// The transfer ended early without an error.
    #[error("short transfer: {done} of {asked} bytes")]
    Short {
        /// Bytes transferred.
        done: usize,
        /// Bytes asked for.
        asked: usize,
    },
}

/// Linux's number for a full disk.
pub(crate) const ENOSPC: i32 = 28;

impl DiskError {
    /// The error of a sync: never one that passes. What it covered may be gone though reads still show it, and a second sync
    /// that succeeds proves nothing.
    pub(crate) fn of_sync(self) -> Self {
        match self {
            Self::NoSpace => Self::Io { errno: ENOSPC },
            other => other,
        }
    }
}

/// What a disk answers.
pub type DiskResult<T> = Result<T, DiskError>;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file and its length in bytes.
    File {
        /// Length in bytes.
        bytes: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link: not followed where a listing shows it.
    Link,
    /// Anything else (a pipe, a socket, a device): left alone.
    Other,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::File { .. } => "a file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Other => "a pipe, a socket or a device",
        })
    }
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEntry {
    /// The last component of the path, UTF-8 (a name that is not is listed lossily and as [`EntryKind::Other`]).
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// A part of a file, by the file's name in its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The file.
    pub name: String,
    /// Which of its bytes.
    pub range: Range<u64>,
}

/// A directory and parts of what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// As [`Disk::list`] gives them.
    pub entries: Vec<PathEntry>,
    /// The bytes of those pieces that could be read whole; others are left out.
    pub pieces: Vec<(Piece, Vec<u8>)>,
}

/// A directory that is made with one file in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDirectory {
    /// Its name in its parent.
    pub name: String,
    /// The file's name.
    pub file: String,
    /// All of the file.
    pub contents: Vec<u8>,
}

/// Whether a change survives a crash once it has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// It does, and so does every byte of the file.
    Yes,
    /// Perhaps.
    No,
}

/// An open file.
pub trait DiskFile: fmt::Debug + 'static {
    /// What is written.
    type Buffer: AlignedBuffer;
    /// What a read returns: cheap to clone, keeps its memory alive.
    type ReadBuffer: Deref<Target = [u8]> + Clone + 'static;

    /// Writes all of `buffer` at `position`.
    ///
    /// Shape   `position` and the buffer's length are multiples of [`BLOCK_BYTES`]; the length is ≤ [`IO_BYTES_MAX`].
    /// Order   overlapping writes in flight together are the caller's bug: their result is either, block by block.
    /// Errors  after any error the range holds old bytes, new bytes or both, sector by sector. A future dropped after its
    ///         first poll counts as such an error.
    fn write_rc_at(
        &self,
        buffer: Rc<Self::Buffer>,
        position: u64,
    ) -> impl Future<Output = DiskResult<()>>;

    /// [`DiskFile::write_rc_at`], and the bytes are on stable storage on return.
    ///
    /// In one transfer where the disk can, for files that do not grow by it: a sync would be another trip. Other writes of the
    /// file are not covered, whatever came before.
    ///
    /// Shape, order   as for a write.
    /// Errors  as after a write, or a sync, that failed: the range holds old bytes, new bytes or both, and trying again proves
    ///         nothing.
    fn write_lasting(
        &self,
        buffer: Rc<Self::Buffer>,
        position: u64,
    ) -> impl Future<Output = DiskResult<()>> {
        async move {
            self.write_rc_at(buffer, position).await?;
            self.data_sync().await
        }
    }

    /// Reads up to `bytes` from `position`; fewer only at the end of the file.
    ///
    /// Shape   `position` and `bytes` are multiples of [`BLOCK_BYTES`]; `bytes` ≤ [`IO_BYTES_MAX`].
    fn read_at_aligned(
        &self,
        position: u64,
        bytes: usize,
    ) -> impl Future<Output = DiskResult<Self::ReadBuffer>>;

    /// See the module's table. A failed sync is final: what it covered may be gone, and trying again proves nothing.
    fn data_sync(&self) -> impl Future<Output = DiskResult<()>>;

    /// See the module's table.
    fn full_sync(&self) -> impl Future<Output = DiskResult<()>>;

    /// Sets the length in bytes (any number); what is cut off is gone, what is added reads as zeros.
    fn truncate(&self, bytes: u64) -> impl Future<Output = DiskResult<()>>;

    /// Gives the file room for a range, and a length that holds it; what nobody wrote there reads as zeros.
    ///
    /// A write into it extends nothing then, which is cheaper. It promises nothing else, least of all that the room is there
    /// after a crash: like a write, it is covered by the next sync.
    ///
    /// Shape   both ends are multiples of [`BLOCK_BYTES`].
    /// Errors  the file is as it was, or longer; nothing that was written is touched. Not every file system can.
    fn reserve(&self, range: Range<u64>) -> impl Future<Output = DiskResult<()>>;

    /// The length in bytes, of the open file itself whatever its name is now.
    fn size(&self) -> impl Future<Output = DiskResult<u64>>;

    /// The first stretch that ends behind `position` and may hold anything but zeros; `None` where nothing up to the end does.
    /// What lies between is a hole that was never written, and need not be read.
    ///
    /// It saves reads and says nothing else, least of all where a log ends: holes end at blocks, and bytes follow them. A disk
    /// that does not know says that everything may be stored: then it is read.
    fn next_stored(&self, position: u64) -> impl Future<Output = DiskResult<Option<Range<u64>>>> {
        std::future::ready(Ok(Some(position..u64::MAX)))
    }
}

/// A tree of files below one root. Paths are relative to it, `/`-separated, without `.` or `..`; `""` is the root.
pub trait Disk: Clone + 'static {
    /// Memory for writes.
    type Buffer: AlignedBuffer;
    /// What reads return.
    type ReadBuffer: Deref<Target = [u8]> + Clone + 'static;
    /// An open file.
    type File: DiskFile<Buffer = Self::Buffer, ReadBuffer = Self::ReadBuffer>;

    /// Memory of at least `bytes`, rounded up to whole blocks; the contents are unspecified, not secret to this process.
    fn allocate(&self, bytes: usize) -> Self::Buffer;

    /// Opens a file. `CreateNew` makes the name, which [`Disk::sync_dir`] of its parent makes lasting.
    fn open(&self, path: &str, mode: OpenMode) -> impl Future<Output = DiskResult<Self::File>>;

    /// Makes one directory. Errors: `AlreadyExists`, `NotFound` where the parent is missing.
    fn create_dir(&self, path: &str) -> impl Future<Output = DiskResult<()>>;

    /// Renames a file, replacing one of that name, or a directory, to a name that must be free. Atomic for a running process;
    /// lasting once both parents are synced.
    fn rename(&self, from: &str, to: &str) -> impl Future<Output = DiskResult<()>>;

    /// Removes a file. Open handles keep working.
    fn remove(&self, path: &str) -> impl Future<Output = DiskResult<()>>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> impl Future<Output = DiskResult<()>>;

    /// The names in a directory, ascending by name.
    fn list(&self, path: &str) -> impl Future<Output = DiskResult<Vec<PathEntry>>>;

    /// [`Disk::list`], and the parts of its files that `choose` names once it has seen the names.
    ///
    /// A step at a time it would cost a node with many logs most of its start: a disk that can do it in one does.
    ///
    /// Shape   each range begins at a multiple of [`BLOCK_BYTES`], and is at most [`IO_BYTES_MAX`] long.
    /// Errors  of listing only. A piece that cannot be read whole is left out: who opens the file is told why.
    fn look(
        &self,
        path: &str,
        choose: impl FnOnce(&[PathEntry]) -> Vec<Piece> + Send + 'static,
    ) -> impl Future<Output = DiskResult<Look>> {
        small_file::look(self, path, choose)
    }

    /// Gives a file that is there its length in bytes, as [`DiskFile::truncate`] and, where it shall last,
    /// [`DiskFile::full_sync`] do.
    fn set_size(
        &self,
        path: &str,
        bytes: u64,
        lasting: Lasting,
    ) -> impl Future<Output = DiskResult<()>> {
        small_file::set_size(self, path, bytes, lasting)
    }

    /// Replaces files of a directory by name, or creates them; lasting on return. A reader sees the old bytes of each or the new
    /// ones, before and after any crash. Uses the names with `.tmp` behind them.
    fn replace(
        &self,
        directory: &str,
        files: Vec<(String, Vec<u8>)>,
    ) -> impl Future<Output = DiskResult<()>> {
        small_file::replace_all(self, directory, files)
    }

    /// Makes directories in `parent`, each with a file; all of it lasting on return.
    ///
    /// Shape   a bounded number of them: whatever else waits for the same thread waits for all. One answer each, in their order.
    /// Errors  of one are no others': it may be there then, with or without its file, and a sync of that proves nothing: its file
    ///         is to be written again. `AlreadyExists`: left as it is, and not synced. Where the parent cannot be made lasting,
    ///         none is.
    fn create_dirs(
        &self,
        parent: &str,
        new: Vec<NewDirectory>,
    ) -> impl Future<Output = Vec<DiskResult<()>>> {
        small_file::create_dirs(self, parent, new)
    }

    /// See the module's table.
    fn sync_dir(&self, path: &str) -> impl Future<Output = DiskResult<()>>;

    /// Bytes that an unprivileged writer could still add below the root.
    fn free_bytes(&self) -> impl Future<Output = DiskResult<u64>>;
}
