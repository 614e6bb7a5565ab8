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

use crate::calls::{
    ConnectionNumber, EntrySlot, ProduceAnswer, ProduceCall, ProduceEntry, Reply, Request,
};
use crate::drivers::admission::{Admitted, Terms};
use crate::drivers::partition::{Landed, PartitionDriver, PendingAck};
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::mutant::{Mutant, Rule};
use crate::platform::{Mesh, MeshIndex, Platform};
use crate::refusal::ProduceRefusal;
use crate::shard::forwarding::{Forwarded, NoAnswer};
use crate::shard::lines::PlaceInLine;
use crate::shard::{Owned, Shard};
use crate::sync::join;

/// A Produce whose appends have been made, or are on their way to their owners in order.
pub struct ProduceUnderWay<M: Mesh<Message>> {
    local: Vec<(EntrySlot, Result<PendingAck, ProduceRefusal>)>,
    forwarded: Vec<Forwarded<M>>,
    mutant: Mutant,
}

/// A forwarded call with its places in the lines of its partitions.
pub(super) struct LinedUp {
    from: MeshIndex,
    terms: Terms,
    checking: PlaceInLine<MeshIndex>,
    entries: Vec<(PlaceInLine<TopicPartition>, ProduceEntry)>,
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Appends what this core owns and sends the rest to its owners, who keep `memory` until they have answered.
    pub(crate) async fn begin_produce(
        &self,
        terms: &Terms,
        (connection, entries): (ConnectionNumber, Vec<(ShardIndex, ProduceEntry)>),
        memory: Option<&Rc<HeldMemory>>,
    ) -> ProduceUnderWay<M> {
        let Terms { acks, timeout, deadline, zstd } = *terms;
        let call_of = |entries| ProduceCall { connection, acks, timeout, deadline, zstd, entries };
        let request = |entries| Request::Produce(call_of(entries));
        let (mine, forwarded) = self.forward(entries, memory, |entry| entry.slot, request).await;
        let local = self.append_all(terms, mine).await;
        ProduceUnderWay { local, forwarded, mutant: self.state.mutant }
    }

    async fn append_all(
        &self,
        terms: &Terms,
        entries: Vec<ProduceEntry>,
    ) -> Vec<(EntrySlot, Result<PendingAck, ProduceRefusal>)> {
        let mut appended = Vec::new();
        for entry in entries {
            let outcome = match self.admit(terms, &entry, || {}).await {
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
        before_wait: impl FnOnce(),
    ) -> Result<(Rc<PartitionDriver<P>>, Admitted), ProduceRefusal> {
        match self.owned(entry.partition) {
            Owned::Here(_) if self.is_disk_low() => Err(self.refuse_for_disk()),
            Owned::Here(driver) => {
                let admitted = driver.admit(&entry.records, terms, before_wait).await?;
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
        let ProduceCall { connection: _, acks, timeout, deadline, zstd, entries } = call;
        let line_up = |entry: ProduceEntry| (self.append_lines.join(entry.partition), entry);
        let entries = entries.into_iter().map(line_up).collect();
        let checking = self.check_lines.join(from);
        LinedUp { from, terms: Terms { acks, timeout, deadline, zstd }, checking, entries }
    }

    /// The append half of a call that has its places. What comes from one core is checked one after the other, which takes
    /// memory and time; it is appended side by side, so that nothing waits for the disk of another partition. Dropped before it
    /// ends, it has appended what it has appended, and no more.
    pub(super) async fn begin_forwarded_produce(&self, call: LinedUp) -> ProduceUnderWay<M> {
        let LinedUp { from, terms, checking, entries } = call;
        checking.turn().await;
        let mut checking = Some(checking);
        let mut admitted = Vec::with_capacity(entries.len());
        for (place, entry) in entries {
            if checking.is_none() {
                let again = self.check_lines.join(from);
                again.turn().await;
                checking = Some(again);
            }
            // A batch that waits for batches of other connections is not what those behind it should wait for.
            let leave = || drop(checking.take());
            admitted.push((place, entry.slot, self.admit(&terms, &entry, leave).await));
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
        ProduceUnderWay { local: appended.into_inner(), forwarded: Vec::new(), mutant }
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
        for part in self.forwarded {
            let theirs = |reply| match reply {
                Reply::Produce(mut theirs) => {
                    if let [first, .., last] = theirs.as_mut_slice()
                        && self.mutant.lacks(Rule::ProduceAnswersInTheirSlots)
                    {
                        std::mem::swap(&mut first.slot, &mut last.slot);
                    }
                    Some(theirs)
                }
                _ => None,
            };
            let missing = |slot, why| {
                let refusal = match why {
                    NoAnswer::Failed => ProduceRefusal::Failed,
                    NoAnswer::Leaving => ProduceRefusal::NotLeader,
                };
                ProduceAnswer { slot, outcome: Err(refusal) }
            };
            answers.extend(part.answers(theirs, missing).await);
        }
        answers.sort_by_key(|answer| answer.slot);
        answers
    }
}
