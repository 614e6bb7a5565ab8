//! The one source of chance in a workload: splitmix64, so that a seed gives the same bytes on every machine.
//!
//! Owns the draws that templates need. Not for secrets.

/// Weyl constant of splitmix64: 2^64 divided by the golden ratio, made odd.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A seeded generator.
#[derive(Debug, Clone)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`. Panics if `bound` is 0. By multiplication: the bias is below 2^-32 for what is drawn here.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0);
        let product = u128::from(self.next()) * u128::from(bound);
        u32::try_from(product >> 64).unwrap_or(bound - 1)
    }

    /// A number in `first..=last`. Panics if the range is empty.
    pub(crate) fn between(&mut self, first: u32, last: u32) -> u32 {
        assert!(first <= last);
        match (last - first).checked_add(1) {
            Some(count) => first + self.below(count),
            None => self.below(u32::MAX),
        }
    }

    /// A number in 0.0..1.0.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are a float's")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A draw of the standard normal distribution (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        // 1 - unit: the logarithm of zero has no value.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Fills `bytes`.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.next().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_draws_and_another_seed_others() {
        let draws = |seed| {
            let mut chance = Chance::new(seed);
            (0..4).map(|_| chance.next()).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        // The published first output of splitmix64 for seed 0.
        assert_eq!(Chance::new(0).next(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn draws_keep_to_their_range_and_reach_its_ends() {
        let mut chance = Chance::new(7);
        let drawn: Vec<u32> = (0..1_000).map(|_| chance.between(3, 6)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        assert_eq!(chance.between(5, 5), 5);
        let mean = (0..10_000).map(|_| chance.normal()).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.05, "{mean}");
    }

    #[test]
    fn every_byte_of_a_fill_is_drawn() {
        let mut bytes = [0; 1_003];
        Chance::new(9).fill(&mut bytes);
        assert!(bytes[995..].iter().any(|byte| *byte != 0));
    }
}
