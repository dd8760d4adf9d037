//! FaRM's table: hopscotch hashing over pairs of neighbouring buckets, with chains for what has no
//! place.
//!
//! A key lies in its own bucket or in the next, so that one READ of both has it, or in the chain of
//! its own bucket. Only where keys lie is kept here: what a lookup costs is how many READs it
//! takes.

use rand::{Rng, RngExt};

/// Slots of a bucket: a READ of two has the eight of paper 003, section 6.2.2.
const SLOTS: usize = 4;
/// Buckets from its own in which a key seeks an empty slot.
const REACH: usize = 64;
/// An empty slot.
const EMPTY: u32 = u32::MAX;

/// The table: the own bucket of each slot's key.
struct Hopscotch {
    buckets: Vec<[u32; SLOTS]>,
    chained: u64,
}

/// READs that a lookup of a key takes in the mean, in a table of at least `slots` slots filled to
/// `load`. A key in a chain takes two.
pub(super) fn reads_per_lookup(slots: u64, load: f64, random: &mut impl Rng) -> f64 {
    let buckets = (slots as usize).div_ceil(SLOTS).max(REACH);
    let mut table = Hopscotch {
        buckets: vec![[EMPTY; SLOTS]; buckets],
        chained: 0,
    };
    let keys = (load * (buckets * SLOTS) as f64) as u64;
    for _ in 0..keys {
        let own = random.random_range(0..buckets);
        table.insert(own);
    }
    1.0 + table.chained as f64 / keys.max(1) as f64
}

impl Hopscotch {
    fn insert(&mut self, own: usize) {
        let count = self.buckets.len();
        let Some(mut distance) =
            (0..REACH).find(|distance| self.slot_with((own + distance) % count, EMPTY).is_some())
        else {
            self.chained += 1;
            return;
        };
        // Brings the empty slot nearer, by keys that may as well lie in the bucket after their own.
        while distance > 1 {
            let [before, at] = [distance - 1, distance].map(|distance| (own + distance) % count);
            let (Some(from), Some(to)) = (
                self.slot_with(before, before as u32),
                self.slot_with(at, EMPTY),
            ) else {
                self.chained += 1;
                return;
            };
            self.buckets[at][to] = before as u32;
            self.buckets[before][from] = EMPTY;
            distance -= 1;
        }
        let place = (own + distance) % count;
        if let Some(slot) = self.slot_with(place, EMPTY) {
            self.buckets[place][slot] = own as u32;
        }
    }

    fn slot_with(&self, bucket: usize, own: u32) -> Option<usize> {
        self.buckets[bucket].iter().position(|slot| *slot == own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn no_key_is_lost_and_a_fuller_table_chains_more() {
        let reads = [0.3, 0.7, 0.9].map(|load| {
            let mut random = ChaCha8Rng::seed_from_u64(1);
            reads_per_lookup(1 << 16, load, &mut random)
        });
        assert!(reads[0] < 1.001 && reads[1] < 1.02, "{reads:?}");
        assert!(reads[2] > reads[1] && reads[2] < 1.15, "{reads:?}");

        let mut random = ChaCha8Rng::seed_from_u64(2);
        let mut table = Hopscotch {
            buckets: vec![[EMPTY; SLOTS]; 256],
            chained: 0,
        };
        for _ in 0..1000 {
            table.insert(random.random_range(0..256));
        }
        let mut placed = 0;
        for (at, bucket) in table.buckets.iter().enumerate() {
            for own in bucket.iter().filter(|own| **own != EMPTY) {
                placed += 1;
                let distance = (at + 256 - *own as usize) % 256;
                assert!(distance <= 1, "a key of {own} in {at}");
            }
        }
        assert_eq!(placed + table.chained, 1000);
    }
}
