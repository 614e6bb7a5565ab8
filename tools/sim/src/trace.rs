//! What happened, in order: a running hash always, and the lines themselves when a seed is replayed.
//!
//! Owns both. Every disk operation and every decision of a world is noted here; two runs of one seed must end with one
//! hash, so nothing may be noted that depends on an address, the clock or a randomly ordered map.

use std::cell::{Cell, RefCell};

/// FNV-1a's offset basis and prime, 64 bits.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Most lines kept: a replay of one seed has some ten thousand.
const LINES_MAX: usize = 2_000_000;

/// Whether the lines are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The hash only.
    Hash,
    /// The hash and every line.
    Lines,
}

/// The trace of one world.
#[derive(Debug)]
pub struct Trace {
    hash: Cell<u64>,
    step: Cell<u64>,
    lines: Option<RefCell<Vec<String>>>,
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub fn new(keep: Keep) -> Self {
        let lines = (keep == Keep::Lines).then(|| RefCell::new(Vec::new()));
        Self { hash: Cell::new(BASIS), step: Cell::new(0), lines }
    }

    /// The hash of everything noted so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// The step that the next notes belong to.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step.get()
    }

    /// Moves to the next step of the executor.
    pub(crate) fn advance(&self) -> u64 {
        self.step.set(self.step.get() + 1);
        self.step.get()
    }

    /// Notes one event: what it is about and up to two numbers.
    pub fn note(&self, kind: &'static str, subject: &str, numbers: [u64; 2]) {
        let mut hash = self.hash.get();
        for byte in kind.bytes().chain(subject.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        for number in numbers {
            hash = (hash ^ number).wrapping_mul(PRIME).rotate_left(23);
        }
        self.hash.set(hash);
        if let Some(lines) = &self.lines {
            let mut lines = lines.borrow_mut();
            if lines.len() < LINES_MAX {
                let [first, second] = numbers;
                lines.push(format!("{:>7} {kind:<12} {subject} {first} {second}", self.step.get()));
            }
        }
    }

    /// The lines kept so far, taken out.
    pub fn take_lines(&self) -> Vec<String> {
        self.lines.as_ref().map(RefCell::take).unwrap_or_default()
    }
}
