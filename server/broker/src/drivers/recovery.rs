//! What opening a log found, in words for the operator.
//!
//! Owns the line that is logged when a log was not simply as it was left.

use cluster::Bounds;
use commitlog::{CutReason, RecoveryReport};
use record::Offset;

/// Logs what is worth knowing about a recovery; nothing where there is nothing.
pub(crate) fn report_recovery(name: &str, report: &RecoveryReport) {
    let end = report.end;
    if let Some(lost) = &report.lost {
        let lost = Bounds(lost.start, Offset(lost.end.0 - 1));
        tracing::error!(
            "{name}: acknowledged offsets {lost} are gone from disk: reads of them are \
             refused, all others are served, appends go on at {end}"
        );
    }
    if let Some(cut) = &report.cut {
        let (segment, position) = (cut.segment, cut.position);
        match cut.reason {
            // What every unclean stop leaves: room that was written ahead and not used.
            CutReason::ZeroTail => tracing::debug!(
                "{name}: zeros behind the last batch removed (segment {segment}, byte {position}); \
                 log end {end}"
            ),
            CutReason::Bad(bad) => tracing::info!(
                "{name}: segment {segment} ends at byte {position}, at the first batch that is not \
                 whole ({bad:?}); log end {end}"
            ),
        }
    }
    for stray in &report.strays {
        tracing::warn!("{name}: bytes that may matter were kept in {stray}");
    }
    if report.epochs_rebuilt {
        tracing::info!("{name}: leader epochs rebuilt from the batches");
    }
}
