//! The word of a slot: what is in it, for which key, and how far its subtable had split when it was
//! written.
//!
//! ```text
//! | state, 2 bits | depth, 5 | tag, 8 | block's class, 6 | generation, 11 | granule, 32 |
//! ```
//! An empty word has nothing but its state, 0, and its depth. Memory that nobody has written is
//! therefore an empty slot of depth 0.

use crate::heap::{BlockRef, GRANULE};

/// Bits of a block's number in a slot: two fewer than a heap can have.
const GRANULE_BITS: u32 = 32;
const GENERATION_BITS: u32 = 11;
const CLASS_BITS: u32 = 6;
const TAG_SHIFT: u32 = GRANULE_BITS + GENERATION_BITS + CLASS_BITS;
const DEPTH_SHIFT: u32 = TAG_SHIFT + 8;
const STATE_SHIFT: u32 = 62;
const BLOCK: u64 = (1 << TAG_SHIFT) - 1;
const DEPTH: u64 = 31 << DEPTH_SHIFT;

/// How often a subtable can split, counted along its line from one of the first.
pub(super) const MOST_DEPTH: u32 = 31;
/// The largest heap whose blocks a slot can name, in bytes.
pub(super) const LARGEST_HEAP: u64 = GRANULE << GRANULE_BITS;

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nothing.
    Empty,
    /// An insertion that is not decided yet: no lookup sees it.
    Begun,
    /// A record.
    Live,
    /// A record that is on its way to the same slot of the subtable's new half.
    Moving,
}

impl State {
    /// Whether the slot has a record that is there for all to see, wherever that is.
    pub(super) const fn has_record(self) -> bool {
        matches!(self, Self::Live | Self::Moving)
    }
}

/// A slot's word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Word(pub(super) u64);

impl Word {
    /// An empty slot of a subtable of this depth.
    #[inline]
    pub(super) const fn empty(depth: u32) -> Self {
        Self((depth as u64) << DEPTH_SHIFT)
    }

    /// An insertion of the key with this tag that is not decided yet.
    #[inline]
    pub(super) const fn begun(depth: u32, tag: u8, block: BlockRef) -> Self {
        let block = block.granule
            | block.generation << GRANULE_BITS
            | (block.class as u64) << (GRANULE_BITS + GENERATION_BITS);
        Self(Self::empty(depth).0 | (tag as u64) << TAG_SHIFT | block).in_state(State::Begun)
    }

    #[inline]
    pub(super) const fn state(self) -> State {
        match self.0 >> STATE_SHIFT {
            0 => State::Empty,
            1 => State::Begun,
            2 => State::Live,
            _ => State::Moving,
        }
    }

    /// The same but for its state, which is none that has no record.
    #[inline]
    pub(super) const fn in_state(self, state: State) -> Self {
        Self(self.0 & !(3 << STATE_SHIFT) | (state as u64) << STATE_SHIFT)
    }

    /// How often the subtable had split.
    #[inline]
    pub(super) const fn depth(self) -> u32 {
        ((self.0 & DEPTH) >> DEPTH_SHIFT) as u32
    }

    /// The same of another depth.
    #[inline]
    pub(super) const fn at_depth(self, depth: u32) -> Self {
        Self(self.0 & !DEPTH | Self::empty(depth).0)
    }

    /// Eight bits of the key's hash.
    #[inline]
    pub(super) const fn tag(self) -> u8 {
        (self.0 >> TAG_SHIFT) as u8
    }

    /// The word of a record of a key with this tag, live in a subtable of this depth, but for its
    /// block.
    #[inline(always)]
    pub(super) const fn live(depth: u32, tag: u8) -> Self {
        let state = (State::Live as u64) << STATE_SHIFT;
        Self(state | Self::empty(depth).0 | (tag as u64) << TAG_SHIFT)
    }

    /// Whether it is that of a record of a key with this tag, live in a subtable of this depth.
    #[inline(always)]
    pub(super) const fn is_live_at(self, depth: u32, tag: u8) -> bool {
        self.0 >> TAG_SHIFT == Self::live(depth, tag).0 >> TAG_SHIFT
    }

    /// 0 if it is of this depth, and no record that is on its way to another subtable: for those
    /// who look through many words, and take them together by an or.
    #[inline(always)]
    pub(super) const fn unsettled_at(self, depth: u32) -> u64 {
        let moving = self.0 & self.0 << 1 & 1 << (STATE_SHIFT + 1);
        (self.0 ^ Self::empty(depth).0) & DEPTH | moving
    }

    /// Where the record is.
    #[inline]
    pub(super) const fn block(self) -> BlockRef {
        let bits = self.0 & BLOCK;
        BlockRef {
            granule: bits & ((1 << GRANULE_BITS) - 1),
            generation: bits >> GRANULE_BITS & ((1 << GENERATION_BITS) - 1),
            class: (bits >> (GRANULE_BITS + GENERATION_BITS)) as usize,
        }
    }

    /// The depth that the subtable has reached, or is about to: it is being split while a record
    /// moves.
    #[inline]
    pub(super) const fn reaches(self) -> u32 {
        match self.state() {
            State::Moving => self.depth() + 1,
            _ => self.depth(),
        }
    }
}

/// What has been met in slots that were looked through for live records of one tag: with a few
/// instructions for each, and no branch.
#[derive(Clone, Copy)]
pub(super) struct TagMatches {
    /// The word of such a record, but for its block.
    wanted: u64,
    /// All bits in which words differ from that.
    differing: u64,
    /// Which words are wanted, a bit each, the last word's the lowest; and the block of the last of
    /// them.
    found: u64,
    block: u64,
}

impl TagMatches {
    /// Nothing, while words like this one are wanted.
    #[inline(always)]
    pub(super) const fn nothing(Word(wanted): Word) -> Self {
        Self {
            wanted,
            differing: 0,
            found: 0,
            block: 0,
        }
    }

    /// Whether a word is that of such a record.
    #[inline(always)]
    pub(super) const fn is_wanted(&self, word: u64) -> bool {
        word ^ self.wanted <= BLOCK
    }

    /// Looks at one more, of 64 at most.
    #[inline(always)]
    pub(super) const fn word(&mut self, word: u64) {
        let differs = word ^ self.wanted;
        let is_wanted = self.is_wanted(word);
        self.differing |= differs;
        self.found = (self.found << 1) + is_wanted as u64;
        self.block = if is_wanted { differs } else { self.block };
    }

    /// Whether all words are of the depth that is wanted, and of nothing that is under way: neither
    /// a record on its way nor an insertion that is not decided.
    #[inline(always)]
    pub(super) const fn is_quiet(&self) -> bool {
        const UNDER_WAY: u64 = 1 << STATE_SHIFT;
        self.differing & (DEPTH | UNDER_WAY) == 0
    }

    /// The word that is wanted, if there is one; nothing if there are several.
    #[inline(always)]
    pub(super) fn found(&self) -> Option<Option<Word>> {
        let one = (self.found != 0).then_some(Word(self.wanted | self.block));
        let are_several = self.found & self.found.wrapping_sub(1) != 0;
        (!are_several).then_some(one)
    }

    /// The same, with its number among so many words that were looked at, of 64 at most; nothing
    /// where they are not all [quiet](TagMatches::is_quiet).
    #[inline(always)]
    pub(super) fn quiet_among(&self, words: usize) -> Option<Option<(u64, Word)>> {
        let behind = self.found.trailing_zeros() as usize;
        let are_quiet = self.is_quiet() && words <= u64::BITS as usize;
        let found = self.found().filter(|_| are_quiet)?;
        Some(found.map(|word| ((words - 1 - behind) as u64, word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words like those of one subtable: of few depths and tags.
    fn word() -> impl Strategy<Value = Word> {
        let parts = (0u64..4, 3u64..5, 6u64..8, 0u64..=BLOCK);
        parts.prop_map(|(state, depth, tag, block)| {
            Word(state << STATE_SHIFT | depth << DEPTH_SHIFT | tag << TAG_SHIFT | block)
        })
    }

    proptest! {
            #[test]
            fn what_is_met_in_many_is_what_each_says(
                words in proptest::collection::vec(prop_oneof![4 => word(), 1 => any::<u64>().prop_map(Word)], 0..20),
            ) {
                let (depth, tag) = (3, 6);
                let mut met = TagMatches::nothing(Word::live(depth, tag));
                words.iter().for_each(|word| met.word(word.0));
                let is_quiet = |word: &Word| {
                    word.unsettled_at(depth) == 0 && word.state() != State::Begun
                };
                prop_assert_eq!(met.is_quiet(), words.iter().all(is_quiet));
                let mut live = words.iter().filter(|word| word.is_live_at(depth, tag));
                let found = match (live.next(), live.next()) {
                    (one, None) => Some(one.copied()),
                    (_, Some(_)) => None,
                };
                prop_assert_eq!(met.found(), found);
                let number = |word| words.iter().position(|of| *of == word).map(|at| (at as u64, word));
    let numbered = found.map(|word| word.and_then(number));
                prop_assert_eq!(met.quiet_among(words.len()), numbered.filter(|_| met.is_quiet()));
            }

            #[test]
            fn words_say_what_they_were_made_of(
                depth in 0..=MOST_DEPTH,
                tag: u8,
                granule in 0u64..1 << GRANULE_BITS,
                generation in 0u64..1 << GENERATION_BITS,
                class in 0usize..1 << CLASS_BITS,
                later in 0..=MOST_DEPTH,
            ) {
                let block = BlockRef { granule, generation, class };
                let begun = Word::begun(depth, tag, block);
                for state in [State::Begun, State::Live, State::Moving] {
                    let word = begun.in_state(state).at_depth(later);
                    prop_assert_eq!((word.state(), word.depth()), (state, later));
                    prop_assert_eq!((word.tag(), word.block()), (tag, block));
                    prop_assert_eq!(word.in_state(State::Begun).at_depth(depth), begun);
                }
                for state in [State::Begun, State::Live, State::Moving] {
                    let word = begun.in_state(state);
                    let is_live = state == State::Live;
                    prop_assert_eq!(word.is_live_at(depth, tag), is_live);
                    prop_assert!(!word.is_live_at(depth, tag ^ 1));
                    prop_assert_eq!(word.is_live_at(later, tag), is_live && later == depth);
                    let is_settled = state != State::Moving;
                    prop_assert_eq!(word.unsettled_at(depth) == 0, is_settled);
                    prop_assert_eq!(word.unsettled_at(later) == 0, is_settled && later == depth);
                }
                prop_assert_eq!(Word::empty(depth).unsettled_at(later) == 0, later == depth);
                let empty = Word::empty(depth);
                prop_assert_eq!((empty.state(), empty.depth()), (State::Empty, depth));
                prop_assert_eq!(empty.0 == 0, depth == 0);
            }
        }
}
