//! Random numbers for tables that are filled here: the same every time.

/// A stream of numbers: SplitMix64.
#[derive(Default)]
pub(super) struct Draws(u64);

impl From<u64> for Draws {
    /// The stream of a seed.
    fn from(seed: u64) -> Self {
        Self(seed)
    }
}

impl Draws {
    /// A number below `limit`, each as likely.
    pub(super) fn below(&mut self, limit: usize) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * limit as u128) >> 64) as u32
    }
}
