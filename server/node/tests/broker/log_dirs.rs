//! DescribeLogDirs: the data directory and the sizes of the logs in it.

use record::PartitionIndex;
use wire::ErrorCode;
use wire::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResponse,
};

use crate::support::{Client, Node, Topic, batch};

/// (topic, partition, bytes), in the order of the answer; everything else is checked here.
fn sizes(
    client: &mut Client,
    version: i16,
    asked: Option<&[(&str, &[i32])]>,
) -> Vec<(String, i32, i64)> {
    let topics = asked.map(|topics| {
        let topics = topics.iter().map(|(topic, partitions)| DescribableLogDirTopic {
            topic: (*topic).into(),
            partitions: partitions.iter().copied().map(PartitionIndex).collect(),
        });
        topics.collect()
    });
    let frame = client.call(version, &DescribeLogDirsRequest { topics });
    let answer: DescribeLogDirsResponse<'_> = frame.read();
    assert_eq!((answer.error_code, answer.results.len()), (ErrorCode::None, 1));
    let result = &answer.results[0];
    assert_eq!((result.error_code, result.is_cordoned), (ErrorCode::None, false));
    assert!(result.log_dir.starts_with('/'), "{}", &*result.log_dir);
    if version >= 4 {
        assert!(0 < result.usable_bytes && result.usable_bytes <= result.total_bytes);
    } else {
        assert_eq!((result.usable_bytes, result.total_bytes), (-1, -1));
    }
    let listed = result.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| {
            assert_eq!((partition.offset_lag, partition.is_future_key), (0, false));
            (topic.name.to_string(), partition.partition_index.0, partition.partition_size)
        })
    });
    listed.collect()
}

#[test]
fn sizes_of_all_cores_are_told_by_topic_and_partition() {
    let node = Node::start(2, &[]);
    let mut client = node.connect();
    let topic = Topic::create_named(&mut client, "b", 3, &[]);
    Topic::create_named(&mut client, "a", 1, &[]);
    let records = batch(&["value"]);
    for _ in 0..2 {
        client.append(&topic, 1, &records);
    }
    let two = 2 * records.len() as i64;
    let row = |topic: &str, partition, bytes| (topic.to_owned(), partition, bytes);
    let all = [row("a", 0, 0), row("b", 0, 0), row("b", 1, two), row("b", 2, 0)];
    for version in 1..=5 {
        assert_eq!(sizes(&mut client, version, None), all, "v{version}");
        let some = sizes(&mut client, version, Some(&[("b", &[1, 7]), ("nowhere", &[0])]));
        assert_eq!(some, [row("b", 1, two)], "v{version}");
        assert_eq!(sizes(&mut client, version, Some(&[])), []);
    }
}

#[test]
fn cores_that_are_brokers_tell_of_their_own_logs() {
    let node = Node::start(2, &["advertise=core"]);
    Topic::create_named(&mut node.connect(), "t", 4, &[]);
    let of = |core| -> Vec<i32> {
        let sizes = sizes(&mut node.connect_to_core(core), 5, None);
        sizes.into_iter().map(|(_, partition, _)| partition).collect()
    };
    let (first, second) = (of(0), of(1));
    assert_eq!((first.len(), second.len()), (2, 2));
    let mut both = [first, second].concat();
    both.sort_unstable();
    assert_eq!(both, [0, 1, 2, 3]);
}
