//! What a client remembers: how many buckets there are, and where keys are that no hash leads to.

use lru::LruCache;
use std::num::NonZeroUsize;

/// What a client remembers of a table.
#[derive(Debug)]
pub struct Cache {
    /// Buckets beyond those to begin with, as the newest reply said.
    pub(super) extra: u64,
    /// Keys that are in chains, and where.
    places: Option<LruCache<Box<[u8]>, u64>>,
}

impl Cache {
    /// A cache that remembers the places of so many keys: only of those that are in chains, for the
    /// hash tells where all others are (paper 003, section 4, principle 5).
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self {
            extra: 0,
            places: NonZeroUsize::new(places).map(LruCache::new),
        }
    }

    pub(super) fn place(&mut self, key: &[u8]) -> Option<u64> {
        self.places.as_mut()?.get(key).copied()
    }

    pub(super) fn remember(&mut self, key: &[u8], at: u64) {
        if let Some(places) = &mut self.places {
            places.put(key.into(), at);
        }
    }

    pub(super) fn forget(&mut self, key: &[u8]) {
        if let Some(places) = &mut self.places {
            places.pop(key);
        }
    }

    /// How many keys' places are remembered.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places.as_ref().map_or(0, LruCache::len)
    }
}
