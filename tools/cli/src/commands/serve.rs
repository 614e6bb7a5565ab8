//! `corelog serve`: the argument surface of a node.
//!
//! Owns the flags. Which keys there are, and what they mean, belongs to `broker::config`; how a node starts and ends, to
//! `node`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  corelog serve
  corelog serve --data-dir /var/lib/corelog --listen 0.0.0.0:9092
  corelog serve --config corelog.toml --set num.partitions=3 --set log.segment.bytes=16777216

Every option, with its unit, bound and default: docs/operations.md. Flags win over --set, --set over
the environment (CORELOG_NUM_PARTITIONS=3), the environment over the file.";

/// Flags of `serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Options in TOML; without it every option has its default
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the node keeps everything; created where it is missing
    #[arg(short, long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address for Kafka clients; port 0 takes a free one
    #[arg(short, long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Number of data cores; auto is the CPUs this process may use
    #[arg(short, long, value_name = "N|auto")]
    pub(crate) shards: Option<String>,
    /// One option by its key; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
}

/// Runs a node until it is told to stop.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    let _ = args;
    eprintln!("corelog: serve is not wired yet");
    ExitCode::from(70)
}
