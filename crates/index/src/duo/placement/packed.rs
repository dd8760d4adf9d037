//! Numbers of a few bits each, in a row: whole integers where the width is one's, else packed.

use farslot_fabric::{equal_of_eight, prefetch, zeros_in_large_pages};

/// So many numbers of the same width, all 0 at first.
pub(super) enum Packed {
    /// 8 bits each.
    Bytes(Vec<u8>),
    /// 16 bits each.
    Halves(Vec<u16>),
    /// 32 bits each.
    Wholes(Vec<u32>),
    /// Any other width: number `i` begins at bit `i` times the width. One word more than they need,
    /// so that a number may always be taken from two.
    Words { words: Vec<u64>, width: u32 },
}

impl Packed {
    /// `len` numbers of `width` bits, 1 to 32.
    pub(super) fn new(len: usize, width: u32) -> Self {
        match width {
            8 => Self::Bytes(zeros_in_large_pages(len)),
            16 => Self::Halves(zeros_in_large_pages(len)),
            32 => Self::Wholes(zeros_in_large_pages(len)),
            _ => Self::Words {
                words: zeros_in_large_pages((len * width as usize).div_ceil(64) + 1),
                width,
            },
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Bytes(all) => all.len(),
            Self::Halves(all) => all.len() * 2,
            Self::Wholes(all) => all.len() * 4,
            Self::Words { words, .. } => words.len() * 8,
        }
    }

    /// Has a number, and those that stand beside it, fetched for a look soon. The widths of tables
    /// that were not told others are looked for first, here and elsewhere.
    #[inline(always)]
    pub(super) fn prefetch(&self, index: usize) {
        match self {
            Self::Bytes(all) => prefetch(&all[index]),
            Self::Halves(all) => prefetch(&all[index]),
            _ => self.prefetch_of_any(index),
        }
    }

    #[inline(never)]
    fn prefetch_of_any(&self, index: usize) {
        match self {
            Self::Bytes(all) => prefetch(&all[index]),
            Self::Halves(all) => prefetch(&all[index]),
            Self::Wholes(all) => prefetch(&all[index]),
            Self::Words { words, width } => prefetch(&words[index * *width as usize / 64]),
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> u32 {
        match self {
            Self::Bytes(all) => u32::from(all[index]),
            _ => self.get_of_any(index),
        }
    }

    #[inline(never)]
    fn get_of_any(&self, index: usize) -> u32 {
        match self {
            Self::Bytes(all) => u32::from(all[index]),
            Self::Halves(all) => u32::from(all[index]),
            Self::Wholes(all) => all[index],
            Self::Words { words, width } => {
                let bit = index * *width as usize;
                let (word, shift) = (bit / 64, bit % 64);
                let both = u128::from(words[word]) | u128::from(words[word + 1]) << 64;
                (both >> shift) as u32 & low_bits(*width)
            }
        }
    }

    /// Sets a number; bits above the width are lost.
    #[inline]
    pub(super) fn set(&mut self, index: usize, value: u32) {
        match self {
            Self::Bytes(all) => all[index] = value as u8,
            Self::Halves(all) => all[index] = value as u16,
            Self::Wholes(all) => all[index] = value,
            Self::Words { words, width } => {
                let bit = index * *width as usize;
                let (word, shift) = (bit / 64, bit % 64);
                let mask = u128::from(low_bits(*width)) << shift;
                let value = (u128::from(value) << shift) & mask;
                words[word] = words[word] & !(mask as u64) | value as u64;
                let next = &mut words[word + 1];
                *next = *next & !((mask >> 64) as u64) | (value >> 64) as u64;
            }
        }
    }

    /// Which of the `count` numbers from `first` on, at most 32, are `value`: a bit for each, the
    /// first one's lowest.
    #[inline(always)]
    pub(super) fn equal(&self, first: usize, count: usize, value: u32) -> u32 {
        match self {
            Self::Halves(all) if count == 8 => match all[first..].first_chunk() {
                Some(eight) => equal_of_eight(eight, value as u16),
                None => self.equal_of_any(first, count, value),
            },
            _ => self.equal_of_any(first, count, value),
        }
    }

    #[inline(never)]
    fn equal_of_any(&self, first: usize, count: usize, value: u32) -> u32 {
        match self {
            Self::Bytes(all) => mask(&all[first..first + count], value as u8),
            Self::Halves(all) => mask(&all[first..first + count], value as u16),
            Self::Wholes(all) => mask(&all[first..first + count], value),
            Self::Words { .. } => (0..count).fold(0, |mask, at| {
                mask | u32::from(self.get(first + at) == value) << at
            }),
        }
    }
}

/// Eight at a time, in loops of that length without a branch: the compiler compares them with one
/// instruction.
#[inline]
fn mask<T: Copy + PartialEq>(all: &[T], value: T) -> u32 {
    let (eights, rest) = all.as_chunks::<8>();
    let bits = |some: &[T]| {
        let bits = some.iter().enumerate();
        bits.fold(0, |mask, (at, one)| mask | u32::from(*one == value) << at)
    };
    let eights = eights.iter().enumerate();
    let mask = eights.fold(0, |mask, (at, eight)| mask | bits(eight) << (8 * at));
    mask | bits(rest).checked_shl(all.len() as u32 & !7).unwrap_or(0)
}

const fn low_bits(width: u32) -> u32 {
    u32::MAX >> (32 - width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_of_any_width_are_kept_apart(
            width in 1u32..=32,
            sets in proptest::collection::vec((0usize..50, any::<u32>()), 0..200),
            wanted in any::<u32>(),
        ) {
            let (mut packed, mut plain) = (Packed::new(50, width), [0; 50]);
            for (index, value) in sets {
                let value = value & low_bits(width);
                packed.set(index, value);
                plain[index] = value;
            }
            for (index, value) in plain.iter().enumerate() {
                prop_assert_eq!(packed.get(index), *value);
            }
            for wanted in [plain[7], wanted & low_bits(width), 0] {
                for count in [8, 16] {
                    let mask = packed.equal(5, count, wanted);
                    for at in 0..count {
                        prop_assert_eq!(mask >> at & 1 == 1, plain[5 + at] == wanted);
                    }
                    prop_assert_eq!(mask >> count, 0);
                }
            }
        }
    }
}
