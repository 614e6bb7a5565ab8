//! The scan above the checkpoint.
//!
//! Owns the rule where a log ends: after the last batch that is whole, right, and next in order.

use record::{BatchHeader, EpochTable, Offset, ProducerBatch, Timestamp};

use crate::disk::Disk;
use crate::error::{AtPath, OpenError};
use crate::executor::Executor;
use crate::group::GroupEnd;
use crate::index::{IndexBuilder, MaxTimestamp};
use crate::log::{Memory, Segment};
use crate::mutant::Rule;
use crate::recovery::{CutReason, Listing, LogFile, Plan, Recovery, RecoveryReport};
use crate::small_file::block_ceiling;
use crate::stream::{BadBatch, FoundBatch};

/// What the scan found.
pub(super) struct Scanned {
    pub(super) segments: Vec<Segment>,
    pub(super) end: GroupEnd,
    /// Why it ended where it did; `None` at the end of the last file.
    pub(super) reason: Option<CutReason>,
    /// Bases of segments whose last batch only zeros follow.
    pub(super) zero_tails: Vec<Offset>,
    pub(super) epochs_changed: bool,
}

/// Where one segment's scan begins.
struct From {
    position: u64,
    offset: Offset,
    max: Option<MaxTimestamp>,
    first_timestamp: Timestamp,
}

/// One segment, scanned.
struct One {
    segment: Segment,
    reason: Option<CutReason>,
    epochs_changed: bool,
}

impl<D: Disk, E: Executor> Recovery<'_, D, E> {
    /// Checks every batch from the plan's position on, and shows the fold those from `fold_from` on.
    pub(super) async fn scan(
        &self,
        listing: &Listing,
        plan: &Plan,
        fold_from: Offset,
        epochs: &mut EpochTable,
        report: &mut RecoveryReport,
    ) -> Result<Scanned, OpenError> {
        let mut scanned = Scanned {
            segments: Vec::new(),
            end: GroupEnd {
                segment: plan.offset,
                position: 0,
                offset: plan.offset,
                max: None,
                total_bytes: 0,
            },
            reason: None,
            zero_tails: Vec::new(),
            epochs_changed: false,
        };
        for (index, log) in listing.logs.iter().enumerate().skip(plan.first_scanned) {
            let is_first = scanned.segments.is_empty();
            let follows = log.base == scanned.end.offset || (is_first && plan.position > 0);
            if !follows {
                let bad = BadBatch::Offset { found: log.base, expected: scanned.end.offset };
                scanned.reason = Some(CutReason::Bad(bad));
                break;
            }
            let from = From {
                position: if is_first { plan.position } else { 0 },
                offset: if is_first { plan.offset } else { log.base },
                max: if is_first { plan.max } else { None },
                first_timestamp: if is_first { plan.first_timestamp } else { Timestamp::NONE },
            };
            let one = self.scan_one(*log, from, (plan.is_clean, fold_from), epochs, report).await?;
            scanned.end = GroupEnd {
                segment: log.base,
                position: one.segment.bytes,
                offset: one.segment.end,
                max: one.segment.max_known(),
                total_bytes: 0,
            };
            scanned.epochs_changed |= one.epochs_changed;
            if one.reason == Some(CutReason::ZeroTail) {
                scanned.zero_tails.push(log.base);
            }
            // A segment that was rolled and not yet sealed ends in zeros as well; the next one says that it is whole.
            let next = listing.logs.get(index + 1).map(|next| next.base);
            let is_rolled =
                one.reason == Some(CutReason::ZeroTail) && next == Some(one.segment.end);
            scanned.reason = one.reason.filter(|_| !is_rolled);
            scanned.segments.push(one.segment);
            if scanned.reason.is_some() {
                break;
            }
        }
        if scanned.segments.is_empty() {
            // The checkpoint stands at the start of a segment that has no file, or one that does not follow.
            scanned.segments.push(Segment::fresh(plan.offset, self.now));
        }
        Ok(scanned)
    }

    async fn scan_one(
        &self,
        log: LogFile,
        from: From,
        (is_clean, fold_from): (bool, Offset),
        epochs: &mut EpochTable,
        report: &mut RecoveryReport,
    ) -> Result<One, OpenError> {
        let mut builder = IndexBuilder::new(log.base, from.max);
        let (mut position, mut offset) = (from.position, from.offset);
        let mut first_timestamp = from.first_timestamp;
        let mut epochs_changed = false;
        let mut reason = None;
        if !is_clean {
            let path = self.log_path(log.base);
            let mut stream = self.stream(log.base, position, log.bytes).await?;
            loop {
                let found = stream.find(&self.shared.executor, position).await.at(&path)?;
                let header = match in_order(found, offset) {
                    Ok(Some(header)) => header,
                    Ok(None) => break,
                    Err(cut) => {
                        reason = Some(cut);
                        break;
                    }
                };
                if position == 0 {
                    first_timestamp = header.max_timestamp;
                }
                builder.observe(&header, position, self.options.index_interval_bytes);
                if self.is_credible(header.partition_leader_epoch) {
                    epochs_changed |= epochs.assign(header.partition_leader_epoch, offset);
                }
                if header.base_offset >= fold_from {
                    self.fold.borrow_mut().apply(&ProducerBatch::from(&header));
                }
                position += header.total_bytes() as u64;
                offset = header.next_offset();
            }
            report.bytes_read += stream.bytes_read();
        }
        if self.shared.mutant.lacks(Rule::AppendAfterGap) && reason == Some(CutReason::ZeroTail) {
            position = block_ceiling(position);
        }
        let memory = Memory { from_position: from.position, from_offset: from.offset, builder };
        let segment = Segment {
            end: offset,
            bytes: position,
            has_file: true,
            is_named: true,
            first_timestamp,
            memory: Some(Box::new(memory)),
            ..Segment::fresh(log.base, self.now)
        };
        Ok(One { segment, reason, epochs_changed })
    }
}

/// The batch if it is the next one; `None` at the end; else why the log ends here.
fn in_order(found: FoundBatch, expected: Offset) -> Result<Option<BatchHeader>, CutReason> {
    match found {
        FoundBatch::End => Ok(None),
        FoundBatch::ZeroTail => Err(CutReason::ZeroTail),
        FoundBatch::Bad(bad) => Err(CutReason::Bad(bad)),
        FoundBatch::Batch(header) if header.base_offset == expected => Ok(Some(header)),
        FoundBatch::Batch(header) => {
            Err(CutReason::Bad(BadBatch::Offset { found: header.base_offset, expected }))
        }
    }
}
