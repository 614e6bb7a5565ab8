//! Fresh producer ids (ID-7).
//!
//! Owns this core's share of the cluster-wide number line: blocks come from the coordinator, which never gives one twice, and an
//! id that was given out or lost with a crash is never given again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cluster::ProducerIdBlock;
use commitlog::TaskClass;
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
    /// Blocks that the coordinator could not give.
    refused: Cell<u64>,
    asked: Rc<Event>,
}

/// Ends the asking, however it ends.
struct Asking(Rc<ProducerIds>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.is_asking.set(false);
        self.0.asked.notify();
    }
}

impl ProducerIds {
    /// An id that nobody has; `None` while the coordinator cannot give any.
    pub(super) async fn next<P: Platform, M: Mesh<Message>>(
        self: &Rc<Self>,
        platform: &P,
        caller: &Caller<P, M>,
    ) -> Option<ProducerId> {
        let refused = self.refused.get();
        loop {
            if let Some(id) = self.block.borrow_mut().take() {
                return Some(id);
            }
            if self.refused.get() != refused {
                return None;
            }
            let asked = self.asked.listen();
            if !self.is_asking.replace(true) {
                let asking = ask(Asking(Rc::clone(self)), caller.clone());
                // A task of its own: a request may be left alone for as long as its client takes no answers.
                platform.spawn(TaskClass::Foreground, Box::pin(asking));
            }
            asked.await;
        }
    }
}

async fn ask<P: Platform, M: Mesh<Message>>(asking: Asking, caller: Caller<P, M>) {
    match caller.ask(caller.control(), Request::ProducerIds).await {
        Ok(Reply::ProducerIds(Some(block))) => *asking.0.block.borrow_mut() = block,
        Ok(_) | Err(_) => asking.0.refused.set(asking.0.refused.get() + 1),
    }
}
