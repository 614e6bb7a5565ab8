//! DescribeProducers (key 61), version 0: the producers that partitions remember (KIP-664).
//!
//! Whoever looks for a transaction that hangs asks it: kafka-transactions describe-producers, and find-hanging.

use partition::ActiveProducer;
use record::{PartitionIndex, ShardIndex, TopicPartition};
use wire::Text;
use wire::describe_producers::{
    DescribeProducersPartitionResult, DescribeProducersRequest, DescribeProducersResponse,
    DescribeProducersTopicResult, ProducerState,
};

use crate::calls::{EntrySlot, ProducersAnswer, ProducersEntry};
use crate::connection::Served;
use crate::context::{Operation, Resource};
use crate::error_code::ToErrorCode;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::{DescribeProducersRefusal, FetchRefusal};
use crate::shard::TopicRef;

/// Partitions in one request; each costs a hundred bytes and more until it is answered. What asks for more is refused whole, so
/// that it costs no more than its own answer.
const PARTITIONS_MAX: usize = 100_000;

const TOO_MANY: &str = "more than one answer holds: ask for fewer partitions at a time";

/// Lists the producers, wherever the partitions are.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DescribeProducersRequest<'a>,
) -> Served<P::Disk> {
    let counts = request.topics.iter().map(|topic| topic.partition_indexes.len());
    if counts.sum::<usize>() > PARTITIONS_MAX {
        return call.reply(&refuse(request));
    }
    let (entries, mut answers) = plan(call, request).await;
    let (found, memory) = call.shard.producers(entries, call.memory.as_ref()).await;
    answers.extend(found);
    answers.sort_by_key(|answer| answer.slot);
    let mut errors = Vec::with_capacity(answers.len());
    let mut answers = answers.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for (partition, answer) in topic.partition_indexes.iter().zip(answers.by_ref()) {
            let result = result_of(*partition, answer);
            errors.push(result.error_code);
            partitions.push(result);
            call.shard.platform().yield_if_needed().await;
        }
        topics.push(DescribeProducersTopicResult { name: topic.name.clone(), partitions });
    }
    let body = DescribeProducersResponse { topics, ..Default::default() };
    call.reply_holding(&Answer::with_errors(body, errors), memory)
}

fn refuse<'a>(request: &DescribeProducersRequest<'a>) -> Answer<DescribeProducersResponse<'a>> {
    let refused =
        |partition: &PartitionIndex| refused(*partition, &DescribeProducersRefusal::TooMany);
    let topics = request.topics.iter().map(|topic| DescribeProducersTopicResult {
        name: topic.name.clone(),
        partitions: topic.partition_indexes.iter().map(refused).collect(),
    });
    let body = DescribeProducersResponse { topics: topics.collect(), ..Default::default() };
    Answer::failed(body, DescribeProducersRefusal::TooMany.error_code())
}

async fn plan<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DescribeProducersRequest<'_>,
) -> (Vec<(ShardIndex, ProducersEntry)>, Vec<ProducersAnswer>) {
    let mut entries = Vec::new();
    let mut refused = Vec::new();
    let asked = request.topics.iter().flat_map(|topic| {
        topic.partition_indexes.iter().map(move |partition| (&*topic.name, *partition))
    });
    for (slot, (name, partition)) in (0..).map(EntrySlot).zip(asked) {
        match locate(call, name, partition) {
            Ok((owner, partition)) => entries.push((owner, ProducersEntry { slot, partition })),
            Err(refusal) => refused.push(ProducersAnswer { slot, outcome: Err(refusal) }),
        }
        call.shard.platform().yield_if_needed().await;
    }
    (entries, refused)
}

fn locate<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    name: &str,
    partition: PartitionIndex,
) -> Result<(ShardIndex, TopicPartition), DescribeProducersRefusal> {
    let image = call.shard.image();
    let Some(found) = TopicRef::Name(name).find(&image) else {
        return Err(match cluster::check_topic_name(name) {
            Ok(()) => DescribeProducersRefusal::UnknownTopic,
            Err(_) => DescribeProducersRefusal::Name,
        });
    };
    if !call.context.may(Operation::Read, Resource::Topic(&found.name)) {
        return Err(FetchRefusal::TopicAuthorization.into());
    }
    let partition = TopicPartition { topic_id: found.id, partition };
    let owner = call.shard.owner_of(partition).ok_or(FetchRefusal::UnknownPartition)?;
    Ok((owner, partition))
}

fn result_of(
    partition_index: PartitionIndex,
    answer: ProducersAnswer,
) -> DescribeProducersPartitionResult<'static> {
    match answer.outcome {
        Ok(found) => DescribeProducersPartitionResult {
            partition_index,
            active_producers: found.iter().map(state_of).collect(),
            ..Default::default()
        },
        Err(refusal) => refused(partition_index, &refusal),
    }
}

/// The words are those of the code: they cost nothing, however many partitions are refused.
fn refused(
    partition_index: PartitionIndex,
    refusal: &DescribeProducersRefusal,
) -> DescribeProducersPartitionResult<'static> {
    let error_code = refusal.error_code();
    let error_message = match refusal {
        DescribeProducersRefusal::Read(_) => None,
        DescribeProducersRefusal::TooMany => Some(TOO_MANY),
        DescribeProducersRefusal::Name | DescribeProducersRefusal::UnknownTopic => {
            Some(error_code.text())
        }
    };
    DescribeProducersPartitionResult {
        partition_index,
        error_code,
        error_message: error_message.map(Text::Borrowed),
        ..Default::default()
    }
}

fn state_of(producer: &ActiveProducer) -> ProducerState {
    ProducerState {
        producer_id: producer.id,
        producer_epoch: producer.epoch.0.into(),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.transaction_first_offset,
    }
}
