//! `corelog produce`: lines become records.
//!
//! Owns the arguments and the loop between input and producer. A line is a value; with `--key-separator` what stands
//! before its first occurrence is the key, and a line without one ends the run, as with Kafka's own producer: a key that
//! is missing by mistake would put the record into another partition.

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
use crate::commands::{parse_separator, with_client};
use crate::exit::{Exit, Failure, Outcome};
use crate::lines::{LINE_BYTES_MAX, Lines, LinesError};
use crate::number;
use crate::output::{Format, Output, Show, counted};
use crate::progress::Progress;
use crate::{ClusterArgs, OutputArgs};

const EXAMPLES: &str = "\
Examples:
  echo 'hello' | corelog produce orders
  corelog produce orders --file orders.txt --compression zstd
  printf 'a:1\\nb:2\\n' | corelog produce orders --key-separator :
  corelog produce orders --file orders.txt --header source=import --header run=7
  corelog produce orders --file orders.txt -o json
  echo 'order-1:gone' | corelog produce orders -k : --null gone

The partition of a key is the one that Java's producer chooses. Records without a key go to one
partition until they are sent, then to the next.";

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
    /// Split each line at the first occurrence of this text into key and value; \t is a tab
    #[arg(short, long, value_name = "TEXT", value_parser = parse_separator)]
    key_separator: Option<String>,
    /// A key or value that reads so is null, which for a value means "deleted" to consumers
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// Write to this partition, instead of one chosen by the key as Java's producer does
    #[arg(short, long, value_name = "N", value_parser = number::from(0_i32))]
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
        let (records, bytes) = (counted(self.records, "record"), counted(self.bytes, "byte"));
        writeln!(sink, "{records}, {bytes}, {} ms", self.ms)
    }
}

/// Appends every line.
pub(crate) fn run(args: &ProduceArgs) -> Outcome {
    let input = Input::open(args)?;
    let started = Instant::now();
    let (lines, progress) = input.lines()?;
    let options = ProducerOptions {
        acks: args.acks,
        codec: args.compression,
        partition: args.partition.map(PartitionIndex),
    };
    let shape = Shape {
        separator: args.key_separator.as_deref(),
        null: args.null.as_deref(),
        headers: args.headers.as_slice().into(),
    };
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
    null: Option<&'a str>,
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
    let mut producer = Producer::open(client, topic, options).await?;
    let fed = feed(&mut producer, shape, lines, progress).await;
    let partitions = producer.stored().filter(|(_, stored)| stored.records > 0);
    let partitions: Vec<PartitionSummary> = partitions
        .map(|(index, stored)| PartitionSummary {
            partition: index.0,
            records: stored.records,
            first_offset: stored.first_offset.map(|offset| offset.0),
        })
        .collect();
    let records = partitions.iter().map(|partition| partition.records).sum();
    let bytes = fed.map_err(|failure| failure.adding(&what_is_stored(records, options.acks)))?;
    Ok(Summary { topic, records, bytes, ms: 0, partitions })
}

/// Whoever runs it again wants to know what is there already.
fn what_is_stored(records: u64, acks: Acks) -> String {
    let done = if acks == Acks::None { "sent" } else { "stored" };
    match records {
        0 => format!("no record is {done}"),
        1 => format!("1 record is {done}"),
        count => format!("{count} records are {done}"),
    }
}

/// Every line to the producer; gives the bytes of all of them.
async fn feed<P: Platform>(
    producer: &mut Producer<'_, P>,
    shape: &Shape<'_>,
    lines: &Lines,
    progress: &Progress,
) -> Outcome<u64> {
    let (mut bytes, mut number) = (0, 0_u64);
    while let Some(taken) = lines.take(TAKE_BYTES).await.map_err(input_failure)? {
        let now = producer.now();
        for line in taken.lines {
            number += 1;
            progress.add(line.len() as u64 + 1);
            bytes += line.len() as u64;
            let Some(record) = record(line, shape, now) else {
                // What stands before it is whole.
                producer.flush().await?;
                return Err(no_separator(number, shape.separator.unwrap_or_default()));
            };
            if producer.add(record) {
                producer.flush().await?;
            }
        }
        // The input is slower than we are: what is here is sent now, not when more has come.
        if taken.is_drained {
            producer.flush().await?;
        }
    }
    producer.flush().await?;
    Ok(bytes)
}

fn no_separator(line: u64, separator: &str) -> Failure {
    let fact = format!("input line {line}: has no key separator {separator:?}");
    let next = format!(
        "write it KEY{}VALUE, or leave --key-separator out; the lines before it need not be sent again",
        separator.escape_debug()
    );
    Failure::new(Exit::Refused, fact).advise(next)
}

/// `None` for a line that lacks its separator.
fn record(line: Vec<u8>, shape: &Shape<'_>, timestamp: Timestamp) -> Option<OutgoingRecord> {
    let headers = OutgoingHeaders::clone(&shape.headers);
    let unless_null = |part: Vec<u8>| {
        let is_null = shape.null.is_some_and(|null| null.as_bytes() == part);
        (!is_null).then_some(part)
    };
    let Some(separator) = shape.separator.map(str::as_bytes) else {
        return Some(OutgoingRecord { key: None, value: unless_null(line), timestamp, headers });
    };
    let key_end = line.windows(separator.len()).position(|window| window == separator)?;
    let value = line.get(key_end + separator.len()..).unwrap_or_default().to_vec();
    let mut key = line;
    key.truncate(key_end);
    let (key, value) = (unless_null(key), unless_null(value));
    Some(OutgoingRecord { key, value, timestamp, headers })
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
    progress: Progress,
}

impl Input {
    fn open(args: &ProduceArgs) -> Outcome<Self> {
        let Some(path) = &args.file else {
            return Ok(Self { file: None, progress: Self::progress_of_standard_input() });
        };
        let failed = |error| Failure::io(path.display(), &error);
        let file = File::open(path).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        // A named pipe has no end that is known.
        let progress = Progress::new(facts.is_file().then_some(facts.len()));
        Ok(Self { file: Some(file), progress })
    }

    /// None where a person types: it would be drawn over the lines.
    fn progress_of_standard_input() -> Progress {
        if io::stdin().is_terminal() {
            eprintln!("corelog: each line is a record; end with Ctrl-D");
            return Progress::hidden();
        }
        let facts = std::fs::metadata("/dev/stdin").ok().filter(std::fs::Metadata::is_file);
        Progress::new(facts.map(|facts| facts.len()))
    }

    fn lines(self) -> Outcome<(Lines, Progress)> {
        let input: Box<dyn Read + Send> = match self.file {
            Some(file) => Box::new(file),
            None => Box::new(io::stdin()),
        };
        let lines = Lines::start(input).map_err(|error| Failure::io("reader thread", &error))?;
        Ok((lines, self.progress))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_the_first_separator() {
        let check = |line: &str, separator: Option<&str>, key: Option<&str>, value: &str| {
            let headers: OutgoingHeaders = [("h".to_owned(), "1".to_owned())].into();
            let headers_of_all = OutgoingHeaders::clone(&headers);
            let shape = Shape { separator, null: None, headers: headers_of_all };
            let record = record(line.as_bytes().to_vec(), &shape, Timestamp(7)).unwrap();
            let key = key.map(|key| key.as_bytes().to_vec());
            let value = Some(value.as_bytes().to_vec());
            let timestamp = Timestamp(7);
            assert_eq!(record, OutgoingRecord { key, value, timestamp, headers }, "{line}");
        };
        check("a:b", None, None, "a:b");
        check("a:b:c", Some(":"), Some("a"), "b:c");
        check(":b", Some(":"), Some(""), "b");
        check("a=>b", Some("=>"), Some("a"), "b");
        check("a:", Some(":"), Some("a"), "");
        check("", None, None, "");
    }

    #[test]
    fn a_line_without_its_separator_is_no_record() {
        let shape = Shape { separator: Some("=>"), null: None, headers: [].into() };
        for line in ["", "a", "a=", ">b"] {
            assert_eq!(record(line.as_bytes().to_vec(), &shape, Timestamp(7)), None, "{line}");
        }
        let failure = no_separator(3, "\t").adding("2 records are stored");
        assert_eq!(
            failure.fact,
            "input line 3: has no key separator \"\\t\"; 2 records are stored"
        );
        assert!(failure.next.unwrap().contains("KEY\\tVALUE"));
    }

    #[test]
    fn a_part_that_reads_like_the_null_marker_is_null() {
        let part = |line: &str, separator: Option<&str>| {
            let shape = Shape { separator, null: Some("NULL"), headers: [].into() };
            let record = record(line.as_bytes().to_vec(), &shape, Timestamp(7)).unwrap();
            (record.key, record.value)
        };
        assert_eq!(part("a:NULL", Some(":")), (Some(b"a".to_vec()), None));
        assert_eq!(part("NULL:b", Some(":")), (None, Some(b"b".to_vec())));
        assert_eq!(part("NULL", None), (None, None));
        assert_eq!(part("NULLS", None), (None, Some(b"NULLS".to_vec())));
    }
}
