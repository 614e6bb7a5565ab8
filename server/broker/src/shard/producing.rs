//! Produce across cores: appends here and elsewhere, in the order of the connection, answers when all are safe.
//!
//! Owns the split of a Produce between this core and the others. The append half runs in the connection's order and never waits
//! for safety; the answer half waits and never appends. A forwarded call runs through the same two halves on the owner.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use futures_lite::future::or;
use record::{ShardIndex, TopicPartition};

use crate::calls::{EntrySlot, ProduceAnswer, ProduceCall, ProduceEntry, Reply, Request};
use crate::drivers::admission::{Admitted, Terms};
use crate::drivers::partition::{Landed, PartitionDriver, PendingAck};
use crate::memory::HeldMemory;
use crate::mesh_call::{Message, PendingCall};
use crate::mutant::{Mutant, Rule};
use crate::platform::{Mesh, MeshIndex, Platform};
use crate::refusal::ProduceRefusal;
use crate::shard::lines::PlaceInLine;
use crate::shard::{Owned, Shard};
use crate::sync::join;

/// A Produce whose appends have been made, or are on their way to their owners in order.
pub struct ProduceUnderWay<M: Mesh<Message>> {
    local: Vec<(EntrySlot, Result<PendingAck, ProduceRefusal>)>,
    remote: Vec<RemoteProduce<M>>,
    mutant: Mutant,
}

/// A forwarded call with its places in the lines of its partitions.
pub(super) struct LinedUp {
    terms: Terms,
    checking: PlaceInLine<MeshIndex>,
    entries: Vec<(PlaceInLine<TopicPartition>, ProduceEntry)>,
}

/// The part of a Produce that another core owns.
struct RemoteProduce<M: Mesh<Message>> {
    slots: Vec<EntrySlot>,
    call: PendingCall<M>,
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Appends what this core owns and sends the rest to its owners, who keep `memory` until they have answered.
    pub(crate) async fn begin_produce(
        &self,
        terms: &Terms,
        entries: Vec<(ShardIndex, ProduceEntry)>,
        memory: Option<&Rc<HeldMemory>>,
    ) -> ProduceUnderWay<M> {
        let (mine, others): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(owner, _)| *owner == self.index());
        let mut remote = Vec::new();
        for (owner, entries) in group_by_owner(others) {
            let slots = entries.iter().map(|entry| entry.slot).collect();
            let Terms { acks, timeout, deadline, zstd } = *terms;
            let call = ProduceCall { acks, timeout, deadline, zstd, entries };
            self.metrics().forwarded_requests.increment();
            let request = Request::Produce(call);
            let call = self.caller().call_with(owner.into(), request, memory.cloned()).await;
            remote.push(RemoteProduce { slots, call });
        }
        let local = self.append_all(terms, mine.into_iter().map(|(_, entry)| entry)).await;
        ProduceUnderWay { local, remote, mutant: self.state.mutant }
    }

    async fn append_all(
        &self,
        terms: &Terms,
        entries: impl Iterator<Item = ProduceEntry>,
    ) -> Vec<(EntrySlot, Result<PendingAck, ProduceRefusal>)> {
        let mut appended = Vec::new();
        for entry in entries {
            let outcome = match self.admit(terms, &entry).await {
                Ok((driver, admitted)) => self.append(terms, &driver, &admitted).await,
                Err(refusal) => Err(refusal),
            };
            appended.push((entry.slot, outcome));
        }
        appended
    }

    async fn admit(
        &self,
        terms: &Terms,
        entry: &ProduceEntry,
    ) -> Result<(Rc<PartitionDriver<P>>, Admitted), ProduceRefusal> {
        match self.owned(entry.partition) {
            Owned::Here(_) if self.is_disk_low() => Err(self.refuse_for_disk()),
            Owned::Here(driver) => {
                let admitted = driver.admit(&entry.records, terms).await?;
                Ok((driver, admitted))
            }
            Owned::Offline(detail) => Err(ProduceRefusal::Storage { detail }),
            Owned::NotHere => Err(ProduceRefusal::NotLeader),
        }
    }

    async fn append(
        &self,
        terms: &Terms,
        driver: &PartitionDriver<P>,
        admitted: &Admitted,
    ) -> Result<PendingAck, ProduceRefusal> {
        let pending = driver.append(admitted, terms).await?;
        self.count_append(pending.landed(), admitted.batch.len());
        Ok(pending)
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

    /// Takes the place of a call that another core forwarded in the lines of its partitions: it is appended behind those that
    /// came before it, and waits for no others.
    pub(super) fn line_up(&self, from: MeshIndex, call: ProduceCall) -> LinedUp {
        let ProduceCall { acks, timeout, deadline, zstd, entries } = call;
        let line_up = |entry: ProduceEntry| (self.append_lines.join(entry.partition), entry);
        let entries = entries.into_iter().map(line_up).collect();
        let checking = self.check_lines.join(from);
        LinedUp { terms: Terms { acks, timeout, deadline, zstd }, checking, entries }
    }

    /// The append half of a call that has its places. What comes from one core is checked one after the other, which takes
    /// memory and time; it is appended side by side, so that nothing waits for the disk of another partition.
    pub(super) async fn begin_forwarded_produce(&self, call: LinedUp) -> ProduceUnderWay<M> {
        let LinedUp { terms, checking, entries } = call;
        checking.turn().await;
        let mut admitted = Vec::with_capacity(entries.len());
        for (place, entry) in entries {
            admitted.push((place, entry.slot, self.admit(&terms, &entry).await));
        }
        drop(checking);
        let appended = RefCell::new(Vec::with_capacity(admitted.len()));
        let appending = admitted.into_iter().map(|(place, slot, admitted)| {
            let (terms, appended) = (&terms, &appended);
            let append: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(async move {
                let outcome = match admitted {
                    Ok((driver, admitted)) => {
                        self.append_in_turn(terms, &place, &driver, &admitted).await
                    }
                    Err(refusal) => Err(refusal),
                };
                drop(place);
                appended.borrow_mut().push((slot, outcome));
            });
            append
        });
        join(appending.collect()).await;
        let mutant = self.state.mutant;
        ProduceUnderWay { local: appended.into_inner(), remote: Vec::new(), mutant }
    }

    async fn append_in_turn(
        &self,
        terms: &Terms,
        place: &PlaceInLine<TopicPartition>,
        driver: &PartitionDriver<P>,
        admitted: &Admitted,
    ) -> Result<PendingAck, ProduceRefusal> {
        let turn = async {
            place.turn().await;
            Ok(())
        };
        or(turn, terms.overdue(self.platform())).await?;
        self.append(terms, driver, admitted).await
    }
}

impl<M: Mesh<Message>> ProduceUnderWay<M> {
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
                Ok(Reply::Produce(mut theirs)) => {
                    if let [first, .., last] = theirs.as_mut_slice()
                        && self.mutant.lacks(Rule::ProduceAnswersInTheirSlots)
                    {
                        std::mem::swap(&mut first.slot, &mut last.slot);
                    }
                    answers.extend(theirs);
                }
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
