//! Zipf's distribution as YCSB draws from it.
//!
//! YCSB's default ("scrambled Zipfian") draws from 10^10 items, however many keys there are, and
//! maps them onto the keys by a hash: a flatter distribution than Zipf's over the keys, which
//! decides what a cache is worth.
//!
//! Source: YCSB's core workload, and Gray et al., "Quickly generating billion-record synthetic
//! databases" (SIGMOD 1994), for drawing without a table of all items.

use rand::{Rng, RngExt};

/// Items of YCSB's scrambled Zipfian distribution.
const ITEMS: f64 = 1e10;
/// Terms of the sum that are added one by one; the rest is an integral.
const TERMS: u32 = 1000;

/// Zipf's distribution over 10^10 items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct YcsbZipf {
    skew: f64,
    /// The weight of all items.
    total: f64,
    eta: f64,
}

impl YcsbZipf {
    /// With a skew between 0 and 1, both excluded.
    pub(crate) fn new(skew: f64) -> Self {
        let (total, of_two) = (weight(ITEMS, skew), 1.0 + 0.5_f64.powf(skew));
        Self {
            skew,
            total,
            eta: (1.0 - (2.0 / ITEMS).powf(1.0 - skew)) / (1.0 - of_two / total),
        }
    }

    /// An item's number: 0 is drawn most often.
    pub(crate) fn draw(&self, random: &mut impl Rng) -> u64 {
        let uniform: f64 = random.random_range(0.0..1.0);
        let at = uniform * self.total;
        if at < 1.0 {
            return 0;
        }
        if at < 1.0 + 0.5_f64.powf(self.skew) {
            return 1;
        }
        let part = self.eta * uniform - self.eta + 1.0;
        (ITEMS * part.powf(1.0 / (1.0 - self.skew))) as u64
    }
}

/// The weight of the first `items` items, of which there are at least [`TERMS`], by Euler and
/// Maclaurin.
fn weight(items: f64, skew: f64) -> f64 {
    let last = f64::from(TERMS);
    let first: f64 = (1..=TERMS).map(|rank| f64::from(rank).powf(-skew)).sum();
    let integral = (items.powf(1.0 - skew) - last.powf(1.0 - skew)) / (1.0 - skew);
    first + integral + (items.powf(-skew) - last.powf(-skew)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn the_weight_is_ycsbs_constant() {
        // ScrambledZipfianGenerator.ZETAN.
        let total = YcsbZipf::new(0.99).total;
        assert!((total - 26.469_028_201_783_02).abs() < 1e-6, "{total}");
    }

    #[test]
    fn the_first_items_are_drawn_as_often_as_they_weigh() {
        let (zipf, mut random) = (YcsbZipf::new(0.99), ChaCha8Rng::seed_from_u64(1));
        let draws = 200_000;
        let mut drawn = [0_u32; 2];
        for _ in 0..draws {
            if let Some(count) = drawn.get_mut(zipf.draw(&mut random) as usize) {
                *count += 1;
            }
        }
        for (rank, count) in (1_u32..).zip(drawn) {
            let expected = f64::from(draws) * f64::from(rank).powf(-0.99) / zipf.total;
            let off = (f64::from(count) - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "rank {rank}: {count}");
        }
    }
}
