//! XXH32, the checksum inside LZ4 frames (seed 0).
//!
//! Owns a streaming hasher. Source: the xxHash specification, "XXH32 algorithm description".

const PRIME_1: u32 = 0x9e37_79b1;
const PRIME_2: u32 = 0x85eb_ca77;
const PRIME_3: u32 = 0xc2b2_ae3d;
const PRIME_4: u32 = 0x27d4_eb2f;
const PRIME_5: u32 = 0x1656_67b1;

/// Bytes that the four lanes take in together.
const STRIPE_BYTES: usize = 16;

#[derive(Debug, Clone)]
pub(super) struct Xxh32 {
    lanes: [u32; 4],
    pending: [u8; STRIPE_BYTES],
    pending_bytes: usize,
    total_bytes: u64,
}

impl Xxh32 {
    pub(super) const fn new() -> Self {
        let lanes = [PRIME_1.wrapping_add(PRIME_2), PRIME_2, 0, 0_u32.wrapping_sub(PRIME_1)];
        Self { lanes, pending: [0; STRIPE_BYTES], pending_bytes: 0, total_bytes: 0 }
    }

    pub(super) fn hash(bytes: &[u8]) -> u32 {
        let mut hasher = Self::new();
        hasher.update(bytes);
        hasher.value()
    }

    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        if self.pending_bytes > 0 {
            let taken = bytes.len().min(STRIPE_BYTES - self.pending_bytes);
            let (head, rest) = bytes.split_at(taken);
            self.pending[self.pending_bytes..self.pending_bytes + taken].copy_from_slice(head);
            self.pending_bytes += taken;
            bytes = rest;
            if self.pending_bytes < STRIPE_BYTES {
                return;
            }
            self.lanes = stripe(self.lanes, &self.pending);
        }
        let (stripes, rest) = bytes.as_chunks::<STRIPE_BYTES>();
        self.lanes = stripes.iter().fold(self.lanes, stripe);
        self.pending[..rest.len()].copy_from_slice(rest);
        self.pending_bytes = rest.len();
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the algorithm takes the length modulo 2^32"
    )]
    pub(super) fn value(&self) -> u32 {
        let [a, b, c, d] = self.lanes;
        let mut hash = if self.total_bytes < STRIPE_BYTES as u64 {
            PRIME_5
        } else {
            let sum = a.rotate_left(1).wrapping_add(b.rotate_left(7));
            sum.wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18))
        };
        hash = hash.wrapping_add(self.total_bytes as u32);
        let (words, bytes) = self.pending[..self.pending_bytes].as_chunks::<4>();
        for word in words {
            let mixed = hash.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(PRIME_3));
            hash = mixed.rotate_left(17).wrapping_mul(PRIME_4);
        }
        for byte in bytes {
            let mixed = hash.wrapping_add(u32::from(*byte).wrapping_mul(PRIME_5));
            hash = mixed.rotate_left(11).wrapping_mul(PRIME_1);
        }
        hash = (hash ^ (hash >> 15)).wrapping_mul(PRIME_2);
        hash = (hash ^ (hash >> 13)).wrapping_mul(PRIME_3);
        hash ^ (hash >> 16)
    }
}

fn stripe(mut lanes: [u32; 4], stripe: &[u8; STRIPE_BYTES]) -> [u32; 4] {
    let (words, _) = stripe.as_chunks::<4>();
    for (lane, word) in lanes.iter_mut().zip(words) {
        let mixed = lane.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(PRIME_2));
        *lane = mixed.rotate_left(13).wrapping_mul(PRIME_1);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        // From the reference implementation's `xxhsum -H32`.
        let check = |bytes: &[u8], expected| assert_eq!(Xxh32::hash(bytes), expected, "{bytes:?}");
        check(b"", 0x02cc_5d05);
        check(b"a", 0x550d_7456);
        check(b"abc", 0x32d1_53ff);
        check(b"Nobody inspects the spammish repetition", 0xe229_3b2f);
        // The descriptor of every frame the Java client writes: its second byte is the header checksum.
        assert_eq!((Xxh32::hash(&[0x60, 0x40]) >> 8) & 0xff, 0x82);
    }

    #[test]
    fn pieces_hash_as_the_whole() {
        let bytes: [u8; 100] = core::array::from_fn(|index| index.to_le_bytes()[0]);
        for cut in 0..bytes.len() {
            let mut hasher = Xxh32::new();
            hasher.update(&bytes[..cut / 2]);
            hasher.update(&bytes[cut / 2..cut]);
            hasher.update(&bytes[cut..]);
            assert_eq!(hasher.value(), Xxh32::hash(&bytes), "{cut}");
        }
    }
}
