//! Builds batches: for the command line, for markers, for tests and benches.
//!
//! Owns [`BatchBuilder`], the transaction markers, and the rewriting of timestamps. Input is the caller's own: what
//! does not fit a batch is a bug and panics; nothing here sees bytes of a peer.

use alloc::vec::Vec;

use crate::batch::{Attributes, HEADER_BYTES, LENGTH_END, TimestampType, crc_of};
use crate::codec::{Counter, Reader, Sink, Writer, size};
use crate::{
    BatchHeader, Codec, Crc, Header, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Record,
    Timestamp, compress,
};

/// A record to be appended.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewRecord<'a> {
    /// When it was created.
    pub timestamp: Timestamp,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null.
    pub value: Option<&'a [u8]>,
    /// The headers, in their order.
    pub headers: &'a [Header<'a>],
}

/// Who writes a batch, for idempotence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Producer {
    /// The producer.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// Sequence of the batch's first record; -1 for none.
    pub base_sequence: i32,
}

impl Producer {
    /// No idempotence.
    pub const NONE: Self =
        Self { id: ProducerId::NONE, epoch: ProducerEpoch::NONE, base_sequence: -1 };
}

/// Gathers records and makes one batch of them.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    attributes: Attributes,
    codec: Codec,
    producer: Producer,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
    records: Vec<u8>,
    records_count: i32,
}

impl BatchBuilder {
    /// A builder of a batch as a plain producer sends it: base offset 0, no leader epoch, create time.
    #[must_use]
    pub const fn new(codec: Codec) -> Self {
        Self {
            attributes: Attributes(0),
            codec,
            producer: Producer::NONE,
            base_offset: Offset::ZERO,
            leader_epoch: LeaderEpoch::NONE,
            base_timestamp: Timestamp::NONE,
            max_timestamp: Timestamp::NONE,
            records: Vec::new(),
            records_count: 0,
        }
    }

    /// Sets the producer.
    #[must_use]
    pub const fn producer(mut self, producer: Producer) -> Self {
        self.producer = producer;
        self
    }

    /// Sets where the batch lies, as a log holds it.
    #[must_use]
    pub const fn assigned(mut self, base_offset: Offset, leader_epoch: LeaderEpoch) -> Self {
        self.base_offset = base_offset;
        self.leader_epoch = leader_epoch;
        self
    }

    /// Makes the batch part of a transaction.
    #[must_use]
    pub const fn transactional(mut self) -> Self {
        self.attributes = self.attributes.transactional();
        self
    }

    /// Makes the batch one of markers.
    #[must_use]
    pub const fn control(mut self) -> Self {
        self.attributes = self.attributes.control();
        self
    }

    /// How many records were appended.
    #[must_use]
    pub const fn records_count(&self) -> i32 {
        self.records_count
    }

    /// Bytes the batch takes uncompressed.
    #[must_use]
    pub const fn plain_bytes(&self) -> usize {
        HEADER_BYTES + self.records.len()
    }

    /// Appends a record.
    ///
    /// Panics at 2^31 - 1 records or a record of 2 GiB.
    pub fn append(&mut self, record: &NewRecord<'_>) {
        if self.records_count == 0 {
            self.base_timestamp = record.timestamp;
            self.max_timestamp = record.timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        let timestamp_delta = record.timestamp.0.wrapping_sub(self.base_timestamp.0);
        let offset_delta = self.records_count;
        let mut counter = Writer::new(Counter::default());
        write_body(&mut counter, record, timestamp_delta, offset_delta);
        let length = i32::try_from(counter.into_sink().bytes).expect("a record is below 2 GiB");
        self.records.reserve(size::varint(length) + length.unsigned_abs() as usize);
        let mut writer = Writer::new(&mut self.records);
        writer.varint(length);
        write_body(&mut writer, record, timestamp_delta, offset_delta);
        self.records_count = self.records_count.checked_add(1).expect("a batch counts in i32");
    }

    /// The batch.
    ///
    /// Panics without a record, or at 2 GiB.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        assert!(self.records_count > 0);
        let mut batch = Vec::with_capacity(self.plain_bytes());
        batch.resize(HEADER_BYTES, 0);
        compress(self.codec, &self.records, &mut batch);
        let length = i32::try_from(batch.len() - LENGTH_END).expect("a batch is below 2 GiB");
        let mut header = BatchHeader {
            base_offset: self.base_offset,
            length,
            partition_leader_epoch: self.leader_epoch,
            crc: 0,
            attributes: self.attributes.with_codec(self.codec),
            last_offset_delta: self.records_count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            base_sequence: self.producer.base_sequence,
            records_count: self.records_count,
        };
        batch[..HEADER_BYTES].copy_from_slice(&header.encode());
        header.crc = crc_of(&batch);
        batch[..HEADER_BYTES].copy_from_slice(&header.encode());
        batch
    }
}

fn write_body<S: Sink>(
    writer: &mut Writer<S>,
    record: &NewRecord<'_>,
    timestamp_delta: i64,
    offset_delta: i32,
) {
    writer.i8(0);
    writer.varlong(timestamp_delta);
    writer.varint(offset_delta);
    write_bytes(writer, record.key);
    write_bytes(writer, record.value);
    writer.varint(signed(record.headers.len()));
    for header in record.headers {
        write_bytes(writer, Some(header.key));
        write_bytes(writer, header.value);
    }
}

fn write_bytes<S: Sink>(writer: &mut Writer<S>, bytes: Option<&[u8]>) {
    writer.varint(bytes.map_or(-1, |bytes| signed(bytes.len())));
    writer.raw(bytes.unwrap_or_default());
}

fn signed(len: usize) -> i32 {
    i32::try_from(len).expect("a record is below 2 GiB")
}

/// The same header with other timestamps and the checksum that goes with them (RB-5).
///
/// `record_bytes` are the bytes after the header, as they are. Records read back as `max_timestamp` under
/// `LogAppendTime`; under `CreateTime` it must be the largest of theirs.
#[must_use]
pub fn with_timestamps(
    header: &BatchHeader,
    timestamp_type: TimestampType,
    max_timestamp: Timestamp,
    record_bytes: &[u8],
) -> BatchHeader {
    let attributes = header.attributes.with_timestamp_type(timestamp_type);
    let mut header = BatchHeader { attributes, max_timestamp, ..*header };
    let mut crc = Crc::of_batch();
    crc.update(&header.encode());
    crc.update(record_bytes);
    header.crc = crc.value();
    header
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkerKind {
    /// Its records are void.
    Abort,
    /// Its records are valid.
    Commit,
}

/// The marker that ends a transaction in a partition (TX-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// How it ended.
    pub kind: MarkerKind,
    /// Epoch of the transaction coordinator that decided so.
    pub coordinator_epoch: i32,
}

const MARKER_VERSION: i16 = 0;

impl Marker {
    /// The batch that holds the marker alone: control, transactional, one record, no sequence.
    #[must_use]
    pub fn batch(
        &self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        timestamp: Timestamp,
    ) -> Vec<u8> {
        let mut key = [0; 4];
        key[..2].copy_from_slice(&MARKER_VERSION.to_be_bytes());
        let kind: i16 = match self.kind {
            MarkerKind::Abort => 0,
            MarkerKind::Commit => 1,
        };
        key[2..].copy_from_slice(&kind.to_be_bytes());
        let mut value = [0; 6];
        value[..2].copy_from_slice(&MARKER_VERSION.to_be_bytes());
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        let producer = Producer { id: producer_id, epoch: producer_epoch, base_sequence: -1 };
        let mut builder =
            BatchBuilder::new(Codec::None).producer(producer).transactional().control();
        let (key, value) = (Some(key.as_slice()), Some(value.as_slice()));
        builder.append(&NewRecord { timestamp, key, value, headers: &[] });
        builder.build()
    }

    /// Reads the record of a control batch; `None` for what is not a transaction's marker (a newer version of one is
    /// read as far as it is known, as Kafka does).
    #[must_use]
    pub fn parse(record: &Record<'_>) -> Option<Self> {
        let mut key = Reader::new(record.key?);
        let mut value = Reader::new(record.value?);
        if key.i16().ok()? < MARKER_VERSION || value.i16().ok()? < MARKER_VERSION {
            return None;
        }
        let kind = match key.i16().ok()? {
            0 => MarkerKind::Abort,
            1 => MarkerKind::Commit,
            _ => return None,
        };
        Some(Self { kind, coordinator_epoch: value.i32().ok()? })
    }
}

#[cfg(test)]
mod tests;
