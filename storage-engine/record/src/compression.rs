//! The compression codecs of a batch.
//!
//! Owns [`Codec`] and its names.

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
