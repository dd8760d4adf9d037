//! The usual case of an operation, where the memory is mapped: a look at it, without any state
//! between two steps.
//!
//! Nearly all operations of a kind take the same steps. A [`FastPath`] is these steps, made ready
//! once for many keys, or for one: what cannot change between two of them was looked at before.
//! Whatever a fast path does not decide goes in steps, from the beginning. It asks for the same
//! READs as the steps do, and they are counted alike.

use super::scratch::Mapped;
use farslot_fabric::{InPlace, Steps};

/// A table's usual steps.
pub(crate) trait FastPath<Asked> {
    /// Whether it books what it decides itself, each as it is.
    const BOOKS: bool = false;

    /// What is known of a key before it has a place.
    type Prepared: Copy + Default;

    /// What is known of it while that is fetched which its last READ begins with.
    type Place: Copy;

    /// Hashes a key, and has fetched what [`FastPath::place`] will look at.
    fn prepare(&self, asked: Asked, view: &InPlace<'_>) -> Self::Prepared;

    /// Finds where the key's last READ begins; nothing of keys that are to be looked up in steps.
    fn place(
        &self,
        asked: Asked,
        prepared: Self::Prepared,
        view: &InPlace<'_>,
    ) -> Option<Self::Place>;

    /// Has fetched what a look begins with, and does nothing else: fetches that stand close
    /// together wait less for each other.
    fn fetch(&self, place: &Self::Place, view: &InPlace<'_>);

    /// Looks at what is there. Where the answer lies behind it, that may be fetched first.
    #[inline(always)]
    fn look(&self, _place: &Self::Place, _view: &InPlace<'_>) -> FastPathResult {
        FastPathResult::Undecided
    }

    /// The same where records are copied and written.
    #[inline(always)]
    fn look_in(&self, place: &Self::Place, read: &mut Mapped<'_>) -> FastPathResult {
        self.look(place, &read.view)
    }

    /// Looks at what [`FastPath::look`] has had fetched.
    #[inline(always)]
    fn look_on(&self, _place: &Self::Place, _view: &InPlace<'_>) -> FastPathResult {
        FastPathResult::Undecided
    }

    /// The READs of a lookup that takes the usual steps.
    #[inline]
    fn usual(&self) -> Steps {
        Steps::default()
    }

    /// Bytes of each READ besides the usual ones, where some may take such.
    #[inline]
    fn more_bytes(&self) -> u64 {
        0
    }

    /// Bytes of a value that is a word, at most 8.
    #[inline]
    fn value_len(&self) -> usize {
        0
    }

    /// Is told that all keys were looked at.
    #[inline]
    fn ended(&self) {}
}

/// What a fast path has come to.
pub(crate) enum FastPathResult {
    /// The key is absent: after the usual steps, and so many READs more.
    Absent(u32),
    /// The key is absent, and nothing was read.
    AbsentUnread,
    /// Its value, after so many.
    Found(u64, u32),
    /// Its value, [kept](Mapped::keep).
    Kept(u64),
    /// A write is done, or needs none, after these: nothing, if the key was absent.
    Written(Option<u64>, More),
    /// [`FastPath::look_on`] goes on, once more has been fetched.
    Fetching,
    /// The key is to be looked up, or written, in steps.
    Undecided,
}

/// Steps besides the usual ones.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct More {
    pub(crate) reads: u32,
    /// Compare-and-swaps, each a round trip of its own.
    pub(crate) swaps: u32,
}

/// The fast path of a table that has none.
pub(crate) struct NoFastPath;

impl<Asked> FastPath<Asked> for NoFastPath {
    type Prepared = ();
    type Place = ();

    fn prepare(&self, _asked: Asked, _view: &InPlace<'_>) {}

    fn place(&self, _asked: Asked, (): (), _view: &InPlace<'_>) -> Option<()> {
        None
    }

    fn fetch(&self, (): &(), _view: &InPlace<'_>) {}
}

/// How many slots of so many bytes, from the one at this byte on, lie up to the end of the cache
/// line that has the one behind it: what is fetched first where most keys are at their home or
/// close to it.
#[inline(always)]
pub(crate) const fn slots_near<const SLOT: u64>(start: u64) -> u64 {
    const LINE: u64 = 64;
    let next = start + SLOT;
    1 + (LINE - next % LINE).div_ceil(SLOT)
}
