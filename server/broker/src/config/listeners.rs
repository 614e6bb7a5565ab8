//! Listeners: where clients connect, and what they are told of it.
//!
//! Owns both spellings, Kafka's `NAME://HOST:PORT` lists and `[[listeners]]`. Names are never resolved here: binding needs an
//! address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use cluster::{Advertise, LISTENERS_MAX, ListenerEndpoint, excerpt, list_items};

use super::error::{AddressProblem, AdvertisedProblem, ConfigError, ListenerProblem, Place};
use super::sources::Collected;

/// The fields of a `[[listeners]]` table.
pub(super) const LISTENER_FIELDS: [&str; 5] =
    ["name", "bind", "advertised", "advertise", "security"];

const NAME_DEFAULT: &str = "PLAINTEXT";
const PLAINTEXT: i8 = 0;
/// Longest name of a host.
pub(super) const HOST_BYTES_MAX: usize = 253;

/// What clients are told instead of the bound address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertisedHost {
    /// A name or an address.
    pub host: String,
    /// The port of core 0; 0 for the bound one.
    pub port: u16,
}

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Its name.
    pub name: String,
    /// Where it binds; port 0 for any free one.
    pub bind: SocketAddr,
    /// What clients are told; `None` for the bound address, or the connection's own where that is a wildcard.
    pub advertised: Option<AdvertisedHost>,
    /// Whether cores show themselves.
    pub advertise: Advertise,
}

impl ListenerConfig {
    /// What clients are told, as Kafka would write it; `None` where nothing is set.
    fn advertised_text(&self) -> Option<String> {
        let told = self.advertised.as_ref()?;
        let (name, port) = (&self.name, told.port);
        Some(match told.host.contains(':') {
            true => format!("{name}://[{}]:{port}", told.host),
            false => format!("{name}://{}:{port}", told.host),
        })
    }

    /// The listener as the node registers it, once it is bound to `bound`.
    #[must_use]
    pub fn endpoint(&self, bound: SocketAddr) -> ListenerEndpoint {
        let (host, port) = match &self.advertised {
            Some(told) if told.port != 0 => (told.host.clone(), told.port),
            Some(told) => (told.host.clone(), bound.port()),
            None if self.bind.ip().is_unspecified() => (String::new(), bound.port()),
            None => (bound.ip().to_string(), bound.port()),
        };
        ListenerEndpoint {
            name: Arc::from(self.name.as_str()),
            host: Arc::from(host),
            port,
            security: PLAINTEXT,
            advertise: self.advertise,
        }
    }
}

/// A `[[listeners]]` table as it stands in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListenerTable {
    pub(super) place: Place,
    /// Each field with its line and its text; no text where the file holds something else, which is reported already.
    pub(super) fields: BTreeMap<&'static str, (Option<String>, Place)>,
}

impl ListenerTable {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(|(text, _)| text.as_deref())
    }

    fn place_of(&self, name: &str) -> Place {
        self.fields.get(name).map_or_else(|| self.place.clone(), |(_, place)| place.clone())
    }

    /// As Kafka would write it.
    pub(super) fn text(&self) -> String {
        let name = self.field("name").unwrap_or(NAME_DEFAULT);
        format!("{name}://{}", self.field("bind").unwrap_or_default())
    }
}

/// A listener and where it was set.
pub(super) struct PlacedListener {
    pub(super) listener: ListenerConfig,
    pub(super) place: Place,
}

/// Every listener, checked; what is wrong is reported and left out.
pub(super) fn resolve_listeners(
    collected: &Collected,
    errors: &mut Vec<ConfigError>,
    warnings: &mut Vec<String>,
) -> Vec<PlacedListener> {
    let text_of = |key: &str| collected.settings.get(key).and_then(|it| it.value.as_deref());
    let place_of = |key: &str| {
        collected.settings.get(key).map_or(Place::Default, |setting| setting.place.clone())
    };
    let advertise = match text_of("advertise") {
        Some("core") => Advertise::Core,
        _ => Advertise::Node,
    };
    let place = place_of("listeners");
    let count_before = errors.len();
    let tables = &collected.listener_tables;
    let (mut listeners, count) = if tables.is_empty() {
        let text = text_of("listeners").unwrap_or_default();
        (from_list(text, &place, advertise, errors), list_items(text).count())
    } else {
        let read = tables.iter().filter_map(|table| from_table(table, advertise, errors));
        (read.collect(), tables.len())
    };
    leave_named(&mut listeners, errors);
    let is_whole = errors.len() == count_before && listeners.len() == count;
    if !(1..=LISTENERS_MAX).contains(&count) {
        let (listener, problem) = ("listeners".to_owned(), ListenerProblem::Count);
        errors.push(ConfigError::Listener { place: place.clone(), listener, problem });
    }
    let advertised = text_of("advertised.listeners").unwrap_or_default();
    let advertised_place = place_of("advertised.listeners");
    apply_advertised(advertised, &advertised_place, &mut listeners, is_whole, errors);
    warnings.extend(listeners.iter().filter_map(|placed| warning_of(&placed.listener)));
    listeners
}

/// Puts what `[[listeners]]` advertise where it is shown and described: into `advertised.listeners`.
pub(super) fn note_advertised(collected: &mut Collected, listeners: &[PlacedListener]) {
    let told = listeners.iter().filter_map(|placed| placed.listener.advertised_text());
    let told: Vec<String> = told.collect();
    if collected.listener_tables.is_empty() || told.is_empty() {
        return;
    }
    let listeners_place = collected.settings.get("listeners").map(|setting| setting.place.clone());
    if let Some(setting) = collected.settings.get_mut("advertised.listeners") {
        setting.value = Some(told.join(","));
        if setting.place == Place::Default {
            setting.place = listeners_place.unwrap_or(Place::Default);
        }
    }
}

fn from_list(
    text: &str,
    place: &Place,
    advertise: Advertise,
    errors: &mut Vec<ConfigError>,
) -> Vec<PlacedListener> {
    let mut listeners = Vec::new();
    for item in list_items(text) {
        let (name, address) = item.split_once("://").unwrap_or((NAME_DEFAULT, item));
        let place = place.clone();
        match parse_bind(address) {
            Ok(bind) => {
                let name = name.to_owned();
                let listener = ListenerConfig { name, bind, advertised: None, advertise };
                listeners.push(PlacedListener { listener, place });
            }
            Err(problem) => {
                let (key, value) = ("listeners".to_owned(), excerpt(item));
                errors.push(ConfigError::Address { place, key, value, problem });
            }
        }
    }
    listeners
}

fn from_table(
    table: &ListenerTable,
    advertise_default: Advertise,
    errors: &mut Vec<ConfigError>,
) -> Option<PlacedListener> {
    let before = errors.len();
    let name = table.field("name").unwrap_or(NAME_DEFAULT).to_owned();
    let mut refuse = |place: Place, problem| {
        errors.push(ConfigError::Listener { place, listener: excerpt(&name), problem });
    };
    if !table.fields.contains_key("bind") {
        refuse(table.place.clone(), ListenerProblem::NoBind);
    }
    if table.field("security").is_some_and(|security| security != "PLAINTEXT") {
        refuse(table.place_of("security"), ListenerProblem::Security);
    }
    let bind = table.field("bind").map(|text| (text, parse_bind(text)));
    if let Some((text, Err(problem))) = bind {
        let (place, key) = (table.place_of("bind"), "listeners.bind".to_owned());
        errors.push(ConfigError::Address { place, key, value: excerpt(text), problem });
    }
    let advertised = table.field("advertised").map(|text| (text, parse_advertised(text)));
    if let Some((text, Err(problem))) = &advertised {
        let (place, key) = (table.place_of("advertised"), "listeners.advertised".to_owned());
        let (value, problem) = (excerpt(text), *problem);
        errors.push(ConfigError::Advertised { place, key, value, problem });
    }
    let advertise = match table.field("advertise") {
        None => advertise_default,
        Some("node") => Advertise::Node,
        Some("core") => Advertise::Core,
        Some(other) => {
            let (place, key) = (table.place_of("advertise"), "listeners.advertise".to_owned());
            let (value, form) = (excerpt(other), "node or core".to_owned());
            errors.push(ConfigError::WrongType { place, key, value, form });
            advertise_default
        }
    };
    if errors.len() > before {
        return None;
    }
    let bind = bind.and_then(|(_, address)| address.ok())?;
    let advertised = advertised.and_then(|(_, told)| told.ok());
    let listener = ListenerConfig { name, bind, advertised, advertise };
    Some(PlacedListener { listener, place: table.place_of("name") })
}

fn apply_advertised(
    text: &str,
    place: &Place,
    listeners: &mut [PlacedListener],
    is_whole: bool,
    errors: &mut Vec<ConfigError>,
) {
    for item in list_items(text) {
        let (name, address) = item.split_once("://").unwrap_or((NAME_DEFAULT, item));
        let place = place.clone();
        let told = match parse_advertised(address) {
            Ok(told) => told,
            Err(problem) => {
                let (key, value) = ("advertised.listeners".to_owned(), excerpt(item));
                errors.push(ConfigError::Advertised { place, key, value, problem });
                continue;
            }
        };
        match listeners.iter_mut().find(|placed| placed.listener.name == name) {
            Some(placed) => placed.listener.advertised = Some(told),
            // A listener that could not be read is reported already.
            None if !is_whole => {}
            None => {
                let (listener, problem) = (excerpt(name), ListenerProblem::NotThere);
                errors.push(ConfigError::Listener { place, listener, problem });
            }
        }
    }
}

/// In Kafka these names mean their protocol unless a map says otherwise.
const SECURE_NAMES: [&str; 3] = ["SSL", "SASL_SSL", "SASL_PLAINTEXT"];

/// Leaves those with a name that can be told to clients, each name once.
fn leave_named(listeners: &mut Vec<PlacedListener>, errors: &mut Vec<ConfigError>) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    listeners.retain(|PlacedListener { listener, place }| {
        let name = listener.name.as_str();
        let problem = if !is_legal_name(name) {
            ListenerProblem::Name
        } else if SECURE_NAMES.iter().any(|secure| name.eq_ignore_ascii_case(secure)) {
            ListenerProblem::SecureName
        } else if !seen.insert(name.to_owned()) {
            ListenerProblem::NameTwice
        } else {
            return true;
        };
        let (place, listener) = (place.clone(), excerpt(name));
        errors.push(ConfigError::Listener { place, listener, problem });
        false
    });
}

fn is_legal_name(name: &str) -> bool {
    const NAME_BYTES_MAX: usize = 64;
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.chars().all(|each| each.is_ascii_alphanumeric() || "_-.".contains(each))
}

/// P58: the most repeated failure of newcomers is an address that only the node itself can reach.
fn warning_of(listener: &ListenerConfig) -> Option<String> {
    if !listener.bind.ip().is_unspecified() {
        return None;
    }
    let (name, bind) = (&listener.name, listener.bind);
    match &listener.advertised {
        None => Some(format!(
            "listener {name}: bound to {bind} and not advertised: every client is told the address it connected to"
        )),
        Some(told) if is_loopback(&told.host) => Some(format!(
            "listener {name}: bound to {bind} but advertised as {}: clients on other machines cannot connect",
            told.host
        )),
        Some(_) => None,
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `IP:PORT`, `[IPv6]:PORT`, `localhost:PORT`, or `:PORT` and `*:PORT` for every address.
pub(super) fn parse_bind(text: &str) -> Result<SocketAddr, AddressProblem> {
    let text = text.trim();
    let bare_address = text.parse::<Ipv6Addr>();
    let (host, port) = text.rsplit_once(':').ok_or(AddressProblem::Form)?;
    if host.parse::<Ipv6Addr>().is_ok() || (bare_address.is_ok() && !host.is_empty()) {
        return Err(AddressProblem::Brackets);
    }
    let is_number = !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    let problem = if is_number { AddressProblem::Port } else { AddressProblem::Form };
    let port: u16 = port.parse().map_err(|_| problem)?;
    let ip = match host {
        "" | "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => match in_brackets(host) {
            Some(host) => IpAddr::V6(host.parse().map_err(|_| AddressProblem::Form)?),
            None => IpAddr::V4(host.parse().map_err(|_| problem_of_host(host))?),
        },
    };
    Ok(SocketAddr::new(ip, port))
}

/// What stands between brackets.
pub(super) fn in_brackets(host: &str) -> Option<&str> {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']'))
}

/// A name has a letter in it; what has none was to be an address.
fn problem_of_host(host: &str) -> AddressProblem {
    if is_host_name(host) && host.chars().any(|each| each.is_ascii_alphabetic()) {
        AddressProblem::Name
    } else {
        AddressProblem::Form
    }
}

/// Whether these are the characters of a host name.
pub(super) fn is_host_name(host: &str) -> bool {
    host.chars().all(|each| each.is_ascii_alphanumeric() || "._-".contains(each))
}

fn parse_advertised(text: &str) -> Result<AdvertisedHost, AdvertisedProblem> {
    let (host, port) = text.trim().rsplit_once(':').ok_or(AdvertisedProblem::Form)?;
    if host.parse::<Ipv6Addr>().is_ok() {
        return Err(AdvertisedProblem::Brackets);
    }
    let port: u16 = port.parse().map_err(|_| AdvertisedProblem::Form)?;
    let host = match in_brackets(host) {
        Some(host) => host.parse::<Ipv6Addr>().map_err(|_| AdvertisedProblem::Form)?.to_string(),
        None if is_host_name(host) => host.to_owned(),
        None => return Err(AdvertisedProblem::Form),
    };
    if host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
        return Err(AdvertisedProblem::Wildcard);
    }
    if !(1..=HOST_BYTES_MAX).contains(&host.len()) {
        return Err(AdvertisedProblem::Form);
    }
    Ok(AdvertisedHost { host, port })
}
