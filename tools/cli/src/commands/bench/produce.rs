//! `corelog bench produce`: one run of load's engine.
//!
//! Owns nothing but the call.

use super::options::ProduceArgs;
use super::session::{self, Session};
use crate::exit::Outcome;

/// Runs it.
pub(super) fn run(args: &ProduceArgs) -> Outcome {
    let options = args.options()?;
    let session = Session { cpus: args.cpus(), told: args.told(), format: args.output.output };
    session::run(&session, async |platform, told, stop| {
        load::produce(platform, &options, told, async { stop.requested().await }).await
    })
}
