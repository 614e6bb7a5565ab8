//! Reads Kafka's primitives out of hostile bytes.
//!
//! Owns [`Reader`] and [`DecodeError`]. Every length is compared with the bytes that remain before it is used, so that
//! nothing here or in a caller ever allocates by what a peer claims. It never panics and never copies.

use core::str;

/// Why bytes were refused: what was being read, where, and which bound it broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the value does.
    #[error("{what} at byte {at}: {needed} bytes needed, {left} left")]
    Truncated {
        /// The value being read.
        what: &'static str,
        /// Where it starts.
        at: usize,
        /// Bytes it takes.
        needed: usize,
        /// Bytes there are.
        left: usize,
    },
    /// A varint that does not end, or has bits, past its width.
    #[error("{what} at byte {at}: longer than {bytes_max} bytes or wider than its type")]
    Overlong {
        /// The value being read.
        what: &'static str,
        /// Where it starts.
        at: usize,
        /// Bytes it may take.
        bytes_max: usize,
    },
    /// A length below -1.
    #[error("{what} at byte {at}: length {length} is negative")]
    Negative {
        /// The value being read.
        what: &'static str,
        /// Where its length starts.
        at: usize,
        /// The length it claims.
        length: i64,
    },
    /// A null where the field cannot be null.
    #[error("{what} at byte {at}: null is not allowed here")]
    Null {
        /// The value being read.
        what: &'static str,
        /// Where its length starts.
        at: usize,
    },
    /// A count whose smallest possible elements do not fit the bytes that remain.
    #[error(
        "{what} at byte {at}: {count} elements of at least {element_bytes_min} bytes, {left} bytes left"
    )]
    TooMany {
        /// The value being read.
        what: &'static str,
        /// Where its count starts.
        at: usize,
        /// The count it claims.
        count: usize,
        /// The smallest size of one element.
        element_bytes_min: usize,
        /// Bytes there are.
        left: usize,
    },
    /// A string that is not UTF-8.
    #[error("{what} at byte {at}: not UTF-8 after {valid_bytes} bytes")]
    NotUtf8 {
        /// The value being read.
        what: &'static str,
        /// Where its content starts.
        at: usize,
        /// How much of it is valid.
        valid_bytes: usize,
    },
    /// Bytes beyond the end of a value that should have taken all.
    #[error("{left} bytes left over at byte {at}")]
    Trailing {
        /// Where the first of them lies.
        at: usize,
        /// How many there are.
        left: usize,
    },
}

impl DecodeError {
    /// The same error in bytes that start `by` bytes further on.
    #[must_use]
    pub fn moved_by(mut self, by: usize) -> Self {
        match &mut self {
            Self::Truncated { at, .. }
            | Self::Overlong { at, .. }
            | Self::Negative { at, .. }
            | Self::Null { at, .. }
            | Self::TooMany { at, .. }
            | Self::NotUtf8 { at, .. }
            | Self::Trailing { at, .. } => *at += by,
        }
        self
    }
}

/// A cursor over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Position of the first byte past `rest`, counted from the start of the outermost reader.
    end: usize,
}

type Result<T> = core::result::Result<T, DecodeError>;

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, end: bytes.len() }
    }

    /// How many bytes are left.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Where the next byte lies, counted from the start of the outermost reader.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> usize {
        self.end - self.rest.len()
    }

    /// The bytes that are left, without taking them.
    #[inline]
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes left over.
    pub const fn finish(&self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(DecodeError::Trailing { at: self.position(), left: self.rest.len() })
    }

    /// Takes the next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        self.take_for("bytes", len)
    }

    /// Takes the next `len` bytes as a reader of their own, which counts positions on from here.
    #[inline]
    pub fn sub_reader(&mut self, len: usize) -> Result<Self> {
        let start = self.position();
        Ok(Self { rest: self.take_for("bytes", len)?, end: start + len })
    }

    /// One byte; anything but 0 is true, as in Kafka.
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.fixed::<1>("bool")? != [0])
    }

    /// An `int8`.
    #[inline]
    pub fn i8(&mut self) -> Result<i8> {
        self.fixed("int8").map(i8::from_be_bytes)
    }

    /// An `int16`.
    #[inline]
    pub fn i16(&mut self) -> Result<i16> {
        self.fixed("int16").map(i16::from_be_bytes)
    }

    /// An `int32`.
    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        self.fixed("int32").map(i32::from_be_bytes)
    }

    /// An `int64`.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        self.fixed("int64").map(i64::from_be_bytes)
    }

    /// A `uint16`.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.fixed("uint16").map(u16::from_be_bytes)
    }

    /// A `uint32`.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.fixed("uint32").map(u32::from_be_bytes)
    }

    /// A `float64`.
    #[inline]
    pub fn f64(&mut self) -> Result<f64> {
        self.fixed("float64").map(f64::from_be_bytes)
    }

    /// A `uuid`.
    #[inline]
    pub fn uuid(&mut self) -> Result<[u8; 16]> {
        self.fixed("uuid")
    }

    /// An unsigned varint of at most five bytes.
    ///
    /// Padding with zero groups inside those five is accepted, as by Kafka: some encoders reserve the room first.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32> {
        self.uvarint_for("uvarint")
    }

    /// An unsigned varint of at most ten bytes.
    #[inline]
    pub fn uvarlong(&mut self) -> Result<u64> {
        self.varint_bytes::<10>("uvarlong")
    }

    /// A zigzag varint of at most five bytes.
    #[inline]
    pub fn varint(&mut self) -> Result<i32> {
        let value = self.uvarint_for("varint")?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A zigzag varint of at most ten bytes.
    #[inline]
    pub fn varlong(&mut self) -> Result<i64> {
        let value = self.varint_bytes::<10>("varlong")?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A classic string.
    pub fn string(&mut self) -> Result<&'a str> {
        let at = self.position();
        self.nullable_string()?.ok_or(DecodeError::Null { what: "string", at })
    }

    /// A classic string or null.
    pub fn nullable_string(&mut self) -> Result<Option<&'a str>> {
        let at = self.position();
        let length = self.i16()?;
        let Some(len) = signed_len("string", at, i64::from(length))? else { return Ok(None) };
        self.utf8(len).map(Some)
    }

    /// A compact string.
    pub fn compact_string(&mut self) -> Result<&'a str> {
        let at = self.position();
        self.compact_nullable_string()?.ok_or(DecodeError::Null { what: "string", at })
    }

    /// A compact string or null.
    pub fn compact_nullable_string(&mut self) -> Result<Option<&'a str>> {
        let Some(len) = self.compact_len()? else { return Ok(None) };
        self.utf8(len).map(Some)
    }

    /// Classic bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let at = self.position();
        self.nullable_bytes()?.ok_or(DecodeError::Null { what: "bytes", at })
    }

    /// Classic bytes or null.
    pub fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>> {
        let at = self.position();
        let length = self.i32()?;
        let Some(len) = signed_len("bytes", at, i64::from(length))? else { return Ok(None) };
        self.take_for("bytes", len).map(Some)
    }

    /// Compact bytes.
    pub fn compact_bytes(&mut self) -> Result<&'a [u8]> {
        let at = self.position();
        self.compact_nullable_bytes()?.ok_or(DecodeError::Null { what: "bytes", at })
    }

    /// Compact bytes or null.
    pub fn compact_nullable_bytes(&mut self) -> Result<Option<&'a [u8]>> {
        let Some(len) = self.compact_len()? else { return Ok(None) };
        self.take_for("bytes", len).map(Some)
    }

    /// Key or value of a record: zigzag varint length, -1 for null.
    #[inline]
    pub fn varint_bytes_nullable(&mut self) -> Result<Option<&'a [u8]>> {
        let at = self.position();
        let length = self.varint()?;
        let Some(len) = signed_len("bytes", at, i64::from(length))? else { return Ok(None) };
        self.take_for("bytes", len).map(Some)
    }

    /// The count of a classic array whose elements take at least `element_bytes_min` bytes each (at least 1 is assumed,
    /// or an empty element would admit any count).
    pub fn array_len(&mut self, element_bytes_min: usize) -> Result<usize> {
        let at = self.position();
        self.nullable_array_len(element_bytes_min)?.ok_or(DecodeError::Null { what: "array", at })
    }

    /// The count of a classic array or null.
    pub fn nullable_array_len(&mut self, element_bytes_min: usize) -> Result<Option<usize>> {
        let at = self.position();
        let length = self.i32()?;
        let count = signed_len("array", at, i64::from(length))?;
        self.check_count(at, count, element_bytes_min)
    }

    /// The count of a compact array.
    pub fn compact_array_len(&mut self, element_bytes_min: usize) -> Result<usize> {
        let at = self.position();
        let count = self.compact_nullable_array_len(element_bytes_min)?;
        count.ok_or(DecodeError::Null { what: "array", at })
    }

    /// The count of a compact array or null.
    pub fn compact_nullable_array_len(
        &mut self,
        element_bytes_min: usize,
    ) -> Result<Option<usize>> {
        let at = self.position();
        let count = self.compact_len()?;
        self.check_count(at, count, element_bytes_min)
    }

    /// Hands each tagged field to `field` as its tag and a reader over exactly its bytes.
    ///
    /// Order    as they come; Kafka writes tags ascending and reads them in any order.
    /// Bound    a field takes two bytes at least, so the count is bounded by what remains.
    pub fn tagged_fields(
        &mut self,
        mut field: impl FnMut(u32, &mut Self) -> Result<()>,
    ) -> Result<()> {
        let at = self.position();
        let count = self.uvarint_for("tagged field count")?;
        let count = self.check_count(at, Some(to_len(count)), 2)?.unwrap_or_default();
        for _ in 0..count {
            let tag = self.uvarint_for("tag")?;
            let len = to_len(self.uvarint_for("tagged field size")?);
            let start = self.position();
            let rest = self.take_for("tagged field", len)?;
            field(tag, &mut Self { rest, end: start + len })?;
        }
        Ok(())
    }

    /// Steps over the tagged fields that follow.
    pub fn skip_tagged_fields(&mut self) -> Result<()> {
        self.tagged_fields(|_, _| Ok(()))
    }

    #[inline]
    fn take_for(&mut self, what: &'static str, len: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(len) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.truncated(what, len)),
        }
    }

    #[inline]
    fn fixed<const LEN: usize>(&mut self, what: &'static str) -> Result<[u8; LEN]> {
        match self.rest.split_first_chunk::<LEN>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(self.truncated(what, LEN)),
        }
    }

    #[cold]
    fn truncated(&self, what: &'static str, needed: usize) -> DecodeError {
        DecodeError::Truncated { what, at: self.position(), needed, left: self.rest.len() }
    }

    #[inline]
    fn uvarint_for(&mut self, what: &'static str) -> Result<u32> {
        let at = self.position();
        let value = self.varint_bytes::<5>(what)?;
        u32::try_from(value).map_err(|_| DecodeError::Overlong { what, at, bytes_max: 5 })
    }

    /// The seven-bit groups of a varint of at most `MAX` bytes.
    #[inline]
    fn varint_bytes<const MAX: usize>(&mut self, what: &'static str) -> Result<u64> {
        // Most varints of a record are one byte.
        if let Some((first, rest)) = self.rest.split_first()
            && *first < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(*first));
        }
        self.varint_bytes_slow::<MAX>(what)
    }

    fn varint_bytes_slow<const MAX: usize>(&mut self, what: &'static str) -> Result<u64> {
        let mut value: u64 = 0;
        for (index, byte) in self.rest.iter().take(MAX).enumerate() {
            let group = u64::from(*byte & 0x7f);
            let shift = 7 * index;
            // The tenth byte has room for one bit.
            if group << shift >> shift != group {
                break;
            }
            value |= group << shift;
            if *byte < 0x80 {
                self.rest = self.rest.get(index + 1..).unwrap_or_default();
                return Ok(value);
            }
            if index + 1 == self.rest.len() {
                return Err(self.truncated(what, index + 2));
            }
        }
        if self.rest.is_empty() {
            return Err(self.truncated(what, 1));
        }
        Err(DecodeError::Overlong { what, at: self.position(), bytes_max: MAX })
    }

    fn compact_len(&mut self) -> Result<Option<usize>> {
        Ok(self.uvarint_for("compact length")?.checked_sub(1).map(to_len))
    }

    fn utf8(&mut self, len: usize) -> Result<&'a str> {
        let at = self.position();
        let bytes = self.take_for("string", len)?;
        str::from_utf8(bytes).map_err(|error| DecodeError::NotUtf8 {
            what: "string",
            at,
            valid_bytes: error.valid_up_to(),
        })
    }

    fn check_count(
        &self,
        at: usize,
        count: Option<usize>,
        element_bytes_min: usize,
    ) -> Result<Option<usize>> {
        let element_bytes_min = element_bytes_min.max(1);
        match count {
            Some(count) if count > self.rest.len() / element_bytes_min => {
                let left = self.rest.len();
                Err(DecodeError::TooMany { what: "array", at, count, element_bytes_min, left })
            }
            count => Ok(count),
        }
    }
}

/// `None` for null (-1), an error below it.
#[inline]
fn signed_len(what: &'static str, at: usize, length: i64) -> Result<Option<usize>> {
    match usize::try_from(length) {
        Ok(len) => Ok(Some(len)),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(DecodeError::Negative { what, at, length }),
    }
}

/// Lossless: Corelog runs on 64-bit Linux, and saturation would only refuse more.
#[inline]
fn to_len(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
