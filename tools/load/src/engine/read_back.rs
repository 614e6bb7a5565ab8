//! Reading back what a run has appended.
//!
//! Owns the fetching: leader by leader, several partitions an answer, until each has been read to its end. What it finds is
//! the audit's to judge. A partition that its broker does not give back is a finding, not an error.

use std::time::Duration;

use broker::Platform;
use record::PartitionIndex;
use wire::fetch::FetchResponse;

use super::fetching::{self, EMPTY_MAX, FETCH_VERSION_MAX, FetchLimits};
use super::{Observer, Shared};
use crate::address::Address;
use crate::audit::{AuditReport, FindingKind, PartitionAudit};
use crate::client::{Admin, LogPlace, PartitionLeader};
use crate::error::LoadError;
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

/// Reads back and compares all partitions; adds to `report` what it finds, and judges.
pub(super) async fn audit<P: Platform>(
    run: &Shared<P>,
    workload: &Workload,
    leaders: &[PartitionLeader],
    (starts, admin): (&[i64], &mut Admin<P>),
    observer: &mut dyn Observer,
    report: &mut AuditReport,
) {
    let begin = run.core.platform.monotonic();
    begin_report(run, report);
    match partitions(run, leaders, starts, admin).await {
        Ok(partitions) => {
            observer.audit_started(run.core.recorder.borrow().bytes_acked());
            let bytes_max = workload.audit_bytes_max.unwrap_or(u64::MAX);
            let share = bytes_max / (partitions.len() as u64).max(1);
            let partitions = partitions.into_iter().map(|partition| partition.bounded(share));
            let mut partitions: Vec<PartitionAudit> = partitions.collect();
            read_all(run, admin, leaders, &mut partitions, report).await;
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
    leaders: &[PartitionLeader],
    starts: &[i64],
    admin: &mut Admin<P>,
) -> Result<Vec<PartitionAudit>, LoadError> {
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
    leaders: &[PartitionLeader],
    partitions: &mut [PartitionAudit],
    report: &mut AuditReport,
) {
    for address in super::addresses(leaders) {
        let led = partitions.iter_mut().zip(leaders);
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
            let given_up = match fetch(run, admin, &address, asked, report).await {
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
    address: &Address,
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
    for partition in asked {
        let index = partition.partition();
        let mut answered = response.responses.iter().flat_map(|topic| &topic.partitions);
        let Some(data) = answered.find(|data| data.partition_index == index) else { continue };
        if data.error_code.is_none() {
            count += partition.take(data.records.inline(), &run.templates, report);
        } else {
            let start = data.log_start_offset.0;
            let begins =
                if start < 0 { String::new() } else { format!("; the log begins at {start}") };
            partition.unreadable(report, format!("{}{begins}", data.error_code));
            count += 1;
        }
    }
    Ok(count)
}
