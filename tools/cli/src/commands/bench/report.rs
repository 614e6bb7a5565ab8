//! What a run found, for people: a line a second while it goes, a table at the end.
//!
//! Owns the layout. Programs read the result itself.

use std::io::{self, Write};

use load::{
    Acks, AuditReport, AuditVerdict, Check, FlushReport, FlushVerdict, Interval, Job,
    LatencySummary, Measured, ProcessUse, ReadFrom, RunEnd, RunResult, Trend, TrendWindow,
};
use serde::{Serialize, Serializer};

use super::units::show_bytes;
use crate::output::Show;

/// A result that can be shown.
pub(super) struct Report<'a>(pub(super) &'a RunResult);

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Show for Report<'_> {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        let result = self.0;
        let measured = &result.measured;
        let mut line = |name: &str, text: String| writeln!(sink, "{name:<16}{text}");
        line("run", run_line(result))?;
        for reason in result.reasons() {
            line("NOT SOUND", reason.text())?;
        }
        line("throughput", throughput_line(measured))?;
        let is_produce = matches!(result.job, Job::Produce(_));
        line(
            if is_produce { "acknowledged" } else { "read" },
            format!(
                "{}, {} records, {} batches, {} requests",
                show_bytes(measured.bytes),
                measured.records,
                measured.batches,
                measured.requests
            ),
        )?;
        let is_open = result.job.is_open_loop();
        let from = if is_open { "due" } else { "sent" };
        let nothing = "no request that was due while measuring was answered";
        line(&format!("latency ({from})"), latency_line(&result.latency, nothing))?;
        if result.latency_lower_bounds > 0 {
            line("  at least", lower_bounds_line(result.latency_lower_bounds, "had no answer"))?;
        }
        if is_open {
            line("  sent late by", latency_line(&result.send_delay, nothing))?;
        }
        if let Some(delivery) = &result.delivery {
            let nothing = "no batch that was due while measuring came to a consumer";
            line(&format!("delivered ({from})"), latency_line(delivery, nothing))?;
        }
        if result.delivery_lower_bounds > 0 {
            line("  at least", lower_bounds_line(result.delivery_lower_bounds, "never came"))?;
        }
        if result.unsent > 0 {
            let text =
                format!("{} of {} requests were due and never left", result.unsent, result.due);
            line("  behind", text)?;
        }
        if is_produce {
            line("durability", durability_line(result))?;
        }
        for (name, text) in parts(result) {
            line(name, text)?;
        }
        for (name, used) in [("broker", &result.broker), ("client", &result.client)] {
            if let Some(used) = used {
                line(name, process_line(used))?;
            }
        }
        for error in &result.errors {
            let message = error.first_message.as_deref().unwrap_or("no message");
            let text = format!(
                "{} {} ({}), first in partition {}: {message}",
                error.count, error.name, error.code, error.first_partition
            );
            line("errors", text)?;
        }
        if result.unanswered > 0 {
            line("unanswered", format!("{} requests", result.unanswered))?;
        }
        line("audit", audit_text(result))?;
        for finding in &result.audit.findings {
            let text = format!(
                "partition {} offset {}: {}: {}",
                finding.partition,
                finding.offset,
                finding.kind.text(),
                finding.fact
            );
            line("", text)?;
        }
        Ok(())
    }
}

/// What the run did.
pub(super) fn run_line(result: &RunResult) -> String {
    let end = match &result.end {
        RunEnd::Complete => String::new(),
        RunEnd::Interrupted => ", interrupted".to_owned(),
        RunEnd::Failed { reason } => format!(", FAILED: {reason}"),
    };
    match &result.job {
        Job::Produce(load) => format!("produce to {}, {}{end}", result.topic, load.pace),
        Job::Consume(load) => {
            let from = match load.from {
                ReadFrom::Beginning => "from the beginning".to_owned(),
                ReadFrom::Tail { records } => format!("the last {records} records again and again"),
            };
            let readers = match load.consumers {
                1 => "one consumer".to_owned(),
                count => format!("{count} consumers"),
            };
            format!("consume from {}, {from}, by {readers}{end}", result.topic)
        }
    }
}

fn throughput_line(measured: &Measured) -> String {
    format!(
        "{:.1} MB/s, {:.0} records/s, {:.0} requests/s over {:.1} s",
        measured.mb_per_second,
        measured.records_per_second,
        measured.requests_per_second,
        measured.seconds
    )
}

/// What only some runs have.
fn parts(result: &RunResult) -> Vec<(&'static str, String)> {
    let mut parts = Vec::new();
    if let Some(flush) = &result.flush {
        parts.push(("flushes", flush_line(flush)));
    }
    if let Some(read) = &result.read_beside {
        let text = format!(
            "{} in {} batches{}",
            show_bytes(read.bytes),
            read.batches,
            skipped(read.skipped_offsets)
        );
        parts.push(("read beside", text));
    }
    if let Some(idle) = &result.idle {
        let each = idle.broker_bytes_per_connection;
        let each = each
            .map_or("the broker's memory is not known (--broker-pid)".to_owned(), |bytes| {
                format!("{bytes:.0} bytes of the broker's memory each")
            });
        let text =
            format!("{} connections, {each}, {} closed by the broker", idle.connections, idle.lost);
        parts.push(("idle", text));
    }
    if let Some(trend) = &result.trend {
        parts.push(("trend", trend_line(trend)));
        parts.push(("  first", window_line(&trend.first)));
        parts.push(("  last", window_line(&trend.last)));
    }
    if let Some(beside) = &result.beside {
        parts.push(("beside", run_line(beside)));
        parts.push(("  throughput", throughput_line(&beside.measured)));
        let nothing = "nothing was read while measuring";
        parts.push(("  latency (sent)", format!(" {}", latency_line(&beside.latency, nothing))));
        parts.push(("  audit", audit_text(beside)));
    }
    parts
}

fn flush_line(flush: &FlushReport) -> String {
    let device = flush.device.as_deref().unwrap_or("device not known");
    let verdict = match flush.verdict {
        FlushVerdict::Passed => "passed",
        FlushVerdict::Failed => "FAILED",
        FlushVerdict::NotDemanded => "none had to be",
        FlushVerdict::Unknown => "NOT KNOWN",
    };
    let why = flush.unknown_because.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!(
        "{verdict}{why}: {device}, {} flushes (at least {} for durable acknowledgements), {} writes",
        flush.flushes, flush.flushes_min, flush.writes
    )
}

fn trend_line(trend: &Trend) -> String {
    let steady = if trend.is_steady { "steady" } else { "NOT STEADY" };
    let (seconds, percent) = (trend.window_seconds, trend.tolerance_percent);
    format!("{steady}: the last {seconds:.0} s against the first, {percent} % worse at most")
}

fn window_line(window: &TrendWindow) -> String {
    let memory =
        window.broker_rss_bytes.map(|bytes| format!(", broker {} resident", show_bytes(bytes)));
    format!(
        "{:.1} MB/s, p50 {:.3}  p99.9 {:.3}  max {:.3} ms{}",
        window.mb_per_second,
        window.latency.p50_ms,
        window.latency.p999_ms,
        window.latency.max_ms,
        memory.unwrap_or_default()
    )
}

/// That some latencies are longer than they count for.
pub(super) fn lower_bounds_line(count: u64, what: &str) -> String {
    format!(
        "{count} of them {what}, and count with how long they had waited by the end: their latency is longer"
    )
}

/// What an acknowledgement promised.
pub(super) fn durability_line(result: &RunResult) -> String {
    let acks = match &result.job {
        Job::Produce(load) if load.acks == Acks::Leader => ", acks=leader",
        Job::Produce(_) => ", acks=all",
        Job::Consume(_) => "",
    };
    format!("{}{acks}", result.durability.text())
}

/// Of no latency at all the ranks are none, and why.
fn latency_line(latency: &LatencySummary, nothing: &str) -> String {
    if latency.count == 0 {
        return format!("-  {nothing}");
    }
    format!(
        "p50 {:.3}  p90 {:.3}  p99 {:.3}  p99.9 {:.3}  p99.99 {:.3}  max {:.3} ms",
        latency.p50_ms,
        latency.p90_ms,
        latency.p99_ms,
        latency.p999_ms,
        latency.p9999_ms,
        latency.max_ms
    )
}

fn process_line(used: &ProcessUse) -> String {
    let mut text =
        format!("{:.2} s user, {:.2} s system", used.cpu_user_seconds, used.cpu_system_seconds);
    if let Some(cost) = used.cpu_seconds_per_gb {
        text.push_str(&format!(", {cost:.3} CPU-s/GB"));
    }
    if let Some(cost) = used.cpu_us_per_request {
        text.push_str(&format!(", {cost:.1} us/request"));
    }
    text.push_str(&format!(
        ", {} resident, {}+{} context switches",
        show_bytes(used.rss_bytes),
        used.voluntary_context_switches,
        used.involuntary_context_switches
    ));
    if used.io_worker_cpu_seconds > 0.0 {
        text.push_str(&format!(
            ", {:.2} s of it in io_uring's workers",
            used.io_worker_cpu_seconds
        ));
    }
    if let Some(bytes) = used.disk_written_bytes {
        text.push_str(&format!(", {} written", show_bytes(bytes)));
    }
    text
}

/// What came of looking at the records.
pub(super) fn audit_text(result: &RunResult) -> String {
    match &result.job {
        Job::Produce(_) => audit_line(&result.audit),
        Job::Consume(load) => check_line(&result.audit, load.check),
    }
}

fn audit_line(audit: &AuditReport) -> String {
    let mut text = format!(
        "{}: {} of {} acknowledged batches as they were sent, {} unacknowledged (at most {}), {} in {:.1} s",
        verdict(audit),
        audit.matched_batches,
        audit.acked_batches,
        audit.unacked_batches,
        audit.unacked_batches_max,
        show_bytes(audit.bytes),
        audit.seconds
    );
    if audit.expired_batches > 0 {
        text.push_str(&format!(", {} taken by retention", audit.expired_batches));
    }
    if audit.undelivered_batches > 0 {
        text.push_str(&format!(", {} not waited for at the consumers", audit.undelivered_batches));
    }
    text.push_str(&skipped(audit.skipped_offsets));
    text
}

fn skipped(offsets: u64) -> String {
    match offsets {
        0 => String::new(),
        count => format!(", {count} offsets skipped that retention took before they were read"),
    }
}

fn check_line(audit: &AuditReport, check: Check) -> String {
    let how = match check {
        Check::Crc => "whole and in order",
        Check::Offsets => "in order; checksums were not looked at",
    };
    format!(
        "{}: {} batches {how}{}",
        verdict(audit),
        audit.matched_batches,
        skipped(audit.skipped_offsets)
    )
}

fn verdict(audit: &AuditReport) -> String {
    match audit.judge() {
        AuditVerdict::Passed => "passed".to_owned(),
        AuditVerdict::PassedInPart => "passed as far as it went".to_owned(),
        AuditVerdict::Failed => "FAILED".to_owned(),
        AuditVerdict::NotAudited => {
            let why = audit.findings.first().map_or("nothing was looked at", |first| &first.fact);
            format!("NOT AUDITED: {why}")
        }
    }
}

/// One second of a run.
#[expect(clippy::cast_precision_loss, reason = "bytes of a second are far below 2^53")]
pub(super) fn progress_line(interval: &Interval) -> String {
    let a_second = |count: u64| count as f64 / interval.seconds.max(1e-9);
    let end = interval.begin + interval.seconds;
    format!(
        "{end:>6.1} s  {:>8.1} MB/s  {:>9.0} requests/s  p50 {:>8.3}  p99 {:>8.3}  max {:>8.3} ms  {} errors",
        a_second(interval.bytes) / 1e6,
        a_second(interval.requests),
        interval.p50_ms,
        interval.p99_ms,
        interval.max_ms,
        interval.errors
    )
}

#[cfg(test)]
pub(super) mod testing {
    //! A result for tests.

    use std::collections::BTreeMap;

    use load::{Durability, ErrorCount, RESULT_FORMAT, Workload};

    use super::*;

    pub(crate) fn result() -> RunResult {
        RunResult {
            format: RESULT_FORMAT,
            sound: true,
            unsound_because: Vec::new(),
            job: Job::Produce(Workload::default()),
            topic: "t".to_owned(),
            partitions: 1,
            leaders: 1,
            durability: Durability::D1,
            topic_configs: BTreeMap::new(),
            connections: 1,
            started_ms: 1_700_000_000_000,
            end: RunEnd::Complete,
            measured: Measured {
                seconds: 2.0,
                requests: 10,
                batches: 10,
                records: 100,
                bytes: 2_000_000,
                plain_bytes: 2_000_000,
                mb_per_second: 1.0,
                records_per_second: 50.0,
                requests_per_second: 5.0,
            },
            latency: LatencySummary {
                count: 10,
                p50_ms: 1.5,
                max_ms: 9.0,
                ..LatencySummary::default()
            },
            latency_lower_bounds: 0,
            latency_curve: Vec::new(),
            send_delay: LatencySummary::default(),
            delivery: None,
            delivery_lower_bounds: 0,
            delivery_uncounted: 0,
            read_beside: None,
            errors: Vec::new(),
            unanswered: 0,
            due: 0,
            unsent: 0,
            intervals: vec![Interval::default()],
            drain: None,
            broker: Some(ProcessUse { cpu_seconds_per_gb: Some(0.25), ..ProcessUse::default() }),
            client: None,
            kernel_worker_cpu_seconds: None,
            flush: None,
            idle: None,
            trend: None,
            beside: None,
            audit: AuditReport {
                verdict: AuditVerdict::Passed,
                has_passed: true,
                is_complete: true,
                acked_batches: 12,
                matched_batches: 12,
                ..AuditReport::default()
            },
        }
    }

    pub(crate) fn errors() -> Vec<ErrorCount> {
        vec![ErrorCount {
            code: 56,
            name: "KAFKA_STORAGE_ERROR".to_owned(),
            count: 3,
            first_partition: 7,
            first_message: Some("disk".to_owned()),
        }]
    }
}

#[cfg(test)]
mod tests {
    use load::{Finding, FindingKind};

    use super::*;

    fn shown(result: &RunResult) -> String {
        let mut bytes = Vec::new();
        Report(result).show_table(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_table_has_what_counts_first() {
        let text = shown(&testing::result());
        for expected in [
            "1.0 MB/s, 50 records/s, 5 requests/s over 2.0 s",
            "latency (sent)  p50 1.500",
            "0.250 CPU-s/GB",
            "audit           passed: 12 of 12",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("sent late by") && !text.contains("errors"), "{text}");
    }

    #[test]
    fn what_went_wrong_cannot_be_overlooked() {
        let mut result = testing::result();
        result.end = RunEnd::Failed { reason: "the broker is gone".to_owned() };
        result.errors = testing::errors();
        result.unanswered = 2;
        (result.due, result.unsent, result.latency_lower_bounds) = (100, 40, 40);
        let pace = load::Pace::Requests { per_second: 5 };
        result.job = Job::Produce(load::Workload { pace, ..load::Workload::default() });
        result.audit.has_passed = false;
        result.audit.finding_count = 1;
        result.audit.findings = vec![Finding {
            kind: FindingKind::Missing,
            partition: 3,
            offset: 70,
            fact: "the log ends at 70".to_owned(),
        }];
        let text = shown(&result);
        for expected in [
            "FAILED: the broker is gone",
            "3 KAFKA_STORAGE_ERROR (56), first in partition 7: disk",
            "unanswered      2 requests",
            "  behind        40 of 100 requests were due and never left",
            "NOT SOUND       the rate was not kept: 40 of 100 requests",
            "NOT SOUND       the audit failed: 1 findings",
            "  at least      40 of them had no answer",
            "latency (due)",
            "sent late by",
            "audit           FAILED",
            "partition 3 offset 70: missing: the log ends at 70",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn what_only_some_runs_have_is_told() {
        let mut result = testing::result();
        result.flush = Some(FlushReport {
            device: Some("vda".to_owned()),
            writes: 9,
            flushes: 3,
            flushes_min: 50,
            is_required: false,
            verdict: FlushVerdict::Failed,
            unknown_because: None,
        });
        result.idle = Some(load::IdleUse {
            connections: 100,
            lost: 2,
            broker_bytes_per_connection: Some(2_048.4),
            ..load::IdleUse::default()
        });
        let window = TrendWindow { mb_per_second: 5.0, ..TrendWindow::default() };
        result.trend = Some(Trend {
            window_seconds: 300.0,
            first: window,
            last: window,
            tolerance_percent: 10,
            is_steady: false,
        });
        let mut beside = testing::result();
        beside.job = Job::Consume(load::ReadLoad::default());
        result.beside = Some(Box::new(beside));
        let text = shown(&result);
        for expected in [
            "NOT SOUND       the device was flushed 3 times, and 50 acknowledged requests",
            "NOT SOUND       the last minutes were worse",
            "flushes         FAILED: vda, 3 flushes (at least 50",
            "idle            100 connections, 2048 bytes of the broker's memory each, 2 closed",
            "trend           NOT STEADY: the last 300 s against the first, 10 % worse at most",
            "  first         5.0 MB/s",
            "beside          consume from t, from the beginning",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn a_latency_of_nothing_is_no_number() {
        let mut result = testing::result();
        result.latency = LatencySummary::default();
        result.measured.requests = 0;
        result.delivery = Some(LatencySummary::default());
        let text = shown(&result);
        for expected in [
            "NOT SOUND       nothing was measured",
            "latency (sent)  -  no request that was due while measuring was answered",
            "delivered (sent)-  no batch",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("p50"), "{text}");
    }

    #[test]
    fn an_audit_that_could_not_read_does_not_say_that_it_failed() {
        let mut result = testing::result();
        result.audit.has_passed = false;
        (result.audit.finding_count, result.audit.unreadable_count) = (1, 1);
        result.audit.findings = vec![Finding {
            kind: FindingKind::Unreadable,
            partition: 3,
            offset: 70,
            fact: "127.0.0.1:9092: connection refused".to_owned(),
        }];
        let text = shown(&result);
        assert!(
            text.contains("audit           NOT AUDITED: 127.0.0.1:9092: connection refused"),
            "{text}"
        );
        assert!(!text.contains("FAILED"), "{text}");
        (result.audit.has_passed, result.audit.finding_count) = (true, 0);
        (result.audit.expired_batches, result.audit.skipped_offsets) = (4, 99);
        let text = shown(&result);
        assert!(text.contains("4 taken by retention, 99 offsets skipped"), "{text}");
    }

    #[test]
    fn a_run_that_read_says_so() {
        let mut result = testing::result();
        result.job = Job::Consume(load::ReadLoad::default());
        let text = shown(&result);
        for expected in [
            "consume from t, from the beginning, by one consumer",
            "read            2.00 MB",
            "audit           passed: 12 batches whole and in order",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn a_result_is_read_back_from_json() {
        let result = testing::result();
        let json = serde_json::to_string(&Report(&result)).unwrap();
        assert_eq!(serde_json::from_str::<RunResult>(&json).unwrap(), result);
    }

    #[test]
    fn a_result_of_a_release_that_knew_less_is_read_back() {
        let result = testing::result();
        let mut json = serde_json::to_value(&result).unwrap();
        json.as_object_mut().unwrap().remove("latency_curve").unwrap();
        json["intervals"][0].as_object_mut().unwrap().remove("broker").unwrap();
        assert_eq!(serde_json::from_value::<RunResult>(json).unwrap(), result);
    }

    #[test]
    fn progress_tells_rates_of_the_second() {
        let interval = Interval {
            begin: 4.0,
            seconds: 0.5,
            requests: 100,
            bytes: 5_000_000,
            errors: 1,
            p99_ms: 2.5,
            ..Interval::default()
        };
        let line = progress_line(&interval);
        for expected in ["4.5 s", "10.0 MB/s", "200 requests/s", "p99    2.500", "1 errors"] {
            assert!(line.contains(expected), "{expected}: {line}");
        }
    }
}
