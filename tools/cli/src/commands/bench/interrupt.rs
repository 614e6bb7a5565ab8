//! Ctrl-C during a bench: the first ends sending and reading, and the run is audited and told; the second ends the process.
//!
//! Owns the signal. It is taken by a thread that waits for it, and blocked everywhere else: an interrupted wait would end the
//! executor's loop.

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use node::StopSignal;

use crate::exit::{Failure, Outcome};

/// What shells make of a process that SIGINT ended.
const INTERRUPTED: i32 = 130;
/// What comes sooner after the first is the same wish: `timeout` signals the process, and then its group. As `serve` has it.
const SECOND_SIGNAL_AFTER: Duration = Duration::from_millis(500);

/// From here on SIGINT and SIGTERM ask to stop. Call it before any thread is started: threads inherit what is blocked.
pub(super) fn watch() -> Outcome<StopSignal> {
    let mut caught = SigSet::empty();
    caught.add(Signal::SIGINT);
    caught.add(Signal::SIGTERM);
    caught.thread_block().map_err(|errno| Failure::io("signals", &errno.into()))?;
    let stop = StopSignal::default();
    let asked = stop.clone();
    let wait = move || {
        if caught.wait().is_err() {
            return;
        }
        eprintln!(
            "corelog: stopping; the run is audited and told as far as it went. Another signal, half a second later or more, ends at once"
        );
        asked.request();
        let first = Instant::now();
        while caught.wait().is_ok() {
            if first.elapsed() >= SECOND_SIGNAL_AFTER {
                eprintln!("corelog: ended; a topic that was made for the run is still there");
                std::process::exit(INTERRUPTED);
            }
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map_err(|error| Failure::io("signal thread", &error))?;
    Ok(stop)
}
