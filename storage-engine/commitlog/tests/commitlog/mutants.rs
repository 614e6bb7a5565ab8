//! Negative controls: with its rule switched off, the log loses what these tests would otherwise find.

use commitlog::mutant::{Mutant, Rule};
use record::Offset;

use crate::support::world::{DIRECTORY, Settings, World};

fn without(rule: Rule) -> Settings {
    Settings { mutant: Mutant::without(rule), ..Settings::default() }
}

/// Appends durably, loses power, and says how many records are left of ten.
fn left_after_a_crash(settings: Settings) -> Offset {
    let mut world = World::new(settings);
    world.fill(10, 1, 100);
    world.crash().log.ends().durable()
}

#[test]
fn without_the_sync_records_are_lost() {
    assert_eq!(left_after_a_crash(Settings::default()), Offset(10));
    assert_eq!(left_after_a_crash(without(Rule::AckBeforeSync)), Offset(0));
}

#[test]
fn without_the_directory_sync_records_are_lost() {
    assert_eq!(left_after_a_crash(without(Rule::NoDirectorySync)), Offset(0));
}

#[test]
fn without_the_cut_a_second_restart_loses_records() {
    for (settings, end) in [(Settings::default(), 12), (without(Rule::AppendAfterGap), 10)] {
        let mut world = World::new(settings);
        world.fill(10, 1, 100);
        let mut world = world.crash();
        world.fill(2, 1, 100);
        let world = world.crash();
        assert_eq!(world.log.ends().durable(), Offset(end));
    }
}

#[test]
fn with_a_stale_checkpoint_damage_ends_the_log() {
    for (settings, end) in [(Settings::default(), 20), (without(Rule::StaleCheckpointWins), 15)] {
        let mut world = World::new(settings);
        world.fill(10, 1, 100);
        world.checkpoint();
        world.settings.shard = "1";
        let mut world = world.crash();
        world.fill(10, 1, 100);
        world.checkpoint();
        let position: usize = world.model[..15].iter().map(Vec::len).sum();
        let path = format!("{DIRECTORY}/{:020}.log", 0);
        world.disk.edit(&path, |bytes| bytes[position + 70] ^= 1);
        world.settings.shard = "0";
        assert_eq!(world.crash().log.ends().durable(), Offset(end));
    }
}

#[test]
fn without_its_list_damage_is_refused_and_nobody_is_told() {
    for (settings, listed) in [(Settings::default(), 1), (without(Rule::DamageNotListed), 0)] {
        let mut world = World::new(settings);
        world.fill(10, 1, 100);
        world.checkpoint();
        let position: usize = world.model[..5].iter().map(Vec::len).sum();
        let path = format!("{DIRECTORY}/{:020}.log", 0);
        world.disk.edit(&path, |bytes| bytes[position + 70] ^= 1);
        let mut world = world.crash();
        // The tail cache of the life before is gone: this read meets the disk.
        world.fill(1, 1, 100);
        let range = Offset(5)..Offset(6);
        assert_eq!(world.read_at(Offset(5), 1), Err(commitlog::ReadError::Damaged { range }));
        assert_eq!(world.store.damage().len(), listed);
    }
}
