//! The 61 bytes at the head of a batch.
//!
//! Owns [`BatchHeader`], whose values are consistent once parsed: no offset below zero, no sum that overflows. What
//! only a client may not do (a base offset that is not zero, control bits) belongs to [`crate::validate`].

use crate::batch::{HEADER_BYTES, LENGTH_END, MAGIC};
use crate::codec::{DecodeError, Reader};
use crate::{Codec, LeaderEpoch, Offset, ProducerBatch, ProducerEpoch, ProducerId, Timestamp};

/// Why bytes are not a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end before the batch does. Not damage by itself: the rest may still arrive.
    #[error("batch needs {needed} bytes, {left} are there")]
    Truncated {
        /// Bytes the batch (or its header) takes.
        needed: usize,
        /// Bytes there are.
        left: usize,
    },
    /// More bytes than the one batch that was expected.
    #[error("batch takes {batch_bytes} bytes, {left} more follow")]
    Trailing {
        /// Bytes the batch takes.
        batch_bytes: usize,
        /// Bytes beyond it.
        left: usize,
    },
    /// A length that cannot hold the rest of the header.
    #[error("batch length {length}: must be at least {minimum}")]
    Length {
        /// What the header says.
        length: i32,
        /// Bytes of the header after the length field.
        minimum: i32,
    },
    /// Another format.
    #[error("batch magic {magic}: must be {MAGIC}")]
    Magic {
        /// What the header says.
        magic: i8,
    },
    /// Offsets that no log holds: negative, or past the last offset there is.
    #[error(
        "batch base offset {base_offset}, last offset delta {last_offset_delta}: no such offsets"
    )]
    Offsets {
        /// What the header says.
        base_offset: i64,
        /// What the header says.
        last_offset_delta: i32,
    },
    /// A negative count of records, or more records than offsets.
    #[error("batch of {records_count} records, last offset delta {last_offset_delta}")]
    Count {
        /// What the header says.
        records_count: i32,
        /// What the header says.
        last_offset_delta: i32,
    },
    /// The checksum of the bytes is another one.
    #[error("batch crc {computed:#010x}, header {header:#010x}")]
    Crc {
        /// What the header says.
        header: u32,
        /// What the bytes give.
        computed: u32,
    },
}

/// Codec bits that name no codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("compression codec {bits}: must be 0 to 4")]
pub struct UnknownCodec {
    /// The three bits.
    pub bits: u8,
}

/// Who set a batch's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer.
    CreateTime,
    /// The broker, at append: every record reads back as `max_timestamp`.
    LogAppendTime,
}

/// The attribute bits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    const CODEC_MASK: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 1 << 3;
    const TRANSACTIONAL: i16 = 1 << 4;
    const CONTROL: i16 = 1 << 5;
    const DELETE_HORIZON: i16 = 1 << 6;

    /// How the records are compressed.
    pub const fn codec(self) -> Result<Codec, UnknownCodec> {
        match self.0 & Self::CODEC_MASK {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Gzip),
            2 => Ok(Codec::Snappy),
            3 => Ok(Codec::Lz4),
            4 => Ok(Codec::Zstd),
            5 => Err(UnknownCodec { bits: 5 }),
            6 => Err(UnknownCodec { bits: 6 }),
            _ => Err(UnknownCodec { bits: 7 }),
        }
    }

    /// Who set the timestamps.
    #[must_use]
    pub const fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub const fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the batch holds a marker rather than records of a client.
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether `base_timestamp` is the time after which compaction may drop tombstones and markers.
    #[must_use]
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// The same bits with this codec.
    #[must_use]
    pub const fn with_codec(self, codec: Codec) -> Self {
        Self(self.0 & !Self::CODEC_MASK | codec as i16)
    }

    /// The same bits with this timestamp type.
    #[must_use]
    pub const fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        match timestamp_type {
            TimestampType::CreateTime => Self(self.0 & !Self::LOG_APPEND_TIME),
            TimestampType::LogAppendTime => Self(self.0 | Self::LOG_APPEND_TIME),
        }
    }

    /// The same bits with the transactional bit set.
    #[must_use]
    pub const fn transactional(self) -> Self {
        Self(self.0 | Self::TRANSACTIONAL)
    }

    /// The same bits with the control bit set.
    #[must_use]
    pub const fn control(self) -> Self {
        Self(self.0 | Self::CONTROL)
    }
}

/// A parsed batch header (the magic is always 2).
///
/// Invariants after [`BatchHeader::parse`]: `length` holds the header; `0 <= base_offset`; `0 <= last_offset_delta`;
/// `base_offset + last_offset_delta + 1` does not overflow; `0 <= records_count <= last_offset_delta + 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record; 0 in a producer's batch.
    pub base_offset: Offset,
    /// Bytes after the length field.
    pub length: i32,
    /// Epoch of the leader that appended the batch.
    pub partition_leader_epoch: LeaderEpoch,
    /// CRC-32C of bytes 21..end.
    pub crc: u32,
    /// Codec, timestamp type and kind.
    pub attributes: Attributes,
    /// Offset of the last record minus `base_offset`; kept by compaction even if that record went.
    pub last_offset_delta: i32,
    /// What the records' timestamp deltas count from (or the delete horizon).
    pub base_timestamp: Timestamp,
    /// Largest timestamp of the batch.
    pub max_timestamp: Timestamp,
    /// The idempotent producer, or none.
    pub producer_id: ProducerId,
    /// Its epoch, or none.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record; -1 for none.
    pub base_sequence: i32,
    /// How many records the batch holds; fewer than its offsets where compaction dropped some.
    pub records_count: i32,
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`; what follows it is not looked at.
    ///
    /// Errors  `Truncated` below 61 bytes; `Magic`, `Length`, `Offsets`, `Count` for values no batch has.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let header = Self::parse_unchecked(bytes)?;
        header.check()?;
        Ok(header)
    }

    /// Reads the header without judging offsets and counts, so that a bad checksum can be told from a bad value.
    pub(crate) fn parse_unchecked(bytes: &[u8]) -> Result<Self, BatchError> {
        let truncated = BatchError::Truncated { needed: HEADER_BYTES, left: bytes.len() };
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(truncated) };
        let (header, magic) = Self::read(bytes).map_err(|_| truncated)?;
        if magic != MAGIC {
            return Err(BatchError::Magic { magic });
        }
        if header.length < LENGTH_MIN {
            return Err(BatchError::Length { length: header.length, minimum: LENGTH_MIN });
        }
        Ok(header)
    }

    fn read(bytes: &[u8; HEADER_BYTES]) -> Result<(Self, i8), DecodeError> {
        let mut reader = Reader::new(bytes);
        let base_offset = Offset(reader.i64()?);
        let length = reader.i32()?;
        let partition_leader_epoch = LeaderEpoch(reader.i32()?);
        let magic = reader.i8()?;
        let header = Self {
            base_offset,
            length,
            partition_leader_epoch,
            crc: reader.u32()?,
            attributes: Attributes(reader.i16()?),
            last_offset_delta: reader.i32()?,
            base_timestamp: Timestamp(reader.i64()?),
            max_timestamp: Timestamp(reader.i64()?),
            producer_id: ProducerId(reader.i64()?),
            producer_epoch: ProducerEpoch(reader.i16()?),
            base_sequence: reader.i32()?,
            records_count: reader.i32()?,
        };
        Ok((header, magic))
    }

    pub(crate) fn check(&self) -> Result<(), BatchError> {
        let (base_offset, last_offset_delta) = (self.base_offset.0, self.last_offset_delta);
        let end = base_offset.checked_add(i64::from(last_offset_delta) + 1);
        if base_offset < 0 || last_offset_delta < 0 || end.is_none() {
            return Err(BatchError::Offsets { base_offset, last_offset_delta });
        }
        let records_count = self.records_count;
        if records_count < 0 || i64::from(records_count) > i64::from(last_offset_delta) + 1 {
            return Err(BatchError::Count { records_count, last_offset_delta });
        }
        Ok(())
    }

    /// The 61 bytes of this header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.base_offset.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.partition_leader_epoch.0.to_be_bytes());
        bytes[16..17].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[17..21].copy_from_slice(&self.crc.to_be_bytes());
        bytes[21..23].copy_from_slice(&self.attributes.0.to_be_bytes());
        bytes[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        bytes[27..35].copy_from_slice(&self.base_timestamp.0.to_be_bytes());
        bytes[35..43].copy_from_slice(&self.max_timestamp.0.to_be_bytes());
        bytes[43..51].copy_from_slice(&self.producer_id.0.to_be_bytes());
        bytes[51..53].copy_from_slice(&self.producer_epoch.0.to_be_bytes());
        bytes[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        bytes[57..61].copy_from_slice(&self.records_count.to_be_bytes());
        bytes
    }

    /// Bytes of the whole batch, header included: 61 to 2 GiB + 11.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        // Parsing refused a negative length; a header built by hand is held to the same.
        LENGTH_END + usize::try_from(self.length).expect("a parsed length is positive")
    }

    /// Offset of the last record.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0 + i64::from(self.last_offset_delta))
    }

    /// Offset after the last record: where the next batch starts.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0 + 1)
    }

    /// How the records are compressed.
    pub const fn codec(&self) -> Result<Codec, UnknownCodec> {
        self.attributes.codec()
    }

    /// Who set the timestamps.
    #[must_use]
    pub const fn timestamp_type(&self) -> TimestampType {
        self.attributes.timestamp_type()
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.attributes.is_transactional()
    }

    /// Whether the batch holds a marker.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.attributes.is_control()
    }

    /// When compaction may drop tombstones and markers, if it has seen the batch.
    #[must_use]
    pub const fn delete_horizon(&self) -> Option<Timestamp> {
        if self.attributes.has_delete_horizon() { Some(self.base_timestamp) } else { None }
    }

    /// Whether an idempotent producer wrote the batch.
    #[must_use]
    pub const fn has_producer_id(&self) -> bool {
        self.producer_id.0 > ProducerId::NONE.0
    }

    /// Sequence of the last record, which wraps from 2^31 - 1 to 0 (ID-4); -1 for none.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return self.base_sequence;
        }
        let sum = self.base_sequence.wrapping_add(self.last_offset_delta);
        // Past the top the sum lands at -2^31 + k, which stands for k: clear the sign.
        sum & i32::MAX
    }
}

/// Bytes of the header after its length field: 49.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "49")]
const LENGTH_MIN: i32 = (HEADER_BYTES - LENGTH_END) as i32;

impl From<&BatchHeader> for ProducerBatch {
    fn from(header: &BatchHeader) -> Self {
        Self {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            last_offset_delta: header.last_offset_delta,
            max_timestamp: header.max_timestamp,
            is_transactional: header.is_transactional(),
            is_control: header.is_control(),
        }
    }
}
