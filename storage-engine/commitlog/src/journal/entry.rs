//! The bytes of the core journal: what a ring's file begins with, and one entry set.
//!
//! Owns the layout. Nothing here reads a file: it is given bytes that may be anything, and believes them only whole.
//!
//! ```text
//! file header  magic "CLJF" | version u16 = 1 | reserved u16 = 0 | ring u64 | index u32 | count u32 | file bytes u64
//!              | CRC-32C u32 of all before                                     36 bytes, then zeros up to the first block's end
//! entry set    magic "CLJE" | version u16 = 1 | reserved u16 = 0 | ring u64 | sequence u64 | oldest u64 | durable u64
//!              | bytes u32 | groups u32 | CRC-32C u32 of all others | groups …   52 bytes before the groups
//! group        topic id 16 | partition i32 | segment i64 | position u64 | base offset i64 | end offset i64
//!              | name bytes u16 | record bytes u32 | name | record bytes       58 bytes before the name           all big-endian
//! ```
//! A set begins at a block and is padded with zeros to the next. `ring` is drawn anew whenever a ring is made: bytes of a
//! record cannot look like a set unless their sender knows it. `oldest` is the sequence of the oldest set that a replay needs: all
//! before it is in the segments. `durable` is that of the newest set that was on stable storage when this one was written: what is
//! absent up to there is damaged, what is absent behind it was never synced.

use record::codec::{DecodeError, Reader};
use record::{Crc, Offset, PartitionIndex, TopicId, TopicPartition, crc32c};

use crate::small_file::block_ceiling;

pub(crate) const FILE_MAGIC: &[u8; 4] = b"CLJF";
pub(crate) const SET_MAGIC: &[u8; 4] = b"CLJE";
const VERSION: u16 = 1;
/// Bytes of a file's header, before the zeros.
pub(crate) const FILE_HEADER_BYTES: usize = 36;
/// Bytes of a set before its groups.
pub(crate) const SET_HEADER_BYTES: usize = 52;
/// Where its checksum stands.
const SET_CRC_AT: usize = 48;
/// Bytes of a group before its name.
const GROUP_HEADER_BYTES: usize = 58;
/// What a directory's name may have: Kafka's longest topic, a hyphen and a partition.
const NAME_BYTES_MAX: usize = 255;
/// A set is one transfer.
pub(crate) const SET_BYTES_MAX: usize = crate::disk::IO_BYTES_MAX;

/// Which ring a file belongs to, and which of its files it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// Drawn when the ring was made.
    pub(crate) ring: u64,
    /// Counted from 0.
    pub(crate) index: u32,
    /// Files of the ring.
    pub(crate) count: u32,
    /// Length of each of them.
    pub(crate) file_bytes: u64,
}

/// What a set says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetHeader {
    pub(crate) ring: u64,
    pub(crate) place: SetPlace,
    /// Bytes without the padding.
    pub(crate) bytes: u32,
    pub(crate) group_count: u32,
}

/// Where a set stands among the others of its ring, by their sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetPlace {
    pub(crate) sequence: u64,
    /// Of the oldest set that is not in the segments yet, this one at most.
    pub(crate) oldest: u64,
    /// Of the newest set that lasted when this one was written, below its own.
    pub(crate) durable: u64,
}

impl SetHeader {
    /// Bytes with the padding.
    pub(crate) fn padded(&self) -> u64 {
        block_ceiling(u64::from(self.bytes))
    }
}

/// A group of one log, as it stands in its segment from `position` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalGroup<'a> {
    pub(crate) log: TopicPartition,
    /// The log's directory in `topics/`.
    pub(crate) name: &'a str,
    /// Base offset of the segment.
    pub(crate) segment: Offset,
    /// Where its bytes begin in it.
    pub(crate) position: u64,
    /// The offset that its first batch has.
    pub(crate) base_offset: Offset,
    /// One past its last.
    pub(crate) end_offset: Offset,
    pub(crate) bytes: &'a [u8],
}

/// Why bytes are no set, or no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadEntry {
    /// Not the beginning of one, or of a later version.
    #[error("no entry set begins here")]
    NoMagic,
    /// Shorter than they say, or longer than a set can be.
    #[error("{bytes} bytes, where {available} can be one")]
    Length {
        /// What it says.
        bytes: u64,
        /// What is there.
        available: u64,
    },
    /// The checksum differs.
    #[error("crc {computed:#010x}, entry says {stored:#010x}")]
    Crc {
        /// Over the bytes.
        computed: u32,
        /// In the entry.
        stored: u32,
    },
    /// Right by its checksum, and no group can be so.
    #[error("a group that cannot be")]
    Group,
}

impl From<DecodeError> for BadEntry {
    fn from(_: DecodeError) -> Self {
        Self::Group
    }
}

/// Bytes of a group with that name and so many record bytes.
pub(crate) const fn group_bytes(name_bytes: usize, record_bytes: usize) -> usize {
    GROUP_HEADER_BYTES + name_bytes + record_bytes
}

pub(crate) fn encode_file_header(header: &FileHeader) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..4].copy_from_slice(FILE_MAGIC);
    bytes[4..6].copy_from_slice(&VERSION.to_be_bytes());
    bytes[8..16].copy_from_slice(&header.ring.to_be_bytes());
    bytes[16..20].copy_from_slice(&header.index.to_be_bytes());
    bytes[20..24].copy_from_slice(&header.count.to_be_bytes());
    bytes[24..32].copy_from_slice(&header.file_bytes.to_be_bytes());
    let crc = crc32c(&bytes[..32]);
    bytes[32..].copy_from_slice(&crc.to_be_bytes());
    bytes
}

pub(crate) fn decode_file_header(bytes: &[u8]) -> Result<FileHeader, BadEntry> {
    let length =
        BadEntry::Length { bytes: FILE_HEADER_BYTES as u64, available: bytes.len() as u64 };
    let (head, _) = bytes.split_first_chunk::<FILE_HEADER_BYTES>().ok_or(length)?;
    let (body, crc) = head.split_last_chunk::<4>().ok_or(length)?;
    let mut reader = Reader::new(body);
    if reader.take(4)? != FILE_MAGIC || reader.u16()? != VERSION || reader.u16()? != 0 {
        return Err(BadEntry::NoMagic);
    }
    let (computed, stored) = (crc32c(body), u32::from_be_bytes(*crc));
    if computed != stored {
        return Err(BadEntry::Crc { computed, stored });
    }
    Ok(FileHeader {
        ring: reader.i64()?.cast_unsigned(),
        index: reader.u32()?,
        count: reader.u32()?,
        file_bytes: reader.i64()?.cast_unsigned(),
    })
}

/// Fills a set from the front. The caller sees to it that all of it fits: see [`group_bytes`].
#[derive(Debug)]
pub(crate) struct SetWriter<'a> {
    bytes: &'a mut [u8],
    filled: usize,
    group_count: u32,
}

impl<'a> SetWriter<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        assert!(bytes.len() >= SET_HEADER_BYTES);
        assert!(bytes.len() <= SET_BYTES_MAX);
        Self { bytes, filled: SET_HEADER_BYTES, group_count: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    /// Adds a group whose record bytes are `pieces`, one after another; `group.bytes` is not looked at.
    pub(crate) fn add<'b>(
        &mut self,
        group: &JournalGroup<'_>,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
    ) {
        assert!(group.name.len() <= NAME_BYTES_MAX);
        let record_bytes: usize = pieces.clone().map(<[u8]>::len).sum();
        let record_bytes = u32::try_from(record_bytes).unwrap_or(u32::MAX);
        let name_bytes = u16::try_from(group.name.len()).unwrap_or(u16::MAX);
        self.put(&group.log.topic_id.0);
        self.put(&group.log.partition.0.to_be_bytes());
        self.put(&group.segment.0.to_be_bytes());
        self.put(&group.position.to_be_bytes());
        self.put(&group.base_offset.0.to_be_bytes());
        self.put(&group.end_offset.0.to_be_bytes());
        self.put(&name_bytes.to_be_bytes());
        self.put(&record_bytes.to_be_bytes());
        self.put(group.name.as_bytes());
        pieces.for_each(|piece| self.put(piece));
        self.group_count += 1;
    }

    /// Closes the set: header, checksum, zeros to the next block. Returns its bytes with the padding.
    pub(crate) fn finish(self, ring: u64, place: SetPlace) -> usize {
        let SetPlace { sequence, oldest, durable } = place;
        assert!(oldest <= sequence);
        assert!(durable < sequence);
        let Self { bytes, filled, group_count } = self;
        let whole = filled.next_multiple_of(crate::disk::BLOCK_BYTES);
        bytes[filled..whole].fill(0);
        let head = &mut bytes[..SET_HEADER_BYTES];
        head[..4].copy_from_slice(SET_MAGIC);
        head[4..6].copy_from_slice(&VERSION.to_be_bytes());
        head[6..8].fill(0);
        head[8..16].copy_from_slice(&ring.to_be_bytes());
        head[16..24].copy_from_slice(&sequence.to_be_bytes());
        head[24..32].copy_from_slice(&oldest.to_be_bytes());
        head[32..40].copy_from_slice(&durable.to_be_bytes());
        head[40..44].copy_from_slice(&u32::try_from(filled).unwrap_or(u32::MAX).to_be_bytes());
        head[44..48].copy_from_slice(&group_count.to_be_bytes());
        let crc = checksum(&bytes[..filled]);
        bytes[SET_CRC_AT..SET_HEADER_BYTES].copy_from_slice(&crc.to_be_bytes());
        whole
    }
}

/// Over all of a set but the checksum itself.
fn checksum(set: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(&set[..SET_CRC_AT]);
    crc.update(&set[SET_HEADER_BYTES..]);
    crc.value()
}

/// What the set at the front of `bytes` says of itself; `available` is how long it can be. Its checksum is not looked at.
pub(crate) fn decode_set_header(bytes: &[u8], available: u64) -> Result<SetHeader, BadEntry> {
    let short = BadEntry::Length { bytes: SET_HEADER_BYTES as u64, available: bytes.len() as u64 };
    let head = bytes.get(..SET_HEADER_BYTES).ok_or(short)?;
    let mut reader = Reader::new(head);
    if reader.take(4)? != SET_MAGIC || reader.u16()? != VERSION || reader.u16()? != 0 {
        return Err(BadEntry::NoMagic);
    }
    let header = SetHeader {
        ring: reader.i64()?.cast_unsigned(),
        place: SetPlace {
            sequence: reader.i64()?.cast_unsigned(),
            oldest: reader.i64()?.cast_unsigned(),
            durable: reader.i64()?.cast_unsigned(),
        },
        bytes: reader.u32()?,
        group_count: reader.u32()?,
    };
    let bytes = u64::from(header.bytes);
    if bytes < SET_HEADER_BYTES as u64 || header.padded() > available.min(SET_BYTES_MAX as u64) {
        return Err(BadEntry::Length { bytes, available });
    }
    let SetPlace { sequence, oldest, durable } = header.place;
    if oldest > sequence || durable >= sequence {
        return Err(BadEntry::Group);
    }
    Ok(header)
}

/// The set that `bytes` begin with, which hold all of it.
pub(crate) fn decode_set(bytes: &[u8]) -> Result<(SetHeader, Vec<JournalGroup<'_>>), BadEntry> {
    let available = bytes.len() as u64;
    let header = decode_set_header(bytes, available)?;
    let length = BadEntry::Length { bytes: u64::from(header.bytes), available };
    let whole = usize::try_from(header.bytes).map_err(|_| length)?;
    let set = bytes.get(..whole).ok_or(length)?;
    let stored = set.get(SET_CRC_AT..SET_HEADER_BYTES).and_then(|crc| crc.first_chunk::<4>());
    let stored = u32::from_be_bytes(*stored.ok_or(length)?);
    let computed = checksum(set);
    if computed != stored {
        return Err(BadEntry::Crc { computed, stored });
    }
    let mut reader = Reader::new(&set[SET_HEADER_BYTES..]);
    let mut groups = Vec::new();
    for _ in 0..header.group_count {
        groups.push(decode_group(&mut reader)?);
    }
    if reader.remaining() != 0 {
        return Err(BadEntry::Group);
    }
    Ok((header, groups))
}

fn decode_group<'a>(reader: &mut Reader<'a>) -> Result<JournalGroup<'a>, BadEntry> {
    let log = TopicPartition {
        topic_id: TopicId(reader.uuid()?),
        partition: PartitionIndex(reader.i32()?),
    };
    let segment = Offset(reader.i64()?);
    let position = reader.i64()?.cast_unsigned();
    let (base_offset, end_offset) = (Offset(reader.i64()?), Offset(reader.i64()?));
    let name_bytes = usize::from(reader.u16()?);
    let record_bytes = usize::try_from(reader.u32()?).map_err(|_| BadEntry::Group)?;
    let name = str::from_utf8(reader.take(name_bytes)?).map_err(|_| BadEntry::Group)?;
    let bytes = reader.take(record_bytes)?;
    // A segment's positions are counted in 32 bits by its index.
    let is_possible = is_name(name)
        && Offset::ZERO <= segment
        && segment <= base_offset
        && base_offset < end_offset
        && position <= u64::from(u32::MAX)
        && !bytes.is_empty();
    let group = JournalGroup { log, name, segment, position, base_offset, end_offset, bytes };
    if is_possible { Ok(group) } else { Err(BadEntry::Group) }
}

/// Whether it can be the name of one directory: it becomes part of a path.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_plain)
        && name != "."
        && name != ".."
}

/// The same bytes with the checksum that a set of its length would have.
#[cfg(feature = "fuzzing")]
pub(crate) fn with_checksum(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if let Ok(header) = decode_set_header(data, data.len() as u64)
        && let Some(set) = bytes.get_mut(..header.bytes as usize)
    {
        let crc = checksum(set);
        set[SET_CRC_AT..SET_HEADER_BYTES].copy_from_slice(&crc.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::BLOCK_BYTES;

    fn group<'a>(name: &'a str, bytes: &'a [u8]) -> JournalGroup<'a> {
        JournalGroup {
            log: TopicPartition { topic_id: TopicId([7; 16]), partition: PartitionIndex(3) },
            name,
            segment: Offset(16),
            position: 0x1234,
            base_offset: Offset(20),
            end_offset: Offset(23),
            bytes,
        }
    }

    fn set(groups: &[JournalGroup<'_>]) -> Vec<u8> {
        let mut bytes = vec![0xaa; 2 * BLOCK_BYTES];
        let mut writer = SetWriter::new(&mut bytes);
        for group in groups {
            // In two pieces, as a group lies in several buffers.
            let (front, back) = group.bytes.split_at(group.bytes.len() / 2);
            writer.add(group, [front, back].into_iter());
        }
        let place =
            SetPlace { sequence: 0x11_0000_0005, oldest: 0x11_0000_0002, durable: 0x11_0000_0003 };
        let whole = writer.finish(0x0102_0304_0506_0708, place);
        bytes.truncate(whole);
        bytes
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn journal_file_header_golden_bytes() {
        let header =
            FileHeader { ring: 0x0102_0304_0506_0708, index: 2, count: 4, file_bytes: 1 << 24 };
        let bytes = encode_file_header(&header);
        let expected = "434c4a46\
            0001\
            0000\
            0102030405060708\
            00000002\
            00000004\
            0000000001000000\
            050a0142";
        assert_eq!(hex(&bytes), expected);
        assert_eq!(decode_file_header(&bytes), Ok(header));
    }

    #[test]
    fn journal_set_golden_bytes() {
        let bytes = set(&[group("orders-3", b"records")]);
        let expected = "434c4a45\
            0001\
            0000\
            0102030405060708\
            0000001100000005\
            0000001100000002\
            0000001100000003\
            0000007d\
            00000001\
            3e2878d6\
            07070707070707070707070707070707\
            00000003\
            0000000000000010\
            0000000000001234\
            0000000000000014\
            0000000000000017\
            0008\
            00000007\
            6f72646572732d33\
            7265636f726473";
        assert_eq!(hex(&bytes[..0x7d]), expected);
        assert!(bytes[0x7d..].iter().all(|byte| *byte == 0));
        assert_eq!(bytes.len(), BLOCK_BYTES);
        let (header, groups) = decode_set(&bytes).unwrap();
        assert_eq!(header.padded(), BLOCK_BYTES as u64);
        assert_eq!(groups, [group("orders-3", b"records")]);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_of_a_set_is_noticed() {
        let bytes = set(&[group("a-0", b"one"), group("b-1", &[5; 300])]);
        let whole = usize::try_from(decode_set_header(&bytes, 1 << 20).unwrap().bytes).unwrap();
        for cut in 0..whole {
            assert!(decode_set(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for bit in 0..whole * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_set(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_and_every_flipped_bit_of_a_file_header_is_noticed() {
        let bytes =
            encode_file_header(&FileHeader { ring: 1, index: 0, count: 4, file_bytes: 65_536 });
        for cut in 0..bytes.len() {
            assert!(decode_file_header(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_file_header(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn groups_that_cannot_be_are_refused_though_their_checksum_is_right() {
        let good = group("orders-3", b"records");
        assert!(decode_set(&set(&[good])).is_ok());
        let bad = [
            JournalGroup { name: "..", ..good },
            JournalGroup { name: "", ..good },
            JournalGroup { name: "a/b", ..good },
            JournalGroup { segment: Offset(-1), ..good },
            JournalGroup { segment: Offset(21), ..good },
            JournalGroup { end_offset: Offset(20), ..good },
            JournalGroup { position: 1 << 32, ..good },
            JournalGroup { bytes: b"", ..good },
        ];
        for group in bad {
            assert_eq!(decode_set(&set(&[group])), Err(BadEntry::Group), "{group:?}");
        }
    }

    #[test]
    fn a_set_that_says_it_is_longer_than_any_is_refused_before_it_is_read() {
        let mut bytes = set(&[group("a-0", b"one")]);
        bytes[40..44].copy_from_slice(&u32::MAX.to_be_bytes());
        let found = decode_set_header(&bytes, u64::MAX);
        let length = BadEntry::Length { bytes: u64::from(u32::MAX), available: u64::MAX };
        assert_eq!(found, Err(length));
    }
}
