//! The compression codecs of a batch.
//!
//! Owns [`Codec`], the bounded decoders and the encoders. A decoder hands out a little at a time, keeps no more history
//! than its format may refer to, stops at a bound on its output, and never allocates by what a header claims: memory
//! follows the bytes really produced. What the formats are is said in each decoder's file.

mod decoder;
mod encoder;
mod gzip;
mod lz4;
mod snappy;
mod window;
mod xxh32;
mod zstd;

use core::fmt;

pub(crate) use decoder::{Decoder, Progress};
pub use decoder::{Workspace, decompress};
pub use encoder::compress;
pub use zstd::Windows;

use crate::codec::DecodeError;

/// The most bytes that the records of one batch may become, by any option: Kafka's largest value of
/// `max.decompressed.message.bytes`. What reads batches that are held must get through as many.
pub const DECOMPRESSED_BYTES_MAX: u32 = 2_147_483_639;

/// How the records of a batch are compressed; the value is the attribute bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Codec {
    /// Not at all.
    #[default]
    None = 0,
    /// RFC 1952.
    Gzip = 1,
    /// Snappy, raw or in the framing of the Java client (xerial).
    Snappy = 2,
    /// The LZ4 frame format.
    Lz4 = 3,
    /// Zstandard frames.
    Zstd = 4,
}

impl Codec {
    /// Every codec, in the order of its bits.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Its name, as configs and tools write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Why compressed bytes were refused. Positions count compressed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The bytes end before the format does.
    #[error("{codec} data ends at byte {at}, within the {what}")]
    Truncated {
        /// The format.
        codec: Codec,
        /// Where the bytes end.
        at: usize,
        /// What they end in.
        what: &'static str,
    },
    /// Bytes that the format does not allow, or that use what Kafka's clients never do (dictionaries).
    #[error("{codec} data at byte {at}: bad {what}")]
    Malformed {
        /// The format.
        codec: Codec,
        /// Where they lie, or where decoding stood.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A checksum of the format itself that does not match.
    #[error("{codec} data at byte {at}: {what} {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// The format.
        codec: Codec,
        /// Where the stored one lies.
        at: usize,
        /// Which one.
        what: &'static str,
        /// The one stored.
        stored: u32,
        /// The one of the bytes.
        computed: u32,
    },
    /// Decoding needs a window of more than 8 MiB, and that was not allowed. Nothing is wrong with the data as far as it was read:
    /// it may be tried again with [`Windows::Large`].
    #[error("{codec} data at byte {at}: a frame needs a window of more than 8 MiB")]
    LargeWindow {
        /// The format.
        codec: Codec,
        /// Where decoding stood.
        at: usize,
    },
    /// More output than the bound allows.
    #[error("{codec} data expands beyond {output_bytes_max} bytes")]
    OutputBound {
        /// The format.
        codec: Codec,
        /// The bound.
        output_bytes_max: usize,
    },
}

impl DecompressError {
    const fn truncated(codec: Codec, at: usize, what: &'static str) -> Self {
        Self::Truncated { codec, at, what }
    }

    const fn malformed(codec: Codec, at: usize, what: &'static str) -> Self {
        Self::Malformed { codec, at, what }
    }

    /// What reading a format's own fields can meet: only their end.
    fn from_decode(codec: Codec, what: &'static str, error: DecodeError) -> Self {
        match error {
            DecodeError::Truncated { at, left, .. } => {
                Self::Truncated { codec, at: at + left, what }
            }
            DecodeError::Overlong { at, .. } => Self::Malformed { codec, at, what },
            _ => Self::Malformed { codec, at: 0, what },
        }
    }
}

#[cfg(test)]
mod tests;
