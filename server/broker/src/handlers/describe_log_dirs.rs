//! DescribeLogDirs (key 35), versions 1 to 5: the data directory and the size of what lies in it.
//!
//! A node has one directory. 3 brings the error of the whole answer, 4 the size of the volume, 5 cordoned directories, of which
//! there are none. Where every core is a broker of its own, each answers for its own partitions, so that sums are right.

use std::collections::BTreeMap;

use commitlog::Disk;
use record::TopicPartition;
use wire::ErrorCode;
use wire::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};

use crate::calls::LogSize;
use crate::context::{Operation, Resource};
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::Cores;

/// About what a partition, and a topic beside its partitions, take in an answer.
const PARTITION_BYTES: usize = 25;
const TOPIC_BYTES: usize = 32;

/// About how many bytes an answer has.
pub(super) fn answer_bytes(answer: &Answer<DescribeLogDirsResponse<'_>>) -> usize {
    let topics = answer.body.results.iter().flat_map(|result| &result.topics);
    topics.map(|topic| TOPIC_BYTES + topic.partitions.len() * PARTITION_BYTES).sum()
}

/// Adds the sizes up by topic.
pub(super) async fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DescribeLogDirsRequest<'_>,
) -> Answer<DescribeLogDirsResponse<'static>> {
    if !call.context.may(Operation::Describe, Resource::Cluster) {
        let error_code = ErrorCode::ClusterAuthorizationFailed;
        let body = DescribeLogDirsResponse { error_code, ..Default::default() };
        return Answer::failed(body, error_code);
    }
    let mut sizes = call.shard.log_sizes(cores_asked(call)).await;
    if let Some(wanted) = wanted(call, request) {
        sizes.retain(|size| wanted.binary_search(&size.partition).is_ok());
    }
    let platform = call.shard.platform();
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let free = platform.disk().free_bytes().await;
    let directory = &call.shard.state().config.data_dir;
    // Where the working directory is unknown, the path as it was given is the best there is.
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
    let result = DescribeLogDirsResult {
        error_code: ErrorCode::None,
        log_dir: directory.display().to_string().into(),
        topics: topics_of(call, &sizes),
        // Asked for each time: a volume may have grown.
        total_bytes: bytes(platform.disk_bytes().await),
        usable_bytes: free.map_or(-1, bytes),
        is_cordoned: false,
    };
    Answer::ok(DescribeLogDirsResponse { results: vec![result], ..Default::default() })
}

/// Whose logs this broker answers for.
fn cores_asked<P: Platform, M: Mesh<Message>>(call: &Call<P, M>) -> Cores {
    let image = call.shard.image();
    let own = image.node(call.shard.state().node_id);
    let brokers = own.map_or(1, |node| call.context.approach().to_all(node).len());
    if brokers > 1 { Cores::This } else { Cores::All }
}

/// The partitions asked for, ascending; `None` for all. Those that do not exist are left out, as Kafka does.
fn wanted<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DescribeLogDirsRequest<'_>,
) -> Option<Vec<TopicPartition>> {
    let image = call.shard.image();
    let topics = request.topics.as_ref()?;
    let known = topics.iter().filter_map(|asked| Some((image.topic(&asked.topic)?.id, asked)));
    let wanted = known.flat_map(|(topic_id, asked)| {
        asked
            .partitions
            .iter()
            .map(move |partition| TopicPartition { topic_id, partition: *partition })
    });
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort_unstable();
    Some(wanted)
}

fn topics_of<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    sizes: &[LogSize],
) -> Vec<DescribeLogDirsTopic<'static>> {
    let image = call.shard.image();
    let mut topics: BTreeMap<String, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for size in sizes {
        let Some(topic) = image.topic_by_id(size.partition.topic_id) else { continue };
        let partition = DescribeLogDirsPartition {
            partition_index: size.partition.partition,
            partition_size: i64::try_from(size.bytes).unwrap_or(i64::MAX),
            // The only replica: it is never behind itself, and nothing replaces it.
            offset_lag: 0,
            is_future_key: false,
        };
        topics.entry(topic.name.to_string()).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(name, mut partitions)| {
        partitions.sort_by_key(|partition| partition.partition_index);
        DescribeLogDirsTopic { name: name.into(), partitions }
    });
    topics.collect()
}
