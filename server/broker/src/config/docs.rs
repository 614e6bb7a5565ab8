//! The tables of options for docs/operations.md, written from the schema and from the table of topic configurations.
//!
//! Owns their columns. `cargo xtask docs` writes them, `cargo xtask check` compares them.

use cluster::{Allowed, Built, ConfigType, TOPIC_CONFIGS};

use super::schema::{ConfigOption, OPTIONS, environment_name};

/// Every option: key, environment variable, unit, bound, default, meaning.
#[must_use]
pub fn operations_options_markdown() -> String {
    let mut page = String::from(
        "| key | unit | bound | default | environment | meaning |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for option in &OPTIONS {
        let aliases = match option.aliases {
            [] => String::new(),
            aliases => format!(" (also `{}`)", aliases.join("`, `")),
        };
        let default = option.default.map_or("none".to_owned(), |value| format!("`{value}`"));
        let (key, unit, bound) = (option.key, option.unit.name(), bound(option));
        let variable = format!("`{}`", environment_name(key));
        let changes = if option.is_dynamic { " May change while the node runs." } else { "" };
        let doc = format!("{}{changes}", option.doc);
        let row = [bound, default, variable, doc].join(" | ");
        page.push_str(&format!("| `{key}`{aliases} | {unit} | {row} |\n"));
    }
    page
}

/// Every topic configuration: name, bound, default, the node's option for it, what acts on it, meaning.
#[must_use]
pub fn operations_topic_options_markdown() -> String {
    let mut page = String::from(
        "| option | bound | default | the node's option for it | honoured | meaning |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for config in &TOPIC_CONFIGS {
        let default = match config.default {
            "" => "none".to_owned(),
            value => format!("`{value}`"),
        };
        let of_node = match config.broker_synonyms {
            [] => String::new(),
            names => format!("`{}`", names.join("`, `")),
        };
        let honoured = match config.built {
            Built::Now => "yes".to_owned(),
            Built::Listed => "without effect: stored and listed".to_owned(),
            Built::Only(values) => {
                let shown = values.iter().map(|value| match *value {
                    "" => "empty".to_owned(),
                    value => format!("`{value}`"),
                });
                format!("only {}; other values are refused", shown.collect::<Vec<_>>().join(", "))
            }
        };
        let bound = bound_of(config.allowed, config.kind);
        let row = [bound, default, of_node, honoured, config.doc.to_owned()].join(" | ");
        page.push_str(&format!("| `{}` | {row} |\n", config.name));
    }
    page
}

fn bound(option: &ConfigOption) -> String {
    let bound = bound_of(option.allowed, option.kind);
    if option.takes_auto { format!("`auto`, {bound}") } else { bound }
}

fn bound_of(allowed: Allowed, kind: ConfigType) -> String {
    match allowed {
        Allowed::Range(low, high) => format!("{low} to {high}"),
        Allowed::Fraction(low, high) => format!("{low} to {high}"),
        Allowed::OneOf(words) => format!("`{}`", words.join("`, `")),
        Allowed::ListOf(words) => format!("list of `{}`", words.join("`, `")),
        Allowed::PartitionReplicas => "`*`, or partition:node, …".to_owned(),
        Allowed::Any if kind == ConfigType::Boolean => "`true`, `false`".to_owned(),
        Allowed::Any => "text".to_owned(),
    }
}
