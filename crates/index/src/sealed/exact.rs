//! Finding a key's value where each key has one slot, in steps: the slot that the perfect hash
//! function names is read, and its key compared.

use super::client::{Client, Key};
use super::fast_path::ExactFastPath;
use super::layout::SealedForm;
use super::lookup::{Search, Stage, UnknownBuild};
use super::perfect::PilotHash;
use super::slots::{InlineFormat, ReferenceLook, signature_of};
use crate::Result;
use crate::step::{FastPath, Lookup, NextStep, ReadPieces, Reads, ValueLocation, failed, view};
use farslot_fabric::{Endpoint, InPlace, Piece};

/// A client, for lookups of this kind.
pub(super) struct Exact<E>(pub(super) Client<E>);

/// How far a lookup has come.
#[derive(Default)]
pub(crate) struct OneSlot {
    hashed: PilotHash,
    slot: u64,
    /// The record out of band, as of any other sealed table.
    record: Search,
}

impl<E: Endpoint> Lookup for Exact<E> {
    const PREPARES: bool = true;

    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    /// The hash is in the search, and nothing else is needed.
    type Key<'k> = Key<'k>;
    type Search = OneSlot;
    type SlowPath = UnknownBuild;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.0.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        view(&*self.0.endpoint, self.0.table)
    }

    #[inline]
    fn fast_path<'k>(
        &self,
        view: &InPlace<'_>,
        _: (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        ExactFastPath::of(&self.0, view)
    }

    #[inline(always)]
    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<Key<'k>> {
        self.0.unhashed_key(bytes)
    }

    #[inline(always)]
    fn prepare(&self, key: &Key<'_>, search: &mut OneSlot) {
        if let Some(function) = self.0.function() {
            search.hashed = function.hashed(key.bytes);
            function.prefetch(search.hashed);
        }
    }

    #[inline(always)]
    fn begin(&self, _: &Key<'_>, search: &mut OneSlot) -> NextStep<UnknownBuild> {
        let Some(function) = self.0.function() else {
            return NextStep::SlowPath(UnknownBuild);
        };
        let Some(slot) = function.slot(search.hashed) else {
            return NextStep::Absent;
        };
        search.slot = slot;
        search.record.stage = Stage::Slots;
        NextStep::Read(Reads::ONE)
    }

    #[inline(always)]
    fn piece(&self, key: &Key<'_>, search: &OneSlot, number: usize) -> Piece {
        match search.record.stage {
            Stage::Slots => Piece {
                from: self.0.layout.slot_at(self.0.table, search.slot),
                len: self.0.layout.slot_bytes(),
            },
            _ => Lookup::piece(&self.0, key, &search.record, number),
        }
    }

    #[inline(always)]
    fn look(
        &self,
        key: &Key<'_>,
        search: &mut OneSlot,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        match (search.record.stage, self.0.layout.form) {
            (Stage::Slots, SealedForm::Inline) => self.look_at_slot(key, search, read),
            (Stage::Slots, SealedForm::OutOfBand) => self.look_at_reference(key, search, read),
            (Stage::Records, _) => self.0.look_at_records(key, &mut search.record, read),
            (Stage::Rest, _) => self.0.look_at_rest(key, &mut search.record, read),
        }
    }

    async fn slow_path(
        &self,
        key: &Self::Key<'_>,
        search: &mut Self::Search,
        _: UnknownBuild,
    ) -> Result<NextStep<UnknownBuild>> {
        self.0.built().await?;
        self.prepare(key, search);
        Ok(self.begin(key, search))
    }
}

impl<E: Endpoint> Exact<E> {
    /// Looks at a slot that holds its record.
    #[inline(always)]
    fn look_at_slot(
        &self,
        key: &Key<'_>,
        search: &OneSlot,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        if self.0.layout.record_bytes().is_none() {
            return self.look_at_sized_slot(key, search, read);
        }
        let Some(built) = self.0.known_build() else {
            return NextStep::SlowPath(UnknownBuild);
        };
        let format = self.0.inline_format(built.mask);
        let wanted = format.word_of_key(key.bytes);
        match format {
            // A word, or one of key and one of value.
            InlineFormat { slot: 8, .. } => {
                let word = read.word(0, 0);
                let of_value = word.checked_shr(8 * format.key as u32).unwrap_or(0);
                let len = 8 - format.key;
                match word != 0 && format.bits_of_key(word) == wanted {
                    true => NextStep::Found(ValueLocation::Word {
                        word: of_value,
                        len,
                    }),
                    false => NextStep::Absent,
                }
            }
            InlineFormat {
                slot: 16, key: 8, ..
            } => {
                let words = read.words(0);
                let of_key = words(0);
                match of_key != 0 && of_key == wanted {
                    true => NextStep::Found(ValueLocation::Word {
                        word: words(1),
                        len: 8,
                    }),
                    false => NextStep::Absent,
                }
            }
            _ => {
                let slot = read.bytes(0, 0..format.slot);
                let (word, rest) = (format.word_of_slot(slot, 0), 8.min(format.key));
                let is_key =
                    word != 0 && word == wanted && slot[rest..format.key] == key.bytes[rest..];
                match is_key {
                    true => {
                        let bytes = format.key..format.slot;
                        NextStep::Found(ValueLocation::Bytes { piece: 0, bytes })
                    }
                    false => NextStep::Absent,
                }
            }
        }
    }

    /// Looks at a slot that holds a record of variable size.
    #[inline]
    fn look_at_sized_slot(
        &self,
        key: &Key<'_>,
        search: &OneSlot,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        let bytes = read.bytes(0, 0..self.0.layout.slot_bytes());
        match self.0.parts_in_slot(bytes, search.slot) {
            Ok(Some(parts)) if bytes[parts.key.clone()] == *key.bytes => {
                let bytes = parts.value;
                NextStep::Found(ValueLocation::Bytes { piece: 0, bytes })
            }
            Ok(_) => NextStep::Absent,
            Err(error) => failed(error),
        }
    }

    /// Looks at a slot that says where its record is.
    #[inline]
    fn look_at_reference(
        &self,
        key: &Key<'_>,
        search: &mut OneSlot,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        let format = self.0.layout.out_format();
        let slot = read.bytes(0, 0..format.bytes());
        let ReferenceLook::Candidate(reference) =
            format.look(slot, 0, 0, signature_of(search.hashed.hash))
        else {
            return NextStep::Absent;
        };
        let record = &mut search.record;
        record.candidates.clear();
        record.candidates.push(reference);
        (record.first, record.count, record.is_end) = (0, 0, true);
        self.0.read_records(key, record)
    }
}
