//! What a check prints: one line a rule, and under a broken one every place and the cure.
//!
//! Owns the counts and the exit code. It never decides whether something is a violation.

use std::fmt;
use std::process::ExitCode;

/// One place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// File below the root of the repository, with a line where one is known.
    pub(crate) place: String,
    /// The fact.
    pub(crate) fact: String,
}

impl Violation {
    /// A violation in a file as a whole.
    pub(crate) fn new(place: impl Into<String>, fact: impl Into<String>) -> Self {
        Self { place: place.into(), fact: fact.into() }
    }

    /// A violation at `line`, counted from 1.
    pub(crate) fn at(path: &str, line: usize, fact: impl Into<String>) -> Self {
        Self { place: format!("{path}:{line}"), fact: fact.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.fact)
    }
}

/// The tally of one run.
#[derive(Debug)]
pub(crate) struct Report {
    passed: usize,
    failed: usize,
}

impl Report {
    /// Nothing checked yet.
    pub(crate) fn new() -> Self {
        Self { passed: 0, failed: 0 }
    }

    /// Prints the outcome of one rule.
    pub(crate) fn add(&mut self, name: &str, promise: &str, cure: &str, found: &[Violation]) {
        if found.is_empty() {
            self.passed += 1;
            println!("ok      {name:<16} {promise}");
            return;
        }
        self.failed += 1;
        println!("FAILED  {name:<16} {promise}");
        for violation in found {
            println!("          {violation}");
        }
        println!("          next: {cure}");
    }

    /// Prints the tally and gives the exit code: 1 where a rule is broken.
    pub(crate) fn finish(self) -> ExitCode {
        println!("{} rules hold, {} broken", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
