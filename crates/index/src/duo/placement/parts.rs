//! The numbers of all slots, in as many parts as the table has grown by: what is there stays where
//! it is when a part is added.

use super::packed::Packed;
use crate::duo::bytes::SlotNumber;

/// The fingerprints of so many pairs of buckets, one of each array.
struct Part {
    /// The first pair.
    first: u64,
    fingerprints: Packed,
    /// For each bucket of the first array, which slots hold backup fingerprints.
    backups: Packed,
}

/// Which fingerprint each slot holds, and whether it is a backup one.
pub(super) struct Parts {
    /// By their first pairs.
    parts: Vec<Part>,
    /// Pairs of all parts.
    pairs: u64,
    bucket_slots: u64,
    fingerprint_bits: u32,
}

/// The numbers of a bucket.
pub(super) struct Bucket<'p> {
    part: &'p Part,
    /// Its number in the part.
    number: usize,
    slots: usize,
}

impl Bucket<'_> {
    /// Which slots hold this fingerprint, of either kind.
    #[inline(always)]
    pub(super) fn equal(&self, fingerprint: u32) -> u32 {
        let fingerprints = &self.part.fingerprints;
        fingerprints.equal(self.number * self.slots, self.slots, fingerprint)
    }

    /// Which slots of a bucket of the first array hold backup fingerprints.
    #[inline(always)]
    pub(super) fn backups(&self) -> u32 {
        self.part.backups.get(self.number / 2)
    }
}

impl Parts {
    pub(super) fn new(bucket_slots: u32, fingerprint_bits: u32) -> Self {
        Self {
            parts: Vec::new(),
            pairs: 0,
            bucket_slots: u64::from(bucket_slots),
            fingerprint_bits,
        }
    }

    /// Adds so many pairs of buckets, all of their slots empty.
    pub(super) fn add(&mut self, pairs: u64) {
        let slots = 2 * pairs * self.bucket_slots;
        self.parts.push(Part {
            first: self.pairs,
            fingerprints: Packed::new(slots as usize, self.fingerprint_bits),
            backups: Packed::new(pairs as usize, self.bucket_slots as u32),
        });
        self.pairs += pairs;
    }

    /// The fingerprints, and which of them are backup ones, where there is one part.
    #[inline(always)]
    pub(super) fn only(&self) -> Option<(&Packed, &Packed)> {
        match &*self.parts {
            [part] => Some((&part.fingerprints, &part.backups)),
            _ => None,
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let parts = self.parts.iter();
        parts
            .map(|part| part.fingerprints.bytes() + part.backups.bytes())
            .sum()
    }

    /// The part of a bucket, and the bucket's number in it.
    #[inline(always)]
    fn part(&self, bucket: u64) -> (&Part, usize) {
        // The later a part, the more of the table it is.
        let at = match self.parts.len() {
            1 => 0,
            _ => self.part_behind(bucket),
        };
        let part = &self.parts[at];
        (part, (bucket - 2 * part.first) as usize)
    }

    fn part_behind(&self, bucket: u64) -> usize {
        let later = self.parts.iter().rev();
        let skipped = later.take_while(|part| 2 * part.first > bucket).count();
        self.parts.len() - 1 - skipped
    }

    #[inline]
    pub(super) fn get(&self, SlotNumber(slot): SlotNumber) -> u32 {
        let (part, bucket) = self.part(slot / self.bucket_slots);
        let slot = bucket as u64 * self.bucket_slots + slot % self.bucket_slots;
        part.fingerprints.get(slot as usize)
    }

    /// Has the numbers of a bucket fetched for a look soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, bucket: u64) {
        let (part, bucket) = self.part(bucket);
        let first = bucket * self.bucket_slots as usize;
        part.fingerprints.prefetch(first);
        if bucket & 1 == 0 {
            part.backups.prefetch(bucket / 2);
        }
    }

    /// Which slots of a bucket hold this fingerprint, of either kind.
    #[inline(always)]
    pub(super) fn equal(&self, bucket: u64, fingerprint: u32) -> u32 {
        self.bucket(bucket).equal(fingerprint)
    }

    /// Which slots of a bucket hold backup fingerprints: none of the second array.
    #[inline(always)]
    pub(super) fn backups_in(&self, bucket: u64) -> u32 {
        match bucket & 1 {
            0 => self.bucket(bucket).backups(),
            _ => 0,
        }
    }

    /// The numbers of a bucket.
    #[inline(always)]
    pub(super) fn bucket(&self, bucket: u64) -> Bucket<'_> {
        let (part, number) = self.part(bucket);
        let slots = self.bucket_slots as usize;
        Bucket {
            part,
            number,
            slots,
        }
    }

    pub(super) fn set(&mut self, SlotNumber(slot): SlotNumber, fingerprint: u32, backup: bool) {
        let (number, at) = (slot / self.bucket_slots, slot % self.bucket_slots);
        let index = match self.parts.len() {
            1 => 0,
            _ => self.part_behind(number),
        };
        let part = &mut self.parts[index];
        let bucket = (number - 2 * part.first) as usize;
        let place = bucket * self.bucket_slots as usize + at as usize;
        part.fingerprints.set(place, fingerprint);
        if number & 1 == 0 {
            let (flags, bit) = (part.backups.get(bucket / 2), 1 << at);
            let flags = if backup { flags | bit } else { flags & !bit };
            part.backups.set(bucket / 2, flags);
        }
    }
}
