//! Writing messages: the size first, then one allocation of exactly that size.
//!
//! Owns [`Encoder`], the two things it writes to (one measures, one keeps), and [`Encoded`]. Size and bytes come from the
//! same code, so they cannot drift apart. Record bytes that live elsewhere are left out and their places kept: they are
//! sent from where they are, never copied into a message.

use alloc::vec::Vec;

use bytes::Bytes;
use record::codec::{Counter, Sink, Writer};

use crate::decode::STRING_BYTES_MAX;

/// Why a message cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A string above [`STRING_BYTES_MAX`].
    #[error("a string of {bytes} bytes, at most {STRING_BYTES_MAX}")]
    StringTooLong {
        /// Its length.
        bytes: usize,
    },
    /// More than a frame's 31-bit size can say.
    #[error("a frame of {bytes} bytes, at most {FRAME_BYTES_MAX}")]
    FrameTooLong {
        /// Its size.
        bytes: usize,
    },
}

/// The largest size that a frame's length field holds.
pub const FRAME_BYTES_MAX: usize = 0x7fff_ffff;

/// Bytes of the size field before each frame.
pub const SIZE_BYTES: usize = 4;

/// Where an encoder writes.
pub trait Output: Sink {
    /// Leaves room for `bytes` bytes that the sender has elsewhere.
    fn apart(&mut self, bytes: usize);

    /// Takes note that a value cannot be written.
    fn refuse(&mut self, error: EncodeError);
}

/// Measures: the first pass over a message, and the only one that can refuse it.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    counter: Counter,
    apart_bytes: usize,
    apart_count: usize,
    refusal: Option<EncodeError>,
}

impl Measure {
    /// The size of everything, what is apart included.
    pub(crate) const fn bytes(&self) -> usize {
        self.counter.bytes + self.apart_bytes
    }
}

impl Sink for Measure {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.counter.put(bytes);
    }
}

impl Output for Measure {
    fn apart(&mut self, bytes: usize) {
        self.apart_bytes += bytes;
        self.apart_count += 1;
    }

    fn refuse(&mut self, error: EncodeError) {
        self.refusal.get_or_insert(error);
    }
}

/// Keeps the bytes and the places where others go: the second pass.
#[derive(Debug)]
pub(crate) struct Keep {
    head: Vec<u8>,
    cuts: Vec<Cut>,
}

impl Sink for Keep {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }
}

impl Output for Keep {
    fn apart(&mut self, bytes: usize) {
        self.cuts.push(Cut { at: self.head.len(), bytes });
    }

    fn refuse(&mut self, error: EncodeError) {
        unreachable!("measured, and only then refused: {error}");
    }
}

/// Writes primitives and fields into an [`Output`].
#[derive(Debug)]
pub struct Encoder<O> {
    /// The primitives.
    pub(crate) writer: Writer<O>,
}

impl<O: Output> Encoder<O> {
    pub(crate) const fn new(output: O) -> Self {
        Self { writer: Writer::new(output) }
    }

    pub(crate) const fn output(&mut self) -> &mut O {
        self.writer.sink()
    }
}

/// A place in [`Encoded::head`] where bytes go that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of the head before it.
    pub at: usize,
    /// Bytes that go here.
    pub bytes: usize,
}

/// A frame ready to be sent, from its size field on, without the record bytes that stay where they are.
///
/// Shape   `head[..cut.at]`, the first record bytes, `head[cut.at..next.at]`, the second, …, the rest of the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    head: Vec<u8>,
    cuts: Vec<Cut>,
}

/// One stretch of a frame, in the order in which it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Bytes of the message itself.
    Head(&'a [u8]),
    /// The sender's own bytes: those of the `index`-th [`crate::Records::Apart`] of the message, exactly `bytes` of them.
    Apart {
        /// Which one, from 0, in the order of the message; those of 0 bytes count too.
        index: usize,
        /// How many bytes.
        bytes: usize,
    },
}

impl Encoded {
    /// What goes over the wire, the four bytes of the size field included.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.head.len() + self.cuts.iter().map(|cut| cut.bytes).sum::<usize>()
    }

    /// The bytes of the message without those that are apart.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Where the bytes apart go, ascending.
    #[must_use]
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// The frame in sending order. Empty stretches of the head are left out; those apart are all there.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let starts = core::iter::once(0).chain(self.cuts.iter().map(|cut| cut.at));
        let heads = starts.enumerate().flat_map(move |(index, start)| {
            let cut = self.cuts.get(index);
            let end = cut.map_or(self.head.len(), |cut| cut.at);
            let head = Some(Segment::Head(&self.head[start..end]));
            let apart = cut.map(|cut| Segment::Apart { index, bytes: cut.bytes });
            [head, apart].into_iter().flatten()
        });
        heads.filter(|segment| *segment != Segment::Head(&[]))
    }

    /// The whole frame, where nothing is apart; itself again where something is.
    pub fn into_bytes(self) -> Result<Bytes, Self> {
        if self.cuts.iter().any(|cut| cut.bytes > 0) {
            return Err(self);
        }
        Ok(Bytes::from(self.head))
    }
}

/// Something that writes the same bytes into any output, as often as it is asked.
pub(crate) trait Content {
    fn write<O: Output>(&self, encoder: &mut Encoder<O>);
}

/// The size of what `content` writes, and whether it can be written.
pub(crate) fn measure(content: &impl Content) -> Measure {
    let mut encoder = Encoder::new(Measure::default());
    content.write(&mut encoder);
    encoder.writer.into_sink()
}

/// Measures `content`, then writes it behind its size field into one allocation.
///
/// Errors  [`EncodeError`]: a string or the whole is longer than the protocol can say.
pub(crate) fn encode(content: &impl Content) -> Result<Encoded, EncodeError> {
    let measure = measure(content);
    if let Some(refusal) = measure.refusal {
        return Err(refusal);
    }
    let bytes = measure.bytes();
    let size = i32::try_from(bytes).map_err(|_| EncodeError::FrameTooLong { bytes })?;
    let head_bytes = SIZE_BYTES + measure.counter.bytes;
    let mut encoder = Encoder::new(Keep {
        head: Vec::with_capacity(head_bytes),
        cuts: Vec::with_capacity(measure.apart_count),
    });
    encoder.writer.i32(size);
    content.write(&mut encoder);
    let Keep { head, cuts } = encoder.writer.into_sink();
    assert_eq!(head.len(), head_bytes, "a message must write what it measured");
    Ok(Encoded { head, cuts })
}

#[cfg(test)]
mod tests;
