//! What a connection costs that has asked what every client asks, and then says nothing.
//!
//! The node runs in this process, behind an allocator that counts what is asked for and not given back. The clients' side is
//! descriptors and one buffer, which is there before the counting begins. What the allocator itself needs is not counted.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected should fail there")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use broker::config::{Config, Sources};
use broker::{ControlOptions, Message, Platform, Ready, Stopped};
use node::{CoreContext, ExitReason, NodeOptions, ShardCount, StopSignal};
use wire::api_versions::ApiVersionsRequest;
use wire::metadata::MetadataRequest;
use wire::{Call, Request, encode_request};

/// The most that an idle connection may take. 5.6 kB without optimisation: two tasks, 3.4 kB of them, what the runtime knows of a
/// socket, and what the broker knows of a connection. A read buffer, or a task with room for a whole Produce, is beyond it.
const BYTES_MAX: usize = 7000;
/// Connections that come first: what the core has for all of them grows with these.
const FIRST_CONNECTIONS: usize = 100;
/// Connections that are measured.
const CONNECTIONS: usize = 500;
/// Longer than anything takes that works: a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that were asked for and not given back.
static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is handed to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's layout, unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's layout, unchanged.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's pointer and layout, unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A node of one core in threads of this process.
struct Node {
    address: SocketAddr,
    stop: StopSignal,
    running: JoinHandle<ExitReason>,
}

impl Node {
    fn start(directory: &Path) -> Self {
        let options = NodeOptions {
            shards: ShardCount::Fixed(NonZeroU16::MIN),
            io_memory_bytes: 1 << 20,
            ..NodeOptions::new(directory)
        };
        let port = node::reserve((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let settings = [
            format!("data.dir={}", directory.display()),
            format!("listeners={}", port.address()),
            "admin.listen=none".to_owned(),
            "tail.cache.bytes=8388608".to_owned(),
        ];
        let sources = Sources { sets: settings.into(), ..Sources::default() };
        let config = Config::load(&sources).unwrap();
        let data_core = |context: CoreContext<Message>| async move {
            broker::run_data_core(context.platform, context.mesh).await;
            ExitReason::Done
        };
        let (sender, started) = channel();
        let control = move |context| control(context, config, sender);
        let running = std::thread::spawn(move || {
            let _port = port;
            node::run(&options, data_core, control).unwrap()
        });
        let (address, stop) = started.recv_timeout(PATIENCE).unwrap();
        Self { address, stop, running }
    }

    fn stop(self) {
        self.stop.request();
        assert_eq!(self.running.join().unwrap(), ExitReason::Done);
    }
}

async fn control(
    context: CoreContext<Message>,
    config: Config,
    started: Sender<(SocketAddr, StopSignal)>,
) -> ExitReason {
    let options = ControlOptions {
        config: config.into(),
        shard_count: context.shard_count,
        open_files_max: 256,
        connections_max: 2 * (FIRST_CONNECTIONS + CONNECTIONS),
        started: context.platform.monotonic(),
        mutant: broker::mutant::Mutant::default(),
    };
    let stop = context.stop.clone();
    let ready = move |ready: &Ready| started.send((ready.kafka, stop.clone())).unwrap();
    let stopping = context.stop.requested();
    match broker::run_control(context.platform, context.mesh, options, stopping, ready).await {
        Ok(Stopped::InOrder) => ExitReason::Done,
        Ok(Stopped::NotInOrder(faults)) => panic!("{faults}"),
        Err(refusal) => panic!("{refusal}"),
    }
}

fn frame_of<'a, R: Request<'a>>(version: i16, request: &R) -> Vec<u8> {
    let call = Call { version, correlation_id: 1, client_id: Some("a client with a usual name") };
    encode_request(call, request).unwrap().into_bytes().unwrap().to_vec()
}

/// Makes a connection that is served, and lets it rest.
fn connect(address: SocketAddr, frames: &[Vec<u8>], answer: &mut [u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for frame in frames {
        stream.write_all(frame).unwrap();
        let mut size = [0; 4];
        stream.read_exact(&mut size).unwrap();
        let bytes = usize::try_from(u32::from_be_bytes(size)).unwrap();
        stream.read_exact(&mut answer[..bytes]).unwrap();
    }
    stream
}

#[test]
fn a_connection_that_waits_for_its_next_request_takes_little_memory() {
    let name = format!("corelog-idle-memory-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let node = Node::start(&directory);
    let client = ApiVersionsRequest {
        client_software_name: "tests".into(),
        client_software_version: "1.0".into(),
        ..Default::default()
    };
    let frames = [frame_of(3, &client), frame_of(12, &MetadataRequest::default())];
    let mut answer = vec![0; 64 << 10];
    let mut streams = Vec::with_capacity(FIRST_CONNECTIONS + CONNECTIONS);
    let mut connect_all = |count| {
        streams.extend((0..count).map(|_| connect(node.address, &frames, &mut answer)));
        HELD.load(Ordering::Relaxed)
    };
    let before = connect_all(FIRST_CONNECTIONS);
    let after = connect_all(CONNECTIONS);
    let bytes = after.saturating_sub(before) / CONNECTIONS;
    println!("{bytes} bytes for each idle connection");
    // Less than this is what the runtime alone needs: it would mean that nothing was measured.
    assert!((1000..=BYTES_MAX).contains(&bytes), "{bytes} bytes for each idle connection");
    drop(streams);
    node.stop();
    std::fs::remove_dir_all(&directory).unwrap();
}
