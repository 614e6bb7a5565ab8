//! Changes of topics, on their way to the coordinator.
//!
//! Owns the calls to the control executor. Nothing here decides; a coordinator that does not answer is an error like any other.

use cluster::{CreateOutcome, DeleteOutcome, Intent};

use crate::calls::{Reply, Request};
use crate::control::{Changed, TopicCreation, TopicDeletion, TopicToCreate};
use crate::drivers::metadata_log::MetadataLogError;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Creates topics; on return every core of this node knows them.
    pub async fn create_topics(&self, creation: TopicCreation) -> Changed<CreateOutcome> {
        let control = self.caller.control();
        match self.caller.ask(control, Request::CreateTopics(creation)).await {
            Ok(Reply::CreateTopics(changed)) => changed,
            Ok(Reply::Failed) => Err(MetadataLogError::Failed),
            Ok(_) | Err(_) => Err(MetadataLogError::Stopping),
        }
    }

    /// Deletes topics; on return no core of this node knows them.
    pub async fn delete_topics(&self, deletion: TopicDeletion) -> Changed<DeleteOutcome> {
        let control = self.caller.control();
        match self.caller.ask(control, Request::DeleteTopics(deletion)).await {
            Ok(Reply::DeleteTopics(changed)) => changed,
            Ok(Reply::Failed) => Err(MetadataLogError::Failed),
            Ok(_) | Err(_) => Err(MetadataLogError::Stopping),
        }
    }

    /// Creates topics with the default of everything; one that somebody else creates meanwhile is as good.
    pub async fn auto_create(&self, names: Vec<String>) {
        let topics = names.into_iter().map(TopicToCreate::with_defaults).collect();
        match self.create_topics(TopicCreation { topics, intent: Intent::Create }).await {
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
