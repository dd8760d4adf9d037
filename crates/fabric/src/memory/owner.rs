//! A region as the processors of the node's owner use it.

use super::journal::{JournalEntry, JournalPlacement};
use crate::call::check_words;
use crate::words::SharedWords;
use crate::{Nanos, OwnerMemory, RegionId, Result};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A region of a node's memory, for a handler.
pub(super) struct RegionWords<'m> {
    pub(super) words: SharedWords<'m>,
    pub(super) region: RegionId,
    /// Byte of the node's memory at which the region starts.
    pub(super) start: u64,
    /// The region's length in bytes.
    pub(super) bytes: u64,
    /// Where the memory outlives the owner.
    pub(super) journal: Option<JournalPlacement>,
    /// What the turn that is under way will do.
    pub(super) entry: Option<JournalEntry>,
}

impl RegionWords<'_> {
    /// The byte of the node's memory at which `words` words of the region start.
    #[inline]
    fn locate(&self, offset: u64, words: usize) -> Result<u64> {
        check_words(self.region, offset, words, self.bytes)?;
        Ok(self.start + offset)
    }
}

impl OwnerMemory for RegionWords<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn now(&self) -> Option<Nanos> {
        Some(now())
    }

    #[inline]
    fn load(&self, offset: u64) -> Result<u64> {
        let at = self.locate(offset, 1)?;
        if let Some(changed) = self.entry.as_ref().and_then(|entry| entry.load(offset)) {
            return Ok(changed);
        }
        Ok(self.words.word(at).load(Ordering::Acquire))
    }

    #[inline]
    fn store(&mut self, offset: u64, value: u64) -> Result<()> {
        let at = self.locate(offset, 1)?;
        match &mut self.entry {
            Some(entry) => entry.store(offset, value),
            None => self.words.word(at).store(value, Ordering::Release),
        }
        Ok(())
    }

    fn compare_swap(&mut self, offset: u64, expected: u64, new: u64) -> Result<u64> {
        let at = self.locate(offset, 1)?;
        if self.entry.is_none() {
            return Ok(self.words.compare_swap(at, expected, new));
        }
        let seen = self.load(offset)?;
        if seen == expected {
            self.store(offset, new)?;
        }
        Ok(seen)
    }

    fn copy_out(&self, offset: u64, into: &mut [u64]) -> Result<()> {
        let at = self.locate(offset, into.len())?;
        self.words.copy_out(at, into.len() * 8, into);
        if let Some(entry) = &self.entry {
            for (word, at) in into.iter_mut().zip((offset..).step_by(8)) {
                *word = entry.load(at).unwrap_or(*word);
            }
        }
        Ok(())
    }

    fn copy_in(&mut self, offset: u64, words: &[u64]) -> Result<()> {
        let at = self.locate(offset, words.len())?;
        if let Some(entry) = &mut self.entry {
            for (word, to) in words.iter().zip((offset..).step_by(8)) {
                entry.store(to, *word);
            }
            return Ok(());
        }
        for (word, to) in words.iter().zip((at..).step_by(8)) {
            self.words.word(to).store(*word, Ordering::Release);
        }
        Ok(())
    }

    fn begin_turn(&mut self) {
        self.entry = self.journal.map(|_| JournalEntry::default());
    }

    fn end_turn(&mut self) -> Result<()> {
        match (self.journal, self.entry.take()) {
            (Some(journal), Some(entry)) => journal.commit(self.words, entry),
            _ => Ok(()),
        }
    }

    fn is_turn_long(&self) -> bool {
        self.entry.as_ref().is_some_and(JournalEntry::is_long)
    }

    fn room_for_notes(&self) -> Option<usize> {
        self.journal.map(|journal| journal.room(self.words))
    }

    fn note(&mut self, note: &[u8]) {
        if let Some(entry) = &mut self.entry {
            entry.note(note);
        }
    }

    fn note_anew(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.note_anew();
        }
    }

    fn notes(&self) -> Vec<Vec<u8>> {
        let journal = self.journal.map(|journal| journal.notes(self.words));
        journal.unwrap_or_default()
    }
}

/// Nanoseconds since the first time that this was asked.
pub(super) fn now() -> Nanos {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as Nanos
}
