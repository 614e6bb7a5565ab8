//! The broker's world: seeds pass, one seed is one trace, and every rule of the broker that is switched off is noticed.

mod promises;

use sim::broker_world::BrokerWorld;

/// Seeds of the quick run; CI runs more by the binary.
const SEEDS: u64 = 160;

/// Seeds that each mutant may take: a few times what the slowest to catch needs.
const MUTANT_SEEDS_MAX: u64 = 4_000;

#[test]
fn clients_are_told_the_truth_for_every_seed() {
    let report = promises::seeds_pass::<BrokerWorld>(SEEDS);
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
        ("connections that moved", stats.moved_connections),
        ("log starts moved", stats.deletions),
        ("reads of what is gone", stats.gone),
        ("settings changed", stats.alterations),
        ("entry sets", stats.journal_sets),
        ("groups replayed", stats.groups_replayed),
    ] {
        assert!(count > 10, "{name}: {count} in {report}");
    }
}

#[test]
fn one_seed_is_one_trace() {
    promises::one_seed_is_one_trace::<BrokerWorld>();
}

#[test]
fn every_mutant_is_caught() {
    promises::every_mutant_is_caught::<BrokerWorld>(MUTANT_SEEDS_MAX);
}
