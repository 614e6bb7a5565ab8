//! Record batch v2 as a bounded view.
//!
//! Owns the 61-byte header, the view of one whole batch, the two fields a broker may patch, and the walk over batches
//! that lie back to back. It never looks into records (see [`crate::validate`]) and never allocates.
//!
//! ```text
//!    0            8          12          16      17      21           23                   27
//!    ├─base_offset─┼──length──┼leader_epoch┼─magic─┼──crc──┼─attributes─┼─last_offset_delta──┼─base_timestamp─ …
//!   27              35             43            51              53               57               61
//!  … ─base_timestamp─┼max_timestamp─┼─producer_id─┼producer_epoch─┼─base_sequence──┼─records_count──┼─records … end
//!
//!    length         counts the bytes after itself, so a batch takes 12 + length
//!    crc            CRC-32C of bytes 21..end: base_offset and leader_epoch are patched without touching it (RB-1)
//! ```

mod header;
mod walk;

pub use header::{Attributes, BatchError, BatchHeader, TimestampType, UnknownCodec};
pub use walk::{Batches, Found, first_batch};

use crate::crc::crc32c;
use crate::{LeaderEpoch, Offset};

/// Bytes of a batch header.
pub const HEADER_BYTES: usize = 61;
/// Bytes before and including the `length` field, which it does not count.
pub const LENGTH_END: usize = 12;
/// Where the bytes that the checksum covers start.
pub const CRC_REGION_START: usize = 21;
/// The only format there is: 0 and 1 went with Kafka 4.
pub const MAGIC: i8 = 2;

const _: () = assert!(CRC_REGION_START < HEADER_BYTES);

/// One whole batch: its parsed header and its bytes.
#[derive(Debug, Clone, Copy)]
pub struct BatchView<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// A view of the batch that fills `bytes` from the first to the last.
    ///
    /// Errors  those of [`BatchHeader::parse`]; `Truncated` where the batch claims more bytes, `Trailing` where fewer.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let (view, rest) = Self::split_first(bytes)?;
        if rest.is_empty() {
            return Ok(view);
        }
        Err(BatchError::Trailing { batch_bytes: view.bytes.len(), left: rest.len() })
    }

    /// A view of the batch at the start of `bytes`, and what follows it.
    pub fn split_first(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), BatchError> {
        let header = BatchHeader::parse(bytes)?;
        let needed = header.total_bytes();
        match bytes.split_at_checked(needed) {
            Some((bytes, rest)) => Ok((Self { header, bytes }, rest)),
            None => Err(BatchError::Truncated { needed, left: bytes.len() }),
        }
    }

    /// Its header.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch, header included, exactly as it came.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes after the header: records, compressed where the attributes say so.
    #[must_use]
    pub fn record_bytes(&self) -> &'a [u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// The checksum the bytes have.
    #[must_use]
    pub fn computed_crc(&self) -> u32 {
        crc_of(self.bytes)
    }

    /// Compares the checksum of the bytes with the header's.
    pub fn verify_crc(&self) -> Result<(), BatchError> {
        let (header, computed) = (self.header.crc, self.computed_crc());
        if header == computed { Ok(()) } else { Err(BatchError::Crc { header, computed }) }
    }
}

/// The checksum of the whole batch in `batch`; of nothing if it is shorter than the region's start.
#[inline]
#[must_use]
pub fn crc_of(batch: &[u8]) -> u32 {
    crc32c(batch.get(CRC_REGION_START..).unwrap_or_default())
}

/// Writes where the batch lies and who leads into its first 16 bytes; the checksum stays as it is (RB-1, RB-7).
///
/// Panics if `batch` is shorter than a header: the caller parsed it before.
pub fn assign(batch: &mut [u8], base_offset: Offset, leader_epoch: LeaderEpoch) {
    assert!(batch.len() >= HEADER_BYTES);
    batch[..8].copy_from_slice(&base_offset.0.to_be_bytes());
    batch[LENGTH_END..16].copy_from_slice(&leader_epoch.0.to_be_bytes());
}

#[cfg(test)]
mod tests;
