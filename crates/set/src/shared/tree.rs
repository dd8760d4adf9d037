//! Compressed state vectors in the memory of several ranks.

use super::{SharedDataSet, SharedWordSet};
use crate::tree::{self, StateId, StateTree};
use crate::{Outcome, SetError};
use farslot_fabric::{Endpoint, window};
use std::cell::RefCell;
use std::collections::HashMap;

/// Nodes that a thread remembers: each costs some 40 bytes.
const REMEMBERED: usize = 1 << 20;

/// A set of vectors of one length ([`TreeSet`](crate::TreeSet)), of which each rank owns a part.
/// Each thread of each rank has one of its own.
///
/// A node never changes, so that each thread remembers those that it has met: most nodes cost no
/// round trip.
#[derive(Debug)]
pub struct SharedTreeSet<E: Endpoint> {
    state_bytes: usize,
    nodes: SharedDataSet<E>,
    roots: SharedWordSet<E>,
    cache: RefCell<NodeCache>,
}

#[derive(Debug, Default)]
struct NodeCache {
    index_of: HashMap<u64, u32>,
    pair_of: HashMap<u32, u64>,
}

impl NodeCache {
    fn note(&mut self, pair: u64, index: u32) {
        if self.index_of.len() >= REMEMBERED {
            self.index_of.clear();
            self.pair_of.clear();
        }
        self.index_of.insert(pair, index);
        self.pair_of.insert(index, pair);
    }
}

impl<E: Endpoint> SharedTreeSet<E> {
    /// A set of vectors of `state_bytes` bytes over two tables: `nodes`, of elements of 8 bytes
    /// ([`DataShape::fixed(8)`](crate::DataShape::fixed)), and `roots`.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`].
    pub fn new(
        state_bytes: usize,
        nodes: SharedDataSet<E>,
        roots: SharedWordSet<E>,
    ) -> Result<Self, SetError> {
        tree::check_state_bytes(state_bytes)?;
        Ok(Self {
            state_bytes,
            nodes,
            roots,
            cache: RefCell::default(),
        })
    }

    /// A tree to work with; its vector is all zeros.
    #[must_use]
    pub fn tree(&self) -> StateTree {
        StateTree::of_zeros(self.state_bytes)
    }

    /// The table of roots.
    #[must_use]
    pub fn roots(&self) -> &SharedWordSet<E> {
        &self.roots
    }

    /// The table of inner nodes.
    #[must_use]
    pub fn nodes(&self) -> &SharedDataSet<E> {
        &self.nodes
    }

    /// Finds or inserts the vector of a tree.
    ///
    /// # Errors
    /// [`SetError::Fabric`], after which the vector may be in the set or not.
    pub async fn find_or_put(&self, tree: &mut StateTree) -> Result<Outcome<StateId>, SetError> {
        let Some(id) = self.compress(tree).await? else {
            return Ok(Outcome::Full);
        };
        let put = self.roots.find_or_put(id.to_bits()).await?;
        Ok(put.map(|_| id))
    }

    /// [`SharedTreeSet::find_or_put`] of many vectors, `width` of which are under way at a time;
    /// each outcome goes to `done` with its position, in the order in which they end. Of equal
    /// vectors one at most is `Inserted`.
    pub async fn find_or_put_all<B: AsRef<[u8]>>(
        &self,
        states: &[B],
        width: usize,
        done: impl FnMut(usize, Result<Outcome<StateId>, SetError>),
    ) {
        let jobs = states.iter().map(|state| async {
            let mut tree = self.tree();
            tree.set_bytes(state.as_ref())?;
            self.find_or_put(&mut tree).await
        });
        window(width, jobs, done).await;
    }

    /// The id of the tree's vector, whether it is in the set or not; none where there is no room
    /// for its nodes.
    async fn compress(&self, tree: &mut StateTree) -> Result<Option<StateId>, SetError> {
        while let Some((node, pair)) = tree.stale_pair() {
            let known = self.cache.borrow().index_of.get(&pair).copied();
            let index = match known {
                Some(index) => index,
                None => {
                    let put = self.nodes.put_key(&[pair]).await?;
                    let Some(index) = put.place() else {
                        return Ok(None);
                    };
                    self.cache.borrow_mut().note(pair, index as u32);
                    index as u32
                }
            };
            tree.settle(node, index);
        }
        Ok(Some(tree.root()))
    }

    /// Loads the vector of an id into a tree.
    ///
    /// # Errors
    /// [`SetError::NoSuchElement`] for an id whose nodes do not exist; [`SetError::Fabric`]. The
    /// tree is as it was then.
    pub async fn load(&self, id: StateId, tree: &mut StateTree) -> Result<(), SetError> {
        // Changed at the end: this may fail, or be dropped, half way.
        let mut new = tree.clone();
        let mut next = new.start_loading(id);
        while let Some((node, value)) = next.pop() {
            if !new.wants(node, value) {
                continue;
            }
            let known = self.cache.borrow().pair_of.get(&value).copied();
            let pair = match known {
                Some(pair) => pair,
                None => {
                    let pair = self.nodes.first_word(u64::from(value)).await?;
                    self.cache.borrow_mut().note(pair, value);
                    pair
                }
            };
            new.take(node, value, pair, &mut next);
        }
        new.loaded();
        *tree = new;
        Ok(())
    }
}
