//! `corelog consume`: records become lines.
//!
//! Owns the arguments, where to start and when to stop. Batches are checked and decompressed here; offsets of one
//! partition are printed in order, partitions as they come.

use std::collections::BTreeMap;

use broker::Platform;
use clap::Args;
use record::{Offset, PartitionIndex};

use crate::client::{AutoCreate, Client, Consumer, Fetched, OffsetAt, Topic};
use crate::commands::topic::chosen_partitions;
use crate::commands::with_client;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, Output};
use crate::record_line::{Layout, RecordLine, write_record};
use crate::{ClusterArgs, OutputArgs};

mod decode;

use decode::BatchReader;

const EXAMPLES: &str = "\
Examples:
  corelog consume orders
  corelog consume orders --follow
  corelog consume orders --partition 2 --offset 1200 --max-messages 10
  corelog consume orders --key-separator : | sort
  corelog consume orders -o json";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConsumeArgs {
    /// Topic to read
    topic: String,
    /// Read this partition only; repeatable
    #[arg(short, long = "partition", value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partitions: Vec<i32>,
    /// Where to start; `end` reads what is yet to come, and so implies --follow
    #[arg(short = 'O', long, value_name = "beginning|end|N", default_value = "beginning", value_parser = parse_start)]
    offset: Start,
    /// Wait for more at the end, until interrupted
    #[arg(short, long, conflicts_with = "until_end")]
    follow: bool,
    /// Stop at the end that the partitions have at the start; the default
    #[arg(short = 'e', long)]
    until_end: bool,
    /// Stop after so many records
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_messages: Option<u64>,
    /// Print keys too, and this text between key and value
    #[arg(short, long, value_name = "TEXT")]
    key_separator: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Where to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Beginning,
    End,
    At(Offset),
}

fn parse_start(text: &str) -> Result<Start, String> {
    match text {
        "beginning" | "earliest" => Ok(Start::Beginning),
        "end" | "latest" => Ok(Start::End),
        number => match number.parse::<i64>() {
            Ok(offset) if offset >= 0 => Ok(Start::At(Offset(offset))),
            _ => Err("neither `beginning`, `end` nor an offset from 0".to_owned()),
        },
    }
}

/// Prints records.
pub(crate) fn run(args: &ConsumeArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    let layout = match (output.format(), &args.key_separator) {
        (Format::Json, _) => Layout::Json,
        (Format::Yaml, _) => Layout::Yaml,
        (Format::Table, Some(separator)) => Layout::KeyAndValue(separator.clone()),
        (Format::Table, None) => Layout::Value,
    };
    with_client(&args.cluster, async |client| {
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
    records_max: u64,
}

impl Plan {
    async fn make<P: Platform>(client: &mut Client<P>, args: &ConsumeArgs) -> Outcome<Self> {
        let mut topic = client.topic(&args.topic, AutoCreate::Never).await?;
        let partitions = chosen_partitions(&topic, &args.partitions)?;
        let ends = client.offsets(&mut topic, &partitions, OffsetAt::End).await?;
        let starts = match args.offset {
            Start::End => ends.clone(),
            Start::Beginning => client.offsets(&mut topic, &partitions, OffsetAt::Start).await?,
            Start::At(offset) => {
                let first = client.offsets(&mut topic, &partitions, OffsetAt::Start).await?;
                check_offset(&topic, offset, &first, &ends)?;
                partitions.iter().map(|index| (*index, offset)).collect()
            }
        };
        let goes_on = args.follow || (args.offset == Start::End && !args.until_end);
        let ends = (!goes_on).then_some(ends);
        Ok(Self { topic, starts, ends, records_max: args.max_messages.unwrap_or(u64::MAX) })
    }

    /// Whether nothing of `partition` is wanted from `position` on.
    fn is_done(&self, partition: PartitionIndex, position: Offset) -> bool {
        let end = self.ends.as_ref().and_then(|ends| ends.get(&partition));
        end.is_some_and(|end| position >= *end)
    }
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
            let fact = format!("{place}: offset {offset} is not there, {start}..{end} are");
            let next = "use one of them, or --offset beginning";
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
    let mut consumer = Consumer::new(client, plan.topic.clone(), positions);
    let mut reader = BatchReader::default();
    let mut left = plan.records_max;
    while left > 0 && !consumer.is_done() {
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
        for text in ["-1", "", "1.5", "begin", "9223372036854775808"] {
            assert!(parse_start(text).is_err(), "{text}");
        }
    }
}
