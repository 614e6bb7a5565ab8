//! The leader epochs below the scan: from their file, where the batches bear it out.
//!
//! Owns the trust in `leader-epoch-checkpoint`. Kafka's format has no checksum, and a batch's epoch lies outside its own: so
//! neither is believed where it passes what the metadata knows, and where they differ the batches decide. A table that said
//! too much would have every append refused as fenced, for ever.

use record::{EpochTable, LeaderEpoch, Offset};

use crate::disk::{
    BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, EntryKind, OpenMode, PathEntry,
};
use crate::error::{AtPath, OpenError};
use crate::executor::Executor;
use crate::files::{Suffix, segment_name};
use crate::index::{OFFSET_ENTRY_BYTES, SegmentIndex};
use crate::log::EPOCH_FILE;
use crate::recovery::{Listing, LogFile, Plan, Recovery, RecoveryReport};
use crate::small_file::{self, block_floor};
use crate::stream::FoundBatch;

/// An epoch file above this is damaged: 100,000 elections of one partition.
const EPOCH_FILE_BYTES_MAX: usize = 100_000 * 32;
/// From the last entry of an index the end of a segment is nearer than this; else the entry is not worth following.
const TAIL_BYTES_MAX: u64 = 4 << 20;

impl<D: Disk, E: Executor> Recovery<'_, D, E> {
    /// The epoch table as its file has it, or from the batches below the scan if the file is no use.
    pub(super) async fn load_epochs(
        &self,
        listing: &Listing,
        plan: &Plan,
        report: &mut RecoveryReport,
    ) -> Result<(EpochTable, bool), OpenError> {
        let path = small_file::join(self.directory, EPOCH_FILE);
        let nothing_before = plan.position == 0 && plan.first_scanned == 0;
        match self.read_epochs().await.at(&path)? {
            // No file says what an empty table says.
            None if nothing_before => return Ok((EpochTable::new(), false)),
            None => tracing::warn!(%path, "missing: rebuilding it from the log"),
            Some(bytes) => match EpochTable::decode(&bytes) {
                Ok(table) => return Ok((table, false)),
                Err(error) => tracing::warn!(%path, %error, "rebuilding it from the log"),
            },
        }
        report.epochs_rebuilt = true;
        Ok((self.epochs_of_batches(listing, plan, report).await?, true))
    }

    async fn read_epochs(&self) -> DiskResult<Option<Vec<u8>>> {
        let disk = &self.shared.disk;
        self.looked.read(disk, self.directory, EPOCH_FILE, EPOCH_FILE_BYTES_MAX).await
    }

    /// Rebuilds the table if the last batch below the scan speaks against it, or the metadata does. Says whether it changed.
    pub(super) async fn hold_epochs_against_batches(
        &self,
        listing: &Listing,
        plan: &Plan,
        last: Option<(Offset, LeaderEpoch)>,
        epochs: &mut EpochTable,
        report: &mut RecoveryReport,
    ) -> Result<bool, OpenError> {
        if report.epochs_rebuilt {
            return Ok(false);
        }
        let last = match last {
            Some(last) => Some(last),
            None => self.last_epoch_of_front(listing, plan).await?,
        };
        // A batch whose own epoch cannot be says nothing of the table.
        let last = last.filter(|(_, epoch)| self.is_credible(*epoch));
        // The table says nothing of what lies below the log start.
        let log_start = self.entry.map_or(Offset::ZERO, |entry| entry.log_start);
        let last = last.filter(|(offset, _)| log_start <= *offset);
        let agrees = last.is_none_or(|(offset, epoch)| epochs.epoch_at(offset) == Some(epoch));
        if agrees && epochs.latest().is_none_or(|latest| self.is_credible(latest)) {
            return Ok(false);
        }
        let rebuilt = self.epochs_of_batches(listing, plan, report).await?;
        if rebuilt == *epochs {
            return Ok(false);
        }
        tracing::warn!(
            log = %self.identity, file = ?epochs.entries().last(), batches = ?rebuilt.entries().last(),
            newest = %self.newest_epoch, "leader epochs differ from the batches: rebuilt from the log"
        );
        *epochs = rebuilt;
        report.epochs_rebuilt = true;
        Ok(true)
    }

    /// Whether a batch can have been written under that epoch.
    pub(super) fn is_credible(&self, epoch: LeaderEpoch) -> bool {
        (LeaderEpoch(0)..=self.newest_epoch).contains(&epoch)
    }

    async fn epochs_of_batches(
        &self,
        listing: &Listing,
        plan: &Plan,
        report: &mut RecoveryReport,
    ) -> Result<EpochTable, OpenError> {
        let mut table = EpochTable::new();
        self.walk_front(listing, plan, Offset::ZERO, report, &mut Vec::new(), |header| {
            if self.is_credible(header.partition_leader_epoch) {
                table.assign(header.partition_leader_epoch, header.base_offset);
            }
        })
        .await?;
        if let Some(entry) = self.entry {
            table.truncate_head(entry.log_start);
        }
        Ok(table)
    }

    /// The last batch below the scan, where the last entry of an index leads to it.
    async fn last_epoch_of_front(
        &self,
        listing: &Listing,
        plan: &Plan,
    ) -> Result<Option<(Offset, LeaderEpoch)>, OpenError> {
        let index = if plan.position > 0 {
            Some(plan.first_scanned)
        } else {
            plan.first_scanned.checked_sub(1)
        };
        let Some(log) = index.and_then(|index| listing.logs.get(index)) else { return Ok(None) };
        let limit = if plan.position > 0 { plan.position } else { log.bytes };
        let path = self.log_path(log.base);
        let entry = self.last_index_entry(*log).await.at(&path)?.unwrap_or((log.base, 0));
        let (_, mut position) = entry;
        if position >= limit || limit - position > TAIL_BYTES_MAX {
            return Ok(None);
        }
        let mut stream = self.stream(log.base, position, limit).await?;
        let mut last = None;
        while let FoundBatch::Batch(header) =
            stream.find(&self.shared.executor, position).await.at(&path)?
        {
            position += header.total_bytes() as u64;
            last = Some((header.base_offset, header.partition_leader_epoch));
        }
        Ok(last.filter(|_| position == limit))
    }

    /// What the last entry of a segment's index says; only the block that holds it is read.
    async fn last_index_entry(&self, log: LogFile) -> DiskResult<Option<(Offset, u64)>> {
        let name = segment_name(log.base, Suffix::Index);
        let size = match self.looked.entries.iter().find(|entry| entry.name == name) {
            Some(PathEntry { kind: EntryKind::File { bytes }, .. }) => *bytes,
            _ => 0,
        };
        let Some(last) = (size / OFFSET_ENTRY_BYTES as u64).checked_sub(1) else {
            return Ok(None);
        };
        let at = last * OFFSET_ENTRY_BYTES as u64;
        if let Some((start, bytes)) = self.looked.piece(&name, at, at + OFFSET_ENTRY_BYTES as u64) {
            return Ok(index_entry(log.base, bytes, at - start));
        }
        let path = small_file::join(self.directory, &name);
        let file = match self.shared.disk.open(&path, OpenMode::Read).await {
            Ok(file) => file,
            Err(DiskError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let block = file.read_at_aligned(block_floor(at), BLOCK_BYTES).await?;
        Ok(index_entry(log.base, &block, at - block_floor(at)))
    }
}

/// The entry of an index that lies at `at` in these bytes of it.
fn index_entry(base: Offset, bytes: &[u8], at: u64) -> Option<(Offset, u64)> {
    let from = usize::try_from(at).unwrap_or(usize::MAX);
    let entry = bytes.get(from..from.saturating_add(OFFSET_ENTRY_BYTES)).unwrap_or_default();
    let index = SegmentIndex::decode_unchecked(base, entry, &[]);
    let entry = index.offsets().first()?;
    Some((index.absolute(entry.relative_last_offset), u64::from(entry.position)))
}
