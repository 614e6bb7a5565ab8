//! The suite that every disk passes, passed by the simulated one.

use std::rc::Rc;

use sim::disk::SimDisk;
use sim::executor::{RunEnd, RunLimits, SimExecutor};
use sim::prng::Prng;
use sim::trace::{Keep, Trace};

#[test]
fn simulated_disk_passes_the_suite_for_any_order_of_completion() {
    for seed in 0..20 {
        let trace = Rc::new(Trace::new(Keep::Hash));
        let mut prng = Prng::new(seed);
        let executor = SimExecutor::new(prng.fork(), Rc::clone(&trace));
        let disk = SimDisk::new(&executor, prng.fork(), trace);
        let limits = RunLimits { steps_max: 1_000_000, crash_at: None };
        let end = executor.run(async move { sim::disk_suite::run(&disk).await.len() }, limits);
        assert_eq!(end, RunEnd::Done(26), "seed {seed}");
    }
}
