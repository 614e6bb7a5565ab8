//! Changes of cluster metadata: decide, commit, apply, publish, answer.
//!
//! Owns the order of these five. A change that cannot be committed changes nothing and says so; one that is committed is known to
//! every core of this node before its answer leaves, so that a client's next request finds it (DESIGN section 8). The first three
//! are one turn: what is decided is decided against an image that holds all that is in the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::{
    AlterConfigs, AlterRefusal, BrokerConfigs, CreateDefaults, CreateOutcome, CreatePartitions,
    CreateTopics, Decision, DeleteOutcome, Deletion, FeatureRefusal, GrowthOutcome, Image, Intent,
    LeaderEpochs, MetadataRecord, NewTopic, NodeRegistration, ProducerIdBlock, TopicReference,
    UpdateFeatures,
};
use commitlog::{LogFailure, abort_on_panic};
use record::{NodeId, Offset, PartitionIndex, TopicId};

use crate::calls::{ImageChange, QuorumState, Request};
use crate::control::{Control, Readiness};
use crate::drivers::metadata_log::{MetadataLog, MetadataLogError};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// What the broker's configuration says about topics.
#[derive(Debug)]
pub(super) struct Defaults {
    /// What open counts become.
    pub create: CreateDefaults,
    /// Whether topics may be deleted.
    pub deletion: Deletion,
    /// Every option, as topics fall back on it.
    pub broker: Arc<BrokerConfigs>,
}

/// Topics to create.
#[derive(Debug, Clone)]
pub struct TopicCreation {
    /// Which.
    pub topics: Vec<TopicToCreate>,
    /// Whether to create them, or only to say what would happen.
    pub intent: Intent,
}

/// A topic to create; -1 leaves a count to the defaults.
#[derive(Debug, Clone)]
pub struct TopicToCreate {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partition_count: i32,
    /// How many replicas of each.
    pub replication_factor: i16,
    /// Replicas by partition, instead of both counts.
    pub assignments: Vec<(PartitionIndex, Vec<NodeId>)>,
    /// Configurations by name.
    pub configs: Vec<(String, Option<String>)>,
}

impl TopicToCreate {
    /// A topic with the default of everything.
    pub fn with_defaults(name: String) -> Self {
        Self {
            name,
            partition_count: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }
}

/// Topics to delete.
#[derive(Debug, Clone)]
pub struct TopicDeletion {
    /// Which: by name, by id; both or neither is refused.
    pub topics: Vec<(Option<String>, Option<TopicId>)>,
}

/// What became of a change: one outcome a topic, or why metadata cannot be changed at all.
pub type Changed<Outcome> = Result<Vec<Outcome>, MetadataLogError>;

impl<P: Platform, M: Mesh<Message>> Control<P, M> {
    pub(super) async fn create_topics(&self, creation: TopicCreation) -> Changed<CreateOutcome> {
        let topics = creation.topics.iter().map(|topic| NewTopic {
            name: &topic.name,
            id: TopicId(self.random_id()),
            partition_count: topic.partition_count,
            replication_factor: topic.replication_factor,
            assignments: topic.assignments.clone(),
            configs: topic
                .configs
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_deref()))
                .collect(),
        });
        let request = CreateTopics {
            topics: topics.collect(),
            intent: creation.intent,
            defaults: self.defaults.create,
            node: self.node_id,
        };
        self.change(|image| image.decide_create_topics(&request, &self.defaults.broker)).await
    }

    pub(super) async fn delete_topics(&self, deletion: TopicDeletion) -> Changed<DeleteOutcome> {
        let references = deletion.topics.iter().map(|topic| match topic {
            (Some(name), None) => TopicReference::Name(name),
            (None, Some(id)) => TopicReference::Id(*id),
            (Some(name), Some(id)) => TopicReference::Both(name, *id),
            (None, None) => TopicReference::Neither,
        });
        let references: Vec<_> = references.collect();
        self.change(|image| image.decide_delete_topics(&references, self.defaults.deletion)).await
    }

    pub(super) async fn create_partitions(
        &self,
        request: CreatePartitions,
    ) -> Changed<GrowthOutcome> {
        let maximum = self.defaults.create.partitions_max;
        self.change(|image| image.decide_create_partitions(&request, maximum)).await
    }

    pub(super) async fn alter_configs(
        &self,
        request: AlterConfigs,
    ) -> Changed<Result<(), AlterRefusal>> {
        self.change(|image| image.decide_alter_configs(&request, &self.defaults.broker)).await
    }

    pub(super) async fn update_features(
        &self,
        request: UpdateFeatures,
    ) -> Result<Result<(), FeatureRefusal>, MetadataLogError> {
        self.change(|image| image.decide_update_features(&request)).await
    }

    /// How far the metadata log is: a quorum of one, which this node leads.
    pub(super) fn quorum(&self) -> QuorumState {
        let log = self.log();
        QuorumState { term: log.term(), committed: log.committed(), end: log.end() }
    }

    /// A block of producer ids; `None` while none can be given. No topic changes, so the cores need no new image for it, and it
    /// waits for none of them.
    pub(super) async fn producer_ids(&self) -> Option<ProducerIdBlock> {
        let _turn = self.deciding.take().await;
        if self.changes_ended.is_raised() {
            return None;
        }
        let image = self.image();
        let decision = match abort_on_panic(|| image.decide_producer_ids(self.node_id)) {
            Ok(decision) => decision,
            Err(error) => {
                tracing::error!(%error, "no producer ids");
                return None;
            }
        };
        self.commit(&decision.records).await.ok()?;
        Some(decision.reply)
    }

    /// Takes this node's place in the cluster, before any core leads anything.
    pub(super) async fn take_place(
        &self,
        cluster_id: &Arc<str>,
        node: &NodeRegistration,
        epochs: LeaderEpochs,
    ) -> Result<(), String> {
        let _turn = self.deciding.take().await;
        let image = self.image();
        let decision = abort_on_panic(|| image.decide_register(cluster_id, node, epochs));
        let decision = decision.map_err(|refusal| refusal.to_string())?;
        self.commit(&decision.records).await.map_err(|error| error.to_string())?;
        if decision.reply > 0 {
            tracing::info!(partitions = decision.reply, "new leader epochs after an unclean stop");
        }
        Ok(())
    }

    /// Decides, commits and applies in one turn, then makes the change known to every core, while others may decide.
    async fn change<T>(
        &self,
        decide: impl FnOnce(&Image) -> Decision<T>,
    ) -> Result<T, MetadataLogError> {
        let turn = self.deciding.take().await;
        let image = self.image();
        let Decision { records, reply } = abort_on_panic(|| decide(&image));
        if records.is_empty() {
            return Ok(reply);
        }
        self.commit(&records).await?;
        let image = self.image();
        drop(turn);
        let changed = changed_topics(&image, &records);
        self.publish(image, changed).await;
        Ok(reply)
    }

    /// On return every core goes by that image, which is this executor's, or was.
    pub(super) async fn publish(&self, image: Arc<Image>, changed: Arc<[TopicId]>) {
        self.ask_all(|| {
            let (image, topics) = (Arc::clone(&image), Arc::clone(&changed));
            Request::Apply(ImageChange { image, topics })
        })
        .await;
    }

    /// Makes records durable, then applies them. Order: whoever calls it has the turn to decide.
    async fn commit(&self, records: &[MetadataRecord]) -> Result<(), MetadataLogError> {
        let values: Vec<Vec<u8>> = records.iter().map(MetadataRecord::encode).collect();
        let log = self.log();
        let first = match log.append(self.platform.now(), &values).await {
            Ok(first) => first,
            Err(error) => {
                match read_only_until(log.failure(), self.is_released.get()) {
                    Some(until) => {
                        tracing::error!(%error, "metadata is read-only until {until}");
                        self.readiness.set(Readiness::Degraded(error.to_string()));
                    }
                    None => tracing::warn!(%error, "a change of metadata was refused"),
                }
                return Err(error);
            }
        };
        let image = applied(&self.image(), first, records);
        *self.image.borrow_mut() = Arc::new(image);
        Ok(())
    }

    pub(super) fn random_id(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.platform.random(&mut bytes);
        bytes
    }
}

/// Until when nothing can be appended to a log that refused an append; `None` where it refused this one only.
fn read_only_until(failure: Option<LogFailure>, is_released: bool) -> Option<&'static str> {
    match failure {
        Some(failure) if failure.is_passing() => Some("there is room again"),
        _ if is_released => Some("there is room again"),
        Some(_) => Some("the node is restarted"),
        None => None,
    }
}

/// The image with these records, of which the first stands at `first`.
///
/// What was decided against an image applies to it. Anything else is a bug that the log already holds: the process ends, since
/// every later change would be decided against an image that is not the log's.
fn applied(image: &Image, first: Offset, records: &[MetadataRecord]) -> Image {
    abort_on_panic(|| {
        let mut image = image.clone();
        for (index, record) in (0..).zip(records) {
            let offset = first.checked_add(index).expect("offsets do not run out");
            image.apply(offset, record).expect("a decided record applies");
        }
        image
    })
}

/// Topics whose partitions or settings are others after these records: all of them where a node's options changed, since topics
/// fall back on those.
pub(super) fn changed_topics(image: &Image, records: &[MetadataRecord]) -> Arc<[TopicId]> {
    if records.iter().any(|record| matches!(record, MetadataRecord::NodeConfig { .. })) {
        return image.topics().map(|topic| topic.id).collect();
    }
    let changed: BTreeSet<TopicId> = records.iter().filter_map(MetadataRecord::topic_id).collect();
    changed.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_change_that_the_log_refuses_leaves_metadata_writable_unless_the_log_has_failed() {
        let until = |failure, is_released| read_only_until(failure, is_released);
        let (room, restart) = (Some("there is room again"), Some("the node is restarted"));
        assert_eq!(until(None, false), None, "too large, and nothing was appended");
        assert_eq!(until(Some(LogFailure::NoSpace), false), room);
        assert_eq!(until(None, true), room);
        assert_eq!(until(Some(LogFailure::Closed), false), restart);
    }

    const CHILD: &str = "CORELOG_CHANGES_CHILD";

    /// What ends the child that does `what`, with all panics caught that can be.
    fn signal_of_child(what: &str) -> Option<i32> {
        let test = "control::changes::tests::a_record_that_does_not_apply_ends_the_process";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(CHILD, what)
            .output()
            .unwrap();
        child.status.signal()
    }

    #[test]
    fn a_record_that_does_not_apply_ends_the_process() {
        match std::env::var(CHILD).as_deref() {
            Ok("apply") => {
                let unknown = [MetadataRecord::TopicRemove { id: TopicId([7; 16]) }];
                let image = Image::default();
                let first = image.next_offset();
                let _ = std::panic::catch_unwind(|| applied(&image, first, &unknown));
            }
            Ok(_) => {
                let _ = std::panic::catch_unwind(|| abort_on_panic(|| panic!("a bug")));
            }
            // With the simulator's mutants nothing aborts: there the oracles must see the panic.
            Err(_) if signal_of_child("panic").is_none() => {}
            // 6: SIGABRT.
            Err(_) => assert_eq!(signal_of_child("apply"), Some(6)),
        }
    }
}
