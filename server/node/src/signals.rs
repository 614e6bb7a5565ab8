//! SIGTERM, SIGINT and SIGHUP as something to wait for.
//!
//! Owns the handlers while a node runs. The handler only counts on an eventfd, which is all that a signal allows. The threads
//! of the cores block these signals: an interrupted wait would end glommio's loop with a panic. SIGHUP is the terminal that
//! goes; where it was ignored before (nohup) it stays so. Must never be used by two nodes of one process at once.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

const CAUGHT: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// Where the handler counts; -1 while no node runs.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
/// The number of the last signal, for the log.
static LAST: AtomicI32 = AtomicI32::new(0);

extern "C" fn count(signal: libc::c_int) {
    LAST.store(signal, Ordering::Relaxed);
    let errno = Errno::last_raw();
    let one = 1_u64.to_ne_bytes();
    // SAFETY: write(2) may be called in a handler; `one` is 8 readable bytes, and the descriptor is an eventfd or -1, which
    // fails harmlessly.
    unsafe { libc::write(DESCRIPTOR.load(Ordering::Relaxed), one.as_ptr().cast(), one.len()) };
    // The interrupted thread may be about to look at its own.
    Errno::set_raw(errno);
}

/// The handlers, installed until dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    counter: EventFd,
    before: Vec<(Signal, SigAction)>,
}

impl Signals {
    pub(crate) fn catch() -> Result<Self, Errno> {
        let counter = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        DESCRIPTOR.store(counter.as_fd().as_raw_fd(), Ordering::Relaxed);
        let action =
            SigAction::new(SigHandler::Handler(count), SaFlags::SA_RESTART, SigSet::empty());
        let mut signals = Self { counter, before: Vec::new() };
        for signal in CAUGHT.into_iter().filter(|signal| !keeps_going(*signal)) {
            // SAFETY: `count` calls nothing that a signal handler may not call.
            let before = unsafe { sigaction(signal, &action) }?;
            signals.before.push((signal, before));
        }
        Ok(signals)
    }

    /// How many arrived since the last call, and the last one's name.
    pub(crate) fn take(&self) -> (u64, &'static str) {
        let count = self.counter.read().unwrap_or(0);
        let name = Signal::try_from(LAST.load(Ordering::Relaxed)).map_or("signal", Signal::as_str);
        (count, name)
    }
}

/// Whether whoever started this process wants it to outlive its terminal.
fn keeps_going(signal: Signal) -> bool {
    if signal != Signal::SIGHUP {
        return false;
    }
    let mut found = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no action is given, so that none is changed, and `found` is writable memory of the size that the system fills in.
    let result = unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), found.as_mut_ptr()) };
    // SAFETY: it was zeroed, which is a valid action, and perhaps filled in since.
    result == 0 && unsafe { found.assume_init() }.sa_sigaction == libc::SIG_IGN
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counter.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: this is the action that stood before ours.
            let _ = unsafe { sigaction(*signal, before) };
        }
        DESCRIPTOR.store(-1, Ordering::Relaxed);
    }
}

/// Keeps the signals away from the threads started while it lives.
#[derive(Debug)]
pub(crate) struct Blocked {
    before: SigSet,
}

impl Blocked {
    pub(crate) fn here() -> Result<Self, Errno> {
        let before = SigSet::thread_get_mask()?;
        let mask: SigSet = CAUGHT.into_iter().collect();
        mask.thread_block()?;
        Ok(Self { before })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}
