//! OffsetForLeaderEpoch across cores.
//!
//! Owns LO-4 for the partitions of this core, and the way to those of others.

use record::ShardIndex;

use crate::calls::{EpochEndAnswer, EpochEndCall, EpochEndEntry, Reply, Request};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::FetchRefusal;
use crate::shard::producing::group_by_owner;
use crate::shard::{Owned, Shard};

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Finds where leader epochs ended, wherever the partitions are. Order: ascending by slot.
    pub async fn epoch_ends(
        &self,
        entries: Vec<(ShardIndex, EpochEndEntry)>,
    ) -> Vec<EpochEndAnswer> {
        let mut answers = Vec::with_capacity(entries.len());
        for (owner, entries) in group_by_owner(entries) {
            let slots: Vec<_> = entries.iter().map(|entry| entry.slot).collect();
            let call = EpochEndCall { entries };
            if owner == self.index() {
                answers.extend(self.epoch_ends_here(&call));
                continue;
            }
            self.metrics().forwarded_requests.increment();
            match self.caller().ask(owner.into(), Request::EpochEnds(call)).await {
                Ok(Reply::EpochEnds(theirs)) => answers.extend(theirs),
                Ok(_) | Err(_) => answers.extend(
                    slots
                        .into_iter()
                        .map(|slot| EpochEndAnswer { slot, outcome: Err(FetchRefusal::NotLeader) }),
                ),
            }
        }
        answers.sort_by_key(|answer| answer.slot);
        answers
    }

    /// Finds where leader epochs ended in partitions that this core owns.
    pub fn epoch_ends_here(&self, call: &EpochEndCall) -> Vec<EpochEndAnswer> {
        let find = |entry: &EpochEndEntry| match self.owned(entry.partition) {
            Owned::Here(driver) => {
                driver.check_epoch(entry.current_leader_epoch)?;
                Ok(driver.log().end_offset_for(entry.leader_epoch))
            }
            Owned::Offline(detail) => Err(FetchRefusal::Storage { detail }),
            Owned::NotHere => Err(FetchRefusal::NotLeader),
        };
        let answers = call.entries.iter();
        answers.map(|entry| EpochEndAnswer { slot: entry.slot, outcome: find(entry) }).collect()
    }
}
