//! Fetch across cores: read what is there, wait for more where that is not enough, give the bytes out in the request's order.
//!
//! Owns FE-2 and FE-3: when a Fetch is answered, and how its byte budget is spent. Record bytes of this core stay where they are;
//! those of another core are copied once, by their owner, since an I/O buffer cannot leave its core.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use commitlog::{AtLeastOneBatch, RecordSlice};
use futures_lite::future::or;
use partition::Isolation;
use record::{Offset, ShardIndex, TopicPartition};

use crate::calls::{
    EntrySlot, FetchAnswer, FetchCall, FetchEntry, Fetched, Reply, Request, WaitCall, Waited,
};
use crate::connection::Activity;
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::mutant::Rule;
use crate::platform::{Mesh, Platform};
use crate::refusal::FetchRefusal;
use crate::send_path::Part;
use crate::shard::forwarding::group_by_owner;
use crate::shard::{Owned, Shard};
use crate::sync::Event;

/// The longest wait that is left behind on another core when a Fetch is answered without it.
const REMOTE_WAIT_MAX: Duration = Duration::from_secs(1);

/// How long a Fetch that was woken and still finds too little lets more arrive before it looks again: doubles from the first to
/// the second. Without it a client that asks for more than there will be has everything read again at every append.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(1);
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(64);

/// How long a Fetch may wait though others wait for memory that its connection holds: what Kafka's clients ask for by default. A
/// client may ask for weeks, and with as little as 70 bytes keep large requests behind it that nobody else has room beside.
const HURRIED_WAIT_MAX: Duration = Duration::from_millis(500);

/// A Fetch whose partitions have been found.
#[derive(Debug, Clone)]
pub struct FetchPlan {
    /// What may be seen.
    pub isolation: Isolation,
    /// Answer at once with at least so many bytes.
    pub bytes_min: usize,
    /// At most so many bytes in all, one whole batch excepted.
    pub bytes_max: usize,
    /// How long to wait for `bytes_min`.
    pub wait_max: Duration,
    /// The partitions and their owners, in the order of the request.
    pub entries: Vec<(ShardIndex, FetchEntry)>,
    /// What the request takes in memory, where that is counted.
    pub(crate) memory: Option<Rc<HeldMemory>>,
    /// When the request had come: how long a client may be waited for counts from there, however many are before it.
    pub(crate) received: Duration,
    /// Says when others wait for what the connection holds.
    pub(crate) activity: Rc<Activity>,
}

/// The most that one reading of a plan may bring into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Appetite {
    /// Every owner reads with the whole budget; what others spent first is read for nothing.
    bytes: usize,
    owner_count: usize,
}

/// What one reading of a plan goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Portion {
    /// Each owner reads at most so many bytes, one whole batch excepted.
    owner_bytes: usize,
    /// The answer holds at most so many, likewise.
    bytes_max: usize,
    /// With so many there is no more waiting.
    enough: usize,
}

impl FetchPlan {
    /// What to read with so much memory.
    fn portion(&self, appetite: Appetite, memory_bytes: usize) -> Portion {
        if memory_bytes >= appetite.bytes {
            let (all, enough) = (self.bytes_max, self.bytes_min.min(self.bytes_max));
            return Portion { owner_bytes: all, bytes_max: all, enough };
        }
        // Nobody knows which owner has records: more than its part none can be waited for to bring.
        let owner_bytes = self.bytes_max.min(memory_bytes / appetite.owner_count);
        let enough = self.bytes_min.min(owner_bytes.max(1));
        Portion { owner_bytes, bytes_max: self.bytes_max.min(memory_bytes), enough }
    }

    /// From when on it ends if others wait for what its connection holds.
    fn hurry_at(&self) -> Duration {
        self.received.saturating_add(HURRIED_WAIT_MAX)
    }

    fn appetite(&self) -> Appetite {
        let mut owners: BTreeMap<ShardIndex, usize> = BTreeMap::new();
        for (owner, entry) in &self.entries {
            let wanted = owners.entry(*owner).or_default();
            *wanted = wanted.saturating_add(entry.bytes_max).min(self.bytes_max);
        }
        Appetite {
            bytes: owners.values().fold(0, |sum: usize, wanted| sum.saturating_add(*wanted)),
            owner_count: owners.len().max(1),
        }
    }
}

/// The answers to a plan, in its order.
pub(super) type FetchAnswers<P> = Vec<FetchAnswer<Part<<P as Platform>::Disk>>>;

type RemoteWait = Pin<Box<dyn Future<Output = Waited>>>;

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Serves a Fetch: at once where FE-2 says so, else when there is enough, else when its time is over. Where there is less
    /// memory than it might fill, there is enough when an owner has filled its part.
    pub(crate) async fn fetch(&self, plan: &FetchPlan) -> (FetchAnswers<P>, HeldMemory) {
        let deadline = self.platform().monotonic().saturating_add(plan.wait_max);
        let appetite = plan.appetite();
        let mut pause = Duration::ZERO;
        let mut is_over = false;
        loop {
            // Held until the last owner has answered: those that come meanwhile must find more than room for a batch.
            let mut memory = self.fetch_memory.note_share(appetite.bytes);
            let portion = plan.portion(appetite, memory.bytes());
            let answers = self.read_plan(plan, portion.owner_bytes).await;
            let now = self.platform().monotonic();
            let is_hurried = plan.hurry_at() <= now && plan.activity.is_waited_for();
            is_over |= is_hurried || now >= deadline || self.stopping().is_raised();
            if is_over || is_enough(portion.enough, &answers) {
                let answers = spend(portion.bytes_max, answers);
                memory.resize(bytes_of(&answers));
                return (answers, memory);
            }
            let left = deadline.saturating_sub(now);
            let seen = seen_ends(plan.isolation, &answers);
            // What was read holds buffers in memory, and the wait may be as long as the client likes.
            drop((answers, memory));
            let parked = self.metrics().fetches_parked.hold();
            let more = self.wait_for_more(plan, &seen, left);
            let waited = or(self.hurried(plan, left), more).await;
            drop(parked);
            match waited {
                Waited::LookAgain => {}
                // Nothing came, at least from the core that was asked for a part of the time: there is no one to let catch up.
                Waited::TimeOver => continue,
                Waited::NoRoom | Waited::Hurried => is_over = true,
            }
            if !pause.is_zero() {
                let left = deadline.saturating_sub(self.platform().monotonic());
                let pausing = self.platform().sleep(pause.min(left));
                or(pausing, self.stopping().raised()).await;
            }
            pause = (pause * 2).clamp(LOOK_AGAIN_MIN, LOOK_AGAIN_MAX);
        }
    }

    /// Ends when a Fetch may wait no longer because others wait for what its connection holds; `left` is what it would wait.
    async fn hurried(&self, plan: &FetchPlan, left: Duration) -> Waited {
        let granted = plan.hurry_at().saturating_sub(self.platform().monotonic());
        if left <= granted {
            // It is over before that.
            return std::future::pending().await;
        }
        if !granted.is_zero() {
            self.platform().sleep(granted).await;
        }
        plan.activity.hurried().await;
        Waited::Hurried
    }

    /// Reads every partition once, each core with the whole budget: the budget is spent in the request's order afterwards.
    async fn read_plan(&self, plan: &FetchPlan, bytes_max: usize) -> FetchAnswers<P> {
        let call_of = |entries| FetchCall { isolation: plan.isolation, bytes_max, entries };
        let request = |entries| Request::Fetch(call_of(entries));
        let (entries, memory) = (plan.entries.clone(), plan.memory.as_ref());
        let (mine, forwarded) = self.forward(entries, memory, |entry| entry.slot, request).await;
        let mut answers: FetchAnswers<P> =
            self.read_here(&call_of(mine)).await.into_iter().map(local_answer).collect();
        for part in forwarded {
            let theirs = |reply| match reply {
                Reply::Fetch(mut theirs) => {
                    if let [first, .., last] = theirs.as_mut_slice()
                        && self.state.mutant.lacks(Rule::FetchAnswersInTheirSlots)
                    {
                        std::mem::swap(&mut first.slot, &mut last.slot);
                    }
                    Some(theirs)
                }
                _ => None,
            };
            let missing = |slot, _| FetchAnswer { slot, outcome: Err(FetchRefusal::NotLeader) };
            answers.extend(part.answers(theirs, missing).await.into_iter().map(remote_answer));
        }
        answers.sort_by_key(|answer| answer.slot);
        answers
    }

    /// Reads what this core owns, in order, within the budget and at least one batch.
    async fn read_here(&self, call: &FetchCall) -> Vec<FetchAnswer<RecordSlice<P::Disk>>> {
        let mut left = call.bytes_max;
        let mut minimum = AtLeastOneBatch::Yes;
        let mut answers = Vec::with_capacity(call.entries.len());
        for entry in &call.entries {
            let budget = left.min(entry.bytes_max);
            let outcome = match self.owned(entry.partition) {
                Owned::Here(driver) => driver.fetch(entry, call.isolation, budget, minimum).await,
                Owned::Offline(detail) => Err(FetchRefusal::Storage { detail }),
                Owned::NotHere => Err(FetchRefusal::NotLeader),
            };
            if let Ok(fetched) = &outcome
                && fetched.bytes > 0
            {
                left = left.saturating_sub(fetched.bytes);
                minimum = AtLeastOneBatch::No;
                self.metrics().fetched_bytes.add(fetched.bytes as u64);
            }
            answers.push(FetchAnswer { slot: entry.slot, outcome });
            self.platform().yield_if_needed().await;
        }
        answers
    }

    /// A read that another core forwarded: the record bytes are copied, once.
    pub async fn forwarded_fetch(&self, call: &FetchCall) -> Vec<FetchAnswer<Bytes>> {
        let answers = self.read_here(call).await;
        let mut copied: Vec<FetchAnswer<Bytes>> = Vec::with_capacity(answers.len());
        for FetchAnswer { slot, outcome } in answers {
            let outcome = match outcome {
                Ok(fetched) => Ok(self.copy_records(fetched).await),
                Err(refusal) => Err(refusal),
            };
            copied.push(FetchAnswer { slot, outcome });
        }
        self.metrics().fetch_forward_copied_bytes.add(bytes_of(&copied) as u64);
        copied
    }

    async fn copy_records(&self, mut fetched: Fetched<RecordSlice<P::Disk>>) -> Fetched<Bytes> {
        let mut copy = BytesMut::with_capacity(fetched.bytes);
        for slice in std::mem::take(&mut fetched.records) {
            copy.extend_from_slice(&slice);
            self.platform().yield_if_needed().await;
        }
        let records = if copy.is_empty() { Vec::new() } else { vec![copy.freeze()] };
        fetched.with_records(records)
    }

    async fn wait_for_more(
        &self,
        plan: &FetchPlan,
        seen: &BTreeMap<EntrySlot, Offset>,
        left: Duration,
    ) -> Waited {
        let mut positions: Vec<(ShardIndex, (TopicPartition, Offset))> = Vec::new();
        for (owner, entry) in &plan.entries {
            if let Some(end) = seen.get(&entry.slot) {
                positions.push((*owner, (entry.partition, *end)));
            }
        }
        let (mine, others): (Vec<_>, Vec<_>) =
            positions.into_iter().partition(|(owner, _)| *owner == self.index());
        let mut waits: Vec<RemoteWait> = Vec::new();
        for (owner, positions) in group_by_owner(self.platform(), others).await {
            let duration = left.min(REMOTE_WAIT_MAX);
            let call = WaitCall { isolation: plan.isolation, positions, duration };
            let waiting = self.caller().try_wait(owner.into(), call).await;
            let Some(pending) = waiting else { return Waited::NoRoom };
            waits.push(Box::pin(async move {
                match pending.reply().await {
                    Ok(Reply::Woken(waited)) => waited,
                    // The owner is going down: reading again says so.
                    Ok(_) | Err(_) => Waited::LookAgain,
                }
            }));
        }
        let mine = mine.into_iter().map(|(_, position)| position).collect();
        let call = WaitCall { isolation: plan.isolation, positions: mine, duration: left };
        or(self.wait_here(&call), any_of(waits)).await
    }

    /// Ends when one of the partitions can show more, when one is not here any more, or when the time is over.
    pub async fn wait_here(&self, call: &WaitCall) -> Waited {
        let event = Event::new();
        let woken = event.listen();
        let mut parked = Vec::with_capacity(call.positions.len());
        for (partition, seen_end) in &call.positions {
            match self.owned(*partition) {
                Owned::Here(driver) => match driver.park(call.isolation, *seen_end, &event) {
                    Some(guard) => parked.push(guard),
                    None => return Waited::NoRoom,
                },
                Owned::Offline(_) | Owned::NotHere => event.notify(),
            }
            self.platform().yield_if_needed().await;
        }
        let stop = async {
            or(self.platform().sleep(call.duration), self.stopping().raised()).await;
        };
        let woken = async {
            woken.await;
            Waited::LookAgain
        };
        let stop = async {
            stop.await;
            Waited::TimeOver
        };
        or(woken, stop).await
    }
}

fn seen_end<Records>(isolation: Isolation, fetched: &Fetched<Records>) -> Offset {
    match isolation {
        Isolation::ReadUncommitted => fetched.high_watermark,
        Isolation::ReadCommitted => fetched.last_stable_offset,
    }
}

/// Where the reader stands in each partition that could be read.
fn seen_ends<Records>(
    isolation: Isolation,
    answers: &[FetchAnswer<Records>],
) -> BTreeMap<EntrySlot, Offset> {
    let seen = answers.iter().filter_map(|answer| {
        let fetched = answer.outcome.as_ref().ok()?;
        Some((answer.slot, seen_end(isolation, fetched)))
    });
    seen.collect()
}

/// Record bytes in these answers.
fn bytes_of<Records>(answers: &[FetchAnswer<Records>]) -> usize {
    let fetched = answers.iter().filter_map(|answer| answer.outcome.as_ref().ok());
    fetched.map(|fetched| fetched.bytes).sum()
}

/// FE-2: whether a Fetch is answered without waiting any longer. What a budget has cut counts as if it had filled it: no record
/// that is still to come would bring more.
fn is_enough<Records>(bytes_min: usize, answers: &[FetchAnswer<Records>]) -> bool {
    let mut bytes: usize = 0;
    for answer in answers {
        match &answer.outcome {
            Ok(fetched) if fetched.diverging.is_none() => {
                bytes = bytes.saturating_add(fetched.available_bytes);
            }
            Ok(_) | Err(_) => return true,
        }
    }
    answers.is_empty() || bytes >= bytes_min
}

/// FE-3: gives the budget out in the request's order; the first batch there is always goes whole.
fn spend<Records>(
    bytes_max: usize,
    mut answers: Vec<FetchAnswer<Records>>,
) -> Vec<FetchAnswer<Records>> {
    let mut left = bytes_max;
    let mut is_first = true;
    for answer in &mut answers {
        let Ok(fetched) = &mut answer.outcome else { continue };
        if fetched.bytes == 0 {
            continue;
        }
        if is_first || fetched.bytes <= left {
            left = left.saturating_sub(fetched.bytes);
            is_first = false;
        } else {
            // Read for nothing: another core spent the budget first. The client asks again from here.
            fetched.records.clear();
            fetched.bytes = 0;
        }
    }
    answers
}

fn local_answer<D: commitlog::Disk>(answer: FetchAnswer<RecordSlice<D>>) -> FetchAnswer<Part<D>> {
    map_records(answer, Part::Records)
}

fn remote_answer<D: commitlog::Disk>(answer: FetchAnswer<Bytes>) -> FetchAnswer<Part<D>> {
    map_records(answer, Part::Bytes)
}

fn map_records<From, To>(answer: FetchAnswer<From>, wrap: impl Fn(From) -> To) -> FetchAnswer<To> {
    let FetchAnswer { slot, outcome } = answer;
    let outcome = outcome.map(|mut fetched| {
        let records = std::mem::take(&mut fetched.records).into_iter().map(wrap).collect();
        fetched.with_records(records)
    });
    FetchAnswer { slot, outcome }
}

/// Ends when the first of `futures` does; never, if there is none.
async fn any_of(mut futures: Vec<RemoteWait>) -> Waited {
    std::future::poll_fn(|context| {
        for future in &mut futures {
            if let Poll::Ready(waited) = future.as_mut().poll(context) {
                return Poll::Ready(waited);
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(slot: u32, bytes: usize) -> FetchAnswer<u8> {
        let records = if bytes == 0 { Vec::new() } else { vec![1] };
        let fetched = Fetched {
            high_watermark: Offset(9),
            last_stable_offset: Offset(9),
            log_start: Offset(0),
            diverging: None,
            records,
            bytes,
            available_bytes: bytes,
        };
        FetchAnswer { slot: EntrySlot(slot), outcome: Ok(fetched) }
    }

    /// One that ends before what there is to see, for want of budget.
    fn cut_answer(slot: u32, bytes: usize, budget: usize) -> FetchAnswer<u8> {
        let mut answer = answer(slot, bytes);
        if let Ok(fetched) = &mut answer.outcome {
            fetched.available_bytes = budget;
        }
        answer
    }

    #[test]
    fn a_plan_wants_as_much_as_all_its_owners_may_read() {
        let check = |bytes_max, entries: &[(u16, usize)], bytes, owner_count| {
            let entries = (0..).zip(entries).map(|(slot, (owner, bytes_max))| {
                let topic_id = record::TopicId::METADATA;
                let partition =
                    TopicPartition { topic_id, partition: record::PartitionIndex(slot) };
                let entry = FetchEntry {
                    slot: EntrySlot(slot.unsigned_abs()),
                    partition,
                    offset: Offset(0),
                    bytes_max: *bytes_max,
                    current_leader_epoch: record::LeaderEpoch::NONE,
                    last_fetched_epoch: record::LeaderEpoch::NONE,
                };
                (ShardIndex(*owner), entry)
            });
            let plan = FetchPlan {
                isolation: Isolation::ReadUncommitted,
                bytes_min: 1,
                bytes_max,
                wait_max: Duration::ZERO,
                entries: entries.collect(),
                memory: None,
                received: Duration::ZERO,
                activity: Activity::new(Duration::ZERO),
            };
            assert_eq!(plan.appetite(), Appetite { bytes, owner_count });
        };
        check(50, &[(0, 10), (0, 20)], 30, 1);
        check(50, &[(0, 40), (0, 40)], 50, 1);
        check(50, &[(0, 40), (1, 40), (0, 40), (2, 5)], 95, 3);
        check(50, &[], 0, 1);
        check(usize::MAX, &[(0, usize::MAX), (1, usize::MAX)], usize::MAX, 2);
    }

    #[test]
    fn with_less_memory_than_it_might_fill_a_plan_waits_for_what_one_owner_can_bring() {
        let plan = |bytes_min, bytes_max| FetchPlan {
            isolation: Isolation::ReadUncommitted,
            bytes_min,
            bytes_max,
            wait_max: Duration::ZERO,
            entries: Vec::new(),
            memory: None,
            received: Duration::ZERO,
            activity: Activity::new(Duration::ZERO),
        };
        let check = |plan: FetchPlan, memory_bytes, owner_bytes, bytes_max, enough| {
            let appetite = Appetite { bytes: 300, owner_count: 6 };
            let expected = Portion { owner_bytes, bytes_max, enough };
            assert_eq!(plan.portion(appetite, memory_bytes), expected);
        };
        check(plan(40, 50), 300, 50, 50, 40);
        check(plan(90, 50), 300, 50, 50, 50);
        check(plan(40, 50), 299, 49, 50, 40);
        check(plan(40, 50), 60, 10, 50, 10);
        check(plan(5, 50), 48, 8, 48, 5);
        check(plan(5, 50), 5, 0, 5, 1);
        check(plan(5, 50), 0, 0, 0, 1);
        check(plan(0, 50), 0, 0, 0, 0);
    }

    #[test]
    fn the_first_batch_goes_whole_and_the_rest_keeps_to_the_budget() {
        let check = |bytes_max, sizes: &[usize], expected: &[usize]| {
            let answers = (0..).zip(sizes).map(|(slot, bytes)| answer(slot, *bytes)).collect();
            let spent: Vec<usize> = spend(bytes_max, answers)
                .iter()
                .map(|a| a.outcome.as_ref().map_or(0, |fetched| fetched.bytes))
                .collect();
            assert_eq!(spent, expected);
        };
        check(10, &[0, 100, 5, 0], &[0, 100, 0, 0]);
        check(10, &[4, 7, 6, 1], &[4, 0, 6, 0]);
        check(100, &[4, 7, 6], &[4, 7, 6]);
        check(0, &[3, 3], &[3, 0]);
    }

    #[test]
    fn a_fetch_waits_only_while_there_is_too_little_and_nothing_wrong() {
        assert!(is_enough::<u8>(1, &[]));
        assert!(!is_enough(1, &[answer(0, 0)]));
        assert!(is_enough(1, &[answer(0, 1)]));
        assert!(!is_enough(10, &[answer(0, 5), answer(1, 4)]));
        assert!(is_enough(10, &[answer(0, 5), answer(1, 5)]));
        let wrong = FetchAnswer::<u8> { slot: EntrySlot(0), outcome: Err(FetchRefusal::NotLeader) };
        assert!(is_enough(1000, &[answer(1, 0), wrong]));
        assert!(is_enough(15, &[cut_answer(0, 10, 15)]));
        assert!(is_enough(15, &[cut_answer(0, 0, 5), answer(1, 10)]));
        assert!(!is_enough(20, &[cut_answer(0, 10, 15), answer(1, 0)]));
        assert!(is_enough(usize::MAX, &[cut_answer(0, 0, usize::MAX), answer(1, 10)]));
    }
}
