//! Connections that do nothing beside those that do: what each costs the broker.
//!
//! Owns them from the opening to the end of the run, and the memory of the broker before and after.

use std::time::Duration;

use broker::Platform;

use crate::address::Address;
use crate::client::Connection;
use crate::error::LoadError;
use crate::process::Pulse;
use crate::result::IdleUse;

/// Memory is looked at so long after the last connection is open: the broker's own work on it is done by then.
const SETTLE: Duration = Duration::from_millis(200);

/// Connections that are open, and asked what the broker serves, and nothing more.
pub(super) struct Idle<P: Platform> {
    connections: Vec<Connection<P>>,
    before: Option<u64>,
    after: Option<u64>,
}

/// Opens so many, spread over the leaders.
pub(super) async fn open<P: Platform>(
    platform: &P,
    addresses: &[Address],
    (count, timeout): (u32, Duration),
    broker_pid: Option<u32>,
) -> Result<Option<Idle<P>>, LoadError> {
    if count == 0 {
        return Ok(None);
    }
    let rss_bytes = || Some(Pulse::of(broker_pid?)?.rss_bytes());
    let before = rss_bytes();
    let mut connections = Vec::with_capacity(count as usize);
    for (_, address) in (0..count).zip(addresses.iter().cycle()) {
        let mut connection = Connection::open(platform, address, timeout).await?;
        connection.slim();
        connections.push(connection);
    }
    platform.sleep(SETTLE).await;
    Ok(Some(Idle { connections, before, after: rss_bytes() }))
}

impl<P: Platform> Idle<P> {
    /// What they cost, and how many the broker has closed meanwhile.
    #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^53")]
    pub(super) fn conclude(&self) -> IdleUse {
        let lost = self.connections.iter().filter(|connection| connection.has_ended()).count();
        let count = self.connections.len();
        let grown = self.before.zip(self.after).map(|(before, after)| after.saturating_sub(before));
        IdleUse {
            connections: u32::try_from(count).unwrap_or(u32::MAX),
            lost: u32::try_from(lost).unwrap_or(u32::MAX),
            broker_rss_bytes_before: self.before,
            broker_rss_bytes_after: self.after,
            broker_bytes_per_connection: grown.map(|bytes| bytes as f64 / count as f64),
        }
    }
}
