//! SmartCuckoo for threads: many readers without locks, one writer at a time in each shard.
//!
//! # Protocol
//!
//! - Every slot has a version ([`super::versioned`]). A *hit* is the record of one moment.
//! - A *kick-out* copies each record of the path to the next bucket before its own is overwritten,
//!   from the vacant end on, so that a key is always in one of its buckets, and for a moment,
//!   unchanged, in both.
//! - A reader looks into the first bucket and then into the second. Between the two a key may have
//!   moved from the second to the first: so a *miss* counts only if the first bucket's header is
//!   still the same. It then was absent from both at the moment of the second look.
//! - The writer decides under its lock, by the forest, and moves nothing in vain.
//! - *Equal hashes*: two records of one hash fill both of its buckets, and no larger table would
//!   part them from a third. A third goes *aside*, into a list of its shard behind a lock, and
//!   stays there. A reader looks there after a miss, if there is anything; a key is either in the
//!   table or aside, and never goes from one to the other unless it is removed in between.
//! - *Growth* builds a larger table elsewhere, publishes it, and never changes the old one again. A
//!   reader that ends with another table than the published one looks again. Old tables are kept
//!   for readers that may be in them, until [`ConcurrentSmartCuckoo::reclaim`] or the map's end:
//!   together they are smaller than the last one.

use super::sync::{AtomicUsize, Mutex, Ordering, lock};
use super::versioned::{VersionedRead, VersionedSlots};
use super::words::Words;
use crate::hash::{TaggedCandidates, mix};
use crate::smart_cuckoo::forest::{Forest, Standing};
use crate::smart_cuckoo::plan::{Backups, Plan, Planner};
use crate::smart_cuckoo::{is_hopeless, load_limit};
use crate::{Full, InsertionCounters, LocalTable};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;

/// Tables that a shard can have had: each is twice as large as the one before.
const MOST_TABLES: usize = 30;
/// Shards by default: so many writers at a time.
const SHARDS: usize = 16;
/// The seed that chooses a key's shard, which no table's is.
const SHARD_SEED: u64 = u64::MAX;
/// Records that a shard keeps aside at most, since lookups of absent keys go through all of them.
const MOST_ASIDE: usize = 1 << 10;
/// Buckets of each of the two tables of a new shard, at least.
const LEAST_SIDE: u32 = 4;
/// Buckets of each of the two tables of a shard, at most.
const MOST_SIDE: u32 = 1 << 28;

/// A concurrent map of plain keys and values that are found with two probes at most.
///
/// ```
/// use farslot_local::ConcurrentSmartCuckoo;
///
/// let map = ConcurrentSmartCuckoo::<u64, [u64; 4]>::new();
/// std::thread::scope(|threads| {
///     threads.spawn(|| (0..1_000).for_each(|key| { map.insert(key, [key; 4]).unwrap(); }));
///     threads.spawn(|| (0..1_000).for_each(|key| {
///         assert!(map.get(&key).is_none_or(|value| value == [key; 4]));
///     }));
/// });
/// assert_eq!((map.len(), map.get(&7)), (1_000, Some([7; 4])));
/// ```
pub struct ConcurrentSmartCuckoo<K, V, S = RandomState> {
    shards: Box<[Shard<K, V>]>,
    hasher: S,
}

struct Shard<K, V> {
    /// The tables so far; the last one is the published one.
    tables: [OnceLock<Table<K, V>>; MOST_TABLES],
    published: AtomicUsize,
    records: AtomicUsize,
    writer: Mutex<Writer>,
    /// Records whose hash two records of the table have.
    aside: Mutex<Vec<StashRecord<K, V>>>,
    /// How many these are: where there are none, readers take no lock.
    aside_count: AtomicUsize,
}

/// A record that has no place in any table.
struct StashRecord<K, V> {
    hash: u64,
    key: K,
    value: V,
}

/// What the writer alone knows of the published table.
struct Writer {
    forest: Forest,
    planner: Planner,
    counters: InsertionCounters,
}

struct Table<K, V> {
    slots: VersionedSlots<K, V>,
    side: u32,
}

/// The backups of a table's records, which define the pseudoforest.
struct TableBackups<'a, K, V, S> {
    table: &'a Table<K, V>,
    hasher: &'a S,
}

impl<K: Words + Eq + Hash, V: Words, S: BuildHasher> Backups for TableBackups<'_, K, V, S> {
    fn is_vacant(&self, bucket: u32) -> bool {
        self.table.slots.tag(bucket) == 0
    }

    fn backup(&self, bucket: u32) -> u32 {
        let key = self.table.slots.key(bucket);
        let candidates = self.table.candidates(self.hasher.hash_one(key));
        candidates.backup_of(bucket)
    }
}

impl<K: Words + Eq + Hash, V: Words> ConcurrentSmartCuckoo<K, V, RandomState> {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity_and_hasher(0, SHARDS, RandomState::new())
    }
}

impl<K: Words + Eq + Hash, V: Words, S: BuildHasher + Default> Default
    for ConcurrentSmartCuckoo<K, V, S>
{
    fn default() -> Self {
        Self::with_capacity_and_hasher(0, SHARDS, S::default())
    }
}

impl<K: Words + Eq + Hash, V: Words, S: BuildHasher> ConcurrentSmartCuckoo<K, V, S> {
    /// An empty map with room for about so many records before a shard grows. As many threads as
    /// there are shards (rounded up to a power of two, at most 2^16) can write at a time.
    #[must_use]
    pub fn with_capacity_and_hasher(records: usize, shards: usize, hasher: S) -> Self {
        let shards = shards.clamp(1, 1 << 16).next_power_of_two();
        let slots = (records as f64 / crate::smart_cuckoo::MAX_LOAD).ceil() as usize;
        Self::with_slots_and_hasher(slots, shards, hasher)
    }

    /// An empty map of at least so many slots in all.
    #[must_use]
    pub fn with_slots_and_hasher(slots: usize, shards: usize, hasher: S) -> Self {
        let shards = shards.clamp(1, 1 << 16).next_power_of_two();
        let side = slots.div_ceil(2 * shards).min(MOST_SIDE as usize) as u32;
        let shard = || Shard::new(side.max(LEAST_SIDE));
        Self {
            shards: std::iter::repeat_with(shard).take(shards).collect(),
            hasher,
        }
    }

    /// The value of a key: without a lock.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).get(hash, key)
    }

    /// Whether a key is there: without a lock.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Inserts a record or replaces its value, and returns the old one. The shard grows where
    /// needed.
    ///
    /// # Errors
    /// [`Full`] if growing would not help: the shard is of its largest size, or nearly empty, as it
    /// can only be if many keys have the same buckets by hashes that differ; or if more than
    /// 1,024 keys of a shard have a hash that two others have.
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Full<K, V>> {
        self.put(key, value, true)
    }

    /// Inserts a record or replaces its value, and returns the old one. Nothing ever grows.
    ///
    /// # Errors
    /// [`Full`] if no arrangement of the shard's records and this one exists; nothing was moved.
    pub fn insert_within(&self, key: K, value: V) -> Result<Option<V>, Full<K, V>> {
        self.put(key, value, false)
    }

    /// Removes a record and returns its value.
    pub fn remove(&self, key: &K) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash);
        let writer = &mut *lock(&shard.writer);
        let table = shard.table();
        let candidates = table.candidates(hash);
        let Some((bucket, value)) = table.find(candidates, key) else {
            let removed = shard.remove_aside(hash, key)?;
            shard.records.fetch_sub(1, Ordering::Relaxed);
            return Some(removed);
        };
        let backup = candidates.backup_of(bucket);
        let hasher = &self.hasher;
        let backups = TableBackups { table, hasher };
        let is_on_cycle = writer.forest.standing(bucket).0 == Standing::Maximal
            && writer.planner.is_on_short_cycle(bucket, backup, &backups);
        writer.forest.disconnect(bucket, backup, is_on_cycle);
        table.slots.vacate(bucket);
        shard.records.fetch_sub(1, Ordering::Relaxed);
        Some(value)
    }

    /// The records held, as far as can be said while others write.
    pub fn len(&self) -> usize {
        let shards = self.shards.iter();
        shards
            .map(|shard| shard.records.load(Ordering::Relaxed))
            .sum()
    }

    /// Whether no record is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots of the published tables.
    pub fn slots(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.table().slots.slots()).sum()
    }

    /// What all insertions have cost.
    pub fn counters(&self) -> InsertionCounters {
        let of_shard = |shard: &Shard<K, V>| {
            let writer = lock(&shard.writer);
            InsertionCounters {
                bucket_probes: writer.counters.bucket_probes + writer.planner.steps,
                known_failures: writer.planner.known_failures,
                ..writer.counters
            }
        };
        let shards = self.shards.iter().map(of_shard);
        shards.fold(InsertionCounters::default(), |sum, counters| sum + counters)
    }

    /// Gives back the memory of tables that were grown out of: nobody else is in them, as the
    /// borrow says.
    pub fn reclaim(&mut self) {
        for shard in &mut self.shards {
            let published = shard.published.load(Ordering::Relaxed);
            for old in &mut shard.tables[..published] {
                old.take();
            }
        }
    }

    fn put(&self, key: K, value: V, may_grow: bool) -> Result<Option<V>, Full<K, V>> {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash);
        let writer = &mut *lock(&shard.writer);
        let mut table = shard.table();
        let candidates = table.candidates(hash);
        if let Some((bucket, old)) = table.find(candidates, &key) {
            table
                .slots
                .write(bucket, candidates.tag.get(), &key, &value);
            return Ok(Some(old));
        }
        if let Some(old) = shard.replace_aside(hash, &key, &value) {
            return Ok(Some(old));
        }
        let records = shard.records.load(Ordering::Relaxed);
        if may_grow && records >= load_limit(table.slots.slots()) {
            // If it cannot grow, what room there is is filled.
            let _ = shard.grow(writer, &self.hasher);
            table = shard.table();
        }
        while !writer.place(table, &self.hasher, hash, &key, &value) {
            if may_grow && table.has_twice(&self.hasher, hash) && shard.put_aside(hash, key, value)
            {
                break;
            }
            if !may_grow || !shard.grow(writer, &self.hasher) {
                return Err(Full {
                    key,
                    value,
                    records,
                    slots: table.slots.slots(),
                    stash: 0,
                });
            }
            table = shard.table();
        }
        shard.records.store(records + 1, Ordering::Relaxed);
        Ok(None)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard<K, V> {
        let mixed = if self.shards.len() == 1 {
            0
        } else {
            mix(hash, SHARD_SEED)
        };
        &self.shards[mixed as usize & (self.shards.len() - 1)]
    }
}

impl<K: Words + Eq + Hash, V: Words> Shard<K, V> {
    fn new(side: u32) -> Self {
        let mut tables = [const { OnceLock::new() }; MOST_TABLES];
        tables[0] = OnceLock::from(Table::new(side));
        Self {
            tables,
            published: AtomicUsize::new(0),
            records: AtomicUsize::new(0),
            writer: Mutex::new(Writer::of(side)),
            aside: Mutex::new(Vec::new()),
            aside_count: AtomicUsize::new(0),
        }
    }

    /// The value of a key that is aside.
    #[cold]
    fn get_aside(&self, hash: u64, key: &K) -> Option<V> {
        let aside = lock(&self.aside);
        let found = aside.iter().find(|one| one.is(hash, key));
        found.map(|one| one.value)
    }

    /// Replaces the value of a key that is aside. For the writer.
    fn replace_aside(&self, hash: u64, key: &K, value: &V) -> Option<V> {
        if self.aside_count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut aside = lock(&self.aside);
        let found = aside.iter_mut().find(|one| one.is(hash, key));
        found.map(|one| std::mem::replace(&mut one.value, *value))
    }

    /// Puts a record aside, unless there are too many. For the writer.
    fn put_aside(&self, hash: u64, key: K, value: V) -> bool {
        let mut aside = lock(&self.aside);
        if aside.len() >= MOST_ASIDE {
            return false;
        }
        aside.push(StashRecord { hash, key, value });
        self.aside_count.store(aside.len(), Ordering::Release);
        true
    }

    /// Removes a key that is aside. For the writer.
    fn remove_aside(&self, hash: u64, key: &K) -> Option<V> {
        if self.aside_count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut aside = lock(&self.aside);
        let place = aside.iter().position(|one| one.is(hash, key))?;
        let removed = aside.swap_remove(place);
        self.aside_count.store(aside.len(), Ordering::Release);
        Some(removed.value)
    }

    /// The published table.
    #[inline]
    fn table(&self) -> &Table<K, V> {
        self.table_of(self.published.load(Ordering::Acquire))
    }

    #[inline]
    fn table_of(&self, number: usize) -> &Table<K, V> {
        match self.tables[number].get() {
            Some(table) => table,
            None => unreachable!("a table is made before it is published"),
        }
    }

    #[inline]
    fn get(&self, hash: u64, key: &K) -> Option<V> {
        let mut number = self.published.load(Ordering::Acquire);
        loop {
            let found = self.table_of(number).get(hash, key);
            // What was written after a newer one was published is not in this one.
            let now = self.published.load(Ordering::Acquire);
            if now == number {
                let is_aside = found.is_none() && self.aside_count.load(Ordering::Acquire) > 0;
                return if is_aside {
                    self.get_aside(hash, key)
                } else {
                    found
                };
            }
            number = now;
        }
    }

    /// Publishes a larger table with all records. Returns whether it could.
    fn grow<S: BuildHasher>(&self, writer: &mut Writer, hasher: &S) -> bool {
        let number = self.published.load(Ordering::Relaxed);
        let old = self.table_of(number);
        let records = self.records.load(Ordering::Relaxed);
        let mut side = old.side;
        loop {
            if side >= MOST_SIDE
                || number + 1 == MOST_TABLES
                || is_hopeless(records, 2 * side as usize)
            {
                return false;
            }
            side = (2 * side).min(MOST_SIDE);
            let Some((table, mut new)) = Table::with_records_of(old, side, hasher) else {
                continue;
            };
            new.counters = writer.counters;
            new.planner.steps = writer.planner.steps;
            new.planner.known_failures = writer.planner.known_failures;
            // Always none there: only the writer makes tables, and this one is the next.
            let _ = self.tables[number + 1].set(table);
            *writer = new;
            self.published.store(number + 1, Ordering::Release);
            return true;
        }
    }
}

impl<K: Eq, V> StashRecord<K, V> {
    fn is(&self, hash: u64, key: &K) -> bool {
        self.hash == hash && self.key == *key
    }
}

impl Writer {
    fn of(side: u32) -> Self {
        Self {
            forest: Forest::unbuilt(2 * side),
            planner: Planner::default(),
            counters: InsertionCounters::default(),
        }
    }

    /// Places a record whose key is not there, unless no arrangement exists.
    fn place<K: Words + Eq + Hash, V: Words, S: BuildHasher>(
        &mut self,
        table: &Table<K, V>,
        hasher: &S,
        hash: u64,
        key: &K,
        value: &V,
    ) -> bool {
        if self.forest.is_worth_rebuilding() {
            self.forest = table.forest(hasher);
            self.counters.rebuilds += 1;
        }
        let candidates = table.candidates(hash);
        let backups = TableBackups { table, hasher };
        self.counters.bucket_probes += 2;
        let bucket = match self.planner.plan(&mut self.forest, candidates, &backups) {
            Plan::Fails => {
                self.counters.failures += 1;
                return false;
            }
            Plan::Direct(bucket) => bucket,
            Plan::KickOut(vacant) => {
                self.counters.kick_outs += self.planner.path().len() as u64;
                table.kick_out(self.planner.path(), vacant)
            }
        };
        table.slots.write(bucket, candidates.tag.get(), key, value);
        self.forest.connect(candidates.first, candidates.second);
        self.counters.insertions += 1;
        true
    }
}

impl<K: Words + Eq + Hash, V: Words> Table<K, V> {
    fn new(side: u32) -> Self {
        Self {
            slots: VersionedSlots::new(2 * side as usize),
            side,
        }
    }

    /// A table with another one's records, and what its writer knows; `None` if one has no place.
    fn with_records_of<S: BuildHasher>(
        old: &Self,
        side: u32,
        hasher: &S,
    ) -> Option<(Self, Writer)> {
        let (new, mut writer) = (Self::new(side), Writer::of(side));
        let occupied = (0..2 * old.side).filter(|&bucket| old.slots.tag(bucket) != 0);
        for bucket in occupied {
            let (key, value) = old.slots.record(bucket);
            if !writer.place(&new, hasher, hasher.hash_one(key), &key, &value) {
                return None;
            }
        }
        Some((new, writer))
    }

    #[inline]
    fn candidates(&self, hash: u64) -> TaggedCandidates {
        TaggedCandidates::of(hash, 0, self.side)
    }

    /// The value of a key, for readers.
    #[inline]
    fn get(&self, hash: u64, key: &K) -> Option<V> {
        let TaggedCandidates { first, second, tag } = self.candidates(hash);
        let tag = tag.get();
        loop {
            let header = match self.slots.read(first, tag, key) {
                VersionedRead::Hit(value) => return Some(value),
                VersionedRead::Miss(header) => header,
            };
            if let VersionedRead::Hit(value) = self.slots.read(second, tag, key) {
                return Some(value);
            }
            if self.slots.is_still(first, header) {
                return None;
            }
        }
    }

    /// Whether two records have this hash, so that no larger table has a place for a third.
    fn has_twice<S: BuildHasher>(&self, hasher: &S, hash: u64) -> bool {
        let TaggedCandidates { first, second, .. } = self.candidates(hash);
        [first, second].into_iter().all(|bucket| {
            self.slots.tag(bucket) != 0 && hasher.hash_one(self.slots.key(bucket)) == hash
        })
    }

    /// Where a key is, and its value, for the writer.
    fn find(&self, candidates: TaggedCandidates, key: &K) -> Option<(u32, V)> {
        [candidates.first, candidates.second]
            .into_iter()
            .find(|&bucket| {
                self.slots.tag(bucket) == candidates.tag.get() && self.slots.key(bucket) == *key
            })
            .map(|bucket| (bucket, self.slots.record(bucket).1))
    }

    /// Copies each record of a path on by one, the last one first. The first bucket's is then in
    /// two places, until the caller overwrites it.
    fn kick_out(&self, path: &[u32], vacant: u32) -> u32 {
        let mut to = vacant;
        for &from in path.iter().rev() {
            let (key, value) = self.slots.record(from);
            self.slots.write(to, self.slots.tag(from), &key, &value);
            to = from;
        }
        to
    }

    /// The forest as the records say.
    fn forest<S: BuildHasher>(&self, hasher: &S) -> Forest {
        let mut forest = Forest::new(2 * self.side);
        let occupied = (0..2 * self.side).filter(|&bucket| self.slots.tag(bucket) != 0);
        for bucket in occupied {
            let candidates = self.candidates(hasher.hash_one(self.slots.key(bucket)));
            forest.connect(candidates.first, candidates.second);
        }
        forest
    }
}

/// Of fixed size: by [`ConcurrentSmartCuckoo::insert_within`].
impl<K: Words + Eq + Hash, V: Words, S: BuildHasher> LocalTable<K, V>
    for ConcurrentSmartCuckoo<K, V, S>
{
    fn name(&self) -> &'static str {
        "concurrent SmartCuckoo"
    }

    fn slots(&self) -> usize {
        Self::slots(self)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn get(&self, key: &K) -> Option<V> {
        Self::get(self, key)
    }

    fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Full<K, V>> {
        self.insert_within(key, value)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        Self::remove(self, key)
    }

    fn counters(&self) -> InsertionCounters {
        Self::counters(self)
    }

    fn overhead_per_slot(&self) -> f64 {
        size_of::<u64>() as f64
    }
}
