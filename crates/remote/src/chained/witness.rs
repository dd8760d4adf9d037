//! What was seen of a key, and the word that proves later that it still is so.

use super::item::VersionedValue;
use crate::Lock;

/// A word of the table which changes with what was seen (paper 003, section 5.4: validation by
/// READs).
///
/// Of a key that is there, or is absent and locked, it is the check of its slot: over lock,
/// version, and value. Of an absent key it is the stamp of its bucket, which other keys of the
/// bucket change as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Witness {
    /// Where the word lies in its region.
    pub at: u64,
    /// The word.
    pub word: u64,
    /// Keys removed from an absent key's bucket, modulo 2^24. While neither this nor `at` changes,
    /// a key that is absent twice was absent in between.
    pub removals: u32,
}

/// What a key had at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The key's item; nothing if it was absent.
    pub item: Option<VersionedValue>,
    /// Who held the key, present or absent.
    pub lock: Option<Lock>,
    /// What shows whether it changed since.
    pub witness: Witness,
}
