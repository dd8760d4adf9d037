//! The operations of one worker: new elements, and elements that it has inserted before.

use super::LOADS;

/// Odd, so that multiplying by it modulo 2^63 gives every word once.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Operations that are made at a time.
pub(super) const BATCH: usize = 1024;

/// A worker's operations, the same for every system that is measured.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// New elements so far.
    inserted: u64,
    worker: u64,
    workers: u64,
    /// Of 2^32 operations, how many find.
    found: u64,
    random: u64,
    origin: u64,
}

impl Stream {
    pub(super) fn new(seed: u64, worker: u32, workers: u32, found_percent: u32) -> Self {
        let origin = seed.wrapping_mul(SPREAD) >> 1;
        Self {
            inserted: 0,
            worker: worker.into(),
            workers: workers.into(),
            found: (u64::from(found_percent) << 32) / 100,
            random: (seed ^ u64::from(worker)).wrapping_mul(SPREAD) | 1,
            origin,
        }
    }

    fn element(&self, number: u64) -> u64 {
        let at = self.origin + number * self.workers + self.worker;
        at.wrapping_mul(SPREAD) & farslot_set::MAX_WORD
    }

    /// New elements so far.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Fills `batch` with operations until it is full, or until this worker has inserted `until` elements. Returns how many of
    /// them are new.
    pub(super) fn fill(&mut self, batch: &mut Vec<u64>, until: u64) -> u64 {
        batch.clear();
        let before = self.inserted;
        while batch.len() < BATCH && self.inserted < until {
            // Xorshift: as cheap as it gets, and the same for all.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let finds = (self.random & 0xffff_ffff) < self.found && before > 0;
            let element = if finds {
                // Of those of earlier batches.
                let number = ((u128::from(self.random >> 16) * u128::from(before)) >> 48) as u64;
                self.element(number)
            } else {
                self.inserted += 1;
                self.element(self.inserted - 1)
            };
            batch.push(element);
        }
        self.inserted - before
    }

    /// How many elements each of `workers` has inserted at the end of each band.
    pub(super) fn targets(buckets: u64, workers: u32) -> impl Iterator<Item = u64> {
        let each = buckets as f64 / f64::from(workers);
        LOADS[1..].iter().map(move |load| (each * load) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn new_elements_are_new_and_others_are_there() {
        let mut all = HashSet::new();
        for worker in 0..3 {
            let mut stream = Stream::new(7, worker, 3, 80);
            let (mut own, mut batch, mut operations) = (HashSet::new(), Vec::new(), 0);
            while stream.inserted() < 10_000 {
                let new = stream.fill(&mut batch, 10_000);
                let fresh = batch.iter().filter(|element| own.insert(**element));
                assert_eq!(fresh.count() as u64, new);
                operations += batch.len();
            }
            // All but the first batch find four fifths.
            assert!((45_000..55_000).contains(&operations), "{operations}");
            assert!(own.is_disjoint(&all));
            all.extend(own);
        }
    }
}
