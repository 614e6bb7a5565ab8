//! `corelog serve`: a node, from the command line to the exit code.
//!
//! Owns the flags, and the hand-over from configuration to `node` and `broker`. Which keys there are, and what they mean, belongs to
//! `broker::config`; how a node starts and ends, to `broker::run_control` and `node::run`.

mod notify;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use broker::config::{Config, Shards, Sources};
use broker::{ControlOptions, Message, Platform, Ready, StartRefusal, Stopped};
use clap::Args;
use cluster::Advertise;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getppid;
use node::{AddressReservation, CoreContext, ExitReason, NodeOptions, ShardCount};

use crate::exit::Outcome;

const EXAMPLES: &str = "\
Examples:
  corelog serve
  corelog serve --data-dir /var/lib/corelog --listen 0.0.0.0:9092
  corelog serve --config corelog.toml --set num.partitions=3 --set log.segment.bytes=16777216

Every option, with its unit, bound and default: docs/operations.md. Flags win over --set, --set over
the environment (CORELOG_NUM_PARTITIONS=3), the environment over the file.";

/// What stands below the flags: examples, and every exit code with what it means.
fn after_help() -> String {
    let codes: String = ExitReason::ALL
        .iter()
        .map(|reason| format!("  {:<3}  {}\n", reason.number(), reason.meaning()))
        .collect();
    format!("{EXAMPLES}\n\nExit codes:\n{codes}\nWhat to do about each: docs/operations.md.")
}

/// Flags of `serve`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct ServeArgs {
    /// Options in TOML; without it every option has its default
    #[arg(short, long, value_name = "FILE", env = "CORELOG_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Where the node keeps everything; created where it is missing
    #[arg(short, long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address for Kafka clients, of this machine or localhost; port 0 takes a free one
    #[arg(short, long, value_name = "IP:PORT")]
    pub(crate) listen: Option<String>,
    /// Number of data cores; auto is the CPUs this process may use
    #[arg(short, long, value_name = "N|auto")]
    pub(crate) shards: Option<String>,
    /// One option by its key; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Stop when this process, which started this one, ends, however it does: for nodes that are started to be measured
    #[arg(long, hide = true, value_name = "PID")]
    pub(crate) with_parent: Option<i32>,
}

/// Runs a node until it is told to stop.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    // The kernel's start time is no better: it is that of whoever executed this program in its place, such as cargo.
    let began = Instant::now();
    let config = match load(args) {
        Ok(config) => config,
        Err(failure) => {
            eprintln!("corelog: {failure}");
            return ExitReason::Config.into();
        }
    };
    start_log(&config.trace_filter);
    // A mask is inherited: where whoever started this node keeps them from its own threads, nothing could stop it in order.
    let stops: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    if let Err(errno) = stops.thread_unblock() {
        tracing::warn!(%errno, "signals that stop a node may not reach this one");
    }
    if args.with_parent.is_some_and(|parent| !ends_with(parent)) {
        eprintln!("corelog: the process that this node was started for has ended");
        return ExitReason::Done.into();
    }
    let data_dir = config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        process = std::process::id(),
        node = config.node_id.0,
        data_dir = %data_dir.display(),
        "corelog starts"
    );
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    serve(config, began).into()
}

/// From here on the end of the parent is a wish to stop; false where it has ended already.
fn ends_with(parent: i32) -> bool {
    if let Err(errno) = set_pdeathsig(Signal::SIGTERM) {
        tracing::warn!(%errno, "this node will not notice the end of the process that started it");
    }
    // Looked at afterwards: an end in between has sent no signal.
    getppid().as_raw() == parent
}

fn load(args: &ServeArgs) -> Outcome<Config> {
    let file = match &args.config {
        Some(path) => {
            let text = super::config::read_file(path)?;
            Some((path.display().to_string(), text))
        }
        None => None,
    };
    let mut flags = Vec::new();
    let mut flag = |name, key, value: Option<String>| {
        flags.extend(value.map(|value| (name, key, value)));
    };
    let data_dir = args.data_dir.as_ref().map(|path| path.display().to_string());
    flag("--data-dir", "data.dir", data_dir);
    flag("--listen", "listeners", args.listen.clone());
    flag("--shards", "shards", args.shards.clone());
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let sources =
        Sources { file, environment: environment.collect(), sets: args.settings.clone(), flags };
    Config::load(&sources).map_err(|errors| super::config::failure_of(&errors))
}

/// The log goes to standard error: standard output has the `ready` line and nothing else.
fn start_log(filter: &str) {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_target(false)
        // It would say so on standard error, which is what failed, and panic: a full disk or a closed pipe must not end a node.
        .log_internal_errors(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}

fn serve(mut config: Config, began: Instant) -> ExitReason {
    let options = NodeOptions {
        shards: shards_of(&config),
        io_memory_bytes: config.io_memory_bytes,
        free_list_bytes_max: config.io_free_list_bytes,
        ring_depth: config.io_ring_depth,
        spin: config.io_spin,
        ..NodeOptions::new(&config.data_dir)
    };
    let shard_count = shard_count_here(options.shards);
    if let Some(refusal) = refusal_here(&mut config) {
        eprintln!("corelog: {refusal}");
        return ExitReason::Config;
    }
    // Before the ports: of two nodes on one directory, the second would find them taken too, and that says less.
    let claim = match node::claim(&options) {
        Ok(claim) => claim,
        Err(error) => {
            eprintln!("corelog: {error}");
            return error.reason();
        }
    };
    // Held until the node ends: cores share their ports by SO_REUSEPORT, which would let another node share them too.
    let _reserved = match reserve_addresses(&mut config, shard_count) {
        Ok(reserved) => reserved,
        Err(message) => {
            eprintln!("corelog: {message}");
            return ExitReason::AddressUnavailable;
        }
    };
    // Why the node did not start, or did not stop in order, is told once, here, where the exit code is known too.
    let last_word: LastWord = Arc::default();
    let data_core = |context: CoreContext<Message>| async move {
        broker::run_data_core(context.platform, context.mesh).await;
        ExitReason::Done
    };
    let (config, told) = (Arc::new(config), Arc::clone(&last_word));
    let control = move |context: CoreContext<Message>| control(context, config, began, told);
    match node::run_claimed(&options, claim, data_core, control) {
        Ok(reason) => {
            if let Some(word) = last_word.lock().unwrap_or_else(PoisonError::into_inner).take() {
                eprintln!("corelog: {word}");
            }
            reason
        }
        Err(error) => {
            eprintln!("corelog: {error}");
            error.reason()
        }
    }
}

/// As the system's resolver has them, which may take its time: no core runs yet.
fn addresses_of(host: &str) -> std::io::Result<Vec<IpAddr>> {
    Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

fn shards_of(config: &Config) -> ShardCount {
    match config.shards {
        Shards::Auto => ShardCount::Auto,
        Shards::Count(count) => NonZero::new(count).map_or(ShardCount::Auto, ShardCount::Fixed),
    }
}

/// The data cores that a node would have on this machine.
fn shard_count_here(shards: ShardCount) -> u16 {
    let shard_count = node::placement(shards, &node::cpus()).len();
    u16::try_from(shard_count).unwrap_or(node::SHARD_COUNT_MAX)
}

/// What a start on this machine refuses, though the configuration does not contradict itself: hosts that cannot be resolved
/// here, and two addresses that are the same with as many data cores as there are here. Puts the hosts' addresses in.
pub(crate) fn refusal_here(config: &mut Config) -> Option<String> {
    if let Err(error) = config.resolve_hosts(addresses_of) {
        return Some(error.to_string());
    }
    let shard_count = shard_count_here(shards_of(config));
    let overlap = config.overlap(shard_count)?;
    let place = &config.settings.get("listeners")?.place;
    Some(format!(
        "{place}: {overlap} (with {shard_count} data cores, as on this machine): move one of the two, or set shards"
    ))
}

/// Takes every address that this node will listen on; from here on port 0 is the port it became.
fn reserve_addresses(
    config: &mut Config,
    shard_count: u16,
) -> Result<Vec<AddressReservation>, String> {
    let mut reserved = Vec::new();
    let mut reserve = |what: &str, address: &mut SocketAddr, count: u16| {
        let row = node::reserve_row(*address, count)
            .map_err(|(address, error)| address_advice(what, address, &error))?;
        *address = row.first().map_or(*address, AddressReservation::address);
        reserved.extend(row);
        Ok::<(), String>(())
    };
    for listener in &mut config.listeners {
        let count = match listener.advertise {
            Advertise::Node => 1,
            Advertise::Core => shard_count,
        };
        reserve(&format!("listener {}", listener.name), &mut listener.bind, count)?;
    }
    if let Some(address) = &mut config.admin_listen {
        reserve("admin.listen", address, 1)?;
    }
    Ok(reserved)
}

/// Linux's number for an address family that is not there.
const AFNOSUPPORT: i32 = 97;

fn address_advice(what: &str, address: SocketAddr, error: &std::io::Error) -> String {
    let next = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another process listens there, maybe another node: choose another address (--listen IP:PORT, --set admin.listen=IP:PORT or none)"
        }
        std::io::ErrorKind::AddrNotAvailable => "this machine has no such address",
        std::io::ErrorKind::InvalidInput => {
            "in advertise=core each data core listens one port further on, up to 65535: choose a lower port"
        }
        _ if error.raw_os_error() == Some(AFNOSUPPORT) => {
            "this machine has IPv6 switched off: choose an IPv4 address, or 0.0.0.0 for all of them"
        }
        std::io::ErrorKind::PermissionDenied => "ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => return format!("{what}: {address}: {error}"),
    };
    format!("{what}: {address}: {error}\nnext: {next}")
}

/// What the process says last, where there is something to say.
type LastWord = Arc<Mutex<Option<String>>>;

async fn control(
    context: CoreContext<Message>,
    config: Arc<Config>,
    began: Instant,
    last_word: LastWord,
) -> ExitReason {
    let started = context.platform.monotonic().saturating_sub(began.elapsed());
    let options = ControlOptions {
        open_files_max: open_files_max(&config, context.open_files_max),
        connections_max: connections_max(&config, context.open_files_max, context.shard_count),
        config,
        shard_count: context.shard_count,
        started,
        mutant: broker::mutant::Mutant::default(),
    };
    let (asked, requested) = (context.stop.clone(), context.stop.requested());
    let stop = async {
        requested.await;
        notify::tell(notify::STOPPING);
    };
    let (reason, word) =
        match broker::run_control(context.platform, context.mesh, options, stop, announce).await {
            Ok(Stopped::InOrder) => return ExitReason::Done,
            Ok(Stopped::NotInOrder(faults)) => (ExitReason::UncleanStop, faults.to_string()),
            // A core that ended because it was asked to has refused nothing.
            Err(StartRefusal::Core { .. }) if asked.is_requested() => return ExitReason::Done,
            Err(refusal) => {
                let reason = match &refusal {
                    StartRefusal::Data(_) => ExitReason::DataRefused,
                    StartRefusal::DiskFull(_) => ExitReason::DiskFull,
                    StartRefusal::Address(_) => ExitReason::AddressUnavailable,
                    StartRefusal::Core { .. } => ExitReason::CoreFailed,
                };
                (reason, refusal.to_string())
            }
        };
    *last_word.lock().unwrap_or_else(PoisonError::into_inner) = Some(word);
    reason
}

/// Half of what the process may open is left to connections.
fn open_files_max(config: &Config, process_max: u64) -> usize {
    let half = usize::try_from(process_max / 2).unwrap_or(usize::MAX);
    config.open_files_max.map_or(half, |count| usize::try_from(count).unwrap_or(half).min(half))
}

/// What segment files and the node itself leave of the open files; or a log could not open its file because clients came.
fn connections_max(config: &Config, process_max: u64, shard_count: u16) -> usize {
    /// Rings, event descriptors, listeners, and files that are open for a moment, of the node and of each core.
    const NODE_FILES: usize = 16;
    const CORE_FILES: usize = 12;
    /// Under a limit that leaves nothing an operator still gets in.
    const CONNECTIONS_MIN: usize = 4;
    let files = open_files_max(config, process_max);
    let own = NODE_FILES + CORE_FILES * usize::from(shard_count);
    let process_max = usize::try_from(process_max).unwrap_or(usize::MAX);
    process_max.saturating_sub(files + own).max(CONNECTIONS_MIN)
}

/// One line on standard output, for people and for scripts that wait for it.
fn announce(ready: &Ready) {
    use std::io::Write as _;
    let Ready { node_id, kafka, listeners, elapsed, .. } = ready;
    let admin = ready.admin.map_or_else(|| "none".to_owned(), |admin| admin.to_string());
    let ms = elapsed.as_millis();
    // `kafka` stays one address, which scripts connect to.
    let all = match listeners.as_slice() {
        [] | [_] => String::new(),
        all => {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            format!(" listeners={}", all.join(","))
        }
    };
    let mut out = std::io::stdout().lock();
    // Nobody reading standard output is no reason to stop serving.
    let _ = writeln!(out, "ready node={node_id} kafka={kafka} admin={admin} ms={ms}{all}");
    let _ = out.flush();
    notify::tell(notify::READY);
}
