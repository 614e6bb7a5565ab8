//! The broker's machine, simulated: its cores, its disk, its network and its clocks, all of one seed.
//!
//! Owns the implementation of `broker::Platform` and nothing that happens on it. A machine is one life of the process: after
//! a crash the next one is made on what the disk kept. Nothing here reads a clock, the system's randomness or a socket.

mod mesh;
mod net;
mod node;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use broker::Platform;
use broker::platform::Parted;
use commitlog::{Executor, LocalTask, TaskClass};
use record::Timestamp;

pub use mesh::{SimMesh, mesh};
pub use net::{NetworkPace, SimListener, SimNetwork, SimReader, SimSocket, SimWriter};
pub use node::{NodePlan, SimNode};

use crate::disk::SimDisk;
use crate::executor::{CoreIndex, SimExecutor};
use crate::prng::Prng;

/// When virtual time begins, Unix milliseconds: 2026-01-01, so that what clients stamp is younger than topics ask for.
pub const EPOCH_MS: i64 = 1_767_225_600_000;

/// What the disk under the data directory says of its size.
const DISK_BYTES: u64 = 1 << 40;

/// A call of the platform that can be made to panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trap {
    /// A look at the wall clock.
    Now,
    /// A look at the monotonic clock.
    Monotonic,
}

struct Parts {
    executor: SimExecutor,
    disk: SimDisk,
    network: SimNetwork,
    prng: RefCell<Prng>,
    /// How many calls of that kind go well before one panics.
    traps: RefCell<BTreeMap<(CoreIndex, Trap), u32>>,
}

/// One life of a machine. Clones are the same.
#[derive(Clone)]
pub struct SimMachine(Rc<Parts>);

impl SimMachine {
    /// A machine on `disk`, with a network that nobody listens on yet.
    #[must_use]
    pub fn new(executor: &SimExecutor, disk: SimDisk, mut prng: Prng, pace: NetworkPace) -> Self {
        let network = SimNetwork::new(executor, prng.fork(), pace);
        let executor = executor.clone();
        Self(Rc::new(Parts {
            executor,
            disk,
            network,
            prng: RefCell::new(prng),
            traps: RefCell::default(),
        }))
    }

    /// What a core sees of it.
    #[must_use]
    pub fn platform(&self, core: CoreIndex) -> SimPlatform {
        SimPlatform { executor: self.0.executor.on_core(core), machine: self.clone() }
    }

    /// The tasks of all cores, and time.
    #[must_use]
    pub fn executor(&self) -> &SimExecutor {
        &self.0.executor
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &SimDisk {
        &self.0.disk
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &SimNetwork {
        &self.0.network
    }

    /// Makes one call of that kind on that core panic after `count` that go well.
    pub fn set_trap(&self, core: CoreIndex, trap: Trap, count: u32) {
        self.0.traps.borrow_mut().insert((core, trap), count);
    }

    fn fork(&self) -> Prng {
        self.0.prng.borrow_mut().fork()
    }
}

/// The machine as one core sees it.
#[derive(Clone)]
pub struct SimPlatform {
    machine: SimMachine,
    executor: SimExecutor,
}

impl SimPlatform {
    fn meet(&self, trap: Trap) {
        let core = self.executor.core();
        let mut traps = self.machine.0.traps.borrow_mut();
        let Some(left) = traps.get_mut(&(core, trap)) else { return };
        if *left > 0 {
            *left -= 1;
            return;
        }
        traps.remove(&(core, trap));
        drop(traps);
        panic!("this call of core {} was to panic: {trap:?}", core.0);
    }
}

impl Executor for SimPlatform {
    fn spawn(&self, class: TaskClass, task: LocalTask) {
        self.executor.spawn(class, task);
    }

    async fn yield_if_needed(&self) {
        self.executor.yield_if_needed().await;
    }
}

impl Platform for SimPlatform {
    type Disk = SimDisk;
    type Listener = SimListener;
    type Reader = SimReader;
    type Writer = SimWriter;

    fn disk(&self) -> SimDisk {
        self.machine.0.disk.clone()
    }

    fn now(&self) -> Timestamp {
        self.meet(Trap::Now);
        let passed = i64::try_from(self.executor.now().as_millis()).expect("hours at most");
        Timestamp(EPOCH_MS + passed)
    }

    fn monotonic(&self) -> Duration {
        self.meet(Trap::Monotonic);
        self.executor.now()
    }

    fn random(&self, bytes: &mut [u8]) {
        self.machine.0.prng.borrow_mut().fill(bytes);
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        self.executor.sleep(duration)
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<SimListener> {
        Ok(self.machine.0.network.listen(address))
    }

    async fn connect(
        &self,
        address: SocketAddr,
        _timeout: Duration,
    ) -> io::Result<(SimReader, SimWriter)> {
        let halves = self.machine.0.network.connect_halves(address);
        halves.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }

    fn adopt(&self, parted: Parted) -> io::Result<(SimReader, SimWriter)> {
        self.machine.0.network.adopt(parted)
    }

    async fn disk_bytes(&self) -> u64 {
        DISK_BYTES
    }

    fn resident_bytes(&self) -> u64 {
        0
    }

    fn panic_count(&self) -> u64 {
        self.executor.panic_count()
    }

    fn busy(&self) -> (Duration, Duration) {
        (Duration::ZERO, self.executor.now())
    }
}
