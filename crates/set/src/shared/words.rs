//! Paper 002's set of elements of 63 bits.

use super::table::{BucketProbe, Table};
use super::{ChunkSizes, Reach};
use crate::layout::OCCUPIED;
use crate::words::{MAX_WORD, check};
use crate::{Outcome, SetError, hash};
use farslot_fabric::{Endpoint, window};
use std::collections::HashMap;

/// A set of words of up to 63 bits, in the memory of several ranks (paper 002). Each thread of each
/// rank has one of its own, over an endpoint of its own.
#[derive(Debug)]
pub struct SharedWordSet<E: Endpoint> {
    table: Table<E>,
}

struct WordProbe {
    bucket: u64,
    inserts: bool,
}

impl BucketProbe for WordProbe {
    #[inline]
    fn may_be(&self, bucket: u64) -> bool {
        bucket == self.bucket
    }

    async fn is(&mut self, _: u64) -> Result<bool, SetError> {
        Ok(true)
    }

    async fn new_bucket(&mut self) -> Result<Option<u64>, SetError> {
        Ok(self.inserts.then_some(self.bucket))
    }
}

impl<E: Endpoint> SharedWordSet<E> {
    /// The set over memory that all ranks reach.
    #[must_use]
    pub fn new(reach: Reach<E>, chunks: ChunkSizes) -> Self {
        Self {
            table: Table {
                reach,
                chunks,
                seed: 0,
            },
        }
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

    /// Finds or inserts an element; the outcome has the number of its bucket.
    ///
    /// # Errors
    /// [`SetError::WordTooLarge`]; [`SetError::Fabric`], after which the element may be in the set
    /// or not.
    pub async fn find_or_put(&self, word: u64) -> Result<Outcome, SetError> {
        self.walk(word, true).await
    }

    /// [`SharedWordSet::find_or_put`] without a future, where the set has one remote part that is
    /// [in place](Endpoint::in_place); nothing where it has not.
    #[inline]
    pub fn find_or_put_in_place(&self, word: u64) -> Option<Result<Outcome, SetError>> {
        self.walk_in_place(word, true)
    }

    /// [`SharedWordSet::contains`] without a future, likewise.
    #[inline]
    pub fn contains_in_place(&self, word: u64) -> Option<Result<bool, SetError>> {
        let walked = self.walk_in_place(word, false)?;
        Some(walked.map(|walked| matches!(walked, Outcome::Found(_))))
    }

    #[inline]
    fn walk_in_place(&self, word: u64, inserts: bool) -> Option<Result<Outcome, SetError>> {
        if let Err(error) = check(word) {
            return Some(Err(error));
        }
        let (hash, bucket) = self.hashed(word);
        self.table.walk_in_place(hash, bucket, inserts).map(Ok)
    }

    /// The hash of a word, and the bucket that it is.
    #[inline]
    fn hashed(&self, word: u64) -> (u64, u64) {
        let bucket = word | OCCUPIED;
        (hash::seeded(&[bucket], self.table.seed), bucket)
    }

    /// Asks the processor for what an operation on this element looks at first; false where a
    /// remote part is not [in place](Endpoint::in_place).
    pub fn prefetch(&self, word: u64) -> bool {
        self.table.prefetch(self.hashed(word).0)
    }

    /// Whether an element is in the set.
    ///
    /// # Errors
    /// [`SetError::WordTooLarge`]; [`SetError::Fabric`].
    pub async fn contains(&self, word: u64) -> Result<bool, SetError> {
        let found = self.walk(word, false).await?;
        Ok(matches!(found, Outcome::Found(_)))
    }

    async fn walk(&self, word: u64, inserts: bool) -> Result<Outcome, SetError> {
        check(word)?;
        let (hash, bucket) = self.hashed(word);
        let mut probe = WordProbe { bucket, inserts };
        let walked = self.table.find_or_put(hash, &mut probe).await?;
        Ok(walked.map(|(at, _)| at))
    }

    /// Buckets that an operation examines at most.
    #[must_use]
    pub fn reach_of_walks(&self) -> u64 {
        self.table.reach_of_walks()
    }

    /// Visits the elements of a piece of this rank's own part of the table: from the bucket `first`
    /// on, those of at most `most` buckets. Returns where the next piece starts, or nothing at the
    /// end. Elements that others insert meanwhile may be missing.
    ///
    /// # Errors
    /// [`SetError::NoSuchElement`] for a bucket that is not as inserters leave it;
    /// [`SetError::Fabric`].
    pub async fn visit(
        &self,
        first: u64,
        most: u64,
        mut visit: impl FnMut(u64),
    ) -> Result<Option<u64>, SetError> {
        let mut damaged = None;
        let visiting = self
            .reach()
            .own_piece(first, most, |_, bucket| match bucket {
                0 => {}
                OCCUPIED.. => visit(bucket & MAX_WORD),
                _ => damaged = Some(bucket),
            });
        let next = visiting.await?;
        damaged.map_or(Ok(next), |index| Err(SetError::NoSuchElement { index }))
    }

    /// [`SharedWordSet::find_or_put`] of many words, `width` of which are under way at a time; each
    /// outcome goes to `done` with its position, in the order in which they end. Equal words are
    /// coalesced into one operation: the first of them has its outcome, the others have found it.
    pub async fn find_or_put_all(
        &self,
        words: &[u64],
        width: usize,
        mut done: impl FnMut(usize, Result<Outcome, SetError>),
    ) {
        let (firsts, equals) = coalesce(words);
        let jobs = firsts.iter().map(|at| self.find_or_put(words[*at]));
        window(width, jobs, |job, put| {
            let first = firsts[job];
            for equal in equals.get(&first).into_iter().flatten() {
                done(*equal, put.clone().map(as_found));
            }
            done(first, put);
        })
        .await;
    }

    /// Puts this rank's own part into another set: every rank does so, between two barriers, and
    /// the other set has what this one had. Growth, and garbage collection by `keep`, stop the
    /// world.
    ///
    /// # Errors
    /// [`SetError::NoRoom`]; [`SetError::Fabric`].
    pub async fn move_own_to(
        &self,
        new: &Self,
        width: usize,
        mut keep: impl FnMut(u64) -> bool,
    ) -> Result<(), SetError> {
        let occupied = self.table.own_occupied().await?;
        let words = occupied.into_iter().map(|bucket| bucket & MAX_WORD);
        let kept: Vec<u64> = words.filter(|word| keep(*word)).collect();
        let mut outcome = Ok(());
        let moved = new.find_or_put_all(&kept, width, |_, put| match put {
            Ok(Outcome::Full) => {
                let buckets = new.table.reach.layout().buckets();
                outcome = Err(SetError::NoRoom { buckets });
            }
            Ok(_) => {}
            Err(error) => outcome = Err(error),
        });
        moved.await;
        outcome
    }
}

/// The first position of each key, and for each the positions of its equals behind it.
pub(super) fn coalesce<K: std::hash::Hash + Eq>(
    keys: &[K],
) -> (Vec<usize>, HashMap<usize, Vec<usize>>) {
    let mut first_of: HashMap<&K, usize> = HashMap::with_capacity(keys.len());
    let (mut firsts, mut equals) = (Vec::new(), HashMap::<usize, Vec<usize>>::new());
    for (at, key) in keys.iter().enumerate() {
        let first = *first_of.entry(key).or_insert(at);
        if first == at {
            firsts.push(at);
        } else {
            equals.entry(first).or_default().push(at);
        }
    }
    (firsts, equals)
}

/// The outcome for an equal of an element.
pub(super) fn as_found<I>(put: Outcome<I>) -> Outcome<I> {
    match put {
        Outcome::Inserted(at) => Outcome::Found(at),
        other => other,
    }
}
