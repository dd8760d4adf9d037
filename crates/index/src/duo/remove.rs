//! Removing a key.
//!
//! A slot's head is the key's hash: so one compare-and-swap both sees whose record it is and makes the
//! slot dead. What stays of the record is behind a head of 0, which is none: nothing brings it
//! back.

use super::client::DuoTable;
use super::layout::live_head;
use crate::Result;
use farslot_fabric::{Endpoint, EndpointExt};

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn remove_record(&self, key: &[u8]) -> Result<bool> {
        let key = self.key(key)?;
        let held = self.hold(&key).await?;
        for slot in self.matches(&key) {
            let doubt = self.doubts.about(vec![slot], &self.journal);
            let at = self.slot_at(slot);
            let head = live_head(key.hash);
            let seen = self.endpoint.compare_swap(at, head, 0).await?;
            doubt.resolve();
            if seen == head {
                self.change_index(|index| index.vacate(slot));
                drop(held);
                self.entries_changed(-1).await;
                return Ok(true);
            }
        }
        Ok(false)
    }
}
