//! Whether two of a node's addresses are the same.
//!
//! Owns the ports that each listener takes: one, or in `advertise = "core"` one a core. Cores share ports by `SO_REUSEPORT`, so
//! that the kernel would let two listeners of one node share one as well, and deal connections to either.

use std::net::SocketAddr;

use cluster::Advertise;

use super::listeners::ListenerConfig;

/// Two addresses that overlap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{first} and {second}: both would listen on port {port}{}", wildcard_hint(*.is_wildcard))]
pub struct Overlap {
    /// The one: `listener NAME`, or `admin.listen`.
    pub first: String,
    /// The other.
    pub second: String,
    /// The port.
    pub port: u16,
    /// One of them listens on every address, and takes the other's with it.
    pub is_wildcard: bool,
}

fn wildcard_hint(is_wildcard: bool) -> &'static str {
    if is_wildcard {
        "; one of them listens on every address of this machine already ([::] on those of IPv4 too)"
    } else {
        ""
    }
}

/// The ports of one listener.
struct Taken {
    name: String,
    address: SocketAddr,
    /// How many, counted up from that of the address.
    count: u16,
}

impl Taken {
    fn overlap(&self, other: &Self) -> Option<Overlap> {
        let (own, others) = (self.address.ip(), other.address.ip());
        let covers = |wide: std::net::IpAddr, narrow: std::net::IpAddr| {
            wide.is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
        };
        let is_wildcard = own != others && (covers(own, others) || covers(others, own));
        // Port 0 becomes a free one.
        let is_open = self.address.port() == 0 || other.address.port() == 0;
        if is_open || !(own == others || is_wildcard) {
            return None;
        }
        let port = self.address.port().max(other.address.port());
        let reaches = |taken: &Self| port - taken.address.port() < taken.count;
        (reaches(self) && reaches(other)).then(|| Overlap {
            first: self.name.clone(),
            second: other.name.clone(),
            port,
            is_wildcard,
        })
    }
}

/// The first two addresses that overlap, on a node of so many data cores, with the second one's index: the listeners', and after
/// them the admin server's.
pub(super) fn find_overlap<'a>(
    listeners: impl Iterator<Item = &'a ListenerConfig>,
    admin: Option<SocketAddr>,
    shard_count: u16,
) -> Option<(usize, Overlap)> {
    let of_clients = listeners.map(|listener| Taken {
        name: format!("listener {}", listener.name),
        address: listener.bind,
        count: match listener.advertise {
            Advertise::Node => 1,
            Advertise::Core => shard_count,
        },
    });
    let of_admin =
        admin.map(|address| Taken { name: "admin.listen".to_owned(), address, count: 1 });
    let mut taken: Vec<Taken> = Vec::new();
    for (index, next) in of_clients.chain(of_admin).enumerate() {
        if let Some(found) = taken.iter().find_map(|before| before.overlap(&next)) {
            return Some((index, found));
        }
        taken.push(next);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &str, bind: &str, advertise: Advertise) -> ListenerConfig {
        let bind = bind.parse().unwrap();
        ListenerConfig { name: name.to_owned(), bind, advertised: None, advertise }
    }

    #[test]
    fn the_same_port_of_the_same_address_is_an_overlap_and_any_other_is_not() {
        let check = |binds: [&str; 2], advertise, expected: Option<u16>| {
            let [first, second] = binds;
            let listeners =
                [listener("A", first, advertise), listener("B", second, Advertise::Node)];
            let found = find_overlap(listeners.iter(), None, 4);
            assert_eq!(
                found.map(|(second, found)| (second, found.port)),
                expected.map(|port| (1, port)),
                "{binds:?} {advertise:?}"
            );
        };
        let (node, core) = (Advertise::Node, Advertise::Core);
        check(["127.0.0.1:9092", "127.0.0.1:9092"], node, Some(9092));
        check(["127.0.0.1:9092", "127.0.0.1:9093"], node, None);
        check(["127.0.0.1:9092", "127.0.0.2:9092"], node, None);
        check(["127.0.0.1:0", "127.0.0.1:0"], node, None);
        check(["0.0.0.0:9092", "10.0.0.1:9092"], node, Some(9092));
        check(["[::]:9092", "0.0.0.0:9092"], node, Some(9092));
        check(["[::]:9092", "10.0.0.1:9092"], node, Some(9092));
        check(["0.0.0.0:9092", "[::1]:9092"], node, None);
        check(["[::1]:9092", "127.0.0.1:9092"], node, None);
        check(["127.0.0.1:9092", "127.0.0.1:9095"], core, Some(9095));
        check(["127.0.0.1:9092", "127.0.0.1:9096"], core, None);
        check(["127.0.0.1:9096", "127.0.0.1:9092"], core, None);
    }

    #[test]
    fn an_overlap_is_told_with_both_names_and_the_port() {
        let listeners = [listener("CORES", "0.0.0.0:9898", Advertise::Core)];
        let admin = Some("127.0.0.1:9901".parse().unwrap());
        let (_, found) = find_overlap(listeners.iter(), admin, 4).unwrap();
        let said = found.to_string();
        assert!(
            said.starts_with("listener CORES and admin.listen: both would listen on port 9901")
        );
        assert!(said.contains("every address"), "{said}");
    }
}
