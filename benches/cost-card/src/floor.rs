//! The floor: the least that a broker's work can cost on this machine, done by one thread with nothing around it.
//!
//! ```text
//!   produce floor   client ──[size][batch]──► receive, CRC-32C, direct write ──[ack]──► client
//!   send floor      memory ──► socket ──► client that discards, or copies
//!   sync floor      4 KiB direct write + fdatasync, again and again
//! ```
//!
//! Only the server's thread is counted, by its own clock. No Kafka here: what a protocol adds is the broker's cost.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use record::{BatchView, batch::HEADER_BYTES};

use crate::error::CardError;
use crate::fetch::discard_bytes;
use crate::report::{Latencies, Row};
use crate::{MIB, Options, batch, cpu, settle};

/// What direct I/O wants of addresses, positions and lengths.
const ALIGNMENT: usize = 4_096;
const SIZE_BYTES: usize = 4;
const ACK: [u8; 8] = *b"appended";
/// As many as the broker's client keeps in flight.
const IN_FLIGHT_MAX: u64 = 5;
/// The file is written round and round: its blocks exist after the first time.
const FILE_BYTES: u64 = 1 << 30;
const SYNC_DURATION: Duration = Duration::from_secs(3);

/// Measures all floors.
pub(crate) fn measure(options: &Options) -> Result<Vec<Row>, CardError> {
    let mut rows = Vec::new();
    for (batch_bytes, label) in [(1 << 20, "1 MiB"), (128 << 10, "128 KiB")] {
        for durability in [Durability::Written, Durability::Synced] {
            rows.push(settle(options.cold_repeats(), || {
                produce_round(options, batch_bytes, label, durability)
            })?);
        }
    }
    for receiver in [Receiver::Discards, Receiver::Copies] {
        rows.push(settle(options.cold_repeats(), || send_round(options, receiver))?);
    }
    rows.push(sync_row(options)?);
    Ok(rows)
}

/// When the floor acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// After the direct write.
    Written,
    /// After fdatasync too.
    Synced,
}

/// A file for direct writes that goes when it is dropped.
struct Scratch {
    path: PathBuf,
    file: File,
}

impl Scratch {
    fn create(directory: &Path) -> Result<Self, CardError> {
        let path = directory.join(format!("cost-card-floor-{}", std::process::id()));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .custom_flags(OFlag::O_DIRECT.bits())
            .open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing to do about a file that does not go: the run's figures stand.
        let _ = fs::remove_file(&self.path);
    }
}

/// Memory of which an aligned part is used.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    fn zeroed(bytes: usize) -> Self {
        let memory = vec![0; bytes + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, bytes }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

/// A connected pair over loopback: the server's end and the client's.
fn connected() -> Result<(TcpStream, TcpStream), CardError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    Ok((server, client))
}

/// Runs the server on a thread of its own CPU and gives its CPU seconds.
fn on_server_cpu(
    server_cpu: usize,
    serve: impl FnOnce() -> Result<(), CardError> + Send + 'static,
) -> thread::JoinHandle<Result<f64, CardError>> {
    thread::spawn(move || {
        cpu::pin_this_thread(server_cpu)?;
        let before = cpu::thread_seconds()?;
        serve()?;
        Ok(cpu::thread_seconds()? - before)
    })
}

fn produce_round(
    options: &Options,
    batch_bytes: usize,
    label: &str,
    durability: Durability,
) -> Result<Row, CardError> {
    let count = options.round_mib * MIB / batch_bytes as u64;
    let (server, mut client) = connected()?;
    let scratch = Scratch::create(&options.floor_dir)?;
    let serving = on_server_cpu(options.server_cpu, move || {
        serve_produce(server, &scratch.file, Aligned::zeroed(batch_bytes), count, durability)
    });
    cpu::pin_this_thread(options.client_cpu)?;
    let batch = batch::of_bytes(batch_bytes);
    let size = u32::try_from(batch_bytes).unwrap_or(u32::MAX).to_be_bytes();
    let frame = [&size[..], &batch].concat();
    let begin = Instant::now();
    let mut acks = 0;
    for sent in 1..=count {
        client.write_all(&frame)?;
        while sent - acks >= IN_FLIGHT_MAX || (sent == count && acks < count) {
            let mut ack = [0; ACK.len()];
            client.read_exact(&mut ack)?;
            acks += 1;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_seconds = serving.join().map_err(|_| CardError::Thread)??;
    let after = match durability {
        Durability::Written => "direct write",
        Durability::Synced => "direct write + fdatasync",
    };
    let name = format!("floor: receive + CRC + {after}, {label}");
    Ok(Row::of_bytes(name, count * batch_bytes as u64, seconds, cpu_seconds))
}

fn serve_produce(
    mut stream: TcpStream,
    file: &File,
    mut buffer: Aligned,
    count: u64,
    durability: Durability,
) -> Result<(), CardError> {
    let mut position = 0;
    for _ in 0..count {
        let mut size = [0; SIZE_BYTES];
        stream.read_exact(&mut size)?;
        stream.read_exact(buffer.bytes_mut())?;
        assert!(buffer.bytes().len() > HEADER_BYTES, "a floor's batch holds a record");
        BatchView::parse(buffer.bytes())?.verify_crc()?;
        file.write_all_at(buffer.bytes(), position)?;
        if durability == Durability::Synced {
            file.sync_data()?;
        }
        position = (position + buffer.bytes as u64) % FILE_BYTES;
        stream.write_all(&ACK)?;
    }
    Ok(())
}

/// What the other end does with what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Discards,
    Copies,
}

fn send_round(options: &Options, receiver: Receiver) -> Result<Row, CardError> {
    let bytes = options.round_mib * MIB;
    let (mut server, mut client) = connected()?;
    let serving = on_server_cpu(options.server_cpu, move || {
        let memory = batch::of_bytes(1 << 20);
        for _ in 0..bytes / MIB {
            server.write_all(&memory)?;
        }
        Ok(())
    });
    cpu::pin_this_thread(options.client_cpu)?;
    let mut scratch = vec![0; 1 << 20];
    let begin = Instant::now();
    for _ in 0..bytes / MIB {
        match receiver {
            Receiver::Discards => discard_bytes(&client, &mut scratch, 1 << 20)?,
            Receiver::Copies => client.read_exact(&mut scratch)?,
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_seconds = serving.join().map_err(|_| CardError::Thread)??;
    let name = match receiver {
        Receiver::Discards => "floor: send from memory, receiver discards",
        Receiver::Copies => "floor: send from memory, receiver copies",
    };
    Ok(Row::of_bytes(name, bytes, seconds, cpu_seconds))
}

/// How often one thread can write a block and sync it.
fn sync_row(options: &Options) -> Result<Row, CardError> {
    let scratch = Scratch::create(&options.floor_dir)?;
    let serving = thread::spawn({
        let server_cpu = options.server_cpu;
        move || -> Result<(f64, Latencies), CardError> {
            cpu::pin_this_thread(server_cpu)?;
            let block = Aligned::zeroed(ALIGNMENT);
            // Blocks that exist: a sync of a growing file writes the file system's journal too.
            for position in 0..SYNC_BLOCKS {
                scratch.file.write_all_at(block.bytes(), position * ALIGNMENT as u64)?;
            }
            scratch.file.sync_all()?;
            let (before, until) = (cpu::thread_seconds()?, Instant::now() + SYNC_DURATION);
            let mut latencies = Latencies::default();
            for number in 0_u64.. {
                let begin = Instant::now();
                if begin >= until {
                    break;
                }
                let position = number % SYNC_BLOCKS * ALIGNMENT as u64;
                scratch.file.write_all_at(block.bytes(), position)?;
                scratch.file.sync_data()?;
                latencies.push(begin.elapsed());
            }
            Ok((cpu::thread_seconds()? - before, latencies))
        }
    });
    let (cpu_seconds, latencies) = serving.join().map_err(|_| CardError::Thread)??;
    let name = "floor: 4 KiB direct write + fdatasync, one at a time";
    Ok(Row::of_acks(name, SYNC_DURATION.as_secs(), cpu_seconds, latencies))
}

/// Blocks that the sync floor goes round.
const SYNC_BLOCKS: u64 = 1_024;
