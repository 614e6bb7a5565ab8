//! `corelog apis`: which APIs a broker serves, in which versions.
//!
//! Owns the arguments and what is shown.

use std::io::{self, Write};

use clap::Args;
use serde::Serialize;
use wire::ApiKey;

use crate::commands::with_client;
use crate::exit::Outcome;
use crate::output::{Output, Show, Table};
use crate::{ClusterArgs, OutputArgs};

const EXAMPLES: &str = "\
Examples:
  corelog apis
  corelog apis -b broker.example:9092 -o json";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApisArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct ApiLine {
    key: i16,
    /// `None` for an API that this program does not know.
    name: Option<&'static str>,
    min_version: i16,
    max_version: i16,
    text: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct ApiList(Vec<ApiLine>);

impl Show for ApiList {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&["KEY", "API", "VERSIONS", "WHAT IT DOES"]);
        for line in &self.0 {
            table.row(vec![
                line.key.to_string(),
                line.name.unwrap_or("unknown").to_owned(),
                wire::Versions::new(line.min_version, line.max_version).to_string(),
                line.text.unwrap_or_default().to_owned(),
            ]);
        }
        table.write(sink)
    }
}

/// Asks the first broker that answers.
pub(crate) fn run(args: &ApisArgs) -> Outcome {
    let mut output = Output::new(args.output.output);
    let served = with_client(&args.cluster, async |client| Ok(client.served_apis().await?))?;
    let lines = served.into_iter().map(|(key, versions)| {
        let api = ApiKey::from_key(key).map(ApiKey::api);
        ApiLine {
            key,
            name: api.map(|api| api.name),
            min_version: versions.min,
            max_version: versions.max,
            text: api.map(|api| api.text),
        }
    });
    output.show(&ApiList(lines.collect()))
}
