//! Snappy: one raw block, or the Java client's framing (xerial) of many.
//!
//! Owns both framings and a decoder of the block format that stops and resumes anywhere, so that a block of megabytes
//! does not hold up a core.
//!
//! ```text
//!   raw      uvarint size, elements                       xerial   82 "SNAPPY" 0, i32 version, i32 compatible,
//!   element  tag & 3 = 0  literal, tag >> 2 = length - 1           then chunks: i32 length, raw block;
//!            (60..63: 1..4 bytes of it follow)                     the header may recur between chunks
//!            1  copy of 4..=11, 11-bit distance
//!            2  copy of 1..=64, 16-bit distance           3  copy of 1..=64, 32-bit distance
//! ```

use super::decoder::{Progress, u16_le, u32_le};
use super::window::Window;
use super::{Codec, DecompressError};
use crate::codec::{DecodeError, Reader};

/// How far back a copy may reach: the largest block any known encoder makes (S2 and its Snappy mode). The usual reach
/// is 64 KiB; a distance beyond this is refused.
pub(super) const HISTORY_BYTES: usize = 4 * 1024 * 1024;

const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;

#[derive(Debug)]
pub(super) struct Snappy<'a> {
    input: Reader<'a>,
    framing: Framing,
    block: Option<Block<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Raw,
    Xerial,
}

impl<'a> Snappy<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        let framing = if input.starts_with(XERIAL_MAGIC) { Framing::Xerial } else { Framing::Raw };
        Self { input: Reader::new(input), framing, block: None }
    }

    pub(super) fn produce(
        &mut self,
        window: &mut Window,
        want: usize,
    ) -> Result<Progress, DecompressError> {
        if let Some(block) = &mut self.block {
            let produced = block.run(window, want)?;
            if block.is_done() {
                self.block = None;
            }
            return Ok(Progress::Produced(produced));
        }
        let chunk = self.next_chunk().map_err(|error| end_within("chunk", error))?;
        let Some(chunk) = chunk else { return Ok(Progress::End) };
        let block = Block::new(chunk)?;
        window.forget_history();
        self.block = (!block.is_done()).then_some(block);
        Ok(Progress::Produced(0))
    }

    fn next_chunk(&mut self) -> Result<Option<Reader<'a>>, DecodeError> {
        match self.framing {
            // A raw stream is one block, even an empty one: no bytes at all are not a stream.
            Framing::Raw if self.input.is_empty() && self.input.position() > 0 => Ok(None),
            Framing::Raw => self.input.sub_reader(self.input.remaining()).map(Some),
            Framing::Xerial => {
                while self.input.rest().starts_with(XERIAL_MAGIC) {
                    self.input.take(XERIAL_HEADER_BYTES)?;
                }
                if self.input.is_empty() {
                    return Ok(None);
                }
                let len = self.input.u32()?;
                self.input.sub_reader(usize::try_from(len).unwrap_or(usize::MAX)).map(Some)
            }
        }
    }
}

/// One raw block.
#[derive(Debug)]
struct Block<'a> {
    input: Reader<'a>,
    /// Bytes still to produce, by the block's own head.
    left: usize,
    literal_left: usize,
    copy_left: usize,
    distance: usize,
}

impl<'a> Block<'a> {
    fn new(mut input: Reader<'a>) -> Result<Self, DecompressError> {
        let size = input.uvarint().map_err(|error| end_within("size", error))?;
        let left = usize::try_from(size).unwrap_or(usize::MAX);
        let block = Self { input, left, literal_left: 0, copy_left: 0, distance: 0 };
        if left == 0 && !input.is_empty() {
            return Err(block.malformed("size"));
        }
        Ok(block)
    }

    const fn is_done(&self) -> bool {
        self.left == 0
    }

    fn run(&mut self, window: &mut Window, want: usize) -> Result<usize, DecompressError> {
        let mut produced = 0;
        while produced < want && self.left > 0 {
            let room = want - produced;
            let count = if self.literal_left > 0 {
                let count = self.literal_left.min(room);
                window.literal_head(self.input.rest(), count);
                self.input.take(count).map_err(|error| end_within("literal", error))?;
                self.literal_left -= count;
                count
            } else if self.copy_left > 0 {
                let count = self.copy_left.min(room);
                if !window.repeat(self.distance, count) {
                    return Err(self.malformed("distance"));
                }
                self.copy_left -= count;
                count
            } else {
                self.next_element()?;
                0
            };
            produced += count;
            self.left -= count;
        }
        if self.left == 0 && !self.input.is_empty() {
            return Err(self.malformed("size"));
        }
        Ok(produced)
    }

    fn next_element(&mut self) -> Result<(), DecompressError> {
        let element = |error| end_within("element", error);
        let [tag] = *self.input.take(1).map_err(element)? else { return Ok(()) };
        let upper = usize::from(tag >> 2);
        let len = match tag & 3 {
            0 => {
                self.literal_left = self.literal_len(upper).map_err(element)?;
                self.literal_left
            }
            kind => {
                (self.copy_left, self.distance) = self.copy(kind, tag).map_err(element)?;
                self.copy_left
            }
        };
        if len > self.left {
            return Err(self.malformed("size"));
        }
        Ok(())
    }

    fn literal_len(&mut self, upper: usize) -> Result<usize, DecodeError> {
        let extra_bytes = match upper {
            0..=59 => return Ok(upper + 1),
            _ => upper - 59,
        };
        let bytes = self.input.take(extra_bytes)?;
        Ok(bytes.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte)) + 1)
    }

    fn copy(&mut self, kind: u8, tag: u8) -> Result<(usize, usize), DecodeError> {
        let upper = usize::from(tag >> 2);
        Ok(match kind {
            1 => {
                let low = usize::from(self.input.i8()?.cast_unsigned());
                (4 + (upper & 7), usize::from(tag >> 5) << 8 | low)
            }
            2 => (upper + 1, usize::from(u16_le(&mut self.input)?)),
            _ => {
                let distance = u32_le(&mut self.input)?;
                (upper + 1, usize::try_from(distance).unwrap_or(usize::MAX))
            }
        })
    }

    fn malformed(&self, what: &'static str) -> DecompressError {
        DecompressError::malformed(Codec::Snappy, self.input.position(), what)
    }
}

fn end_within(what: &'static str, error: DecodeError) -> DecompressError {
    DecompressError::from_decode(Codec::Snappy, what, error)
}
