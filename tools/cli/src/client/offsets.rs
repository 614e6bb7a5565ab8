//! The offsets at the ends of partitions, asked of their leaders.
//!
//! Owns the special timestamps of ListOffsets.

use std::collections::BTreeMap;

use broker::Platform;
use record::{NodeId, Offset, PartitionIndex};
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

impl<P: Platform> Client<P> {
    /// The offset at that place of each of `partitions`. `topic` is brought up to date where a leader has moved.
    pub(crate) async fn offsets(
        &mut self,
        topic: &mut Topic,
        partitions: &[PartitionIndex],
        at: OffsetAt,
    ) -> Result<BTreeMap<PartitionIndex, Offset>, ClientError> {
        let found = self.find_offsets(topic, partitions, at).await?;
        Ok(found.into_iter().map(|(index, found)| (index, found.offset)).collect())
    }

    /// [`Client::offsets`] with the times of the records there.
    pub(crate) async fn find_offsets(
        &mut self,
        topic: &mut Topic,
        partitions: &[PartitionIndex],
        at: OffsetAt,
    ) -> Result<BTreeMap<PartitionIndex, FoundOffset>, ClientError> {
        let mut found = BTreeMap::new();
        let mut attempts = self.attempts();
        loop {
            let error = match self.offsets_missing(topic, partitions, at, &mut found).await {
                Ok(()) => return Ok(found),
                Err(error) if self.passes(&error) => error,
                Err(error) => return Err(error),
            };
            attempts.pause(error).await?;
            *topic = self.topic(&topic.name, AutoCreate::Never).await?;
        }
    }

    /// Asks once for those that are not in `found` yet, one request a leader.
    async fn offsets_missing(
        &mut self,
        topic: &Topic,
        partitions: &[PartitionIndex],
        at: OffsetAt,
        found: &mut BTreeMap<PartitionIndex, FoundOffset>,
    ) -> Result<(), ClientError> {
        let mut by_leader: BTreeMap<NodeId, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for index in partitions.iter().filter(|index| !found.contains_key(index)) {
            by_leader.entry(topic.leader_of(*index)?).or_default().push(ListOffsetsPartition {
                partition_index: *index,
                timestamp: at.timestamp(),
                ..ListOffsetsPartition::default()
            });
        }
        for (leader, partitions) in by_leader {
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
            let answered = response.topics.iter().flat_map(|topic| &topic.partitions);
            for partition in answered {
                let index = partition.partition_index;
                ClientError::check(&topic.place(index), partition.error_code, None)?;
                let (offset, timestamp) = (partition.offset, partition.timestamp.0);
                found.insert(index, FoundOffset { offset, timestamp });
            }
        }
        match partitions.iter().find(|index| !found.contains_key(index)) {
            Some(index) => Err(ClientError::NotMentioned { place: topic.place(*index) }),
            None => Ok(()),
        }
    }
}
