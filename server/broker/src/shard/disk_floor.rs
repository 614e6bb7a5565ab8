//! The disk floor: produce requests are refused while free space is low, so that everything else goes on.
//!
//! Owns what this core last saw of the free space, and the refusal. Fetches, deletions and metadata changes are never refused for it:
//! they are how space comes back, and the refusal ends by itself when it has.

use std::cell::Cell;
use std::time::Duration;

use commitlog::Disk;

use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::ProduceRefusal;
use crate::shard::Shard;

/// How often free space is asked for. At 3 GB/s a second takes 3 GB: the floor is a warning, not the last line (that is ENOSPC).
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What was last seen of the disk.
#[derive(Debug, Default)]
pub(super) struct DiskSpace {
    free_bytes: Cell<u64>,
    is_low: Cell<bool>,
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Whether produce requests are refused.
    pub(super) fn is_disk_low(&self) -> bool {
        self.disk_space.is_low.get()
    }

    /// Why they are.
    pub(super) fn refuse_for_disk(&self) -> ProduceRefusal {
        let (free, floor) = (self.disk_space.free_bytes.get(), self.state.disk_floor_bytes);
        let detail = format!("disk: {free} bytes free, disk.floor.bytes = {floor}");
        ProduceRefusal::Storage { detail }
    }

    /// Asks for the free space, and says so where it has passed the floor.
    pub(super) async fn look_at_disk_space(&self) {
        let (space, floor) = (&self.disk_space, self.state.disk_floor_bytes);
        if floor == 0 {
            return;
        }
        // A disk that cannot even say so will be heard of by its logs.
        let Ok(free) = self.platform.disk().free_bytes().await else { return };
        space.free_bytes.set(free);
        let is_low = free < floor;
        if space.is_low.replace(is_low) != is_low {
            self.metrics.disk_below_floor.set(u64::from(is_low));
            if is_low {
                tracing::error!(
                    free,
                    floor,
                    "disk below disk.floor.bytes: produce requests are refused"
                );
            } else {
                tracing::info!(
                    free,
                    floor,
                    "disk above disk.floor.bytes again: produce requests are taken"
                );
            }
        }
    }
}
