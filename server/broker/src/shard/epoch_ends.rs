//! OffsetForLeaderEpoch across cores.
//!
//! Owns LO-4 for the partitions of this core, and the way to those of others.

use std::rc::Rc;

use record::ShardIndex;

use crate::calls::{EpochEndAnswer, EpochEndCall, EpochEndEntry, Reply, Request};
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::FetchRefusal;
use crate::shard::{Owned, Shard};

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Finds where leader epochs ended, wherever the partitions are; the request takes `memory` until all owners have answered.
    /// Order: ascending by slot.
    pub(crate) async fn epoch_ends(
        &self,
        entries: Vec<(ShardIndex, EpochEndEntry)>,
        memory: Option<&Rc<HeldMemory>>,
    ) -> Vec<EpochEndAnswer> {
        let request = |entries| Request::EpochEnds(EpochEndCall { entries });
        let (mine, forwarded) = self.forward(entries, memory, |entry| entry.slot, request).await;
        let mut answers = self.epoch_ends_here(&EpochEndCall { entries: mine }).await;
        for part in forwarded {
            let theirs = |reply| match reply {
                Reply::EpochEnds(theirs) => Some(theirs),
                _ => None,
            };
            let missing = |slot, _| EpochEndAnswer { slot, outcome: Err(FetchRefusal::NotLeader) };
            answers.extend(part.answers(theirs, missing).await);
        }
        answers.sort_by_key(|answer| answer.slot);
        answers
    }

    /// Finds where leader epochs ended in partitions that this core owns.
    pub async fn epoch_ends_here(&self, call: &EpochEndCall) -> Vec<EpochEndAnswer> {
        let find = |entry: &EpochEndEntry| match self.owned(entry.partition) {
            Owned::Here(driver) => {
                driver.check_epoch(entry.current_leader_epoch)?;
                Ok(driver.log().end_offset_for(entry.leader_epoch))
            }
            Owned::Offline(detail) => Err(FetchRefusal::Storage { detail }),
            Owned::NotHere => Err(FetchRefusal::NotLeader),
        };
        let mut answers = Vec::with_capacity(call.entries.len());
        for entry in &call.entries {
            answers.push(EpochEndAnswer { slot: entry.slot, outcome: find(entry) });
            self.platform().yield_if_needed().await;
        }
        answers
    }
}
