//! Reading that asks for leave after each read.
//!
//! Owns the account between who reads and who says how fast. Both run in one task: the reader waits until what it has spent was
//! taken note of, and is dropped while it waits where that ends it. So one long search is paced like many short steps.

use std::cell::Cell;

use crate::local::Event;

/// What reading has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadCost {
    /// Bytes that the disk gave.
    pub read_bytes: u64,
    /// Reads that it refused: a dying disk takes seconds over each.
    pub failed_reads: u64,
}

/// The account.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    owed: Cell<ReadCost>,
    moved: Event,
}

impl Throttle {
    /// Spends, and waits until that is settled.
    pub(crate) async fn spend(&self, cost: ReadCost) {
        assert!(self.owed.replace(cost) == ReadCost::default());
        self.moved.notify();
        let settled = || (self.owed.get() == ReadCost::default()).then_some(());
        self.moved.wait_for(settled).await;
    }

    /// Waits until something is owed.
    pub(crate) async fn owed(&self) -> ReadCost {
        let owed = || Some(self.owed.get()).filter(|owed| *owed != ReadCost::default());
        self.moved.wait_for(owed).await
    }

    /// Lets the reader go on.
    pub(crate) fn settle(&self) {
        self.owed.set(ReadCost::default());
        self.moved.notify();
    }
}
