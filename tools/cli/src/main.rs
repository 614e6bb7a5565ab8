//! `corelog`: the one binary. A node, and everything a person does with one.
//!
//! Owns the command line and the end of the process. It decides nothing about the protocol: commands ask the client, and
//! the client speaks through `wire`.

mod batch_records;
mod client;
mod commands;
mod exit;
mod habits;
mod lines;
mod moment;
mod number;
mod output;
mod partitioner;
mod progress;
mod record_line;
mod replace;
mod yaml;

use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use client::ClientOptions;
use exit::Outcome;
use output::Format;

const EXAMPLES: &str = "\
Examples:
  corelog serve
  corelog topic create orders --partitions 3
  echo 'hello' | corelog produce orders
  corelog consume orders
  corelog log verify corelog-data";

#[derive(Debug, Parser)]
#[command(
    name = "corelog",
    version,
    about = "A distributed commit log that speaks the Kafka protocol",
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{}", exit::EXIT_CODES_HELP),
    disable_help_subcommand = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node on this machine
    Serve(commands::serve::ServeArgs),
    /// Create, list, describe, alter and delete topics
    #[command(subcommand)]
    Topic(commands::topic::TopicCommand),
    /// Append the lines of a file or of standard input to a topic
    Produce(commands::produce::ProduceArgs),
    /// Print the records of a topic
    Consume(commands::consume::ConsumeArgs),
    /// Show where the partitions of a topic begin, end, or were at some time
    Offsets(commands::offsets::OffsetsArgs),
    /// Delete the oldest records of a topic
    #[command(subcommand)]
    Records(commands::records::RecordsCommand),
    /// Show the cluster and how clients reach its brokers
    #[command(subcommand)]
    Cluster(commands::cluster::ClusterCommand),
    /// List the APIs and versions that a broker serves
    Apis(commands::apis::ApisArgs),
    /// Explain options and check files with no node; show and change options of running ones
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    /// Read log files directly, with no node running
    #[command(subcommand)]
    Log(commands::log::LogCommand),
    /// Measure a broker under load, and audit what it acknowledged
    #[command(subcommand)]
    Bench(commands::bench::BenchCommand),
    /// Measure whether this machine's disk and network do what a node relies on
    SelfTest(commands::self_test::SelfTestArgs),
    /// Watch what the cores and the busiest partitions of a node do
    Top(commands::top::TopArgs),
    /// Measure this machine and nodes on it, and propose how to configure one
    Tune(Box<commands::tune::TuneArgs>),
    /// Find what keeps nodes from running and clients from reaching them, and say how to mend it
    Doctor(commands::doctor::DoctorArgs),
    /// Print the completion script of a shell
    Completions(commands::manual::CompletionsArgs),
    /// Print the manual page, or write all pages
    Man(commands::manual::ManArgs),
    /// Print the version
    Version(OutputArgs),
}

/// How long to go on trying where nothing else is said.
const TIMEOUT_MS_DEFAULT: u32 = 30_000;

/// Where the cluster is.
#[derive(Debug, Args)]
struct BrokersArgs {
    /// Brokers to ask first; any one that answers will do
    #[arg(
        short,
        long,
        value_name = "HOST:PORT[,HOST:PORT...]",
        default_value = "127.0.0.1:9092",
        env = "CORELOG_BOOTSTRAP_SERVER",
        hide_env_values = true
    )]
    bootstrap_server: String,
}

/// Where the cluster is, and how patient to be with it.
#[derive(Debug, Args)]
struct ClusterArgs {
    #[command(flatten)]
    brokers: BrokersArgs,
    /// How long to go on trying before giving up, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = TIMEOUT_MS_DEFAULT)]
    timeout_ms: u32,
}

impl ClusterArgs {
    fn options(&self) -> Outcome<ClientOptions> {
        ClientOptions::parse(&self.brokers.bootstrap_server, self.timeout_ms)
    }
}

/// How data is printed.
#[derive(Debug, Clone, Copy, Args)]
struct OutputArgs {
    /// How data is printed on standard output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// The command line as it is parsed, shown and documented: every command that is a client tells its exit codes, which are the
/// same for all.
fn command_line() -> clap::Command {
    let mut command = Cli::command();
    let groups = command.get_subcommands().filter(|command| command.has_subcommands());
    let groups: Vec<_> = groups.map(|group| group.get_name().to_owned()).collect();
    for name in groups {
        command = command.mut_subcommand(name, |group| {
            let verbs: Vec<_> =
                group.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
            verbs.iter().fold(group, |group, verb| group.mut_subcommand(verb, with_exit_codes))
        });
    }
    for name in ["produce", "consume", "offsets", "apis", "self-test", "top", "tune", "doctor"] {
        command = command.mut_subcommand(name, with_exit_codes);
    }
    command
}

fn with_exit_codes(command: clap::Command) -> clap::Command {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    command.after_long_help(format!("{examples}\n\n{}", exit::EXIT_CODES_HELP))
}

fn main() -> ExitCode {
    let matches = command_line().try_get_matches().unwrap_or_else(|error| habits::exit(error));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = match &cli.command {
        Command::Serve(args) => return commands::serve::run(args),
        Command::Topic(command) => commands::topic::run(command),
        Command::Produce(args) => commands::produce::run(args),
        Command::Consume(args) => commands::consume::run(args),
        Command::Offsets(args) => commands::offsets::run(args),
        Command::Records(command) => commands::records::run(command),
        Command::Cluster(command) => commands::cluster::run(command),
        Command::Apis(args) => commands::apis::run(args),
        Command::Config(command) => commands::config::run(command),
        Command::Log(command) => commands::log::run(command),
        Command::Bench(command) => commands::bench::run(command),
        Command::SelfTest(args) => commands::self_test::run(args),
        Command::Top(args) => commands::top::run(args),
        Command::Tune(args) => commands::tune::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Completions(args) => commands::manual::completions(args, command_line()),
        Command::Man(args) => commands::manual::man(args, command_line()),
        Command::Version(args) => commands::version::run(args.output),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::say(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn every_command_has_examples_and_tells_its_exit_codes() {
        let mut left = vec![command_line()];
        while let Some(command) = left.pop() {
            let name = command.get_name().to_owned();
            let is_group = command.has_subcommands();
            left.extend(command.get_subcommands().cloned());
            if is_group && name != "corelog" {
                continue;
            }
            let mut command = command;
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:") || name == "version", "{name}: {help}");
            let fails_alone = ["version", "completions", "man"].contains(&name.as_str());
            assert!(help.contains("Exit codes:") || fails_alone, "{name}: {help}");
        }
    }

    /// Wider text is broken by the terminal's width, and a word of it stands alone in a line.
    #[test]
    fn what_follows_a_help_of_the_bench_and_of_measurements_fits_its_lines() {
        let command = Cli::command();
        for name in ["bench", "tune", "self-test", "top"] {
            let mut left = vec![command.find_subcommand(name).unwrap().clone()];
            while let Some(command) = left.pop() {
                left.extend(command.get_subcommands().cloned());
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                for line in help.lines() {
                    assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
                }
            }
        }
    }

    #[test]
    fn the_help_of_serve_says_what_each_of_its_exit_codes_means() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        let help = serve.get_after_help().unwrap().to_string();
        for reason in node::ExitReason::ALL {
            let line = format!("  {:<3}  {}", reason.number(), reason.meaning());
            assert!(help.contains(&line), "{line}");
        }
    }

    #[test]
    fn the_unit_file_starts_what_serve_accepts_and_names_exit_codes_that_there_are() {
        let unit = include_str!("../../../docs/corelog.service");
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        let words = value("ExecStart=").split_whitespace();
        assert!(command_line().try_get_matches_from(words).is_ok());
        let codes: Vec<u8> = node::ExitReason::ALL.iter().map(|reason| reason.number()).collect();
        for code in value("RestartPreventExitStatus=").split(' ') {
            assert!(codes.contains(&code.parse().unwrap()), "{code}");
        }
    }

    #[test]
    fn every_example_of_every_help_parses() {
        let mut count = 0;
        let mut left = vec![Cli::command()];
        while let Some(command) = left.pop() {
            left.extend(command.get_subcommands().cloned());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for example in help.lines().filter_map(|line| line.split("corelog ").nth(1)) {
                let words = example.split(['|', '>']).next().unwrap().split_whitespace();
                let line = std::iter::once("corelog").chain(words.map(|w| w.trim_matches('\'')));
                assert!(Cli::try_parse_from(line).is_ok(), "{example}");
                count += 1;
            }
        }
        assert!(count >= 15, "{count} examples");
    }

    /// What stands in backticks, and the lines that are indented, of a page.
    fn quoted(page: &str) -> Vec<String> {
        let indented = page.lines().filter_map(|line| line.strip_prefix("    "));
        let prose: Vec<&str> = page.lines().filter(|line| !line.starts_with("    ")).collect();
        let prose = prose.join(" ");
        let spans = prose.split('`').skip(1).step_by(2);
        indented.chain(spans).map(str::to_owned).collect()
    }

    #[test]
    fn every_command_in_the_pages_parses() {
        use clap::error::ErrorKind;
        let pages = [
            include_str!("../../../README.md"),
            include_str!("../../../docs/operations.md"),
            include_str!("../../../docs/durability.md"),
            include_str!("../../../docs/compatibility.md"),
        ];
        let mut count = 0;
        for span in pages.iter().flat_map(|page| quoted(page)) {
            let parts = span.split(['|', '&', '>', ';']).map(str::trim);
            let commands = parts.filter_map(|part| {
                let part = part.split_once("--bin corelog -- ").map_or(part, |(_, rest)| rest);
                let is_of_cargo = part.len() < span.len() && span.contains("--bin corelog -- ");
                part.strip_prefix("corelog ").or(is_of_cargo.then_some(part))
            });
            for command in commands.filter(|command| !command.starts_with("printf")) {
                // What stands for a number or a place is one here.
                let words = command.split_whitespace().map(|word| match word {
                    "N" | "ID" => "1",
                    "PLACE" => "ends",
                    word => word,
                });
                let parsed = Cli::try_parse_from(std::iter::once("corelog").chain(words));
                // A command may be spoken of by its name alone.
                let is_named = |error: &clap::Error| {
                    [
                        ErrorKind::MissingRequiredArgument,
                        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                        ErrorKind::DisplayHelp,
                    ]
                    .contains(&error.kind())
                };
                let refused = parsed.err().filter(|error| !is_named(error));
                assert!(refused.is_none(), "{span}: {}", refused.unwrap());
                count += 1;
            }
        }
        assert!(count >= 25, "{count} commands");
    }

    #[test]
    fn the_page_for_operators_has_every_exit_code_as_it_is_and_says_what_to_do() {
        let page = include_str!("../../../docs/operations.md");
        let rows = node::ExitReason::ALL
            .iter()
            .map(|reason| format!("| {} | {} |\n", reason.number(), reason.meaning()));
        let table = format!("| Code | Meaning |\n|---|---|\n{}\n", rows.collect::<String>());
        assert!(page.contains(&table), "docs/operations.md should have:\n{table}");
        let (_, advice) = page.split_once("| Code | What to do |\n|---|---|\n").unwrap();
        let advised = advice.lines().map_while(|line| line.strip_prefix("| ")?.split_once(" | "));
        let advised: Vec<String> = advised.map(|(code, _)| code.to_owned()).collect();
        let failures = node::ExitReason::ALL.iter().filter(|reason| reason.number() != 0);
        let codes: Vec<String> = failures.map(|reason| reason.number().to_string()).collect();
        assert_eq!(advised, codes);
    }
}
