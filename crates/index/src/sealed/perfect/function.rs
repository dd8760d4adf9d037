//! The function itself: from a key to the number of its slot.

use super::filter::{FuseFilter, MOST_KEYS};
use super::places::{PartPlacement, Unplaced, bucket_of, slot_of};
use super::shape::{HEAD, PART, PerfectShape};
use crate::hash::{derive, xxh3};
use crate::{IndexError, Result};
use farslot_fabric::{prefetch, zeros_in_large_pages};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Seeds that a builder tries: two keys have the same hash by chance only.
const ATTEMPTS: u64 = 8;

/// From a key to its slot.
pub(in super::super) struct Function {
    seed: u64,
    parts: Vec<Part>,
    /// Of each part.
    buckets: u64,
    pilots: Vec<u8>,
    filter: Option<FuseFilter>,
}

#[derive(Clone, Copy)]
struct Part {
    /// Its first slot, and how many it has.
    start: u32,
    slots: u32,
    seed: u8,
}

/// A key's hash, its part, and the number of its pilot.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct PilotHash {
    pub(in super::super) hash: u64,
    part: usize,
    pilot: usize,
}

impl Function {
    /// The key's hash, and what follows from it.
    #[inline(always)]
    pub(in super::super) fn hashed(&self, key: &[u8]) -> PilotHash {
        self.of_hash(xxh3(key, self.seed))
    }

    /// What follows from a key's hash.
    #[inline(always)]
    pub(in super::super) fn of_hash(&self, hash: u64) -> PilotHash {
        let product = u128::from(hash) * self.parts.len() as u128;
        let (part, within) = ((product >> 64) as usize, product as u64);
        let bucket = bucket_of(within, self.buckets) as usize;
        let pilot = part * self.buckets as usize + bucket;
        PilotHash { hash, part, pilot }
    }

    /// Has fetched what [`Function::slot`] will look at.
    #[inline(always)]
    pub(in super::super) fn prefetch(&self, of: PilotHash) {
        if let Some(pilot) = self.pilots.get(of.pilot) {
            prefetch(pilot);
        }
    }

    /// The slot that a key with this hash has; nothing if there is none.
    #[inline(always)]
    pub(in super::super) fn slot(&self, of: PilotHash) -> Option<u64> {
        let hash = of.hash;
        let part = self.parts.get(of.part)?;
        let pilot = *self.pilots.get(of.pilot)?;
        let is_known = match &self.filter {
            Some(filter) => filter.may_have(hash),
            None => true,
        };
        let slot = u64::from(part.start) + slot_of(hash, part.seed, pilot, part.slots.into());
        (is_known && part.slots > 0).then_some(slot)
    }

    /// Bytes of memory that it takes.
    pub(in super::super) fn client_bytes(&self) -> u64 {
        let filter = self.filter.as_ref();
        let filter = filter.map_or(0, |filter| filter.fingerprints().len());
        (self.parts.len() * size_of::<Part>() + self.pilots.len() + filter) as u64
    }

    /// The bytes that a client fetches.
    pub(in super::super) fn encode(&self, shape: &PerfectShape) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(shape.bytes() as usize);
        bytes.extend(self.seed.to_le_bytes());
        bytes.extend([0; 8]);
        match &self.filter {
            Some(filter) => bytes.extend(filter.head()),
            None => bytes.extend([0; 16]),
        }
        debug_assert_eq!(bytes.len(), HEAD, "as the module's page says");
        for part in &self.parts {
            bytes.extend((part.start + part.slots).to_le_bytes());
        }
        bytes.extend(self.parts.iter().map(|part| part.seed));
        bytes.extend(&self.pilots);
        if let Some(filter) = &self.filter {
            bytes.extend(filter.fingerprints());
        }
        bytes.resize(shape.bytes() as usize, 0);
        let sum = checksum(&bytes[16..], self.seed);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The function that these bytes are, of a table with so many slots.
    ///
    /// # Errors
    /// [`IndexError::BadFunction`] if no builder of such a table has written them.
    pub(in super::super) fn decode(
        shape: &PerfectShape,
        slots: u64,
        mut bytes: Vec<u8>,
    ) -> Result<Self> {
        let parts = shape.parts as usize;
        let pilots_at = HEAD + parts * PART;
        let filter_at = pilots_at + parts * shape.pilots as usize;
        if bytes.len() as u64 != shape.bytes() || bytes.len() < filter_at {
            return Err(bad("it has another length"));
        }
        let seed = u64_at(&bytes, 0);
        if checksum(&bytes[16..], seed) != u64_at(&bytes, 8) {
            return Err(bad("its checksum is another"));
        }
        let mut all = Vec::with_capacity(parts);
        let mut start = 0;
        for part in 0..parts {
            let end = u32_at(&bytes, HEAD + part * 4);
            if end < start || u64::from(end) > slots {
                return Err(bad("a part's slots are not behind those before, or none"));
            }
            let seed = bytes[HEAD + parts * 4 + part];
            let slots = end - start;
            all.push(Part { start, slots, seed });
            start = end;
        }
        let filter = match shape.filter_bytes {
            0 => None,
            _ => {
                let head = std::array::from_fn(|at| bytes[16 + at]);
                Some(FuseFilter::decode(head, bytes.split_off(filter_at))?)
            }
        };
        let mut pilots = zeros_in_large_pages(filter_at - pilots_at);
        pilots.copy_from_slice(&bytes[pilots_at..filter_at]);
        Ok(Self {
            seed,
            parts: all,
            buckets: shape.pilots.into(),
            pilots,
            filter,
        })
    }
}

const fn bad(reason: &'static str) -> IndexError {
    IndexError::BadFunction { reason }
}

fn checksum(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(&xxh3_64(bytes).to_le_bytes(), seed)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// Finds a function for all keys of a table.
pub(in super::super) struct FunctionBuilder {
    pub(in super::super) shape: PerfectShape,
    /// Slots of the table: more than keys.
    pub(in super::super) slots: u64,
    /// Where it begins to look for a seed.
    pub(in super::super) seed: u64,
}

impl FunctionBuilder {
    /// The function for keys, and their hashes. O(keys) time; 20 bytes of memory a key, and with a
    /// filter 17 more.
    ///
    /// # Errors
    /// [`IndexError::DuplicateKey`] for two equal keys; [`IndexError::Full`] if no function was
    /// found, by a chance that does not come.
    pub(in super::super) fn find<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
    ) -> Result<(Function, Vec<u64>)> {
        if self.shape.filter_bytes > 0 && count as u64 > MOST_KEYS {
            let limit = format!("none for more than {MOST_KEYS} keys");
            return Err(crate::slot::bad_option("filter", count, limit));
        }
        for attempt in 0..ATTEMPTS {
            let seed = derive(self.seed, attempt);
            let hashes: Vec<u64> = (0..count)
                .map(|number| xxh3_64_with_seed(key(number), seed))
                .collect();
            match self.with_seed(seed, &hashes) {
                Ok(function) => return Ok((function, hashes)),
                Err(Some((one, other))) if key(one) == key(other) => {
                    return Err(IndexError::DuplicateKey {
                        record: one.max(other) as u64,
                        first: one.min(other) as u64,
                    });
                }
                Err(_) => {}
            }
        }
        Err(IndexError::Full {
            probed: self.slots,
            slots: self.slots,
        })
    }

    /// The function with a seed. The error is two keys with the same hash, or nothing.
    fn with_seed(
        &self,
        seed: u64,
        hashes: &[u64],
    ) -> std::result::Result<Function, Option<(usize, usize)>> {
        let (parts, buckets) = (self.shape.parts as usize, self.shape.pilots as usize);
        let place = |hash: u64| {
            let product = u128::from(hash) * parts as u128;
            ((product >> 64) as usize, product as u64)
        };
        // The keys' numbers, part by part.
        let mut ends = vec![0usize; parts];
        for hash in hashes {
            ends[place(*hash).0] += 1;
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut numbers = vec![0u32; hashes.len()];
        for (number, hash) in (0u32..).zip(hashes) {
            let next = &mut ends[place(*hash).0];
            numbers[*next] = number;
            *next += 1;
        }
        let mut function = Function {
            seed,
            parts: Vec::with_capacity(parts),
            buckets: buckets as u64,
            pilots: vec![0; parts * buckets],
            filter: None,
        };
        let mut placement = PartPlacement::default();
        let mut of_part = Vec::new();
        let (mut first, mut start) = (0, 0);
        for (end, pilots) in ends.iter().zip(function.pilots.chunks_exact_mut(buckets)) {
            let numbers = &numbers[first..*end];
            of_part.clear();
            of_part.extend(numbers.iter().map(|number| {
                let hash = hashes[*number as usize];
                (hash, place(hash).1)
            }));
            // Its share of the slots, rounded so that the parts before and this one have theirs.
            let share = *end as u128 * u128::from(self.slots) / hashes.len().max(1) as u128;
            let slots = share as u32 - start;
            let seed = placement.place(&of_part, slots, pilots);
            let seed = seed.map_err(|unplaced| match unplaced {
                Unplaced::SameHash(one, other) => {
                    let number = |at: u32| numbers[at as usize] as usize;
                    Some((number(one), number(other)))
                }
                Unplaced::Stuck => None,
            })?;
            function.parts.push(Part { start, slots, seed });
            (first, start) = (*end, start + slots);
        }
        if self.shape.filter_bytes > 0 {
            let filter = FuseFilter::new(hashes).ok_or(None)?;
            if filter.fingerprints().len() as u64 > self.shape.filter_bytes {
                return Err(None);
            }
            function.filter = Some(filter);
        }
        Ok(function)
    }
}

#[cfg(test)]
#[path = "function_tests.rs"]
mod tests;
