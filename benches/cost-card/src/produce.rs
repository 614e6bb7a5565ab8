//! Durable produce: one connection, 1 MiB batches, acks=all, a few in flight.

use std::collections::VecDeque;
use std::time::Instant;

use crate::client::{Connection, Frame, check_produced};
use crate::error::CardError;
use crate::report::{Latencies, Row};
use crate::{Broker, MIB, Options, batch, cpu, on_topic, settle};

/// What the default max.message.bytes (1,048,588) still takes.
pub(crate) const BATCH_BYTES: usize = 1 << 20;
/// An ordinary client's most: five requests in flight keep their order under idempotence.
const IN_FLIGHT_MAX: usize = 5;

/// Measures rounds of produce until they settle, each on a topic of its own: a minute of warm-up in one log fills a disk.
pub(crate) fn measure(broker: &Broker, options: &Options) -> Result<Vec<Row>, CardError> {
    let batch = batch::of_bytes(BATCH_BYTES);
    let count = options.round_mib * MIB / BATCH_BYTES as u64;
    let one = || {
        on_topic(broker, 1, |topic| {
            let mut connection = Connection::open(broker.address)?;
            round(broker, &mut connection, &mut Frame::produce(topic, 0, &batch)?, count)
        })
    };
    Ok(vec![settle(options.repeats(), one)?])
}

fn round(
    broker: &Broker,
    connection: &mut Connection,
    frame: &mut Frame,
    count: u64,
) -> Result<Row, CardError> {
    let mut sent = VecDeque::with_capacity(IN_FLIGHT_MAX);
    let mut latencies = Latencies::default();
    let (mut next_send, mut next_answer) = (0_i32, 0_i32);
    let cpu_before = cpu::process_seconds(broker.pid)?;
    let begin = Instant::now();
    for left in (0..count).rev() {
        sent.push_back(Instant::now());
        connection.send(frame, next_send)?;
        next_send += 1;
        while sent.len() >= IN_FLIGHT_MAX || (left == 0 && !sent.is_empty()) {
            check_produced(connection.receive()?, next_answer)?;
            next_answer += 1;
            latencies.extend(sent.pop_front().map(|at| at.elapsed()));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_seconds = cpu::process_seconds(broker.pid)? - cpu_before;
    let bytes = count * BATCH_BYTES as u64;
    Ok(Row::of_bytes("produce, 1 MiB batches, acks=all", bytes, seconds, cpu_seconds)
        .with_latencies(latencies))
}
