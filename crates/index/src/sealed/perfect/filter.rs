//! A filter that knows most keys that a table does not have: a binary fuse filter of 8 bits (T. M.
//! Graf, D. Lemire, Binary Fuse Filters, ACM Journal of Experimental Algorithmics 27, 2022).

use crate::{IndexError, Result};
use xorf::{BinaryFuse8, BinaryFuse8Ref, DmaSerializable, Filter as _, FilterRef};

/// Bytes of what a filter says of itself: seed, bytes of a segment, a mask that follows from them,
/// bytes of all segments but two.
const DESCRIPTOR: usize = 20;

/// The most bytes of a segment.
const LONGEST_SEGMENT: u64 = 1 << 18;

/// The most bytes of fingerprints of so many keys.
pub(super) fn most_bytes(keys: u64) -> u64 {
    let keys_or_two = keys.max(2) as f64;
    let factor = (0.875 + 0.25 * 1e6f64.ln() / keys_or_two.ln()).max(1.125);
    let segment = 2f64.powf(keys_or_two.ln() / 3.33f64.ln() + 2.25) as u64;
    // Rounded up to segments, of which there are two more.
    (keys_or_two * factor) as u64 + 3 * segment.clamp(4, LONGEST_SEGMENT) + 1
}

/// The most keys of a filter: it numbers its bytes with 32 bits.
pub(super) const MOST_KEYS: u64 = 3 << 30;

/// A filter that was checked: no hash leads outside of its fingerprints.
pub(super) struct FuseFilter {
    descriptor: [u8; DESCRIPTOR],
    fingerprints: Vec<u8>,
}

impl FuseFilter {
    /// The filter of these distinct hashes; nothing if none was found.
    pub(super) fn new(hashes: &[u64]) -> Option<Self> {
        let built = BinaryFuse8::try_from(hashes).ok()?;
        let mut descriptor = [0; DESCRIPTOR];
        built.dma_copy_descriptor_to(&mut descriptor);
        Some(Self {
            descriptor,
            fingerprints: built.fingerprints.into_vec(),
        })
    }

    /// Whether the hash may be one of them.
    #[inline]
    pub(super) fn may_have(&self, hash: u64) -> bool {
        BinaryFuse8Ref::from_dma(&self.descriptor, &self.fingerprints).contains(&hash)
    }

    /// Seed, bytes of a segment, and of all segments but two.
    pub(super) fn head(&self) -> [u8; 16] {
        let mut head = [0; 16];
        head[..12].copy_from_slice(&self.descriptor[..12]);
        head[12..].copy_from_slice(&self.descriptor[16..]);
        head
    }

    pub(super) fn fingerprints(&self) -> &[u8] {
        &self.fingerprints
    }

    /// The filter that says this of itself, whose fingerprints begin with these bytes.
    pub(super) fn decode(head: [u8; 16], mut fingerprints: Vec<u8>) -> Result<Self> {
        let number = |at: usize| {
            let bytes: [u8; 4] = std::array::from_fn(|byte| head[at + byte]);
            u32::from_le_bytes(bytes)
        };
        let (segment, all) = (number(8), number(12));
        let len = u64::from(all) + 2 * u64::from(segment);
        let is_whole = segment.is_power_of_two() && all > 0 && all.is_multiple_of(segment);
        if !is_whole || len > fingerprints.len() as u64 || len > u32::MAX.into() {
            let reason = "its filter's segments are no power of two, or not there";
            return Err(IndexError::BadFunction { reason });
        }
        fingerprints.truncate(len as usize);
        fingerprints.shrink_to_fit();
        let mut descriptor = [0; DESCRIPTOR];
        descriptor[..12].copy_from_slice(&head[..12]);
        descriptor[12..16].copy_from_slice(&(segment - 1).to_le_bytes());
        descriptor[16..].copy_from_slice(&head[12..]);
        Ok(Self {
            descriptor,
            fingerprints,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::derive;
    use proptest::prelude::*;

    #[test]
    fn hashes_are_known_and_others_mostly_not() {
        for count in [0, 1, 2, 3, 10, 100, 1000, 30_000] {
            let hashes: Vec<u64> = (0..count).map(|number| derive(1, number)).collect();
            let filter = FuseFilter::new(&hashes).unwrap();
            let bytes = filter.fingerprints().len() as u64;
            assert!(bytes <= most_bytes(count), "{count}: {bytes}");
            let filter = FuseFilter::decode(filter.head(), filter.fingerprints.clone()).unwrap();
            assert!(hashes.iter().all(|hash| filter.may_have(*hash)));
            let absent = (0..20_000).filter(|number| filter.may_have(derive(2, *number)));
            // One in 256 is 78; the deviation is 9.
            assert!(absent.count() < 150, "{count}");
        }
    }

    #[test]
    fn large_filters_have_room() {
        // What the crate's documentation says of its sizes: 9 bits a key, and a few segments.
        assert!(most_bytes(100_000_000) < 113_500_000);
        assert!(most_bytes(100_000_000) > 112_500_000 + 2 * LONGEST_SEGMENT);
    }

    proptest! {
        #[test]
        fn what_passes_is_never_left(
            seed: u64,
            segment in prop_oneof![any::<u32>(), (0u32..12).prop_map(|bits| 1 << bits)],
            segments in 0u32..100,
            bytes in proptest::collection::vec(any::<u8>(), 0..5000),
            hashes: [u64; 20],
        ) {
            let mut head = [0; 16];
            head[..8].copy_from_slice(&seed.to_le_bytes());
            head[8..12].copy_from_slice(&segment.to_le_bytes());
            head[12..].copy_from_slice(&segment.wrapping_mul(segments).to_le_bytes());
            if let Ok(filter) = FuseFilter::decode(head, bytes) {
                for hash in hashes.into_iter().chain([0, u64::MAX]) {
                    filter.may_have(hash);
                }
            }
        }
    }
}
