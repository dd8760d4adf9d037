//! The shortest way to a free slot, breadth first, a level of buckets in one round trip.

use super::batch::SlotContent;
use super::buckets::Bucket;
use super::client::CuckooTable;
use super::layout::CuckooSlot;
use crate::Result;
use crate::client::locks::Held;
use crate::slot::SlotKind;
use farslot_fabric::{Endpoint, window};
use std::collections::HashSet;

/// What a search for a place has come to.
pub(super) enum Search {
    /// A slot in one of the key's buckets, and the moves that make room in it, in the order in
    /// which they must take effect.
    Place(Hole, Vec<Move>),
    /// A slot in one of the key's buckets which is known to be vacant, and was not read.
    Blind(Hole),
    /// No way to a free slot within the search's bounds.
    Full { buckets: u64 },
    /// Other coroutines of this writer hold buckets that the way may lead through.
    InTheWay,
}

/// A slot to be filled: a free one, or one whose content was copied to another place before.
#[derive(Clone, Copy)]
pub(super) struct Hole {
    pub(super) place: CuckooSlot,
    /// The word that publishes the slot.
    pub(super) word: u64,
}

/// The copy of a slot to another place.
pub(super) struct Move {
    /// The bucket that it leaves.
    pub(super) from: u64,
    pub(super) to: Hole,
    pub(super) content: SlotContent,
}

/// A bucket that the search has reached, and from which slot.
pub(super) struct ReachedBucket {
    pub(super) bucket: Bucket,
    pub(super) from: Option<(usize, usize)>,
}

/// Levels of the search: the longest chain of displacements. Only buckets of one slot need so many.
const MOST_LEVELS: usize = 16;
/// Buckets that a search reads at most.
const MOST_BUCKETS: usize = 512;

/// The number of the roomiest of some buckets, which have so many free slots; nothing if none has
/// any. Of equally roomy ones it is the first: sequential lookups then find more at once.
pub(super) fn roomiest(
    free: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator,
) -> Option<usize> {
    let (roomiest, free) = free.enumerate().rev().max_by_key(|(_, free)| *free)?;
    (free > 0).then_some(roomiest)
}

impl<E: Endpoint> CuckooTable<E> {
    /// Searches from the key's buckets, which are held, and holds what it reads.
    pub(super) async fn search_place(
        &self,
        candidates: Vec<Bucket>,
        held: &Held<'_>,
    ) -> Result<Search> {
        let mut seen: HashSet<u64> = candidates.iter().map(|bucket| bucket.number).collect();
        let mut reached: Vec<ReachedBucket> = candidates
            .into_iter()
            .map(|bucket| ReachedBucket { bucket, from: None })
            .collect();
        if let Some(roomiest) = self.roomiest(&reached) {
            return self.way_to(&reached, roomiest).await;
        }
        let (mut level, mut in_the_way) = (0..reached.len(), false);
        for _ in 0..MOST_LEVELS {
            let ways_on = self.ways_on(&reached[level.clone()], level.start).await?;
            let mut next = Vec::new();
            for (number, from) in ways_on {
                if reached.len() + next.len() >= MOST_BUCKETS || !seen.insert(number) {
                    continue;
                }
                if held.try_add(number) {
                    next.push((number, from));
                } else {
                    in_the_way = true;
                }
            }
            if next.is_empty() {
                break;
            }
            let numbers: Vec<u64> = next.iter().map(|(number, _)| *number).collect();
            let buckets = self.read_buckets(&numbers).await?;
            level = reached.len()..reached.len() + buckets.len();
            let origins = next.into_iter().map(|(_, from)| Some(from));
            let arrived = buckets.into_iter().zip(origins);
            reached.extend(arrived.map(|(bucket, from)| ReachedBucket { bucket, from }));
            let free = level
                .clone()
                .find(|index| self.free_slot(&reached[*index]).is_some());
            if let Some(free) = free {
                return self.way_to(&reached, free).await;
            }
        }
        Ok(if in_the_way {
            Search::InTheWay
        } else {
            Search::Full {
                buckets: reached.len() as u64,
            }
        })
    }

    /// The bucket with the most free slots, if any has one.
    fn roomiest(&self, reached: &[ReachedBucket]) -> Option<usize> {
        roomiest(reached.iter().map(|reached| {
            let slots = 0..self.layout.bucket_slots as usize;
            slots
                .filter(|slot| self.is_free(&reached.bucket, *slot))
                .count()
        }))
    }

    fn free_slot(&self, reached: &ReachedBucket) -> Option<usize> {
        (0..self.layout.bucket_slots as usize).find(|slot| self.is_free(&reached.bucket, *slot))
    }

    /// Where the records of a level's buckets could go: the bucket, and the slot that leads there.
    async fn ways_on(
        &self,
        level: &[ReachedBucket],
        first: usize,
    ) -> Result<Vec<(u64, (usize, usize))>> {
        let slots = self.layout.bucket_slots as usize;
        let buckets: Vec<&Bucket> = level.iter().map(|reached| &reached.bucket).collect();
        let hashes = self.hashes_of(&buckets).await?;
        let mut ways = Vec::new();
        for (index, hash) in hashes.into_iter().enumerate() {
            let from = (first + index / slots, index % slots);
            let here = level[index / slots].bucket.number;
            let candidates = hash.map(|hash| self.layout.buckets_of(hash));
            let alternatives = candidates
                .iter()
                .flat_map(|candidates| candidates.as_slice());
            ways.extend(
                alternatives
                    .filter(|other| **other != here)
                    .map(|other| (*other, from)),
            );
        }
        Ok(ways)
    }

    /// The hashes of the keys in buckets that the writer holds, slot by slot.
    pub(super) async fn hashes_of(&self, buckets: &[&Bucket]) -> Result<Vec<Option<u64>>> {
        match self.layout.kind {
            SlotKind::Signatures => self.hashes_in(buckets).await,
            _ => self.hashes_of_slots(buckets).await,
        }
    }

    async fn hashes_of_slots(&self, buckets: &[&Bucket]) -> Result<Vec<Option<u64>>> {
        let slots = self.layout.bucket_slots as usize;
        let mut hashes = vec![None; buckets.len() * slots];
        let mut failed = Ok(());
        let looks =
            (0..hashes.len()).map(|index| self.key_hash_of(buckets[index / slots], index % slots));
        window(hashes.len(), looks, |index, hash| match hash {
            Ok(hash) => hashes[index] = hash,
            Err(error) => failed = Err(error),
        })
        .await;
        failed.map(|()| hashes)
    }

    /// The chain of moves that ends in a reached bucket's free slot.
    pub(super) async fn way_to(&self, reached: &[ReachedBucket], end: usize) -> Result<Search> {
        let slot = self
            .free_slot(&reached[end])
            .expect("the way ends at a free slot");
        let hole = |index: usize, slot| {
            let bucket = &reached[index].bucket;
            let place = CuckooSlot {
                bucket: bucket.number,
                slot,
            };
            let word = self.word_of(bucket, slot);
            Hole { place, word }
        };
        let (mut holes, mut sources, mut at) = (vec![hole(end, slot)], Vec::new(), end);
        while let Some((parent, slot)) = reached[at].from {
            holes.push(hole(parent, slot));
            sources.push((&reached[parent].bucket, slot));
            at = parent;
        }
        let mut contents: Vec<Option<SlotContent>> = sources.iter().map(|_| None).collect();
        let mut failed = Ok(());
        let looks = sources
            .iter()
            .map(|(bucket, slot)| self.content_in(bucket, *slot));
        window(sources.len(), looks, |index, content| match content {
            Ok(content) => contents[index] = Some(content),
            Err(error) => failed = Err(error),
        })
        .await;
        failed?;
        let moves = contents
            .into_iter()
            .flatten()
            .zip(holes.windows(2))
            .map(|(content, pair)| Move {
                from: pair[1].place.bucket,
                to: pair[0],
                content,
            });
        Ok(Search::Place(holes[holes.len() - 1], moves.collect()))
    }

    /// What a slot holds, as it goes to another.
    async fn content_in(&self, bucket: &Bucket, slot: usize) -> Result<SlotContent> {
        Ok(match self.layout.kind {
            SlotKind::Signatures => SlotContent::Record(self.entrant_from(bucket, slot).await?),
            _ => SlotContent::Words(self.slot_words(&bucket.bytes, slot).to_vec()),
        })
    }
}
