//! What a transaction's code does, wherever it runs.

use crate::error::TxnError;
use crate::identity::TableId;
use crate::transaction::Transaction;
use farslot_fabric::Endpoint;

/// The steps of a transaction: a client's [`Transaction`], or one that the owner of its keys runs
/// itself ([`Local`](crate::Local)). Code over this trait is written once and runs at either.
#[allow(
    async_fn_in_trait,
    reason = "transactions belong to a thread, and so do their futures"
)]
pub trait Steps {
    /// What each of the keys has.
    ///
    /// # Errors
    /// [`TxnError`]; so do all that follow.
    async fn read_many(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError>;

    /// As [`Steps::read_many`], of keys that are to be written.
    ///
    /// # Errors
    /// See [`Steps::read_many`].
    async fn read_for_update(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError>;

    /// What the key has.
    ///
    /// # Errors
    /// See [`Steps::read_many`].
    async fn read(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxnError>;

    /// Sets the key's value, whether it is there or not.
    ///
    /// # Errors
    /// See [`Steps::read_many`].
    async fn write(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TxnError>;

    /// Sets the value of an absent key. Returns `false`, and changes nothing, if the key is there.
    ///
    /// # Errors
    /// See [`Steps::read_many`].
    async fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, TxnError>;

    /// Removes the key. Returns `false` if it was absent.
    ///
    /// # Errors
    /// See [`Steps::read_many`].
    async fn remove(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxnError>;
}

impl<E: Endpoint> Steps for Transaction<'_, E> {
    async fn read_many(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError> {
        Transaction::read_many(self, keys).await
    }

    async fn read_for_update(
        &mut self,
        keys: &[(TableId, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, TxnError> {
        Transaction::read_for_update(self, keys).await
    }

    async fn read(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxnError> {
        Transaction::read(self, table, key).await
    }

    async fn write(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TxnError> {
        Transaction::write(self, table, key, value).await
    }

    async fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, TxnError> {
        Transaction::insert(self, table, key, value).await
    }

    async fn remove(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxnError> {
        Transaction::remove(self, table, key).await
    }
}
