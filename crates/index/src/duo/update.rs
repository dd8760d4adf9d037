//! Replacing the value of a key that is present.
//!
//! Invariant: at every moment, a slot with the key's head is whole and its record the last one that
//! was acknowledged, or a newer one: in its place, or in the journal, which goes first. So an owner
//! may stop anywhere.

use super::batch::Batch;
use super::bytes::SlotNumber;
use super::state::{DuoTable, Key};
use crate::Result;
use farslot_fabric::{Buffer, Endpoint};

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn update_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let key = self.key(key)?;
        self.layout.shape().check_value(value)?;
        loop {
            let _held = self.hold(&key).await?;
            let Some((there, read)) = self.find_held(&key).await? else {
                return Ok(false);
            };
            if self.replace(there, read.reference, &key, value).await? {
                return Ok(true);
            }
        }
    }

    /// Replaces the record of a slot, and what the slot names, if that is where its record is, in
    /// one batch; false if it has to wait until what is in doubt is settled.
    pub(super) async fn replace(
        &self,
        slot: SlotNumber,
        reference: u64,
        key: &Key<'_>,
        value: &[u8],
    ) -> Result<bool> {
        if let Some(heap) = &self.heap {
            let new = self.new_record(heap, key.bytes, value).await?;
            let mut batch = self.batch();
            let to = new.reference;
            batch.record(new);
            batch.refer(slot, reference, to);
            self.run(batch).await?;
            self.free(self.layout.block_of(reference)).await;
            return Ok(true);
        }
        let given_up = || !self.is_settled();
        let Some(journal) = self.journal.take(given_up).await else {
            return Ok(false);
        };
        let pool = &self.endpoint.core().buffers;
        let body = || self.layout.body_of(pool, key.bytes, value);
        let (first, second) = match (body(), body()) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(error), _) | (_, Err(error)) => {
                self.journal.give_back(journal);
                return Err(error);
            }
        };
        self.run(self.replacing((slot, second), (journal, first), key.head()))
            .await?;
        self.journal.give_back(journal);
        Ok(true)
    }

    /// Replaces the record of a live slot with this head, by way of a slot of the journal.
    pub(super) fn replacing(
        &self,
        (slot, body): (SlotNumber, Buffer),
        (journal, same): (SlotNumber, Buffer),
        head: u64,
    ) -> Batch<'_, E> {
        let mut batch = self.batch();
        batch.fill(journal, head, same);
        batch.overwrite(slot, body);
        batch.kill(journal, head);
        batch
    }
}
