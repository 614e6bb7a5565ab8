//! Which partition a key belongs to: the same one as for Java's producer, so that both may write one topic.
//!
//! Owns murmur2 with Kafka's seed. It never sees a record without a key: those follow the producer's batches.

/// Kafka's seed (Utils.murmur2).
const SEED: u32 = 0x9747_b28c;
/// Murmur2's mixing constants.
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// The partition of `key` among `partition_count`.
///
/// Panics if `partition_count` is 0: a topic has at least one partition.
pub(crate) fn partition_of_key(key: &[u8], partition_count: u32) -> u32 {
    assert!(partition_count > 0);
    // Java makes the hash positive by clearing its sign bit, not by its absolute value.
    (murmur2(key) & 0x7fff_ffff) % partition_count
}

fn murmur2(bytes: &[u8]) -> u32 {
    // Java's array lengths are i32: what is longer cannot be a key.
    let mut hash = SEED ^ u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut mixed = word.iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        mixed = mixed.wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        mixed = mixed.wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes and partitions (of 12) as Kafka 4.4's `Utils.murmur2` and `Utils.toPositive` give them.
    #[test]
    fn keys_land_where_java_puts_them() {
        let check = |key: &[u8], hash: i32, partition: u32| {
            assert_eq!(murmur2(key).cast_signed(), hash, "{key:?}");
            assert_eq!(partition_of_key(key, 12), partition, "{key:?}");
        };
        check(b"", 275_646_681, 9);
        check(b"a", -1_563_381_124, 4);
        check(b"21", -973_932_308, 0);
        check(b"foobar", -790_332_482, 6);
        check(b"a-little-bit-long-string", -985_981_536, 8);
        check(b"a-little-bit-longer-string", -1_486_304_829, 11);
        check(b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971, 5);
        check("käse".as_bytes(), -1_070_276_755, 1);
        check(b"key-1", 193_331_640, 0);
        check(b"key-2", 852_269_702, 2);
        check(b"key-3", -1_839_136_101, 11);
        check(b"0", 971_027_396, 8);
        check(b"12345678", 338_742_798, 6);
        check(&[0xff, 0x80, 0, 0xfe, 0x81], 1_700_763_136, 4);
    }

    /// FNV-1a over the partitions of 10,000 keys, as Kafka 4.4's `BuiltInPartitioner.partitionForKey` gives them.
    #[test]
    fn ten_thousand_keys_land_where_java_puts_them() {
        for (partitions, expected) in [
            (1, 12_026_001_278_229_803_109),
            (7, 1_826_712_417_030_481_966),
            (12, 1_202_614_640_683_727_989),
            (1_000, 15_610_727_223_728_420_029),
        ] {
            let mut hash = 0xcbf2_9ce4_8422_2325_u64;
            for number in 0..10_000_usize {
                let key = format!("key-{number}-{}", "ä".repeat(number % 7));
                hash ^= u64::from(partition_of_key(key.as_bytes(), partitions));
                hash = hash.wrapping_mul(0x100_0000_01b3);
            }
            assert_eq!(hash, expected, "{partitions} partitions");
        }
    }
}
