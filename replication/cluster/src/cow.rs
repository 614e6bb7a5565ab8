//! A map that is cheap to share: copies share everything that has not changed since.
//!
//! Owns a fixed number of buckets, each a shared ordered map. Copying the map copies one pointer a bucket; changing a key
//! copies its bucket only, a hundredth of the keys. Iteration order is that of the buckets: the same for equal histories and
//! equal contents, but not the order of the keys.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;

use record::TopicId;

const BUCKET_COUNT: usize = 128;

/// Where a key belongs. Keys that compare equal through `Borrow` must spread equally.
pub(crate) trait Spread {
    fn spread(&self) -> u64;
}

impl Spread for str {
    /// FNV-1a: names chosen to meet in one bucket only make that bucket's copy larger.
    fn spread(&self) -> u64 {
        self.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

impl Spread for Arc<str> {
    fn spread(&self) -> u64 {
        str::spread(self)
    }
}

impl Spread for TopicId {
    /// The id is random already: the last byte alone would spread it.
    fn spread(&self) -> u64 {
        self.0.iter().fold(0, |hash, byte| hash << 7 ^ u64::from(*byte))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CowMap<K, V> {
    buckets: Vec<Arc<BTreeMap<K, V>>>,
    len: usize,
}

impl<K, V> Default for CowMap<K, V> {
    fn default() -> Self {
        let empty = Arc::new(BTreeMap::new());
        Self { buckets: alloc::vec![empty; BUCKET_COUNT], len: 0 }
    }
}

impl<K: Ord + Clone + Spread, V: Clone> CowMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + Spread + ?Sized,
    {
        self.buckets.get(bucket_of(key))?.get(key)
    }

    pub(crate) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Ord + Spread + ?Sized,
    {
        let bucket = self.buckets.get_mut(bucket_of(key))?;
        // Look first: a miss must not copy the bucket.
        if !bucket.contains_key(key) {
            return None;
        }
        Arc::make_mut(bucket).get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let bucket = self.buckets.get_mut(bucket_of(&key))?;
        let previous = Arc::make_mut(bucket).insert(key, value);
        self.len += usize::from(previous.is_none());
        previous
    }

    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + Spread + ?Sized,
    {
        let bucket = self.buckets.get_mut(bucket_of(key))?;
        if !bucket.contains_key(key) {
            return None;
        }
        let removed = Arc::make_mut(bucket).remove(key);
        self.len -= usize::from(removed.is_some());
        removed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.buckets.iter().flat_map(|bucket| bucket.iter())
    }
}

fn bucket_of<Q: Spread + ?Sized>(key: &Q) -> usize {
    // Below 2^7 after the remainder: fits any usize.
    usize::try_from(key.spread() % BUCKET_COUNT as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn map_of(count: usize) -> CowMap<Arc<str>, usize> {
        let mut map = CowMap::default();
        for index in 0..count {
            map.insert(Arc::from(format!("topic-{index}")), index);
        }
        map
    }

    #[test]
    fn a_change_copies_one_bucket_and_leaves_the_copy_alone() {
        let mut map = map_of(1_000);
        let before = map.clone();
        assert_eq!(map.insert(Arc::from("topic-7"), 70), Some(7));
        assert_eq!(map.remove("topic-8"), Some(8));
        let shared = map
            .buckets
            .iter()
            .zip(&before.buckets)
            .filter(|(left, right)| Arc::ptr_eq(left, right))
            .count();
        assert!(shared >= BUCKET_COUNT - 2);
        assert_eq!((before.get("topic-7"), before.get("topic-8")), (Some(&7), Some(&8)));
        assert_eq!((map.get("topic-7"), map.get("topic-8")), (Some(&70), None));
        assert_eq!((before.len(), map.len()), (1_000, 999));
    }

    #[test]
    fn a_miss_copies_nothing() {
        let mut map = map_of(100);
        let before = map.clone();
        assert_eq!(map.remove("absent"), None);
        assert_eq!(map.get_mut("absent"), None);
        let all_shared =
            map.buckets.iter().zip(&before.buckets).all(|(left, right)| Arc::ptr_eq(left, right));
        assert!(all_shared);
    }

    #[test]
    fn keys_spread_over_the_buckets() {
        let map = map_of(10_000);
        let fullest = map.buckets.iter().map(|bucket| bucket.len()).max();
        assert!(fullest < Some(160), "{fullest:?}");
        assert_eq!(map.iter().count(), 10_000);
    }
}
