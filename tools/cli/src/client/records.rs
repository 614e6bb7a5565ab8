//! Records deleted from the front of partitions, asked of their leaders.
//!
//! Owns the reading of DeleteRecords. Deleting up to an offset twice is deleting once, so that it is repeated like a question.
//! There is no way back from it and partitions do not fail together: what is done is told whatever becomes of the others.

use std::collections::BTreeMap;

use broker::Platform;
use record::{NodeId, Offset, PartitionIndex};
use wire::ErrorCode;
use wire::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
};

use crate::client::{AutoCreate, CallOptions, Client, ClientError, OffsetAt, Topic};

/// Offsets by partition.
type Offsets = BTreeMap<PartitionIndex, Offset>;

/// How far a deletion came.
#[derive(Debug, Default)]
pub(crate) struct CutShort {
    /// Where each partition starts that was cut short.
    pub(crate) starts: Offsets,
    /// Why another was not: the first reason that was met.
    pub(crate) failure: Option<ClientError>,
}

impl CutShort {
    fn fail(&mut self, error: ClientError) {
        self.failure.get_or_insert(error);
    }
}

impl<P: Platform> Client<P> {
    /// Deletes what lies before these offsets. `topic` is brought up to date where a leader has moved.
    pub(crate) async fn delete_records(&mut self, topic: &mut Topic, before: &Offsets) -> CutShort {
        let mut done = CutShort::default();
        let mut left = before.clone();
        let mut attempts = self.attempts();
        while let Some(passing) = self.delete_from_leaders(topic, &mut left, &mut done).await {
            if let Err(error) = attempts.pause(passing).await {
                done.fail(error);
                break;
            }
            match self.topic(&topic.name, AutoCreate::Never).await {
                Ok(found) => *topic = found,
                Err(error) => {
                    done.fail(error);
                    break;
                }
            }
        }
        done
    }

    /// What [`Client::delete_records`] would do as the partitions are now; nothing is deleted.
    pub(crate) async fn could_delete_records(
        &mut self,
        topic: &mut Topic,
        before: &Offsets,
    ) -> Result<CutShort, ClientError> {
        let indexes: Vec<PartitionIndex> = before.keys().copied().collect();
        let ends = self.offsets(topic, &indexes, OffsetAt::End).await?;
        let mut found = CutShort::default();
        for (index, start) in self.offsets(topic, &indexes, OffsetAt::Start).await? {
            let Some(&offset) = before.get(&index) else { continue };
            if ends.get(&index).is_some_and(|end| offset <= *end) {
                // What is gone stays gone.
                found.starts.insert(index, offset.max(start));
            } else {
                let (place, code) = (topic.place(index), ErrorCode::OffsetOutOfRange);
                found.fail(ClientError::Refused { place, code, message: None });
            }
        }
        Ok(found)
    }

    /// Asks for all of `left`, one request a leader, and takes from it what is settled. Gives an error that may pass.
    async fn delete_from_leaders(
        &mut self,
        topic: &Topic,
        left: &mut Offsets,
        done: &mut CutShort,
    ) -> Option<ClientError> {
        let mut passing = None;
        let mut by_leader: BTreeMap<NodeId, Vec<DeleteRecordsPartition>> = BTreeMap::new();
        left.retain(|&partition_index, &mut offset| {
            match topic.leader_of(partition_index) {
                Ok(leader) => by_leader
                    .entry(leader)
                    .or_default()
                    .push(DeleteRecordsPartition { partition_index, offset }),
                // The metadata is fresh: what is not in it is not about to come.
                Err(error) if error.is_absence() => {
                    done.fail(error);
                    return false;
                }
                Err(error) => passing = Some(error),
            }
            true
        });
        for (leader, partitions) in by_leader {
            let asked: Vec<_> = partitions.iter().map(|asked| asked.partition_index).collect();
            let results = match self.delete_from(leader, topic, partitions).await {
                Ok(results) => results,
                Err(error) if self.passes(&error) => {
                    passing = Some(error);
                    continue;
                }
                Err(error) => {
                    left.retain(|index, _| !asked.contains(index));
                    done.fail(error);
                    continue;
                }
            };
            for (index, result) in results {
                match result {
                    Ok(start) => drop(done.starts.insert(index, start)),
                    Err(error) if self.passes(&error) => {
                        passing = Some(error);
                        continue;
                    }
                    Err(error) => done.fail(error),
                }
                left.remove(&index);
            }
        }
        passing
    }

    /// Asks one leader, once: what became of each of `partitions`.
    async fn delete_from(
        &mut self,
        leader: NodeId,
        topic: &Topic,
        partitions: Vec<DeleteRecordsPartition>,
    ) -> Result<BTreeMap<PartitionIndex, Result<Offset, ClientError>>, ClientError> {
        let unmentioned = |asked: &DeleteRecordsPartition| {
            let place = topic.place(asked.partition_index);
            (asked.partition_index, Err(ClientError::NotMentioned { place }))
        };
        let mut results: BTreeMap<_, _> = partitions.iter().map(unmentioned).collect();
        let name = topic.name.as_str().into();
        let request = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic { name, partitions }],
            timeout_ms: self.timeout_ms(),
        };
        let options = CallOptions::within(self.timeout());
        let answer = self.ask(leader, &request, options).await?;
        let response: DeleteRecordsResponse<'_> = answer.read()?;
        for told in response.topics.iter().flat_map(|topic| &topic.partitions) {
            if let Some(result) = results.get_mut(&told.partition_index) {
                let place = topic.place(told.partition_index);
                *result =
                    ClientError::check(&place, told.error_code, None).map(|()| told.low_watermark);
            }
        }
        Ok(results)
    }
}
