//! Files checked, one partition at a time.
//!
//! Owns what counts as wrong, over what `commitlog::scan` finds by itself: records that do not fit their batch, segments
//! that do not follow each other, snapshots and epochs that cannot be read.

use std::path::PathBuf;

use commitlog::scan::{IndexCheck, IndexKind, ScanItem, SegmentScan, read_file};
use commitlog::{Disk, DiskError, Executor};
use record::batch::TimestampType;
use record::{BatchHeader, BatchView, EpochTable, Offset, Records, Timestamp, decode_snapshot};

use super::files::{Partition, Segment};
use super::show::{BatchLine, Finding, Item, Totals, ZeroTail};
use crate::batch_records::BatchRecords;
use crate::exit::{Exit, Failure, Outcome};
use crate::progress::Progress;

/// The largest index that is read: Kafka's own bound is 10 MiB.
const INDEX_BYTES_MAX: usize = 64 << 20;
/// The largest snapshot or list of epochs that is read.
const SMALL_FILE_BYTES_MAX: usize = 256 << 20;

const UNREADABLE: &str = "reads of it answer CORRUPT_MESSAGE, everything else is served";
const REBUILT: &str = "it is made again from the log";

/// How far to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Headers and checksums.
    Headers,
    /// And the records in each batch, and the indexes beside it.
    Records,
}

/// Who gets what is found.
pub(super) trait Print: FnMut(&Item<'_>) -> Outcome {}
impl<F: FnMut(&Item<'_>) -> Outcome> Print for F {}

/// Checks the files below one root.
pub(super) struct Checker<D: Disk, E: Executor> {
    disk: D,
    executor: E,
    root: PathBuf,
    depth: Depth,
    progress: Progress,
    records: BatchRecords,
    totals: Totals,
}

impl<D: Disk, E: Executor> Checker<D, E> {
    /// A checker that has not begun.
    pub(super) fn new(
        disk: D,
        executor: E,
        root: PathBuf,
        depth: Depth,
        progress: Progress,
    ) -> Self {
        let (records, totals) = (BatchRecords::default(), Totals::default());
        Self { disk, executor, root, depth, progress, records, totals }
    }

    /// A path as people know it.
    pub(super) fn shown(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }

    /// What was read.
    pub(super) fn finish(self) -> Totals {
        self.progress.finish();
        self.totals
    }

    /// Everything of one partition.
    pub(super) async fn partition(
        &mut self,
        partition: &Partition,
        print: &mut impl Print,
    ) -> Outcome {
        let mut previous_end: Option<Offset> = None;
        for segment in &partition.segments {
            if let Some(end) = previous_end
                && end != segment.base
            {
                let problem = format!("starts at offset {}, expected {end}", segment.base);
                let consequence = if end < segment.base {
                    "the offsets between are missing"
                } else {
                    "the offsets between are there twice"
                };
                self.report(&segment.path, None, problem, consequence, print)?;
            }
            previous_end = Some(self.segment(segment, print).await?);
        }
        for path in &partition.snapshots {
            self.snapshot(path, print).await?;
        }
        if let Some(path) = &partition.epochs {
            let bytes = self.read(path, SMALL_FILE_BYTES_MAX).await?.unwrap_or_default();
            if let Err(error) = EpochTable::decode(&bytes) {
                self.report(path, None, error.to_string(), REBUILT, print)?;
            }
        }
        Ok(())
    }

    /// One segment, and its indexes where that was asked for; gives the offset behind it.
    pub(super) async fn segment(
        &mut self,
        segment: &Segment,
        print: &mut impl Print,
    ) -> Outcome<Offset> {
        let path = segment.path.as_str();
        let opened = SegmentScan::open(&self.disk, self.executor.clone(), path, segment.base).await;
        let mut scan = opened.map_err(|error| self.failed(path, &error))?;
        let mut index = self.index(segment).await?;
        let file = self.shown(path);
        self.totals.segments += 1;
        self.totals.bytes += scan.bytes();
        while let Some(item) = scan.next().await.map_err(|error| self.failed(path, &error))? {
            match item {
                ScanItem::Batch { position, header } => {
                    self.totals.batches += 1;
                    self.totals.records += u64::try_from(header.records_count).unwrap_or(0);
                    self.progress.add(header.total_bytes() as u64);
                    index.observe(position, &header);
                    print(&Item::Batch(&BatchLine::new(&file, position, &header)))?;
                    if self.depth == Depth::Records {
                        self.batch(&mut scan, path, position, &header, print).await?;
                    }
                }
                ScanItem::ZeroTail { position, bytes } => {
                    print(&Item::ZeroTail(&ZeroTail { file: &file, position, bytes }))?;
                }
                ScanItem::Damage { position, bytes, reason, from, to } => {
                    self.progress.add(bytes);
                    index.pass_over(position..position + bytes, from..to);
                    let problem = damage(&reason.to_string(), bytes, from, to);
                    self.report(path, Some(position), problem, UNREADABLE, print)?;
                }
            }
        }
        self.totals.index_entries += index.entry_counts().0 as u64;
        self.totals.index_entries += index.entry_counts().1 as u64;
        for (kind, finding) in index.finish() {
            let extension = match kind {
                IndexKind::Offset => "index",
                IndexKind::Time => "timeindex",
            };
            let path = segment.sibling(extension);
            self.report(&path, None, finding.to_string(), REBUILT, print)?;
        }
        Ok(scan.end_offset())
    }

    async fn index(&self, segment: &Segment) -> Outcome<IndexCheck> {
        if self.depth == Depth::Headers {
            return Ok(IndexCheck::new(segment.base, &[], &[]));
        }
        let offsets = self.read(&segment.sibling("index"), INDEX_BYTES_MAX).await?;
        let times = self.read(&segment.sibling("timeindex"), INDEX_BYTES_MAX).await?;
        let (offsets, times) = (offsets.unwrap_or_default(), times.unwrap_or_default());
        Ok(IndexCheck::new(segment.base, &offsets, &times))
    }

    /// The records of a batch whose checksum is right: what is wrong with them was wrong when they were sent.
    async fn batch(
        &mut self,
        scan: &mut SegmentScan<D, E>,
        path: &str,
        position: u64,
        header: &BatchHeader,
        print: &mut impl Print,
    ) -> Outcome {
        let bytes = scan.batch_bytes(position, header).await;
        let bytes = bytes.map_err(|error| self.failed(path, &error))?;
        let Err(problem) = check_records(&mut self.records, &bytes) else { return Ok(()) };
        let consequence = "consumers cannot read it";
        self.report(path, Some(position), problem, consequence, print)
    }

    async fn snapshot(&mut self, path: &str, print: &mut impl Print) -> Outcome {
        let bytes = self.read(path, SMALL_FILE_BYTES_MAX).await?.unwrap_or_default();
        self.totals.snapshots += 1;
        match decode_snapshot(&bytes) {
            Ok(_) => Ok(()),
            Err(error) => self.report(path, None, error.to_string(), REBUILT, print),
        }
    }

    async fn read(&self, path: &str, bytes_max: usize) -> Outcome<Option<Vec<u8>>> {
        let read = read_file(&self.disk, path, bytes_max).await;
        read.map_err(|error| self.failed(path, &error))
    }

    fn failed(&self, path: &str, error: &DiskError) -> Failure {
        Failure::new(Exit::Io, format!("{}: {error}", self.shown(path)))
    }

    fn report(
        &mut self,
        path: &str,
        position: Option<u64>,
        problem: String,
        consequence: &str,
        print: &mut impl Print,
    ) -> Outcome {
        self.totals.problems += 1;
        let consequence = consequence.to_owned();
        let finding = Finding { file: self.shown(path), position, problem, consequence };
        print(&Item::Finding(&finding))
    }
}

fn damage(reason: &str, bytes: u64, from: Offset, to: Offset) -> String {
    let extent = if bytes == 0 { String::new() } else { format!(", {bytes} bytes") };
    if from == to {
        return format!("{reason}{extent}");
    }
    format!("{reason}{extent}, offsets {from} to {}", to.0 - 1)
}

/// Whether every record is whole and where its header says: the first thing that is not.
fn check_records(records: &mut BatchRecords, bytes: &[u8]) -> Result<(), String> {
    let batch = BatchView::parse(bytes).map_err(|error| error.to_string())?;
    let header = batch.header();
    let plain = records.bytes_of(&batch)?;
    let mut last_delta = -1;
    let mut max_timestamp = Timestamp::NONE;
    for record in Records::new(header, &plain) {
        let record = record.map_err(|error| error.to_string())?;
        let delta = record.offset_delta;
        if delta <= last_delta || delta > header.last_offset_delta {
            return Err(format!("record offset delta {delta} after {last_delta}"));
        }
        last_delta = delta;
        max_timestamp = max_timestamp.max(record.timestamp(header));
    }
    let is_create_time = header.timestamp_type() == TimestampType::CreateTime;
    if is_create_time && header.records_count > 0 && max_timestamp != header.max_timestamp {
        let said = header.max_timestamp;
        return Err(format!("max timestamp {said}, its records have {max_timestamp}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
