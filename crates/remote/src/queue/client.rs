//! The queue's operations as a client has them.

use super::structure::{FrontHint, Queue};
use super::wire::{
    MOST_BYTES, MOST_ITEMS, QueueItem, Request, item_bytes, leads_on, read_items, read_told,
};
use crate::{ObjectId, PolicyOptions, RemoteError, RemoteStructure, StructureClient};
use farslot_fabric::Endpoint;
use farslot_rpc::{Client, Reply};
use std::rc::Rc;

/// One thread's client of a queue.
pub struct Fifo<E>(StructureClient<Queue, E>);

impl<E: Endpoint> Fifo<E> {
    /// A client that does not know where the front is yet.
    pub fn new(
        queue: Queue,
        object: ObjectId,
        client: Rc<Client<E>>,
        policy: PolicyOptions,
    ) -> Self {
        Self(StructureClient::new(
            queue,
            object,
            client,
            FrontHint::default(),
            policy,
        ))
    }

    /// Lookups of the front, as any remote data structure has them, and how they were answered.
    pub fn remote(&self) -> &StructureClient<Queue, E> {
        &self.0
    }

    /// The first item, which stays; `None` of an empty queue. By one READ if it is where the front
    /// was last.
    ///
    /// # Errors
    /// [`RemoteError`]; so do all that follow.
    pub async fn front(&self) -> Result<Option<QueueItem>, RemoteError> {
        self.0.lookup(&()).await
    }

    /// Adds an item behind all others; returns its position.
    ///
    /// # Errors
    /// [`RemoteError::Full`], [`RemoteError::TooLong`], and others.
    pub async fn push(&self, value: &[u8]) -> Result<u64, RemoteError> {
        self.push_all(&[value]).await
    }

    /// Adds items one behind the other, all or none, by one call; returns the position of the
    /// first. No more than [`MOST_ITEMS`], and of several no more than [`MOST_BYTES`].
    ///
    /// # Errors
    /// See [`Fifo::push`].
    pub async fn push_all(&self, values: &[&[u8]]) -> Result<u64, RemoteError> {
        let longest = values.iter().map(|value| value.len()).max().unwrap_or(0);
        check(
            "an item",
            longest,
            self.0.structure().shape().value_bytes as usize,
        )?;
        if let [_, _, ..] = values {
            let bytes = values.iter().map(|value| item_bytes(value.len())).sum();
            check("the items of one push", bytes, MOST_BYTES)?;
            if values.len() > MOST_ITEMS {
                return Err(RemoteError::TooMany {
                    subject: "the items of one push",
                    number: values.len(),
                    limit: MOST_ITEMS,
                });
            }
        }
        let reply = self
            .0
            .change(&Request::Add(values.to_vec()).encode())
            .await?;
        word(&reply)
    }

    /// Takes the first item; `None` of an empty queue.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn pop(&self) -> Result<Option<QueueItem>, RemoteError> {
        Ok(self.take(1, self.0.structure().reply_bytes()).await?.pop())
    }

    /// Takes the first items, at most so many, by one call; fewer if a reply has no room for more.
    /// None of an empty queue alone.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn pop_many(&self, most: u32) -> Result<Vec<QueueItem>, RemoteError> {
        self.take(most, self.0.structure().room()).await
    }

    async fn take(&self, most: u32, room: usize) -> Result<Vec<QueueItem>, RemoteError> {
        let reply = self
            .0
            .change_for(&Request::Take { most }.encode(), room)
            .await?;
        let items = read_items(&reply).filter(|items| items.len() <= most as usize);
        let items = items.ok_or(RemoteError::BadReply)?;
        if let Some(last) = items.last() {
            self.0.cache().taken(last.position);
        }
        Ok(items)
    }

    /// Visits items from a place on, or from the front: as many as a reply has room for, at most so
    /// many. Returns the place to go on at, of those that were there when the front was visited.
    /// Items that are taken meanwhile are visited or not; all others once, in their order.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn visit(
        &self,
        from: Option<u64>,
        most: u32,
        visit: impl FnMut(QueueItem),
    ) -> Result<Option<u64>, RemoteError> {
        let place = from.unwrap_or(0);
        let request = Request::Tell { place, most }.encode();
        let reply = self.0.ask_for(&request, self.0.structure().room()).await?;
        let items_read = read_told(&reply).filter(|(next, _)| leads_on(place, *next));
        let (next, items) = items_read.ok_or(RemoteError::BadReply)?;
        items.into_iter().for_each(visit);
        Ok((next != 0).then_some(next))
    }

    /// How many items there are.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn len(&self) -> Result<u64, RemoteError> {
        word(&self.0.ask(&Request::Count.encode()).await?)
    }

    /// Whether there is no item.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn is_empty(&self) -> Result<bool, RemoteError> {
        Ok(self.len().await? == 0)
    }
}

fn check(subject: &'static str, bytes: usize, limit: usize) -> Result<(), RemoteError> {
    match bytes > limit {
        true => Err(RemoteError::TooLong {
            subject,
            bytes,
            limit,
        }),
        false => Ok(()),
    }
}

fn word(reply: &Reply) -> Result<u64, RemoteError> {
    let word = (**reply).try_into().map_err(|_| RemoteError::BadReply)?;
    Ok(u64::from_le_bytes(word))
}
