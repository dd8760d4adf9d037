//! Replacing the value of a key that is present.
//!
//! Invariant: at every moment, a slot with the key's head is whole and its record the last one that
//! was acknowledged, or a newer one: in its place, or in the journal, which goes first. So an owner
//! may stop anywhere.

use super::batch::Batch;
use super::bytes::SlotNumber;
use super::state::{DuoTable, Key};
use crate::Result;
use farslot_fabric::Endpoint;

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn update_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let key = self.key(key)?;
        self.layout.shape().check_value(value)?;
        loop {
            let _held = self.hold(&key).await?;
            let Some((there, read)) = self.find_held(&key).await? else {
                return Ok(false);
            };
            if self.replace(there, read.second, &key, value).await? {
                return Ok(true);
            }
        }
    }

    /// Replaces the record of a slot with this word behind its head, and what that names, if the
    /// record is there, in one batch; false if it has to wait until what is in doubt is settled.
    pub(super) async fn replace(
        &self,
        slot: SlotNumber,
        second: u64,
        key: &Key<'_>,
        value: &[u8],
    ) -> Result<bool> {
        if let Some(heap) = &self.heap {
            let new = self.new_record(heap, key.bytes, value).await?;
            let mut batch = self.batch();
            let to = new.reference;
            batch.record(new);
            batch.refer(slot, second, to);
            self.run(batch).await?;
            self.free(self.layout.block_of(second)).await;
            return Ok(true);
        }
        let given_up = || !self.is_settled();
        let Some(journal) = self.journal.take(given_up).await else {
            return Ok(false);
        };
        match self.replacing((slot, journal), key.head(), (key.bytes, value)) {
            Ok(batch) => self.run(batch).await?,
            Err(error) => {
                self.journal.give_back(journal);
                return Err(error);
            }
        }
        self.journal.give_back(journal);
        Ok(true)
    }

    /// Replaces the record of a live slot with this head, by way of a slot of the journal.
    pub(super) fn replacing(
        &self,
        (slot, journal): (SlotNumber, SlotNumber),
        head: u64,
        (key, value): (&[u8], &[u8]),
    ) -> Result<Batch<'_, E>> {
        let pool = &self.endpoint.core().buffers;
        let body = || self.layout.body_of(pool, key, value);
        let (first, second) = (body()?, body()?);
        let publishing = first.words()[0];
        let mut batch = self.batch();
        batch.fill(journal, head, first)?;
        batch.overwrite(slot, second);
        batch.kill(journal, head, publishing);
        Ok(batch)
    }
}
