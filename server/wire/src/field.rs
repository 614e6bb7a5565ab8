//! How each type of field is read and written, in classic and in flexible versions.
//!
//! Owns [`ReadField`] and [`WriteField`] and their implementations for Kafka's primitive types, the nouns of `record`,
//! record sets and arrays. It knows no message.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use record::codec::DecodeError;
use record::{
    LeaderEpoch, NodeId, Offset, PartitionIndex, ProducerEpoch, ProducerId, Timestamp, TopicId,
};

use crate::decode::{BodyError, Decoder, Result, STRING_BYTES_MAX};
use crate::encode::{Content, EncodeError, Encoder, Output, measure};
use crate::error::ErrorCode;

/// The circumstances under which a field is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// The version of the message.
    pub version: i16,
    /// Whether that version has compact lengths and tagged fields.
    pub flexible: bool,
    /// Whether this field may be null in it.
    pub nullable: bool,
}

impl At {
    /// The same version, for a field that may or may not be null.
    #[inline]
    #[must_use]
    pub const fn nullable(self, nullable: bool) -> Self {
        Self { nullable, ..self }
    }
}

/// A value that can be read out of a message.
pub trait ReadField<'a>: Sized {
    /// Reads one. Errors: the bytes are not one; null where `at` forbids it.
    fn read(decoder: &mut Decoder<'a>, at: At) -> Result<Self>;
}

/// A value that can be written into a message.
pub trait WriteField {
    /// Writes it. Null, where `at` forbids it, is written as empty: "all topics" of Metadata v0 is an empty list.
    fn write<O: Output>(&self, encoder: &mut Encoder<O>, at: At);
}

/// A value and its circumstances, as something to measure or to write.
pub(crate) struct Placed<'v, T>(pub &'v T, pub At);

impl<T: WriteField> Content for Placed<'_, T> {
    fn write<O: Output>(&self, encoder: &mut Encoder<O>) {
        self.0.write(encoder, self.1);
    }
}

/// The fewest bytes that one `T` takes: those of its default, which is empty in every part.
fn bytes_min<T: WriteField + Default>(at: At) -> usize {
    measure(&Placed(&T::default(), at)).bytes()
}

macro_rules! primitives {
    ($($type:ty: $method:ident;)*) => {
        $(
            impl ReadField<'_> for $type {
                #[inline]
                fn read(decoder: &mut Decoder<'_>, _: At) -> Result<Self> {
                    Ok(decoder.reader.$method()?)
                }
            }

            impl WriteField for $type {
                #[inline]
                fn write<O: Output>(&self, encoder: &mut Encoder<O>, _: At) {
                    encoder.writer.$method(*self);
                }
            }
        )*
    };
}

primitives! {
    bool: bool;
    i8: i8;
    i16: i16;
    u16: u16;
    i32: i32;
    i64: i64;
}

macro_rules! nouns {
    ($($noun:ident;)*) => {
        $(
            impl ReadField<'_> for $noun {
                #[inline]
                fn read(decoder: &mut Decoder<'_>, at: At) -> Result<Self> {
                    ReadField::read(decoder, at).map(Self)
                }
            }

            impl WriteField for $noun {
                #[inline]
                fn write<O: Output>(&self, encoder: &mut Encoder<O>, at: At) {
                    self.0.write(encoder, at);
                }
            }
        )*
    };
}

nouns! {
    Offset;
    LeaderEpoch;
    NodeId;
    PartitionIndex;
    ProducerId;
    ProducerEpoch;
    Timestamp;
}

impl ReadField<'_> for TopicId {
    #[inline]
    fn read(decoder: &mut Decoder<'_>, _: At) -> Result<Self> {
        Ok(Self(decoder.reader.uuid()?))
    }
}

impl WriteField for TopicId {
    #[inline]
    fn write<O: Output>(&self, encoder: &mut Encoder<O>, _: At) {
        encoder.writer.uuid(&self.0);
    }
}

impl ReadField<'_> for ErrorCode {
    #[inline]
    fn read(decoder: &mut Decoder<'_>, _: At) -> Result<Self> {
        Ok(Self::from_code(decoder.reader.i16()?))
    }
}

impl WriteField for ErrorCode {
    #[inline]
    fn write<O: Output>(&self, encoder: &mut Encoder<O>, _: At) {
        encoder.writer.i16(self.code());
    }
}

/// A string: borrowed from the frame when read, whatever the writer has when written.
pub type Text<'a> = Cow<'a, str>;

impl<'a> ReadField<'a> for Option<Text<'a>> {
    fn read(decoder: &mut Decoder<'a>, at: At) -> Result<Self> {
        let start = decoder.reader.position();
        let text = if at.flexible {
            decoder.reader.compact_nullable_string()?
        } else {
            decoder.reader.nullable_string()?
        };
        match text {
            Some(text) if text.len() > STRING_BYTES_MAX => {
                Err(BodyError::StringTooLong { at: start, bytes: text.len() })
            }
            Some(text) => Ok(Some(Cow::Borrowed(text))),
            None => null(at, "string", start),
        }
    }
}

impl<'a> ReadField<'a> for Text<'a> {
    fn read(decoder: &mut Decoder<'a>, at: At) -> Result<Self> {
        let text: Option<Self> = ReadField::read(decoder, at.nullable(false))?;
        Ok(text.unwrap_or_default())
    }
}

impl WriteField for Option<Text<'_>> {
    fn write<O: Output>(&self, encoder: &mut Encoder<O>, at: At) {
        match self {
            None if at.nullable && at.flexible => encoder.writer.compact_nullable_string(None),
            None if at.nullable => encoder.writer.nullable_string(None),
            None => write_text(encoder, "", at),
            Some(text) => write_text(encoder, text, at),
        }
    }
}

impl WriteField for Text<'_> {
    fn write<O: Output>(&self, encoder: &mut Encoder<O>, at: At) {
        write_text(encoder, self, at);
    }
}

fn write_text<O: Output>(encoder: &mut Encoder<O>, text: &str, at: At) {
    if text.len() > STRING_BYTES_MAX {
        encoder.output().refuse(EncodeError::StringTooLong { bytes: text.len() });
    } else if at.flexible {
        encoder.writer.compact_string(text);
    } else {
        encoder.writer.string(text);
    }
}

/// A set of record batches as a message carries it: bytes that this crate never looks into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Records<'a> {
    /// None at all, not even an empty set.
    #[default]
    Null,
    /// The bytes. When read, they lie in the frame: `Bytes::slice_ref` shares them without a copy.
    Inline(&'a [u8]),
    /// So many bytes that the sender has elsewhere; only for writing (see [`crate::Encoded`]).
    Apart {
        /// How many.
        bytes: usize,
    },
}

impl<'a> Records<'a> {
    /// A set without a batch: what a fetch that found nothing answers.
    pub const EMPTY: Self = Self::Inline(&[]);

    /// The bytes at hand; none for a set that is null or apart.
    #[must_use]
    pub const fn inline(self) -> &'a [u8] {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Null | Self::Apart { .. } => &[],
        }
    }
}

impl<'a> ReadField<'a> for Records<'a> {
    fn read(decoder: &mut Decoder<'a>, at: At) -> Result<Self> {
        let start = decoder.reader.position();
        let bytes = if at.flexible {
            decoder.reader.compact_nullable_bytes()?
        } else {
            decoder.reader.nullable_bytes()?
        };
        match bytes {
            Some(bytes) => Ok(Self::Inline(bytes)),
            None => null(at, "records", start).map(|_: Option<()>| Self::Null),
        }
    }
}

impl WriteField for Records<'_> {
    fn write<O: Output>(&self, encoder: &mut Encoder<O>, at: At) {
        let bytes = match *self {
            Self::Null => None,
            Self::Inline(bytes) => Some(bytes.len()),
            Self::Apart { bytes } => Some(bytes),
        };
        if !write_count(encoder, bytes, at) {
            return;
        }
        match *self {
            Self::Null => {}
            Self::Inline(bytes) => encoder.writer.raw(bytes),
            Self::Apart { bytes } => encoder.output().apart(bytes),
        }
    }
}

impl<'a, T: ReadField<'a> + WriteField + Default> ReadField<'a> for Option<Vec<T>> {
    fn read(decoder: &mut Decoder<'a>, at: At) -> Result<Self> {
        let start = decoder.reader.position();
        let element = at.nullable(false);
        let element_bytes_min = bytes_min::<T>(element);
        let count = if at.flexible {
            decoder.reader.compact_nullable_array_len(element_bytes_min)?
        } else {
            decoder.reader.nullable_array_len(element_bytes_min)?
        };
        let Some(count) = count else { return null(at, "array", start) };
        decoder.charge(count.saturating_mul(size_of::<T>()))?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(T::read(decoder, element)?);
        }
        Ok(Some(elements))
    }
}

impl<'a, T: ReadField<'a> + WriteField + Default> ReadField<'a> for Vec<T> {
    fn read(decoder: &mut Decoder<'a>, at: At) -> Result<Self> {
        let elements: Option<Self> = ReadField::read(decoder, at.nullable(false))?;
        Ok(elements.unwrap_or_default())
    }
}

impl<T: WriteField> WriteField for Option<Vec<T>> {
    fn write<O: Output>(&self, encoder: &mut Encoder<O>, at: At) {
        match self {
            Some(elements) => write_elements(encoder, elements, at),
            None => {
                write_count(encoder, if at.nullable { None } else { Some(0) }, at);
            }
        }
    }
}

impl<T: WriteField> WriteField for Vec<T> {
    fn write<O: Output>(&self, encoder: &mut Encoder<O>, at: At) {
        write_elements(encoder, self, at);
    }
}

fn write_elements<T: WriteField, O: Output>(encoder: &mut Encoder<O>, elements: &[T], at: At) {
    if !write_count(encoder, Some(elements.len()), at) {
        return;
    }
    for element in elements {
        element.write(encoder, at.nullable(false));
    }
}

/// Writes a count or a length; whether its content may follow.
fn write_count<O: Output>(encoder: &mut Encoder<O>, count: Option<usize>, at: At) -> bool {
    if let Some(count) = count
        && i32::try_from(count).is_err()
    {
        encoder.output().refuse(EncodeError::FrameTooLong { bytes: count });
        return false;
    }
    if at.flexible {
        encoder.writer.compact_array_len(count);
    } else {
        encoder.writer.array_len(count);
    }
    true
}

/// `None`, where null is allowed.
pub(crate) fn null<T>(at: At, what: &'static str, start: usize) -> Result<Option<T>> {
    if at.nullable {
        return Ok(None);
    }
    Err(BodyError::Malformed(DecodeError::Null { what, at: start }))
}
