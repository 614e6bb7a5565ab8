//! Ctrl-C and its like, for commands that end in order: the first asks to stop, another ends the process.
//!
//! Owns the signals of such a command. They are taken by a thread that waits for them, and blocked everywhere else: an
//! interrupted wait would end the executor's loop.

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use node::StopSignal;

use crate::exit::{Failure, Outcome};
use crate::output;

/// What shells make of a process that SIGINT ended.
const INTERRUPTED: i32 = 130;
/// What comes sooner after the first is the same wish: `timeout` signals the process, and then its group. As `serve` has it.
const SECOND_SIGNAL_AFTER: Duration = Duration::from_millis(500);

/// What is said on standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// At the first signal.
    pub(crate) first: Option<&'static str>,
    /// At the one that ends the process.
    pub(crate) second: Option<&'static str>,
}

/// All by which one asks a process to end; a terminal that is closed is one of them.
pub(crate) const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// From here on these signals ask to stop. Call it before any thread is started: threads inherit what is blocked.
pub(crate) fn watch(signals: &[Signal], words: Words) -> Outcome<StopSignal> {
    let mut caught = SigSet::empty();
    for signal in signals {
        caught.add(*signal);
    }
    caught.thread_block().map_err(|errno| Failure::io("signals", &errno.into()))?;
    let stop = StopSignal::default();
    let asked = stop.clone();
    let say = |word: Option<&str>| {
        if let Some(word) = word {
            output::say(word);
        }
    };
    let wait = move || {
        if caught.wait().is_err() {
            return;
        }
        say(words.first);
        asked.request();
        let first = Instant::now();
        while caught.wait().is_ok() {
            if first.elapsed() >= SECOND_SIGNAL_AFTER {
                say(words.second);
                std::process::exit(INTERRUPTED);
            }
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map_err(|error| Failure::io("signal thread", &error))?;
    Ok(stop)
}
