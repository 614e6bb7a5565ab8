//! Sockets in memory: two pipes a connection, without a bound.
//!
//! Owns the ends of the broker and of the test. Dropping both halves of an end closes it, as the kernel does.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};

use broker::platform::{ConnectionReader, ConnectionWriter, Listener};

#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    is_closed: bool,
    waker: Option<Waker>,
}

impl Pipe {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.wake();
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// One end: what it receives and what it sends.
struct End {
    incoming: Rc<RefCell<Pipe>>,
    outgoing: Rc<RefCell<Pipe>>,
    address: SocketAddr,
}

impl End {
    async fn read(&self, buffer: &mut [u8]) -> usize {
        poll_fn(|context| {
            let mut pipe = self.incoming.borrow_mut();
            if pipe.bytes.is_empty() && !pipe.is_closed {
                pipe.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let count = pipe.bytes.len().min(buffer.len());
            for (slot, byte) in buffer.iter_mut().zip(pipe.bytes.drain(..count)) {
                *slot = byte;
            }
            Poll::Ready(count)
        })
        .await
    }

    fn close(&self) {
        self.incoming.borrow_mut().close();
        self.outgoing.borrow_mut().close();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.close();
    }
}

type Accepted = (TestReader, TestWriter);

#[derive(Default)]
struct Backlog {
    waiting: VecDeque<Accepted>,
    waker: Option<Waker>,
}

/// Everything that listens.
#[derive(Clone, Default)]
pub(crate) struct Network(Rc<RefCell<BTreeMap<SocketAddr, Rc<RefCell<Backlog>>>>>);

impl Network {
    pub(crate) fn listen(&self, address: SocketAddr) -> TestListener {
        let backlog = Rc::default();
        self.0.borrow_mut().insert(address, Rc::clone(&backlog));
        TestListener { backlog, address }
    }

    /// The client's end of a new connection.
    pub(crate) fn connect(&self, address: SocketAddr) -> TestSocket {
        let (up, down) = <(Rc<RefCell<Pipe>>, Rc<RefCell<Pipe>>)>::default();
        let theirs = End { incoming: Rc::clone(&up), outgoing: Rc::clone(&down), address };
        let theirs = Rc::new(theirs);
        let halves = (TestReader(Rc::clone(&theirs)), TestWriter(theirs));
        let listeners = self.0.borrow();
        let mut backlog = listeners.get(&address).expect("something listens there").borrow_mut();
        backlog.waiting.push_back(halves);
        if let Some(waker) = backlog.waker.take() {
            waker.wake();
        }
        TestSocket(End { incoming: down, outgoing: up, address })
    }
}

pub(crate) struct TestListener {
    backlog: Rc<RefCell<Backlog>>,
    address: SocketAddr,
}

impl Listener for TestListener {
    type Reader = TestReader;
    type Writer = TestWriter;

    async fn accept(&self) -> io::Result<Accepted> {
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

pub(crate) struct TestReader(Rc<End>);

impl ConnectionReader for TestReader {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.read(buffer).await)
    }

    fn has_ended(&self) -> bool {
        self.0.incoming.borrow().is_closed
    }

    fn peer_address(&self) -> SocketAddr {
        self.0.address
    }

    fn local_address(&self) -> SocketAddr {
        self.0.address
    }
}

pub(crate) struct TestWriter(Rc<End>);

impl ConnectionWriter for TestWriter {
    async fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut pipe = self.0.outgoing.borrow_mut();
        if pipe.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        pipe.put(&parts.concat());
        Ok(())
    }

    async fn shutdown(&mut self) {
        self.0.close();
    }
}

/// The test's end of a connection; closed when it is dropped.
pub(crate) struct TestSocket(End);

impl TestSocket {
    pub(crate) fn send(&self, bytes: &[u8]) {
        self.0.outgoing.borrow_mut().put(bytes);
    }

    /// False at the end of the stream.
    pub(crate) async fn fill(&self, bytes: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.0.read(&mut bytes[filled..]).await {
                0 => return false,
                count => filled += count,
            }
        }
        true
    }
}
