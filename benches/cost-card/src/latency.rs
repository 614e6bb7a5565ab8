//! Acknowledgement latency at a fixed rate, open loop: counted from when a request was due, not from when it left.
//!
//! A client that waits for a slow answer before it sends the next request measures one slow request where its users would
//! have seen hundreds; here the requests keep coming.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Connection, Frame, Topic, check_produced};
use crate::error::CardError;
use crate::report::{Latencies, Row};
use crate::{Broker, batch, cpu};

/// Bytes a second, the rate of DESIGN section 10's row.
const BYTES_PER_SECOND: u64 = 10_000_000;
const BATCH_BYTES: usize = 16 << 10;
const WARM_UP: Duration = Duration::from_secs(2);

/// Sends at the rate from this thread and reads the answers on another.
pub(crate) fn measure(broker: &Broker, topic: &Topic, seconds: u64) -> Result<Vec<Row>, CardError> {
    let interval = Duration::from_nanos(BATCH_BYTES as u64 * 1_000_000_000 / BYTES_PER_SECOND);
    let per_second = BYTES_PER_SECOND / BATCH_BYTES as u64;
    let warm_up_count = per_second * WARM_UP.as_secs();
    let count = warm_up_count + per_second * seconds;
    let mut frame = Frame::produce(topic, 0, &batch::of_bytes(BATCH_BYTES))?;
    let mut connection = Connection::open(broker.address)?;
    let reader = connection.stream.try_clone()?;
    let begin = Instant::now() + Duration::from_millis(50);
    let due = move |number: u64| begin + interval * u32::try_from(number).unwrap_or(u32::MAX);
    let answers = thread::spawn(move || receive_all(reader, count, warm_up_count, due));
    let mut cpu_before = 0.0;
    for number in 0..count {
        thread::sleep(due(number).saturating_duration_since(Instant::now()));
        if number == warm_up_count {
            cpu_before = cpu::process_seconds(broker.pid)?;
        }
        connection.send(&mut frame, i32::try_from(number).unwrap_or(0))?;
    }
    let latencies = answers.join().map_err(|_| CardError::Thread)??;
    let cpu_seconds = cpu::process_seconds(broker.pid)? - cpu_before;
    let bytes = per_second * seconds * BATCH_BYTES as u64;
    let name = "latency at 10 MB/s, 16 KiB batches, open loop";
    #[expect(clippy::cast_precision_loss, reason = "seconds of a run are few")]
    let row = Row::of_bytes(name, bytes, seconds as f64, cpu_seconds).with_latencies(latencies);
    Ok(vec![row])
}

fn receive_all(
    stream: TcpStream,
    count: u64,
    warm_up_count: u64,
    due: impl Fn(u64) -> Instant,
) -> Result<Latencies, CardError> {
    let mut connection = Connection::over(stream);
    let mut latencies = Latencies::default();
    for number in 0..count {
        let correlation_id = i32::try_from(number).unwrap_or(0);
        check_produced(connection.receive()?, correlation_id)?;
        if number >= warm_up_count {
            latencies.push(due(number).elapsed());
        }
    }
    Ok(latencies)
}
