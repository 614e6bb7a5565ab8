//! Batches as producers send them, made from chance, with the facts that the model keeps of each.
//!
//! Owns an encoder of its own, so that the log and its oracle do not share one: records, header and checksum are written
//! here byte by byte. Sizes gather where logs break: around the 4 KiB block, the segment, and 1 MiB.

use std::rc::Rc;

use commitlog::BLOCK_BYTES;
use record::batch::{Attributes, HEADER_BYTES, crc_of};
use record::{
    BatchHeader, Codec, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp, compress,
};

use crate::prng::{OneIn, Prng};

/// A batch with a megabyte of records: one in so many, since it costs as much as all others of a world.
const LARGE_ODDS: OneIn = OneIn(150);

/// A batch before the log gives it a place.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) header: BatchHeader,
    pub(super) bytes: Rc<Vec<u8>>,
    pub(super) timestamps: Rc<Vec<i64>>,
}

/// Who sends a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender {
    pub(super) id: ProducerId,
    pub(super) epoch: ProducerEpoch,
    pub(super) sequence: i32,
}

impl Sender {
    /// A producer without idempotence.
    pub(super) const PLAIN: Self =
        Self { id: ProducerId::NONE, epoch: ProducerEpoch::NONE, sequence: -1 };
}

/// What a batch is drawn around.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Bytes already in the log's last block, as far as the model knows.
    pub(super) block_fill: usize,
    /// Most bytes the batch may take.
    pub(super) bytes_max: usize,
    /// Time of the first record.
    pub(super) now: Timestamp,
}

/// Draws a batch.
pub(super) fn draw(prng: &mut Prng, shape: Shape, sender: Sender) -> Draft {
    let target = draw_size(prng, shape).clamp(90, shape.bytes_max.max(90));
    let count = match target {
        ..200 => prng.between(1, 2),
        200..8_000 => prng.between(1, 12),
        _ => prng.between(1, 40),
    };
    let timestamps = draw_timestamps(prng, shape.now.0, count);
    let codec =
        if target > 200 && prng.happens(OneIn(4)) { *prng.pick(&Codec::ALL) } else { Codec::None };
    let mut records = encode_records(prng, &timestamps, target, codec);
    if codec != Codec::None {
        let plain = std::mem::take(&mut records);
        compress(codec, &plain, &mut records);
    }
    seal(&records, timestamps, sender, codec)
}

fn draw_size(prng: &mut Prng, shape: Shape) -> usize {
    let block = BLOCK_BYTES;
    let jitter = prng.index(5);
    match prng.below(10) {
        // Ends within two bytes of a block's border.
        0..3 => (block - shape.block_fill % block) + block * prng.index(3) + jitter,
        3 => block + jitter,
        4..8 => 90 + prng.index(900),
        8 => 1_000 + prng.index(9_000),
        _ if prng.happens(LARGE_ODDS) => (1 << 20) + block * prng.index(2) + jitter,
        _ => 10_000 + prng.index(40_000),
    }
}

/// Mostly forward, at times out of order, at times none at all.
fn draw_timestamps(prng: &mut Prng, now: i64, count: u64) -> Vec<i64> {
    if prng.happens(OneIn(40)) {
        return vec![Timestamp::NONE.0; usize::try_from(count).expect("a few records")];
    }
    let spread = *prng.pick(&[0, 3, 50, 5_000]);
    let draw = |_| {
        let ahead = prng.between(0, spread).cast_signed();
        now + ahead - spread.cast_signed() / 2
    };
    (0..count).map(draw).collect()
}

fn encode_records(prng: &mut Prng, timestamps: &[i64], target: usize, codec: Codec) -> Vec<u8> {
    let room = target.saturating_sub(HEADER_BYTES);
    let each = room / timestamps.len();
    let mut out = Vec::with_capacity(room + 64);
    for (index, timestamp) in timestamps.iter().enumerate() {
        let is_last = index + 1 == timestamps.len();
        let bytes = if is_last { room.saturating_sub(out.len()) } else { each };
        let delta = timestamp - timestamps[0];
        // A record that must end at an exact byte: its length prefixes grow with it, so fit by trial.
        let overhead = encode_record(&mut Vec::new(), index, delta, &vec![0; bytes]) - bytes;
        let mut value = vec![0; bytes.saturating_sub(overhead)];
        fill_value(prng, &mut value, codec);
        encode_record(&mut out, index, delta, &value);
    }
    out
}

/// Incompressible, unless there is something to gain.
fn fill_value(prng: &mut Prng, value: &mut [u8], codec: Codec) {
    let random = if codec == Codec::None { value.len() } else { value.len().min(48) };
    prng.fill(&mut value[..random]);
}

/// Appends one record; returns the bytes it took.
fn encode_record(out: &mut Vec<u8>, index: usize, timestamp_delta: i64, value: &[u8]) -> usize {
    let mut body = vec![0];
    put_varint(&mut body, timestamp_delta);
    put_length(&mut body, index);
    put_varint(&mut body, -1);
    put_length(&mut body, value.len());
    body.extend_from_slice(value);
    put_varint(&mut body, 0);
    let start = out.len();
    put_length(out, body.len());
    out.extend_from_slice(&body);
    out.len() - start
}

/// Kafka's signed varint: zigzag, seven bits a byte, least significant first.
fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    put_varint(out, i64::try_from(length).expect("a few megabytes"));
}

fn seal(records: &[u8], timestamps: Vec<i64>, sender: Sender, codec: Codec) -> Draft {
    let count = i32::try_from(timestamps.len()).expect("a few records");
    let header = BatchHeader {
        base_offset: Offset::ZERO,
        length: i32::try_from(HEADER_BYTES - 12 + records.len()).expect("a few megabytes"),
        partition_leader_epoch: LeaderEpoch::NONE,
        crc: 0,
        attributes: Attributes(0).with_codec(codec),
        last_offset_delta: count - 1,
        base_timestamp: Timestamp(timestamps[0]),
        max_timestamp: Timestamp(timestamps.iter().copied().max().unwrap_or(-1)),
        producer_id: sender.id,
        producer_epoch: sender.epoch,
        base_sequence: sender.sequence,
        records_count: count,
    };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(records);
    let crc = crc_of(&bytes);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    let header = BatchHeader { crc, ..header };
    Draft { header, bytes: Rc::new(bytes), timestamps: Rc::new(timestamps) }
}
