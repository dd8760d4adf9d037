//! An operation in steps, as a scheme says it.

use super::fast_path::{FastPath, NoFastPath};
use crate::heap::NewRecord;
use crate::{IndexError, Result, Value};
use farslot_fabric::{Buffer, Endpoint, InPlace, Piece, Pieces, RemoteAddr, Rights, Tally};
use std::ops::Range;

/// Bytes of a record that are prefetched: processors go on by themselves behind these.
pub(crate) const LIKELY: usize = 256;

/// A scheme's lookup of one key, or its write of one, in steps.
pub(crate) trait Lookup {
    /// Whether it may [change](NextStep::Change) anything.
    const WRITES: bool = false;
    /// Whether it may look on ([`NextStep::LookOn`]) at what was read before.
    const LOOKS_ON: bool = Self::WRITES;
    /// Whether its changes are other ones than [`Change`]s: it [makes](Lookup::make) them itself.
    const MAKES_CHANGES: bool = false;
    /// Whether it has this client's memory fetched ([`Lookup::prepare`]).
    const PREPARES: bool = false;

    /// What its slow paths use.
    type Endpoint: Endpoint;
    /// What it is asked for: a key, or an operation on one.
    type Asked<'k>: Copy;
    /// That, checked, with the key hashed.
    type Key<'k>;
    /// How far a lookup has come.
    type Search: Default;
    /// What it cannot do by READs and compare-and-swaps.
    type SlowPath;

    fn endpoint(&self) -> &Self::Endpoint;

    /// The memory that the table is in, where that is mapped ([`view`]). Slots and records are
    /// elsewhere only where a table has grown out of it.
    fn in_place(&self) -> Option<InPlace<'_>>;

    /// The first step of so many operations, made ready for all of them, of which this is the
    /// first; nothing where they go in steps only, or have to now. The view is that of
    /// [`Lookup::in_place`].
    #[inline]
    fn fast_path<'k>(
        &self,
        _view: &InPlace<'_>,
        (_first, _count): (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        None::<NoFastPath>
    }

    /// The same where the [slots name records](super::record_path).
    #[inline]
    fn record_path<'k>(
        &self,
        _view: &InPlace<'_>,
        (_first, _count): (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        None::<NoFastPath>
    }

    /// The most operations that may be begun together now, of which this is the first.
    #[inline]
    fn most_at_once(&self, _first: Self::Asked<'_>) -> usize {
        usize::MAX
    }

    /// Is told how many operations a fast path has decided, and how many of them have taken
    /// [`MANY_READS`](crate::client::MANY_READS).
    #[inline]
    fn note_fast_paths(&self, _operations: usize, _with_many_reads: usize) {}

    /// Whether its operations have something to [report](Lookup::report) now and then.
    const REPORTS: bool = Self::WRITES;

    /// Whether they have changed so much that it is worth [telling](Lookup::report) all of it.
    #[inline]
    fn has_to_report(&self) -> bool {
        false
    }

    /// Tells all of what writes have changed. This cannot fail: the writes that are counted are
    /// done, and counts may lag.
    async fn report(&self) {}

    /// Does so once that is worth it.
    #[inline]
    async fn report_if_due(&self) {
        if self.has_to_report() {
            // Boxed, for it is rare: every write would be as large.
            Box::pin(self.report()).await;
        }
    }

    /// Checks what is asked for, and hashes the key.
    fn key<'k>(&self, asked: Self::Asked<'k>) -> Result<Self::Key<'k>>;

    /// Has this client's own memory fetched that [`Lookup::begin`] will look at.
    #[inline(always)]
    fn prepare(&self, _key: &Self::Key<'_>, _search: &mut Self::Search) {}

    /// Begins a lookup, for which [`Lookup::prepare`] was called. The search may be one that was
    /// used.
    fn begin(&self, key: &Self::Key<'_>, search: &mut Self::Search) -> NextStep<Self::SlowPath>;

    /// A piece that is to be read, by its number, counted from 0.
    fn piece(&self, key: &Self::Key<'_>, search: &Self::Search, number: usize) -> Piece;

    /// What is to be on its way before what was asked for [ahead](Reads::ahead) of it is looked at:
    /// nothing where it will hardly be needed.
    fn pieces_ahead(&self, _key: &Self::Key<'_>, _search: &mut Self::Search) -> Pieces {
        Pieces::new()
    }

    /// How many bytes of a piece of this length a lookup mostly looks at: what the processor should
    /// fetch.
    #[inline(always)]
    fn likely_bytes(&self, _search: &Self::Search, len: usize) -> usize {
        len
    }

    /// Looks at what was read.
    fn look(
        &self,
        key: &Self::Key<'_>,
        search: &mut Self::Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<Self::SlowPath>;

    /// The change that is wanted. It may be asked for more than once, until it is made.
    fn change<'k>(&self, _key: &Self::Key<'k>, _search: &Self::Search) -> Change<'k> {
        unreachable!("a lookup changes nothing")
    }

    /// Makes a change of its own in mapped memory: the verbs that it stands for, and their bytes.
    /// Nothing where what it reaches is not in the mapping, and then nothing is changed.
    fn make(
        &self,
        _search: &mut Self::Search,
        _view: InPlace<'_>,
        _tally: &mut Tally,
    ) -> Option<(u32, u64)> {
        unreachable!("it wants a record and a word changed")
    }

    /// Makes it by verbs, with which READs of these pieces leave: what was read.
    async fn post(&self, _search: &mut Self::Search, _pieces: Pieces) -> Result<Vec<Buffer>> {
        unreachable!("it wants a record and a word changed")
    }

    /// Looks at what came of that change: at what the word had that was to be swapped (what was
    /// expected, if it was), and at the words that were read behind it.
    fn changed(
        &self,
        _key: &Self::Key<'_>,
        _search: &mut Self::Search,
        _seen: u64,
        _read: &mut impl ReadPieces,
    ) -> NextStep<Self::SlowPath> {
        unreachable!("a lookup changes nothing")
    }

    /// What to have read where [`NextStep::LookOn`] finds that what was read is not kept.
    fn read_on(
        &self,
        _key: &Self::Key<'_>,
        _search: &mut Self::Search,
    ) -> NextStep<Self::SlowPath> {
        unreachable!("a lookup looks at all that was read")
    }

    /// What to do instead of a READ that gathers more than the endpoint can.
    fn gather_less(
        &self,
        _key: &Self::Key<'_>,
        _search: &mut Self::Search,
    ) -> Option<NextStep<Self::SlowPath>> {
        None
    }

    /// Does what READs alone cannot.
    async fn slow_path(
        &self,
        key: &Self::Key<'_>,
        search: &mut Self::Search,
        slow: Self::SlowPath,
    ) -> Result<NextStep<Self::SlowPath>>;

    /// Ends an operation that has failed: puts right what it has begun, as far as that can be.
    async fn give_up(&self, _key: &Self::Key<'_>, _search: &mut Self::Search, _: &IndexError) {}

    /// Called while READs are under way, or behind them where that takes no time: time for
    /// housekeeping.
    #[inline]
    fn while_waiting(&self) {}
}

/// What a lookup does next.
pub(crate) enum NextStep<A> {
    /// It wants these read.
    Read(Reads),
    /// It wants something changed, as [`Lookup::change`] says, and these read behind that: all of
    /// it takes one round trip.
    Change(Reads),
    /// It looks at what was read last, or was [kept](Reads::keeps), once more.
    LookOn,
    /// The key is there.
    Found(ValueLocation),
    /// It is not.
    Absent,
    Failed(Box<IndexError>),
    /// It does something else first.
    SlowPath(A),
}

impl<A> NextStep<A> {
    /// Ends a write; whether the key was there is its answer.
    #[inline(always)]
    pub(crate) const fn was_there(was_there: bool) -> Self {
        match was_there {
            true => Self::Found(ValueLocation::Word { word: 0, len: 0 }),
            false => Self::Absent,
        }
    }

    /// The same of a table that names its slow paths otherwise.
    #[inline(always)]
    pub(crate) fn map_slow_path<B>(self, slow: impl FnOnce(A) -> B) -> NextStep<B> {
        match self {
            Self::Read(reads) => NextStep::Read(reads),
            Self::Change(reads) => NextStep::Change(reads),
            Self::LookOn => NextStep::LookOn,
            Self::Found(found) => NextStep::Found(found),
            Self::Absent => NextStep::Absent,
            Self::Failed(error) => NextStep::Failed(error),
            Self::SlowPath(of) => NextStep::SlowPath(slow(of)),
        }
    }
}

/// What is to be read: pieces number 0 to `pieces - 1`, which wait for none of the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    /// At most [`MOST_PIECES`](super::MOST_PIECES).
    pub(crate) pieces: usize,
    /// By one request, where the fabric gathers.
    pub(crate) gathered: bool,
    /// The lookup is known to end with it: others should be posted before.
    pub(crate) is_last: bool,
    /// What was read before is kept: that is looked at where the lookup
    /// [looks on](NextStep::LookOn).
    pub(crate) keeps: bool,
    /// What will be read next is [known](Lookup::pieces_ahead), and is asked for at once.
    pub(crate) ahead: bool,
    /// How they are booked where the memory is mapped.
    pub(crate) counted: Counted,
}

/// How what is looked at in mapped memory is booked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    /// As READs, and a round trip.
    Apart,
    /// As READs that have left with those before.
    WithLast,
    /// Not at all: it is fetched, to be looked at or changed next.
    Fetched,
}

impl Reads {
    /// Nothing.
    pub(crate) const NONE: Self = Self::apart(0);

    /// One piece.
    pub(crate) const ONE: Self = Self::apart(1);

    /// One piece, beside what was read before.
    pub(crate) const ONE_MORE: Self = Self {
        keeps: true,
        ..Self::ONE
    };

    /// So many pieces, a READ each.
    #[inline(always)]
    pub(crate) const fn apart(pieces: usize) -> Self {
        Self {
            pieces,
            gathered: false,
            is_last: false,
            keeps: false,
            ahead: false,
            counted: Counted::Apart,
        }
    }

    /// So many pieces of mapped memory that are looked at, or changed, next.
    #[inline(always)]
    pub(crate) const fn fetched(pieces: usize) -> Self {
        Self {
            counted: Counted::Fetched,
            ..Self::apart(pieces)
        }
    }

    /// So many pieces by one request.
    #[inline(always)]
    pub(crate) const fn gathered(pieces: usize) -> Self {
        Self {
            pieces,
            gathered: true,
            ..Self::apart(pieces)
        }
    }
}

/// What is to be changed, in this order.
pub(crate) struct Change<'k> {
    pub(crate) record: Option<NewRecord<'k>>,
    pub(crate) swap: Option<Swap>,
}

/// One compare-and-swap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swap {
    /// The word, at a multiple of 8.
    pub(crate) at: RemoteAddr,
    pub(crate) expected: u64,
    pub(crate) new: u64,
}

/// Where the value is.
pub(crate) enum ValueLocation {
    /// The first `len` bytes of a word, little-endian.
    Word { word: u64, len: usize },
    /// These bytes of a piece that was read: of the one that [`ReadPieces::bytes`] was asked for
    /// last, and within those.
    Bytes { piece: usize, bytes: Range<usize> },
    /// Here: rarely, so that it takes little room.
    Value(Box<Value>),
}

/// The pieces that were read. Each word is loaded when it is asked for, and should be asked for
/// once.
pub(crate) trait ReadPieces {
    /// Whether that is from the table's memory, and not from a copy of it.
    const IS_LIVE: bool = false;

    /// The words of a piece that starts at a multiple of 8, by their numbers.
    fn words(&self, piece: usize) -> impl Fn(usize) -> u64;

    /// So many of them, from the first on, each given to `each` once.
    #[inline(always)]
    fn each_word(&self, piece: usize, count: usize, each: impl FnMut(u64)) {
        (0..count).map(self.words(piece)).for_each(each);
    }

    /// One of them.
    #[inline(always)]
    fn word(&self, piece: usize, number: usize) -> u64 {
        self.words(piece)(number)
    }

    /// Some bytes of a piece, which starts anywhere.
    ///
    /// # Panics
    /// Outside of the piece.
    fn bytes(&mut self, piece: usize, bytes: Range<usize>) -> &[u8];

    /// Some of the bytes that were asked for last.
    ///
    /// # Panics
    /// Outside of those.
    fn bytes_again(&self, piece: usize, bytes: Range<usize>) -> &[u8];

    /// Whether the value that was found is this.
    fn is_value(&self, found: &ValueLocation, value: &[u8]) -> bool {
        match found {
            ValueLocation::Word { word, len } => word.to_le_bytes()[..*len] == *value,
            ValueLocation::Bytes { piece, bytes } => {
                *self.bytes_again(*piece, bytes.clone()) == *value
            }
            ValueLocation::Value(found) => ***found == *value,
        }
    }

    /// Whether a piece has these bytes from a byte on, which is a multiple of 8.
    ///
    /// # Panics
    /// Outside of the piece.
    fn has_bytes(&mut self, piece: usize, at: usize, bytes: &[u8]) -> bool {
        self.bytes(piece, at..at + bytes.len()) == bytes
    }
}

/// The memory of the table at `place`, where that is mapped and may be read, and words are words.
#[inline]
pub(crate) fn view<E: Endpoint>(endpoint: &E, place: RemoteAddr) -> Option<InPlace<'_>> {
    view_for(endpoint, place, Rights::READ)
}

/// The same, where these rights are granted.
#[inline]
pub(crate) fn view_for<E: Endpoint>(
    endpoint: &E,
    place: RemoteAddr,
    needed: Rights,
) -> Option<InPlace<'_>> {
    let is_aligned = place.offset.is_multiple_of(8);
    is_aligned.then(|| endpoint.in_place(place, needed))?
}

/// The same, where it may be changed.
#[inline]
pub(crate) fn view_to_write<E: Endpoint>(endpoint: &E, place: RemoteAddr) -> Option<InPlace<'_>> {
    let needed = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
    view_for(endpoint, place, needed)
}

/// The error of a lookup that it ends.
#[cold]
pub(crate) fn failed<A>(error: impl Into<IndexError>) -> NextStep<A> {
    NextStep::Failed(Box::new(error.into()))
}

pub(super) use crate::answers::Got as Answer;
