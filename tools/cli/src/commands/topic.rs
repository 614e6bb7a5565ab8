//! `corelog topic`: create, list, describe, delete.
//!
//! Owns the arguments and what is shown. Names and options are judged by the broker, which says what is wrong with them.

use std::io::{self, Write};

use broker::Platform;
use clap::{ArgGroup, Args, Subcommand};
use record::PartitionIndex;
use serde::Serialize;
use wire::ErrorCode;

use crate::client::{
    AutoCreate, Client, ClientError, Commit, ConfigChange, ConfigOwner, ConfigSource, ConfigState,
    NewTopic, Topic,
};
use crate::commands::config::check_resets;
use crate::commands::with_client;
use crate::exit::{Exit, Failure, Outcome};
use crate::number;
use crate::output::{Output, Show, Table, counted};
use crate::{ClusterArgs, OutputArgs};

const CREATE_EXAMPLES: &str = "\
Examples:
  corelog topic create orders
  corelog topic create orders --partitions 6 -c retention.ms=86400000
  corelog topic create orders --if-not-exists";

const LIST_EXAMPLES: &str = "\
Examples:
  corelog topic list
  corelog topic list -o json";

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  corelog topic describe orders
  corelog topic describe orders payments --all-configs
  corelog topic describe orders -o json";

const ALTER_EXAMPLES: &str = "\
Examples:
  corelog topic alter orders -c retention.ms=86400000
  corelog topic alter orders --reset retention.ms --reset segment.bytes
  corelog topic alter orders -c min.insync.replicas=2 --dry-run";

const ADD_PARTITIONS_EXAMPLES: &str = "\
Examples:
  corelog topic add-partitions orders --total 6
  corelog topic add-partitions orders --total 6 --dry-run

Keys go to other partitions from then on: records of one key that were in one partition are in two.";

const DELETE_EXAMPLES: &str = "\
Examples:
  corelog topic delete orders
  corelog topic delete orders payments --if-exists";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Make a topic
    Create(CreateArgs),
    /// List topics
    List(ListArgs),
    /// Show partitions, leaders, offsets and options of topics
    Describe(DescribeArgs),
    /// Change options of topics; all changes of a topic are made, or none
    Alter(AlterArgs),
    /// Add partitions to a topic; there is no way back
    AddPartitions(AddPartitionsArgs),
    /// Delete topics and their records; there is no way back
    Delete(DeleteArgs),
}

/// Arguments of `create`.
#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub(crate) struct CreateArgs {
    /// Name of the topic
    name: String,
    /// Number of partitions; the node's num.partitions where it is left out
    #[arg(short, long, value_name = "N", value_parser = number::from(1_i32))]
    partitions: Option<i32>,
    /// Replicas of each partition; the node's default where it is left out
    #[arg(short, long, value_name = "N", value_parser = number::from(1_i16))]
    replication_factor: Option<i16>,
    /// One option of the topic; repeatable
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = parse_pair)]
    configs: Vec<(String, String)>,
    /// Succeed where the topic is there already, whatever its options
    #[arg(long)]
    if_not_exists: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Show the cluster's own topics too
    #[arg(long)]
    internal: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `describe`.
#[derive(Debug, Args)]
#[command(after_help = DESCRIBE_EXAMPLES)]
pub(crate) struct DescribeArgs {
    /// Names of the topics
    #[arg(required = true)]
    names: Vec<String>,
    /// Show options that have their default too
    #[arg(long)]
    all_configs: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `alter`.
#[derive(Debug, Args)]
#[command(after_help = ALTER_EXAMPLES)]
pub(crate) struct AlterArgs {
    /// Names of the topics
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    changes: ChangeArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is to be changed.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("changes").args(["configs", "reset"]).required(true).multiple(true))]
pub(crate) struct ChangeArgs {
    /// Set an option; repeatable
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = parse_pair)]
    configs: Vec<(String, String)>,
    /// Take an option back to its default; repeatable
    #[arg(short, long, value_name = "KEY")]
    reset: Vec<String>,
    /// Only say whether it could be done
    #[arg(long)]
    dry_run: bool,
}

impl ChangeArgs {
    /// The changes, in the order of the command line by kind.
    pub(crate) fn changes(&self) -> Vec<ConfigChange> {
        let sets = self.configs.iter();
        let sets = sets.map(|(key, value)| ConfigChange::Set(key.clone(), value.clone()));
        sets.chain(self.reset.iter().cloned().map(ConfigChange::Reset)).collect()
    }

    /// Whether they are made.
    pub(crate) fn commit(&self) -> Commit {
        if self.dry_run { Commit::DryRun } else { Commit::Yes }
    }
}

/// Arguments of `add-partitions`.
#[derive(Debug, Args)]
#[command(after_help = ADD_PARTITIONS_EXAMPLES)]
pub(crate) struct AddPartitionsArgs {
    /// Name of the topic
    name: String,
    /// How many partitions it is to have in all
    #[arg(short, long, value_name = "N", value_parser = number::from(1_i32))]
    total: i32,
    /// Only say whether it could be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `delete`.
#[derive(Debug, Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub(crate) struct DeleteArgs {
    /// Names of the topics
    #[arg(required = true)]
    names: Vec<String>,
    /// Succeed where a topic is not there
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE")),
    }
}

/// Runs the verb.
pub(crate) fn run(command: &TopicCommand) -> Outcome {
    match command {
        TopicCommand::Create(args) => create(args),
        TopicCommand::List(args) => list(args),
        TopicCommand::Describe(args) => describe(args),
        TopicCommand::Alter(args) => alter(args),
        TopicCommand::AddPartitions(args) => add_partitions(args),
        TopicCommand::Delete(args) => delete(args),
    }
}

#[derive(Debug, Serialize)]
struct Changed<'a> {
    topic: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<String>,
}

impl Show for Changed<'_> {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        match &self.topic_id {
            Some(id) => writeln!(sink, "{}: {} (id {id})", self.topic, self.outcome),
            None => writeln!(sink, "{}: {}", self.topic, self.outcome),
        }
    }
}

fn create(args: &CreateArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    let topic = NewTopic {
        name: args.name.clone(),
        partitions: args.partitions,
        replication_factor: args.replication_factor,
        configs: args.configs.clone(),
    };
    let created =
        with_client(&args.cluster, async |client| match client.create_topic(&topic).await {
            Ok(id) => Ok(Some(id)),
            Err(error)
                if args.if_not_exists && error.code() == Some(ErrorCode::TopicAlreadyExists) =>
            {
                Ok(None)
            }
            Err(error) => Err(not_created(error, &args.name)),
        })?;
    output.show(&Changed {
        topic: &args.name,
        outcome: if created.is_some() { "created" } else { "there already" },
        topic_id: created.map(|id| id.to_string()),
    })
}

/// A refusal of this topic, with advice that fits the name: a name that is right by itself may stand beside one that is too like.
fn not_created(error: ClientError, name: &str) -> Failure {
    let code = error.code();
    let failure = Failure::from(error);
    match code {
        Some(ErrorCode::InvalidTopicException) if cluster::check_topic_name(name).is_ok() => {
            failure.advise(
                "choose a name that differs from it in more than dots and underscores: metrics write both the same",
            )
        }
        Some(ErrorCode::InvalidPartitions) => {
            failure.advise("give another number with --partitions N, or leave it to the node")
        }
        _ => failure,
    }
}

fn alter(args: &AlterArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    let (changes, commit) = (args.changes.changes(), args.changes.commit());
    let outcome = changed_word(commit);
    with_client(&args.cluster, async |client| {
        // All of them first: a slip of the pen changes nothing.
        for name in &args.names {
            check_resets(client, &ConfigOwner::Topic(name.clone()), &changes).await?;
        }
        for name in &args.names {
            client.alter_configs(&ConfigOwner::Topic(name.clone()), &changes, commit).await?;
            output.show(&Changed { topic: name, outcome, topic_id: None })?;
        }
        Ok(())
    })
}

/// What is told of a change that a broker has taken.
pub(super) const fn changed_word(commit: Commit) -> &'static str {
    match commit {
        Commit::Yes => "changed",
        Commit::DryRun => "could be changed",
    }
}

fn add_partitions(args: &AddPartitionsArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    let commit = if args.dry_run { Commit::DryRun } else { Commit::Yes };
    with_client(&args.cluster, async |client| {
        Ok(client.add_partitions(&args.name, args.total, commit).await?)
    })?;
    output.show(&Changed { topic: &args.name, outcome: changed_word(commit), topic_id: None })
}

fn delete(args: &DeleteArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    with_client(&args.cluster, async |client| {
        for name in &args.names {
            let outcome = match client.delete_topic(name).await {
                Ok(()) => "deleted",
                Err(error)
                    if args.if_exists
                        && error.code() == Some(ErrorCode::UnknownTopicOrPartition) =>
                {
                    "not there"
                }
                Err(error) => return Err(error.into()),
            };
            output.show(&Changed { topic: name, outcome, topic_id: None })?;
        }
        Ok(())
    })
}

#[derive(Debug, Serialize)]
struct TopicLine {
    topic: String,
    topic_id: String,
    partitions: usize,
    replicas: usize,
    internal: bool,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct TopicList(Vec<TopicLine>);

impl Show for TopicList {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&["TOPIC", "PARTITIONS", "REPLICAS", "ID"]);
        for line in &self.0 {
            table.row(vec![
                line.topic.clone(),
                line.partitions.to_string(),
                line.replicas.to_string(),
                line.topic_id.clone(),
            ]);
        }
        table.write(sink)
    }
}

fn list(args: &ListArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    let topics = with_client(&args.cluster, async |client| Ok(client.topics().await?))?;
    let shown = topics.into_iter().filter(|topic| args.internal || !topic.is_internal);
    let lines = shown.map(|topic| TopicLine {
        topic_id: topic.id.to_string(),
        partitions: topic.partitions.len(),
        replicas: topic.partitions.first().map_or(0, |partition| partition.replicas.len()),
        internal: topic.is_internal,
        topic: topic.name,
    });
    output.show(&TopicList(lines.collect()))
}

#[derive(Debug, Serialize)]
struct Description {
    topic: String,
    topic_id: String,
    internal: bool,
    partitions: Vec<PartitionLine>,
    configs: Vec<ConfigLine>,
}

#[derive(Debug, Serialize)]
struct PartitionLine {
    partition: i32,
    leader: i32,
    leader_epoch: i32,
    replicas: Vec<i32>,
    in_sync: Vec<i32>,
    /// Whether nobody serves it; then it has no offsets.
    offline: bool,
    start_offset: Option<i64>,
    end_offset: Option<i64>,
}

#[derive(Debug, Serialize)]
struct ConfigLine {
    key: String,
    value: Option<String>,
    set: bool,
}

impl Show for Description {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        let kind = if self.internal { ", internal" } else { "" };
        writeln!(sink, "topic {} (id {}{kind})", self.topic, self.topic_id)?;
        let mut table =
            Table::new(&["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END"]);
        let list =
            |nodes: &[i32]| nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let offset = |offset: Option<i64>| offset.map_or(OFFLINE.to_owned(), |o| o.to_string());
        for line in &self.partitions {
            table.row(vec![
                line.partition.to_string(),
                if line.leader < 0 { "none".to_owned() } else { line.leader.to_string() },
                line.leader_epoch.to_string(),
                list(&line.replicas),
                list(&line.in_sync),
                offset(line.start_offset),
                offset(line.end_offset),
            ]);
        }
        table.write(sink)?;
        if self.configs.is_empty() {
            return writeln!(sink, "options: all at their defaults");
        }
        let mut table = Table::new(&["OPTION", "VALUE", "SET ON TOPIC"]);
        for config in &self.configs {
            table.row(vec![
                config.key.clone(),
                config.value.clone().unwrap_or_else(|| "(secret)".to_owned()),
                if config.set { "yes" } else { "no" }.to_owned(),
            ]);
        }
        table.write(sink)
    }
}

/// What tables say in place of the offsets of a partition that nobody serves.
pub(super) const OFFLINE: &str = "offline";

fn describe(args: &DescribeArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    with_client(&args.cluster, async |client| {
        let mut offline = None;
        for name in &args.names {
            let (description, failure) = describe_one(client, name, args.all_configs).await?;
            output.show(&description)?;
            offline = offline.or(failure);
        }
        // Told after what there is: the rest of the topic is served.
        offline.map_or(Ok(()), |failure| Err(failure.into()))
    })
}

/// A topic, and what to say of its partitions that nobody serves.
async fn describe_one<P: Platform>(
    client: &mut Client<P>,
    name: &str,
    all_configs: bool,
) -> Outcome<(Description, Option<ClientError>)> {
    let mut topic = client.topic(name, AutoCreate::Never).await?;
    let all = chosen_partitions(&topic, &[])?;
    let (starts, ends) = client.ends(&mut topic, &all).await?;
    let failure = ends.failure(&topic);
    let (starts, ends) = (starts.offsets(), ends.offsets());
    let configs = client.configs_of(&ConfigOwner::Topic(name.to_owned()), &[]).await?;
    let nodes = |nodes: &[record::NodeId]| nodes.iter().map(|node| node.0).collect();
    let partitions = topic.partitions.iter().map(|partition| PartitionLine {
        partition: partition.index.0,
        leader: partition.leader.0,
        leader_epoch: partition.leader_epoch.0,
        replicas: nodes(&partition.replicas),
        in_sync: nodes(&partition.isr),
        offline: !ends.contains_key(&partition.index),
        start_offset: starts.get(&partition.index).map(|offset| offset.0),
        end_offset: ends.get(&partition.index).map(|offset| offset.0),
    });
    let description = Description {
        partitions: partitions.collect(),
        configs: config_lines(configs, all_configs),
        topic_id: topic.id.to_string(),
        internal: topic.is_internal,
        topic: topic.name,
    };
    Ok((description, failure))
}

fn config_lines(states: Vec<ConfigState>, all: bool) -> Vec<ConfigLine> {
    let lines = states.into_iter().map(|state| {
        let set = state.source == ConfigSource::Topic;
        ConfigLine { key: state.key, value: state.value, set }
    });
    lines.filter(|line| all || line.set).collect()
}

/// The partitions that a command line asks for: those it names, or all.
pub(crate) fn chosen_partitions(topic: &Topic, asked: &[i32]) -> Outcome<Vec<PartitionIndex>> {
    let all: Vec<PartitionIndex> = topic.partitions.iter().map(|one| one.index).collect();
    if asked.is_empty() {
        return Ok(all);
    }
    let mut chosen = Vec::new();
    for index in asked.iter().copied().map(PartitionIndex) {
        if !all.contains(&index) {
            let count = counted(all.len() as u64, "partition");
            let fact = format!("{}: no such partition, the topic has {count}", topic.place(index));
            let next = format!("corelog topic describe {} shows them", topic.name);
            return Err(Failure::new(Exit::Refused, fact).advise(next));
        }
        if !chosen.contains(&index) {
            chosen.push(index);
        }
    }
    Ok(chosen)
}
