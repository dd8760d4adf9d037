//! Memory that other threads and processes write while it is read: accessed only as relaxed atomic
//! 8-byte words. A plain copy of such memory would be undefined behaviour.

use crate::prefetch::prefetch_at;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words that are copied between two looks at how many are left.
const RUN: usize = 4;

/// A span of shared memory, as words.
#[derive(Clone, Copy)]
pub(crate) struct SharedWords<'m>(&'m [AtomicU64]);

impl<'m> SharedWords<'m> {
    pub(crate) fn new(words: &'m [AtomicU64]) -> Self {
        Self(words)
    }

    /// The word at byte `offset`, a multiple of 8.
    #[inline]
    pub(crate) fn word(self, offset: u64) -> &'m AtomicU64 {
        debug_assert!(offset.is_multiple_of(8));
        &self.0[(offset / 8) as usize]
    }

    /// The words from byte `offset`, a multiple of 8, on.
    #[inline(always)]
    pub(crate) fn from(self, offset: u64) -> Self {
        debug_assert!(offset.is_multiple_of(8));
        Self(&self.0[(offset / 8) as usize..])
    }

    /// Loads a word. To be followed by [`SharedWords::acquire`].
    #[inline(always)]
    pub(crate) fn load(self, number: usize) -> u64 {
        before_access();
        self.0[number].load(Ordering::Relaxed)
    }

    /// What was published before a word that has been loaded is seen by later loads.
    #[inline(always)]
    pub(crate) fn acquire() {
        fence(Ordering::Acquire);
    }

    /// The verb of the same name; returns what was there.
    #[inline]
    pub(crate) fn compare_swap(self, offset: u64, expected: u64, new: u64) -> u64 {
        before_access();
        #[cfg(feature = "schedule")]
        if crate::schedule::swaps_blindly() {
            self.word(offset).store(new, Ordering::Relaxed);
            return expected;
        }
        let seen =
            self.word(offset)
                .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire);
        before_later_reads();
        seen.unwrap_or_else(|seen| seen)
    }

    /// The verb of the same name; returns what was there.
    #[inline]
    pub(crate) fn fetch_add(self, offset: u64, add: u64) -> u64 {
        before_access();
        let seen = self.word(offset).fetch_add(add, Ordering::AcqRel);
        before_later_reads();
        seen
    }

    /// Consecutive slots of so many words each, from byte `offset`, a multiple of 8, on: the words
    /// of a slot by their numbers, each loaded when it is asked for. To be followed by
    /// [`SharedWords::acquire`].
    #[inline(always)]
    pub(crate) fn slots<const WORDS: usize>(
        self,
        offset: u64,
        count: usize,
    ) -> impl Iterator<Item = impl Fn(usize) -> u64> {
        let (slots, _) = self.from(offset).0[..count * WORDS].as_chunks::<WORDS>();
        let slots = slots.iter();
        slots.map(|slot| {
            move |number: usize| {
                before_access();
                slot[number].load(Ordering::Relaxed)
            }
        })
    }

    /// Asks for the cache lines of a span that will be read soon.
    #[inline]
    pub(crate) fn prefetch(self, offset: u64, len: usize) {
        const LINE: usize = 64;
        let start = self.0.as_ptr().cast::<u8>();
        let at = |byte: usize| prefetch_at(start.wrapping_add(byte));
        let (first, end) = (offset as usize, offset as usize + len);
        if len <= LINE {
            // On one line or on two.
            at(first);
            at(end - 1);
            return;
        }
        let mut line = first & !(LINE - 1);
        while line < end {
            at(line);
            line += LINE;
        }
    }

    /// Copies `len` bytes from `offset` on into `to`, whose last word may receive more. What was
    /// published before a word that is seen here is seen by later copies.
    #[inline]
    pub(crate) fn copy_out(self, offset: u64, len: usize, to: &mut [u64]) {
        let first = (offset / 8) as usize;
        let shift = (offset % 8) * 8;
        if shift == 0 {
            let count = len.div_ceil(8);
            let (into, from) = (
                to[..count].as_chunks_mut(),
                self.0[first..first + count].as_chunks(),
            );
            let load = |(into, from): (&mut u64, &AtomicU64)| {
                before_access();
                *into = from.load(Ordering::Relaxed);
            };
            for (into, from) in into.0.iter_mut().zip(from.0) {
                let (into, from): (&mut [_; RUN], &[_; RUN]) = (into, from);
                into.iter_mut().zip(from).for_each(load);
            }
            into.1.iter_mut().zip(from.1).for_each(load);
        } else {
            self.copy_out_shifted(first, shift as u32, len, to);
        }
        fence(Ordering::Acquire);
    }

    /// As [`SharedWords::copy_out`], behind what `to` has.
    #[inline]
    pub(crate) fn append_to(self, offset: u64, len: usize, to: &mut Vec<u64>) {
        let words = len.div_ceil(8);
        if offset.is_multiple_of(8) {
            let first = (offset / 8) as usize;
            let from = &self.0[first..first + words];
            to.extend(from.iter().map(|word| {
                before_access();
                word.load(Ordering::Relaxed)
            }));
            fence(Ordering::Acquire);
        } else {
            let start = to.len();
            to.resize(start + words, 0);
            self.copy_out(offset, len, &mut to[start..]);
        }
    }

    /// Whether bytes from `offset`, a multiple of 8, on are these.
    #[inline]
    pub(crate) fn has_bytes(self, offset: u64, bytes: &[u8]) -> bool {
        let first = (offset / 8) as usize;
        let words = &self.0[first..first + bytes.len().div_ceil(8)];
        let load = |word: &AtomicU64| {
            before_access();
            word.load(Ordering::Relaxed)
        };
        let (chunks, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter();
        let are_equal = chunks
            .iter()
            .zip(&mut words)
            .all(|(bytes, word)| load(word) == u64::from_le_bytes(*bytes));
        are_equal
            && words.next().is_none_or(|word| {
                let mut padded = [0; 8];
                padded[..rest.len()].copy_from_slice(rest);
                let mask = u64::MAX << (rest.len() * 8);
                load(word) & !mask == u64::from_le_bytes(padded)
            })
    }

    fn copy_out_shifted(self, first: usize, shift: u32, len: usize, to: &mut [u64]) {
        let last = first + (shift as usize / 8 + len).div_ceil(8);
        before_access();
        let mut low = self.0[first].load(Ordering::Relaxed);
        for (index, into) in to[..len.div_ceil(8)].iter_mut().enumerate() {
            let next = first + index + 1;
            let high = if next < last {
                before_access();
                self.0[next].load(Ordering::Relaxed)
            } else {
                0
            };
            *into = low >> shift | high << (64 - shift);
            low = high;
        }
    }

    /// Copies bytes to `offset`. Words that the span covers only in part keep their other bytes,
    /// whatever others write to these meanwhile.
    #[inline]
    pub(crate) fn copy_in(self, offset: u64, len: usize, from: &[u64]) {
        fence(Ordering::Release);
        let first = (offset / 8) as usize;
        let shift = (offset % 8) * 8;
        if shift != 0 {
            return self.copy_in_shifted(first, shift as usize, len, from);
        }
        let full = len / 8;
        let (to, words) = (
            self.0[first..first + full].as_chunks(),
            from[..full].as_chunks(),
        );
        let store = |(to, word): (&AtomicU64, &u64)| {
            before_access();
            to.store(*word, Ordering::Relaxed);
        };
        for (to, words) in to.0.iter().zip(words.0) {
            let (to, words): (&[_; RUN], &[_; RUN]) = (to, words);
            to.iter().zip(words).for_each(store);
        }
        to.1.iter().zip(words.1).for_each(store);
        if !len.is_multiple_of(8) {
            self.merge(first + full, (1 << (len % 8 * 8)) - 1, from[full]);
        }
    }

    /// Copies bytes to the `shift`th bit of word `first` on; only the two ends are merged.
    fn copy_in_shifted(self, first: usize, shift: usize, len: usize, from: &[u64]) {
        if len == 0 {
            return;
        }
        // Bits from the start of the first word to the end of the span.
        let end = shift + len * 8;
        let mut carried = 0;
        for index in 0..end.div_ceil(64) {
            let next = from[..len.div_ceil(8)].get(index).copied().unwrap_or(0);
            let value = carried | next << shift;
            carried = next >> (64 - shift);
            let behind = 64usize.saturating_sub(end - index * 64);
            let before = if index == 0 { shift } else { 0 };
            match u64::MAX << before & u64::MAX >> behind {
                u64::MAX => {
                    before_access();
                    self.0[first + index].store(value, Ordering::Relaxed);
                }
                part => self.merge(first + index, part, value),
            }
        }
    }

    /// Replaces the bits of `mask` by a compare-and-swap of their word.
    fn merge(self, index: usize, mask: u64, value: u64) {
        before_access();
        let word = &self.0[index];
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let merged = seen & !mask | value & mask;
            match word.compare_exchange_weak(seen, merged, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(feature = "schedule")]
use crate::schedule::before_access;
/// Where a thread of a schedule gives way to others.
#[cfg(not(feature = "schedule"))]
#[inline(always)]
const fn before_access() {}

/// What a read-modify-write has stored is seen before what is loaded behind it: two clients that
/// each swap a word and then read the other's do not miss each other. On x86-64 its instruction
/// does this by itself; elsewhere a load may pass the store of one that only acquires and releases.
#[inline]
fn before_later_reads() {
    if cfg!(not(target_arch = "x86_64")) {
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_have_the_words_behind_an_offset() {
        let memory: Vec<AtomicU64> = (0..8).map(AtomicU64::new).collect();
        let shared = SharedWords::new(&memory);
        let slots = shared.slots::<3>(8, 2).map(|slot| [0, 1, 2].map(slot));
        assert_eq!(slots.collect::<Vec<_>>(), [[1, 2, 3], [4, 5, 6]]);
    }

    fn bytes_of(words: &[AtomicU64]) -> Vec<u8> {
        words
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect()
    }

    #[test]
    fn an_unaligned_copy_writes_whole_words_whole() {
        use std::sync::atomic::AtomicBool;
        let memory: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let shared = SharedWords::new(&memory);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..100_000u64 {
                    shared.copy_in(3, 24, &[(round % 2).wrapping_neg(); 3]);
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                for word in &memory[1..3] {
                    let seen = word.load(Ordering::Relaxed);
                    assert!(seen == 0 || seen == u64::MAX, "{seen:#x}");
                }
            }
        });
        // The bytes before and behind the span are not touched.
        assert_eq!(memory[0].load(Ordering::Relaxed), u64::MAX << 24);
        assert_eq!(memory[3].load(Ordering::Relaxed), (1 << 24) - 1);
    }

    proptest! {
        #[test]
        fn copies_are_those_of_plain_bytes(
            before in proptest::collection::vec(any::<u64>(), 8),
            data in proptest::collection::vec(any::<u64>(), 4),
            offset in 0u64..32,
            len in 0usize..=32,
        ) {
            let memory: Vec<AtomicU64> = before.iter().copied().map(AtomicU64::new).collect();
            let shared = SharedWords::new(&memory);
            let mut plain = bytes_of(&memory);
            let mut seen = [0u64; 4];
            shared.copy_out(offset, len, &mut seen);
            let start = offset as usize;
            prop_assert_eq!(&bytemuck::cast_slice::<_, u8>(&seen)[..len], &plain[start..start + len]);
            let mut appended = vec![7];
            shared.append_to(offset, len, &mut appended);
            prop_assert_eq!(appended.len(), 1 + len.div_ceil(8));
            prop_assert_eq!(appended[0], 7);
            prop_assert_eq!(&bytemuck::cast_slice::<_, u8>(&appended[1..])[..len], &plain[start..start + len]);
            shared.copy_in(offset, len, &data);
            plain[start..start + len].copy_from_slice(&bytemuck::cast_slice::<_, u8>(&data)[..len]);
            prop_assert_eq!(bytes_of(&memory), plain);
        }
    }
}
