//! One fetch session: what its client fetches, in which order, and what it was last told of each partition.
//!
//! Owns the rule of what is news (FE-5): records, another high watermark or log start, an error, a divergence. Partitions that
//! gave records go to the tail of the order, so that none starves while the byte budget is short.
//!
//! ```text
//! put, forget ─ settle ─► in_order (what is to be read) ─ … the reading … ─► answer, each ─ settle ─► the next request
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use record::{LeaderEpoch, Offset, PartitionIndex, ShardIndex, TopicId};

use crate::shard::TopicRef;

/// What a partition takes at most: itself, its entries in the lookup and in the order, and what vectors hold in reserve.
pub(super) const PARTITION_BYTES: usize = 256;
/// What a topic takes at most besides its name.
pub(super) const TOPIC_BYTES: usize = 192;

const _: () = assert!(size_of::<SessionPartition>() <= 88 && size_of::<SessionTopic>() <= 48);

/// How the requests of a session name topics: versions up to 12 by name, from 13 on by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// By name.
    Names,
    /// By id.
    Ids,
}

/// What the client wants of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// First offset wanted.
    pub offset: Offset,
    /// At most so many bytes.
    pub bytes_max: usize,
    /// The leader epoch the client believes in, or [`LeaderEpoch::NONE`].
    pub current_leader_epoch: LeaderEpoch,
    /// The epoch of the last record it has, or [`LeaderEpoch::NONE`].
    pub last_fetched_epoch: LeaderEpoch,
}

/// What the client was last told of the ends of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// One past the last record every reader may see; -1 for never told, or told an error.
    pub high_watermark: Offset,
    /// First offset of the partition; -1 for never told.
    pub log_start: Offset,
}

impl Shown {
    /// Nothing yet: whatever is read first is news.
    pub const NOTHING: Self = Self { high_watermark: Offset(-1), log_start: Offset(-1) };
}

/// What became of one partition in the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// It was read.
    Ends {
        /// Where it starts and ends.
        ends: Shown,
        /// Bytes of records in the answer.
        bytes: usize,
        /// Whether the answer says where the histories part (FE-8).
        diverges: bool,
    },
    /// It was refused.
    Refused,
}

/// A topic of a session.
#[derive(Debug)]
pub struct SessionTopic {
    /// Its name: what the client sent, or, in a session by id, what the id has once led to.
    pub name: Option<Arc<str>>,
    /// Its id in a session by id, else [`TopicId::default`].
    pub id: TopicId,
    partition_count: u32,
}

/// A partition of a session.
#[derive(Debug)]
pub struct SessionPartition {
    topic: u32,
    /// Its index in the topic.
    pub index: PartitionIndex,
    /// What the client wants.
    pub wanted: Wanted,
    /// Where it was found, as long as the metadata is the same.
    pub place: Option<(ShardIndex, TopicId)>,
    /// Whether the last answer was an error: the same again is no news to hurry for.
    pub is_refused: bool,
    shown: Shown,
    moves: bool,
}

/// A fetch session.
#[derive(Debug)]
pub struct FetchSession {
    naming: Naming,
    by_name: BTreeMap<Arc<str>, u32>,
    by_id: BTreeMap<TopicId, u32>,
    lookup: BTreeMap<(u32, PartitionIndex), u32>,
    topics: Slab<SessionTopic>,
    partitions: Slab<SessionPartition>,
    /// Every partition, the next to be read first. What was forgotten stays until [`FetchSession::settle`].
    order: Vec<u32>,
    /// Kept for the next time partitions move.
    moving: Vec<u32>,
    unsettled: bool,
    name_bytes: usize,
    places_of: Offset,
}

impl FetchSession {
    /// Without a partition.
    pub(super) fn new(naming: Naming) -> Self {
        Self {
            naming,
            by_name: BTreeMap::new(),
            by_id: BTreeMap::new(),
            lookup: BTreeMap::new(),
            topics: Slab::default(),
            partitions: Slab::default(),
            order: Vec::new(),
            moving: Vec::new(),
            unsettled: false,
            name_bytes: 0,
            places_of: Offset(-1),
        }
    }

    /// How its requests name topics.
    pub fn naming(&self) -> Naming {
        self.naming
    }

    /// How many partitions it has.
    pub fn partition_count(&self) -> usize {
        self.lookup.len()
    }

    /// The memory it takes.
    pub fn bytes(&self) -> usize {
        let slots = self.partitions.slots().saturating_mul(PARTITION_BYTES);
        let topics = self.topics.slots().saturating_mul(TOPIC_BYTES);
        slots.saturating_add(topics).saturating_add(self.name_bytes)
    }

    /// Adds a partition at the end, or changes what is wanted of it. `shown` is what a new one's client has been told.
    pub fn put(
        &mut self,
        topic: TopicRef<'_>,
        index: PartitionIndex,
        wanted: Wanted,
        shown: Shown,
    ) {
        let topic = self.topic_slot(topic);
        if let Some(slot) = self.lookup.get(&(topic, index)) {
            if let Some(partition) = self.partitions.get_mut(*slot) {
                partition.wanted = wanted;
            }
            return;
        }
        let partition = SessionPartition {
            topic,
            index,
            wanted,
            place: None,
            is_refused: false,
            shown,
            moves: false,
        };
        let slot = self.partitions.insert(partition);
        self.lookup.insert((topic, index), slot);
        self.order.push(slot);
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.partition_count += 1;
        }
    }

    /// Drops a partition; one that is not here is no mistake.
    pub fn forget(&mut self, topic: TopicRef<'_>, index: PartitionIndex) {
        let Some(topic_slot) = self.find_topic(topic) else { return };
        let Some(slot) = self.lookup.remove(&(topic_slot, index)) else { return };
        // The slot is free only once the order does not name it any more.
        if let Some(partition) = self.partitions.get_mut(slot) {
            partition.topic = GONE;
        }
        self.unsettled = true;
        let Some(topic) = self.topics.get_mut(topic_slot) else { return };
        topic.partition_count -= 1;
        if topic.partition_count == 0 {
            self.drop_topic(topic_slot);
        }
    }

    /// Brings the order up to date: drops what was forgotten, moves what gave records to the tail.
    pub fn settle(&mut self) {
        if !std::mem::take(&mut self.unsettled) {
            return;
        }
        let Self { order, partitions, moving, .. } = self;
        moving.clear();
        order.retain(|slot| {
            let Some(partition) = partitions.get_mut(*slot) else { return false };
            if partition.topic == GONE {
                partitions.remove(*slot);
                return false;
            }
            let moves = std::mem::take(&mut partition.moves);
            if moves {
                moving.push(*slot);
            }
            !moves
        });
        order.append(moving);
        self.partitions.shrink_if_empty();
        self.topics.shrink_if_empty();
    }

    /// Forgets where partitions are unless that was found in this state of the metadata.
    pub fn expect_places_of(&mut self, metadata: Offset) {
        if self.places_of == metadata {
            return;
        }
        self.places_of = metadata;
        for slot in &self.order {
            if let Some(partition) = self.partitions.get_mut(*slot) {
                partition.place = None;
            }
        }
    }

    /// Each partition in order, with its topic. The position is what [`FetchSession::answer`] takes.
    pub fn for_each(
        &mut self,
        mut look: impl FnMut(u32, &mut SessionTopic, &mut SessionPartition),
    ) {
        for (position, slot) in (0..).zip(&self.order) {
            let Some(partition) = self.partitions.get_mut(*slot) else { continue };
            let Some(topic) = self.topics.get_mut(partition.topic) else { continue };
            look(position, topic, partition);
        }
    }

    /// The topic and the index of the partition at a position.
    pub fn at(&self, position: u32) -> Option<(&SessionTopic, PartitionIndex)> {
        let slot = self.order.get(usize::try_from(position).ok()?)?;
        let partition = self.partitions.get(*slot)?;
        Some((self.topics.get(partition.topic)?, partition.index))
    }

    /// Whether what was read of the partition at a position is news for the client, which then gets it.
    pub fn answer(&mut self, position: u32, read: Read) -> bool {
        let slot = usize::try_from(position).ok().and_then(|at| self.order.get(at));
        let Some(partition) = slot.and_then(|slot| self.partitions.get_mut(*slot)) else {
            return false;
        };
        match read {
            Read::Ends { ends, bytes, diverges } => {
                partition.is_refused = false;
                let is_news = bytes > 0 || diverges || ends != partition.shown;
                partition.shown = ends;
                partition.moves = bytes > 0;
                self.unsettled |= bytes > 0;
                is_news
            }
            Read::Refused => {
                partition.is_refused = true;
                // Once the error is over, the partition is news, whatever its ends are.
                partition.shown.high_watermark = Offset(-1);
                true
            }
        }
    }

    fn find_topic(&self, topic: TopicRef<'_>) -> Option<u32> {
        match topic {
            TopicRef::Name(name) => self.by_name.get(name).copied(),
            TopicRef::Id(id) => self.by_id.get(&id).copied(),
        }
    }

    fn topic_slot(&mut self, topic: TopicRef<'_>) -> u32 {
        if let Some(slot) = self.find_topic(topic) {
            return slot;
        }
        let (name, id) = match topic {
            TopicRef::Name(name) => (Some(Arc::from(name)), TopicId::default()),
            TopicRef::Id(id) => (None, id),
        };
        let entry = SessionTopic { name: name.clone(), id, partition_count: 0 };
        let slot = self.topics.insert(entry);
        match name {
            Some(name) => {
                self.name_bytes += name.len();
                self.by_name.insert(name, slot);
            }
            None => {
                self.by_id.insert(id, slot);
            }
        }
        slot
    }

    fn drop_topic(&mut self, slot: u32) {
        let Some(topic) = self.topics.remove(slot) else { return };
        match (self.naming, topic.name) {
            (Naming::Names, Some(name)) => {
                self.name_bytes -= name.len();
                self.by_name.remove(&name);
            }
            _ => {
                self.by_id.remove(&topic.id);
            }
        }
    }
}

/// The topic of a partition that was forgotten.
const GONE: u32 = u32::MAX;

/// Things at places that stay theirs; a place that is free is used again.
#[derive(Debug)]
struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Places taken and free: what its memory goes by.
    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(value);
            return slot;
        }
        let slot = u32::try_from(self.slots.len()).ok().filter(|slot| *slot != GONE);
        let slot = slot.unwrap_or_else(|| panic!("a session is bounded far below 2^32 partitions"));
        self.slots.push(Some(value));
        slot
    }

    fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    fn remove(&mut self, slot: u32) -> Option<T> {
        let taken = self.slots.get_mut(slot as usize)?.take();
        if taken.is_some() {
            self.free.push(slot);
        }
        taken
    }

    /// A slab that nobody uses gives its memory back.
    fn shrink_if_empty(&mut self) {
        if self.free.len() == self.slots.len() {
            *self = Self::default();
        }
    }
}
