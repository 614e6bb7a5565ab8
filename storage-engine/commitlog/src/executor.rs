//! What the log needs of whoever runs it: a place for background work, and a polite pause.
//!
//! Owns the trait only. One executor is one core: tasks never move between threads, so nothing here is `Send`.

use std::future::Future;
use std::pin::Pin;

/// A task of this core.
pub type LocalTask = Pin<Box<dyn Future<Output = ()> + 'static>>;

/// How urgent a task is; each class has its own queue and shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskClass {
    /// Requests, appends, replies: a client waits.
    Foreground,
    /// Replication to and from peers.
    Replication,
    /// Recovery, checkpoints, deletion, scrubbing: nobody waits.
    Background,
}

/// Runs tasks on this core.
pub trait Executor: Clone + 'static {
    /// Starts `task` and forgets it. A panic inside it aborts the process where it ran a step of a log or core
    /// (DESIGN: state may be wrong), and is otherwise counted and contained by the implementation.
    fn spawn(&self, class: TaskClass, task: LocalTask);

    /// Gives way to others if this task has run for its time slice; call it at least every 20 µs of work.
    fn yield_if_needed(&self) -> impl Future<Output = ()>;
}

/// Runs one step of a log or a core; a panic inside it aborts the process.
///
/// A panic anywhere else costs one connection or task. Here state may be half changed: serving on could acknowledge what was
/// never written, while a restart recovers from what is on disk.
///
/// With the feature `mutants` it lets the panic go on: a simulator counts it as a mutant that was noticed.
pub fn abort_on_panic<R>(step: impl FnOnce() -> R) -> R {
    if cfg!(feature = "mutants") {
        return step();
    }
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            // The panic's own message has been printed by now.
            eprintln!(
                "a log or core panicked in the middle of a step; aborting before anything wrong is served"
            );
            std::process::abort();
        }
    }
    let abort = Abort;
    let result = step();
    std::mem::forget(abort);
    result
}

#[cfg(all(test, not(feature = "mutants")))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_panic_in_a_step_aborts_even_where_panics_are_caught() {
        const CHILD: &str = "CORELOG_ABORT_ON_PANIC_CHILD";
        if std::env::var_os(CHILD).is_some() {
            let _ = std::panic::catch_unwind(|| abort_on_panic(|| panic!("half done")));
            return;
        }
        assert_eq!(abort_on_panic(|| 7), 7);
        let test = "executor::tests::a_panic_in_a_step_aborts_even_where_panics_are_caught";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        // 6: SIGABRT.
        assert_eq!(child.status.signal(), Some(6), "{child:?}");
        assert!(String::from_utf8_lossy(&child.stderr).contains("half done"), "{child:?}");
    }
}
