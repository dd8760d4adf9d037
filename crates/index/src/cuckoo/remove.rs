//! Removing a key.

use super::client::CuckooTable;
use crate::Result;
use farslot_fabric::Endpoint;

impl<E: Endpoint> CuckooTable<E> {
    pub(super) async fn remove_record(&self, key: &[u8]) -> Result<bool> {
        let key = self.checked_key(key)?;
        let held = self.locks.take(key.candidates.as_slice()).await;
        self.become_writer("remove").await?;
        let of_key = self.buckets_of_key(&key);
        let mut buckets = self.read_buckets(of_key.as_slice()).await?;
        let Some(found) = self.only_copy(&key, &mut buckets).await? else {
            return Ok(false);
        };
        let word = self.word_in(&buckets, found.place);
        self.vacate(&mut buckets, found.place).await?;
        // While its buckets are held: nobody looks for blocks without a name meanwhile.
        self.free_block_of(word).await;
        drop(held);
        self.entries_changed(-1).await;
        Ok(true)
    }
}
