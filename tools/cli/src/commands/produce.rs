//! `corelog produce`: lines become records.
//!
//! Owns the arguments and the loop between input and producer. A line is a value; with `--key-separator` what stands
//! before its first occurrence is the key.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::Instant;

use broker::Platform;
use clap::Args;
use record::{Codec, PartitionIndex, Timestamp};
use serde::Serialize;

use crate::client::{Acks, Client, OutgoingHeaders, OutgoingRecord, Producer, ProducerOptions};
use crate::commands::topic::parse_pair;
use crate::commands::with_client;
use crate::exit::{Exit, Failure, Outcome};
use crate::lines::{LINE_BYTES_MAX, Lines, LinesError};
use crate::output::{Format, Output, Show};
use crate::progress::Progress;
use crate::{ClusterArgs, OutputArgs};

const EXAMPLES: &str = "\
Examples:
  echo 'hello' | corelog produce orders
  corelog produce orders --file orders.txt --compression zstd
  printf 'a:1\\nb:2\\n' | corelog produce orders --key-separator :
  corelog produce orders --file orders.txt --header source=import --header run=7
  corelog produce orders --file orders.txt -o json";

/// Bytes of lines that are taken at once.
const TAKE_BYTES: usize = 1 << 20;
/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProduceArgs {
    /// Topic to append to; made where the node allows it
    topic: String,
    /// Read lines from a file instead of standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Split each line at its first occurrence into key and value
    #[arg(short, long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    key_separator: Option<String>,
    /// Write to this partition, instead of one chosen by the key as Java's producer does
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Put a header on every record; repeatable
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE", value_parser = parse_pair)]
    headers: Vec<(String, String)>,
    /// When a record counts as stored
    #[arg(short, long, value_enum, default_value = "all")]
    acks: Acks,
    /// How batches are compressed
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none", value_parser = codec_parser())]
    compression: Codec,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

fn codec_parser() -> impl clap::builder::TypedValueParser<Value = Codec> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(Codec::ALL.map(Codec::name))
        .map(|name| Codec::by_name(&name).unwrap_or_default())
}

#[derive(Debug, Serialize)]
struct Summary<'a> {
    topic: &'a str,
    records: u64,
    bytes: u64,
    ms: u128,
    partitions: Vec<PartitionSummary>,
}

#[derive(Debug, Serialize)]
struct PartitionSummary {
    partition: i32,
    records: u64,
    /// `None` with acks=0, where the broker does not tell.
    first_offset: Option<i64>,
}

impl Show for Summary<'_> {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        let noun = if self.records == 1 { "record" } else { "records" };
        writeln!(sink, "{} {noun}, {} bytes, {} ms", self.records, self.bytes, self.ms)
    }
}

/// Appends every line.
pub(crate) fn run(args: &ProduceArgs) -> Outcome {
    let input = Input::open(args)?;
    let started = Instant::now();
    let progress = input.progress();
    let lines = input.lines()?;
    let options = ProducerOptions {
        acks: args.acks,
        codec: args.compression,
        partition: args.partition.map(PartitionIndex),
    };
    let shape =
        Shape { separator: args.key_separator.as_deref(), headers: args.headers.as_slice().into() };
    let mut summary = with_client(&args.cluster, async |client| {
        produce(client, &args.topic, options, &shape, &lines, &progress).await
    })?;
    progress.finish();
    summary.ms = started.elapsed().as_millis();
    match args.output.output {
        format @ (Format::Json | Format::Yaml) => Output::new(format).show(&summary),
        // For people it is a remark, not data: standard output stays free.
        Format::Table => {
            eprint!("corelog: {}: ", args.topic);
            summary
                .show_table(&mut io::stderr())
                .map_err(|error| Failure::io("standard error", &error))
        }
    }
}

/// How a line becomes a record.
struct Shape<'a> {
    separator: Option<&'a str>,
    headers: OutgoingHeaders,
}

async fn produce<'a, P: Platform>(
    client: &mut Client<P>,
    topic: &'a str,
    options: ProducerOptions,
    shape: &Shape<'_>,
    lines: &Lines,
    progress: &Progress,
) -> Outcome<Summary<'a>> {
    let platform = client.platform().clone();
    let mut producer = Producer::open(client, topic, options).await?;
    let mut bytes = 0;
    while let Some(taken) = lines.take(TAKE_BYTES).await.map_err(input_failure)? {
        let now = platform.now();
        for line in taken.lines {
            progress.add(line.len() as u64 + 1);
            bytes += line.len() as u64;
            if producer.add(record(line, shape, now)) {
                producer.flush().await?;
            }
        }
        // The input is slower than we are: what is here is sent now, not when more has come.
        if taken.is_drained {
            producer.flush().await?;
        }
    }
    producer.flush().await?;
    let partitions = producer.stored().filter(|(_, stored)| stored.records > 0);
    let partitions: Vec<PartitionSummary> = partitions
        .map(|(index, stored)| PartitionSummary {
            partition: index.0,
            records: stored.records,
            first_offset: stored.first_offset.map(|offset| offset.0),
        })
        .collect();
    let records = partitions.iter().map(|partition| partition.records).sum();
    Ok(Summary { topic, records, bytes, ms: 0, partitions })
}

fn record(line: Vec<u8>, shape: &Shape<'_>, timestamp: Timestamp) -> OutgoingRecord {
    let headers = OutgoingHeaders::clone(&shape.headers);
    let found = shape.separator.and_then(|separator| {
        let separator = separator.as_bytes();
        let at = line.windows(separator.len()).position(|window| window == separator)?;
        Some((at, at + separator.len()))
    });
    let Some((key_end, value_start)) = found else {
        return OutgoingRecord { key: None, value: Some(line), timestamp, headers };
    };
    let value = line.get(value_start..).unwrap_or_default().to_vec();
    let mut key = line;
    key.truncate(key_end);
    OutgoingRecord { key: Some(key), value: Some(value), timestamp, headers }
}

fn input_failure(error: LinesError) -> Failure {
    match error {
        LinesError::Read(error) => Failure::io("input", &error),
        LinesError::TooLong { line } => {
            let fact = format!("input line {line}: longer than {LINE_BYTES_MAX} bytes");
            Failure::new(Exit::Io, fact).advise("a record is a line: is this a text file?")
        }
    }
}

/// Where lines come from.
struct Input {
    file: Option<File>,
    bytes: Option<u64>,
}

impl Input {
    fn open(args: &ProduceArgs) -> Outcome<Self> {
        let Some(path) = &args.file else {
            if io::stdin().is_terminal() {
                eprintln!("corelog: each line is a record; end with Ctrl-D");
            }
            return Ok(Self { file: None, bytes: None });
        };
        let failed = |error| Failure::io(path.display(), &error);
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Ok(Self { file: Some(file), bytes: Some(bytes) })
    }

    fn progress(&self) -> Progress {
        Progress::new(self.bytes)
    }

    fn lines(self) -> Outcome<Lines> {
        let input: Box<dyn Read + Send> = match self.file {
            Some(file) => Box::new(file),
            None => Box::new(io::stdin()),
        };
        Lines::start(input).map_err(|error| Failure::io("reader thread", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_the_first_separator() {
        let check = |line: &str, separator: Option<&str>, key: Option<&str>, value: &str| {
            let headers: OutgoingHeaders = [("h".to_owned(), "1".to_owned())].into();
            let shape = Shape { separator, headers: OutgoingHeaders::clone(&headers) };
            let record = record(line.as_bytes().to_vec(), &shape, Timestamp(7));
            let key = key.map(|key| key.as_bytes().to_vec());
            let value = Some(value.as_bytes().to_vec());
            let timestamp = Timestamp(7);
            assert_eq!(record, OutgoingRecord { key, value, timestamp, headers }, "{line}");
        };
        check("a:b", None, None, "a:b");
        check("a:b:c", Some(":"), Some("a"), "b:c");
        check("a", Some(":"), None, "a");
        check(":b", Some(":"), Some(""), "b");
        check("a=>b", Some("=>"), Some("a"), "b");
        check("a:", Some(":"), Some("a"), "");
        check("", Some(":"), None, "");
    }
}
