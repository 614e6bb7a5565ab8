//! Files that are replaced whole: who reads one finds the old text or the new, and a disk that is full leaves the old.
//!
//! Owns the temporary file beside each, which is gone whatever happens but a killed process. The exception is a file that is mounted by
//! itself, which is written over. What is no regular file (a pipe, a
//! terminal, `/dev/null`) has nothing to be kept, and is written to as it is.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use crate::exit::{Failure, Outcome};

/// Whether [`replace`] can write there, as far as that shows now: asked before the work whose result goes there. Leaves nothing.
pub(crate) fn check(path: &Path) -> Outcome {
    let checked = (|| match place_of(path)? {
        Place::Stream => OpenOptions::new().write(true).open(path).map(drop),
        Place::File { path, old } => {
            if old.is_some() {
                // A file that may not be written to is not replaced either, though its directory may be.
                OpenOptions::new().write(true).open(&path)?;
            }
            Temporary::beside(&path, old.as_ref()).map(drop)
        }
    })();
    checked.map_err(|error| Failure::io(path.display(), &error))
}

/// Makes a file have this text, with the owner and permissions that it had.
///
/// Order   on return the text and the file's name are on stable storage.
/// Errors  `Io`: the file is as it was, or is not there as before.
pub(crate) fn replace(path: &Path, text: &[u8]) -> Outcome {
    let replaced = (|| match place_of(path)? {
        Place::Stream => OpenOptions::new().write(true).open(path)?.write_all(text),
        Place::File { path, old } => {
            Temporary::beside(&path, old.as_ref())?.become_file(&path, text)
        }
    })();
    replaced.map_err(|error| Failure::io(path.display(), &error))
}

/// Makes `path` have this text, with the owner and permissions of another file. Order and errors are those of [`replace`].
pub(crate) fn write_like(path: &Path, text: &[u8], like: &Path) -> Outcome {
    let written = (|| {
        let like = fs::metadata(like)?;
        Temporary::beside(path, Some(&like))?.become_file(path, text)
    })();
    written.map_err(|error| Failure::io(path.display(), &error))
}

/// Makes what was renamed in the directory of a file lasting.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// The name of a file with something behind it.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What a path leads to.
enum Place {
    /// A file, or none yet; a link stays, and what it leads to is replaced.
    File {
        path: PathBuf,
        old: Option<Metadata>,
    },
    Stream,
}

fn place_of(path: &Path) -> io::Result<Place> {
    // Standard output may be a file, which whoever opened it goes on writing to.
    let is_open_already = path.starts_with("/dev") || path.starts_with("/proc");
    match fs::metadata(path) {
        Ok(old) if old.is_file() && !is_open_already => {
            Ok(Place::File { path: path.canonicalize()?, old: Some(old) })
        }
        Ok(_) => Ok(Place::Stream),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok(Place::File { path: path.to_owned(), old: None })
        }
        Err(error) => Err(error),
    }
}

/// A file that will take the place of another; gone when it is dropped before.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn beside(path: &Path, like: Option<&Metadata>) -> io::Result<Self> {
        let path = beside(path, &format!(".{}.tmp", std::process::id()));
        let temporary = Self { file: File::create_new(&path)?, path };
        if let Some(like) = like {
            let own = temporary.file.metadata()?;
            if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
                // Whoever could read the old file must be able to read the new one: a node that runs as a user of its own.
                fchown(&temporary.file, Some(like.uid()), Some(like.gid()))?;
            }
            temporary.file.set_permissions(like.permissions())?;
        }
        Ok(temporary)
    }

    fn become_file(mut self, path: &Path, text: &[u8]) -> io::Result<()> {
        self.file.write_all(text)?;
        self.file.sync_all()?;
        match fs::rename(&self.path, path) {
            // A file that is mounted by itself, as into a container, has a name that stays: it can only be written over.
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
                file.write_all(text)?;
                file.sync_all()
            }
            renamed => {
                renamed?;
                sync_parent(path)
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Not there where it has become the file.
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::exit::Exit;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("corelog-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_permissions_and_links() {
        let directory = directory("replace");
        let (path, link) = (directory.join("file"), directory.join("link"));
        fs::write(&path, "old, and longer").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut reader = File::open(&path).unwrap();
        check(&link).unwrap();
        replace(&link, b"new").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "old, and longer", "who reads the old one reads all of it");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(link.is_symlink());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "nothing temporary is left");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn asking_leaves_nothing_and_wrong_places_are_told() {
        let directory = directory("replace-check");
        check(&directory.join("new")).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        for wrong in [directory.join("no/file"), directory.clone()] {
            assert_eq!(check(&wrong).unwrap_err().exit, Exit::Io, "{}", wrong.display());
            assert_eq!(replace(&wrong, b"x").unwrap_err().exit, Exit::Io, "{}", wrong.display());
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_is_no_file_is_written_to_as_it_is() {
        check(Path::new("/dev/null")).unwrap();
        replace(Path::new("/dev/null"), b"x").unwrap();
        assert_eq!(replace(Path::new("/dev/full"), b"x").unwrap_err().exit, Exit::Io);
    }
}
