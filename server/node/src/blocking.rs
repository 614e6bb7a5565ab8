//! System calls that may wait for a device, moved off the reactor.
//!
//! Owns the one door to the executor's blocking pool. A panic in there would kill the pool's thread, and the next blocking
//! call the executor: it is caught and becomes an error. Must never lend a file descriptor that another may close: callers
//! pass a duplicate, because a dropped future does not stop the call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use commitlog::{DiskError, DiskResult};

use crate::errno::disk_error;

/// Runs `call` in the pool of the current executor.
pub(crate) async fn blocking<R, F>(call: F) -> DiskResult<R>
where
    R: Send + 'static,
    F: FnOnce() -> std::io::Result<R> + Send + 'static,
{
    let contained = move || catch_unwind(AssertUnwindSafe(call));
    match crate::wake::gated(glommio::executor().spawn_blocking(contained)).await {
        Ok(result) => result.map_err(|error| disk_error(&error)),
        Err(panic) => {
            tracing::error!(
                panic = crate::platform::panic_text(panic.as_ref()),
                "a blocking call panicked; its file operation failed"
            );
            Err(DiskError::Io { errno: 0 })
        }
    }
}
