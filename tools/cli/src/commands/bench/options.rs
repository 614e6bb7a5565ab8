//! The command line of `corelog bench produce`, and the workload that it describes.
//!
//! Owns names, help and what holds where nothing is said. Bounds are `load`'s.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use load::{
    Acks, FetchMode, Pace, Payload, ProduceOptions, RecordSize, TopicChoice, Until, Workload,
};
use record::Codec;

use super::units::{parse_bytes, parse_bytes_u32, parse_duration};
use crate::client::Address;
use crate::commands::topic::parse_pair;
use crate::exit::{Exit, Failure, Outcome};
use crate::{ClusterArgs, OutputArgs};

const EXAMPLES: &str = "\
Examples:
  corelog bench produce
  corelog bench produce --duration 30 --broker-pid 4711 --save run.json
  corelog bench produce --rate 10MB --batch-records 10 --connections 8 --hdr-log acks.hlog
  corelog bench produce --rate 10MB --batch-records 10 --consumers 1
  corelog bench produce --partitions 16 --partitions-per-request 16 --batch-bytes 64KiB
  corelog bench produce --record-size 100 --batch-records 1 --connections 64 --acks leader
  corelog bench produce --rate 50MB --consumers 1 --consumer-lag 30 --steady --duration 30m
  corelog bench produce --record-size lognormal:500:1 --keys 1000 -z zstd --bytes 2GB

Latency counts from when a request was due (--rate, --request-rate) or from when it was sent. What
was sent is read back and compared after every run: one that fails this exits with 5. Without an
end it is 10 seconds or 4 GB, whichever comes first. The topic is made for the run and deleted.";

/// Bytes of a run whose end is not said: a full disk is no good first impression.
const BYTES_DEFAULT: u64 = 4_000_000_000;
/// Seconds of one.
const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProduceArgs {
    #[command(flatten)]
    batches: BatchArgs,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    topic: TopicArgs,
    /// Read back so many bytes at most; everything where it is not said
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    audit_bytes: Option<u64>,
    /// A directory of the broker's log: flushes of the device under it are counted [default: by the files that --broker-pid has open]
    #[arg(long, value_name = "DIR")]
    broker_dir: Option<PathBuf>,
    /// Fail unless that device was flushed as often as durable acknowledgements need, whatever the topic's options promise
    #[arg(long)]
    require_flushes: bool,
    #[command(flatten)]
    told: ToldArgs,
    /// Keep this client to these CPUs, as 1 or 2-3 or 1,3
    #[arg(long, value_name = "CPUS", value_parser = parse_cpus)]
    cpus: Option<Cpus>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// CPUs of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cpus(pub(super) Vec<usize>);

/// What is sent.
#[derive(Debug, Args)]
struct BatchArgs {
    /// Bytes of a record's value: BYTES, uniform:MIN-MAX or lognormal:MEDIAN:SIGMA
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = parse_size)]
    record_size: RecordSize,
    /// Draw keys from so many; 0 for records without
    #[arg(long, value_name = "N", default_value_t = 0)]
    keys: u32,
    /// What values are made of: bytes that cannot be compressed, or words [default: words where batches are compressed]
    #[arg(long, value_enum)]
    payload: Option<PayloadArg>,
    /// How batches are compressed
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none", value_parser = codec_parser())]
    compression: Codec,
    /// Bytes of a batch before compression
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes_u32)]
    batch_bytes: u32,
    /// The most records of a batch; 1 is unbatched
    #[arg(long, value_name = "N")]
    batch_records: Option<u32>,
    /// Distinct batches to send in turn [default: as many as fit 32 MiB, 4 to 64]
    #[arg(long, value_name = "N")]
    templates: Option<u32>,
    /// Partitions that one request carries a batch for
    #[arg(long, value_name = "N", default_value_t = 1)]
    partitions_per_request: u32,
    /// Who must have a batch before it is acknowledged
    #[arg(short, long, value_enum, default_value = "all")]
    acks: AcksArg,
    /// What records are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// How fast, and how long.
#[derive(Debug, Args)]
struct PaceArgs {
    /// Connections in all; each leader gets one at least
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: u32,
    /// Requests of a connection without an answer
    #[arg(long, value_name = "N", default_value_t = 5)]
    in_flight: u32,
    /// Consumers beside the run, which read what is appended as it comes: from when a request was due to when they had its batch is
    /// told
    #[arg(long, value_name = "N", default_value_t = 0)]
    consumers: u32,
    /// These consumers stay so long behind what is acknowledged
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration, requires = "consumers")]
    consumer_lag: Duration,
    /// Consumers fetch in sessions (KIP-227), as Kafka's do, and name only what has changed
    #[arg(long)]
    fetch_sessions: bool,
    /// Connections that are open beside the run, and do nothing: the broker's memory for each is told with --broker-pid
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle_connections: u32,
    /// Compare the first and last five minutes (or tenths) of the run: throughput, p99.9 and the broker's memory may become so many
    /// percent worse
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "10", requires = "duration")]
    steady: Option<u32>,
    /// Send so many bytes of batches a second, whatever the broker does [default: as fast as possible]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "request_rate")]
    rate: Option<u64>,
    /// The same, as requests a second
    #[arg(long, value_name = "N")]
    request_rate: Option<u64>,
    /// Send so long before anything counts
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    warm_up: Duration,
    /// End so long after the warm-up
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// End when so many bytes of batches are acknowledged after the warm-up
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    bytes: Option<u64>,
    /// End when so many records are
    #[arg(long, value_name = "N")]
    records: Option<u64>,
}

/// Where to.
#[derive(Debug, Args)]
struct TopicArgs {
    /// Write to this topic, which stays; nobody else may write to it meanwhile
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["partitions", "replication_factor", "configs", "keep_topic"])]
    topic: Option<String>,
    /// Partitions of the topic that is made for the run
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Its replicas [default: the cluster's]
    #[arg(short, long, value_name = "N", default_value_t = -1, hide_default_value = true, value_parser = clap::value_parser!(i16).range(-1..))]
    replication_factor: i16,
    /// One of its options, such as write.caching=true; repeatable
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", value_parser = parse_pair)]
    configs: Vec<(String, String)>,
    /// Leave it behind
    #[arg(long)]
    keep_topic: bool,
}

/// What is told.
#[derive(Debug, Args)]
pub(super) struct ToldArgs {
    /// The broker's process on this machine: its CPU time, memory, switches and disk bytes are told
    #[arg(long, value_name = "PID")]
    pub(super) broker_pid: Option<u32>,
    /// Write the latencies of every second in hdrhistogram's log format
    #[arg(long, value_name = "FILE")]
    pub(super) hdr_log: Option<PathBuf>,
    /// Write the result as JSON, to be compared with others
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Draw the result as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) page: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    pub(super) quiet: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PayloadArg {
    Random,
    Words,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AcksArg {
    Leader,
    All,
}

fn parse_size(text: &str) -> Result<RecordSize, String> {
    RecordSize::parse(text).map_err(|error| error.to_string())
}

fn codec_parser() -> impl clap::builder::TypedValueParser<Value = Codec> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(Codec::ALL.map(Codec::name))
        .map(|name| Codec::by_name(&name).unwrap_or_default())
}

pub(super) fn parse_cpus(text: &str) -> Result<Cpus, String> {
    const CPU_MAX: usize = 1_023;
    let number = |text: &str| text.parse::<usize>().ok().filter(|cpu| *cpu <= CPU_MAX);
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
            _ => return Err("must be like 1 or 2-3 or 1,3".to_owned()),
        }
    }
    Ok(Cpus(cpus))
}

/// What a fetch request names.
pub(super) fn fetches(in_sessions: bool) -> FetchMode {
    if in_sessions { FetchMode::Session } else { FetchMode::Whole }
}

/// Addresses as `load` has them.
pub(super) fn addresses(found: Vec<Address>) -> Vec<load::Address> {
    let address = |address: Address| load::Address { host: address.host, port: address.port };
    found.into_iter().map(address).collect()
}

impl ProduceArgs {
    /// What is told beside the result.
    pub(super) fn told(&self) -> &ToldArgs {
        &self.told
    }

    /// Whether consumers fetch in sessions.
    pub(super) fn has_fetch_sessions(&self) -> bool {
        self.pace.fetch_sessions
    }

    /// The CPUs that the client keeps to.
    pub(super) fn cpus(&self) -> Option<&Cpus> {
        self.cpus.as_ref()
    }

    /// What `load` is to do.
    pub(super) fn options(&self) -> Outcome<ProduceOptions> {
        let client = self.cluster.options()?;
        let workload = self.workload();
        workload.check().map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        Ok(ProduceOptions {
            workload,
            bootstrap: addresses(client.bootstrap),
            topic: self.topic.choice(),
            timeout: client.timeout,
            broker_pid: self.told.broker_pid,
            broker_dir: self.broker_dir.clone(),
            require_flushes: self.require_flushes,
        })
    }

    fn workload(&self) -> Workload {
        let BatchArgs { compression, payload, .. } = self.batches;
        let payload = match payload {
            Some(PayloadArg::Random) => Payload::Random,
            Some(PayloadArg::Words) => Payload::Words,
            None if compression == Codec::None => Payload::Random,
            None => Payload::Words,
        };
        let defaults = Workload::default();
        Workload {
            record_size: self.batches.record_size,
            keys: self.batches.keys,
            payload,
            compression,
            batch_bytes: self.batches.batch_bytes,
            batch_records_max: self.batches.batch_records.unwrap_or(defaults.batch_records_max),
            templates: self.batches.templates,
            acks: match self.batches.acks {
                AcksArg::Leader => Acks::Leader,
                AcksArg::All => Acks::All,
            },
            partitions_per_request: self.batches.partitions_per_request,
            connections: self.pace.connections,
            in_flight: self.pace.in_flight,
            consumers: self.pace.consumers,
            fetches: fetches(self.pace.fetch_sessions),
            consumer_lag: self.pace.consumer_lag,
            idle_connections: self.pace.idle_connections,
            steady_percent: self.pace.steady,
            pace: self.pace.pace(),
            warm_up: self.pace.warm_up,
            until: self.pace.until(),
            seed: self.batches.seed,
            audit_bytes_max: self.audit_bytes,
        }
    }
}

impl PaceArgs {
    fn pace(&self) -> Pace {
        match (self.rate, self.request_rate) {
            (Some(per_second), _) => Pace::Bytes { per_second },
            (None, Some(per_second)) => Pace::Requests { per_second },
            (None, None) => Pace::Closed,
        }
    }

    fn until(&self) -> Until {
        let Self { duration, bytes, records, .. } = *self;
        if duration.is_none() && bytes.is_none() && records.is_none() {
            return Until {
                duration: Some(DURATION_DEFAULT),
                bytes: Some(BYTES_DEFAULT),
                records: None,
            };
        }
        Until { duration, bytes, records }
    }
}

impl TopicArgs {
    fn choice(&self) -> TopicChoice {
        if let Some(name) = &self.topic {
            return TopicChoice::Given { name: name.clone() };
        }
        let mut configs = self.configs.clone();
        // Kafka keeps the files of a deleted topic for a minute otherwise, and a minute of runs fills a disk.
        let delay = "file.delete.delay.ms";
        if configs.iter().all(|(key, _)| key != delay) {
            configs.push((delay.to_owned(), "1000".to_owned()));
        }
        TopicChoice::Made {
            partitions: self.partitions,
            replication_factor: self.replication_factor,
            configs,
            is_kept: self.keep_topic,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ProduceArgs,
    }

    fn parsed(line: &str) -> ProduceArgs {
        Line::try_parse_from(std::iter::once("bench").chain(line.split_whitespace())).unwrap().args
    }

    #[test]
    fn a_run_without_an_end_is_short_in_time_and_bytes() {
        let until = parsed("").workload().until;
        assert_eq!((until.duration, until.bytes), (Some(DURATION_DEFAULT), Some(BYTES_DEFAULT)));
        let until = parsed("--duration 30").workload().until;
        assert_eq!((until.duration, until.bytes), (Some(Duration::from_secs(30)), None));
    }

    #[test]
    fn every_option_reaches_the_workload() {
        let line = "--record-size uniform:10-20 --keys 5 -z lz4 --batch-bytes 64KiB --batch-records 7 --templates 9 \
                    --partitions-per-request 4 --acks leader --seed 11 --connections 3 --in-flight 2 --consumers 6 --rate 10MB \
                    --warm-up 500ms --records 1000 --audit-bytes 1GB --consumer-lag 30s --fetch-sessions --idle-connections 8 \
                    --steady 5 --duration 60";
        let expected = Workload {
            record_size: RecordSize::Uniform { bytes_min: 10, bytes_max: 20 },
            keys: 5,
            payload: Payload::Words,
            compression: Codec::Lz4,
            batch_bytes: 65_536,
            batch_records_max: 7,
            templates: Some(9),
            acks: Acks::Leader,
            partitions_per_request: 4,
            connections: 3,
            in_flight: 2,
            consumers: 6,
            fetches: FetchMode::Session,
            consumer_lag: Duration::from_secs(30),
            idle_connections: 8,
            steady_percent: Some(5),
            pace: Pace::Bytes { per_second: 10_000_000 },
            warm_up: Duration::from_millis(500),
            until: Until {
                duration: Some(Duration::from_secs(60)),
                records: Some(1_000),
                ..Until::default()
            },
            seed: 11,
            audit_bytes_max: Some(1_000_000_000),
        };
        assert_eq!(parsed(line).workload(), expected);
        let pace = parsed("--request-rate 50").workload().pace;
        assert_eq!(pace, Pace::Requests { per_second: 50 });
        assert_eq!(parsed("").workload().payload, Payload::Random);
        assert_eq!(parsed("-z zstd --payload random").workload().payload, Payload::Random);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for line in [
            "--rate 1MB --request-rate 5",
            "--topic t --partitions 3",
            "--steady",
            "--consumer-lag 5",
            "--topic t --keep-topic",
            "--record-size normal:1",
            "--acks none",
            "--cpus 3-1",
        ] {
            let words = std::iter::once("bench").chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
        let failure = parsed("--in-flight 0").options().unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.fact.contains("in-flight = 0: must be 1 to 10000"), "{}", failure.fact);
    }

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!(parse_cpus("1"), Ok(Cpus(vec![1])));
        assert_eq!(parse_cpus("0,2-4"), Ok(Cpus(vec![0, 2, 3, 4])));
        for text in ["", "a", "1-", "5000", "1,,2"] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }
}
