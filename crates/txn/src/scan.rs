//! Reads of ordered maps: by whole leaves, so that nothing comes into a range that was read
//! unnoticed.

use crate::error::TxnError;
use crate::identity::TableId;
use crate::leaf_read::LeafRead;
use crate::transaction::{Change, Transaction};
use farslot_fabric::Endpoint;
use farslot_remote::ordered::Pair;
use std::collections::BTreeMap;

impl<E: Endpoint> Transaction<'_, E> {
    /// The first `most` pairs of an ordered map from a key on, in order, with the transaction's own
    /// changes. What it finds is the whole range: a commit after which another key would be in it
    /// is a conflict.
    ///
    /// # Errors
    /// [`TxnError::NotOrdered`]; see [`Transaction::read`].
    pub async fn scan(
        &mut self,
        table: TableId,
        from: &[u8],
        most: usize,
    ) -> Result<Vec<Pair>, TxnError> {
        self.begin_step().await?;
        let end = self.try_scan(table, from, most).await;
        self.end_if_failed(end).await
    }

    async fn try_scan(
        &mut self,
        table: TableId,
        from: &[u8],
        most: usize,
    ) -> Result<Vec<Pair>, TxnError> {
        self.check_fits(table, from, &[])?;
        let (mut found, mut from) = (Vec::new(), from.to_vec());
        while found.len() < most {
            self.leaf(table, &from).await?;
            let at = self.find_leaf_at(table, &from).ok_or(TxnError::Failed)?;
            #[cfg(test)]
            {
                self.leaves[at].is_scanned = true;
            }
            let read = &self.leaves[at];
            let high = read.leaf.high.as_deref();
            let mut pairs: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
            for (key, value) in &read.leaf.pairs {
                if **key >= *from {
                    pairs.insert(key, value);
                }
            }
            let own = self.entries.iter().filter(|entry| entry.table == table);
            for entry in own.filter(|entry| *entry.key >= *from && read.leaf.covers(&entry.key)) {
                match &entry.change {
                    Some(Change::Set(value)) => pairs.insert(&entry.key, value),
                    Some(Change::Remove) => pairs.remove(&*entry.key),
                    None => None,
                };
            }
            let pairs = pairs.into_iter().take(most - found.len());
            found.extend(pairs.map(|(key, value)| (key.to_vec(), value.to_vec())));
            match high {
                Some(high) => from = high.to_vec(),
                None => break,
            }
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
            let mut own = self
                .entries
                .iter()
                .filter(|entry| entry.table == read.table);
            !own.any(|entry| read.leaf.covers(&entry.key))
        })
    }
}
