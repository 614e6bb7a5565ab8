//! Produce across cores: appends here and elsewhere, in the order of the connection, answers when all are safe.
//!
//! Owns the split of a Produce between this core and the others. The append half runs in the connection's order and never waits
//! for safety; the answer half waits and never appends. A forwarded call runs through the same two halves on the owner.

use std::rc::Rc;

use record::ShardIndex;

use crate::calls::{EntrySlot, ProduceAnswer, ProduceCall, ProduceEntry, Reply, Request};
use crate::drivers::admission::Terms;
use crate::drivers::partition::{Landed, PendingAck};
use crate::memory::HeldMemory;
use crate::mesh_call::{Message, PendingCall};
use crate::platform::{Mesh, Platform};
use crate::refusal::ProduceRefusal;
use crate::shard::{Owned, Shard};

/// A Produce whose appends have been made, or are on their way to their owners in order.
pub struct ProduceUnderWay {
    local: Vec<(EntrySlot, Result<PendingAck, ProduceRefusal>)>,
    remote: Vec<RemoteProduce>,
}

/// The part of a Produce that another core owns.
struct RemoteProduce {
    slots: Vec<EntrySlot>,
    call: PendingCall,
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Appends what this core owns and sends the rest to its owners, who keep `memory` until they have answered.
    pub(crate) async fn begin_produce(
        &self,
        terms: &Terms,
        entries: Vec<(ShardIndex, ProduceEntry)>,
        memory: Option<&Rc<HeldMemory>>,
    ) -> ProduceUnderWay {
        let (mine, others): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(owner, _)| *owner == self.index());
        let mut remote = Vec::new();
        for (owner, entries) in group_by_owner(others) {
            let slots = entries.iter().map(|entry| entry.slot).collect();
            let call =
                ProduceCall { acks: terms.acks, timeout: terms.timeout, zstd: terms.zstd, entries };
            self.metrics().forwarded_requests.increment();
            let request = Request::Produce(call);
            let call = self.caller().call_with(owner.into(), request, memory.cloned()).await;
            remote.push(RemoteProduce { slots, call });
        }
        let local = self.append_all(terms, mine.into_iter().map(|(_, entry)| entry)).await;
        ProduceUnderWay { local, remote }
    }

    async fn append_all(
        &self,
        terms: &Terms,
        entries: impl Iterator<Item = ProduceEntry>,
    ) -> Vec<(EntrySlot, Result<PendingAck, ProduceRefusal>)> {
        let mut appended = Vec::new();
        for entry in entries {
            let outcome = match self.owned(entry.partition) {
                Owned::Here(_) if self.is_disk_low() => Err(self.refuse_for_disk()),
                Owned::Here(driver) => driver.produce(&entry.records, terms).await,
                Owned::Offline(detail) => Err(ProduceRefusal::Storage { detail }),
                Owned::NotHere => Err(ProduceRefusal::NotLeader),
            };
            if let Ok(pending) = &outcome {
                self.count_append(pending.landed(), entry.records.len());
            }
            appended.push((entry.slot, outcome));
        }
        appended
    }

    fn count_append(&self, landed: Landed, bytes: usize) {
        let metrics = self.metrics();
        match landed {
            Landed::Appended { record_count } => {
                metrics.appended_batches.increment();
                metrics.appended_records.add(u64::from(record_count));
                metrics.appended_bytes.add(bytes as u64);
            }
            Landed::Duplicate => metrics.duplicate_batches.increment(),
        }
    }

    /// The append half of a call that another core forwarded.
    pub async fn begin_forwarded_produce(&self, call: ProduceCall) -> ProduceUnderWay {
        let terms = Terms { acks: call.acks, timeout: call.timeout, zstd: call.zstd };
        let local = self.append_all(&terms, call.entries.into_iter()).await;
        ProduceUnderWay { local, remote: Vec::new() }
    }
}

impl ProduceUnderWay {
    /// The answers, once every batch is as safe as its producer asked for, or known not to become so in time. Order: ascending
    /// by slot.
    pub async fn answers(self) -> Vec<ProduceAnswer> {
        let mut answers = Vec::with_capacity(self.local.len());
        for (slot, appended) in self.local {
            let outcome = match appended {
                Ok(pending) => pending.outcome().await,
                Err(refusal) => Err(refusal),
            };
            answers.push(ProduceAnswer { slot, outcome });
        }
        for RemoteProduce { slots, call } in self.remote {
            match call.reply().await {
                Ok(Reply::Produce(theirs)) => answers.extend(theirs),
                Ok(Reply::Failed) => answers.extend(refuse_all(slots, &ProduceRefusal::Failed)),
                // The owner is going down: the client looks for the leader and tries again.
                Ok(_) | Err(_) => answers.extend(refuse_all(slots, &ProduceRefusal::NotLeader)),
            }
        }
        answers.sort_by_key(|answer| answer.slot);
        answers
    }
}

fn refuse_all(slots: Vec<EntrySlot>, refusal: &ProduceRefusal) -> Vec<ProduceAnswer> {
    let refused = |slot| ProduceAnswer { slot, outcome: Err(refusal.clone()) };
    slots.into_iter().map(refused).collect()
}

/// Entries by owner, each owner's in the order of the request.
pub(super) fn group_by_owner<Entry>(
    entries: Vec<(ShardIndex, Entry)>,
) -> Vec<(ShardIndex, Vec<Entry>)> {
    let mut groups: Vec<(ShardIndex, Vec<Entry>)> = Vec::new();
    for (owner, entry) in entries {
        match groups.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, group)) => group.push(entry),
            None => groups.push((owner, vec![entry])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owners_entries_keep_the_order_of_the_request() {
        let entries = [(1, 'a'), (0, 'b'), (1, 'c'), (2, 'd'), (0, 'e')]
            .map(|(owner, entry)| (ShardIndex(owner), entry));
        let groups = group_by_owner(entries.to_vec());
        let expected = [(1, vec!['a', 'c']), (0, vec!['b', 'e']), (2, vec!['d'])]
            .map(|(owner, group)| (ShardIndex(owner), group));
        assert_eq!(groups, expected);
    }
}
