//! Numbers with Zipf's distribution.

use rand::{Rng, RngExt};
use std::sync::Arc;

/// Zipf's distribution over `0..count`: number i has a probability in proportion to (i + 1)^-skew.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// By number: the weight of all numbers up to it, itself included.
    cumulative: Arc<[f64]>,
}

impl Zipf {
    /// The distribution over `0..count`, at least one number. A skew of 0 is the uniform one.
    #[must_use]
    pub fn new(count: u32, skew: f64) -> Self {
        let mut weight = 0.0;
        let cumulative = (1..=count.max(1)).map(|rank| {
            weight += f64::from(rank).powf(-skew);
            weight
        });
        Self {
            cumulative: cumulative.collect(),
        }
    }

    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.cumulative.len() as u32
    }

    /// The probability of a number.
    #[must_use]
    pub fn probability(&self, number: u32) -> f64 {
        let at = |number: u32| self.cumulative[number as usize];
        let before = number.checked_sub(1).map_or(0.0, at);
        (at(number) - before) / self.total()
    }

    /// Draws a number.
    #[must_use]
    pub fn draw(&self, random: &mut impl Rng) -> u32 {
        let weight = random.random_range(0.0..self.total());
        let number = self.cumulative.partition_point(|up_to| *up_to <= weight);
        (number as u32).min(self.count() - 1)
    }

    fn total(&self) -> f64 {
        *self
            .cumulative
            .last()
            .expect("there is at least one number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn draws_follow_the_probabilities() {
        const DRAWS: u32 = 100_000;
        for skew in [0.0, 0.5, 1.0, 1.5] {
            let zipf = Zipf::new(50, skew);
            let mut random = ChaCha8Rng::seed_from_u64(3);
            let mut drawn = [0u32; 50];
            for _ in 0..DRAWS {
                drawn[zipf.draw(&mut random) as usize] += 1;
            }
            for (number, drawn) in drawn.into_iter().enumerate() {
                let expected = zipf.probability(number as u32) * f64::from(DRAWS);
                let off = (f64::from(drawn) - expected).abs();
                assert!(
                    off < 5.0 * expected.sqrt() + 1.0,
                    "{skew} {number}: {drawn}"
                );
            }
        }
        assert_eq!(Zipf::new(4, 0.0).probability(3), 0.25);
        assert!((Zipf::new(2, 1.0).probability(0) - 2.0 / 3.0).abs() < 1e-12);
    }
}
