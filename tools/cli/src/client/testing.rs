//! A platform in memory with scripted brokers behind it: the client's tests run in virtual time and without a network.
//!
//! Owns the pipes and the fake brokers. A fake answers through `wire` like any broker; a script tells it where to
//! misbehave. Nothing of it is compiled into the program.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use broker::Platform;
use broker::platform::{ConnectionReader, ConnectionWriter, Listener, Parted};
use commitlog::{Executor, LocalTask, TaskClass};
use record::Timestamp;
use sim::disk::SimDisk;
use sim::executor::{RunEnd, RunLimits, SimExecutor};
use sim::prng::Prng;
use sim::trace::{Keep, Trace};
use wire::{RequestHeader, Response, ResponseHeader, encode_response};

/// More polls than any of the tests needs.
const STEPS_MAX: u64 = 1_000_000;

/// What a fake broker does about one request.
pub(super) enum Reaction {
    /// Sends a frame.
    Answer(Vec<u8>),
    /// Sends this, and ends the connection.
    Last(Vec<u8>),
    /// Ends the connection.
    Close,
    /// Nothing, ever.
    Silence,
}

/// A frame that answers `header` with `body`, in `version`.
pub(super) fn answer<'a, M: Response<'a>>(
    header: &RequestHeader<'_>,
    version: i16,
    body: &M,
) -> Reaction {
    let correlation_id = header.correlation_id;
    let frame = encode_response(ResponseHeader { correlation_id }, version, body).unwrap();
    Reaction::Answer(frame.head().to_vec())
}

/// What listens at one port.
pub(super) type Service = Rc<dyn Fn(&[u8]) -> Reaction>;

#[derive(Clone)]
pub(super) struct TestPlatform {
    executor: SimExecutor,
    disk: SimDisk,
    services: Rc<RefCell<BTreeMap<u16, Service>>>,
    pipes: Rc<RefCell<Vec<Rc<RefCell<Pipe>>>>>,
}

/// Runs `body` on a platform where nothing listens yet.
pub(super) fn run<T, F>(body: impl FnOnce(TestPlatform) -> F) -> T
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let trace = Rc::new(Trace::new(Keep::Hash));
    let executor = SimExecutor::new(Prng::new(1), Rc::clone(&trace));
    let disk = SimDisk::new(&executor, Prng::new(2), trace);
    let (services, pipes) = (Rc::default(), Rc::default());
    let platform = TestPlatform { executor: executor.clone(), disk, services, pipes };
    let limits = RunLimits { steps_max: STEPS_MAX, crash_at: None };
    match executor.run(body(platform), limits) {
        RunEnd::Done(value) => value,
        RunEnd::Crashed => panic!("crashed"),
        RunEnd::Deadlock { tasks } => panic!("{tasks} tasks wait for ever"),
        RunEnd::OutOfSteps => panic!("out of steps"),
    }
}

impl TestPlatform {
    /// Lets `service` answer at `port`.
    pub(super) fn listen_at(&self, port: u16, service: impl Fn(&[u8]) -> Reaction + 'static) {
        self.services.borrow_mut().insert(port, Rc::new(service));
    }

    /// Lets nobody answer at `port` any more.
    pub(super) fn close(&self, port: u16) {
        self.services.borrow_mut().remove(&port);
    }

    /// Ends every connection, as brokers do with those that were silent for long.
    pub(super) fn hang_up(&self) {
        for pipe in self.pipes.borrow().iter() {
            pipe.borrow_mut().is_closed = true;
        }
    }
}

impl Executor for TestPlatform {
    fn spawn(&self, class: TaskClass, task: LocalTask) {
        self.executor.spawn(class, task);
    }

    async fn yield_if_needed(&self) {
        self.executor.yield_if_needed().await;
    }
}

impl Platform for TestPlatform {
    type Disk = SimDisk;
    type Listener = NoListener;
    type Reader = TestReader;
    type Writer = TestWriter;

    fn disk(&self) -> SimDisk {
        self.disk.clone()
    }

    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.executor.now().as_millis()).unwrap())
    }

    fn monotonic(&self) -> Duration {
        self.executor.now()
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(4);
    }

    async fn sleep(&self, duration: Duration) {
        self.executor.sleep(duration).await;
    }

    async fn listen(&self, _address: SocketAddr) -> io::Result<NoListener> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn connect(
        &self,
        address: SocketAddr,
        _timeout: Duration,
    ) -> io::Result<(TestReader, TestWriter)> {
        let service = self.services.borrow().get(&address.port()).cloned();
        let service = service.ok_or(io::ErrorKind::ConnectionRefused)?;
        let pipe = Rc::new(RefCell::new(Pipe::default()));
        self.pipes.borrow_mut().push(Rc::clone(&pipe));
        let reader = TestReader { pipe: Rc::clone(&pipe), address };
        Ok((reader, TestWriter { pipe, service, sent: Vec::new() }))
    }

    fn adopt(&self, _parted: Parted) -> io::Result<(TestReader, TestWriter)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn busy(&self) -> (Duration, Duration) {
        (Duration::ZERO, self.executor.now())
    }

    async fn disk_bytes(&self) -> u64 {
        0
    }

    fn panic_count(&self) -> u64 {
        0
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    is_closed: bool,
    waker: Option<Waker>,
}

pub(super) struct TestReader {
    pipe: Rc<RefCell<Pipe>>,
    address: SocketAddr,
}

impl ConnectionReader for TestReader {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.pipe.borrow_mut();
        if pipe.bytes.is_empty() && !pipe.is_closed {
            pipe.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        // Three bytes at a time: frames arrive in pieces.
        let count = pipe.bytes.len().min(buffer.len()).min(3);
        for (slot, byte) in buffer.iter_mut().zip(pipe.bytes.drain(..count)) {
            *slot = byte;
        }
        Poll::Ready(Ok(count))
    }

    fn has_ended(&self) -> bool {
        self.pipe.borrow().is_closed
    }

    fn peer_address(&self) -> SocketAddr {
        self.address
    }

    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn part(&self) -> io::Result<Parted> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(super) struct TestWriter {
    pipe: Rc<RefCell<Pipe>>,
    service: Service,
    sent: Vec<u8>,
}

impl ConnectionWriter for TestWriter {
    async fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if self.pipe.borrow().is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.sent.extend(parts.concat());
        while let Some((size, rest)) = self.sent.split_first_chunk::<4>() {
            let size = usize::try_from(i32::from_be_bytes(*size)).unwrap();
            let Some(frame) = rest.get(..size) else { break };
            let reaction = (self.service)(frame);
            self.sent.drain(..4 + size);
            let mut pipe = self.pipe.borrow_mut();
            match reaction {
                Reaction::Answer(bytes) => pipe.bytes.extend(bytes),
                Reaction::Last(bytes) => {
                    pipe.bytes.extend(bytes);
                    pipe.is_closed = true;
                }
                Reaction::Close => pipe.is_closed = true,
                Reaction::Silence => {}
            }
            if let Some(waker) = pipe.waker.take() {
                waker.wake();
            }
        }
        Ok(())
    }

    async fn shutdown(&mut self) {
        self.pipe.borrow_mut().is_closed = true;
    }
}

/// A client listens to nothing.
pub(super) struct NoListener;

impl Listener for NoListener {
    type Reader = TestReader;
    type Writer = TestWriter;

    async fn accept(&self) -> io::Result<(TestReader, TestWriter)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn local_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }
}
