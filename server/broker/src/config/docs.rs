//! The table of options for docs/operations.md, written from the schema.
//!
//! Owns its columns. `cargo xtask docs` writes it, `cargo xtask check` compares it.

use cluster::{Allowed, ConfigType};

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

fn bound(option: &ConfigOption) -> String {
    let bound = match option.allowed {
        Allowed::Range(low, high) => format!("{low} to {high}"),
        Allowed::Fraction(low, high) => format!("{low} to {high}"),
        Allowed::OneOf(words) => format!("`{}`", words.join("`, `")),
        Allowed::ListOf(words) => format!("list of `{}`", words.join("`, `")),
        Allowed::PartitionReplicas => "`*`, or partition:node, …".to_owned(),
        Allowed::Any if option.kind == ConfigType::Boolean => "`true`, `false`".to_owned(),
        Allowed::Any => "text".to_owned(),
    };
    if option.takes_auto { format!("`auto`, {bound}") } else { bound }
}
