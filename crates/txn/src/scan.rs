//! Reads of ordered maps: by whole leaves, so that nothing comes into a range that was read
//! unnoticed.

use crate::error::TxnError;
use crate::identity::TableId;
use crate::kept::Structure;
use crate::leaf_read::LeafRead;
use crate::transaction::{Change, Transaction};
use farslot_fabric::Endpoint;
use farslot_remote::RemoteError;
use farslot_remote::ordered::{KeyRange, Pair};
use std::collections::BTreeMap;

impl<E: Endpoint> Transaction<'_, E> {
    /// The first `most` pairs of a range of an ordered map's keys, in its direction, with the
    /// transaction's own changes. What it finds is the whole range: a commit after which another
    /// key would be in it is a conflict.
    ///
    /// # Errors
    /// [`TxnError::NotOrdered`]; see [`Transaction::read`].
    pub async fn scan(
        &mut self,
        table: TableId,
        range: impl Into<KeyRange<'_>>,
        most: usize,
    ) -> Result<Vec<Pair>, TxnError> {
        self.begin_step().await?;
        let end = self.try_scan(table, range.into(), most).await;
        self.end_if_failed(end).await
    }

    async fn try_scan(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        most: usize,
    ) -> Result<Vec<Pair>, TxnError> {
        let Structure::Ordered(tree) = self.database.table(table)?.structure else {
            return Err(TxnError::NotOrdered { table });
        };
        for bound in [Some(range.from), range.to].into_iter().flatten() {
            self.check_fits(table, bound, &[])?;
        }
        let longest = tree.shape().key_bytes.into();
        let mut found = Vec::new();
        let mut next = range.start(longest);
        let mut leaves = 0..=tree.shape().nodes;
        while let Some(key) = next.filter(|_| found.len() < most) {
            // No leaf is met twice.
            leaves.next().ok_or(RemoteError::BadReply)?;
            self.leaf(table, &key).await?;
            let at = self.find_leaf_at(table, &key).ok_or(TxnError::Failed)?;
            #[cfg(test)]
            {
                self.leaves[at].is_scanned = true;
            }
            let leaf = &self.leaves[at].leaf;
            next = range.behind(leaf, longest);
            let pairs = leaf.pairs.iter();
            let pairs = pairs.map(|(key, value)| (&key[..], &value[..]));
            let mut pairs: BTreeMap<&[u8], &[u8]> = pairs.collect();
            let changed = self.entries.iter().filter(|entry| entry.table == table);
            for entry in changed.filter(|entry| leaf.covers(&entry.key)) {
                match &entry.change {
                    Some(Change::Set(value)) => pairs.insert(&entry.key, value),
                    Some(Change::Remove) => pairs.remove(&*entry.key),
                    None => None,
                };
            }
            range.extend(&mut found, pairs.into_iter(), most);
        }
        Ok(found)
    }

    /// The leaf of a key: as it was read before, if it was.
    pub(crate) async fn leaf(&mut self, table: TableId, key: &[u8]) -> Result<&LeafRead, TxnError> {
        let at = match self.find_leaf_at(table, key) {
            Some(at) => at,
            None => {
                let leaf = self.database.leaf(table, key).await?;
                if let Some(by) = leaf.lock.filter(|by| Some(*by) != self.lock) {
                    return Err(self.database.conflict_with(table, key, by).await);
                }
                self.leaves.push(LeafRead::new(table, leaf));
                self.leaves.len() - 1
            }
        };
        Ok(&self.leaves[at])
    }

    pub(crate) fn find_leaf(&self, table: TableId, key: &[u8]) -> Option<&LeafRead> {
        self.find_leaf_at(table, key).map(|at| &self.leaves[at])
    }

    fn find_leaf_at(&self, table: TableId, key: &[u8]) -> Option<usize> {
        let mut leaves = self.leaves.iter();
        leaves.position(|read| read.table == table && read.leaf.covers(key))
    }

    /// The leaves that nothing of the transaction has locked: what it has locked was compared with
    /// what it had read.
    pub(crate) fn unlocked_leaves(&self) -> impl Iterator<Item = &LeafRead> {
        self.leaves.iter().filter(|read| {
            let mut changed = self
                .entries
                .iter()
                .filter(|entry| entry.table == read.table);
            !changed.any(|entry| read.leaf.covers(&entry.key))
        })
    }
}
