//! The system's error numbers as the disk's errors.
//!
//! Owns the one mapping, so that a full disk or a missing file means the same wherever it is met.

use std::io;

use commitlog::{DiskError, EntryKind};
use nix::errno::Errno;

/// What an error of the system means for a file.
pub(crate) fn disk_error(error: &io::Error) -> DiskError {
    let Some(errno) = error.raw_os_error() else {
        return DiskError::Io { errno: 0 };
    };
    match Errno::from_raw(errno) {
        Errno::ENOENT => DiskError::NotFound,
        Errno::EEXIST => DiskError::AlreadyExists,
        Errno::ENOSPC | Errno::EDQUOT => DiskError::NoSpace,
        Errno::EACCES | Errno::EPERM | Errno::EROFS => DiskError::Denied { errno },
        Errno::EMFILE | Errno::ENFILE => DiskError::TooManyFiles { errno },
        Errno::EISDIR => DiskError::NotAFile { found: EntryKind::Directory },
        Errno::ENOTDIR => DiskError::NotADirectory,
        _ => DiskError::Io { errno },
    }
}

/// The same for glommio's errors, which may carry no number.
pub(crate) fn runtime_error<T>(error: &glommio::GlommioError<T>) -> DiskError {
    match error.raw_os_error() {
        Some(errno) => disk_error(&io::Error::from_raw_os_error(errno)),
        None => DiskError::Io { errno: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_mean_something_to_the_log_keep_their_meaning() {
        let check = |errno: Errno, expected: DiskError| {
            let error = io::Error::from_raw_os_error(errno as i32);
            assert_eq!(disk_error(&error), expected, "{errno}");
        };
        check(Errno::ENOENT, DiskError::NotFound);
        check(Errno::EEXIST, DiskError::AlreadyExists);
        check(Errno::ENOSPC, DiskError::NoSpace);
        check(Errno::EDQUOT, DiskError::NoSpace);
        check(Errno::EROFS, DiskError::Denied { errno: 30 });
        check(Errno::EMFILE, DiskError::TooManyFiles { errno: 24 });
        check(Errno::EISDIR, DiskError::NotAFile { found: EntryKind::Directory });
        check(Errno::ENOTDIR, DiskError::NotADirectory);
        check(Errno::EIO, DiskError::Io { errno: 5 });
        assert_eq!(disk_error(&io::Error::other("x")), DiskError::Io { errno: 0 });
    }
}
