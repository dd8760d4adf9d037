//! A set of elements of 63 bits: paper 002's table.

use crate::layout::OCCUPIED;
use crate::segments::HomeBucket;
use crate::{Outcome, Segments, SetError, hash};

/// The largest element: 63 bits.
pub const MAX_WORD: u64 = OCCUPIED - 1;

/// Keys whose buckets are asked for before the first of them is looked at.
const AHEAD: usize = 16;

/// A set of words of up to 63 bits, in buckets of 64 bits (paper 002, section 3). Any number of
/// threads, and processes that have mapped its memory, may use it at the same time.
///
/// ```
/// use farslot_set::{Outcome, WordSet};
///
/// # fn main() -> Result<(), farslot_set::SetError> {
/// let set = WordSet::alone(1 << 10)?;
/// assert!(set.find_or_put(7)?.is_inserted());
/// assert!(matches!(set.find_or_put(7)?, Outcome::Found(_)));
/// assert!(!set.contains(8)?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WordSet {
    segments: Segments,
}

impl WordSet {
    /// A set of this process alone, with so many buckets.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`]; [`SetError::Fabric`] beyond what the machine has.
    pub fn alone(buckets: u64) -> Result<Self, SetError> {
        Segments::alone(buckets, 0).map(Self::over)
    }

    /// A set over memory that starts as zeros.
    #[must_use]
    pub fn over(segments: Segments) -> Self {
        Self { segments }
    }

    /// Finds or inserts an element; the outcome has the number of its bucket, which holds until the
    /// set [grows](WordSet::rebuilt).
    ///
    /// # Errors
    /// [`SetError::WordTooLarge`].
    #[inline]
    pub fn find_or_put(&self, word: u64) -> Result<Outcome, SetError> {
        check(word)?;
        let put = self.put(word);
        self.segments.count_inserted(put.is_inserted().into());
        Ok(put)
    }

    /// [`WordSet::find_or_put`] of each word in turn, whose cache misses overlap; gives each
    /// outcome with its position to `done`.
    ///
    /// # Errors
    /// [`SetError::WordTooLarge`], before any was inserted.
    pub fn find_or_put_all(
        &self,
        words: &[u64],
        mut done: impl FnMut(usize, Outcome),
    ) -> Result<(), SetError> {
        words.iter().try_for_each(|word| check(*word))?;
        let mut homes = [HomeBucket::default(); AHEAD];
        for (home, word) in homes.iter_mut().zip(words) {
            *home = self.fetched_home(*word);
        }
        let mut inserted = 0;
        for (at, word) in words.iter().enumerate() {
            let place = &mut homes[at % AHEAD];
            let home = *place;
            if let Some(later) = words.get(at + AHEAD) {
                *place = self.fetched_home(*later);
            }
            let put = self.put_from(home, *word);
            inserted += u64::from(put.is_inserted());
            done(at, put);
        }
        self.segments.count_inserted(inserted);
        Ok(())
    }

    /// Whether the element is in the set.
    ///
    /// # Errors
    /// [`SetError::WordTooLarge`].
    pub fn contains(&self, word: u64) -> Result<bool, SetError> {
        check(word)?;
        let bucket = word | OCCUPIED;
        let found = self
            .segments
            .find(hash::of_word(bucket), |seen| seen == bucket);
        Ok(found.is_some())
    }

    /// Asks the processor for the memory that a find-or-put of this element will look at first.
    #[inline]
    pub fn prefetch(&self, word: u64) {
        self.fetched_home(word);
    }

    /// Finds or inserts a word that is no larger than [`MAX_WORD`], and does not count it.
    #[inline]
    pub(crate) fn put(&self, word: u64) -> Outcome {
        self.put_from(self.home(word), word)
    }

    /// The same, of one whose home is known.
    #[inline(always)]
    fn put_from(&self, home: HomeBucket<'_>, word: u64) -> Outcome {
        let bucket = word | OCCUPIED;
        let put = self
            .segments
            .find_or_put_from(home, |seen| seen == bucket, || Some(bucket));
        put.map(|(at, _)| at)
    }

    #[inline(always)]
    fn home(&self, word: u64) -> HomeBucket<'_> {
        self.segments.home(hash::of_word(word | OCCUPIED))
    }

    /// The home of a word, whose buckets the processor is asked for.
    #[inline(always)]
    fn fetched_home(&self, word: u64) -> HomeBucket<'_> {
        let home = self.home(word);
        home.prefetch();
        home
    }

    /// All elements of a rank's part of the table.
    pub fn iter_rank(&self, rank: usize) -> impl Iterator<Item = u64> + '_ {
        self.segments.occupied(rank).map(|word| word & MAX_WORD)
    }

    /// All elements, in no useful order. Those that others insert meanwhile may be missing.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let ranks = self.segments.layout().ranks() as usize;
        (0..ranks).flat_map(|rank| self.iter_rank(rank))
    }

    /// The memory beneath.
    #[must_use]
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// A set of this process alone with so many buckets and those elements that `keep` says yes to:
    /// growth and garbage collection, stop the world. One sweep through both tables.
    ///
    /// # Errors
    /// As [`WordSet::alone`]; [`SetError::NoRoom`] if that is too few.
    pub fn rebuilt(
        &self,
        buckets: u64,
        mut keep: impl FnMut(u64) -> bool,
    ) -> Result<Self, SetError> {
        let new = Self::alone(buckets)?;
        let mut kept = 0;
        for word in self.iter().filter(|word| keep(*word)) {
            if new.put(word) == Outcome::Full {
                return Err(SetError::NoRoom { buckets });
            }
            kept += 1;
        }
        new.segments.count_inserted(kept);
        Ok(new)
    }
}

#[inline]
pub(crate) fn check(word: u64) -> Result<(), SetError> {
    if word <= MAX_WORD {
        return Ok(());
    }
    Err(SetError::WordTooLarge {
        word,
        limit: MAX_WORD,
    })
}
