//! Finding a key's value, in steps. Nothing changes, so one look at each slot is enough.
//!
//! The slots of a probe come in READs of as many slots as [`Client::read_size`] says. In a
//! table in the order of the hashes the probe ends with the READ that has a slot whose key comes
//! after the one that is looked for; a READ that has an empty slot ends every probe.

use super::client::{Client, Key};
use super::fast_path::SealedPairFastPath;
use super::layout::{SealedForm, SlotOrder};
use super::record::{FIRST_READ, UNIT};
use super::slots::{InlineFormat, Reference, ReferenceLook};
use crate::step::{FastPath, Lookup, NextStep, ReadPieces, Reads, ValueLocation, failed, view};
use crate::{BATCH_WIDTH, Result, Value};
use farslot_fabric::{Endpoint, InPlace, Piece};

/// How far a lookup has come.
#[derive(Default)]
pub(crate) struct Search {
    pub(super) stage: Stage,
    /// From the key's home to the first slot that is to be read, or was.
    distance: u64,
    slots: u64,
    /// Whether the probe ends with what was read.
    pub(super) is_end: bool,
    /// Records that may be the key's; the first of those that are read, and how many are.
    pub(super) candidates: Vec<Reference>,
    pub(super) first: usize,
    pub(super) count: usize,
    /// The beginning of a record that is longer than its first READ, and all of its bytes.
    begun: Vec<u8>,
    bytes: usize,
}

/// What is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Slots,
    /// Records that slots name.
    Records,
    /// The rest of the first of them.
    Rest,
}

/// What a lookup needs besides READs: to know what the builder has left.
pub(crate) struct UnknownBuild;

/// What slots that hold their records have shown.
pub(super) enum InlineLook {
    /// The slot at this byte is the key's.
    Match(usize),
    /// None is; there may be one behind them.
    GoOn,
    /// Nor is any behind them.
    End,
}

/// What a record out of band is.
enum RecordMatch {
    OtherKey,
    /// The value begins and ends at these bytes.
    Value(std::ops::Range<usize>),
    /// So many bytes long, of which what was read is the beginning.
    Longer(usize),
}

/// Keys whose hash is made without memory of their own.
const SHORT_KEY: usize = 64;

impl<E: Endpoint> Lookup for Client<E> {
    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    type Key<'k> = Key<'k>;
    type Search = Search;
    type SlowPath = UnknownBuild;

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
        SealedPairFastPath::of(self, view)
    }

    #[inline(always)]
    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<Key<'k>> {
        self.checked_key(bytes)
    }

    #[inline(always)]
    fn begin(&self, key: &Self::Key<'_>, search: &mut Search) -> NextStep<UnknownBuild> {
        search.distance = 0;
        search.is_end = false;
        self.read_on(key, search)
    }

    #[inline(always)]
    fn piece(&self, key: &Self::Key<'_>, search: &Search, number: usize) -> Piece {
        match search.stage {
            Stage::Slots => Piece {
                from: self.layout.slot_at(self.table, key.home + search.distance),
                len: search.slots as usize * self.layout.slot_bytes(),
            },
            Stage::Records => self.piece_of_record(search.candidates[search.first + number]),
            Stage::Rest => {
                let Piece { from, len } = self.piece_of_record(search.candidates[search.first]);
                Piece {
                    from: from.plus(len as u64),
                    len: search.bytes - len,
                }
            }
        }
    }

    #[inline(always)]
    fn look(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        match (search.stage, self.layout.form) {
            (Stage::Slots, SealedForm::Inline) => self.look_at_inline(key, search, read),
            (Stage::Slots, SealedForm::OutOfBand) => self.look_at_references(key, search, read),
            (Stage::Records, _) => self.look_at_records(key, search, read),
            (Stage::Rest, _) => self.look_at_rest(key, search, read),
        }
    }

    async fn slow_path(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        _: UnknownBuild,
    ) -> Result<NextStep<UnknownBuild>> {
        self.built().await?;
        Ok(self.read_on(key, search))
    }
}

impl<E: Endpoint> Client<E> {
    /// Has the next slots read.
    #[inline(always)]
    fn read_on(&self, key: &Key<'_>, search: &mut Search) -> NextStep<UnknownBuild> {
        let Some(built) = self.known_build() else {
            return NextStep::SlowPath(UnknownBuild);
        };
        search.stage = Stage::Slots;
        search.slots = self.slots_to_read(&built, key.home, search.distance);
        if search.is_end || search.slots == 0 {
            NextStep::Absent
        } else {
            NextStep::Read(Reads::ONE)
        }
    }

    /// Looks at slots that hold their records.
    #[inline(always)]
    fn look_at_inline(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        let Some(built) = self.known_build() else {
            return NextStep::SlowPath(UnknownBuild);
        };
        let format = self.inline_format(built.mask);
        if let InlineFormat {
            key: 8, slot: 16, ..
        } = format
        {
            return self.look_at_pairs(key, search, format, read);
        }
        let chunk = read.bytes(0, 0..search.slots as usize * format.slot);
        match self.scan_inline(key, format, chunk, 0) {
            InlineLook::Match(at) => {
                let bytes = at + format.key..at + format.slot;
                return NextStep::Found(ValueLocation::Bytes { piece: 0, bytes });
            }
            InlineLook::End => return NextStep::Absent,
            InlineLook::GoOn => search.distance += search.slots,
        }
        self.read_on(key, search)
    }

    /// The same where keys and values are words, which need no copy.
    #[inline(always)]
    fn look_at_pairs(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        format: InlineFormat,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        let (wanted, words) = (format.word_of_key(key.bytes), read.words(0));
        let mut last = 0;
        for slot in 0..search.slots as usize {
            last = words(2 * slot);
            if last == wanted {
                return match last {
                    0 => NextStep::Absent,
                    _ => NextStep::Found(ValueLocation::Word {
                        word: words(2 * slot + 1),
                        len: 8,
                    }),
                };
            }
            if last == 0 {
                return NextStep::Absent;
            }
        }
        if self.layout.order == SlotOrder::ByHash {
            let last = (last ^ format.mask).to_le_bytes();
            if self.layout.hasher.hash(&last) > key.hash {
                return NextStep::Absent;
            }
        }
        search.distance += search.slots;
        self.read_on(key, search)
    }

    /// Looks through slots that hold their records, from a byte of the chunk on.
    #[inline(always)]
    pub(super) fn scan_inline(
        &self,
        key: &Key<'_>,
        format: InlineFormat,
        chunk: &[u8],
        from: usize,
    ) -> InlineLook {
        let (wanted, rest) = (format.word_of_key(key.bytes), 8.min(format.key));
        for at in (from..chunk.len()).step_by(format.slot) {
            let word = format.word_of_slot(chunk, at);
            if word == 0 {
                return InlineLook::End;
            }
            let is_key = || chunk[at + rest..at + format.key] == key.bytes[rest..];
            if word == wanted && is_key() {
                return InlineLook::Match(at);
            }
        }
        // The last slot's key has the highest hash of all that were read.
        let last = chunk.len() - format.slot;
        let is_behind = self.layout.order == SlotOrder::ByHash
            && self.hash_in(format, &chunk[last..last + format.key]) > key.hash;
        if is_behind {
            InlineLook::End
        } else {
            InlineLook::GoOn
        }
    }

    /// The hash of the key that stands so in its slot.
    fn hash_in(&self, format: InlineFormat, masked: &[u8]) -> u64 {
        let (mut short, mut long) = ([0; SHORT_KEY], Vec::new());
        let key = match short.get_mut(..masked.len()) {
            Some(short) => short,
            None => {
                long.resize(masked.len(), 0);
                &mut long[..]
            }
        };
        key.copy_from_slice(masked);
        format.mask_key(key);
        self.layout.hasher.hash(key)
    }

    /// Looks at slots that say where their records are.
    #[inline]
    fn look_at_references(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        let format = self.layout.out_format();
        let chunk = read.bytes(0, 0..search.slots as usize * format.bytes());
        search.candidates.clear();
        let slots = (0..chunk.len()).step_by(format.bytes());
        for (at, distance) in slots.zip(search.distance..) {
            match format.look(chunk, at, distance, key.signature) {
                ReferenceLook::Other => {}
                ReferenceLook::Candidate(reference) => search.candidates.push(reference),
                ReferenceLook::End => {
                    search.is_end = true;
                    break;
                }
            }
        }
        search.distance += search.slots;
        search.first = 0;
        search.count = 0;
        self.read_records(key, search)
    }

    /// Has the next candidates read: side by side, but not thousands for one record.
    #[inline]
    pub(super) fn read_records(
        &self,
        key: &Key<'_>,
        search: &mut Search,
    ) -> NextStep<UnknownBuild> {
        search.first += search.count;
        search.count = (search.candidates.len() - search.first).min(BATCH_WIDTH);
        if search.count == 0 {
            return self.read_on(key, search);
        }
        search.stage = Stage::Records;
        NextStep::Read(Reads::apart(search.count))
    }

    /// What the first READ of a record fetches.
    #[inline]
    pub(super) fn piece_of_record(&self, reference: Reference) -> Piece {
        let len = match (self.layout.record_bytes(), reference.span) {
            (Some(bytes), _) => bytes,
            (None, 0) => FIRST_READ,
            (None, span) => usize::from(span) * UNIT,
        };
        Piece {
            from: self.layout.unit_at(self.table, reference.offset - 1),
            len,
        }
    }

    /// Looks at the records of candidates.
    #[inline]
    pub(super) fn look_at_records(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        let mut damaged = None;
        for piece in 0..search.count {
            let reference = search.candidates[search.first + piece];
            let record = read.bytes(piece, 0..self.piece_of_record(reference).len);
            match self.judge(key, record, reference) {
                Ok(RecordMatch::OtherKey) => {}
                Ok(RecordMatch::Value(bytes)) => {
                    return NextStep::Found(ValueLocation::Bytes { piece, bytes });
                }
                Ok(RecordMatch::Longer(bytes)) => {
                    search.begun.clear();
                    search.begun.extend_from_slice(record);
                    search.bytes = bytes;
                    search.first += piece;
                    search.count -= piece;
                    search.stage = Stage::Rest;
                    return NextStep::Read(Reads::ONE);
                }
                // What is found is right, whatever has become of the others.
                Err(error) => damaged = Some(error),
            }
        }
        match damaged {
            Some(error) => failed(error),
            None => self.read_records(key, search),
        }
    }

    /// Looks at a record that is longer than what was read of it first.
    #[cold]
    pub(super) fn look_at_rest(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<UnknownBuild> {
        let rest = read.bytes(0, 0..search.bytes - search.begun.len());
        search.begun.extend_from_slice(rest);
        let reference = search.candidates[search.first];
        match self.judge(key, &search.begun, reference) {
            Ok(RecordMatch::Value(bytes)) => NextStep::Found(ValueLocation::Value(Box::new(
                Value::from(&search.begun[bytes]),
            ))),
            Ok(RecordMatch::OtherKey | RecordMatch::Longer(_)) => {
                // Those behind it are read again: of what was read beside it nothing was kept.
                search.count = 1;
                self.read_records(key, search)
            }
            Err(error) => failed(error),
        }
    }

    /// Whose record this is, or begins to be.
    #[inline]
    fn judge(&self, key: &Key<'_>, record: &[u8], reference: Reference) -> Result<RecordMatch> {
        let of_key = key.bytes.len();
        if self.layout.record_bytes().is_some() {
            let is_key = record[..of_key] == *key.bytes;
            let value = of_key..record.len();
            return Ok(if is_key {
                RecordMatch::Value(value)
            } else {
                RecordMatch::OtherKey
            });
        }
        let parts = self.parts(record, reference.offset - 1)?;
        // As much of the key as is here: the rest of another's record need not be read.
        let here = parts.key.end.min(record.len()).max(parts.key.start);
        let begins_so = parts.key.len() == of_key
            && record[parts.key.start..here] == key.bytes[..here - parts.key.start];
        Ok(match begins_so {
            false => RecordMatch::OtherKey,
            true if parts.bytes() > record.len() => RecordMatch::Longer(parts.bytes()),
            true => RecordMatch::Value(parts.value),
        })
    }
}
