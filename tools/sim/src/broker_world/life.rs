//! One life of the process, from start to its planned end.
//!
//! Owns the order: start, read back, serve under faults, make peace, end. It returns the first property that did not hold.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::Stopped;
use broker::config::{Config as NodeConfig, Sources};
use broker::sync::{Flag, Queue};
use commitlog::{Executor, TaskClass};
use futures_lite::future::or;

use super::connection::PORT;
use super::{Advertise, Config, DiskPlan, Ending, LifePlan, World};
use super::{altering, consumer, faults, metrics, passing, producer, topics, trimming, verify};
use crate::disk::SimDisk;
use crate::platform::{NodePlan, SimMachine, SimNode};
use crate::verdict::{Verdict, Violation, broken};

/// How long a start or a stop may take on a good disk.
const PATIENCE: Duration = Duration::from_secs(120);

type Task = Pin<Box<dyn Future<Output = Verdict>>>;

pub(super) async fn live(world: Rc<World>, disk: SimDisk, plan: LifePlan) -> Verdict {
    faults::clear_disk(&disk);
    let pace = world.config.pace;
    let machine = SimMachine::new(&world.executor, disk.clone(), world.chance(|p| p.fork()), pace);
    let _moves = Moves { world: Rc::clone(&world), machine: machine.clone() };
    let node = start(&world, &machine, plan).await?;
    journals_were_whole(&world, &machine).await?;
    topics::ensure(&world, &machine, plan).await?;
    verify::everything(&world, &machine, plan).await?;
    world.history.borrow_mut().settle_deletions();
    passing::verify(&world, &machine, plan).await?;
    faults::set_disk(&world, &disk, plan);
    serve(&world, &machine, plan).await?;
    faults::clear_disk(&disk);
    let sets = metrics::Page::read(&world, &machine).await?.value("corelog_journal_sets_total");
    world.count(|stats| stats.journal_sets += sets);
    if plan.ending != Ending::Clean {
        return Ok(());
    }
    if plan.is_last {
        verify::everything(&world, &machine, plan).await?;
        passing::verify(&world, &machine, plan).await?;
    }
    stop(&world, &node, plan).await
}

/// Counts the connections that moved in a life, however it ends.
struct Moves {
    world: Rc<World>,
    machine: SimMachine,
}

impl Drop for Moves {
    fn drop(&mut self) {
        let moved = self.machine.network().moved();
        self.world.count(|stats| stats.moved_connections += moved);
    }
}

async fn start(world: &Rc<World>, machine: &SimMachine, plan: LifePlan) -> Verdict<SimNode> {
    let node_plan = NodePlan {
        config: Arc::new(config_of(&world.config, plan)),
        cores: plan.cores,
        mesh_messages_max: world.config.mesh_messages_max,
        mutant: world.mutant,
    };
    let (node, ready) = SimNode::start(machine, node_plan);
    match world.executor.within(PATIENCE, ready).await {
        Some(Some(_)) => Ok(node),
        Some(None) => {
            let outcome = node.outcome().await;
            broken("a node on a good disk starts", format!("{outcome:?}"))
        }
        None => broken("a node on a good disk starts", "it takes for ever"),
    }
}

/// Nobody damages a journal here, and what a topic took with it when it was deleted is nobody's loss.
async fn journals_were_whole(world: &Rc<World>, machine: &SimMachine) -> Verdict {
    let files = machine.disk().files();
    if let Some((path, _)) = files.iter().find(|(path, _)| path.starts_with("stray/journal-")) {
        return broken("the journal is whole", path.clone());
    }
    let page = metrics::Page::read(world, machine).await?;
    let replayed = page.value("corelog_journal_replayed_groups");
    world.count(|stats| stats.groups_replayed += replayed);
    Ok(())
}

fn config_of(config: &Config, plan: LifePlan) -> NodeConfig {
    let advertise = match config.advertise {
        Advertise::Node => "node",
        Advertise::Core => "core",
    };
    let sets = vec![
        format!("listeners=127.0.0.1:{PORT}"),
        format!("advertise={advertise}"),
        format!("admin.listen=127.0.0.1:{}", metrics::PORT),
        "tail.cache.bytes=1048576".to_owned(),
        "read.cache.bytes=1048576".to_owned(),
        "request.memory.bytes=1048576".to_owned(),
        "fetch.memory.bytes=1048576".to_owned(),
        "log.index.interval.bytes=500".to_owned(),
        // Soon enough to happen in a life.
        "log.retention.check.interval.ms=700".to_owned(),
        format!("connections.handover.requests={}", config.handover_requests),
    ];
    let loaded = NodeConfig::load(&Sources { sets, ..Sources::default() });
    // Smaller than the option allows: it is full soon.
    NodeConfig { journal: plan.journal, ..loaded.expect("these settings are valid") }
}

async fn stop(world: &Rc<World>, node: &SimNode, plan: LifePlan) -> Verdict {
    node.ask_to_stop();
    match world.executor.within(PATIENCE, node.outcome()).await {
        Some(Ok(Stopped::InOrder)) => world.count(|stats| stats.clean_stops += 1),
        // A log that failed cannot be closed in order.
        Some(_) if !matches!(plan.disk, DiskPlan::Good | DiskPlan::Slow) => {}
        Some(Ok(Stopped::NotInOrder(faults))) => {
            return broken("a node on a good disk stops in order", faults.to_string());
        }
        Some(Err(refusal)) => {
            return broken("a node on a good disk stops in order", refusal.to_string());
        }
        None => return broken("a node on a good disk stops in order", "it takes for ever"),
    }
    Ok(())
}

/// Runs all clients and faults until the producers are done, and consumers have what they came for.
async fn serve(world: &Rc<World>, machine: &SimMachine, plan: LifePlan) -> Verdict {
    let is_over = Flag::default();
    let producers: Vec<Task> = (0..world.producers.len())
        .map(|index| -> Task {
            Box::pin(producer::produce(Rc::clone(world), machine.clone(), plan, index))
        })
        .collect();
    let mut others: Vec<Task> = (0..world.config.consumers)
        .map(|_| -> Task {
            let (world, is_over) = (Rc::clone(world), is_over.clone());
            Box::pin(consumer::consume(world, machine.clone(), plan, is_over))
        })
        .collect();
    let administrator =
        passing::come_and_go(Rc::clone(world), machine.clone(), plan, is_over.clone());
    others.push(Box::pin(administrator));
    let altering = altering::alter(Rc::clone(world), machine.clone(), plan, is_over.clone());
    others.push(Box::pin(altering));
    if world.config.deletes {
        let (world, is_over) = (Rc::clone(world), is_over.clone());
        others.push(Box::pin(trimming::delete(world, machine.clone(), plan, is_over)));
    }
    others.extend(disturbances(world, machine, plan, &is_over));
    let producing = spawn_all(world, producers);
    let consuming = spawn_all(world, others);
    finished(world, producing).await?;
    // Refusals are for faults: the disk is good again before the last are served.
    is_over.raise();
    finished(world, consuming).await
}

fn disturbances(
    world: &Rc<World>,
    machine: &SimMachine,
    plan: LifePlan,
    is_over: &Flag,
) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    if plan.is_last {
        return tasks;
    }
    if plan.has_still_cores {
        let (world, machine, is_over) = (Rc::clone(world), machine.clone(), is_over.clone());
        tasks.push(Box::pin(async move {
            faults::still_cores(world, machine, plan, is_over).await;
            Ok(())
        }));
    }
    if plan.disk == DiskPlan::Stalled {
        let (world, disk, is_over) = (Rc::clone(world), machine.disk().clone(), is_over.clone());
        tasks.push(Box::pin(async move {
            faults::stall_disk(world, disk, plan, is_over).await;
            Ok(())
        }));
    }
    let slow = faults::be_slow(Rc::clone(world), machine.clone(), plan, is_over.clone());
    tasks.push(Box::pin(slow));
    tasks
}

/// Tasks that run beside each other, and how many of them have to end.
struct Running {
    ended: Rc<Queue<()>>,
    count: usize,
}

fn spawn_all(world: &Rc<World>, tasks: Vec<Task>) -> Running {
    let running = Running { ended: Rc::default(), count: tasks.len() };
    for task in tasks {
        let (world, ended) = (Rc::clone(world), Rc::clone(&running.ended));
        let executor = world.executor.clone();
        let main = async move {
            if let Err(violation) = task.await {
                world.report(violation);
            }
            ended.push(());
        };
        executor.spawn(TaskClass::Foreground, Box::pin(main));
    }
    running
}

/// Ends when all have ended, or one has found something broken.
async fn finished(world: &Rc<World>, running: Running) -> Verdict {
    let all = async {
        for _ in 0..running.count {
            running.ended.pop().await;
        }
        Ok(())
    };
    let is_broken = world.is_broken.borrow().clone();
    let first = async {
        is_broken.raised().await;
        let violation = world.violation.borrow_mut().take();
        Err(violation.unwrap_or_else(|| Violation {
            property: "progress",
            detail: "a violation that was told twice".to_owned(),
        }))
    };
    or(all, first).await
}
