//! How a transaction commits.

use crate::database::{CommittedAt, Locking};
use crate::error::TxnError;
use crate::identity::home_of;
use crate::leaf_read::LeafRead;
use crate::transaction::{Change, Transaction, UnlockedRead, WINDOW, changed};
use crate::wire::{KeyVersion, OwnerStatus, Part, Write, put_write};
use farslot_fabric::{Endpoint, window};
use farslot_remote::RemoteError;
use std::collections::BTreeMap;

impl<E: Endpoint> Transaction<'_, E> {
    pub(crate) async fn try_commit(&mut self) -> Result<(), TxnError> {
        if self.locking == Locking::Commit
            && let Some(node) = self.only_node()?
        {
            return self.commit_at(node).await;
        }
        self.lock_all().await?;
        self.validate().await?;
        let Some(lock) = self.lock else {
            // It changes nothing.
            return Ok(());
        };
        #[cfg(test)]
        if self.commit_plainly(lock, &self.nodes).await? {
            return Ok(());
        }
        let mut parts = self.parts()?;
        let home = home_of(lock).unwrap_or(0);
        let home_part = parts.remove(&home).unwrap_or_default();
        let other_parts: Vec<_> = parts.into_iter().collect();
        match self.database.decide(lock, &home_part, &other_parts).await {
            Ok(OwnerStatus::Done) => {}
            Ok(OwnerStatus::Aborted) => return Err(TxnError::LeaseOver { lock }),
            Ok(OwnerStatus::Full) => {
                // Of nodes that cannot be reached nothing is finished; of others it is.
                let _ = self.database.recover(home).await;
                return Err(TxnError::TooManyUnfinished { node: home });
            }
            Ok(_) => return Err(RemoteError::BadReply.into()),
            Err(error) => return Err(error),
        }
        // It is committed: whatever fails from now on, those that meet its locks finish it.
        let finishes = other_parts.iter();
        let finishes = finishes.map(|(node, part)| self.database.finish(*node, lock, part));
        let mut is_finished = true;
        window(WINDOW, finishes, |_, end| is_finished &= end.is_ok()).await;
        if is_finished && !other_parts.is_empty() {
            self.database.note_done(lock);
        }
        Ok(())
    }

    /// Locks what is not locked yet.
    async fn lock_all(&mut self) -> Result<(), TxnError> {
        if self.locking == Locking::Execution || self.entries.is_empty() {
            return Ok(());
        }
        self.lock_from(0).await
    }

    /// The node of all keys of a transaction that changes some.
    fn only_node(&self) -> Result<Option<u8>, TxnError> {
        #[cfg(test)]
        if self.database.broken.is_some() {
            return Ok(None);
        }
        let Some(first) = self.entries.first() else {
            return Ok(None);
        };
        let node = self.database.table(first.table)?.node;
        let entries = self.entries.iter().map(|entry| entry.table);
        // A request counts its reads by 16 bits.
        if self.reads.len() + self.leaves.len() > u16::MAX.into() {
            return Ok(None);
        }
        let reads = self.reads.iter().map(|read| read.table);
        let leaves = self.leaves.iter().map(|read| read.table);
        for table in entries.chain(reads).chain(leaves) {
            if self.database.table(table)?.node != node {
                return Ok(None);
            }
        }
        Ok(Some(node))
    }

    /// Commits by one call.
    async fn commit_at(&mut self, node: u8) -> Result<(), TxnError> {
        let lock = self.database.name(node).await?;
        let mut seen = Vec::with_capacity(self.reads.len() + self.leaves.len());
        for read in &self.reads {
            seen.push(KeyVersion {
                object: self.database.table(read.table)?.object.0,
                key: &read.key,
                version: read.value.is_some().then_some(read.version),
            });
        }
        for read in &self.leaves {
            seen.push(KeyVersion {
                object: self.database.table(read.table)?.object.0,
                key: &read.leaf.low,
                version: Some(read.leaf.version),
            });
        }
        let reads = self.reads.iter().map(|read| (read.table, &read.key));
        let leaves = self.leaves.iter().map(|read| (read.table, &read.leaf.low));
        let reads = reads.chain(leaves);
        let writes = self.entries.iter().filter(|entry| entry.change.is_some());
        let mut keys = reads.chain(writes.map(|entry| (entry.table, &entry.key)));
        let part = self.parts()?.remove(&node).unwrap_or_default();
        match self.database.commit_at(node, lock, seen, &part).await {
            Ok(CommittedAt::Done) => Ok(()),
            Ok(CommittedAt::Changed(at)) => {
                let (table, key) = keys.nth(at).ok_or(RemoteError::BadReply)?;
                Err(changed(table, key))
            }
            Ok(CommittedAt::ByOther { at, by }) => {
                let (table, key) = keys.nth(at).ok_or(RemoteError::BadReply)?;
                Err(self.database.conflict(table, key, by).await)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that all that was read without a lock is still so, at a moment at which all that is
    /// written is locked.
    async fn validate(&self) -> Result<(), TxnError> {
        let reads = self.reads.iter();
        let reads = reads.filter(|read| self.find_entry(read.table, &read.key).is_none());
        #[cfg(test)]
        let reads = reads.filter(|read| self.is_validated(read.value.is_some()));
        let reads: Vec<_> = reads.collect();
        let leaves = self.unlocked_leaves();
        #[cfg(test)]
        let leaves = leaves.filter(|read| self.is_leaf_validated(read.is_scanned));
        let leaves: Vec<_> = leaves.collect();
        // A single read and nothing else was true when it was read.
        if reads.len() + leaves.len() == 1 && self.lock.is_none() {
            return Ok(());
        }
        let mut first_error = Ok(());
        let mut note = |_, end: Result<(), TxnError>| {
            if first_error.is_ok() {
                first_error = end;
            }
        };
        let checks = reads.into_iter().map(|read| self.check(read));
        let check_leaves = leaves.into_iter().map(|read| self.check_leaf(read));
        window(WINDOW, checks, &mut note).await;
        window(WINDOW, check_leaves, &mut note).await;
        first_error
    }

    async fn check_leaf(&self, LeafRead { table, leaf, .. }: &LeafRead) -> Result<(), TxnError> {
        if self.database.stands(*table, (leaf.at, leaf.word)).await? {
            return Ok(());
        }
        Err(changed(*table, &leaf.low))
    }

    async fn check(&self, read: &UnlockedRead) -> Result<(), TxnError> {
        let UnlockedRead {
            table,
            key,
            witness,
            ..
        } = read;
        if self
            .database
            .stands(*table, (witness.at, witness.word))
            .await?
        {
            return Ok(());
        }
        if read.value.is_none() {
            // Another key of the bucket may have changed: perhaps by this very transaction.
            let seen = self.database.look(*table, key).await?;
            let is_same_bucket =
                (seen.witness.at, seen.witness.removals) == (witness.at, witness.removals);
            if seen.item.is_none() && seen.lock.is_none() && is_same_bucket {
                return Ok(());
            }
        }
        Err(changed(*table, key))
    }

    /// What each node is to do, for every node at which something is locked.
    fn parts(&self) -> Result<BTreeMap<u8, Part>, TxnError> {
        let mut parts: BTreeMap<u8, Part> =
            self.nodes.iter().map(|node| (*node, Part::new())).collect();
        for entry in &self.entries {
            let Some(change) = &entry.change else {
                continue;
            };
            let served = self.database.table(entry.table)?;
            let write = Write {
                object: served.object.0,
                key: &entry.key,
                value: match change {
                    Change::Set(value) => Some(value),
                    Change::Remove => None,
                },
            };
            put_write(parts.entry(served.node).or_default(), write);
        }
        Ok(parts)
    }
}
