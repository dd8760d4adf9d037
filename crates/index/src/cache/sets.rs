//! The sets of a cache: which answers are kept, and which go.

use crate::slot::bad_option;
use crate::{Result, Value};
use farslot_fabric::Nanos;
use std::rc::Rc;

/// Answers of a set, at most.
const WAYS: usize = 8;
/// What a kept record takes beside its bytes: the counts of its `Rc`, and what the allocator needs.
const RECORD_OVERHEAD: usize = 32;

/// All sets. Each has the same bytes, so that all of them together never take more than they may.
pub(super) struct CacheSets {
    sets: Box<[Set]>,
    /// By hash: each moves on with a fetch that ends, and a write that begins or ends. Keys that
    /// share one are taken for the same, which costs an answer now and then.
    versions: Box<[u32]>,
    /// The capacity of each set now.
    room: SetCapacity,
    /// The capacity of each set if nobody else takes the memory.
    most: SetCapacity,
}

/// What a set may hold.
#[derive(Clone, Copy)]
struct SetCapacity {
    entries: usize,
    /// Bytes of records, overhead included.
    bytes: usize,
}

#[derive(Default)]
struct Set {
    /// Bytes of its records, overhead included.
    bytes: usize,
    /// The least recently used first.
    entries: Vec<Entry>,
}

struct Entry {
    hash: u64,
    /// When its fetch began.
    began: Nanos,
    /// Key and value.
    record: Rc<[u8]>,
    key_len: u32,
    /// Or it is known that it is not.
    is_present: bool,
}

/// An answer that is being fetched.
pub(super) struct Fetch {
    hash: u64,
    began: Nanos,
    /// Nothing where no answer can change.
    version: Option<u32>,
}

impl Entry {
    fn is_of(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && self.record[..self.key_len as usize] == *key
    }

    fn answer(&self) -> Option<Value> {
        let from = self.key_len as usize;
        self.is_present
            .then(|| Value::of_shared(Rc::clone(&self.record), from))
    }
}

const fn bytes_of(record: usize) -> usize {
    record.next_multiple_of(8) + RECORD_OVERHEAD
}

impl CacheSets {
    pub(super) fn new(bytes: u64, record_bytes: usize) -> Result<Self> {
        let set_bytes = WAYS.saturating_mul(bytes_of(record_bytes.min(1 << 30)));
        let of_ways = WAYS * (size_of::<Entry>() + size_of::<u32>());
        let room = SetCapacity {
            entries: WAYS,
            bytes: set_bytes,
        };
        let each = (size_of::<Set>() + of_ways + set_bytes) as u64;
        let count = usize::try_from(bytes / each).unwrap_or(usize::MAX);
        if count == 0 || bytes > isize::MAX as u64 {
            let limit = format!("{each} to {}", isize::MAX);
            return Err(bad_option("cache bytes", bytes, limit));
        }
        Ok(Self {
            sets: std::iter::repeat_with(Set::default).take(count).collect(),
            versions: vec![0; count * WAYS].into(),
            room,
            most: room,
        })
    }

    /// Takes no more than so many bytes from now on, but for what it needs to manage itself.
    /// Answers that there is no room for go.
    pub(super) fn fit(&mut self, bytes: u64) {
        let each = bytes.saturating_sub(self.fixed_bytes()) / self.sets.len() as u64;
        let each = usize::try_from(each).unwrap_or(usize::MAX);
        let of_usual = size_of::<Entry>() + self.most.bytes / self.most.entries;
        let entries = (each / of_usual).min(self.most.entries);
        self.room = SetCapacity {
            entries,
            bytes: match entries {
                0 => 0,
                _ => (each - entries * size_of::<Entry>()).min(self.most.bytes),
            },
        };
        for set in &mut self.sets {
            set.fit(self.room);
            set.entries.shrink_to(entries);
        }
    }

    /// What there is beside entries and records.
    fn fixed_bytes(&self) -> u64 {
        (size_of_val(&*self.sets) + size_of_val(&*self.versions)) as u64
    }

    fn set(&mut self, hash: u64) -> &mut Set {
        let set = crate::hash::scale(hash, self.sets.len() as u64);
        &mut self.sets[set as usize]
    }

    /// What is known of a key since `oldest` or later: its value, or that it has none.
    pub(super) fn find(&mut self, hash: u64, key: &[u8], oldest: Nanos) -> Option<Option<Value>> {
        let set = self.set(hash);
        let at = set.position(hash, key)?;
        if set.entries[at].began < oldest {
            set.remove(at);
            return None;
        }
        set.entries[at..].rotate_left(1);
        set.entries.last().map(Entry::answer)
    }

    fn version(&mut self, hash: u64) -> &mut u32 {
        // The low bits: the sets are chosen by the high ones.
        let version = hash % self.versions.len() as u64;
        &mut self.versions[version as usize]
    }

    /// A fetch that begins; of a key whose answer may change, or of one whose answer stays.
    pub(super) fn fetch(&mut self, hash: u64, began: Nanos, may_change: bool) -> Fetch {
        let version = may_change.then(|| *self.version(hash));
        Fetch {
            hash,
            began,
            version,
        }
    }

    /// Keeps an answer, unless another of the key came first, or the key was written.
    pub(super) fn end(&mut self, fetch: Fetch, key: &[u8], answer: Option<&[u8]>) {
        let room = self.room;
        let version = *self.version(fetch.hash);
        let is_alone = fetch.version.is_none_or(|began_in| began_in == version);
        self.forget(fetch.hash, key);
        let set = self.set(fetch.hash);
        let record_len = key.len() + answer.map_or(0, <[u8]>::len);
        if !is_alone || bytes_of(record_len) > room.bytes {
            return;
        }
        set.fit(SetCapacity {
            entries: room.entries - 1,
            bytes: room.bytes - bytes_of(record_len),
        });
        let record = key.iter().chain(answer.unwrap_or_default());
        set.bytes += bytes_of(record_len);
        set.entries.reserve_exact(room.entries - set.entries.len());
        set.entries.push(Entry {
            hash: fetch.hash,
            began: fetch.began,
            record: record.copied().collect(),
            key_len: key.len() as u32,
            is_present: answer.is_some(),
        });
    }

    /// Drops what is known of a key, and what is being fetched of it.
    pub(super) fn forget(&mut self, hash: u64, key: &[u8]) {
        let version = self.version(hash);
        *version = version.wrapping_add(1);
        let set = self.set(hash);
        if let Some(at) = set.position(hash, key) {
            set.remove(at);
        }
    }

    pub(super) fn clear(&mut self) {
        for set in &mut self.sets {
            set.bytes = 0;
            set.entries = Vec::new();
        }
        for version in &mut self.versions {
            *version = version.wrapping_add(1);
        }
    }

    pub(super) fn entries(&self) -> u64 {
        self.sets.iter().map(|set| set.entries.len() as u64).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        let of = |set: &Set| set.bytes + set.entries.capacity() * size_of::<Entry>();
        let sets = self.sets.iter().map(|set| of(set) as u64).sum::<u64>();
        sets + self.fixed_bytes()
    }
}

impl Set {
    fn position(&self, hash: u64, key: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is_of(hash, key))
    }

    /// Drops the least recently used until there is room for the others.
    fn fit(&mut self, room: SetCapacity) {
        while self.entries.len() > room.entries || self.bytes > room.bytes {
            self.remove(0);
        }
    }

    fn remove(&mut self, at: usize) {
        let gone = self.entries.remove(at);
        self.bytes -= bytes_of(gone.record.len());
    }
}

#[cfg(test)]
#[path = "sets_tests.rs"]
mod tests;
