//! Where a part of a perfect hash function puts a hash, and the search for pilots that puts no two
//! hashes into one slot.
//!
//! The buckets are placed from the largest to the smallest, each by the first pilot that puts its
//! hashes into empty slots. If no pilot does, the one is taken that is in the way of the fewest:
//! the buckets that had those slots are placed anew, as in cuckoo hashing (R. Groot Koerkamp,
//! PtrHash: Minimal Perfect Hashing at RAM Throughput, SEA 2025, section 3). So a pilot takes a
//! byte, although only one slot in a hundred remains empty.

use std::collections::BinaryHeap;

/// Multipliers of the mixing of hashes and pilots (those of wyhash).
const MIX: [u64; 2] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];

/// Seeds that are tried for a part.
const SEEDS: u64 = 1 << 8;

/// Buckets that were placed last are not displaced at once: two would take turns for ever.
const RECENT: usize = 16;

/// The high half and the low half of a product, folded.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product >> 64) as u64 ^ product as u64
}

#[inline(always)]
const fn high(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

/// The bucket of a hash whose place within its part is the fraction `within / 2^64`. Buckets with
/// low numbers are large: they are placed first, while there is room.
#[inline(always)]
pub(super) const fn bucket_of(within: u64, buckets: u64) -> u64 {
    // x^2 (1 + x) / 2, and a share of x, which bounds the size of the first.
    let cubic = high(high(within, within), within >> 1 | 1 << 63);
    high(cubic / LINEAR * (LINEAR - 1) + within / LINEAR, buckets)
}

/// One of so many parts of the skew is linear: the largest bucket has so many times the average.
const LINEAR: u64 = 64;

/// The slot of a hash by its bucket's pilot, counted from the part's first.
#[inline(always)]
pub(super) const fn slot_of(hash: u64, seed: u8, pilot: u8, slots: u64) -> u64 {
    let moved = ((seed as u64) << 8 | pilot as u64 | 1 << 16).wrapping_mul(MIX[0]);
    high(fold(hash ^ moved, MIX[1]), slots)
}

/// Why a part has no pilots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unplaced {
    /// These two, by their numbers among those that were given, have the same hash.
    SameHash(u32, u32),
    /// No seed gave every hash a slot.
    Stuck,
}

/// The hashes of a part, by their buckets, and where they are.
#[derive(Default)]
pub(super) struct PartPlacement {
    /// The hashes, bucket by bucket.
    hashes: Vec<u64>,
    /// By bucket: where its hashes start; and where the last ends.
    starts: Vec<u32>,
    /// The buckets that have hashes, the largest first.
    order: Vec<u32>,
    /// By slot: its bucket, or [`FREE`].
    owners: Vec<u32>,
    /// By slot, a bit: whether it has an owner.
    taken: Vec<u64>,
    /// The slots of the bucket that is being placed.
    slots: Vec<u32>,
    random: u64,
}

const FREE: u32 = u32::MAX;

impl PartPlacement {
    /// Finds pilots for a part's hashes, each with its place within the part, which has so many
    /// slots: at least one a hash. Returns the part's seed.
    pub(super) fn place(
        &mut self,
        hashes: &[(u64, u64)],
        slots: u32,
        pilots: &mut [u8],
    ) -> Result<u8, Unplaced> {
        self.group(hashes, pilots.len());
        self.check_distinct(hashes)?;
        for seed in 0..SEEDS {
            self.random = seed;
            if self.place_with(seed as u8, slots, pilots) {
                return Ok(seed as u8);
            }
        }
        Err(Unplaced::Stuck)
    }

    /// Sorts the hashes by their buckets, and the buckets by their sizes.
    fn group(&mut self, hashes: &[(u64, u64)], buckets: usize) {
        let bucket = |within: u64| bucket_of(within, buckets as u64) as usize;
        self.starts.clear();
        self.starts.resize(buckets + 1, 0);
        for (_, within) in hashes {
            self.starts[bucket(*within)] += 1;
        }
        let mut largest = 0;
        let mut start = 0;
        for next in &mut self.starts {
            largest = largest.max(*next);
            start += std::mem::replace(next, start);
        }
        self.hashes.clear();
        self.hashes.resize(hashes.len(), 0);
        for (hash, within) in hashes {
            let next = &mut self.starts[bucket(*within)];
            self.hashes[*next as usize] = *hash;
            *next += 1;
        }
        // Each start has moved on to its bucket's end.
        self.starts.rotate_right(1);
        self.starts[0] = 0;
        // By size, those of equal size as they come.
        let mut places = vec![0u32; largest as usize + 1];
        for bucket in 0..buckets as u32 {
            places[self.size(bucket)] += 1;
        }
        let mut place = 0;
        for next in places.iter_mut().rev() {
            place += std::mem::replace(next, place);
        }
        self.order.clear();
        self.order.resize(buckets, 0);
        for bucket in 0..buckets as u32 {
            let next = &mut places[self.size(bucket)];
            self.order[*next as usize] = bucket;
            *next += 1;
        }
    }

    fn size(&self, bucket: u32) -> usize {
        let bucket = bucket as usize;
        (self.starts[bucket + 1] - self.starts[bucket]) as usize
    }

    fn hashes_of(&self, bucket: u32) -> std::ops::Range<usize> {
        let bucket = bucket as usize;
        self.starts[bucket] as usize..self.starts[bucket + 1] as usize
    }

    /// Equal hashes are in one bucket.
    fn check_distinct(&mut self, given: &[(u64, u64)]) -> Result<(), Unplaced> {
        for bucket in 0..self.order.len() as u32 {
            let range = self.hashes_of(bucket);
            let hashes = &mut self.hashes[range];
            hashes.sort_unstable();
            if let Some(pair) = hashes.windows(2).find(|pair| pair[0] == pair[1]) {
                let same = (0..).zip(given).filter(|(_, (hash, _))| *hash == pair[0]);
                let mut same = same.map(|(number, _)| number);
                let first = same.next().unwrap_or_default();
                return Err(Unplaced::SameHash(first, same.next().unwrap_or_default()));
            }
        }
        Ok(())
    }

    fn place_with(&mut self, seed: u8, slots: u32, pilots: &mut [u8]) -> bool {
        self.owners.clear();
        self.owners.resize(slots as usize, FREE);
        self.taken.clear();
        self.taken.resize((slots as usize).div_ceil(64), 0);
        pilots.fill(0);
        let mut displaced_left = 16 * u64::from(slots) + 1000;
        // Buckets to be placed, by their sizes: few at a time.
        let mut waiting = BinaryHeap::new();
        for at in 0..self.order.len() {
            let bucket = self.order[at];
            if self.size(bucket) == 0 {
                break;
            }
            let mut recent = [FREE; RECENT];
            let mut next_recent = 0;
            waiting.push((self.size(bucket), bucket));
            while let Some((_, bucket)) = waiting.pop() {
                if let Some(pilot) = self.free_pilot(bucket, seed, slots) {
                    pilots[bucket as usize] = pilot;
                    continue;
                }
                let Some(pilot) = self.cheapest_pilot(bucket, seed, slots, &recent) else {
                    return false;
                };
                self.find_slots(bucket, seed, pilot, slots);
                for at in 0..self.slots.len() {
                    let owner = self.owners[self.slots[at] as usize];
                    if owner == FREE {
                        continue;
                    }
                    self.displace(owner, seed, pilots[owner as usize], slots);
                    waiting.push((self.size(owner), owner));
                    displaced_left -= 1;
                    if displaced_left == 0 {
                        return false;
                    }
                }
                self.take_slots(bucket);
                pilots[bucket as usize] = pilot;
                recent[next_recent % RECENT] = bucket;
                next_recent += 1;
            }
        }
        true
    }

    /// The first pilot that puts a bucket into free slots, which it takes.
    fn free_pilot(&mut self, bucket: u32, seed: u8, slots: u32) -> Option<u8> {
        let range = self.hashes_of(bucket);
        let (hashes, taken) = (&self.hashes[range], &mut self.taken);
        let pilot = (0..=u8::MAX).find(|pilot| {
            let slot = |hash: u64| slot_of(hash, seed, *pilot, slots.into()) as usize;
            let is_taken = |taken: &[u64], slot: usize| taken[slot / 64] >> (slot % 64) & 1 != 0;
            // Mostly one of the first is.
            if hashes.iter().any(|hash| is_taken(taken, slot(*hash))) {
                return false;
            }
            for (number, hash) in hashes.iter().enumerate() {
                let slot_here = slot(*hash);
                if is_taken(taken, slot_here) {
                    // By another hash of the bucket.
                    for hash in &hashes[..number] {
                        let slot = slot(*hash);
                        taken[slot / 64] &= !(1 << (slot % 64));
                    }
                    return false;
                }
                taken[slot_here / 64] |= 1 << (slot_here % 64);
            }
            true
        })?;
        for hash in hashes {
            self.owners[slot_of(*hash, seed, pilot, slots.into()) as usize] = bucket;
        }
        Some(pilot)
    }

    /// The pilot that displaces the fewest and smallest buckets, and none of the `recent` ones.
    fn cheapest_pilot(
        &mut self,
        bucket: u32,
        seed: u8,
        slots: u32,
        recent: &[u32; RECENT],
    ) -> Option<u8> {
        self.random = fold(self.random ^ MIX[0], MIX[1]).wrapping_add(bucket.into());
        let first = self.random as u8;
        let mut best = None;
        let mut least = u64::MAX;
        'pilots: for step in 0..=u8::MAX {
            let pilot = first.wrapping_add(step);
            let mut cost = 0;
            self.slots.clear();
            for at in self.hashes_of(bucket) {
                let slot = slot_of(self.hashes[at], seed, pilot, slots.into()) as u32;
                let owner = self.owners[slot as usize];
                if owner != FREE {
                    if recent.contains(&owner) {
                        continue 'pilots;
                    }
                    cost += (self.size(owner) as u64).pow(2);
                    if cost >= least {
                        continue 'pilots;
                    }
                }
                self.slots.push(slot);
            }
            self.slots.sort_unstable();
            if self.slots.windows(2).any(|pair| pair[0] == pair[1]) {
                continue;
            }
            (best, least) = (Some(pilot), cost);
        }
        best
    }

    fn find_slots(&mut self, bucket: u32, seed: u8, pilot: u8, slots: u32) {
        let range = self.hashes_of(bucket);
        self.slots.clear();
        let of_hashes = self.hashes[range]
            .iter()
            .map(|hash| slot_of(*hash, seed, pilot, slots.into()) as u32);
        self.slots.extend(of_hashes);
    }

    fn take_slots(&mut self, bucket: u32) {
        for slot in &self.slots {
            self.owners[*slot as usize] = bucket;
            self.taken[*slot as usize / 64] |= 1 << (slot % 64);
        }
    }

    fn displace(&mut self, bucket: u32, seed: u8, pilot: u8, slots: u32) {
        for at in self.hashes_of(bucket) {
            let slot = slot_of(self.hashes[at], seed, pilot, slots.into()) as usize;
            self.owners[slot] = FREE;
            self.taken[slot / 64] &= !(1 << (slot % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::derive;

    /// Every number of hashes has a slot of its own, also where hardly one remains free.
    #[test]
    fn no_two_hashes_share_a_slot() {
        let mut placement = PartPlacement::default();
        for count in (0..300).chain([1000, 5000, 20_000]) {
            let hashes: Vec<(u64, u64)> = (0..count)
                .map(|number| (derive(1, number), derive(2, number)))
                .collect();
            let slots = (count as f64 / 0.99).ceil() as u32;
            let mut pilots = vec![0; (count as usize * 2).div_ceil(7).max(1)];
            let seed = placement.place(&hashes, slots, &mut pilots).unwrap();
            let mut seen = vec![false; slots as usize];
            for (hash, within) in hashes {
                let pilot = pilots[bucket_of(within, pilots.len() as u64) as usize];
                let slot = slot_of(hash, seed, pilot, slots.into()) as usize;
                assert!(!std::mem::replace(&mut seen[slot], true), "{count}");
            }
        }
    }

    #[test]
    fn equal_hashes_are_found() {
        let mut hashes: Vec<(u64, u64)> = (0..100)
            .map(|number| (derive(1, number), derive(2, number)))
            .collect();
        hashes[70] = hashes[20];
        let placed = PartPlacement::default().place(&hashes, 102, &mut [0; 30]);
        assert_eq!(placed, Err(Unplaced::SameHash(20, 70)));
    }

    #[test]
    fn buckets_rise_with_the_place_and_are_within_their_number() {
        for buckets in [1, 2, 3, 1000, 1 << 20] {
            let all: Vec<u64> = (0..=1000)
                .map(|step| bucket_of(u64::MAX / 1000 * step, buckets))
                .collect();
            assert!(all.is_sorted() && all[1000] < buckets);
            assert!(bucket_of(u64::MAX, buckets) < buckets);
        }
    }
}
