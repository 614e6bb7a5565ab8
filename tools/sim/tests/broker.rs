//! The broker's world: seeds pass, one seed is one trace, and every rule of the broker that is switched off is noticed.

use broker::mutant::Mutant;
use sim::broker_world::BrokerWorld;
use sim::mutants;
use sim::runner::{Range, Stop, World as _, run_many, run_one};
use sim::trace::Keep;

/// Seeds of the quick run; CI runs more by the binary.
const SEEDS: u64 = 100;

/// Seeds that each mutant may take: a few times what the slowest to catch needs.
const MUTANT_SEEDS_MAX: u64 = 1_000;

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn clients_are_told_the_truth_for_every_seed() {
    let range = Range { from: 0, seeds: SEEDS, threads: threads() };
    let report = run_many::<BrokerWorld>(range, Mutant::default(), Stop::AtEnd, |_, _| {});
    let failures: String = report.failures.iter().map(|failure| format!("{failure}\n")).collect();
    assert!(report.failures.is_empty(), "{failures}{report}");
    // A world in which nothing happens would pass as well.
    let stats = report.stats;
    for (name, count) in [
        ("crashes", stats.disk.crashes),
        ("torn sectors", stats.disk.sectors_torn),
        ("errors", stats.disk.errors),
        ("clean stops", stats.clean_stops),
        ("cut connections", stats.cut_connections),
        ("retries", stats.retries),
        ("acknowledged batches", stats.acked_batches),
        ("batches shown", stats.fetched_batches),
        ("batches read back", stats.verified_batches),
        ("look-ups", stats.lookups),
        ("clients that do not read", stats.sluggards),
        ("cores that stand still", stats.still_cores),
    ] {
        assert!(count > 10, "{name}: {count} in {report}");
    }
}

#[test]
fn one_seed_is_one_trace() {
    for seed in [1, 2, 3, 4, 5] {
        let hash =
            || run_one::<BrokerWorld>(seed, Mutant::default(), Keep::Hash).0.map(|one| one.hash);
        let first = hash();
        assert!(first.is_some(), "seed {seed} panics");
        assert_eq!(first, hash(), "seed {seed}");
    }
}

#[test]
fn every_mutant_is_caught() {
    for named in BrokerWorld::mutants() {
        let range = Range { from: 0, seeds: MUTANT_SEEDS_MAX, threads: threads() };
        let found = mutants::hunt::<BrokerWorld>(&named, range);
        let found =
            found.unwrap_or_else(|| panic!("{} escaped {MUTANT_SEEDS_MAX} seeds", named.name));
        println!("{}: {found}", named.name);
    }
}
