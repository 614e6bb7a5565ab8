//! Writes Kafka's primitives.
//!
//! Owns [`Writer`] and the [`Sink`] it writes to: a `Vec`, a `BytesMut`, or a [`Counter`] that only measures. It never
//! fails: a value too large for its length field is a bug of the caller, who bounds what comes from a peer.

use alloc::vec::Vec;

use bytes::{BufMut, BytesMut};

use super::size::{zigzag_32, zigzag_64};

/// Where encoded bytes go.
pub trait Sink {
    /// Takes in the next bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for BytesMut {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.put_slice(bytes);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }
}

/// A sink that keeps the size and drops the bytes: encode into it first, then allocate once.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Bytes taken in so far.
    pub bytes: usize,
}

impl Sink for Counter {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
    }
}

/// Encodes primitives into a [`Sink`].
#[derive(Debug)]
pub struct Writer<S> {
    sink: S,
}

impl<S: Sink> Writer<S> {
    /// A writer that appends to `sink`.
    pub const fn new(sink: S) -> Self {
        Self { sink }
    }

    /// The sink, with everything written so far.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// The sink, for bytes that are encoded elsewhere.
    pub const fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Bytes as they are, without a length.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.sink.put(bytes);
    }

    /// One byte, 0 or 1.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.sink.put(&[u8::from(value)]);
    }

    /// An `int8`.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.sink.put(&value.to_be_bytes());
    }

    /// An `int16`, big-endian like every fixed-width integer here.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.sink.put(&value.to_be_bytes());
    }

    /// An `int32`.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.sink.put(&value.to_be_bytes());
    }

    /// An `int64`.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.sink.put(&value.to_be_bytes());
    }

    /// A `uint16`.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.sink.put(&value.to_be_bytes());
    }

    /// A `uint32`.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.sink.put(&value.to_be_bytes());
    }

    /// A `float64`.
    #[inline]
    pub fn f64(&mut self, value: f64) {
        self.sink.put(&value.to_be_bytes());
    }

    /// A `uuid`: 16 bytes.
    #[inline]
    pub fn uuid(&mut self, value: &[u8; 16]) {
        self.sink.put(value);
    }

    /// An unsigned varint.
    #[inline]
    pub fn uvarint(&mut self, value: u32) {
        self.uvarlong(u64::from(value));
    }

    /// An unsigned varint of 64 bits.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to seven bits")]
    pub fn uvarlong(&mut self, mut value: u64) {
        let mut encoded = [0; 10];
        for (index, byte) in encoded.iter_mut().enumerate() {
            if value < 0x80 {
                *byte = value as u8;
                self.sink.put(&encoded[..=index]);
                return;
            }
            *byte = (value & 0x7f) as u8 | 0x80;
            value >>= 7;
        }
    }

    /// A zigzag varint, as records use them.
    #[inline]
    pub fn varint(&mut self, value: i32) {
        self.uvarint(zigzag_32(value));
    }

    /// A zigzag varint of 64 bits.
    #[inline]
    pub fn varlong(&mut self, value: i64) {
        self.uvarlong(zigzag_64(value));
    }

    /// A classic string. Panics above 32,767 bytes.
    pub fn string(&mut self, value: &str) {
        self.nullable_string(Some(value));
    }

    /// A classic string or null. Panics above 32,767 bytes.
    pub fn nullable_string(&mut self, value: Option<&str>) {
        match value {
            Some(text) => {
                self.i16(i16::try_from(text.len()).expect("a classic string holds 32767 bytes"));
                self.raw(text.as_bytes());
            }
            None => self.i16(-1),
        }
    }

    /// A compact string. Panics at 2 GiB.
    pub fn compact_string(&mut self, value: &str) {
        self.compact_nullable_bytes(Some(value.as_bytes()));
    }

    /// A compact string or null. Panics at 2 GiB.
    pub fn compact_nullable_string(&mut self, value: Option<&str>) {
        self.compact_nullable_bytes(value.map(str::as_bytes));
    }

    /// Classic bytes. Panics at 2 GiB.
    pub fn bytes(&mut self, value: &[u8]) {
        self.nullable_bytes(Some(value));
    }

    /// Classic bytes or null. Panics at 2 GiB.
    pub fn nullable_bytes(&mut self, value: Option<&[u8]>) {
        self.array_len(value.map(<[u8]>::len));
        self.raw(value.unwrap_or_default());
    }

    /// Compact bytes. Panics at 2 GiB.
    pub fn compact_bytes(&mut self, value: &[u8]) {
        self.compact_nullable_bytes(Some(value));
    }

    /// Compact bytes or null. Panics at 2 GiB.
    pub fn compact_nullable_bytes(&mut self, value: Option<&[u8]>) {
        self.compact_array_len(value.map(<[u8]>::len));
        self.raw(value.unwrap_or_default());
    }

    /// The count of a classic array, or null; also the length of classic bytes whose content is sent apart.
    pub fn array_len(&mut self, count: Option<usize>) {
        self.i32(count.map_or(-1, signed_len));
    }

    /// The count of a compact array, or null; also the length of compact bytes whose content is sent apart.
    pub fn compact_array_len(&mut self, count: Option<usize>) {
        self.uvarint(count.map_or(0, |count| signed_len(count).cast_unsigned() + 1));
    }

    /// The section that says: no tagged field follows.
    pub fn no_tagged_fields(&mut self) {
        self.uvarint(0);
    }

    /// The head of one tagged field; `content_bytes` bytes must follow. Order: tags ascend.
    pub fn tagged_field(&mut self, tag: u32, content_bytes: usize) {
        self.uvarint(tag);
        self.uvarint(signed_len(content_bytes).cast_unsigned());
    }
}

fn signed_len(len: usize) -> i32 {
    i32::try_from(len).expect("Kafka's lengths and counts are signed 32-bit numbers")
}
