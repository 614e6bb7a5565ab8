//! DescribeLogDirs (key 35): data directories and what lies in them.

use alloc::vec::Vec;

use record::PartitionIndex;

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks what lies in the data directories.
    request(DescribeLogDirs) DescribeLogDirsRequest<'a> {
        /// What to look for; null for everything.
        topics: Option<Vec<DescribableLogDirTopic<'a>>>, in 0.., null 0..;
    }

    /// One topic to look for.
    part DescribableLogDirTopic<'a> {
        /// The name of the topic.
        topic: Text<'a>, in 0..;
        /// The partitions to look for.
        partitions: Vec<PartitionIndex>, in 0..;
    }

    /// The data directories.
    response(DescribeLogDirs) DescribeLogDirsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 3..;
        /// The directories.
        results: Vec<DescribeLogDirsResult<'a>>, in 0..;
    }

    /// One data directory.
    part DescribeLogDirsResult<'a> {
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// Its path.
        log_dir: Text<'a>, in 0..;
        /// The topics.
        topics: Vec<DescribeLogDirsTopic<'a>>, in 0..;
        /// The size of its volume; -1 where it is not known.
        total_bytes: i64, in 4.., default -1;
        /// The free bytes of its volume; -1 where they are not known.
        usable_bytes: i64, in 4.., default -1;
        /// Whether no new partitions go there.
        is_cordoned: bool, in 5..;
    }

    /// One topic in it.
    part DescribeLogDirsTopic<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// Its partitions.
        partitions: Vec<DescribeLogDirsPartition>, in 0..;
    }

    /// One partition in it.
    part DescribeLogDirsPartition {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// The bytes of its log.
        partition_size: i64, in 0..;
        /// How far it lags behind the log that it will replace, or behind the high watermark.
        offset_lag: i64, in 0..;
        /// Whether it is going to replace a log in another directory.
        is_future_key: bool, in 0..;
    }
}
