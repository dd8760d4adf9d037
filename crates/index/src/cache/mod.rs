//! A cache of answers in the client's memory, over any [`Index`]: set-associative, and the least
//! recently used go first.
//!
//! **What is promised.** By default nothing less than without: only answers that cannot change are
//! kept, those of tables that [never change again](crate::ClientState::sealed). Of other tables
//! answers are kept if [a bound](Freshness::Within) on their age is accepted. Then a lookup may
//! answer with what was true at some moment not longer ago than the bound (as its endpoint's clock
//! has it, from before the READs began until the answer is given). And of what one client sees,
//!
//! - its own writes are seen by all of its lookups that begin after them: a write takes the key out
//!   of the cache when it begins and when it ends, also if it fails or is given up;
//! - time does not go back: a lookup that begins after another one of the key has answered says
//!   nothing older. An answer is kept only if, while it was fetched, no other fetch of the key has
//!   ended and no write of it has begun or ended.
//!
//! While the table's node cannot be reached, or is known to have come back empty, nothing is
//! answered from the cache ([`Index::is_up`]): lookups meet what has happened as they would
//! without. A client of a node that came back empty is of memory that is gone, and its cache goes
//! with it.
//!
//! There is no word from other clients when they write: whoever needs their last word now asks
//! without the cache ([`Cached::index`]) or accepts no bound. Why no answer is confirmed by a READ
//! of its slot's word: the generations by which such words tell their uses apart come round, which
//! is no danger between two READs of one lookup, and would be in a cache of any age.
//!
//! **Which operations.** `get` and `get_many` are answered from it, absence included; a hit posts
//! nothing, and is no operation of the endpoint's counters. All else goes to the table. A multi-key
//! table's `get` may keep answering with the same record.
//!
//! **Memory.** A cache never takes more than its bytes, what it needs to manage them included;
//! values that callers still hold are theirs. [`Cached::within`] gives it what the index leaves of
//! one budget ([`ClientState::client_bytes`](crate::ClientState::client_bytes)): as the index
//! grows, answers make room for it, the least recently used first, down to what the cache needs to
//! manage itself (64 bytes a set). Like every client it belongs to one thread; each has a cache of
//! its own.

mod facade;
mod sets;

use crate::hash::Hasher;
use crate::slot::bad_option;
use crate::{CacheCounts, Index, Result, Value};
use farslot_fabric::Nanos;
use sets::{CacheSets, Fetch};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How old a kept answer may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Freshness {
    /// What a lookup without the cache could say: only tables that never change again are cached.
    #[default]
    Exact,
    /// What was so at most this long ago, of any table.
    Within(Nanos),
}

/// What a cache shall be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheOptions {
    /// Bytes of memory that it may take.
    pub bytes: u64,
    /// Bytes of key and value of a usual record. A set has room for 8 of these; much larger ones
    /// are not kept, and of much smaller ones there are no more.
    pub record_bytes: usize,
    /// How old answers may be.
    pub freshness: Freshness,
}

impl CacheOptions {
    /// Options for so many bytes and records of this size, with exact answers.
    #[must_use]
    pub const fn new(bytes: u64, record_bytes: usize) -> Self {
        Self {
            bytes,
            record_bytes,
            freshness: Freshness::Exact,
        }
    }

    /// The same with answers that may be so old.
    #[must_use]
    pub const fn stale_for(self, at_most: Nanos) -> Self {
        Self {
            freshness: Freshness::Within(at_most),
            ..self
        }
    }
}

/// An index whose lookups are answered from memory where they can be.
///
/// ```no_run
/// # use farslot_index::{AnyIndex, Index, Result, cache::{CacheOptions, Cached}};
/// # async fn example(table: AnyIndex) -> Result<()> {
/// // 64 MiB for records of some 100 bytes, which may be 5 ms old.
/// let options = CacheOptions::new(64 << 20, 100).stale_for(5_000_000);
/// let table = Cached::new(table, options)?;
/// table.get(b"key").await?;
/// # Ok(()) }
/// ```
pub struct Cached<I: ?Sized> {
    index: Rc<I>,
    cache: Cache,
}

/// The answers of an index, and how they are kept.
struct Cache {
    freshness: Freshness,
    hasher: Hasher,
    sets: RefCell<CacheSets>,
    hits: Cell<u64>,
    misses: Cell<u64>,
    /// Of a cache that shares its bytes with the index.
    budget: Option<Budget>,
}

/// Bytes of index and cache together.
struct Budget {
    bytes: u64,
    /// What the index took when it was last asked.
    of_index: Cell<u64>,
}

/// A write under way: the key is out of the cache when it begins and when it ends, however it does.
struct UncachedWrite<'c> {
    sets: &'c RefCell<CacheSets>,
    hash: u64,
    key: &'c [u8],
}

impl Drop for UncachedWrite<'_> {
    fn drop(&mut self) {
        self.sets.borrow_mut().forget(self.hash, self.key);
    }
}

impl<I: Index + ?Sized> Cached<I> {
    /// The index with an empty cache.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) for less bytes than one set takes, or more than
    /// there can be.
    pub fn new(index: Rc<I>, options: CacheOptions) -> Result<Self> {
        let cache = Cache {
            freshness: options.freshness,
            // Of this memory only: nobody else has to find anything in it.
            hasher: Hasher::Xxh3 { seed: 0 },
            sets: RefCell::new(CacheSets::new(options.bytes, options.record_bytes)?),
            hits: Cell::new(0),
            misses: Cell::new(0),
            budget: None,
        };
        Ok(Self { index, cache })
    }

    /// The index with a cache that takes what the index leaves of `options.bytes`: of what it keeps
    /// already, and of what it may keep
    /// ([`ClientState::client_bytes`](crate::ClientState::client_bytes)).
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) where that is less than one set takes.
    pub fn within(index: Rc<I>, options: CacheOptions) -> Result<Self> {
        let of_index = index.state().client_bytes;
        let bytes = options.bytes.checked_sub(of_index).ok_or_else(|| {
            let limit = format!("at least the {of_index} bytes that the index takes");
            bad_option("memory budget", options.bytes, limit)
        })?;
        let mut cached = Self::new(index, CacheOptions { bytes, ..options })?;
        cached.cache.budget = Some(Budget {
            bytes: options.bytes,
            of_index: Cell::new(of_index),
        });
        Ok(cached)
    }

    /// The index itself, which answers with the last word.
    #[must_use]
    pub fn index(&self) -> &I {
        &self.index
    }

    /// What the cache has done so far.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        let sets = self.cache.sets.borrow();
        CacheCounts {
            hits: self.cache.hits.get(),
            misses: self.cache.misses.get(),
            entries: sets.entries(),
            bytes: sets.bytes(),
        }
    }

    /// Drops all answers.
    pub fn clear(&self) {
        self.cache.sets.borrow_mut().clear();
    }

    /// The answer, if there is one that is not too old; else a fetch that begins now, unless
    /// nothing may be kept.
    #[inline]
    fn look(&self, key: &[u8]) -> std::result::Result<Option<Value>, Option<Fetch>> {
        match self.index.is_up() {
            true => self.cache.look(&*self.index, key),
            false => Err(None),
        }
    }

    /// Keeps what a fetch has come to, if it may be kept. An answer that may not be is newer than
    /// one that was kept before, which is forgotten.
    #[inline]
    fn keep(&self, fetch: Option<Fetch>, key: &[u8], answer: &Result<Option<Value>>) {
        let Ok(answer) = answer else {
            return;
        };
        let cache = &self.cache;
        cache.make_room_for(&*self.index);
        let mut sets = cache.sets.borrow_mut();
        match fetch {
            Some(fetch) => sets.end(fetch, key, answer.as_deref()),
            None => sets.forget(cache.hasher.hash(key), key),
        }
    }

    /// Begins a write, which lasts until what this returns is dropped.
    fn writing<'c>(&'c self, key: &'c [u8]) -> UncachedWrite<'c> {
        let cache = &self.cache;
        cache.make_room_for(&*self.index);
        let hash = cache.hasher.hash(key);
        cache.sets.borrow_mut().forget(hash, key);
        UncachedWrite {
            sets: &cache.sets,
            hash,
            key,
        }
    }
}

impl Cache {
    fn look(
        &self,
        index: &(impl Index + ?Sized),
        key: &[u8],
    ) -> std::result::Result<Option<Value>, Option<Fetch>> {
        let oldest = match self.freshness {
            Freshness::Exact if !index.state().sealed => return Err(None),
            Freshness::Exact => 0,
            Freshness::Within(bound) => index.now().saturating_sub(bound),
        };
        let mut sets = self.sets.borrow_mut();
        let hash = self.hasher.hash(key);
        if let Some(answer) = sets.find(hash, key, oldest) {
            self.hits.set(self.hits.get() + 1);
            return Ok(answer);
        }
        self.misses.set(self.misses.get() + 1);
        let may_change = self.freshness != Freshness::Exact;
        Err(Some(sets.fetch(hash, index.now(), may_change)))
    }

    /// Leaves the index what it takes of the budget by now.
    fn make_room_for(&self, index: &(impl Index + ?Sized)) {
        let Some(budget) = &self.budget else { return };
        let of_index = index.state().client_bytes;
        if budget.of_index.replace(of_index) != of_index {
            let left = budget.bytes.saturating_sub(of_index);
            self.sets.borrow_mut().fit(left);
        }
    }
}
