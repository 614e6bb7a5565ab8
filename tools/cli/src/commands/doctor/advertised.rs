//! Dials what the cluster advertises, as every client will after its first answer.
//!
//! Owns the explanations. A client reaches one address, is told of others, and uses those alone: most clusters that "cannot be
//! reached from there" advertise an address that means something else there.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use broker::Platform;

use super::{Check, partitions};
use crate::client::{
    Address, Broker, Client, ClientError, ClientOptions, Cluster, HANG_UP_ADVICE, OffsetAt,
};
use crate::moment::Utc;

/// How long a broker may take to answer: a firewall that drops packets never does.
const DIAL_MAX: Duration = Duration::from_secs(5);
/// Partitions whose newest record is looked at.
const PARTITIONS_MAX: usize = 200;
/// Clocks of machines that NTP keeps right differ by far less.
const SKEW_MAX_MS: i64 = 5_000;

/// Whom an address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Whoever uses it: `localhost`.
    Loopback,
    /// Nobody: `0.0.0.0`.
    Unspecified,
    /// Those in the same network, or link.
    Private,
    /// Everybody.
    Public,
}

impl Reach {
    fn of(address: IpAddr) -> Self {
        let is_private = match address {
            IpAddr::V4(address) => address.is_private() || address.is_link_local(),
            IpAddr::V6(address) => is_local_v6(address),
        };
        match address {
            _ if address.is_unspecified() => Self::Unspecified,
            _ if address.is_loopback() => Self::Loopback,
            _ if is_private => Self::Private,
            _ => Self::Public,
        }
    }
}

/// Unique local and link-local addresses.
fn is_local_v6(address: Ipv6Addr) -> bool {
    matches!(address.octets(), [0xfc | 0xfd, ..])
        || matches!(address.octets(), [0xfe, 0x80..=0xbf, ..])
}

/// Every check that needs a broker.
pub(super) async fn checks<P: Platform>(
    client: &mut Client<P>,
    options: &ClientOptions,
) -> Vec<Check> {
    let cluster = match client.cluster().await {
        Ok(cluster) => cluster,
        Err(error) => return vec![unreachable(options, &error)],
    };
    let names: Vec<String> = options.bootstrap.iter().map(ToString::to_string).collect();
    let found = format!("{} answers: cluster {}", names.join(","), cluster.id);
    let mut checks = vec![Check::ok("bootstrap", found)];
    let from = options.bootstrap.first().and_then(resolve).map(|address| Reach::of(address.ip()));
    for broker in &cluster.brokers {
        checks.push(advertised(client, &cluster, broker, from).await);
    }
    checks.push(partitions::check(client).await);
    checks.push(newest_records(client).await);
    checks
}

fn unreachable(options: &ClientOptions, error: &ClientError) -> Check {
    let any_resolves = options.bootstrap.iter().any(|address| resolve(address).is_some());
    let fix = match error {
        ClientError::Unreachable { .. } if !any_resolves => {
            "the name has no address: correct it, or give the broker's IP address with -b"
        }
        ClientError::Unreachable { .. } => {
            "start a node (corelog serve), correct -b HOST:PORT, or open the port in the firewall; a node listens on \
             127.0.0.1 unless listeners says otherwise"
        }
        error if error.is_hang_up() => HANG_UP_ADVICE,
        ClientError::Foreign { .. }
        | ClientError::Broken { .. }
        | ClientError::Malformed { .. } => {
            "what listens there does not speak Kafka's protocol: is this the admin port, TLS, or another program?"
        }
        _ => "see the node's log",
    };
    Check::failed("bootstrap", error.to_string(), fix)
}

fn resolve(address: &Address) -> Option<SocketAddr> {
    (address.host.as_str(), address.port).to_socket_addrs().ok()?.next()
}

async fn advertised<P: Platform>(
    client: &Client<P>,
    cluster: &Cluster,
    broker: &Broker,
    from: Option<Reach>,
) -> Check {
    const NAME: &str = "advertised";
    let shown = format!("broker {} is advertised as {}:{}", broker.id, broker.host, broker.port);
    let Some(port) = u16::try_from(broker.port).ok().filter(|port| *port > 0) else {
        return Check::failed(NAME, shown, "set advertised.listeners to a port from 1 to 65535");
    };
    let address = Address { host: broker.host.clone(), port };
    let Some(resolved) = resolve(&address) else {
        let fix = format!(
            "{} has no address here (a container's name, perhaps): add it to DNS or /etc/hosts, or set \
             advertised.listeners to a name or address that clients know",
            broker.host
        );
        return Check::failed(NAME, format!("{shown}, a name that does not resolve"), fix);
    };
    let reach = Reach::of(resolved.ip());
    if let Some(check) = judge_address(&shown, reach, from) {
        return check;
    }
    // Another connection would count against max.connections.per.ip.
    if client.is_connected_to(&address) {
        return judge_identity(&shown, &cluster.id, &cluster.id, reach);
    }
    let options =
        ClientOptions { bootstrap: vec![address], timeout: DIAL_MAX.min(client.timeout()) };
    let mut direct = Client::new(client.platform().clone(), options);
    match direct.cluster_now().await {
        Ok(other) => judge_identity(&shown, &cluster.id, &other.id, reach),
        Err(error) => judge_error(&shown, &error),
    }
}

/// What can be said before dialling: `from` is where this client reached the cluster.
fn judge_address(shown: &str, reach: Reach, from: Option<Reach>) -> Option<Check> {
    const NAME: &str = "advertised";
    match (reach, from) {
        (Reach::Unspecified, _) => Some(Check::failed(
            NAME,
            format!("{shown}, which is no address to connect to"),
            "set advertised.listeners to the host and port that clients should use; 0.0.0.0 belongs into listeners only",
        )),
        (Reach::Loopback, Some(from)) if from != Reach::Loopback => Some(Check::failed(
            NAME,
            format!("{shown}: every client would connect to itself"),
            "set advertised.listeners to the host and port by which this client came",
        )),
        _ => None,
    }
}

fn judge_identity(shown: &str, expected: &str, found: &str, reach: Reach) -> Check {
    const NAME: &str = "advertised";
    if expected != found {
        return Check::failed(
            NAME,
            format!("{shown}, where cluster {found} answers instead"),
            "the address leads elsewhere (NAT, a published port, another container): advertise one that leads to this broker",
        );
    }
    match reach {
        Reach::Loopback => Check::warning(
            NAME,
            format!("{shown}, and answers, to clients on this machine only"),
            "for others set listeners=0.0.0.0:PORT and advertised.listeners=PLAINTEXT://HOST:PORT",
        ),
        _ => Check::ok(NAME, format!("{shown}, and answers")),
    }
}

fn judge_error(shown: &str, error: &ClientError) -> Check {
    const NAME: &str = "advertised";
    let fix = match error {
        ClientError::Unreachable { source, .. }
            if source.kind() == std::io::ErrorKind::ConnectionRefused =>
        {
            "nothing listens at that port: behind NAT or in a container, advertise the port that is published, and publish it \
             under the same number"
        }
        ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => {
            "no way leads there: a firewall drops it, or the address belongs to a network behind NAT; advertise one that is \
             reachable from here"
        }
        error if error.is_hang_up() => HANG_UP_ADVICE,
        _ => {
            "what listens there does not speak Kafka's protocol: correct the port in advertised.listeners"
        }
    };
    Check::failed(NAME, format!("{shown}, but {error}"), fix)
}

/// Records from the future: a clock is wrong, here or where they were made.
async fn newest_records<P: Platform>(client: &mut Client<P>) -> Check {
    match newest_ms(client).await {
        Ok(newest) => judge_skew(newest, client.platform().now().0),
        Err(error) => Check::warning(
            "skew",
            format!("the newest records could not be looked at: {error}"),
            "run corelog offsets TOPIC --at max-timestamp on the topics",
        ),
    }
}

async fn newest_ms<P: Platform>(client: &mut Client<P>) -> Result<Option<i64>, ClientError> {
    let mut newest = None;
    let mut left = PARTITIONS_MAX;
    for mut topic in client.topics().await? {
        let led = topic.partitions.iter().filter(|partition| partition.leader.0 >= 0);
        let led: Vec<_> = led.map(|partition| partition.index).take(left).collect();
        left -= led.len();
        let found = client.find_offsets(&mut topic, &led, OffsetAt::MaxTimestamp).await?;
        let times = found.found.values().map(|found| found.timestamp).filter(|time| *time >= 0);
        newest = newest.max(times.max());
    }
    Ok(newest)
}

fn judge_skew(newest_ms: Option<i64>, now_ms: i64) -> Check {
    match newest_ms {
        Some(newest) if newest - now_ms > SKEW_MAX_MS => Check::warning(
            "skew",
            format!(
                "the newest record is of {}, {} s ahead of this clock",
                Utc(newest),
                (newest - now_ms) / 1_000
            ),
            "compare the clocks of producers, nodes and this machine, and keep them right with NTP; retention and \
             offsets by time go by the records' own",
        ),
        Some(newest) => Check::ok("skew", format!("the newest record is of {}", Utc(newest))),
        None => Check::ok("skew", "there are no records to compare clocks with"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::Verdict;
    use super::*;
    use crate::client::{Delivery, Speaks};

    #[test]
    fn addresses_mean_somebody() {
        let check = |address: &str, expected: Reach| {
            assert_eq!(Reach::of(address.parse().unwrap()), expected, "{address}");
        };
        check("127.0.0.1", Reach::Loopback);
        check("127.8.0.1", Reach::Loopback);
        check("::1", Reach::Loopback);
        check("0.0.0.0", Reach::Unspecified);
        check("::", Reach::Unspecified);
        for private in
            ["10.1.2.3", "172.17.0.2", "192.168.1.1", "169.254.1.1", "fd00::1", "fe80::1"]
        {
            check(private, Reach::Private);
        }
        check("93.184.216.34", Reach::Public);
        check("2606:2800::1", Reach::Public);
    }

    #[test]
    fn a_loopback_is_wrong_for_whoever_came_from_elsewhere() {
        let verdict = |reach, from| judge_address("b", reach, from).map(|check| check.verdict);
        assert_eq!(verdict(Reach::Loopback, Some(Reach::Private)), Some(Verdict::Failed));
        assert_eq!(verdict(Reach::Loopback, Some(Reach::Public)), Some(Verdict::Failed));
        assert_eq!(verdict(Reach::Loopback, Some(Reach::Loopback)), None);
        assert_eq!(verdict(Reach::Unspecified, Some(Reach::Loopback)), Some(Verdict::Failed));
        assert_eq!(verdict(Reach::Private, Some(Reach::Public)), None);
        assert_eq!(judge_identity("b", "x", "x", Reach::Loopback).verdict, Verdict::Warning);
        assert_eq!(judge_identity("b", "x", "x", Reach::Private).verdict, Verdict::Ok);
        assert_eq!(judge_identity("b", "x", "y", Reach::Private).verdict, Verdict::Failed);
    }

    #[test]
    fn each_way_not_to_answer_has_its_fix() {
        let address = || Address { host: "b".into(), port: 1 };
        let dial = |kind: io::ErrorKind| {
            let error = ClientError::Unreachable { address: address(), source: kind.into() };
            judge_error("b", &error).fix.unwrap()
        };
        assert!(dial(io::ErrorKind::ConnectionRefused).contains("published"));
        assert!(dial(io::ErrorKind::TimedOut).contains("firewall"));
        let (api, delivery) = (wire::ApiKey::ApiVersions, Delivery::Sent);
        let broken =
            ClientError::Broken { address: address(), api, delivery, reason: "x".to_owned() };
        let fix = judge_error("b", &broken).fix.unwrap();
        assert!(fix.contains("max.connections.per.ip") && fix.contains("Kafka port"), "{fix}");
        let foreign = ClientError::Foreign { address: address(), speaks: Speaks::Http };
        assert!(judge_error("b", &foreign).fix.unwrap().contains("protocol"));
    }

    #[test]
    fn records_from_the_future_are_told() {
        let verdict = |newest, now| judge_skew(newest, now).verdict;
        assert_eq!(verdict(Some(5_000), 0), Verdict::Ok);
        assert_eq!(verdict(Some(5_001), 0), Verdict::Warning);
        assert_eq!(verdict(Some(0), 1 << 40), Verdict::Ok);
        assert_eq!(verdict(None, 0), Verdict::Ok);
    }
}
