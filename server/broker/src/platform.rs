//! The platform seam: disk, network, clocks, randomness, tasks and the mesh between cores.
//!
//! Owns the traits only. `node` implements them on io_uring, the simulator in memory. Everything is local
//! to one core except what [`Mesh`] carries.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use commitlog::{Disk, Executor};
use record::Timestamp;

/// Where on the mesh a message goes: data cores from 0, then the control executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeshIndex(pub u16);

/// One core's view of the machine.
pub trait Platform: Executor {
    /// The data directory.
    type Disk: Disk;
    /// A bound socket.
    type Listener: Listener<Reader = Self::Reader, Writer = Self::Writer>;
    /// The receiving half of a connection.
    type Reader: ConnectionReader;
    /// The sending half of a connection.
    type Writer: ConnectionWriter;

    /// The disk, rooted at the data directory.
    fn disk(&self) -> Self::Disk;

    /// Wall clock, Unix milliseconds. May jump either way: only for what users see as time.
    fn now(&self) -> Timestamp;

    /// Time since some fixed instant; never goes back. For every timer and deadline.
    fn monotonic(&self) -> Duration;

    /// Fills `bytes` from the system's generator (ids, secrets; never for load balancing).
    fn random(&self, bytes: &mut [u8]);

    /// Ends after `duration` at the earliest.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;

    /// Binds and listens; several cores may listen on one address and share what arrives.
    fn listen(&self, address: SocketAddr) -> impl Future<Output = io::Result<Self::Listener>>;

    /// Connects within `timeout`.
    fn connect(
        &self,
        address: SocketAddr,
        timeout: Duration,
    ) -> impl Future<Output = io::Result<(Self::Reader, Self::Writer)>>;

    /// Goes on with a connection that another core of this node has parted with. Errors: it is closed.
    fn adopt(&self, parted: Parted) -> io::Result<(Self::Reader, Self::Writer)>;

    /// Size of the disk that holds the data directory, which may grow; 0 where the system does not say.
    fn disk_bytes(&self) -> impl Future<Output = u64>;

    /// Resident memory of the process; 0 where the system does not say.
    fn resident_bytes(&self) -> u64;

    /// Tasks of this core that ended in a panic.
    fn panic_count(&self) -> u64;

    /// CPU time this core has spent, and how long it has been running: for the busy metric.
    fn busy(&self) -> (Duration, Duration);
}

/// A connection between two cores: plain data, which closes the connection when it is dropped.
pub struct Parted(Box<dyn Any + Send>);

impl Parted {
    /// What the platform keeps of it.
    #[must_use]
    pub fn new<T: Send + 'static>(kept: T) -> Self {
        Self(Box::new(kept))
    }

    /// What the platform kept. Errors: it was another platform's.
    pub fn into_kept<T: 'static>(self) -> io::Result<T> {
        let kept = self.0.downcast::<T>().map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(*kept)
    }
}

impl fmt::Debug for Parted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Parted")
    }
}

/// A bound socket.
pub trait Listener: 'static {
    /// The receiving half of what it accepts.
    type Reader;
    /// The sending half of what it accepts.
    type Writer;

    /// The next connection. Errors: the caller backs off and goes on (EMFILE heals).
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Reader, Self::Writer)>>;

    /// The bound address, with the port that port 0 became.
    fn local_address(&self) -> SocketAddr;
}

/// The receiving half of a connection.
pub trait ConnectionReader: 'static {
    /// Reads what is there, at least one byte; 0 at the end of the stream. `buffer` is not empty. While nothing is there the task is
    /// woken when that changes, and the buffer is nobody's: the next poll may bring another.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>>;

    /// [`ConnectionReader::poll_read`] as something to await.
    fn read(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        poll_fn(move |context| self.poll_read(context, buffer))
    }

    /// Whether the other end has sent its last byte or is gone; bytes not yet read do not hide it.
    fn has_ended(&self) -> bool;

    /// The other end.
    fn peer_address(&self) -> SocketAddr;

    /// This end: what a wildcard listener advertises.
    fn local_address(&self) -> SocketAddr;

    /// Parts with the connection, so that another core can go on with it: from here on neither half touches it, whatever is done
    /// to them.
    ///
    /// Order   no read and no send may be under way.
    /// Errors  nothing has changed: it goes on here.
    fn part(&self) -> io::Result<Parted>;
}

/// The sending half of a connection.
pub trait ConnectionWriter: 'static {
    /// Sends all of `parts`, in order, without copying them. Nothing is interleaved: one writer a connection.
    fn send(&mut self, parts: &[&[u8]]) -> impl Future<Output = io::Result<()>>;

    /// Ends both directions at once; the reader sees the end of the stream.
    fn shutdown(&mut self) -> impl Future<Output = ()>;
}

/// The bounded queues between the cores of a node. `Message` is what the broker sends; it is plain data.
pub trait Mesh<Message: Send + 'static>: Clone + 'static {
    /// This core's place.
    fn index(&self) -> MeshIndex;

    /// How many places there are, the control executor included.
    fn count(&self) -> u16;

    /// Queues a message; gives it back when the queue is full. Order: messages of one pair of cores arrive in the order they
    /// were accepted. Never waits: a receive loop that waited for a send could deadlock with its twin.
    fn try_send(&self, to: MeshIndex, message: Message) -> Result<(), Message>;

    /// Whether that core has left the mesh: nothing sent to it arrives, and nothing it was asked is answered.
    fn has_left(&self, other: MeshIndex) -> bool;

    /// The next message for this core, from any other; `None` once the mesh is closed.
    fn receive(&self) -> impl Future<Output = Option<(MeshIndex, Message)>>;
}
