//! The map's operations as a client has them.

use super::layout::PAIRS;
use super::leaf::LeafWord;
use super::leaf::{Leaf, Pair};
use super::node::{Node, NodeEntries};
use super::range::KeyRange;
use super::structure::{INSERT, LeafDirectory, PUT, REMOVE, Tree, UPDATE};
use crate::{ObjectId, PolicyOptions, RemoteError, RemoteStructure, StructureClient};
use farslot_fabric::Endpoint;
use farslot_rpc::Client;
use std::rc::Rc;

/// READs of a leaf that may be torn one after the other.
const MOST_TORN: u32 = 1000;

/// One thread's client of an ordered map. Keys are in the order of their bytes.
pub struct OrderedMap<E>(StructureClient<Tree, E>);

impl<E: Endpoint> OrderedMap<E> {
    /// A client that remembers where so many leaves are.
    pub fn new(
        tree: Tree,
        object: ObjectId,
        client: Rc<Client<E>>,
        leaves: usize,
        policy: PolicyOptions,
    ) -> Self {
        Self(StructureClient::new(
            tree,
            object,
            client,
            LeafDirectory::new(leaves),
            policy,
        ))
    }

    /// Lookups, as any remote data structure has them, and how they were answered.
    pub fn remote(&self) -> &StructureClient<Tree, E> {
        &self.0
    }

    /// The key's value, by one READ of its leaf if that is known.
    ///
    /// # Errors
    /// [`RemoteError`]; so do all that follow.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, RemoteError> {
        self.check(key, &[])?;
        self.0.lookup(key).await
    }

    /// Sets the key's value. Returns `true` if the key was absent.
    ///
    /// # Errors
    /// [`RemoteError::Full`] and others.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, RemoteError> {
        Ok(self.ask(PUT, key, value).await? == 0)
    }

    /// Sets the value of an absent key. Returns `false`, and does nothing, if the key is there.
    ///
    /// # Errors
    /// [`RemoteError::Full`] and others.
    pub async fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, RemoteError> {
        Ok(self.ask(INSERT, key, value).await? == 0)
    }

    /// Sets the value of a key that is there. Returns `false`, and does nothing, if the key is
    /// absent.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool, RemoteError> {
        Ok(self.ask(UPDATE, key, value).await? != 0)
    }

    /// Removes the key. Returns `false` if it was absent.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn remove(&self, key: &[u8]) -> Result<bool, RemoteError> {
        Ok(self.ask(REMOVE, key, &[]).await? != 0)
    }

    /// How many pairs there are.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn len(&self) -> Result<u64, RemoteError> {
        let at = self.0.structure().shape().header(PAIRS);
        Ok(self.0.read(at, 8).await?.words()[0])
    }

    /// Whether there is no pair.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn is_empty(&self) -> Result<bool, RemoteError> {
        Ok(self.len().await? == 0)
    }

    /// The first `most` pairs of a range, in its direction. Each leaf is seen as it was at one
    /// moment, one after the other: a change that is made meanwhile is seen or not, but a pair that
    /// is there all the time is seen, once.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn scan(
        &self,
        range: impl Into<KeyRange<'_>>,
        most: usize,
    ) -> Result<Vec<Pair>, RemoteError> {
        let range = range.into();
        for bound in [Some(range.from), range.to].into_iter().flatten() {
            self.check(bound, &[])?;
        }
        let shape = self.0.structure().shape();
        let longest = shape.key_bytes.into();
        let mut found = Vec::new();
        let mut next = range.start(longest);
        let mut leaves = 0..=shape.nodes;
        while let Some(key) = next.filter(|_| found.len() < most) {
            // No leaf is met twice.
            leaves.next().ok_or(RemoteError::BadReply)?;
            let leaf = self.leaf(&key).await?;
            next = range.behind(&leaf, longest);
            range.extend(&mut found, leaf.pairs.into_iter(), most);
        }
        Ok(found)
    }

    /// The leaf in whose range a key lies, by a READ, then by a call if the READ does not tell. Of
    /// a map that has none it is one without pairs, which stands for as long as the map has none.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn leaf(&self, key: &[u8]) -> Result<Leaf, RemoteError> {
        self.check(key, &[])?;
        let tree = self.0.structure();
        let known = self.0.cache().leaf(key);
        if let Some(number) = known.filter(|_| self.0.policy().reads_next()) {
            let offset = tree.shape().node_at(number).ok_or(RemoteError::BadReply)?;
            let words = self.0.read(offset, tree.shape().leaf_words() * 8).await?;
            let leaf = tree.read_leaf(number, words.words(), &mut self.0.cache());
            let leaf = leaf.filter(|(leaf, _)| leaf.covers(key));
            self.0.policy().note(leaf.is_some());
            if let Some((leaf, seen)) = leaf {
                return leaf.seen(seen).ok_or(RemoteError::BadReply);
            }
        }
        let reply = self.0.ask(&tree.lookup_request(key)).await?;
        let read = tree.read_reply(&reply, &mut self.0.cache());
        match read.ok_or(RemoteError::BadReply)? {
            Some((leaf, seen)) if leaf.covers(key) => leaf.seen(seen).ok_or(RemoteError::BadReply),
            Some(_) => Err(RemoteError::BadReply),
            None => Ok(tree.no_leaf()),
        }
    }

    /// Visits the pairs of one leaf: of the first, or of the one of this number; returns the number
    /// of the next. A leaf that is split keeps its lower half, and the next in line is then the
    /// other one: so one that has gone through all has met each pair that was there all along once.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn visit(
        &self,
        from: Option<u64>,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>, RemoteError> {
        let tree = self.0.structure();
        let leaf = match from {
            None => {
                let reply = self.0.ask(&tree.lookup_request(&[])).await?;
                let read = tree.read_reply(&reply, &mut self.0.cache());
                read.ok_or(RemoteError::BadReply)?
            }
            Some(number) => Some(self.leaf_of(number).await?),
        };
        let Some((node, _)) = leaf else {
            return Ok(None);
        };
        if !self.0.cache().goes_on(from, &node) {
            return Err(RemoteError::BadReply);
        }
        let next = (node.next != 0).then_some(node.next);
        let NodeEntries::Leaf(pairs) = node.entries else {
            return Err(RemoteError::BadReply);
        };
        pairs.iter().for_each(|(key, value)| visit(key, value));
        Ok(next)
    }

    /// The leaf of a number, READ until that is not torn.
    async fn leaf_of(&self, number: u64) -> Result<(Node, LeafWord), RemoteError> {
        let tree = self.0.structure();
        let at = tree.shape().node_at(number).ok_or(RemoteError::BadReply)?;
        for _ in 0..MOST_TORN {
            let read = self.0.read(at, tree.shape().leaf_words() * 8).await?;
            let leaf = tree.read_leaf(number, read.words(), &mut self.0.cache());
            if let Some(leaf) = leaf {
                return Ok(leaf);
            }
        }
        Err(RemoteError::BadReply)
    }

    fn check(&self, key: &[u8], value: &[u8]) -> Result<(), RemoteError> {
        let shape = self.0.structure().shape();
        for (subject, bytes, limit) in [
            ("a key", key.len(), shape.key_bytes.into()),
            ("a value", value.len(), shape.value_bytes.into()),
        ] {
            if bytes > limit {
                return Err(RemoteError::TooLong {
                    subject,
                    bytes,
                    limit,
                });
            }
        }
        Ok(())
    }

    async fn ask(&self, operation: u8, key: &[u8], value: &[u8]) -> Result<u64, RemoteError> {
        self.check(key, value)?;
        let request = Tree::request(operation, key, value);
        let reply = self.0.change(&request).await?;
        let word = (*reply).try_into().map_err(|_| RemoteError::BadReply)?;
        Ok(u64::from_le_bytes(word))
    }
}
