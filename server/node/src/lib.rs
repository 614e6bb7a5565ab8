//! The platform on io_uring: the only crate that names glommio.
//!
//! Owns what a node asks of the machine: disk, sockets, clocks, tasks, the mesh between cores, the start-up order, signals
//! and exit codes. It knows nothing of topics or requests: `broker` runs on it through `Platform`, `Disk` and `Mesh`.
//! Everything of glommio that surprises (GLOMMIO, "Traps") is dealt with here and not visible above.
//!
//! ```text
//! run        start-up order, threads, signals          preflight  checks with one clear line each
//! platform   queues, clocks, panics contained          topology   CPUs and shards
//! disk       direct I/O                 buffer, lock    exit       the list of exit codes
//! net        sockets                    mesh, stop      wake       the gate between a future and its task
//! pulse      a core with work never sleeps
//! ```

mod blocking;
mod buffer;
mod disk;
mod errno;
mod exit;
mod heap;
mod lock;
mod mesh;
mod net;
mod platform;
mod preflight;
mod pulse;
mod queue;
mod run;
mod signals;
mod sockets;
mod stop;
#[cfg(test)]
mod testing;
mod topology;
mod wake;

pub use buffer::{Buffer, ReadBuffer};
pub use disk::{FREE_LIST_BYTES, GlommioDisk, GlommioFile};
pub use exit::ExitReason;
pub use lock::{DirectoryLock, LockError, directory_holder};
pub use mesh::{CoreMesh, MeshSeat, seats};
pub use net::{AddressReservation, TcpListener, TcpReader, TcpWriter, reserve, reserve_row};
pub use platform::CorePlatform;
pub use preflight::{
    DirectoryKind, MEMLOCK_BYTES_MIN, StartError, check_contents, check_directory, check_io_uring,
    check_memlock, raise_open_files, what_is_no_file,
};
pub use run::{Claim, CoreContext, NodeOptions, claim, run, run_claimed, run_local};
pub use stop::{StopRequested, StopSignal};
pub use topology::{SHARD_COUNT_MAX, ShardCount, cpus, placement};
