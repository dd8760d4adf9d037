//! The index as lookups of many keys go by it, one after the other: in its usual form, without what
//! is hardly ever needed.

use super::hashes::{Candidates, Primary};
use super::index::{Placement, first_of};
use super::packed::Packed;
use farslot_fabric::{equal_of_eight, prefetch};

/// An index in one part, none of whose buckets is to be split, by buckets of 8 slots with
/// fingerprints of 16 bits.
struct Usual<'i> {
    /// Those of both arrays: a bucket's, by its number.
    fingerprints: &'i [[u16; 8]],
    /// For each bucket of the first array, which slots hold backup fingerprints.
    backups: &'i [u8],
}

impl Placement {
    /// Nothing in another form.
    #[inline(always)]
    fn usual(&self) -> Option<Usual<'_>> {
        let (None, Some(part)) = (&self.growing, self.parts.only()) else {
            return None;
        };
        match part {
            (Packed::Halves(fingerprints), Packed::Bytes(backups)) => Some(Usual {
                fingerprints: fingerprints.as_chunks().0,
                backups,
            }),
            _ => None,
        }
    }

    /// Where a key with this hash may be by its primary fingerprint: which is being fetched, for
    /// [`Placement::first_match`] soon.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_first(&self, hash: u64) -> Primary {
        let Some(usual) = self.usual() else {
            return self.prefetch_first_of_any(hash);
        };
        let of = self.hashes.primary_of(hash);
        for bucket in [2 * of.first, 2 * of.second + 1] {
            if let Some(bucket) = usual.fingerprints.get(bucket as usize) {
                prefetch(bucket);
            }
        }
        if let Some(backups) = usual.backups.get(of.first as usize) {
            prefetch(backups);
        }
        of
    }

    #[inline(never)]
    fn prefetch_first_of_any(&self, hash: u64) -> Primary {
        let of = self.candidates(hash);
        self.prefetch(&of);
        Primary {
            first: of.first,
            second: of.second,
            fingerprint: of.primary,
        }
    }

    /// The first of the matches of the key with this hash that is in the arrays: its bucket, and
    /// its number there.
    #[inline(always)]
    #[must_use]
    pub fn first_match(&self, hash: u64, of: &Primary) -> Option<(u64, u32)> {
        let Some(usual) = self.usual() else {
            return self.first_match_of_any(hash, of);
        };
        let [first, second] = [2 * of.first, 2 * of.second + 1];
        if *usual.backups.get(of.first as usize)? != 0 {
            return self.first_match_of_any(hash, of);
        }
        let equal = |bucket: u64| {
            let eight = usual.fingerprints.get(bucket as usize)?;
            Some(equal_of_eight(eight, of.fingerprint as u16))
        };
        first_of([first, second], [equal(first)?, equal(second)?])
    }

    #[inline(never)]
    fn first_match_of_any(&self, hash: u64, of: &Primary) -> Option<(u64, u32)> {
        self.first_in_arrays(&Candidates {
            first: of.first,
            second: of.second,
            primary: of.fingerprint,
            backup: self.hashes.backup_of(hash),
        })
    }
}
