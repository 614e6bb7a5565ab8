//! The world's own promises: seeds pass, one seed is one trace, and every rule that is switched off is noticed.

mod promises;

use sim::log_world::LogWorld;

/// Seeds of the quick run; CI runs ten thousand by the binary.
const SEEDS: u64 = 300;

/// Seeds that each mutant may take.
const MUTANT_SEEDS_MAX: u64 = 10_000;

#[test]
fn logs_keep_their_promises_for_every_seed() {
    let report = promises::seeds_pass::<LogWorld>(SEEDS);
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
        ("entry sets", stats.journal_sets),
        ("groups replayed", stats.groups_replayed),
    ] {
        assert!(count > 20, "{name}: {count} in {report}");
    }
}

#[test]
fn one_seed_is_one_trace() {
    promises::one_seed_is_one_trace::<LogWorld>();
}

#[test]
fn every_mutant_is_caught() {
    promises::every_mutant_is_caught::<LogWorld>(MUTANT_SEEDS_MAX);
}
