//! DescribeProducers across cores.
//!
//! Owns the list of producers of this core's partitions, the way to those of others, and the bound on them all: a partition
//! remembers thousands, and a request of a few bytes may name it thousands of times. One list is made at a time.

use std::rc::Rc;

use partition::{ActiveProducer, PRODUCERS_MAX};
use record::ShardIndex;

use crate::calls::{EntrySlot, ProducersAnswer, ProducersCall, ProducersEntry, Reply, Request};
use crate::config::Config;
use crate::drivers::partition::PartitionDriver;
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::{DescribeProducersRefusal, FetchRefusal};
use crate::shard::forwarding::group_by_owner;
use crate::shard::{Owned, Shard};

/// What a producer takes at most while it is found, translated and encoded.
const LISTED_BYTES: usize = 200;
/// Producers between two polite pauses: about 10 us.
const STEP: usize = 256;

/// Producers in one answer: those of a partition that remembers as many as it may, and those who come while it is listed, for
/// others who are forgotten meanwhile. 36 bytes each on the wire: 0.9 MB, or 4.5 MB where it may remember 100,000.
fn listed_max(config: &Config) -> usize {
    config.producer_count_max.max(PRODUCERS_MAX) / 4 * 5
}

/// What they take.
pub(super) fn listing_bytes(config: &Config) -> usize {
    LISTED_BYTES * listed_max(config)
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Lists producers, wherever the partitions are; the request takes `memory` until all owners have answered. Owners are asked
    /// one after the other: each may list what the ones before it have left. Order: ascending by slot. Besides gives what the
    /// list may take until the answer has left, which is waited for where others are being answered.
    pub(crate) async fn producers(
        &self,
        entries: Vec<(ShardIndex, ProducersEntry)>,
        memory: Option<&Rc<HeldMemory>>,
    ) -> (Vec<ProducersAnswer>, HeldMemory) {
        let config = &self.state.config;
        let listing = self.listing_memory.take(listing_bytes(config)).await;
        let mut answers = Vec::with_capacity(entries.len());
        let mut room = listed_max(config);
        for (owner, entries) in group_by_owner(self.platform(), entries).await {
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
        (answers, listing)
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
        let mut answers = Vec::with_capacity(call.entries.len());
        for entry in &call.entries {
            let outcome = match self.owned(entry.partition) {
                Owned::Here(driver) => self.producers_of(&driver, room).await,
                Owned::Offline(detail) => Err(FetchRefusal::Storage { detail }.into()),
                Owned::NotHere => Err(FetchRefusal::NotLeader.into()),
            };
            room -= outcome.as_ref().map_or(0, Vec::len);
            answers.push(ProducersAnswer { slot: entry.slot, outcome });
            self.platform().yield_if_needed().await;
        }
        answers
    }

    /// All producers of one partition; refused where they are more than `room`.
    async fn producers_of(
        &self,
        driver: &PartitionDriver<P>,
        room: usize,
    ) -> Result<Vec<ActiveProducer>, DescribeProducersRefusal> {
        if driver.producer_count() > room {
            return Err(DescribeProducersRefusal::TooMany);
        }
        let mut found: Vec<ActiveProducer> = Vec::with_capacity(driver.producer_count());
        loop {
            let after = found.last().map(|last| last.id);
            let more = driver.active_producers(after, STEP);
            let is_last = more.len() < STEP;
            found.extend(more);
            // Some may have come in the pauses.
            if found.len() > room {
                return Err(DescribeProducersRefusal::TooMany);
            }
            if is_last {
                return Ok(found);
            }
            self.platform().yield_if_needed().await;
        }
    }
}
