//! What a run of produce does, in numbers, and the bounds of each.
//!
//! Owns the description and its validation. It makes nothing: templates, frames and schedules are made from it.

use std::fmt;
use std::time::Duration;

use record::Codec;
use serde::{Deserialize, Serialize};

use crate::read_load::FetchMode;
use crate::size::{RecordSize, SizeError};

/// Batches of one request together: below what any broker takes for a frame.
pub(crate) const REQUEST_BYTES_MAX: u64 = 100 << 20;
/// Connections together: each has a file, and buffers.
pub(crate) const CONNECTIONS_MAX: u32 = 20_000;
/// Distinct batches: what the ledger can tell apart.
pub(crate) const TEMPLATES_MAX: u32 = 1 << 16;
/// Memory for the distinct batches together.
pub(crate) const TEMPLATE_BYTES_MAX: u64 = 1 << 30;
/// Distinct batches together, where their number is not said: much more than a cache holds, little for a machine.
const TEMPLATE_BYTES_DEFAULT: u64 = 32 << 20;

/// What a run sends, how fast, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// How large the value of a record is.
    pub record_size: RecordSize,
    /// Distinct keys that are drawn from; 0 for records without one.
    pub keys: u32,
    /// What the values are made of.
    pub payload: Payload,
    /// How batches are compressed.
    #[serde(with = "codec_name")]
    pub compression: Codec,
    /// Bytes of a batch before compression; a batch holds one record at least.
    pub batch_bytes: u32,
    /// The most records of a batch.
    pub batch_records_max: u32,
    /// Distinct batches; `None` for as many as fit 32 MiB, 4 to 64.
    pub templates: Option<u32>,
    /// Who must have a batch before it is acknowledged.
    pub acks: Acks,
    /// Partitions that one request carries a batch for.
    pub partitions_per_request: u32,
    /// Connections in all; each leader gets one at least.
    pub connections: u32,
    /// Requests that a connection may have without an answer.
    pub in_flight: u32,
    /// Consumers beside the run, which read what is appended as it comes.
    pub consumers: u32,
    /// How these fetch.
    #[serde(default)]
    pub fetches: FetchMode,
    /// How long they stay behind what is acknowledged; zero for as close as they come.
    #[serde(default, with = "seconds")]
    pub consumer_lag: Duration,
    /// Connections that are open beside the run, and do nothing.
    #[serde(default)]
    pub idle_connections: u32,
    /// Compare the first and the last minutes, of which the last may be so many percent worse.
    #[serde(default)]
    pub steady_percent: Option<u32>,
    /// When requests are sent.
    pub pace: Pace,
    /// How long to send before anything counts.
    #[serde(with = "seconds")]
    pub warm_up: Duration,
    /// When the run ends.
    pub until: Until,
    /// What the records' bytes are drawn from.
    pub seed: u64,
    /// Bytes that the audit reads back at most; `None` for all.
    pub audit_bytes_max: Option<u64>,
}

/// What the values are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Bytes that no codec and no disk can make smaller.
    Random,
    /// Words out of a few hundred, which codecs make about three times smaller.
    Words,
}

/// Who must have a batch before it is acknowledged. There is no "nobody": what is not acknowledged cannot be audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acks {
    /// The leader.
    Leader,
    /// Every replica in sync.
    All,
}

impl Acks {
    /// As a request carries it.
    pub(crate) const fn code(self) -> i16 {
        match self {
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum Pace {
    /// As soon as there is room in flight; latency counts from the send.
    Closed,
    /// At a fixed rate of batch bytes, whatever the broker does; latency counts from when a request was due.
    Bytes {
        /// A second.
        per_second: u64,
    },
    /// The same, as a rate of requests.
    Requests {
        /// A second.
        per_second: u64,
    },
}

/// When a run ends: at the first of these that is reached, and there must be one. What is under way is still waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Until {
    /// This long after the warm-up.
    #[serde(with = "optional_seconds")]
    pub duration: Option<Duration>,
    /// So many bytes of batches acknowledged after the warm-up.
    pub bytes: Option<u64>,
    /// So many records acknowledged after the warm-up.
    pub records: Option<u64>,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            record_size: RecordSize::Fixed { bytes: 1_024 },
            keys: 0,
            payload: Payload::Random,
            compression: Codec::None,
            batch_bytes: 1 << 20,
            batch_records_max: u32::MAX >> 1,
            templates: None,
            acks: Acks::All,
            partitions_per_request: 1,
            connections: 1,
            in_flight: 5,
            consumers: 0,
            fetches: FetchMode::Whole,
            consumer_lag: Duration::ZERO,
            idle_connections: 0,
            steady_percent: None,
            pace: Pace::Closed,
            warm_up: Duration::from_secs(2),
            until: Until { duration: Some(Duration::from_secs(10)), ..Until::default() },
            seed: 1,
            audit_bytes_max: None,
        }
    }
}

/// Why a workload cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// A number outside its bounds.
    #[error("{option} = {value}: must be {min} to {max}")]
    OutOfBounds {
        /// Which, as the command line calls it.
        option: &'static str,
        /// What was asked.
        value: u64,
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A size that cannot be drawn from.
    #[error("record-size: {0}")]
    RecordSize(#[from] SizeError),
    /// Its first and last minutes are not known beforehand.
    #[error("steady: a run whose first and last minutes are compared needs a duration")]
    NoWindows,
    /// A run that never ends.
    #[error("the run has no end: give a duration, bytes or records")]
    NoEnd,
    /// More bytes in one request than brokers take.
    #[error(
        "{partitions} partitions a request with batches of {batch_bytes} bytes: \
         at most {REQUEST_BYTES_MAX} bytes a request"
    )]
    RequestTooLarge {
        /// Of one request.
        partitions: u32,
        /// Of one batch.
        batch_bytes: u32,
    },
    /// More memory for distinct batches than is reasonable.
    #[error(
        "{templates} templates of {batch_bytes} bytes: at most {TEMPLATE_BYTES_MAX} bytes together"
    )]
    TooManyTemplates {
        /// How many.
        templates: u32,
        /// Of each.
        batch_bytes: u32,
    },
}

impl Workload {
    /// Whether it can be run: every number within its bounds, and an end.
    pub fn check(&self) -> Result<(), WorkloadError> {
        self.record_size.check()?;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let templates = self.templates.map_or(1, u64::from);
        let rate = match self.pace {
            Pace::Closed => 1,
            Pace::Bytes { per_second } | Pace::Requests { per_second } => per_second,
        };
        let rate_max = match self.pace {
            Pace::Requests { .. } => 10_000_000,
            Pace::Bytes { .. } | Pace::Closed => 1_000_000_000_000,
        };
        in_bounds("keys", self.keys.into(), 0, 1_000_000)?;
        in_bounds("batch-bytes", self.batch_bytes.into(), 1, 64 << 20)?;
        in_bounds("batch-records", self.batch_records_max.into(), 1, (u32::MAX >> 1).into())?;
        in_bounds("templates", templates, 1, TEMPLATES_MAX.into())?;
        in_bounds("partitions-per-request", self.partitions_per_request.into(), 1, 10_000)?;
        in_bounds("connections", self.connections.into(), 1, CONNECTIONS_MAX.into())?;
        in_bounds("in-flight", self.in_flight.into(), 1, 10_000)?;
        in_bounds("consumers", self.consumers.into(), 0, 10_000)?;
        in_bounds("consumer-lag (ms)", ms(self.consumer_lag), 0, 3_600_000)?;
        in_bounds("idle-connections", self.idle_connections.into(), 0, CONNECTIONS_MAX.into())?;
        in_bounds("steady", self.steady_percent.unwrap_or(1).into(), 1, 1_000)?;
        if self.steady_percent.is_some() && self.until.duration.is_none() {
            return Err(WorkloadError::NoWindows);
        }
        in_bounds("rate", rate, 1, rate_max)?;
        in_bounds("warm-up (ms)", ms(self.warm_up), 0, 3_600_000)?;
        check_until(self.until)?;
        if self.until == Until::default() {
            return Err(WorkloadError::NoEnd);
        }
        self.check_memory()
    }

    fn check_memory(&self) -> Result<(), WorkloadError> {
        // A batch holds one record at least, however large that is.
        let batch_bytes = self.batch_bytes.max(self.record_size.bytes_max());
        let partitions = self.partitions_per_request;
        if u64::from(partitions) * u64::from(batch_bytes) > REQUEST_BYTES_MAX {
            return Err(WorkloadError::RequestTooLarge { partitions, batch_bytes });
        }
        let templates = self.template_count();
        if u64::from(templates) * u64::from(batch_bytes) > TEMPLATE_BYTES_MAX {
            return Err(WorkloadError::TooManyTemplates { templates, batch_bytes });
        }
        Ok(())
    }

    /// How many distinct batches to make.
    pub(crate) fn template_count(&self) -> u32 {
        let batch_bytes = self.batch_bytes.max(self.record_size.bytes_max()).max(1);
        let fit = TEMPLATE_BYTES_DEFAULT / u64::from(batch_bytes);
        self.templates.unwrap_or_else(|| u32::try_from(fit.clamp(4, 64)).unwrap_or(64))
    }
}

/// The bounds of what ends a run, where it is said.
pub(crate) fn check_until(until: Until) -> Result<(), WorkloadError> {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    in_bounds("duration (ms)", until.duration.map_or(1, ms), 1, 7 * 86_400_000)?;
    in_bounds("bytes", until.bytes.unwrap_or(1), 1, 1 << 50)?;
    in_bounds("records", until.records.unwrap_or(1), 1, 1 << 50)
}

/// Whether the value of an option may be.
pub(crate) fn in_bounds(
    option: &'static str,
    value: u64,
    min: u64,
    max: u64,
) -> Result<(), WorkloadError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(WorkloadError::OutOfBounds { option, value, min, max })
}

impl fmt::Display for Pace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => formatter.write_str("as fast as acknowledged"),
            Self::Bytes { per_second } => write!(formatter, "{per_second} bytes/s, open loop"),
            Self::Requests { per_second } => {
                write!(formatter, "{per_second} requests/s, open loop")
            }
        }
    }
}

/// A codec by its name.
mod codec_name {
    use record::Codec;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(
        codec: &Codec,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(codec.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Codec, D::Error> {
        let name = String::deserialize(deserializer)?;
        Codec::by_name(&name).ok_or_else(|| D::Error::custom("no such codec"))
    }
}

/// A duration as seconds.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The same, or null.
mod optional_seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        seconds.map(Duration::try_from_secs_f64).transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Workload)) -> Option<String> {
        let mut workload = Workload::default();
        change(&mut workload);
        workload.check().err().map(|error| error.to_string())
    }

    #[test]
    fn the_default_can_be_run_and_reads_back_from_json() {
        let workload = Workload::default();
        assert_eq!(workload.check(), Ok(()));
        let json = serde_json::to_string(&workload).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), workload, "{json}");
    }

    #[test]
    fn every_number_is_held_to_its_bounds() {
        type Change = fn(&mut Workload);
        let cases: [(Change, &str); 17] = [
            (|w| w.consumer_lag = Duration::from_secs(3_601), "consumer-lag (ms) = 3601000"),
            (|w| w.idle_connections = 20_001, "idle-connections = 20001"),
            (|w| w.steady_percent = Some(0), "steady = 0"),
            (|w| w.consumers = 10_001, "consumers = 10001: must be 0 to 10000"),
            (|w| w.record_size = RecordSize::Fixed { bytes: 0 }, "record of 0 bytes: must be 1 to"),
            (|w| w.keys = 1_000_001, "keys = 1000001: must be 0 to 1000000"),
            (|w| w.batch_bytes = 0, "batch-bytes = 0: must be 1 to 67108864"),
            (|w| w.batch_records_max = 0, "batch-records = 0"),
            (|w| w.templates = Some(65_537), "templates = 65537"),
            (|w| w.partitions_per_request = 0, "partitions-per-request = 0"),
            (|w| w.connections = 20_001, "connections = 20001"),
            (|w| w.in_flight = 0, "in-flight = 0: must be 1 to 10000"),
            (|w| w.pace = Pace::Requests { per_second: 0 }, "rate = 0"),
            (|w| w.warm_up = Duration::from_secs(3_601), "warm-up (ms) = 3601000"),
            (|w| w.until.duration = Some(Duration::ZERO), "duration (ms) = 0"),
            (|w| w.until.bytes = Some(0), "bytes = 0"),
            (|w| w.until.records = Some(0), "records = 0"),
        ];
        for (change, expected) in cases {
            let found = refusal(change).unwrap();
            assert!(found.contains(expected), "{found}: {expected}");
        }
    }

    #[test]
    fn what_would_not_end_or_not_fit_is_refused() {
        assert!(refusal(|w| w.until = Until::default()).unwrap().contains("no end"));
        let steady = refusal(|w| {
            w.steady_percent = Some(10);
            w.until = Until { bytes: Some(9), ..Until::default() };
        });
        assert!(steady.unwrap().contains("needs a duration"));
        let large = refusal(|w| w.partitions_per_request = 101).unwrap();
        assert!(large.contains("101 partitions") && large.contains("104857600"), "{large}");
        let record = refusal(|w| {
            w.record_size = RecordSize::Fixed { bytes: 64 << 20 };
            w.partitions_per_request = 2;
        });
        assert!(record.unwrap().contains("batches of 67108864 bytes"));
        let many = refusal(|w| w.templates = Some(1_025)).unwrap();
        assert!(many.contains("1025 templates of 1048576 bytes"), "{many}");
    }

    #[test]
    fn distinct_batches_fill_a_bounded_memory_where_their_number_is_not_said() {
        let count = |batch_bytes| Workload { batch_bytes, ..Workload::default() }.template_count();
        assert_eq!([1, 1 << 20, 64 << 20].map(count), [64, 32, 4]);
        let record_size = RecordSize::Fixed { bytes: 4 << 20 };
        assert_eq!(Workload { record_size, ..Workload::default() }.template_count(), 8);
        let said = Workload { templates: Some(3), ..Workload::default() };
        assert_eq!(said.template_count(), 3);
    }
}
