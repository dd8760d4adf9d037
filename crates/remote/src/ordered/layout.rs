//! Where everything lies.

use crate::RemoteError;
use crate::sum::words_of;
use std::ops::Range;

/// The words of the header.
pub(super) const ROOT: u64 = 0;
pub(super) const USED: u64 = 8;
pub(super) const PAIRS: u64 = 16;
/// Nodes that are promised to those who hold leaves.
pub(super) const PROMISED: u64 = 24;
const HEADER: u64 = 64;
/// Of a node's words, which name the node behind it and who holds it.
pub(super) const NEXT: u64 = 16;
pub(super) const LOCK: u64 = 24;
/// Words of a node before its low key.
pub(super) const NODE_HEAD: usize = 5;
/// No node has more entries.
const MOST_ENTRIES: u16 = 1024;

/// How an ordered map is laid out. Owner and clients must have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeShape {
    /// The map's first byte in its region, a multiple of 8.
    pub at: u64,
    /// Most bytes of a key.
    pub key_bytes: u16,
    /// Most bytes of a value.
    pub value_bytes: u16,
    /// Pairs of a leaf, from 2 on: what a READ of one key moves.
    pub leaf_pairs: u16,
    /// Children of an inner node, from 4 on.
    pub children: u16,
    /// Most nodes.
    pub nodes: u32,
}

impl TreeShape {
    /// Checks that a map can be laid out so.
    ///
    /// # Errors
    /// [`RemoteError::BadShape`].
    pub fn check(&self) -> Result<(), RemoteError> {
        let bad = |subject, value: u64, limit| {
            Err(RemoteError::BadShape {
                subject,
                value,
                limit,
            })
        };
        if !self.at.is_multiple_of(8) || self.at > 1 << 60 {
            return bad("the map's place", self.at, "a multiple of 8");
        }
        if !(2..=MOST_ENTRIES).contains(&self.leaf_pairs) {
            let pairs = self.leaf_pairs.into();
            return bad("the pairs of a leaf", pairs, "from 2 to 1024");
        }
        if !(4..=MOST_ENTRIES).contains(&self.children) {
            let children = self.children.into();
            return bad("the children of a node", children, "from 4 to 1024");
        }
        if self.nodes == 0 {
            return bad("the nodes", 0, "1 or more");
        }
        Ok(())
    }

    /// Bytes of the whole map.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        HEADER + u64::from(self.nodes) * self.node_bytes() as u64
    }

    /// What of a map's bytes may have been written, counted from its first: by its first two
    /// words.
    #[must_use]
    pub fn written(&self, [_, used]: [u64; 2]) -> Vec<Range<u64>> {
        let used = used.min(self.nodes.into());
        std::iter::once(0..HEADER + used * self.node_bytes() as u64).collect()
    }

    /// Bytes of a leaf.
    #[must_use]
    pub fn leaf_bytes(&self) -> usize {
        self.leaf_words() * 8
    }

    /// Words of a key and its length.
    pub(super) fn key_words(&self) -> usize {
        1 + words_of(self.key_bytes.into())
    }

    /// Words of a value and its length.
    pub(super) fn value_words(&self) -> usize {
        1 + words_of(self.value_bytes.into())
    }

    /// Words of a leaf.
    pub(super) fn leaf_words(&self) -> usize {
        let pair = self.key_words() + self.value_words();
        NODE_HEAD + 2 * self.key_words() + usize::from(self.leaf_pairs) * pair
    }

    /// Words of a inner node that are used.
    pub(super) fn inner_words(&self) -> usize {
        let child = self.key_words() + 1;
        NODE_HEAD + 2 * self.key_words() + usize::from(self.children) * child
    }

    pub(super) fn words_at(&self, level: u16) -> usize {
        if level == 0 {
            self.leaf_words()
        } else {
            self.inner_words()
        }
    }

    fn node_bytes(&self) -> usize {
        self.leaf_words().max(self.inner_words()) * 8
    }

    /// The place of a node; they are numbered from 1 on.
    pub(super) fn node_at(&self, node: u64) -> Option<u64> {
        if node == 0 || node > self.nodes.into() {
            return None;
        }
        Some(self.at + HEADER + (node - 1) * self.node_bytes() as u64)
    }

    pub(super) fn header(&self, field: u64) -> u64 {
        self.at + field
    }
}
