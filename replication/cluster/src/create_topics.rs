//! Creating topics: which records would do it, or why not (MD-4, MD-5, MD-6).
//!
//! Owns the checks and the defaults; `placement` says where replicas go. It plans against the image and changes
//! nothing; identities are the caller's random numbers. Each topic of a request stands or falls alone.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use record::{NodeId, PartitionIndex, TopicId};

use crate::alter_configs::{ALTERED_BYTES_MAX, written_bytes_of};
use crate::effective::{BrokerConfigs, DescribedConfig};
use crate::image::{Image, PARTITIONS_PER_TOPIC_MAX};
use crate::placement::{AssignedReplicas, Taken, TooManyPartitions};
use crate::records::MetadataRecord;
use crate::topic_config::{Accepted, check_topic_config};
use crate::topic_name::{METADATA_TOPIC, NameRefusal, check_topic_name, collision_form};
use crate::{Bounds, ConfigRefusal, Decision};

/// What the counts of a topic are where the request leaves them open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateDefaults {
    /// `num.partitions`.
    pub partition_count: i32,
    /// `default.replication.factor`.
    pub replication_factor: i16,
    /// Partitions the cluster may have in all: what open files and memory allow.
    pub partitions_max: usize,
}

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its identity: 16 bytes of the system's random numbers.
    pub id: TopicId,
    /// How many partitions; -1 for the default.
    pub partition_count: i32,
    /// How many replicas of each; -1 for the default.
    pub replication_factor: i16,
    /// Replicas by partition, instead of both counts.
    pub assignments: Vec<(PartitionIndex, Vec<NodeId>)>,
    /// Configurations by name.
    pub configs: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> NewTopic<'a> {
    /// A topic with the default of everything: what auto-creation makes.
    #[must_use]
    pub fn with_defaults(name: &'a str, id: TopicId) -> Self {
        Self {
            name,
            id,
            partition_count: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }
}

/// Whether to make the change, or only to say what would happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Make it.
    Apply,
    /// Check everything, change nothing.
    ValidateOnly,
}

/// A request to create topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTopics<'a> {
    /// The topics.
    pub topics: Vec<NewTopic<'a>>,
    /// Whether to create them.
    pub intent: Intent,
    /// What open counts become.
    pub defaults: CreateDefaults,
    /// The node that answers: its options are what the new topic falls back on.
    pub node: NodeId,
}

/// A topic that is created, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its identity; zero where it was only validated.
    pub id: TopicId,
    /// How many partitions.
    pub partition_count: usize,
    /// How many replicas of each.
    pub replication_factor: usize,
    /// Its effective configurations.
    pub configs: Vec<DescribedConfig>,
}

/// What became of one topic of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateOutcome {
    /// Its name, as it was sent.
    pub name: String,
    /// What became of it.
    pub result: Result<CreatedTopic, CreateRefusal>,
}

/// Why a topic is not created. `broker` maps these to Kafka's codes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CreateRefusal {
    /// The name is none, or collides (17).
    #[error(transparent)]
    Name(#[from] NameRefusal),
    /// Kafka's own metadata topic (42).
    #[error("topic {METADATA_TOPIC}: cannot be created")]
    MetadataTopic,
    /// There is one of that name (36).
    #[error("topic {name}: exists already")]
    Exists {
        /// The name.
        name: String,
    },
    /// The name stands twice in the request (42).
    #[error("topic {name}: stands more than once in the request")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// Not a number of partitions (37).
    #[error("{count} partitions: must be 1 to {PARTITIONS_PER_TOPIC_MAX}, or -1 for the default")]
    Partitions {
        /// As asked.
        count: i32,
    },
    /// More partitions than there may be (44).
    #[error(transparent)]
    TooMany(#[from] TooManyPartitions),
    /// Not a number of replicas, or more than there are nodes (38).
    #[error("replication factor {factor}: must be {}, the number of nodes, or -1", Bounds(1, *nodes))]
    ReplicationFactor {
        /// As asked.
        factor: i16,
        /// How many nodes there are.
        nodes: usize,
    },
    /// Counts and assignments together (42).
    #[error("partitions and replication factor must be -1 where replicas are assigned by hand")]
    CountsWithAssignments,
    /// Partition indexes that are not 0, 1, 2 … (39).
    #[error("assignments: partition {index} is missing or stands twice")]
    AssignmentIndexes {
        /// The first index that is not there exactly once.
        index: i32,
    },
    /// Replicas that cannot be (39).
    #[error(transparent)]
    AssignmentReplicas(#[from] AssignedReplicas),
    /// A configuration that cannot be (40).
    #[error(transparent)]
    Config(#[from] ConfigRefusal),
    /// More configurations than one request may write (44).
    #[error("{bytes} bytes of configurations in one request: {ALTERED_BYTES_MAX} are allowed")]
    TooMuch {
        /// With this topic.
        bytes: usize,
    },
    /// The identity is reserved or taken: the caller's random numbers are broken (-1).
    #[error("topic id {id}: reserved or taken")]
    IdTaken {
        /// The identity.
        id: TopicId,
    },
}

impl Image {
    /// The records that create these topics, and the answer to give once they are committed.
    ///
    /// Order   answers are in the order of the request; a name that stands twice is refused and answered once.
    #[must_use]
    pub fn decide_create_topics(
        &self,
        request: &CreateTopics<'_>,
        broker: &BrokerConfigs,
    ) -> Decision<Vec<CreateOutcome>> {
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for topic in &request.topics {
            *names.entry(topic.name).or_default() += 1;
        }
        let mut taken = Taken::of(self);
        let mut decision = Decision { records: Vec::new(), reply: Vec::new() };
        for topic in &request.topics {
            let result = match names.remove(topic.name) {
                None => continue,
                Some(1) => self.plan_topic(topic, request, broker, &mut taken),
                Some(_) => Err(CreateRefusal::Duplicate { name: String::from(topic.name) }),
            };
            let name = String::from(topic.name);
            let result = result.map(|(created, records)| {
                if request.intent == Intent::Apply {
                    decision.records.extend(records);
                }
                created
            });
            decision.reply.push(CreateOutcome { name, result });
        }
        decision
    }

    fn plan_topic(
        &self,
        topic: &NewTopic<'_>,
        request: &CreateTopics<'_>,
        broker: &BrokerConfigs,
        taken: &mut Taken,
    ) -> Result<(CreatedTopic, Vec<MetadataRecord>), CreateRefusal> {
        let form = self.check_new_name(topic.name, taken)?;
        let configs = checked_configs(topic)?;
        let replicas = self.place(topic, &request.defaults, taken)?;
        let config_bytes = configs.iter().map(|(name, value)| written_bytes_of(name, Some(value)));
        let bytes = taken.config_bytes + config_bytes.sum::<usize>();
        if bytes > ALTERED_BYTES_MAX {
            return Err(CreateRefusal::TooMuch { bytes });
        }
        let id = topic.id;
        let is_reserved = id == TopicId::ZERO || id == TopicId::METADATA;
        if is_reserved || self.topic_by_id(id).is_some() || taken.ids.contains(&id) {
            return Err(CreateRefusal::IdTaken { id });
        }
        taken.ids.insert(id);
        taken.config_bytes = bytes;
        taken.partition_count += replicas.len();
        taken.forms.extend(form.map(|form| (form, String::from(topic.name))));
        let created = CreatedTopic {
            id: if request.intent == Intent::Apply { id } else { TopicId::ZERO },
            partition_count: replicas.len(),
            replication_factor: replicas.first().map_or(0, Vec::len),
            configs: self.describe_topic_configs(request.node, &configs, broker, None),
        };
        let mut records = Vec::with_capacity(1 + configs.len() + replicas.len());
        records.push(MetadataRecord::Topic { name: Arc::from(topic.name), id });
        records.extend(configs.into_iter().map(|(name, value)| MetadataRecord::TopicConfig {
            id,
            name: Arc::from(name),
            value: Some(value),
        }));
        for (index, replicas) in (0..).map(PartitionIndex).zip(replicas) {
            records.push(taken.deal(id, index, replicas));
        }
        Ok((created, records))
    }

    /// The form in which the name could collide, if it could and does not.
    fn check_new_name(&self, name: &str, taken: &Taken) -> Result<Option<String>, CreateRefusal> {
        if name == METADATA_TOPIC {
            return Err(CreateRefusal::MetadataTopic);
        }
        check_topic_name(name)?;
        if self.topic(name).is_some() {
            return Err(CreateRefusal::Exists { name: String::from(name) });
        }
        let Some(form) = collision_form(name) else {
            return Ok(None);
        };
        let in_image = self.collision_forms.get(form.as_str()).map(|other| String::from(&**other));
        match in_image.or_else(|| taken.forms.get(&form).cloned()) {
            Some(other) => Err(NameRefusal::Collision { name: String::from(name), other }.into()),
            None => Ok(Some(form)),
        }
    }

    /// The replicas of every partition, the preferred leader first.
    fn place(
        &self,
        topic: &NewTopic<'_>,
        defaults: &CreateDefaults,
        taken: &Taken,
    ) -> Result<Vec<Vec<NodeId>>, CreateRefusal> {
        let replicas = if topic.assignments.is_empty() {
            let count = open_or(topic.partition_count, defaults.partition_count);
            let count = usize::try_from(count).ok().filter(|count| *count > 0);
            let count = count
                .filter(|count| *count <= PARTITIONS_PER_TOPIC_MAX)
                .ok_or(CreateRefusal::Partitions { count: topic.partition_count })?;
            self.check_partition_count(count, defaults.partitions_max, taken)?;
            let factor =
                open_or(topic.replication_factor.into(), defaults.replication_factor.into());
            self.spread(count, factor, taken).ok_or(CreateRefusal::ReplicationFactor {
                factor: topic.replication_factor,
                nodes: self.nodes.len(),
            })?
        } else {
            if topic.partition_count != -1 || topic.replication_factor != -1 {
                return Err(CreateRefusal::CountsWithAssignments);
            }
            self.check_partition_count(topic.assignments.len(), defaults.partitions_max, taken)?;
            self.checked_assignments(&topic.assignments)?
        };
        Ok(replicas)
    }

    fn checked_assignments(
        &self,
        assignments: &[(PartitionIndex, Vec<NodeId>)],
    ) -> Result<Vec<Vec<NodeId>>, CreateRefusal> {
        let by_index: BTreeMap<i32, &Vec<NodeId>> =
            assignments.iter().map(|(index, replicas)| (index.0, replicas)).collect();
        let mut placed = Vec::with_capacity(assignments.len());
        let mut factor = None;
        for (index, _) in (0_i32..).zip(assignments) {
            let replicas =
                by_index.get(&index).ok_or(CreateRefusal::AssignmentIndexes { index })?;
            let factor = *factor.get_or_insert(replicas.len());
            self.check_replicas(PartitionIndex(index), replicas, factor)?;
            placed.push((*replicas).clone());
        }
        Ok(placed)
    }
}

/// -1 leaves a count open.
fn open_or(asked: i32, default: i32) -> i32 {
    if asked == -1 { default } else { asked }
}

fn checked_configs(
    topic: &NewTopic<'_>,
) -> Result<BTreeMap<&'static str, Arc<str>>, ConfigRefusal> {
    let mut configs = BTreeMap::new();
    for (name, value) in &topic.configs {
        if let Accepted::Keep { name, value } = check_topic_config(name, *value)? {
            // The last of several wins, as in Kafka.
            configs.insert(name, Arc::from(value));
        }
    }
    Ok(configs)
}

#[cfg(test)]
mod tests;
