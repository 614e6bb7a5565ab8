use super::*;
use crate::run::run_local;
use crate::testing::TempDir;
use commitlog::AlignedBuffer;

/// Runs `body` on an executor with a disk below a fresh directory.
fn with_disk<F: Future<Output = ()>>(body: impl FnOnce(GlommioDisk) -> F) {
    let directory = TempDir::new();
    run_local(async { body(GlommioDisk::new(directory.path())).await }).unwrap();
}

fn filled(disk: &GlommioDisk, bytes: usize, value: u8) -> Rc<Buffer> {
    let mut buffer = disk.allocate(bytes);
    buffer.as_bytes_mut().fill(value);
    Rc::new(buffer)
}

#[test]
fn bytes_written_are_read_back_and_reads_stop_at_the_end_of_the_file() {
    with_disk(|disk| async move {
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        file.write_rc_at(filled(&disk, 8192, 1), 0).await.unwrap();
        file.write_rc_at(filled(&disk, IO_BYTES_MAX, 2), 8192).await.unwrap();
        file.data_sync().await.unwrap();
        file.full_sync().await.unwrap();

        let read = file.read_at_aligned(4096, 8192).await.unwrap();
        assert!(read[..4096].iter().all(|&byte| byte == 1));
        assert!(read[4096..].iter().all(|&byte| byte == 2));

        file.truncate(10_000).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 10_000);
        let read = file.read_at_aligned(8192, 65_536).await.unwrap();
        assert_eq!(&*read, [2; 10_000 - 8192]);
        assert_eq!(file.read_at_aligned(16_384, 4096).await.unwrap().len(), 0);

        file.truncate(20_000).await.unwrap();
        let read = file.read_at_aligned(8192, 16_384).await.unwrap();
        assert_eq!(read.len(), 20_000 - 8192);
        assert!(read[10_000 - 8192..].iter().all(|&byte| byte == 0), "grown bytes are zeros");
    });
}

#[test]
fn writes_that_last_need_no_sync_of_their_own() {
    with_disk(|disk| async move {
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        assert!(file.lasting.get().is_none(), "nobody has asked");
        for value in [1, 2] {
            file.write_lasting(filled(&disk, 8192, value), 4096).await.unwrap();
            assert_eq!(&*file.read_at_aligned(4096, 8192).await.unwrap(), [value; 8192]);
        }
        let lasting = file.lasting.get().unwrap().as_ref().unwrap();
        // SAFETY: `file` keeps the descriptor open for as long as the borrow lives.
        let descriptor = unsafe { BorrowedFd::borrow_raw(lasting.as_raw_fd()) };
        let flags = OFlag::from_bits_retain(fcntl(descriptor, FcntlArg::F_GETFL).unwrap());
        assert!(flags.contains(OFlag::O_DSYNC | OFlag::O_DIRECT));
        let inode = |descriptor| nix::sys::stat::fstat(descriptor).unwrap().st_ino;
        assert_eq!(inode(descriptor), inode(file.descriptor()));
    });
}

#[test]
fn the_first_open_of_an_empty_file_does_not_spoil_later_reads() {
    with_disk(|disk| async move {
        let empty = disk.open("empty", OpenMode::CreateNew).await.unwrap();
        assert_eq!(empty.read_at_aligned(0, 4096).await.unwrap().len(), 0);
        let file = disk.open("full", OpenMode::CreateNew).await.unwrap();
        file.write_rc_at(filled(&disk, 4096, 7), 0).await.unwrap();
        assert_eq!(&*file.read_at_aligned(0, 4096).await.unwrap(), [7; 4096]);
        let names = disk.list("").await.unwrap();
        let names: Vec<&str> = names.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["empty", "full"], "the probe left something behind");
    });
}

#[test]
fn what_has_the_name_of_a_file_and_is_none_is_named_and_never_waited_for() {
    with_disk(|disk| async move {
        let path = |name: &str| disk.root().join(name);
        std::fs::create_dir(path("directory")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        drop(std::os::unix::net::UnixListener::bind(path("socket")).unwrap());
        std::os::unix::fs::symlink("/dev/null", path("device")).unwrap();
        for (name, found) in [
            ("directory", EntryKind::Directory),
            ("pipe", EntryKind::Other),
            ("socket", EntryKind::Other),
            ("device", EntryKind::Other),
        ] {
            for mode in [OpenMode::Read, OpenMode::ReadWrite] {
                let opened = disk.open(name, mode).await.err();
                assert_eq!(opened, Some(DiskError::NotAFile { found }), "{name} {mode:?}");
            }
        }
        let listed = disk.list("").await.unwrap();
        let device = listed.iter().find(|entry| entry.name == "device").unwrap();
        assert_eq!(device.kind, EntryKind::Link);
        assert_eq!(disk.list("device").await, Err(DiskError::NotADirectory));
    });
}

#[test]
fn an_open_file_waits_for_its_transfers_and_goes_past_the_page_cache() {
    with_disk(|disk| async move {
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        let flags = fcntl(file.descriptor(), FcntlArg::F_GETFL).unwrap();
        let flags = OFlag::from_bits_retain(flags);
        assert!(flags.contains(OFlag::O_DIRECT) && !flags.contains(OFlag::O_NONBLOCK), "{flags:?}");
    });
}

#[test]
fn a_clone_of_a_read_outlives_the_file() {
    with_disk(|disk| async move {
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        file.write_rc_at(filled(&disk, 4096, 3), 0).await.unwrap();
        let first = file.read_at_aligned(0, 4096).await.unwrap();
        let second = first.clone();
        assert_eq!(first.as_ptr(), second.as_ptr(), "a clone copied the bytes");
        drop((first, file));
        assert_eq!(&*second, [3; 4096]);
    });
}

#[test]
fn a_cut_buffer_writes_only_what_is_left() {
    with_disk(|disk| async move {
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        let mut buffer = disk.allocate(16_384);
        buffer.as_bytes_mut().fill(5);
        buffer.truncate(8192);
        file.write_rc_at(Rc::new(buffer), 4096).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 12_288);
    });
}

#[test]
fn a_renamed_or_removed_file_stays_usable_through_its_handle() {
    with_disk(|disk| async move {
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        file.write_rc_at(filled(&disk, 4096, 1), 0).await.unwrap();
        disk.rename("a", "b").await.unwrap();
        assert_eq!(file.size().await.unwrap(), 4096);
        disk.remove("b").await.unwrap();
        file.write_rc_at(filled(&disk, 4096, 2), 4096).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 8192);
        file.full_sync().await.unwrap();
        assert_eq!(disk.open("b", OpenMode::Read).await.unwrap_err(), DiskError::NotFound);
    });
}

#[test]
fn names_behave_as_the_seam_says() {
    with_disk(|disk| async move {
        disk.create_dir("d").await.unwrap();
        assert_eq!(disk.create_dir("d").await, Err(DiskError::AlreadyExists));
        assert_eq!(disk.create_dir("x/y").await, Err(DiskError::NotFound));
        disk.create_dir("e").await.unwrap();
        assert_eq!(disk.rename("d", "e").await, Err(DiskError::AlreadyExists));
        disk.rename("d", "f").await.unwrap();
        drop(disk.open("f/one", OpenMode::CreateNew).await.unwrap());
        let again = disk.open("f/one", OpenMode::CreateNew).await;
        assert_eq!(again.unwrap_err(), DiskError::AlreadyExists);
        let two = disk.open("f/two", OpenMode::CreateNew).await.unwrap();
        two.write_rc_at(filled(&disk, 4096, 1), 0).await.unwrap();
        disk.rename("f/two", "f/one").await.unwrap();
        disk.sync_dir("f").await.unwrap();
        disk.sync_dir("").await.unwrap();
        let expected = [PathEntry { name: "one".into(), kind: EntryKind::File { bytes: 4096 } }];
        assert_eq!(disk.list("f").await.unwrap(), expected);
        assert!(matches!(disk.remove_dir("f").await, Err(DiskError::Io { .. })), "not empty");
        disk.remove("f/one").await.unwrap();
        disk.remove_dir("f").await.unwrap();
        assert_eq!(disk.list("f").await, Err(DiskError::NotFound));
        assert_eq!(disk.remove("f").await, Err(DiskError::NotFound));
        assert!(disk.free_bytes().await.unwrap() > 1 << 20);
    });
}

#[test]
fn a_path_cannot_leave_the_root() {
    with_disk(|disk| async move {
        for path in ["../x", "/etc/passwd", "a/../../b", "./a"] {
            let refused = disk.open(path, OpenMode::Read).await.unwrap_err();
            assert_eq!(refused, DiskError::Denied { errno: Errno::EINVAL as i32 }, "{path}");
        }
    });
}

#[test]
fn a_panic_in_the_blocking_pool_is_an_error_and_the_pool_goes_on() {
    with_disk(|disk| async move {
        for _ in 0..4 {
            let result = blocking::<(), _>(|| panic!("inside the pool")).await;
            assert_eq!(result, Err(DiskError::Io { errno: 0 }));
        }
        disk.create_dir("still-works").await.unwrap();
    });
}

#[test]
fn a_write_dropped_in_flight_keeps_its_memory_and_harms_nobody() {
    with_disk(|disk| async move {
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        for round in 0..100 {
            let buffer = filled(&disk, 65_536, 9);
            let write = file.write_rc_at(buffer, 65_536 * round);
            let nothing = async {};
            futures_lite::future::or(async { drop(write.await) }, nothing).await;
            assert!(filled(&disk, 65_536, 0).as_bytes().iter().all(|&byte| byte == 0));
        }
        file.full_sync().await.unwrap();
    });
}

#[test]
fn memory_file_systems_work_through_the_page_cache() {
    if !Path::new("/dev/shm").is_dir() {
        return;
    }
    let directory = TempDir::new_in(Path::new("/dev/shm"));
    run_local(async {
        let disk = GlommioDisk::new(directory.path());
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        file.write_rc_at(filled(&disk, 8192, 4), 0).await.unwrap();
        file.data_sync().await.unwrap();
        assert_eq!(&*file.read_at_aligned(4096, 8192).await.unwrap(), [4; 4096]);
    })
    .unwrap();
}

#[test]
fn many_polls_of_a_waiting_task_do_not_exhaust_its_wakers() {
    with_disk(|disk| async move {
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        file.write_rc_at(filled(&disk, 4096, 1), 0).await.unwrap();
        let mut read = std::pin::pin!(file.read_at_aligned(0, 4096));
        // More polls than the 32,767 copies of its waker that a task has room for, all before the ring runs.
        for _ in 0..40_000 {
            if futures_lite::future::poll_once(read.as_mut()).await.is_some() {
                return;
            }
        }
        assert_eq!(read.await.unwrap().len(), 4096);
    });
}

#[test]
fn a_hole_is_known_without_reading_it() {
    with_disk(|disk| async move {
        let file = disk.open("a", OpenMode::CreateNew).await.unwrap();
        file.truncate(1 << 40).await.unwrap();
        assert_eq!(file.next_stored(4096).await, Ok(None));
        file.write_rc_at(filled(&disk, 8192, 1), 1 << 39).await.unwrap();
        let stored = file.next_stored(4096).await.unwrap().unwrap();
        // As finely as the file system keeps account.
        assert!(stored.start <= 1 << 39 && stored.end >= (1 << 39) + 8192, "{stored:?}");
        assert!(stored.end - stored.start < 1 << 24, "{stored:?}");
        assert_eq!(file.next_stored(stored.end).await, Ok(None));
        assert_eq!(file.next_stored(1 << 41).await, Ok(None), "past the end");
    });
}
