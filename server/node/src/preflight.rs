//! What is checked before the first core starts, each failure one clear line and an exit code.
//!
//! Owns [`StartError`] and the checks. They run on the starting thread, before any ring exists, because the runtime answers
//! most of these with a panic. Must never change anything but limits, the data directory's existence and its probe file.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use commitlog::directory::{DirectoryError, META_BYTES_MAX, META_FILE};
use commitlog::{BLOCK_BYTES, refuse_foreign};
use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::geteuid;

use crate::exit::ExitReason;
use crate::lock::LockError;

/// Locked memory that the rings of one process need at least; the runtime refuses below it.
pub const MEMLOCK_BYTES_MIN: u64 = 512 << 10;
/// Names at the top of a directory that are looked at: a data directory of ours has a dozen.
const NAMES_MAX: usize = 10_000;
/// Rings, notices, the lock and the first files of a small machine, with room to spare.
const OPEN_FILES_MIN: u64 = 64;

/// Why the process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system call is refused.
    #[error(
        "io_uring is blocked ({errno}): allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp \
         profile (docker: --security-opt seccomp=unconfined, or a profile that names them)"
    )]
    IoUringSeccomp {
        /// The system's answer.
        errno: Errno,
    },
    /// The sysctl switches it off.
    #[error(
        "io_uring is switched off: kernel.io_uring_disabled = {value}; set it to 0 (sysctl -w kernel.io_uring_disabled=0)"
    )]
    IoUringDisabled {
        /// What the sysctl says.
        value: u8,
    },
    /// The kernel does not have it.
    #[error(
        "io_uring is missing ({errno}): a Linux kernel of 5.8 or later built with CONFIG_IO_URING is needed"
    )]
    IoUringMissing {
        /// The system's answer.
        errno: Errno,
    },
    /// Too little memory may be locked.
    #[error(
        "memlock limit is {bytes} bytes: the rings need {MEMLOCK_BYTES_MIN}; raise it (ulimit -l, LimitMEMLOCK=, docker: --ulimit memlock=-1)"
    )]
    MemoryLock {
        /// The hard limit.
        bytes: u64,
    },
    /// Too few files may be open.
    #[error(
        "{count} files may be open at most: a node needs {OPEN_FILES_MIN} to start, and one more for each connection; raise it (ulimit -n, LimitNOFILE=, docker: --ulimit nofile=65536)"
    )]
    OpenFiles {
        /// The limit.
        count: u64,
    },
    /// The data directory could not be made, written or read.
    #[error("{}: cannot be used as the data directory: {source}", path.display())]
    DirectoryUnusable {
        /// What was touched.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no room for a block.
    #[error("{}: its file system is full; nothing is lost: free some space and start again", path.display())]
    DiskFull {
        /// The directory.
        path: PathBuf,
    },
    /// The data directory may not be touched by this user.
    #[error(
        "{}: permission denied: {} belongs to user {owner}, and this process runs as user {own}; start it as that user, or \
         make the data directory one of user {own}",
        path.display(), at.display()
    )]
    DirectoryDenied {
        /// The directory.
        path: PathBuf,
        /// It, or the nearest above it that is there.
        at: PathBuf,
        /// Whose that is.
        owner: u32,
        /// Who asks.
        own: u32,
    },
    /// Another user's node writes there.
    #[error(
        "{}: its node runs as user {owner}, and this process as user {own}: either could not write what the other made; start \
         it as user {owner}, or give this one the directory (chown -R {own} {})",
        path.display(), path.display()
    )]
    DirectoryOwner {
        /// The directory.
        path: PathBuf,
        /// Who has written there.
        owner: u32,
        /// Who would.
        own: u32,
    },
    /// It is not ours to write in.
    #[error("{}: {source}", path.display())]
    DirectoryRefused {
        /// The directory.
        path: PathBuf,
        /// What it is instead.
        source: DirectoryError,
    },
    /// Something else has the name of its identity.
    #[error(
        "{}: {found}, where a file belongs; nothing was changed; put the file back in its place, or point data.dir elsewhere",
        path.display()
    )]
    NotAFile {
        /// The name.
        path: PathBuf,
        /// What has it.
        found: &'static str,
    },
    /// The file system refuses direct I/O.
    #[error(
        "{}: its file system refuses direct I/O ({errno}); put data.dir on ext4 or xfs (in a container: a volume, not the image's overlay)",
        path.display()
    )]
    DirectIoRefused {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        errno: Errno,
    },
    /// The lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A thread, a ring or its memory could not be had.
    #[error("{core}: cannot start: {cause}")]
    Core {
        /// The thread's name.
        core: String,
        /// What the runtime said.
        cause: String,
    },
    /// The stop signals could not be caught.
    #[error("signals cannot be handled ({errno})")]
    Signals {
        /// The system's answer.
        errno: Errno,
    },
}

impl StartError {
    /// The exit code that belongs to it.
    pub fn reason(&self) -> ExitReason {
        match self {
            Self::IoUringSeccomp { .. }
            | Self::IoUringDisabled { .. }
            | Self::IoUringMissing { .. } => ExitReason::IoUringBlocked,
            Self::MemoryLock { .. } => ExitReason::MemoryLock,
            Self::DirectoryUnusable { .. }
            | Self::DirectoryDenied { .. }
            | Self::DirectoryOwner { .. }
            | Self::DirectIoRefused { .. } => ExitReason::DirectoryUnusable,
            Self::DirectoryRefused { .. } | Self::NotAFile { .. } => ExitReason::DataRefused,
            Self::DiskFull { .. } => ExitReason::DiskFull,
            Self::Lock(LockError::Held { .. }) => ExitReason::DirectoryLocked,
            Self::Lock(LockError::Unusable { .. }) => ExitReason::DirectoryUnusable,
            Self::OpenFiles { .. } | Self::Core { .. } | Self::Signals { .. } => {
                ExitReason::CoreFailed
            }
        }
    }
}

/// How the data directory can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryKind {
    /// Straight to a device.
    Direct,
    /// A file system in memory: nothing there survives a power cut.
    Memory,
}

/// Checks that a ring can be made, by making the smallest one.
pub fn check_io_uring() -> Result<(), StartError> {
    match make_ring() {
        Ok(ring) => {
            drop(ring);
            Ok(())
        }
        Err(errno) => Err(io_uring_verdict(errno, disabled_sysctl())),
    }
}

fn make_ring() -> Result<OwnedFd, Errno> {
    // `struct io_uring_params`: 120 bytes, all zero for a plain ring; the kernel fills in the rest.
    let mut parameters = [0_u64; 15];
    // SAFETY: the second argument points to writable memory of the size that the kernel expects, alive during the call.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1_u32, parameters.as_mut_ptr()) };
    let descriptor = Errno::result(result)?;
    let descriptor = RawFd::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The sysctl, 0 where the kernel does not have it.
fn disabled_sysctl() -> u8 {
    let text = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn io_uring_verdict(errno: Errno, disabled: u8) -> StartError {
    match errno {
        Errno::EPERM | Errno::EACCES if disabled > 0 => {
            StartError::IoUringDisabled { value: disabled }
        }
        Errno::EPERM | Errno::EACCES => StartError::IoUringSeccomp { errno },
        // Older kernels account rings as locked memory.
        Errno::ENOMEM => StartError::MemoryLock { bytes: memlock_bytes() },
        // Some container runtimes answer a blocked call with ENOSYS: the kernel's own list tells the two apart.
        Errno::ENOSYS if kernel_has_io_uring() => StartError::IoUringSeccomp { errno },
        _ => StartError::IoUringMissing { errno },
    }
}

fn kernel_has_io_uring() -> bool {
    Path::new("/proc/sys/kernel/io_uring_disabled").exists()
}

fn memlock_bytes() -> u64 {
    getrlimit(Resource::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft)
}

/// Checks that the rings' memory may be locked; raises the soft limit where the hard one allows it.
pub fn check_memlock() -> Result<(), StartError> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_MEMLOCK) else { return Ok(()) };
    if soft < hard {
        // Refused or not: the check below looks at what holds now.
        let _ = setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard);
    }
    let bytes = memlock_bytes();
    if bytes < MEMLOCK_BYTES_MIN { Err(StartError::MemoryLock { bytes }) } else { Ok(()) }
}

/// Raises the limit of open files as far as it goes and returns it: partitions and connections both take from it.
///
/// Errors  [`StartError::OpenFiles`] where even the rings and the first files would not fit.
pub fn raise_open_files() -> Result<u64, StartError> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(0) };
    let count = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    if count < OPEN_FILES_MIN { Err(StartError::OpenFiles { count }) } else { Ok(count) }
}

/// Checks that the data directory is nobody else's: another program's, or that of a node which runs as another user. Changes
/// nothing, so it comes before the lock: Kafka's directories have a file of the same name.
pub fn check_contents(path: &Path) -> Result<(), StartError> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(directory_verdict(path, source)),
    };
    let unusable = |source| directory_verdict(path, source);
    let mut names = Vec::new();
    for entry in entries.take(NAMES_MAX) {
        names.push(entry.map_err(unusable)?.file_name().to_string_lossy().into_owned());
    }
    let meta_path = path.join(META_FILE);
    // Before it is opened: a pipe would keep this start waiting for a writer.
    let found = match meta_path.metadata() {
        Ok(facts) => what_is_no_file(facts.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            meta_path.symlink_metadata().is_ok().then_some("a link that leads nowhere")
        }
        Err(source) => return Err(unusable(source)),
    };
    if let Some(found) = found {
        return Err(StartError::NotAFile { path: meta_path, found });
    }
    let meta = match File::open(&meta_path) {
        Ok(file) => {
            let mut bytes = Vec::new();
            file.take(META_BYTES_MAX as u64).read_to_end(&mut bytes).map_err(unusable)?;
            Some(bytes)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(unusable(source)),
    };
    refuse_foreign(names.iter().map(String::as_str), meta.as_deref())
        .map_err(|source| StartError::DirectoryRefused { path: path.to_owned(), source })?;
    if meta.is_some() {
        check_owner(path, meta_path.metadata().map_err(unusable)?.uid(), geteuid().as_raw())?;
    }
    Ok(())
}

/// What something is that has the name of a file; `None` for a file.
pub fn what_is_no_file(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_fifo() => Some("a pipe"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// The identity's owner is who ran the node: with anybody else in turn, neither could open the other's files.
fn check_owner(path: &Path, owner: u32, own: u32) -> Result<(), StartError> {
    if owner == own {
        return Ok(());
    }
    Err(StartError::DirectoryOwner { path: path.to_owned(), owner, own })
}

/// Makes the data directory where it is missing, and proves that it can be written and read the way the log does it.
pub fn check_directory(path: &Path) -> Result<DirectoryKind, StartError> {
    std::fs::create_dir_all(path).map_err(|source| directory_verdict(path, source))?;
    let probe = path.join(format!(".probe-{}", std::process::id()));
    let kind = probe_directory(path, &probe);
    drop(std::fs::remove_file(&probe));
    kind.map_err(|source| directory_verdict(path, source))
}

fn directory_verdict(path: &Path, source: io::Error) -> StartError {
    let path = path.to_owned();
    match source.raw_os_error().map(Errno::from_raw) {
        Some(errno @ (Errno::EINVAL | Errno::EOPNOTSUPP)) => {
            StartError::DirectIoRefused { path, errno }
        }
        Some(Errno::ENOSPC | Errno::EDQUOT) => StartError::DiskFull { path },
        Some(Errno::EACCES | Errno::EPERM) => denied(path, source),
        _ => StartError::DirectoryUnusable { path, source },
    }
}

/// Whose the directory is that may not be touched, or the one above it in which it may not be made.
fn denied(path: PathBuf, source: io::Error) -> StartError {
    let found = path.ancestors().find_map(|at| Some((at.to_owned(), at.metadata().ok()?.uid())));
    match found {
        Some((at, owner)) => {
            StartError::DirectoryDenied { path, at, owner, own: geteuid().as_raw() }
        }
        None => StartError::DirectoryUnusable { path, source },
    }
}

fn probe_directory(path: &Path, probe: &Path) -> io::Result<DirectoryKind> {
    let block = AlignedBlock([0x5a; BLOCK_BYTES]);
    File::create(probe)?.write_all(&block.0)?;
    if statfs(path)?.filesystem_type() == TMPFS_MAGIC {
        return Ok(DirectoryKind::Memory);
    }
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(probe)?;
    file.write_all_at(&block.0, 0)?;
    file.sync_data()?;
    let mut read = Box::new(AlignedBlock([0; BLOCK_BYTES]));
    (&file).read_exact(&mut read.0)?;
    if read.0 == block.0 { Ok(DirectoryKind::Direct) } else { Err(Errno::EIO.into()) }
}

#[repr(align(4096))]
struct AlignedBlock([u8; BLOCK_BYTES]);

#[cfg(test)]
mod tests;
