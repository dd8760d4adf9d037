//! What the bytes of a slot say. The module's page draws them.

use crate::hash::word_of;

/// The home of a hash, and the signature: the 8 bits that follow those that say the home. Both rise
/// with the hash.
#[inline]
pub(super) const fn place(hash: u64, homes: u64) -> (u64, u8) {
    let scaled = hash as u128 * homes as u128;
    ((scaled >> 64) as u64, (scaled >> 56) as u8)
}

/// The signature of a hash by a perfect hash function.
#[inline]
pub(super) const fn signature_of(hash: u64) -> u8 {
    hash as u8
}

/// The slot behind the last that is in use if these hashes are placed; 0 if there are none.
pub(super) fn last_overflow(hashes: impl Iterator<Item = u64>, homes: u64) -> u64 {
    let mut at_home = vec![0u32; homes as usize];
    for hash in hashes {
        at_home[place(hash, homes).0 as usize] += 1;
    }
    let after = |next: u64, (home, count): (u64, &u32)| match count {
        0 => next,
        _ => next.max(home) + u64::from(*count),
    };
    (0..).zip(&at_home).fold(0, after)
}

/// The 8 bytes from `at` on, those behind the end being 0.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at + 8) {
        Some(word) => word_of(word),
        None => word_of(&bytes[at.min(bytes.len())..]),
    }
}

/// The low `bytes` bytes of a word, 1 to 8.
#[inline]
const fn low_bytes(bytes: usize) -> u64 {
    u64::MAX >> (64 - 8 * bytes as u32)
}

/// A slot that holds its record.
#[derive(Clone, Copy, Debug)]
pub(super) struct InlineFormat {
    /// Bytes of the key.
    pub(super) key: usize,
    /// Bytes of the slot.
    pub(super) slot: usize,
    /// What the key's first bytes are masked with.
    pub(super) mask: u64,
}

impl InlineFormat {
    /// The bits of a slot's first word that are the key's.
    #[inline]
    const fn key_bits(self) -> u64 {
        low_bytes(if self.key < 8 { self.key } else { 8 })
    }

    /// The first bytes of a key as they stand in its slot.
    #[inline]
    pub(super) fn word_of_key(self, key: &[u8]) -> u64 {
        (word_at(key, 0) ^ self.mask) & self.key_bits()
    }

    /// The bits of a slot's first word that are the key's.
    #[inline]
    pub(super) const fn bits_of_key(self, word: u64) -> u64 {
        word & self.key_bits()
    }

    /// The first bytes of the key of the slot that starts at a byte of the chunk; 0 if it is empty.
    #[inline]
    pub(super) fn word_of_slot(self, chunk: &[u8], at: usize) -> u64 {
        word_at(chunk, at) & self.key_bits()
    }

    /// Changes between the key and what stands for it in the slot.
    #[inline]
    pub(super) fn mask_key(self, slot: &mut [u8]) {
        let masked = self.key.min(8);
        let mask = self.mask.to_le_bytes();
        let bytes = slot[..masked].iter_mut().zip(&mask);
        bytes.for_each(|(byte, mask)| *byte ^= mask);
    }

    /// Writes a record into its slot.
    pub(super) fn encode(self, slot: &mut [u8], key: &[u8], value: &[u8]) {
        let (of_key, of_value) = slot.split_at_mut(self.key);
        of_key.copy_from_slice(key);
        of_value.copy_from_slice(value);
        self.mask_key(slot);
    }
}

/// A slot that says where its record is.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutFormat {
    /// Whether it says how far from its home it is.
    pub(super) ordered: bool,
    /// Whether it says how long its record is.
    pub(super) sized: bool,
    pub(super) offset_bytes: usize,
}

/// Where a record out of band is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reference {
    /// From 1 on.
    pub(super) offset: u64,
    /// Units to read, 0 for more than 255; 0 where all records have the same size.
    pub(super) span: u8,
}

/// What a slot out of band means for a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReferenceLook {
    /// It is another key's, and the lookup goes on.
    Other,
    /// It may be the key's.
    Candidate(Reference),
    /// Neither this slot nor one behind it is the key's.
    End,
}

/// The displacement that stands for all that are as large or larger.
const FAR: u8 = u8::MAX;

impl OutFormat {
    /// Bytes of the slot.
    #[inline]
    pub(super) const fn bytes(self) -> usize {
        self.offset_at() + self.offset_bytes
    }

    #[inline]
    const fn offset_at(self) -> usize {
        1 + self.ordered as usize + self.sized as usize
    }

    /// Writes a slot that is so far from its home.
    pub(super) fn encode(self, slot: &mut [u8], signature: u8, far: u64, reference: Reference) {
        slot[0] = signature;
        if self.ordered {
            slot[1] = far.min(u64::from(FAR)) as u8;
        }
        if self.sized {
            slot[self.offset_at() - 1] = reference.span;
        }
        let offset = reference.offset.to_le_bytes();
        slot[self.offset_at()..].copy_from_slice(&offset[..self.offset_bytes]);
    }

    /// Looks at the slot that starts at a byte of the chunk, so far from the home of a key with
    /// this signature.
    #[inline]
    pub(super) fn look(
        self,
        chunk: &[u8],
        at: usize,
        distance: u64,
        signature: u8,
    ) -> ReferenceLook {
        let offset = word_at(chunk, at + self.offset_at()) & low_bytes(self.offset_bytes);
        if offset == 0 {
            return ReferenceLook::End;
        }
        let word = word_at(chunk, at);
        let (seen, second) = (word as u8, (word >> 8) as u8);
        if self.ordered {
            let far = u64::from(second);
            if distance < far {
                // Of an earlier home.
                return ReferenceLook::Other;
            }
            let home_is_known = second != FAR;
            if home_is_known && (distance > far || seen > signature) {
                return ReferenceLook::End;
            }
        }
        if seen != signature {
            return ReferenceLook::Other;
        }
        let span = if self.sized {
            (word >> (8 * (self.offset_at() - 1))) as u8
        } else {
            0
        };
        ReferenceLook::Candidate(Reference { offset, span })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::scale;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn homes_and_signatures_rise_with_the_hash(a: u64, b: u64, homes in 1u64..1 << 32) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(place(low, homes) <= place(high, homes));
            prop_assert_eq!(place(a, homes).0, scale(a, homes));
        }

        #[test]
        fn what_is_encoded_is_seen(
            ordered: bool,
            sized: bool,
            offset_bytes in 4usize..=7,
            offset: u64,
            span: u8,
            signature: u8,
            far in 0u64..400,
            before in 0usize..9,
        ) {
            let format = OutFormat { ordered, sized, offset_bytes };
            let offset = (offset & low_bytes(offset_bytes)).max(1);
            let reference = Reference { offset, span: if sized { span } else { 0 } };
            // Neighbours of all ones: nothing of them may be taken for the slot's.
            let mut chunk = vec![0xff; before + format.bytes() + before];
            let slot = before..before + format.bytes();
            format.encode(&mut chunk[slot.clone()], signature, far, reference);
            let look = |distance, signature| format.look(&chunk, before, distance, signature);
            prop_assert_eq!(look(far, signature), ReferenceLook::Candidate(reference));
            // A slot at the chunk's end.
            let end = format.look(&chunk[..slot.end], before, far, signature);
            prop_assert_eq!(end, ReferenceLook::Candidate(reference));
            let other = look(far, signature.wrapping_add(1));
            if ordered && far < u64::from(FAR) {
                let expected = if signature == 255 { ReferenceLook::End } else { ReferenceLook::Other };
                prop_assert_eq!(other, expected);
                prop_assert_eq!(look(far + 1, signature), ReferenceLook::End);
                if far > 0 {
                    prop_assert_eq!(look(far - 1, signature), ReferenceLook::Other);
                }
            } else {
                prop_assert_eq!(other, ReferenceLook::Other);
            }
            chunk.fill(0);
            prop_assert_eq!(format.look(&chunk, before, far, 0), ReferenceLook::End);
        }

        #[test]
        fn inline_records_come_back(
            key in proptest::collection::vec(any::<u8>(), 1..20),
            value in proptest::collection::vec(any::<u8>(), 0..20),
            mask: u64,
        ) {
            let slot = key.len() + value.len();
            let format = InlineFormat { key: key.len(), slot, mask };
            let mut chunk = vec![0xff; slot];
            format.encode(&mut chunk, &key, &value);
            prop_assert_eq!(format.word_of_slot(&chunk, 0), format.word_of_key(&key));
            format.mask_key(&mut chunk);
            prop_assert_eq!(chunk, [key, value].concat());
        }
    }
}
