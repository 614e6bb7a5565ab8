//! Sockets: listening, connecting, and the two halves of a connection.
//!
//! Owns [`TcpListener`], [`TcpReader`], [`TcpWriter`] and [`reserve`]. Both halves share one descriptor, closed when the
//! second is dropped. Readiness comes from the ring, bytes move by nonblocking recv and sendmsg. Must never copy what is
//! sent, never raise SIGPIPE, and never keep the core in one system call longer than [`SEND_BYTES_MAX`] takes.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use broker::platform::{ConnectionReader, ConnectionWriter, Listener, Parted};
use futures_lite::{AsyncRead, AsyncWrite};
use glommio::GlommioError;
use glommio::net as runtime;
use nix::libc::{MSG_DONTWAIT, MSG_NOSIGNAL, POLLRDHUP};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReusePort;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::wake::gated;

/// Connections the kernel holds for one core until it accepts them.
const BACKLOG: i32 = 1024;
/// How long an address may stay taken by a process that has just been killed.
const ADDRESS_WAIT_MAX: Duration = Duration::from_secs(2);
const ADDRESS_PAUSE: Duration = Duration::from_millis(5);
/// Most pieces of one sendmsg: the kernel's own bound (IOV_MAX).
const SEND_PARTS_MAX: usize = 1024;
/// Most bytes of one sendmsg: copying 1 MiB to a socket takes about 100 µs, half of a foreground slice.
const SEND_BYTES_MAX: usize = 1 << 20;

fn io_error(error: GlommioError<()>) -> io::Error {
    // The number is kept: callers tell EMFILE from a reset by it.
    error.raw_os_error().map_or_else(|| error.into(), io::Error::from_raw_os_error)
}

fn bound_socket(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // Clients of IPv4 come by it too, whatever net.ipv6.bindv6only says.
        socket.set_only_v6(false)?;
    }
    // A restart must not wait for connections of the last run that are still in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if sharing == Sharing::AmongCores {
        setsockopt(&socket, ReusePort, &true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    AmongCores,
    Alone,
}

fn ip_address(address: &socket2::SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// An address kept for this process before its cores listen there.
#[derive(Debug)]
pub struct AddressReservation {
    /// Bound and never listening: it gets no connection.
    _socket: Socket,
    address: SocketAddr,
}

impl AddressReservation {
    /// The address, with the port that port 0 became.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Reserves `address` for the cores of this process, which then share it.
///
/// Errors  `AddrInUse` also where the other process would share the port, which listening itself would not notice: both
///         would then get half of the connections.
pub fn reserve(address: SocketAddr) -> io::Result<AddressReservation> {
    if address.port() != 0 {
        wait_until_free(address)?;
    }
    take(address)
}

fn take(address: SocketAddr) -> io::Result<AddressReservation> {
    let socket = bound_socket(address, Sharing::AmongCores)?;
    // Two sockets that reuse addresses may both be bound until one of them listens: a node that starts meanwhile would pass.
    socket.set_reuse_address(false)?;
    let address = ip_address(&socket.local_addr()?)?;
    Ok(AddressReservation { _socket: socket, address })
}

/// How often to look for free ports in a row before giving up: others take them meanwhile.
const ROW_TRIES_MAX: usize = 100;

/// Reserves `count` ports in a row from `address` on, one a core; port 0 finds a row that is free.
///
/// Errors  as [`reserve`], with the address that could not be had.
pub fn reserve_row(
    address: SocketAddr,
    count: u16,
) -> Result<Vec<AddressReservation>, (SocketAddr, io::Error)> {
    if address.port() != 0 {
        return (0..count).map(|step| reserve_next(address, step, Patience::Waits)).collect();
    }
    let mut failed = (address, io::ErrorKind::AddrInUse.into());
    for _ in 0..ROW_TRIES_MAX {
        let first = reserve(address).map_err(|error| (address, error))?;
        let base = first.address();
        let rest = (1..count).map(|step| reserve_next(base, step, Patience::Tries));
        match rest.collect::<Result<Vec<_>, _>>() {
            Ok(rest) => return Ok([first].into_iter().chain(rest).collect()),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Whether to wait for an address that a killed process may still have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Waits,
    Tries,
}

fn reserve_next(
    base: SocketAddr,
    step: u16,
    patience: Patience,
) -> Result<AddressReservation, (SocketAddr, io::Error)> {
    let Some(port) = base.port().checked_add(step) else {
        return Err((base, io::Error::from(io::ErrorKind::InvalidInput)));
    };
    let address = SocketAddr::new(base.ip(), port);
    let reserved = match patience {
        Patience::Waits => reserve(address),
        Patience::Tries => bound_socket(address, Sharing::Alone).and_then(|alone| {
            drop(alone);
            take(address)
        }),
    };
    reserved.map_err(|error| (address, error))
}

/// The kernel takes the rings of a process that was killed apart in its own time, and a ring that waits on a listener keeps it
/// open meanwhile: a node that is restarted at once finds its own address taken for some milliseconds.
fn wait_until_free(address: SocketAddr) -> io::Result<()> {
    let started = Instant::now();
    loop {
        match bound_socket(address, Sharing::Alone) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && started.elapsed() < ADDRESS_WAIT_MAX =>
            {
                std::thread::sleep(ADDRESS_PAUSE);
            }
            Err(error) => return Err(error),
            Ok(socket) => {
                drop(socket);
                return Ok(());
            }
        }
    }
}

/// A listening socket of one core; others may listen on the same address.
pub struct TcpListener {
    inner: runtime::TcpListener,
    local: SocketAddr,
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpListener({})", self.local)
    }
}

impl TcpListener {
    /// Binds and listens.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = bound_socket(address, Sharing::AmongCores)?;
        socket.listen(BACKLOG)?;
        let local = ip_address(&socket.local_addr()?)?;
        // SAFETY: the descriptor was just taken out of its owner, so this is its only owner.
        let inner = unsafe { runtime::TcpListener::from_raw_fd(socket.into_raw_fd()) };
        Ok(Self { inner, local })
    }
}

impl Listener for TcpListener {
    type Reader = TcpReader;
    type Writer = TcpWriter;

    async fn accept(&self) -> io::Result<(TcpReader, TcpWriter)> {
        loop {
            let stream = gated(self.inner.accept()).await.map_err(io_error)?;
            // Fails where the client has reset the connection already: that is no reason to back off.
            if let Ok(halves) = halves(stream) {
                return Ok(halves);
            }
        }
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }
}

/// Connects within `timeout`.
pub(crate) async fn connect(
    address: SocketAddr,
    timeout: Duration,
) -> io::Result<(TcpReader, TcpWriter)> {
    // glommio refuses zero; the caller means "at once or not at all".
    let timeout = timeout.max(Duration::from_millis(1));
    let stream = gated(runtime::TcpStream::connect_timeout(address, timeout)).await;
    halves(stream.map_err(io_error)?)
}

/// Goes on with a connection of another core.
pub(crate) fn adopt(parted: Parted) -> io::Result<(TcpReader, TcpWriter)> {
    let descriptor: OwnedFd = parted.into_kept()?;
    // SAFETY: the descriptor was just taken out of its owner, so this is its only owner.
    halves(unsafe { runtime::TcpStream::from_raw_fd(descriptor.into_raw_fd()) })
}

fn halves(stream: runtime::TcpStream) -> io::Result<(TcpReader, TcpWriter)> {
    // Replies are written whole: waiting for more to send would only delay them.
    stream.set_nodelay(true).map_err(io_error)?;
    let peer = stream.peer_addr().map_err(io_error)?;
    let local = stream.local_addr().map_err(io_error)?;
    let (stream, is_parted) = (RefCell::new(stream), Cell::new(false));
    let connection = Rc::new(Connection { stream, is_parted, peer, local });
    Ok((TcpReader { connection: connection.clone() }, TcpWriter { connection }))
}

/// What both halves share. The stream is borrowed within one poll only, never across a wait.
#[derive(Debug)]
struct Connection {
    stream: RefCell<runtime::TcpStream>,
    /// Another core has a descriptor of the same socket: what ends here must not end it there.
    is_parted: Cell<bool>,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Connection {
    fn with_socket<R>(&self, call: impl FnOnce(SockRef<'_>) -> R) -> R {
        let stream = self.stream.borrow();
        // SAFETY: `stream` owns the descriptor and is borrowed for as long as the call runs.
        let descriptor = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
        call(SockRef::from(&descriptor))
    }

    fn try_send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = MSG_DONTWAIT | MSG_NOSIGNAL;
        self.with_socket(|socket| socket.send_vectored_with_flags(pieces, flags))
    }

    /// Ends both directions. A poll in the ring keeps the socket alive after it is closed: without this the other end
    /// would learn of the close only when the ring runs again. Fails only where the connection has ended already.
    fn shutdown(&self) {
        if self.is_parted.get() {
            return;
        }
        drop(self.with_socket(|socket| socket.shutdown(Shutdown::Both)));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The receiving half of a connection.
#[derive(Debug)]
pub struct TcpReader {
    connection: Rc<Connection>,
}

impl ConnectionReader for TcpReader {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.connection.stream.borrow_mut();
        Pin::new(&mut *stream).poll_read(context, buffer)
    }

    fn has_ended(&self) -> bool {
        let stream = self.connection.stream.borrow();
        // SAFETY: `stream` owns the descriptor and is borrowed for as long as the call runs.
        let descriptor = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
        let mut asked = [PollFd::new(descriptor, PollFlags::from_bits_retain(POLLRDHUP))];
        // Cannot wait with a timeout of zero, and fails only for lack of memory: then the next look tells.
        // Errors and the end of both directions are reported unasked; nix has no name for POLLRDHUP and answers `None`.
        poll(&mut asked, PollTimeout::ZERO).is_ok() && asked[0].any() != Some(false)
    }

    fn peer_address(&self) -> SocketAddr {
        self.connection.peer
    }

    fn local_address(&self) -> SocketAddr {
        self.connection.local
    }

    fn part(&self) -> io::Result<Parted> {
        // A second descriptor, since the runtime keeps its own; a poll that it still has in the ring consumes nothing.
        let copy: OwnedFd = self.connection.with_socket(|socket| socket.try_clone())?.into();
        self.connection.is_parted.set(true);
        Ok(Parted::new(copy))
    }
}

/// The sending half of a connection. A `send` dropped before its end leaves a torn stream: the connection must then go.
#[derive(Debug)]
pub struct TcpWriter {
    connection: Rc<Connection>,
}

impl ConnectionWriter for TcpWriter {
    async fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut sent = Sent::default();
        loop {
            let pieces = sent.rest(parts);
            let Some(first) = pieces.first() else { return Ok(()) };
            let bytes = match self.connection.try_send(&pieces) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The socket is full: this sends the first piece as soon as there is room, and takes up from there.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|context| {
                        let mut stream = self.connection.stream.borrow_mut();
                        Pin::new(&mut *stream).poll_write(context, first)
                    })
                    .await?
                }
                result => result?,
            };
            if bytes == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            sent.advance(parts, bytes);
            glommio::yield_if_needed().await;
        }
    }

    async fn shutdown(&mut self) {
        self.connection.shutdown();
    }
}

/// How far into the parts a send has come.
#[derive(Debug, Default)]
struct Sent {
    part: usize,
    offset: usize,
}

impl Sent {
    /// What comes next, within the bounds of one system call; empty when all is sent.
    fn rest<'a>(&self, parts: &[&'a [u8]]) -> Vec<IoSlice<'a>> {
        let rest = parts.get(self.part..).unwrap_or_default();
        let mut pieces = Vec::with_capacity(rest.len().min(SEND_PARTS_MAX));
        let mut room = SEND_BYTES_MAX;
        for (index, part) in rest.iter().enumerate() {
            let part: &'a [u8] = if index == 0 { &part[self.offset..] } else { part };
            if part.is_empty() {
                continue;
            }
            if room == 0 || pieces.len() == SEND_PARTS_MAX {
                break;
            }
            let piece = &part[..part.len().min(room)];
            room -= piece.len();
            pieces.push(IoSlice::new(piece));
        }
        pieces
    }

    fn advance(&mut self, parts: &[&[u8]], bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let part_left = parts[self.part].len() - self.offset;
            if left < part_left {
                self.offset += left;
                return;
            }
            left -= part_left;
            self.part += 1;
            self.offset = 0;
        }
    }
}

#[cfg(test)]
mod tests;
