//! `max.connections.per.ip.overrides`: addresses that may have another number of connections than the rest.
//!
//! Owns the form of the option, which is Kafka's (`127.0.0.1:200,::1:3,host:50`), and which number an address gets. It resolves
//! no name itself: that waits for others, and is done once, before a node starts.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use cluster::{excerpt, list_items};

use super::error::{AddressLimitProblem, ConfigError, Place};
use super::listeners::{HOST_BYTES_MAX, in_brackets, is_host_name};

/// The option.
pub(super) const KEY: &str = "max.connections.per.ip.overrides";

/// Limits of single addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressLimits {
    /// IPv4 addresses as such, whatever they come by.
    by_address: BTreeMap<IpAddr, u32>,
    /// Hosts that have not been resolved yet.
    by_name: BTreeMap<String, u32>,
}

/// A host that has no address.
#[derive(Debug, thiserror::Error)]
#[error(
    "{place}: {key} = {host}: cannot be resolved ({error}): correct the name, or give its address",
    key = KEY
)]
pub struct UnresolvedHost {
    /// Where the option was set.
    pub place: Place,
    /// The host, cut to a bound.
    pub host: String,
    /// What the resolver says.
    pub error: io::Error,
}

impl AddressLimits {
    /// Reads the option; what is wrong is reported and left out.
    pub(super) fn parse(text: &str, place: &Place, errors: &mut Vec<ConfigError>) -> Self {
        let mut limits = Self::default();
        for item in list_items(text) {
            let added = limit_of(item).and_then(|(host, limit)| limits.add(host, limit));
            if let Err(problem) = added {
                let (place, item) = (place.clone(), excerpt(item));
                errors.push(ConfigError::AddressLimit { place, item, problem });
            }
        }
        limits
    }

    fn add(&mut self, host: Host, limit: u32) -> Result<(), AddressLimitProblem> {
        let is_known = match &host {
            Host::Address(address) => self.by_address.contains_key(address),
            Host::Name(name) => self.by_name.contains_key(name),
        };
        if is_known {
            return Err(AddressLimitProblem::Twice);
        }
        match host {
            Host::Address(address) => self.by_address.insert(address, limit),
            Host::Name(name) => self.by_name.insert(name, limit),
        };
        Ok(())
    }

    /// How many connections the address may have; `None` for as many as the others.
    #[must_use]
    pub fn of(&self, address: IpAddr) -> Option<usize> {
        let limit = self.by_address.get(&address.to_canonical())?;
        Some(usize::try_from(*limit).unwrap_or(usize::MAX))
    }

    /// Puts the addresses of hosts in their place, as `lookup` has them. An address that is named itself keeps its own limit.
    pub(super) fn resolve(
        &mut self,
        place: &Place,
        mut lookup: impl FnMut(&str) -> io::Result<Vec<IpAddr>>,
    ) -> Result<(), UnresolvedHost> {
        for (name, limit) in std::mem::take(&mut self.by_name) {
            let unresolved =
                |error| UnresolvedHost { place: place.clone(), host: excerpt(&name), error };
            let addresses = lookup(&name).map_err(unresolved)?;
            if addresses.is_empty() {
                return Err(unresolved(io::Error::other("it has no address")));
            }
            for address in addresses {
                self.by_address.entry(address.to_canonical()).or_insert(limit);
            }
        }
        Ok(())
    }
}

enum Host {
    Address(IpAddr),
    Name(String),
}

/// `HOST:COUNT`; the count follows the last colon, so that an IPv6 address needs no brackets, and may have them.
fn limit_of(item: &str) -> Result<(Host, u32), AddressLimitProblem> {
    let (host, count) = item.rsplit_once(':').ok_or(AddressLimitProblem::Form)?;
    let host = host_of(host.trim()).ok_or(AddressLimitProblem::Form)?;
    let limit: i32 = count.trim().parse().map_err(|_| AddressLimitProblem::Count)?;
    Ok((host, u32::try_from(limit).map_err(|_| AddressLimitProblem::Count)?))
}

fn host_of(host: &str) -> Option<Host> {
    if let Some(host) = in_brackets(host) {
        return Some(Host::Address(host.parse::<Ipv6Addr>().ok()?.to_canonical()));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Host::Address(address.to_canonical()));
    }
    // A name has a letter in it; what has none was to be an address.
    let is_name = is_host_name(host) && host.bytes().any(|each| each.is_ascii_alphabetic());
    (is_name && host.len() <= HOST_BYTES_MAX).then(|| Host::Name(host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (AddressLimits, Vec<AddressLimitProblem>) {
        let mut errors = Vec::new();
        let limits = AddressLimits::parse(text, &Place::Default, &mut errors);
        let problem = |error| match error {
            ConfigError::AddressLimit { problem, .. } => problem,
            other => panic!("{other}"),
        };
        (limits, errors.into_iter().map(problem).collect())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_have_their_own_limit_and_everybody_else_none() {
        let (limits, problems) = parse("127.0.0.1:200, ::1:3,[2001:db8::7]:0,::ffff:10.0.0.9:5");
        assert_eq!(problems, []);
        for (address, expected) in [
            ("127.0.0.1", Some(200)),
            ("::ffff:127.0.0.1", Some(200)),
            ("::1", Some(3)),
            ("2001:db8::7", Some(0)),
            ("10.0.0.9", Some(5)),
            ("127.0.0.2", None),
            ("::2", None),
        ] {
            assert_eq!(limits.of(ip(address)), expected, "{address}");
        }
        assert_eq!(parse(""), (AddressLimits::default(), vec![]));
    }

    #[test]
    fn what_is_no_host_with_a_count_is_refused_and_the_rest_is_read() {
        use AddressLimitProblem::{Count, Form, Twice};
        let check = |item: &str, expected| {
            let (limits, problems) = parse(&format!("10.0.0.1:7,{item}"));
            assert_eq!(problems, [expected], "{item}");
            assert_eq!(limits.of(ip("10.0.0.1")), Some(7));
        };
        for item in ["10.0.0.2", ":5", "::1", "300.0.0.1:5", "10.0.1:5", "a b:5", "[10.0.0.2]:5"] {
            check(item, Form);
        }
        check(&format!("{}:5", "h".repeat(254)), Form);
        for item in ["10.0.0.2:", "10.0.0.2:-1", "10.0.0.2:2147483648", "host:many"] {
            check(item, Count);
        }
        for item in ["10.0.0.1:8", "::ffff:10.0.0.1:7", "host:1,HOST:2"] {
            check(item, Twice);
        }
    }

    #[test]
    fn a_host_has_all_its_addresses_and_none_that_is_named_itself() {
        let (mut limits, problems) = parse("host:5,10.0.0.2:6");
        assert_eq!(problems, []);
        assert_eq!(limits.of(ip("10.0.0.1")), None);
        let lookup = |name: &str| {
            assert_eq!(name, "host");
            Ok(["10.0.0.1", "10.0.0.2", "2001:db8::1"].map(ip).to_vec())
        };
        limits.resolve(&Place::Default, lookup).unwrap();
        let found = ["10.0.0.1", "10.0.0.2", "2001:db8::1"].map(|text| limits.of(ip(text)));
        assert_eq!(found, [Some(5), Some(6), Some(5)]);
        let (mut limits, _) = parse("host:5");
        let place = Place::Flag { name: "--set".to_owned() };
        let error = limits.resolve(&place, |_| Ok(Vec::new())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--set: max.connections.per.ip.overrides = host: cannot be resolved (it has no address): correct the name, or \
             give its address"
        );
    }
}
