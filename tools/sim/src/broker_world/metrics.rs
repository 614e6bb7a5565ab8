//! What the node says of itself on its page of metrics, as a scraper reads it.
//!
//! Owns the look at the page. Only figures that no client sees are taken from it, so that a run can tell whether what it was for
//! has happened at all; no property of a world rests on them.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::World;
use crate::platform::{SimMachine, SimSocket};
use crate::verdict::{Verdict, broken};

/// Where the admin server listens.
pub(super) const PORT: u16 = 9901;

/// Longer than a page takes on a node whose cores all go on.
const PATIENCE: Duration = Duration::from_secs(120);

/// A page of metrics.
pub(super) struct Page(String);

impl Page {
    /// Reads the page. Order: while no core stands still, and the disk is good.
    pub(super) async fn read(world: &Rc<World>, machine: &SimMachine) -> Verdict<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], PORT));
        let Some(socket) = machine.network().connect(address) else {
            return broken("a node that is ready listens", "no admin server does");
        };
        socket.send(b"GET /metrics HTTP/1.1\r\nhost: sim\r\n\r\n");
        let Some(text) = world.executor.within(PATIENCE, read_to_end(&socket)).await else {
            return broken("every request is answered", "a scrape waits");
        };
        if !text.starts_with("HTTP/1.1 200 ") {
            let head = text.lines().next().unwrap_or_default().to_owned();
            return broken("a node at rest answers", format!("a scrape: {head}"));
        }
        Ok(Self(text))
    }

    /// The value of a metric that has no labels; 0 where the page does not have it.
    pub(super) fn value(&self, name: &str) -> u64 {
        let mut values =
            self.0.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        values.next().and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

async fn read_to_end(socket: &SimSocket) -> String {
    let mut bytes = Vec::new();
    let mut next = [0];
    while socket.fill(&mut next).await {
        bytes.extend(next);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
