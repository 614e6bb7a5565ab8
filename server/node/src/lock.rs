//! The lock of the data directory: one process at a time.
//!
//! Owns `<data>/.lock`. The system releases the lock when the process ends, however it ends; the file stays and names the
//! last holder. Must never remove the file: a second process could then lock one that has no name any more.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use commitlog::BLOCK_BYTES;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

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
    fn a_missing_directory_is_named() {
        let error = DirectoryLock::acquire(Path::new("/nonexistent/data")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/nonexistent/data/.lock: cannot be locked: No such file or directory (os error 2)"
        );
    }
}
