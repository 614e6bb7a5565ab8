//! A node on a simulated machine: its data cores and its control executor, started and stopped.
//!
//! Owns the start. What it serves, and what becomes of it, are the broker's business.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use broker::config::Config;
use broker::mutant::Mutant;
use broker::platform::Mesh;
use broker::sync::{Flag, OnceReceiver, once};
use broker::{ControlOptions, Ready, StartRefusal, Stopped};
use commitlog::{Executor, TaskClass};

use super::{SimMachine, SimMesh, mesh};
use crate::executor::CoreIndex;

/// Segment files that the node may keep open.
const OPEN_FILES_MAX: usize = 256;
/// Client connections that open files allow.
const CONNECTIONS_MAX: usize = 1024;

/// What a node is started with.
#[derive(Debug, Clone)]
pub struct NodePlan {
    /// Its configuration.
    pub config: Arc<Config>,
    /// Data cores; the control executor is the core behind them.
    pub cores: u16,
    /// Room of each queue between two cores.
    pub mesh_messages_max: usize,
    /// The rule that is off, if any.
    pub mutant: Mutant,
}

/// A node that starts, serves or has ended. Clones are the same node.
#[derive(Clone)]
pub struct SimNode {
    stop: Flag,
    ended: Flag,
    outcome: Rc<RefCell<Option<Result<Stopped, StartRefusal>>>>,
}

impl SimNode {
    /// Starts a node; the receiver is told when it serves, and nothing where it refuses to.
    #[must_use]
    pub fn start(machine: &SimMachine, plan: NodePlan) -> (Self, OnceReceiver<Ready>) {
        let mut ends = mesh(plan.cores + 1, plan.mesh_messages_max, machine.fork());
        let control = ends.pop().expect("the control executor's");
        for end in ends {
            let platform = machine.platform(CoreIndex(end.index().0));
            let running = platform.clone();
            let main = async move {
                broker::run_data_core(running, end.clone()).await;
                end.leave();
            };
            platform.spawn(TaskClass::Foreground, Box::pin(main));
        }
        let node = Self { stop: Flag::default(), ended: Flag::default(), outcome: Rc::default() };
        let ready = node.start_control(machine, control, plan);
        (node, ready)
    }

    fn start_control(
        &self,
        machine: &SimMachine,
        mesh: SimMesh,
        plan: NodePlan,
    ) -> OnceReceiver<Ready> {
        let (ready, is_ready) = once();
        let platform = machine.platform(CoreIndex(plan.cores));
        let options = ControlOptions {
            config: plan.config,
            shard_count: plan.cores,
            open_files_max: OPEN_FILES_MAX,
            connections_max: CONNECTIONS_MAX,
            started: machine.executor().now(),
            mutant: plan.mutant,
        };
        let node = self.clone();
        let running = platform.clone();
        let main = async move {
            let stop = node.stop.clone();
            let stop = async move { stop.raised().await };
            let ready = move |told: &Ready| ready.send(told.clone());
            let ran = broker::run_control(running, mesh.clone(), options, stop, ready).await;
            *node.outcome.borrow_mut() = Some(ran);
            mesh.leave();
            node.ended.raise();
        };
        platform.spawn(TaskClass::Foreground, Box::pin(main));
        is_ready
    }

    /// Asks the node to stop.
    pub fn ask_to_stop(&self) {
        self.stop.raise();
    }

    /// Whether it has.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_raised()
    }

    /// Ends when it has, with what came of it.
    pub async fn outcome(&self) -> Result<Stopped, StartRefusal> {
        self.ended.raised().await;
        self.outcome.borrow().clone().expect("written before the flag is raised")
    }
}
