//! `corelog bench consume`: its command line, and one run of load's engine.
//!
//! Owns names, help and what holds where nothing is said. Bounds are `load`'s.

use std::time::Duration;

use clap::Args;
use load::{Check, ConsumeOptions, ReadFrom, ReadLoad, TopicChoice, Until, Workload};

use super::options::{Cpus, ToldArgs, addresses, fetches, parse_cpus};
use super::session::{self, Session};
use super::units::{parse_bytes, parse_bytes_u32, parse_duration};
use crate::exit::{Exit, Failure, Outcome};
use crate::{ClusterArgs, OutputArgs};

const EXAMPLES: &str = "\
Examples:
  corelog bench consume
  corelog bench consume --topic orders --broker-pid 4711 --save read.json
  corelog bench consume --tail 8192 --consumers 4 --duration 30
  corelog bench consume --fill 10GB --partitions 8 --check offsets

Every consumer reads everything: from the beginning once, or with --tail the last records again
and again. Records are copied out of the socket, and every batch's checksum and offsets are
checked; what that costs stands with the client. A topic that was compacted has gaps, and fails.";

/// Bytes that a topic of the run's own is filled with, where it is not said.
const FILL: &str = "1GB";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConsumeArgs {
    /// Read this topic instead of one that is made, filled and deleted
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["fill", "partitions"])]
    topic: Option<String>,
    /// Bytes of records to fill a topic of the run's own with
    #[arg(long, value_name = "BYTES", default_value = FILL, value_parser = parse_bytes)]
    fill: u64,
    /// Partitions of that topic
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Read the last so many records of each partition again and again, instead of all once
    #[arg(long, value_name = "RECORDS")]
    tail: Option<u64>,
    /// Consumers beside each other
    #[arg(long, value_name = "N", default_value_t = 1)]
    consumers: u32,
    /// Bytes of an answer
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = parse_bytes_u32)]
    fetch_bytes: u32,
    /// Of them, for one partition
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes_u32)]
    partition_bytes: u32,
    /// Fetch in sessions (KIP-227), as Kafka's consumers do, and name only what has changed
    #[arg(long)]
    fetch_sessions: bool,
    /// What is looked at of each batch
    #[arg(long, value_enum, default_value = "crc")]
    check: CheckArg,
    /// Read so long before anything counts
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    warm_up: Duration,
    /// End so long after the warm-up [default: with the log; with --tail after 10 seconds]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// End when so many bytes of batches are read
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    bytes: Option<u64>,
    #[command(flatten)]
    told: ToldArgs,
    /// Keep this client to these CPUs, as 1 or 2-3 or 1,3
    #[arg(long, value_name = "CPUS", value_parser = parse_cpus)]
    cpus: Option<Cpus>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CheckArg {
    Crc,
    Offsets,
}

impl ConsumeArgs {
    fn load(&self) -> ReadLoad {
        let until = Until { duration: self.duration, bytes: self.bytes, records: None };
        let ten_seconds = Until { duration: Some(Duration::from_secs(10)), ..until };
        let has_end = until != Until::default() || self.tail.is_none();
        ReadLoad {
            from: match self.tail {
                Some(records) => ReadFrom::Tail { records },
                None => ReadFrom::Beginning,
            },
            consumers: self.consumers,
            fetch_bytes: self.fetch_bytes,
            partition_bytes: self.partition_bytes,
            fetches: fetches(self.fetch_sessions),
            check: match self.check {
                CheckArg::Crc => Check::Crc,
                CheckArg::Offsets => Check::Offsets,
            },
            warm_up: self.warm_up,
            until: if has_end { until } else { ten_seconds },
        }
    }

    fn options(&self) -> Outcome<ConsumeOptions> {
        let client = self.cluster.options()?;
        let load = self.load();
        let fill = Workload {
            warm_up: Duration::ZERO,
            until: Until { bytes: Some(self.fill), ..Until::default() },
            ..Workload::default()
        };
        let usage = |error: load::WorkloadError| Failure::new(Exit::Usage, error.to_string());
        load.check().and_then(|()| fill.check()).map_err(usage)?;
        let topic = match &self.topic {
            Some(name) => TopicChoice::Given { name: name.clone() },
            None => TopicChoice::Made {
                partitions: self.partitions,
                replication_factor: -1,
                // As for runs of produce: what is deleted should be gone.
                configs: vec![("file.delete.delay.ms".to_owned(), "1000".to_owned())],
                is_kept: false,
            },
        };
        Ok(ConsumeOptions {
            load,
            bootstrap: addresses(client.bootstrap),
            topic,
            fill,
            timeout: client.timeout,
            broker_pid: self.told.broker_pid,
        })
    }
}

/// Runs it.
pub(super) fn run(args: &ConsumeArgs) -> Outcome {
    let options = args.options()?;
    let session =
        Session { cpus: args.cpus.as_ref(), told: &args.told, format: args.output.output };
    session::run(&session, async |platform, told, stop| {
        load::consume(platform, &options, told, async { stop.requested().await }).await
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ConsumeArgs,
    }

    fn load_of(line: &str) -> ReadLoad {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().args.load()
    }

    #[test]
    fn a_log_is_read_to_its_end_and_a_tail_for_ten_seconds() {
        assert_eq!(load_of("").until, Until::default());
        let tail = load_of("--tail 100");
        assert_eq!(tail.from, ReadFrom::Tail { records: 100 });
        assert_eq!(tail.until.duration, Some(Duration::from_secs(10)));
        let bytes = load_of("--tail 100 --bytes 1GB").until;
        assert_eq!((bytes.duration, bytes.bytes), (None, Some(1_000_000_000)));
    }

    #[test]
    fn every_option_reaches_the_load() {
        let line = "--consumers 4 --fetch-bytes 8MiB --partition-bytes 64KiB --fetch-sessions --check offsets --warm-up 1s --duration 5s";
        let expected = ReadLoad {
            from: ReadFrom::Beginning,
            consumers: 4,
            fetch_bytes: 8 << 20,
            partition_bytes: 65_536,
            fetches: load::FetchMode::Session,
            check: Check::Offsets,
            warm_up: Duration::from_secs(1),
            until: Until { duration: Some(Duration::from_secs(5)), ..Until::default() },
        };
        assert_eq!(load_of(line), expected);
    }
}
