//! `corelog top`: what the cores and the busiest partitions of a node do, as they do it.
//!
//! Owns the arguments and the loop: ask, compare with the answer before, show, wait. What is asked is the node's `/metrics`, as
//! anybody may; a node that goes away is asked again until it is back.

pub(crate) mod http;
mod numbers;
pub(crate) mod scrape;
mod screen;
mod view;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use broker::Platform;
use clap::Args;
use futures_lite::future::or;
use node::{CorePlatform, StopSignal};

use self::http::AdminAddress;
use self::numbers::Numbers;
use self::screen::Screen;
use self::view::View;
use crate::OutputArgs;
use crate::commands::signals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, Output, say};

const EXAMPLES: &str = "\
Examples:
  corelog top
  corelog top --once
  corelog top -a broker.example:9901 --interval-ms 5000
  corelog top --partitions 50 -o json

It asks the admin address (admin.listen) for /metrics and /metrics/partitions and shows what changed
between two answers. q or Ctrl-C ends it. With -o json or yaml, or where standard output is no
terminal, it prints one view after the other.";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// The node's admin address, which serve prints
    #[arg(short, long, value_name = "HOST:PORT", default_value = "127.0.0.1:9901")]
    admin: AdminAddress,
    /// Show one interval and end
    #[arg(long)]
    once: bool,
    /// How long to count before it is shown
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(100..=3_600_000))]
    interval_ms: u32,
    /// Show so many partitions at most, the busiest first
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100))]
    partitions: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Shows what a node does until it is told to end.
pub(crate) fn run(args: &TopArgs) -> Outcome {
    let words = signals::Words { first: None, second: None };
    let stop = signals::watch(&signals::ENDING, words)?;
    crate::commands::run(Path::new("."), async |platform| match destination(args) {
        Destination::Screen => live(&platform, args, &stop).await,
        Destination::Lines => lines(&platform, args, &stop).await,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// A terminal that is drawn over.
    Screen,
    /// One view behind the other.
    Lines,
}

fn destination(args: &TopArgs) -> Destination {
    let is_live = !args.once && args.output.output == Format::Table;
    // A terminal that calls itself dumb cannot be drawn over.
    let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    if is_live && !is_dumb && io::stdout().is_terminal() && io::stdin().is_terminal() {
        return Destination::Screen;
    }
    Destination::Lines
}

/// What is known of the node from one answer to the next.
struct Watching<'a> {
    platform: &'a CorePlatform,
    args: &'a TopArgs,
    before: Option<Numbers>,
}

impl<'a> Watching<'a> {
    fn new(platform: &'a CorePlatform, args: &'a TopArgs) -> Self {
        Self { platform, args, before: None }
    }

    /// Asks once; a view where there is an answer before it that it goes on from.
    async fn look(&mut self) -> Outcome<Option<View>> {
        let asked = Numbers::ask(self.platform, &self.args.admin).await;
        let now = asked.inspect_err(|_| self.before = None)?;
        let view = self
            .before
            .as_ref()
            .and_then(|before| View::between(before, &now, self.args.partitions as usize));
        self.before = Some(now);
        Ok(view)
    }

    /// [`Watching::look`]; `None` where it is told to end meanwhile.
    async fn look_until(&mut self, stop: &StopSignal) -> Option<Outcome<Option<View>>> {
        let looked = async { Some(self.look().await) };
        let stopped = async {
            stop.requested().await;
            None
        };
        or(looked, stopped).await
    }

    /// Waits for the next look; false where it ends.
    async fn pause(&self, stop: &StopSignal) -> bool {
        let interval = Duration::from_millis(self.args.interval_ms.into());
        or(self.platform.sleep(interval), stop.requested()).await;
        !stop.is_requested()
    }
}

/// One view after the other on standard output. The first answer must come: a wrong address is no node that will be back.
async fn lines(platform: &CorePlatform, args: &TopArgs, stop: &StopSignal) -> Outcome {
    let mut output = Output::new(args.output.output);
    let mut watching = Watching::new(platform, args);
    watching.look().await?;
    while watching.pause(stop).await {
        let Some(looked) = watching.look_until(stop).await else { break };
        match looked {
            Ok(Some(view)) => {
                output.show(&view)?;
                if args.once {
                    return Ok(());
                }
                if args.output.output == Format::Table {
                    output.with(|sink| writeln!(sink))?;
                }
            }
            Ok(None) if args.once => {
                let fact = format!("{}: the node started anew while it was watched", args.admin);
                return Err(Failure::new(Exit::Unreachable, fact).advise("try again"));
            }
            Ok(None) => {}
            Err(failure) if args.once => return Err(failure),
            Err(failure) => say(format_args!("{}; asking again", failure.fact)),
        }
    }
    Ok(())
}

/// A screen that is drawn over, until `q` or a signal.
async fn live(platform: &CorePlatform, args: &TopArgs, stop: &StopSignal) -> Outcome {
    let mut watching = Watching::new(platform, args);
    watching.look().await?;
    let screen = Screen::open(stop.clone())?;
    screen.draw(&format!("{}: counting", args.admin), None)?;
    let mut shown = None;
    while watching.pause(stop).await {
        // A node that does not answer must not keep the terminal.
        let Some(looked) = watching.look_until(stop).await else { break };
        let state = match looked {
            Ok(Some(view)) => {
                shown = Some(view);
                args.admin.to_string()
            }
            Ok(None) => format!("{}: the node started anew, counting", args.admin),
            Err(failure) => format!("{}; asking again", failure.fact),
        };
        screen.draw(&state, shown.as_ref())?;
    }
    Ok(())
}
