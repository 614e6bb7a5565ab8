//! The parts of a request that other cores own.
//!
//! Owns the split by owner, the calls, and what becomes of the part of a core that does not answer. It knows nothing of what is
//! asked: every request that names partitions is split alike.

use std::rc::Rc;

use commitlog::Executor;
use record::ShardIndex;

use crate::calls::{EntrySlot, Reply, Request};
use crate::memory::HeldMemory;
use crate::mesh_call::{Message, PendingCall};
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;

/// A part that is on its way to its owner.
pub(super) struct Forwarded<M: Mesh<Message>> {
    slots: Vec<EntrySlot>,
    call: PendingCall<M>,
}

/// Why an owner says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// It is going down: the client looks for the leader and tries again.
    Leaving,
    /// A bug ended the service of the part.
    Failed,
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Sends the entries of other cores to their owners, who keep `memory` until they have answered; gives back this core's. Order:
    /// entries of one owner keep that of the request.
    pub(super) async fn forward<Entry>(
        &self,
        entries: Vec<(ShardIndex, Entry)>,
        memory: Option<&Rc<HeldMemory>>,
        slot_of: impl Fn(&Entry) -> EntrySlot,
        request: impl Fn(Vec<Entry>) -> Request,
    ) -> (Vec<Entry>, Vec<Forwarded<M>>) {
        let mut mine = Vec::new();
        let mut forwarded = Vec::new();
        for (owner, entries) in group_by_owner(self.platform(), entries).await {
            if owner == self.index() {
                mine = entries;
                continue;
            }
            let slots = entries.iter().map(&slot_of).collect();
            self.metrics().forwarded_requests.increment();
            let memory = memory.cloned();
            let call = self.caller().call_with(owner.into(), request(entries), memory).await;
            forwarded.push(Forwarded { slots, call });
        }
        (mine, forwarded)
    }
}

impl<M: Mesh<Message>> Forwarded<M> {
    /// The owner's answers, as `theirs` finds them in its reply; where there is not one for each entry, what `missing` says for
    /// each: who pairs them by their order must not give one entry the answer of another.
    pub(super) async fn answers<Answer>(
        self,
        theirs: impl FnOnce(Reply) -> Option<Vec<Answer>>,
        missing: impl Fn(EntrySlot, NoAnswer) -> Answer,
    ) -> Vec<Answer> {
        let why = match self.call.reply().await {
            Ok(Reply::Failed) => NoAnswer::Failed,
            Ok(reply) => match theirs(reply) {
                Some(answers) if answers.len() == self.slots.len() => return answers,
                Some(_) | None => NoAnswer::Leaving,
            },
            Err(_) => NoAnswer::Leaving,
        };
        self.slots.into_iter().map(|slot| missing(slot, why)).collect()
    }
}

/// Entries by owner, each owner's in the order of the request.
pub(super) async fn group_by_owner<Entry>(
    executor: &impl Executor,
    entries: Vec<(ShardIndex, Entry)>,
) -> Vec<(ShardIndex, Vec<Entry>)> {
    let mut groups: Vec<(ShardIndex, Vec<Entry>)> = Vec::new();
    for (owner, entry) in entries {
        match groups.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, group)) => group.push(entry),
            None => groups.push((owner, vec![entry])),
        }
        executor.yield_if_needed().await;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use commitlog::{LocalTask, TaskClass};
    use futures_lite::future::block_on;

    #[derive(Clone)]
    struct NoTasks;

    impl Executor for NoTasks {
        fn spawn(&self, _: TaskClass, _: LocalTask) {}
        async fn yield_if_needed(&self) {}
    }

    #[test]
    fn each_owners_entries_keep_the_order_of_the_request() {
        let entries = [(1, 'a'), (0, 'b'), (1, 'c'), (2, 'd'), (0, 'e')]
            .map(|(owner, entry)| (ShardIndex(owner), entry));
        let groups = block_on(group_by_owner(&NoTasks, entries.to_vec()));
        let expected = [(1, vec!['a', 'c']), (0, vec!['b', 'e']), (2, vec!['d'])]
            .map(|(owner, group)| (ShardIndex(owner), group));
        assert_eq!(groups, expected);
    }
}
