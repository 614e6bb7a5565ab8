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
