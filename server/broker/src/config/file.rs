//! Reads a configuration file: TOML, flattened to dotted keys, each with its line.
//!
//! Owns the shape of the file. A table and a dotted key are the same: `log.segment.bytes = 1` and `[log]` with
//! `segment.bytes = 1`. A quoted key is the same key too. It judges no option: `sources` does.

use std::collections::BTreeMap;
use std::ops::Range;

use cluster::{excerpt, nearest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Place};
use super::listeners::{LISTENER_FIELDS, ListenerTable};
use super::schema::option;
use super::sources::{CONFIG_FILE_BYTES_MAX, RawSetting, RawValue, all_keys};

/// Where in the file something stands.
struct Lines<'a> {
    name: &'a str,
    /// The position of each line's first byte.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(name: &'a str, text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { name, starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    fn place(&self, span: &Range<usize>) -> Place {
        let line = self.starts.partition_point(|start| *start <= span.start).max(1);
        Place::File { name: self.name.to_owned(), line }
    }
}

/// The settings of the file, in the order of its lines; what cannot be read is reported.
pub(super) fn read_file(name: &str, text: &str, errors: &mut Vec<ConfigError>) -> Vec<RawSetting> {
    if text.len() > CONFIG_FILE_BYTES_MAX {
        let (name, bytes) = (name.to_owned(), text.len());
        errors.push(ConfigError::TooLarge { name, bytes, maximum: CONFIG_FILE_BYTES_MAX });
        return Vec::new();
    }
    let lines = Lines::new(name, text);
    // What can still be read is checked too: all errors are told at once.
    let (table, syntax_errors) = DeTable::parse_recoverable(text);
    for error in syntax_errors {
        let place = lines.place(&error.span().unwrap_or(0..0));
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        let hint = hint_of(name, &message);
        errors.push(ConfigError::Syntax { place, message, hint });
    }
    let mut settings = Vec::new();
    flatten("", table.get_ref(), &lines, &mut settings, errors);
    settings.sort_by(|left, right| left.place.cmp(&right.place));
    settings
}

/// TOML cannot hold a value and a table under one name, and two keys of which one begins the other ask for that.
fn hint_of(name: &str, message: &str) -> &'static str {
    if name.ends_with(".properties") {
        return "; the file must be TOML: Kafka's properties are the same keys with strings in quotes, key = \"value\"";
    }
    if message.contains("must be quoted") {
        return "; the file is TOML: a string stands in quotes, key = \"value\"";
    }
    if message.contains("extend value") {
        return "; a key that another key begins with must be quoted: \"max.connections\" = 100";
    }
    if message.contains("duplicate key") {
        return "; the same key or table stands further up: keep one of them; or a key there begins with this one, which must \
                then be quoted: \"max.connections\" = 100";
    }
    ""
}

fn flatten(
    prefix: &str,
    table: &DeTable<'_>,
    lines: &Lines<'_>,
    settings: &mut Vec<RawSetting>,
    errors: &mut Vec<ConfigError>,
) {
    for (key, value) in table {
        let key_text = key.get_ref();
        let path =
            if prefix.is_empty() { key_text.to_string() } else { format!("{prefix}.{key_text}") };
        // The key's own line: that of a value may be further down.
        let place = lines.place(&key.span());
        match value.get_ref() {
            DeValue::Table(inner) => flatten(&path, inner, lines, settings, errors),
            DeValue::Array(items) if path == "listeners" && items.iter().all(is_table) => {
                let tables: Vec<_> =
                    items.iter().filter_map(|item| read_listener(item, lines, errors)).collect();
                settings.push(RawSetting { key: path, value: RawValue::Listeners(tables), place });
            }
            value => settings.push(RawSetting { key: path, value: raw_value(value), place }),
        }
    }
}

/// Whether a key is an option of the node, or the first words of one.
fn begins_option(key: &str) -> bool {
    let begins = |known: &str| known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    option(key).is_some() || all_keys().any(begins)
}

fn is_table(value: &Spanned<DeValue<'_>>) -> bool {
    matches!(value.get_ref(), DeValue::Table(_))
}

fn raw_value(value: &DeValue<'_>) -> RawValue {
    match value {
        DeValue::String(text) => RawValue::Text { text: text.to_string(), is_typed: true },
        DeValue::Boolean(flag) => RawValue::Boolean(*flag),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => RawValue::Integer(number),
            Err(_) => RawValue::Other(number.to_string()),
        },
        DeValue::Float(number) => RawValue::Other(number.to_string()),
        DeValue::Datetime(date) => RawValue::Other(date.to_string()),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| match item.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            match texts.collect::<Option<Vec<_>>>() {
                Some(texts) => RawValue::List(texts),
                None => RawValue::Other("an array of other things than strings".to_owned()),
            }
        }
        DeValue::Table(_) => RawValue::Other("a table".to_owned()),
    }
}

fn read_listener(
    item: &Spanned<DeValue<'_>>,
    lines: &Lines<'_>,
    errors: &mut Vec<ConfigError>,
) -> Option<ListenerTable> {
    let DeValue::Table(table) = item.get_ref() else {
        return None;
    };
    let mut fields = BTreeMap::new();
    for (key, value) in table {
        let place = lines.place(&key.span());
        let key = key.get_ref().as_ref();
        let Some(field) = LISTENER_FIELDS.into_iter().find(|field| *field == key) else {
            let path = format!("listeners.{}", excerpt(key));
            errors.push(if begins_option(key) {
                ConfigError::Misplaced { place, key: path }
            } else {
                let nearest = nearest(key, LISTENER_FIELDS.into_iter());
                ConfigError::UnknownKey { place, key: path, nearest }
            });
            continue;
        };
        match value.get_ref() {
            DeValue::String(text) => {
                fields.insert(field, (Some(text.to_string()), place));
            }
            other => {
                let value = match raw_value(other) {
                    RawValue::Integer(number) => number.to_string(),
                    RawValue::Boolean(flag) => flag.to_string(),
                    RawValue::Other(text) => excerpt(&text),
                    _ => "an array".to_owned(),
                };
                let (key, form) = (format!("listeners.{field}"), "a string".to_owned());
                fields.insert(field, (None, place.clone()));
                errors.push(ConfigError::WrongType { place, key, value, form });
            }
        }
    }
    Some(ListenerTable { place: lines.place(&item.span()), fields })
}
