//! `corelog bench mixed`: producers at a rate beside consumers that catch up, on one topic.
//!
//! Owns what is read; what is sent is told as for `bench produce`.

use clap::Args;
use load::{Check, ConsumeOptions, ProduceOptions, ReadFrom, ReadLoad, Until, Workload};

use super::options::{ProduceArgs, fetches};
use super::session::{self, Session};
use super::units::parse_bytes;
use crate::exit::{Exit, Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  corelog bench mixed --fill 10GB --rate 20MB --batch-records 10 --duration 30 --broker-pid 4711
  corelog bench mixed --fill 4GB --rate 50MB --partitions 8 --consumers 4 --cold-consumers 2

A topic is filled. Then producers send to it, consumers beside them read what they append as it
comes (--consumers), and others read what was filled, from the beginning, as fast as it comes:
until the producers' time is over, or everything was read. The figures of these stand apart.";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MixedArgs {
    #[command(flatten)]
    produce: ProduceArgs,
    /// Bytes of records to fill the topic with
    #[arg(long, value_name = "BYTES", default_value = "1GB", value_parser = parse_bytes, conflicts_with = "topic")]
    fill: u64,
    /// Consumers that read these from the beginning, each everything once
    #[arg(long, value_name = "N", default_value_t = 1)]
    cold_consumers: u32,
    /// Leave the checksums of what they read unchecked, so that the client costs less
    #[arg(long)]
    cold_offsets_only: bool,
}

impl MixedArgs {
    fn options(&self) -> Outcome<(ProduceOptions, ConsumeOptions)> {
        let producing = self.produce.options()?;
        let load = self.load(&producing.workload);
        let fill = Workload {
            warm_up: std::time::Duration::ZERO,
            until: Until { bytes: Some(self.fill), ..Until::default() },
            ..Workload::default()
        };
        let usage = |error: load::WorkloadError| Failure::new(Exit::Usage, error.to_string());
        load.check().and_then(|()| fill.check()).map_err(usage)?;
        let reading = ConsumeOptions {
            load,
            bootstrap: producing.bootstrap.clone(),
            topic: producing.topic.clone(),
            fill,
            timeout: producing.timeout,
            broker_pid: producing.broker_pid,
        };
        Ok((producing, reading))
    }

    fn load(&self, workload: &Workload) -> ReadLoad {
        let check = if self.cold_offsets_only { Check::Offsets } else { Check::Crc };
        ReadLoad {
            from: ReadFrom::Beginning,
            consumers: self.cold_consumers,
            fetches: fetches(self.produce.has_fetch_sessions()),
            check,
            // It ends with the sending, however much is left.
            until: Until {
                duration: workload.until.duration.map(|duration| workload.warm_up + duration),
                ..Until::default()
            },
            ..ReadLoad::default()
        }
    }
}

/// Runs it.
pub(super) fn run(args: &MixedArgs) -> Outcome {
    let (producing, reading) = args.options()?;
    let produce = &args.produce;
    let session =
        Session { cpus: produce.cpus(), told: produce.told(), format: produce.output.output };
    session::run(&session, async |platform, told, stop| {
        let stop = async { stop.requested().await };
        load::mixed(platform, (&producing, &reading), told, stop).await
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: MixedArgs,
    }

    #[test]
    fn the_catching_up_ends_with_the_sending_and_is_of_its_topic() {
        let line = "bench --rate 20MB --warm-up 1s --duration 5s --fill 2GB --cold-consumers 3 --partitions 4 -b h:1";
        let args = Line::try_parse_from(line.split_whitespace()).unwrap().args;
        let (producing, reading) = args.options().unwrap();
        assert_eq!(reading.topic, producing.topic);
        assert_eq!(reading.fill.until.bytes, Some(2_000_000_000));
        assert_eq!((reading.load.consumers, reading.load.check), (3, Check::Crc));
        assert_eq!(reading.load.until.duration, Some(Duration::from_secs(6)));
    }
}
