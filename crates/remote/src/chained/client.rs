//! The table's operations as a client has them.

use super::cache::Cache;
use super::item::Item;
use super::request::{Ask, Operation, Outcome};
use super::structure::Table;
use crate::{Lock, ObjectId, PolicyOptions, Remote, RemoteError};
use farslot_fabric::Endpoint;
use farslot_rpc::Client;
use std::rc::Rc;

/// One thread's client of a table.
pub struct Chained<E>(Remote<Table, E>);

impl<E: Endpoint> Chained<E> {
    /// A client that remembers where so many chained keys are.
    pub fn new(
        table: Table,
        object: ObjectId,
        client: Rc<Client<E>>,
        places: usize,
        policy: PolicyOptions,
    ) -> Self {
        Self(Remote::new(
            table,
            object,
            client,
            Cache::new(places),
            policy,
        ))
    }

    /// Lookups, as any remote data structure has them, and how they were answered.
    pub fn remote(&self) -> &Remote<Table, E> {
        &self.0
    }

    /// What the key has, by a READ if that tells.
    ///
    /// # Errors
    /// [`RemoteError`]; so do all that follow, [`RemoteError::Locked`] where they say so.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Item>, RemoteError> {
        self.check(key, &[])?;
        self.0.lookup(key).await
    }

    /// Sets the key's value. Returns `true` if the key was absent.
    ///
    /// # Errors
    /// [`RemoteError::Locked`], [`RemoteError::Full`], and others.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, RemoteError> {
        let (was, _) = self.ask(Operation::Put, None, key, value).await?;
        Ok(was == Outcome::Absent)
    }

    /// Sets the value of an absent key. Returns `false`, and does nothing, if the key is there.
    ///
    /// # Errors
    /// [`RemoteError::Locked`], [`RemoteError::Full`], and others.
    pub async fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, RemoteError> {
        let (was, _) = self.ask(Operation::Insert, None, key, value).await?;
        Ok(was == Outcome::Absent)
    }

    /// Sets the value of a key that is there. Returns `false`, and does nothing, if the key is
    /// absent.
    ///
    /// # Errors
    /// [`RemoteError::Locked`] and others.
    pub async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool, RemoteError> {
        let (was, _) = self.ask(Operation::Update, None, key, value).await?;
        Ok(was == Outcome::Present)
    }

    /// Removes the key. Returns `false` if it was absent.
    ///
    /// # Errors
    /// [`RemoteError::Locked`] and others.
    pub async fn remove(&self, key: &[u8]) -> Result<bool, RemoteError> {
        let (was, _) = self.ask(Operation::Remove, None, key, &[]).await?;
        Ok(was == Outcome::Present)
    }

    /// Locks the key, and returns what it has (paper 003, section 5.4: locks in the execution
    /// phase). An absent key is locked as well, so that nobody else inserts it. A lock that is held
    /// already is held on.
    ///
    /// # Errors
    /// [`RemoteError::Locked`] by another, [`RemoteError::Full`], and others.
    pub async fn lock(&self, key: &[u8], lock: Lock) -> Result<Option<Item>, RemoteError> {
        let (was, item) = self.ask(Operation::Lock, Some(lock), key, &[]).await?;
        Ok(item.filter(|_| was == Outcome::Present))
    }

    /// Sets the value of a key that is locked, or removes it, and unlocks it.
    ///
    /// # Errors
    /// [`RemoteError::NotHeld`] and others.
    pub async fn commit(
        &self,
        key: &[u8],
        lock: Lock,
        value: Option<&[u8]>,
    ) -> Result<(), RemoteError> {
        let operation = match value {
            Some(_) => Operation::Commit,
            None => Operation::CommitRemove,
        };
        let value = value.unwrap_or(&[]);
        self.ask(operation, Some(lock), key, value).await.map(drop)
    }

    /// Unlocks a key and leaves it as it was.
    ///
    /// # Errors
    /// [`RemoteError::NotHeld`] and others.
    pub async fn unlock(&self, key: &[u8], lock: Lock) -> Result<(), RemoteError> {
        self.ask(Operation::Unlock, Some(lock), key, &[])
            .await
            .map(drop)
    }

    fn check(&self, key: &[u8], value: &[u8]) -> Result<(), RemoteError> {
        let shape = self.0.structure().shape();
        for (what, bytes, limit) in [
            ("a key", key.len(), shape.key_bytes.into()),
            ("a value", value.len(), shape.value_bytes.into()),
        ] {
            if bytes > limit {
                return Err(RemoteError::TooLong { what, bytes, limit });
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        operation: Operation,
        lock: Option<Lock>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(Outcome, Option<Item>), RemoteError> {
        self.check(key, value)?;
        let ask = Ask {
            operation,
            lock: lock.map_or(0, Lock::word),
            key,
            value,
        };
        let reply = self.0.change(&ask.encode()).await?;
        let table = self.0.structure();
        let read = table.read_reply(key, &reply, &mut self.0.cache());
        let (outcome, item, holder) = read.ok_or(RemoteError::BadReply)?;
        match outcome {
            Outcome::Locked => {
                let by = holder.ok_or(RemoteError::BadReply)?;
                Err(RemoteError::Locked { by })
            }
            Outcome::NotHeld => match lock {
                Some(lock) => Err(RemoteError::NotHeld { lock }),
                None => Err(RemoteError::BadReply),
            },
            Outcome::Absent | Outcome::Present => Ok((outcome, item)),
        }
    }
}
