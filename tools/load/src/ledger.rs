//! What was acknowledged: eight bytes a batch.
//!
//! Owns the bound on itself. When it is full it takes no more and says how many it did not take: the audit then knows that it
//! does not know them.

use record::Offset;

/// Bits of an entry that name the template; the others are the base offset.
const TEMPLATE_BITS: u32 = 16;
/// The largest base offset that fits: a log of a million records a second reaches it after nine years.
pub(crate) const OFFSET_MAX: i64 = (1 << (64 - TEMPLATE_BITS)) - 1;

/// A batch that was acknowledged. Ordered by base offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acked(u64);

impl Acked {
    /// `None` where one of them is beyond what fits.
    pub(crate) fn new(base_offset: Offset, template: usize) -> Option<Self> {
        let offset = u64::try_from(base_offset.0).ok().filter(|_| base_offset.0 <= OFFSET_MAX)?;
        let template = u64::from(u16::try_from(template).ok()?);
        Some(Self(offset << TEMPLATE_BITS | template))
    }

    /// Where the broker said it is.
    pub(crate) fn base_offset(self) -> Offset {
        Offset(i64::try_from(self.0 >> TEMPLATE_BITS).unwrap_or(OFFSET_MAX))
    }

    /// Which batch it is.
    pub(crate) fn template(self) -> usize {
        usize::try_from(self.0 & ((1 << TEMPLATE_BITS) - 1)).unwrap_or(0)
    }
}

/// The acknowledged batches of a run, by partition.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// By the partition's place in the run.
    partitions: Vec<Vec<Acked>>,
    count: usize,
    count_max: usize,
    untaken: u64,
}

impl Ledger {
    /// Of so many partitions and at most `count_max` batches.
    pub(crate) fn new(partitions: usize, count_max: usize) -> Self {
        Self { partitions: vec![Vec::new(); partitions], count: 0, count_max, untaken: 0 }
    }

    /// Takes note of a batch.
    pub(crate) fn take(&mut self, partition: usize, base_offset: Offset, template: usize) {
        let is_full = self.count >= self.count_max;
        let entry = Acked::new(base_offset, template).filter(|_| !is_full);
        match (self.partitions.get_mut(partition), entry) {
            (Some(entries), Some(entry)) => {
                entries.push(entry);
                self.count += 1;
            }
            _ => self.untaken += 1,
        }
    }

    /// How many batches it knows.
    pub(crate) fn count(&self) -> u64 {
        self.count as u64
    }

    /// Acknowledged batches that it does not know.
    pub(crate) fn untaken(&self) -> u64 {
        self.untaken
    }

    /// What is known of a partition, ascending by base offset; it is taken out.
    pub(crate) fn sorted(&mut self, partition: usize) -> Vec<Acked> {
        let mut entries =
            self.partitions.get_mut(partition).map(std::mem::take).unwrap_or_default();
        entries.sort_unstable();
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_what_they_were_given_and_sort_by_offset() {
        for (offset, template) in [(0, 0), (1, 65_535), (OFFSET_MAX, 7)] {
            let entry = Acked::new(Offset(offset), template).unwrap();
            assert_eq!((entry.base_offset().0, entry.template()), (offset, template));
        }
        for (offset, template) in [(-1, 0), (OFFSET_MAX + 1, 0), (0, 65_536)] {
            assert_eq!(Acked::new(Offset(offset), template), None);
        }
        let mut ledger = Ledger::new(2, 10);
        for offset in [30, 10, 20] {
            ledger.take(1, Offset(offset), 5);
        }
        let offsets: Vec<i64> =
            ledger.sorted(1).iter().map(|entry| entry.base_offset().0).collect();
        assert_eq!(offsets, [10, 20, 30]);
        assert!(ledger.sorted(0).is_empty());
    }

    #[test]
    fn a_full_ledger_says_what_it_did_not_take() {
        let mut ledger = Ledger::new(1, 3);
        for offset in 0..5 {
            ledger.take(0, Offset(offset), 0);
        }
        ledger.take(9, Offset(0), 0);
        assert_eq!((ledger.count(), ledger.untaken()), (3, 3));
        assert_eq!(ledger.sorted(0).len(), 3);
    }
}
