//! The suite that every disk passes, passed by the real one: direct I/O on io_uring below a temporary directory.
//!
//! The directory is made beside the build's output, since a temporary file system in memory knows no direct I/O.

use std::path::PathBuf;

/// A directory that goes when the test ends, however it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = format!("disk-suite-{}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("the build's output can be written");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn real_disk_passes_the_suite() {
    let scratch = Scratch::new();
    let root = scratch.0.clone();
    let passed = node::run_local(async move {
        let disk = node::GlommioDisk::new(root);
        disk.prime().await.expect("the first transfer succeeds");
        sim::disk_suite::run(&disk).await.len()
    });
    assert_eq!(passed.expect("the executor starts"), 26);
}
