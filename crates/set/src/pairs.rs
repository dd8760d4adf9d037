//! A set of pairs of words, with small indices: the nodes of decision diagrams.

use crate::{Layout, MAX_ELEMENTS, Outcome, Segments, SetError, hash, layout};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pairs that a worker takes space for at a time: those of one word of live bits.
const BLOCK: u64 = 64;
/// Fewest pairs that a rank has room for.
const LEAST: u64 = 1 << 10;

/// A set of pairs of words. Each has an index below 2^31 - 64, which it keeps, and by which it is
/// read with one load a word.
///
/// The set lies in the memory of one or more ranks, all of it mapped, and has as many *workers* as
/// there are threads in these processes. Each worker has a `PairSet` of its own over the same
/// memory ([`PairSet::another`]). All memory is reserved in the beginning, and a growing part of it
/// is used, so that the set grows where it is.
///
/// ```text
/// a rank's element words:  | 2 words a pair | 1 bit a pair: it is live |
/// ```
///
/// Growth and garbage collection stop the world: all workers call the same methods in the same
/// order, with a barrier between each two, and call no others meanwhile. Each does a share of the
/// work.
///
/// | growth                              | garbage collection                                 |
/// |-------------------------------------|----------------------------------------------------|
/// | [`forget_live`](PairSet::forget_live) | [`forget_live`](PairSet::forget_live)            |
/// | [`mark_all`](PairSet::mark_all)     | [`mark`](PairSet::mark) of each live pair, by anyone |
/// | [`empty`](PairSet::empty)           | [`empty`](PairSet::empty)                          |
/// | [`refill`](PairSet::refill)         | [`refill`](PairSet::refill)                        |
/// |                                     | [`free_dead`](PairSet::free_dead), by one worker   |
#[derive(Debug)]
pub struct PairSet {
    segments: Segments,
    /// Pairs that each rank's memory has room for, and that it may hold now.
    reserved: u64,
    in_use: u64,
    /// Space that this worker has taken: the index of its first pair, and a bit for each that is
    /// free.
    spare: (u64, u64),
}

/// A worker's share of what all workers do together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// This worker, from 0.
    pub worker: u64,
    /// How many there are.
    pub workers: u64,
}

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self {
        worker: 0,
        workers: 1,
    };

    /// This worker's part of `0..all`.
    #[must_use]
    pub fn of(self, all: u64) -> Range<u64> {
        let at = |worker| (u128::from(all) * u128::from(worker) / u128::from(self.workers)) as u64;
        at(self.worker)..at(self.worker + 1)
    }
}

impl PairSet {
    /// The memory of a set of `ranks` ranks, each with room for `pairs` pairs at most.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`].
    pub fn layout(ranks: u64, pairs: u64) -> Result<Layout, SetError> {
        let pairs = pairs.next_multiple_of(BLOCK).max(LEAST);
        let layout = Layout::new(ranks, buckets_for(pairs), 2 * pairs + pairs / BLOCK)?;
        // An index says which rank, and which of its pairs.
        let most = 1 << layout.unit_bits();
        crate::error::check_range("the pairs of a rank", pairs, LEAST, most)?;
        Ok(layout)
    }

    /// The most pairs that `bytes` bytes of each of `ranks` ranks have room for; at least a few.
    #[must_use]
    pub fn most_pairs(ranks: u64, bytes: u64) -> u64 {
        let addressable = MAX_ELEMENTS / ranks.max(1).next_power_of_two() - BLOCK;
        // 16 bytes, 4/3 of a bucket and a bit a pair.
        let fitting = bytes / 27;
        let most = fitting.min(addressable).max(LEAST);
        most / BLOCK * BLOCK
    }

    /// An empty set over memory that starts as zeros and is laid out by [`PairSet::layout`]; each
    /// rank may hold `pairs` pairs until the set grows.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`] for memory of another layout, or without room for as many.
    pub fn over(segments: Segments, pairs: u64) -> Result<Self, SetError> {
        let words = segments.layout().element_words();
        let reserved = words / (2 * BLOCK + 1) * BLOCK;
        let least = (LEAST / BLOCK) * (2 * BLOCK + 1);
        crate::error::check_range("the element words of a rank", words, least, u64::MAX)?;
        let mut set = Self {
            segments,
            reserved,
            in_use: 0,
            spare: (0, 0),
        };
        set.set_room(pairs)?;
        Ok(set)
    }

    /// An empty set of this process alone, with room for so many pairs.
    ///
    /// # Errors
    /// As [`PairSet::layout`]; [`SetError::Fabric`] beyond what the machine has.
    pub fn alone(pairs: u64) -> Result<Self, SetError> {
        let layout = Self::layout(1, pairs)?;
        let segments = Segments::alone(layout.buckets(), layout.element_words())?;
        Self::over(segments, pairs)
    }

    /// The same set, for another worker of this process.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            segments: self.segments.clone(),
            spare: (0, 0),
            ..*self
        }
    }

    /// Each rank may hold so many pairs.
    fn set_room(&mut self, pairs: u64) -> Result<(), SetError> {
        let pairs = pairs.next_multiple_of(BLOCK);
        crate::error::check_range("the pairs of a rank", pairs, BLOCK, self.reserved)?;
        self.segments.use_buckets(buckets_for(pairs))?;
        self.in_use = pairs;
        Ok(())
    }

    /// Finds or inserts a pair; the outcome has its index. [`Outcome::Full`] says that it is time
    /// to grow.
    #[inline]
    pub fn find_or_put(&mut self, pair: [u64; 2]) -> Outcome<u32> {
        let Self {
            segments,
            spare,
            reserved,
            in_use,
        } = self;
        let hash = hash::of_words(&pair);
        let mut written = None;
        let put = segments.find_or_put(
            hash,
            |seen| {
                let index = layout::index_in(seen);
                layout::may_be(seen, hash) && get(segments, index) == pair
            },
            || {
                if written.is_none() {
                    let index = reserve(segments, spare, *reserved, *in_use)?;
                    let (rank, unit) = segments.layout().unit_of(index);
                    let words = segments.elements(rank).get(2 * unit as usize..)?;
                    words[0].store(pair[0], Ordering::Relaxed);
                    words[1].store(pair[1], Ordering::Relaxed);
                    written = Some(layout::bucket_of(hash, index));
                }
                written
            },
        );
        if put.is_inserted() {
            spare.1 &= spare.1 - 1;
        }
        put.map(|(_, bucket)| layout::index_in(bucket) as u32)
    }

    /// The pair with this index, or zeros where there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> [u64; 2] {
        get(&self.segments, index.into())
    }

    /// Pairs in the set, those that workers have taken space for included.
    #[must_use]
    pub fn len(&self) -> u64 {
        let counts = (0..self.ranks()).map(|rank| self.segments.count(rank));
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Whether no pair was put.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pairs that each rank may hold now.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.in_use
    }

    /// Pairs that each rank's memory has room for.
    #[must_use]
    pub fn most_room(&self) -> u64 {
        self.reserved
    }

    /// Bytes of the memory in use, with room for `pairs` pairs a rank.
    #[must_use]
    pub fn bytes_with(&self, pairs: u64) -> u64 {
        (buckets_for(pairs) * 8 + pairs * 16 + pairs / 8) * self.ranks() as u64
    }

    fn ranks(&self) -> usize {
        self.segments.layout().ranks() as usize
    }

    /// Forgets which pairs are live.
    pub fn forget_live(&self, share: Share) {
        for rank in 0..self.ranks() {
            let live = self.live(rank);
            let share = share.of(live.len() as u64);
            for word in &live[share.start as usize..share.end as usize] {
                word.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Says that a pair is live. Whether nobody had said so before.
    pub fn mark(&self, index: u32) -> bool {
        let (rank, unit) = self.segments.layout().unit_of(index.into());
        let live = self.segments.elements_of(rank);
        let bit = 1 << (unit % BLOCK);
        let word = live.get((2 * self.reserved + unit / BLOCK) as usize);
        word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Whether a pair was live when that was last found out.
    #[must_use]
    pub fn is_live(&self, index: u32) -> bool {
        let (rank, unit) = self.segments.layout().unit_of(index.into());
        let live = self.segments.elements_of(rank);
        let word = live.get((2 * self.reserved + unit / BLOCK) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (unit % BLOCK) & 1 != 0)
    }

    /// Says that all pairs in a share of the buckets are live.
    pub fn mark_all(&self, share: Share) {
        let share = share.of(self.segments.layout().buckets());
        for bucket in self.segments.buckets(share).flatten() {
            let bucket = bucket.load(Ordering::Relaxed);
            if bucket != 0 {
                self.mark(layout::index_in(bucket) as u32);
            }
        }
    }

    /// Empties a share of the buckets, those of before and those that rooms for `pairs` pairs a
    /// rank need, of which there are as many from now on.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`] for more than the memory has room for, of every worker alike.
    pub fn empty(&mut self, share: Share, pairs: u64) -> Result<(), SetError> {
        let before = self.in_use;
        self.set_room(before.max(pairs))?;
        let buckets = share.of(self.segments.layout().buckets());
        for bucket in self.segments.buckets(buckets).flatten() {
            bucket.store(0, Ordering::Relaxed);
        }
        self.set_room(pairs)
    }

    /// Puts a share of the live pairs into the buckets again, and forgets the space that this
    /// worker had taken if the others are to be dropped (`drop_others`).
    ///
    /// # Errors
    /// [`SetError::NoRoom`] if the buckets are too few.
    pub fn refill(&mut self, share: Share, drop_others: bool) -> Result<(), SetError> {
        if drop_others {
            self.spare = (0, 0);
        }
        for rank in 0..self.ranks() {
            let live = self.live(rank);
            let share = share.of(live.len() as u64);
            for (block, word) in (share.start..).zip(&live[share.start as usize..][..len(&share)]) {
                let mut bits = word.load(Ordering::Relaxed);
                while bits != 0 {
                    let unit = block * BLOCK + u64::from(bits.trailing_zeros());
                    bits &= bits - 1;
                    self.refill_one(self.segments.layout().index_of(rank as u64, unit))?;
                }
            }
        }
        Ok(())
    }

    fn refill_one(&self, index: u64) -> Result<(), SetError> {
        let hash = hash::of_words(&get(&self.segments, index));
        let bucket = layout::bucket_of(hash, index);
        let put = self.segments.find_or_put(hash, |_| false, || Some(bucket));
        if put == Outcome::Full {
            let buckets = self.segments.layout().buckets();
            return Err(SetError::NoRoom { buckets });
        }
        Ok(())
    }

    /// Lets the space of all pairs that are not live be used again. For one worker, when all have
    /// refilled, and before any of them goes on.
    pub fn free_dead(&self) {
        for rank in 0..self.ranks() {
            let live = self.live(rank).iter();
            let live = live.map(|word| word.load(Ordering::Relaxed).count_ones());
            let live = live.map(u64::from).sum();
            self.segments.count(rank).store(live, Ordering::Relaxed);
            self.segments.taken(rank).store(0, Ordering::Relaxed);
        }
    }

    /// The live bits of a rank's pairs.
    fn live(&self, rank: usize) -> &[AtomicU64] {
        let words = self.segments.elements(rank);
        &words[2 * self.reserved as usize..][..(self.reserved / BLOCK) as usize]
    }
}

fn len(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}

#[inline]
fn get(segments: &Segments, index: u64) -> [u64; 2] {
    let (rank, unit) = segments.layout().unit_of(index);
    let words = segments.elements_of(rank);
    match words.get(2 * unit as usize..2 * unit as usize + 2) {
        Some([one, two]) => [one, two].map(|word| word.load(Ordering::Relaxed)),
        _ => [0; 2],
    }
}

/// Space for a pair, which is used up when the lowest bit of `spare` is taken away: in this rank's
/// memory if there is some, else in another's.
#[inline]
fn reserve(segments: &Segments, spare: &mut (u64, u64), reserved: u64, in_use: u64) -> Option<u64> {
    if spare.1 == 0 {
        let ranks = segments.layout().ranks() as usize;
        let mut nearest = (0..ranks).map(|ahead| (segments.rank() + ahead) % ranks);
        *spare = nearest.find_map(|rank| reserve_block(segments, rank, reserved, in_use))?;
    }
    Some(spare.0 + u64::from(spare.1.trailing_zeros()))
}

/// Takes the next block of a rank with space in it.
#[cold]
fn reserve_block(
    segments: &Segments,
    rank: usize,
    reserved: u64,
    in_use: u64,
) -> Option<(u64, u64)> {
    let taken = segments.taken(rank);
    // A count that is over the room already must not wrap round, however often this is tried.
    while taken.load(Ordering::Relaxed) < in_use {
        let start = taken.fetch_add(BLOCK, Ordering::Relaxed);
        if start >= in_use {
            return None;
        }
        let live = &segments.elements(rank)[(2 * reserved + start / BLOCK) as usize];
        let free = !live.load(Ordering::Relaxed);
        if free != 0 {
            let count = u64::from(free.count_ones());
            segments.count(rank).fetch_add(count, Ordering::Relaxed);
            return Some((segments.layout().index_of(rank as u64, start), free));
        }
    }
    None
}

/// Buckets for so many pairs: three quarters full when all are there.
const fn buckets_for(pairs: u64) -> u64 {
    pairs + pairs / 3 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_RANKS;
    use farslot_fabric::shm::{MappedWords, Node, RegionSpec};
    use farslot_fabric::{RegionId, Rights};
    use std::sync::Barrier;

    /// Grows a set of one worker to this room.
    fn grow(set: &mut PairSet, pairs: u64) {
        set.forget_live(Share::WHOLE);
        set.mark_all(Share::WHOLE);
        set.empty(Share::WHOLE, pairs).unwrap();
        set.refill(Share::WHOLE, false).unwrap();
    }

    /// Drops all pairs of a set of one worker but these.
    fn collect(set: &mut PairSet, kept: &[u32]) {
        set.forget_live(Share::WHOLE);
        for index in kept {
            assert!(set.mark(*index));
            assert!(!set.mark(*index) && set.is_live(*index));
        }
        set.empty(Share::WHOLE, set.room()).unwrap();
        set.refill(Share::WHOLE, true).unwrap();
        set.free_dead();
    }

    #[test]
    fn collected_pairs_make_room_for_others() {
        let mut set = PairSet::alone(1024).unwrap();
        let put = |set: &mut PairSet, pair| set.find_or_put([pair, 7]).place().unwrap();
        let indices: Vec<u32> = (0..900).map(|pair| put(&mut set, pair)).collect();
        for round in 1..20 {
            collect(&mut set, &indices[..100]);
            assert_eq!(set.len(), 100);
            for pair in 0..700 {
                put(&mut set, round * 1000 + pair);
            }
        }
        for (pair, index) in (0..100).zip(&indices) {
            assert_eq!(set.get(*index), [pair, 7]);
            assert_eq!(put(&mut set, pair), *index);
        }
    }

    #[test]
    fn pairs_keep_their_indices_when_the_set_grows() {
        let layout = PairSet::layout(1, 1 << 14).unwrap();
        let segments = Segments::alone(layout.buckets(), layout.element_words()).unwrap();
        let mut set = PairSet::over(segments, 64).unwrap();
        let mut indices = Vec::new();
        for pair in 0..10_000 {
            let put = loop {
                match set.find_or_put([pair, !pair]) {
                    Outcome::Full => {
                        let room = 2 * set.room();
                        grow(&mut set, room);
                    }
                    put => break put,
                }
            };
            assert!(put.is_inserted());
            indices.push(put.place().unwrap());
        }
        assert_eq!(set.room(), 1 << 14);
        for (pair, &index) in (0..).zip(&indices) {
            assert_eq!(set.get(index), [pair, !pair]);
            assert_eq!(set.find_or_put([pair, !pair]), Outcome::Found(index));
        }
        assert_eq!(set.get(u32::MAX), [0, 0]);
        assert!(!set.mark(u32::MAX) && !set.is_live(u32::MAX));
    }

    #[test]
    fn workers_of_two_ranks_grow_and_collect_together() {
        const WORKERS: u64 = 4;
        let layout = PairSet::layout(2, 1 << 13).unwrap();
        let region = RegionSpec {
            len: layout.region_bytes(),
            rights: Rights::ALL,
        };
        let nodes = [(); 2].map(|()| Node::embedded(&[region]).unwrap());
        let barrier = Barrier::new(WORKERS as usize);
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (nodes, barrier) = (&nodes, &barrier);
                scope.spawn(move || {
                    let parts = nodes.iter().map(|node| MappedWords::of(node, RegionId(0)));
                    let parts = parts.map(Result::unwrap).collect();
                    let rank = worker as usize % 2;
                    let segments = Segments::mapped(layout, rank, parts).unwrap();
                    let mut set = PairSet::over(segments, 1 << 10).unwrap();
                    let share = Share {
                        worker,
                        workers: WORKERS,
                    };
                    // Half of what there is room for: no rank's share of the space runs out.
                    let fill = |set: &mut PairSet, round: u64, pairs: u64| -> Vec<u32> {
                        let order = (0..pairs).map(|at| (at + worker * pairs / WORKERS) % pairs);
                        let mut indices = vec![0; pairs as usize];
                        for pair in order {
                            let put = set.find_or_put([pair, round]);
                            indices[pair as usize] = put.place().expect("there is room");
                        }
                        indices
                    };
                    let first = fill(&mut set, 0, 1000);
                    barrier.wait();
                    set.forget_live(share);
                    barrier.wait();
                    set.mark_all(share);
                    barrier.wait();
                    set.empty(share, 1 << 13).unwrap();
                    barrier.wait();
                    set.refill(share, false).unwrap();
                    barrier.wait();
                    assert_eq!(fill(&mut set, 0, 1000), first, "the same indices");
                    for round in 1..4 {
                        fill(&mut set, round, 5000);
                        barrier.wait();
                        set.forget_live(share);
                        barrier.wait();
                        for index in &first {
                            set.mark(*index);
                        }
                        barrier.wait();
                        set.empty(share, 1 << 13).unwrap();
                        barrier.wait();
                        set.refill(share, true).unwrap();
                        barrier.wait();
                        if worker == 0 {
                            assert!(set.len() >= 5000);
                            set.free_dead();
                            assert_eq!(set.len(), 1000);
                        }
                        barrier.wait();
                    }
                    assert_eq!(fill(&mut set, 0, 1000), first);
                });
            }
        });
    }

    #[test]
    fn sets_that_cannot_be_are_refused() {
        let most = PairSet::most_pairs(1, u64::MAX);
        assert!(PairSet::layout(1, most).is_ok());
        assert!(PairSet::layout(1, most + 2 * BLOCK).is_err());
        assert!(PairSet::layout(0, 1).is_err());
        assert!(PairSet::layout(MAX_RANKS, PairSet::most_pairs(MAX_RANKS, u64::MAX)).is_ok());
        let bytes = PairSet::layout(3, PairSet::most_pairs(3, 1 << 20)).unwrap();
        assert!(bytes.region_bytes() <= 1 << 20);
        let segments = Segments::alone(100, 100).unwrap();
        assert!(PairSet::over(segments, 10).is_err());
        let mut set = PairSet::alone(1024).unwrap();
        assert!(set.empty(Share::WHOLE, 2048).is_err());
    }
}
