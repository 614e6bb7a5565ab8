//! `corelog consume`: records become lines.
//!
//! Owns the arguments, where to start and when to stop. Batches are checked and decompressed here; offsets of one
//! partition are printed in order, partitions as they come.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::Platform;
use clap::Args;
use cluster::Bounds;
use record::{Offset, PartitionIndex};

use crate::client::{
    AutoCreate, Client, ClientError, ClientOptions, Consumer, Fetched, OffsetAt, Topic,
};
use crate::commands::topic::chosen_partitions;
use crate::commands::{parse_separator, with_options};
use crate::exit::{Exit, Failure, Outcome};
use crate::moment::Moment;
use crate::number;
use crate::output::{Format, Output};
use crate::record_line::{Field, Layout, LineLayout, RecordLine, write_record};
use crate::{BrokersArgs, OutputArgs, TIMEOUT_MS_DEFAULT};

pub(super) mod decode;

use decode::BatchReader;

const EXAMPLES: &str = "\
Examples:
  corelog consume orders
  corelog consume orders --follow
  corelog consume orders --follow --idle-ms 5000
  corelog consume orders --partition 2 --offset 1200 --max-messages 10
  corelog consume orders --offset -10
  corelog consume orders --offset 2026-11-29T20:15:00Z
  corelog consume orders --key-separator : | sort
  corelog consume orders --print timestamp,partition,offset,headers,key,value
  corelog consume orders -o json

A record is a line: its value, or the fields of --print. A key or value that is null is printed as
null, an empty one as nothing; -o json tells even a value that reads null from one that is.";

/// Partitions that advice names one by one.
const FLAGS_MAX: usize = 10;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConsumeArgs {
    /// Topic to read
    topic: String,
    /// Read this partition only; repeatable
    #[arg(short, long = "partition", value_name = "N", value_parser = number::from(0_i32))]
    partitions: Vec<i32>,
    /// Where to start: beginning, end, an offset, -N for N before the end of each partition, or a time (2026-11-29T20:15:00Z, -15m)
    ///
    /// `end` reads what is yet to come, and so implies --follow. A time starts at the first record of that time or later.
    #[arg(short = 'O', long, value_name = "PLACE", default_value = "beginning", value_parser = parse_start, allow_hyphen_values = true)]
    offset: Start,
    /// Wait for more at the end, until interrupted
    #[arg(short, long, conflicts_with = "until_end")]
    follow: bool,
    /// Stop at the end that the partitions have at the start; the default
    #[arg(short = 'e', long)]
    until_end: bool,
    /// Stop after so many records
    #[arg(short = 'n', long, value_name = "N", value_parser = number::from(1_u64))]
    max_messages: Option<u64>,
    /// Stop when no record has come for so long, in milliseconds
    ///
    /// Stopping so is success with --follow, and exit code 4 where --max-messages or the end was not reached. A broker that does
    /// not answer at all has 30000 ms, or more if this is more.
    #[arg(long, alias = "timeout-ms", value_name = "MS", value_parser = number::from(1_u32))]
    idle_ms: Option<u32>,
    /// Print keys too, and this text between key and value; \t is a tab
    #[arg(short, long, value_name = "TEXT", value_parser = parse_separator, conflicts_with = "fields")]
    key_separator: Option<String>,
    /// Print these fields, in this order
    #[arg(long = "print", value_name = "FIELD[,FIELD...]", value_enum, value_delimiter = ',')]
    fields: Vec<Field>,
    /// What stands between the fields of --print; \t is a tab
    #[arg(long, value_name = "TEXT", value_parser = parse_separator, default_value = "\\t", requires = "fields")]
    separator: String,
    /// What is printed for a key or value that is null; `null` where nothing is said
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    #[command(flatten)]
    brokers: BrokersArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl ConsumeArgs {
    /// What clap cannot refuse by itself: it knows of values and not of what they mean together.
    fn check(&self) -> Outcome {
        let of_lines = [
            ("--print", !self.fields.is_empty()),
            ("--key-separator", self.key_separator.is_some()),
            ("--null", self.null.is_some()),
        ];
        match of_lines.iter().find(|(_, is_said)| *is_said && self.output.output != Format::Table) {
            None => Ok(()),
            Some((flag, _)) => {
                let fact = format!("{flag}: for lines; -o json and -o yaml print every field");
                Err(Failure::new(Exit::Usage, fact).advise("leave one of the two out"))
            }
        }
    }

    fn layout(&self) -> Layout {
        let (fields, separator) = match &self.key_separator {
            Some(separator) => (vec![Field::Key, Field::Value], separator),
            None if self.fields.is_empty() => (vec![Field::Value], &self.separator),
            None => (self.fields.clone(), &self.separator),
        };
        let separator = separator.clone();
        let null = self.null.clone().unwrap_or_else(|| "null".to_owned());
        match self.output.output {
            Format::Json => Layout::Json,
            Format::Yaml => Layout::Yaml,
            Format::Table => Layout::Line(LineLayout { fields, separator, null }),
        }
    }

    fn idle_max(&self) -> Option<Duration> {
        self.idle_ms.map(|ms| Duration::from_millis(ms.into()))
    }
}

/// Where to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Beginning,
    End,
    At(Offset),
    /// So many before the end of each partition.
    Last(i64),
    Since(Moment),
}

fn parse_start(text: &str) -> Result<Start, String> {
    let wrong = || {
        "neither `beginning`, `end`, an offset from 0, -N for N before the end, nor a time such as \
         2026-11-29T20:15:00Z or -15m"
            .to_owned()
    };
    match (text, text.parse::<i64>()) {
        ("beginning" | "earliest", _) => Ok(Start::Beginning),
        ("end" | "latest", _) => Ok(Start::End),
        (_, Ok(offset)) if offset >= 0 => Ok(Start::At(Offset(offset))),
        (_, Ok(before)) => before.checked_neg().map(Start::Last).ok_or_else(wrong),
        // A number that is too large is no time either.
        (text, Err(_)) if text.bytes().all(|byte| byte.is_ascii_digit()) => Err(wrong()),
        (text, Err(_)) => Moment::parse(text).map(Start::Since).ok_or_else(wrong),
    }
}

/// Prints records.
pub(crate) fn run(args: &ConsumeArgs) -> Outcome {
    args.check()?;
    let mut output = Output::new(args.output.output);
    let layout = args.layout();
    // Silence is an answer; a slow one must not be taken for it.
    let timeout_ms = args.idle_ms.unwrap_or(0).max(TIMEOUT_MS_DEFAULT);
    let options = ClientOptions::parse(&args.brokers.bootstrap_server, timeout_ms)?;
    with_options(options, async |client| {
        let plan = Plan::make(client, args).await?;
        consume(client, plan, &layout, &mut output).await
    })
}

/// What to read: where each partition starts, and where it stops.
struct Plan {
    topic: Topic,
    starts: BTreeMap<PartitionIndex, Offset>,
    /// Ends, exclusive; `None` to go on for ever.
    ends: Option<BTreeMap<PartitionIndex, Offset>>,
    records_max: Option<u64>,
    /// How long to wait for a record.
    idle_max: Option<Duration>,
}

impl Plan {
    async fn make<P: Platform>(client: &mut Client<P>, args: &ConsumeArgs) -> Outcome<Self> {
        let mut topic = client.topic(&args.topic, AutoCreate::Never).await?;
        let partitions = chosen_partitions(&topic, &args.partitions)?;
        let ends = client.find_offsets(&mut topic, &partitions, OffsetAt::End).await?;
        if let Some(offline) = ends.failure(&topic) {
            return Err(not_read(offline, ends.found.keys()));
        }
        let ends = ends.offsets();
        let starts = starts(client, &mut topic, args.offset, &ends).await?;
        let goes_on = args.follow || (args.offset == Start::End && !args.until_end);
        let ends = (!goes_on).then_some(ends);
        let (records_max, idle_max) = (args.max_messages, args.idle_max());
        Ok(Self { topic, starts, ends, records_max, idle_max })
    }

    /// Whether nothing of `partition` is wanted from `position` on.
    fn is_done(&self, partition: PartitionIndex, position: Offset) -> bool {
        let end = self.ends.as_ref().and_then(|ends| ends.get(&partition));
        end.is_some_and(|end| position >= *end)
    }

    /// What it means that no record came in time, `left` of the records that were asked for being still to come.
    fn ended_idle(&self, left: u64) -> Outcome {
        let ms = self.idle_max.unwrap_or_default().as_millis();
        let wanted = match (self.records_max, &self.ends) {
            (None, None) => return Ok(()),
            (Some(max), _) => format!("{} of {max} records came", max - left),
            (None, Some(_)) => "the end was not reached".to_owned(),
        };
        let fact = format!("{}: {wanted}, and none for {ms} ms", self.topic.name);
        Err(Failure::new(Exit::TimedOut, fact).advise("allow more time with --idle-ms"))
    }
}

/// A refusal to leave records out, and how to read those that there are.
fn not_read<'a>(offline: ClientError, served: impl Iterator<Item = &'a PartitionIndex>) -> Failure {
    let failure = Failure::from(offline);
    let flags: Vec<String> = served.map(|index| format!("-p {index}")).collect();
    match (flags.len(), &failure.next) {
        (0, _) | (_, None) => failure,
        (count, Some(next)) => {
            let others = match count {
                1..=FLAGS_MAX => format!("{} reads the others", flags.join(" ")),
                _ => "-p N, repeated, reads the others".to_owned(),
            };
            let next = format!("{next}; {others}");
            failure.advise(next)
        }
    }
}

async fn starts<P: Platform>(
    client: &mut Client<P>,
    topic: &mut Topic,
    start: Start,
    ends: &BTreeMap<PartitionIndex, Offset>,
) -> Outcome<BTreeMap<PartitionIndex, Offset>> {
    let partitions: Vec<PartitionIndex> = ends.keys().copied().collect();
    let at = match start {
        Start::End => return Ok(ends.clone()),
        Start::Since(moment) => OffsetAt::Time(moment.unix_ms(client.platform().now().0)),
        Start::Beginning | Start::At(_) | Start::Last(_) => OffsetAt::Start,
    };
    let found = client.offsets(topic, &partitions, at).await?;
    if let Start::At(offset) = start {
        check_offset(topic, offset, &found, ends)?;
    }
    let place = |(index, found): (PartitionIndex, Offset)| {
        let end = ends.get(&index).copied().unwrap_or(found);
        let from = match start {
            Start::At(offset) => offset,
            Start::Last(count) => Offset(end.0.saturating_sub(count)).max(found),
            // No record is as late as that.
            Start::Since(_) if found.0 < 0 => end,
            Start::Beginning | Start::End | Start::Since(_) => found,
        };
        (index, from)
    };
    Ok(found.into_iter().map(place).collect())
}

/// One number is a place in one partition: in several it would be a coincidence.
fn check_offset(
    topic: &Topic,
    offset: Offset,
    first: &BTreeMap<PartitionIndex, Offset>,
    ends: &BTreeMap<PartitionIndex, Offset>,
) -> Outcome {
    if first.len() > 1 {
        let fact = format!("--offset {offset}: {} has {} partitions", topic.name, first.len());
        return Err(Failure::new(Exit::Usage, fact).advise("say which with --partition N"));
    }
    for (index, start) in first {
        let end = ends.get(index).copied().unwrap_or(*start);
        if offset < *start || offset > end {
            let place = topic.place(*index);
            let fact = format!(
                "{place}: offset {offset} is not there: the partition starts at {start} and ends at {end}"
            );
            let next = format!("use --offset {}, or --offset beginning", Bounds(*start, end));
            return Err(Failure::new(Exit::Refused, fact).advise(next));
        }
    }
    Ok(())
}

async fn consume<P: Platform>(
    client: &mut Client<P>,
    plan: Plan,
    layout: &Layout,
    output: &mut Output,
) -> Outcome {
    let wanted = plan.starts.iter().filter(|(index, start)| !plan.is_done(**index, **start));
    let positions = wanted.map(|(index, start)| (*index, *start)).collect();
    let platform = client.platform().clone();
    let mut consumer = Consumer::new(client, plan.topic.clone(), positions);
    if let Some(idle_max) = plan.idle_max {
        consumer = consumer.polling_for(idle_max);
    }
    let mut reader = BatchReader::default();
    let mut left = plan.records_max.unwrap_or(u64::MAX);
    let mut last_record = platform.monotonic();
    while left > 0 && !consumer.is_done() {
        let before = left;
        for fetched in consumer.next().await? {
            let position = print(&plan, &fetched, &mut reader, |record| {
                if left == 0 {
                    return Ok(());
                }
                left -= 1;
                output.with(|sink| write_record(sink, layout, &record))
            })?;
            if left == 0 {
                break;
            }
            consumer.move_to(fetched.partition, position);
            if plan.is_done(fetched.partition, position) {
                consumer.leave(fetched.partition);
            }
        }
        // Whoever reads our output sees what there is before we wait for more.
        output.flush()?;
        let now = platform.monotonic();
        if left < before {
            last_record = now;
        } else if plan.idle_max.is_some_and(|idle_max| now - last_record >= idle_max) {
            return if consumer.is_done() { Ok(()) } else { plan.ended_idle(left) };
        }
    }
    output.flush()
}

/// Prints what is wanted of one answer; gives where reading goes on.
fn print(
    plan: &Plan,
    fetched: &Fetched,
    reader: &mut BatchReader,
    mut take: impl FnMut(RecordLine<'_>) -> Outcome,
) -> Outcome<Offset> {
    let end = plan.ends.as_ref().and_then(|ends| ends.get(&fetched.partition).copied());
    let place = plan.topic.place(fetched.partition);
    reader.each_record(&place, &plan.topic.name, fetched, |record| {
        if end.is_some_and(|end| record.offset >= end.0) { Ok(()) } else { take(record) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_start() {
        assert_eq!(parse_start("beginning"), Ok(Start::Beginning));
        assert_eq!(parse_start("latest"), Ok(Start::End));
        assert_eq!(parse_start("0"), Ok(Start::At(Offset(0))));
        assert_eq!(parse_start("-1"), Ok(Start::Last(1)));
        assert_eq!(parse_start("-15m"), Ok(Start::Since(Moment::Ago(900_000))));
        assert_eq!(parse_start("1970-01-01"), Ok(Start::Since(Moment::At(0))));
        for text in ["", "-", "1.5", "begin", "9223372036854775808", "-9223372036854775808", "-x"] {
            assert!(parse_start(text).is_err(), "{text}");
        }
    }
}
