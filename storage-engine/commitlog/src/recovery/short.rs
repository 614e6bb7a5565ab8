//! A segment that is shorter than its checkpoint: acknowledged bytes are gone.
//!
//! Owns what becomes of its offsets. The segment stays as it is and counts as sealed: what is whole in it is served, what is
//! not is damage like any other, and so is everything from its last good batch to the end that the checkpoint knows. The log
//! goes on behind that end: no offset that was acknowledged is ever given to another record.
//!
//! ```text
//! checkpoint    [ S .................. P = entry.end )
//! file          [ good ][bad][ good ][to]
//! now           [ good ][ × ][ good ][ × × × × × × × )[ fresh segment at entry.end …
//! ```

use crate::disk::{Disk, OpenMode};
use crate::error::OpenError;
use crate::executor::Executor;
use crate::log::Damage;
use crate::recovery::{Listing, Plan, Recovery, RecoveryReport, note};

impl<D: Disk, E: Executor> Recovery<'_, D, E> {
    /// Notes what the short segment of the plan lost, and keeps a copy of the bytes that follow its last good batch.
    pub(super) async fn take_short(
        &self,
        listing: &Listing,
        plan: &Plan,
        damage: &mut Vec<Damage>,
        report: &mut RecoveryReport,
    ) -> Result<(), OpenError> {
        let last = plan.first_scanned.checked_sub(1).and_then(|index| listing.logs.get(index));
        let (true, Some(log)) = (plan.is_short, last.copied()) else { return Ok(()) };
        let mut found = Vec::new();
        let last = self.walk_front(listing, plan, log.base, report, &mut found, |_| {}).await?;
        let tail = last.filter(|last| last.offsets.end == plan.offset);
        // The tail first: the list has a bound, and nothing else says what is lost for good.
        for one in tail.iter().cloned().chain(found) {
            note(damage, one);
        }
        let Some(tail) = tail else { return Ok(()) };
        if tail.positions.start < log.bytes {
            let file = self.open_segment(log.base, OpenMode::Read).await?;
            if let Some(copy) = self.copy_once(&file, log, tail.positions.start).await? {
                report.strays.push(copy);
            }
        }
        tracing::error!(
            log = %self.identity, segment = %log.base, from = %tail.offsets.start, to = %tail.offsets.end,
            "the segment is shorter than its checkpoint: these acknowledged offsets are lost"
        );
        report.lost = Some(tail.offsets);
        Ok(())
    }
}
