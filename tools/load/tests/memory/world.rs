//! A machine with a node on it and a client beside it, and the runs that the tests begin with.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::config::{Config, Sources};
use broker::mutant::Mutant;
use load::{
    Address, ConsumeOptions, LoadError, Outcome, Pace, ProduceOptions, ReadLoad, RecordSize,
    RunResult, Silent, TopicChoice, Until, Workload, consume, produce,
};
use sim::disk::SimDisk;
use sim::executor::{CoreIndex, Panics, RunEnd as SimEnd, RunLimits, SimExecutor};
use sim::platform::{NetworkPace, NodePlan, SimMachine, SimNode, SimPlatform};
use sim::prng::Prng;
use sim::trace::{Keep, Trace};

use crate::middleman::{self, Lie};

/// A test that takes more steps waits for something that never comes.
const LIMITS: RunLimits = RunLimits { steps_max: 20_000_000, crash_at: None };
const CORES: u16 = 2;
pub(crate) const PORT: u16 = 9092;

/// A machine with a node on it, and a client beside it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) machine: SimMachine,
    pub(crate) node: SimNode,
}

impl World {
    /// Runs `body` against a node that is ready.
    pub(crate) fn run<F: Future<Output = ()> + 'static>(body: impl FnOnce(Self) -> F + 'static) {
        Self::run_with(&["advertise=core"], body);
    }

    /// The same, where every answer of the node goes through the hands of a liar.
    pub(crate) fn run_behind<F: Future<Output = ()> + 'static>(
        lie: Lie,
        body: impl FnOnce(Self) -> F + 'static,
    ) {
        let settings = &["advertise=node", "advertised.listeners=PLAINTEXT://127.0.0.1:9093"];
        Self::run_with(settings, async |world: Self| {
            middleman::start(&world.client(), lie).await;
            body(world).await;
        });
    }

    /// The same, on a node with these options.
    pub(crate) fn run_with<F: Future<Output = ()> + 'static>(
        settings: &'static [&'static str],
        body: impl FnOnce(Self) -> F + 'static,
    ) {
        let trace = Rc::new(Trace::new(Keep::Hash));
        let mut prng = Prng::new(1);
        let executor = SimExecutor::new(prng.fork(), Rc::clone(&trace));
        let executor = executor.on_core(CoreIndex::OUTSIDE);
        executor.set_panics(Panics::Contained);
        let disk = SimDisk::new(&executor, prng.fork(), trace);
        let machine = SimMachine::new(&executor, disk, prng, NetworkPace::Even);
        let main = async move {
            let own = ["listeners=127.0.0.1:9092", "admin.listen=none", "tail.cache.bytes=8388608"];
            let sets = own.iter().chain(settings).map(|setting| (*setting).to_owned()).collect();
            let config = Config::load(&Sources { sets, ..Sources::default() }).unwrap();
            let plan = NodePlan {
                config: Arc::new(config),
                cores: CORES,
                mesh_messages_max: 64,
                mutant: Mutant::default(),
            };
            let (node, ready) = SimNode::start(&machine, plan);
            assert!(ready.await.is_some(), "{:?}", node.outcome().await);
            body(Self { machine, node }).await;
        };
        let end = executor.run(main, LIMITS);
        assert_eq!(end, SimEnd::Done(()), "the test waits for something that does not come");
        executor.drop_tasks();
    }

    pub(crate) fn client(&self) -> SimPlatform {
        self.machine.platform(CoreIndex::OUTSIDE)
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.machine.executor().sleep(duration).await;
    }

    /// From so long after now on, every core of the node stands still for so long.
    pub(crate) async fn stall(&self, after_ms: u64, for_ms: u64) {
        let cores = || (0..CORES).map(|core| self.machine.executor().on_core(CoreIndex(core)));
        self.sleep(Duration::from_millis(after_ms)).await;
        cores().for_each(|core| core.stand_still());
        self.sleep(Duration::from_millis(for_ms)).await;
        cores().for_each(|core| core.go_on());
    }

    /// A run that nobody stops.
    pub(crate) async fn produce(&self, options: &ProduceOptions) -> Result<Outcome, LoadError> {
        produce(&self.client(), options, &mut Silent, std::future::pending()).await
    }

    /// A run that reads, and that nobody stops.
    pub(crate) async fn read(&self, options: &ConsumeOptions) -> Outcome {
        consume(&self.client(), options, &mut Silent, std::future::pending()).await.unwrap()
    }
}

pub(crate) fn options(workload: Workload, partitions: i32) -> ProduceOptions {
    let host = "127.0.0.1".to_owned();
    ProduceOptions {
        workload,
        bootstrap: vec![Address { host, port: PORT }],
        topic: made(partitions),
        timeout: Duration::from_secs(10),
        broker_pid: None,
        broker_dir: None,
        require_flushes: false,
    }
}

pub(crate) fn made(partitions: i32) -> TopicChoice {
    TopicChoice::Made { partitions, replication_factor: 1, configs: Vec::new(), is_kept: false }
}

/// A run that reads; a topic that is made for it gets 200 kB.
pub(crate) fn reading(load: ReadLoad, topic: TopicChoice) -> ConsumeOptions {
    let ProduceOptions { bootstrap, timeout, .. } = options(steady(1), 1);
    let fill = Workload {
        pace: Pace::Closed,
        warm_up: Duration::ZERO,
        until: Until { bytes: Some(200_000), ..Until::default() },
        ..steady(1)
    };
    ConsumeOptions { load, bootstrap, topic, fill, timeout, broker_pid: None }
}

/// Small batches at a fixed rate for two seconds, half a second of warm-up.
pub(crate) fn steady(requests_per_second: u64) -> Workload {
    Workload {
        record_size: RecordSize::Fixed { bytes: 100 },
        batch_bytes: 1_000,
        warm_up: Duration::from_millis(500),
        pace: Pace::Requests { per_second: requests_per_second },
        until: Until { duration: Some(Duration::from_secs(2)), ..Until::default() },
        ..Workload::default()
    }
}

pub(crate) fn sound(outcome: Outcome) -> RunResult {
    let result = outcome.result;
    assert!(result.is_sound(), "{result:#?}");
    result
}
