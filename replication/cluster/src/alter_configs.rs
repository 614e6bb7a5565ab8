//! Changing configurations of topics and nodes: which records would do it, or why not (MD-8, P96, P98).
//!
//! Owns the one way from an administrator's change to values that hold. Each resource of a request stands or falls alone, and
//! nothing of it changes unless all of it can. Values pass the check that those of new topics and of a node's file pass.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use record::NodeId;

use crate::effective::BrokerConfigs;
use crate::image::{Image, Topic};
use crate::records::MetadataRecord;
use crate::topic_config::{
    Accepted, TOPIC_CONFIGS_REMOVED, check_built_value, check_topic_config, topic_config,
};
use crate::topic_name::{NameRefusal, check_topic_name};
use crate::{ConfigRefusal, ConfigType, Decision, Intent, excerpt, list_items, nearest};

/// Names and values of configurations that one request may write, also where it creates topics: with the largest number of
/// partitions that is a metadata batch of some 2 MiB.
pub const ALTERED_BYTES_MAX: usize = 1 << 20;

/// What has configurations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigTarget {
    /// A topic, by name.
    Topic(String),
    /// One node.
    Node(NodeId),
    /// Every node that has no value of its own.
    AllNodes,
}

/// What a single change does, with Kafka's number for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigOperation {
    /// The value holds from now on.
    Set = 0,
    /// Back to the default.
    Delete = 1,
    /// The items of the value join the list.
    Append = 2,
    /// The items of the value leave the list.
    Subtract = 3,
}

impl ConfigOperation {
    /// The operation of a number.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        [Self::Set, Self::Delete, Self::Append, Self::Subtract]
            .into_iter()
            .find(|operation| *operation as i8 == code)
    }
}

/// A single change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEdit {
    /// Of which configuration.
    pub name: String,
    /// What to do; `None` for a number that is no operation.
    pub operation: Option<ConfigOperation>,
    /// With which value.
    pub value: Option<String>,
}

/// The changes to one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// These values hold, and everything else goes back to its default (AlterConfigs).
    Replace(Vec<(String, Option<String>)>),
    /// These change, and everything else stays (IncrementalAlterConfigs).
    Edit(Vec<ConfigEdit>),
}

/// A request to change configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterConfigs {
    /// The resources and their changes.
    pub resources: Vec<(ConfigTarget, ConfigChange)>,
    /// Whether to make them.
    pub intent: Intent,
}

/// Why a resource keeps its configurations. `broker` maps these to Kafka's codes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AlterRefusal {
    /// A topic without a name (42).
    #[error("a topic needs a name: there is no default for all topics")]
    NoName,
    /// A name that no topic can have (17).
    #[error(transparent)]
    Name(#[from] NameRefusal),
    /// No such topic (3).
    #[error("topic {name}: does not exist")]
    UnknownTopic {
        /// The name.
        name: String,
    },
    /// No such node (42).
    #[error("node {node}: is not registered")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// The resource stands twice in the request (42).
    #[error("the resource stands more than once in the request")]
    DuplicateResource,
    /// The configuration stands twice in its resource (42).
    #[error("{name}: stands more than once in the request")]
    DuplicateName {
        /// The configuration, cut to a bound.
        name: String,
    },
    /// No value where one is needed (42).
    #[error("{name}: null is not a value")]
    Null {
        /// The configuration, cut to a bound.
        name: String,
    },
    /// A number that is no operation (42).
    #[error("{name}: the operation must be 0 set, 1 delete, 2 append or 3 subtract")]
    Operation {
        /// The configuration, cut to a bound.
        name: String,
    },
    /// Items can join and leave lists only (40).
    #[error("{name}: is no list, so that nothing can be appended or subtracted")]
    NotAList {
        /// The configuration.
        name: &'static str,
    },
    /// An option that cannot change while the node runs (42).
    #[error("{name} = {value}: cannot be changed while the node runs")]
    ReadOnly {
        /// The option.
        name: &'static str,
        /// As it was sent, cut to a bound.
        value: String,
    },
    /// A value that cannot be, or an option that does not exist (40).
    #[error(transparent)]
    Value(#[from] ConfigRefusal),
    /// More than one request may write (44).
    #[error("{bytes} bytes of names and values in one request: {ALTERED_BYTES_MAX} are allowed")]
    TooMuch {
        /// With this resource.
        bytes: usize,
    },
}

/// What configurations become: `None` goes back to the default.
type Wanted = BTreeMap<Arc<str>, Option<Arc<str>>>;

/// One resource as it is.
struct Resource<'a> {
    image: &'a Image,
    broker: &'a BrokerConfigs,
    of: Of<'a>,
}

enum Of<'a> {
    Topic(&'a Topic),
    /// [`NodeId::NONE`] for all nodes.
    Node(NodeId),
}

impl Image {
    /// The records that make these changes, and the answer to give for each resource once they are committed.
    ///
    /// Order   answers are in the order of the request.
    #[must_use]
    pub fn decide_alter_configs(
        &self,
        request: &AlterConfigs,
        broker: &BrokerConfigs,
    ) -> Decision<Vec<Result<(), AlterRefusal>>> {
        let mut counts: BTreeMap<&ConfigTarget, usize> = BTreeMap::new();
        for (target, _) in &request.resources {
            *counts.entry(target).or_default() += 1;
        }
        let mut decision = Decision { records: Vec::new(), reply: Vec::new() };
        let mut bytes = 0;
        for (target, change) in &request.resources {
            let planned = match counts.get(target) {
                Some(1) => self.plan_alteration(target, change, broker),
                _ => Err(AlterRefusal::DuplicateResource),
            };
            let result = planned.and_then(|records| {
                let with_this = bytes + records.iter().map(written_bytes).sum::<usize>();
                if with_this > ALTERED_BYTES_MAX {
                    return Err(AlterRefusal::TooMuch { bytes: with_this });
                }
                bytes = with_this;
                if request.intent == Intent::Apply {
                    decision.records.extend(records);
                }
                Ok(())
            });
            decision.reply.push(result);
        }
        decision
    }

    fn plan_alteration(
        &self,
        target: &ConfigTarget,
        change: &ConfigChange,
        broker: &BrokerConfigs,
    ) -> Result<Vec<MetadataRecord>, AlterRefusal> {
        let of = match target {
            ConfigTarget::Topic(name) if name.is_empty() => return Err(AlterRefusal::NoName),
            ConfigTarget::Topic(name) => {
                check_topic_name(name)?;
                let topic = self.topic(name);
                Of::Topic(topic.ok_or_else(|| AlterRefusal::UnknownTopic { name: name.clone() })?)
            }
            ConfigTarget::Node(node) if self.node(*node).is_none() => {
                return Err(AlterRefusal::UnknownNode { node: *node });
            }
            ConfigTarget::Node(node) => Of::Node(*node),
            ConfigTarget::AllNodes => Of::Node(NodeId::NONE),
        };
        let resource = Resource { image: self, broker, of };
        let wanted = match change {
            ConfigChange::Replace(values) => resource.replaced(values)?,
            ConfigChange::Edit(edits) => resource.edited(edits)?,
        };
        let changes = wanted.into_iter().filter(|(name, value)| {
            resource.set_now(name).map(|value| &**value) != value.as_deref()
        });
        Ok(changes.map(|(name, value)| resource.record(name, value)).collect())
    }
}

impl Resource<'_> {
    fn replaced(&self, values: &[(String, Option<String>)]) -> Result<Wanted, AlterRefusal> {
        check_unique(values.iter().map(|(name, _)| name.as_str()))?;
        let mut wanted: Wanted = self.all_set().into_iter().map(|name| (name, None)).collect();
        for (name, value) in values {
            if let Some((name, value)) = self.checked(name, value.as_deref())? {
                wanted.insert(Arc::from(name), Some(Arc::from(value)));
            }
        }
        Ok(wanted)
    }

    fn edited(&self, edits: &[ConfigEdit]) -> Result<Wanted, AlterRefusal> {
        check_unique(edits.iter().map(|edit| edit.name.as_str()))?;
        let mut wanted = Wanted::new();
        for ConfigEdit { name, operation, value } in edits {
            let told = || excerpt(name);
            let operation = operation.ok_or_else(|| AlterRefusal::Operation { name: told() })?;
            if operation == ConfigOperation::Delete {
                // Nothing is set under a name that does not exist: deleting it is done.
                wanted.insert(Arc::from(name.as_str()), None);
                continue;
            }
            let value = value.as_deref().ok_or_else(|| AlterRefusal::Null { name: told() })?;
            let list = match operation {
                ConfigOperation::Append | ConfigOperation::Subtract => {
                    self.list_with(name, operation, value)?
                }
                ConfigOperation::Set | ConfigOperation::Delete => None,
            };
            let value = list.as_deref().unwrap_or(value);
            if let Some((name, value)) = self.checked(name, Some(value))? {
                wanted.insert(Arc::from(name), Some(Arc::from(value)));
            }
        }
        Ok(wanted)
    }

    /// The list of that name with or without the items of `value`; `None` for a name that does not exist or does nothing.
    fn list_with(
        &self,
        name: &str,
        operation: ConfigOperation,
        value: &str,
    ) -> Result<Option<String>, AlterRefusal> {
        let Some((name, kind)) = self.known(name) else {
            return Ok(None);
        };
        if kind != ConfigType::List {
            return Err(AlterRefusal::NotAList { name });
        }
        let now = self.holds_now(name).unwrap_or_default();
        let mut items: Vec<&str> = list_items(&now).collect();
        for item in list_items(value) {
            let found = items.iter().position(|known| *known == item);
            match (operation, found) {
                (ConfigOperation::Append, None) => items.push(item),
                (ConfigOperation::Subtract, Some(index)) => drop(items.remove(index)),
                _ => {}
            }
        }
        Ok(Some(items.join(",")))
    }

    /// Name and type, as the table has them.
    fn known(&self, name: &str) -> Option<(&'static str, ConfigType)> {
        match self.of {
            Of::Topic(_) => topic_config(name).map(|row| (row.name, row.kind)),
            Of::Node(_) => self.broker.get_key_value(name).map(|(name, row)| (*name, row.kind)),
        }
    }

    /// The value to keep, under the name to keep it by; `None` for what changes nothing.
    fn checked<'v>(
        &self,
        name: &str,
        value: Option<&'v str>,
    ) -> Result<Option<(&'static str, &'v str)>, AlterRefusal> {
        match self.of {
            Of::Topic(_) if TOPIC_CONFIGS_REMOVED.contains(&name) => Ok(None),
            Of::Topic(_) => {
                let value = value.ok_or_else(|| AlterRefusal::Null { name: excerpt(name) })?;
                match check_topic_config(name, Some(value))? {
                    Accepted::Keep { name, value } => Ok(Some((name, value))),
                    Accepted::Ignore => Ok(None),
                }
            }
            Of::Node(node) => self.checked_of_node(node, name, value),
        }
    }

    fn checked_of_node<'v>(
        &self,
        node: NodeId,
        name: &str,
        value: Option<&'v str>,
    ) -> Result<Option<(&'static str, &'v str)>, AlterRefusal> {
        let Some((name, row)) = self.broker.get_key_value(name) else {
            let nearest = nearest(name, self.broker.keys().copied());
            return Err(ConfigRefusal::Unknown { name: excerpt(name), nearest }.into());
        };
        let (name, holds) = (*name, self.image.broker_value(node, name, self.broker));
        let is_told = row.kind != ConfigType::Password;
        let is_sent_back = value.map(str::trim) == holds.filter(|_| is_told);
        // P98: tools send back all that they were told, read-only options and options without a value included.
        if is_sent_back && (value.is_none() || !row.is_dynamic) {
            return Ok(None);
        }
        let value = value.ok_or_else(|| AlterRefusal::Null { name: String::from(name) })?;
        if !row.is_dynamic {
            return Err(AlterRefusal::ReadOnly { name, value: excerpt(value) });
        }
        let value = check_built_value(name, row.kind, (row.allowed, row.built), value)?;
        Ok(Some((name, value)))
    }

    /// What is set for this resource itself.
    fn set_now(&self, name: &str) -> Option<&Arc<str>> {
        match self.of {
            Of::Topic(topic) => topic.configs.get(name),
            Of::Node(node) => self.image.node_configs.get(&node)?.get(name),
        }
    }

    fn all_set(&self) -> Vec<Arc<str>> {
        match self.of {
            Of::Topic(topic) => topic.configs.keys().map(|name| Arc::from(*name)).collect(),
            Of::Node(node) => {
                let set = self.image.node_configs.get(&node);
                set.map(|set| set.keys().cloned().collect()).unwrap_or_default()
            }
        }
    }

    /// What holds, set here or elsewhere.
    fn holds_now(&self, name: &'static str) -> Option<String> {
        match self.of {
            Of::Topic(topic) => {
                // No node is asked: what one of them falls back on is not the topic's list.
                let names = [name];
                let described =
                    self.image.describe_topic(NodeId::NONE, topic, self.broker, Some(&names));
                described.into_iter().next()?.value
            }
            Of::Node(node) => self.image.broker_value(node, name, self.broker).map(String::from),
        }
    }

    fn record(&self, name: Arc<str>, value: Option<Arc<str>>) -> MetadataRecord {
        match self.of {
            Of::Topic(topic) => MetadataRecord::TopicConfig { id: topic.id, name, value },
            Of::Node(node) => MetadataRecord::NodeConfig { node, name, value },
        }
    }
}

fn check_unique<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), AlterRefusal> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(AlterRefusal::DuplicateName { name: excerpt(name) });
        }
    }
    Ok(())
}

/// What a record adds to the batch, about.
fn written_bytes(record: &MetadataRecord) -> usize {
    match record {
        MetadataRecord::TopicConfig { name, value, .. }
        | MetadataRecord::NodeConfig { name, value, .. } => {
            written_bytes_of(name, value.as_deref())
        }
        _ => written_bytes_of("", None),
    }
}

/// The same of a configuration.
pub(crate) fn written_bytes_of(name: &str, value: Option<&str>) -> usize {
    /// Frame, identity and lengths, and what the batch adds to each record.
    const RECORD_BYTES: usize = 48;
    RECORD_BYTES + name.len() + value.map_or(0, str::len)
}

#[cfg(test)]
mod tests;
