//! ListOffsets across cores.
//!
//! Owns LO-1 and LO-2 for the partitions of this core, and the way to those of others.

use std::rc::Rc;

use partition::{Isolation, Latest};
use record::{LeaderEpoch, Offset, ShardIndex, Timestamp};

use crate::calls::{
    ListOffsetsAnswer, ListOffsetsCall, ListOffsetsEntry, ListedOffset, OffsetTarget, Reply,
    Request,
};
use crate::drivers::partition::PartitionDriver;
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::{FetchRefusal, ListOffsetsRefusal};
use crate::shard::{Owned, Shard};

/// No such offset: an answer, not an error.
const NOTHING: ListedOffset = ListedOffset {
    timestamp: Timestamp::NONE,
    offset: Offset(-1),
    leader_epoch: LeaderEpoch::NONE,
};

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Looks up offsets wherever the partitions are; the request takes `memory` until all owners have answered. Order: ascending
    /// by slot.
    pub(crate) async fn list_offsets(
        &self,
        isolation: Isolation,
        entries: Vec<(ShardIndex, ListOffsetsEntry)>,
        memory: Option<&Rc<HeldMemory>>,
    ) -> Vec<ListOffsetsAnswer> {
        let call_of = |entries| ListOffsetsCall { isolation, entries };
        let request = |entries| Request::ListOffsets(call_of(entries));
        let (mine, forwarded) = self.forward(entries, memory, |entry| entry.slot, request).await;
        let mut answers = self.list_offsets_here(&call_of(mine)).await;
        for part in forwarded {
            let theirs = |reply| match reply {
                Reply::ListOffsets(theirs) => Some(theirs),
                _ => None,
            };
            let missing = |slot, _| {
                let outcome = Err(FetchRefusal::NotLeader.into());
                ListOffsetsAnswer { slot, outcome }
            };
            answers.extend(part.answers(theirs, missing).await);
        }
        answers.sort_by_key(|answer| answer.slot);
        answers
    }

    /// Looks up offsets of partitions that this core owns.
    pub async fn list_offsets_here(&self, call: &ListOffsetsCall) -> Vec<ListOffsetsAnswer> {
        let mut answers = Vec::with_capacity(call.entries.len());
        for entry in &call.entries {
            let outcome = match self.owned(entry.partition) {
                Owned::Here(driver) => look_up(&driver, entry, call.isolation).await,
                Owned::Offline(detail) => Err(FetchRefusal::Storage { detail }.into()),
                Owned::NotHere => Err(FetchRefusal::NotLeader.into()),
            };
            answers.push(ListOffsetsAnswer { slot: entry.slot, outcome });
            self.platform().yield_if_needed().await;
        }
        answers
    }
}

async fn look_up<P: Platform>(
    driver: &PartitionDriver<P>,
    entry: &ListOffsetsEntry,
    isolation: Isolation,
) -> Result<ListedOffset, ListOffsetsRefusal> {
    driver.check_epoch(entry.current_leader_epoch)?;
    let view = driver.read_view(isolation);
    let at = |offset| ListedOffset {
        timestamp: Timestamp::NONE,
        offset,
        leader_epoch: driver.log().epoch_at(offset).unwrap_or(LeaderEpoch::NONE),
    };
    let found = match entry.target {
        OffsetTarget::Latest => match view.latest {
            Latest::Known(offset) => {
                return Ok(ListedOffset { leader_epoch: view.leader_epoch, ..at(offset) });
            }
            Latest::NotYet => return Err(ListOffsetsRefusal::NotAvailableYet),
        },
        OffsetTarget::Earliest => return Ok(at(view.log_start)),
        OffsetTarget::LatestTiered => return Ok(NOTHING),
        OffsetTarget::MaxTimestamp => driver.log().offset_of_max_timestamp(view.end).await,
        OffsetTarget::Timestamp(target) => {
            driver.log().offset_for_timestamp(target, view.end).await
        }
    };
    let found = found.map_err(|error| FetchRefusal::of_read(error, driver.name()))?;
    Ok(found.map_or(NOTHING, |found| ListedOffset {
        timestamp: found.timestamp,
        offset: found.offset,
        leader_epoch: found.leader_epoch,
    }))
}
