//! Paper 002, figure 1: the walk of a find-or-put over a table whose parts belong to several ranks.

use super::chunks::ChunkSizes;
use super::reach::{Reach, Request};
use crate::layout;
use crate::{Outcome, SetError};
use farslot_fabric::{Endpoint, EndpointExt, posting_many};
use smallvec::SmallVec;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// What a walk looks for.
pub(super) trait BucketProbe {
    /// Whether a bucket may be of the element.
    fn may_be(&self, bucket: u64) -> bool;

    /// Whether a bucket that may be is.
    async fn is(&mut self, bucket: u64) -> Result<bool, SetError>;

    /// The element's bucket, once all behind it is written; none where there is no room for that,
    /// or nothing is to be inserted.
    async fn new_bucket(&mut self) -> Result<Option<u64>, SetError>;
}

/// The buckets of all ranks, and how they are read.
#[derive(Debug)]
pub(super) struct Table<E: Endpoint> {
    pub(super) reach: Reach<E>,
    pub(super) chunks: ChunkSizes,
    /// What elements are hashed by.
    pub(super) seed: u64,
}

/// C buckets in a row, from up to two ranks; a chunk at the table's end goes on at its start.
struct Chunk<'r, E: Endpoint> {
    pieces: SmallVec<[(Request<'r, E>, usize); 2]>,
}

impl<E: Endpoint> Chunk<'_, E> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SetError>> {
        let mut all = Poll::Ready(Ok(()));
        for (piece, _) in &mut self.pieces {
            match piece.poll(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => all = Poll::Pending,
            }
        }
        all
    }

    #[inline]
    fn bucket(&self, mut at: usize) -> u64 {
        for (piece, len) in &self.pieces {
            if at < *len {
                return piece.word(at);
            }
            at -= len;
        }
        0
    }
}

impl<E: Endpoint> Table<E> {
    /// Looks for an element from its hash's home on, and inserts it at the first empty bucket.
    /// Returns the bucket's number, and its word.
    ///
    /// Buckets are never emptied, so the first empty one of a walk only moves on: all who insert an
    /// element compete for the same bucket, and those who read it empty, and lose, see the winner's
    /// word.
    pub(super) async fn find_or_put(
        &self,
        hash: u64,
        probe: &mut impl BucketProbe,
    ) -> Result<Outcome<(u64, u64)>, SetError> {
        let walk = self.walk(hash, probe);
        match self.reach.class {
            Some(class) => self.reach.endpoint().operation(class, walk).await,
            None => walk.await,
        }
    }

    async fn walk(
        &self,
        hash: u64,
        probe: &mut impl BucketProbe,
    ) -> Result<Outcome<(u64, u64)>, SetError> {
        let layout = self.reach.layout();
        let mut left = self.reach_of_walks();
        // What is in place is loaded as it is looked at: one chunk is as good as many.
        let in_place = self.reach.is_in_place();
        let (size, ahead) = match in_place {
            true => (left, false),
            false => {
                let chunking = self.chunks.now();
                let size = (chunking.buckets as u64).min(layout.buckets());
                (size, chunking.ahead)
            }
        };
        let mut start = layout::home(layout, hash);
        let mut chunk = self.query(start, size)?;
        loop {
            let next_start = (start + size) % layout.buckets();
            let last = left <= size;
            let mut next = None;
            if ahead && !last {
                next = Some(self.query(next_start, size)?);
            }
            sync(&mut chunk, next.as_mut()).await?;
            if !in_place && left == self.reach_of_walks() {
                self.learn(&chunk, size);
            }
            for at in 0..size.min(left) {
                let mut seen = chunk.bucket(at as usize);
                let bucket = (start + at) % layout.buckets();
                if seen == 0 {
                    let Some(word) = probe.new_bucket().await? else {
                        return Ok(Outcome::Full);
                    };
                    let (rank, place) = layout.locate(bucket);
                    seen = self.reach.compare_swap(rank, place, 0, word).await?;
                    if seen == 0 {
                        return Ok(Outcome::Inserted((bucket, word)));
                    }
                }
                if probe.may_be(seen) && probe.is(seen).await? {
                    return Ok(Outcome::Found((bucket, seen)));
                }
            }
            if last {
                return Ok(Outcome::Full);
            }
            chunk = match next {
                Some(next) => next,
                None => self.query(next_start, size)?,
            };
            (start, left) = (next_start, left - size);
        }
    }

    /// The walk of an element that is its bucket, as [`Table::walk`] says, where the whole table is
    /// in place: then nothing waits, and it is a loop over its words. Nothing where it is not.
    pub(super) fn walk_in_place(
        &self,
        hash: u64,
        bucket: u64,
        inserts: bool,
    ) -> Option<Outcome<u64>> {
        let (view, start) = self.reach.buckets_in_place(inserts)?;
        let (word, buckets) = (view.words(start), self.reach.layout().buckets());
        let mut at = layout::home(self.reach.layout(), hash);
        for _ in 0..self.reach_of_walks() {
            let mut seen = word(at as usize);
            if seen == 0 {
                if !inserts {
                    return Some(Outcome::Full);
                }
                seen = view.compare_swap(start + at * 8, 0, bucket);
                if seen == 0 {
                    return Some(Outcome::Inserted(at));
                }
            }
            if seen == bucket {
                return Some(Outcome::Found(at));
            }
            at = if at + 1 == buckets { 0 } else { at + 1 };
        }
        Some(Outcome::Full)
    }

    /// Asks the processor for the buckets that a walk for this hash looks at first, up to a cache
    /// line of them; false where they are not in place.
    pub(super) fn prefetch(&self, hash: u64) -> bool {
        let layout = self.reach.layout();
        let (rank, word) = layout.locate(layout::home(layout, hash));
        let len = (layout.buckets_end() - word).min(8);
        self.reach.prefetch(rank, word, len as usize)
    }

    /// Buckets that a walk examines, the same for every walker: beyond them there is no element.
    pub(super) fn reach_of_walks(&self) -> u64 {
        self.chunks.reach().min(self.reach.layout().buckets())
    }

    /// Asks for `size` buckets: one request a rank that has some of them.
    fn query(&self, start: u64, size: u64) -> Result<Chunk<'_, E>, SetError> {
        let layout = self.reach.layout();
        let mut pieces = SmallVec::new();
        let (mut at, mut left) = (start, size);
        while left > 0 {
            let (rank, word) = layout.locate(at);
            let len = left.min(layout.buckets_end() - word);
            pieces.push((self.reach.request(rank, word, len as usize)?, len as usize));
            at = (at + len) % layout.buckets();
            left -= len;
        }
        Ok(Chunk { pieces })
    }

    fn learn(&self, chunk: &Chunk<'_, E>, size: u64) {
        let used = (0..size as usize).filter(|at| chunk.bucket(*at) != 0);
        self.chunks.learn(size as u32, used.count() as u32);
    }

    /// All buckets in use of this rank's own part.
    pub(super) async fn own_occupied(&self) -> Result<Vec<u64>, SetError> {
        let mut used = Vec::new();
        let note = |_, word| used.extend((word != 0).then_some(word));
        self.reach.for_each_bucket(note).await?;
        Ok(used)
    }
}

/// Waits for a chunk, once the next one has been requested too.
async fn sync<E: Endpoint>(
    chunk: &mut Chunk<'_, E>,
    mut next: Option<&mut Chunk<'_, E>>,
) -> Result<(), SetError> {
    poll_fn(|cx| {
        posting_many(|| {
            let done = chunk.poll(cx);
            if let Some(next) = next.take() {
                // To be posted. What becomes of it is seen when it is waited for, if ever.
                let _ = next.poll(cx);
            }
            done
        })
    })
    .await
}
