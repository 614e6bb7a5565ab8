//! What a run of consume does, in numbers, and the bounds of each.
//!
//! Owns the description and its validation.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::workload::{Until, WorkloadError, check_until, in_bounds, seconds};

/// What a run reads, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLoad {
    /// Where it begins, and what it does at the end.
    pub from: ReadFrom,
    /// Consumers that read beside each other; each reads everything.
    pub consumers: u32,
    /// Bytes of an answer.
    pub fetch_bytes: u32,
    /// Of them, for one partition.
    pub partition_bytes: u32,
    /// Whether requests go on in a session.
    #[serde(default)]
    pub fetches: FetchMode,
    /// What is looked at.
    pub check: Check,
    /// How long to read before anything counts.
    #[serde(with = "seconds")]
    pub warm_up: Duration,
    /// When the run ends, if not with the log.
    pub until: Until,
}

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "place", rename_all = "snake_case")]
pub enum ReadFrom {
    /// With the first record, once to the end: what a consumer does that has fallen behind. It is cold as far as the broker does
    /// not hold it in memory.
    Beginning,
    /// With the last so many records of each partition, again and again: they are in the broker's memory after the first time.
    Tail {
        /// How many.
        records: u64,
    },
}

/// What is looked at of each batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Its checksum and its offsets.
    Crc,
    /// Its offsets alone, so that the client costs less.
    Offsets,
}

/// What a fetch request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FetchMode {
    /// Everything that is wanted.
    #[default]
    Whole,
    /// What has changed since the last one (KIP-227), as Kafka's consumers do. A broker that gives no session is asked whole.
    Session,
}

impl Default for ReadLoad {
    fn default() -> Self {
        Self {
            from: ReadFrom::Beginning,
            consumers: 1,
            fetch_bytes: 16 << 20,
            partition_bytes: 1 << 20,
            fetches: FetchMode::Whole,
            check: Check::Crc,
            warm_up: Duration::ZERO,
            until: Until::default(),
        }
    }
}

impl ReadLoad {
    /// Whether it can be run: every number within its bounds, and an end.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let warm_up_ms = u64::try_from(self.warm_up.as_millis()).unwrap_or(u64::MAX);
        in_bounds("consumers", self.consumers.into(), 1, 10_000)?;
        in_bounds("fetch-bytes", self.fetch_bytes.into(), 1, 1 << 30)?;
        in_bounds("partition-bytes", self.partition_bytes.into(), 1, 1 << 30)?;
        in_bounds("warm-up (ms)", warm_up_ms, 0, 3_600_000)?;
        check_until(self.until)?;
        match self.from {
            ReadFrom::Beginning => Ok(()),
            ReadFrom::Tail { .. } if self.until == Until::default() => Err(WorkloadError::NoEnd),
            ReadFrom::Tail { records } => in_bounds("tail", records, 1, 1 << 40),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_held_to_their_bounds_and_a_tail_needs_an_end() {
        let default = ReadLoad::default();
        assert_eq!(default.check(), Ok(()));
        let refusal = |load: ReadLoad| load.check().unwrap_err().to_string();
        assert!(refusal(ReadLoad { consumers: 0, ..default }).contains("consumers = 0"));
        assert!(refusal(ReadLoad { fetch_bytes: 0, ..default }).contains("fetch-bytes = 0"));
        let partition = ReadLoad { partition_bytes: 2 << 30, ..default };
        assert!(refusal(partition).contains("partition-bytes"));
        let until = Until { records: Some(0), ..Until::default() };
        assert!(refusal(ReadLoad { until, ..default }).contains("records = 0"));
        let tail = ReadLoad { from: ReadFrom::Tail { records: 5 }, ..default };
        assert_eq!(tail.check(), Err(WorkloadError::NoEnd));
        let until = Until { bytes: Some(9), ..Until::default() };
        assert_eq!(ReadLoad { until, ..tail }.check(), Ok(()));
        let nothing = ReadLoad { from: ReadFrom::Tail { records: 0 }, until, ..default };
        assert!(refusal(nothing).contains("tail = 0"));
    }

    #[test]
    fn it_reads_back_from_json() {
        let load = ReadLoad { from: ReadFrom::Tail { records: 5 }, ..ReadLoad::default() };
        let json = serde_json::to_string(&load).unwrap();
        assert_eq!(serde_json::from_str::<ReadLoad>(&json).unwrap(), load, "{json}");
    }
}
