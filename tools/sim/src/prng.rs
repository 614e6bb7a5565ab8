//! The one source of chance in a world: xoshiro256**, seeded through splitmix64.
//!
//! Owns the generator and the few draws that worlds need. Every draw is a function of the seed and of the draws before it;
//! nothing here, and nothing else in a world, asks the system for time, identity or randomness. Not for secrets.

/// Weyl constant of splitmix64: 2^64 divided by the golden ratio, made odd.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A chance of one in so many; 0 means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OneIn(pub u32);

impl OneIn {
    /// It never happens.
    pub const NEVER: Self = Self(0);
}

/// A seeded generator. Clones repeat the original's draws: use [`Prng::fork`] for an independent stream.
#[derive(Debug, Clone)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// The generator of `seed`; every seed gives a usable state.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(GOLDEN_GAMMA);
            let mut mixed = counter;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        Self { state }
    }

    /// A stream of its own, so that one part of a world drawing more often does not shift the draws of another.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`. Panics if `bound` is 0.
    ///
    /// By multiplication, not rejection: the bias is below 2^-40 for every bound a world uses, and each draw costs one step.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0);
        let product = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the high half of a 128-bit product fits 64 bits")
    }

    /// An index into something of `count` elements. Panics if `count` is 0.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).expect("below a usize")
    }

    /// A number in `first..=last`. Panics if the range is empty.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        assert!(first <= last);
        first + self.below(last - first + 1)
    }

    /// Heads or tails.
    pub fn coin(&mut self) -> bool {
        self.next_u64() >> 63 == 1
    }

    /// True with the chance of `odds`; draws nothing when it can never be.
    pub fn happens(&mut self, odds: OneIn) -> bool {
        odds.0 > 0 && self.below(u64::from(odds.0)) == 0
    }

    /// One of `choices`. Panics if there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// Puts `items` into an order of its own choice (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_draws_of_seed_zero_are_those_of_the_reference_algorithm() {
        // splitmix64(0) gives the state words e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec
        // (published test vector); the first output follows by hand: rotl(s1 * 5, 7) * 9.
        let mut prng = Prng::new(0);
        let expected = 0x6e78_9e6a_a1b9_65f4u64.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        assert_eq!(prng.state[0], 0xe220_a839_7b1d_cdaf);
        assert_eq!(prng.state[3], 0xf88b_b8a8_724c_81ec);
        assert_eq!(prng.next_u64(), expected);
    }

    #[test]
    fn draws_stay_within_bounds_and_reach_every_value() {
        let mut prng = Prng::new(7);
        let mut seen = [0u32; 5];
        for _ in 0..1_000 {
            seen[prng.index(5)] += 1;
            assert!((3..=9).contains(&prng.between(3, 9)));
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        assert!(!prng.happens(OneIn::NEVER));
        assert!(prng.happens(OneIn(1)));
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Prng::new(3).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
