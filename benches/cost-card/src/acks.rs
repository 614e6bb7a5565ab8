//! Acknowledgements a second: many connections, small records, one request in flight each.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::client::{Connection, Frame, Topic, answer_bytes, check_produced};
use crate::error::CardError;
use crate::report::{Latencies, Row};
use crate::{Broker, batch, cpu};

/// As many clients as DESIGN section 10 counts.
const CONNECTIONS: usize = 64;
/// A record of 1 KB in a batch of its own.
const BATCH_BYTES: usize = 1_110;
/// One partition shows how syncs are shared, sixteen what separate files cost.
pub(crate) const PARTITION_COUNTS: [i32; 2] = [1, 16];
/// Seconds before counting starts: sockets, files and caches are in place then.
const WARM_UP: Duration = Duration::from_secs(2);
/// Small answers: a Produce answer for one partition is below a hundred bytes.
const ANSWER_BYTES_MAX: usize = 1_024;

/// One client: it sends its next request when the answer to the last one is whole.
struct Client {
    connection: Connection,
    frame: Frame,
    sent_at: Instant,
    answer: [u8; ANSWER_BYTES_MAX],
    filled: usize,
}

impl Client {
    fn open(address: SocketAddr, topic: &Topic, number: usize) -> Result<Self, CardError> {
        let partition = i32::try_from(number).unwrap_or(0) % topic.partition_count;
        let connection = Connection::open(address)?;
        connection.stream.set_nonblocking(true)?;
        Ok(Self {
            connection,
            frame: Frame::produce(topic, partition, &batch::of_bytes(BATCH_BYTES))?,
            sent_at: Instant::now(),
            answer: [0; ANSWER_BYTES_MAX],
            filled: 0,
        })
    }

    /// Sends the next request. It always fits: the socket's buffer is empty while nothing is in flight.
    fn send(&mut self) -> Result<(), CardError> {
        self.sent_at = Instant::now();
        Ok(self.connection.stream.write_all(self.frame.numbered(1))?)
    }

    /// Reads what is there; the latency once the answer is whole.
    fn receive(&mut self) -> Result<Option<Duration>, CardError> {
        match self.connection.stream.read(&mut self.answer[self.filled..]) {
            Ok(0) => return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(count) => self.filled += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let Some(size) = self.answer[..self.filled].first_chunk::<4>() else { return Ok(None) };
        let end = 4 + answer_bytes(*size)?;
        if self.filled < end {
            return Ok(None);
        }
        check_produced(&self.answer[4..end], 1)?;
        self.filled = 0;
        Ok(Some(self.sent_at.elapsed()))
    }
}

/// Drives all clients for `seconds` behind a warm-up.
pub(crate) fn measure(broker: &Broker, topic: &Topic, seconds: u64) -> Result<Vec<Row>, CardError> {
    let system = |call| move |errno| CardError::System { call, errno };
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("epoll_create1"))?;
    let mut clients = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let mut client = Client::open(broker.address, topic, number)?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
        epoll.add(&client.connection.stream, event).map_err(system("epoll_ctl"))?;
        client.send()?;
        clients.push(client);
    }
    let counting_from = Instant::now() + WARM_UP;
    let until = counting_from + Duration::from_secs(seconds);
    let mut events = [EpollEvent::empty(); CONNECTIONS];
    let mut latencies = Latencies::default();
    let mut cpu_before = None;
    while Instant::now() < until {
        // A second: a broker that has stopped answering must not stop the clock too.
        let timeout = EpollTimeout::from(1_000_u16);
        let ready = epoll.wait(&mut events, timeout).map_err(system("epoll_wait"))?;
        if cpu_before.is_none() && Instant::now() >= counting_from {
            cpu_before = Some(cpu::process_seconds(broker.pid)?);
        }
        for event in &events[..ready] {
            let number = usize::try_from(event.data()).unwrap_or(usize::MAX);
            let Some(client) = clients.get_mut(number) else { continue };
            if let Some(latency) = client.receive()? {
                if cpu_before.is_some() {
                    latencies.push(latency);
                }
                client.send()?;
            }
        }
    }
    let cpu_seconds = cpu::process_seconds(broker.pid)? - cpu_before.unwrap_or_default();
    let name =
        format!("acks, {CONNECTIONS} connections x 1 KB, {} partitions", topic.partition_count);
    Ok(vec![Row::of_acks(name, seconds, cpu_seconds, latencies)])
}
