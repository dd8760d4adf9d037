//! Locking what an operation changes: the key's buckets, or the whole table.
//!
//! Invariant: a client that holds a lock from here is the owner, and nothing is in doubt.

use super::state::{DuoTable, Key};
use crate::Result;
use crate::client::locks::Held;
use farslot_fabric::Endpoint;

impl<E: Endpoint> DuoTable<E> {
    /// The buckets of a key with this hash, as things stand.
    #[inline]
    pub(super) fn buckets_now(&self, hash: u64) -> [u64; 2] {
        let index = self.index.borrow();
        index.buckets_of(&index.candidates(hash))
    }

    /// Holds a key's buckets as the owner, with nothing in doubt.
    pub(super) async fn hold(&self, key: &Key<'_>) -> Result<Held<'_>> {
        loop {
            key.buckets.set(self.buckets_now(key.hash));
            let held = self.locks.take(&key.buckets.get()).await;
            if self.is_settled() && key.buckets.get() == self.buckets_now(key.hash) {
                return Ok(held);
            }
            let settled = self.is_settled();
            drop(held);
            if !settled {
                drop(self.hold_alone().await?);
            }
        }
    }

    /// Is the owner, with nothing in doubt and nobody else holding anything.
    pub(super) async fn hold_alone(&self) -> Result<Held<'_>> {
        let alone = self.locks.take_alone(&[]).await;
        self.become_owner().await?;
        self.settle_doubts().await?;
        Ok(alone)
    }

    /// Becomes the owner now, and not with the first operation: makes the index, for which it reads
    /// the whole vault unless there never was an owner.
    ///
    /// # Errors
    /// [`IndexError::WriterBusy`](crate::IndexError::WriterBusy),
    /// [`IndexError::Unreadable`](crate::IndexError::Unreadable) for a vault that is damaged, or
    /// what the fabric says.
    pub async fn start(&self) -> Result<()> {
        self.hold_alone().await.map(drop)
    }

    /// Takes a key's buckets, as things stand, which nobody else can hold.
    pub(super) fn add_buckets(&self, key: &Key<'_>, held: &Held<'_>) {
        key.buckets.set(self.buckets_now(key.hash));
        for bucket in key.buckets.get() {
            held.try_add(bucket);
        }
    }
}
