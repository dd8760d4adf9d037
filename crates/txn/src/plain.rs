//! Operations of one key, outside of any transaction: each is one that commits by itself.

use crate::database::{Database, TableClient};
use crate::error::{ConflictCause, TxnError};
use crate::identity::TableId;
use crate::run::Attempts;
use farslot_fabric::Endpoint;
use farslot_remote::{Lock, RemoteError};

/// What becomes of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyChange<'v> {
    /// It has this value, whether it was there or not.
    Put(&'v [u8]),
    /// It has this value, if it was absent.
    Insert(&'v [u8]),
    /// It has this value, if it was there.
    Update(&'v [u8]),
    /// It is gone.
    Remove,
}

impl<E: Endpoint> Database<E> {
    /// What a key has: by one READ, if that tells.
    ///
    /// # Errors
    /// [`TxnError`]; so do all that follow.
    pub async fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxnError> {
        let mut attempts = Attempts::new(self);
        loop {
            match self.begin().read(table, key).await {
                Err(error) if attempts.has_another_after(&error) => attempts.pause().await,
                end => return end,
            }
        }
    }

    /// Changes a key, by one call; returns whether it was there before. While a transaction holds
    /// the key, it is tried again as a transaction is.
    ///
    /// # Errors
    /// See [`Database::get`].
    pub async fn change(
        &self,
        table: TableId,
        key: &[u8],
        change: KeyChange<'_>,
    ) -> Result<bool, TxnError> {
        let mut attempts = Attempts::new(self);
        loop {
            let error = match self.try_change(table, key, change).await {
                Err(TxnError::Remote(RemoteError::Locked { by })) => {
                    self.held(table, key, by).await
                }
                end => return end,
            };
            if !attempts.has_another_after(&error) {
                return Err(error);
            }
            attempts.pause().await;
        }
    }

    async fn try_change(
        &self,
        table: TableId,
        key: &[u8],
        change: KeyChange<'_>,
    ) -> Result<bool, TxnError> {
        let served = self.table(table)?;
        Ok(match &served.client {
            TableClient::Chained(table) => match change {
                KeyChange::Put(value) => !table.put(key, value).await?,
                KeyChange::Insert(value) => !table.insert(key, value).await?,
                KeyChange::Update(value) => table.update(key, value).await?,
                KeyChange::Remove => table.remove(key).await?,
            },
            TableClient::Ordered(map) => match change {
                KeyChange::Put(value) => !map.put(key, value).await?,
                KeyChange::Insert(value) => !map.insert(key, value).await?,
                KeyChange::Update(value) => map.update(key, value).await?,
                KeyChange::Remove => map.remove(key).await?,
            },
        })
    }

    /// The error for a key that a transaction holds, or held a moment ago.
    async fn held(&self, table: TableId, key: &[u8], by: Lock) -> TxnError {
        let holder = match self.is_ordered(table) {
            Ok(true) => self.leaf(table, key).await.map(|leaf| leaf.lock),
            other => other.map(|_| Some(by)),
        };
        match holder {
            Ok(Some(by)) => self.conflict_with(table, key, by).await,
            Ok(None) => TxnError::Conflict {
                table,
                key: key.to_vec(),
                cause: ConflictCause::Locked { by },
            },
            Err(error) => error,
        }
    }

    /// How many keys a table has.
    ///
    /// # Errors
    /// See [`Database::get`].
    pub async fn count(&self, table: TableId) -> Result<u64, TxnError> {
        Ok(match &self.table(table)?.client {
            TableClient::Chained(table) => table.len().await?,
            TableClient::Ordered(map) => map.len().await?,
        })
    }

    /// Visits a piece of a table, from a place that was returned, or from its beginning; returns
    /// where to go on. Each piece is a few buckets, or a leaf, as they were at one moment; a bucket
    /// larger than a reply is several pieces. A key that is there all along is met at least once,
    /// and in an ordered map exactly once. Locks are not looked at: what a transaction has decided
    /// and not yet applied at the table's node is met as it was before.
    ///
    /// # Errors
    /// See [`Database::get`].
    pub async fn visit(
        &self,
        table: TableId,
        from: Option<u64>,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>, TxnError> {
        Ok(match &self.table(table)?.client {
            TableClient::Chained(table) => table.visit(from.unwrap_or(0), visit).await?,
            TableClient::Ordered(map) => map.visit(from, visit).await?,
        })
    }
}
