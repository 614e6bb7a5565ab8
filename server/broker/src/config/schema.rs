//! The options of a node, each declared once.
//!
//! Owns key, aliases, unit, type, bound, default and meaning. Keys are Kafka's own where Kafka has the option.

use cluster::{Allowed, ConfigType};

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nothing: a word, a list, a flag.
    None,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
    /// Things.
    Count,
}

impl Unit {
    /// For tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes => "bytes",
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
            Self::Minutes => "min",
            Self::Hours => "h",
            Self::Count => "count",
        }
    }
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfigOption {
    /// Its key.
    pub key: &'static str,
    /// Other keys for the same option.
    pub aliases: &'static [&'static str],
    /// What its number counts.
    pub unit: Unit,
    /// Its type.
    pub kind: ConfigType,
    /// Its bound.
    pub allowed: Allowed,
    /// Whether the word `auto` is a value too.
    pub takes_auto: bool,
    /// Its default; `None` for no value.
    pub default: Option<&'static str>,
    /// Whether it may change while the node runs.
    pub is_dynamic: bool,
    /// What it does.
    pub doc: &'static str,
}

const INT_MAX: i64 = i32::MAX as i64;
/// A bound that no machine reaches, and that fits every type a size is kept in.
const MEMORY_BYTES_MAX: i64 = 1 << 40;

/// What one request may create: a default beyond it could never be used.
const PARTITIONS_MAX: i64 = 10_000;
const _: () = assert!(PARTITIONS_MAX.unsigned_abs() == cluster::PARTITIONS_PER_REQUEST_MAX as u64);

const TEXT: ConfigOption = ConfigOption {
    key: "",
    aliases: &[],
    unit: Unit::None,
    kind: ConfigType::String,
    allowed: Allowed::Any,
    takes_auto: false,
    default: None,
    is_dynamic: false,
    doc: "",
};
const FLAG: ConfigOption = ConfigOption { kind: ConfigType::Boolean, ..TEXT };
const COUNT: ConfigOption = ConfigOption { kind: ConfigType::Int, unit: Unit::Count, ..TEXT };
const BYTES: ConfigOption = ConfigOption { kind: ConfigType::Int, unit: Unit::Bytes, ..TEXT };
const LONG_BYTES: ConfigOption = ConfigOption { kind: ConfigType::Long, ..BYTES };
const MILLIS: ConfigOption =
    ConfigOption { kind: ConfigType::Long, unit: Unit::Milliseconds, ..TEXT };

/// Every option, ascending by key.
pub static OPTIONS: [ConfigOption; 60] = [
    ConfigOption {
        key: "admin.listen",
        default: Some("127.0.0.1:9901"),
        doc: "Address of the admin HTTP server (`/metrics`, `/ready`), or `none`. Port 0 takes any free port.",
        ..TEXT
    },
    ConfigOption {
        key: "advertise",
        allowed: Allowed::OneOf(&["node", "core"]),
        default: Some("node"),
        doc: "Whether clients see one broker a node, or one a core (id core * 10000 + node.id, port base + core). A listener may say otherwise.",
        ..TEXT
    },
    ConfigOption {
        key: "advertised.listeners",
        kind: ConfigType::List,
        doc: "Where clients are told to connect to, as NAME://HOST:PORT. A listener that is not named here is advertised as it is bound.",
        ..TEXT
    },
    ConfigOption {
        key: "auto.create.topics.enable",
        default: Some("true"),
        doc: "Whether a topic that a client asks for is created with the defaults.",
        ..FLAG
    },
    ConfigOption {
        key: "broker.rack",
        doc: "Where the node stands, as clients and replica placement are told.",
        ..TEXT
    },
    ConfigOption {
        key: "connections.handover.requests",
        allowed: Allowed::Range(0, INT_MAX),
        default: Some("64"),
        doc: "After so many requests in a row for partitions of one other core a connection moves to that core; 0 for never. Each move makes the next one of that connection take twice as many.",
        ..COUNT
    },
    ConfigOption {
        key: "connections.max.idle.ms",
        allowed: Allowed::Range(1_000, i64::MAX),
        default: Some("600000"),
        doc: "How long a connection may go without a whole request or a reply before it is closed.",
        ..MILLIS
    },
    ConfigOption {
        key: "connections.send.timeout.ms",
        allowed: Allowed::Range(1_000, i64::MAX),
        default: Some("120000"),
        doc: "How long a client may take for the next MiB of its answers, or what is left of them, before its connection is closed and their memory is free. While others wait for that memory, it has 30 seconds for all of them.",
        ..MILLIS
    },
    ConfigOption {
        key: "data.dir",
        aliases: &["log.dirs", "log.dir"],
        default: Some("./corelog-data"),
        doc: "The node's directory: logs, metadata, identity. One process at a time.",
        ..TEXT
    },
    ConfigOption {
        key: "default.replication.factor",
        allowed: Allowed::Range(1, i16::MAX as i64),
        default: Some("1"),
        doc: "Replicas of a topic that leaves their number open.",
        ..COUNT
    },
    ConfigOption {
        key: "delete.topic.enable",
        default: Some("true"),
        doc: "Whether topics can be deleted.",
        ..FLAG
    },
    ConfigOption {
        key: "disk.floor.bytes",
        allowed: Allowed::Range(0, i64::MAX),
        takes_auto: true,
        default: Some("auto"),
        doc: "Free space below which produce requests are refused; `auto` is the larger of 256 MiB and 2 % of the disk.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "fetch.max.bytes",
        allowed: Allowed::Range(1_024, INT_MAX),
        default: Some("57671680"),
        doc: "Largest fetch response; a single larger batch is still sent.",
        ..BYTES
    },
    ConfigOption {
        key: "fetch.memory.bytes",
        allowed: Allowed::Range(1 << 20, MEMORY_BYTES_MAX),
        default: Some("268435456"),
        doc: "Memory of each data core for record bytes of answers that have not left; without room a fetch gets one batch.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "io.free.list.bytes",
        allowed: Allowed::Range(0, MEMORY_BYTES_MAX),
        default: Some("67108864"),
        doc: "Buffers that a data core keeps for reuse above io.memory.bytes.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "io.memory.bytes",
        allowed: Allowed::Range(1 << 20, MEMORY_BYTES_MAX),
        default: Some("16777216"),
        doc: "Memory of each data core for transfers. All of it is resident.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "io.ring.depth",
        allowed: Allowed::Range(64, 4_096),
        default: Some("512"),
        doc: "Requests that a data core's ring takes at once.",
        ..COUNT
    },
    ConfigOption {
        key: "io.spin.us",
        unit: Unit::Microseconds,
        allowed: Allowed::Range(0, 1_000),
        default: Some("0"),
        doc: "How long a data core looks for work before it sleeps: shorter round trips for a busy CPU.",
        ..COUNT
    },
    ConfigOption {
        key: "journal.bytes",
        allowed: Allowed::Range(8 << 20, 1 << 34),
        default: Some("67108864"),
        doc: "Size of each data core's journal on disk, in four files. A larger one lets logs be written behind in larger pieces.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "journal.enable",
        default: Some("true"),
        doc: "Whether small writes of the partitions of a core are made lasting together, by one write and one sync of the core's journal, and go to the segments later. Acknowledgements promise the same with and without.",
        ..FLAG
    },
    ConfigOption {
        key: "journal.group.bytes",
        allowed: Allowed::Range(0, 524_288),
        default: Some("65536"),
        doc: "What a partition has to write goes to the journal up to this size, and straight to its segment above.",
        ..BYTES
    },
    ConfigOption {
        key: "journal.groups.min",
        allowed: Allowed::Range(1, 1_000),
        default: Some("1"),
        doc: "The journal is used where so many partitions of a core have something to write at the same time; where all of them are under write caching, two at least.",
        ..COUNT
    },
    ConfigOption {
        key: "listeners",
        kind: ConfigType::List,
        default: Some("PLAINTEXT://127.0.0.1:9092"),
        doc: "Addresses for clients, as NAME://IP:PORT or IP:PORT, or in the file as `[[listeners]]` with name, bind, advertised, advertise, security.",
        ..TEXT
    },
    ConfigOption {
        key: "log.index.interval.bytes",
        allowed: Allowed::Range(0, INT_MAX),
        default: Some("4096"),
        is_dynamic: true,
        doc: "Bytes of log between two index entries, for topics without index.interval.bytes.",
        ..BYTES
    },
    ConfigOption {
        key: "log.open.files.max",
        allowed: Allowed::Range(16, INT_MAX),
        takes_auto: true,
        default: Some("auto"),
        doc: "Segment files a node keeps open; `auto` is half of what the process may open.",
        ..COUNT
    },
    ConfigOption {
        key: "log.retention.bytes",
        allowed: Allowed::Range(-1, i64::MAX),
        default: Some("-1"),
        is_dynamic: true,
        doc: "Bytes a partition may hold before old segments go, for topics without retention.bytes; -1 for no bound.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "log.retention.check.interval.ms",
        allowed: Allowed::Range(1, i64::MAX),
        default: Some("300000"),
        doc: "How often each log is looked at for segments that retention.ms or retention.bytes lets go.",
        ..MILLIS
    },
    ConfigOption {
        key: "log.retention.hours",
        unit: Unit::Hours,
        allowed: Allowed::Range(-1, INT_MAX),
        default: Some("168"),
        doc: "The same as log.retention.ms in hours, where neither that nor log.retention.minutes is set; -1 for ever.",
        ..COUNT
    },
    ConfigOption {
        key: "log.retention.minutes",
        unit: Unit::Minutes,
        allowed: Allowed::Range(-1, INT_MAX),
        doc: "The same as log.retention.ms in minutes, where that is not set; -1 for ever.",
        ..COUNT
    },
    ConfigOption {
        key: "log.retention.ms",
        allowed: Allowed::Range(-1, i64::MAX),
        is_dynamic: true,
        doc: "How long a segment stays after its newest record, for topics without retention.ms; -1 for ever, seven days where nothing is set.",
        ..MILLIS
    },
    ConfigOption {
        key: "log.roll.hours",
        unit: Unit::Hours,
        allowed: Allowed::Range(1, INT_MAX),
        default: Some("168"),
        doc: "The same as log.roll.ms in hours, where that is not set.",
        ..COUNT
    },
    ConfigOption {
        key: "log.roll.jitter.hours",
        unit: Unit::Hours,
        allowed: Allowed::Range(0, INT_MAX),
        default: Some("0"),
        doc: "The same as log.roll.jitter.ms in hours, where that is not set.",
        ..COUNT
    },
    ConfigOption {
        key: "log.roll.jitter.ms",
        allowed: Allowed::Range(0, i64::MAX),
        is_dynamic: true,
        doc: "Largest random part taken off the age at which a segment is closed, for topics without segment.jitter.ms; none where nothing is set.",
        ..MILLIS
    },
    ConfigOption {
        key: "log.roll.ms",
        allowed: Allowed::Range(1, i64::MAX),
        is_dynamic: true,
        doc: "Age at which a segment is closed, for topics without segment.ms; seven days where it is not set.",
        ..MILLIS
    },
    ConfigOption {
        key: "log.segment.bytes",
        allowed: Allowed::Range(1 << 20, INT_MAX),
        default: Some("1073741824"),
        is_dynamic: true,
        doc: "Size at which a segment is closed, for topics without segment.bytes.",
        ..BYTES
    },
    ConfigOption {
        key: "max.connections",
        allowed: Allowed::Range(1, INT_MAX),
        default: Some("2147483647"),
        is_dynamic: true,
        doc: "Client connections that the node serves at once; one more is closed as soon as it is accepted.",
        ..COUNT
    },
    ConfigOption {
        key: "max.connections.per.ip",
        allowed: Allowed::Range(1, INT_MAX),
        default: Some("2147483647"),
        is_dynamic: true,
        doc: "Client connections from one address that the node serves at once; one more is closed as soon as it is accepted.",
        ..COUNT
    },
    ConfigOption {
        key: "max.connections.per.ip.overrides",
        default: Some(""),
        doc: "Other limits than max.connections.per.ip for single addresses, as HOST:COUNT with commas between them, such as 127.0.0.1:200,::1:3; 0 for none at all. The names of hosts are resolved once, at the start.",
        ..TEXT
    },
    ConfigOption {
        key: "max.incremental.fetch.session.cache.slots",
        allowed: Allowed::Range(0, 1_000_000),
        default: Some("1000"),
        doc: "Fetch sessions that the node keeps, divided evenly among its data cores and rounded up; 0 for none. Without one a consumer names all its partitions in every fetch.",
        ..COUNT
    },
    ConfigOption {
        key: "message.max.bytes",
        allowed: Allowed::Range(0, INT_MAX),
        default: Some("1048588"),
        is_dynamic: true,
        doc: "Largest batch as sent, for topics without max.message.bytes.",
        ..BYTES
    },
    ConfigOption {
        key: "min.insync.replicas",
        allowed: Allowed::Range(1, i16::MAX as i64),
        default: Some("1"),
        is_dynamic: true,
        doc: "Replicas that must be in sync for acks=all, for topics without their own.",
        ..COUNT
    },
    ConfigOption {
        key: "node.id",
        aliases: &["broker.id"],
        unit: Unit::None,
        allowed: Allowed::Range(0, cluster::NODE_ID_MAX as i64),
        default: Some("1"),
        doc: "The node's number in its cluster. The data directory remembers it.",
        ..COUNT
    },
    ConfigOption {
        key: "num.partitions",
        allowed: Allowed::Range(1, PARTITIONS_MAX),
        default: Some("1"),
        doc: "Partitions of a topic that leaves their number open.",
        ..COUNT
    },
    ConfigOption {
        key: "partitions.max",
        allowed: Allowed::Range(1, 1_000_000),
        default: Some("20000"),
        doc: "Partitions the cluster may have; a request beyond it is refused.",
        ..COUNT
    },
    ConfigOption {
        key: "peer.listen",
        default: Some("127.0.0.1:9900"),
        doc: "Address for the other nodes; opened only where there are any, and there are none yet: no effect.",
        ..TEXT
    },
    ConfigOption {
        key: "process.roles",
        kind: ConfigType::List,
        allowed: Allowed::ListOf(&["broker", "coordinator"]),
        default: Some("broker,coordinator"),
        doc: "What the node does. One node has both roles for now.",
        ..TEXT
    },
    ConfigOption {
        key: "producer.id.expiration.ms",
        kind: ConfigType::Int,
        allowed: Allowed::Range(1, INT_MAX),
        default: Some("86400000"),
        is_dynamic: true,
        doc: "How long an idempotent producer is remembered after its last batch.",
        ..MILLIS
    },
    ConfigOption {
        key: "producer.state.count.max",
        // A segment that is rolled takes the table along, written down in one turn of its core: 23 MB and some milliseconds at
        // most. Files hold up to a million.
        allowed: Allowed::Range(1, 100_000),
        default: Some("20000"),
        doc: "Idempotent producers remembered a partition; beyond it the one silent longest is forgotten.",
        ..COUNT
    },
    ConfigOption {
        key: "read.cache.bytes",
        allowed: Allowed::Range(1 << 20, MEMORY_BYTES_MAX),
        default: Some("33554432"),
        doc: "Memory of each data core for what was read from disk.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "request.memory.bytes",
        allowed: Allowed::Range(1 << 20, MEMORY_BYTES_MAX),
        default: Some("268435456"),
        doc: "Memory of each data core for requests above 16 KiB that are arriving or not answered, with what they may become; without room the next is not read.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "scrub.bytes.per.second",
        allowed: Allowed::Range(0, i64::MAX),
        default: Some("8388608"),
        doc: "How fast each data core reads its sealed segments to check them; 0 for not at all.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "scrub.interval.ms",
        allowed: Allowed::Range(1, i64::MAX),
        default: Some("604800000"),
        doc: "The least time from the start of one pass over all sealed segments to the start of the next; the first begins with the node.",
        ..MILLIS
    },
    ConfigOption {
        key: "shards",
        allowed: Allowed::Range(1, 1_024),
        takes_auto: true,
        default: Some("auto"),
        doc: "Data cores; `auto` is one for each CPU the process may use. Changing it is a restart, no data moves.",
        ..COUNT
    },
    ConfigOption {
        key: "shutdown.timeout.ms",
        allowed: Allowed::Range(0, 3_600_000),
        default: Some("10000"),
        doc: "How long a stop waits for requests that are under way; what is not answered then is not answered.",
        ..MILLIS
    },
    ConfigOption {
        key: "socket.request.max.bytes",
        allowed: Allowed::Range(1_024, 1 << 30),
        default: Some("104857600"),
        doc: "Largest request; a larger one closes its connection before anything is allocated.",
        ..BYTES
    },
    ConfigOption {
        key: "tail.cache.bytes",
        allowed: Allowed::Range(1 << 20, MEMORY_BYTES_MAX),
        default: Some("67108864"),
        doc: "Memory of each data core for what was just written, so that consumers at the end never read the disk.",
        ..LONG_BYTES
    },
    ConfigOption {
        key: "trace.filter",
        default: Some("info"),
        doc: "What is logged: a level, or MODULE=LEVEL with commas.",
        ..TEXT
    },
    ConfigOption {
        key: "unclean.leader.election.enable",
        allowed: Allowed::Any,
        default: Some("false"),
        is_dynamic: true,
        doc: "Whether a replica that is not in sync may lead, for topics without their own. Nothing acts on it while there is one node.",
        ..FLAG
    },
    ConfigOption {
        key: "write.caching",
        allowed: Allowed::Any,
        default: Some("false"),
        is_dynamic: true,
        doc: "Whether records are acknowledged once they are written and synced a little later, for topics without their own: they survive a killed process and not a power cut.",
        ..FLAG
    },
    ConfigOption {
        key: "write.caching.flush.ms",
        allowed: Allowed::Range(1, 60_000),
        default: Some("100"),
        doc: "Longest time from a write to the beginning of its sync for topics with write.caching; 16 MiB of a partition do not wait so long.",
        ..MILLIS
    },
];

/// One option of Kafka's in a coarser unit: it holds where the option in milliseconds is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoarserOption {
    /// The option in milliseconds.
    pub finest: &'static str,
    /// This one.
    pub key: &'static str,
    /// Milliseconds of one.
    pub unit_ms: i64,
}

/// Every such option; of two for one option, the finer comes first and holds.
pub static COARSER_OPTIONS: [CoarserOption; 4] = [
    CoarserOption { finest: "log.retention.ms", key: "log.retention.minutes", unit_ms: 60_000 },
    CoarserOption { finest: "log.retention.ms", key: "log.retention.hours", unit_ms: 3_600_000 },
    CoarserOption { finest: "log.roll.ms", key: "log.roll.hours", unit_ms: 3_600_000 },
    CoarserOption {
        finest: "log.roll.jitter.ms",
        key: "log.roll.jitter.hours",
        unit_ms: 3_600_000,
    },
];

impl CoarserOption {
    /// A value in milliseconds: negative ones mean what -1 means.
    #[must_use]
    pub const fn in_ms(&self, value: i64) -> i64 {
        if value < 0 { -1 } else { value.saturating_mul(self.unit_ms) }
    }
}

/// The option of that key or alias.
#[must_use]
pub fn option(key: &str) -> Option<&'static ConfigOption> {
    OPTIONS.iter().find(|option| option.key == key || option.aliases.contains(&key))
}

/// The type that Kafka gives an alias, where it is not the option's own: its directories may be several.
#[must_use]
pub fn kind_of_alias(alias: &str) -> Option<ConfigType> {
    matches!(alias, "log.dir" | "log.dirs").then_some(ConfigType::List)
}

/// The environment variable of a key: `CORELOG_` and the key in upper case, with `_` for `.`.
#[must_use]
pub fn environment_name(key: &str) -> String {
    format!("CORELOG_{}", key.to_ascii_uppercase().replace('.', "_"))
}
