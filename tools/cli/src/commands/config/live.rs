//! `corelog config describe` and `alter`: options as running nodes have them.
//!
//! Owns the arguments and what is shown. Values are judged by the broker.

use std::io::{self, Write};

use broker::Platform;
use broker::config::{KAFKA_BROKER_CONFIGS, OPTIONS, option};
use clap::Args;
use cluster::{nearest, topic_config_behind};
use record::NodeId;
use serde::Serialize;
use wire::ErrorCode;

use crate::client::{Client, ClientError, ConfigChange, ConfigOwner, ConfigSource, ConfigState};
use crate::commands::topic::{ChangeArgs, changed_word};
use crate::commands::with_client;
use crate::exit::{Exit, Failure, Outcome};
use crate::number;
use crate::output::{Output, Show, Table};
use crate::{ClusterArgs, OutputArgs};

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  corelog config describe --node 1
  corelog config describe --topic orders --all
  corelog config describe --node 1 log.segment.bytes num.partitions -o json

FROM says who set the value: topic, node or all nodes (changed while they run), static (the node's file,
environment or command line; restart it to change that), or default.";

const ALTER_EXAMPLES: &str = "\
Examples:
  corelog config alter --node 1 -c log.segment.bytes=268435456
  corelog config alter --all-nodes -c max.connections=10000
  corelog config alter --topic orders --reset retention.ms --dry-run";

/// Whose options.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct OwnerArgs {
    /// Of this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// Of the node of this id
    #[arg(short, long, value_name = "ID", value_parser = number::from(0_i32))]
    node: Option<i32>,
    /// The defaults of all nodes
    #[arg(long)]
    all_nodes: bool,
}

impl OwnerArgs {
    fn owner(&self) -> ConfigOwner {
        match (&self.topic, self.node) {
            (Some(topic), _) => ConfigOwner::Topic(topic.clone()),
            (None, Some(node)) => ConfigOwner::Node(NodeId(node)),
            (None, None) => ConfigOwner::AllNodes,
        }
    }
}

/// Arguments of `describe`.
#[derive(Debug, Args)]
#[command(after_help = DESCRIBE_EXAMPLES)]
pub(crate) struct DescribeArgs {
    /// Only these options
    keys: Vec<String>,
    #[command(flatten)]
    owner: OwnerArgs,
    /// Show options that have their default too
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `alter`.
#[derive(Debug, Args)]
#[command(after_help = ALTER_EXAMPLES)]
pub(crate) struct AlterArgs {
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    changes: ChangeArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Description {
    of: String,
    configs: Vec<ConfigLine>,
}

#[derive(Debug, Serialize)]
struct ConfigLine {
    key: String,
    value: Option<String>,
    source: &'static str,
    read_only: bool,
}

impl Show for Description {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        if self.configs.is_empty() {
            return writeln!(sink, "{}: every option has its default", self.of);
        }
        let mut table = Table::new(&["OPTION", "VALUE", "FROM", "CHANGES"]);
        for line in &self.configs {
            table.row(vec![
                line.key.clone(),
                line.value.clone().unwrap_or_else(|| "-".to_owned()),
                line.source.to_owned(),
                if line.read_only { "at start" } else { "any time" }.to_owned(),
            ]);
        }
        table.write(sink)
    }
}

/// Shows options as they stand.
pub(crate) fn describe(args: &DescribeArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    let owner = args.owner.owner();
    let states = with_client(&args.cluster, async |client| {
        let states = client.configs_of(&owner, &args.keys).await?;
        let is_missing = |key: &&String| !states.iter().any(|state| state.key == **key);
        let Some(missing) = args.keys.iter().find(is_missing) else { return Ok(states) };
        let known = known_keys(client, &owner).await?;
        refuse_unknown(missing, &owner, &known, LIST_HERE).map(|()| states)
    })?;
    let is_asked = |state: &ConfigState| args.keys.is_empty() || args.keys.contains(&state.key);
    // Whoever names an option wants to see it, set or not.
    let shows_all = args.all || !args.keys.is_empty();
    let is_shown = |state: &ConfigState| {
        is_asked(state) && (shows_all || state.source != ConfigSource::Default)
    };
    let shown = states.into_iter().filter(is_shown);
    output.show(&Description { of: owner.place(), configs: shown.map(line).collect() })
}

/// Every option that `owner` may have.
async fn known_keys<P: Platform>(
    client: &mut Client<P>,
    owner: &ConfigOwner,
) -> Outcome<Vec<String>> {
    if *owner == ConfigOwner::AllNodes {
        // Of the defaults of all nodes only those are told that are set.
        return Ok(keys_of_nodes().map(str::to_owned).collect());
    }
    let states = client.configs_of(owner, &[]).await?;
    let told = states.into_iter().map(|state| state.key);
    Ok(match owner {
        ConfigOwner::Topic(_) => told.collect(),
        // A node takes other names of its options too, and tells one of them.
        ConfigOwner::Node(_) | ConfigOwner::AllNodes => {
            told.chain(keys_of_nodes().map(str::to_owned)).collect()
        }
    })
}

/// Refuses to take back an option that its owner does not have. Brokers call that done, since nothing is set under the name.
pub(crate) async fn check_resets<P: Platform>(
    client: &mut Client<P>,
    owner: &ConfigOwner,
    changes: &[ConfigChange],
) -> Outcome {
    let resets = changes.iter().filter_map(|change| match change {
        ConfigChange::Reset(key) => Some(key),
        ConfigChange::Set(..) => None,
    });
    let mut resets = resets.peekable();
    if resets.peek().is_none() {
        return Ok(());
    }
    let known = known_keys(client, owner).await?;
    let list = match owner {
        ConfigOwner::Topic(name) => {
            format!("corelog config describe --topic {name} --all lists them")
        }
        ConfigOwner::Node(id) => format!("corelog config describe --node {id} --all lists them"),
        ConfigOwner::AllNodes => "docs/operations.md lists them".to_owned(),
    };
    resets.try_for_each(|key| refuse_unknown(key, owner, &known, &list))
}

/// Every name under which a node has an option.
fn keys_of_nodes() -> impl Iterator<Item = &'static str> {
    let own = OPTIONS.iter().flat_map(|option| option.aliases.iter().chain([&option.key]).copied());
    own.chain(KAFKA_BROKER_CONFIGS.iter().map(|config| config.name))
}

/// How `describe` itself lists what there is.
const LIST_HERE: &str = "the same command with --all, and without KEYS, lists them";

/// Refuses an option that its owner does not have: a slip of the pen must not look like a default.
fn refuse_unknown(key: &str, owner: &ConfigOwner, known: &[String], list: &str) -> Outcome {
    if known.iter().any(|name| name == key) {
        return Ok(());
    }
    let failure = Failure::new(Exit::Refused, format!("{}: {key}: unknown option", owner.place()));
    Err(match nearest(key, known.iter().map(String::as_str)) {
        Some(like) => failure.advise(format!("did you mean {like}?")),
        None => failure.advise(list),
    })
}

/// A refusal of these changes, with what to do where a node reads the option only when it starts.
fn refused(error: ClientError, owner: &ConfigOwner, changes: &[ConfigChange]) -> Failure {
    let is_fixed = |change: &ConfigChange| {
        let (ConfigChange::Set(key, _) | ConfigChange::Reset(key)) = change;
        option(key).is_some_and(|option| !option.is_dynamic)
    };
    let is_of_topic = matches!(owner, ConfigOwner::Topic(_));
    let is_refused = error.code() == Some(ErrorCode::InvalidRequest);
    let failure = Failure::from(error);
    if !is_refused || is_of_topic {
        return failure;
    }
    if changes.iter().any(is_fixed) {
        return failure.advise("set it in the node's file or with --set, and restart the node");
    }
    match changes.iter().find_map(of_kafka_alone) {
        Some(key) => failure.advise(format!(
            "leave {key} out: it is Kafka's, and nothing in Corelog goes by it (corelog config explain {key})"
        )),
        None => failure,
    }
}

/// The key of a change, where it is an option of Kafka's that does nothing here.
fn of_kafka_alone(change: &ConfigChange) -> Option<&str> {
    let (ConfigChange::Set(key, _) | ConfigChange::Reset(key)) = change;
    let is_known = KAFKA_BROKER_CONFIGS.iter().any(|config| config.name == key.as_str());
    (is_known && option(key).is_none() && topic_config_behind(key).is_none())
        .then_some(key.as_str())
}

fn line(state: ConfigState) -> ConfigLine {
    ConfigLine {
        key: state.key,
        value: state.value,
        source: state.source.name(),
        read_only: state.is_read_only,
    }
}

#[derive(Debug, Serialize)]
struct Altered {
    of: String,
    outcome: &'static str,
}

impl Show for Altered {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        writeln!(sink, "{}: {}", self.of, self.outcome)
    }
}

/// Changes options: all of them, or none.
pub(crate) fn alter(args: &AlterArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    let owner = args.owner.owner();
    let (changes, commit) = (args.changes.changes(), args.changes.commit());
    with_client(&args.cluster, async |client| {
        check_resets(client, &owner, &changes).await?;
        let altered = client.alter_configs(&owner, &changes, commit).await;
        altered.map_err(|error| refused(error, &owner, &changes))
    })?;
    output.show(&Altered { of: owner.place(), outcome: changed_word(commit) })
}
