//! The map as a remote data structure: its three callbacks.
//!
//! ```text
//! request  | operation, 8 bits | 0, 8 | key length, 16 | key | value |
//! reply    | words of the leaf | words of the node above it |     of a lookup
//!          | 1 if the key was there |                            of all else
//! ```
//! The reply to a lookup has no words of a map that has no node yet, and none of the node above
//! where the leaf is the root. In front of each node's words stands its number.

use super::layout::{ROOT, TreeShape};
use super::leaf::{Leaf, LeafWord};
use super::node::{Key, Node, NodeEntries};
use super::owner::{Owner, Write};
use crate::error::RefusalReason;
use crate::{Found, LookupVerdict, RemoteError, RemoteStructure, Start};
use farslot_fabric::OwnerMemory;
use farslot_rpc::{Fault, put};
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

/// A map's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    shape: TreeShape,
}

/// What a client remembers: the places of leaves, by their low keys.
#[derive(Debug)]
pub struct LeafDirectory {
    leaves: BTreeMap<Key, u64>,
    most: usize,
    /// The leaf behind the one that was visited last, and the low key that it must have.
    behind: Option<(u64, Key)>,
}

impl LeafDirectory {
    /// A directory of so many leaves at most. One that has as many learns no more.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            leaves: BTreeMap::new(),
            most,
            behind: None,
        }
    }

    /// How many leaves are remembered.
    #[must_use]
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    pub(super) fn leaf(&self, key: &[u8]) -> Option<u64> {
        let below = self.leaves.range::<[u8], _>((Unbounded, Included(key)));
        below.last().map(|(_, leaf)| *leaf)
    }

    /// Whether a leaf may be what is visited next, by its number if it has one. Each begins where
    /// the one before it ends: so no forged leaf leads a visit back to where it has been.
    pub(super) fn goes_on(&mut self, number: Option<u64>, leaf: &Node) -> bool {
        let before = self.behind.take();
        let before = before.filter(|(behind, _)| Some(*behind) == number);
        let follows = before.is_none_or(|(_, low)| low == leaf.low);
        self.behind = leaf.high.clone().map(|high| (leaf.next, high));
        follows
            && match &leaf.high {
                Some(high) => leaf.next != 0 && leaf.low < *high,
                None => leaf.next == 0,
            }
    }

    fn learn(&mut self, low: Key, leaf: u64) {
        if self.leaves.len() < self.most || self.leaves.contains_key(&low) {
            self.leaves.insert(low, leaf);
        }
    }
}

pub(super) const GET: u8 = 0;
pub(super) const PUT: u8 = 1;
pub(super) const INSERT: u8 = 2;
pub(super) const UPDATE: u8 = 3;
pub(super) const REMOVE: u8 = 4;

/// Bytes of a request before its key.
const HEAD: usize = 4;

impl Tree {
    /// The map of a shape.
    ///
    /// # Errors
    /// [`RemoteError::BadShape`].
    pub fn new(shape: TreeShape) -> Result<Self, RemoteError> {
        shape.check()?;
        Ok(Self { shape })
    }

    /// How it is laid out.
    #[must_use]
    pub fn shape(&self) -> &TreeShape {
        &self.shape
    }

    /// Whether a request changes nothing.
    #[must_use]
    pub fn is_lookup(request: &[u8]) -> bool {
        request.first() == Some(&GET)
    }

    pub(super) fn request(operation: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
        let len = (key.len() as u16).to_le_bytes();
        let head = [operation, 0, len[0], len[1]];
        [&head, key, value].concat()
    }

    /// The words of leaf number `leaf`, as a READ has found them.
    pub(super) fn read_leaf(
        &self,
        leaf: u64,
        words: &[u64],
        cache: &mut LeafDirectory,
    ) -> Option<(Node, LeafWord)> {
        let at = self.shape.node_at(leaf)?;
        let node = Node::decode(&self.shape, at, words)?;
        let check = LeafWord {
            at,
            word: *words.first()?,
        };
        cache.learn(node.low.clone(), leaf);
        // Where a leaf was cut, its other half is known by its low key.
        if let Some(high) = node.high.clone().filter(|_| node.next != 0) {
            cache.learn(high, node.next);
        }
        Some((node, check))
    }

    /// The leaf of a reply to a lookup; what stands above it is remembered. Nothing of a map
    /// without nodes.
    pub(super) fn read_reply(
        &self,
        reply: &[u8],
        cache: &mut LeafDirectory,
    ) -> Option<Option<(Node, LeafWord)>> {
        let (chunks, rest) = reply.as_chunks::<8>();
        let words: Vec<_> = chunks
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        let Some((leaf, words)) = words.split_first() else {
            return rest.is_empty().then_some(None);
        };
        let (leaf_words, above) = words.split_at_checked(self.shape.leaf_words())?;
        if let Some((number, above)) = above.split_first() {
            let above = Node::decode(&self.shape, self.shape.node_at(*number)?, above)?;
            if let NodeEntries::Inner(1, children) = above.entries {
                children
                    .into_iter()
                    .for_each(|(low, child)| cache.learn(low, child));
            }
        }
        self.read_leaf(*leaf, leaf_words, cache).map(Some)
    }

    /// What stands for the leaves of a map that has none: the word that says so.
    pub(super) fn no_leaf(&self) -> Leaf {
        Leaf::none(self.shape.header(ROOT))
    }

    fn lookup(
        &self,
        key: &[u8],
        memory: &mut dyn OwnerMemory,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        let shape = &self.shape;
        let way = Owner { shape, memory }.way_to(key, false)?;
        let mut words = Vec::new();
        for (number, node) in way.iter().rev().take(2) {
            let at = shape.node_at(*number).ok_or(Fault::Damaged)?;
            words.push(*number);
            words.extend(node.encode(shape, at));
        }
        put(reply, bytemuck::cast_slice(&words))
    }

    fn count(
        &self,
        operation: u8,
        key: &[u8],
        value: &[u8],
        memory: &mut dyn OwnerMemory,
    ) -> Result<u64, Fault> {
        let shape = &self.shape;
        let mut owner = Owner { shape, memory };
        let how = match operation {
            PUT => Write::Put,
            INSERT => Write::Insert,
            UPDATE => Write::Update,
            REMOVE => return owner.remove(key, 0).map(u64::from),
            _ => return Err(RefusalReason::Malformed.into()),
        };
        owner.write(how, key, value, 0).map(u64::from)
    }
}

/// The value of a key in its leaf.
fn find(node: &Node, key: &[u8]) -> LookupVerdict<Vec<u8>> {
    let NodeEntries::Leaf(pairs) = &node.entries else {
        return LookupVerdict::Unknown;
    };
    if !node.covers(key) {
        return LookupVerdict::Unknown;
    }
    match pairs.binary_search_by(|(other, _)| (**other).cmp(key)) {
        Ok(at) => LookupVerdict::Found(pairs[at].1.to_vec()),
        Err(_) => LookupVerdict::Absent,
    }
}

impl RemoteStructure for Tree {
    type Key = [u8];
    type Item = Vec<u8>;
    type Cache = LeafDirectory;

    fn lookup_start(&self, key: &[u8], cache: &mut LeafDirectory) -> Start {
        let leaf = cache.leaf(key).and_then(|leaf| self.shape.node_at(leaf));
        leaf.map_or(Start::Call, |offset| Start::Read {
            offset,
            bytes: self.shape.leaf_words() * 8,
        })
    }

    fn lookup_end(
        &self,
        key: &[u8],
        found: Found<'_>,
        cache: &mut LeafDirectory,
    ) -> LookupVerdict<Vec<u8>> {
        let node = match found {
            Found::Read { words, .. } => {
                let leaf = cache.leaf(key);
                leaf.and_then(|leaf| self.read_leaf(leaf, words, cache))
            }
            Found::Reply(reply) => match self.read_reply(reply, cache) {
                Some(None) => return LookupVerdict::Absent,
                Some(node) => node,
                None => None,
            },
        };
        node.map_or(LookupVerdict::Unknown, |(node, _)| find(&node, key))
    }

    fn lookup_request(&self, key: &[u8]) -> Vec<u8> {
        Self::request(GET, key, &[])
    }

    fn reply_bytes(&self) -> usize {
        (2 + self.shape.leaf_words() + self.shape.inner_words()) * 8
    }

    fn rpc_handler(
        &self,
        request: &[u8],
        memory: &mut dyn OwnerMemory,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        let Some((&[operation, 0, low, high], rest)) = request.split_first_chunk::<HEAD>() else {
            return Err(RefusalReason::Malformed.into());
        };
        let len = usize::from(u16::from_le_bytes([low, high]));
        let (key, value) = rest.split_at_checked(len).ok_or(RefusalReason::Malformed)?;
        let fits =
            len <= self.shape.key_bytes.into() && value.len() <= self.shape.value_bytes.into();
        if !fits {
            return Err(RefusalReason::Malformed.into());
        }
        if reply.len() < self.reply_bytes() {
            return Err(Fault::NoRoom(self.reply_bytes()));
        }
        if operation == GET {
            return self.lookup(key, memory, reply);
        }
        let count = self.count(operation, key, value, memory)?;
        put(reply, &count.to_le_bytes())
    }
}
