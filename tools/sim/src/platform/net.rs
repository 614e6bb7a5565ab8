//! The network in memory: two pipes a connection.
//!
//! Owns the ends of the broker and of its clients. What a client sends is never refused, as if the kernel's buffers were
//! large; what the broker sends waits for room once the client does not read. Dropping both halves of the broker's end, or
//! the client's socket, closes the connection: what was sent before still arrives. A reset loses what has not arrived.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use broker::platform::{ConnectionReader, ConnectionWriter, Listener, Parted};
use commitlog::LocalTask;

use crate::executor::SimExecutor;
use crate::prng::{OneIn, Prng};

/// Where clients' own ports begin.
const CLIENT_PORTS: u16 = 40_000;
/// How often what arrives at the broker is late.
const LATE_ODDS: OneIn = OneIn(4);
/// How often it arrives in pieces.
const PIECE_ODDS: OneIn = OneIn(3);

/// How bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPace {
    /// At once, and whole.
    Even,
    /// Some late, some in pieces; a client that does not read stops the broker's sending after so many bytes.
    Ragged {
        /// What the kernel holds for a client that does not read.
        unread_bytes_max: usize,
    },
}

impl NetworkPace {
    fn unread_bytes_max(self) -> usize {
        match self {
            Self::Even => usize::MAX,
            Self::Ragged { unread_bytes_max } => unread_bytes_max,
        }
    }
}

#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    is_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let count = self.bytes.len().min(buffer.len());
        for (slot, byte) in buffer.iter_mut().zip(self.bytes.drain(..count)) {
            *slot = byte;
        }
        self.writer.take().into_iter().for_each(Waker::wake);
        count
    }

    fn close(&mut self) {
        self.is_closed = true;
        let waiting = [self.reader.take(), self.writer.take()];
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

/// A pipe, to look into or change. Cores are one thread here; the lock only makes an end plain data, which crosses the mesh.
fn held(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end: what it receives and what it sends.
struct End {
    incoming: Arc<Mutex<Pipe>>,
    outgoing: Arc<Mutex<Pipe>>,
    own: SocketAddr,
    peer: SocketAddr,
}

impl End {
    /// What is there, at least one byte and at most as fit in; 0 at the end of the stream.
    fn poll_read(&self, context: &Context<'_>, buffer: &mut [u8]) -> Poll<usize> {
        let mut pipe = held(&self.incoming);
        if pipe.bytes.is_empty() && !pipe.is_closed {
            pipe.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(pipe.take(buffer))
    }

    /// Sends what there is room for; returns how much.
    async fn write(&self, bytes: &[u8], unread_bytes_max: usize) -> io::Result<usize> {
        poll_fn(|context| {
            let mut pipe = held(&self.outgoing);
            if pipe.is_closed {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let room = unread_bytes_max.saturating_sub(pipe.bytes.len());
            if room == 0 {
                pipe.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
            let count = room.min(bytes.len());
            pipe.put(&bytes[..count]);
            Poll::Ready(Ok(count))
        })
        .await
    }

    fn close(&self) {
        held(&self.incoming).close();
        held(&self.outgoing).close();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.close();
    }
}

#[derive(Default)]
struct Backlog {
    waiting: VecDeque<(SimReader, SimWriter)>,
    waker: Option<Waker>,
}

struct Shared {
    listeners: RefCell<BTreeMap<SocketAddr, Vec<Rc<RefCell<Backlog>>>>>,
    next_port: RefCell<u16>,
    executor: SimExecutor,
    prng: RefCell<Prng>,
    pace: NetworkPace,
    moved: Cell<u64>,
}

/// Everything that listens. Clones are the same network.
#[derive(Clone)]
pub struct SimNetwork(Rc<Shared>);

impl SimNetwork {
    pub(super) fn new(executor: &SimExecutor, prng: Prng, pace: NetworkPace) -> Self {
        Self(Rc::new(Shared {
            listeners: RefCell::default(),
            next_port: RefCell::new(CLIENT_PORTS),
            executor: executor.clone(),
            prng: RefCell::new(prng),
            pace,
            moved: Cell::new(0),
        }))
    }

    pub(super) fn listen(&self, address: SocketAddr) -> SimListener {
        let backlog = Rc::<RefCell<Backlog>>::default();
        let mut listeners = self.0.listeners.borrow_mut();
        listeners.entry(address).or_default().push(Rc::clone(&backlog));
        SimListener { backlog, address, network: self.clone() }
    }

    /// The client's end of a new connection, to any of the cores that listen there; `None` where nobody does.
    #[must_use]
    pub fn connect(&self, address: SocketAddr) -> Option<SimSocket> {
        self.dial(address).map(SimSocket)
    }

    /// The same, in two halves, for a client that runs on a platform.
    pub(super) fn connect_halves(&self, address: SocketAddr) -> Option<(SimReader, SimWriter)> {
        Some(self.halves(Arc::new(self.dial(address)?)))
    }

    fn dial(&self, address: SocketAddr) -> Option<End> {
        let listeners = self.0.listeners.borrow();
        let listening = listeners.get(&address)?;
        let chosen = self.0.prng.borrow_mut().pick(listening).clone();
        let mut port = self.0.next_port.borrow_mut();
        *port = port.checked_add(1).unwrap_or(CLIENT_PORTS);
        let client = SocketAddr::new(address.ip(), *port);
        let (up, down) = <(Arc<Mutex<Pipe>>, Arc<Mutex<Pipe>>)>::default();
        let theirs = Arc::new(End {
            incoming: Arc::clone(&up),
            outgoing: Arc::clone(&down),
            own: address,
            peer: client,
        });
        let halves = self.halves(theirs);
        let mut backlog = chosen.borrow_mut();
        backlog.waiting.push_back(halves);
        backlog.waker.take().into_iter().for_each(Waker::wake);
        Some(End { incoming: down, outgoing: up, own: client, peer: address })
    }

    fn halves(&self, end: Arc<End>) -> (SimReader, SimWriter) {
        let is_parted = Rc::new(Cell::new(false));
        let reader = SimReader {
            end: Arc::clone(&end),
            is_parted: Rc::clone(&is_parted),
            network: self.clone(),
            reading: Reading::No,
        };
        (reader, SimWriter { end, is_parted, network: self.clone() })
    }

    /// Goes on with a connection that another core has parted with.
    pub(super) fn adopt(&self, parted: Parted) -> io::Result<(SimReader, SimWriter)> {
        self.0.moved.set(self.0.moved.get() + 1);
        Ok(self.halves(parted.into_kept()?))
    }

    /// Connections that went from one core to another.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.0.moved.get()
    }

    fn is_ragged(&self, odds: OneIn) -> bool {
        self.0.pace != NetworkPace::Even && self.0.prng.borrow_mut().happens(odds)
    }

    /// What is under way may take its time.
    async fn travel(&self) {
        if self.is_ragged(LATE_ODDS) {
            let late = self.0.prng.borrow_mut().between(10, 2_000);
            self.0.executor.sleep(Duration::from_micros(late)).await;
        }
    }

    /// How many of `count` bytes arrive together.
    fn piece_of(&self, count: usize) -> usize {
        if count > 1 && self.is_ragged(PIECE_ODDS) {
            return 1 + self.0.prng.borrow_mut().index(count.min(256));
        }
        count
    }
}

/// A bound socket of one core.
pub struct SimListener {
    backlog: Rc<RefCell<Backlog>>,
    address: SocketAddr,
    network: SimNetwork,
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut listeners = self.network.0.listeners.borrow_mut();
        let Some(listening) = listeners.get_mut(&self.address) else { return };
        listening.retain(|one| !Rc::ptr_eq(one, &self.backlog));
        if listening.is_empty() {
            listeners.remove(&self.address);
        }
    }
}

impl Listener for SimListener {
    type Reader = SimReader;
    type Writer = SimWriter;

    async fn accept(&self) -> io::Result<(SimReader, SimWriter)> {
        poll_fn(|context| {
            let mut backlog = self.backlog.borrow_mut();
            match backlog.waiting.pop_front() {
                Some(halves) => Poll::Ready(Ok(halves)),
                None => {
                    backlog.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn local_address(&self) -> SocketAddr {
        self.address
    }
}

/// The receiving half of an end: the broker's, or that of a client on a platform.
pub struct SimReader {
    end: Arc<End>,
    is_parted: Rc<Cell<bool>>,
    network: SimNetwork,
    reading: Reading,
}

/// How far a read has come.
#[derive(Default)]
enum Reading {
    /// Nobody reads.
    #[default]
    No,
    /// What comes is under way.
    Waits(LocalTask),
    /// So many bytes arrive together, as soon as there are any.
    Takes(usize),
}

impl ConnectionReader for SimReader {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            self.reading = match &mut self.reading {
                Reading::No => {
                    let network = self.network.clone();
                    Reading::Waits(Box::pin(async move { network.travel().await }))
                }
                Reading::Waits(travel) => {
                    ready!(travel.as_mut().poll(context));
                    Reading::Takes(self.network.piece_of(buffer.len()))
                }
                Reading::Takes(most) => {
                    let most = buffer.len().min(*most);
                    let count = ready!(self.end.poll_read(context, &mut buffer[..most]));
                    self.reading = Reading::No;
                    return Poll::Ready(Ok(count));
                }
            };
        }
    }

    fn has_ended(&self) -> bool {
        held(&self.end.incoming).is_closed
    }

    fn peer_address(&self) -> SocketAddr {
        self.end.peer
    }

    fn local_address(&self) -> SocketAddr {
        self.end.own
    }

    fn part(&self) -> io::Result<Parted> {
        self.is_parted.set(true);
        Ok(Parted::new(Arc::clone(&self.end)))
    }
}

/// The sending half of an end.
pub struct SimWriter {
    end: Arc<End>,
    is_parted: Rc<Cell<bool>>,
    network: SimNetwork,
}

impl ConnectionWriter for SimWriter {
    async fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let most = self.network.0.pace.unread_bytes_max();
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let sent = self.end.write(rest, most).await?;
                rest = &rest[sent..];
            }
        }
        Ok(())
    }

    async fn shutdown(&mut self) {
        if !self.is_parted.get() {
            self.end.close();
        }
    }
}

/// The client's end of a connection; closed when it is dropped.
pub struct SimSocket(End);

impl SimSocket {
    /// Sends; what the broker does not read waits without a bound.
    pub fn send(&self, bytes: &[u8]) {
        held(&self.0.outgoing).put(bytes);
    }

    /// Fills `bytes`; false at the end of the stream.
    pub async fn fill(&self, bytes: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            match poll_fn(|context| self.0.poll_read(context, rest)).await {
                0 => return false,
                count => filled += count,
            }
        }
        true
    }

    /// Sends nothing more; answers may still come.
    pub fn end_sending(&self) {
        held(&self.0.outgoing).close();
    }

    /// Ends the connection at once: what has not arrived never will.
    pub fn reset(self) {
        held(&self.0.outgoing).bytes.clear();
        held(&self.0.incoming).bytes.clear();
    }

    /// The client's own address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.own
    }
}
