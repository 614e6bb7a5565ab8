//! The node's configuration: one schema, four sources, every error at once.
//!
//! Owns the options ([`OPTIONS`]), their sources and their order, and the typed [`Config`] that the rest reads. It never falls
//! back on a default in silence: a key, type or value that is wrong refuses the start, with its place, its bound and the
//! nearest known key.
//!
//! ```text
//! --set and flags ► environment CORELOG_… ► file (TOML) ► default                   the first that is set holds
//! ```

mod address_limits;
pub mod docs;
mod error;
mod file;
mod kafka;
mod listeners;
mod overlap;
mod schema;
mod sources;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::{
    Allowed, BrokerConfig, BrokerConfigs, Built, CreateDefaults, Deletion, parse_boolean,
    topic_config_behind,
};
use record::NodeId;

pub use address_limits::{AddressLimits, UnresolvedHost};
pub use error::{
    AddressLimitProblem, AddressProblem, AdvertisedProblem, ConfigError, ConfigErrors,
    DataDirProblem, Place,
};
pub use kafka::{KAFKA_BROKER_CONFIGS, KafkaBrokerConfig};
pub use listeners::{AdvertisedHost, ListenerConfig};
pub use overlap::Overlap;
pub use schema::{
    COARSER_OPTIONS, CoarserOption, ConfigOption, OPTIONS, Unit, environment_name, kind_of_alias,
    option,
};
pub use sources::{CONFIG_FILE_BYTES_MAX, ENVIRONMENT_RESERVED, Sources};

use listeners::resolve_listeners;
use sources::{Settings, collect};

/// How many data cores a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shards {
    /// One for each CPU of the affinity mask.
    Auto,
    /// This many.
    Count(u16),
}

/// Free space below which produce requests are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFloor {
    /// The larger of 256 MiB and 2 % of the disk.
    Auto,
    /// This many bytes; 0 for none.
    Bytes(u64),
}

impl DiskFloor {
    /// The floor on a disk of that size.
    #[must_use]
    pub fn bytes(self, disk_bytes: u64) -> u64 {
        const FLOOR_BYTES_MIN: u64 = 256 << 20;
        match self {
            Self::Auto => (disk_bytes / 50).max(FLOOR_BYTES_MIN),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The value of one option and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// As text; `None` where an option has no value.
    pub value: Option<String>,
    /// Who set it.
    pub place: Place,
}

/// How each data core's journal is made and used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalConfig {
    /// `journal.bytes`.
    pub bytes: u64,
    /// `journal.group.bytes`.
    pub group_bytes_max: u64,
    /// `journal.groups.min`.
    pub groups_min: usize,
    /// Sets that go by before a core makes its journal.
    pub sets_before: u64,
}

/// Sets that go by before a core makes its journal: a node that takes a record now and then does not fill a file for it.
const JOURNAL_SETS_BEFORE: u64 = 64;

/// Everything that was configured, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `node.id`.
    pub node_id: NodeId,
    /// `data.dir`.
    pub data_dir: PathBuf,
    /// `shards`.
    pub shards: Shards,
    /// `listeners`, one at least.
    pub listeners: Vec<ListenerConfig>,
    /// `peer.listen`.
    pub peer_listen: SocketAddr,
    /// `admin.listen`; `None` for no admin server.
    pub admin_listen: Option<SocketAddr>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// `disk.floor.bytes`.
    pub disk_floor: DiskFloor,
    /// `socket.request.max.bytes`.
    pub request_bytes_max: u32,
    /// `max.connections`.
    pub connections_max: u32,
    /// `max.connections.per.ip`.
    pub connections_per_address_max: u32,
    /// `max.connections.per.ip.overrides`.
    pub address_limits: AddressLimits,
    /// `connections.handover.requests`; `None` for never.
    pub connection_handover_after: Option<u32>,
    /// `connections.max.idle.ms`.
    pub connection_idle_max: Duration,
    /// `connections.send.timeout.ms`.
    pub connection_send_max: Duration,
    /// `fetch.max.bytes`.
    pub fetch_bytes_max: u32,
    /// `fetch.memory.bytes`, a data core.
    pub fetch_memory_bytes: usize,
    /// `max.incremental.fetch.session.cache.slots`, of the node.
    pub fetch_session_slots: u32,
    /// `request.memory.bytes`, a data core.
    pub request_memory_bytes: usize,
    /// `tail.cache.bytes`, a data core.
    pub tail_cache_bytes: usize,
    /// `read.cache.bytes`, a data core.
    pub read_cache_bytes: usize,
    /// `log.open.files.max`; `None` for half of what the process may open.
    pub open_files_max: Option<u32>,
    /// `io.memory.bytes`, a data core.
    pub io_memory_bytes: usize,
    /// `io.free.list.bytes`, a data core.
    pub io_free_list_bytes: usize,
    /// `io.ring.depth`, a data core.
    pub io_ring_depth: usize,
    /// `io.spin.us`.
    pub io_spin: Duration,
    /// `journal.enable` and what goes with it; `None` where it is off.
    pub journal: Option<JournalConfig>,
    /// `scrub.bytes.per.second`, a data core; 0 for none.
    pub scrub_bytes_per_second: u64,
    /// `scrub.interval.ms`.
    pub scrub_interval: Duration,
    /// `write.caching.flush.ms`.
    pub write_caching_flush: Duration,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval: Duration,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// `producer.state.count.max`, a partition.
    pub producer_count_max: usize,
    /// `num.partitions`, `default.replication.factor` and `partitions.max`.
    pub create_defaults: CreateDefaults,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `delete.topic.enable`.
    pub topic_deletion: Deletion,
    /// `shutdown.timeout.ms`.
    pub shutdown_timeout: Duration,
    /// `trace.filter`.
    pub trace_filter: String,
    /// What is allowed but probably not meant; to be logged at the start.
    pub warnings: Vec<String>,
    /// Every option with its value and place.
    pub settings: BTreeMap<&'static str, Setting>,
}

impl Config {
    /// Reads and checks everything; all that is wrong comes back at once.
    pub fn load(sources: &Sources) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let mut collected = collect(sources, &mut errors);
        let mut warnings = Vec::new();
        let listeners = resolve_listeners(&collected, &mut errors, &mut warnings);
        listeners::note_advertised(&mut collected, &listeners);
        let reader = SettingReader { settings: &collected.settings };
        let (text, place) = (reader.text(address_limits::KEY), reader.place(address_limits::KEY));
        let address_limits = AddressLimits::parse(text, &place, &mut errors);
        let peer_listen = reader.address("peer.listen", &mut errors);
        let admin_listen = reader.address("admin.listen", &mut errors);
        reader.check_data_dir(&mut errors);
        reader.check_roles(&mut errors);
        reader.check_trace_filter(&mut errors);
        // On an automatic number of cores `serve` looks again.
        let shard_count = reader.number("shards").unwrap_or(1);
        let among = listeners.iter().map(|placed| &placed.listener);
        if let Some((second, overlap)) = overlap::find_overlap(among, admin_listen, shard_count) {
            let place = listeners.get(second).map(|placed| placed.place.clone());
            let place = place.unwrap_or_else(|| reader.place("admin.listen"));
            errors.push(ConfigError::Overlap { place, overlap });
        }
        if !errors.is_empty() {
            return Err(ConfigErrors::new(errors));
        }
        let listeners = listeners.into_iter().map(|placed| placed.listener).collect();
        Ok(reader.config(listeners, address_limits, peer_listen, admin_listen, warnings))
    }

    /// Puts addresses in the place of the hosts that are named where a node needs addresses. `lookup` may take its time: before
    /// anything is served. Errors: a host that has none.
    pub fn resolve_hosts(
        &mut self,
        lookup: impl FnMut(&str) -> io::Result<Vec<IpAddr>>,
    ) -> Result<(), UnresolvedHost> {
        let place = self.settings.get(address_limits::KEY).map(|setting| setting.place.clone());
        self.address_limits.resolve(&place.unwrap_or(Place::Default), lookup)
    }

    /// Addresses that would be the same on a node of so many data cores: `shards` may leave their number to the machine.
    #[must_use]
    pub fn overlap(&self, shard_count: u16) -> Option<Overlap> {
        let found = overlap::find_overlap(self.listeners.iter(), self.admin_listen, shard_count);
        found.map(|(_, overlap)| overlap)
    }

    /// The options as DescribeConfigs and the topics' defaults see them: ours, and Kafka's where we have none of our own.
    #[must_use]
    pub fn broker_configs(&self) -> BrokerConfigs {
        let mut configs = BrokerConfigs::new();
        for row in &KAFKA_BROKER_CONFIGS {
            // A default of topics does what the topic's own configuration does, and is checked by its row.
            let topic = topic_config_behind(row.name);
            let config = BrokerConfig {
                kind: row.kind,
                allowed: topic.map_or(Allowed::Any, |topic| topic.allowed),
                built: topic.map_or(Built::Listed, |topic| topic.built),
                default: row.default.map(Arc::from),
                set: None,
                // What changes nothing cannot be changed: the change would be lost without a word.
                is_dynamic: row.is_dynamic && topic.is_some(),
                doc: topic.map_or("Kafka's option; Corelog has no use for it.", |topic| topic.doc),
            };
            configs.insert(row.name, config);
        }
        for option in &OPTIONS {
            let set = self.set_by_hand(option.key).or_else(|| self.set_coarser(option.key));
            let config = BrokerConfig {
                kind: option.kind,
                allowed: option.allowed,
                built: topic_config_behind(option.key).map_or(Built::Now, |topic| topic.built),
                default: option.default.map(Arc::from),
                set,
                is_dynamic: option.is_dynamic,
                doc: option.doc,
            };
            // Every alias is a name of Kafka's, and tools ask for it.
            for name in option.aliases {
                let kind = kind_of_alias(name).unwrap_or(option.kind);
                configs.insert(name, BrokerConfig { kind, ..config.clone() });
            }
            configs.insert(option.key, config);
        }
        configs
    }

    /// What the file, the environment or the command line says of an option.
    fn set_by_hand(&self, key: &str) -> Option<Arc<str>> {
        let setting = self.settings.get(key)?;
        if setting.place == Place::Default {
            return None;
        }
        setting.value.as_deref().map(Arc::from)
    }

    /// What one in a coarser unit says of an option in milliseconds.
    fn set_coarser(&self, finest: &str) -> Option<Arc<str>> {
        let mut coarser = COARSER_OPTIONS.iter().filter(|coarser| coarser.finest == finest);
        coarser.find_map(|coarser| {
            let value = self.set_by_hand(coarser.key)?.parse().ok()?;
            Some(coarser.in_ms(value).to_string().into())
        })
    }
}

/// Reads what [`collect`] has checked: every option is there, and every value is of its type and within its bound.
struct SettingReader<'a> {
    settings: &'a Settings,
}

impl SettingReader<'_> {
    fn text(&self, key: &str) -> &str {
        self.settings.get(key).and_then(|setting| setting.value.as_deref()).unwrap_or_default()
    }

    fn flag(&self, key: &str) -> bool {
        parse_boolean(self.text(key)).unwrap_or_default()
    }

    /// `None` for `auto`, and for a value that does not fit the type: the schema's bounds rule that out, and a test shows it.
    fn number<T: TryFrom<i64>>(&self, key: &str) -> Option<T> {
        self.text(key).parse::<i64>().ok().and_then(|number| T::try_from(number).ok())
    }

    fn sure<T: TryFrom<i64>>(&self, key: &str) -> T {
        let number = self.number(key);
        number.unwrap_or_else(|| panic!("{key}: the schema's bounds must fit the field's type"))
    }

    fn millis(&self, key: &str) -> Duration {
        Duration::from_millis(self.sure(key))
    }

    /// `None` for `none`, and for an address that is reported in `errors`.
    fn address(&self, key: &'static str, errors: &mut Vec<ConfigError>) -> Option<SocketAddr> {
        let text = self.text(key);
        if text == "none" {
            return None;
        }
        match listeners::parse_bind(text) {
            Ok(address) => Some(address),
            Err(problem) => {
                let (place, key, value) = (self.place(key), key.to_owned(), cluster::excerpt(text));
                errors.push(ConfigError::Address { place, key, value, problem });
                None
            }
        }
    }

    /// A name with a comma may be one directory, but whoever writes it means Kafka's list: data would go where nobody looks.
    fn check_data_dir(&self, errors: &mut Vec<ConfigError>) {
        let key = "data.dir";
        let text = self.text(key);
        let problem = if text.trim().is_empty() {
            DataDirProblem::Empty
        } else if text.contains(',') {
            DataDirProblem::Several
        } else {
            return;
        };
        let (place, value) = (self.place(key), cluster::excerpt(text));
        errors.push(ConfigError::DataDir { place, value, problem });
    }

    fn check_roles(&self, errors: &mut Vec<ConfigError>) {
        let key = "process.roles";
        let has = |role: &str| cluster::list_items(self.text(key)).any(|item| item == role);
        if !(has("broker") && has("coordinator")) {
            errors.push(ConfigError::Roles { place: self.place(key) });
        }
    }

    fn check_trace_filter(&self, errors: &mut Vec<ConfigError>) {
        let key = "trace.filter";
        let is_level = |word: &str| {
            !word.is_empty() && word.parse::<tracing::level_filters::LevelFilter>().is_ok()
        };
        let is_sound = |directive: &str| match directive.trim().rsplit_once('=') {
            Some((module, level)) => !module.is_empty() && is_level(level),
            None => is_level(directive.trim()),
        };
        if !self.text(key).split(',').all(is_sound) {
            let (place, value) = (self.place(key), cluster::excerpt(self.text(key)));
            errors.push(ConfigError::TraceFilter { place, value });
        }
    }

    fn place(&self, key: &str) -> Place {
        self.settings.get(key).map_or(Place::Default, |setting| setting.place.clone())
    }

    fn config(
        &self,
        listeners: Vec<ListenerConfig>,
        address_limits: AddressLimits,
        peer_listen: Option<SocketAddr>,
        admin_listen: Option<SocketAddr>,
        warnings: Vec<String>,
    ) -> Config {
        let rack = self.text("broker.rack");
        Config {
            node_id: NodeId(self.sure("node.id")),
            data_dir: PathBuf::from(self.text("data.dir")),
            shards: self.number("shards").map_or(Shards::Auto, Shards::Count),
            listeners,
            peer_listen: peer_listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))),
            admin_listen,
            rack: (!rack.is_empty()).then(|| rack.to_owned()),
            disk_floor: self.number("disk.floor.bytes").map_or(DiskFloor::Auto, DiskFloor::Bytes),
            request_bytes_max: self.sure("socket.request.max.bytes"),
            connections_max: self.sure("max.connections"),
            connections_per_address_max: self.sure("max.connections.per.ip"),
            address_limits,
            connection_handover_after: self
                .number("connections.handover.requests")
                .filter(|count| *count > 0),
            connection_idle_max: self.millis("connections.max.idle.ms"),
            connection_send_max: self.millis("connections.send.timeout.ms"),
            fetch_bytes_max: self.sure("fetch.max.bytes"),
            fetch_memory_bytes: self.sure("fetch.memory.bytes"),
            fetch_session_slots: self.sure("max.incremental.fetch.session.cache.slots"),
            request_memory_bytes: self.sure("request.memory.bytes"),
            tail_cache_bytes: self.sure("tail.cache.bytes"),
            read_cache_bytes: self.sure("read.cache.bytes"),
            open_files_max: self.number("log.open.files.max"),
            io_memory_bytes: self.sure("io.memory.bytes"),
            io_free_list_bytes: self.sure("io.free.list.bytes"),
            io_ring_depth: self.sure("io.ring.depth"),
            io_spin: Duration::from_micros(self.sure("io.spin.us")),
            journal: self.flag("journal.enable").then(|| JournalConfig {
                bytes: self.sure("journal.bytes"),
                group_bytes_max: self.sure("journal.group.bytes"),
                groups_min: self.sure("journal.groups.min"),
                sets_before: JOURNAL_SETS_BEFORE,
            }),
            scrub_bytes_per_second: self.sure("scrub.bytes.per.second"),
            scrub_interval: self.millis("scrub.interval.ms"),
            write_caching_flush: self.millis("write.caching.flush.ms"),
            retention_check_interval: self.millis("log.retention.check.interval.ms"),
            producer_id_expiration_ms: self.sure("producer.id.expiration.ms"),
            producer_count_max: self.sure("producer.state.count.max"),
            create_defaults: CreateDefaults {
                partition_count: self.sure("num.partitions"),
                replication_factor: self.sure("default.replication.factor"),
                partitions_max: self.sure("partitions.max"),
            },
            auto_create_topics: self.flag("auto.create.topics.enable"),
            topic_deletion: if self.flag("delete.topic.enable") {
                Deletion::Enabled
            } else {
                Deletion::Disabled
            },
            shutdown_timeout: self.millis("shutdown.timeout.ms"),
            trace_filter: self.text("trace.filter").to_owned(),
            warnings,
            settings: self.settings.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
