//! Elements over 63 bits, and maps: the table holds indices and signatures.

use super::table::{BucketProbe, Table};
use super::words::{as_found, coalesce};
use super::{ChunkSizes, Reach};
use crate::layout::{self, MAX_ELEMENTS, TAKEN};
use crate::{DataShape, Outcome, SetError, hash};
use farslot_fabric::{Endpoint, window};
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// Elements for which a thread takes space at a time, once it has inserted as many.
const BLOCK: u64 = 64;
/// Words of that space, unless one element has more.
const BLOCK_WORDS: u64 = 4096;
/// Pieces of space that a thread keeps: of more the oldest, too short for most elements, are left.
const MOST_PIECES: usize = 64;
/// Words of a key of which the length is not known yet that are read at first.
const FIRST_READ: usize = 8;

/// A set of elements of any bytes, or a map, in the memory of several ranks (paper 002, section
/// 3.1): elements lie in the part of the rank that inserts them. Each thread of each rank has one
/// of its own.
///
/// An element and its value are written before the bucket with its index is swapped in: no reader
/// sees a bucket whose element is not there. An inserter that is killed in between leaves unused
/// space, nothing else.
#[derive(Debug)]
pub struct SharedDataSet<E: Endpoint> {
    shape: DataShape,
    table: Table<E>,
    /// Space that was taken and not used: a block for each operation that found none left.
    fresh: RefCell<Vec<Range<u64>>>,
    /// Elements that the next block has room for: few at first, for who inserts few.
    next_block: Cell<u64>,
    /// Space for elements that turned out to be there.
    spare: RefCell<Vec<(u64, u64)>>,
    /// Whether an operation is taking a block.
    refilling: Cell<bool>,
    inserted: Cell<u64>,
}

impl<E: Endpoint> SharedDataSet<E> {
    /// The set over memory that all ranks reach.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`] for a shape that cannot be.
    pub fn new(shape: DataShape, reach: Reach<E>, chunks: ChunkSizes) -> Result<Self, SetError> {
        shape.check()?;
        Ok(Self {
            shape,
            table: Table {
                reach,
                chunks,
                seed: 0,
            },
            fresh: RefCell::default(),
            next_block: Cell::new(1),
            spare: RefCell::default(),
            refilling: Cell::new(false),
            inserted: Cell::new(0),
        })
    }

    /// The same set with elements hashed by a seed, which all of its users must have.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.table.seed = seed;
        self
    }

    /// The memory beneath.
    #[must_use]
    pub fn reach(&self) -> &Reach<E> {
        &self.table.reach
    }

    /// How it is read.
    #[must_use]
    pub fn chunks(&self) -> &ChunkSizes {
        &self.table.chunks
    }

    /// Buckets that an operation examines at most.
    #[must_use]
    pub fn reach_of_walks(&self) -> u64 {
        self.table.reach_of_walks()
    }

    /// Elements that were inserted through this handle.
    #[must_use]
    pub fn inserted(&self) -> u64 {
        self.inserted.get()
    }

    /// Finds or inserts an element; a new one has a value of zeros. The outcome has its index.
    ///
    /// # Errors
    /// [`SetError::WrongLength`]; [`SetError::Fabric`], after which the element may be in the set
    /// or not.
    pub async fn find_or_put(&self, element: &[u8]) -> Result<Outcome, SetError> {
        self.find_or_put_with(element, |_| ()).await
    }

    /// [`SharedDataSet::find_or_put`], where `value` fills the value of a new element, zeros
    /// before, prior to anybody's seeing it. It may be called for an element that another inserter
    /// then turns out to have inserted.
    ///
    /// # Errors
    /// As [`SharedDataSet::find_or_put`].
    pub async fn find_or_put_with(
        &self,
        element: &[u8],
        value: impl FnOnce(&mut [u64]),
    ) -> Result<Outcome, SetError> {
        let mut key = Vec::new();
        self.shape.key_of(element, &mut key)?;
        self.put(&key, value, None).await
    }

    /// [`SharedDataSet::find_or_put_with`], which also reads the value of an element that it finds
    /// into `found`: by the READ that compares the element.
    ///
    /// # Errors
    /// As [`SharedDataSet::find_or_put`].
    pub async fn find_or_put_value(
        &self,
        element: &[u8],
        value: impl FnOnce(&mut [u64]),
        found: &mut Vec<u64>,
    ) -> Result<Outcome, SetError> {
        let mut key = Vec::new();
        self.shape.key_of(element, &mut key)?;
        self.put(&key, value, Some(found)).await
    }

    /// [`SharedDataSet::find_or_put`] of many elements, `width` of which are under way at a time;
    /// each outcome goes to `done` with its position, in the order in which they end. Equal
    /// elements are coalesced into one operation.
    pub async fn find_or_put_all<B: AsRef<[u8]> + std::hash::Hash + Eq>(
        &self,
        elements: &[B],
        width: usize,
        mut done: impl FnMut(usize, Result<Outcome, SetError>),
    ) {
        let (firsts, equals) = coalesce(elements);
        let jobs = firsts
            .iter()
            .map(|at| self.find_or_put(elements[*at].as_ref()));
        window(width, jobs, |job, put| {
            let first = firsts[job];
            for equal in equals.get(&first).into_iter().flatten() {
                done(*equal, put.clone().map(as_found));
            }
            done(first, put);
        })
        .await;
    }

    /// Asks the processor for what an operation on this element looks at first; false where a
    /// remote part is not [in place](Endpoint::in_place), or there is no such element.
    pub fn prefetch(&self, element: &[u8]) -> bool {
        let mut key = Vec::new();
        let is_key = self.shape.key_of(element, &mut key).is_ok();
        is_key && self.table.prefetch(hash::seeded(&key, self.table.seed))
    }

    /// The index of an element, if it is in the set.
    ///
    /// # Errors
    /// As [`SharedDataSet::find_or_put`].
    pub async fn find(&self, element: &[u8]) -> Result<Option<u64>, SetError> {
        self.look_up(element, None).await
    }

    /// [`SharedDataSet::find`], which also reads the value into `found`, by the READ that compares
    /// the element.
    ///
    /// # Errors
    /// As [`SharedDataSet::find_or_put`].
    pub async fn find_value(
        &self,
        element: &[u8],
        found: &mut Vec<u64>,
    ) -> Result<Option<u64>, SetError> {
        self.look_up(element, Some(found)).await
    }

    async fn look_up(
        &self,
        element: &[u8],
        found: Option<&mut Vec<u64>>,
    ) -> Result<Option<u64>, SetError> {
        let mut key = Vec::new();
        self.shape.key_of(element, &mut key)?;
        let hash = hash::seeded(&key, self.table.seed);
        let mut probe = Element {
            set: self,
            key: &key,
            hash,
            value: None::<fn(&mut [u64])>,
            written: None,
            found,
        };
        let found = self.table.find_or_put(hash, &mut probe).await?.place();
        Ok(found.map(|(_, bucket)| layout::index_in(bucket)))
    }

    /// Visits the elements, with their values, of a piece of this rank's own part of the table:
    /// from the bucket `first` on, those of at most `most` buckets, `width` of which are read at a
    /// time. Returns where the next piece starts, or nothing at the end. Elements that others
    /// insert meanwhile may be missing.
    ///
    /// # Errors
    /// [`SetError::NoSuchElement`] for a bucket that is not as inserters leave it;
    /// [`SetError::Fabric`].
    pub async fn visit(
        &self,
        first: u64,
        most: u64,
        width: usize,
        mut visit: impl FnMut(&[u8], &[u64]),
    ) -> Result<Option<u64>, SetError> {
        let mut buckets = Vec::new();
        let note = |_, word| buckets.extend((word != 0).then_some(word));
        let visiting = self.reach().own_piece(first, most, note);
        let next = visiting.await?;
        let mut outcome = Ok(next);
        let reads = buckets.iter().map(|bucket| self.read_element(*bucket));
        window(width, reads, |_, read| match read {
            Ok(words) => {
                let (value, key) = words.split_at(self.shape.value_words);
                visit(self.shape.bytes_in(key), value);
            }
            Err(error) => outcome = Err(error),
        })
        .await;
        outcome
    }

    /// The value and the key of the element that a bucket names.
    async fn read_element(&self, bucket: u64) -> Result<Vec<u64>, SetError> {
        let (index, values) = (layout::index_in(bucket), self.shape.value_words);
        let most = self.shape.key_words(u64::MAX);
        let mut words = self
            .read_words(index, values + most.min(FIRST_READ))
            .await?;
        let damaged = SetError::NoSuchElement { index: bucket };
        let first = *words.get(values).ok_or(damaged.clone())?;
        let len = values + self.shape.key_words(first);
        if len > words.len() {
            words = self.read_words(index, len).await?;
        }
        if len > words.len() || !layout::is_occupied(bucket) || !self.shape.is_key(&words[values..])
        {
            return Err(damaged);
        }
        words.truncate(len);
        Ok(words)
    }

    /// Gives back the space that this handle has taken and not used, where nobody has taken more
    /// since: before the handle is dropped, so that who inserts little takes little.
    ///
    /// # Errors
    /// [`SetError::Fabric`].
    pub async fn give_back(&self) -> Result<(), SetError> {
        let blocks = self.fresh.take();
        let mut kept = Vec::new();
        let mut outcome = Ok(());
        // The latest first: what was taken before it may then be the end.
        for block in blocks.into_iter().rev() {
            let swap = self.table.reach.compare_swap(
                self.table.reach.rank(),
                TAKEN as u64,
                block.end,
                block.start,
            );
            match swap.await {
                Ok(was) if was == block.end => {}
                Ok(_) => kept.push(block),
                // It may have been given back.
                Err(error) => outcome = Err(error),
            }
        }
        kept.reverse();
        self.fresh.borrow_mut().extend(kept);
        outcome
    }

    /// The bytes of the element with this index.
    ///
    /// # Errors
    /// [`SetError::NoSuchElement`] where there cannot be one; [`SetError::Fabric`].
    pub async fn get(&self, index: u64) -> Result<Vec<u8>, SetError> {
        let most = self.shape.key_words(u64::MAX);
        let mut key = self.read_key(index, most.min(FIRST_READ)).await?;
        let first = *key.first().ok_or(SetError::NoSuchElement { index })?;
        let len = self.shape.key_words(first);
        if len > key.len() {
            key = self.read_key(index, len).await?;
        }
        if len > key.len() {
            return Err(SetError::NoSuchElement { index });
        }
        Ok(self.shape.bytes_in(&key[..len]).to_vec())
    }

    /// One word of an element's value.
    ///
    /// # Errors
    /// As [`SharedDataSet::get`]; [`SetError::OutOfRange`] for a word that values do not have.
    pub async fn value(&self, index: u64, word: usize) -> Result<u64, SetError> {
        let (rank, at) = self.place_of_value(index, word)?;
        Ok(self.table.reach.read(rank, at, 1).await?[0])
    }

    /// Replaces a word of an element's value if it is `expected`; returns what it was.
    ///
    /// # Errors
    /// As [`SharedDataSet::value`].
    pub async fn compare_swap_value(
        &self,
        index: u64,
        word: usize,
        expected: u64,
        new: u64,
    ) -> Result<u64, SetError> {
        let (rank, at) = self.place_of_value(index, word)?;
        self.table.reach.compare_swap(rank, at, expected, new).await
    }

    /// Sets flags in a word of an element's value; returns the word before. Of all who set a flag,
    /// exactly one sees it unset.
    ///
    /// # Errors
    /// As [`SharedDataSet::value`].
    pub async fn set_flags(&self, index: u64, word: usize, flags: u64) -> Result<u64, SetError> {
        let mut seen = self.value(index, word).await?;
        while seen & flags != flags {
            let new = seen | flags;
            match self.compare_swap_value(index, word, seen, new).await? {
                was if was == seen => break,
                // Another has changed the word: it got on.
                was => seen = was,
            }
        }
        Ok(seen)
    }

    /// Puts the elements of this rank's own part of the table, and their values, into another set:
    /// every rank does so, between two barriers. They get new indices, which go to `moved` as old
    /// and new. Growth, and garbage collection by `keep`, stop the world.
    ///
    /// # Errors
    /// [`SetError::NoRoom`]; [`SetError::Fabric`].
    pub async fn move_own_to(
        &self,
        new: &Self,
        width: usize,
        mut keep: impl FnMut(u64) -> bool,
        mut moved: impl FnMut(u64, u64),
    ) -> Result<(), SetError> {
        let occupied = self.table.own_occupied().await?;
        let indices = occupied.into_iter().map(layout::index_in);
        let kept: Vec<u64> = indices.filter(|index| keep(*index)).collect();
        let mut outcome = Ok(());
        let jobs = kept.iter().map(|index| self.move_one(*index, new));
        window(width, jobs, |at, put| match put {
            Ok(Some(index)) => moved(kept[at], index),
            Ok(None) => {
                let buckets = new.table.reach.layout().buckets();
                outcome = Err(SetError::NoRoom { buckets });
            }
            Err(error) => outcome = Err(error),
        })
        .await;
        outcome
    }

    async fn move_one(&self, index: u64, new: &Self) -> Result<Option<u64>, SetError> {
        let element = self.get(index).await?;
        let mut values = vec![0; self.shape.value_words];
        for (word, value) in values.iter_mut().enumerate() {
            *value = self.value(index, word).await?;
        }
        let put = new.find_or_put_with(&element, |to| to.copy_from_slice(&values));
        Ok(put.await?.place())
    }

    pub(super) async fn put_key(&self, key: &[u64]) -> Result<Outcome, SetError> {
        self.put(key, |_| (), None).await
    }

    async fn put(
        &self,
        key: &[u64],
        value: impl FnOnce(&mut [u64]),
        found: Option<&mut Vec<u64>>,
    ) -> Result<Outcome, SetError> {
        let hash = hash::seeded(key, self.table.seed);
        let mut probe = Element {
            set: self,
            key,
            hash,
            value: Some(value),
            written: None,
            found,
        };
        let put = self.table.find_or_put(hash, &mut probe).await;
        let written = probe.written;
        match &put {
            Ok(Outcome::Inserted(_)) => self.inserted.set(self.inserted.get() + 1),
            // Nobody has seen the space; after an error it may have been published, so that it is
            // left alone.
            Ok(_) => {
                let unused = written.map(layout::index_in);
                let layout = self.table.reach.layout();
                let unused =
                    unused.map(|index| (self.shape.units_of(key.len()), layout.unit_of(index).1));
                self.spare.borrow_mut().extend(unused);
            }
            Err(_) => {}
        }
        Ok(put?.map(|(_, bucket)| layout::index_in(bucket)))
    }

    /// The first word of the element with this index.
    pub(super) async fn first_word(&self, index: u64) -> Result<u64, SetError> {
        let read = self.read_key(index, 1).await?;
        read.first()
            .copied()
            .ok_or(SetError::NoSuchElement { index })
    }

    /// Words of a key; fewer where the rank's part ends.
    async fn read_key(&self, index: u64, words: usize) -> Result<Vec<u64>, SetError> {
        self.read_from(index, self.shape.value_words as u64, words)
            .await
    }

    /// Words of an element's value and key; fewer where the rank's part ends.
    async fn read_words(&self, index: u64, words: usize) -> Result<Vec<u64>, SetError> {
        self.read_from(index, 0, words).await
    }

    async fn read_from(&self, index: u64, word: u64, words: usize) -> Result<Vec<u64>, SetError> {
        let layout = self.table.reach.layout();
        let (rank, unit) = layout.unit_of(index);
        let start = unit * self.shape.unit_words() + word;
        let left = layout.element_words().saturating_sub(start);
        if index >= MAX_ELEMENTS || rank as u64 >= layout.ranks() || left == 0 {
            return Err(SetError::NoSuchElement { index });
        }
        let len = words.min(left as usize);
        self.table
            .reach
            .read(rank, layout.elements_at() + start, len)
            .await
    }

    fn place_of_value(&self, index: u64, word: usize) -> Result<(usize, u64), SetError> {
        let most = self.shape.value_words as u64;
        crate::error::check_range(
            "the value's words behind this one",
            most.saturating_sub(word as u64),
            1,
            most,
        )?;
        let layout = self.table.reach.layout();
        let (rank, unit) = layout.unit_of(index);
        let at = unit * self.shape.unit_words() + word as u64;
        if index >= MAX_ELEMENTS || rank as u64 >= layout.ranks() || at >= layout.element_words() {
            return Err(SetError::NoSuchElement { index });
        }
        Ok((rank, layout.elements_at() + at))
    }

    /// Space for an element of so many units in this rank's part: its first unit.
    async fn reserve(&self, units: u64) -> Result<Option<u64>, SetError> {
        if let Some(unit) = self.take_spare(units) {
            return Ok(Some(unit));
        }
        if let Some(unit) = self.take_fresh(units) {
            return Ok(Some(unit));
        }
        let layout = self.table.reach.layout();
        let capacity = layout.element_words() / self.shape.unit_words();
        let capacity = capacity.min(1 << layout.unit_bits());
        // One operation takes a block for those to come; others that find none left meanwhile take
        // what they need.
        let refills = !self.refilling.replace(true);
        let block = if refills { self.block_of(units) } else { units };
        let start = self.table.reach.add_to_own(TAKEN as u64, block).await;
        if refills {
            self.refilling.set(false);
        }
        let start = start?;
        if start < capacity {
            let mut fresh = self.fresh.borrow_mut();
            fresh.push(start..(start + block).min(capacity));
            if fresh.len() > MOST_PIECES {
                fresh.remove(0);
            }
        }
        Ok(self.take_fresh(units))
    }

    /// Units of the next block, where an element takes so many.
    fn block_of(&self, units: u64) -> u64 {
        let elements = self.next_block.get();
        self.next_block.set((elements * 2).min(BLOCK));
        let words = units * self.shape.unit_words();
        units * elements.min((BLOCK_WORDS / words.max(1)).max(1))
    }

    fn take_spare(&self, units: u64) -> Option<u64> {
        let mut spare = self.spare.borrow_mut();
        let at = spare.iter().rposition(|(of, _)| *of == units)?;
        Some(spare.swap_remove(at).1)
    }

    fn take_fresh(&self, units: u64) -> Option<u64> {
        let mut blocks = self.fresh.borrow_mut();
        let roomy = |block: &Range<u64>| block.end - block.start >= units;
        let at = blocks.iter().rposition(roomy)?;
        let unit = blocks[at].start;
        blocks[at].start += units;
        if blocks[at].is_empty() {
            blocks.swap_remove(at);
        }
        Some(unit)
    }
}

/// An element that is looked for.
struct Element<'s, E: Endpoint, V> {
    set: &'s SharedDataSet<E>,
    key: &'s [u64],
    hash: u64,
    /// Fills the value of a new element; nothing if none is to be inserted.
    value: Option<V>,
    written: Option<u64>,
    /// Where the value goes of an element that is there.
    found: Option<&'s mut Vec<u64>>,
}

impl<E: Endpoint, V: FnOnce(&mut [u64])> BucketProbe for Element<'_, E, V> {
    #[inline]
    fn may_be(&self, bucket: u64) -> bool {
        layout::may_be(bucket, self.hash)
    }

    async fn is(&mut self, bucket: u64) -> Result<bool, SetError> {
        let (index, len) = (layout::index_in(bucket), self.key.len());
        let Some(found) = &mut self.found else {
            return Ok(self.set.read_key(index, len).await? == self.key);
        };
        let values = self.set.shape.value_words;
        let mut read = self.set.read_words(index, values + len).await?;
        let is_same = read.get(values..) == Some(self.key);
        if is_same {
            read.truncate(values);
            **found = read;
        }
        Ok(is_same)
    }

    async fn new_bucket(&mut self) -> Result<Option<u64>, SetError> {
        if self.written.is_some() {
            return Ok(self.written);
        }
        let Some(value) = self.value.take() else {
            return Ok(None);
        };
        let (set, shape) = (self.set, self.set.shape);
        let units = shape.units_of(self.key.len());
        let Some(unit) = set.reserve(units).await? else {
            return Ok(None);
        };
        let mut words = vec![0; shape.value_words];
        value(&mut words);
        words.extend_from_slice(self.key);
        let reach = &set.table.reach;
        let layout = reach.layout();
        let start = layout.elements_at() + unit * shape.unit_words();
        reach.write_own(start, &words).await?;
        let index = layout.index_of(reach.rank() as u64, unit);
        self.written = Some(layout::bucket_of(self.hash, index));
        Ok(self.written)
    }
}
