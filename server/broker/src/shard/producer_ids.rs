//! Fresh producer ids (ID-7).
//!
//! Owns this core's share of the cluster-wide number line: blocks come from the coordinator, which never gives one twice, and an
//! id that was given out or lost with a crash is never given again.

use std::cell::RefCell;

use cluster::ProducerIdBlock;
use record::ProducerId;

use crate::calls::{Reply, Request};
use crate::mesh_call::{Caller, Message};
use crate::platform::{Mesh, Platform};

/// What is left of the newest block.
#[derive(Debug, Default)]
pub(super) struct ProducerIds(RefCell<ProducerIdBlock>);

impl ProducerIds {
    /// An id that nobody has; `None` while the coordinator cannot give any.
    pub(super) async fn next<P: Platform, M: Mesh<Message>>(
        &self,
        caller: &Caller<P, M>,
    ) -> Option<ProducerId> {
        if let Some(id) = self.0.borrow_mut().take() {
            return Some(id);
        }
        // Two tasks may both ask: the block that is overwritten is lost, which is what blocks are for.
        match caller.ask(caller.control(), Request::ProducerIds).await {
            Ok(Reply::ProducerIds(Some(block))) => *self.0.borrow_mut() = block,
            Ok(_) | Err(_) => return None,
        }
        self.0.borrow_mut().take()
    }
}
