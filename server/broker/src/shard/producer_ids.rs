//! Fresh producer ids (ID-7).
//!
//! Owns this core's share of the cluster-wide number line: blocks come from the coordinator, which never gives one twice, and an
//! id that was given out or lost with a crash is never given again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cluster::ProducerIdBlock;
use record::ProducerId;

use crate::calls::{Reply, Request};
use crate::mesh_call::{Caller, Message};
use crate::platform::{Mesh, Platform};
use crate::sync::Event;

/// What is left of the newest block.
#[derive(Debug, Default)]
pub(super) struct ProducerIds {
    block: RefCell<ProducerIdBlock>,
    /// Somebody asks for the next one. A thousand producers that connect at once wait for one block, not each for its own.
    is_asking: Cell<bool>,
    asked: Rc<Event>,
}

/// Ends the asking, also where it is given up.
struct Asking<'a>(&'a ProducerIds);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.is_asking.set(false);
        self.0.asked.notify();
    }
}

impl ProducerIds {
    /// An id that nobody has; `None` while the coordinator cannot give any.
    pub(super) async fn next<P: Platform, M: Mesh<Message>>(
        &self,
        caller: &Caller<P, M>,
    ) -> Option<ProducerId> {
        loop {
            if let Some(id) = self.block.borrow_mut().take() {
                return Some(id);
            }
            if !self.is_asking.replace(true) {
                break;
            }
            self.asked.listen().await;
        }
        let _asking = Asking(self);
        match caller.ask(caller.control(), Request::ProducerIds).await {
            Ok(Reply::ProducerIds(Some(block))) => *self.block.borrow_mut() = block,
            Ok(_) | Err(_) => return None,
        }
        self.block.borrow_mut().take()
    }
}
