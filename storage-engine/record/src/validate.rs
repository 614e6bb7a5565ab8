//! Judges a producer's batch before it is appended (RB-2 to RB-5, RB-9).
//!
//! Owns [`Validator`]: the checks of header, checksum, compression and every record, in steps that a caller can put
//! other work between. Record bytes are walked where they lie, or in the window of a decoder: the whole batch is never
//! held decompressed, nor is a single large record. It changes nothing and knows no error code.
//!
//! ```text
//!   new   one whole batch, magic 2 → base offset 0 → size          from the header alone, at once
//!   step  checksum → header (RB-4) → records, each in turn          until the budget is used up
//!   Done  what the append needs: the header, the true largest timestamp and the first offset that has it
//! ```

mod finder;
mod walker;

use alloc::vec::Vec;

use crate::batch::{BatchView, TimestampType, UnknownCodec, crc_of};
use crate::compression::{Decoder, Progress};
use crate::{
    BatchError, BatchHeader, Codec, Crc, DecompressError, RecordDefect, Timestamp, Workspace,
};
use walker::{Paused, Walker};

pub use finder::{FindError, FindStep, RecordFinder, Wanted, WantedTime};

/// How many faulty records are remembered; further ones only count.
pub const RECORD_FAULTS_MAX: usize = 32;

/// Bytes the checksum covers in a nanosecond: half of what crc-fast does on a slow machine.
const CRC_BYTES_PER_NS: u32 = 8;
/// Decompressed bytes asked for in one go.
const CHUNK_BYTES: u32 = 8 * 1024;
/// So that a small budget still makes progress.
const CHUNK_BYTES_MIN: u32 = 512;

/// What a batch is held against.
#[derive(Debug, Clone, Copy)]
pub struct ValidateOptions {
    /// Bytes of the whole batch as sent: `max.message.bytes`.
    pub batch_bytes_max: usize,
    /// Bytes its records may take decompressed.
    pub output_bytes_max: usize,
    /// Oldest create time allowed.
    pub timestamp_min: Timestamp,
    /// Newest create time allowed.
    pub timestamp_max: Timestamp,
    /// Whether a record may have no key.
    pub null_keys: NullKeys,
}

/// Whether a record may have no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullKeys {
    /// It may.
    Allow,
    /// It may not: the topic is compacted.
    Refuse,
}

/// Why a batch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchRefusal {
    /// The bytes are not exactly one batch; `BatchError::Crc` is a checksum that does not match.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A producer's batch starts at 0.
    #[error("base offset {base_offset} in a batch from a producer, must be 0")]
    BaseOffset {
        /// What the header says.
        base_offset: i64,
    },
    /// The batch is larger than the topic allows.
    #[error("batch of {batch_bytes} bytes, {batch_bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        batch_bytes: usize,
        /// The bound.
        batch_bytes_max: usize,
    },
    /// The header counts records and offsets differently, or no record at all.
    #[error("{records_count} records under last offset delta {last_offset_delta}")]
    Count {
        /// What the header says.
        records_count: i32,
        /// What the header says.
        last_offset_delta: i32,
    },
    /// Only brokers write markers.
    #[error("control batch from a producer")]
    Control,
    /// An idempotent batch without a sequence.
    #[error("producer id {producer_id} with base sequence {base_sequence}")]
    Sequence {
        /// What the header says.
        producer_id: i64,
        /// What the header says.
        base_sequence: i32,
    },
    /// Only brokers set append time.
    #[error("log append time in a batch from a producer")]
    TimestampType,
    /// Codec bits that name no codec.
    #[error(transparent)]
    Codec(#[from] UnknownCodec),
    /// The records cannot be decompressed; `DecompressError::OutputBound` is one that expands too far.
    #[error(transparent)]
    Data(#[from] DecompressError),
    /// A record whose bytes are not one.
    #[error("record {index}: {defect}")]
    Record {
        /// Its place in the batch.
        index: i32,
        /// What is wrong; positions count the decompressed record bytes.
        defect: RecordDefect,
    },
    /// Whole records that may not be appended.
    #[error("{} of the records may not be appended", faults.count)]
    Records {
        /// Which ones.
        faults: RecordFaults,
    },
}

/// The records of a batch that may not be appended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordFaults {
    /// The first of them, at most [`RECORD_FAULTS_MAX`].
    pub first: Vec<RecordFault>,
    /// How many there are.
    pub count: u32,
}

/// One record that may not be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordFault {
    /// Its place in the batch.
    pub index: i32,
    /// Why.
    pub kind: RecordFaultKind,
}

/// Why a whole record may not be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFaultKind {
    /// No key, in a compacted topic.
    NullKey,
    /// A create time outside the bounds.
    Timestamp(Timestamp),
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The budget is used up; step again.
    More,
    /// The batch may be appended.
    Done(Summary),
}

/// What the append needs to know of a batch that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Its header, as sent.
    pub header: BatchHeader,
    /// The largest timestamp of its records; where the header says another, append
    /// [`crate::with_timestamps`] instead (RB-5).
    pub max_timestamp: Timestamp,
    /// Offset delta of the first record that has it (LO-1).
    pub max_timestamp_offset_delta: i32,
    /// Bytes of the records, decompressed.
    pub record_bytes: u64,
}

impl Summary {
    /// Whether the header's largest timestamp is the true one, so that the bytes may be appended as they are.
    #[must_use]
    pub fn is_header_true(&self) -> bool {
        self.header.max_timestamp == self.max_timestamp
    }
}

/// A batch on its way through the checks.
#[derive(Debug)]
pub struct Validator<'a> {
    bytes: &'a [u8],
    header: BatchHeader,
    workspace: &'a mut Workspace,
    output_bytes_max: usize,
    stage: Stage<'a>,
    walker: Walker,
}

#[derive(Debug)]
enum Stage<'a> {
    /// Before the checksum, which most batches are small enough to have at once.
    Start,
    Crc {
        crc: Crc,
        rest: &'a [u8],
    },
    Plain {
        rest: &'a [u8],
    },
    Compressed {
        decoder: Decoder<'a>,
        ended: bool,
    },
    Done,
}

impl<'a> Validator<'a> {
    /// Starts on `bytes`, the records field of one partition of a Produce request.
    ///
    /// Order   the checks of RB-3 that need the header alone. A header that makes no sense is judged after the
    ///         checksum, since a flipped bit is the sender's to retry.
    pub fn new(
        bytes: &'a [u8],
        options: &ValidateOptions,
        workspace: &'a mut Workspace,
    ) -> Result<Self, BatchRefusal> {
        let header = BatchHeader::parse_unchecked(bytes)?;
        let batch_bytes = header.total_bytes();
        match bytes.len().checked_sub(batch_bytes) {
            Some(0) => {}
            Some(left) => return Err(BatchError::Trailing { batch_bytes, left }.into()),
            None => {
                return Err(BatchError::Truncated { needed: batch_bytes, left: bytes.len() }.into());
            }
        }
        let base_offset = header.base_offset.0;
        if base_offset != 0 {
            return Err(BatchRefusal::BaseOffset { base_offset });
        }
        let batch_bytes_max = options.batch_bytes_max;
        if batch_bytes > batch_bytes_max {
            return Err(BatchRefusal::TooLarge { batch_bytes, batch_bytes_max });
        }
        Ok(Self {
            bytes,
            header,
            workspace,
            output_bytes_max: options.output_bytes_max,
            stage: Stage::Start,
            walker: Walker::new(&header, options),
        })
    }

    /// Goes on for about `budget_ns` nanoseconds of work, as calibrated on a slow machine.
    ///
    /// Units   a zstd block is decoded in one piece: up to 128 KiB whatever the budget.
    /// Order   call until it says anything but `More`; panics after that.
    pub fn step(&mut self, budget_ns: u32) -> Result<Step, BatchRefusal> {
        let mut budget = Budget { ns_left: budget_ns.max(1) };
        while budget.ns_left > 0 {
            let next = match &mut self.stage {
                Stage::Start if budget.affordable_crc_bytes() >= self.bytes.len() => {
                    budget.crc_bytes(self.bytes.len());
                    Some(self.start_records(crc_of(self.bytes))?)
                }
                Stage::Start => Some(Stage::Crc { crc: Crc::of_batch(), rest: self.bytes }),
                Stage::Crc { crc, rest } => {
                    let count = budget.crc_bytes(rest.len());
                    let (head, tail) = rest.split_at(count);
                    crc.update(head);
                    *rest = tail;
                    let computed = crc.value();
                    if tail.is_empty() { Some(self.start_records(computed)?) } else { None }
                }
                stage @ (Stage::Plain { .. } | Stage::Compressed { .. }) => {
                    let (walker, header) = (&mut self.walker, &self.header);
                    let paused = walk_records(stage, walker, header, self.workspace, &mut budget)?;
                    (paused == Paused::End).then_some(Stage::Done)
                }
                Stage::Done => panic!("step after the last one"),
            };
            match next {
                Some(Stage::Done) => {
                    self.stage = Stage::Done;
                    return self.walker.finish(&self.header).map(Step::Done);
                }
                Some(stage) => self.stage = stage,
                None => {}
            }
        }
        Ok(Step::More)
    }

    /// Goes on to the end in one piece, for tools and tests.
    pub fn run(mut self) -> Result<Summary, BatchRefusal> {
        loop {
            if let Step::Done(summary) = self.step(u32::MAX)? {
                return Ok(summary);
            }
        }
    }

    /// The checks that follow the checksum, and the place where the records are read.
    fn start_records(&mut self, computed: u32) -> Result<Stage<'a>, BatchRefusal> {
        let header = &self.header;
        if computed != header.crc {
            return Err(BatchError::Crc { header: header.crc, computed }.into());
        }
        check_client_header(header)?;
        let records = BatchView::parse(self.bytes)?.record_bytes();
        Ok(match header.codec()? {
            Codec::None => Stage::Plain { rest: records },
            codec => {
                let decoder = Decoder::new(codec, records, self.output_bytes_max, self.workspace)?;
                Stage::Compressed { decoder, ended: false }
            }
        })
    }
}

/// Walks on over records, where they lie or as they are decompressed. Panics before and after them.
fn walk_records(
    stage: &mut Stage<'_>,
    walker: &mut Walker,
    header: &BatchHeader,
    workspace: &mut Workspace,
    budget: &mut Budget,
) -> Result<Paused, BatchRefusal> {
    match stage {
        Stage::Plain { rest } => {
            let (consumed, paused) = walker.walk(rest, true, budget)?;
            *rest = rest.get(consumed..).unwrap_or_default();
            Ok(paused)
        }
        Stage::Compressed { decoder, ended } => {
            let unread = workspace.window.unread();
            let (consumed, paused) = walker.walk(unread, *ended, budget)?;
            workspace.window.consume(consumed);
            if paused == Paused::NeedsBytes {
                let codec = header.codec()?;
                let want = budget.output_bytes(codec);
                match decoder.produce(workspace, want)? {
                    Progress::Produced(bytes) => budget.charge_output(codec, bytes),
                    Progress::End => *ended = true,
                }
            }
            Ok(paused)
        }
        Stage::Start | Stage::Crc { .. } | Stage::Done => panic!("no records to walk over"),
    }
}

/// What the header of a producer's batch must say (RB-4).
fn check_client_header(header: &BatchHeader) -> Result<(), BatchRefusal> {
    header.check()?;
    let (records_count, last_offset_delta) = (header.records_count, header.last_offset_delta);
    if records_count - 1 != last_offset_delta {
        return Err(BatchRefusal::Count { records_count, last_offset_delta });
    }
    if header.is_control() {
        return Err(BatchRefusal::Control);
    }
    let (producer_id, base_sequence) = (header.producer_id.0, header.base_sequence);
    if producer_id >= 0 && base_sequence < 0 {
        return Err(BatchRefusal::Sequence { producer_id, base_sequence });
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return Err(BatchRefusal::TimestampType);
    }
    Ok(())
}

/// Work that a step may still do. The rates are those of a slow machine, so that a step rather ends early.
#[derive(Debug)]
struct Budget {
    ns_left: u32,
}

impl Budget {
    fn charge(&mut self, ns: u32) {
        self.ns_left = self.ns_left.saturating_sub(ns);
    }

    fn affordable_crc_bytes(&self) -> usize {
        self.ns_left.saturating_mul(CRC_BYTES_PER_NS).max(CHUNK_BYTES_MIN) as usize
    }

    /// How many of `left` bytes the checksum may cover now; charged at once.
    #[expect(clippy::cast_possible_truncation, reason = "at most what the budget affords")]
    fn crc_bytes(&mut self, left: usize) -> usize {
        let count = left.min(self.affordable_crc_bytes());
        self.charge(count as u32 / CRC_BYTES_PER_NS + 1);
        count
    }

    fn output_bytes(&self, codec: Codec) -> usize {
        (self.ns_left / output_byte_ns(codec)).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES) as usize
    }

    fn charge_output(&mut self, codec: Codec, bytes: usize) {
        // A call costs something even where it only reads a header.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.charge(bytes.saturating_mul(output_byte_ns(codec)).saturating_add(50));
    }
}

const fn output_byte_ns(codec: Codec) -> u32 {
    match codec {
        Codec::Gzip => 6,
        Codec::None | Codec::Snappy | Codec::Lz4 | Codec::Zstd => 2,
    }
}

#[cfg(test)]
mod tests;
