//! The world's own promises: seeds pass, one seed is one trace, and every rule that is switched off is noticed.

use sim::log_world::{LogWorld, WorldMutant};
use sim::mutants;
use sim::runner::{Range, Stop, World as _, run_many, run_one};
use sim::trace::Keep;

/// Seeds of the quick run; CI runs ten thousand by the binary.
const SEEDS: u64 = 300;

/// Seeds that each mutant may take: a few times what the slowest to catch needs.
const MUTANT_SEEDS_MAX: u64 = 3_000;

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn logs_keep_their_promises_for_every_seed() {
    let range = Range { from: 0, seeds: SEEDS, threads: threads() };
    let report = run_many::<LogWorld>(range, WorldMutant::default(), Stop::AtEnd, |_, _| {});
    let failures: String = report.failures.iter().map(|failure| format!("{failure}\n")).collect();
    assert!(report.failures.is_empty(), "{failures}{report}");
    // A world in which nothing happens would pass as well.
    let stats = report.stats;
    for (name, count) in [
        ("crashes", stats.disk.crashes),
        ("torn sectors", stats.disk.sectors_torn),
        ("errors", stats.disk.errors),
        ("full disks", stats.disk.refused),
        ("records checked", stats.acked_records_checked),
        ("rotten bits", stats.bits_rotten),
        ("damage reported", stats.damage_isolated),
        ("spoiled indexes", stats.indexes_spoiled),
        ("spoiled small files", stats.small_files_spoiled),
        ("duplicates", stats.duplicates),
        ("look-ups", stats.lookups),
        ("logs resumed", stats.resumed),
        ("log starts moved", stats.starts_moved),
        ("segments removed", stats.segments_removed),
        ("clean stops", stats.clean_stops),
    ] {
        assert!(count > 20, "{name}: {count} in {report}");
    }
}

#[test]
fn one_seed_is_one_trace() {
    for seed in [1, 2, 3, 4, 5] {
        let hash =
            || run_one::<LogWorld>(seed, WorldMutant::default(), Keep::Hash).0.map(|one| one.hash);
        let first = hash();
        assert!(first.is_some(), "seed {seed} panics");
        assert_eq!(first, hash(), "seed {seed}");
    }
}

#[test]
fn every_mutant_is_caught() {
    for named in LogWorld::mutants() {
        let range = Range { from: 0, seeds: MUTANT_SEEDS_MAX, threads: threads() };
        let found = mutants::hunt::<LogWorld>(&named, range);
        let found =
            found.unwrap_or_else(|| panic!("{} escaped {MUTANT_SEEDS_MAX} seeds", named.name));
        println!("{}: {found}", named.name);
    }
}
