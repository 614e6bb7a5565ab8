//! Adding partitions to topics: which records would do it, or why not (MD-6, P100).
//!
//! Owns the checks; `placement` says where replicas go. A topic only grows: partitions that exist keep their place, their
//! replicas and their slots. Each topic of a request stands or falls alone.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use record::{NodeId, PartitionIndex};

use crate::image::{Image, PARTITIONS_PER_TOPIC_MAX, Topic};
use crate::placement::{AssignedReplicas, Taken, TooManyPartitions};
use crate::records::MetadataRecord;
use crate::{Decision, Intent, excerpt};

/// A topic that shall have more partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicGrowth {
    /// Its name.
    pub name: String,
    /// How many it shall have in all.
    pub partition_count: i32,
    /// The replicas of each new one; `None` to leave that to the cluster.
    pub assignments: Option<Vec<Vec<NodeId>>>,
}

/// A request to add partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatePartitions {
    /// The topics.
    pub topics: Vec<TopicGrowth>,
    /// Whether to add them.
    pub intent: Intent,
}

/// What became of one topic of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct GrowthOutcome {
    /// Its name, as it was sent.
    pub name: String,
    /// What became of it.
    pub result: Result<(), GrowthRefusal>,
}

/// Why a topic has as many partitions as before. `broker` maps these to Kafka's codes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GrowthRefusal {
    /// No such topic (3).
    #[error("topic {name}: does not exist")]
    UnknownTopic {
        /// The name, cut to a bound.
        name: String,
    },
    /// The topic stands twice in the request (42).
    #[error("topic {name}: stands more than once in the request")]
    Duplicate {
        /// The name, cut to a bound.
        name: String,
    },
    /// Not more than there are, or more than a topic may have (37).
    #[error("{asked} partitions: must be above {present}, which there are, up to {maximum}")]
    Count {
        /// As asked.
        asked: i32,
        /// How many there are.
        present: usize,
        /// How many one topic may have, whatever the others have.
        maximum: usize,
    },
    /// More partitions than there may be (44).
    #[error(transparent)]
    TooMany(#[from] TooManyPartitions),
    /// Not one assignment for each new partition (39).
    #[error("{assigned} assignments for {count} new partitions")]
    AssignmentCount {
        /// As sent.
        assigned: usize,
        /// How many partitions are new.
        count: usize,
    },
    /// Replicas that cannot be (39).
    #[error(transparent)]
    AssignmentReplicas(#[from] AssignedReplicas),
    /// Fewer nodes than the topic's partitions have replicas (38).
    #[error("{factor} replicas of each partition: there are {nodes} nodes")]
    ReplicationFactor {
        /// As the topic has.
        factor: usize,
        /// How many nodes there are.
        nodes: usize,
    },
}

impl Image {
    /// The records that add these partitions, and the answer to give once they are committed.
    ///
    /// Units   `partitions_max` counts the partitions that the cluster may have in all.
    /// Order   answers are in the order of the request; a name that stands twice is refused and answered once.
    #[must_use]
    pub fn decide_create_partitions(
        &self,
        request: &CreatePartitions,
        partitions_max: usize,
    ) -> Decision<Vec<GrowthOutcome>> {
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for topic in &request.topics {
            *names.entry(&topic.name).or_default() += 1;
        }
        let mut taken = Taken::of(self);
        let mut decision = Decision { records: Vec::new(), reply: Vec::new() };
        for growth in &request.topics {
            let planned = match names.remove(growth.name.as_str()) {
                None => continue,
                Some(1) => self.plan_growth(growth, partitions_max, &mut taken),
                Some(_) => Err(GrowthRefusal::Duplicate { name: excerpt(&growth.name) }),
            };
            let result = planned.map(|records| {
                if request.intent == Intent::Apply {
                    decision.records.extend(records);
                }
            });
            decision.reply.push(GrowthOutcome { name: growth.name.clone(), result });
        }
        decision
    }

    fn plan_growth(
        &self,
        growth: &TopicGrowth,
        partitions_max: usize,
        taken: &mut Taken,
    ) -> Result<Vec<MetadataRecord>, GrowthRefusal> {
        let unknown = || GrowthRefusal::UnknownTopic { name: excerpt(&growth.name) };
        let topic = self.topic(&growth.name).ok_or_else(unknown)?;
        let (asked, present) = (growth.partition_count, topic.partitions.len());
        let count = usize::try_from(asked)
            .ok()
            .filter(|asked| *asked <= PARTITIONS_PER_TOPIC_MAX)
            .and_then(|asked| asked.checked_sub(present))
            .filter(|count| *count > 0)
            .ok_or_else(|| {
                let maximum = partitions_max.min(PARTITIONS_PER_TOPIC_MAX);
                GrowthRefusal::Count { asked, present, maximum }
            })?;
        self.check_partition_count(count, partitions_max, taken)?;
        let replicas = self.place_growth(topic, count, growth.assignments.as_deref(), taken)?;
        taken.partition_count += count;
        let indexes = (0..).map(PartitionIndex).skip(present);
        let records =
            indexes.zip(replicas).map(|(index, replicas)| taken.deal(topic.id, index, replicas));
        Ok(records.collect())
    }

    /// The replicas of each new partition, the preferred leader first.
    fn place_growth(
        &self,
        topic: &Topic,
        count: usize,
        assignments: Option<&[Vec<NodeId>]>,
        taken: &Taken,
    ) -> Result<Vec<Vec<NodeId>>, GrowthRefusal> {
        let factor = topic.replication_factor();
        let Some(assignments) = assignments else {
            let spread =
                i32::try_from(factor).ok().and_then(|factor| self.spread(count, factor, taken));
            let nodes = self.nodes.len();
            return spread.ok_or(GrowthRefusal::ReplicationFactor { factor, nodes });
        };
        if assignments.len() != count {
            return Err(GrowthRefusal::AssignmentCount { assigned: assignments.len(), count });
        }
        let indexes = (0..).map(PartitionIndex).skip(topic.partitions.len());
        for (index, replicas) in indexes.zip(assignments) {
            self.check_replicas(index, replicas, factor)?;
        }
        Ok(assignments.to_vec())
    }
}

#[cfg(test)]
mod tests;
