//! The cost card: what a gigabyte and an acknowledgement cost a running broker, beside what they cost at least.
//!
//! Owns the command line and the order of the scenarios; each scenario is a module. It replays batches that were encoded
//! before the clock started, so that the client's own cost cannot hide the broker's. It must never use anything but the
//! Kafka protocol against the broker: the same card is drawn for any of them.

mod acks;
mod batch;
mod client;
mod cpu;
mod error;
mod fetch;
mod floor;
mod latency;
mod produce;
mod report;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};

use crate::client::Topic;
use crate::error::CardError;
use crate::report::{Agreement, Card, Row};

/// Bytes of a MiB: options speak MiB, figures speak GB (10^9).
const MIB: u64 = 1 << 20;

/// Measures a running broker, or the machine alone with `floor`.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Options {
    /// What to measure; everything when none is named.
    #[arg(value_enum)]
    scenarios: Vec<Scenario>,
    /// The broker's address.
    #[arg(short, long, default_value = "127.0.0.1:9092")]
    bootstrap_server: SocketAddr,
    /// The broker's process, whose CPU time is counted; needed for all but `floor`.
    #[arg(long)]
    pid: Option<u32>,
    /// The CPU that this client keeps to.
    #[arg(long, default_value_t = 1)]
    client_cpu: usize,
    /// The CPU that the floor's server thread keeps to; the broker's own is up to who started it.
    #[arg(long, default_value_t = 0)]
    server_cpu: usize,
    /// MiB a round of produce and of fetch.
    #[arg(long, default_value_t = 2_048)]
    round_mib: u64,
    /// Seconds of rounds that do not count before those of produce and fetch: a virtual machine compiles for that long.
    #[arg(long, default_value_t = 60)]
    warm_up_seconds: u64,
    /// The most rounds of a scenario; it ends earlier when two in a row agree within a twentieth.
    #[arg(long, default_value_t = 6)]
    rounds_max: usize,
    /// Seconds that acks and latency are measured.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// What a fetching client does with the records.
    #[arg(long, value_enum, default_value_t = fetch::Receive::Discard)]
    receive: fetch::Receive,
    /// Where the floor writes; on the disk that the broker uses.
    #[arg(long, default_value = ".")]
    floor_dir: PathBuf,
    /// How the card is printed.
    #[arg(short, long, value_enum, default_value_t = report::Output::Table)]
    output: report::Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Durable produce of 1 MiB batches, acks=all.
    Produce,
    /// Fetch of records that were just written, again and again.
    Fetch,
    /// Acknowledgements a second: 64 connections, 1 KB each, one request in flight.
    Acks,
    /// Acknowledgement latency at 10 MB/s, from the intended send time.
    Latency,
    /// The least that receive, checksum, write, acknowledge, and send can cost on this machine.
    Floor,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let output = options.output;
    match run(&options) {
        Ok(card) => {
            println!("{}", card.print(output));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cost-card: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Card, CardError> {
    let all =
        [Scenario::Produce, Scenario::Fetch, Scenario::Acks, Scenario::Latency, Scenario::Floor];
    let chosen = if options.scenarios.is_empty() { &all[..] } else { &options.scenarios[..] };
    let mut card = Card::default();
    for scenario in chosen {
        let rows = match scenario {
            // Threads inherit the CPUs of who starts them: only the floor sets those of its threads.
            Scenario::Floor => floor::measure(options)?,
            broker => {
                cpu::pin_this_thread(options.client_cpu)?;
                measure_broker(*broker, options)?
            }
        };
        for row in rows {
            eprintln!("{}", row.line());
            card.rows.push(row);
        }
    }
    Ok(card)
}

/// Runs one scenario on topics of its own, which are deleted afterwards: gigabytes are not left behind.
fn measure_broker(scenario: Scenario, options: &Options) -> Result<Vec<Row>, CardError> {
    let pid = options.pid.ok_or(CardError::PidNeeded)?;
    let broker = Broker { address: options.bootstrap_server, pid };
    match scenario {
        Scenario::Produce => produce::measure(&broker, options),
        Scenario::Fetch => on_topic(&broker, 1, |topic| fetch::measure(&broker, topic, options)),
        Scenario::Acks => {
            let mut rows = Vec::new();
            for partition_count in acks::PARTITION_COUNTS {
                rows.extend(on_topic(&broker, partition_count, |topic| {
                    acks::measure(&broker, topic, options.seconds)
                })?);
            }
            Ok(rows)
        }
        Scenario::Latency => {
            on_topic(&broker, 1, |topic| latency::measure(&broker, topic, options.seconds))
        }
        Scenario::Floor => unreachable!("the floor has no broker"),
    }
}

/// The broker that is measured.
#[derive(Debug, Clone, Copy)]
struct Broker {
    address: SocketAddr,
    pid: u32,
}

fn on_topic<T>(
    broker: &Broker,
    partition_count: i32,
    measure: impl FnOnce(&Topic) -> Result<T, CardError>,
) -> Result<T, CardError> {
    let topic = Topic::create(broker.address, partition_count)?;
    let measured = measure(&topic);
    topic.delete(broker.address)?;
    measured
}

/// How often a round is repeated, and when it begins to count.
#[derive(Debug, Clone, Copy)]
struct Repeats {
    /// Rounds that begin before this has passed are thrown away.
    warm_up: Duration,
    /// The most that count.
    rounds_max: usize,
}

impl Options {
    /// For rounds of the broker, which may have to compile itself first.
    fn repeats(&self) -> Repeats {
        let warm_up = Duration::from_secs(self.warm_up_seconds);
        Repeats { warm_up, rounds_max: self.rounds_max }
    }

    /// For rounds of our own, which are as fast at once as ever.
    fn cold_repeats(&self) -> Repeats {
        Repeats { warm_up: Duration::ZERO, rounds_max: self.rounds_max }
    }
}

/// Repeats `round` until two results in a row agree, and gives the last one, which says whether they did.
///
/// The first rounds touch memory that the machine has not given out yet, and files that do not exist: they cost more than
/// any later one, on one side more than on the other.
fn settle(
    repeats: Repeats,
    mut round: impl FnMut() -> Result<Row, CardError>,
) -> Result<Row, CardError> {
    let begin = Instant::now();
    while begin.elapsed() < repeats.warm_up {
        round()?;
    }
    let mut last = round()?;
    for rounds in 2..=repeats.rounds_max {
        let next = round()?;
        let agreed = (next.cost() - last.cost()).abs() <= last.cost() / 20.0;
        last = next;
        if agreed {
            return Ok(last.of_rounds(rounds, Agreement::Reached));
        }
    }
    Ok(last.of_rounds(repeats.rounds_max.max(1), Agreement::Missed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `settle` makes of rounds that cost so much.
    fn settled(costs: &[f64], repeats: Repeats) -> (usize, String) {
        let mut left = costs.iter();
        let row = settle(repeats, || {
            let cost = left.next().copied().unwrap_or_default();
            Ok(Row::of_bytes("r", 1_000_000_000, 1.0, cost))
        });
        (left.len(), row.unwrap().line())
    }

    #[test]
    fn rounds_end_when_two_agree_and_a_row_says_where_none_did() {
        let repeats = Repeats { warm_up: Duration::ZERO, rounds_max: 4 };
        let (left, line) = settled(&[3.0, 2.0, 1.96, 9.0], repeats);
        assert!(left == 1 && line.contains("1.960") && line.trim_end().ends_with(" 3"), "{line}");
        let (left, line) = settled(&[4.0, 3.0, 2.0, 1.0, 1.0], repeats);
        assert!(left == 1 && line.contains("1.000") && line.trim_end().ends_with(" 4*"), "{line}");
    }

    #[test]
    fn rounds_of_the_warm_up_do_not_count() {
        let repeats = Repeats { warm_up: Duration::from_millis(20), rounds_max: 2 };
        let mut rounds = 0;
        let row = settle(repeats, || {
            std::thread::sleep(Duration::from_millis(15));
            rounds += 1;
            Ok(Row::of_bytes("r", 1_000_000_000, 1.0, if rounds == 1 { 100.0 } else { 1.0 }))
        });
        assert!(row.unwrap().line().trim_end().ends_with(" 2"));
        assert!(rounds >= 3, "{rounds}");
    }
}
