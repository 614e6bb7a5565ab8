//! What every world promises, whatever it simulates: its seeds pass, one seed is one trace, and its mutants are caught.
//!
//! Owns these three; what a world must have seen on the way is for its own tests to say.

use sim::mutants;
use sim::runner::{Range, Report, Stop, World, run_many, run_one};
use sim::trace::Keep;

fn range(seeds: u64) -> Range {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Range { from: 0, seeds, threads }
}

/// Runs so many seeds, of which none may fail; gives what they did.
pub(crate) fn seeds_pass<W: World>(seeds: u64) -> Report<W::Stats> {
    let report = run_many::<W>(range(seeds), W::Mutant::default(), Stop::AtEnd, |_, _| {});
    let failures: String = report.failures.iter().map(|failure| format!("{failure}\n")).collect();
    assert!(report.failures.is_empty(), "{failures}{report}");
    report
}

/// Runs some seeds twice.
pub(crate) fn one_seed_is_one_trace<W: World>() {
    for seed in [1, 2, 3, 4, 5] {
        let hash = || run_one::<W>(seed, W::Mutant::default(), Keep::Hash).0.map(|one| one.hash);
        let first = hash();
        assert!(first.is_some(), "seed {seed} panics");
        assert_eq!(first, hash(), "seed {seed}");
    }
}

/// Each mutant must be caught within so many seeds.
pub(crate) fn every_mutant_is_caught<W: World>(seeds_max: u64) {
    for named in W::mutants() {
        let found = mutants::hunt::<W>(&named, range(seeds_max));
        let found = found.unwrap_or_else(|| panic!("{} escaped {seeds_max} seeds", named.name));
        println!("{}: {found}", named.name);
    }
}
