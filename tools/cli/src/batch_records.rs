//! The records of one batch as plain bytes, whatever they are compressed with.
//!
//! Owns the bound on what a batch may become, and the memory that decoders work in.

use std::borrow::Cow;

use record::{BatchView, Codec, Workspace, decompress};

/// The most that one batch may become: far above what `max.message.bytes` lets in, far below the memory of a machine.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 29;

/// Decompresses batches, one after another.
#[derive(Debug, Default)]
pub(crate) struct BatchRecords {
    workspace: Workspace,
}

impl BatchRecords {
    /// The record bytes of `batch`; they are borrowed where nothing is compressed. The error is for people.
    pub(crate) fn bytes_of<'a>(&mut self, batch: &BatchView<'a>) -> Result<Cow<'a, [u8]>, String> {
        let codec = batch.header().attributes.codec().map_err(|error| error.to_string())?;
        if codec == Codec::None {
            return Ok(batch.record_bytes().into());
        }
        decompress(codec, batch.record_bytes(), DECOMPRESSED_BYTES_MAX, &mut self.workspace)
            .map(Into::into)
            .map_err(|error| error.to_string())
    }
}
