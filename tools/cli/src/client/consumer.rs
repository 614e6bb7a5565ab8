//! Records from partitions: one long poll a leader, all at once, and what they bring one by one.
//!
//! Owns the positions. A fetch that names a moved leader is asked again after new metadata; an offset that is not there
//! is an error for a person, never a silent jump.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use broker::Platform;
use bytes::Bytes;
use record::{NodeId, Offset, PartitionIndex, TopicId};
use wire::ErrorCode;
use wire::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData};

use crate::client::together::{self, Boxed};
use crate::client::{
    Answer, Attempts, AutoCreate, CallOptions, Client, ClientError, Connection, Topic,
};

/// How long a broker holds a fetch that has nothing to give.
const WAIT: Duration = Duration::from_millis(500);
/// How long an answer may take beyond that at most: a cold disk and a slow network.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Bytes of one answer.
const ANSWER_BYTES: i32 = 16 << 20;
/// Bytes of one partition in an answer; a larger batch comes whole all the same.
const PARTITION_BYTES: i32 = 4 << 20;
/// The last Fetch version that names topics, for brokers that do not tell ids.
const FETCH_BY_NAME_MAX: i16 = 12;

/// What a partition gave.
#[derive(Debug, Clone)]
pub(crate) struct Fetched {
    /// Which.
    pub(crate) partition: PartitionIndex,
    /// Where reading goes on; the first batch may start before it.
    pub(crate) from: Offset,
    /// Whole batches, and perhaps the beginning of another.
    pub(crate) batches: Bytes,
}

type Flight<P> = (NodeId, Result<(Connection<P>, Answer), ClientError>);

/// A consumer of partitions of one topic.
pub(crate) struct Consumer<'c, P: Platform> {
    client: &'c mut Client<P>,
    topic: Topic,
    positions: BTreeMap<PartitionIndex, Offset>,
    /// A long poll of each leader in `asked`.
    flights: Vec<Boxed<'static, Flight<P>>>,
    asked: BTreeSet<NodeId>,
    attempts: Attempts<P>,
    wait: Duration,
}

impl<'c, P: Platform> Consumer<'c, P> {
    /// A consumer that starts at these positions.
    pub(crate) fn new(
        client: &'c mut Client<P>,
        topic: Topic,
        positions: BTreeMap<PartitionIndex, Offset>,
    ) -> Self {
        let attempts = client.attempts();
        let (flights, asked) = (Vec::new(), BTreeSet::new());
        Self { client, topic, positions, flights, asked, attempts, wait: WAIT }
    }

    /// The same, coming back from [`Consumer::next`] after `wait` where there is nothing, if that is less than it would take.
    pub(crate) fn polling_for(mut self, wait: Duration) -> Self {
        self.wait = self.wait.min(wait);
        self
    }

    /// Says that everything of `partition` before `position` is done with.
    pub(crate) fn move_to(&mut self, partition: PartitionIndex, position: Offset) {
        self.positions.insert(partition, position);
    }

    /// Reads no more of `partition`.
    pub(crate) fn leave(&mut self, partition: PartitionIndex) {
        self.positions.remove(&partition);
    }

    /// Whether there is no partition left to read.
    pub(crate) fn is_done(&self) -> bool {
        self.positions.is_empty()
    }

    /// Asks every leader that has nothing to answer yet, and waits for the first answer; empty where it held nothing new.
    ///
    /// Order   the caller moves the positions over what it was given before it comes back.
    /// Errors  those that do not pass, or have not passed when the time is up.
    pub(crate) async fn next(&mut self) -> Result<Vec<Fetched>, ClientError> {
        match self.next_once().await {
            Ok(fetched) => {
                self.attempts.restart(self.client.timeout());
                Ok(fetched)
            }
            Err(error) if self.client.passes(&error) && !is_final(&error) => {
                // The other polls may ask leaders that have moved too: all start anew.
                self.flights.clear();
                self.asked.clear();
                self.attempts.pause(error).await?;
                match self.client.topic_once(&self.topic.name, AutoCreate::Never).await {
                    Ok(topic) => self.topic = topic,
                    Err(error) if self.client.passes(&error) => {}
                    Err(error) => return Err(error),
                }
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    async fn next_once(&mut self) -> Result<Vec<Fetched>, ClientError> {
        for (leader, partitions) in self.idle_leaders()? {
            let connection = self.client.take_leader(leader).await?;
            let (name, id, wait) = (self.topic.name.clone(), self.topic.id, self.wait);
            let within = wait + ANSWER_TIME.min(self.client.timeout());
            self.flights.push(Box::pin(async move {
                let request = request(&name, id, partitions, wait);
                (leader, fetch(connection, request, within).await)
            }));
            self.asked.insert(leader);
        }
        let Some((leader, result)) = together::first(&mut self.flights).await else {
            return Ok(Vec::new());
        };
        self.asked.remove(&leader);
        let (connection, answer) = result?;
        self.client.keep_leader(leader, connection);
        self.take(&answer)
    }

    /// What to ask of each leader that has no poll of ours.
    fn idle_leaders(&self) -> Result<BTreeMap<NodeId, Vec<FetchPartition>>, ClientError> {
        let mut by_leader: BTreeMap<NodeId, Vec<FetchPartition>> = BTreeMap::new();
        for (index, position) in &self.positions {
            let place = self.topic.place(*index);
            let Some(partition) = self.topic.partition(*index) else {
                ClientError::check(&place, ErrorCode::UnknownTopicOrPartition, None)?;
                continue;
            };
            if partition.leader == NodeId::NONE {
                ClientError::check(&place, ErrorCode::LeaderNotAvailable, None)?;
            }
            if self.asked.contains(&partition.leader) {
                continue;
            }
            by_leader.entry(partition.leader).or_default().push(FetchPartition {
                partition: *index,
                current_leader_epoch: partition.leader_epoch,
                fetch_offset: *position,
                partition_max_bytes: PARTITION_BYTES,
                ..FetchPartition::default()
            });
        }
        Ok(by_leader)
    }

    fn take(&self, answer: &Answer) -> Result<Vec<Fetched>, ClientError> {
        let response: FetchResponse<'_> = answer.read()?;
        ClientError::check(&self.topic.name, response.error_code, None)?;
        let mut fetched = Vec::new();
        for data in response.responses.iter().flat_map(|topic| &topic.partitions) {
            let index = data.partition_index;
            // A partition that was left while its poll was under way is none of our business any more.
            let Some(position) = self.positions.get(&index) else { continue };
            let place = format!("{} at offset {position}", self.topic.place(index));
            ClientError::check(&place, data.error_code, range(data).as_deref())?;
            let records = data.records.inline();
            if !records.is_empty() {
                let batches = answer.share(records);
                fetched.push(Fetched { partition: index, from: *position, batches });
            }
        }
        Ok(fetched)
    }
}

/// Which offsets there are, for the one error that is about that.
fn range(data: &PartitionData<'_>) -> Option<String> {
    let is_about_it = data.error_code == ErrorCode::OffsetOutOfRange && data.high_watermark.0 >= 0;
    is_about_it.then(|| {
        let (start, end) = (data.log_start_offset, data.high_watermark);
        format!("it is not there: the partition starts at {start} and ends at {end}")
    })
}

fn request(
    topic: &str,
    topic_id: TopicId,
    partitions: Vec<FetchPartition>,
    wait: Duration,
) -> FetchRequest<'_> {
    FetchRequest {
        max_wait_ms: i32::try_from(wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: 1,
        max_bytes: ANSWER_BYTES,
        topics: vec![FetchTopic { topic: topic.into(), topic_id, partitions }],
        ..FetchRequest::default()
    }
}

async fn fetch<P: Platform>(
    mut connection: Connection<P>,
    request: FetchRequest<'_>,
    within: Duration,
) -> Result<(Connection<P>, Answer), ClientError> {
    let is_by_name = request.topics.iter().any(|topic| topic.topic_id == TopicId::ZERO);
    let version_max = if is_by_name { FETCH_BY_NAME_MAX } else { i16::MAX };
    let answer = connection.call(&request, CallOptions { within, version_max }).await?;
    Ok((connection, answer))
}

/// Codes that pass for a broker but not for a reader: it would ask for the same damaged bytes until the time is up.
fn is_final(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::CorruptMessage)
}
