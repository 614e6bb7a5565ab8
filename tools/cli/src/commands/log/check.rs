//! Files checked, one partition at a time.
//!
//! Owns what counts as wrong, over what `commitlog::scan` finds by itself: records that do not fit their batch, segments
//! that do not follow each other or end before their checkpoint, snapshots and epochs that the batches do not bear out. What
//! lies above the checkpoint is for the next start to judge: a note, not a problem. Nor is what a running node removes and
//! replaces meanwhile.

use std::ops::Range;
use std::path::PathBuf;

use commitlog::scan::{IndexCheck, IndexFinding, IndexKind, ScanItem, SegmentScan, read_file};
use commitlog::{Disk, DiskError, Executor};
use record::batch::TimestampType;
use record::{
    BatchHeader, BatchView, EpochTable, Offset, ProducerSnapshotEntry, Records, Timestamp,
    decode_snapshot,
};

use super::files::{PartOf, Partition, Segment};
use super::ground::Ground;
use super::show::{BatchLine, Finding, Item, Severity, Totals, ZeroTail};
use super::standing::Standing;
use crate::batch_records::BatchRecords;
use crate::exit::{Exit, Failure, Outcome};
use crate::progress::Progress;

/// The largest index that is read: Kafka's own bound is 10 MiB.
const INDEX_BYTES_MAX: usize = 64 << 20;
/// The largest snapshot or list of epochs that is read.
const SMALL_FILE_BYTES_MAX: usize = 256 << 20;

const UNREADABLE: &str = "reads of it answer CORRUPT_MESSAGE, everything else is served";
const REBUILT: &str = "it is made again from the log";
pub(super) const LOST: &str = "they were acknowledged and come back only from a copy";
const CUT: &str = "above its checkpoint: a tail that the next start cuts";
const REWRITTEN: &str = "above its checkpoint: the next start writes it again from the journal";
const CUT_UNKNOWN: &str = "for want of a checkpoint the next start cuts its log here";
const SET_ASIDE: &str = "above its checkpoint: the next start moves it to stray/";
const RUNNING: &str = "a node runs here and may be writing it";
const REMOVED: &str = "the node that runs here removed it";

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
    pub(super) disk: D,
    pub(super) executor: E,
    root: PathBuf,
    pub(super) ground: Ground,
    depth: Depth,
    progress: Progress,
    records: BatchRecords,
    totals: Totals,
}

impl<D: Disk, E: Executor> Checker<D, E> {
    /// A checker that has not begun.
    pub(super) fn new(disk: D, executor: E, root: PathBuf, ground: Ground, depth: Depth) -> Self {
        let (records, totals) = (BatchRecords::default(), Totals::default());
        let progress = Progress::hidden();
        Self { disk, executor, root, ground, depth, progress, records, totals }
    }

    /// The same, saying how far it has come of so many bytes.
    pub(super) fn of_bytes(mut self, bytes: u64) -> Self {
        self.progress = Progress::new(Some(bytes));
        self
    }

    /// Runs `print`, which writes to the terminal that the progress may be on.
    pub(super) fn beside_progress<T>(&self, print: impl FnOnce() -> T) -> T {
        self.progress.beside(print)
    }

    /// Where a partition stands before its first segment.
    pub(super) async fn standing(&self, partition: &Partition) -> Outcome<Standing> {
        let entry = self.ground.entry(&self.disk, &self.root, partition).await?;
        let mut standing = Standing::new(entry, self.ground.is_known());
        let mut place = self.root.join(&partition.directory);
        // A partition may be named as "." too.
        if partition.directory.is_empty() {
            place = std::fs::canonicalize(&place).unwrap_or(place);
        }
        let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        for waiting in self.ground.waiting(name) {
            let (from, end) = ((waiting.segment, waiting.position), waiting.end_offset);
            let before = standing.waiting.unwrap_or((from, end));
            standing.waiting = Some((from.min(before.0), end.max(before.1)));
        }
        Ok(standing)
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
        for (path, found) in &partition.misplaced {
            let finding = self.finding(path, None, format!("{found}, where a file belongs"));
            self.report(finding, "the node cannot use it; put the file back", print)?;
        }
        let mut standing = self.standing(partition).await?;
        standing.epochs = self.epochs(partition, print).await?;
        standing.snapshots = partition.snapshots.iter().cloned().collect();
        if partition.is_whole
            && let Some(problem) = standing.missing_front(partition.segments.first())
        {
            // Retention may have taken them since the checkpoint.
            let finding = self.finding(&partition.directory, None, problem);
            self.report_unless_running(finding, LOST, print)?;
        }
        let mut previous_end: Option<Offset> = None;
        let mut reached = Offset::ZERO;
        for segment in &partition.segments {
            let is_above = standing.is_above(segment.base, 0);
            if let Some(end) = previous_end
                && end != segment.base
                && !standing.is_cut
            {
                self.gap(segment, end, is_above, print)?;
                standing.derived.passes_over();
                standing.is_cut |= is_above;
            }
            if standing.is_cut && is_above {
                let problem = "behind the end of the log".to_owned();
                let finding = self.finding(&segment.path, None, problem);
                self.note(finding, SET_ASIDE, print)?;
                continue;
            }
            previous_end = self.segment(segment, &mut standing, print).await?;
            let Some(end) = previous_end else { continue };
            if standing.entry.is_none_or(|entry| segment.base <= entry.segment) {
                reached = end;
            }
        }
        if partition.is_whole
            && let Some(problem) = standing.missing_back(partition, reached)
        {
            let finding = self.finding(&partition.directory, None, problem);
            self.report_unless_running(finding, LOST, print)?;
        }
        let end = previous_end.or(standing.entry.map(|entry| entry.end));
        self.snapshots_up_to(&mut standing, end, None, print).await?;
        self.copies(partition, print).await
    }

    /// The pieces that a recovery has kept: each for itself, since nothing says what they follow.
    pub(super) async fn copies(
        &mut self,
        partition: &Partition,
        print: &mut impl Print,
    ) -> Outcome {
        for copy in &partition.copies {
            self.segment(copy, &mut Standing::default(), print).await?;
        }
        Ok(())
    }

    fn gap(
        &mut self,
        segment: &Segment,
        end: Offset,
        is_above: bool,
        print: &mut impl Print,
    ) -> Outcome {
        let problem = format!("starts at offset {}, expected {end}", segment.base);
        let finding = self.finding(&segment.path, None, problem);
        match (is_above, end < segment.base) {
            (true, _) => self.note(finding, SET_ASIDE, print),
            (false, true) => self.report(finding, "the offsets between are missing", print),
            (false, false) => self.report(finding, "the offsets between are there twice", print),
        }
    }

    async fn epochs(
        &mut self,
        partition: &Partition,
        print: &mut impl Print,
    ) -> Outcome<Option<(String, EpochTable)>> {
        let Some(path) = &partition.epochs else { return Ok(None) };
        let Some(decoded) = self.decoded(path, EpochTable::decode).await? else { return Ok(None) };
        match decoded {
            Ok(table) => Ok(Some((path.clone(), table))),
            Err(error) => {
                let finding = self.finding(path, None, error.to_string());
                self.report(finding, REBUILT, print)?;
                Ok(None)
            }
        }
    }

    /// One segment, and its indexes where that was asked for; gives the offset behind it, and nothing of one that a running
    /// node has removed.
    pub(super) async fn segment(
        &mut self,
        segment: &Segment,
        standing: &mut Standing,
        print: &mut impl Print,
    ) -> Outcome<Option<Offset>> {
        let path = segment.path.as_str();
        // Indexes first: what a node writes of a segment meanwhile would speak of batches that are not seen here.
        let mut index = self.index(segment).await?;
        let Some(mut scan) = self.open(segment).await? else {
            standing.skip(segment.base);
            let problem = "gone since the directory was listed".to_owned();
            let finding = self.finding(path, None, problem);
            self.remark(finding, REMOVED, print)?;
            return Ok(None);
        };
        let file = self.shown(path);
        self.totals.segments += 1;
        self.totals.bytes += scan.bytes();
        let mut filled = scan.bytes();
        while let Some(item) = scan.next().await.map_err(|error| self.failed(path, &error))? {
            match item {
                ScanItem::Batch { position, header } => {
                    index.observe(position, &header);
                    print(&Item::Batch(&BatchLine::new(&file, position, &header)))?;
                    if self.depth == Depth::Records {
                        self.batch(&mut scan, path, position, &header, print).await?;
                    }
                    self.arrive(segment, position, &header, standing, print).await?;
                }
                ScanItem::ZeroTail { position, bytes } => {
                    filled = position;
                    print(&Item::ZeroTail(&ZeroTail { file: &file, position, bytes }))?;
                }
                ScanItem::Damage { position, bytes, reason, from, to } => {
                    index.pass_over(position..position + bytes, from..to);
                    let problem = damage(&reason.to_string(), bytes, from, to);
                    let finding = self.finding(path, Some(position), problem);
                    self.damaged(segment, position..position + bytes, finding, standing, print)?;
                }
            }
        }
        if let Some(problem) = standing.leave(segment.base, filled, scan.end_offset()) {
            let finding = self.finding(path, None, problem);
            self.report(finding, LOST, print)?;
        }
        self.totals.index_entries += index.entry_counts().0 as u64;
        self.totals.index_entries += index.entry_counts().1 as u64;
        let mut findings = index.finish();
        if !findings.is_empty() && self.is_running() {
            findings = self.index_again(segment).await?;
        }
        for (kind, finding) in findings {
            let extension = match kind {
                IndexKind::Offset => "index",
                IndexKind::Time => "timeindex",
            };
            let path = segment.sibling(extension);
            let finding = self.finding(&path, None, finding.to_string());
            self.report(finding, REBUILT, print)?;
        }
        Ok(Some(scan.end_offset()))
    }

    /// A segment at its first batch; `None` where a running node has removed it.
    pub(super) async fn open(&self, segment: &Segment) -> Outcome<Option<SegmentScan<D, E>>> {
        let (path, executor) = (segment.path.as_str(), self.executor.clone());
        let opened = match segment.part_of {
            PartOf::Log => SegmentScan::open(&self.disk, executor, path, segment.base).await,
            PartOf::Copy { start } => {
                SegmentScan::open_copy(&self.disk, executor, path, start).await
            }
        };
        match opened {
            Ok(scan) => Ok(Some(scan)),
            Err(DiskError::NotFound) if self.is_running() => Ok(None),
            Err(error) => Err(self.failed(path, &error)),
        }
    }

    /// What is wrong with the indexes of a segment at a second look: a running node may have replaced them during the first.
    async fn index_again(&self, segment: &Segment) -> Outcome<Vec<(IndexKind, IndexFinding)>> {
        let path = segment.path.as_str();
        let mut index = self.index(segment).await?;
        let Some(mut scan) = self.open(segment).await? else { return Ok(Vec::new()) };
        while let Some(item) = scan.next().await.map_err(|error| self.failed(path, &error))? {
            match item {
                ScanItem::Batch { position, header } => index.observe(position, &header),
                ScanItem::Damage { position, bytes, from, to, .. } => {
                    index.pass_over(position..position + bytes, from..to);
                }
                ScanItem::ZeroTail { .. } => {}
            }
        }
        Ok(index.finish())
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
        let finding = self.finding(path, Some(position), problem);
        self.report(finding, "consumers cannot read it", print)
    }

    /// What follows from a batch, against what the files beside it and the checkpoint say.
    async fn arrive(
        &mut self,
        segment: &Segment,
        position: u64,
        header: &BatchHeader,
        standing: &mut Standing,
        print: &mut impl Print,
    ) -> Outcome {
        self.totals.batches += 1;
        self.totals.records += u64::try_from(header.records_count).unwrap_or(0);
        self.progress.add(header.total_bytes() as u64);
        if let Some((path, problem)) = standing.epoch_difference(segment.base, position, header) {
            let finding = self.finding(&path, None, problem);
            // A node moves the log start on and cuts the file there before a checkpoint says so.
            let consequence = "one of the two is wrong, and replicas ask for it";
            self.report_unless_running(finding, consequence, print)?;
        }
        let inside = Some(header.next_offset());
        self.snapshots_up_to(standing, Some(header.base_offset), inside, print).await?;
        standing.derived.observe(header);
        let end = position + header.total_bytes() as u64;
        if let Some(problem) = standing.arrive(segment.base, end, header.next_offset()) {
            let finding = self.finding(&segment.path, Some(position), problem);
            self.report(finding, LOST, print)?;
        }
        Ok(())
    }

    /// Bytes that are no batch: damage below the checkpoint, a tail above it.
    fn damaged(
        &mut self,
        segment: &Segment,
        positions: Range<u64>,
        finding: Finding,
        standing: &mut Standing,
        print: &mut impl Print,
    ) -> Outcome {
        self.progress.add(positions.end - positions.start);
        standing.derived.passes_over();
        if !standing.is_above(segment.base, positions.start) {
            standing.pass(segment.base, positions.end);
            return self.report(finding, UNREADABLE, print);
        }
        if standing.is_cut {
            return Ok(());
        }
        standing.is_cut = true;
        if standing.is_in_journal(segment.base, positions.start) {
            return self.note(finding, REWRITTEN, print);
        }
        if standing.entry.is_none() && !self.ground.knows_all() {
            return self.report_unless_running(finding, CUT_UNKNOWN, print);
        }
        self.note(finding, CUT, print)
    }

    /// Checks the snapshots that stand at or before `end`; what is between it and `inside` stands within a batch. Without
    /// `inside`, the log ends there.
    async fn snapshots_up_to(
        &mut self,
        standing: &mut Standing,
        end: Option<Offset>,
        inside: Option<Offset>,
        print: &mut impl Print,
    ) -> Outcome {
        while let Some((at, path)) = standing.snapshots.front().cloned() {
            if inside.is_some_and(|inside| at >= inside) {
                break;
            }
            standing.snapshots.pop_front();
            let Some(entries) = self.snapshot(&path, print).await? else { continue };
            let is_of_journal = inside.is_none()
                && end.is_none_or(|end| at > end)
                && standing.waiting.is_some_and(|(_, end)| at <= end);
            if is_of_journal {
                // The batches before it are in a journal, and its start is not after them.
                continue;
            }
            if end.is_none_or(|end| at > end) {
                let place = if inside.is_some() { "within a batch" } else { "past the end" };
                let finding = self.finding(&path, None, format!("stands at offset {at}, {place}"));
                // A start removes what stands past the end, and believes what does not.
                match inside {
                    None => self.note(finding, "the next start removes it", print)?,
                    Some(_) => self.report(finding, REBUILT, print)?,
                }
            } else if let Some(problem) = standing.derived.difference(at, &entries) {
                let finding = self.finding(&path, None, problem);
                self.report(finding, "a retry may be taken for a new batch", print)?;
            }
        }
        Ok(())
    }

    async fn snapshot(
        &mut self,
        path: &str,
        print: &mut impl Print,
    ) -> Outcome<Option<Vec<ProducerSnapshotEntry>>> {
        let Some(decoded) = self.decoded(path, decode_snapshot).await? else { return Ok(None) };
        self.totals.snapshots += 1;
        match decoded {
            Ok(entries) => Ok(Some(entries)),
            Err(error) => {
                let finding = self.finding(path, None, error.to_string());
                self.report(finding, REBUILT, print)?;
                Ok(None)
            }
        }
    }

    /// What a small file holds. While a node runs, which removes and replaces such files: `None` where it has gone, and read
    /// again before it is judged.
    async fn decoded<T, X>(
        &self,
        path: &str,
        decode: impl Fn(&[u8]) -> Result<T, X>,
    ) -> Outcome<Option<Result<T, X>>> {
        let decoded = match self.read(path, SMALL_FILE_BYTES_MAX).await? {
            None if self.is_running() => return Ok(None),
            bytes => decode(&bytes.unwrap_or_default()),
        };
        if decoded.is_ok() || !self.is_running() {
            return Ok(Some(decoded));
        }
        let bytes = self.read(path, SMALL_FILE_BYTES_MAX).await?;
        Ok(bytes.map(|bytes| decode(&bytes)))
    }

    async fn read(&self, path: &str, bytes_max: usize) -> Outcome<Option<Vec<u8>>> {
        let read = read_file(&self.disk, path, bytes_max).await;
        read.map_err(|error| self.failed(path, &error))
    }

    pub(super) fn failed(&self, path: &str, error: &DiskError) -> Failure {
        Failure::new(Exit::Io, format!("{}: {error}", self.shown(path)))
    }

    pub(super) fn count_journal(&mut self, sets: u64, groups: u64) {
        self.totals.journal_sets += sets;
        self.totals.journal_groups += groups;
    }

    pub(super) fn finding(&self, path: &str, position: Option<u64>, problem: String) -> Finding {
        let (severity, file) = (Severity::Problem, self.shown(path));
        Finding { severity, file, position, problem, consequence: String::new() }
    }

    pub(super) fn report(
        &mut self,
        finding: Finding,
        consequence: &str,
        print: &mut impl Print,
    ) -> Outcome {
        self.totals.problems += 1;
        print(&Item::Finding(&Finding { consequence: consequence.to_owned(), ..finding }))
    }

    /// What the next start sees to, or what the running node is at.
    pub(super) fn note(
        &mut self,
        finding: Finding,
        consequence: &str,
        print: &mut impl Print,
    ) -> Outcome {
        let consequence = if self.is_running() { RUNNING } else { consequence };
        self.remark(finding, consequence, print)
    }

    fn remark(&mut self, finding: Finding, consequence: &str, print: &mut impl Print) -> Outcome {
        self.totals.notes += 1;
        let (severity, consequence) = (Severity::Note, consequence.to_owned());
        print(&Item::Finding(&Finding { severity, consequence, ..finding }))
    }

    pub(super) fn is_running(&self) -> bool {
        self.ground.holder.is_some()
    }

    pub(super) fn report_unless_running(
        &mut self,
        finding: Finding,
        consequence: &str,
        print: &mut impl Print,
    ) -> Outcome {
        match self.is_running() {
            true => self.note(finding, consequence, print),
            false => self.report(finding, consequence, print),
        }
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
mod checkpoint_tests;
#[cfg(test)]
mod tests;
