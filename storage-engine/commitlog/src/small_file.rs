//! Small files, read whole and replaced whole.
//!
//! Owns the one way to replace one: temporary name, full sync, rename, sync of the directory. A reader sees the old bytes or
//! the new ones, before and after any crash. Never used for segments.

use std::rc::Rc;

use crate::directory::free_name;
use crate::disk::{
    AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, IO_BYTES_MAX,
    Lasting, Look, NewDirectory, OpenMode, PathEntry, Piece,
};

/// Suffix of a name that is not yet in place; recovery removes what it finds.
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

/// Suffix of what had the name of a file and was none.
const ODD_SUFFIX: &str = ".odd";

/// Joins two parts of a path; the root is `""`.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Rounds up to whole blocks.
pub(crate) const fn block_ceiling(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES as u64)
}

/// Rounds down to whole blocks.
pub(crate) const fn block_floor(bytes: u64) -> u64 {
    bytes - bytes % BLOCK_BYTES as u64
}

/// All of a file, or `None` where there is no such name. What lies past `bytes_max` is left out: the caller's checksum then
/// fails, as it does for any other damage.
pub(crate) async fn read<D: Disk>(
    disk: &D,
    path: &str,
    bytes_max: usize,
) -> DiskResult<Option<Vec<u8>>> {
    let file = match disk.open(path, OpenMode::Read).await {
        Ok(file) => file,
        Err(DiskError::NotFound) => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = file.size().await?;
    let size = usize::try_from(size).unwrap_or(usize::MAX).min(bytes_max);
    let mut contents = Vec::with_capacity(size);
    while contents.len() < size {
        let position = contents.len() as u64;
        let remaining = size - contents.len();
        let asked = remaining.next_multiple_of(BLOCK_BYTES).min(IO_BYTES_MAX);
        let piece = file.read_at_aligned(position, asked).await?;
        let usable = piece.len().min(remaining);
        contents.extend_from_slice(&piece[..usable]);
        if usable < remaining.min(asked) {
            break;
        }
    }
    Ok(Some(contents))
}

/// Writes `contents` as the whole of a new file and syncs it; its name is not yet lasting.
async fn create<D: Disk>(disk: &D, path: &str, contents: &[u8]) -> DiskResult<()> {
    match disk.remove(path).await {
        Ok(()) | Err(DiskError::NotFound) => {}
        Err(error) => return Err(error),
    }
    let file = disk.open(path, OpenMode::CreateNew).await?;
    for (index, piece) in contents.chunks(IO_BYTES_MAX).enumerate() {
        let mut buffer = disk.allocate(piece.len());
        let whole = piece.len().next_multiple_of(BLOCK_BYTES);
        buffer.truncate(whole);
        let bytes = buffer.as_bytes_mut();
        bytes[..piece.len()].copy_from_slice(piece);
        bytes[piece.len()..].fill(0);
        file.write_rc_at(Rc::new(buffer), (index * IO_BYTES_MAX) as u64).await?;
    }
    file.truncate(contents.len() as u64).await?;
    file.full_sync().await
}

/// Replaces `name` in `directory`, or creates it; lasting on return. As [`replace_files`].
pub(crate) async fn replace<D: Disk>(
    disk: &D,
    directory: &str,
    name: &str,
    contents: &[u8],
) -> DiskResult<()> {
    replace_files(disk, directory, || vec![(name.to_owned(), contents.to_vec())]).await
}

/// [`Disk::replace`], once more where a directory has one of the names, or of the temporary ones: that is moved out of the way.
pub(crate) async fn replace_files<D: Disk>(
    disk: &D,
    directory: &str,
    files: impl Fn() -> Vec<(String, Vec<u8>)>,
) -> DiskResult<()> {
    let given = files();
    let names: Vec<String> = given.iter().map(|(name, _)| name.clone()).collect();
    match disk.replace(directory, given).await {
        Err(DiskError::NotAFile { .. }) => {}
        replaced => return replaced,
    }
    let there = disk.list(directory).await?;
    let in_the_way = |name: &str| {
        let is_there = |entry: &PathEntry| entry.name == name;
        there.iter().any(|entry| is_there(entry) && entry.kind == EntryKind::Directory)
    };
    for name in names.iter().flat_map(|name| [format!("{name}{TEMPORARY_SUFFIX}"), name.clone()]) {
        if in_the_way(&name) {
            move_odd_aside(disk, directory, &name).await?;
        }
    }
    disk.replace(directory, files()).await
}

/// Gives another name to what has a file's name and is none, so that the file can be made again. Nothing is deleted.
pub(crate) async fn move_odd_aside<D: Disk>(
    disk: &D,
    directory: &str,
    name: &str,
) -> DiskResult<()> {
    let taken = disk.list(directory).await?;
    let path = join(directory, name);
    let kept = join(directory, &free_name(&taken, &format!("{name}{ODD_SUFFIX}")));
    disk.rename(&path, &kept).await?;
    if let Some(PathEntry { kind, .. }) = taken.iter().find(|entry| entry.name == name) {
        tracing::warn!(
            "{path}: {kind}, where a file belongs: kept as {kept}, and the file is made again"
        );
    }
    Ok(())
}

/// [`Disk::replace`] for a disk that has no better way.
pub(crate) async fn replace_all<D: Disk>(
    disk: &D,
    directory: &str,
    files: Vec<(String, Vec<u8>)>,
) -> DiskResult<()> {
    let temporary = |path: &str| format!("{path}{TEMPORARY_SUFFIX}");
    for (name, contents) in &files {
        create(disk, &temporary(&join(directory, name)), contents).await?;
    }
    for (name, _) in &files {
        let path = join(directory, name);
        disk.rename(&temporary(&path), &path).await?;
    }
    disk.sync_dir(directory).await
}

/// [`Disk::set_size`] for a disk that has no better way.
pub(crate) async fn set_size<D: Disk>(
    disk: &D,
    path: &str,
    bytes: u64,
    lasting: Lasting,
) -> DiskResult<()> {
    let file = disk.open(path, OpenMode::ReadWrite).await?;
    if file.size().await? != bytes {
        file.truncate(bytes).await?;
    }
    match lasting {
        Lasting::Yes => file.full_sync().await,
        Lasting::No => Ok(()),
    }
}

/// [`Disk::create_dirs`] for a disk that has no better way.
pub(crate) async fn create_dirs<D: Disk>(
    disk: &D,
    parent: &str,
    new: Vec<NewDirectory>,
) -> Vec<DiskResult<()>> {
    let mut made = Vec::with_capacity(new.len());
    for one in new {
        made.push(create_dir_with_file(disk, parent, one).await);
    }
    let lasting = disk.sync_dir(parent).await;
    made.into_iter().map(|one| one.and_then(|()| lasting.clone())).collect()
}

/// One of them; its name in `parent` is not yet lasting.
async fn create_dir_with_file<D: Disk>(
    disk: &D,
    parent: &str,
    new: NewDirectory,
) -> DiskResult<()> {
    let NewDirectory { name, file, contents } = new;
    let path = join(parent, &name);
    disk.create_dir(&path).await?;
    // The directory is new: nobody can have read an older file of that name, so it needs no temporary one.
    create(disk, &join(&path, &file), &contents).await?;
    disk.sync_dir(&path).await
}

/// [`Disk::look`] for a disk that has no better way.
pub(crate) async fn look<D: Disk>(
    disk: &D,
    path: &str,
    choose: impl FnOnce(&[PathEntry]) -> Vec<Piece>,
) -> DiskResult<Look> {
    let entries = disk.list(path).await?;
    let mut pieces = Vec::new();
    for piece in choose(&entries) {
        if let Ok(Some(bytes)) = read_piece(disk, &join(path, &piece.name), &piece).await {
            pieces.push((piece, bytes));
        }
    }
    Ok(Look { entries, pieces })
}

/// The bytes of a piece, if all of them are there.
async fn read_piece<D: Disk>(disk: &D, path: &str, piece: &Piece) -> DiskResult<Option<Vec<u8>>> {
    let wanted = usize::try_from(piece.range.end - piece.range.start).unwrap_or(usize::MAX);
    assert!(wanted <= IO_BYTES_MAX);
    if wanted == 0 {
        return Ok(Some(Vec::new()));
    }
    let file = disk.open(path, OpenMode::Read).await?;
    let asked = wanted.next_multiple_of(BLOCK_BYTES);
    let read = file.read_at_aligned(piece.range.start, asked).await?;
    Ok(read.get(..wanted).map(<[u8]>::to_vec))
}

/// Makes a directory that may be there already, and its name lasting.
pub(crate) async fn ensure_directory<D: Disk>(
    disk: &D,
    parent: &str,
    name: &str,
) -> DiskResult<()> {
    match disk.create_dir(&join(parent, name)).await {
        Ok(()) => disk.sync_dir(parent).await,
        // It may have been made just before a crash: only a sync of ours proves that it lasts.
        Err(DiskError::AlreadyExists) => disk.sync_dir(parent).await,
        Err(error) => Err(error),
    }
}
