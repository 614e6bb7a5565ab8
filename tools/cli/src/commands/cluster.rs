//! `corelog cluster`: what the cluster says of itself.
//!
//! Owns the arguments and what is shown.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use record::NodeId;
use serde::Serialize;

use crate::commands::with_client;
use crate::exit::Outcome;
use crate::output::{Output, Show, Table};
use crate::{ClusterArgs, OutputArgs};

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  corelog cluster describe
  corelog cluster describe -b broker.example:9092 -o json";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show the cluster's id, its controller and how clients reach its brokers
    Describe(DescribeArgs),
}

/// Arguments of `describe`.
#[derive(Debug, Args)]
#[command(after_help = DESCRIBE_EXAMPLES)]
pub(crate) struct DescribeArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Description {
    cluster_id: String,
    /// `None` where there is no controller.
    controller: Option<i32>,
    brokers: Vec<BrokerLine>,
}

#[derive(Debug, Serialize)]
struct BrokerLine {
    broker: i32,
    host: String,
    port: i32,
    rack: Option<String>,
}

impl Show for Description {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        writeln!(sink, "cluster {}", self.cluster_id)?;
        let mut table = Table::new(&["BROKER", "HOST", "PORT", "RACK", "CONTROLLER"]);
        for line in &self.brokers {
            let is_controller = self.controller == Some(line.broker);
            table.row(vec![
                line.broker.to_string(),
                line.host.clone(),
                line.port.to_string(),
                line.rack.clone().unwrap_or_else(|| "-".to_owned()),
                if is_controller { "yes" } else { "no" }.to_owned(),
            ]);
        }
        table.write(sink)
    }
}

/// Runs the verb.
pub(crate) fn run(command: &ClusterCommand) -> Outcome {
    let ClusterCommand::Describe(args) = command;
    let mut output = Output::new(args.output.output);
    let cluster = with_client(&args.cluster, async |client| Ok(client.cluster().await?))?;
    let brokers = cluster.brokers.into_iter().map(|broker| BrokerLine {
        broker: broker.id.0,
        host: broker.host,
        port: broker.port,
        rack: broker.rack,
    });
    output.show(&Description {
        cluster_id: cluster.id,
        controller: (cluster.controller != NodeId::NONE).then_some(cluster.controller.0),
        brokers: brokers.collect(),
    })
}
