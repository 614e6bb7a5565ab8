//! One decoder over all codecs, behind a bound on its output.
//!
//! Owns [`Workspace`], the memory that decoding needs and that a core keeps between batches, and [`Decoder`], which
//! fills it a little at a time. It holds no more of the output than the format's history and one chunk.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use flate2::Decompress;
use zstd_safe::DCtx;

use super::gzip::Gzip;
use super::lz4::{self, Lz4};
use super::snappy::{self, Snappy};
use super::window::Window;
use super::zstd::{self, Windows, Zstd};
use super::{Codec, DecompressError};
use crate::codec::{DecodeError, Reader};

/// Output asked for in one go where nobody waits.
const CHUNK_BYTES: usize = 64 * 1024;

/// The memory a decoder works in: a window and, once used, the state of the foreign decoders: about 160 KiB, and what zstd's
/// frames ask for on top, see [`Windows`].
///
/// Keep one for each batch that is decoded at the same time; any codec may use it next.
#[derive(Default)]
pub struct Workspace {
    pub(crate) window: Window,
    inflate: Option<Box<Decompress>>,
    zstd: Option<DCtx<'static>>,
    windows: Windows,
}

impl Workspace {
    /// A workspace that holds no memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Which frames the next decoder takes.
    pub fn allow(&mut self, windows: Windows) {
        self.windows = windows;
    }

    /// Gives back what only large windows needed, and allows none: before it is kept for whatever comes next.
    pub fn shed(&mut self) {
        self.windows = Windows::Ordinary;
        self.zstd = self.zstd.take().filter(zstd::is_ordinary);
    }

    /// Bytes that zstd's decoder holds.
    #[cfg(test)]
    pub(crate) fn zstd_bytes(&self) -> usize {
        self.zstd.as_ref().map_or(0, DCtx::sizeof)
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Workspace").field("window", &self.window).finish_non_exhaustive()
    }
}

/// What one call of [`Decoder::produce`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// So many bytes were added to the window: perhaps none, while headers are read.
    Produced(usize),
    /// The input has ended where the format allows it.
    End,
}

/// A decoder in the middle of its input.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    codec: Codec,
    stream: Stream<'a>,
    output_bytes: usize,
    output_bytes_max: usize,
}

#[derive(Debug)]
enum Stream<'a> {
    Plain(&'a [u8]),
    Gzip(Gzip<'a>),
    Snappy(Snappy<'a>),
    Lz4(Lz4<'a>),
    Zstd(Zstd<'a>),
}

impl<'a> Decoder<'a> {
    /// Starts on `input`; the workspace is this decoder's until its end.
    pub(crate) fn new(
        codec: Codec,
        input: &'a [u8],
        output_bytes_max: usize,
        workspace: &mut Workspace,
    ) -> Result<Self, DecompressError> {
        workspace.window.reset(match codec {
            Codec::None | Codec::Gzip | Codec::Zstd => 0,
            Codec::Snappy => snappy::HISTORY_BYTES,
            Codec::Lz4 => lz4::HISTORY_BYTES,
        });
        let stream = match codec {
            Codec::None => Stream::Plain(input),
            Codec::Gzip => Stream::Gzip(Gzip::new(input)),
            Codec::Snappy => Stream::Snappy(Snappy::new(input)),
            Codec::Lz4 => Stream::Lz4(Lz4::new(input)),
            Codec::Zstd => {
                let context = workspace.zstd.get_or_insert_with(DCtx::create);
                Stream::Zstd(Zstd::new(input, context, workspace.windows)?)
            }
        };
        Ok(Self { codec, stream, output_bytes: 0, output_bytes_max })
    }

    /// Adds at most `want` bytes to the window.
    ///
    /// Order   each call consumes input, produces output, fails, or says `End`, so a loop over it ends.
    pub(crate) fn produce(
        &mut self,
        workspace: &mut Workspace,
        want: usize,
    ) -> Result<Progress, DecompressError> {
        // One byte beyond the bound is enough to know.
        let left = self.output_bytes_max - self.output_bytes;
        let want = want.clamp(1, left.saturating_add(1));
        let Workspace { window, inflate, zstd, .. } = workspace;
        let progress = match &mut self.stream {
            Stream::Plain([]) => Progress::End,
            Stream::Plain(rest) => {
                let (head, tail) = rest.split_at(want.min(rest.len()));
                window.literal(head);
                *rest = tail;
                Progress::Produced(head.len())
            }
            Stream::Gzip(gzip) => {
                let inflate = inflate.get_or_insert_with(|| Box::new(Decompress::new(false)));
                gzip.produce(inflate, window, want)?
            }
            Stream::Snappy(snappy) => snappy.produce(window, want)?,
            Stream::Lz4(lz4) => lz4.produce(window, want)?,
            Stream::Zstd(zstd_stream) => {
                zstd_stream.produce(zstd.get_or_insert_with(DCtx::create), window, want)?
            }
        };
        if let Progress::Produced(bytes) = progress {
            self.output_bytes += bytes;
            if self.output_bytes > self.output_bytes_max {
                let (codec, output_bytes_max) = (self.codec, self.output_bytes_max);
                return Err(DecompressError::OutputBound { codec, output_bytes_max });
            }
        }
        Ok(progress)
    }
}

/// Decompresses all of `input` at once, for tools: any frame is taken, whatever its window.
///
/// Units   `output_bytes_max` bounds the output; memory follows what is really produced.
/// Errors  `OutputBound` beyond it; the others where `input` is not what the codec says.
pub fn decompress(
    codec: Codec,
    input: &[u8],
    output_bytes_max: usize,
    workspace: &mut Workspace,
) -> Result<Vec<u8>, DecompressError> {
    workspace.allow(Windows::Large);
    let decoded = decompress_all(codec, input, output_bytes_max, workspace);
    workspace.shed();
    workspace.window.reset(0);
    decoded
}

fn decompress_all(
    codec: Codec,
    input: &[u8],
    output_bytes_max: usize,
    workspace: &mut Workspace,
) -> Result<Vec<u8>, DecompressError> {
    let mut decoder = Decoder::new(codec, input, output_bytes_max, workspace)?;
    let mut output = Vec::new();
    while let Progress::Produced(bytes) = decoder.produce(workspace, CHUNK_BYTES)? {
        output.extend_from_slice(workspace.window.unread());
        workspace.window.consume(bytes);
    }
    Ok(output)
}

pub(super) fn u16_le(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    reader.u16().map(u16::swap_bytes)
}

pub(super) fn u32_le(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    reader.u32().map(u32::swap_bytes)
}

pub(super) fn u64_le(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    reader.i64().map(|value| value.cast_unsigned().swap_bytes())
}
