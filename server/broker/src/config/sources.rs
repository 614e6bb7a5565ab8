//! The four sources of an option's value, and the check that every value passes whatever its source.
//!
//! Owns the order of sources. The file, the environment and the command line are given as text: reading them is the caller's.

use std::collections::BTreeMap;

use cluster::{Allowed, ConfigRefusal, ConfigType, check_value, excerpt, nearest};

use super::Setting;
use super::error::{ConfigError, Place};
use super::file::read_file;
use super::kafka::{KAFKA_BROKER_CONFIGS, KAFKA_FORMER_CONFIGS};
use super::listeners::ListenerTable;
use super::schema::{ConfigOption, OPTIONS, Unit, environment_name, option};

/// Largest configuration file.
pub const CONFIG_FILE_BYTES_MAX: usize = 1 << 20;
/// Variables that stand for arguments of the command line: not options.
pub const ENVIRONMENT_RESERVED: [&str; 2] = ["CORELOG_CONFIG", "CORELOG_BOOTSTRAP_SERVER"];

const ENVIRONMENT_PREFIX: &str = "CORELOG_";

/// Whether Kubernetes may have set the variable for a service that is called corelog: nobody asked for it, and it is no option.
fn is_service_link(rest: &str) -> bool {
    let is_port = |rest: &str| rest.is_empty() || rest.starts_with('_');
    rest == "SERVICE_HOST"
        || rest.strip_prefix("SERVICE_PORT").is_some_and(is_port)
        || rest.strip_prefix("PORT").is_some_and(is_port)
}

/// Every option's value.
pub(super) type Settings = BTreeMap<&'static str, Setting>;

/// Where a configuration is read from; empty for the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The file's name for messages, and its text.
    pub file: Option<(String, String)>,
    /// The environment; only names with the prefix `CORELOG_` are looked at.
    pub environment: Vec<(String, String)>,
    /// What followed each `--set`, in order; of two for one key the last holds.
    pub sets: Vec<String>,
    /// Flags that stand for an option: the flag's name, the key, the value. They hold over `--set`.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

/// A value as one source gives it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RawValue {
    /// Text of any type: from the environment and the command line, or a string of the file.
    Text {
        /// The text.
        text: String,
        /// Whether the source can tell a string from a number.
        is_typed: bool,
    },
    /// A whole number of the file.
    Integer(i64),
    /// A flag of the file.
    Boolean(bool),
    /// An array of strings of the file.
    List(Vec<String>),
    /// `[[listeners]]` of the file.
    Listeners(Vec<ListenerTable>),
    /// Something of the file that no option takes; its form for the message.
    Other(String),
}

/// A key and its value as one source gives it.
pub(super) struct RawSetting {
    pub(super) key: String,
    pub(super) value: RawValue,
    pub(super) place: Place,
}

/// What all sources say together.
pub(super) struct Collected {
    /// Every option, with its default at least.
    pub(super) settings: Settings,
    /// `[[listeners]]`, where the file has them and nothing holds over the file.
    pub(super) listener_tables: Vec<ListenerTable>,
}

/// Checks everything, and lays the sources over each other.
pub(super) fn collect(sources: &Sources, errors: &mut Vec<ConfigError>) -> Collected {
    let settings: Settings = OPTIONS
        .iter()
        .map(|option| {
            let value = option.default.map(str::to_owned);
            (option.key, Setting { value, place: Place::Default })
        })
        .collect();
    let mut collected = Collected { settings, listener_tables: Vec::new() };
    let file = sources.file.as_ref().map(|(name, text)| read_file(name, text, errors));
    lay_over(&mut collected, file.unwrap_or_default(), Repeats::Refuse, errors);
    let environment = read_environment(&sources.environment, errors);
    lay_over(&mut collected, environment, Repeats::Refuse, errors);
    let sets = read_sets(&sources.sets, errors);
    lay_over(&mut collected, sets, Repeats::LastHolds, errors);
    let flags = sources.flags.iter().map(|(flag, key, value)| RawSetting {
        key: (*key).to_owned(),
        value: RawValue::Text { text: value.clone(), is_typed: false },
        place: Place::Flag { name: (*flag).to_owned() },
    });
    lay_over(&mut collected, flags.collect(), Repeats::LastHolds, errors);
    collected
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    Refuse,
    LastHolds,
}

fn lay_over(
    collected: &mut Collected,
    raw: Vec<RawSetting>,
    repeats: Repeats,
    errors: &mut Vec<ConfigError>,
) {
    let mut seen: BTreeMap<&'static str, Place> = BTreeMap::new();
    for RawSetting { key, value, place } in raw {
        let Some(option) = known_option(&key, &place, errors) else {
            continue;
        };
        if let Some(first) = seen.insert(option.key, place.clone())
            && repeats == Repeats::Refuse
        {
            errors.push(ConfigError::Twice { place, key, first });
            continue;
        }
        if option.key == "listeners" {
            collected.listener_tables = match &value {
                RawValue::Listeners(tables) => tables.clone(),
                _ => Vec::new(),
            };
        }
        match checked(option, value, &place) {
            Ok(value) => {
                collected.settings.insert(option.key, Setting { value: Some(value), place });
            }
            Err(error) => errors.push(error),
        }
    }
}

fn known_option(
    key: &str,
    place: &Place,
    errors: &mut Vec<ConfigError>,
) -> Option<&'static ConfigOption> {
    let known = option(key);
    if known.is_none() {
        let place = place.clone();
        let listed = KAFKA_BROKER_CONFIGS.iter().map(|row| row.name);
        let of_kafka = listed.chain(KAFKA_FORMER_CONFIGS).find(|name| *name == key);
        errors.push(match of_kafka {
            Some(key) => ConfigError::KafkaOnly { place, key },
            None => {
                let nearest = nearest(key, all_keys());
                ConfigError::UnknownKey { place, key: excerpt(key), nearest }
            }
        });
    }
    known
}

/// Every key and alias.
pub(super) fn all_keys() -> impl Iterator<Item = &'static str> {
    OPTIONS
        .iter()
        .flat_map(|option| std::iter::once(option.key).chain(option.aliases.iter().copied()))
}

/// The value as text, if it is of the option's type and within its bound.
fn checked(
    option: &'static ConfigOption,
    value: RawValue,
    place: &Place,
) -> Result<String, ConfigError> {
    let wrong_type = |value: &str| ConfigError::WrongType {
        place: place.clone(),
        key: option.key.to_owned(),
        value: excerpt(value),
        form: form_of(option),
    };
    let is_number = matches!(
        option.kind,
        ConfigType::Int | ConfigType::Short | ConfigType::Long | ConfigType::Double
    );
    let is_word = !is_number && option.kind != ConfigType::Boolean;
    let text = match value {
        RawValue::Text { text, .. } if option.takes_auto && text.trim() == "auto" => {
            return Ok("auto".to_owned());
        }
        RawValue::Text { text, is_typed } if is_word || !is_typed => text,
        RawValue::Text { text, .. } => return Err(wrong_type(&format!("{text:?}"))),
        RawValue::Integer(number) if is_number => number.to_string(),
        RawValue::Integer(number) => return Err(wrong_type(&number.to_string())),
        RawValue::Boolean(flag) if option.kind == ConfigType::Boolean => flag.to_string(),
        RawValue::Boolean(flag) => return Err(wrong_type(&flag.to_string())),
        RawValue::List(items) if option.kind == ConfigType::List => items.join(","),
        RawValue::List(items) => return Err(wrong_type(&format!("{items:?}"))),
        RawValue::Listeners(tables) if option.key == "listeners" => {
            tables.iter().map(ListenerTable::text).collect::<Vec<_>>().join(",")
        }
        RawValue::Listeners(_) => return Err(wrong_type("an array of tables")),
        RawValue::Other(text) => return Err(wrong_type(&text)),
    };
    match check_value(option.key, option.kind, option.allowed, &text) {
        Ok(value) => Ok(value.to_owned()),
        Err(ConfigRefusal::WrongType { value, .. }) => Err(wrong_type(&value)),
        Err(refusal) => {
            let in_words = bound_in_words(option);
            Err(ConfigError::Value { place: place.clone(), refusal, in_words })
        }
    }
}

/// What a value of the option looks like, with its bound.
fn form_of(option: &ConfigOption) -> String {
    let auto = if option.takes_auto { "auto, or " } else { "" };
    let form = match (option.kind, option.allowed) {
        (ConfigType::Int | ConfigType::Short | ConfigType::Long, Allowed::Range(low, high)) => {
            let in_words = bound_in_words(option);
            format!("a whole number from {low} to {high}{in_words}")
        }
        (ConfigType::String, _) => "a string".to_owned(),
        (ConfigType::List, _) => "a string with commas, or an array of strings".to_owned(),
        (kind, _) => kind.form().to_owned(),
    };
    let unit = match option.unit {
        Unit::None | Unit::Count => "",
        Unit::Bytes => " of bytes",
        Unit::Milliseconds => " of milliseconds",
        Unit::Microseconds => " of microseconds",
        Unit::Minutes => " of minutes",
        Unit::Hours => " of hours",
    };
    format!("{auto}{}", form.replacen("a whole number", &format!("a whole number{unit}"), 1))
}

/// A bound on bytes in larger units, where both ends have one.
fn bound_in_words(option: &ConfigOption) -> String {
    let (Unit::Bytes, Allowed::Range(low, high)) = (option.unit, option.allowed) else {
        return String::new();
    };
    match (binary(low), binary(high)) {
        (Some(low), Some(high)) => format!(" ({low} to {high})"),
        _ => String::new(),
    }
}

fn binary(bytes: i64) -> Option<String> {
    // 2^31-1 is meant and read as 2 GiB.
    let bytes = if bytes == i64::from(i32::MAX) { bytes + 1 } else { bytes };
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let (shift, unit) = units.into_iter().find(|(shift, _)| bytes >= 1 << shift)?;
    (bytes % (1 << shift) == 0).then(|| format!("{} {unit}", bytes >> shift))
}

fn read_environment(
    environment: &[(String, String)],
    errors: &mut Vec<ConfigError>,
) -> Vec<RawSetting> {
    let mut settings = Vec::new();
    for (name, text) in environment {
        let Some(rest) = name.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        if ENVIRONMENT_RESERVED.contains(&name.as_str()) || is_service_link(rest) {
            continue;
        }
        let place = Place::Environment { name: excerpt(name) };
        let value = RawValue::Text { text: text.clone(), is_typed: false };
        if let Some(key) = all_keys().find(|key| environment_name(key) == *name) {
            settings.push(RawSetting { key: key.to_owned(), value, place });
            continue;
        }
        let key = name.trim_start_matches(ENVIRONMENT_PREFIX).to_ascii_lowercase();
        let key = key.replace('_', ".");
        if let Some(option) = known_option(&key, &place, errors) {
            // The letters are right and their case or separators are not.
            let nearest = Some(option.key);
            errors.push(ConfigError::UnknownKey { place, key: excerpt(name), nearest });
        }
    }
    settings
}

fn read_sets(sets: &[String], errors: &mut Vec<ConfigError>) -> Vec<RawSetting> {
    let mut settings = Vec::new();
    for text in sets {
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.trim().is_empty())
        else {
            errors.push(ConfigError::SetForm { text: excerpt(text) });
            continue;
        };
        settings.push(RawSetting {
            key: key.trim().to_owned(),
            value: RawValue::Text { text: value.to_owned(), is_typed: false },
            place: Place::Flag { name: "--set".to_owned() },
        });
    }
    settings
}
