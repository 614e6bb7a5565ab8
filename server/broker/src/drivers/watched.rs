//! The partitions of a core in which something waits.
//!
//! Owns the set, so that looking at deadlines costs what is under way and not what is there: a core may lead ten thousand
//! partitions that nobody writes to. A partition is noted before anything in it can wait, and is let go of by whoever has
//! looked and found that nothing does.

use std::cell::RefCell;
use std::collections::BTreeSet;

use record::TopicPartition;

/// The partitions to look at. As many as there are at most.
#[derive(Debug, Default)]
pub struct Watched(RefCell<BTreeSet<TopicPartition>>);

impl Watched {
    /// Something may wait there from now on.
    pub(super) fn note(&self, partition: TopicPartition) {
        self.0.borrow_mut().insert(partition);
    }

    /// Nothing waits there any more.
    pub(crate) fn forget(&self, partition: TopicPartition) {
        self.0.borrow_mut().remove(&partition);
    }

    /// All of them.
    #[must_use]
    pub(crate) fn all(&self) -> Vec<TopicPartition> {
        self.0.borrow().iter().copied().collect()
    }
}
