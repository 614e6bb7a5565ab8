//! Reading bodies: a bounded reader with a memory budget.
//!
//! Owns [`Decoder`] and [`BodyError`]. Nothing is allocated that the bytes at hand do not pay for: an array must fit the
//! bytes that remain, and all arrays of one body together stay within [`EXPANSION_MAX`] times its size. Of what a client
//! sends, they stay within [`REQUEST_ARRAYS_BYTES_MAX`] besides: every element costs the broker many times its own size.

use record::codec::{DecodeError, Reader};

use crate::api::{ApiKey, Versions};

/// How much memory a body may become, as a multiple of its size. 16: the densest honest message (an array of
/// one-letter names, 2 bytes each on the wire and 24 in memory) needs 12.
pub const EXPANSION_MAX: usize = 16;

/// Memory that the arrays of one request may take: a hundred thousand partitions or names, and some to spare.
pub const REQUEST_ARRAYS_BYTES_MAX: usize = 4 << 20;

/// Memory that the arrays of a Produce may take beside what it has bytes, up to [`REQUEST_ARRAYS_BYTES_MAX`] in all: each partition
/// comes with a batch, which is larger than its element in memory. A thousand partitions may come without.
pub const PRODUCE_ARRAYS_FLOOR_BYTES: usize = 64 << 10;

/// Memory that any body may take, so that tiny ones are not measured in fractions.
pub const EXPANSION_FLOOR_BYTES: usize = 4096;

/// The longest string, in compact form as in classic form (Kafka refuses more too, so that what was read can always be
/// written in any version).
pub const STRING_BYTES_MAX: usize = 0x7fff;

/// Why a body was refused. The connection is closed: its framing cannot be trusted any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The bytes are not what the version says.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// A string above [`STRING_BYTES_MAX`].
    #[error("string at byte {at}: {bytes} bytes, at most {STRING_BYTES_MAX}")]
    StringTooLong {
        /// Where its length starts.
        at: usize,
        /// Its length.
        bytes: usize,
    },
    /// Arrays that would take more memory than the body pays for.
    #[error("array at byte {at}: {bytes} bytes of memory, {left} left of the body's budget")]
    Expands {
        /// Where its elements start.
        at: usize,
        /// Memory it would take.
        bytes: usize,
        /// Memory that is left.
        left: usize,
    },
    /// A version outside the codec's range.
    #[error("{api} v{version}: the codec has {versions}")]
    Version {
        /// The API.
        api: ApiKey,
        /// The version asked for.
        version: i16,
        /// The versions there are.
        versions: Versions,
    },
}

pub(crate) type Result<T> = core::result::Result<T, BodyError>;

/// A [`Reader`] that also counts what the decoded value will occupy.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a> {
    /// The bytes.
    pub(crate) reader: Reader<'a>,
    /// Memory that arrays may still take.
    budget_bytes: usize,
}

impl<'a> Decoder<'a> {
    /// A decoder over one body.
    #[must_use]
    pub const fn new(body: &'a [u8]) -> Self {
        let budget_bytes =
            body.len().saturating_mul(EXPANSION_MAX).saturating_add(EXPANSION_FLOOR_BYTES);
        Self { reader: Reader::new(body), budget_bytes }
    }

    /// A decoder over the body of a request.
    #[must_use]
    pub const fn of_request(api: ApiKey, body: &'a [u8]) -> Self {
        let mut decoder = Self::new(body);
        let bytes_max = match api {
            ApiKey::Produce => body.len().saturating_add(PRODUCE_ARRAYS_FLOOR_BYTES),
            _ => REQUEST_ARRAYS_BYTES_MAX,
        };
        let bytes_max =
            if bytes_max < REQUEST_ARRAYS_BYTES_MAX { bytes_max } else { REQUEST_ARRAYS_BYTES_MAX };
        if decoder.budget_bytes > bytes_max {
            decoder.budget_bytes = bytes_max;
        }
        decoder
    }

    /// Refuses bytes left over.
    pub fn finish(&self) -> Result<()> {
        Ok(self.reader.finish()?)
    }

    /// Pays for `bytes` of memory that are about to be allocated.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        let at = self.reader.position();
        match self.budget_bytes.checked_sub(bytes) {
            Some(left) => {
                self.budget_bytes = left;
                Ok(())
            }
            None => Err(BodyError::Expands { at, bytes, left: self.budget_bytes }),
        }
    }

    /// Hands each tagged field to `field`, which says whether it read it; one that it knows must be read whole.
    pub(crate) fn tagged_fields(
        &mut self,
        mut field: impl FnMut(u32, &mut Self) -> Result<Tagged>,
    ) -> Result<()> {
        let budget_bytes = &mut self.budget_bytes;
        let mut refusal = Ok(());
        let section = self.reader.tagged_fields(|tag, content| {
            if refusal.is_err() {
                return Ok(());
            }
            let mut decoder = Self { reader: *content, budget_bytes: *budget_bytes };
            refusal = match field(tag, &mut decoder) {
                Ok(Tagged::Read) => decoder.finish(),
                Ok(Tagged::Unknown) => Ok(()),
                Err(error) => Err(error),
            };
            *budget_bytes = decoder.budget_bytes;
            Ok(())
        });
        refusal?;
        Ok(section?)
    }
}

/// What became of a tagged field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tagged {
    /// Decoded.
    Read,
    /// Of a later version: stepped over.
    Unknown,
}
