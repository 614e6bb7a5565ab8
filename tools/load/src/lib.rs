//! The load generator: it sends batches that were encoded beforehand, measures what the broker does with them, and afterwards
//! reads back every batch that was acknowledged.
//!
//! ```text
//!   Workload ── Templates ── FrameSet ──► sender ─► socket ─► broker        one pair of tasks a connection, many requests
//!                                         receiver ◄─ socket ◄──┘           in flight on each
//!                                            ├─► Recorder ── intervals, histograms ── RunResult
//!                                            └─► Ledger ─── Audit: all acknowledged batches there, once, in order
//! ```
//!
//! Owns the measurement and its honesty: latency of an open loop counts from when a request was due, a run that is not audited
//! is no run, and what the client itself costs stands in the result. It reaches sockets through `broker::Platform` only, so that
//! the simulator drives it in tests. It must never print, and never touch a file but those of `/proc`.

mod address;
mod audit;
mod chance;
mod client;
mod delivery;
mod device;
mod engine;
mod error;
mod flushes;
mod frame;
mod lag;
mod latency;
mod ledger;
mod process;
mod read_load;
mod recorder;
mod result;
mod schedule;
mod size;
mod soundness;
mod stream;
mod template;
mod topic_facts;
mod trend;
mod workload;

pub use address::Address;
pub use audit::{AuditReport, AuditVerdict, Finding, FindingKind};
pub use device::DeviceError;
pub use engine::{
    ConsumeOptions, Observer, Outcome, ProduceOptions, Silent, Target, TopicChoice, consume, mixed,
    produce,
};
pub use error::LoadError;
pub use flushes::{FlushReport, FlushVerdict};
pub use latency::{CurvePoint, HdrLog, HdrLogError, LatencySummary, new_histogram};
pub use read_load::{Check, FetchMode, ReadFrom, ReadLoad};
pub use result::{
    ErrorCount, IdleUse, Interval, IntervalUse, Job, Measured, ProcessUse, RESULT_FORMAT,
    ReadBeside, RunEnd, RunResult,
};
pub use size::{RecordSize, SizeError};
pub use soundness::Unsound;
pub use topic_facts::Durability;
pub use trend::{Trend, TrendWindow};
pub use workload::{Acks, Pace, Payload, Until, Workload, WorkloadError};
