//! Replacing the value of a key that is present.
//!
//! Invariant: at every moment, a slot with the key's head is whole and its record the last one that was
//! acknowledged, or a newer one: in its place, or in the journal, which goes first. So an owner
//! may stop anywhere.

use super::batch::Batch;
use super::client::{DuoTable, Key};
use super::placement::SlotNumber;
use crate::Result;
use farslot_fabric::Endpoint;

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn update_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let key = self.key(key)?;
        self.layout.shape().check_value(value)?;
        loop {
            let _held = self.hold(&key).await?;
            let matches = self.matches(&key);
            let there = match matches[..] {
                [] => None,
                [only] if self.unverified_updates => Some(only),
                _ => self.find_held(&key).await?.map(|(slot, _)| slot),
            };
            let Some(there) = there else {
                return Ok(false);
            };
            if self.replace(there, &key, value).await? {
                return Ok(true);
            }
        }
    }

    /// Writes the new record over the old one, in one batch; false if it has to wait until what is in doubt
    /// is settled.
    pub(super) async fn replace(
        &self,
        slot: SlotNumber,
        key: &Key<'_>,
        value: &[u8],
    ) -> Result<bool> {
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
        let mut batch = Batch::default();
        batch.fill(journal, key.head(), first);
        batch.overwrite(slot, second);
        batch.kill(journal, key.head());
        self.run(batch).await?;
        self.journal.give_back(journal);
        Ok(true)
    }
}
