//! One simulated machine for one test: the same disk, cores and network that seeds run on, even-paced.
//!
//! Owns the outcome of a test. A task of a core that panics is dropped and counted, as on a real core.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use sim::disk::SimDisk;
use sim::executor::{CoreIndex, Panics, RunEnd, RunLimits, SimExecutor};
use sim::platform::{NetworkPace, SimMachine, SimNetwork, SimPlatform, Trap};
use sim::prng::Prng;
use sim::trace::{Keep, Trace};

/// A test that takes more steps waits for something that never comes.
const LIMITS: RunLimits = RunLimits { steps_max: 20_000_000, crash_at: None };

/// The world of one test. Clones are the same.
#[derive(Clone)]
pub(crate) struct World(SimMachine);

impl World {
    /// Runs `body` to its end, and everything it started beside it.
    pub(crate) fn run<F: Future<Output = ()> + 'static>(body: impl FnOnce(World) -> F) {
        Self::run_paced(NetworkPace::Even, body);
    }

    /// [`World::run`] where bytes travel so.
    pub(crate) fn run_paced<F: Future<Output = ()> + 'static>(
        pace: NetworkPace,
        body: impl FnOnce(World) -> F,
    ) {
        let trace = Rc::new(Trace::new(Keep::Hash));
        let mut prng = Prng::new(1);
        let executor = SimExecutor::new(prng.fork(), Rc::clone(&trace));
        let executor = executor.on_core(CoreIndex::OUTSIDE);
        executor.set_panics(Panics::Contained);
        let disk = SimDisk::new(&executor, prng.fork(), trace);
        let machine = SimMachine::new(&executor, disk, prng, pace);
        let end = executor.run(body(Self(machine)), LIMITS);
        assert_eq!(end, RunEnd::Done(()), "the test waits for something that does not come");
        // Tasks hold the world and the world its tasks.
        executor.drop_tasks();
    }

    /// The machine.
    pub(crate) fn machine(&self) -> &SimMachine {
        &self.0
    }

    /// What a core sees of it.
    pub(crate) fn platform(&self, core: u16) -> SimPlatform {
        self.0.platform(CoreIndex(core))
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        self.0.disk()
    }

    pub(crate) fn network(&self) -> &SimNetwork {
        self.0.network()
    }

    fn core(&self, core: u16) -> SimExecutor {
        self.0.executor().on_core(CoreIndex(core))
    }

    /// No task of the core runs until it may go on.
    pub(crate) fn stand_still(&self, core: u16) {
        self.core(core).stand_still();
    }

    /// Lets the core go on.
    pub(crate) fn go_on(&self, core: u16) {
        self.core(core).go_on();
    }

    /// Makes the next call of that kind panic on that core.
    pub(crate) fn fail(&self, core: u16, trap: Trap) {
        self.fail_after(core, trap, 0);
    }

    /// Makes one call panic after `count` that go well.
    pub(crate) fn fail_after(&self, core: u16, trap: Trap, count: u32) {
        self.0.set_trap(CoreIndex(core), trap, count);
    }

    /// Tasks of a core that ended in a panic.
    pub(crate) fn panic_count(&self, core: u16) -> u64 {
        self.core(core).panic_count()
    }

    /// Tasks of a core that have not ended.
    pub(crate) fn task_count(&self, core: u16) -> usize {
        self.core(core).task_count()
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.0.executor().sleep(duration).await;
    }

    /// What comes of `future` within `duration`; `None` where it does not end.
    pub(crate) async fn within<T>(
        &self,
        duration: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        self.0.executor().within(duration, future).await
    }
}
