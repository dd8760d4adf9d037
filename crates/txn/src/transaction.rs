//! One transaction: its execution, its commit, its abort.

use crate::database::{Database, Locked, Locking};
use crate::error::{ConflictCause, TxnError};
use crate::identity::{TableId, home_of};
use crate::wire::{Part, Status, Write, put_write};
use farslot_fabric::{Endpoint, window};
use farslot_remote::chained::Witness;
use farslot_remote::{Lock, RemoteError};
use std::collections::BTreeMap;

/// A transaction under way (paper 003, section 5.4).
///
/// An operation that fails ends it: what it had locked is released, and nothing is changed. One that is dropped
/// before [`commit`](Self::commit) or [`abort`](Self::abort) keeps its locks for the rest of its lease.
pub struct Transaction<'d, E> {
    pub(crate) database: &'d Database<E>,
    locking: Locking,
    /// Its name, from the first lock on.
    lock: Option<Lock>,
    reads: Vec<Read>,
    pub(crate) entries: Vec<Entry>,
    /// Nodes at which it may hold locks.
    nodes: Vec<u8>,
    ended: bool,
}

/// What it has read without a lock.
struct Read {
    table: TableId,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    /// 0 if the key was absent.
    version: u64,
    witness: Witness,
}

/// A key that it locks.
pub(crate) struct Entry {
    pub(crate) table: TableId,
    pub(crate) key: Vec<u8>,
    is_locked: bool,
    /// What the key had when it was locked or, before that, when it was read.
    was: Option<Vec<u8>>,
    /// What is to become of it; nothing if it stays as it is.
    pub(crate) change: Option<Change>,
}

pub(crate) enum Change {
    Set(Vec<u8>),
    Remove,
}

impl Entry {
    /// What the transaction itself sees.
    fn value(&self) -> Option<&Vec<u8>> {
        match &self.change {
            Some(Change::Set(value)) => Some(value),
            Some(Change::Remove) => None,
            None => self.was.as_ref(),
        }
    }
}

/// Locks and validations of one transaction that are under way at a time.
const WINDOW: usize = 16;

impl<'d, E: Endpoint> Transaction<'d, E> {
    pub(crate) fn new(database: &'d Database<E>, locking: Locking) -> Self {
        Self {
            database,
            locking,
            lock: None,
            reads: Vec::new(),
            entries: Vec::new(),
            nodes: Vec::new(),
            ended: false,
        }
    }

    /// What the key has: by a READ if that tells. A key that is read twice has the same value twice.
    ///
    /// # Errors
    /// [`TxnError`]; so do all that follow.
    pub async fn read(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxnError> {
        self.check_open()?;
        let end = self.try_read(table, key).await;
        self.end_if_failed(end).await
    }

    /// Sets the key's value, whether it is there or not.
    ///
    /// # Errors
    /// See [`Transaction::read`].
    pub async fn write(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TxnError> {
        self.check_open()?;
        let end = match self.check_fits(table, key, value) {
            Ok(()) => self.entry(table, key).await,
            Err(error) => Err(error),
        };
        let at = self.end_if_failed(end).await?;
        self.entries[at].change = Some(Change::Set(value.to_vec()));
        #[cfg(test)]
        self.write_through(table, key, value).await?;
        Ok(())
    }

    /// Sets the value of an absent key. Returns `false`, and changes nothing, if the key is there.
    ///
    /// # Errors
    /// See [`Transaction::read`].
    pub async fn insert(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, TxnError> {
        self.check_open()?;
        let end = match self.check_fits(table, key, value) {
            Ok(()) => self.known_entry(table, key).await,
            Err(error) => Err(error),
        };
        let at = self.end_if_failed(end).await?;
        let is_new = self.entries[at].value().is_none();
        if is_new {
            self.entries[at].change = Some(Change::Set(value.to_vec()));
        }
        Ok(is_new)
    }

    /// Removes the key. Returns `false` if it was absent.
    ///
    /// # Errors
    /// See [`Transaction::read`].
    pub async fn remove(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxnError> {
        self.check_open()?;
        let end = self.known_entry(table, key).await;
        let at = self.end_if_failed(end).await?;
        let was_there = self.entries[at].value().is_some();
        if was_there {
            self.entries[at].change = Some(Change::Remove);
        }
        Ok(was_there)
    }

    /// Commits. Once this returns, all that begins later sees every change.
    ///
    /// # Errors
    /// [`TxnError::InDoubt`]: committed as a whole or not at all. All others: nothing is changed.
    pub async fn commit(mut self) -> Result<(), TxnError> {
        self.check_open()?;
        let end = self.try_commit().await;
        if matches!(end, Err(TxnError::InDoubt { .. })) {
            // What it has locked elsewhere may be decided, and is only for its home to release.
            self.ended = true;
        }
        self.end_if_failed(end).await
    }

    /// Gives everything up. Locks at nodes that cannot be reached last as long as their lease.
    pub async fn abort(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let Some(lock) = self.lock else {
            return;
        };
        let releases = self.nodes.iter();
        let releases = releases.map(|node| self.database.release(*node, lock));
        // A release that fails is what leases are for.
        window(WINDOW, releases, |_, _| ()).await;
    }

    /// Whether it was aborted, by [`Transaction::abort`] or by an operation that failed.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    fn check_open(&self) -> Result<(), TxnError> {
        if self.ended {
            return Err(TxnError::Failed);
        }
        Ok(())
    }

    async fn end_if_failed<T>(&mut self, end: Result<T, TxnError>) -> Result<T, TxnError> {
        if end.is_err() {
            self.abort().await;
        }
        end
    }

    fn check_fits(&self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TxnError> {
        let shape = *self.database.table(table)?.remote.structure().0.shape();
        for (what, bytes, limit) in [
            ("a key", key.len(), shape.key_bytes.into()),
            ("a value", value.len(), shape.value_bytes.into()),
        ] {
            if bytes > limit {
                return Err(RemoteError::TooLong { what, bytes, limit }.into());
            }
        }
        Ok(())
    }

    async fn try_read(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxnError> {
        if let Some(at) = self.find_entry(table, key) {
            let entry = &self.entries[at];
            // One that is to be locked at the commit, and was written without being read, hides no value of others.
            return Ok(entry.value().cloned());
        }
        if let Some(read) = self.find_read(table, key) {
            return Ok(read.value.clone());
        }
        self.check_fits(table, key, &[])?;
        let seen = self.database.look(table, key).await?;
        if let Some(by) = seen.lock {
            return Err(self.database.conflict(table, key, by, None).await);
        }
        #[cfg(test)]
        let seen = self.look_again_later(table, key, seen).await?;
        let version = seen.item.as_ref().map_or(0, |item| item.version);
        let value = seen.item.map(|item| item.value);
        self.reads.push(Read {
            table,
            key: key.to_vec(),
            value: value.clone(),
            version,
            witness: seen.witness,
        });
        Ok(value)
    }

    fn find_entry(&self, table: TableId, key: &[u8]) -> Option<usize> {
        let mut entries = self.entries.iter();
        entries.position(|entry| entry.table == table && entry.key == key)
    }

    fn find_read(&self, table: TableId, key: &[u8]) -> Option<&Read> {
        let mut reads = self.reads.iter();
        reads.find(|read| read.table == table && read.key == key)
    }

    /// The entry of a key that is to be changed; locked, where locks are taken in the execution phase.
    async fn entry(&mut self, table: TableId, key: &[u8]) -> Result<usize, TxnError> {
        if let Some(at) = self.find_entry(table, key) {
            return Ok(at);
        }
        let was = self.find_read(table, key);
        self.entries.push(Entry {
            table,
            key: key.to_vec(),
            is_locked: false,
            was: was.and_then(|read| read.value.clone()),
            change: None,
        });
        let at = self.entries.len() - 1;
        if self.locking == Locking::Execution {
            self.open(at).await?;
            let was = self.acquire(at).await?;
            self.entries[at].was = was;
            self.entries[at].is_locked = true;
        }
        Ok(at)
    }

    /// As [`Self::entry`], of a key whose presence is to be known.
    async fn known_entry(&mut self, table: TableId, key: &[u8]) -> Result<usize, TxnError> {
        if self.locking == Locking::Commit {
            self.try_read(table, key).await?;
        }
        self.check_fits(table, key, &[])?;
        self.entry(table, key).await
    }

    /// Names the transaction before its first lock, by the node of that lock; and notes that it will hold
    /// something at this entry's node.
    async fn open(&mut self, at: usize) -> Result<(), TxnError> {
        let node = self.database.table(self.entries[at].table)?.node;
        if self.lock.is_none() {
            self.lock = Some(self.database.name(node).await?);
        }
        if !self.nodes.contains(&node) {
            self.nodes.push(node);
        }
        Ok(())
    }

    /// Locks an entry's key; returns what it has. What was read of it before must be what it still has.
    async fn acquire(&self, at: usize) -> Result<Option<Vec<u8>>, TxnError> {
        let entry = &self.entries[at];
        let (table, key) = (entry.table, &*entry.key);
        let lock = self.lock.ok_or(TxnError::Failed)?;
        #[cfg(test)]
        if let Some(value) = self.acquire_nothing(table, key).await? {
            return Ok(value);
        }
        // The home must know that none of its locks was broken; elsewhere none is broken before the home's are.
        let at_home = Some(self.database.table(table)?.node) == home_of(lock);
        let opens = !at_home || !self.entries.iter().any(|entry| entry.is_locked);
        match self.database.lock(table, key, lock, opens).await? {
            Locked::LeaseOver => Err(TxnError::LeaseOver { lock }),
            Locked::ByOther { by, is_over } => {
                Err(self.database.conflict(table, key, by, Some(is_over)).await)
            }
            Locked::Held { version, value } => {
                let read = self.find_read(table, key);
                let is_changed = |read: &Read| {
                    read.version != version || read.value.is_some() != value.is_some()
                };
                if read.is_some_and(is_changed) {
                    return Err(changed(table, key));
                }
                Ok(value)
            }
        }
    }

    async fn try_commit(&mut self) -> Result<(), TxnError> {
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
        let own = parts.remove(&home).unwrap_or_default();
        let others: Vec<_> = parts.into_iter().collect();
        match self.database.decide(lock, &own, &others).await {
            Ok(Status::Done) => {}
            Ok(Status::Aborted) => return Err(TxnError::LeaseOver { lock }),
            Ok(Status::Full) => {
                self.database.recover(home).await?;
                return Err(TxnError::TooManyUnfinished { node: home });
            }
            Ok(_) => return Err(RemoteError::BadReply.into()),
            Err(cause) if cause.may_have_taken_effect() => {
                return Err(TxnError::InDoubt { lock, cause });
            }
            Err(error) => return Err(error.into()),
        }
        // It is committed: whatever fails from now on, those that meet its locks finish it.
        let finishes = others.iter();
        let finishes = finishes.map(|(node, part)| self.database.finish(*node, lock, part));
        let mut is_finished = true;
        window(WINDOW, finishes, |_, end| is_finished &= end.is_ok()).await;
        if is_finished && !others.is_empty() {
            self.database.note_done(lock);
        }
        Ok(())
    }

    /// Locks what is not locked yet: the first key alone, which opens the transaction at its home.
    async fn lock_all(&mut self) -> Result<(), TxnError> {
        if self.locking == Locking::Execution || self.entries.is_empty() {
            return Ok(());
        }
        for at in 0..self.entries.len() {
            self.open(at).await?;
        }
        self.acquire(0).await?;
        self.entries[0].is_locked = true;
        let mut first_error = Ok(());
        let locks = (1..self.entries.len()).map(|at| self.acquire(at));
        window(WINDOW, locks, |_, end| {
            if let Err(error) = end
                && first_error.is_ok()
            {
                first_error = Err(error);
            }
        })
        .await;
        first_error
    }

    /// Checks that all that was read without a lock is still so, at a moment at which all that is written is locked.
    async fn validate(&self) -> Result<(), TxnError> {
        let reads = self.reads.iter();
        let reads = reads.filter(|read| self.find_entry(read.table, &read.key).is_none());
        #[cfg(test)]
        let reads = reads.filter(|read| self.is_validated(read.value.is_some()));
        let reads: Vec<_> = reads.collect();
        // A single read and nothing else was true when it was read.
        if reads.len() == 1 && self.lock.is_none() {
            return Ok(());
        }
        let mut first_error = Ok(());
        let checks = reads.into_iter().map(|read| self.check(read));
        window(WINDOW, checks, |_, end| {
            if first_error.is_ok() {
                first_error = end;
            }
        })
        .await;
        first_error
    }

    async fn check(&self, read: &Read) -> Result<(), TxnError> {
        let Read {
            table,
            key,
            witness,
            ..
        } = read;
        if self.database.stands(*table, witness).await? {
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

fn changed(table: TableId, key: &[u8]) -> TxnError {
    TxnError::Conflict {
        table,
        key: key.to_vec(),
        cause: ConflictCause::Changed,
    }
}
