//! A panic inside a world: what is said of it, and when.
//!
//! Owns the process's panic hook. A panic in a step of a log aborts the process (`commitlog::abort_on_panic`) before
//! anything can catch it, unless the feature `mutants` lets it go on. So the hook itself says everything that a report
//! needs: the trace if it is kept, then seed, step, text and the command that replays it. Panics of other threads go to
//! whatever hook was there before.

use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

use crate::runner::{Failure, WorldName};
use crate::trace::Trace;

/// Whether a panic is printed when it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loudness {
    /// It is: the process may end with it.
    Loud,
    /// It is not: a hunted mutant is expected to panic, and never aborts.
    Silent,
}

/// The world that a thread runs.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Which world.
    pub world: WorldName,
    /// Its seed.
    pub seed: u64,
    /// The rule that is off in it, by the name that replays it.
    pub mutant: Option<&'static str>,
    /// Its trace: says the step, and holds the lines if they are kept.
    pub trace: Rc<Trace>,
    /// See [`Loudness`].
    pub loudness: Loudness,
}

thread_local! {
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Runs `world` with a panic told as its failure.
///
/// Errors  the panic, where it unwinds. Where it aborts, it has been printed and nothing returns.
pub fn watch<T>(watched: &Watched, world: impl FnOnce() -> T) -> Result<T, Failure> {
    install();
    WATCHED.set(Some(watched.clone()));
    let result = catch_unwind(AssertUnwindSafe(world));
    WATCHED.set(None);
    result.map_err(|_| LAST.take().unwrap_or_else(|| watched.failure("panic".to_owned())))
}

impl Watched {
    fn failure(&self, what: String) -> Failure {
        let (world, seed, mutant) = (self.world, self.seed, self.mutant);
        Failure { seed, step: self.trace.step(), world, mutant, what }
    }
}

/// Once a process: hooks that come and go would take each other away.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let watched = WATCHED.with_borrow(Clone::clone);
            match watched {
                Some(watched) => tell(&watched, info),
                None => before(info),
            }
        }));
    });
}

fn tell(watched: &Watched, info: &PanicHookInfo<'_>) {
    let text = info.payload_as_str().unwrap_or("panic without a text");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let failure = watched.failure(format!("panic at {place}: {text}"));
    if watched.loudness == Loudness::Loud {
        // A closed pipe must not panic in here: the text would be lost with it.
        let mut out = std::io::stdout().lock();
        for line in watched.trace.take_lines() {
            let _ = writeln!(out, "{line}");
        }
        let _ = out.flush();
        let _ = writeln!(std::io::stderr(), "{failure}");
    }
    LAST.set(Some(failure));
}
