//! `corelog config`: what options mean, whether a file is right (both without a node), and options of running nodes.
//!
//! Owns the arguments and what is shown. The options are those of `broker::config` and of the topics; nothing is declared here.

mod live;

pub(crate) use live::check_resets;

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use broker::config::{
    CONFIG_FILE_BYTES_MAX, Config, ConfigError, ConfigErrors, KAFKA_BROKER_CONFIGS,
    KafkaBrokerConfig, OPTIONS, Sources, Unit, environment_name, option,
};
use clap::{Args, Subcommand};
use cluster::{
    Advertise, Allowed, Built, ConfigType, TOPIC_CONFIGS, nearest, topic_config,
    topic_config_behind,
};
use serde::Serialize;

use crate::OutputArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Output, Show, Table};

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  corelog config explain fetch.max.bytes
  corelog config explain retention.ms
  corelog config explain max.message.bytes -o json";

const CHECK_EXAMPLES: &str = "\
Examples:
  corelog config check corelog.toml
  corelog config check corelog.toml -o json

It exits with 1 for a file that is wrong and 6 for one that cannot be read; serve with 2 for either.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what an option of the node or of a topic does, with its unit, bound and default
    Explain(ExplainArgs),
    /// Check a file as serve would read it, with this shell's environment, and show what it sets
    Check(CheckArgs),
    /// Show options of a topic or a node as they stand, and where each value comes from
    Describe(live::DescribeArgs),
    /// Change options of a topic or a node while it runs; all changes are made, or none
    Alter(live::AlterArgs),
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Key of the option; one of Kafka's names for it will do
    key: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckArgs {
    /// The file, in TOML
    file: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub(crate) fn run(command: &ConfigCommand) -> Outcome {
    match command {
        ConfigCommand::Explain(args) => explain(args),
        ConfigCommand::Check(args) => check(args),
        ConfigCommand::Describe(args) => live::describe(args),
        ConfigCommand::Alter(args) => live::alter(args),
    }
}

#[derive(Debug, Serialize)]
struct Explanations(Vec<Explanation>);

/// One option.
#[derive(Debug, Serialize)]
struct Explanation {
    key: &'static str,
    /// `node`, `topic` or `kafka` (known, and of no use here).
    scope: &'static str,
    doc: String,
    unit: &'static str,
    allowed: String,
    default: Option<&'static str>,
    /// Whether it may change while the node runs.
    dynamic: bool,
    also: Vec<&'static str>,
    environment: Option<String>,
}

impl Explanation {
    fn changes(&self) -> &'static str {
        match (self.dynamic, self.scope) {
            (true, _) => "while the node runs",
            (false, "kafka") => "never: it has no effect",
            (false, _) => "at the next start",
        }
    }
}

impl Show for Explanations {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        for (place, one) in self.0.iter().enumerate() {
            if place > 0 {
                writeln!(sink)?;
            }
            writeln!(sink, "{} ({})", one.key, one.scope)?;
            writeln!(sink, "  {}", one.doc)?;
            let mut line = |name: &str, text: &str| match text {
                "" => Ok(()),
                text => writeln!(sink, "  {name:<12} {text}"),
            };
            line("unit", one.unit)?;
            line("allowed", &one.allowed)?;
            line("default", one.default.unwrap_or("none"))?;
            line("changes", one.changes())?;
            line("also", &one.also.join(", "))?;
            line("environment", one.environment.as_deref().unwrap_or_default())?;
        }
        Ok(())
    }
}

fn explain(args: &ExplainArgs) -> Outcome {
    let key = args.key.as_str();
    let found = explanations(key);
    if !found.is_empty() {
        return Output::new(args.output.output).show(&Explanations(found));
    }
    let nodes =
        OPTIONS.iter().flat_map(|option| option.aliases.iter().chain([&option.key]).copied());
    let all = nodes.chain(TOPIC_CONFIGS.iter().map(|config| config.name));
    let failure = Failure::new(Exit::Refused, format!("{key}: unknown option"));
    Err(match nearest(key, all) {
        Some(like) => failure.advise(format!("did you mean {like}?")),
        None => failure.advise("docs/operations.md lists them all"),
    })
}

/// What goes by that key: an option of the node, one of topics, or both.
fn explanations(key: &str) -> Vec<Explanation> {
    let of_node = option(key).map(|option| Explanation {
        key: option.key,
        scope: "node",
        doc: option.doc.to_owned(),
        unit: option.unit.name(),
        allowed: match (option.takes_auto, allowed_text(option.allowed, option.kind)) {
            (true, text) => format!("auto, or {text}"),
            (false, text) => text,
        },
        default: option.default,
        dynamic: option.is_dynamic,
        also: option.aliases.to_vec(),
        environment: Some(environment_name(option.key)),
    });
    let of_topic = topic_config(key).map(|config| Explanation {
        key: config.name,
        scope: "topic",
        doc: match config.built {
            Built::Now => config.doc.to_owned(),
            Built::Listed => format!("{} Stored and listed; nothing acts on it yet.", config.doc),
            Built::Only(values) => {
                let values =
                    values.iter().map(|value| if value.is_empty() { "(empty)" } else { value });
                format!("{} So far only: {}.", config.doc, values.collect::<Vec<_>>().join(", "))
            }
        },
        unit: unit_of_topic_option(config.name),
        allowed: allowed_text(config.allowed, config.kind),
        default: Some(config.default),
        dynamic: true,
        also: config.broker_synonyms.iter().copied().filter(|name| *name != config.name).collect(),
        environment: None,
    });
    let of_kafka = KAFKA_BROKER_CONFIGS.iter().find(|config| config.name == key).map(of_kafka);
    of_node.into_iter().chain(of_topic).chain(of_kafka).collect()
}

/// An option of Kafka's brokers: what topics go by that say nothing else, or nothing at all.
fn of_kafka(config: &KafkaBrokerConfig) -> Explanation {
    let behind = topic_config_behind(config.name).filter(|_| config.is_dynamic);
    let acts = behind.filter(|topic| topic.built != Built::Listed);
    let doc = match (acts, behind) {
        (Some(topic), _) => format!(
            "Kafka's: the default of the topics' {0}, for corelog config alter alone; a file may not hold it. See {0}.",
            topic.name
        ),
        (None, Some(topic)) => format!(
            "Kafka's: the default of the topics' {}. Stored and listed; nothing acts on it yet.",
            topic.name
        ),
        (None, None) => {
            "An option of Kafka's that Corelog has no use for: it is listed, and refused in a file and by config alter."
                .to_owned()
        }
    };
    Explanation {
        key: config.name,
        scope: "kafka",
        doc,
        unit: "",
        allowed: behind.map_or_else(String::new, |topic| allowed_text(topic.allowed, topic.kind)),
        default: config.default,
        dynamic: behind.is_some(),
        also: Vec::new(),
        environment: None,
    }
}

fn allowed_text(allowed: Allowed, kind: ConfigType) -> String {
    match allowed {
        Allowed::Range(low, high) => format!("{low} to {high}"),
        Allowed::Fraction(low, high) => format!("{low} to {high}"),
        Allowed::OneOf(words) => words.join(", "),
        Allowed::ListOf(words) => format!("a list of {}", words.join(", ")),
        Allowed::PartitionReplicas => "*, or partition:node, ...".to_owned(),
        Allowed::Any if kind == ConfigType::Boolean => "true, false".to_owned(),
        Allowed::Any => "text".to_owned(),
    }
}

#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    set: Vec<SetLine>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SetLine {
    key: &'static str,
    value: String,
    place: String,
}

impl Show for Checked {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        writeln!(sink, "{}: right; every other option has its default", self.file)?;
        let mut table = Table::new(&["OPTION", "VALUE", "SET AT"]);
        for line in &self.set {
            table.row(vec![line.key.to_owned(), line.value.clone(), line.place.clone()]);
        }
        table.write(sink)?;
        for warning in &self.warnings {
            writeln!(sink, "warning: {warning}")?;
        }
        Ok(())
    }
}

fn check(args: &CheckArgs) -> Outcome {
    let name = args.file.display().to_string();
    let text = read_file(&args.file)?;
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let sources = Sources {
        file: Some((name.clone(), text)),
        environment: environment.collect(),
        ..Sources::default()
    };
    let mut config = Config::load(&sources).map_err(|errors| failure_of(&errors))?;
    if let Some(refusal) = super::serve::refusal_here(&mut config) {
        return Err(Failure::new(Exit::Refused, refusal));
    }
    let set = config.settings.iter().filter_map(|(key, setting)| {
        let is_set = setting.place != broker::config::Place::Default;
        let value = setting.value.clone().unwrap_or_default();
        is_set.then(|| SetLine { key, value, place: setting.place.to_string() })
    });
    let set = set.chain(listeners_of_their_own(&config));
    Output::new(args.output.output).show(&Checked {
        file: name,
        set: set.collect(),
        warnings: config.warnings.clone(),
    })
}

/// The text of a configuration file, or of a pipe that the shell holds open (`<(…)`, /dev/stdin). A pipe with a name of its own
/// is refused before it is opened: who waits for one that nobody writes to says nothing. No more is read than one may have.
pub(crate) fn read_file(path: &Path) -> Outcome<String> {
    let failed = |error| Failure::io(path.display(), &error);
    let kind = std::fs::metadata(path).map_err(failed)?.file_type();
    let is_open_already = path.starts_with("/dev") || path.starts_with("/proc");
    if let Some(found) = node::what_is_no_file(kind).filter(|_| !is_open_already) {
        let fact = format!("{}: {found}, where a file belongs", path.display());
        return Err(Failure::new(Exit::Io, fact).advise("give the path of a file in TOML"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(CONFIG_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > CONFIG_FILE_BYTES_MAX {
        let (path, maximum) = (path.display(), CONFIG_FILE_BYTES_MAX);
        let fact = format!("{path}: more than the {maximum} bytes that a configuration may have");
        return Err(Failure::new(Exit::Io, fact).advise("give the path of a file in TOML"));
    }
    String::from_utf8(bytes).map_err(|error| failed(io::Error::new(ErrorKind::InvalidData, error)))
}

/// What is wrong with a configuration; advice only where an option's own meaning helps.
pub(crate) fn failure_of(errors: &ConfigErrors) -> Failure {
    let failure = Failure::new(Exit::Refused, errors.to_string());
    match errors.errors().iter().any(ConfigError::is_about_an_option) {
        true => failure.advise("corelog config explain KEY says what an option may be"),
        false => failure,
    }
}

/// Listeners that say otherwise than `advertise`.
fn listeners_of_their_own(config: &Config) -> Vec<SetLine> {
    let (general, listeners) = (config.settings.get("advertise"), config.settings.get("listeners"));
    let general = general.and_then(|setting| setting.value.as_deref()).unwrap_or_default();
    let place = listeners.map(|setting| setting.place.to_string()).unwrap_or_default();
    let own = config.listeners.iter().filter_map(|listener| {
        let word = match listener.advertise {
            Advertise::Node => "node",
            Advertise::Core => "core",
        };
        let value = format!("{}={word}", listener.name);
        let place = place.clone();
        (word != general).then_some(SetLine { key: "listeners.advertise", value, place })
    });
    own.collect()
}

/// The unit of an option of topics, which Kafka puts into its name.
fn unit_of_topic_option(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("ms") => Unit::Milliseconds.name(),
        Some("bytes") => Unit::Bytes.name(),
        _ => Unit::None.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_node_and_topic_is_explained() {
        let keys = OPTIONS.iter().map(|option| option.key);
        let keys = keys.chain(TOPIC_CONFIGS.iter().map(|config| config.name));
        for key in keys {
            let found = explanations(key);
            assert!(found.iter().any(|one| one.key == key && !one.doc.is_empty()), "{key}");
        }
    }

    #[test]
    fn an_option_of_topics_has_its_unit_and_no_name_that_is_its_own() {
        let of_topic =
            |key| explanations(key).into_iter().find(|one| one.scope == "topic").unwrap();
        assert_eq!(of_topic("retention.ms").unit, "ms");
        assert_eq!(of_topic("segment.bytes").unit, "bytes");
        assert_eq!(of_topic("cleanup.policy").unit, "");
        assert_eq!(of_topic("min.insync.replicas").also, [""; 0]);
        assert_eq!(of_topic("retention.ms").also[0], "log.retention.ms");
    }

    #[test]
    fn one_name_may_be_an_option_of_the_node_and_of_topics() {
        let scopes = |key| explanations(key).iter().map(|one| one.scope).collect::<Vec<_>>();
        assert_eq!(scopes("min.insync.replicas"), ["node", "topic"]);
        assert_eq!(scopes("log.dirs"), ["node"]);
        assert_eq!(scopes("ssl.protocol"), ["kafka"]);
        assert_eq!(scopes("no.such.option"), [""; 0]);
    }

    #[test]
    fn an_option_of_kafkas_changes_only_where_topics_go_by_it() {
        let check = |key: &str, changes: &str, doc: &str| {
            let found = explanations(key);
            assert_eq!(found[0].changes(), changes, "{key}");
            assert!(found[0].doc.contains(doc), "{key}: {}", found[0].doc);
        };
        check("num.network.threads", "never: it has no effect", "has no use for");
        check(
            "log.cleanup.policy",
            "while the node runs",
            "the default of the topics' cleanup.policy",
        );
        check("cleanup.policy", "while the node runs", "So far only: delete, (empty).");
        check("node.id", "at the next start", "");
    }
}
