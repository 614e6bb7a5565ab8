//! `corelog config describe` and `alter`: options as running nodes have them.
//!
//! Owns the arguments and what is shown. Values are judged by the broker.

use std::io::{self, Write};

use clap::Args;
use record::NodeId;
use serde::Serialize;

use crate::client::{ConfigOwner, ConfigState};
use crate::commands::topic::{ChangeArgs, changed_word};
use crate::commands::with_client;
use crate::exit::Outcome;
use crate::output::{Output, Show, Table};
use crate::{ClusterArgs, OutputArgs};

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  corelog config describe --node 1
  corelog config describe --topic orders --all
  corelog config describe --node 1 log.segment.bytes num.partitions -o json";

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
    #[arg(short, long, value_name = "ID", value_parser = clap::value_parser!(i32).range(0..))]
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
        Ok(client.configs_of(&owner, &args.keys).await?)
    })?;
    // Whoever names an option wants to see it, set or not.
    let shows_all = args.all || !args.keys.is_empty();
    let shown = states.into_iter().filter(|state| shows_all || state.source.name() != "default");
    output.show(&Description { of: owner.place(), configs: shown.map(line).collect() })
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
        Ok(client.alter_configs(&owner, &changes, commit).await?)
    })?;
    output.show(&Altered { of: owner.place(), outcome: changed_word(commit) })
}
