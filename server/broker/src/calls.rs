//! What cores ask of each other, in the broker's own words.
//!
//! Owns the requests and answers that cross the mesh: plain data, `Send`, free of wire types and of anything that lives on one
//! core. The same types serve a partition on the connection's own core, so that forwarding is a detour and never a second
//! implementation. Slots tie an answer to its place in the client's request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{
    AlterConfigs, AlterRefusal, CreateOutcome, CreatePartitions, DeleteOutcome, FeatureRefusal,
    GrowthOutcome, Image, ProducerIdBlock, UpdateFeatures,
};
use commitlog::{StoreError, UnclosedLog};
use partition::{Acks, ActiveProducer, Isolation};
use record::{EpochEnd, LeaderEpoch, Offset, Timestamp, TopicId, TopicPartition};

use crate::control::{Changed, TopicCreation, TopicDeletion};
use crate::drivers::metadata_log::MetadataLogError;
use crate::handover::Handover;
use crate::metrics::Snapshot;
use crate::metrics::partitions::PartitionTraffic;
use crate::node_state::NodeState;
use crate::refusal::{
    DeleteRecordsRefusal, DescribeProducersRefusal, FetchRefusal, ListOffsetsRefusal,
    ProduceRefusal,
};

/// Where in the client's request an entry stood: answers find their way back by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntrySlot(pub u32);

/// One partition of a Produce request.
#[derive(Debug, Clone)]
pub struct ProduceEntry {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// The partition.
    pub partition: TopicPartition,
    /// Exactly what the client sent for it; a sub-slice of its frame.
    pub records: Bytes,
}

/// A connection of one core, by a number that is never used again there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionNumber(pub u64);

/// The partitions of one Produce request that one core owns.
#[derive(Debug, Clone)]
pub struct ProduceCall {
    /// The connection that it came by.
    pub connection: ConnectionNumber,
    /// When to answer; `None` for acks=0.
    pub acks: Option<Acks>,
    /// How long the answer may wait for safety.
    pub timeout: Duration,
    /// Monotonic time when that is over.
    pub deadline: Duration,
    /// Whether the client speaks a version that knows zstd (Produce 7 and up, RB-2).
    pub zstd: ZstdAllowed,
    /// The partitions, in the order of the request.
    pub entries: Vec<ProduceEntry>,
}

/// Whether the client's request version may carry zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZstdAllowed {
    /// It may.
    Yes,
    /// Error 76 otherwise.
    No,
}

/// How a core has closed its logs.
#[derive(Debug, Clone, Default)]
pub struct CoreStop {
    /// Logs that are not in order.
    pub unclosed: Vec<UnclosedLog>,
    /// Why the next start must recover all of them.
    pub error: Option<StoreError>,
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Broker's time under LogAppendTime, else [`Timestamp::NONE`].
    pub log_append_time: Timestamp,
    /// First offset of the partition.
    pub log_start: Offset,
}

/// The answer for one partition of a Produce request.
#[derive(Debug)]
pub struct ProduceAnswer {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// What happened.
    pub outcome: Result<Produced, ProduceRefusal>,
}

/// One partition of a Fetch request.
#[derive(Debug, Clone, Copy)]
pub struct FetchEntry {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// The partition.
    pub partition: TopicPartition,
    /// First offset wanted.
    pub offset: Offset,
    /// At most so many bytes of this partition.
    pub bytes_max: usize,
    /// The leader epoch the client believes in, or [`LeaderEpoch::NONE`].
    pub current_leader_epoch: LeaderEpoch,
    /// The epoch of the last record it has, or [`LeaderEpoch::NONE`].
    pub last_fetched_epoch: LeaderEpoch,
}

/// The partitions of one Fetch request that one core owns: read now, never wait.
#[derive(Debug, Clone)]
pub struct FetchCall {
    /// What may be seen.
    pub isolation: Isolation,
    /// At most so many bytes in all, one whole batch excepted.
    pub bytes_max: usize,
    /// The partitions, in the order of the request.
    pub entries: Vec<FetchEntry>,
}

/// What was read of one partition. `Records` are slices of cached buffers on the owner and copied bytes elsewhere.
#[derive(Debug, Clone)]
pub struct Fetched<Records> {
    /// One past the last record every reader may see.
    pub high_watermark: Offset,
    /// One past the last record a committed reader may see.
    pub last_stable_offset: Offset,
    /// First offset of the partition.
    pub log_start: Offset,
    /// Where the reader's history leaves the leader's: (epoch, end offset); no records then (FE-8).
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Whole batches, in order.
    pub records: Vec<Records>,
    /// Bytes in `records`.
    pub bytes: usize,
    /// Bytes that there are for the reader within its budget: those of `records`, or all of the budget where there is more to be
    /// seen. A batch that does not fit, and one behind the end of a segment, is no reason to wait for others.
    pub available_bytes: usize,
}

impl<Records> Fetched<Records> {
    /// The same answer with its record bytes in another form.
    #[must_use]
    pub fn with_records<Other>(&self, records: Vec<Other>) -> Fetched<Other> {
        Fetched {
            high_watermark: self.high_watermark,
            last_stable_offset: self.last_stable_offset,
            log_start: self.log_start,
            diverging: self.diverging,
            records,
            bytes: self.bytes,
            available_bytes: self.available_bytes,
        }
    }
}

/// The answer for one partition of a Fetch request.
#[derive(Debug)]
pub struct FetchAnswer<Records> {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// What happened.
    pub outcome: Result<Fetched<Records>, FetchRefusal>,
}

/// Wait until one of these partitions can show more than `offset`, or for `duration`.
#[derive(Debug, Clone)]
pub struct WaitCall {
    /// What may be seen.
    pub isolation: Isolation,
    /// The partitions and where the reader stands.
    pub positions: Vec<(TopicPartition, Offset)>,
    /// The longest wait.
    pub duration: Duration,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// There may be more.
    LookAgain,
    /// The time is over.
    TimeOver,
    /// Too many wait on a partition already: answer with what is there.
    NoRoom,
    /// Others wait for memory that the connection holds: answer with what is there.
    Hurried,
}

/// One partition of a ListOffsets request.
#[derive(Debug, Clone, Copy)]
pub struct ListOffsetsEntry {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// The partition.
    pub partition: TopicPartition,
    /// The leader epoch the client believes in, or [`LeaderEpoch::NONE`].
    pub current_leader_epoch: LeaderEpoch,
    /// What is looked for.
    pub target: OffsetTarget,
}

/// What ListOffsets looks for (LO-1, LO-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetTarget {
    /// One past the last visible record.
    Latest,
    /// The first record there is.
    Earliest,
    /// The record with the largest timestamp.
    MaxTimestamp,
    /// The last offset in remote storage: none here.
    LatestTiered,
    /// The first record at or after this time.
    Timestamp(Timestamp),
}

/// The partitions of one ListOffsets request that one core owns.
#[derive(Debug, Clone)]
pub struct ListOffsetsCall {
    /// What may be seen.
    pub isolation: Isolation,
    /// The partitions, in the order of the request.
    pub entries: Vec<ListOffsetsEntry>,
}

/// An offset, and what is known about the record there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// The record's timestamp, or [`Timestamp::NONE`].
    pub timestamp: Timestamp,
    /// The offset; -1 for none.
    pub offset: Offset,
    /// The epoch it was written in, or [`LeaderEpoch::NONE`].
    pub leader_epoch: LeaderEpoch,
}

/// The answer for one partition of a ListOffsets request.
#[derive(Debug)]
pub struct ListOffsetsAnswer {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// What happened.
    pub outcome: Result<ListedOffset, ListOffsetsRefusal>,
}

/// One partition of an OffsetForLeaderEpoch request.
#[derive(Debug, Clone, Copy)]
pub struct EpochEndEntry {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// The partition.
    pub partition: TopicPartition,
    /// The leader epoch the client believes in, or [`LeaderEpoch::NONE`].
    pub current_leader_epoch: LeaderEpoch,
    /// The epoch whose end is wanted.
    pub leader_epoch: LeaderEpoch,
}

/// The partitions of one OffsetForLeaderEpoch request that one core owns.
#[derive(Debug, Clone)]
pub struct EpochEndCall {
    /// The partitions, in the order of the request.
    pub entries: Vec<EpochEndEntry>,
}

/// The answer for one partition of an OffsetForLeaderEpoch request.
#[derive(Debug)]
pub struct EpochEndAnswer {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// What happened; `None` where the log knows no such epoch.
    pub outcome: Result<Option<EpochEnd>, FetchRefusal>,
}

/// One partition of a DeleteRecords request.
#[derive(Debug, Clone, Copy)]
pub struct DeleteRecordsEntry {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// The partition.
    pub partition: TopicPartition,
    /// Where its log is to start; -1 for the high watermark.
    pub offset: Offset,
}

/// The partitions of one DeleteRecords request that one core owns.
#[derive(Debug, Clone)]
pub struct DeleteRecordsCall {
    /// The partitions, in the order of the request.
    pub entries: Vec<DeleteRecordsEntry>,
}

/// The answer for one partition of a DeleteRecords request.
#[derive(Debug)]
pub struct DeleteRecordsAnswer {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// Where the log starts now.
    pub outcome: Result<Offset, DeleteRecordsRefusal>,
}

/// One partition of a DescribeProducers request.
#[derive(Debug, Clone, Copy)]
pub struct ProducersEntry {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// The partition.
    pub partition: TopicPartition,
}

/// The partitions of one DescribeProducers request that one core owns.
#[derive(Debug, Clone)]
pub struct ProducersCall {
    /// The partitions, in the order of the request.
    pub entries: Vec<ProducersEntry>,
    /// So many producers may still be listed.
    pub room: usize,
}

/// The answer for one partition of a DescribeProducers request.
#[derive(Debug)]
pub struct ProducersAnswer {
    /// Its place in the request.
    pub slot: EntrySlot,
    /// The producers, ascending by id.
    pub outcome: Result<Vec<ActiveProducer>, DescribeProducersRefusal>,
}

/// A log and how large it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSize {
    /// The partition.
    pub partition: TopicPartition,
    /// Bytes of its record batches.
    pub bytes: u64,
}

/// A client listener to bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAt {
    /// Its name.
    pub name: String,
    /// Where.
    pub address: SocketAddr,
}

/// A new image, and what is different in it.
#[derive(Debug, Clone)]
pub struct ImageChange {
    /// The whole image.
    pub image: Arc<Image>,
    /// Topics that were created, changed or deleted since the last one, and all of them where what they fall back on changed.
    pub topics: Arc<[TopicId]>,
}

/// How far the log of cluster metadata is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuorumState {
    /// The term of its leadership.
    pub term: LeaderEpoch,
    /// One past the last committed record.
    pub committed: Offset,
    /// One past the last record, committed or not.
    pub end: Offset,
}

/// What one core asks of another. The first group goes to data cores, the second to the control executor, the third from it.
#[derive(Debug)]
pub enum Request {
    /// Append.
    Produce(ProduceCall),
    /// Read now.
    Fetch(FetchCall),
    /// Tell when there is more.
    Wait(WaitCall),
    /// Look up offsets.
    ListOffsets(ListOffsetsCall),
    /// Find where leader epochs ended.
    EpochEnds(EpochEndCall),
    /// Move log starts.
    DeleteRecords(DeleteRecordsCall),
    /// List the producers of partitions.
    Producers(ProducersCall),
    /// List the logs and their sizes.
    LogSizes,
    /// Go on with this connection.
    TakeOver(Box<Handover>),

    /// Create topics.
    CreateTopics(TopicCreation),
    /// Delete topics.
    DeleteTopics(TopicDeletion),
    /// Add partitions to topics.
    CreatePartitions(CreatePartitions),
    /// Change configurations of topics and nodes.
    AlterConfigs(AlterConfigs),
    /// Settle on feature levels.
    UpdateFeatures(UpdateFeatures),
    /// Tell how far the metadata log is.
    Quorum,
    /// A block of fresh producer ids.
    ProducerIds,

    /// Open the logs of this core's partitions.
    Open(Arc<NodeState>),
    /// Bind the client listeners.
    Listen(Vec<ListenAt>),
    /// Every core is open: serve what connects from now on, and forget what other cores own.
    Accept,
    /// Write down in both copies where every log of this core is: the files of cores that are gone, and entries that others have of
    /// its logs, are about to go.
    Settle,
    /// Drop what is known of logs that other cores have, and have written down.
    ForgetOthers,
    /// Take this image: open the logs it adds, delete those it drops.
    Apply(ImageChange),
    /// Report the counters.
    Metrics,
    /// Report the partitions of this core that move most.
    PartitionTraffic {
        /// So many at most.
        count_max: usize,
    },
    /// Take nothing new and finish what is under way; other cores are still served.
    Drain,
    /// Close the logs: every core has drained.
    Stop,
}

/// The answers, in the order of the requests.
#[derive(Debug)]
pub enum Reply {
    /// To [`Request::Produce`].
    Produce(Vec<ProduceAnswer>),
    /// To [`Request::Fetch`]: record bytes copied once, since an I/O buffer cannot leave its core.
    Fetch(Vec<FetchAnswer<Bytes>>),
    /// To [`Request::Wait`].
    Woken(Waited),
    /// To [`Request::ListOffsets`].
    ListOffsets(Vec<ListOffsetsAnswer>),
    /// To [`Request::EpochEnds`].
    EpochEnds(Vec<EpochEndAnswer>),
    /// To [`Request::DeleteRecords`].
    DeleteRecords(Vec<DeleteRecordsAnswer>),
    /// To [`Request::Producers`].
    Producers(Vec<ProducersAnswer>),
    /// To [`Request::LogSizes`].
    LogSizes(Vec<LogSize>),
    /// To [`Request::CreateTopics`].
    CreateTopics(Changed<CreateOutcome>),
    /// To [`Request::DeleteTopics`].
    DeleteTopics(Changed<DeleteOutcome>),
    /// To [`Request::CreatePartitions`].
    CreatePartitions(Changed<GrowthOutcome>),
    /// To [`Request::AlterConfigs`]: one result a resource.
    AlterConfigs(Changed<Result<(), AlterRefusal>>),
    /// To [`Request::UpdateFeatures`].
    UpdateFeatures(Result<Result<(), FeatureRefusal>, MetadataLogError>),
    /// To [`Request::Quorum`].
    Quorum(QuorumState),
    /// To [`Request::ProducerIds`]; `None` where metadata cannot be written.
    ProducerIds(Option<ProducerIdBlock>),
    /// To [`Request::Open`]: how many logs were opened, or why the core cannot serve.
    Opened(Result<usize, String>),
    /// To [`Request::Listen`]: the bound addresses, with the ports that port 0 became, or why not.
    Listening(Result<Vec<SocketAddr>, String>),
    /// To [`Request::TakeOver`], [`Request::Accept`], [`Request::Settle`], [`Request::ForgetOthers`], [`Request::Apply`] and
    /// [`Request::Drain`].
    Done,
    /// To [`Request::Stop`].
    Stopped(CoreStop),
    /// To [`Request::Settle`]: the disk refused, which the log tells of.
    NotSettled,
    /// To [`Request::Metrics`].
    Metrics(Box<Snapshot>),
    /// To [`Request::PartitionTraffic`], the busiest first.
    PartitionTraffic(Vec<PartitionTraffic>),
    /// To any request: it was not done, or not wholly. A bug ended its service, which a metric tells of, or the disk failed; the log
    /// says which.
    Failed,
}
