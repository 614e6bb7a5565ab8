//! What every [`Disk`] does alike: one suite, passed by the simulated disk and by the real one.
//!
//! Owns the behaviour that the log relies on while nothing fails. Each check works in a directory of its own below the
//! root and leaves it there. A check panics with what it expected; none looks at durability, which no running process can
//! see (the simulated disk's own tests do).

use std::rc::Rc;

use commitlog::{
    AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, EntryKind, IO_BYTES_MAX, Lasting,
    NewDirectory, OpenMode, PathEntry, Piece,
};

/// A block as a file position.
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Runs every check; returns their names, in order. Panics at the first that fails.
pub async fn run<D: Disk>(disk: &D) -> Vec<&'static str> {
    let mut passed = Vec::new();
    macro_rules! check {
        ($($name:ident),* $(,)?) => {$(
            let directory = concat!("suite-", stringify!($name));
            disk.create_dir(directory).await.expect("the root takes a new directory");
            $name(disk, directory).await;
            passed.push(stringify!($name));
        )*};
    }
    check!(
        buffers_are_aligned_and_shorten,
        modes_say_what_must_be_there,
        written_bytes_read_back,
        reads_end_short_at_the_end_of_the_file,
        read_only_handle_refuses_writes,
        cut_and_extension_set_any_length,
        extension_after_a_cut_reads_as_zeros,
        rename_moves_files_over_files,
        rename_moves_directories_to_free_names,
        rename_crosses_directories,
        list_is_ascending_with_kinds_and_lengths,
        removed_file_lives_on_in_its_handle,
        directories_go_only_when_empty,
        missing_parents_are_not_found,
        syncs_succeed,
        a_lasting_write_is_a_write,
        many_large_transfers_in_flight,
        two_handles_see_one_file,
        rewrite_of_a_block_replaces_it,
        free_bytes_is_plausible,
        a_look_brings_pieces_along,
        files_are_replaced_together,
        a_size_is_set_by_path,
        new_directories_come_with_their_file,
        what_is_not_stored_reads_as_zeros,
        room_reads_as_zeros_and_is_written_into,
    );
    passed
}

async fn create<D: Disk>(disk: &D, path: &str) -> D::File {
    disk.open(path, OpenMode::CreateNew).await.expect("a free name can be created")
}

/// Memory where every byte is a function of `seed` and its place.
fn pattern<D: Disk>(disk: &D, bytes: usize, seed: u8) -> Rc<D::Buffer> {
    let mut buffer = disk.allocate(bytes);
    for (index, byte) in buffer.as_bytes_mut().iter_mut().enumerate() {
        *byte = pattern_byte(index, seed);
    }
    Rc::new(buffer)
}

fn pattern_byte(index: usize, seed: u8) -> u8 {
    let mixed = index.wrapping_mul(31).wrapping_add(index >> 8).to_le_bytes()[0];
    mixed ^ seed
}

fn has_pattern(bytes: &[u8], seed: u8) -> bool {
    bytes.iter().enumerate().all(|(index, byte)| *byte == pattern_byte(index, seed))
}

async fn read<D: Disk>(file: &D::File, position: u64, bytes: usize) -> D::ReadBuffer {
    file.read_at_aligned(position, bytes).await.expect("a healthy disk reads")
}

async fn buffers_are_aligned_and_shorten<D: Disk>(disk: &D, _directory: &str) {
    for bytes in [1, BLOCK_BYTES, BLOCK_BYTES + 1, IO_BYTES_MAX] {
        let mut buffer = disk.allocate(bytes);
        let len = buffer.as_bytes().len();
        assert!(len >= bytes, "{len} bytes for {bytes}");
        assert!(len.is_multiple_of(BLOCK_BYTES), "{len} bytes are not whole blocks");
        let address = buffer.as_bytes().as_ptr() as usize;
        assert!(address.is_multiple_of(BLOCK_BYTES), "memory at {address:#x}");
        buffer.as_bytes_mut().fill(7);
        buffer.truncate(BLOCK_BYTES);
        assert_eq!(buffer.as_bytes(), [7; BLOCK_BYTES]);
    }
}

async fn modes_say_what_must_be_there<D: Disk>(disk: &D, directory: &str) {
    let path = format!("{directory}/file");
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        assert_eq!(disk.open(&path, mode).await.err(), Some(DiskError::NotFound), "{mode:?}");
    }
    let file = create(disk, &path).await;
    assert_eq!(file.size().await, Ok(0));
    let again = disk.open(&path, OpenMode::CreateNew).await.err();
    assert_eq!(again, Some(DiskError::AlreadyExists));
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        assert!(disk.open(&path, mode).await.is_ok(), "{mode:?}");
    }
    assert_eq!(disk.create_dir(&path).await, Err(DiskError::AlreadyExists));
}

async fn written_bytes_read_back<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/file")).await;
    file.write_rc_at(pattern(disk, 3 * BLOCK_BYTES, 1), 0).await.expect("first write");
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 2), 3 * BLOCK).await.expect("second write");
    assert_eq!(file.size().await, Ok(4 * BLOCK));
    assert!(has_pattern(&read::<D>(&file, 0, 3 * BLOCK_BYTES).await, 1));
    assert!(has_pattern(&read::<D>(&file, 3 * BLOCK, BLOCK_BYTES).await, 2));
    // A write beyond the end leaves zeros between.
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 3), 6 * BLOCK).await.expect("third write");
    assert_eq!(*read::<D>(&file, 4 * BLOCK, 2 * BLOCK_BYTES).await, [0; 2 * BLOCK_BYTES]);
    assert!(has_pattern(&read::<D>(&file, 6 * BLOCK, BLOCK_BYTES).await, 3));
}

async fn reads_end_short_at_the_end_of_the_file<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/file")).await;
    assert_eq!(read::<D>(&file, 0, BLOCK_BYTES).await.len(), 0);
    file.write_rc_at(pattern(disk, 2 * BLOCK_BYTES, 1), 0).await.expect("write");
    assert_eq!(read::<D>(&file, 0, 8 * BLOCK_BYTES).await.len(), 2 * BLOCK_BYTES);
    assert_eq!(read::<D>(&file, BLOCK, 8 * BLOCK_BYTES).await.len(), BLOCK_BYTES);
    assert_eq!(read::<D>(&file, 2 * BLOCK, BLOCK_BYTES).await.len(), 0);
    assert_eq!(read::<D>(&file, 64 * BLOCK, BLOCK_BYTES).await.len(), 0);
    file.truncate(BLOCK + 100).await.expect("cut");
    let bytes = read::<D>(&file, 0, 8 * BLOCK_BYTES).await;
    assert_eq!(bytes.len(), BLOCK_BYTES + 100);
    assert!(has_pattern(&bytes, 1));
    assert_eq!(read::<D>(&file, BLOCK, BLOCK_BYTES).await.len(), 100);
}

async fn read_only_handle_refuses_writes<D: Disk>(disk: &D, directory: &str) {
    let path = format!("{directory}/file");
    let file = create(disk, &path).await;
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 1), 0).await.expect("write");
    let reader = disk.open(&path, OpenMode::Read).await.expect("open");
    assert!(reader.write_rc_at(pattern(disk, BLOCK_BYTES, 2), 0).await.is_err());
    assert!(has_pattern(&read::<D>(&reader, 0, BLOCK_BYTES).await, 1));
}

async fn cut_and_extension_set_any_length<D: Disk>(disk: &D, directory: &str) {
    let path = format!("{directory}/file");
    let file = create(disk, &path).await;
    file.write_rc_at(pattern(disk, 2 * BLOCK_BYTES, 1), 0).await.expect("write");
    for bytes in [5_000, 1, 0, 777, 3 * BLOCK] {
        file.truncate(bytes).await.expect("any length can be set");
        assert_eq!(file.size().await, Ok(bytes));
        let entries = disk.list(directory).await.expect("list");
        assert_eq!(entries[0].kind, EntryKind::File { bytes });
    }
}

async fn extension_after_a_cut_reads_as_zeros<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/file")).await;
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 1), 0).await.expect("write");
    file.truncate(100).await.expect("cut");
    file.truncate(2 * BLOCK).await.expect("extension");
    let bytes = read::<D>(&file, 0, 2 * BLOCK_BYTES).await;
    assert!(has_pattern(&bytes[..100], 1));
    assert!(bytes[100..].iter().all(|byte| *byte == 0), "what was cut off shows again");
}

async fn rename_moves_files_over_files<D: Disk>(disk: &D, directory: &str) {
    let (one, two) = (format!("{directory}/one"), format!("{directory}/two"));
    let file = create(disk, &one).await;
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 1), 0).await.expect("write");
    let replaced = create(disk, &two).await;
    replaced.write_rc_at(pattern(disk, BLOCK_BYTES, 2), 0).await.expect("write");
    disk.rename(&one, &two).await.expect("a file replaces a file");
    assert_eq!(disk.open(&one, OpenMode::Read).await.err(), Some(DiskError::NotFound));
    let moved = disk.open(&two, OpenMode::Read).await.expect("open");
    assert!(has_pattern(&read::<D>(&moved, 0, BLOCK_BYTES).await, 1));
    assert!(has_pattern(&read::<D>(&replaced, 0, BLOCK_BYTES).await, 2));
    assert_eq!(disk.rename(&one, &two).await, Err(DiskError::NotFound));
}

async fn rename_moves_directories_to_free_names<D: Disk>(disk: &D, directory: &str) {
    let (one, two) = (format!("{directory}/one"), format!("{directory}/two"));
    disk.create_dir(&one).await.expect("create");
    let file = create(disk, &format!("{one}/file")).await;
    disk.create_dir(&two).await.expect("create");
    drop(create(disk, &format!("{two}/other")).await);
    let taken = disk.rename(&one, &two).await;
    assert_eq!(taken, Err(DiskError::AlreadyExists), "a directory that is not empty is in the way");
    let three = format!("{directory}/three");
    disk.rename(&one, &three).await.expect("a free name");
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 1), 0).await.expect("handles follow the file");
    let moved = disk.open(&format!("{three}/file"), OpenMode::Read).await.expect("open");
    assert!(has_pattern(&read::<D>(&moved, 0, BLOCK_BYTES).await, 1));
    assert_eq!(disk.list(&one).await, Err(DiskError::NotFound));
}

async fn rename_crosses_directories<D: Disk>(disk: &D, directory: &str) {
    let (one, two) = (format!("{directory}/one"), format!("{directory}/two"));
    disk.create_dir(&one).await.expect("create");
    disk.create_dir(&two).await.expect("create");
    drop(create(disk, &format!("{one}/file")).await);
    let (from, to) = (format!("{one}/file"), format!("{two}/file"));
    disk.rename(&from, &to).await.expect("rename");
    assert_eq!(disk.list(&one).await, Ok(Vec::new()));
    assert_eq!(disk.list(&two).await.expect("list").len(), 1);
    let nowhere = disk.rename(&to, &format!("{directory}/missing/file")).await;
    assert_eq!(nowhere, Err(DiskError::NotFound));
}

async fn list_is_ascending_with_kinds_and_lengths<D: Disk>(disk: &D, directory: &str) {
    assert_eq!(disk.list(directory).await, Ok(Vec::new()));
    for name in ["b", "10", "a", "9"] {
        drop(create(disk, &format!("{directory}/{name}")).await);
    }
    disk.create_dir(&format!("{directory}/aa")).await.expect("create");
    let file = disk.open(&format!("{directory}/b"), OpenMode::ReadWrite).await.expect("open");
    file.truncate(123).await.expect("extension");
    let entries = disk.list(directory).await.expect("list");
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["10", "9", "a", "aa", "b"]);
    assert_eq!(entries[3].kind, EntryKind::Directory);
    assert_eq!(entries[4].kind, EntryKind::File { bytes: 123 });
}

async fn removed_file_lives_on_in_its_handle<D: Disk>(disk: &D, directory: &str) {
    let path = format!("{directory}/file");
    let file = create(disk, &path).await;
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 1), 0).await.expect("write");
    disk.remove(&path).await.expect("remove");
    assert_eq!(disk.remove(&path).await, Err(DiskError::NotFound));
    assert_eq!(disk.open(&path, OpenMode::Read).await.err(), Some(DiskError::NotFound));
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 2), BLOCK).await.expect("write");
    assert!(has_pattern(&read::<D>(&file, 0, BLOCK_BYTES).await, 1));
    assert!(has_pattern(&read::<D>(&file, BLOCK, BLOCK_BYTES).await, 2));
    let fresh = create(disk, &path).await;
    assert_eq!(fresh.size().await, Ok(0), "the name is free and stands for another file");
}

async fn directories_go_only_when_empty<D: Disk>(disk: &D, directory: &str) {
    let inner = format!("{directory}/inner");
    disk.create_dir(&inner).await.expect("create");
    assert_eq!(disk.create_dir(&inner).await, Err(DiskError::AlreadyExists));
    drop(create(disk, &format!("{inner}/file")).await);
    assert!(disk.remove_dir(&inner).await.is_err());
    let found = EntryKind::Directory;
    assert_eq!(
        disk.remove(&inner).await,
        Err(DiskError::NotAFile { found }),
        "remove is for files"
    );
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        let opened = disk.open(&inner, mode).await.err();
        assert_eq!(opened, Some(DiskError::NotAFile { found }), "{mode:?}");
    }
    let file = format!("{inner}/file");
    assert_eq!(disk.list(&file).await, Err(DiskError::NotADirectory));
    disk.remove(&format!("{inner}/file")).await.expect("remove");
    disk.remove_dir(&inner).await.expect("an empty directory goes");
    assert_eq!(disk.list(&inner).await, Err(DiskError::NotFound));
    assert_eq!(disk.remove_dir(&inner).await, Err(DiskError::NotFound));
}

async fn missing_parents_are_not_found<D: Disk>(disk: &D, directory: &str) {
    let path = format!("{directory}/missing/name");
    assert_eq!(disk.create_dir(&path).await, Err(DiskError::NotFound));
    let opened = disk.open(&path, OpenMode::CreateNew).await.err();
    assert_eq!(opened, Some(DiskError::NotFound));
    let missing = format!("{directory}/missing");
    assert_eq!(disk.sync_dir(&missing).await, Err(DiskError::NotFound));
    assert_eq!(disk.list(&missing).await, Err(DiskError::NotFound));
}

async fn syncs_succeed<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/file")).await;
    assert_eq!(file.data_sync().await, Ok(()), "an empty file");
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 1), 0).await.expect("write");
    assert_eq!(file.data_sync().await, Ok(()));
    file.truncate(10).await.expect("cut");
    assert_eq!(file.full_sync().await, Ok(()));
    assert_eq!(disk.sync_dir(directory).await, Ok(()));
    assert_eq!(disk.sync_dir("").await, Ok(()), "the root");
    assert!(has_pattern(&read::<D>(&file, 0, BLOCK_BYTES).await[..10], 1));
}

async fn a_lasting_write_is_a_write<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/file")).await;
    file.write_rc_at(pattern(disk, 4 * BLOCK_BYTES, 1), 0).await.expect("a healthy disk writes");
    for value in [2, 3] {
        let written = file.write_lasting(pattern(disk, 2 * BLOCK_BYTES, value), BLOCK).await;
        assert_eq!(written, Ok(()));
        assert!(has_pattern(&read::<D>(&file, BLOCK, 2 * BLOCK_BYTES).await, value));
    }
    // Beyond the end, and of a file that has another name by then.
    let renamed = format!("{directory}/renamed");
    disk.rename(&format!("{directory}/file"), &renamed).await.expect("rename");
    assert_eq!(file.write_lasting(pattern(disk, BLOCK_BYTES, 4), 4 * BLOCK).await, Ok(()));
    let again = disk.open(&renamed, OpenMode::Read).await.expect("it is there");
    assert_eq!(again.size().await, Ok(5 * BLOCK));
    assert!(has_pattern(&read::<D>(&again, 0, BLOCK_BYTES).await, 1), "others are as they were");
    assert!(has_pattern(&read::<D>(&again, 4 * BLOCK, BLOCK_BYTES).await, 4));
}

async fn many_large_transfers_in_flight<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/file")).await;
    let large = IO_BYTES_MAX as u64;
    let (first, second, third, small) = (
        file.write_rc_at(pattern(disk, IO_BYTES_MAX, 1), 0),
        file.write_rc_at(pattern(disk, IO_BYTES_MAX, 2), large),
        file.write_rc_at(pattern(disk, IO_BYTES_MAX, 3), 2 * large),
        file.write_rc_at(pattern(disk, BLOCK_BYTES, 4), 3 * large),
    );
    let pair = futures_lite::future::zip(third, small);
    let (pair, (one, two)) =
        futures_lite::future::zip(pair, futures_lite::future::zip(first, second)).await;
    assert_eq!((pair, one, two), ((Ok(()), Ok(())), Ok(()), Ok(())));
    assert_eq!(file.size().await, Ok(3 * large + BLOCK));
    for (index, seed) in [(0, 1), (1, 2), (2, 3)] {
        let bytes = read::<D>(&file, index * large, IO_BYTES_MAX).await;
        assert_eq!(bytes.len(), IO_BYTES_MAX);
        assert!(has_pattern(&bytes, seed), "transfer {index}");
    }
    let (left, right) = futures_lite::future::zip(
        file.read_at_aligned(0, IO_BYTES_MAX),
        file.read_at_aligned(3 * large, IO_BYTES_MAX),
    )
    .await;
    assert!(has_pattern(&left.expect("read"), 1));
    assert!(has_pattern(&right.expect("read"), 4));
}

async fn two_handles_see_one_file<D: Disk>(disk: &D, directory: &str) {
    let path = format!("{directory}/file");
    let writer = create(disk, &path).await;
    let reader = disk.open(&path, OpenMode::Read).await.expect("open");
    writer.write_rc_at(pattern(disk, BLOCK_BYTES, 1), 0).await.expect("write");
    let bytes = read::<D>(&reader, 0, BLOCK_BYTES).await;
    writer.write_rc_at(pattern(disk, BLOCK_BYTES, 2), 0).await.expect("write");
    assert!(has_pattern(&bytes, 1), "what a read returned does not change");
    assert!(has_pattern(&read::<D>(&reader, 0, BLOCK_BYTES).await, 2));
    drop(writer);
    assert_eq!(reader.size().await, Ok(BLOCK));
}

async fn rewrite_of_a_block_replaces_it<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/file")).await;
    file.write_rc_at(pattern(disk, 3 * BLOCK_BYTES, 1), 0).await.expect("write");
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 2), BLOCK).await.expect("rewrite");
    assert_eq!(file.size().await, Ok(3 * BLOCK));
    let bytes = read::<D>(&file, 0, 3 * BLOCK_BYTES).await;
    assert!(has_pattern(&bytes[..BLOCK_BYTES], 1));
    assert!(has_pattern(&bytes[BLOCK_BYTES..2 * BLOCK_BYTES], 2));
    let last = &bytes[2 * BLOCK_BYTES..];
    assert!((0..BLOCK_BYTES).all(|at| last[at] == pattern_byte(at + 2 * BLOCK_BYTES, 1)));
}

async fn free_bytes_is_plausible<D: Disk>(disk: &D, directory: &str) {
    let before = disk.free_bytes().await.expect("a healthy disk counts");
    assert!(before > IO_BYTES_MAX as u64, "{before} bytes are too few for this suite");
    let file = create(disk, &format!("{directory}/file")).await;
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 1), 0).await.expect("write");
    assert!(disk.free_bytes().await.is_ok());
}

/// All of a small file.
async fn contents<D: Disk>(disk: &D, directory: &str, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(&format!("{directory}/{name}"), OpenMode::Read).await.ok()?;
    Some(read::<D>(&file, 0, BLOCK_BYTES).await.to_vec())
}

fn names(entries: &[PathEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.name.as_str()).collect()
}

async fn a_look_brings_pieces_along<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/log")).await;
    file.write_rc_at(pattern(disk, 2 * BLOCK_BYTES, 1), 0).await.expect("write");
    file.truncate(BLOCK + 100).await.expect("cut");
    drop(create(disk, &format!("{directory}/empty")).await);
    let small = vec![("small".to_owned(), b"small".to_vec())];
    disk.replace(directory, small).await.expect("replace");
    let piece = |name: &str, range| Piece { name: name.to_owned(), range };
    let wanted = vec![
        piece("small", 0..5),
        piece("log", BLOCK..BLOCK + 100),
        piece("empty", 0..0),
        piece("log", BLOCK..BLOCK + 101),
        piece("missing", 0..1),
    ];
    let here = wanted[..3].to_vec();
    let look = disk.look(directory, move |entries| {
        assert_eq!(names(entries), ["empty", "log", "small"]);
        wanted
    });
    let look = look.await.expect("look");
    assert_eq!(look.entries, disk.list(directory).await.expect("list"));
    let (pieces, bytes): (Vec<_>, Vec<_>) = look.pieces.into_iter().unzip();
    assert_eq!(pieces, here, "what is not there whole is left out");
    assert_eq!(bytes[0], b"small");
    assert_eq!(*bytes[1], *read::<D>(&file, BLOCK, BLOCK_BYTES).await);
    assert!(bytes[2].is_empty());
    let missing = disk.look(&format!("{directory}/missing"), |_| Vec::new()).await;
    assert_eq!(missing.err(), Some(DiskError::NotFound));
}

async fn files_are_replaced_together<D: Disk>(disk: &D, directory: &str) {
    // What a crash may have left.
    drop(create(disk, &format!("{directory}/one.tmp")).await);
    let long = vec![7; BLOCK_BYTES];
    let files = |one: &[u8], two: &[u8]| {
        vec![("one".to_owned(), one.to_vec()), ("two".to_owned(), two.to_vec())]
    };
    for (one, two) in [(&long[..], &b""[..]), (&b"short"[..], &long[..])] {
        disk.replace(directory, files(one, two)).await.expect("replace");
        assert_eq!(names(&disk.list(directory).await.expect("list")), ["one", "two"]);
        assert_eq!(contents(disk, directory, "one").await.as_deref(), Some(one));
        assert_eq!(contents(disk, directory, "two").await.as_deref(), Some(two));
    }
    let missing = disk.replace(&format!("{directory}/missing"), files(b"", b"")).await;
    assert_eq!(missing, Err(DiskError::NotFound));
}

async fn a_size_is_set_by_path<D: Disk>(disk: &D, directory: &str) {
    let path = format!("{directory}/file");
    let file = create(disk, &path).await;
    file.write_rc_at(pattern(disk, 2 * BLOCK_BYTES, 1), 0).await.expect("write");
    for (bytes, lasting) in [(BLOCK + 7, Lasting::No), (BLOCK + 7, Lasting::Yes), (9, Lasting::Yes)]
    {
        disk.set_size(&path, bytes, lasting).await.expect("set");
        assert_eq!(file.size().await, Ok(bytes));
    }
    assert!(has_pattern(&read::<D>(&file, 0, BLOCK_BYTES).await, 1));
    let missing = disk.set_size(&format!("{directory}/missing"), 0, Lasting::No).await;
    assert_eq!(missing, Err(DiskError::NotFound), "nothing is created");
}

async fn new_directories_come_with_their_file<D: Disk>(disk: &D, directory: &str) {
    let new = |name: &str, contents: &[u8]| NewDirectory {
        name: name.to_owned(),
        file: "label".to_owned(),
        contents: contents.to_vec(),
    };
    let created = disk.create_dirs(directory, vec![new("a", b"first"), new("b", b"")]).await;
    assert_eq!(created, [Ok(()), Ok(())]);
    // One that cannot be made is in nobody's way.
    let more = vec![new("a", b"other"), new("missing/d", b"no"), new("c", b"third")];
    let created = disk.create_dirs(directory, more).await;
    let there = Err(DiskError::AlreadyExists);
    assert_eq!(created, [there, Err(DiskError::NotFound), Ok(())]);
    assert_eq!(names(&disk.list(directory).await.expect("list")), ["a", "b", "c"]);
    for (name, expected) in [("a", &b"first"[..]), ("b", b""), ("c", b"third")] {
        let inner = format!("{directory}/{name}");
        assert_eq!(names(&disk.list(&inner).await.expect("list")), ["label"]);
        assert_eq!(contents(disk, &inner, "label").await.as_deref(), Some(expected));
    }
    let missing = format!("{directory}/missing");
    let created = disk.create_dirs(&missing, vec![new("a", b"")]).await;
    assert_eq!(created, [Err(DiskError::NotFound)]);
}

async fn what_is_not_stored_reads_as_zeros<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/file")).await;
    assert_eq!(file.next_stored(0).await, Ok(None), "an empty file");
    let (far, end) = (512 * BLOCK, 1_024 * BLOCK);
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 1), 0).await.expect("write");
    file.write_rc_at(pattern(disk, 2 * BLOCK_BYTES, 2), far).await.expect("write");
    file.truncate(end).await.expect("extension");
    file.full_sync().await.expect("sync");
    for from in [0, 100, BLOCK, far - 1, far, far + 2 * BLOCK, end - 1] {
        let stored = file.next_stored(from).await.expect("a healthy disk knows");
        let stored = stored.unwrap_or(end..end);
        assert!(stored.end > from, "{stored:?} from {from}");
        // What is skipped holds nothing; what is not may hold anything.
        let nonzero = [0..BLOCK, far..far + 2 * BLOCK];
        let skipped = from..stored.start.max(from);
        let is_skipped =
            |one: &std::ops::Range<u64>| one.start.max(skipped.start) < one.end.min(skipped.end);
        assert!(!nonzero.iter().any(is_skipped), "{skipped:?} is passed by");
    }
    assert!(has_pattern(&read::<D>(&file, far, 2 * BLOCK_BYTES).await, 2), "no transfer moves");
    assert_eq!(file.next_stored(end).await.map(|_| ()), Ok(()), "at the end");
}

async fn room_reads_as_zeros_and_is_written_into<D: Disk>(disk: &D, directory: &str) {
    let file = create(disk, &format!("{directory}/grows")).await;
    file.write_rc_at(pattern(disk, 2 * BLOCK_BYTES, 3), 0).await.expect("a healthy disk writes");
    if file.reserve(2 * BLOCK..64 * BLOCK).await.is_err() {
        // Not every file system can; the log goes without.
        assert_eq!(file.size().await, Ok(2 * BLOCK));
        return;
    }
    assert_eq!(file.size().await, Ok(64 * BLOCK));
    file.write_rc_at(pattern(disk, BLOCK_BYTES, 5), 2 * BLOCK).await.expect("into the room");
    // Over what is written, and no further than the file is long: nothing changes.
    file.reserve(0..8 * BLOCK).await.expect("what could grow can grow again");
    assert_eq!(file.size().await, Ok(64 * BLOCK));
    file.data_sync().await.expect("a healthy disk syncs");
    assert!(has_pattern(&read::<D>(&file, 0, 2 * BLOCK_BYTES).await, 3));
    assert!(has_pattern(&read::<D>(&file, 2 * BLOCK, BLOCK_BYTES).await, 5));
    let room = read::<D>(&file, 3 * BLOCK, 64 * BLOCK_BYTES).await;
    assert!(room.len() == 61 * BLOCK_BYTES && room.iter().all(|byte| *byte == 0));
    file.truncate(2 * BLOCK + 100).await.expect("room is cut off like anything else");
    assert_eq!(file.size().await, Ok(2 * BLOCK + 100));
}
