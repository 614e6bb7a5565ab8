//! Zstandard frames back to back.
//!
//! Owns the use of zstd's streaming decoder; the format is zstd's. One call may decode a block of up to 128 KiB: that
//! is the format's own grain.

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::decoder::Progress;
use super::window::Window;
use super::{Codec, DecompressError};

/// 128 MiB, zstd's own default: the Java client writes it into every frame at its highest levels, however short the
/// content. The decoder asks for that much address space; memory is touched as output is really produced, which the
/// output bound limits.
const WINDOW_LOG_MAX: u32 = 27;

#[derive(Debug)]
pub(super) struct Zstd<'a> {
    input: &'a [u8],
    position: usize,
    /// Whether the last call ended a frame; true before the first frame too.
    between_frames: bool,
}

impl<'a> Zstd<'a> {
    pub(super) fn new(
        input: &'a [u8],
        context: &mut DCtx<'static>,
    ) -> Result<Self, DecompressError> {
        let refused = |_| DecompressError::malformed(Codec::Zstd, 0, "decoder state");
        context.reset(ResetDirective::SessionAndParameters).map_err(refused)?;
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(refused)?;
        Ok(Self { input, position: 0, between_frames: true })
    }

    pub(super) fn produce(
        &mut self,
        context: &mut DCtx<'static>,
        window: &mut Window,
        want: usize,
    ) -> Result<Progress, DecompressError> {
        if self.between_frames && self.position == self.input.len() {
            return Ok(Progress::End);
        }
        let mut input = InBuffer::around(self.input);
        input.set_pos(self.position);
        let mut output = OutBuffer::around(window.room(want));
        let hint = context.decompress_stream(&mut output, &mut input);
        let (consumed, produced) = (input.pos() - self.position, output.pos());
        self.position = input.pos();
        let at = self.position;
        let hint = hint.map_err(|_| DecompressError::malformed(Codec::Zstd, at, "frame"))?;
        window.advance(produced);
        self.between_frames = hint == 0;
        if consumed == 0 && produced == 0 && !self.between_frames {
            return Err(DecompressError::truncated(Codec::Zstd, at, "frame"));
        }
        Ok(Progress::Produced(produced))
    }
}
