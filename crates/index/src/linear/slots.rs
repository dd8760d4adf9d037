//! Looking through slots for a key's: what all walks along a probe have in common.
//!
//! Invariant: a slot that is in use keeps its key for ever, unless it is retired, and then it has
//! no key for ever. A slot that was seen to be another key's or nobody's therefore is not the key's
//! later, and a key whose probe was seen to meet an empty slot was absent at the moment when that
//! slot was read: it can stand in no later one.

use super::client::{Key, LinearTable};
use crate::hash::scale;
use crate::slot::{SlotHead, SlotKind, WordFormat};
use farslot_fabric::{Endpoint, Piece};
use std::ops::Range;

/// How often others may be faster before an operation gives up.
pub(super) const MOST_RACES: u32 = 100_000;

/// What a scan of slots has come to.
#[derive(Clone, Copy)]
pub(super) enum SlotMatch {
    Nothing,
    Empty,
    /// A Word or Pair slot of the key: the word that holds its value.
    Word(u64),
    /// An Inline, Heap or Hybrid slot that may be the key's.
    Head(u64),
}

/// Looks through consecutive Pair slots, each of which knows its words, for that of a key with this
/// word; returns how many it passed before it came to something, or to the end.
#[inline(always)]
pub(super) fn scan_pairs(
    wanted: u64,
    slots: impl Iterator<Item = impl Fn(usize) -> u64>,
) -> (usize, SlotMatch) {
    let mut passed = 0;
    for slot in slots {
        let head = slot(0);
        if head == wanted {
            return (passed, SlotMatch::Word(slot(1)));
        }
        if head == 0 {
            return (passed, SlotMatch::Empty);
        }
        passed += 1;
    }
    (passed, SlotMatch::Nothing)
}

impl<E: Endpoint> LinearTable<E> {
    /// The number of the slot at a distance from a home slot, round the table's end.
    #[inline]
    pub(super) fn slot_number(&self, home: u64, distance: u64) -> u64 {
        let slot = home + distance;
        if slot < self.layout.slots {
            slot
        } else {
            slot - self.layout.slots
        }
    }

    /// Of the slots that are read from a distance of a key's home: those before the table's end, or
    /// those that follow at its start.
    #[inline(always)]
    pub(super) fn piece_of_slots(
        &self,
        kind: SlotKind,
        (home, distance): (u64, u64),
        (slots, before_end): (u64, u64),
        number: usize,
    ) -> Piece {
        let (slot, slots) = match number {
            0 => (self.slot_number(home, distance), before_end),
            _ => (0, slots - before_end),
        };
        let slot_bytes = self.layout.slot_bytes_of(kind);
        Piece {
            from: self.layout.slot_at_of(kind, self.table, slot),
            len: slots as usize * slot_bytes,
        }
    }

    /// Looks through consecutive slots of the table's kind, of which `word` knows the words;
    /// returns the slot at which it came to something, or the end.
    #[inline(always)]
    pub(super) fn scan(
        &self,
        kind: SlotKind,
        key: &Key<'_>,
        slots: Range<usize>,
        word: impl Fn(usize) -> u64,
    ) -> (usize, SlotMatch) {
        let end = slots.end;
        match kind {
            SlotKind::Pair => {
                let (first, word) = (slots.start, &word);
                let pairs = slots.map(|slot| move |number: usize| word(2 * slot + number));
                let (passed, seen) = scan_pairs(key.word, pairs);
                return (first + passed, seen);
            }
            SlotKind::Word => {
                for slot in slots {
                    let head = word(slot);
                    if head == 0 {
                        return (slot, SlotMatch::Empty);
                    }
                    if self.words.same_key(head, key.word) {
                        return (slot, SlotMatch::Word(head));
                    }
                }
            }
            SlotKind::Inline | SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures => {
                let slot_words = self.layout.slot_bytes() / 8;
                for slot in slots {
                    let head = word(slot * slot_words);
                    if head == 0 {
                        return (slot, SlotMatch::Empty);
                    }
                    if SlotHead::decode(head).may_be(key.hash) {
                        return (slot, SlotMatch::Head(head));
                    }
                }
            }
        }
        (end, SlotMatch::Nothing)
    }

    /// Whether a word stands for a value: that of a Word or Pair slot which holds it, or the head
    /// of a slot.
    #[inline(always)]
    pub(super) fn has_value(&self, kind: SlotKind, word: u64) -> bool {
        match kind {
            SlotKind::Pair => word != 0,
            SlotKind::Word => WordFormat::is_live(word),
            _ => SlotHead::decode(word).is_live(),
        }
    }

    /// Whether a slot with this head can be that of a key.
    pub(super) fn may_stand_at(&self, key: &[u8], head: u64, slot: u64) -> bool {
        let hash = self.layout.hasher.hash(key);
        let slots = self.layout.slots;
        let distance = (slot + slots - scale(hash, slots)) % slots;
        SlotHead::decode(head).may_be(hash) && distance < self.layout.longest_probe
    }
}
