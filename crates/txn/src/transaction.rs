//! One transaction: its execution, its commit, its abort.

use crate::database::{Database, Locked, Locking};
use crate::error::{ConflictCause, TxnError};
use crate::identity::TableId;
use crate::leaf_read::LeafRead;
use farslot_fabric::{Endpoint, window};
use farslot_remote::chained::Witness;
use farslot_remote::{Lock, RemoteError};
use std::ops::Deref;
use std::rc::Rc;

/// A transaction under way (paper 003, section 5.4).
///
/// An operation that fails ends it: what it had locked is released, and nothing is changed. So does
/// one whose future is dropped before it is ready. A transaction that is dropped before
/// [`commit`](Self::commit) or [`abort`](Self::abort) keeps its locks for the rest of its lease.
pub struct Transaction<'d, E> {
    pub(crate) database: DatabaseHandle<'d, E>,
    pub(crate) locking: Locking,
    /// Its name, from the first lock on.
    pub(crate) lock: Option<Lock>,
    pub(crate) reads: Vec<UnlockedRead>,
    /// Leaves of maps that it has read.
    pub(crate) leaves: Vec<LeafRead>,
    pub(crate) entries: Vec<Entry>,
    /// Nodes at which it may hold locks.
    pub(crate) nodes: Vec<u8>,
    ended: bool,
    /// Whether an operation is under way, or was dropped before it ended.
    in_step: bool,
}

/// A database as one of its transactions has it.
pub(crate) enum DatabaseHandle<'d, E> {
    Borrowed(&'d Database<E>),
    /// Of a transaction that outlives the call that began it.
    Shared(Rc<Database<E>>),
}

impl<E> Deref for DatabaseHandle<'_, E> {
    type Target = Database<E>;

    fn deref(&self) -> &Database<E> {
        match self {
            Self::Borrowed(database) => database,
            Self::Shared(database) => database,
        }
    }
}

/// What it has read without a lock.
pub(crate) struct UnlockedRead {
    pub(crate) table: TableId,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    /// 0 if the key was absent.
    pub(crate) version: u64,
    pub(crate) witness: Witness,
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
pub(crate) const WINDOW: usize = 16;

impl<'d, E: Endpoint> Transaction<'d, E> {
    pub(crate) fn new(database: DatabaseHandle<'d, E>, locking: Locking) -> Self {
        Self {
            database,
            locking,
            lock: None,
            reads: Vec::new(),
            leaves: Vec::new(),
            entries: Vec::new(),
            nodes: Vec::new(),
            ended: false,
            in_step: false,
        }
    }

    /// What the key has: by a READ if that tells. A key that is read twice has the same value
    /// twice.
    ///
    /// # Errors
    /// [`TxnError`]; so do all that follow.
    pub async fn read(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxnError> {
        self.begin_step().await?;
        let end = self.try_read(table, key).await;
        self.end_if_failed(end).await
    }

    /// What each of the keys has, all looked up side by side.
    ///
    /// # Errors
    /// See [`Transaction::read`].
    pub async fn read_many(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError> {
        self.begin_step().await?;
        let end = self.try_read_many(keys).await;
        self.end_if_failed(end).await
    }

    /// As [`Transaction::read_many`], of keys that are to be written. With [`Locking::Execution`]
    /// they are locked: one call is both the lock and the read.
    ///
    /// # Errors
    /// See [`Transaction::read`].
    pub async fn read_for_update(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError> {
        self.begin_step().await?;
        let end = match self.locking {
            Locking::Execution => self.lock_many(keys).await,
            Locking::Commit => self.try_read_many(keys).await,
        };
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
        self.begin_step().await?;
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
        self.begin_step().await?;
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
        self.begin_step().await?;
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
        self.begin_step().await?;
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

    /// Begins an operation. One before it that was dropped half way may have locked its key or not,
    /// now or later, and so can be neither relied upon nor done again.
    pub(crate) async fn begin_step(&mut self) -> Result<(), TxnError> {
        if std::mem::replace(&mut self.in_step, true) {
            self.abort().await;
        }
        if self.ended {
            return Err(TxnError::Failed);
        }
        Ok(())
    }

    pub(crate) async fn end_if_failed<T>(
        &mut self,
        end: Result<T, TxnError>,
    ) -> Result<T, TxnError> {
        if end.is_err() {
            self.abort().await;
        }
        self.in_step = false;
        end
    }

    pub(crate) fn check_fits(
        &self,
        table: TableId,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TxnError> {
        let structure = self.database.table(table)?.structure;
        for (subject, bytes, limit) in [
            ("a key", key.len(), structure.key_bytes().into()),
            ("a value", value.len(), structure.value_bytes().into()),
        ] {
            if bytes > limit {
                return Err(RemoteError::TooLong {
                    subject,
                    bytes,
                    limit,
                }
                .into());
            }
        }
        Ok(())
    }

    async fn try_read(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxnError> {
        if let Some(at) = self.find_entry(table, key) {
            let entry = &self.entries[at];
            // One that is to be locked at the commit, and was written without being read, hides no
            // value of others.
            return Ok(entry.value().cloned());
        }
        if let Some(read) = self.find_read(table, key) {
            return Ok(read.value.clone());
        }
        if self.database.is_ordered(table)? {
            let leaf = self.leaf(table, key).await?;
            return Ok(leaf.leaf.get(key).map(Into::into));
        }
        let read = self.look(table, key).await?;
        let value = read.value.clone();
        self.reads.push(read);
        Ok(value)
    }

    /// Reads a key, without a note of that.
    async fn look(&self, table: TableId, key: &[u8]) -> Result<UnlockedRead, TxnError> {
        self.check_fits(table, key, &[])?;
        let seen = self.database.look(table, key).await?;
        if let Some(by) = seen.lock {
            return Err(self.database.conflict_with(table, key, by).await);
        }
        #[cfg(test)]
        let seen = self.look_again_later(table, key, seen).await?;
        let version = seen.item.as_ref().map_or(0, |item| item.version);
        Ok(UnlockedRead {
            table,
            key: key.to_vec(),
            value: seen.item.map(|item| item.value),
            version,
            witness: seen.witness,
        })
    }

    async fn try_read_many(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError> {
        let mut in_leaves = Vec::new();
        for (table, key) in keys {
            if self.database.is_ordered(*table)? {
                self.check_fits(*table, key, &[])?;
                self.leaf(*table, key).await?;
                in_leaves.push((*table, *key));
            }
        }
        let unknown = keys.iter().enumerate().filter(|(at, (table, key))| {
            self.find_entry(*table, key).is_none()
                && self.find_read(*table, key).is_none()
                && !in_leaves.contains(&(*table, *key))
                && !keys[..*at].contains(&(*table, key))
        });
        let looks = unknown.map(|(_, (table, key))| self.look(*table, key));
        let looks: Vec<_> = looks.collect();
        let mut ends = Vec::new();
        window(WINDOW, looks, |_, end| ends.push(end)).await;
        for end in ends {
            self.reads.push(end?);
        }
        let values = keys.iter().map(|(table, key)| {
            if let Some(at) = self.find_entry(*table, key) {
                return self.entries[at].value().cloned();
            }
            self.known(*table, key).map(Into::into)
        });
        Ok(values.collect())
    }

    async fn lock_many(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError> {
        let first = self.entries.len();
        for (table, key) in keys {
            self.check_fits(*table, key, &[])?;
            if self.find_entry(*table, key).is_none() {
                self.add_entry(*table, key);
            }
        }
        self.lock_from(first).await?;
        let values = keys.iter().map(|(table, key)| {
            let at = self.find_entry(*table, key);
            at.and_then(|at| self.entries[at].value().cloned())
        });
        Ok(values.collect())
    }

    pub(crate) fn find_entry(&self, table: TableId, key: &[u8]) -> Option<usize> {
        let mut entries = self.entries.iter();
        entries.position(|entry| entry.table == table && entry.key == key)
    }

    /// What it has read of a key, in any way.
    fn known(&self, table: TableId, key: &[u8]) -> Option<&[u8]> {
        if let Some(read) = self.find_read(table, key) {
            return read.value.as_deref();
        }
        self.find_leaf(table, key)?.leaf.get(key)
    }

    fn find_read(&self, table: TableId, key: &[u8]) -> Option<&UnlockedRead> {
        let mut reads = self.reads.iter();
        reads.find(|read| read.table == table && read.key == key)
    }

    /// The entry of a key that is to be changed; locked, where locks are taken in the execution
    /// phase.
    async fn entry(&mut self, table: TableId, key: &[u8]) -> Result<usize, TxnError> {
        if let Some(at) = self.find_entry(table, key) {
            return Ok(at);
        }
        let at = self.add_entry(table, key);
        if self.locking == Locking::Execution {
            self.lock_from(at).await?;
        }
        Ok(at)
    }

    /// An entry of a key that has none, not locked.
    fn add_entry(&mut self, table: TableId, key: &[u8]) -> usize {
        let was = self.known(table, key).map(Into::into);
        self.entries.push(Entry {
            table,
            key: key.to_vec(),
            is_locked: false,
            was,
            change: None,
        });
        self.entries.len() - 1
    }

    /// As [`Self::entry`], of a key whose presence is to be known.
    async fn known_entry(&mut self, table: TableId, key: &[u8]) -> Result<usize, TxnError> {
        if self.locking == Locking::Commit {
            self.try_read(table, key).await?;
        }
        self.check_fits(table, key, &[])?;
        self.entry(table, key).await
    }

    /// Names the transaction before its first lock, by the node of that lock; and notes that it
    /// will hold something at this entry's node.
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

    /// Locks the entries from one on, side by side. A transaction that holds none yet opens with
    /// the first, which is on its way before the others: at its home, these are locked only if that
    /// one is.
    pub(crate) async fn lock_from(&mut self, first: usize) -> Result<(), TxnError> {
        for at in first..self.entries.len() {
            self.open(at).await?;
        }
        let holds_none = !self.entries.iter().any(|entry| entry.is_locked);
        let locks = (first..self.entries.len()).map(|at| {
            let opens = holds_none && at == first;
            self.acquire(at, opens)
        });
        let locks: Vec<_> = locks.collect();
        let mut ends = Vec::new();
        window(WINDOW, locks, |number, end| ends.push((number, end))).await;
        let mut first_error = Ok(());
        for (number, end) in ends {
            let entry = &mut self.entries[first + number];
            match end {
                Ok(was) => (entry.was, entry.is_locked) = (was, true),
                // Whoever meets another's lock may try again; one that was refused for want of the
                // first may only say so.
                Err(error)
                    if first_error.is_ok() || !matches!(error, TxnError::LeaseOver { .. }) =>
                {
                    first_error = Err(error);
                }
                Err(_) => {}
            }
        }
        first_error
    }

    /// Locks an entry's key; returns what it has. What was read of it before must be what it still
    /// has.
    async fn acquire(&self, at: usize, opens: bool) -> Result<Option<Vec<u8>>, TxnError> {
        let entry = &self.entries[at];
        let (table, key) = (entry.table, &*entry.key);
        let lock = self.lock.ok_or(TxnError::Failed)?;
        #[cfg(test)]
        if let Some(value) = self.acquire_nothing(table, key).await? {
            return Ok(value);
        }
        match self.database.lock(table, key, lock, opens).await? {
            Locked::LeaseOver => {
                if opens {
                    self.database.drop_names(lock);
                }
                Err(TxnError::LeaseOver { lock })
            }
            Locked::ByOther(by) => Err(self.database.conflict(table, key, by).await),
            Locked::Held { version, value } => {
                let read = self.find_read(table, key);
                let is_changed = |read: &UnlockedRead| {
                    read.version != version || read.value.is_some() != value.is_some()
                };
                let leaf = self.find_leaf(table, key);
                if read.is_some_and(is_changed)
                    || leaf.is_some_and(|leaf| leaf.leaf.version != version)
                {
                    return Err(changed(table, key));
                }
                Ok(value)
            }
        }
    }
}

pub(crate) fn changed(table: TableId, key: &[u8]) -> TxnError {
    TxnError::Conflict {
        table,
        key: key.to_vec(),
        cause: ConflictCause::Changed,
    }
}
