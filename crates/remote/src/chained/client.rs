//! The table's operations as a client has them.

use super::cache::Cache;
use super::item::VersionedValue;
use super::layout::KEYS;
use super::request::{ChainedRequest, Operation, Outcome};
use super::structure::Table;
use super::visit::{VISIT_ROOM, read_visited};
use super::witness::Observation;
use crate::{Lock, ObjectId, PolicyOptions, RemoteError, StructureClient};
use farslot_fabric::Endpoint;
use farslot_rpc::{Client, RpcError};
use std::rc::Rc;

/// One thread's client of a table.
pub struct Chained<E>(StructureClient<Table, E>);

impl<E: Endpoint> Chained<E> {
    /// A client that remembers where so many chained keys are.
    pub fn new(
        table: Table,
        object: ObjectId,
        client: Rc<Client<E>>,
        places: usize,
        policy: PolicyOptions,
    ) -> Self {
        Self(StructureClient::new(
            table,
            object,
            client,
            Cache::new(places),
            policy,
        ))
    }

    /// Lookups, as any remote data structure has them, and how they were answered.
    pub fn remote(&self) -> &StructureClient<Table, E> {
        &self.0
    }

    /// What the key has, by a READ if that tells.
    ///
    /// # Errors
    /// [`RemoteError`]; so do all that follow, [`RemoteError::Locked`] where they say so.
    pub async fn get(&self, key: &[u8]) -> Result<Option<VersionedValue>, RemoteError> {
        Ok(self.observe(key).await?.item)
    }

    /// What the key has and who holds it, by a READ if that tells; and what shows later whether it
    /// still is so.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn observe(&self, key: &[u8]) -> Result<Observation, RemoteError> {
        self.check(key, &[])?;
        let seen = self.0.lookup(key).await?;
        seen.ok_or(RemoteError::BadReply)
    }

    /// How many keys there are.
    ///
    /// # Errors
    /// [`RemoteError::Fabric`].
    pub async fn len(&self) -> Result<u64, RemoteError> {
        let at = self.table().shape().header(KEYS);
        Ok(self.0.read(at, 8).await?.words()[0])
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// [`RemoteError::Fabric`].
    pub async fn is_empty(&self) -> Result<bool, RemoteError> {
        Ok(self.len().await? == 0)
    }

    /// Visits keys from a place on, at first from 0; returns where to go on, which is below 2^48. A
    /// bucket that is split has its keys in later ones: so a key that is there all along is met, by
    /// one that has gone through all, at least once; and more than once only if the table grows
    /// meanwhile.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn visit(
        &self,
        from: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>, RemoteError> {
        let request = ChainedRequest {
            operation: Operation::Visit,
            lock: from,
            key: &[],
            value: &[],
        };
        let mut room = VISIT_ROOM;
        let reply = loop {
            match self.0.ask_for(&request.encode(), room).await {
                Err(RemoteError::Rpc(RpcError::NoRoom { bytes, .. })) if bytes > room => {
                    room = bytes;
                }
                end => break end?,
            }
        };
        read_visited(from, &reply, &mut visit).ok_or(RemoteError::BadReply)
    }

    fn table(&self) -> &Table {
        self.0.structure()
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
    pub async fn lock(
        &self,
        key: &[u8],
        lock: Lock,
    ) -> Result<Option<VersionedValue>, RemoteError> {
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
        let shape = self.table().shape();
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

    async fn ask(
        &self,
        operation: Operation,
        lock: Option<Lock>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(Outcome, Option<VersionedValue>), RemoteError> {
        self.check(key, value)?;
        let request = ChainedRequest {
            operation,
            lock: lock.map_or(0, Lock::word),
            key,
            value,
        };
        let reply = self.0.change(&request.encode()).await?;
        let read = self.table().read_reply(key, &reply, &mut self.0.cache());
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
