//! One replica of one partition as a state machine: who may append, what a reader may see, who is told when.
//!
//! Owns idempotence ([`Producers`]), the high watermark and the waiters of the leader role ([`Leader`]). It never names a
//! clock, a file or a socket: time is an argument, and what must happen is returned as ordered [`Effect`]s. Follower roles
//! will stand beside [`Leader`]; the in-sync set ([`InSync`]) and the rule of the high watermark already have their place.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod leader;
mod mutant;
mod producers;
mod waiters;

pub use leader::{
    AbortedTransaction, AppendDecision, AppendRefusal, Effect, EndReason, FetchRefusal, InSync,
    Input, Isolation, Latest, Leader, LeaderStart, LogProgress, ReadView,
};
pub use mutant::Mutant;
pub use producers::{
    ActiveProducer, Attempt, BATCHES_PER_PRODUCER, Duplicate, PRODUCERS_MAX, Producers,
    ProducersOptions, SequenceRefusal, Verdict,
};
pub use waiters::{
    Acks, FETCH_WAITERS_MAX, FetchWaiter, PRODUCE_WAITERS_MAX, ProduceOutcome, ProduceWaiter,
    WaiterToken, Written,
};
