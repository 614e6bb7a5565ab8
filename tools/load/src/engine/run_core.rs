//! What every run has, whatever it does: a warm-up, a measured time with a tick a second, an end, and what is under way then.
//!
//! ```text
//!   all connected ─ head start ─┤ start ├─ warm-up ─┤ begin ├── tick ── tick ── …  ┤ finish, samples, stop ├── drain ── abandon
//! ```
//!
//! Owns time and the ways to stop: by plan, by somebody, by a failure. Tasks of the run look at `stop` and `abandon`. When measuring
//! begins is planned before anything is sent: whoever wakes late, what was due at the first instant counts.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::time::Duration;

use broker::Platform;
use broker::sync::{Flag, OnceReceiver, beside};
use futures_lite::future::or;
use record::Timestamp;

use super::Observer;
use crate::error::LoadError;
use crate::process::{Pulse, Sample, kernel_workers};
use crate::recorder::Recorder;
use crate::result::{Interval, Measured, ProcessUse, RunEnd};
use crate::workload::Until;

/// Between the opening of connections and the first request: all of them begin together.
pub(super) const HEAD_START: Duration = Duration::from_millis(20);
/// So long before measuring begins the processes are looked at: reading `/proc` takes the thread that sends some time, and must
/// not take it from the first requests that count.
const SAMPLE_AHEAD: Duration = Duration::from_millis(15);
/// How long what is under way is waited for once the run has stopped.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);
/// How often progress is told.
const TICK: Duration = Duration::from_secs(1);

/// How long a run takes, and whose cost is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// When the first requests are due: everything is connected by then.
    pub(super) start: Duration,
    pub(super) warm_up: Duration,
    /// `None` where something else ends it.
    pub(super) duration: Option<Duration>,
    pub(super) broker_pid: Option<u32>,
}

/// The processes before and after measuring, and how it ended.
#[derive(Debug)]
pub(super) struct Spans {
    /// When measuring began.
    pub(super) started: Timestamp,
    is_interrupted: bool,
    broker: Option<(Sample, Option<Sample>)>,
    client: Option<(Sample, Option<Sample>)>,
    /// CPU time of the kernel's workers, before and after.
    kernel: Option<(Duration, Duration)>,
}

impl Spans {
    /// What the broker used.
    pub(super) fn broker_use(&self, measured: &Measured) -> Option<ProcessUse> {
        used(self.broker, measured)
    }

    /// What the kernel's workers used, of the whole machine.
    pub(super) fn kernel_use(&self) -> Option<f64> {
        self.kernel.map(|(before, after)| after.saturating_sub(before).as_secs_f64())
    }

    /// What the client did.
    pub(super) fn client_use(&self, measured: &Measured) -> Option<ProcessUse> {
        used(self.client, measured)
    }
}

fn used(span: Option<(Sample, Option<Sample>)>, measured: &Measured) -> Option<ProcessUse> {
    let (before, after) = span?;
    Some(after?.since(&before, measured.bytes, measured.requests))
}

/// The part of a run that does not depend on what it does.
pub(super) struct RunCore<P: Platform> {
    pub(super) platform: P,
    pub(super) recorder: RefCell<Recorder>,
    /// Raised when requests may leave: before the warm-up, or where there is none, when measuring has begun.
    pub(super) go: Flag,
    /// Raised when nothing more is to be asked for.
    pub(super) stop: Flag,
    /// Raised when what is under way is not waited for any longer.
    pub(super) abandon: Flag,
    failure: RefCell<Option<LoadError>>,
    /// What was answered after the end.
    pub(super) drained: Cell<Option<Interval>>,
}

impl<P: Platform> RunCore<P> {
    /// One that has not begun.
    pub(super) fn new(platform: &P, until: Until) -> Self {
        Self {
            platform: platform.clone(),
            recorder: RefCell::new(Recorder::new(until)),
            go: Flag::default(),
            stop: Flag::default(),
            abandon: Flag::default(),
            failure: RefCell::default(),
            drained: Cell::default(),
        }
    }

    /// The run cannot go on; the first reason stays.
    pub(super) fn fail(&self, error: LoadError) {
        self.failure.borrow_mut().get_or_insert(error);
        self.stop.raise();
    }

    /// Whether something went wrong.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// How it ended, with the reason of a failure, which is taken out.
    pub(super) fn end(&self, spans: &Spans) -> (RunEnd, Option<LoadError>) {
        let failure = self.failure.take();
        let end = match &failure {
            Some(failure) => RunEnd::Failed { reason: failure.to_string() },
            None if spans.is_interrupted => RunEnd::Interrupted,
            None => RunEnd::Complete,
        };
        (end, failure)
    }

    /// Waits out the warm-up and the measured time, and stops the run.
    pub(super) async fn measure(
        &self,
        plan: Plan,
        observer: &mut dyn Observer,
        stop: impl Future<Output = ()>,
    ) -> Spans {
        let is_interrupted = Cell::new(false);
        let interrupt = async {
            stop.await;
            is_interrupted.set(true);
            self.stop.raise();
        };
        let mut spans = beside(self.measure_until_stopped(plan, observer), interrupt).await;
        spans.is_interrupted = is_interrupted.get();
        spans
    }

    async fn measure_until_stopped(&self, plan: Plan, observer: &mut dyn Observer) -> Spans {
        let platform = &self.platform;
        let mut begin = plan.start + plan.warm_up;
        self.recorder.borrow_mut().begin(begin);
        if !plan.warm_up.is_zero() {
            self.pause(plan.start).await;
            self.go.raise();
        }
        self.pause(begin.saturating_sub(SAMPLE_AHEAD)).await;
        let sample = |pid: u32| Sample::of(pid).ok();
        let (broker, client) = (plan.broker_pid.and_then(sample), sample(std::process::id()));
        let kernel = plan.broker_pid.map(|_| kernel_workers());
        let pulse = || plan.broker_pid.and_then(Pulse::of);
        let mut last_pulse = pulse();
        self.pause(begin).await;
        let (started, now) = (platform.now(), platform.monotonic());
        if now < begin {
            // It was stopped before: nothing was measured.
            begin = now;
            self.recorder.borrow_mut().begin(begin);
        }
        self.go.raise();
        let end = plan.duration.map_or(Duration::MAX, |duration| begin + duration);
        let mut next_tick = begin + TICK;
        loop {
            self.pause(next_tick.min(end)).await;
            let now = platform.monotonic();
            let is_over = self.stop.is_raised() || now >= end;
            if is_over {
                self.stop.raise();
                self.recorder.borrow_mut().finish(now);
            }
            if is_over || now >= next_tick {
                let next_pulse = pulse();
                let used = last_pulse.zip(next_pulse).map(|(last, next)| next.since(&last));
                last_pulse = next_pulse;
                let mut recorder = self.recorder.borrow_mut();
                let (interval, latencies) = recorder.tick(now, used);
                observer.interval(&interval, latencies);
                recorder.next_interval();
            }
            // A machine that stood still gives one long interval, not many empty ones.
            while next_tick <= now {
                next_tick += TICK;
            }
            if is_over {
                break;
            }
        }
        let after =
            |before: Option<Sample>, pid: Option<u32>| Some((before?, pid.and_then(sample)));
        Spans {
            started,
            is_interrupted: false,
            broker: after(broker, plan.broker_pid),
            client: after(client, Some(std::process::id())),
            kernel: kernel.map(|before| (before, kernel_workers())),
        }
    }

    /// Until then, or until the run is stopped; at once where that has passed.
    pub(super) async fn pause(&self, until: Duration) {
        let left = until.saturating_sub(self.platform.monotonic());
        if !left.is_zero() {
            or(self.platform.sleep(left), self.stop.raised()).await;
        }
    }

    /// Waits for what is under way, and no longer than that may take.
    pub(super) async fn drain(&self, tasks: Vec<OnceReceiver<()>>, observer: &mut dyn Observer) {
        self.finish(tasks).await;
        let mut recorder = self.recorder.borrow_mut();
        if let Some((interval, latencies)) = recorder.drained(self.platform.monotonic()) {
            observer.drained(&interval, latencies);
            self.drained.set(Some(interval));
        }
        recorder.next_interval();
    }

    /// The same, of tasks whose latencies are no matter.
    pub(super) async fn finish(&self, tasks: Vec<OnceReceiver<()>>) {
        let all = async {
            for task in tasks {
                if task.await.is_none() {
                    self.fail(LoadError::Panicked);
                }
            }
        };
        let give_up = async {
            self.platform.sleep(DRAIN_TIME_MAX).await;
            self.abandon.raise();
        };
        beside(all, give_up).await;
    }
}
