//! A map that forgets what was used longest ago once its weight passes a budget.
//!
//! Owns the order of use. Values are cheap clones (`Rc`): what is evicted lives on with whoever still holds it. Ordered
//! maps only, so that two runs of one seed evict alike.

use std::collections::BTreeMap;

#[derive(Debug)]
struct Held<V> {
    value: V,
    weight: usize,
    used: u64,
}

/// Weight-bounded map; the newest entry always stays, whatever it weighs.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    entries: BTreeMap<K, Held<V>>,
    order: BTreeMap<u64, K>,
    weight: usize,
    weight_max: usize,
    clock: u64,
}

impl<K: Ord + Clone, V: Clone> Lru<K, V> {
    pub(crate) fn new(weight_max: usize) -> Self {
        Self { entries: BTreeMap::new(), order: BTreeMap::new(), weight: 0, weight_max, clock: 0 }
    }

    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets the entry used longest ago.
    pub(crate) fn remove_oldest(&mut self) {
        if let Some((_, oldest)) = self.order.pop_first()
            && let Some(held) = self.entries.remove(&oldest)
        {
            self.weight -= held.weight;
        }
    }

    /// The value of `key`, which counts as used now.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let held = self.entries.get_mut(key)?;
        self.order.remove(&held.used);
        held.used = self.clock;
        self.order.insert(self.clock, key.clone());
        Some(held.value.clone())
    }

    /// The entry with the greatest key that is at most `key`; does not count as used.
    pub(crate) fn floor(&self, key: &K) -> Option<(&K, &V)> {
        self.entries.range(..=key.clone()).next_back().map(|(key, held)| (key, &held.value))
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Puts a value in place of any older one, and forgets old ones until the budget holds again.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        self.clock += 1;
        self.order.insert(self.clock, key.clone());
        self.entries.insert(key, Held { value, weight, used: self.clock });
        self.weight += weight;
        while self.weight > self.weight_max && self.entries.len() > 1 {
            self.remove_oldest();
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(held) = self.entries.remove(key) {
            self.order.remove(&held.used);
            self.weight -= held.weight;
        }
    }

    /// Forgets every entry with a key in `range`.
    pub(crate) fn remove_range(&mut self, range: impl std::ops::RangeBounds<K>) {
        let keys: Vec<K> = self.entries.range(range).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_used_longest_ago_goes_first() {
        let mut lru = Lru::new(3);
        lru.insert(1, "a", 1);
        lru.insert(2, "b", 1);
        lru.insert(3, "c", 1);
        assert_eq!(lru.get(&1), Some("a"));
        lru.insert(4, "d", 1);
        assert_eq!(lru.get(&2), None);
        assert_eq!(lru.get(&1), Some("a"));
        assert_eq!(lru.weight(), 3);
        assert_eq!(lru.floor(&2), Some((&1, &"a")));
    }

    #[test]
    fn one_entry_may_pass_the_budget_and_replacing_it_frees_it() {
        let mut lru = Lru::new(3);
        lru.insert(1, "a", 9);
        assert_eq!((lru.get(&1), lru.weight()), (Some("a"), 9));
        lru.insert(1, "b", 2);
        assert_eq!((lru.get(&1), lru.weight()), (Some("b"), 2));
        lru.remove_range(0..5);
        assert_eq!((lru.get(&1), lru.weight()), (None, 0));
    }
}
