//! LZ4 frames: any number back to back, skippable ones between them.
//!
//! Owns the frame format with all its checksums, and a decoder of the block format that stops and resumes anywhere, so
//! that a block of 4 MiB does not hold up a core. Dictionaries and the legacy frame are refused: no client of Kafka
//! writes them. Source: the LZ4 frame and block format descriptions, version 1.6.
//!
//! ```text
//!   frame     184d2204 LE, descriptor, blocks, 0 (u32), [content checksum]
//!   descriptor flags  01 independent block-checksum content-size content-checksum 0 dictionary
//!             block size 0 xxx 0000 (4: 64 KiB … 7: 4 MiB), [content size u64], header checksum
//!   block     u32 LE size (top bit: stored as it is), bytes, [block checksum]
//!   sequence  token (literal length : match length - 4), [length + 255 …], literals, u16 LE distance, [length …]
//! ```

use super::decoder::{Progress, u16_le, u32_le, u64_le};
use super::window::Window;
use super::xxh32::Xxh32;
use super::{Codec, DecompressError};
use crate::codec::{DecodeError, Reader};

/// How far back a match may reach.
pub(super) const HISTORY_BYTES: usize = 64 * 1024;
pub(super) const MAGIC: u32 = 0x184d_2204;

const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
const STORED: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Lz4<'a> {
    input: Reader<'a>,
    state: State<'a>,
    frame: Frame,
}

#[derive(Debug)]
enum State<'a> {
    FrameStart,
    BlockStart,
    Block(Block<'a>),
}

/// What the descriptor of the current frame says, and how far the frame came.
#[derive(Debug)]
struct Frame {
    blocks_linked: bool,
    block_checksum: bool,
    content_hash: Option<Xxh32>,
    content_bytes: Option<u64>,
    block_bytes_max: usize,
    produced_bytes: u64,
}

impl<'a> Lz4<'a> {
    pub(super) const fn new(input: &'a [u8]) -> Self {
        let frame = Frame {
            blocks_linked: false,
            block_checksum: false,
            content_hash: None,
            content_bytes: None,
            block_bytes_max: 0,
            produced_bytes: 0,
        };
        Self { input: Reader::new(input), state: State::FrameStart, frame }
    }

    pub(super) fn produce(
        &mut self,
        window: &mut Window,
        want: usize,
    ) -> Result<Progress, DecompressError> {
        match &mut self.state {
            State::FrameStart if self.input.is_empty() => return Ok(Progress::End),
            State::FrameStart => {
                if let Some(frame) = read_frame_start(&mut self.input)? {
                    window.forget_history();
                    self.frame = frame;
                    self.state = State::BlockStart;
                }
            }
            State::BlockStart => self.next_block(window)?,
            State::Block(block) => {
                let produced = block.run(window, want)?;
                if let Some(hash) = &mut self.frame.content_hash {
                    hash.update(window.last(produced));
                }
                self.frame.produced_bytes += produced as u64;
                if block.is_done() {
                    self.state = State::BlockStart;
                }
                return Ok(Progress::Produced(produced));
            }
        }
        Ok(Progress::Produced(0))
    }

    fn next_block(&mut self, window: &mut Window) -> Result<(), DecompressError> {
        let at = self.input.position();
        let size = u32_le(&mut self.input).map_err(|error| end_within("block size", error))?;
        if size == 0 {
            return self.finish_frame();
        }
        let bytes = usize::try_from(size & !STORED).unwrap_or(usize::MAX);
        if bytes > self.frame.block_bytes_max {
            return Err(DecompressError::malformed(Codec::Lz4, at, "block size"));
        }
        let block = self.input.sub_reader(bytes).map_err(|error| end_within("block", error))?;
        if self.frame.block_checksum {
            let computed = Xxh32::hash(block.rest());
            self.check("block checksum", computed)?;
        }
        if !self.frame.blocks_linked {
            window.forget_history();
        }
        self.state = State::Block(if size & STORED == 0 {
            Block::compressed(block, self.frame.block_bytes_max)
        } else {
            Block::stored(block)
        });
        Ok(())
    }

    fn finish_frame(&mut self) -> Result<(), DecompressError> {
        if let Some(hash) = self.frame.content_hash.take() {
            self.check("content checksum", hash.value())?;
        }
        let at = self.input.position();
        if self.frame.content_bytes.is_some_and(|bytes| bytes != self.frame.produced_bytes) {
            return Err(DecompressError::malformed(Codec::Lz4, at, "content size"));
        }
        self.state = State::FrameStart;
        Ok(())
    }

    fn check(&mut self, what: &'static str, computed: u32) -> Result<(), DecompressError> {
        let at = self.input.position();
        let stored = u32_le(&mut self.input).map_err(|error| end_within(what, error))?;
        if stored == computed {
            return Ok(());
        }
        Err(DecompressError::Checksum { codec: Codec::Lz4, at, what, stored, computed })
    }
}

/// Reads a frame's head; `None` where it was a skippable frame, which is skipped.
fn read_frame_start(input: &mut Reader<'_>) -> Result<Option<Frame>, DecompressError> {
    let header = |error| end_within("frame header", error);
    let at = input.position();
    let malformed = |what| DecompressError::malformed(Codec::Lz4, at, what);
    let magic = u32_le(input).map_err(header)?;
    if magic & !0xf == SKIPPABLE_MAGIC {
        let size = u32_le(input).map_err(header)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        input.take(size).map_err(|error| end_within("skippable frame", error))?;
        return Ok(None);
    }
    if magic != MAGIC {
        return Err(malformed("magic"));
    }
    let descriptor = *input;
    let [flags, block_size] = *input.take(2).map_err(header)? else { return Ok(None) };
    // Version 1; no reserved bit; no dictionary.
    if flags & 0b1100_0011 != 0b0100_0000 {
        return Err(malformed("flags"));
    }
    let block_bytes_max = match block_size {
        0x40 => 64 * 1024,
        0x50 => 256 * 1024,
        0x60 => 1024 * 1024,
        0x70 => 4 * 1024 * 1024,
        _ => return Err(malformed("block size limit")),
    };
    let has_content_size = flags & 0b1000 != 0;
    let content_bytes = has_content_size.then(|| u64_le(input)).transpose().map_err(header)?;
    let covered = input.position() - descriptor.position();
    let computed = Xxh32::hash(descriptor.rest().get(..covered).unwrap_or_default()) >> 8 & 0xff;
    let at = input.position();
    let [stored] = *input.take(1).map_err(header)? else { return Ok(None) };
    if u32::from(stored) != computed {
        let (codec, what, stored) = (Codec::Lz4, "header checksum", u32::from(stored));
        return Err(DecompressError::Checksum { codec, at, what, stored, computed });
    }
    Ok(Some(Frame {
        blocks_linked: flags & 0b10_0000 == 0,
        block_checksum: flags & 0b1_0000 != 0,
        content_hash: (flags & 0b100 != 0).then(Xxh32::new),
        content_bytes,
        block_bytes_max,
        produced_bytes: 0,
    }))
}

/// One block.
#[derive(Debug)]
struct Block<'a> {
    input: Reader<'a>,
    /// Bytes the block may still produce.
    room: usize,
    literal_left: usize,
    match_left: usize,
    distance: usize,
    next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Token,
    /// The distance and the rest of the match length, whose low four bits the token held.
    Distance(u8),
    End,
}

impl<'a> Block<'a> {
    const fn compressed(input: Reader<'a>, room: usize) -> Self {
        Self { input, room, literal_left: 0, match_left: 0, distance: 0, next: Next::Token }
    }

    const fn stored(input: Reader<'a>) -> Self {
        let literal_left = input.remaining();
        Self { input, room: 0, literal_left, match_left: 0, distance: 0, next: Next::End }
    }

    fn is_done(&self) -> bool {
        self.next == Next::End && self.literal_left == 0
    }

    fn run(&mut self, window: &mut Window, want: usize) -> Result<usize, DecompressError> {
        let mut produced = 0;
        while produced < want {
            let room = want - produced;
            if self.literal_left > 0 {
                let count = self.literal_left.min(room);
                window.literal_head(self.input.rest(), count);
                self.input.take(count).map_err(|error| end_within("literals", error))?;
                self.literal_left -= count;
                produced += count;
            } else if self.match_left > 0 {
                let count = self.match_left.min(room);
                if !window.repeat(self.distance, count) {
                    return Err(self.malformed("distance"));
                }
                self.match_left -= count;
                produced += count;
            } else {
                match self.next {
                    Next::Token => self.token()?,
                    // A block ends after literals.
                    Next::Distance(_) if self.input.is_empty() => self.next = Next::End,
                    Next::Distance(low) => self.distance(low)?,
                    Next::End => break,
                }
            }
        }
        Ok(produced)
    }

    fn token(&mut self) -> Result<(), DecompressError> {
        let token = self.byte("token")?;
        self.literal_left = self.length(token >> 4)?;
        if self.literal_left > self.input.remaining() {
            return Err(self.malformed("literal length"));
        }
        self.next = Next::Distance(token & 0xf);
        Ok(())
    }

    fn distance(&mut self, low: u8) -> Result<(), DecompressError> {
        let distance = u16_le(&mut self.input).map_err(|error| end_within("distance", error))?;
        self.distance = usize::from(distance);
        self.room = self.room.checked_sub(4).ok_or(self.malformed("block size"))?;
        self.match_left = 4 + self.length(low)?;
        self.next = Next::Token;
        Ok(())
    }

    /// A length of which the token held four bits; it must fit the room, which it takes up.
    fn length(&mut self, low: u8) -> Result<usize, DecompressError> {
        let mut length = usize::from(low);
        let mut more = low == 0xf;
        while more {
            let byte = self.byte("length")?;
            length += usize::from(byte);
            more = byte == 0xff && length <= self.room;
        }
        self.room = self.room.checked_sub(length).ok_or(self.malformed("block size"))?;
        Ok(length)
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, DecompressError> {
        self.input.i8().map(i8::cast_unsigned).map_err(|error| end_within(what, error))
    }

    fn malformed(&self, what: &'static str) -> DecompressError {
        DecompressError::malformed(Codec::Lz4, self.input.position(), what)
    }
}

fn end_within(what: &'static str, error: DecodeError) -> DecompressError {
    DecompressError::from_decode(Codec::Lz4, what, error)
}
