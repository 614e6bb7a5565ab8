//! Walks the records of a batch over bytes that arrive in pieces.
//!
//! Owns the place within the current record, so that the walk can stop after any field and a key or value of any size
//! is passed without being held. A field (a length or a record's head) is at most 26 bytes long; where one is cut, the
//! walk asks for more bytes and starts again at that field.

use crate::batch::TimestampType;
use crate::codec::{DecodeError, Reader};
use crate::record::HEADER_BYTES_MIN;
use crate::{BatchHeader, RecordDefect, Timestamp};

use super::{
    BatchRefusal, Budget, NullKeys, RECORD_FAULTS_MAX, RecordFault, RecordFaultKind, RecordFaults,
    Summary, ValidateOptions, Wanted, WantedTime,
};

/// A record's head: length 5, attributes 1, timestamp delta 10, offset delta 5, key length 5.
#[cfg(test)]
const TOKEN_BYTES_MAX: usize = 26;
/// What one field costs.
const TOKEN_NS: u32 = 6;

/// Why a walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paused {
    /// The budget is used up.
    Budget,
    /// The bytes are used up, but for a cut field.
    NeedsBytes,
    /// Every record was read and no byte is left.
    End,
    /// A search is over; the walk does not go on.
    Found { offset_delta: i32, timestamp: Timestamp },
}

/// Looks for a record instead of judging all of them.
#[derive(Debug)]
pub(super) struct Search {
    time: WantedTime,
    offset_delta_min: i64,
    /// The timestamp of every record, where the broker set it (RB-5).
    append_time: Option<Timestamp>,
    found: Option<(i32, Timestamp)>,
}

impl Search {
    pub(super) fn new(header: &BatchHeader, wanted: Wanted) -> Self {
        let is_append_time = header.timestamp_type() == TimestampType::LogAppendTime;
        Self {
            time: wanted.time,
            offset_delta_min: wanted.offset_min.0.saturating_sub(header.base_offset.0),
            append_time: is_append_time.then_some(header.max_timestamp),
            found: None,
        }
    }

    fn look_at(&mut self, offset_delta: i32, create_time: Timestamp) {
        let timestamp = self.append_time.unwrap_or(create_time);
        if i64::from(offset_delta) >= self.offset_delta_min && self.time.takes(timestamp) {
            self.found = Some((offset_delta, timestamp));
        }
    }
}

/// The field that comes next in the current record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// A new record: everything up to its key.
    Head,
    ValueLength,
    HeaderCount,
    HeaderKeyLength,
    HeaderValueLength,
}

#[derive(Debug)]
pub(super) struct Walker {
    token: Token,
    /// Bytes of a key or value to pass before the token.
    skip: usize,
    /// Bytes of the current record after those.
    record_left: usize,
    headers_left: usize,
    /// The current record, or the next one before its head.
    index: i32,
    records_count: i32,
    /// Decompressed bytes before the current piece.
    position: usize,
    base_timestamp: Timestamp,
    timestamp_min: Timestamp,
    timestamp_max: Timestamp,
    null_keys: NullKeys,
    max_timestamp: Timestamp,
    max_timestamp_offset_delta: i32,
    faults: RecordFaults,
    search: Option<Search>,
}

impl Walker {
    /// A walk that ends at the record that is looked for.
    pub(super) fn searching(header: &BatchHeader, search: Search) -> Self {
        let options = ValidateOptions {
            batch_bytes_max: usize::MAX,
            output_bytes_max: usize::MAX,
            timestamp_min: Timestamp(i64::MIN),
            timestamp_max: Timestamp(i64::MAX),
            null_keys: NullKeys::Allow,
        };
        Self { search: Some(search), ..Self::new(header, &options) }
    }

    pub(super) fn new(header: &BatchHeader, options: &ValidateOptions) -> Self {
        Self {
            token: Token::Head,
            skip: 0,
            record_left: 0,
            headers_left: 0,
            index: 0,
            records_count: header.records_count,
            position: 0,
            base_timestamp: header.base_timestamp,
            timestamp_min: options.timestamp_min,
            timestamp_max: options.timestamp_max,
            null_keys: options.null_keys,
            max_timestamp: Timestamp::NONE,
            max_timestamp_offset_delta: 0,
            faults: RecordFaults::default(),
            search: None,
        }
    }

    /// Walks on over `bytes`; `ended` says that nothing follows them. Gives how many were passed.
    pub(super) fn walk(
        &mut self,
        bytes: &[u8],
        ended: bool,
        budget: &mut Budget,
    ) -> Result<(usize, Paused), BatchRefusal> {
        let mut reader = Reader::new(bytes);
        let paused = self.walk_reader(&mut reader, ended, budget);
        let paused = paused.map_err(|defect| {
            let (index, position) = (self.index, self.position);
            BatchRefusal::Record { index, defect: shift(defect, position) }
        })?;
        let consumed = reader.position();
        self.position += consumed;
        Ok((consumed, paused))
    }

    fn walk_reader(
        &mut self,
        reader: &mut Reader<'_>,
        ended: bool,
        budget: &mut Budget,
    ) -> Result<Paused, RecordDefect> {
        while budget.ns_left > 0 {
            if self.skip > 0 {
                let count = self.skip.min(reader.remaining());
                reader.take(count)?;
                self.skip -= count;
                if self.skip > 0 {
                    return self.out_of_bytes(reader, ended);
                }
            }
            if reader.is_empty() || (self.token == Token::Head && self.index == self.records_count)
            {
                return self.out_of_bytes(reader, ended);
            }
            let start = *reader;
            match self.token(reader) {
                Err(RecordDefect::Field(DecodeError::Truncated { .. })) if !ended => {
                    *reader = start;
                    return Ok(Paused::NeedsBytes);
                }
                token => token?,
            }
            budget.charge(TOKEN_NS);
            if let Some(Search { found: Some((offset_delta, timestamp)), .. }) = self.search {
                return Ok(Paused::Found { offset_delta, timestamp });
            }
        }
        Ok(Paused::Budget)
    }

    /// What it means that the bytes are used up, or the records.
    fn out_of_bytes(&self, reader: &Reader<'_>, ended: bool) -> Result<Paused, RecordDefect> {
        let all_read =
            self.token == Token::Head && self.skip == 0 && self.index == self.records_count;
        match (all_read, reader.is_empty()) {
            (true, true) if ended => Ok(Paused::End),
            (_, true) if !ended => Ok(Paused::NeedsBytes),
            _ => Err(RecordDefect::Count { records_count: self.records_count }),
        }
    }

    /// Takes the next field. On an error nothing has changed but the reader.
    #[inline]
    fn token(&mut self, reader: &mut Reader<'_>) -> Result<(), RecordDefect> {
        if self.token == Token::Head {
            return self.head(reader);
        }
        let before = reader.position();
        let value = reader.varint()?;
        let taken = reader.position() - before;
        let Some(left) = self.record_left.checked_sub(taken) else {
            return Err(field_beyond_record(before, taken, self.record_left));
        };
        match self.token {
            Token::Head => {}
            Token::ValueLength => {
                self.pass("value", before, value, left)?;
                self.token = Token::HeaderCount;
            }
            Token::HeaderCount => {
                self.headers_left = header_count(before, value, left)?;
                self.record_left = left;
                self.next_header()?;
            }
            Token::HeaderKeyLength => {
                if value < 0 {
                    let (what, at, length) = ("header key", before, i64::from(value));
                    return Err(DecodeError::Negative { what, at, length }.into());
                }
                self.pass("header key", before, value, left)?;
                self.token = Token::HeaderValueLength;
            }
            Token::HeaderValueLength => {
                self.pass("header value", before, value, left)?;
                self.headers_left -= 1;
                self.next_header()?;
            }
        }
        Ok(())
    }

    #[inline]
    fn head(&mut self, reader: &mut Reader<'_>) -> Result<(), RecordDefect> {
        let at = reader.position();
        let length = reader.varint()?;
        let body = reader.position();
        let _attributes = reader.i8()?;
        let timestamp_delta = reader.varlong()?;
        let offset_delta = reader.varint()?;
        let key_at = reader.position();
        let key_length = reader.varint()?;
        let taken = reader.position() - body;
        let Ok(length) = usize::try_from(length) else {
            let (what, length) = ("record", i64::from(length));
            return Err(DecodeError::Negative { what, at, length }.into());
        };
        let Some(left) = length.checked_sub(taken) else {
            return Err(field_beyond_record(body, taken, length));
        };
        // Compaction takes records out of a batch and leaves the others their offsets.
        if offset_delta != self.index && self.search.is_none() {
            let (expected, found) = (self.index, offset_delta);
            return Err(RecordDefect::OffsetDelta { expected, found });
        }
        self.pass("key", key_at, key_length, left)?;
        self.token = Token::ValueLength;
        match &mut self.search {
            Some(search) => {
                let create_time = self.base_timestamp.0.wrapping_add(timestamp_delta);
                search.look_at(offset_delta, Timestamp(create_time));
            }
            None => self.judge(timestamp_delta, key_length),
        }
        Ok(())
    }

    /// Notes the timestamp and what may not be appended.
    #[inline]
    fn judge(&mut self, timestamp_delta: i64, key_length: i32) {
        let timestamp = Timestamp(self.base_timestamp.0.wrapping_add(timestamp_delta));
        if timestamp > self.max_timestamp {
            self.max_timestamp = timestamp;
            self.max_timestamp_offset_delta = self.index;
        }
        if key_length < 0 && self.null_keys == NullKeys::Refuse {
            self.fault(RecordFaultKind::NullKey);
        }
        let allowed = self.timestamp_min..=self.timestamp_max;
        if timestamp != Timestamp::NONE && !allowed.contains(&timestamp) {
            self.fault(RecordFaultKind::Timestamp(timestamp));
        }
    }

    #[cold]
    fn fault(&mut self, kind: RecordFaultKind) {
        self.faults.count = self.faults.count.saturating_add(1);
        if self.faults.first.len() < RECORD_FAULTS_MAX {
            self.faults.first.push(RecordFault { index: self.index, kind });
        }
    }

    /// Notes a key or value of `length` bytes (-1: null) that follows, out of `left` bytes of the record.
    #[inline]
    fn pass(
        &mut self,
        what: &'static str,
        at: usize,
        length: i32,
        left: usize,
    ) -> Result<(), RecordDefect> {
        let skip = match usize::try_from(length) {
            Ok(skip) => skip,
            Err(_) if length == -1 => 0,
            Err(_) => {
                let length = i64::from(length);
                return Err(DecodeError::Negative { what, at, length }.into());
            }
        };
        let Some(record_left) = left.checked_sub(skip) else {
            // Not `Truncated`: more bytes would not help.
            let (count, element_bytes_min) = (skip, 1);
            return Err(DecodeError::TooMany { what, at, count, element_bytes_min, left }.into());
        };
        self.skip = skip;
        self.record_left = record_left;
        Ok(())
    }

    #[inline]
    fn next_header(&mut self) -> Result<(), RecordDefect> {
        if self.headers_left > 0 {
            self.token = Token::HeaderKeyLength;
            return Ok(());
        }
        if self.record_left > 0 {
            return Err(RecordDefect::Leftover { left: self.record_left });
        }
        self.token = Token::Head;
        self.index += 1;
        Ok(())
    }

    /// The result after the last record.
    pub(super) fn finish(&mut self, header: &BatchHeader) -> Result<Summary, BatchRefusal> {
        if self.faults.count > 0 {
            return Err(BatchRefusal::Records { faults: core::mem::take(&mut self.faults) });
        }
        Ok(Summary {
            header: *header,
            max_timestamp: self.max_timestamp,
            max_timestamp_offset_delta: self.max_timestamp_offset_delta,
            record_bytes: self.position as u64,
        })
    }
}

fn header_count(at: usize, count: i32, left: usize) -> Result<usize, RecordDefect> {
    let what = "headers";
    let Ok(count) = usize::try_from(count) else {
        let length = i64::from(count);
        return Err(DecodeError::Negative { what, at, length }.into());
    };
    if count > left / HEADER_BYTES_MIN {
        let element_bytes_min = HEADER_BYTES_MIN;
        return Err(DecodeError::TooMany { what, at, count, element_bytes_min, left }.into());
    }
    Ok(count)
}

#[cold]
fn field_beyond_record(at: usize, count: usize, left: usize) -> RecordDefect {
    let (what, element_bytes_min) = ("fields beyond the record", 1);
    DecodeError::TooMany { what, at, count, element_bytes_min, left }.into()
}

/// Moves a position in the current piece to where it lies in the whole.
fn shift(defect: RecordDefect, by: usize) -> RecordDefect {
    match defect {
        RecordDefect::Field(error) => RecordDefect::Field(error.moved_by(by)),
        defect => defect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::size;

    #[test]
    fn no_field_is_longer_than_its_bound() {
        let head = size::varint(i32::MIN) * 3 + 1 + size::varlong(i64::MIN);
        assert_eq!(head, TOKEN_BYTES_MAX);
    }
}
