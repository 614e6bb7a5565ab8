//! Ctrl-C during a bench: the first ends the sending, and the run is audited and told; the second ends the process.
//!
//! Owns the signal. It is taken by a thread that waits for it, and blocked everywhere else: an interrupted wait would end the
//! executor's loop.

use std::thread;

use nix::sys::signal::{SigSet, Signal};
use node::StopSignal;

use crate::exit::{Failure, Outcome};

/// What shells make of a process that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// From here on SIGINT and SIGTERM ask to stop. Call it before any thread is started: threads inherit what is blocked.
pub(super) fn watch() -> Outcome<StopSignal> {
    let mut caught = SigSet::empty();
    caught.add(Signal::SIGINT);
    caught.add(Signal::SIGTERM);
    caught.thread_block().map_err(|errno| Failure::io("signals", &errno.into()))?;
    let stop = StopSignal::default();
    let asked = stop.clone();
    let wait = move || {
        if caught.wait().is_ok() {
            eprintln!(
                "corelog: stopping; what was sent is read back. Once more ends at once, and leaves the topic"
            );
            asked.request();
        }
        if caught.wait().is_ok() {
            std::process::exit(INTERRUPTED);
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map_err(|error| Failure::io("signal thread", &error))?;
    Ok(stop)
}
