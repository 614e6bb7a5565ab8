//! CRC-32C, the checksum of a batch.
//!
//! Owns the one place that names the checksum's crate. Nothing here allocates; whole slices take the direct path,
//! pieces go through [`Crc`].

use crc_fast::{CrcAlgorithm, Digest};

use crate::batch::CRC_REGION_START;

/// CRC-32C of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C over bytes that arrive in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Crc {
    digest: Digest,
    /// Bytes still to pass by before the covered region starts.
    skip_bytes: usize,
}

impl Crc {
    /// Covers every byte.
    #[must_use]
    pub fn new() -> Self {
        Self { digest: Digest::new(CrcAlgorithm::Crc32Iscsi), skip_bytes: 0 }
    }

    /// Covers a batch that is fed from its first byte: the 21 bytes before the covered region pass by.
    #[must_use]
    pub fn of_batch() -> Self {
        Self { skip_bytes: CRC_REGION_START, ..Self::new() }
    }

    /// Takes in the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        let skipped = self.skip_bytes.min(piece.len());
        self.skip_bytes -= skipped;
        self.digest.update(piece.get(skipped..).unwrap_or_default());
    }

    /// The checksum of what was taken in.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the digest of a 32-bit checksum")]
    pub fn value(&self) -> u32 {
        self.digest.finalize() as u32
    }
}

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}
