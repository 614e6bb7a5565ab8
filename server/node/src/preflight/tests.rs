use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode;

use super::*;
use crate::testing::TempDir;

#[test]
fn each_refusal_is_one_line_with_a_cure_and_an_exit_code() {
    let check = |error: StartError, reason: ExitReason, says: &[&str]| {
        let text = error.to_string();
        assert_eq!(error.reason(), reason, "{text}");
        assert!(!text.contains('\n'), "{text}");
        for word in says {
            assert!(text.contains(word), "{word:?} is missing: {text}");
        }
    };
    check(
        io_uring_verdict(Errno::EPERM, 0),
        ExitReason::IoUringBlocked,
        &["io_uring is blocked (EPERM", "seccomp"],
    );
    check(
        io_uring_verdict(Errno::EPERM, 2),
        ExitReason::IoUringBlocked,
        &["kernel.io_uring_disabled = 2", "sysctl -w"],
    );
    check(io_uring_verdict(Errno::EINVAL, 0), ExitReason::IoUringBlocked, &["5.8"]);
    check(
        StartError::MemoryLock { bytes: 65_536 },
        ExitReason::MemoryLock,
        &["65536 bytes", "524288", "ulimit -l"],
    );
    let path = Path::new("/data");
    check(
        directory_verdict(path, Errno::EINVAL.into()),
        ExitReason::DirectoryUnusable,
        &["/data: ", "direct I/O", "ext4"],
    );
    check(
        directory_verdict(Path::new("/usr/none/data"), Errno::EACCES.into()),
        ExitReason::DirectoryUnusable,
        &["/usr/none/data: permission denied: /usr belongs to user 0"],
    );
    check(
        check_owner(path, 1000, 0).unwrap_err(),
        ExitReason::DirectoryUnusable,
        &["/data: ", "user 1000", "user 0", "chown -R 0 /data"],
    );
    check(
        directory_verdict(path, Errno::EROFS.into()),
        ExitReason::DirectoryUnusable,
        &["/data: ", "Read-only file system"],
    );
    check(
        directory_verdict(path, Errno::ENOSPC.into()),
        ExitReason::DiskFull,
        &["/data: ", "full", "nothing is lost", "free some space"],
    );
}

#[test]
fn a_ring_can_be_made_here() {
    check_io_uring().unwrap();
    check_memlock().unwrap();
    assert!(raise_open_files().unwrap() >= 256);
}

#[test]
fn a_directory_is_made_probed_and_left_empty() {
    let parent = TempDir::new();
    let path = parent.path().join("a/b");
    assert_eq!(check_directory(&path).unwrap(), DirectoryKind::Direct);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    if Path::new("/dev/shm").is_dir() {
        let memory = TempDir::new_in(Path::new("/dev/shm"));
        assert_eq!(check_directory(memory.path()).unwrap(), DirectoryKind::Memory);
    }
}

#[test]
fn a_directory_of_another_program_is_refused_by_its_own_name_and_nothing_is_changed_in_it() {
    let refused = |files: &[(&str, &str)]| {
        let directory = TempDir::new();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let error = check_contents(directory.path()).unwrap_err();
        assert_eq!(error.reason(), ExitReason::DataRefused);
        let names = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(names, files.len());
        error.to_string()
    };
    let kafka = refused(&[("meta.properties", "#\n#Sun Nov 29\ncluster.id=x\nversion=1\n")]);
    assert!(kafka.contains("Apache Kafka"), "{kafka}");
    let other = refused(&[("notes.txt", "mine")]);
    assert!(other.contains("`notes.txt` is in it"), "{other}");
    check_contents(Path::new("/nonexistent/data")).unwrap();
    check_contents(TempDir::new().path()).unwrap();
}

#[test]
fn what_stands_in_place_of_the_identity_is_named_and_never_waited_for() {
    let check = |make: &dyn Fn(&Path), expected: &str| {
        let directory = TempDir::new();
        std::fs::create_dir(directory.path().join("topics")).unwrap();
        let meta = directory.path().join(META_FILE);
        make(&meta);
        let error = check_contents(directory.path()).unwrap_err();
        assert_eq!(error.reason(), ExitReason::DataRefused);
        let expected = format!("{}: {expected}, where a file belongs", meta.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert!(meta.symlink_metadata().is_ok());
    };
    check(&|meta| std::fs::create_dir(meta).unwrap(), "a directory");
    check(&|meta| nix::unistd::mkfifo(meta, Mode::S_IRWXU).unwrap(), "a pipe");
    check(&|meta| drop(UnixListener::bind(meta).unwrap()), "a socket");
    check(&|meta| symlink("/dev/null", meta).unwrap(), "a device");
    check(&|meta| symlink("/nonexistent/meta", meta).unwrap(), "a link that leads nowhere");
    // A link to the file is as good as the file.
    let (directory, elsewhere) = (TempDir::new(), TempDir::new());
    let file = elsewhere.path().join("meta");
    std::fs::write(&file, "version=1\ncorelog.format.version=1\n").unwrap();
    symlink(&file, directory.path().join(META_FILE)).unwrap();
    check_contents(directory.path()).unwrap();
}

#[test]
fn what_is_no_directory_or_takes_no_files_is_refused_by_name() {
    let parent = TempDir::new();
    let file = parent.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    for path in [file.as_path(), Path::new("/proc")] {
        let error = check_directory(path).unwrap_err();
        assert_eq!(error.reason(), ExitReason::DirectoryUnusable);
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }
}

/// The kernel's filter answers `errno` to io_uring_setup in the calling thread, as container runtimes do.
fn block_io_uring(errno: Errno) {
    let statement = |code: u32, value: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf: 0,
        k: value,
    };
    let call = u32::try_from(libc::SYS_io_uring_setup).unwrap();
    let mut is_call = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call);
    is_call.jf = 1;
    let refuse = libc::SECCOMP_RET_ERRNO | u32::try_from(errno as i32).unwrap();
    let mut program = [
        // Offset 0 of the filter's input: the number of the call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        is_call,
        statement(libc::BPF_RET | libc::BPF_K, refuse),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap(),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the filter and its program live through the call, which copies them; only this thread is filtered.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

#[test]
fn a_seccomp_profile_that_blocks_io_uring_is_recognised() {
    for errno in [Errno::EPERM, Errno::ENOSYS] {
        let verdict = std::thread::spawn(move || {
            block_io_uring(errno);
            check_io_uring()
        });
        let error = verdict.join().unwrap().unwrap_err();
        assert!(matches!(error, StartError::IoUringSeccomp { .. }), "{errno}: {error}");
    }
}
