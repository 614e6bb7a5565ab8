//! The node's own options that may change while it runs.
//!
//! Owns their values as this core goes by them: what an image says, else what the node was started with. What topics fall back
//! on is not here: it travels with the topics' settings.

use cluster::Image;

use crate::mesh_call::Message;
use crate::node_state::NodeState;
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;

/// The values that hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeSettings {
    /// `max.connections`, or what open files allow. Connections above a lowered bound stay until they end.
    pub(super) connections_max: usize,
    /// `max.connections.per.ip`.
    pub(super) connections_per_address_max: usize,
    /// `producer.id.expiration.ms`.
    pub(super) producer_id_expiration_ms: i64,
}

impl NodeSettings {
    /// What holds by this image.
    pub(super) fn of(state: &NodeState, image: &Image) -> Self {
        let config = &state.config;
        let number = |key: &str| -> Option<i64> {
            image.broker_value(state.node_id, key, &state.broker_configs)?.parse().ok()
        };
        // What was set passed its check; a log written under other bounds falls back on what the node was started with.
        let count = |key: &str, started_with: u32| -> usize {
            let set = number(key).and_then(|count| usize::try_from(count).ok());
            set.unwrap_or(usize::try_from(started_with).unwrap_or(usize::MAX))
        };
        let connections_max = count("max.connections", config.connections_max);
        let per_address = count("max.connections.per.ip", config.connections_per_address_max);
        let expiration_ms = number("producer.id.expiration.ms").filter(|ms| *ms > 0);
        Self {
            connections_max: connections_max.min(state.connections_max),
            connections_per_address_max: per_address,
            producer_id_expiration_ms: expiration_ms.unwrap_or(config.producer_id_expiration_ms),
        }
    }
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Goes by the node's options as the image has them.
    pub(super) fn take_node_settings(&self) {
        let settings = NodeSettings::of(&self.state, &self.image.borrow());
        let before = self.settings.replace(settings);
        if before.producer_id_expiration_ms != settings.producer_id_expiration_ms {
            for driver in self.partitions.borrow().values() {
                driver.set_producer_expiration_ms(settings.producer_id_expiration_ms);
            }
        }
    }
}
