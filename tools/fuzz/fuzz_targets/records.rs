//! Any bytes as the records of a producer's batch, under a right header and checksum.
//!
//! Input: codec, count of records (u16), budget of a step (u8), then the record bytes, compressed as the codec says.
//! Holds: the streaming validator accepts exactly what the plain reader of decompressed bytes accepts, whatever the
//! budget, and says how many bytes that was.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use record::batch::{Attributes, HEADER_BYTES, LENGTH_END, crc_of};
use record::{
    BatchBuilder, BatchHeader, BatchRefusal, Codec, DecompressError, NewRecord, NullKeys, Records,
    Step, Summary, Timestamp, ValidateOptions, Validator, Windows, Workspace, decompress,
};

const OUTPUT_BYTES_MAX: usize = 1 << 20;
const OPTIONS: ValidateOptions = ValidateOptions {
    batch_bytes_max: 1 << 20,
    output_bytes_max: OUTPUT_BYTES_MAX,
    timestamp_min: Timestamp(i64::MIN),
    timestamp_max: Timestamp(i64::MAX),
    null_keys: NullKeys::Allow,
};

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

fn wrap(codec: Codec, records_count: i32, records: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.append(&NewRecord::default());
    let header = BatchHeader {
        attributes: Attributes(0).with_codec(codec),
        length: (HEADER_BYTES - LENGTH_END + records.len()) as i32,
        last_offset_delta: records_count - 1,
        records_count,
        ..BatchHeader::parse(&builder.build()).expect("it was just built")
    };
    let mut batch = header.encode().to_vec();
    batch.extend_from_slice(records);
    let crc = crc_of(&batch);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

fn validate_once(
    batch: &[u8],
    budget_ns: u32,
    workspace: &mut Workspace,
) -> Result<Summary, BatchRefusal> {
    let mut validator = Validator::new(batch, &OPTIONS, workspace)?;
    loop {
        if let Step::Done(summary) = validator.step(budget_ns)? {
            return Ok(summary);
        }
    }
}

/// As a broker does it: frames with large windows are taken at a second attempt, when they are allowed.
fn validate(
    batch: &[u8],
    budget_ns: u32,
    workspace: &mut Workspace,
) -> Result<Summary, BatchRefusal> {
    let mut outcome = validate_once(batch, budget_ns, workspace);
    if let Err(BatchRefusal::Data(DecompressError::LargeWindow { codec, .. })) = outcome {
        assert_eq!(codec, Codec::Zstd);
        workspace.allow(Windows::Large);
        outcome = validate_once(batch, budget_ns, workspace);
        workspace.shed();
        let again = matches!(outcome, Err(BatchRefusal::Data(DecompressError::LargeWindow { .. })));
        assert!(!again, "a large window was allowed");
    }
    outcome
}

/// The number of decompressed bytes, if they are exactly these records.
fn oracle(
    codec: Codec,
    header: &BatchHeader,
    records: &[u8],
    workspace: &mut Workspace,
) -> Option<u64> {
    let plain = decompress(codec, records, OUTPUT_BYTES_MAX, workspace).ok()?;
    let mut found = Records::new(header, &plain).zip(0..);
    found
        .all(|(record, index)| record.is_ok_and(|record| record.offset_delta == index))
        .then_some(plain.len() as u64)
}

fuzz_target!(|data: &[u8]| {
    let Some(([codec, high, low, budget], records)) = data.split_first_chunk::<4>() else { return };
    let codec = Codec::ALL[usize::from(*codec) % Codec::ALL.len()];
    let records_count = i32::from(u16::from_be_bytes([*high, *low])).max(1);
    let batch = wrap(codec, records_count, records);
    let header = BatchHeader::parse(&batch).expect("it was just made");
    let budget_ns = (u32::from(*budget) + 1) * 64;
    // One workspace for all runs: what an earlier batch left in it must not matter.
    let (expected, accepted) = WORKSPACE.with_borrow_mut(|workspace| {
        let expected = oracle(codec, &header, records, workspace);
        let summary = validate(&batch, budget_ns, workspace).ok();
        (expected, summary.map(|summary| summary.record_bytes))
    });
    // Uncompressed records lie in the batch already: there the output bound does not apply.
    if codec != Codec::None || records.len() <= OUTPUT_BYTES_MAX {
        assert_eq!(accepted, expected);
    }
});
