//! Who leads what a client asked for at the wrong place or under an old epoch (KIP-951): it need not ask Metadata for it.
//!
//! Owns the leader beside such an error and the list of brokers at the end of the answer; nothing is looked up where all is well.

use std::collections::BTreeMap;

use record::{NodeId, PartitionIndex};
use wire::ErrorCode;
use wire::common::{LeaderIdAndEpoch, NodeEndpoint};

use crate::handlers::Call;
use crate::handlers::metadata::broker_id;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::TopicRef;

/// The leaders that one answer names.
pub(super) struct Leaders<'c, P: Platform, M: Mesh<Message>> {
    call: &'c Call<P, M>,
    named: BTreeMap<NodeId, NodeEndpoint<'static>>,
}

impl<'c, P: Platform, M: Mesh<Message>> Leaders<'c, P, M> {
    /// None named yet.
    pub(super) fn new(call: &'c Call<P, M>) -> Self {
        Self { call, named: BTreeMap::new() }
    }

    /// What stands beside `error`: the leader where that is what the client must learn, else nothing.
    pub(super) fn beside(
        &mut self,
        error: ErrorCode,
        topic: TopicRef<'_>,
        index: PartitionIndex,
    ) -> LeaderIdAndEpoch {
        match error {
            ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch => {
                self.of(topic, index).unwrap_or_default()
            }
            _ => LeaderIdAndEpoch::default(),
        }
    }

    fn of(&mut self, topic: TopicRef<'_>, index: PartitionIndex) -> Option<LeaderIdAndEpoch> {
        let image = self.call.shard.image();
        let partition = topic.find(&image)?.partition(index)?;
        let leader_id = broker_id(self.call, &image, partition.leader, partition);
        let node = image.node(partition.leader)?;
        let reached = self.call.context.approach().to(node, partition.shard(node.shards))?;
        self.named.entry(leader_id).or_insert_with(|| NodeEndpoint {
            node_id: leader_id,
            host: reached.host.into(),
            port: reached.port.into(),
            rack: node.rack.as_ref().map(|rack| rack.to_string().into()),
        });
        Some(LeaderIdAndEpoch { leader_id, leader_epoch: partition.leader_epoch })
    }

    /// Where they are reached.
    pub(super) fn endpoints(self) -> Vec<NodeEndpoint<'static>> {
        self.named.into_values().collect()
    }
}
