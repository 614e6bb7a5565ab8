//! The lock of the data directory: one process at a time.
//!
//! Owns `<data>/.lock`. The system releases the lock when the process ends, however it ends; the file stays and names the
//! last holder. Must never remove the file: a second process could then lock one that has no name any more.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use commitlog::BLOCK_BYTES;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::preflight::what_is_no_file;

/// The file's name in the data directory. Kafka uses the same.
pub(crate) const LOCK_NAME: &str = ".lock";

/// The lock, held until dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _held: Flock<File>,
}

/// Why the directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{}: locked by {}; stop it, or choose another data.dir", path.display(), holder_text(*.holder))]
    Held {
        /// The directory.
        path: PathBuf,
        /// What the file says about the holder.
        holder: Option<u32>,
    },
    /// The file could not be opened, written or locked.
    #[error("{}: cannot be locked: {source}", path.display())]
    Unusable {
        /// The lock file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

fn holder_text(holder: Option<u32>) -> String {
    match holder {
        Some(process) => format!("process {process}"),
        None => "another process".to_owned(),
    }
}

impl DirectoryLock {
    /// Locks `directory`, which must exist.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(LOCK_NAME);
        let unusable = |source: io::Error| LockError::Unusable { path: path.clone(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(unusable)?;
        if let Some(found) = what_is_no_file(file.metadata().map_err(unusable)?.file_type()) {
            return Err(unusable(io::Error::other(format!("{found}, where a file belongs"))));
        }
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut held) => {
                write_holder(&mut held).map_err(unusable)?;
                Ok(Self { _held: held })
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                Err(LockError::Held { path: directory.into(), holder: read_holder(&mut file) })
            }
            Err((_, errno)) => Err(unusable(errno.into())),
        }
    }
}

/// The process that holds the lock of `directory`, without touching it: a try would make a node that starts meanwhile fail.
///
/// Shape   the number as this process sees it; `None` where nobody holds it, or where the system does not tell.
#[must_use]
pub fn directory_holder(directory: &Path) -> Option<u32> {
    let inode = directory.join(LOCK_NAME).metadata().ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| holder_in(line, inode))
}

/// The process of a line like `1: FLOCK  ADVISORY  WRITE 4711 08:02:1234 0 EOF`, if it is about this inode.
///
/// The device is not compared: file systems with subvolumes show another one there than `stat` does.
fn holder_in(line: &str, inode: u64) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[_, "FLOCK", _, "WRITE", process, file, ..] = fields.as_slice() else { return None };
    let (_, found) = file.rsplit_once(':')?;
    (found.parse() == Ok(inode)).then(|| process.parse().ok())?
}

/// Writes one whole block: the disk reads this file to learn what the device can do, and an inlined file would not tell.
fn write_holder(file: &mut File) -> io::Result<()> {
    let mut block = [b'\n'; BLOCK_BYTES];
    let text = std::process::id().to_string();
    block[..text.len()].copy_from_slice(text.as_bytes());
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&block)?;
    file.set_len(BLOCK_BYTES as u64)
}

fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(BLOCK_BYTES as u64).read_to_string(&mut text).ok()?;
    text.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn the_holder_is_known_while_it_holds_and_a_file_left_behind_is_nobody() {
        let directory = std::env::temp_dir().join(format!("corelog-holder-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        assert_eq!(directory_holder(&directory), None);
        let lock = DirectoryLock::acquire(&directory).unwrap();
        assert_eq!(directory_holder(&directory), Some(std::process::id()));
        drop(lock);
        assert_eq!(directory_holder(&directory), None);
        drop(std::fs::remove_dir_all(&directory));
    }

    #[test]
    fn only_a_writing_flock_of_that_inode_counts() {
        let check = |line: &str, expected| assert_eq!(holder_in(line, 1234), expected, "{line}");
        check("1: FLOCK  ADVISORY  WRITE 4711 08:02:1234 0 EOF", Some(4711));
        check("1: FLOCK  ADVISORY  WRITE 4711 08:02:12345 0 EOF", None);
        check("1: POSIX  ADVISORY  WRITE 4711 08:02:1234 0 EOF", None);
        check("1: FLOCK  ADVISORY  READ  4711 08:02:1234 0 EOF", None);
        check("1: -> FLOCK  ADVISORY  WRITE 4711 08:02:1234 0 EOF", None);
    }

    #[test]
    fn a_second_lock_is_refused_with_the_holders_number_and_granted_after_release() {
        let directory = TempDir::new();
        let first = DirectoryLock::acquire(directory.path()).unwrap();
        let refused = DirectoryLock::acquire(directory.path()).unwrap_err();
        let expected = format!(
            "{}: locked by process {}; stop it, or choose another data.dir",
            directory.path().display(),
            std::process::id()
        );
        assert_eq!(refused.to_string(), expected);
        drop(first);
        DirectoryLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn a_pipe_in_place_of_the_lock_is_named_and_not_written_to() {
        let directory = TempDir::new();
        let path = directory.path().join(LOCK_NAME);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = DirectoryLock::acquire(directory.path()).unwrap_err().to_string();
        let expected = format!("{}: cannot be locked: a pipe, where", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = DirectoryLock::acquire(Path::new("/nonexistent/data")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/nonexistent/data/.lock: cannot be locked: No such file or directory (os error 2)"
        );
    }
}
