//! The batches that a run replays: encoded once, before any clock runs.
//!
//! Owns the drawing of records and the facts of each batch that the audit compares. The same workload gives the same bytes.

use record::{BatchBuilder, BatchHeader, NewRecord, Timestamp};

use crate::chance::Chance;
use crate::workload::{Payload, Workload};

/// Bytes of a key.
const KEY_BYTES: usize = 16;
/// What a record takes beside key and value at most: lengths, deltas, counts.
const RECORD_OVERHEAD_MAX: usize = 24;
/// Words to choose from.
const WORD_COUNT: u32 = 256;
const WORD_BYTES_MIN: u32 = 3;
const WORD_BYTES_MAX: u32 = 10;

/// One batch and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// The batch as a producer sends it: base offset 0.
    pub(crate) bytes: Vec<u8>,
    /// Its checksum, which no broker changes (RB-1).
    pub(crate) crc: u32,
    /// What its records carry: a topic that stamps batches itself puts another time in its place.
    pub(crate) timestamp: Timestamp,
    /// How many records.
    pub(crate) records: u32,
    /// Bytes of the batch before compression.
    pub(crate) plain_bytes: u64,
}

/// Makes the batches of a workload, which must have passed its check; records carry `timestamp`.
pub(crate) fn build(workload: &Workload, timestamp: Timestamp) -> Vec<Template> {
    let mut chance = Chance::new(workload.seed);
    let words = words(&mut chance);
    let mut value = Vec::new();
    let mut one = || template(workload, timestamp, &mut chance, &words, &mut value);
    (0..workload.template_count()).map(|_| one()).collect()
}

fn template(
    workload: &Workload,
    timestamp: Timestamp,
    chance: &mut Chance,
    words: &[Vec<u8>],
    value: &mut Vec<u8>,
) -> Template {
    let mut builder = BatchBuilder::new(workload.compression);
    let batch_bytes = workload.batch_bytes as usize;
    let most = i32::try_from(workload.batch_records_max).unwrap_or(i32::MAX);
    while builder.records_count() < most {
        let bytes = workload.record_size.draw(chance);
        let key = key(workload.keys, chance);
        let needed = bytes + key.map_or(0, |key| key.len()) + RECORD_OVERHEAD_MAX;
        if builder.records_count() > 0 && builder.plain_bytes() + needed > batch_bytes {
            break;
        }
        fill(value, bytes, workload.payload, chance, words);
        let key = key.as_ref().map(<[u8; KEY_BYTES]>::as_slice);
        builder.append(&NewRecord { timestamp, key, value: Some(value), headers: &[] });
    }
    let bytes = builder.build();
    let header = BatchHeader::parse(&bytes).expect("the builder makes batches");
    Template {
        crc: header.crc,
        timestamp,
        records: header.records_count.unsigned_abs(),
        plain_bytes: builder.plain_bytes() as u64,
        bytes,
    }
}

/// One of so many keys; none of none.
fn key(count: u32, chance: &mut Chance) -> Option<[u8; KEY_BYTES]> {
    if count == 0 {
        return None;
    }
    let text = format!("key-{:012}", chance.below(count));
    text.as_bytes().try_into().ok()
}

fn words(chance: &mut Chance) -> Vec<Vec<u8>> {
    let letter = |chance: &mut Chance| b'a' + u8::try_from(chance.below(26)).unwrap_or(0);
    let word = |chance: &mut Chance| {
        let bytes = chance.between(WORD_BYTES_MIN, WORD_BYTES_MAX);
        (0..bytes).map(|_| letter(chance)).collect()
    };
    (0..WORD_COUNT).map(|_| word(chance)).collect()
}

fn fill(
    value: &mut Vec<u8>,
    bytes: usize,
    payload: Payload,
    chance: &mut Chance,
    words: &[Vec<u8>],
) {
    value.clear();
    match payload {
        Payload::Random => {
            value.resize(bytes, 0);
            chance.fill(value);
        }
        Payload::Words => {
            while value.len() < bytes {
                let word = words.get(chance.below(WORD_COUNT) as usize);
                value.extend(word.into_iter().flatten());
                value.push(b' ');
            }
            value.truncate(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use record::{BatchView, Codec, Workspace, decompress};

    use super::*;
    use crate::size::RecordSize;

    fn built(change: impl FnOnce(&mut Workload)) -> Vec<Template> {
        let mut workload = Workload { templates: Some(5), ..Workload::default() };
        workload.batch_bytes = 65_536;
        change(&mut workload);
        workload.check().unwrap();
        build(&workload, Timestamp(1_700_000_000_000))
    }

    #[test]
    fn batches_are_valid_distinct_and_the_same_for_the_same_seed() {
        let templates = built(|_| {});
        for template in &templates {
            let view = BatchView::parse(&template.bytes).unwrap();
            view.verify_crc().unwrap();
            assert_eq!(view.header().crc, template.crc);
            assert_eq!(view.header().max_timestamp.0, 1_700_000_000_000);
            // As many records of 1,024 bytes as 64 KiB hold.
            assert_eq!(template.records, 63);
            assert!(template.bytes.len() <= 65_536);
        }
        let crcs: BTreeSet<u32> = templates.iter().map(|template| template.crc).collect();
        assert_eq!(crcs.len(), 5);
        let again = built(|_| {});
        assert!(templates.iter().zip(&again).all(|(one, other)| one.bytes == other.bytes));
        assert_ne!(built(|w| w.seed = 2)[0].bytes, templates[0].bytes);
    }

    #[test]
    fn a_batch_holds_one_record_at_least_and_no_more_than_was_asked() {
        let records = |change: fn(&mut Workload)| built(change)[0].records;
        assert_eq!(records(|w| w.batch_bytes = 1), 1);
        assert_eq!(records(|w| w.batch_records_max = 10), 10);
        assert_eq!(records(|w| w.record_size = RecordSize::Fixed { bytes: 100_000 }), 1);
    }

    #[test]
    fn every_codec_gives_batches_that_decompress_to_what_was_drawn() {
        for codec in Codec::ALL {
            let templates = built(|w| {
                w.compression = codec;
                w.payload = Payload::Words;
            });
            let view = BatchView::parse(&templates[0].bytes).unwrap();
            view.verify_crc().unwrap();
            assert_eq!(view.header().codec(), Ok(codec));
            let is_smaller = (templates[0].bytes.len() as u64) < templates[0].plain_bytes * 2 / 3;
            assert_eq!(is_smaller, codec != Codec::None, "{codec}");
            let mut workspace = Workspace::default();
            let plain = decompress(codec, view.record_bytes(), 1 << 20, &mut workspace).unwrap();
            assert_eq!(plain.len() + 61, usize::try_from(templates[0].plain_bytes).unwrap());
        }
    }

    #[test]
    fn keys_are_drawn_from_as_many_as_were_asked() {
        let keys = |count| {
            let mut chance = Chance::new(3);
            let drawn = (0..1_000).filter_map(|_| key(count, &mut chance));
            drawn.collect::<BTreeSet<_>>().len()
        };
        assert_eq!([0, 1, 50].map(keys), [0, 1, 50]);
        let text = key(1, &mut Chance::new(1)).unwrap();
        assert_eq!(&text, b"key-000000000000");
        assert_ne!(built(|w| w.keys = 5)[0].bytes, built(|_| {})[0].bytes);
    }
}
