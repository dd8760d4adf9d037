//! A set of pairs of words, with small indices: the nodes of decision diagrams.

use crate::{DataSet, DataShape, Outcome, SetError, Spare};
use std::sync::atomic::Ordering;

/// A set is crowded when more than this share of its pairs is in use.
const CROWDED: (u64, u64) = (9, 10);

/// A set of pairs of words. Each has an index below 2^31, which it keeps, and by which it is read
/// with one load a word.
#[derive(Debug)]
pub struct PairSet(DataSet);

impl PairSet {
    /// An empty set with room for so many pairs, in this process's memory.
    ///
    /// # Errors
    /// As [`DataSet::alone`].
    pub fn new(pairs: u64) -> Result<Self, SetError> {
        let set = DataSet::alone(DataShape::fixed(16), buckets_for(pairs), 2 * pairs)?;
        Ok(Self(set))
    }

    /// Finds or inserts a pair; the outcome has its index.
    #[inline]
    pub fn find_or_put(&self, spare: &mut Spare, pair: [u64; 2]) -> Outcome<u32> {
        self.0
            .put_key(spare, &pair, |_| ())
            .map(|index| index as u32)
    }

    /// The pair with this index, or zeros where there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> [u64; 2] {
        let segments = self.0.segments();
        let (rank, unit) = segments.layout().unit_of(u64::from(index));
        let words = segments.elements(rank);
        let word = |at: u64| {
            words
                .get(at as usize)
                .map_or(0, |word| word.load(Ordering::Relaxed))
        };
        [word(2 * unit), word(2 * unit + 1)]
    }

    /// Pairs in the set, those that threads have taken space for included.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.units_in_use()
    }

    /// Whether no pair was put.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of its memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.segments().bytes()
    }

    /// Whether it is time to [grow](PairSet::grow).
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.len() * CROWDED.1 > self.capacity() * CROWDED.0
    }

    /// Rebuilds the set with room for twice as many pairs. Indices and spare space stay good.
    ///
    /// # Errors
    /// As [`PairSet::new`]; the set is as it was then.
    pub fn grow(&mut self) -> Result<(), SetError> {
        let pairs = 2 * self.capacity();
        self.0 = self.0.rebuilt(buckets_for(pairs), 2 * pairs, |_| true)?;
        Ok(())
    }

    /// Drops the pairs whose indices `keep` says no to, in memory of the same size; the others keep
    /// their indices, and the space of those that are dropped is used again. Spare space stays
    /// good.
    ///
    /// # Errors
    /// As [`PairSet::new`]; the set is as it was then.
    pub fn collect(&mut self, mut keep: impl FnMut(u32) -> bool) -> Result<(), SetError> {
        let layout = self.0.segments().layout();
        let (buckets, words) = (layout.buckets(), layout.element_words());
        self.0 = self.0.rebuilt(buckets, words, |index| keep(index as u32))?;
        Ok(())
    }

    /// One above the largest index that any pair may have.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.0.segments().layout().element_words() / 2
    }
}

/// Buckets for so many pairs: three quarters full when all are there.
const fn buckets_for(pairs: u64) -> u64 {
    pairs + pairs / 3 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collected_pairs_make_room_for_others() {
        let mut set = PairSet::new(1000).unwrap();
        let mut spare = Spare::default();
        let put = |set: &PairSet, spare: &mut Spare, pair| {
            set.find_or_put(spare, [pair, 7]).place().unwrap()
        };
        let indices: Vec<u32> = (0..900).map(|pair| put(&set, &mut spare, pair)).collect();
        for round in 1..20 {
            let kept = |index: u32| indices[..100].contains(&index);
            set.collect(kept).unwrap();
            assert!(set.len() < 300, "{}", set.len());
            for pair in 0..700 {
                put(&set, &mut spare, round * 1000 + pair);
            }
        }
        for (pair, index) in (0..100).zip(&indices) {
            assert_eq!(set.get(*index), [pair, 7]);
            assert_eq!(put(&set, &mut spare, pair), *index);
        }
    }

    #[test]
    fn pairs_keep_their_indices_when_the_set_grows() {
        let mut set = PairSet::new(100).unwrap();
        let mut spare = Spare::default();
        let mut indices = Vec::new();
        for pair in 0..1000 {
            if set.is_crowded() {
                set.grow().unwrap();
            }
            let put = set.find_or_put(&mut spare, [pair, !pair]);
            assert!(put.is_inserted());
            indices.push(put.place().unwrap());
        }
        for (pair, &index) in (0..).zip(&indices) {
            assert_eq!(set.get(index), [pair, !pair]);
            assert_eq!(
                set.find_or_put(&mut spare, [pair, !pair]),
                Outcome::Found(index)
            );
        }
    }
}
