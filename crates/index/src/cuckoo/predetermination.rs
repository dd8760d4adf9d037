//! What the writer knows without asking, if its client was opened so: the table's cuckoo graph.
//!
//! Invariant: while there is a graph, this client is the writer, and the graph is that of the slots
//! as they are but for the buckets that operations under way hold. Whoever changes slots says so
//! beforehand; one that does not come to a known end (an error, a future that is dropped) leaves no
//! graph, and the next insertion surveys the table. So does a client that has just become the
//! writer.

use super::buckets::Bucket;
use super::client::{CuckooTable, Key};
use super::graph::CuckooGraph;
use super::layout::{CandidateBuckets, CuckooLayout, CuckooSlot, WRITER_AT};
use super::path::{Hole, ReachedBucket, Search};
use crate::client::locks::Held;
use crate::client::side_by_side;
use crate::slot::SlotKind;
use crate::{BATCH_WIDTH, IndexError, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, both};
use std::cell::RefCell;

/// Bytes of buckets that one READ of the survey fetches.
const PIECE: usize = 256 << 10;
/// Buckets whose records are looked at side by side.
const WIDTH: usize = 64;

impl CuckooLayout {
    /// Bytes of the client's memory that [predetermination](CuckooTable::with_predetermination)
    /// takes at most: 4 a slot for each hash function but one, and 8 a bucket. While a search goes
    /// on, 16 more for each bucket that it has come to.
    #[must_use]
    pub const fn predetermination_bytes(&self) -> u64 {
        CuckooGraph::bytes(self)
    }
}

/// Slots that are being changed, until it is known what they are.
pub(super) struct Changing<'t>(Option<&'t RefCell<Option<CuckooGraph>>>);

impl Changing<'_> {
    /// They are changed; the graph is told how.
    pub(super) fn done(mut self, note: impl FnOnce(&mut CuckooGraph)) {
        if let Some(graph) = self.0.take()
            && let Some(graph) = &mut *graph.borrow_mut()
        {
            note(graph);
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.inspect(|graph| drop(graph.take()));
    }
}

impl<E: Endpoint> CuckooTable<E> {
    /// The same client, which from now on knows of each insertion beforehand whether it has a
    /// place, and which records are to be moved for it, while it is the writer (paper 004, for any
    /// number of hash functions and slots).
    ///
    /// It keeps the table's cuckoo graph in its own memory
    /// ([`predetermination_bytes`](CuckooLayout::predetermination_bytes)), after a survey of the
    /// table at its first insertion as the writer (or [`CuckooTable::start_writing`]), which READs
    /// all buckets, and each record that is out of band. It surveys the table again after an
    /// operation that failed, or was given up, in the middle of a change. Removals are followed
    /// exactly. Then
    ///
    /// - an insertion without a place fails with [`IndexError::Full`] without a round trip (but for
    ///   keys that the graph cannot tell from one that is there, about `2 * slots of a bucket /
    ///   buckets` of them for two hash functions and fewer for more: one round trip), and never
    ///   while any rearrangement of the records makes a place;
    /// - an insertion READs no more than the buckets that it changes, all in one round trip,
    ///   however long the way to a vacant slot (and what it moves of records out of band, in one or
    ///   two more); nothing where it moves no other record and one swap publishes it (slots of
    ///   words, or records wholly out of band);
    /// - updates and removals of keys that are not there need no round trip, those of keys that are
    ///   there and this client's lookups READ the one bucket.
    ///
    /// A client that was taken over from while it lives knows a table that is no more. Over an
    /// endpoint without [fences](Endpoint::fence) it knows it until its next insertion that it
    /// takes to have a place: so, even more than without, take over from the dead only. Each such
    /// insertion READs the writer's word beside the buckets, or behind its swap if it READs none,
    /// and says [`IndexError::WriterLost`].
    ///
    /// # Errors
    /// [`IndexError::BadOption`] for tables of 2^32 - 2 buckets and more.
    pub fn with_predetermination(mut self) -> Result<Self> {
        CuckooGraph::check(&self.layout)?;
        self.predetermines = true;
        Ok(self)
    }

    /// Whether a key that is not there would find a place; nothing as long as that is not known
    /// without looking: without [predetermination](CuckooTable::with_predetermination), before this
    /// client has become the writer, or while the graph is to be made anew.
    ///
    /// # Errors
    /// [`IndexError::EmptyKey`] or [`IndexError::KeyLength`] for what is no key of this table.
    pub fn has_place(&self, key: &[u8]) -> Result<Option<bool>> {
        let key = self.checked_key(key)?;
        let mut graph = self.graph.borrow_mut();
        let way = graph.as_mut().map(|graph| graph.way(&key.candidates));
        Ok(way.map(|way| way.is_some()))
    }

    /// If so, slots of buckets that are held are about to change.
    pub(super) fn changing_if(&self, change: bool) -> Changing<'_> {
        Changing(change.then_some(&self.graph))
    }

    /// Nothing is known any more.
    pub(super) fn forget_graph(&self) {
        self.graph.take();
    }

    /// Those of the key's buckets, which are held, that it may be in: all, as long as nothing is
    /// known.
    #[inline]
    pub(super) fn buckets_of_key(&self, key: &Key<'_>) -> CandidateBuckets {
        match self.predetermines {
            true => self.known_buckets_of(key),
            false => key.candidates,
        }
    }

    fn known_buckets_of(&self, key: &Key<'_>) -> CandidateBuckets {
        match &*self.graph.borrow() {
            Some(graph) => key
                .candidates
                .only(|bucket| graph.may_hold(bucket, &key.candidates)),
            None => key.candidates,
        }
    }

    /// Whether all is known that is to be.
    #[inline]
    pub(super) fn knows_graph(&self) -> bool {
        !self.predetermines || self.graph.borrow().is_some()
    }

    /// Surveys the table, if it is to be known and is not.
    pub(super) async fn know_graph(&self, operation: &'static str) -> Result<()> {
        if self.knows_graph() {
            return Ok(());
        }
        // Nothing changes meanwhile, and nothing is changed that is not in the graph.
        let _alone = self.locks.take_alone(&[]).await;
        if self.knows_graph() {
            return Ok(());
        }
        self.become_writer(operation).await?;
        let surveying = self.endpoint.operation(UPKEEP, self.survey_graph());
        self.graph.replace(Some(surveying.await?));
        Ok(())
    }

    async fn survey_graph(&self) -> Result<CuckooGraph> {
        let mut graph = CuckooGraph::new(&self.layout);
        let bucket_bytes = self.layout.bucket_bytes();
        let pool = &self.endpoint.core().buffers;
        let buckets_a_piece = (PIECE / bucket_bytes).max(1) as u64;
        for first in (0..self.layout.buckets).step_by(buckets_a_piece as usize) {
            let count = buckets_a_piece.min(self.layout.buckets - first);
            let from = self.layout.bucket_at(self.table, first);
            let bytes = count as usize * bucket_bytes;
            let piece = self.endpoint.read(from, bytes).await?;
            let in_use: Vec<(u64, &[u64])> = (first..)
                .zip(piece.words().chunks_exact(bucket_bytes / 8))
                .filter(|(_, words)| self.slots_in_use(words) > 0)
                .collect();
            for some in in_use.chunks(WIDTH) {
                let buckets = some.iter().map(|(number, words)| {
                    let bytes = pool.copy_of(bytemuck::cast_slice(words))?;
                    let number = *number;
                    Ok(Bucket { number, bytes })
                });
                let buckets = buckets.collect::<Result<Vec<Bucket>>>()?;
                self.enter(&mut graph, &buckets).await?;
            }
        }
        Ok(graph)
    }

    /// Enters what is in these buckets.
    async fn enter(&self, graph: &mut CuckooGraph, buckets: &[Bucket]) -> Result<()> {
        let hashes = self.hashes_of(&buckets.iter().collect::<Vec<_>>()).await?;
        let slots = self.layout.bucket_slots as usize;
        for (index, hash) in hashes.into_iter().enumerate() {
            let (bucket, slot) = (&buckets[index / slots], index % slots);
            let place = CuckooSlot {
                bucket: bucket.number,
                slot,
            };
            if !self.is_free(bucket, slot) {
                let candidates = hash.map(|hash| self.layout.buckets_of(hash));
                // A damaged record may be of any key's, or in a bucket that is not its.
                match candidates.filter(|all| all.as_slice().contains(&bucket.number)) {
                    Some(candidates) => graph.fill(place, &candidates),
                    None => graph.fill_unknown(place),
                }
            }
        }
        Ok(())
    }

    /// The place for a key that is not there, whose buckets are held, as the graph says, and holds
    /// the buckets on the way to it. Nothing if nothing is known.
    pub(super) async fn known_place(
        &self,
        key: &Key<'_>,
        held: &Held<'_>,
    ) -> Result<Option<Search>> {
        let way = match &mut *self.graph.borrow_mut() {
            Some(graph) => graph.way(&key.candidates),
            None => return Ok(None),
        };
        let Some(way) = way else {
            return Ok(Some(Search::Full { buckets: 0 }));
        };
        if !way[1..].iter().all(|place| held.try_add(place.bucket)) {
            return Ok(Some(Search::InTheWay));
        }
        if let [place] = way[..]
            && self.is_published_by_one_swap()
        {
            let hole = Hole { place, word: 0 };
            return Ok(Some(Search::Blind(hole)));
        }
        self.read_way(&way).await.map(Some)
    }

    /// Whether nothing of a slot is written before the swap that publishes it, which fails if the
    /// slot is not vacant: so that nothing must be read before.
    const fn is_published_by_one_swap(&self) -> bool {
        matches!(self.layout.kind, SlotKind::Word | SlotKind::Heap)
    }

    /// Reads what is to be moved, all at once, and who is the writer. What is not as the graph says
    /// was changed by another one.
    async fn read_way(&self, way: &[CuckooSlot]) -> Result<Search> {
        let numbers: Vec<u64> = way.iter().map(|place| place.bucket).collect();
        let reads = both(self.read_buckets(&numbers), self.check_writer(way[0]));
        let (buckets, writer) = reads.await;
        let buckets = buckets?;
        writer?;
        let last = way.len() - 1;
        let mut hashes = vec![None; last];
        let looks = buckets.iter().zip(&way[..last]);
        let looks = looks.map(|(bucket, place)| self.hash_of_slot(bucket, place.slot));
        side_by_side(BATCH_WIDTH, looks, |index, hash| hashes[index] = hash).await?;
        for (hash, pair) in hashes.into_iter().zip(way.windows(2)) {
            let to = hash.map(|hash| self.layout.buckets_of(hash));
            if !to.is_some_and(|to| to.as_slice().contains(&pair[1].bucket)) {
                return Err(self.lost(pair[0]));
            }
        }
        if !self.is_free(&buckets[last], way[last].slot) {
            return Err(self.lost(way[last]));
        }
        let reached: Vec<ReachedBucket> = buckets
            .into_iter()
            .enumerate()
            .map(|(index, bucket)| ReachedBucket {
                bucket,
                from: index
                    .checked_sub(1)
                    .map(|before| (before, way[before].slot)),
            })
            .collect();
        self.way_to(&reached, last).await
    }

    /// The hash of the key in a slot of a bucket that is held; nothing if it is vacant.
    async fn hash_of_slot(&self, bucket: &Bucket, slot: usize) -> Result<Option<u64>> {
        if self.is_free(bucket, slot) {
            return Ok(None);
        }
        if self.layout.kind == SlotKind::Signatures {
            let record = self.read_position(bucket.signatures(), slot).await?;
            return Ok(record.map(|record| self.layout.hasher.hash(record.key())));
        }
        self.key_hash_of(bucket, slot).await
    }

    /// Looks whether this client is the writer still, which is about to change a slot or has done
    /// so.
    pub(super) async fn check_writer(&self, place: CuckooSlot) -> Result<()> {
        let word = self.endpoint.read(self.table.plus(WRITER_AT), 8).await?;
        if word.words()[0] == self.mark.get() {
            return Ok(());
        }
        Err(self.lost(place))
    }

    /// Another client has become the writer, and has changed a slot.
    pub(super) fn lost(&self, place: CuckooSlot) -> IndexError {
        self.note_deposed();
        IndexError::WriterLost {
            slot: place.bucket * u64::from(self.layout.bucket_slots) + place.slot as u64,
        }
    }
}
