use record::batch::assign;
use record::{LeaderEpoch, Offset, Timestamp};

use super::*;
use crate::workload::Workload;

const PARTITION: PartitionIndex = PartitionIndex(3);
/// Where the log ended before the run.
const START: i64 = 1_000;

fn templates() -> Vec<Template> {
    let workload = Workload { templates: Some(4), batch_bytes: 4_096, ..Workload::default() };
    crate::template::build(&workload, Timestamp(1))
}

/// A log of the templates in turn, and what was acknowledged for it.
struct Log {
    templates: Vec<Template>,
    batches: Vec<Vec<u8>>,
    acked: Vec<Acked>,
    end: i64,
}

impl Log {
    fn of(count: usize) -> Self {
        let templates = templates();
        let mut log = Self { templates, batches: Vec::new(), acked: Vec::new(), end: START };
        for number in 0..count {
            let template = number % log.templates.len();
            log.acked.push(Acked::new(Offset(log.end), template).unwrap());
            log.append(template);
        }
        log
    }

    fn append(&mut self, template: usize) {
        let template = &self.templates[template];
        let mut batch = template.bytes.clone();
        assign(&mut batch, Offset(self.end), LeaderEpoch(5));
        self.batches.push(batch);
        self.end += i64::from(template.records);
    }

    fn base_of(&self, batch: usize) -> i64 {
        self.acked[batch].base_offset().0
    }

    /// Audits it as a broker would give it back, a few batches at a time.
    fn audit(&self, unacked_batches_max: u64) -> AuditReport {
        let mut report =
            AuditReport { is_complete: true, unacked_batches_max, ..AuditReport::default() };
        let mut audit = PartitionAudit::new(PARTITION, self.acked.clone(), START..self.end);
        for answer in self.batches.chunks(3) {
            if audit.next_offset().is_none() {
                break;
            }
            audit.take(&answer.concat(), &self.templates, &mut report);
        }
        audit.finish(&mut report);
        report.conclude();
        report
    }

    fn kinds(&self, unacked_batches_max: u64) -> Vec<(FindingKind, i64)> {
        let report = self.audit(unacked_batches_max);
        assert_eq!(report.has_passed, report.findings.is_empty());
        report.findings.iter().map(|finding| (finding.kind, finding.offset)).collect()
    }
}

#[test]
fn a_log_as_it_was_acknowledged_passes() {
    let report = Log::of(10).audit(0);
    assert!(report.has_passed, "{report:?}");
    assert_eq!((report.matched_batches, report.unacked_batches), (10, 0));
    let bytes: usize = Log::of(10).batches.iter().map(Vec::len).sum();
    assert_eq!(report.bytes, bytes as u64);
}

#[test]
fn a_batch_with_one_bit_flipped_fails() {
    let mut log = Log::of(10);
    let last = log.batches[4].len() - 1;
    log.batches[4][last] ^= 1;
    assert_eq!(log.kinds(0), [(FindingKind::Corrupt, log.base_of(4))]);
}

#[test]
fn another_valid_batch_in_its_place_fails() {
    let mut log = Log::of(10);
    let base = log.base_of(4);
    let mut other = log.templates[1].bytes.clone();
    assert_eq!(log.templates[0].records, log.templates[1].records);
    assign(&mut other, Offset(base), LeaderEpoch(5));
    log.batches[4] = other;
    assert_eq!(log.kinds(0), [(FindingKind::Changed, base)]);
}

#[test]
fn batches_that_the_topic_stamped_with_its_own_time_are_compared_without_it() {
    let stamped = |batch: &[u8]| {
        let view = BatchView::parse(batch).unwrap();
        let append_time = TimestampType::LogAppendTime;
        let records = view.record_bytes();
        let header = with_timestamps(view.header(), append_time, Timestamp(99_999), records);
        [header.encode().as_slice(), records].concat()
    };
    let mut log = Log::of(5);
    for batch in &mut log.batches {
        *batch = stamped(batch);
    }
    assert_eq!(log.kinds(0), []);
    let mut other = stamped(&log.templates[1].bytes);
    assign(&mut other, Offset(log.base_of(2)), LeaderEpoch(5));
    log.batches[2] = other;
    assert_eq!(log.kinds(0), [(FindingKind::Changed, log.base_of(2))]);
}

#[test]
fn a_batch_that_is_missing_in_the_middle_or_at_the_end_fails() {
    let mut log = Log::of(10);
    let (base, next) = (log.base_of(4), log.base_of(5));
    log.batches.remove(4);
    assert_eq!(log.kinds(0), [(FindingKind::Gap, next), (FindingKind::Missing, base)]);

    let mut log = Log::of(10);
    log.batches.pop();
    log.end = log.base_of(9);
    assert_eq!(log.kinds(0), [(FindingKind::Missing, log.base_of(9))]);
}

#[test]
fn what_retention_took_from_the_front_is_missing() {
    let mut log = Log::of(5);
    log.batches.drain(..2);
    let (first, second, third) = (log.base_of(0), log.base_of(1), log.base_of(2));
    let expected =
        [(FindingKind::Gap, third), (FindingKind::Missing, first), (FindingKind::Missing, second)];
    assert_eq!(log.kinds(0), expected);
}

#[test]
fn a_batch_that_is_there_twice_fails() {
    // Appended again under offsets of its own.
    let mut log = Log::of(10);
    log.append(1);
    assert_eq!(log.kinds(0), [(FindingKind::Unacked, -1)]);
    // The same offsets again.
    let mut log = Log::of(10);
    let again = log.batches[4].clone();
    log.batches.insert(5, again);
    let expected = [(FindingKind::Overlap, log.base_of(4)), (FindingKind::Unacked, -1)];
    assert_eq!(log.kinds(0), expected);
    // Two acknowledgements for one batch.
    let mut log = Log::of(10);
    log.acked.insert(5, log.acked[4]);
    assert_eq!(log.kinds(0), [(FindingKind::AckedTwice, log.base_of(4))]);
}

#[test]
fn batches_in_another_order_than_acknowledged_fail() {
    let mut log = Log::of(10);
    let (fourth, fifth) = (log.base_of(4), log.base_of(5));
    let (mut one, mut other) = (log.batches[4].clone(), log.batches[5].clone());
    assign(&mut one, Offset(fifth), LeaderEpoch(5));
    assign(&mut other, Offset(fourth), LeaderEpoch(5));
    (log.batches[4], log.batches[5]) = (other, one);
    assert_eq!(log.kinds(0), [(FindingKind::Changed, fourth), (FindingKind::Changed, fifth)]);
}

#[test]
fn what_was_under_way_at_the_end_may_be_there_and_no_more() {
    let mut log = Log::of(10);
    log.append(2);
    log.append(3);
    assert_eq!(log.kinds(2), []);
    assert_eq!(log.audit(2).unacked_batches, 2);
    assert_eq!(log.kinds(1), [(FindingKind::Unacked, -1)]);
}

#[test]
fn what_is_no_batch_ends_the_partition_with_one_finding() {
    for garbage in [vec![0; 4_096], vec![7; 4_096]] {
        let mut log = Log::of(10);
        log.batches[6] = garbage;
        assert_eq!(log.kinds(0), [(FindingKind::Corrupt, log.base_of(6))]);
    }
}

#[test]
fn an_answer_may_end_within_a_batch_and_reading_goes_on_from_there() {
    let log = Log::of(3);
    let mut report = AuditReport { is_complete: true, ..AuditReport::default() };
    let mut audit = PartitionAudit::new(PARTITION, log.acked.clone(), START..log.end);
    let cut = [log.batches[0].as_slice(), &log.batches[1][..100]].concat();
    assert_eq!(audit.take(&cut, &log.templates, &mut report), 1);
    assert_eq!(audit.next_offset(), Some(log.base_of(1)));
    let rest = log.batches[1..].concat();
    assert_eq!(audit.take(&rest, &log.templates, &mut report), 2);
    assert_eq!(audit.next_offset(), None);
    audit.finish(&mut report);
    report.conclude();
    assert!(report.has_passed, "{report:?}");
}

#[test]
fn findings_are_told_up_to_a_bound_and_counted_beyond() {
    let mut log = Log::of(100);
    log.batches.clear();
    let report = log.audit(0);
    assert_eq!((report.finding_count, report.findings.len()), (100, FINDINGS_MAX));
    assert!(!report.has_passed);
}

#[test]
fn a_partition_that_cannot_be_read_fails() {
    let log = Log::of(3);
    let mut report = AuditReport { is_complete: true, ..AuditReport::default() };
    let mut audit = PartitionAudit::new(PARTITION, log.acked.clone(), START..log.end);
    audit.unreadable(&mut report, "CORRUPT_MESSAGE".to_owned());
    assert_eq!(audit.next_offset(), None);
    audit.finish(&mut report);
    report.conclude();
    assert!(!report.has_passed);
    assert_eq!((report.finding_count, report.findings[0].kind), (1, FindingKind::Unreadable));
}

#[test]
fn a_bound_on_the_bytes_ends_the_look_with_the_batch_that_reaches_it() {
    let log = Log::of(10);
    let mut report = AuditReport::default();
    let audit = PartitionAudit::new(PARTITION, log.acked.clone(), START..log.end);
    let mut audit = audit.bounded(log.batches[0].len() as u64 + 1);
    assert_eq!(audit.take(&log.batches.concat(), &log.templates, &mut report), 2);
    assert!(audit.is_spent());
    assert_eq!((report.matched_batches, audit.next_offset()), (2, Some(log.base_of(2))));
}

#[test]
fn a_log_that_is_too_short_fails_however_little_of_it_is_read() {
    let mut log = Log::of(10);
    let end = log.base_of(9);
    log.end = end;
    let mut report = AuditReport::default();
    let audit = PartitionAudit::new(PARTITION, log.acked.clone(), START..log.end);
    let mut audit = audit.bounded(1);
    audit.look_at_end(&log.templates, &mut report);
    assert_eq!(audit.take(&log.batches.concat(), &log.templates, &mut report), 1);
    report.conclude();
    assert_eq!((report.verdict, report.finding_count), (AuditVerdict::Failed, 1));
    assert_eq!((report.findings[0].kind, report.findings[0].offset), (FindingKind::Missing, end));
    // Within a batch counts as before it.
    let mut report = AuditReport::default();
    let mut audit = PartitionAudit::new(PARTITION, log.acked.clone(), START..end - 1);
    audit.look_at_end(&log.templates, &mut report);
    assert_eq!(report.finding_count, 2);
}

/// The log begins at `start` by the time it is read, within the fourth batch or before it.
fn audit_from(start: i64, explained: bool) -> AuditReport {
    let mut log = Log::of(10);
    let mut report = AuditReport { is_complete: true, ..AuditReport::default() };
    let mut audit = PartitionAudit::new(PARTITION, log.acked.clone(), START..log.end);
    audit.skip_to(start, explained, &log.templates, &mut report);
    log.batches.drain(..3);
    audit.take(&log.batches.concat(), &log.templates, &mut report);
    audit.finish(&mut report);
    report.conclude();
    report
}

#[test]
fn what_retention_took_from_the_front_is_expired_where_it_can_be_explained() {
    let fourth = Log::of(10).base_of(3);
    for start in [fourth, fourth + 1] {
        let report = audit_from(start, true);
        assert!(report.has_passed, "{report:?}");
        assert_eq!((report.expired_batches, report.matched_batches), (3, 7));
        let report = audit_from(start, false);
        assert_eq!((report.verdict, report.finding_count), (AuditVerdict::Failed, 3), "{report:?}");
        assert!(report.findings.iter().all(|finding| finding.kind == FindingKind::Missing));
    }
}

#[test]
fn what_could_not_be_read_is_not_audited_unless_something_else_is_wrong() {
    let report = |kinds: &[FindingKind]| {
        let mut report = AuditReport { is_complete: true, ..AuditReport::default() };
        for kind in kinds {
            report.find(*kind, PARTITION, 5, "x".to_owned());
        }
        report.conclude();
        report.verdict
    };
    assert_eq!(report(&[]), AuditVerdict::Passed);
    assert_eq!(report(&[FindingKind::Unreadable]), AuditVerdict::NotAudited);
    assert_eq!(report(&[FindingKind::Unreadable, FindingKind::Gap]), AuditVerdict::Failed);
}
