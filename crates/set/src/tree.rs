//! State vectors, compressed without loss: trees of pairs, each stored once.
//!
//! A vector of n 32-bit words is the leaves of a binary tree. Each inner node is the pair of what
//! its two children are, a word or another node's index; equal pairs are stored once, in a
//! [`DataSet`], so that vectors share the nodes of their equal parts. The root's pair, two indices,
//! *is* the compressed vector: 62 bits, which one bucket of a [`WordSet`] holds. Where vectors
//! differ from each other in few places, as the states of a search do, the inner nodes are few
//! beside the roots, and a vector of any length costs one bucket and little more (recursive pair
//! compression; Laarman, van de Pol and Weber, SPIN 2011).
//!
//! ```text
//! words:     w0    w1    w2    w3    w4         n = 5
//! node:       5     6     7     8     9         leaves: n .. 2n
//!                              \\_4__/ ... node i is the pair of nodes 2i and 2i + 1
//! ```

use crate::error::check_range;
use crate::{DataSet, DataShape, Outcome, SetError, Spare, WordSet};
use smallvec::{SmallVec, smallvec};

/// Fewest words of a tree: both children of the root are then inner nodes.
const LEAST_WORDS: usize = 4;
/// Most bytes of a vector.
const MOST_BYTES: u64 = 1 << 20;
/// Bits of each half of a root.
const HALF: u32 = 31;
/// A table of more of its buckets in use than this share is crowded: walks become long.
const CROWDED: (u64, u64) = (9, 10);

/// A compressed vector: both halves of its tree's root. It stays good for as long as the vector is
/// in the set, also when the set grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StateId(u64);

impl StateId {
    /// The id as a word of 62 bits.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The id of a word that [`StateId::to_bits`] has given. Of any other word the set says that
    /// there is no such state, or gives a vector that is not in it.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    fn halves(self) -> (u32, u32) {
        let mask = (1 << HALF) - 1;
        ((self.0 & mask) as u32, (self.0 >> HALF & mask) as u32)
    }
}

/// The sizes of a [`TreeSet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateTreeShape {
    /// Bytes of each vector.
    pub state_bytes: usize,
    /// Buckets for roots to begin with: one a vector, and some more.
    pub root_buckets: u64,
    /// Inner nodes to begin with.
    pub nodes: u64,
}

impl StateTreeShape {
    /// A set of vectors of so many bytes that begins small and is to grow.
    #[must_use]
    pub const fn new(state_bytes: usize) -> Self {
        Self {
            state_bytes,
            root_buckets: 1 << 10,
            nodes: 1 << 8,
        }
    }
}

/// What one thread works with: a vector with the nodes of its tree, and space for new nodes. It
/// stays good when the set grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateTree {
    /// Node i's index or word; 0 and 1 are not used.
    values: Box<[u32]>,
    /// Bit i: node i no longer says what its children are.
    stale: Box<[u64]>,
    state_bytes: usize,
}

/// Nodes that are still to be loaded, with what their parents say that they are.
pub(crate) type Loading = SmallVec<[(usize, u32); 24]>;

impl StateTree {
    /// A tree of a vector of zeros.
    pub(crate) fn of_zeros(state_bytes: usize) -> Self {
        let words = state_bytes.div_ceil(4).max(LEAST_WORDS);
        let mut tree = Self {
            values: vec![0; 2 * words].into(),
            stale: vec![0; words.div_ceil(64)].into(),
            state_bytes,
        };
        tree.spoil_all();
        tree
    }

    fn words(&self) -> usize {
        self.values.len() / 2
    }

    /// The vector, as words; past its bytes they are 0.
    #[must_use]
    pub fn state(&self) -> &[u32] {
        &self.values[self.words()..]
    }

    /// The vector.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(self.state())[..self.state_bytes]
    }

    /// Changes one word of the vector.
    ///
    /// # Panics
    /// If the vector has no such word.
    #[inline]
    pub fn set(&mut self, word: usize, value: u32) {
        let leaf = self.words() + word;
        if self.values[leaf] != value {
            self.values[leaf] = value;
            self.spoil(leaf / 2);
        }
    }

    /// Replaces the vector; of the nodes those stay good whose words are the same.
    ///
    /// # Errors
    /// [`SetError::WrongLength`].
    pub fn set_bytes(&mut self, state: &[u8]) -> Result<(), SetError> {
        if state.len() != self.state_bytes {
            return Err(SetError::WrongLength {
                len: state.len(),
                expected: self.state_bytes,
            });
        }
        let (words, rest) = state.as_chunks::<4>();
        for (at, word) in words.iter().enumerate() {
            self.set(at, u32::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            self.set(words.len(), u32::from_le_bytes(last));
        }
        Ok(())
    }

    /// Marks a node and those above it as stale; above one that is they are already.
    #[inline]
    fn spoil(&mut self, mut node: usize) {
        while node > 0 {
            let bit = 1 << (node % 64);
            let word = &mut self.stale[node / 64];
            if *word & bit != 0 {
                return;
            }
            *word |= bit;
            node /= 2;
        }
    }

    /// The last stale inner node, below which none is stale, and the pair that its children are.
    /// The root, which is stored nowhere as a node, is never given.
    #[inline]
    pub(crate) fn stale_pair(&self) -> Option<(usize, u64)> {
        let words = self.stale.iter().enumerate().rev();
        let mut stale = words.filter(|(_, word)| **word != 0);
        let (at, word) = stale.next()?;
        let node = at * 64 + 63 - word.leading_zeros() as usize;
        let (left, right) = (self.values[2 * node], self.values[2 * node + 1]);
        (node > 1).then_some((node, u64::from(left) | u64::from(right) << 32))
    }

    /// Says that a node is stored under this index.
    #[inline]
    pub(crate) fn settle(&mut self, node: usize, index: u32) {
        self.values[node] = index;
        self.freshen(node);
    }

    /// The vector's id, once no node but the root is stale.
    #[inline]
    pub(crate) fn root(&mut self) -> StateId {
        self.freshen(1);
        let (left, right) = (self.values[2], self.values[3]);
        StateId(u64::from(left) | u64::from(right) << HALF)
    }

    /// What is to be loaded first for an id.
    pub(crate) fn start_loading(&mut self, id: StateId) -> Loading {
        let (left, right) = id.halves();
        smallvec![(2, left), (3, right)]
    }

    /// Whether a node's children are to be loaded: a leaf is filled in here, a node that is the
    /// same needs nothing.
    #[inline]
    pub(crate) fn wants(&mut self, node: usize, value: u32) -> bool {
        if node >= self.words() {
            self.values[node] = value;
            return false;
        }
        self.values[node] != value || self.is_stale(node)
    }

    /// Marks all nodes as stale, where loading has stopped half way.
    fn spoil_all(&mut self) {
        (1..self.words()).for_each(|node| self.stale[node / 64] |= 1 << (node % 64));
    }

    /// Takes what a node's children are.
    #[inline]
    pub(crate) fn take(&mut self, node: usize, value: u32, pair: u64, next: &mut Loading) {
        self.settle(node, value);
        next.push((2 * node, pair as u32));
        next.push((2 * node + 1, (pair >> 32) as u32));
    }

    /// Says that all was loaded.
    pub(crate) fn loaded(&mut self) {
        self.freshen(1);
    }

    fn is_stale(&self, node: usize) -> bool {
        self.stale[node / 64] >> (node % 64) & 1 != 0
    }

    fn freshen(&mut self, node: usize) {
        self.stale[node / 64] &= !(1 << (node % 64));
    }
}

/// A set of vectors of one length. Any number of threads may insert at the same time, each with a
/// [`StateTree`] and a [`Spare`] of its own.
///
/// ```
/// use farslot_set::{Spare, TreeSet, StateTreeShape};
///
/// # fn main() -> Result<(), farslot_set::SetError> {
/// let set = TreeSet::new(StateTreeShape::new(100))?;
/// let (mut tree, mut spare) = (set.tree(), Spare::default());
/// let id = set.find_or_put(&mut spare, &mut tree, &[7; 100])?.place().unwrap();
/// let mut state = [0; 100];
/// set.get(id, &mut state)?;
/// assert_eq!(state, [7; 100]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TreeSet {
    state_bytes: usize,
    nodes: DataSet,
    roots: WordSet,
}

impl TreeSet {
    /// An empty set in this process's memory.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`]; [`SetError::Fabric`] beyond what the machine has.
    pub fn new(shape: StateTreeShape) -> Result<Self, SetError> {
        let nodes = DataSet::alone(NODE, buckets_for(shape.nodes), shape.nodes)?;
        Self::over(
            shape.state_bytes,
            nodes,
            WordSet::alone(shape.root_buckets)?,
        )
    }

    fn over(state_bytes: usize, nodes: DataSet, roots: WordSet) -> Result<Self, SetError> {
        check_state_bytes(state_bytes)?;
        Ok(Self {
            state_bytes,
            nodes,
            roots,
        })
    }

    /// A tree for a thread to work with; its vector is all zeros.
    #[must_use]
    pub fn tree(&self) -> StateTree {
        StateTree::of_zeros(self.state_bytes)
    }

    /// Bytes of each vector.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    /// Finds or inserts a vector, by way of a tree that may hold any vector before.
    ///
    /// # Errors
    /// [`SetError::WrongLength`].
    pub fn find_or_put(
        &self,
        spare: &mut Spare,
        tree: &mut StateTree,
        state: &[u8],
    ) -> Result<Outcome<StateId>, SetError> {
        tree.set_bytes(state)?;
        Ok(match self.compress(spare, tree) {
            Some(id) => self.put(id),
            None => Outcome::Full,
        })
    }

    /// The id of the tree's vector, whether it is in the set or not: inserts those nodes of its
    /// tree that are missing. None where there is no room for them.
    #[inline]
    pub fn compress(&self, spare: &mut Spare, tree: &mut StateTree) -> Option<StateId> {
        while let Some((node, pair)) = tree.stale_pair() {
            let put = self.nodes.put_key(spare, &[pair], |_| ());
            tree.settle(node, put.place()? as u32);
        }
        Some(tree.root())
    }

    /// Asks the processor for the bucket of an id that [`TreeSet::compress`] has given.
    #[inline]
    pub fn prefetch(&self, id: StateId) {
        self.roots.prefetch(id.0);
    }

    /// Finds or inserts a vector by its id, which [`TreeSet::compress`] has given. Does not count
    /// it in
    /// [`TreeSet::len`]: see [`TreeSet::count_inserted`].
    #[inline]
    pub fn put(&self, id: StateId) -> Outcome<StateId> {
        self.roots.put(id.0).map(|_| id)
    }

    /// Reports how many vectors a thread has inserted by [`TreeSet::put`], now and then rather than
    /// for each: threads that count in one place wait for each other.
    pub fn count_inserted(&self, vectors: u64) {
        self.roots.segments().count_inserted(vectors);
    }

    /// Whether a vector is in the set.
    #[must_use]
    pub fn contains(&self, id: StateId) -> bool {
        self.roots.contains(id.0) == Ok(true)
    }

    /// Loads the vector of an id into a tree. Of what the tree held before only what differs is
    /// read.
    ///
    /// # Errors
    /// [`SetError::NoSuchElement`] for an id whose nodes do not exist. The tree's vector is
    /// unspecified then, and all of its nodes are stale.
    pub fn load(&self, id: StateId, tree: &mut StateTree) -> Result<(), SetError> {
        let mut next = tree.start_loading(id);
        while let Some((node, value)) = next.pop() {
            if tree.wants(node, value) {
                let pair = self.nodes.first_word(u64::from(value));
                let Some(pair) = pair else {
                    tree.spoil_all();
                    return Err(SetError::NoSuchElement { index: id.0 });
                };
                tree.take(node, value, pair, &mut next);
            }
        }
        tree.loaded();
        Ok(())
    }

    /// Copies the vector of an id to `state`.
    ///
    /// # Errors
    /// As [`TreeSet::load`]; [`SetError::WrongLength`].
    pub fn get(&self, id: StateId, state: &mut [u8]) -> Result<(), SetError> {
        if state.len() != self.state_bytes {
            return Err(SetError::WrongLength {
                len: state.len(),
                expected: self.state_bytes,
            });
        }
        let mut tree = self.tree();
        self.load(id, &mut tree)?;
        state.copy_from_slice(tree.bytes());
        Ok(())
    }

    /// The ids of all vectors, in no useful order.
    pub fn iter(&self) -> impl Iterator<Item = StateId> + '_ {
        self.roots.iter().map(StateId)
    }

    /// Vectors in the set, as far as they were [counted](TreeSet::count_inserted).
    #[must_use]
    pub fn len(&self) -> u64 {
        self.roots.segments().counted()
    }

    /// Whether no vector was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inner nodes, those that threads have taken space for included.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nodes.units_in_use()
    }

    /// Bytes of all of the set's memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.roots.segments().bytes() + self.nodes.segments().bytes()
    }

    /// Whether it is time to [grow](TreeSet::grow): vectors take more than nine tenths of their
    /// table, or nodes nearly all of their room.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.roots_are_crowded() || self.nodes_are_crowded()
    }

    fn roots_are_crowded(&self) -> bool {
        let buckets = self.roots.segments().layout().buckets();
        self.len() * CROWDED.1 > buckets * CROWDED.0
    }

    fn nodes_are_crowded(&self) -> bool {
        let room = self.nodes.segments().layout().element_words();
        self.nodes() > room - room / 32
    }

    /// Rebuilds what is crowded in larger memory; if nothing is, both tables. Ids, trees and spare
    /// space stay good.
    ///
    /// # Errors
    /// As [`TreeSet::new`]; the set is as it was then.
    pub fn grow(&mut self) -> Result<(), SetError> {
        let (roots, nodes) = (self.roots_are_crowded(), self.nodes_are_crowded());
        // A walk has found no room in one of them: nothing says in which.
        let neither = !roots && !nodes;
        if roots || neither {
            let buckets = larger(self.roots.segments().layout().buckets());
            self.roots = self.roots.rebuilt(buckets, |_| true)?;
        }
        if nodes || neither {
            let nodes = larger(self.nodes.segments().layout().element_words());
            self.nodes = self.nodes.rebuilt(buckets_for(nodes), nodes, |_| true)?;
        }
        Ok(())
    }

    /// Drops the vectors that `keep` says no to, and the nodes that no other vector has. Ids of
    /// what is kept stay good; trees do not, and are to be made anew, as are [`Spare`]s.
    ///
    /// # Errors
    /// As [`TreeSet::new`]; the set is as it was then.
    pub fn collect(&mut self, mut keep: impl FnMut(StateId) -> bool) -> Result<(), SetError> {
        let buckets = self.roots.segments().layout().buckets();
        let roots = self.roots.rebuilt(buckets, |word| keep(StateId(word)))?;
        let room = self.nodes.segments().layout().element_words();
        let mut live = vec![0u64; room.div_ceil(64) as usize];
        let words = self.tree().words();
        let mut next = Vec::new();
        // What a node's children are depends on its place in the tree, of which one node may have
        // several.
        let mut places = std::collections::HashSet::new();
        for root in roots.iter() {
            let (left, right) = StateId(root).halves();
            next.extend([(2, left), (3, right)]);
            while let Some((place, node)) = next.pop() {
                if place >= words || !places.insert((place, node)) {
                    continue;
                }
                live[node as usize / 64] |= 1 << (node % 64);
                let pair = self.nodes.first_word(u64::from(node));
                let pair = pair.ok_or(SetError::NoSuchElement { index: root })?;
                next.extend([
                    (2 * place, pair as u32),
                    (2 * place + 1, (pair >> 32) as u32),
                ]);
            }
        }
        let layout = self.nodes.segments().layout();
        let is_live = |node: u64| live[node as usize / 64] >> (node % 64) & 1 != 0;
        self.nodes = self
            .nodes
            .rebuilt(layout.buckets(), layout.element_words(), is_live)?;
        self.roots = roots;
        Ok(())
    }
}

/// A node is one word: what its two children are.
const NODE: DataShape = DataShape::fixed(8);

/// Checks the length of vectors.
pub(crate) fn check_state_bytes(state_bytes: usize) -> Result<(), SetError> {
    check_range("the bytes of a vector", state_bytes as u64, 1, MOST_BYTES)
}

/// Buckets for so many nodes: six sevenths full when all are there.
const fn buckets_for(nodes: u64) -> u64 {
    nodes + nodes / 6 + 1
}

/// The next size of a table: an eighth more, so that none is less than 0.8 full but a new one.
const fn larger(size: u64) -> u64 {
    size + size / 8 + 1
}
