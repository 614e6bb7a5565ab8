//! Hot fetch: the same few batches, just written, read again and again.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Instant;

use clap::ValueEnum;
use nix::sys::socket::{MsgFlags, recv};
use record::{BatchView, Offset};
use wire::fetch::FetchResponse;
use wire::{ApiKey, ErrorCode, Message};

use crate::client::{Connection, FETCH_VERSION, Frame, Topic, body_of, check_produced};
use crate::error::CardError;
use crate::produce::BATCH_BYTES;
use crate::report::Row;
use crate::{Broker, MIB, Options, batch, cpu, settle};

/// Batches that are read in turn: 8 MiB stay in any broker's memory.
const BATCH_COUNT: usize = 8;
/// Requests in flight: while one is on its way the broker has the next one.
const IN_FLIGHT_MAX: u64 = 4;
/// Every so many answers one is read whole and its batches' checksums are verified, whatever `--receive` says.
const CHECK_INTERVAL: u64 = 64;
/// Bytes thrown away a call.
const DISCARD_BYTES: usize = 1 << 20;

/// What happens to the records on the client's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Receive {
    /// The kernel throws them away: the receiver costs next to nothing and the sender's cost stands alone.
    Discard,
    /// They are copied out of the socket.
    Copy,
    /// They are copied, and every batch's checksum is verified.
    Check,
}

/// Measures rounds of fetch until they settle.
pub(crate) fn measure(
    broker: &Broker,
    topic: &Topic,
    options: &Options,
) -> Result<Vec<Row>, CardError> {
    let mut connection = Connection::open(broker.address)?;
    let mut frames = write_batches(topic, &mut connection)?;
    let count = options.round_mib * MIB / BATCH_BYTES as u64;
    let row = settle(options.repeats(), || {
        round(broker, &mut connection, &mut frames, (count, options.receive))
    })?;
    Ok(vec![row])
}

/// Writes the batches and gives one fetch for each.
fn write_batches(topic: &Topic, connection: &mut Connection) -> Result<Vec<Frame>, CardError> {
    let mut produce = Frame::produce(topic, 0, &batch::of_bytes(BATCH_BYTES))?;
    let bytes_max = i32::try_from(BATCH_BYTES).unwrap_or(i32::MAX);
    let mut offset_of = || -> Result<Offset, CardError> {
        connection.send(&mut produce, 0)?;
        check_produced(connection.receive()?, 0)
    };
    (0..BATCH_COUNT).map(|_| Frame::fetch(topic, offset_of()?, bytes_max)).collect()
}

fn round(
    broker: &Broker,
    connection: &mut Connection,
    frames: &mut [Frame],
    (count, receive): (u64, Receive),
) -> Result<Row, CardError> {
    let mut discard = vec![0; DISCARD_BYTES];
    let cpu_before = cpu::process_seconds(broker.pid)?;
    let begin = Instant::now();
    let mut bytes = 0;
    for request in 0..count + IN_FLIGHT_MAX {
        if request < count {
            let index = usize::try_from(request % BATCH_COUNT as u64).unwrap_or(0);
            let frame = &mut frames[index];
            connection.send(frame, correlation_id(request))?;
        }
        let Some(answer) = request.checked_sub(IN_FLIGHT_MAX) else { continue };
        let size = connection.receive_size()?;
        // An answer without its batch is short, and then it says why.
        if receive == Receive::Discard && size >= BATCH_BYTES && answer % CHECK_INTERVAL != 0 {
            discard_bytes(&connection.stream, &mut discard, size)?;
        } else {
            let verify = receive == Receive::Check || answer % CHECK_INTERVAL == 0;
            check_fetched(connection.receive_rest(size)?, correlation_id(answer), verify)?;
        }
        bytes += size as u64;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_seconds = cpu::process_seconds(broker.pid)? - cpu_before;
    let name = match receive {
        Receive::Discard => "hot fetch, 1 MiB, receiver discards",
        Receive::Copy => "hot fetch, 1 MiB, receiver copies",
        Receive::Check => "hot fetch, 1 MiB, receiver verifies",
    };
    Ok(Row::of_bytes(name, bytes, seconds, cpu_seconds))
}

/// The number of a request; it wraps long after any round has ended.
fn correlation_id(request: u64) -> i32 {
    i32::try_from(request % (1 << 30)).unwrap_or(0)
}

/// Drops `count` received bytes in the kernel: on TCP, MSG_TRUNC means "do not copy them out".
pub(crate) fn discard_bytes(
    stream: &TcpStream,
    scratch: &mut [u8],
    mut count: usize,
) -> Result<(), CardError> {
    while count > 0 {
        let room = count.min(scratch.len());
        let got = recv(stream.as_raw_fd(), &mut scratch[..room], MsgFlags::MSG_TRUNC)
            .map_err(|errno| CardError::System { call: "recv", errno })?;
        if got == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        count -= got;
    }
    Ok(())
}

fn check_fetched(answer: &[u8], correlation_id: i32, verify: bool) -> Result<(), CardError> {
    let body = body_of(ApiKey::Fetch, FETCH_VERSION, answer, correlation_id)?;
    let response = FetchResponse::decode(FETCH_VERSION, body)?;
    let partition = response.responses.first().and_then(|topic| topic.partitions.first());
    let code = partition.map_or(response.error_code, |partition| partition.error_code);
    let Some(partition) = partition.filter(|_| code == ErrorCode::None) else {
        return Err(CardError::Refused { what: "fetch", code });
    };
    let mut records = partition.records.inline();
    if records.len() < BATCH_BYTES {
        return Err(CardError::Unexpected {
            what: "fetched bytes",
            got: i64::try_from(records.len()).unwrap_or(i64::MAX),
            expected: i64::try_from(BATCH_BYTES).unwrap_or(i64::MAX),
        });
    }
    while verify && !records.is_empty() {
        let (batch, rest) = BatchView::split_first(records)?;
        batch.verify_crc()?;
        records = rest;
    }
    Ok(())
}
