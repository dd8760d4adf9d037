//! A leaf as clients and transactions see it.

use super::node::{Node, NodeEntries};
use crate::Lock;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A word of the map, and where it lies in its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeafWord {
    pub(super) at: u64,
    pub(super) word: u64,
}

/// A leaf as it was at one moment: what all keys of a range have, and that no others are there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// No key of its range is below this.
    pub low: Vec<u8>,
    /// All keys of its range are below this; none of the last leaf.
    pub high: Option<Vec<u8>>,
    /// The keys that are there and their values, in order.
    pub pairs: Vec<Pair>,
    /// Grows with each change; 0 of a map without leaves.
    pub version: u64,
    /// Who holds the whole range.
    pub lock: Option<Lock>,
    /// Where a word lies that changes with any of these.
    pub at: u64,
    /// That word.
    pub word: u64,
}

impl Leaf {
    /// Whether a key lies in its range.
    #[must_use]
    pub fn covers(&self, key: &[u8]) -> bool {
        *self.low <= *key && self.high.as_ref().is_none_or(|high| *key < **high)
    }

    /// What a key of its range has.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let found = self.pairs.binary_search_by(|(other, _)| (**other).cmp(key));
        found.ok().map(|at| &*self.pairs[at].1)
    }

    /// What stands for the leaves of a map that has none.
    pub(super) fn none(root: u64) -> Self {
        Self {
            low: Vec::new(),
            high: None,
            pairs: Vec::new(),
            version: 0,
            lock: None,
            at: root,
            word: 0,
        }
    }
}

impl Node {
    /// The node as a leaf, if it is one, whose check is this word.
    pub(super) fn seen(self, check: LeafWord) -> Option<Leaf> {
        let NodeEntries::Leaf(pairs) = self.entries else {
            return None;
        };
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| (key.into_vec(), value.into_vec()));
        Some(Leaf {
            low: self.low.into_vec(),
            high: self.high.map(<[u8]>::into_vec),
            pairs: pairs.collect(),
            version: self.version,
            lock: Lock::of_word(self.lock),
            at: check.at,
            word: check.word,
        })
    }
}
