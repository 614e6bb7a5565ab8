//! DescribeProducers across cores.
//!
//! Owns the list of producers of this core's partitions, the way to those of others, and the bound on them all: a partition
//! remembers up to 20,000, and a request of a few bytes may name it thousands of times.

use std::rc::Rc;

use record::ShardIndex;

use crate::calls::{EntrySlot, ProducersAnswer, ProducersCall, ProducersEntry, Reply, Request};
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::{DescribeProducersRefusal, FetchRefusal};
use crate::shard::forwarding::group_by_owner;
use crate::shard::{Owned, Shard};

/// Producers in one answer: five partitions that are full, 4 MB on the wire.
const LISTED_MAX: usize = 5 * partition::PRODUCERS_MAX;

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Lists producers, wherever the partitions are; the request takes `memory` until all owners have answered. Owners are asked
    /// one after the other: each may list what the ones before it have left. Order: ascending by slot.
    pub(crate) async fn producers(
        &self,
        entries: Vec<(ShardIndex, ProducersEntry)>,
        memory: Option<&Rc<HeldMemory>>,
    ) -> Vec<ProducersAnswer> {
        let mut answers = Vec::with_capacity(entries.len());
        let mut room = LISTED_MAX;
        for (owner, entries) in group_by_owner(entries) {
            let slots: Vec<_> = entries.iter().map(|entry| entry.slot).collect();
            let call = ProducersCall { entries, room };
            let found = if owner == self.index() {
                self.producers_here(&call).await
            } else {
                self.producers_there(owner, (call, slots), memory).await
            };
            let listed = |answer: &ProducersAnswer| answer.outcome.as_ref().map_or(0, Vec::len);
            room = room.saturating_sub(found.iter().map(listed).sum());
            answers.extend(found);
        }
        answers.sort_by_key(|answer| answer.slot);
        answers
    }

    async fn producers_there(
        &self,
        owner: ShardIndex,
        (call, slots): (ProducersCall, Vec<EntrySlot>),
        memory: Option<&Rc<HeldMemory>>,
    ) -> Vec<ProducersAnswer> {
        self.metrics().forwarded_requests.increment();
        let request = Request::Producers(call);
        match self.caller().ask_with(owner.into(), request, memory.cloned()).await {
            Ok(Reply::Producers(theirs)) => theirs,
            Ok(_) | Err(_) => {
                let moved = |slot| {
                    let outcome = Err(FetchRefusal::NotLeader.into());
                    ProducersAnswer { slot, outcome }
                };
                slots.into_iter().map(moved).collect()
            }
        }
    }

    /// Lists the producers of partitions that this core owns.
    pub(crate) async fn producers_here(&self, call: &ProducersCall) -> Vec<ProducersAnswer> {
        let mut room = call.room;
        let mut find = |entry: &ProducersEntry| match self.owned(entry.partition) {
            Owned::Here(driver) => {
                let too_many = DescribeProducersRefusal::TooMany;
                let found = driver.active_producers(room).ok_or(too_many)?;
                room -= found.len();
                Ok(found)
            }
            Owned::Offline(detail) => Err(FetchRefusal::Storage { detail }.into()),
            Owned::NotHere => Err(FetchRefusal::NotLeader.into()),
        };
        let mut answers = Vec::with_capacity(call.entries.len());
        for entry in &call.entries {
            answers.push(ProducersAnswer { slot: entry.slot, outcome: find(entry) });
            self.platform().yield_if_needed().await;
        }
        answers
    }
}
