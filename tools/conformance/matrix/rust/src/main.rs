//! The Rust clients of the matrix: the same features for each, told as JSON lines (see ../python/common.py).
//!
//! Usage: `matrix CLIENT BOOTSTRAP PREFIX`. Every codec's topic holds the records of `numbered`, which `matrix_run.py`
//! reads a second time.

mod with_rdkafka;
mod with_rskafka;

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use with_rdkafka::Rdkafka;
use with_rskafka::Rskafka;

const RECORDS: usize = 100;
const LARGE_BYTES: usize = 10 << 20;
const STEP_MS: i64 = 60_000;
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// What a client learns from metadata, it keeps for a while.
const EVENTUALLY: Duration = Duration::from_secs(20);

pub(crate) type Failure = Box<dyn Error>;

/// `None`: the client has no such thing.
pub(crate) type Told<T> = Option<Result<T, Failure>>;

/// What goes out and must come back; without a timestamp, the client chooses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Vec<u8>)>,
    timestamp_ms: Option<i64>,
}

/// How a batch of records is written.
#[derive(Clone, Copy)]
pub(crate) struct Writing {
    codec: &'static str,
    idempotence: Idempotence,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Idempotence {
    On,
    Off,
}

/// What a library must do. Everything is about partition 0, with acks=all.
pub(crate) trait Client {
    /// Creates a topic.
    fn create(&self, topic: &str, partitions: i32) -> Result<(), Failure>;
    /// Creates a topic with configurations, by whatever client can.
    fn create_with(&self, topic: &str, configs: &[(&str, &str)]) -> Result<(), Failure>;
    /// Appends, and waits.
    fn produce(&self, topic: &str, records: &[Record], writing: Writing) -> Told<()>;
    /// Reads from the start, assigned by hand.
    fn consume(&self, topic: &str, count: usize) -> Result<Vec<Record>, Failure>;
    /// The first offset at or after a time.
    fn offset_at(&self, topic: &str, timestamp_ms: i64) -> Result<Option<i64>, Failure>;
    /// The first and the next offset.
    fn ends(&self, topic: &str) -> Result<(i64, i64), Failure>;
    /// How many partitions a topic is described with.
    fn partitions(&self, topic: &str) -> Result<usize, Failure>;
    /// Changes a configuration.
    fn set_config(&self, topic: &str, key: &str, value: &str) -> Told<()>;
    /// Describes a configuration.
    fn config(&self, topic: &str, key: &str) -> Told<Option<String>>;
    /// Grows a topic.
    fn add_partitions(&self, topic: &str, total: usize) -> Told<()>;
    /// Deletes a topic.
    fn delete(&self, topic: &str) -> Result<(), Failure>;
    /// The names of all topics.
    fn topics(&self) -> Result<Vec<String>, Failure>;
    /// Whether one record may have two headers of one name.
    fn repeats_headers(&self) -> bool;
}

fn numbered() -> Vec<Record> {
    let record = |n: usize| Record {
        key: Some(format!("key-{n}").into_bytes()),
        value: Some(format!("value-{n} {}", "x".repeat(200)).into_bytes()),
        headers: vec![("n".into(), n.to_string().into_bytes())],
        timestamp_ms: None,
    };
    (0..RECORDS).map(record).collect()
}

fn expect<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found:.300?}, expected {expected:.300?}").into())
}

fn eventually<T: PartialEq + std::fmt::Debug>(
    what: &str,
    ask: impl Fn() -> Result<T, Failure>,
    expected: T,
) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let found = ask()?;
        if found == expected || begin.elapsed() > EVENTUALLY {
            return expect(what, found, expected);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn round_trip(client: &dyn Client, topic: &str, records: &[Record], writing: Writing) -> Told<()> {
    let produced = client.produce(topic, records, writing)?;
    Some(produced.and_then(|()| {
        let found = client.consume(topic, records.len())?;
        expect("records", found.len(), records.len())?;
        for (number, (mut one, expected)) in found.into_iter().zip(records).enumerate() {
            one.timestamp_ms = expected.timestamp_ms.and(one.timestamp_ms);
            if one != *expected {
                return Err(format!("record {number} is {:.200}", format!("{one:?}")).into());
            }
        }
        Ok(())
    }))
}

const PLAIN: Writing = Writing { codec: "none", idempotence: Idempotence::Off };
const FOREVER: [(&str, &str); 1] = [("retention.ms", "-1")];

/// Creates a topic and goes through it with records.
fn made(
    client: &dyn Client,
    topic: &str,
    configs: &[(&str, &str)],
    records: &[Record],
    writing: Writing,
) -> Told<()> {
    if let Err(failure) = client.create_with(topic, configs) {
        return Some(Err(failure));
    }
    round_trip(client, topic, records, writing)
}

fn several(client: &dyn Client) -> Vec<Record> {
    let header = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
    let second = if client.repeats_headers() { "a" } else { "c" };
    let record = |key: Option<&[u8]>, value: Option<&[u8]>| Record {
        key: key.map(<[u8]>::to_vec),
        value: value.map(<[u8]>::to_vec),
        ..Record::default()
    };
    let mut records = vec![
        record(None, Some(b"no key")),
        record(Some(b"no value"), None),
        record(None, None),
        record(Some(b"k"), Some(b"v")),
        record(Some(&[0xff, 0]), Some(&[0, 0xff].repeat(50))),
    ];
    records[3].headers = vec![header("a", b"1"), header(second, b"2"), header("d", b"")];
    records[4].headers = vec![header("grüße", "größe".as_bytes())];
    records
}

fn configs(client: &dyn Client, topic: &str) -> Told<()> {
    let kept = client.config(topic, "retention.ms")?;
    Some(kept.and_then(|created| {
        expect("retention.ms as created", created.as_deref(), Some("604800000"))?;
        client.set_config(topic, "retention.ms", "86400000").unwrap_or(Ok(()))?;
        let changed = client.config(topic, "retention.ms").unwrap_or(Ok(None))?;
        expect("retention.ms as changed", changed.as_deref(), Some("86400000"))
    }))
}

fn grow(client: &dyn Client, topic: &str) -> Told<()> {
    let grown = client.add_partitions(topic, 5)?;
    Some(grown.and_then(|()| eventually("partitions", || client.partitions(topic), 5)))
}

fn removal(client: &dyn Client, topic: &str) -> Result<(), Failure> {
    client.delete(topic)?;
    let there = || Ok(client.topics()?.iter().any(|name| name == topic));
    eventually("the topic is there", there, false)
}

fn times(client: &dyn Client, topic: &str) -> Told<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    // Old enough to be in order, young enough to be kept.
    let stamp_ms = i64::try_from(now).unwrap_or(0) - 7_200_000;
    let record = |n: i64| Record {
        key: Some(b"k".to_vec()),
        value: Some(n.to_string().into_bytes()),
        timestamp_ms: Some(stamp_ms + n * STEP_MS),
        ..Record::default()
    };
    let records: Vec<Record> = (0..10).map(record).collect();
    let written = made(client, topic, &FOREVER, &records, PLAIN)?;
    let rows =
        [(3 * STEP_MS, Some(3)), (3 * STEP_MS + 1, Some(4)), (-1, Some(0)), (100 * STEP_MS, None)];
    Some(written.and_then(|()| {
        rows.into_iter().try_for_each(|(shift, expected)| {
            expect(&format!("at {shift}"), client.offset_at(topic, stamp_ms + shift)?, expected)
        })
    }))
}

fn tell(feature: &str, told: Told<()>) {
    let Some(result) = told else { return };
    let text = result.as_ref().err().map_or(String::new(), |failure| format!("{failure:.600}"));
    println!("{}", json!({"feature": feature, "passed": result.is_ok(), "text": text}));
}

fn everything(client: &dyn Client, prefix: &str) {
    let admin = format!("{prefix}-admin");
    tell("create", Some(client.create(&admin, 2)));
    tell("describe", Some(eventually("partitions", || client.partitions(&admin), 2)));
    tell("configs", configs(client, &admin));
    tell("partitions", grow(client, &admin));
    tell("delete", Some(removal(client, &admin)));
    for codec in CODECS {
        let topic = format!("{prefix}-{codec}");
        let writing = Writing { codec, ..PLAIN };
        tell(&format!("codec-{codec}"), made(client, &topic, &FOREVER, &numbered(), writing));
    }
    tell("headers", made(client, &format!("{prefix}-headers"), &[], &several(client), PLAIN));
    let large = Record {
        key: Some(b"large".to_vec()),
        value: Some((0..LARGE_BYTES).map(|n| n as u8).collect()),
        ..Record::default()
    };
    let room = [("max.message.bytes", "11534336")];
    tell("large", made(client, &format!("{prefix}-large"), &room, &[large], PLAIN));
    let topic = format!("{prefix}-times");
    tell("times", times(client, &topic));
    let ends = client.ends(&topic).and_then(|found| expect("offsets", found, (0, 10)));
    tell("ends", Some(ends));
    let writing = Writing { idempotence: Idempotence::On, ..PLAIN };
    tell("idempotent", made(client, &format!("{prefix}-idempotent"), &[], &numbered(), writing));
}

/// The version of a dependency, as the lock file that was built from says it.
fn version_of(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let after =
        lock.split_once(&format!("name = \"{package}\"\nversion = \"")).map(|(_, rest)| rest);
    after.and_then(|rest| rest.split('"').next()).unwrap_or("unknown")
}

fn run(client: &str, bootstrap: &str, prefix: &str) -> Result<(), Failure> {
    let (made, version): (Box<dyn Client>, String) = match client {
        "rdkafka" => {
            let bundled = rdkafka::util::get_rdkafka_version().1;
            let version = format!("{} (librdkafka {bundled})", version_of("rdkafka"));
            (Box::new(Rdkafka::new(bootstrap)?), version)
        }
        "rskafka" => (Box::new(Rskafka::new(bootstrap)?), version_of("rskafka").to_owned()),
        _ => return Err(format!("{client}: no such client").into()),
    };
    println!("{}", json!({"version": version}));
    everything(made.as_ref(), prefix);
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let [client, bootstrap, prefix] = words.as_slice() else {
        eprintln!("usage: matrix CLIENT BOOTSTRAP PREFIX");
        return ExitCode::from(2);
    };
    match run(client, bootstrap, prefix) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
