//! A region as the processors of the node's owner use it.

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

    fn load(&self, offset: u64) -> Result<u64> {
        let at = self.locate(offset, 1)?;
        Ok(self.words.word(at).load(Ordering::Acquire))
    }

    fn store(&mut self, offset: u64, value: u64) -> Result<()> {
        let at = self.locate(offset, 1)?;
        self.words.word(at).store(value, Ordering::Release);
        Ok(())
    }

    fn compare_swap(&mut self, offset: u64, expected: u64, new: u64) -> Result<u64> {
        let at = self.locate(offset, 1)?;
        Ok(self.words.compare_swap(at, expected, new))
    }

    fn copy_out(&self, offset: u64, into: &mut [u64]) -> Result<()> {
        let at = self.locate(offset, into.len())?;
        self.words.copy_out(at, into.len() * 8, into);
        Ok(())
    }

    fn copy_in(&mut self, offset: u64, words: &[u64]) -> Result<()> {
        let at = self.locate(offset, words.len())?;
        for (word, to) in words.iter().zip((at..).step_by(8)) {
            self.words.word(to).store(*word, Ordering::Release);
        }
        Ok(())
    }
}

/// Nanoseconds since the first time that this was asked.
pub(super) fn now() -> Nanos {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as Nanos
}
