//! How many client connections the node has, in all and of each address.
//!
//! Owns the two counts that cores share, and the place of a connection in both. They are touched when a connection comes or goes
//! and never while one is served. A place gives itself back when it is dropped, however its connection ends.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bounds as they hold when a connection comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionBounds {
    /// `max.connections`, or what open files allow.
    pub(crate) in_all_max: usize,
    /// `max.connections.per.ip`, or what `max.connections.per.ip.overrides` says of the address.
    pub(crate) per_address_max: usize,
}

/// The bound that leaves no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The node has as many as it may.
    InAll,
    /// The address has as many as it may.
    OfAddress,
}

/// The counts of a node.
#[derive(Debug, Default)]
pub struct ConnectionCounts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    in_all: usize,
    /// Of each address that has any: as many entries as connections at most.
    by_address: HashMap<IpAddr, usize>,
}

/// A connection's place among those of its node.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    counts: Arc<ConnectionCounts>,
    address: IpAddr,
}

impl ConnectionCounts {
    /// Counts a connection from `address`, unless a bound is reached.
    pub(crate) fn take(
        self: &Arc<Self>,
        address: IpAddr,
        bounds: ConnectionBounds,
    ) -> Result<ConnectionPlace, NoPlace> {
        // By either listener an IPv4 client is the same one.
        let address = address.to_canonical();
        let mut counts = self.lock();
        if counts.in_all >= bounds.in_all_max {
            return Err(NoPlace::InAll);
        }
        let of_address = counts.by_address.get(&address).copied().unwrap_or(0);
        if of_address >= bounds.per_address_max {
            return Err(NoPlace::OfAddress);
        }
        counts.in_all += 1;
        counts.by_address.insert(address, of_address + 1);
        Ok(ConnectionPlace { counts: Arc::clone(self), address })
    }

    /// A panic while the counts were held cannot have left them half changed: nothing in there panics between two changes.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.in_all = counts.in_all.saturating_sub(1);
        if let Entry::Occupied(mut of_address) = counts.by_address.entry(self.address) {
            *of_address.get_mut() -= 1;
            if *of_address.get() == 0 {
                of_address.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(in_all_max: usize, per_address_max: usize) -> ConnectionBounds {
        ConnectionBounds { in_all_max, per_address_max }
    }

    #[test]
    fn each_bound_refuses_what_is_beyond_it_and_a_dropped_place_is_free_again() {
        let counts = Arc::new(ConnectionCounts::default());
        let [one, other] = ["10.0.0.1", "::1"].map(|text| text.parse::<IpAddr>().unwrap());
        let take = |address, in_all, per_address| counts.take(address, bounds(in_all, per_address));
        let first = take(one, 3, 2).unwrap();
        let _second = take(one, 3, 2).unwrap();
        assert_eq!(take(one, 3, 2).unwrap_err(), NoPlace::OfAddress);
        let _third = take(other, 3, 2).unwrap();
        assert_eq!(take(other, 3, 2).unwrap_err(), NoPlace::InAll);
        drop(first);
        let again = take(one, 3, 2).unwrap();
        assert_eq!(take(one, 9, 2).unwrap_err(), NoPlace::OfAddress);
        drop(again);
        // A bound that was lowered below what is there refuses, and ends nobody.
        assert_eq!(take(other, 1, 9).unwrap_err(), NoPlace::InAll);
    }

    #[test]
    fn an_address_is_the_same_in_ipv6_clothes_and_is_forgotten_with_its_last_connection() {
        let counts = Arc::new(ConnectionCounts::default());
        let [plain, mapped] =
            ["10.0.0.1", "::ffff:10.0.0.1"].map(|text| text.parse::<IpAddr>().unwrap());
        let place = counts.take(plain, bounds(9, 1)).unwrap();
        assert_eq!(counts.take(mapped, bounds(9, 1)).unwrap_err(), NoPlace::OfAddress);
        drop(place);
        assert!(counts.lock().by_address.is_empty());
        assert_eq!(counts.lock().in_all, 0);
    }
}
