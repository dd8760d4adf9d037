//! What the owner of kept memory changes at once: all of it, or nothing if its process is killed.
//!
//! A client that dies between two of its verbs leaves tables as the schemes' protocols foresee. An
//! owner that changes structures of its own in a handler leaves them in no such state. So where the
//! memory outlives the owner, a handler's *turn* stores nothing at first: its stores are a list,
//! its loads look there first. At the end the list is written to the journal, is valid with one
//! store of its length, is carried out in its order, and is void with another. The next owner
//! carries a valid list out again.
//!
//! Nothing here is for the machine's end: the words are in memory, and what a process has stored
//! before it is killed is stored.
//!
//! *Notes* are what the owner has to know beside the tables, in a log of two halves. They come into
//! effect with the turn that makes them. The owner replaces all of them by others when a half is
//! full.
//!
//! ```text
//! 0     length of the list that is valid, or 0
//! 8     which half of the log is in use
//! 16    bytes of it
//! 4096  list: place, value; with the highest bit set the place is one of the journal
//! 16 Mi halves of the log, 8 MiB each: notes, each length in bytes (a word) and bytes (words)
//! ```

use crate::words::SharedWords;
use crate::{FabricError, Result};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const COUNT_AT: u64 = 0;
const HALF_AT: u64 = 8;
const TAIL_AT: u64 = 16;
const LIST_AT: u64 = 4096;
const LOG_AT: u64 = 16 << 20;
const HALF: u64 = 8 << 20;
/// Bytes of a journal.
pub(crate) const BYTES: u64 = LOG_AT + 2 * HALF;
/// Places of the list.
const MOST: u64 = (LOG_AT - LIST_AT) / 16;
/// A place in the journal itself.
const OF_JOURNAL: u64 = 1 << 63;

/// Where a journal and the region that it is for are in a node's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalPlacement {
    /// Byte at which it starts.
    pub(super) start: u64,
    /// Byte at which the region starts.
    pub(super) region: u64,
    /// The region's length in bytes.
    pub(super) bytes: u64,
}

/// What a turn is about to change.
#[derive(Debug, Default)]
pub(super) struct JournalEntry {
    list: Vec<(u64, u64)>,
    latest: HashMap<u64, u64>,
    notes: Vec<u64>,
    /// The notes replace all before them.
    anew: bool,
}

impl JournalEntry {
    /// The word at this place of the region, if the turn has changed it.
    #[inline]
    pub(super) fn load(&self, offset: u64) -> Option<u64> {
        match self.latest.is_empty() {
            true => None,
            false => self.latest.get(&offset).copied(),
        }
    }

    #[inline]
    pub(super) fn store(&mut self, offset: u64, value: u64) {
        self.latest.insert(offset, value);
        self.list.push((offset, value));
    }

    /// Whether it has half of the changes that it may have.
    pub(super) fn is_long(&self) -> bool {
        self.list.len() as u64 > MOST / 2
    }

    pub(super) fn note(&mut self, bytes: &[u8]) {
        self.notes.push(bytes.len() as u64);
        self.notes.extend(bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
    }

    /// Forgets all notes of before, and of this turn.
    pub(super) fn note_anew(&mut self) {
        self.notes.clear();
        self.anew = true;
    }
}

impl JournalPlacement {
    /// Carries out what the owner before has decided on, if it has not.
    ///
    /// # Errors
    /// What cannot be in a journal.
    pub(super) fn recover(self, memory: SharedWords<'_>) -> std::result::Result<(), String> {
        let word = |at| memory.word(self.start + at);
        let count = word(COUNT_AT).load(Acquire);
        if count > MOST {
            return Err(format!(
                "its journal has {count} changes; {MOST} is the limit"
            ));
        }
        let (half, tail) = self.log(memory);
        if half > 1 || tail > HALF || !tail.is_multiple_of(8) {
            return Err(format!(
                "its journal has {tail} bytes of notes in half {half}"
            ));
        }
        let entry = |index: u64| {
            let at = LIST_AT + index * 16;
            (word(at).load(Relaxed), word(at + 8).load(Relaxed))
        };
        for (place, _) in (0..count).map(entry) {
            if self.find(place).is_none() {
                return Err(format!("its journal has a change at {place:#x}"));
            }
        }
        for (place, value) in (0..count).map(entry) {
            if let Some(at) = self.find(place) {
                memory.word(at).store(value, Release);
            }
        }
        word(COUNT_AT).store(0, Release);
        Ok(())
    }

    /// The byte of the memory at a place of the list.
    fn find(self, place: u64) -> Option<u64> {
        let (start, offset, bytes) = match place & OF_JOURNAL {
            0 => (self.region, place, self.bytes),
            _ => (self.start, place & !OF_JOURNAL, LIST_AT),
        };
        (offset.is_multiple_of(8) && offset < bytes).then(|| start + offset)
    }

    /// The half of the log in use, and how many bytes of it.
    fn log(self, memory: SharedWords<'_>) -> (u64, u64) {
        let word = |at| memory.word(self.start + at).load(Acquire);
        (word(HALF_AT), word(TAIL_AT))
    }

    /// Bytes that notes may still have before all must be replaced.
    pub(super) fn room(self, memory: SharedWords<'_>) -> usize {
        (HALF - self.log(memory).1.min(HALF)) as usize
    }

    /// The notes, in their order; those that make no sense, and all behind them, are left out.
    pub(super) fn notes(self, memory: SharedWords<'_>) -> Vec<Vec<u8>> {
        let (half, tail) = self.log(memory);
        let mut words = vec![0; (tail.min(HALF) / 8) as usize];
        let start = self.start + LOG_AT + (half & 1) * HALF;
        memory.copy_out(start, words.len() * 8, &mut words);
        let mut notes = Vec::new();
        let mut left = &words[..];
        while let Some((length, rest)) = left.split_first() {
            let length = *length as usize;
            let Some(note) = rest.get(..length.div_ceil(8)) else {
                break;
            };
            let bytes = note.iter().flat_map(|word| word.to_le_bytes());
            notes.push(bytes.take(length).collect());
            left = &rest[note.len()..];
        }
        notes
    }

    /// Carries an entry out. Nothing of it is done if there is no room for it.
    ///
    /// # Errors
    /// [`FabricError::BufferTooLarge`].
    pub(super) fn commit(self, memory: SharedWords<'_>, mut entry: JournalEntry) -> Result<()> {
        if entry.list.is_empty() && entry.notes.is_empty() && !entry.anew {
            return Ok(());
        }
        let (mut half, mut tail) = self.log(memory);
        if entry.anew {
            (half, tail) = (1 - half, 0);
        }
        let bytes = entry.notes.len() as u64 * 8;
        let too_large = |requested: u64, limit: u64| FabricError::BufferTooLarge {
            requested: requested as usize,
            limit: limit as usize,
        };
        if tail + bytes > HALF {
            return Err(too_large(tail + bytes, HALF));
        }
        if bytes > 0 || entry.anew {
            // Nobody reads them before the end of the log is behind them.
            let at = self.start + LOG_AT + half * HALF + tail;
            memory.copy_in(at, bytes as usize, &entry.notes);
            entry.list.push((OF_JOURNAL | HALF_AT, half));
            entry.list.push((OF_JOURNAL | TAIL_AT, tail + bytes));
        }
        let count = entry.list.len() as u64;
        if count > MOST {
            return Err(too_large(count * 16, MOST * 16));
        }
        let word = |at| memory.word(self.start + at);
        for ((place, value), at) in entry.list.iter().zip((LIST_AT..).step_by(16)) {
            word(at).store(*place, Relaxed);
            word(at + 8).store(*value, Relaxed);
        }
        word(COUNT_AT).store(count, Release);
        for (place, value) in &entry.list {
            if let Some(at) = self.find(*place) {
                memory.word(at).store(*value, Release);
            }
        }
        word(COUNT_AT).store(0, Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    const REGION: u64 = 4096;

    fn memory() -> (Vec<AtomicU64>, JournalPlacement) {
        let words = (0..(REGION + BYTES) / 8).map(|_| AtomicU64::new(0));
        let journal = JournalPlacement {
            start: REGION,
            region: 0,
            bytes: REGION,
        };
        (words.collect(), journal)
    }

    #[test]
    fn a_turn_is_carried_out_whole_by_its_owner_or_the_next() {
        let (words, journal) = memory();
        let memory = SharedWords::new(&words);
        let mut entry = JournalEntry::default();
        for (at, value) in [(8, 1), (16, 2), (8, 3)] {
            entry.store(at, value);
        }
        entry.note(b"nine byte");
        assert_eq!((entry.load(8), entry.load(24)), (Some(3), None));
        journal.commit(memory, entry).unwrap();
        let found = [8, 16].map(|at| memory.word(at).load(Relaxed));
        assert_eq!(found, [3, 2]);
        assert_eq!(journal.notes(memory), [b"nine byte".to_vec()]);

        // Killed once the list was valid: as if only some of it were carried out.
        for (at, value) in [(8, 0), (16, 0), (REGION + TAIL_AT, 0)] {
            memory.word(at).store(value, Relaxed);
        }
        memory.word(REGION + COUNT_AT).store(5, Relaxed);
        journal.recover(memory).unwrap();
        let found = [8, 16].map(|at| memory.word(at).load(Relaxed));
        assert_eq!(found, [3, 2]);
        assert_eq!(journal.notes(memory).len(), 1);
        // And before: then there is nothing to do.
        memory.word(8).store(7, Relaxed);
        journal.recover(memory).unwrap();
        assert_eq!(memory.word(8).load(Relaxed), 7);
    }

    #[test]
    fn notes_are_replaced_as_one_and_what_has_no_room_is_refused() {
        let (words, journal) = memory();
        let memory = SharedWords::new(&words);
        for number in 0..3_u8 {
            let mut entry = JournalEntry::default();
            entry.note(&[number; 100]);
            journal.commit(memory, entry).unwrap();
        }
        assert_eq!(journal.notes(memory).len(), 3);
        let mut entry = JournalEntry::default();
        entry.note_anew();
        entry.note(b"all");
        journal.commit(memory, entry).unwrap();
        assert_eq!(journal.notes(memory), [b"all".to_vec()]);
        let mut entry = JournalEntry::default();
        entry.store(8, 1);
        entry.note(&vec![0; HALF as usize]);
        journal.commit(memory, entry).unwrap_err();
        let mut entry = JournalEntry::default();
        (0..=MOST).for_each(|_| entry.store(8, 1));
        journal.commit(memory, entry).unwrap_err();
        assert_eq!(memory.word(8).load(Relaxed), 0);
        assert_eq!(journal.notes(memory), [b"all".to_vec()]);
    }

    #[test]
    fn a_damaged_journal_is_refused() {
        for (at, value) in [
            (COUNT_AT, MOST + 1),
            (HALF_AT, 2),
            (TAIL_AT, 4),
            (TAIL_AT, HALF + 8),
        ] {
            let (words, journal) = memory();
            let memory = SharedWords::new(&words);
            memory.word(REGION + at).store(value, Relaxed);
            journal.recover(memory).unwrap_err();
        }
        for place in [4, REGION, OF_JOURNAL | LIST_AT] {
            let (words, journal) = memory();
            let memory = SharedWords::new(&words);
            memory.word(REGION + COUNT_AT).store(2, Relaxed);
            memory.word(REGION + LIST_AT).store(8, Relaxed);
            memory.word(REGION + LIST_AT + 8).store(9, Relaxed);
            memory.word(REGION + LIST_AT + 16).store(place, Relaxed);
            journal.recover(memory).unwrap_err();
            assert_eq!(memory.word(8).load(Relaxed), 0);
        }
    }
}
