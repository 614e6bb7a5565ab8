//! gzip (RFC 1952): members back to back, each a header, a deflate stream and a trailer.
//!
//! Owns the framing and its checks; deflate itself is flate2's. Trailing bytes that are no member are refused.
//!
//! ```text
//!   1f 8b 08 flags mtime(4) xfl os [extra] [name\0] [comment\0] [header crc16] deflate … crc32 LE, size LE
//! ```

use crc_fast::{CrcAlgorithm, Digest};
use flate2::{Decompress, FlushDecompress, Status};

use super::decoder::{Progress, u16_le, u32_le};
use super::window::Window;
use super::{Codec, DecompressError};
use crate::codec::{DecodeError, Reader};

const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0xe0;

#[derive(Debug)]
pub(super) struct Gzip<'a> {
    input: Reader<'a>,
    state: State,
    crc: Digest,
    /// Bytes the member produced, modulo 2^32 as the trailer counts them.
    size: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Body,
    End,
}

impl<'a> Gzip<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        let crc = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
        Self { input: Reader::new(input), state: State::Header, crc, size: 0 }
    }

    pub(super) fn produce(
        &mut self,
        inflate: &mut Decompress,
        window: &mut Window,
        want: usize,
    ) -> Result<Progress, DecompressError> {
        match self.state {
            State::Header => {
                let start = self.input;
                read_header(&mut self.input)?
                    .map_or(Ok(()), |stored| self.check_header(start, stored))?;
                inflate.reset(false);
                self.crc.reset();
                self.size = 0;
                self.state = State::Body;
                Ok(Progress::Produced(0))
            }
            State::Body => self.inflate(inflate, window, want),
            State::End => Ok(Progress::End),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half, as the format says")]
    fn check_header(&self, start: Reader<'_>, stored: u16) -> Result<(), DecompressError> {
        let covered = self.input.position() - start.position() - 2;
        let bytes = start.rest().get(..covered).unwrap_or_default();
        let (stored, computed) =
            (u32::from(stored), u32::from(crc_fast::crc32_iso_hdlc(bytes) as u16));
        check("header checksum", self.input.position(), stored, computed)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the trailer counts modulo 2^32")]
    fn inflate(
        &mut self,
        inflate: &mut Decompress,
        window: &mut Window,
        want: usize,
    ) -> Result<Progress, DecompressError> {
        let (in_before, out_before) = (inflate.total_in(), inflate.total_out());
        let result =
            inflate.decompress(self.input.rest(), window.room(want), FlushDecompress::None);
        let consumed = delta(in_before, inflate.total_in());
        let produced = delta(out_before, inflate.total_out());
        let at = self.input.position() + consumed;
        let status =
            result.map_err(|_| DecompressError::malformed(Codec::Gzip, at, "deflate data"))?;
        self.input.take(consumed).map_err(|error| end_within("deflate data", error))?;
        window.advance(produced);
        self.crc.update(window.last(produced));
        self.size = self.size.wrapping_add(produced as u32);
        match status {
            Status::StreamEnd => self.finish_member()?,
            _ if consumed == 0 && produced == 0 => {
                return Err(DecompressError::truncated(Codec::Gzip, at, "deflate data"));
            }
            _ => {}
        }
        Ok(Progress::Produced(produced))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the digest of a 32-bit checksum")]
    fn finish_member(&mut self) -> Result<(), DecompressError> {
        let trailer = |error| end_within("trailer", error);
        let at = self.input.position();
        let stored_crc = u32_le(&mut self.input).map_err(trailer)?;
        let stored_size = u32_le(&mut self.input).map_err(trailer)?;
        check("checksum", at, stored_crc, self.crc.finalize() as u32)?;
        check("size", at + 4, stored_size, self.size)?;
        self.state = if self.input.is_empty() { State::End } else { State::Header };
        Ok(())
    }
}

/// Reads a member's header and gives the checksum it stores of itself, if it does.
fn read_header(input: &mut Reader<'_>) -> Result<Option<u16>, DecompressError> {
    let header = |error| end_within("header", error);
    let at = input.position();
    let malformed = |what| DecompressError::malformed(Codec::Gzip, at, what);
    let fixed = input.take(10).map_err(header)?;
    let [0x1f, 0x8b, method, flags, ..] = *fixed else { return Err(malformed("magic")) };
    if method != 8 {
        return Err(malformed("method"));
    }
    if flags & RESERVED != 0 {
        return Err(malformed("flags"));
    }
    if flags & EXTRA != 0 {
        let len = u16_le(input).map_err(header)?;
        input.take(usize::from(len)).map_err(header)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let len = input.rest().iter().position(|byte| *byte == 0);
            // Without the zero the text takes everything and its end is missing.
            let len = len.unwrap_or(input.remaining());
            input.take(len + 1).map_err(header)?;
        }
    }
    if flags & HEADER_CRC == 0 {
        return Ok(None);
    }
    u16_le(input).map(Some).map_err(header)
}

fn end_within(what: &'static str, error: DecodeError) -> DecompressError {
    DecompressError::from_decode(Codec::Gzip, what, error)
}

fn check(what: &'static str, at: usize, stored: u32, computed: u32) -> Result<(), DecompressError> {
    if stored == computed {
        return Ok(());
    }
    Err(DecompressError::Checksum { codec: Codec::Gzip, at, what, stored, computed })
}

/// What a 64-bit total grew by in one call, which is bounded by the slices of that call.
fn delta(before: u64, after: u64) -> usize {
    usize::try_from(after - before).unwrap_or(usize::MAX)
}
