//! Which value of a configuration holds, and where it comes from (MD-8).
//!
//! Owns the order of sources. The broker's own options arrive as plain rows ([`BrokerConfigs`]): their schema is the broker's.
//!
//! ```text
//! topic ► node, dynamic ► all nodes, dynamic ► node, static (file, --set, environment) ► default
//! ```

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use record::NodeId;

use crate::image::{Image, Topic};
use crate::topic_config::{Built, TOPIC_CONFIGS, TopicConfig, TopicSettings, topic_config};
use crate::{Allowed, ConfigType, plain_form};

/// Where a value comes from, with Kafka's number for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum ConfigSource {
    /// Set for the topic.
    Topic = 1,
    /// Set for the node while it runs.
    DynamicNode = 2,
    /// Set for all nodes while they run.
    DynamicAllNodes = 3,
    /// Set in the node's file, environment or command line.
    StaticNode = 4,
    /// Nobody set it.
    Default = 5,
}

impl ConfigSource {
    /// Kafka's number.
    #[must_use]
    pub const fn code(self) -> i8 {
        self as i8
    }
}

/// One option of the broker, as this node has it.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerConfig {
    /// Its type.
    pub kind: ConfigType,
    /// What a value must satisfy.
    pub allowed: Allowed,
    /// How much of it is built.
    pub built: Built,
    /// What holds where nobody set it; `None` for none.
    pub default: Option<Arc<str>>,
    /// What this node's file, environment or command line says.
    pub set: Option<Arc<str>>,
    /// Whether it can be changed while the node runs.
    pub is_dynamic: bool,
    /// What it does.
    pub doc: &'static str,
}

/// All options of the broker, by name.
pub type BrokerConfigs = BTreeMap<&'static str, BrokerConfig>;

/// One entry of a DescribeConfigs answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConfig {
    /// Its name.
    pub name: String,
    /// Its value; `None` where there is none or it must not be told.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether AlterConfigs would refuse it.
    pub is_read_only: bool,
    /// Whether its value is a secret.
    pub is_sensitive: bool,
    /// Every source that says something, the one that holds first.
    pub synonyms: Vec<ConfigSynonym>,
    /// Its type.
    pub kind: ConfigType,
    /// What it does.
    pub doc: &'static str,
}

/// What one source says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The name it has there.
    pub name: &'static str,
    /// The value there.
    pub value: Option<Arc<str>>,
    /// The source.
    pub source: ConfigSource,
}

/// Puts every value into the form in which it is told.
fn in_plain_form(kind: ConfigType, synonyms: &mut [ConfigSynonym]) {
    for synonym in synonyms {
        synonym.value = synonym.value.as_deref().map(|value| plain_form(kind, value).into());
    }
}

impl Image {
    /// The values that the data path reads for a topic on this node.
    #[must_use]
    pub fn topic_settings(
        &self,
        node: NodeId,
        topic: &Topic,
        broker: &BrokerConfigs,
    ) -> TopicSettings {
        self.settings_of(node, &topic.configs, broker)
    }

    /// The same for a topic that has none of its own configurations.
    #[must_use]
    pub fn default_settings(&self, node: NodeId, broker: &BrokerConfigs) -> TopicSettings {
        self.settings_of(node, &BTreeMap::new(), broker)
    }

    fn settings_of(
        &self,
        node: NodeId,
        configs: &BTreeMap<&'static str, Arc<str>>,
        broker: &BrokerConfigs,
    ) -> TopicSettings {
        TopicSettings::from_effective(|name| {
            if let Some(value) = configs.get(name) {
                return Some(&**value);
            }
            let row = topic_config(name)?;
            row.broker_synonyms.iter().find_map(|synonym| self.broker_value(node, synonym, broker))
        })
    }

    /// What holds of a broker's option on this node; `None` for no value.
    #[must_use]
    pub fn broker_value<'a>(
        &'a self,
        node: NodeId,
        name: &str,
        broker: &'a BrokerConfigs,
    ) -> Option<&'a str> {
        let dynamic = [node, NodeId::NONE]
            .into_iter()
            .find_map(|scope| self.node_configs.get(&scope)?.get(name));
        let row = broker.get(name);
        let fixed = || row.and_then(|row| row.set.as_ref().or(row.default.as_ref()));
        dynamic.or_else(fixed).map(|value| &**value)
    }

    /// A topic's configurations: those named, or all. A name that does not exist is left out, as Kafka does.
    #[must_use]
    pub fn describe_topic(
        &self,
        node: NodeId,
        topic: &Topic,
        broker: &BrokerConfigs,
        names: Option<&[&str]>,
    ) -> Vec<DescribedConfig> {
        self.describe_topic_configs(node, &topic.configs, broker, names)
    }

    pub(crate) fn describe_topic_configs(
        &self,
        node: NodeId,
        configs: &BTreeMap<&'static str, Arc<str>>,
        broker: &BrokerConfigs,
        names: Option<&[&str]>,
    ) -> Vec<DescribedConfig> {
        let rows = TOPIC_CONFIGS.iter().filter(|row| is_asked(row.name, names));
        rows.map(|row| self.describe_row(node, row, configs.get(row.name), broker)).collect()
    }

    fn describe_row(
        &self,
        node: NodeId,
        row: &TopicConfig,
        set: Option<&Arc<str>>,
        broker: &BrokerConfigs,
    ) -> DescribedConfig {
        let mut synonyms = Vec::new();
        if let Some(value) = set {
            let value = Some(Arc::clone(value));
            synonyms.push(ConfigSynonym { name: row.name, value, source: ConfigSource::Topic });
        }
        for synonym in row.broker_synonyms {
            let of_broker = self.broker_synonyms(node, synonym, broker);
            synonyms.extend(of_broker.into_iter().filter(|synonym| synonym.value.is_some()));
        }
        in_plain_form(row.kind, &mut synonyms);
        let (value, source) = match synonyms.first() {
            Some(first) => (first.value.as_deref().map(String::from), first.source),
            None => (Some(String::from(row.default)), ConfigSource::Default),
        };
        DescribedConfig {
            name: String::from(row.name),
            value,
            source,
            is_read_only: false,
            is_sensitive: false,
            synonyms,
            kind: row.kind,
            doc: row.doc,
        }
    }

    /// A node's configurations: those named, or all.
    #[must_use]
    pub fn describe_node(
        &self,
        node: NodeId,
        broker: &BrokerConfigs,
        names: Option<&[&str]>,
    ) -> Vec<DescribedConfig> {
        let rows = broker.iter().filter(|(name, _)| is_asked(name, names));
        rows.map(|(name, row)| {
            let is_sensitive = row.kind == ConfigType::Password;
            let mut synonyms = self.broker_synonyms(node, name, broker);
            if is_sensitive {
                synonyms.iter_mut().for_each(|synonym| synonym.value = None);
            }
            in_plain_form(row.kind, &mut synonyms);
            let (value, source) = match synonyms.first() {
                Some(first) => (first.value.as_deref().map(String::from), first.source),
                None => (None, ConfigSource::Default),
            };
            DescribedConfig {
                name: String::from(*name),
                value,
                source,
                is_read_only: !row.is_dynamic,
                is_sensitive,
                synonyms,
                kind: row.kind,
                doc: row.doc,
            }
        })
        .collect()
    }

    /// What was set for all nodes: the answer for the broker named "".
    #[must_use]
    pub fn describe_all_nodes(&self, broker: &BrokerConfigs) -> Vec<DescribedConfig> {
        let Some(set) = self.node_configs.get(&NodeId::NONE).filter(|set| !set.is_empty()) else {
            return Vec::new();
        };
        let mut described = self.describe_node(NodeId::NONE, broker, None);
        described.retain(|config| set.contains_key(config.name.as_str()));
        for config in &mut described {
            config.source = ConfigSource::DynamicAllNodes;
            config.synonyms.retain(|synonym| synonym.source == ConfigSource::DynamicAllNodes);
        }
        described
    }

    fn broker_synonyms(
        &self,
        node: NodeId,
        name: &'static str,
        broker: &BrokerConfigs,
    ) -> Vec<ConfigSynonym> {
        let dynamic = |scope: NodeId| self.node_configs.get(&scope)?.get(name).cloned();
        let row = broker.get(name);
        let of_node = if node == NodeId::NONE { None } else { dynamic(node) };
        let sources = [
            (ConfigSource::DynamicNode, of_node),
            (ConfigSource::DynamicAllNodes, dynamic(NodeId::NONE)),
            (ConfigSource::StaticNode, row.and_then(|row| row.set.clone())),
            (ConfigSource::Default, row.and_then(|row| row.default.clone())),
        ];
        let said = sources.into_iter().filter(|(_, value)| value.is_some());
        said.map(|(source, value)| ConfigSynonym { name, value, source }).collect()
    }
}

fn is_asked(name: &str, names: Option<&[&str]>) -> bool {
    // MD-8: an empty list asks for all, as no list does.
    names.is_none_or(|names| names.is_empty() || names.contains(&name))
}

#[cfg(test)]
mod tests;
