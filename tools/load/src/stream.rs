//! One partition as a consumer reads it: whole batches, each behind the other.
//!
//! Owns the position and what must hold of what comes. It reads no socket: bytes are arguments.

use std::ops::Range;

use record::{BatchHeader, BatchView, Batches, Found, PartitionIndex};

use crate::audit::{AuditReport, FindingKind};
use crate::recorder::Sums;

/// A partition and how far it is read.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    partition: PartitionIndex,
    offsets: Range<i64>,
    next_offset: i64,
    /// Nothing was read since it began: the first batch may begin before the offset that was asked for.
    is_fresh: bool,
}

impl Stream {
    /// A partition of which these offsets are read.
    pub(crate) fn new(partition: PartitionIndex, offsets: Range<i64>) -> Self {
        Self { partition, next_offset: offsets.start, offsets, is_fresh: true }
    }

    /// Which.
    pub(crate) fn partition(&self) -> PartitionIndex {
        self.partition
    }

    /// Where to read on; `None` at the end.
    pub(crate) fn next_offset(&self) -> Option<i64> {
        (self.next_offset < self.offsets.end).then_some(self.next_offset)
    }

    /// Begins anew.
    pub(crate) fn rewind(&mut self) {
        self.next_offset = self.offsets.start;
        self.is_fresh = true;
    }

    /// The log begins at `start` by now: what lies before is skipped, and counted. Gives the offsets that are.
    pub(crate) fn skip_to(&mut self, start: i64, report: &mut AuditReport) -> Range<i64> {
        let skipped = self.next_offset..start.min(self.offsets.end).max(self.next_offset);
        report.skipped_offsets += u64::try_from(skipped.end - skipped.start).unwrap_or(0);
        self.next_offset = skipped.end;
        self.is_fresh = true;
        skipped
    }

    /// What follows cannot be read.
    pub(crate) fn give_up(&mut self, report: &mut AuditReport, kind: FindingKind, fact: String) {
        report.find(kind, self.partition, self.next_offset, fact);
        self.next_offset = self.offsets.end;
    }

    /// Goes on behind the whole batches that the broker gave for [`Stream::next_offset`], and adds up what they are; gives how
    /// many brought it further. A broker that gives the same again and again gives none.
    pub(crate) fn take(
        &mut self,
        records: &[u8],
        report: &mut AuditReport,
        sums: &mut Sums,
    ) -> u64 {
        self.take_each(records, report, sums, |_| {})
    }

    /// The same; `each` is called with every batch.
    pub(crate) fn take_each(
        &mut self,
        records: &[u8],
        report: &mut AuditReport,
        sums: &mut Sums,
        mut each: impl FnMut(&BatchHeader),
    ) -> u64 {
        let mut count = 0;
        for (_, found) in Batches::new(records) {
            let view = match found {
                Found::Whole(view) => view,
                // An answer may end within a batch.
                Found::Truncated { .. } => break,
                Found::ZeroTail { .. } => {
                    self.give_up(
                        report,
                        FindingKind::Corrupt,
                        "zeros in place of a batch".to_owned(),
                    );
                    break;
                }
                Found::Corrupt(error) => {
                    self.give_up(report, FindingKind::Corrupt, error.to_string());
                    break;
                }
            };
            let header = view.header();
            if header.base_offset.0 >= self.offsets.end {
                break;
            }
            self.look_at_offsets(header, report);
            each(header);
            let bytes = view.bytes().len() as u64;
            sums.batches += 1;
            sums.records += u64::from(header.records_count.unsigned_abs());
            sums.bytes += bytes;
            sums.plain_bytes += bytes;
            report.matched_batches += 1;
            report.bytes += bytes;
            self.is_fresh = false;
            count += u64::from(header.next_offset().0 > self.next_offset);
            self.next_offset = self.next_offset.max(header.next_offset().0);
        }
        count
    }

    /// The batches that [`Stream::take`] went behind.
    pub(crate) fn batches<'a>(&self, records: &'a [u8]) -> impl Iterator<Item = BatchView<'a>> {
        let end = self.offsets.end;
        let whole = Batches::new(records).map_while(|(_, found)| match found {
            Found::Whole(view) => Some(view),
            _ => None,
        });
        whole.take_while(move |view| view.header().base_offset.0 < end)
    }

    /// Checks their sums.
    pub(crate) fn check(&self, records: &[u8], report: &mut AuditReport) {
        self.batches(records).for_each(|batch| check(self.partition, &batch, report));
    }

    fn look_at_offsets(&self, header: &BatchHeader, report: &mut AuditReport) {
        let (base, expected) = (header.base_offset.0, self.next_offset);
        let may_begin_before = self.is_fresh && header.next_offset().0 > expected;
        if base > expected {
            let fact = format!("offsets {expected} to {} have no batch", base - 1);
            report.find(FindingKind::Gap, self.partition, base, fact);
        }
        if base < expected && !may_begin_before {
            let fact = format!("asked for {expected}");
            report.find(FindingKind::Overlap, self.partition, base, fact);
        }
    }
}

/// Checks the sum of a batch.
pub(crate) fn check(partition: PartitionIndex, batch: &BatchView<'_>, report: &mut AuditReport) {
    if let Err(error) = batch.verify_crc() {
        let base = batch.header().base_offset.0;
        report.find(FindingKind::Corrupt, partition, base, error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use record::batch::assign;
    use record::{LeaderEpoch, Offset, Timestamp};

    use super::*;
    use crate::workload::Workload;

    /// So many batches of three records each, from offset 30 on.
    fn batches(count: i64) -> Vec<Vec<u8>> {
        let workload = Workload {
            templates: Some(1),
            batch_records_max: 3,
            batch_bytes: 8_192,
            ..Workload::default()
        };
        let template = crate::template::build(&workload, Timestamp(1)).remove(0);
        assert_eq!(template.records, 3);
        let batch = |number: i64| {
            let mut batch = template.bytes.clone();
            assign(&mut batch, Offset(30 + 3 * number), LeaderEpoch(1));
            batch
        };
        (0..count).map(batch).collect()
    }

    fn kinds(stream: &mut Stream, records: &[u8]) -> (Vec<(FindingKind, i64)>, Sums) {
        let (mut report, mut sums) = (AuditReport::default(), Sums::default());
        stream.take(records, &mut report, &mut sums);
        stream.check(records, &mut report);
        let found = report.findings.iter().map(|finding| (finding.kind, finding.offset));
        (found.collect(), sums)
    }

    #[test]
    fn a_stream_is_read_from_within_a_batch_to_its_end_and_again() {
        let batches = batches(4);
        let mut stream = Stream::new(PartitionIndex(0), 31..42);
        for _ in 0..2 {
            let (found, sums) = kinds(&mut stream, &batches[..2].concat());
            assert_eq!((found, sums.batches, sums.records), (vec![], 2, 6));
            assert_eq!(stream.next_offset(), Some(36));
            // What was appended later is not read, and a batch that is cut comes again.
            let rest = [batches[2].as_slice(), &batches[3], &batches[0][..70]].concat();
            let (found, sums) = kinds(&mut stream, &rest);
            assert_eq!((found, sums.bytes), (vec![], 2 * batches[2].len() as u64));
            assert_eq!(stream.next_offset(), None);
            stream.rewind();
        }
        let mut short = Stream::new(PartitionIndex(0), 30..33);
        assert_eq!(kinds(&mut short, &batches.concat()).1.batches, 1);
    }

    #[test]
    fn what_retention_took_is_skipped_and_counted() {
        let batches = batches(4);
        let mut stream = Stream::new(PartitionIndex(0), 30..42);
        let mut report = AuditReport::default();
        assert_eq!(stream.skip_to(29, &mut report), 30..30);
        assert_eq!(stream.skip_to(37, &mut report), 30..37);
        assert_eq!((stream.next_offset(), report.skipped_offsets), (Some(37), 7));
        // The log begins within a batch, which comes whole.
        let (found, sums) = kinds(&mut stream, &batches[2..].concat());
        assert_eq!((found, sums.batches, stream.next_offset()), (vec![], 2, None));
        stream.rewind();
        assert_eq!(stream.skip_to(99, &mut report), 30..42);
    }

    #[test]
    fn what_is_missing_doubled_or_damaged_is_found() {
        let batches = batches(4);
        let whole = 30..42;
        let found =
            |records: &[u8]| kinds(&mut Stream::new(PartitionIndex(0), whole.clone()), records).0;
        let gap = [batches[0].as_slice(), &batches[2]].concat();
        assert_eq!(found(&gap), [(FindingKind::Gap, 36)]);
        let twice = [batches[0].as_slice(), &batches[0]].concat();
        assert_eq!(found(&twice), [(FindingKind::Overlap, 30)]);
        let mut flipped = batches[0].clone();
        let last = flipped.len() - 1;
        flipped[last] ^= 1;
        assert_eq!(found(&flipped), [(FindingKind::Corrupt, 30)]);
        assert_eq!(found(&[7; 100]), [(FindingKind::Corrupt, 30)]);
        let (mut report, mut sums) = (AuditReport::default(), Sums::default());
        let mut stream = Stream::new(PartitionIndex(0), whole);
        assert_eq!(stream.take(&flipped, &mut report, &mut sums), 1);
        assert_eq!(report.finding_count, 0, "checksums are looked at apart");
        assert_eq!(
            stream.take(&flipped, &mut report, &mut sums),
            0,
            "the same brings it no further"
        );
    }
}
