//! The numbers of slots.

/// The most slots of a bucket.
pub const MOST_BUCKET_SLOTS: u32 = 16;

/// A slot of the vault: its bucket's number times the slots of a bucket, and its place in the
/// bucket. Those of the stash count from [`SlotNumber::STASH`], whatever the table's size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SlotNumber(pub u64);

impl SlotNumber {
    /// The first slot of the stash.
    pub const STASH: Self = Self(1 << 48);
    /// The first slot of the journal, which is of no index.
    pub const JOURNAL: Self = Self(1 << 49);

    /// Whether it is one of the journal.
    #[inline]
    #[must_use]
    pub const fn is_journal(self) -> bool {
        self.0 >= Self::JOURNAL.0
    }

    /// Which slot of the stash it is, if it is none of the arrays; meaningless of the journal's.
    #[inline]
    #[must_use]
    pub const fn in_stash(self) -> Option<u64> {
        self.0.checked_sub(Self::STASH.0)
    }
}
