//! The memory of a simulated node: words, and writes to them that are not yet visible to everyone.
//!
//! An executed write is *pending* in a word until it settles: its writer reads the new value,
//! everyone else the old one. A word has at most one pending write. A later write or atomic settles
//! it first, so that no write overwrites the value of a later one.

use crate::{RegionInfo, Rights};
use std::collections::BTreeMap;

/// A region and a word within it.
type WordAddress = (u16, u64);

pub(super) struct Memory {
    regions: Vec<Vec<u64>>,
    rights: Vec<Rights>,
    lengths: Vec<u64>,
    pending: BTreeMap<WordAddress, UnsettledWord>,
}

struct UnsettledWord {
    value: Masked,
    writer: u32,
    /// Which part of which write it belongs to.
    settling: u32,
}

/// Some bytes of a word.
#[derive(Clone, Copy)]
pub(super) struct Masked {
    pub(super) value: u64,
    pub(super) mask: u64,
}

impl Masked {
    const fn over(self, word: u64) -> u64 {
        (word & !self.mask) | (self.value & self.mask)
    }
}

impl Memory {
    pub(super) fn new(regions: &[(u64, Rights)]) -> Self {
        let words = |len: &u64| usize::try_from(len.div_ceil(8)).expect("a region fits in memory");
        Self {
            regions: regions.iter().map(|(len, _)| vec![0; words(len)]).collect(),
            rights: regions.iter().map(|(_, rights)| *rights).collect(),
            lengths: regions.iter().map(|(len, _)| *len).collect(),
            pending: BTreeMap::new(),
        }
    }

    pub(super) fn infos(&self) -> Vec<RegionInfo> {
        let both = self.lengths.iter().zip(&self.rights);
        both.map(|(&len, &rights)| RegionInfo { len, rights })
            .collect()
    }

    pub(super) fn info(&self, region: u16) -> RegionInfo {
        RegionInfo {
            len: self.lengths[usize::from(region)],
            rights: self.rights[usize::from(region)],
        }
    }

    /// Empties the memory, as a restart does.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        // A fresh allocation: zeroing large regions in place would touch every page of them.
        for region in &mut self.regions {
            *region = vec![0; region.len()];
        }
    }

    /// The region's length in bytes, as far as it is whole words.
    pub(super) fn bytes(&self, region: u16) -> u64 {
        self.regions[usize::from(region)].len() as u64 * 8
    }

    /// Whether somebody's write to a word has not settled.
    pub(super) fn is_pending(&self, region: u16, word: u64) -> bool {
        self.pending.contains_key(&(region, word))
    }

    /// Copies words as `reader` sees them.
    pub(super) fn read(&self, reader: u32, region: u16, first: u64, out: &mut [u64]) {
        let start = first as usize;
        out.copy_from_slice(&self.regions[usize::from(region)][start..start + out.len()]);
        if self.pending.is_empty() {
            return;
        }
        let range = (region, first)..(region, first + out.len() as u64);
        for ((_, word), pending) in self.pending.range(range) {
            if pending.writer == reader {
                let seen = &mut out[(word - first) as usize];
                *seen = pending.value.over(*seen);
            }
        }
    }

    /// The words as everybody sees them.
    pub(super) fn settled(&self, region: u16) -> &[u64] {
        &self.regions[usize::from(region)]
    }

    /// A word for an atomic or a write that everybody sees at once.
    #[inline]
    pub(super) fn word_mut(&mut self, region: u16, word: u64) -> &mut u64 {
        if !self.pending.is_empty() {
            self.settle_word((region, word));
        }
        &mut self.regions[usize::from(region)][word as usize]
    }

    /// Writes bytes of a word so that everybody sees them at once.
    #[inline]
    pub(super) fn write(&mut self, region: u16, word: u64, value: Masked) {
        let word = self.word_mut(region, word);
        *word = value.over(*word);
    }

    /// Writes bytes of a word so that only the writer sees them until they settle.
    pub(super) fn write_pending(
        &mut self,
        (writer, settling): (u32, u32),
        region: u16,
        word: u64,
        value: Masked,
    ) {
        self.settle_word((region, word));
        let pending = UnsettledWord {
            value,
            writer,
            settling,
        };
        self.pending.insert((region, word), pending);
    }

    /// All words of a region, with every write settled.
    pub(super) fn region_mut(&mut self, region: u16) -> &mut [u64] {
        self.settle_where(|place, _| place.0 == region);
        &mut self.regions[usize::from(region)]
    }

    /// Shows one part of a write to everybody, as far as no later write to its words has done so;
    /// returns whose it was, if there was anything left to show.
    pub(super) fn settle(&mut self, settling: u32) -> Option<u32> {
        let mut writer = None;
        self.settle_where(|_, pending| {
            let settles = pending.settling == settling;
            if settles {
                writer = Some(pending.writer);
            }
            settles
        });
        writer
    }

    /// Shows everything that `writer` has written to everybody.
    pub(super) fn settle_writes_of(&mut self, writer: u32) {
        if !self.pending.is_empty() {
            self.settle_where(|_, pending| pending.writer == writer);
        }
    }

    fn settle_word(&mut self, place: WordAddress) {
        if let Some(pending) = self.pending.remove(&place) {
            self.apply(place, pending.value);
        }
    }

    fn settle_where(&mut self, mut chosen: impl FnMut(&WordAddress, &UnsettledWord) -> bool) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|place, write| {
            let settles = chosen(place, write);
            if settles {
                self.apply(*place, write.value);
            }
            !settles
        });
        self.pending = pending;
    }

    fn apply(&mut self, (region, word): WordAddress, value: Masked) {
        let word = &mut self.regions[usize::from(region)][word as usize];
        *word = value.over(*word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: u64 = u64::MAX;

    fn masked(value: u64, mask: u64) -> Masked {
        Masked { value, mask }
    }

    fn seen(memory: &Memory, reader: u32) -> u64 {
        let mut word = [0];
        memory.read(reader, 0, 1, &mut word);
        word[0]
    }

    #[test]
    fn a_pending_write_is_seen_by_its_writer_and_settles_for_all() {
        let mut memory = Memory::new(&[(32, Rights::ALL)]);
        memory.write(0, 1, masked(7, WHOLE));
        memory.write_pending((4, 0), 0, 1, masked(0xff00, 0xff00));
        assert_eq!((seen(&memory, 4), seen(&memory, 5)), (0xff07, 7));
        memory.settle(1);
        assert_eq!(seen(&memory, 5), 7);
        memory.settle(0);
        assert_eq!(seen(&memory, 5), 0xff07);
    }

    #[test]
    fn an_earlier_write_never_overwrites_a_later_one() {
        let mut memory = Memory::new(&[(32, Rights::ALL)]);
        memory.write_pending((4, 0), 0, 1, masked(1, WHOLE));
        memory.write_pending((5, 1), 0, 1, masked(2, WHOLE));
        assert_eq!((seen(&memory, 4), seen(&memory, 5)), (1, 2));
        *memory.word_mut(0, 1) += 10;
        memory.settle(0);
        memory.settle(1);
        assert_eq!(seen(&memory, 4), 12);
    }
}
