//! Which partitions of this core move most.
//!
//! Owns the choice. It looks at every partition of the core, giving way to others in between, and describes those that it
//! chooses only.

use std::cmp::Reverse;

use crate::mesh_call::Message;
use crate::metrics::partitions::PartitionTraffic;
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// The `count_max` partitions of this core that moved most bytes of late, the busiest first.
    pub(super) async fn busiest_partitions(&self, count_max: usize) -> Vec<PartitionTraffic> {
        let drivers: Vec<_> = self.partitions.borrow().values().cloned().collect();
        let mut busiest = Vec::with_capacity(drivers.len());
        for driver in drivers {
            let counts = driver.traffic().counts();
            let rate = driver.traffic().rate(self.platform.monotonic());
            let total = counts.in_bytes.saturating_add(counts.out_bytes);
            busiest.push((Reverse((rate, total)), driver));
            self.platform.yield_if_needed().await;
        }
        busiest.sort_unstable_by_key(|(busy, driver)| (*busy, driver.partition()));
        let mut described = Vec::with_capacity(busiest.len().min(count_max));
        for (Reverse((rate, _)), driver) in busiest.into_iter().take(count_max) {
            let (counts, log) = (driver.traffic().counts(), driver.log());
            let ends = log.ends();
            let (topic, index) = driver.name().rsplit_once('-').unwrap_or((driver.name(), ""));
            described.push(PartitionTraffic {
                topic: topic.to_owned(),
                partition: index.to_owned(),
                core: self.index().0,
                rate,
                values: [
                    counts.in_bytes,
                    counts.in_batches,
                    log.size_bytes(),
                    counts.out_bytes,
                    counts.out_reads,
                    offset(ends.safe_end()),
                    offset(ends.log_start()),
                ],
            });
            self.platform.yield_if_needed().await;
        }
        described
    }
}

fn offset(offset: record::Offset) -> u64 {
    u64::try_from(offset.0).unwrap_or(0)
}
