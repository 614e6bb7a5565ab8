//! Records to partitions: queued, batched, sent to the leaders, and acknowledged or refused.
//!
//! Owns the queues and the producer's identity. Order in a partition is the order of [`Producer::add`]: one batch of a
//! partition is in flight at a time. A batch that is sent again has the same sequence, so that a broker which has it
//! already says so instead of appending it twice; without an identity (acks below all) a retry may append twice.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use broker::Platform;
use record::{Codec, NodeId, Offset, PartitionIndex, Timestamp, TopicId};
use wire::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData,
};
use wire::{ErrorCode, Records};

use crate::client::together::{self, Boxed};
use crate::client::{
    Answer, AutoCreate, CallOptions, Client, ClientError, Connection, OffsetAt, Topic,
};
use crate::output::counted;
use crate::partitioner::partition_of_key;

mod batch;

/// Bytes of keys and values that make a batch worth sending: half of the default `max.message.bytes`.
const BATCH_BYTES: usize = 512 << 10;
/// Bytes queued in all partitions together before they are sent.
const QUEUED_BYTES_MAX: usize = 4 << 20;
/// What a record adds to a batch besides key and value, at most.
const RECORD_OVERHEAD_BYTES: usize = 32;
/// What a header adds besides key and value, at most: two lengths.
const HEADER_OVERHEAD_BYTES: usize = 10;
/// The last Produce version that names topics, for brokers that do not tell ids.
const PRODUCE_BY_NAME_MAX: i16 = 12;

/// When a batch counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Acks {
    /// Not asked: nothing is known of what becomes of it.
    #[value(name = "0")]
    None,
    /// When its leader has it.
    #[value(name = "1")]
    Leader,
    /// When every in-sync replica has it.
    #[value(name = "all", alias = "-1")]
    InSync,
}

impl Acks {
    const fn number(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::InSync => -1,
        }
    }
}

/// How to produce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProducerOptions {
    /// When a batch counts as stored.
    pub(crate) acks: Acks,
    /// How batches are compressed.
    pub(crate) codec: Codec,
    /// The one partition to write to, instead of one by key.
    pub(crate) partition: Option<PartitionIndex>,
}

/// A record on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutgoingRecord {
    /// Key, which chooses the partition.
    pub(crate) key: Option<Vec<u8>>,
    /// Value.
    pub(crate) value: Option<Vec<u8>>,
    /// Unix milliseconds.
    pub(crate) timestamp: Timestamp,
    /// Headers, in their order; the same list for many records.
    pub(crate) headers: OutgoingHeaders,
}

/// Keys and values of headers.
pub(crate) type OutgoingHeaders = Rc<[(String, String)]>;

impl OutgoingRecord {
    fn bytes(&self) -> usize {
        let length = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        let header =
            |(key, value): &(String, String)| key.len() + value.len() + HEADER_OVERHEAD_BYTES;
        let headers: usize = self.headers.iter().map(header).sum();
        length(&self.key) + length(&self.value) + headers + RECORD_OVERHEAD_BYTES
    }
}

/// What became of the records of one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// How many were acknowledged; those sent with acks=0 count.
    pub(crate) records: u64,
    /// Offset of the first one, where the broker told.
    pub(crate) first_offset: Option<Offset>,
}

/// What waits for one partition.
#[derive(Debug, Default)]
struct Queue {
    /// Groups of records that make a batch each; the last one still grows.
    groups: VecDeque<Group>,
    next_sequence: i32,
    stored: Stored,
}

#[derive(Debug, Default)]
struct Group {
    records: Vec<OutgoingRecord>,
    bytes: usize,
    /// The batch, once it was built; kept for retries, which must repeat it.
    built: Option<Vec<u8>>,
}

/// A producer of one topic.
pub(crate) struct Producer<'c, P: Platform> {
    client: &'c mut Client<P>,
    topic: Topic,
    options: ProducerOptions,
    identity: Option<record::Producer>,
    queues: BTreeMap<PartitionIndex, Queue>,
    queued_bytes: usize,
    /// Where records without a key go until the next flush.
    keyless: usize,
}

impl<'c, P: Platform> Producer<'c, P> {
    /// Finds the topic, which the broker may make, and asks for an identity where every ack is to count.
    pub(crate) async fn open(
        client: &'c mut Client<P>,
        topic: &str,
        options: ProducerOptions,
    ) -> Result<Self, ClientError> {
        let topic = client.topic(topic, AutoCreate::Allowed).await?;
        if let Some(index) = options.partition
            && topic.partition(index).is_none()
        {
            let count = counted(topic.partitions.len() as u64, "partition");
            let reason = format!("no such partition, the topic has {count}");
            return Err(ClientError::Unsendable { place: topic.place(index), reason });
        }
        let identity = match options.acks {
            Acks::InSync => identity(client).await?,
            Acks::None | Acks::Leader => None,
        };
        let queues = topic.partitions.iter().map(|one| (one.index, Queue::default())).collect();
        // Many short runs, a record each, must not all write to the first partition.
        let mut random = [0; size_of::<usize>()];
        client.platform().random(&mut random);
        let keyless = usize::from_le_bytes(random);
        Ok(Self { client, topic, options, identity, queues, queued_bytes: 0, keyless })
    }

    /// Queues a record; says whether it is time to [`Producer::flush`].
    pub(crate) fn add(&mut self, record: OutgoingRecord) -> bool {
        let index = self.partition_for(&record);
        let bytes = record.bytes();
        let queue = self.queues.entry(index).or_default();
        let needs_group = queue
            .groups
            .back()
            .is_none_or(|group| group.built.is_some() || group.bytes + bytes > BATCH_BYTES);
        if needs_group {
            queue.groups.push_back(Group::default());
        }
        if let Some(group) = queue.groups.back_mut() {
            group.bytes += bytes;
            group.records.push(record);
        }
        self.queued_bytes += bytes;
        queue.groups.len() > 1 || self.queued_bytes >= QUEUED_BYTES_MAX
    }

    /// The clock, for records that have no time of their own.
    pub(crate) fn now(&self) -> Timestamp {
        self.client.platform().now()
    }

    /// What became of each partition's records so far.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (PartitionIndex, Stored)> {
        self.queues.iter().map(|(index, queue)| (*index, queue.stored))
    }

    /// Sends everything that is queued and waits for the acks that were asked for.
    ///
    /// Errors  the first batch that a broker refuses for good, or that is not stored when the time is up; what is queued
    ///         behind it is not sent.
    pub(crate) async fn flush(&mut self) -> Result<(), ClientError> {
        let mut attempts = self.client.attempts();
        let mut is_first = true;
        while self.queues.values().any(|queue| !queue.groups.is_empty()) {
            match self.send_round().await {
                Ok(()) => attempts.restart(self.client.timeout()),
                Err(error) if self.client.passes(&error) => {
                    // Later it may be on its way back from a full disk.
                    if std::mem::take(&mut is_first)
                        && let Some(offline) = self.offline(&error).await
                    {
                        return Err(offline);
                    }
                    attempts.pause(error).await?;
                    match self.client.topic_once(&self.topic.name, AutoCreate::Never).await {
                        Ok(topic) => self.topic = topic,
                        Err(error) if self.client.passes(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.queued_bytes = 0;
        self.keyless = self.keyless.wrapping_add(1);
        Ok(())
    }

    /// What is wrong with a partition that has taken nothing yet and that nobody can read either; `None` where waiting for the
    /// disk may help.
    async fn offline(&mut self, error: &ClientError) -> Option<ClientError> {
        let ClientError::Refused { place, code: ErrorCode::KafkaStorageError, message } = error
        else {
            return None;
        };
        let refused = self.queues.iter().find(|(index, _)| self.topic.place(**index) == *place);
        let (&index, _) = refused.filter(|(_, queue)| queue.stored.records == 0)?;
        let asked = self.client.find_offsets(&mut self.topic, &[index], OffsetAt::Start).await;
        let code = asked.ok()?.offline.remove(&index)?;
        let reason = message.clone();
        Some(ClientError::Offline { places: vec![place.clone()], code, reason })
    }

    fn partition_for(&self, record: &OutgoingRecord) -> PartitionIndex {
        if let Some(index) = self.options.partition {
            return index;
        }
        let count = self.topic.partitions.len().max(1);
        let place = match &record.key {
            Some(key) => partition_of_key(key, u32::try_from(count).unwrap_or(u32::MAX)) as usize,
            // All of a flush together: one full batch costs less than many small ones.
            None => self.keyless % count,
        };
        self.topic.partitions.get(place).map_or(PartitionIndex(0), |partition| partition.index)
    }

    /// One request to each leader with the first group of each of its partitions. All answers are taken before the first
    /// error is given back.
    async fn send_round(&mut self) -> Result<(), ClientError> {
        let by_leader = self.build_round()?;
        let mut connections = Vec::new();
        for (leader, partitions) in by_leader {
            connections.push((leader, partitions, self.client.take_leader(leader).await?));
        }
        let (acks, timeout) = (self.options.acks, self.client.timeout());
        let (timeout_ms, topic) = (self.client.timeout_ms(), &self.topic);
        let version_max = if topic.id == TopicId::ZERO { PRODUCE_BY_NAME_MAX } else { i16::MAX };
        let options = CallOptions { within: timeout, version_max };
        let queues = &self.queues;
        let sends = connections.into_iter().map(|(leader, partitions, connection)| {
            let request = request(topic, queues, &partitions, acks, timeout_ms);
            let send = send(connection, request, acks, options);
            let send: Boxed<'_, _> = Box::pin(async move { (leader, partitions, send.await) });
            send
        });
        let sent = together::all(sends.collect()).await;
        let mut outcome = Ok(());
        for (leader, partitions, result) in sent {
            let taken = match result {
                Ok((connection, answer)) => {
                    self.client.keep_leader(leader, connection);
                    self.take_answer(&partitions, answer.as_ref())
                }
                Err(error) => Err(error),
            };
            // An error that ends the run must not hide behind one that passes.
            match (&outcome, taken) {
                (_, Ok(())) => {}
                (Err(first), Err(_)) if !self.client.passes(first) => {}
                (_, Err(error)) => outcome = Err(error),
            }
        }
        outcome
    }

    /// Builds what is not built yet, and sorts the partitions that have something by their leaders.
    fn build_round(&mut self) -> Result<BTreeMap<NodeId, Vec<PartitionIndex>>, ClientError> {
        let mut by_leader: BTreeMap<NodeId, Vec<PartitionIndex>> = BTreeMap::new();
        for (index, queue) in &mut self.queues {
            let Some(group) = queue.groups.front_mut() else { continue };
            let place = self.topic.place(*index);
            let leader = self.topic.partition(*index).map(|partition| partition.leader);
            let Some(leader) = leader.filter(|leader| *leader != NodeId::NONE) else {
                ClientError::check(&place, ErrorCode::LeaderNotAvailable, None)?;
                continue;
            };
            if group.built.is_none() {
                let producer = self.identity.map_or(record::Producer::NONE, |identity| {
                    record::Producer { base_sequence: queue.next_sequence, ..identity }
                });
                group.built = Some(batch::build(&group.records, self.options.codec, producer));
            }
            by_leader.entry(leader).or_default().push(*index);
        }
        Ok(by_leader)
    }

    fn take_answer(
        &mut self,
        partitions: &[PartitionIndex],
        answer: Option<&Answer>,
    ) -> Result<(), ClientError> {
        let Some(answer) = answer else {
            for index in partitions {
                self.take_stored(*index, None);
            }
            return Ok(());
        };
        let response: ProduceResponse<'_> = answer.read()?;
        let answered = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        let mut outcome = Ok(());
        let mut seen = Vec::new();
        for partition in answered {
            seen.push(partition.index);
            if let Err(error) = self.take_partition(partition) {
                outcome = outcome.and(Err(error));
            }
        }
        match partitions.iter().find(|index| !seen.contains(index)) {
            Some(index) => Err(ClientError::NotMentioned { place: self.topic.place(*index) }),
            None => outcome,
        }
    }

    fn take_partition(&mut self, answer: &PartitionProduceResponse<'_>) -> Result<(), ClientError> {
        let index = answer.index;
        match answer.error_code {
            ErrorCode::None => self.take_stored(index, Some(answer.base_offset)),
            // A retry of a batch that is stored: its offset is known to the broker alone.
            ErrorCode::DuplicateSequenceNumber => self.take_stored(index, None),
            ErrorCode::MessageTooLarge if self.split(index) => {}
            code => {
                let message = answer.error_message.as_deref();
                return ClientError::check(&self.topic.place(index), code, message);
            }
        }
        Ok(())
    }

    fn take_stored(&mut self, index: PartitionIndex, base_offset: Option<Offset>) {
        let Some(queue) = self.queues.get_mut(&index) else { return };
        let Some(group) = queue.groups.pop_front() else { return };
        let count = group.records.len();
        queue.next_sequence = batch::sequence_after(queue.next_sequence, count);
        queue.stored.records += count as u64;
        queue.stored.first_offset = queue.stored.first_offset.or(base_offset);
    }

    /// Halves the group that was too large; says whether there was something to halve. The broker took none of it, so its
    /// sequences are free.
    fn split(&mut self, index: PartitionIndex) -> bool {
        let Some(queue) = self.queues.get_mut(&index) else { return false };
        let Some(mut whole) = queue.groups.pop_front() else { return false };
        if whole.records.len() < 2 {
            queue.groups.push_front(whole);
            return false;
        }
        let behind = whole.records.split_off(whole.records.len() / 2);
        queue.groups.push_front(Group::of(behind));
        queue.groups.push_front(Group::of(whole.records));
        true
    }
}

impl Group {
    fn of(records: Vec<OutgoingRecord>) -> Self {
        let bytes = records.iter().map(OutgoingRecord::bytes).sum();
        Self { records, bytes, built: None }
    }
}

fn request<'q>(
    topic: &'q Topic,
    queues: &'q BTreeMap<PartitionIndex, Queue>,
    partitions: &[PartitionIndex],
    acks: Acks,
    timeout_ms: i32,
) -> ProduceRequest<'q> {
    let data = partitions.iter().filter_map(|index| {
        let built = queues.get(index)?.groups.front()?.built.as_deref()?;
        Some(PartitionProduceData { index: *index, records: Records::Inline(built) })
    });
    let topic_data = TopicProduceData {
        name: topic.name.as_str().into(),
        topic_id: topic.id,
        partition_data: data.collect(),
    };
    ProduceRequest {
        transactional_id: None,
        acks: acks.number(),
        timeout_ms,
        topic_data: vec![topic_data],
    }
}

async fn send<P: Platform>(
    mut connection: Connection<P>,
    request: ProduceRequest<'_>,
    acks: Acks,
    options: CallOptions,
) -> Result<(Connection<P>, Option<Answer>), ClientError> {
    if acks == Acks::None {
        connection.send_only(&request, options).await?;
        return Ok((connection, None));
    }
    let answer = connection.call(&request, options).await?;
    Ok((connection, Some(answer)))
}

/// An identity of our own; none where the broker does not give any.
async fn identity<P: Platform>(
    client: &mut Client<P>,
) -> Result<Option<record::Producer>, ClientError> {
    let request = InitProducerIdRequest::default();
    let mut attempts = client.attempts();
    loop {
        let error = match identity_once(client, &request).await {
            Ok(identity) => return Ok(Some(identity)),
            Err(ClientError::NoCommonVersion { .. }) => return Ok(None),
            Err(error) => error,
        };
        if !client.passes(&error) {
            return Err(error);
        }
        attempts.pause(error).await?;
    }
}

async fn identity_once<P: Platform>(
    client: &mut Client<P>,
    request: &InitProducerIdRequest<'_>,
) -> Result<record::Producer, ClientError> {
    let answer = client.ask_any(request).await?;
    let response: InitProducerIdResponse = answer.read()?;
    ClientError::check("producer id", response.error_code, None)?;
    let (id, epoch) = (response.producer_id, response.producer_epoch);
    Ok(record::Producer { id, epoch, base_sequence: 0 })
}
