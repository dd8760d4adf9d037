//! Looking a key up in its buckets (paper 000, algorithm 3), in steps.
//!
//! Invariant: a key that is in the table is in a slot of one of its buckets, at every moment. A
//! reader that reads the buckets at different moments may still miss it, if it was displaced in
//! between; then the counts of displacements are not what they were before the reader began.

use super::client::{CuckooTable, Key};
use super::fast_path::InlineFastPath;
use super::layout::{CandidateBuckets, LookupOrder, MOST_WAYS, signature_of};
use super::moves_seen::StripeCounts;
use super::signatures::SignatureWord;
use crate::client::{MOST_READS, pause};
use crate::hash::checksum;
use crate::heap::{BlockRef, RecordView};
use crate::slot::{SlotHead, SlotKind, WordFormat};
use crate::step::{FastPath, Lookup, NextStep, ReadPieces, Reads, ValueLocation, failed, view};
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, InPlace, Piece};
use std::ops::ControlFlow;

/// How far a lookup has come.
#[derive(Default)]
pub(crate) struct Search {
    stage: Stage,
    /// How often all buckets were looked through.
    rounds: u32,
    /// What the counts of displacements were before this round, and whether the table was known to
    /// be sealed.
    before: StripeCounts,
    sealed: bool,
    /// The buckets that are looked through, and which of them are read; a bit each.
    set: CandidateBuckets,
    reading: u32,
    /// Whether they are those that the writer knows the key to be in, and not all.
    is_known: bool,
    /// Records that may be the key's, and the one that is read, or the first of those.
    records: Vec<RecordCandidate>,
    next: usize,
    /// Buckets that something was found in that is not whole, or not there any more.
    again: u32,
    rereads: u32,
}

/// A record out of band that may be the key's.
#[derive(Clone, Copy)]
struct RecordCandidate {
    /// Its bucket's place in the set.
    bucket: usize,
    /// Its slot's word, or its bucket's.
    word: u64,
    position: usize,
}

/// What is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Buckets,
    /// A record, or in a table of signatures several.
    Records,
    /// The counts of displacements.
    Counts,
}

/// What a lookup needs besides READs: time, before buckets are read again for the nth time.
pub(crate) struct RereadPause(u32);

impl<E: Endpoint> Lookup for CuckooTable<E> {
    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    type Key<'k> = Key<'k>;
    type Search = Search;
    type SlowPath = RereadPause;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        view(&*self.endpoint, self.table)
    }

    #[inline]
    fn fast_path<'k>(
        &self,
        view: &InPlace<'_>,
        _: (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        InlineFastPath::of(self, view)
    }

    #[inline(always)]
    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<Key<'k>> {
        self.checked_key(bytes)
    }

    #[inline]
    fn begin(&self, key: &Self::Key<'_>, search: &mut Search) -> NextStep<RereadPause> {
        search.rounds = 0;
        self.begin_round(key, search)
    }

    #[inline]
    fn piece(&self, _: &Self::Key<'_>, search: &Search, number: usize) -> Piece {
        match search.stage {
            Stage::Buckets => self.piece_of(search.set.as_slice()[search.bucket(number)]),
            Stage::Records => self.piece_of_record(search.records[search.next + number]),
            Stage::Counts => self.piece_of_moves(),
        }
    }

    #[inline]
    fn look(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<RereadPause> {
        match search.stage {
            Stage::Buckets => self.look_at_buckets(key, search, read),
            Stage::Records => self.look_at_records(key, search, read),
            Stage::Counts => self.look_at_counts(key, search, read),
        }
    }

    async fn slow_path(
        &self,
        _: &Self::Key<'_>,
        search: &mut Search,
        RereadPause(attempt): RereadPause,
    ) -> Result<NextStep<RereadPause>> {
        pause(&*self.endpoint, attempt).await?;
        Ok(self.read_buckets_of(search))
    }
}

impl Search {
    /// The place in the set of the bucket that is read as this piece.
    #[inline]
    fn bucket(&self, piece: usize) -> usize {
        if self.reading & (self.reading + 1) == 0 {
            // All up to some.
            return piece;
        }
        let mut left = self.reading;
        for _ in 0..piece {
            left &= left - 1;
        }
        left.trailing_zeros() as usize
    }
}

impl<E: Endpoint> CuckooTable<E> {
    /// Begins to look through the key's buckets.
    #[inline]
    fn begin_round(&self, key: &Key<'_>, search: &mut Search) -> NextStep<RereadPause> {
        search.before = self.moves_seen.of(&key.candidates);
        search.sealed = self.sealed.get();
        if !self.predetermines {
            return self.read_candidates(key, search);
        }
        // Where the writer has it, if it is the writer. That it has it not, another may have
        // changed meanwhile.
        let known = self.buckets_of_key(key);
        search.is_known = known != key.candidates;
        if !search.is_known || known.as_slice().is_empty() {
            return self.read_candidates(key, search);
        }
        search.set = known;
        search.reading = (1 << known.as_slice().len()) - 1;
        self.read_anew(search)
    }

    /// Has the buckets read that the key can be in.
    #[inline]
    fn read_candidates(&self, key: &Key<'_>, search: &mut Search) -> NextStep<RereadPause> {
        search.is_known = false;
        search.set = key.candidates;
        search.reading = match self.order {
            LookupOrder::Sequential => 1,
            LookupOrder::Parallel | LookupOrder::Gathered => {
                (1 << key.candidates.as_slice().len()) - 1
            }
        };
        self.read_anew(search)
    }

    #[inline]
    fn read_anew(&self, search: &mut Search) -> NextStep<RereadPause> {
        search.rereads = 0;
        self.read_buckets_of(search)
    }

    #[inline]
    fn read_buckets_of(&self, search: &mut Search) -> NextStep<RereadPause> {
        search.stage = Stage::Buckets;
        search.records.clear();
        search.next = 0;
        search.again = 0;
        NextStep::Read(self.reads_of(search.reading.count_ones() as usize))
    }

    /// The READs of so many buckets side by side.
    #[inline]
    pub(super) fn reads_of(&self, buckets: usize) -> Reads {
        match self.order {
            LookupOrder::Gathered if buckets <= MOST_WAYS => Reads::gathered(buckets),
            _ => Reads::apart(buckets),
        }
    }

    #[inline]
    pub(super) fn piece_of(&self, bucket: u64) -> Piece {
        let len = self.bucket_bytes;
        Piece {
            from: self.first_bucket.plus(bucket * len as u64),
            len,
        }
    }

    /// Looks at the buckets that were read.
    #[inline]
    fn look_at_buckets(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<RereadPause> {
        for piece in 0..search.reading.count_ones() as usize {
            let bucket = search.bucket(piece);
            if self.layout.kind == SlotKind::Signatures {
                let word = read.word(piece, 0);
                let positions = SignatureWord(word).positions_of(signature_of(key.hash));
                search
                    .records
                    .extend(positions.map(|position| RecordCandidate {
                        bucket,
                        word,
                        position,
                    }));
                continue;
            }
            let slot_words = self.slot_words;
            for slot in 0..self.layout.bucket_slots as usize {
                let first = slot * slot_words;
                let word = read.word(piece, first);
                let at = (bucket, piece, slot);
                if self.layout.kind == SlotKind::Word {
                    if WordFormat::is_live(word) && self.words.same_key(word, key.word) {
                        return NextStep::Found(ValueLocation::Word {
                            word: self.words.value_of_word(word),
                            len: self.layout.value.most(),
                        });
                    }
                } else if SlotHead::has_record_of(word, key.hash)
                    && let ControlFlow::Break(found) =
                        self.look_at_slot(key, search, at, (word, first), read)
                {
                    return NextStep::Found(found);
                }
            }
        }
        self.read_records(key, search)
    }

    /// Looks at a slot whose head, its first word, may be that of the key's record; notes what has
    /// to be looked at closer.
    #[inline]
    fn look_at_slot(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        (bucket, piece, slot): (usize, usize, usize),
        (word, first): (u64, usize),
        read: &mut impl ReadPieces,
    ) -> ControlFlow<ValueLocation> {
        match self.head(word) {
            SlotHead::Inline { sum, .. } => match self.inline_in(key, sum, (piece, first), read) {
                Some(Some(found)) => return ControlFlow::Break(found),
                Some(None) => {}
                None => search.again |= 1 << bucket,
            },
            SlotHead::Out { .. } => search.records.push(RecordCandidate {
                bucket,
                word,
                position: slot,
            }),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// The value of the key in a slot of a piece, with this first word's number and checksum, if
    /// the record there is the key's; nothing if it is not whole.
    #[inline]
    pub(super) fn inline_in(
        &self,
        key: &Key<'_>,
        sum: u32,
        (piece, first): (usize, usize),
        read: &mut impl ReadPieces,
    ) -> Option<Option<ValueLocation>> {
        let of_key = self.layout.key.most();
        let body = first * 8 + 8;
        let bytes = body..body + of_key + self.layout.value.most();
        let record = read.bytes(piece, bytes.clone());
        if checksum(record, self.layout.mask_seed) != sum {
            return None;
        }
        let is_own = record[..of_key] == *key.bytes;
        let bytes = body + of_key..bytes.end;
        Some(is_own.then_some(ValueLocation::Bytes { piece, bytes }))
    }

    /// Has the next candidates read: one, or, where a word tells of all records of a bucket at one
    /// moment, all.
    #[inline]
    fn read_records(&self, key: &Key<'_>, search: &mut Search) -> NextStep<RereadPause> {
        let left = search.records.len() - search.next;
        if left == 0 {
            return self.looked_through(key, search);
        }
        search.stage = Stage::Records;
        NextStep::Read(match self.layout.kind {
            SlotKind::Signatures => Reads::apart(left),
            _ => Reads::ONE,
        })
    }

    #[inline]
    fn piece_of_record(&self, candidate: RecordCandidate) -> Piece {
        if self.layout.kind == SlotKind::Signatures {
            let of = self.heap_buckets();
            let block = of.block(SignatureWord(candidate.word));
            return Piece {
                from: self.region_at(block, candidate.position),
                len: of.region,
            };
        }
        self.heap().piece(BlockRef::unpack(candidate.word))
    }

    /// Looks at the records that were read.
    #[inline]
    fn look_at_records(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<RereadPause> {
        let count = match self.layout.kind {
            SlotKind::Signatures => search.records.len() - search.next,
            _ => 1,
        };
        for piece in 0..count {
            let candidate = search.records[search.next + piece];
            let len = self.piece_of_record(candidate).len;
            let bytes = read.bytes(piece, 0..len);
            match self.record_in(candidate, bytes) {
                Some(record) if record.key == key.bytes => {
                    let bytes = record.value_range();
                    return NextStep::Found(ValueLocation::Bytes { piece, bytes });
                }
                Some(_) => {}
                None => search.again |= 1 << candidate.bucket,
            }
        }
        search.next += count;
        self.read_records(key, search)
    }

    /// The record that a slot names, if this is it, whole.
    #[inline]
    fn record_in<'b>(&self, candidate: RecordCandidate, bytes: &'b [u8]) -> Option<RecordView<'b>> {
        if self.layout.kind != SlotKind::Signatures {
            return RecordView::decode(bytes, BlockRef::unpack(candidate.word));
        }
        let of = self.heap_buckets();
        let block = of.block(SignatureWord(candidate.word));
        let stamp = crate::hash::word_of(&bytes[..8]) >> 32;
        let stamped = BlockRef {
            generation: stamp,
            ..block
        };
        of.is_of(stamp, block)
            .then(|| RecordView::decode(bytes, stamped))?
    }

    /// What follows when nothing that was read is the key's.
    #[inline]
    fn looked_through(&self, key: &Key<'_>, search: &mut Search) -> NextStep<RereadPause> {
        if search.again != 0 {
            return self.read_again(search);
        }
        if search.is_known {
            return self.read_candidates(key, search);
        }
        let last = u32::BITS - search.reading.leading_zeros();
        if self.order == LookupOrder::Sequential && (last as usize) < search.set.as_slice().len() {
            search.reading = 1 << last;
            return self.read_anew(search);
        }
        if search.sealed {
            return NextStep::Absent;
        }
        search.stage = Stage::Counts;
        NextStep::Read(Reads::ONE)
    }

    /// Has the buckets read again in which something was not whole: at once the first time, then
    /// after ever longer pauses.
    #[cold]
    fn read_again(&self, search: &mut Search) -> NextStep<RereadPause> {
        let first = search.again.trailing_zeros() as usize;
        search.reading = search.again;
        search.rereads += 1;
        if search.rereads >= MOST_READS {
            return failed(self.unreadable(search.set.as_slice()[first]));
        }
        match search.rereads {
            1 => self.read_buckets_of(search),
            rereads => NextStep::SlowPath(RereadPause(rereads - 1)),
        }
    }

    /// Looks whether the key was displaced meanwhile.
    fn look_at_counts(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<RereadPause> {
        self.note_moves(|word| read.word(0, word));
        if self.moves_seen.of(&key.candidates) == search.before {
            return NextStep::Absent;
        }
        // At once: the longer between two looks at the count, the likelier that it changes.
        search.rounds += 1;
        if search.rounds >= MOST_READS {
            return failed(IndexError::Contended {
                slot: key.candidates.as_slice()[0] * u64::from(self.layout.bucket_slots),
                attempts: MOST_READS,
            });
        }
        self.begin_round(key, search)
    }
}
