//! Reading back what a run has appended.
//!
//! Owns the fetching: leader by leader, several partitions an answer, until each has been read to its end. What it finds is
//! the audit's to judge. A partition that its broker does not give back is a finding, not an error.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::Platform;
use record::PartitionIndex;
use wire::ErrorCode;
use wire::fetch::FetchResponse;

use super::fetching::{self, EMPTY_MAX, FETCH_VERSION_MAX, FetchLimits};
use super::{Observer, Shared};
use crate::address::Address;
use crate::audit::{AuditReport, FindingKind, PartitionAudit};
use crate::client::{Admin, LogPlace, PartitionLeader};
use crate::error::LoadError;
use crate::topic_facts::may_expire;
use crate::workload::Workload;

/// How much one answer may have.
const LIMITS: FetchLimits = FetchLimits { bytes: 16 << 20, partition_bytes: 4 << 20 };
/// Partitions asked for at once.
const PARTITIONS_MAX: usize = 64;
/// How long one answer may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// How long the end may stay behind what was acknowledged: with acks=leader replicas follow.
const REPLICATION_TIME_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// The log of the run, as it was found before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log<'a> {
    pub(super) leaders: &'a [PartitionLeader],
    /// Where each partition ended.
    pub(super) starts: &'a [i64],
    /// The topic's options.
    pub(super) configs: &'a BTreeMap<String, String>,
}

/// Reads back and compares all partitions; adds to `report` what it finds, and judges.
pub(super) async fn audit<P: Platform>(
    run: &Shared<P>,
    workload: &Workload,
    (log, admin): (Log<'_>, &mut Admin<P>),
    observer: &mut dyn Observer,
    report: &mut AuditReport,
) {
    let begin = run.core.platform.monotonic();
    begin_report(run, report);
    match partitions(run, log, admin).await {
        Ok(mut partitions) => {
            // First of all: a bound on what is read back must not hide that the log is too short.
            partitions
                .iter_mut()
                .for_each(|partition| partition.look_at_end(&run.templates, report));
            observer.audit_started(run.core.recorder.borrow().bytes_acked());
            let bytes_max = workload.audit_bytes_max.unwrap_or(u64::MAX);
            let share = bytes_max / (partitions.len() as u64).max(1);
            let partitions = partitions.into_iter().map(|partition| partition.bounded(share));
            let mut partitions: Vec<PartitionAudit> = partitions.collect();
            read_all(run, admin, log, &mut partitions, report).await;
        }
        Err(error) => {
            report.find(FindingKind::Unreadable, PartitionIndex(-1), -1, error.to_string());
        }
    }
    report.seconds = run.core.platform.monotonic().saturating_sub(begin).as_secs_f64();
    report.conclude();
}

fn begin_report<P: Platform>(run: &Shared<P>, report: &mut AuditReport) {
    let ledger = run.ledger.borrow();
    let untaken = ledger.untaken();
    report.is_complete &= untaken == 0;
    report.acked_batches = ledger.count() + untaken;
    report.unacked_batches_max = run.maybe_appended.get();
    let (count, first) = run.out_of_order.get();
    if let Some((partition, offset)) = first {
        let fact = format!("{count} acknowledgements came in another order than the sends");
        report.find(FindingKind::OutOfOrder, partition, offset, fact);
    }
}

/// The partitions with what was acknowledged of each, and where it ends by now.
async fn partitions<P: Platform>(
    run: &Shared<P>,
    log: Log<'_>,
    admin: &mut Admin<P>,
) -> Result<Vec<PartitionAudit>, LoadError> {
    let Log { leaders, starts, .. } = log;
    admin.renew().await?;
    let acked: Vec<_> = {
        let mut ledger = run.ledger.borrow_mut();
        (0..leaders.len()).map(|place| ledger.sorted(place)).collect()
    };
    let last = |place: usize| acked.get(place).and_then(|acked| acked.last()).copied();
    let until = run.core.platform.monotonic() + REPLICATION_TIME_MAX;
    let ends = loop {
        let ends = admin.offsets(&run.topic, leaders, LogPlace::End).await?;
        let is_behind = |(place, end): (usize, &i64)| {
            last(place).is_some_and(|acked| acked.base_offset().0 >= *end)
        };
        if !ends.iter().enumerate().any(is_behind) || run.core.platform.monotonic() >= until {
            break ends;
        }
        run.core.platform.sleep(PAUSE).await;
    };
    let ends = starts.iter().zip(ends);
    let partitions = leaders.iter().zip(acked).zip(ends).map(|((leader, acked), (start, end))| {
        PartitionAudit::new(leader.partition, acked, *start..end)
    });
    Ok(partitions.collect())
}

async fn read_all<P: Platform>(
    run: &Shared<P>,
    admin: &mut Admin<P>,
    log: Log<'_>,
    partitions: &mut [PartitionAudit],
    report: &mut AuditReport,
) {
    for address in super::addresses(log.leaders) {
        let led = partitions.iter_mut().zip(log.leaders);
        let led = led.filter(|(_, leader)| leader.leader == address);
        let mut left: Vec<&mut PartitionAudit> = led.map(|(partition, _)| partition).collect();
        let mut empty_answers = 0;
        loop {
            left.retain_mut(|partition| !is_done(partition, report));
            let asked = left.len().min(PARTITIONS_MAX);
            if asked == 0 {
                break;
            }
            let asked = &mut left[..asked];
            let given_up = match fetch(run, admin, (&address, log.configs), asked, report).await {
                Ok(0) => {
                    empty_answers += 1;
                    let fact = || format!("{EMPTY_MAX} answers in a row brought no batch");
                    (empty_answers >= EMPTY_MAX).then(fact)
                }
                Ok(_) => {
                    empty_answers = 0;
                    None
                }
                Err(error) => {
                    // The others may be read all the same: over a new connection.
                    admin.forget(&address);
                    Some(error.to_string())
                }
            };
            if let Some(fact) = given_up {
                for partition in asked {
                    partition.unreadable(report, fact.clone());
                }
                empty_answers = 0;
            }
        }
    }
}

/// Whether a partition is read; what was acknowledged and not found by then is missing.
fn is_done(partition: &mut PartitionAudit, report: &mut AuditReport) -> bool {
    if partition.next_offset().is_none() {
        partition.finish(report);
        return true;
    }
    report.is_complete &= !partition.is_spent();
    partition.is_spent()
}

/// Asks for what comes next of each partition; gives how many batches came, or 1 where a partition was refused.
async fn fetch<P: Platform>(
    run: &Shared<P>,
    admin: &mut Admin<P>,
    (address, configs): (&Address, &BTreeMap<String, String>),
    asked: &mut [&mut PartitionAudit],
    report: &mut AuditReport,
) -> Result<usize, LoadError> {
    let next = asked.iter().map(|partition| (partition.partition(), partition.next_offset()));
    let request = fetching::request(&run.topic, next, LIMITS);
    let connection = admin.leader(address).await?;
    let answer = connection.call(&request, FETCH_VERSION_MAX, ANSWER_TIME_MAX).await?;
    let response: FetchResponse<'_> = answer.read()?;
    LoadError::check(|| run.topic.clone(), response.error_code, None)?;
    let mut count = 0;
    let mut out_of_range = Vec::new();
    for partition in asked {
        let index = partition.partition();
        let mut answered = response.responses.iter().flat_map(|topic| &topic.partitions);
        let Some(data) = answered.find(|data| data.partition_index == index) else { continue };
        match data.error_code {
            ErrorCode::None => {
                count += partition.take(data.records.inline(), &run.templates, report);
            }
            ErrorCode::OffsetOutOfRange => out_of_range.push(partition),
            code => {
                partition.unreadable(report, code.to_string());
                count += 1;
            }
        }
    }
    for partition in out_of_range {
        let start =
            connection.log_start(&run.topic, partition.partition(), ANSWER_TIME_MAX).await?;
        skip(run, partition, (start, configs), report);
        count += 1;
    }
    Ok(count)
}

/// What was to be read next is out of range: before the start of the log by now, or nowhere.
fn skip<P: Platform>(
    run: &Shared<P>,
    partition: &mut PartitionAudit,
    (start, configs): (i64, &BTreeMap<String, String>),
    report: &mut AuditReport,
) {
    let wanted = partition.next_offset().unwrap_or(start);
    if start <= wanted {
        let fact = format!("out of range, and the log begins at {start}");
        partition.lost(report, fact);
        return;
    }
    let written = run.templates.first().map_or(0, |template| template.timestamp.0);
    let age_ms = run.core.platform.now().0.saturating_sub(written);
    let age = Duration::from_millis(u64::try_from(age_ms).unwrap_or(0));
    let explained = may_expire(configs, age);
    partition.skip_to(start, explained, &run.templates, report);
}
