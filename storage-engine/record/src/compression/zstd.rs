//! Zstandard frames back to back.
//!
//! Owns the use of zstd's streaming decoder; the format is zstd's. One call may decode a block of up to 128 KiB: that
//! is the format's own grain.

use zstd_safe::{DCtx, DParameter, ErrorCode, InBuffer, OutBuffer, ResetDirective};

use super::decoder::Progress;
use super::window::Window;
use super::{Codec, DecompressError};

/// 128 MiB, zstd's own default: the Java client writes it into every frame at its highest levels, however short the
/// content. The decoder asks for that much address space and touches it as output is produced, which a few bytes of
/// input can make it do: whoever decodes for strangers allows few such frames at a time.
const LARGE_WINDOW_LOG: u32 = 27;
/// 8 MiB, what level 19 uses: the highest that needs no `--ultra`.
const ORDINARY_WINDOW_LOG: u32 = 23;
/// What a decoder that was used for an ordinary frame may keep: its window and a few blocks.
const KEPT_BYTES_MAX: usize = 9 << 20;
/// `ZSTD_error_frameParameter_windowTooLarge`, one of the numbers that zstd keeps stable.
const WINDOW_TOO_LARGE: usize = 16;

/// How much of its past output a frame may refer to, which the decoder has to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Windows {
    /// Up to 8 MiB.
    #[default]
    Ordinary,
    /// Up to 128 MiB.
    Large,
}

impl Windows {
    const fn log_max(self) -> u32 {
        match self {
            Self::Ordinary => ORDINARY_WINDOW_LOG,
            Self::Large => LARGE_WINDOW_LOG,
        }
    }
}

/// Whether a decoder's memory is worth keeping for the next frame.
pub(super) fn is_ordinary(context: &DCtx<'static>) -> bool {
    context.sizeof() <= KEPT_BYTES_MAX
}

#[derive(Debug)]
pub(super) struct Zstd<'a> {
    input: &'a [u8],
    position: usize,
    /// Whether the last call ended a frame; true before the first frame too.
    between_frames: bool,
    windows: Windows,
}

impl<'a> Zstd<'a> {
    pub(super) fn new(
        input: &'a [u8],
        context: &mut DCtx<'static>,
        windows: Windows,
    ) -> Result<Self, DecompressError> {
        let refused = |_| DecompressError::malformed(Codec::Zstd, 0, "decoder state");
        context.reset(ResetDirective::SessionAndParameters).map_err(refused)?;
        context.set_parameter(DParameter::WindowLogMax(windows.log_max())).map_err(refused)?;
        Ok(Self { input, position: 0, between_frames: true, windows })
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
        let hint = hint.map_err(|code| self.refusal(code, at))?;
        window.advance(produced);
        self.between_frames = hint == 0;
        if consumed == 0 && produced == 0 && !self.between_frames {
            return Err(DecompressError::truncated(Codec::Zstd, at, "frame"));
        }
        Ok(Progress::Produced(produced))
    }

    fn refusal(&self, code: ErrorCode, at: usize) -> DecompressError {
        if self.windows == Windows::Ordinary && code.wrapping_neg() == WINDOW_TOO_LARGE {
            return DecompressError::LargeWindow { codec: Codec::Zstd, at };
        }
        DecompressError::malformed(Codec::Zstd, at, "frame")
    }
}
