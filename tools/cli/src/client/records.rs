//! Records deleted from the front of partitions, asked of their leaders.
//!
//! Owns the reading of DeleteRecords. Deleting up to an offset twice is deleting once, so that it is repeated like a question.

use std::collections::BTreeMap;

use broker::Platform;
use record::{NodeId, Offset, PartitionIndex};
use wire::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
};

use crate::client::{AutoCreate, CallOptions, Client, ClientError, Topic};

impl<P: Platform> Client<P> {
    /// Deletes what lies before these offsets; gives where each partition starts now. `topic` is brought up to date where a
    /// leader has moved.
    pub(crate) async fn delete_records(
        &mut self,
        topic: &mut Topic,
        before: &BTreeMap<PartitionIndex, Offset>,
    ) -> Result<BTreeMap<PartitionIndex, Offset>, ClientError> {
        let mut starts = BTreeMap::new();
        let mut attempts = self.attempts();
        loop {
            let error = match self.delete_missing(topic, before, &mut starts).await {
                Ok(()) => return Ok(starts),
                Err(error) if self.passes(&error) => error,
                Err(error) => return Err(error),
            };
            attempts.pause(error).await?;
            *topic = self.topic(&topic.name, AutoCreate::Never).await?;
        }
    }

    /// Asks once for those that are not in `starts` yet, one request a leader.
    async fn delete_missing(
        &mut self,
        topic: &Topic,
        before: &BTreeMap<PartitionIndex, Offset>,
        starts: &mut BTreeMap<PartitionIndex, Offset>,
    ) -> Result<(), ClientError> {
        let mut by_leader: BTreeMap<NodeId, Vec<DeleteRecordsPartition>> = BTreeMap::new();
        for (index, offset) in before.iter().filter(|(index, _)| !starts.contains_key(index)) {
            let (partition_index, offset) = (*index, *offset);
            let partition = DeleteRecordsPartition { partition_index, offset };
            by_leader.entry(topic.leader_of(*index)?).or_default().push(partition);
        }
        for (leader, partitions) in by_leader {
            let name = topic.name.as_str().into();
            let request = DeleteRecordsRequest {
                topics: vec![DeleteRecordsTopic { name, partitions }],
                timeout_ms: self.timeout_ms(),
            };
            let options = CallOptions::within(self.timeout());
            let answer = self.ask(leader, &request, options).await?;
            let response: DeleteRecordsResponse<'_> = answer.read()?;
            for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
                let index = partition.partition_index;
                ClientError::check(&topic.place(index), partition.error_code, None)?;
                starts.insert(index, partition.low_watermark);
            }
        }
        match before.keys().find(|index| !starts.contains_key(index)) {
            Some(index) => Err(ClientError::NotMentioned { place: topic.place(*index) }),
            None => Ok(()),
        }
    }
}
