//! A lookup in steps, as a scheme says it.

use crate::{IndexError, Result, Value};
use farslot_fabric::{Endpoint, InPlace, Piece, RemoteAddr, Rights};
use std::ops::Range;

/// The most pieces that one step may want to have read.
pub(crate) const MOST_PIECES: usize = 32;

/// A scheme's lookup of one key, in steps.
pub(crate) trait Lookup {
    /// What its asides use.
    type Endpoint: Endpoint;
    /// A key that was checked and hashed.
    type Key<'k>;
    /// How far a lookup has come.
    type Search: Default;
    /// What it cannot do by READs.
    type Aside;

    fn endpoint(&self) -> &Self::Endpoint;

    /// The memory that the table is in, where that is mapped ([`view`]). Slots and records are
    /// elsewhere only where a table has grown out of it.
    fn in_place(&self) -> Option<InPlace<'_>>;

    /// Checks and hashes a key.
    fn key<'k>(&self, bytes: &'k [u8]) -> Result<Self::Key<'k>>;

    /// Has this client's own memory fetched that [`Lookup::begin`] will look at.
    #[inline(always)]
    fn prepare(&self, _key: &Self::Key<'_>, _search: &mut Self::Search) {}

    /// Begins a lookup, for which [`Lookup::prepare`] was called. The search may be one that was
    /// used.
    fn begin(&self, key: &Self::Key<'_>, search: &mut Self::Search) -> Next<Self::Aside>;

    /// A piece that is to be read, by its number, counted from 0.
    fn piece(&self, key: &Self::Key<'_>, search: &Self::Search, number: usize) -> Piece;

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
        read: &mut impl Read,
    ) -> Next<Self::Aside>;

    /// What to do instead of a READ that gathers more than the endpoint can.
    fn gather_less(
        &self,
        _key: &Self::Key<'_>,
        _search: &mut Self::Search,
    ) -> Option<Next<Self::Aside>> {
        None
    }

    /// Does what READs alone cannot.
    async fn aside(
        &self,
        key: &Self::Key<'_>,
        search: &mut Self::Search,
        aside: Self::Aside,
    ) -> Result<Next<Self::Aside>>;

    /// Called while READs are under way: time for housekeeping.
    #[inline]
    fn while_waiting(&self) {}
}

/// What a lookup does next.
pub(crate) enum Next<A> {
    /// It wants these read.
    Read(Reads),
    /// The key is there.
    Found(Found),
    /// It is not.
    Absent,
    Failed(Box<IndexError>),
    /// It does something else first.
    Aside(A),
}

/// What is to be read: pieces number 0 to `pieces - 1`, which wait for none of the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    /// At most [`MOST_PIECES`].
    pub(crate) pieces: usize,
    /// By one request, where the fabric gathers.
    pub(crate) gathered: bool,
    /// The lookup is known to end with it: others should be posted before.
    pub(crate) is_last: bool,
}

impl Reads {
    /// One piece.
    pub(crate) const ONE: Self = Self::apart(1);

    /// So many pieces, a READ each.
    #[inline(always)]
    pub(crate) const fn apart(pieces: usize) -> Self {
        Self {
            pieces,
            gathered: false,
            is_last: false,
        }
    }

    /// So many pieces by one request.
    #[inline(always)]
    pub(crate) const fn gathered(pieces: usize) -> Self {
        Self {
            pieces,
            gathered: true,
            is_last: false,
        }
    }
}

/// Where the value is.
pub(crate) enum Found {
    /// The first `len` bytes of a word, little-endian.
    Word { word: u64, len: usize },
    /// These bytes of a piece that was read: of the one that [`Read::bytes`] was asked for last,
    /// and within those.
    Bytes { piece: usize, bytes: Range<usize> },
    /// Here: rarely, so that it takes little room.
    Value(Box<Value>),
}

/// The pieces that were read. Each word is loaded when it is asked for, and should be asked for
/// once.
pub(crate) trait Read {
    /// The words of a piece that starts at a multiple of 8, by their numbers.
    fn words(&self, piece: usize) -> impl Fn(usize) -> u64;

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
}

/// The memory of the table at `place`, where that is mapped, and words are words.
#[inline]
pub(crate) fn view<E: Endpoint>(endpoint: &E, place: RemoteAddr) -> Option<InPlace<'_>> {
    let is_aligned = place.offset.is_multiple_of(8);
    is_aligned.then(|| endpoint.in_place(place, Rights::READ))?
}

/// The error of a lookup that it ends.
#[cold]
pub(crate) fn failed<A>(error: impl Into<IndexError>) -> Next<A> {
    Next::Failed(Box::new(error.into()))
}

pub(super) type Answer = Result<Option<Value>>;
