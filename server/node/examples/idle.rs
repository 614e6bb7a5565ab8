//! Measures a node that does nothing: time from exec until every core runs, and resident memory a second later.
//!
//! `cargo run --release -p node --example idle -- SHARDS DIRECTORY`

use std::num::NonZeroU16;
use std::time::Duration;

use broker::Platform;
use nix::time::{ClockId, clock_gettime};
use node::{CoreContext, ExitReason, NodeOptions, ShardCount, StartError};

/// Time since this process was started, by the kernel's own note (field 22 of its stat, in ticks of 10 ms).
fn since_exec() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    let ticks: u64 = after_name.split_whitespace().nth(19)?.parse().ok()?;
    let now = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
    now.checked_sub(Duration::from_millis(ticks * 10))
}

fn resident() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().to_owned())
}

async fn wait(context: CoreContext<u64>) -> ExitReason {
    context.stop.requested().await;
    ExitReason::Done
}

async fn measure(context: CoreContext<u64>) -> ExitReason {
    println!("cores up after {:?} (exec is known to 10 ms)", since_exec().unwrap_or_default());
    context.platform.sleep(Duration::from_secs(1)).await;
    println!("VmRSS {} with {} shards", resident().unwrap_or_default(), context.shard_count);
    context.stop.request();
    ExitReason::Done
}

fn main() -> Result<ExitReason, StartError> {
    let mut arguments = std::env::args().skip(1);
    let shards = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(NonZeroU16::MIN);
    let directory = arguments.next().unwrap_or_else(|| "corelog-data".to_owned());
    let mut options = NodeOptions::new(directory);
    options.shards = ShardCount::Fixed(shards);
    node::run(&options, wait, measure)
}
