//! `corelog records`: records deleted from the front of partitions.
//!
//! Owns the arguments and what is shown. A time is looked up first, and what is deleted is what lies before that offset.

use std::collections::BTreeMap;
use std::io::{self, Write};

use broker::Platform;
use clap::{Args, Subcommand};
use record::{Offset, PartitionIndex};
use serde::Serialize;
use wire::ErrorCode;

use self::older::older_than;
use crate::client::{
    AutoCreate, Client, ClientError, Commit, ConfigOwner, CutShort, OffsetAt, Topic, listed,
};
use crate::commands::topic::chosen_partitions;
use crate::commands::with_client;
use crate::exit::{Exit, Failure, Outcome};
use crate::moment::Moment;
use crate::number;
use crate::output::{Output, Show, Table};
use crate::{ClusterArgs, OutputArgs};

mod older;

const DELETE_EXAMPLES: &str = "\
Examples:
  corelog records delete orders --partition 0 --before 42000
  corelog records delete orders --before-time=-7d
  corelog records delete orders --all --dry-run

Offsets stay as they are: the first record that is left keeps its number. Partitions do not fail
together: those that were cut short are shown, also where another refuses. A record without a timestamp
is older than a time only where one with an earlier time follows it; it stays otherwise.";

/// Partitions that a failure lists; of the rest it tells the number.
const LISTED_MAX: usize = 10;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum RecordsCommand {
    /// Delete the oldest records of a topic's partitions; there is no way back
    Delete(DeleteArgs),
}

/// Arguments of `delete`.
#[derive(Debug, Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub(crate) struct DeleteArgs {
    /// Name of the topic
    topic: String,
    /// Only in this partition; repeatable
    #[arg(short, long = "partition", value_name = "N", value_parser = number::from(0_i32))]
    partitions: Vec<i32>,
    #[command(flatten)]
    extent: ExtentArgs,
    /// Only say where the partitions would begin
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// How much goes.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ExtentArgs {
    /// What lies before this offset
    #[arg(long, value_name = "OFFSET", value_parser = number::from(0_i64))]
    before: Option<i64>,
    /// What lies before the first record of this time: a date and time of UTC, Unix milliseconds, or how long ago
    #[arg(long, value_name = "TIME", value_parser = parse_moment, allow_hyphen_values = true)]
    before_time: Option<Moment>,
    /// Every record there is now
    #[arg(long)]
    all: bool,
}

fn parse_moment(text: &str) -> Result<Moment, String> {
    let wrong = "not a time such as 2026-11-29T20:15:00Z, 1764447300000 or -15m";
    Moment::parse(text).ok_or_else(|| wrong.to_owned())
}

#[derive(Debug, Serialize)]
struct Deleted {
    topic: String,
    outcome: &'static str,
    partitions: Vec<DeletedLine>,
    #[serde(skip)]
    commit: Commit,
}

#[derive(Debug, Serialize)]
struct DeletedLine {
    partition: i32,
    /// The first offset that is left.
    earliest: i64,
}

impl Show for Deleted {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        let earliest = match self.commit {
            Commit::Yes => "EARLIEST",
            Commit::DryRun => "EARLIEST WOULD BE",
        };
        let mut table = Table::new(&["PARTITION", earliest]);
        for line in &self.partitions {
            table.row(vec![line.partition.to_string(), line.earliest.to_string()]);
        }
        table.write(sink)
    }
}

/// Runs the verb.
pub(crate) fn run(command: &RecordsCommand) -> Outcome {
    let RecordsCommand::Delete(args) = command;
    let mut output = Output::new(args.output.output);
    let commit = if args.dry_run { Commit::DryRun } else { Commit::Yes };
    with_client(&args.cluster, async |client| {
        let mut topic = client.topic(&args.topic, AutoCreate::Never).await?;
        let chosen = chosen_partitions(&topic, &args.partitions)?;
        check_policy(client, &topic.name).await?;
        let Extent { before, offline, unknown } =
            extent(client, &mut topic, &chosen, &args.extent).await?;
        let mut found = match commit {
            Commit::Yes => client.delete_records(&mut topic, &before).await,
            Commit::DryRun => client.could_delete_records(&mut topic, &before).await?,
        };
        found.failure = found.failure.or(offline);
        // Shown before the failure is told: what is gone is gone.
        if !found.starts.is_empty() || (found.failure.is_none() && unknown.is_empty()) {
            output.show(&shown(topic.name.clone(), commit, &found))?;
        }
        let bounds = match &found.failure {
            Some(error) => bounds(client, &mut topic, &chosen, error).await,
            None => None,
        };
        let failed = |error: ClientError| match &bounds {
            Some(bounds) => Failure::from(error).adding(bounds),
            None => Failure::from(error),
        };
        let failure = found.failure.map(failed).or_else(|| untimed(&topic, &unknown));
        match failure {
            Some(failure) if chosen.len() > 1 => {
                let rest = rest(commit, &chosen, &found.starts);
                Err(failure.adding(&rest))
            }
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    })
}

/// Refuses a topic whose records nobody may delete (LG-3), which a dry run would not learn from its leaders.
async fn check_policy<P: Platform>(client: &mut Client<P>, topic: &str) -> Outcome {
    const KEY: &str = "cleanup.policy";
    let owner = ConfigOwner::Topic(topic.to_owned());
    let states = client.configs_of(&owner, &[KEY.to_owned()]).await?;
    match states.iter().find(|state| state.key == KEY).and_then(|state| state.value.as_deref()) {
        Some(policy) if !policy.split(',').any(|word| word.trim() == "delete") => {
            Err(kept(topic, policy))
        }
        _ => Ok(()),
    }
}

fn kept(topic: &str, policy: &str) -> Failure {
    let (shown, with_delete) = match policy.trim() {
        "" => ("empty", "delete".to_owned()),
        words => (words, format!("{words},delete")),
    };
    let (code, place) = (ErrorCode::PolicyViolation.name(), format!("topic {topic}"));
    let fact = format!(
        "{place}: cleanup.policy is {shown}: records are deleted only where it contains delete ({code})"
    );
    Failure::new(Exit::Refused, fact).advise(format!(
        "corelog topic alter {topic} -c cleanup.policy={with_delete} allows it; from then on retention.ms and \
         retention.bytes delete records too (-1 keeps them)"
    ))
}

fn shown(topic: String, commit: Commit, found: &CutShort) -> Deleted {
    let line = |(index, start): (&PartitionIndex, &Offset)| DeletedLine {
        partition: index.0,
        earliest: start.0,
    };
    let outcome = match commit {
        Commit::Yes => "deleted",
        Commit::DryRun => "could be deleted",
    };
    Deleted { topic, outcome, partitions: found.starts.iter().map(line).collect(), commit }
}

/// What the partition holds that an offset past its end was refused of; nothing where that cannot be told.
async fn bounds<P: Platform>(
    client: &mut Client<P>,
    topic: &mut Topic,
    chosen: &[PartitionIndex],
    error: &ClientError,
) -> Option<String> {
    let ClientError::Refused { place, code: ErrorCode::OffsetOutOfRange, .. } = error else {
        return None;
    };
    let index = chosen.iter().copied().find(|index| topic.place(*index) == *place)?;
    let start = client.offsets(topic, &[index], OffsetAt::Start).await.ok()?.remove(&index)?;
    let end = client.offsets(topic, &[index], OffsetAt::End).await.ok()?.remove(&index)?;
    Some(format!("{place} starts at {start} and ends at {end}"))
}

/// What a failure adds about the partitions that it is not about.
fn rest(
    commit: Commit,
    chosen: &[PartitionIndex],
    starts: &BTreeMap<PartitionIndex, Offset>,
) -> String {
    let left: Vec<&PartitionIndex> =
        chosen.iter().filter(|index| !starts.contains_key(index)).collect();
    let what = match commit {
        Commit::Yes => "cut short",
        Commit::DryRun => "could be cut short",
    };
    let shown = if starts.is_empty() { "" } else { ", as shown" };
    let (done, all, left) = (starts.len(), chosen.len(), listed(&left));
    format!("{what}: {done} of {all} partitions{shown}; not {left}")
}

/// What to say of partitions that hold records of which none has a time.
fn untimed(topic: &Topic, unknown: &[PartitionIndex]) -> Option<Failure> {
    let first = unknown.first()?;
    let mut listed: Vec<String> =
        unknown.iter().take(LISTED_MAX).map(|index| topic.place(*index)).collect();
    if let Some(more @ 1..) = unknown.len().checked_sub(LISTED_MAX) {
        listed.push(format!("and {more} more"));
    }
    let fact = format!(
        "{}: the oldest records have no timestamp: whether they are older is not known",
        listed.join(", ")
    );
    let next = format!(
        "corelog records delete {} -p {first} --before OFFSET deletes by offset, --all deletes every record",
        topic.name
    );
    Some(Failure::new(Exit::Refused, fact).advise(next))
}

/// What is to be deleted.
struct Extent {
    /// The offset in each partition before which everything goes.
    before: BTreeMap<PartitionIndex, Offset>,
    /// What to say of partitions that nobody serves.
    offline: Option<ClientError>,
    /// Partitions of which nothing is proved to be older than the time.
    unknown: Vec<PartitionIndex>,
}

/// Ends are looked up here, not left to the leader: a request that is repeated must not take what was written in between.
async fn extent<P: Platform>(
    client: &mut Client<P>,
    topic: &mut Topic,
    chosen: &[PartitionIndex],
    extent: &ExtentArgs,
) -> Outcome<Extent> {
    let ends = client.find_offsets(topic, chosen, OffsetAt::End).await?;
    let offline = ends.failure(topic);
    let mut before = ends.offsets();
    let mut unknown = Vec::new();
    if let Some(offset) = extent.before {
        before.values_mut().for_each(|before| *before = Offset(offset));
    }
    if let Some(moment) = extent.before_time {
        let ms = moment.unix_ms(client.platform().now().0);
        let older = older_than(client, topic, &before, ms).await?;
        (before, unknown) = (older.ends, older.unknown);
    }
    Ok(Extent { before, offline, unknown })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_counts_what_is_done_and_lists_what_is_not_within_bounds() {
        let check = |commit: Commit, count: i32, done: i32, expected: &str| {
            let chosen: Vec<PartitionIndex> = (0..count).map(PartitionIndex).collect();
            let starts = (0..done).map(|index| (PartitionIndex(index), Offset(1))).collect();
            assert_eq!(rest(commit, &chosen, &starts), expected);
        };
        check(Commit::Yes, 3, 1, "cut short: 1 of 3 partitions, as shown; not 1, 2");
        check(Commit::DryRun, 2, 1, "could be cut short: 1 of 2 partitions, as shown; not 1");
        let long = "cut short: 0 of 1000 partitions; not 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more";
        check(Commit::Yes, 1000, 0, long);
    }

    #[test]
    fn a_policy_that_keeps_records_is_named_with_the_one_that_would_not() {
        for (policy, shown, like) in [
            ("", "is empty:", "orders -c cleanup.policy=delete allows"),
            ("compact", "is compact:", "-c cleanup.policy=compact,delete allows"),
        ] {
            let failure = kept("orders", policy);
            assert!(failure.fact.contains(shown) && failure.fact.contains("POLICY_VIOLATION"));
            assert!(failure.next.unwrap().contains(like), "{policy}");
        }
    }
}
