//! `corelog offsets`: where the partitions of a topic begin, end, or were at some time.
//!
//! Owns the arguments and what is shown.

use std::io::{self, Write};

use broker::Platform;
use clap::Args;
use record::PartitionIndex;
use serde::Serialize;

use crate::client::{AutoCreate, FoundOffset, OffsetAt, Survey, Topic};
use crate::commands::topic::{OFFLINE, chosen_partitions};
use crate::commands::with_client;
use crate::exit::Outcome;
use crate::moment::{Moment, Utc};
use crate::number;
use crate::output::{Output, Show, Table};
use crate::{ClusterArgs, OutputArgs};

const EXAMPLES: &str = "\
Examples:
  corelog offsets orders
  corelog offsets orders --at earliest
  corelog offsets orders --at 2026-11-29T20:15:00Z
  corelog offsets orders --at=-15m --partition 0 -o json

A time gives the first record of that time or later: Unix milliseconds, a date and time of UTC, or
how long ago (-90s, -15m, -2h, -7d).";

/// A place in a partition, or both its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ends,
    Earliest,
    Latest,
    MaxTimestamp,
    Time(Moment),
}

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OffsetsArgs {
    /// Topic to look at
    topic: String,
    /// Where: ends, earliest, latest, max-timestamp, or a time
    #[arg(long, value_name = "PLACE", default_value = "ends", value_parser = parse_place, allow_hyphen_values = true)]
    at: Place,
    /// Only this partition; repeatable
    #[arg(short, long = "partition", value_name = "N", value_parser = number::from(0_i32))]
    partitions: Vec<i32>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

fn parse_place(text: &str) -> Result<Place, String> {
    match text {
        "ends" => Ok(Place::Ends),
        "earliest" => Ok(Place::Earliest),
        "latest" => Ok(Place::Latest),
        "max-timestamp" => Ok(Place::MaxTimestamp),
        _ => Moment::parse(text).map(Place::Time).ok_or_else(|| {
            "not ends, earliest, latest, max-timestamp, or a time such as 2026-11-29T20:15:00Z, \
             1764447300000 or -15m"
                .to_owned()
        }),
    }
}

#[derive(Debug, Serialize)]
struct EndsLine {
    partition: i32,
    /// Whether nobody serves it; then it has no offsets.
    offline: bool,
    earliest: Option<i64>,
    latest: Option<i64>,
    /// Offsets from the one to the other: records, unless some were compacted away.
    between: Option<i64>,
}

#[derive(Debug, Serialize)]
struct Ends {
    topic: String,
    partitions: Vec<EndsLine>,
}

impl Show for Ends {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&["PARTITION", "EARLIEST", "LATEST", "BETWEEN"]);
        for line in &self.partitions {
            let offset = |offset: Option<i64>| offset.map_or(OFFLINE.to_owned(), |o| o.to_string());
            table.row(vec![
                line.partition.to_string(),
                offset(line.earliest),
                offset(line.latest),
                line.between.map_or("-".to_owned(), |between| between.to_string()),
            ]);
        }
        table.write(sink)
    }
}

#[derive(Debug, Serialize)]
struct FoundLine {
    partition: i32,
    /// Whether nobody serves it.
    offline: bool,
    /// `None` where no record is as was asked.
    offset: Option<i64>,
    /// Unix milliseconds; `None` where they are not told.
    timestamp: Option<i64>,
}

#[derive(Debug, Serialize)]
struct Found {
    topic: String,
    partitions: Vec<FoundLine>,
}

impl Show for Found {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&["PARTITION", "OFFSET", "TIME OF RECORD"]);
        for line in &self.partitions {
            table.row(vec![
                line.partition.to_string(),
                match line.offset {
                    _ if line.offline => OFFLINE.to_owned(),
                    Some(offset) => offset.to_string(),
                    None => "none".to_owned(),
                },
                line.timestamp.map_or("-".to_owned(), |ms| Utc(ms).to_string()),
            ]);
        }
        table.write(sink)
    }
}

/// Asks the leaders.
pub(crate) fn run(args: &OffsetsArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    with_client(&args.cluster, async |client| {
        let mut topic = client.topic(&args.topic, AutoCreate::Never).await?;
        let mut chosen = chosen_partitions(&topic, &args.partitions)?;
        chosen.sort();
        let name = topic.name.clone();
        let now_ms = client.platform().now().0;
        let at = match args.at {
            Place::Ends => {
                let (starts, ends) = client.ends(&mut topic, &chosen).await?;
                output.show(&Ends::of(name, &chosen, &starts, &ends))?;
                return told_offline(&topic, &ends);
            }
            Place::Earliest => OffsetAt::Start,
            Place::Latest => OffsetAt::End,
            Place::MaxTimestamp => OffsetAt::MaxTimestamp,
            Place::Time(moment) => OffsetAt::Time(moment.unix_ms(now_ms)),
        };
        let survey = client.find_offsets(&mut topic, &chosen, at).await?;
        let partitions = chosen.iter().map(|index| line(*index, survey.found.get(index)));
        output.show(&Found { topic: name, partitions: partitions.collect() })?;
        told_offline(&topic, &survey)
    })
}

/// What follows what is shown: that a fact is missing that was asked for.
fn told_offline(topic: &Topic, survey: &Survey) -> Outcome {
    survey.failure(topic).map_or(Ok(()), |failure| Err(failure.into()))
}

impl Ends {
    fn of(topic: String, chosen: &[PartitionIndex], starts: &Survey, ends: &Survey) -> Self {
        let at = |survey: &Survey, index| survey.found.get(index).map(|found| found.offset.0);
        let partitions = chosen.iter().map(|index| {
            let (earliest, latest) = (at(starts, index), at(ends, index));
            let between = latest.zip(earliest).map(|(end, start)| end.saturating_sub(start));
            let (partition, offline) = (index.0, latest.is_none());
            EndsLine { partition, offline, earliest, latest, between }
        });
        Self { topic, partitions: partitions.collect() }
    }
}

fn line(index: PartitionIndex, found: Option<&FoundOffset>) -> FoundLine {
    let told = |number: i64| (number >= 0).then_some(number);
    FoundLine {
        partition: index.0,
        offline: found.is_none(),
        offset: found.and_then(|found| told(found.offset.0)),
        timestamp: found.and_then(|found| told(found.timestamp)),
    }
}
