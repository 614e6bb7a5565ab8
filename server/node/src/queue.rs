//! The queues of tasks of an executor, and how long one of them may run.
//!
//! Owns the slices. Every task but an executor's first is in a queue made here. Must never leave a queue without a slice: it
//! would run until a client or another core has something for the executor, and let the disk wait.

use std::time::Duration;

use glommio::{Latency, Shares, TaskQueueHandle};

/// The slice of an executor that has its first task alone. glommio parks without having run any task where the slice ends
/// before it looks for one, and before that task has run nobody has a waker to wake the executor with: it would sleep for
/// good. A thread that loses its CPU at that place for a slice of 200 µs is no rarity, so this one never ends in practice.
pub(crate) const FIRST_SLICE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the tasks of a queue may run before they are asked to give way: half of a quick round trip on loopback. glommio's
/// own value, 100 ms, would let a polite background task delay a request by half a second.
const SLICE: Duration = Duration::from_micros(200);

/// Makes a queue of the executor that runs this.
pub(crate) fn task_queue(name: &str, shares: usize) -> TaskQueueHandle {
    glommio::executor().create_task_queue(Shares::Static(shares), Latency::Matters(SLICE), name)
}
