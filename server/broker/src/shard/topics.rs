//! Changes of metadata, on their way to the coordinator.
//!
//! Owns the calls to the control executor. Nothing here decides; a coordinator that does not answer is an error like any other.

use std::rc::Rc;

use cluster::{
    AlterConfigs, AlterRefusal, CreateOutcome, CreatePartitions, DeleteOutcome, FeatureRefusal,
    GrowthOutcome, Intent, UpdateFeatures,
};

use crate::calls::{QuorumState, Reply, Request};
use crate::control::{Changed, TopicCreation, TopicDeletion, TopicToCreate};
use crate::drivers::metadata_log::MetadataLogError;
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Creates topics; on return every core of this node knows them. The request takes `memory` until then.
    pub(crate) async fn create_topics(
        &self,
        creation: TopicCreation,
        memory: Option<Rc<HeldMemory>>,
    ) -> Changed<CreateOutcome> {
        let control = self.caller.control();
        let request = Request::CreateTopics(creation);
        match self.caller.ask_with(control, request, memory).await {
            Ok(Reply::CreateTopics(changed)) => changed,
            Ok(Reply::Failed) => Err(MetadataLogError::Failed),
            Ok(_) | Err(_) => Err(MetadataLogError::Stopping),
        }
    }

    /// Deletes topics; on return no core of this node knows them. The request takes `memory` until then.
    pub(crate) async fn delete_topics(
        &self,
        deletion: TopicDeletion,
        memory: Option<Rc<HeldMemory>>,
    ) -> Changed<DeleteOutcome> {
        let control = self.caller.control();
        let request = Request::DeleteTopics(deletion);
        match self.caller.ask_with(control, request, memory).await {
            Ok(Reply::DeleteTopics(changed)) => changed,
            Ok(Reply::Failed) => Err(MetadataLogError::Failed),
            Ok(_) | Err(_) => Err(MetadataLogError::Stopping),
        }
    }

    /// Adds partitions; on return every core of this node knows and leads them. The request takes `memory` until then.
    pub(crate) async fn create_partitions(
        &self,
        growth: CreatePartitions,
        memory: Option<Rc<HeldMemory>>,
    ) -> Changed<GrowthOutcome> {
        let control = self.caller.control();
        let request = Request::CreatePartitions(growth);
        match self.caller.ask_with(control, request, memory).await {
            Ok(Reply::CreatePartitions(changed)) => changed,
            Ok(Reply::Failed) => Err(MetadataLogError::Failed),
            Ok(_) | Err(_) => Err(MetadataLogError::Stopping),
        }
    }

    /// Changes configurations; on return they hold on every core of this node. The request takes `memory` until then.
    pub(crate) async fn alter_configs(
        &self,
        alteration: AlterConfigs,
        memory: Option<Rc<HeldMemory>>,
    ) -> Changed<Result<(), AlterRefusal>> {
        let control = self.caller.control();
        let request = Request::AlterConfigs(alteration);
        match self.caller.ask_with(control, request, memory).await {
            Ok(Reply::AlterConfigs(changed)) => changed,
            Ok(Reply::Failed) => Err(MetadataLogError::Failed),
            Ok(_) | Err(_) => Err(MetadataLogError::Stopping),
        }
    }

    /// Settles on feature levels; on return every core of this node knows them.
    pub async fn update_features(
        &self,
        update: UpdateFeatures,
    ) -> Result<Result<(), FeatureRefusal>, MetadataLogError> {
        let control = self.caller.control();
        match self.caller.ask(control, Request::UpdateFeatures(update)).await {
            Ok(Reply::UpdateFeatures(updated)) => updated,
            Ok(Reply::Failed) => Err(MetadataLogError::Failed),
            Ok(_) | Err(_) => Err(MetadataLogError::Stopping),
        }
    }

    /// How far the metadata log is; `None` where the node is stopping.
    pub async fn quorum(&self) -> Option<QuorumState> {
        let control = self.caller.control();
        match self.caller.ask(control, Request::Quorum).await {
            Ok(Reply::Quorum(state)) => Some(state),
            Ok(_) | Err(_) => None,
        }
    }

    /// Creates topics with the default of everything; one that somebody else creates meanwhile is as good.
    pub(crate) async fn auto_create(&self, names: Vec<String>, memory: Option<Rc<HeldMemory>>) {
        let topics = names.into_iter().map(TopicToCreate::with_defaults).collect();
        let creation = TopicCreation { topics, intent: Intent::Apply };
        match self.create_topics(creation, memory).await {
            Ok(outcomes) => {
                for outcome in outcomes {
                    match outcome.result {
                        Ok(_) => tracing::info!(topic = outcome.name, "created on first use"),
                        Err(refusal) => tracing::debug!(%refusal, "not created on first use"),
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "topics not created on first use"),
        }
    }
}
