//! Sockets: listening, connecting, and the two halves of a connection.
//!
//! Owns [`TcpListener`], [`TcpReader`], [`TcpWriter`] and [`reserve`]. Both halves share one descriptor, closed when the
//! second is dropped. Readiness comes from `sockets`, bytes move by nonblocking recv and sendmsg. Must never copy what is
//! sent, never raise SIGPIPE, and never keep the core in one system call longer than [`SEND_BYTES_MAX`] takes.

use std::cell::Cell;
use std::ffi::OsString;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use broker::platform::{ConnectionReader, ConnectionWriter, Listener, Parted};
use futures_lite::FutureExt;
use nix::libc::{EINPROGRESS, MSG_DONTWAIT, MSG_NOSIGNAL, POLLRDHUP};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::{ReusePort, TcpCongestion};
use nix::sys::socket::{MsgFlags, SockFlag, accept4, recv, setsockopt};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::sockets;

/// Connections the kernel holds for one core until it accepts them.
const BACKLOG: i32 = 1024;
/// How long an address may stay taken by a process that has just been killed.
const ADDRESS_WAIT_MAX: Duration = Duration::from_secs(2);
const ADDRESS_PAUSE: Duration = Duration::from_millis(5);
/// How a connection that never leaves the machine avoids congestion, of which there is none. One that paces what it sends, as BBR
/// does, sets a timer for every piece of 64 KiB: that was half of what sending cost.
const ON_ONE_MACHINE: &str = "reno";
/// Most pieces of one sendmsg: the kernel's own bound (IOV_MAX).
const SEND_PARTS_MAX: usize = 1024;
/// Most bytes of one sendmsg: copying 1 MiB to a socket takes about 100 µs, half of a foreground slice.
const SEND_BYTES_MAX: usize = 1 << 20;

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

/// The kernel takes a process that was killed apart in its own time: a node that is restarted at once may find its own address
/// taken for some milliseconds.
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
#[derive(Debug)]
pub struct TcpListener {
    socket: sockets::Socket,
    local: SocketAddr,
}

impl TcpListener {
    /// Binds and listens.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = bound_socket(address, Sharing::AmongCores)?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let local = ip_address(&socket.local_addr()?)?;
        Ok(Self { socket: sockets::Socket::new(socket.into())?, local })
    }
}

impl Listener for TcpListener {
    type Reader = TcpReader;
    type Writer = TcpWriter;

    async fn accept(&self) -> io::Result<(TcpReader, TcpWriter)> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        loop {
            let accept = |context: &mut Context<'_>| {
                self.socket.poll_accept(context, |listener| Ok(accept4(listener, flags)?))
            };
            let accepted = match poll_fn(accept).await {
                // It was gone before it was accepted, which is its own affair.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                accepted => accepted?,
            };
            // Fails where the client has reset the connection already: that is no reason to back off.
            if let Ok(halves) = halves(accepted) {
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
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(EINPROGRESS) => return Err(error),
        _ => {}
    }
    let socket = sockets::Socket::new(socket.into())?;
    let connected = poll_fn(|context| {
        socket.poll_send(context, |descriptor| {
            let socket = SockRef::from(&descriptor);
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            match socket.peer_addr() {
                // Neither failed nor connected: still under way.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                connected => connected.map(drop),
            }
        })
    });
    let too_late = async {
        // The caller may mean "at once or not at all", for which the other end has to be asked all the same.
        glommio::timer::sleep(timeout.max(Duration::from_millis(1))).await;
        Err(io::ErrorKind::TimedOut.into())
    };
    connected.or(too_late).await?;
    joined(socket)
}

/// Goes on with a connection of another core.
pub(crate) fn adopt(parted: Parted) -> io::Result<(TcpReader, TcpWriter)> {
    halves(parted.into_kept()?)
}

fn halves(descriptor: OwnedFd) -> io::Result<(TcpReader, TcpWriter)> {
    joined(sockets::Socket::new(descriptor)?)
}

fn joined(socket: sockets::Socket) -> io::Result<(TcpReader, TcpWriter)> {
    let of_kernel = SockRef::from(&socket);
    // Replies are written whole: waiting for more to send would only delay them.
    of_kernel.set_tcp_nodelay(true)?;
    let peer = ip_address(&of_kernel.peer_addr()?)?;
    let local = ip_address(&of_kernel.local_addr()?)?;
    if peer.ip() == local.ip() {
        // Where it is not to be had, the machine's own is kept.
        let _ = setsockopt(&socket, TcpCongestion, &OsString::from(ON_ONE_MACHINE));
    }
    let connection = Rc::new(Connection { socket, is_parted: Cell::new(false), peer, local });
    Ok((TcpReader { connection: connection.clone() }, TcpWriter { connection }))
}

/// What both halves share.
#[derive(Debug)]
struct Connection {
    socket: sockets::Socket,
    /// Another core has a descriptor of the same socket: what ends here must not end it there.
    is_parted: Cell<bool>,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Connection {
    /// Ends both directions. Fails only where the connection has ended already.
    fn shutdown(&self) {
        if self.is_parted.get() {
            return;
        }
        drop(SockRef::from(&self.socket).shutdown(Shutdown::Both));
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
        let bytes_max = buffer.len();
        self.connection.socket.poll_receive(context, bytes_max, |socket| {
            Ok(recv(socket.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT)?)
        })
    }

    fn has_ended(&self) -> bool {
        let descriptor = self.connection.socket.as_fd();
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
        let copy = self.connection.socket.as_fd().try_clone_to_owned()?;
        self.connection.socket.leave();
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
            if pieces.is_empty() {
                return Ok(());
            }
            let send = |context: &mut Context<'_>| {
                self.connection.socket.poll_send(context, |socket| {
                    let flags = MSG_DONTWAIT | MSG_NOSIGNAL;
                    SockRef::from(&socket).send_vectored_with_flags(&pieces, flags)
                })
            };
            let bytes = poll_fn(send).await?;
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
