//! The records inside a batch, as borrowed views.
//!
//! Owns [`Record`], its headers, and the walk over uncompressed record bytes. Every length is bounded by the bytes of
//! its record (P71). It never allocates; whether a batch may be appended is judged by [`crate::Validator`].
//!
//! ```text
//!   varint length │ attributes i8 │ varlong timestamp_delta │ varint offset_delta
//!                 │ varint key length (-1 null), key │ varint value length (-1 null), value
//!                 │ varint header count │ { varint length, key │ varint length (-1 null), value } …
//! ```

use crate::codec::{DecodeError, Reader};
use crate::{BatchHeader, Offset, Timestamp, batch::TimestampType};

/// The fewest bytes a record takes: length, attributes, two deltas, null key, null value, no headers.
pub const RECORD_BYTES_MIN: usize = 7;
/// The fewest bytes a header takes: an empty key and a null value.
pub(crate) const HEADER_BYTES_MIN: usize = 2;

/// What is wrong with the bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordDefect {
    /// A field that its record or the batch cannot hold.
    #[error(transparent)]
    Field(#[from] DecodeError),
    /// The fields end before the record does.
    #[error("{left} bytes left over after its fields")]
    Leftover {
        /// Bytes no field took.
        left: usize,
    },
    /// The batch ends before its count of records, or goes on after it.
    #[error("the batch says {records_count} records")]
    Count {
        /// What the batch header says.
        records_count: i32,
    },
    /// An offset delta that is not the record's place in the batch.
    #[error("offset delta {found}, must be {expected}")]
    OffsetDelta {
        /// The record's place.
        expected: i32,
        /// What the record says.
        found: i32,
    },
}

/// One record, borrowed from the bytes of its batch.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Unused by Kafka; carried on.
    pub attributes: i8,
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offsets after the batch's base offset.
    pub offset_delta: i32,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null (a tombstone where the topic is compacted).
    pub value: Option<&'a [u8]>,
    /// The headers, in their order.
    pub headers: Headers<'a>,
}

/// One header of a record. Keys may repeat, and are text by convention only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value, or null.
    pub value: Option<&'a [u8]>,
}

/// The headers of a record, already checked.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    reader: Reader<'a>,
    left: usize,
}

impl<'a> Record<'a> {
    /// Takes the record at the reader's position.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, RecordDefect> {
        let at = reader.position();
        let length = reader.varint()?;
        let length = usize::try_from(length).map_err(|_| {
            let (what, length) = ("record", i64::from(length));
            DecodeError::Negative { what, at, length }
        })?;
        let mut body = reader.sub_reader(length)?;
        let attributes = body.i8()?;
        let timestamp_delta = body.varlong()?;
        let offset_delta = body.varint()?;
        let key = body.varint_bytes_nullable()?;
        let value = body.varint_bytes_nullable()?;
        let headers = Headers::read(&mut body)?;
        if !body.is_empty() {
            return Err(RecordDefect::Leftover { left: body.remaining() });
        }
        Ok(Self { attributes, timestamp_delta, offset_delta, key, value, headers })
    }

    /// Its offset in the partition.
    #[must_use]
    pub fn offset(&self, batch: &BatchHeader) -> Offset {
        Offset(batch.base_offset.0.saturating_add(i64::from(self.offset_delta)))
    }

    /// Its timestamp: the batch's own where the broker set it (RB-5).
    #[must_use]
    pub fn timestamp(&self, batch: &BatchHeader) -> Timestamp {
        match batch.timestamp_type() {
            TimestampType::CreateTime => {
                Timestamp(batch.base_timestamp.0.wrapping_add(self.timestamp_delta))
            }
            TimestampType::LogAppendTime => batch.max_timestamp,
        }
    }
}

impl<'a> Headers<'a> {
    fn read(body: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let left = header_count(body)?;
        let headers = Self { reader: *body, left };
        for _ in 0..left {
            read_header(body)?;
        }
        Ok(headers)
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.left
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        // Reading them once before succeeded.
        read_header(&mut self.reader).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// The count of headers, bounded by what so many could take at least.
fn header_count(body: &mut Reader<'_>) -> Result<usize, DecodeError> {
    let at = body.position();
    let count = body.varint()?;
    let negative = DecodeError::Negative { what: "header count", at, length: i64::from(count) };
    let count = usize::try_from(count).map_err(|_| negative)?;
    let left = body.remaining();
    if count > left / HEADER_BYTES_MIN {
        let (what, element_bytes_min) = ("headers", HEADER_BYTES_MIN);
        return Err(DecodeError::TooMany { what, at, count, element_bytes_min, left });
    }
    Ok(count)
}

fn read_header<'a>(body: &mut Reader<'a>) -> Result<Header<'a>, DecodeError> {
    let at = body.position();
    let key = body.varint_bytes_nullable()?.ok_or(DecodeError::Null { what: "header key", at })?;
    Ok(Header { key, value: body.varint_bytes_nullable()? })
}

/// Iterates over uncompressed record bytes.
///
/// Order    as they lie; after an error there is nothing more.
/// Errors   besides those of a record: `Count` where the bytes end early or go on after the last record.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    reader: Reader<'a>,
    records_count: i32,
    index: i32,
    ended: bool,
}

impl<'a> Records<'a> {
    /// The records of the batch of `header`; `bytes` are its record bytes, decompressed.
    #[must_use]
    pub const fn new(header: &BatchHeader, bytes: &'a [u8]) -> Self {
        let records_count = header.records_count;
        Self { reader: Reader::new(bytes), records_count, index: 0, ended: false }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let all_read = self.index >= self.records_count;
        if all_read && self.reader.is_empty() {
            return None;
        }
        let item = if all_read || self.reader.is_empty() {
            Err(RecordDefect::Count { records_count: self.records_count })
        } else {
            Record::read(&mut self.reader)
        };
        self.index += 1;
        self.ended = item.is_err();
        Some(item)
    }
}

#[cfg(test)]
mod tests;
