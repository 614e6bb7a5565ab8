//! The commands, one file each: arguments, help and examples beside what they do.
//!
//! Owns what they share: the executor that a command runs on.

pub(crate) mod apis;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod consume;
pub(crate) mod doctor;
pub(crate) mod log;
pub(crate) mod manual;
pub(crate) mod offsets;
pub(crate) mod produce;
pub(crate) mod serve;
pub(crate) mod topic;
pub(crate) mod version;

use std::future::Future;
use std::path::Path;

use node::{CorePlatform, GlommioDisk};

use crate::ClusterArgs;
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};

/// Runs `body` with a client that has not connected yet.
pub(crate) fn with_client<T>(
    cluster: &ClusterArgs,
    body: impl AsyncFnOnce(&mut Client<CorePlatform>) -> Outcome<T>,
) -> Outcome<T> {
    let options = cluster.options()?;
    // A client touches no file: the disk that a platform has is rooted where nothing is looked for.
    run(Path::new("."), async |platform| body(&mut Client::new(platform, options)).await)
}

/// Runs `body` on an executor of its own, with a disk rooted at `root`.
pub(crate) fn run<T>(
    root: &Path,
    body: impl AsyncFnOnce(CorePlatform) -> Outcome<T>,
) -> Outcome<T> {
    let platform = async { CorePlatform::new(GlommioDisk::new(root)) };
    local(async { body(platform.await).await })
}

fn local<T>(future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let ran = node::run_local(future);
    ran.unwrap_or_else(|error| {
        let next =
            "io_uring must be allowed and the limit of locked memory (ulimit -l) 512 KiB at least";
        Err(Failure::new(Exit::Io, error.to_string()).advise(next))
    })
}
