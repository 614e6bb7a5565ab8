//! Whether what was acknowledged is there: once, in order, and as it was sent.
//!
//! ```text
//!   log of a partition   [batch][batch][batch]…        from where it ended before the run to where it ends after it
//!   acknowledged            ▲      ▲      ▲             every one at its base offset, with its template's checksum and count
//! ```
//!
//! Owns the comparison and its findings. What is there and was not acknowledged is allowed only as far as requests were without
//! an answer, or answered with an error: such a batch may have been appended. It reads no socket: bytes are arguments.

use std::ops::Range;

use record::batch::TimestampType;
use record::{BatchView, Batches, Found, PartitionIndex, with_timestamps};
use serde::{Deserialize, Serialize};

use crate::ledger::Acked;
use crate::template::Template;

/// Findings that are told; the others are counted.
const FINDINGS_MAX: usize = 20;

/// What the audit found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AuditReport {
    /// What came of it.
    #[serde(default)]
    pub verdict: AuditVerdict,
    /// Whether every batch that was acknowledged, and looked at, is there once, in order and unchanged.
    pub has_passed: bool,
    /// Whether everything was looked at: a bound on the bytes, or on the memory of what was acknowledged, ends it early.
    pub is_complete: bool,
    /// Batches acknowledged in the whole run, the warm-up included.
    pub acked_batches: u64,
    /// Of them, those found as they were sent.
    pub matched_batches: u64,
    /// Of them, those that the topic's own retention took before they were looked for: they lie before the log's start.
    #[serde(default)]
    pub expired_batches: u64,
    /// Offsets that consumers found gone, since retention was faster than they were: they went on at the log's start.
    #[serde(default)]
    pub skipped_offsets: u64,
    /// Acknowledged batches that were not with every consumer when a run that failed ended: nobody waited for them.
    #[serde(default)]
    pub undelivered_batches: u64,
    /// Batches that are there without an acknowledgement.
    pub unacked_batches: u64,
    /// Of those, how many there may be.
    pub unacked_batches_max: u64,
    /// Bytes that were read back.
    pub bytes: u64,
    /// How long that took.
    pub seconds: f64,
    /// How many findings there are.
    pub finding_count: u64,
    /// Of those, partitions that the broker did not give back: they say nothing about what is there.
    pub unreadable_count: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
}

/// What an audit says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditVerdict {
    /// The broker did not give everything back, and nothing that it gave was wrong: nobody knows.
    #[default]
    NotAudited,
    /// Everything is as it must be.
    Passed,
    /// What was looked at is, and not everything was.
    PassedInPart,
    /// Something must not be.
    Failed,
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// In which partition.
    pub partition: i32,
    /// At which offset.
    pub offset: i64,
    /// The facts.
    pub fact: String,
}

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A batch was acknowledged and is not there.
    Missing,
    /// It is there, and is another.
    Changed,
    /// Bytes whose checksum is wrong, or that are no batch.
    Corrupt,
    /// Offsets that no batch has.
    Gap,
    /// Offsets that two batches have.
    Overlap,
    /// One offset was acknowledged for two batches.
    AckedTwice,
    /// A connection's batches of one partition were acknowledged in another order than they were sent.
    OutOfOrder,
    /// More batches than were sent without an acknowledgement.
    Unacked,
    /// The broker does not give the records back.
    Unreadable,
    /// A batch was acknowledged, and a consumer that waited for it did not get it.
    Undelivered,
}

impl FindingKind {
    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Changed => "changed",
            Self::Corrupt => "corrupt",
            Self::Gap => "gap",
            Self::Overlap => "overlap",
            Self::AckedTwice => "acknowledged twice",
            Self::OutOfOrder => "out of order",
            Self::Unacked => "not acknowledged",
            Self::Unreadable => "unreadable",
            Self::Undelivered => "not delivered",
        }
    }
}

impl AuditReport {
    /// Whether something was found to be wrong: more than that it could not be read.
    #[must_use]
    pub fn has_contradicted(&self) -> bool {
        self.finding_count > self.unreadable_count
    }

    /// What it says, from what was found.
    #[must_use]
    pub fn judge(&self) -> AuditVerdict {
        match (self.has_passed, self.is_complete) {
            (true, true) => AuditVerdict::Passed,
            (true, false) => AuditVerdict::PassedInPart,
            (false, _) if self.has_contradicted() => AuditVerdict::Failed,
            (false, _) => AuditVerdict::NotAudited,
        }
    }

    /// Takes note of a finding.
    pub(crate) fn find(
        &mut self,
        kind: FindingKind,
        partition: PartitionIndex,
        offset: i64,
        fact: String,
    ) {
        self.finding_count += 1;
        self.unreadable_count += u64::from(kind == FindingKind::Unreadable);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { kind, partition: partition.0, offset, fact });
        }
    }

    /// Takes over what another has found.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.finding_count += other.finding_count;
        self.unreadable_count += other.unreadable_count;
        self.skipped_offsets += other.skipped_offsets;
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        self.findings.extend(other.findings.iter().take(room).cloned());
    }

    /// Judges what was gathered.
    pub(crate) fn conclude(&mut self) {
        if self.is_complete && self.unacked_batches > self.unacked_batches_max {
            let fact = format!(
                "{} batches are there that were not acknowledged; at most {} may be",
                self.unacked_batches, self.unacked_batches_max
            );
            self.find(FindingKind::Unacked, PartitionIndex(-1), -1, fact);
        }
        self.has_passed = self.finding_count == 0;
        self.verdict = self.judge();
    }
}

/// One partition under audit.
#[derive(Debug)]
pub(crate) struct PartitionAudit {
    partition: PartitionIndex,
    /// Ascending.
    acked: Vec<Acked>,
    /// Those before this were looked at.
    looked_at: usize,
    next_offset: i64,
    /// The log begins here, within a batch perhaps: one that begins before is no overlap.
    starts_at: i64,
    end_offset: i64,
    bytes: u64,
    /// More than that is not looked at, but for the batch that reaches it.
    bytes_max: u64,
}

impl PartitionAudit {
    /// A partition whose log held these offsets more than before the run.
    pub(crate) fn new(partition: PartitionIndex, acked: Vec<Acked>, offsets: Range<i64>) -> Self {
        Self {
            partition,
            acked,
            looked_at: 0,
            next_offset: offsets.start,
            starts_at: i64::MIN,
            end_offset: offsets.end,
            bytes: 0,
            bytes_max: u64::MAX,
        }
    }

    /// The same, of which only so many bytes are looked at.
    pub(crate) fn bounded(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    /// Which.
    pub(crate) fn partition(&self) -> PartitionIndex {
        self.partition
    }

    /// Where to read on; `None` where all was read.
    pub(crate) fn next_offset(&self) -> Option<i64> {
        (self.next_offset < self.end_offset).then_some(self.next_offset)
    }

    /// Whether as much was looked at as was asked.
    pub(crate) fn is_spent(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// Compares with the end of the log what was acknowledged: what lies beyond it is missing, whether or not anything is read.
    pub(crate) fn look_at_end(&mut self, templates: &[Template], report: &mut AuditReport) {
        let end = self.end_offset;
        while let Some(last) = self.acked.last() {
            let records = templates.get(last.template()).map_or(1, |template| template.records);
            if last.base_offset().0.saturating_add(i64::from(records)) <= end {
                break;
            }
            let fact = format!("the log ends at {end}");
            report.find(FindingKind::Missing, self.partition, last.base_offset().0, fact);
            self.acked.pop();
        }
    }

    /// The log begins at `start` by now, beyond what was to be read next. Where that can be `explained`, what lies before counts as
    /// expired; else it is missing.
    pub(crate) fn skip_to(
        &mut self,
        start: i64,
        explained: bool,
        templates: &[Template],
        report: &mut AuditReport,
    ) {
        while let Some(acked) = self.acked.get(self.looked_at) {
            let base = acked.base_offset().0;
            let records = templates.get(acked.template()).map_or(1, |template| template.records);
            if base.saturating_add(i64::from(records)) > start {
                break;
            }
            self.looked_at += 1;
            if explained {
                report.expired_batches += 1;
                continue;
            }
            let fact = format!("the log begins at {start}, which no retention explains");
            report.find(FindingKind::Missing, self.partition, base, fact);
        }
        self.next_offset = self.next_offset.max(start);
        self.starts_at = start;
    }

    /// Looks at what the broker gave for [`PartitionAudit::next_offset`]; gives how many batches brought it further. A broker
    /// that gives the same again and again gives none: what it is asked for must end.
    pub(crate) fn take(
        &mut self,
        records: &[u8],
        templates: &[Template],
        report: &mut AuditReport,
    ) -> usize {
        let mut count = 0;
        for (_, found) in Batches::new(records) {
            if self.is_spent() {
                break;
            }
            let before = self.next_offset;
            match found {
                Found::Whole(view) if view.header().base_offset.0 >= self.end_offset => break,
                Found::Whole(view) => self.look_at(&view, templates, report),
                // An answer may end within a batch.
                Found::Truncated { .. } => break,
                Found::ZeroTail { .. } => {
                    self.give_up(report, "zeros in place of a batch".to_owned());
                    break;
                }
                Found::Corrupt(error) => {
                    self.give_up(report, error.to_string());
                    break;
                }
            }
            count += usize::from(self.next_offset > before);
        }
        count
    }

    /// The broker does not go on: what follows cannot be looked at.
    pub(crate) fn unreadable(&mut self, report: &mut AuditReport, fact: String) {
        report.find(FindingKind::Unreadable, self.partition, self.next_offset, fact);
        self.next_offset = self.end_offset;
        self.looked_at = self.acked.len();
    }

    /// The broker says that there is nothing where something was acknowledged: what follows is missing.
    pub(crate) fn lost(&mut self, report: &mut AuditReport, fact: String) {
        report.find(FindingKind::Missing, self.partition, self.next_offset, fact);
        self.next_offset = self.end_offset;
        self.looked_at = self.acked.len();
    }

    /// Everything was read: what was not found is missing.
    pub(crate) fn finish(&mut self, report: &mut AuditReport) {
        let end = self.end_offset;
        self.miss_until(i64::MAX, report, &format!("the log ends at {end}"));
    }

    fn give_up(&mut self, report: &mut AuditReport, fact: String) {
        report.find(FindingKind::Corrupt, self.partition, self.next_offset, fact);
        // No batch behind it can be trusted to start where it seems to.
        self.next_offset = self.end_offset;
        self.looked_at = self.acked.len();
    }

    fn look_at(&mut self, view: &BatchView<'_>, templates: &[Template], report: &mut AuditReport) {
        let header = view.header();
        let base = header.base_offset.0;
        self.bytes += view.bytes().len() as u64;
        report.bytes += view.bytes().len() as u64;
        let mut find = |kind, fact| report.find(kind, self.partition, base, fact);
        let begins_before_log =
            self.next_offset == self.starts_at && header.next_offset().0 > self.starts_at;
        if base < self.next_offset && !begins_before_log {
            find(FindingKind::Overlap, format!("offset {} comes again", self.next_offset));
        }
        if base > self.next_offset {
            let expected = self.next_offset;
            find(FindingKind::Gap, format!("offsets {expected} to {} have no batch", base - 1));
        }
        if let Err(error) = view.verify_crc() {
            find(FindingKind::Corrupt, error.to_string());
        }
        self.next_offset = self.next_offset.max(header.next_offset().0);
        self.miss_until(base, report, "another batch is there");
        self.compare(view, templates, report);
    }

    /// Acknowledged batches before `base` that did not come.
    fn miss_until(&mut self, base: i64, report: &mut AuditReport, fact: &str) {
        while let Some(acked) = self.acked.get(self.looked_at) {
            let offset = acked.base_offset().0;
            if offset >= base {
                break;
            }
            report.find(FindingKind::Missing, self.partition, offset, fact.to_owned());
            self.looked_at += 1;
        }
    }

    fn compare(&mut self, view: &BatchView<'_>, templates: &[Template], report: &mut AuditReport) {
        let header = view.header();
        let base = header.base_offset.0;
        let mut is_acked = false;
        while let Some(acked) = self.acked.get(self.looked_at) {
            if acked.base_offset().0 != base {
                break;
            }
            self.looked_at += 1;
            if is_acked {
                let fact = "two batches were acknowledged at this offset".to_owned();
                report.find(FindingKind::AckedTwice, self.partition, base, fact);
                continue;
            }
            is_acked = true;
            let Some(sent) = templates.get(acked.template()) else { continue };
            let crc = crc_as_sent(view, sent);
            let found = (crc, header.records_count.unsigned_abs(), view.bytes().len());
            if found == (sent.crc, sent.records, sent.bytes.len()) {
                report.matched_batches += 1;
                continue;
            }
            let fact = format!(
                "crc {:#010x}, {} records, {} bytes; sent: {:#010x}, {}, {}",
                found.0,
                found.1,
                found.2,
                sent.crc,
                sent.records,
                sent.bytes.len()
            );
            report.find(FindingKind::Changed, self.partition, base, fact);
        }
        if !is_acked {
            report.unacked_batches += 1;
        }
    }
}

/// The checksum that the batch had before the broker stamped it with the time of the append, where it did.
fn crc_as_sent(view: &BatchView<'_>, sent: &Template) -> u32 {
    let header = view.header();
    if header.timestamp_type() == TimestampType::CreateTime {
        return header.crc;
    }
    let create_time = TimestampType::CreateTime;
    with_timestamps(header, create_time, sent.timestamp, view.record_bytes()).crc
}

#[cfg(test)]
mod tests;
