//! DescribeQuorum (key 55), versions 0 to 2: who votes on metadata, and how far each is.
//!
//! 1 brings when a voter was last heard of, 2 its directory, its address and words for errors. There is one voter, which leads.

use record::{NodeId, PartitionIndex, ShardIndex, TopicId};
use wire::ErrorCode;
use wire::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, PartitionData, QuorumListener, QuorumNode,
    ReplicaState, TopicAsked, TopicData,
};

use crate::calls::QuorumState;
use crate::context::{Operation, Resource};
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Asks the coordinator how far it is.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DescribeQuorumRequest<'a>,
) -> Answer<DescribeQuorumResponse<'a>> {
    if !call.context.may(Operation::Describe, Resource::Cluster) {
        let error_code = ErrorCode::ClusterAuthorizationFailed;
        let error_message = Some("not allowed to describe the cluster".into());
        let body = DescribeQuorumResponse { error_code, error_message, ..Default::default() };
        return Answer::failed(body, error_code);
    }
    if !is_metadata(&request.topics) {
        return refuse(
            request,
            ErrorCode::UnknownTopicOrPartition,
            "only partition 0 of __cluster_metadata has a quorum",
        );
    }
    let Some(quorum) = call.shard.quorum().await else {
        return refuse(request, ErrorCode::NotLeaderOrFollower, "the node is stopping");
    };
    let partition = partition(call, quorum);
    let topic =
        TopicData { topic_name: cluster::METADATA_TOPIC.into(), partitions: vec![partition] };
    let nodes =
        vec![QuorumNode { node_id: call.shard.state().node_id, listeners: listeners(call) }];
    Answer::ok(DescribeQuorumResponse { topics: vec![topic], nodes, ..Default::default() })
}

fn is_metadata(topics: &[TopicAsked<'_>]) -> bool {
    let [topic] = topics else { return false };
    let [partition] = topic.partitions.as_slice() else { return false };
    topic.topic_name == cluster::METADATA_TOPIC && partition.partition_index == PartitionIndex(0)
}

/// Each partition that was asked for carries the error, as in Kafka.
fn refuse<'a>(
    request: &DescribeQuorumRequest<'a>,
    error_code: ErrorCode,
    message: &'static str,
) -> Answer<DescribeQuorumResponse<'a>> {
    let topics = request.topics.iter().map(|topic| TopicData {
        topic_name: topic.topic_name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|asked| PartitionData {
                partition_index: asked.partition_index,
                error_code,
                error_message: Some(message.into()),
                ..Default::default()
            })
            .collect(),
    });
    let body = DescribeQuorumResponse { topics: topics.collect(), ..Default::default() };
    Answer::failed(body, error_code)
}

fn partition<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    quorum: QuorumState,
) -> PartitionData<'static> {
    let own: NodeId = call.shard.state().node_id;
    let image = call.shard.image();
    let now = call.shard.platform().now();
    let voter = ReplicaState {
        replica_id: own,
        replica_directory_id: TopicId(
            image.node(own).map(|node| node.directory_id).unwrap_or_default(),
        ),
        log_end_offset: quorum.end,
        // The leader has what it has, at any time.
        last_fetch_timestamp: now,
        last_caught_up_timestamp: now,
    };
    PartitionData {
        partition_index: PartitionIndex(0),
        leader_id: own,
        leader_epoch: quorum.term,
        high_watermark: quorum.committed,
        current_voters: vec![voter],
        ..Default::default()
    }
}

/// Where this client reaches the voter: nothing listens for other nodes while there are none.
fn listeners<P: Platform, M: Mesh<Message>>(call: &Call<P, M>) -> Vec<QuorumListener<'static>> {
    let image = call.shard.image();
    let own = image.node(call.shard.state().node_id);
    let seen = own.and_then(|node| call.context.approach().to(node, ShardIndex(0)));
    let listener = seen.map(|endpoint| QuorumListener {
        name: call.context.listener.0.to_string().into(),
        host: endpoint.host.into(),
        port: endpoint.port,
    });
    listener.into_iter().collect()
}
