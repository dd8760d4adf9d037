//! The queue's operations as a client has them.

use super::item::Front;
use super::structure::{Head, LEN, POP, PUSH, Queue};
use crate::{ObjectId, PolicyOptions, Remote, RemoteError};
use farslot_fabric::Endpoint;
use farslot_rpc::Client;
use std::rc::Rc;

/// One thread's client of a queue.
pub struct Fifo<E>(Remote<Queue, E>);

impl<E: Endpoint> Fifo<E> {
    /// A client that does not know where the front is yet.
    pub fn new(
        queue: Queue,
        object: ObjectId,
        client: Rc<Client<E>>,
        policy: PolicyOptions,
    ) -> Self {
        Self(Remote::new(queue, object, client, Head::default(), policy))
    }

    /// Lookups of the front, as any remote data structure has them, and how they were answered.
    pub fn remote(&self) -> &Remote<Queue, E> {
        &self.0
    }

    /// The first item, which stays; `None` of an empty queue. By one READ if it is where the front
    /// was last.
    ///
    /// # Errors
    /// [`RemoteError`]; so do all that follow.
    pub async fn front(&self) -> Result<Option<Front>, RemoteError> {
        self.0.lookup(&()).await
    }

    /// Adds an item behind all others; returns its position.
    ///
    /// # Errors
    /// [`RemoteError::Full`], [`RemoteError::TooLong`], and others.
    pub async fn push(&self, value: &[u8]) -> Result<u64, RemoteError> {
        let (what, bytes) = ("an item", value.len());
        let limit = self.0.structure().shape().value_bytes as usize;
        if bytes > limit {
            return Err(RemoteError::TooLong { what, bytes, limit });
        }
        self.word(&[&[PUSH], value].concat()).await
    }

    /// Takes the first item; `None` of an empty queue.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn pop(&self) -> Result<Option<Front>, RemoteError> {
        let reply = self.0.change(&[POP]).await?;
        let front = Queue::read_reply(&reply).ok_or(RemoteError::BadReply)?;
        if let Some(front) = &front {
            self.0.cache().taken(front.position);
        }
        Ok(front)
    }

    /// How many items there are.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn len(&self) -> Result<u64, RemoteError> {
        self.word(&[LEN]).await
    }

    /// Whether there is no item.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn is_empty(&self) -> Result<bool, RemoteError> {
        Ok(self.len().await? == 0)
    }

    async fn word(&self, request: &[u8]) -> Result<u64, RemoteError> {
        let reply = self.0.change(request).await?;
        let word = (*reply).try_into().map_err(|_| RemoteError::BadReply)?;
        Ok(u64::from_le_bytes(word))
    }
}
