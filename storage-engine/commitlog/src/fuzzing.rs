//! The decoders of the small files, shown to the fuzz targets.
//!
//! Owns what must hold of any bytes: nothing panics, and what is read is written as the same again. Never part of a build that
//! is used: the feature `fuzzing` alone brings it in.

use record::Offset;

use crate::checkpoint;
use crate::directory;
use crate::index::SegmentIndex;
use crate::journal::entry;
use crate::producer_states;

/// Any bytes as each of the small files. A checksum would keep nearly all of them out: they are also tried with the right one.
pub fn decode_every_file(data: &[u8]) {
    check_checkpoint(data);
    let crc = crc32fast::hash(data);
    check_checkpoint(&[data, &crc.to_be_bytes()].concat());
    check_states(data);
    check_states(&[data, &crc.to_be_bytes()].concat());
    check_identity(data);
    let line = format!("corelog.crc32={crc:08x}\n");
    check_identity(&[data, line.as_bytes()].concat());
    if let Some(id) = directory::decode_topic_id(data) {
        let again = directory::encode_partition_metadata(id);
        assert_eq!(directory::decode_topic_id(&again), Some(id));
    }
    let (offsets, times) = data.split_at(data.len() / 2);
    for (offsets, times) in [(offsets, times), (data, &[][..]), (&[][..], data)] {
        let end = Offset(1 << 40);
        if let Ok(index) = SegmentIndex::decode(Offset(7), end, u64::MAX, offsets, times) {
            assert_eq!(index.encode_offsets(), offsets);
            assert_eq!(index.encode_times(), times);
        }
    }
}

fn check_checkpoint(bytes: &[u8]) {
    if let Ok(file) = checkpoint::decode(bytes) {
        assert_eq!(checkpoint::decode(&checkpoint::encode(&file)), Ok(file));
    }
}

fn check_states(bytes: &[u8]) {
    if let Some(states) = producer_states::decode(bytes) {
        let again = producer_states::encode(&states).expect("no larger than what was read");
        assert_eq!(producer_states::decode(&again), Some(states));
    }
}

fn check_identity(bytes: &[u8]) {
    if let Ok((ids, format)) = directory::decode_meta(bytes) {
        let again = directory::encode_meta(&ids, format);
        assert_eq!(directory::decode_meta(&again).ok(), Some((ids, format)));
    }
}

/// Any bytes as a journal's file header and as an entry set: what is read is written as the same again. A checksum would keep nearly all
/// sets out: they are also tried with the right one.
pub fn decode_journal(data: &[u8]) {
    if let Ok(header) = entry::decode_file_header(data) {
        let again = entry::encode_file_header(&header);
        assert_eq!(entry::decode_file_header(&again), Ok(header));
    }
    check_set(data);
    check_set(&entry::with_checksum(data));
}

fn check_set(bytes: &[u8]) {
    let Ok((header, groups)) = entry::decode_set(bytes) else { return };
    let size = header.padded();
    let mut again = vec![0xaa; usize::try_from(size).unwrap_or_default()];
    let mut writer = entry::SetWriter::new(&mut again);
    for group in &groups {
        writer.add(group, std::iter::once(group.bytes));
    }
    assert_eq!(writer.finish(header.ring, header.place) as u64, size);
    assert_eq!(entry::decode_set(&again), Ok((header, groups)));
}
