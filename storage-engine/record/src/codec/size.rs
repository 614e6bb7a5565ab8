//! How many bytes a primitive takes, so that a message is encoded into a buffer of exactly known size.
//!
//! Owns arithmetic only; [`super::Writer`] must write exactly what these functions promise (a property test holds them
//! together).

/// Bytes of an unsigned varint (1..=5).
#[must_use]
pub const fn uvarint(value: u32) -> usize {
    uvarlong(value as u64)
}

/// Bytes of an unsigned varint of 64 bits (1..=10).
#[must_use]
pub const fn uvarlong(value: u64) -> usize {
    // Seven bits a byte; zero still takes one.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Bytes of a zigzag varint (1..=5).
#[must_use]
pub const fn varint(value: i32) -> usize {
    uvarint(zigzag_32(value))
}

/// Bytes of a zigzag varint of 64 bits (1..=10).
#[must_use]
pub const fn varlong(value: i64) -> usize {
    uvarlong(zigzag_64(value))
}

/// Bytes of a classic string, null included.
#[must_use]
pub const fn string(value: Option<&str>) -> usize {
    2 + match value {
        Some(text) => text.len(),
        None => 0,
    }
}

/// Bytes of a compact string, null included.
#[must_use]
pub const fn compact_string(value: Option<&str>) -> usize {
    match value {
        Some(text) => compact_bytes_of(text.len()),
        None => 1,
    }
}

/// Bytes of classic bytes, null included.
#[must_use]
pub const fn bytes(value: Option<&[u8]>) -> usize {
    4 + match value {
        Some(bytes) => bytes.len(),
        None => 0,
    }
}

/// Bytes of compact bytes, null included.
#[must_use]
pub const fn compact_bytes(value: Option<&[u8]>) -> usize {
    match value {
        Some(bytes) => compact_bytes_of(bytes.len()),
        None => 1,
    }
}

/// Bytes of a compact string or compact bytes whose content takes `len` bytes.
#[must_use]
pub const fn compact_bytes_of(len: usize) -> usize {
    uvarlong(len as u64 + 1) + len
}

/// Bytes of a compact array's count, without its elements.
#[must_use]
pub const fn compact_array_len(count: Option<usize>) -> usize {
    match count {
        Some(count) => uvarlong(count as u64 + 1),
        None => 1,
    }
}

/// Bytes of one tagged field: tag, size and content.
#[must_use]
pub const fn tagged_field(tag: u32, content_bytes: usize) -> usize {
    uvarint(tag) + uvarlong(content_bytes as u64) + content_bytes
}

pub(super) const fn zigzag_32(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)).cast_unsigned()
}

pub(super) const fn zigzag_64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}
