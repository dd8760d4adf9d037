//! Which places go into which half of a state, so that the halves take few different values.
//!
//! A compressed state is the pair of its two halves, and each different half is stored (see
//! [`TreeSet`](farslot_set::TreeSet)): most of the memory beside the states' buckets is for those.
//! Places whose tokens depend on each other belong into one half. Sampled markings tell: places of
//! the halves are swapped where that leaves fewer different values among them.

use crate::sample::{Samples, SplitMix};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Swaps that are tried, and visits of markings by all of them together: a bound on the time.
const SWAPS: usize = 4_000;
const VISITS: usize = 8_000_000;

/// The half of a state, of `halves` words of 32 bits, in which its word `at` lies: the side of the
/// tree's root. Words are the leaves `halves + at` of a heap whose root is 1.
pub(crate) fn side_of(at: usize, halves: usize) -> usize {
    let mut node = halves + at;
    while node > 3 {
        node /= 2;
    }
    node & 1
}

/// Swaps places of the same width between the two sides of a state; `sides` has the side of each
/// place.
pub(crate) fn improve(order: &mut [usize], sides: &[usize], widths: &[u32], samples: &Samples) {
    let tries = SWAPS.min(VISITS / samples.markings.len().max(1));
    let mut chance = SplitMix::new(2);
    let mut sides = sides.to_vec();
    let mut position = vec![0; order.len()];
    for (at, &place) in order.iter().enumerate() {
        position[place] = at;
    }
    let codes = Codes::new(order.len(), &mut chance);
    let mut halves = [0, 1].map(|side| {
        let of_marking = |marking: &Vec<u64>| {
            let places = (0..marking.len()).filter(|place| sides[*place] == side);
            places.fold(0, |hash, place| hash ^ codes.of(place, marking[place]))
        };
        samples
            .markings
            .iter()
            .map(of_marking)
            .collect::<Vec<u64>>()
    });
    let mut best = halves.each_ref().map(|values| different(values));
    for _ in 0..tries {
        let (one, two) = (chance.below(order.len()), chance.below(order.len()));
        if sides[one] == sides[two] || widths[one] != widths[two] {
            continue;
        }
        let swapped = halves.each_ref().map(|values| {
            let each = values.iter().zip(&samples.markings);
            let each = each.map(|(value, marking)| {
                value ^ codes.of(one, marking[one]) ^ codes.of(two, marking[two])
            });
            each.collect::<Vec<u64>>()
        });
        let now = swapped.each_ref().map(|values| different(values));
        if now[0] + now[1] <= best[0] + best[1] {
            (halves, best) = (swapped, now);
            sides.swap(one, two);
            order.swap(position[one], position[two]);
            position.swap(one, two);
        }
    }
}

/// A word for each number of tokens of a place: a half's value is the XOR of its places' words.
struct Codes {
    of_place: Vec<u64>,
}

impl Codes {
    fn new(places: usize, chance: &mut SplitMix) -> Self {
        Self {
            of_place: (0..places).map(|_| chance.next() | 1).collect(),
        }
    }

    #[inline]
    fn of(&self, place: usize, tokens: u64) -> u64 {
        let mixed = self.of_place[place].wrapping_mul(tokens.wrapping_mul(2) + 1);
        mixed ^ (mixed >> 31)
    }
}

/// Values are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, value: u64) {
        self.0 = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

fn different(values: &[u64]) -> usize {
    let values: HashSet<u64, BuildHasherDefault<IdentityHasher>> = values.iter().copied().collect();
    values.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_those_of_the_tree() {
        assert_eq!([0, 1, 2, 3].map(|at| side_of(at, 4)), [0, 0, 1, 1]);
        // Of six words node 2 has the last four, node 3 the first two.
        let of_six: Vec<usize> = (0..6).map(|at| side_of(at, 6)).collect();
        assert_eq!(of_six, [1, 1, 0, 0, 0, 0]);
    }

    /// Sixteen places in pairs that hold the same tokens: each pair belongs into one half.
    #[test]
    fn places_that_depend_on_each_other_come_together() {
        let mut chance = SplitMix::new(7);
        let markings = (0..500).map(|_| {
            let bits = chance.next();
            (0..16).map(|place| (bits >> (place / 2)) & 1).collect()
        });
        let samples = Samples {
            largest: vec![1; 16],
            markings: markings.collect(),
        };
        // The first of each pair are in one half, the second ones in the other.
        let mut order: Vec<usize> = (0..16).step_by(2).chain((1..16).step_by(2)).collect();
        let sides: Vec<usize> = (0..16).map(|place| place % 2).collect();
        improve(&mut order, &sides, &[1; 16], &samples);
        let first: HashSet<usize> = order[..8].iter().copied().collect();
        assert!(first.iter().all(|place| first.contains(&(place ^ 1))));
    }
}
