//! Sets and maps of elements over 63 bits: the elements lie beside the table, whose buckets hold
//! their indices and signatures (paper 002, section 3.1).

use crate::error::check_range;
use crate::layout::{self, MAX_ELEMENTS};
use crate::{DataShape, Outcome, Segments, SetError, hash};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Units that an inserter takes at a time, so that the inserters of a rank seldom meet.
const BLOCK: u64 = 64;

/// Element space that one thread has taken and not used yet. Each thread of a rank has one of its
/// own, for as long as it inserts into one set; it stays good when the set is rebuilt.
#[derive(Debug, Default)]
pub struct Spare {
    /// Units of space never used before.
    fresh: std::ops::Range<u64>,
    /// Units that garbage collection has freed, each the first of `freed_len`.
    freed: Vec<u64>,
    freed_len: u64,
    /// The element that is looked for, as words.
    key: Vec<u64>,
}

/// Free units by the length of the element that they are for.
type Free = HashMap<u64, Vec<u64>>;

/// A set of elements of any bytes, or a map: each element has an index, which it keeps for as long
/// as it is in the set, and a value of [`value_words`](DataShape::value_words) words, all of them
/// atomic.
///
/// An element is written whole before the bucket with its index is swapped in: no reader sees a
/// bucket whose element is not there. An inserter that is killed in between leaves only unused
/// space.
///
/// ```
/// use farslot_set::{DataSet, DataShape, Outcome, Spare};
///
/// # fn main() -> Result<(), farslot_set::SetError> {
/// let names = DataSet::alone(DataShape::varying(100).with_values(1), 1 << 10, 1 << 14)?;
/// let mut spare = Spare::default();
/// let put = names.find_or_put_with(&mut spare, b"far", |value| value[0] = 3)?;
/// let index = put.place().unwrap();
/// assert_eq!(names.find_or_put(&mut spare, b"far")?, Outcome::Found(index));
/// assert_eq!(names.get(index)?, b"far");
/// assert_eq!(names.value(index)?[0].load(std::sync::atomic::Ordering::Relaxed), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DataSet {
    shape: DataShape,
    segments: Segments,
    /// What garbage collection has freed in this rank's part.
    free: Mutex<Free>,
    has_free: AtomicBool,
}

impl DataSet {
    /// A set of this process alone, with so many buckets and so many words for elements.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`]; [`SetError::Fabric`] beyond what the machine has.
    pub fn alone(shape: DataShape, buckets: u64, element_words: u64) -> Result<Self, SetError> {
        Self::over(shape, Segments::alone(buckets, element_words)?)
    }

    /// A set over memory that starts as zeros.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`] for a shape that cannot be.
    pub fn over(shape: DataShape, segments: Segments) -> Result<Self, SetError> {
        shape.check()?;
        Ok(Self {
            shape,
            segments,
            free: Mutex::default(),
            has_free: AtomicBool::new(false),
        })
    }

    /// What its elements are.
    #[must_use]
    pub fn shape(&self) -> DataShape {
        self.shape
    }

    /// The memory beneath.
    #[must_use]
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Finds or inserts an element; a new one has a value of zeros. The outcome has its index.
    ///
    /// # Errors
    /// [`SetError::WrongLength`].
    pub fn find_or_put(&self, spare: &mut Spare, element: &[u8]) -> Result<Outcome, SetError> {
        self.find_or_put_with(spare, element, |_| ())
    }

    /// [`DataSet::find_or_put`], where `value` fills the value of a new element, zeros before,
    /// prior to anybody's seeing it. It may be called for an element that another inserter then
    /// turns out to have inserted.
    ///
    /// # Errors
    /// [`SetError::WrongLength`].
    pub fn find_or_put_with(
        &self,
        spare: &mut Spare,
        element: &[u8],
        value: impl FnOnce(&mut [u64]),
    ) -> Result<Outcome, SetError> {
        let mut key = std::mem::take(&mut spare.key);
        let put = self.shape.key_of(element, &mut key).map(|()| {
            let put = self.put_key(spare, &key, value);
            self.segments.count_inserted(put.is_inserted().into());
            put
        });
        spare.key = key;
        put
    }

    /// The index of an element, if it is in the set.
    ///
    /// # Errors
    /// [`SetError::WrongLength`].
    pub fn find(&self, element: &[u8]) -> Result<Option<u64>, SetError> {
        let mut key = Vec::new();
        self.shape.key_of(element, &mut key)?;
        let hash = hash::of_words(&key);
        let found = self.segments.find(hash, |seen| self.is(seen, hash, &key));
        Ok(found.map(|(_, bucket)| layout::index_in(bucket)))
    }

    /// The bytes of the element with this index.
    ///
    /// # Errors
    /// [`SetError::NoSuchElement`] where there cannot be one. The index of an element that was
    /// collected has the bytes of no element in particular.
    pub fn get(&self, index: u64) -> Result<Vec<u8>, SetError> {
        let key = self.key_at(index)?;
        Ok(self.shape.bytes_in(&key).to_vec())
    }

    /// The value of the element with this index: atomic words, to be used as flags, counts or parts
    /// of a larger value, which others may then see half changed.
    ///
    /// # Errors
    /// As [`DataSet::get`].
    pub fn value(&self, index: u64) -> Result<&[AtomicU64], SetError> {
        let words = self.element(index)?;
        let value = words.get(..self.shape.value_words);
        value.ok_or(SetError::NoSuchElement { index })
    }

    /// The indices of all elements of a rank's part of the table.
    pub fn iter_rank(&self, rank: usize) -> impl Iterator<Item = u64> + '_ {
        self.segments.occupied(rank).map(layout::index_in)
    }

    /// The indices of all elements, in no useful order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let ranks = self.segments.layout().ranks() as usize;
        (0..ranks).flat_map(|rank| self.iter_rank(rank))
    }

    /// A set of this process alone with so many buckets and words, and with those elements that
    /// `keep` says yes to by their index, which they keep: growth and garbage collection, stop the
    /// world. The space of the others is used again.
    ///
    /// # Errors
    /// As [`DataSet::alone`]; [`SetError::OutOfRange`] if the set is of several ranks, or has more
    /// element words already; [`SetError::NoRoom`] if the buckets are too few.
    pub fn rebuilt(
        &self,
        buckets: u64,
        element_words: u64,
        mut keep: impl FnMut(u64) -> bool,
    ) -> Result<Self, SetError> {
        let old = &self.segments;
        check_range("the number of ranks", old.layout().ranks(), 1, 1)?;
        check_range(
            "the element words of a rank",
            element_words,
            old.layout().element_words(),
            u64::MAX,
        )?;
        let new = Self::alone(self.shape, buckets, element_words)?;
        self.copy_elements(&new.segments);
        let mut free = self.lock_free().clone();
        let mut kept = 0;
        for bucket in old.occupied(0) {
            let index = layout::index_in(bucket);
            let key = self.key_at(index)?;
            if !keep(index) {
                let units = self.shape.units_of(key.len());
                free.entry(units).or_default().push(index);
                continue;
            }
            let put = new
                .segments
                .find_or_put(hash::of_words(&key), |_| false, || Some(bucket));
            if put == Outcome::Full {
                return Err(SetError::NoRoom { buckets });
            }
            kept += 1;
        }
        new.segments.count_inserted(kept);
        new.has_free.store(!free.is_empty(), Ordering::Relaxed);
        *new.lock_free() = free;
        Ok(new)
    }

    /// Copies all elements to the same places of larger memory.
    fn copy_elements(&self, to: &Segments) {
        let capacity = self.segments.layout().element_words();
        let units = capacity / self.shape.unit_words();
        let taken = self.segments.taken(0).load(Ordering::Acquire).min(units);
        to.taken(0).store(taken, Ordering::Release);
        let words = (taken * self.shape.unit_words()) as usize;
        let from = &self.segments.elements(0)[..words];
        for (to, from) in to.elements(0).iter().zip(from) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Finds or inserts an element given as its key words, and does not count it.
    #[inline]
    pub(crate) fn put_key(
        &self,
        spare: &mut Spare,
        key: &[u64],
        value: impl FnOnce(&mut [u64]),
    ) -> Outcome {
        let hash = hash::of_words(key);
        let units = self.shape.units_of(key.len());
        let (mut written, mut value) = (None, Some(value));
        let put = self.segments.find_or_put(
            hash,
            |seen| self.is(seen, hash, key),
            || {
                if written.is_none() {
                    let unit = self.reserve(spare, units)?;
                    self.write(unit, key, value.take()?);
                    written = Some(layout::bucket_of(hash, self.index_of(unit)));
                }
                written
            },
        );
        if put.is_inserted() {
            spare.use_up(units);
        }
        put.map(|(_, bucket)| layout::index_in(bucket))
    }

    /// Whether a bucket is of the element with this key.
    #[inline]
    fn is(&self, bucket: u64, hash: u64, key: &[u64]) -> bool {
        if !layout::may_be(bucket, hash) {
            return false;
        }
        let (rank, unit) = self.segments.layout().unit_of(layout::index_in(bucket));
        let start = self.shape.key_of_unit(unit) as usize;
        let words = self.segments.elements_of(rank).get(start..).unwrap_or(&[]);
        // Of elements of different lengths the first word differs.
        let same = |(word, key): (&AtomicU64, &u64)| word.load(Ordering::Relaxed) == *key;
        words.len() >= key.len() && words.iter().zip(key).all(same)
    }

    fn index_of(&self, unit: u64) -> u64 {
        let segments = &self.segments;
        segments.layout().index_of(segments.rank() as u64, unit)
    }

    /// Space for an element of so many units in this rank's part, its first one; it is used up by
    /// [`Spare::use_up`].
    fn reserve(&self, spare: &mut Spare, units: u64) -> Option<u64> {
        if spare.freed_len == units
            && let Some(unit) = spare.freed.last()
        {
            return Some(*unit);
        }
        if self.has_free.load(Ordering::Relaxed) && self.take_freed(spare, units) {
            return spare.freed.last().copied();
        }
        if spare.fresh.end - spare.fresh.start < units {
            let layout = self.segments.layout();
            let capacity = layout.element_words() / self.shape.unit_words();
            let capacity = capacity.min(1 << layout.unit_bits());
            let block = units.max(BLOCK);
            let taken = self.segments.taken(self.segments.rank());
            // A count that is over the capacity already must not wrap round, however often this is
            // tried.
            if taken.load(Ordering::Relaxed) >= capacity {
                return None;
            }
            let start = taken.fetch_add(block, Ordering::Relaxed);
            let fresh = start..(start + block).min(capacity);
            if fresh.end < fresh.start + units {
                return None;
            }
            spare.fresh = fresh;
        }
        Some(spare.fresh.start)
    }

    /// Takes some freed space for elements of so many units.
    #[cold]
    fn take_freed(&self, spare: &mut Spare, units: u64) -> bool {
        let mut free = self.lock_free();
        let left = std::mem::take(&mut spare.freed);
        if !left.is_empty() {
            free.entry(spare.freed_len).or_default().extend(left);
        }
        let Some(of_length) = free.get_mut(&units) else {
            return false;
        };
        let keep = of_length.len().saturating_sub(BLOCK as usize);
        spare.freed = of_length.split_off(keep);
        spare.freed_len = units;
        !spare.freed.is_empty()
    }

    fn lock_free(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an element and its value to space that nobody sees yet.
    fn write(&self, unit: u64, key: &[u64], value: impl FnOnce(&mut [u64])) {
        let start = (unit * self.shape.unit_words()) as usize;
        let words = &self.segments.elements(self.segments.rank())[start..];
        let (values, keys) = words.split_at(self.shape.value_words);
        if !values.is_empty() {
            let mut new = vec![0; values.len()];
            value(&mut new);
            store_all(values, &new);
        }
        store_all(keys, key);
    }

    /// The words of an element's rank from its first one on.
    fn element(&self, index: u64) -> Result<&[AtomicU64], SetError> {
        let missing = SetError::NoSuchElement { index };
        let layout = self.segments.layout();
        let (rank, unit) = layout.unit_of(index);
        if index >= MAX_ELEMENTS || rank as u64 >= layout.ranks() {
            return Err(missing);
        }
        let start = unit * self.shape.unit_words();
        let words = self.segments.elements(rank).get(start as usize..);
        words.filter(|words| !words.is_empty()).ok_or(missing)
    }

    /// The key words of the element with this index.
    fn key_at(&self, index: u64) -> Result<Vec<u64>, SetError> {
        let missing = SetError::NoSuchElement { index };
        let words = self.element(index)?.get(self.shape.value_words..);
        let words = words.ok_or(missing.clone())?;
        let first = words.first().ok_or(missing.clone())?;
        let len = self.shape.key_words(first.load(Ordering::Relaxed));
        let key = words.get(..len).ok_or(missing)?.iter();
        Ok(key.map(|word| word.load(Ordering::Relaxed)).collect())
    }

    /// Units of this rank's element space that are in use or taken by a thread.
    pub(crate) fn units_in_use(&self) -> u64 {
        let capacity = self.segments.layout().element_words() / self.shape.unit_words();
        let taken = self.segments.taken(self.segments.rank());
        let taken = taken.load(Ordering::Relaxed).min(capacity);
        let free = self.lock_free();
        let free: u64 = free.iter().map(|(units, of)| units * of.len() as u64).sum();
        taken - free
    }

    /// The first word of the element with this index, of which a bucket has been seen.
    #[inline]
    pub(crate) fn first_word(&self, index: u64) -> Option<u64> {
        let (rank, unit) = self.segments.layout().unit_of(index);
        let start = unit * self.shape.unit_words();
        let word = self.segments.elements_of(rank).get(start as usize)?;
        Some(word.load(Ordering::Relaxed))
    }
}

/// Writes words that nobody sees yet.
fn store_all(to: &[AtomicU64], from: &[u64]) {
    for (to, from) in to.iter().zip(from) {
        to.store(*from, Ordering::Relaxed);
    }
}

impl Spare {
    /// Counts reserved space as used.
    fn use_up(&mut self, units: u64) {
        if self.freed_len == units && self.freed.pop().is_some() {
            return;
        }
        self.fresh.start += units;
    }
}
