//! The offsets at the ends of partitions, asked of their leaders.
//!
//! Owns the special timestamps of ListOffsets, and what a partition is that nobody serves. Such a one is told at once, beside
//! what is found of the others: its node needs a person, not another attempt.

use std::collections::BTreeMap;

use broker::Platform;
use record::{NodeId, Offset, PartitionIndex};
use wire::ErrorCode;
use wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};

use crate::client::{AutoCreate, CallOptions, Client, ClientError, Topic};

/// A place in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OffsetAt {
    /// The first record there is.
    Start,
    /// One past the last record that consumers may see.
    End,
    /// The record with the largest timestamp.
    MaxTimestamp,
    /// The first record of this time, in Unix milliseconds, or later.
    Time(i64),
}

/// An offset, and the time of the record there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundOffset {
    /// The offset; -1 where no record is as was asked.
    pub(crate) offset: Offset,
    /// Unix milliseconds; -1 where it is not told.
    pub(crate) timestamp: i64,
}

impl OffsetAt {
    const fn timestamp(self) -> i64 {
        match self {
            Self::Start => -2,
            Self::End => -1,
            Self::MaxTimestamp => -3,
            // What is below zero has a meaning of its own.
            Self::Time(ms) => {
                if ms < 0 {
                    0
                } else {
                    ms
                }
            }
        }
    }
}

/// What was found of partitions of a topic.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The offset in each that is served.
    pub(crate) found: BTreeMap<PartitionIndex, FoundOffset>,
    /// Those that nobody serves, with the code that says so.
    pub(crate) offline: BTreeMap<PartitionIndex, ErrorCode>,
}

impl Survey {
    /// The offsets alone.
    pub(crate) fn offsets(&self) -> BTreeMap<PartitionIndex, Offset> {
        self.found.iter().map(|(index, found)| (*index, found.offset)).collect()
    }

    /// What to say of those that nobody serves, if there are any.
    pub(crate) fn failure(&self, topic: &Topic) -> Option<ClientError> {
        let (_, code) = self.offline.first_key_value()?;
        let places = self.offline.keys().map(|index| topic.place(*index)).collect();
        Some(ClientError::Offline { places, code: *code, reason: None })
    }

    fn is_settled(&self, index: PartitionIndex) -> bool {
        self.found.contains_key(&index) || self.offline.contains_key(&index)
    }
}

impl<P: Platform> Client<P> {
    /// The offset at that place of each of `partitions`. `topic` is brought up to date where a leader has moved.
    ///
    /// Errors  one that nobody serves, too: for those who can do nothing with the others.
    pub(crate) async fn offsets(
        &mut self,
        topic: &mut Topic,
        partitions: &[PartitionIndex],
        at: OffsetAt,
    ) -> Result<BTreeMap<PartitionIndex, Offset>, ClientError> {
        let survey = self.find_offsets(topic, partitions, at).await?;
        match survey.failure(topic) {
            Some(failure) => Err(failure),
            None => Ok(survey.offsets()),
        }
    }

    /// [`Client::offsets`] with the times of the records there, and with the partitions that nobody serves named.
    pub(crate) async fn find_offsets(
        &mut self,
        topic: &mut Topic,
        partitions: &[PartitionIndex],
        at: OffsetAt,
    ) -> Result<Survey, ClientError> {
        let mut survey = Survey::default();
        let mut attempts = self.attempts();
        loop {
            let error = match self.offsets_missing(topic, partitions, at, &mut survey).await {
                Ok(()) => return Ok(survey),
                Err(error) if self.passes(&error) => error,
                Err(error) => return Err(error),
            };
            attempts.pause(error).await?;
            *topic = self.topic(&topic.name, AutoCreate::Never).await?;
        }
    }

    /// Both ends of each of `partitions`. One that nobody serves is so in both.
    pub(crate) async fn ends(
        &mut self,
        topic: &mut Topic,
        partitions: &[PartitionIndex],
    ) -> Result<(Survey, Survey), ClientError> {
        let mut starts = self.find_offsets(topic, partitions, OffsetAt::Start).await?;
        let served: Vec<PartitionIndex> = starts.found.keys().copied().collect();
        let mut ends = self.find_offsets(topic, &served, OffsetAt::End).await?;
        starts.found.retain(|index, _| ends.found.contains_key(index));
        starts.offline.append(&mut ends.offline);
        ends.offline = starts.offline.clone();
        Ok((starts, ends))
    }

    /// Asks once for those that are not in `survey` yet, one request a leader.
    async fn offsets_missing(
        &mut self,
        topic: &Topic,
        partitions: &[PartitionIndex],
        at: OffsetAt,
        survey: &mut Survey,
    ) -> Result<(), ClientError> {
        let mut by_leader: BTreeMap<NodeId, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for index in partitions {
            if survey.is_settled(*index) {
                continue;
            }
            let leader = match topic.leader_of(*index) {
                Ok(leader) => leader,
                Err(error) => match error.code() {
                    Some(code) if is_offline(code) => {
                        survey.offline.insert(*index, code);
                        continue;
                    }
                    _ => return Err(error),
                },
            };
            by_leader.entry(leader).or_default().push(ListOffsetsPartition {
                partition_index: *index,
                timestamp: at.timestamp(),
                ..ListOffsetsPartition::default()
            });
        }
        for (leader, partitions) in by_leader {
            self.offsets_of(leader, topic, partitions, survey).await?;
        }
        match partitions.iter().find(|index| !survey.is_settled(**index)) {
            Some(index) => Err(ClientError::NotMentioned { place: topic.place(*index) }),
            None => Ok(()),
        }
    }

    /// Asks one leader, once.
    async fn offsets_of(
        &mut self,
        leader: NodeId,
        topic: &Topic,
        partitions: Vec<ListOffsetsPartition>,
        survey: &mut Survey,
    ) -> Result<(), ClientError> {
        let name = topic.name.as_str().into();
        let request = ListOffsetsRequest {
            replica_id: NodeId::NONE,
            topics: vec![ListOffsetsTopic { name, partitions }],
            timeout_ms: self.timeout_ms(),
            ..ListOffsetsRequest::default()
        };
        let options = CallOptions::within(self.timeout());
        let answer = self.ask(leader, &request, options).await?;
        let response: ListOffsetsResponse<'_> = answer.read()?;
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            let (index, code) = (partition.partition_index, partition.error_code);
            if code == ErrorCode::KafkaStorageError {
                survey.offline.insert(index, code);
                continue;
            }
            ClientError::check(&topic.place(index), code, None)?;
            let (offset, timestamp) = (partition.offset, partition.timestamp.0);
            survey.found.insert(index, FoundOffset { offset, timestamp });
        }
        Ok(())
    }
}

/// Codes of a partition that nobody serves, where they are about it alone: its leader cannot open its log, or it has none and
/// the metadata is fresh.
fn is_offline(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::KafkaStorageError | ErrorCode::LeaderNotAvailable)
}
