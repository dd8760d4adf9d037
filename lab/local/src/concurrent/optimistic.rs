//! The compared: a bucketized cuckoo table of libcuckoo's design (Fan, Andersen and Kaminsky,
//! "MemC3", 2013; Li, Andersen, Kaminsky and Freedman, "Algorithmic improvements for fast
//! concurrent cuckoo hashing", 2014).
//!
//! Buckets of four slots; one-byte tags; readers that check the versions of both buckets' stripes
//! before and after; writers that hold the locks of two stripes, never more; insertion that first
//! searches the shortest path to a vacant slot, breadth first and without locks, and then moves
//! records along it from the vacant end, checking each as it goes. A lock is a version that is odd.

use super::sync::{AtomicU64, Ordering, SpinBackoff, fence};
use super::words::Words;
use crate::hash::TaggedCandidates;
use crate::{Full, InsertionCounters, LocalTable};
use std::hash::{BuildHasher, Hash, RandomState};
use std::marker::PhantomData;

/// Slots of a bucket.
const SLOTS: usize = 4;
/// Buckets that a search reads at most.
const MOST_NODES: usize = 1024;
/// Locks, at most: as many as libcuckoo has.
const MOST_STRIPES: usize = 1 << 16;

/// A concurrent map of fixed size for plain keys and values, of libcuckoo's design.
pub struct OptimisticCuckoo<K, V, S = RandomState> {
    /// For each bucket a word of tags (a byte each, 0: vacant) and four keys and values.
    words: Box<[AtomicU64]>,
    stripes: Box<[Stripe]>,
    /// Buckets of each of the two halves.
    side: u32,
    hasher: S,
    records: PhantomData<(K, V)>,
}

/// A lock for some of the buckets, and what was done under it.
#[derive(Default)]
#[repr(align(64))]
struct Stripe {
    /// Odd while it is held; one more with every change of hands.
    version: AtomicU64,
    // Changed only under the lock, so that loads and stores suffice.
    inserted: AtomicU64,
    removed: AtomicU64,
    failures: AtomicU64,
    probes: AtomicU64,
    kick_outs: AtomicU64,
}

/// The stripes of two buckets, held; released when dropped.
struct StripeGuard<'a> {
    one: &'a Stripe,
    other: Option<&'a Stripe>,
}

/// A slot of a bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct OptimisticSlot {
    pub(super) bucket: u32,
    pub(super) slot: usize,
}

/// A bucket that a search has come to.
struct Node<K> {
    bucket: u32,
    /// From which node, and the record there that would move here.
    from: Option<(usize, usize, K)>,
}

enum Search<K> {
    /// The moves, the last one first: a record, its place, and where to.
    Path(Vec<(K, OptimisticSlot, OptimisticSlot)>),
    /// No vacant slot within the search's bounds.
    None,
}

impl<K: Words + Eq + Hash, V: Words, S: BuildHasher> OptimisticCuckoo<K, V, S> {
    const RECORD: usize = K::COUNT + V::COUNT;
    const STRIDE: usize = 1 + SLOTS * Self::RECORD;

    /// An empty table of at least so many slots, up to 2^30.
    #[must_use]
    pub fn with_slots_and_hasher(slots: usize, hasher: S) -> Self {
        let side = slots.min(1 << 30).div_ceil(2 * SLOTS).max(1);
        let stripes = (2 * side).next_power_of_two().min(MOST_STRIPES);
        Self {
            words: std::iter::repeat_with(|| AtomicU64::new(0))
                .take(2 * side * Self::STRIDE)
                .collect(),
            stripes: std::iter::repeat_with(Stripe::default)
                .take(stripes)
                .collect(),
            side: side as u32,
            hasher,
            records: PhantomData,
        }
    }

    /// The value of a key: without a lock.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        let candidates = self.candidates(key);
        let [one, two] = [candidates.first, candidates.second].map(|bucket| self.stripe(bucket));
        let mut backoff = SpinBackoff::default();
        loop {
            let versions = [one, two].map(|stripe| stripe.version.load(Ordering::Acquire));
            if versions.iter().any(|version| version % 2 == 1) {
                backoff.wait();
                continue;
            }
            let found = self.find(candidates, key).map(|place| self.value(place));
            fence(Ordering::Acquire);
            let now = [one, two].map(|stripe| stripe.version.load(Ordering::Relaxed));
            if now == versions {
                return found;
            }
        }
    }

    /// Inserts a record or replaces its value, and returns the old one.
    ///
    /// # Errors
    /// [`Full`] if no path to a vacant slot was found.
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Full<K, V>> {
        let candidates = self.candidates(&key);
        let both = [candidates.first, candidates.second];
        loop {
            {
                let held = self.hold(both);
                if let Some(place) = self.find(candidates, &key) {
                    let old = self.value(place);
                    self.write(place, candidates.tag.get(), &key, &value);
                    return Ok(Some(old));
                }
                add(&held.one.probes, 2);
                if let Some(place) = both.iter().find_map(|&bucket| self.vacant(bucket)) {
                    self.write(place, candidates.tag.get(), &key, &value);
                    add(&held.one.inserted, 1);
                    return Ok(None);
                }
            }
            let (search, probes) = self.search(both);
            let held = self.hold(both);
            add(&held.one.probes, probes);
            let Search::Path(moves) = search else {
                add(&held.one.failures, 1);
                drop(held);
                return Err(Full {
                    key,
                    value,
                    records: self.len(),
                    slots: self.slots(),
                    stash: 0,
                });
            };
            drop(held);
            // Whether or not all of them are still possible: the candidates are looked at again.
            for (key, from, to) in moves {
                if !self.displace(&key, from, to) {
                    break;
                }
            }
        }
    }

    /// Removes a record and returns its value.
    pub fn remove(&self, key: &K) -> Option<V> {
        let candidates = self.candidates(key);
        let held = self.hold([candidates.first, candidates.second]);
        let place = self.find(candidates, key)?;
        let value = self.value(place);
        self.set_tag(place, 0);
        add(&held.one.removed, 1);
        Some(value)
    }

    /// The records held, as far as can be said while others write.
    pub fn len(&self) -> usize {
        let inserted = self.sum(|stripe| &stripe.inserted);
        inserted.saturating_sub(self.sum(|stripe| &stripe.removed)) as usize
    }

    /// Whether no record is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its slots.
    pub fn slots(&self) -> usize {
        2 * self.side as usize * SLOTS
    }

    /// What all insertions have cost.
    pub fn counters(&self) -> InsertionCounters {
        InsertionCounters {
            insertions: self.sum(|stripe| &stripe.inserted),
            failures: self.sum(|stripe| &stripe.failures),
            bucket_probes: self.sum(|stripe| &stripe.probes),
            kick_outs: self.sum(|stripe| &stripe.kick_outs),
            ..InsertionCounters::default()
        }
    }

    /// Searches the shortest path from one of two full buckets to a vacant slot, and counts the
    /// buckets that it reads.
    fn search(&self, from: [u32; 2]) -> (Search<K>, u64) {
        let mut nodes: Vec<Node<K>> = from
            .into_iter()
            .map(|bucket| Node { bucket, from: None })
            .collect();
        let (mut at, mut probes) = (0, 0);
        while at < nodes.len() {
            let bucket = nodes[at].bucket;
            let keys = self.snapshot(bucket);
            probes += 1;
            if let Some(slot) = keys.iter().position(Option::is_none) {
                return (Search::Path(path(&nodes, at, slot)), probes);
            }
            for (slot, key) in keys.into_iter().flatten().enumerate() {
                if nodes.len() < MOST_NODES {
                    let to = self.candidates(&key).backup_of(bucket);
                    let from = Some((at, slot, key));
                    nodes.push(Node { bucket: to, from });
                }
            }
            at += 1;
        }
        (Search::None, probes)
    }

    /// The keys of a bucket at one moment.
    fn snapshot(&self, bucket: u32) -> [Option<K>; SLOTS] {
        let stripe = self.stripe(bucket);
        let mut backoff = SpinBackoff::default();
        loop {
            let version = stripe.version.load(Ordering::Acquire);
            if version % 2 == 1 {
                backoff.wait();
                continue;
            }
            let tags = self.tags(bucket);
            let keys = std::array::from_fn(|slot| {
                (tag_of(tags, slot) != 0).then(|| self.key(OptimisticSlot { bucket, slot }))
            });
            fence(Ordering::Acquire);
            if stripe.version.load(Ordering::Relaxed) == version {
                return keys;
            }
        }
    }

    /// Moves a record, if it is still there and the other place still vacant.
    pub(super) fn displace(&self, key: &K, from: OptimisticSlot, to: OptimisticSlot) -> bool {
        let held = self.hold([from.bucket, to.bucket]);
        let tag = tag_of(self.tags(from.bucket), from.slot);
        let is_possible =
            tag != 0 && self.key(from) == *key && tag_of(self.tags(to.bucket), to.slot) == 0;
        if is_possible {
            self.write(to, tag, key, &self.value(from));
            self.set_tag(from, 0);
            add(&held.one.kick_outs, 1);
        }
        is_possible
    }

    fn candidates(&self, key: &K) -> TaggedCandidates {
        TaggedCandidates::of(self.hasher.hash_one(*key), 0, self.side)
    }

    /// Where a key is. What it says holds only under the locks, or if the versions say so.
    #[inline]
    fn find(&self, candidates: TaggedCandidates, key: &K) -> Option<OptimisticSlot> {
        [candidates.first, candidates.second]
            .into_iter()
            .find_map(|bucket| {
                let tags = self.tags(bucket);
                (0..SLOTS)
                    .map(|slot| OptimisticSlot { bucket, slot })
                    .find(|&place| {
                        tag_of(tags, place.slot) == candidates.tag.get() && self.key(place) == *key
                    })
            })
    }

    fn vacant(&self, bucket: u32) -> Option<OptimisticSlot> {
        let tags = self.tags(bucket);
        let slot = (0..SLOTS).find(|&slot| tag_of(tags, slot) == 0)?;
        Some(OptimisticSlot { bucket, slot })
    }

    fn tags(&self, bucket: u32) -> u64 {
        self.words[bucket as usize * Self::STRIDE].load(Ordering::Relaxed)
    }

    fn set_tag(&self, place: OptimisticSlot, tag: u8) {
        let word = &self.words[place.bucket as usize * Self::STRIDE];
        let at = 8 * place.slot;
        let others = word.load(Ordering::Relaxed) & !(0xff << at);
        word.store(others | u64::from(tag) << at, Ordering::Relaxed);
    }

    fn record(&self, place: OptimisticSlot) -> &[AtomicU64] {
        let at = place.bucket as usize * Self::STRIDE + 1 + place.slot * Self::RECORD;
        &self.words[at..at + Self::RECORD]
    }

    fn key(&self, place: OptimisticSlot) -> K {
        let record = self.record(place);
        K::from_words(|index| record[index].load(Ordering::Relaxed))
    }

    fn value(&self, place: OptimisticSlot) -> V {
        let record = self.record(place);
        V::from_words(|index| record[K::COUNT + index].load(Ordering::Relaxed))
    }

    fn write(&self, place: OptimisticSlot, tag: u8, key: &K, value: &V) {
        let record = self.record(place);
        let (of_key, of_value) = record.split_at(K::COUNT);
        for (index, word) in of_key.iter().enumerate() {
            word.store(key.word(index), Ordering::Relaxed);
        }
        for (index, word) in of_value.iter().enumerate() {
            word.store(value.word(index), Ordering::Relaxed);
        }
        self.set_tag(place, tag);
    }

    fn stripe(&self, bucket: u32) -> &Stripe {
        &self.stripes[bucket as usize & (self.stripes.len() - 1)]
    }

    /// Locks the stripes of two buckets, in their order, so that no two writers wait for each
    /// other.
    fn hold(&self, buckets: [u32; 2]) -> StripeGuard<'_> {
        let mut stripes = buckets.map(|bucket| bucket as usize & (self.stripes.len() - 1));
        stripes.sort_unstable();
        let one = &self.stripes[stripes[0]];
        let other = (stripes[0] != stripes[1]).then(|| &self.stripes[stripes[1]]);
        one.lock();
        if let Some(other) = other {
            other.lock();
        }
        StripeGuard { one, other }
    }

    fn sum(&self, of: impl Fn(&Stripe) -> &AtomicU64) -> u64 {
        let stripes = self.stripes.iter();
        stripes
            .map(|stripe| of(stripe).load(Ordering::Relaxed))
            .sum()
    }
}

impl Stripe {
    fn lock(&self) {
        let mut backoff = SpinBackoff::default();
        loop {
            let version = self.version.load(Ordering::Relaxed);
            let is_free = version.is_multiple_of(2);
            if is_free
                && self
                    .version
                    .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                // A reader that sees what is stored from here on sees that the lock is held.
                fence(Ordering::Release);
                return;
            }
            backoff.wait();
        }
    }

    fn unlock(&self) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Release);
    }
}

impl Drop for StripeGuard<'_> {
    fn drop(&mut self) {
        self.one.unlock();
        if let Some(other) = self.other {
            other.unlock();
        }
    }
}

/// Adds to a counter of a stripe that is held.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

fn tag_of(tags: u64, slot: usize) -> u8 {
    (tags >> (8 * slot)) as u8
}

/// The moves that vacate a slot of one of the first two nodes, the last one first.
fn path<K: Copy>(
    nodes: &[Node<K>],
    mut at: usize,
    slot: usize,
) -> Vec<(K, OptimisticSlot, OptimisticSlot)> {
    let mut moves = Vec::new();
    let bucket = nodes[at].bucket;
    let mut to = OptimisticSlot { bucket, slot };
    while let Some((parent, slot, key)) = nodes[at].from {
        let bucket = nodes[parent].bucket;
        let from = OptimisticSlot { bucket, slot };
        moves.push((key, from, to));
        (at, to) = (parent, from);
    }
    moves
}

impl<K: Words + Eq + Hash, V: Words, S: BuildHasher> LocalTable<K, V>
    for OptimisticCuckoo<K, V, S>
{
    fn name(&self) -> &'static str {
        "libcuckoo-like"
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
        Self::insert(self, key, value)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        Self::remove(self, key)
    }

    fn counters(&self) -> InsertionCounters {
        Self::counters(self)
    }

    fn overhead_per_slot(&self) -> f64 {
        let stripes = (self.stripes.len() * size_of::<Stripe>()) as f64;
        size_of::<u64>() as f64 / SLOTS as f64 + stripes / self.slots() as f64
    }
}
