//! The slots of a key, for the usual steps of many: two spans, and in each the one slot that has
//! the key's tag, if there is one.
//!
//! Where something is under way in the slots, or several of a span have the tag, the operation goes
//! in steps.

use super::client::RaceTable;
use super::word::{TagMatches, Word};
use crate::heap::{BlockRef, Heap};
use crate::step::{NamingSlot, RecordSlots};
use farslot_fabric::{Endpoint, InPlace, Steps};

/// Slots that are looked through in one piece, where spans are of such pieces.
const RUN: usize = 8;

/// The spans of a key's slots.
#[derive(Clone, Copy)]
pub(crate) struct KeySpans {
    /// The bytes of the region at which they begin, and how many slots each has.
    spans: [(u64, usize); 2],
    /// Its slot's word, but for the block.
    wanted: Word,
}

impl<E: Endpoint> RecordSlots for RaceTable<E> {
    type Endpoint = E;
    type Slots = KeySpans;

    #[inline(always)]
    fn heap_of_slots(&self) -> &Heap<E> {
        &self.heap
    }

    #[inline(always)]
    fn admits(&self, value: &[u8]) -> bool {
        self.layout.value.admits(value.len())
    }

    #[inline(always)]
    fn slots_of(&self, key: &[u8], view: &InPlace<'_>) -> Option<KeySpans> {
        let key = self.checked_key(key).ok()?;
        let leaf = self.leaf_of(&key);
        let mut spans = [(0, 0); 2];
        for (of, span) in key.buckets.each_span().zip(&mut spans) {
            let piece = self.piece_of(leaf.subtable, of.first, of.slots);
            let start = view.offset_of(piece)?;
            view.prefetch(start, piece.len);
            *span = (start, of.slots as usize);
        }
        let wanted = Word::live(leaf.depth, key.tag);
        Some(KeySpans { spans, wanted })
    }

    #[inline(always)]
    fn naming_slots(
        &self,
        of: &KeySpans,
        view: &InPlace<'_>,
    ) -> Option<([Option<NamingSlot>; 2], Steps)> {
        let (mut named, mut steps) = ([None; 2], Steps::default());
        for ((start, slots), named) in of.spans.iter().zip(&mut named) {
            if *slots == 0 {
                continue;
            }
            let mut met = TagMatches::nothing(of.wanted);
            if slots.is_multiple_of(RUN) {
                for run in view.slots::<RUN>(*start, slots / RUN) {
                    (0..RUN).for_each(|slot| met.word(run(slot)));
                }
            } else {
                view.each_word(*start, *slots, |word| met.word(word));
            }
            let found = met.quiet_among(*slots)?;
            *named = found.map(|(number, word)| (start + number * 8, word.0));
            steps.add_to_step(1, *slots as u64 * 8);
        }
        steps.leave();
        Some((named, steps))
    }

    #[inline(always)]
    fn block_in(word: u64) -> BlockRef {
        Word(word).block()
    }

    #[inline(always)]
    fn renamed(word: u64, block: BlockRef) -> u64 {
        let word = Word(word);
        let renamed = Word::begun(word.depth(), word.tag(), block);
        renamed.in_state(word.state()).0
    }
}
