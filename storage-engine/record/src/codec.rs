//! Kafka's primitive encodings: integers, varints, strings, arrays and tagged fields.
//!
//! Owns a borrowed [`Reader`] that refuses whatever does not fit the bytes that remain, a [`Writer`] over any
//! [`Sink`], and [`size`], which gives encoded sizes beforehand. It never allocates, never trusts a length, and
//! knows no message: those live in `wire` and in each core's `records.rs`.
//!
//! ```text
//!   classic string  i16 length, bytes    (-1: null)   compact string   uvarint length + 1, bytes   (0: null)
//!   classic bytes   i32 length, bytes    (-1: null)   compact bytes    uvarint length + 1, bytes   (0: null)
//!   classic array   i32 count, elements  (-1: null)   compact array    uvarint count + 1, elements (0: null)
//!   tagged fields   uvarint count, then (uvarint tag, uvarint size, bytes) each
//! ```

mod reader;
pub mod size;
mod writer;

pub use reader::{DecodeError, Reader};
pub use writer::{Counter, Sink, Writer};

#[cfg(test)]
mod tests;
