//! Replacing the value of a key that is present.

use super::client::{Key, RaceTable};
use super::insert::Draft;
use super::search::{Found, Learnt};
use crate::Result;
use crate::heap::NamedBlocks;
use farslot_fabric::Endpoint;

impl<E: Endpoint> RaceTable<E> {
    pub(super) async fn update_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let key = self.checked_key(key)?;
        loop {
            let mut draft = self.draft(value)?;
            let outcome = self.update_draft(&key, None, &mut draft).await;
            let outcome = self.settle(draft, outcome).await;
            if !self.has_room_again(&outcome).await {
                return outcome;
            }
        }
    }

    /// Replaces the key's value if it is `expected`. The slot's word is replaced that named the
    /// record with the value, so that no other value is.
    pub(super) async fn replace_value(
        &self,
        key: &[u8],
        expected: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let key = self.checked_key(key)?;
        loop {
            let mut draft = self.draft(value)?;
            let outcome = self.update_draft(&key, Some(expected), &mut draft).await;
            let outcome = self.settle(draft, outcome).await;
            if !self.has_room_again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn update_draft(
        &self,
        key: &Key<'_>,
        expected: Option<&[u8]>,
        draft: &mut Draft<'_>,
    ) -> Result<bool> {
        let learnt = Learnt::default();
        let mut view = self.write_and_read(key, draft, &learnt).await?;
        loop {
            match self.search(key, &view, &learnt).await? {
                Found::Present { slot, word, value } => {
                    if expected.is_some_and(|expected| *value != *expected) {
                        return Ok(false);
                    }
                    drop(value);
                    if self.replace(key, view.leaf, (slot, word), draft).await? {
                        return Ok(true);
                    }
                    self.lost_race(&learnt, view.leaf, slot).await?;
                }
                Found::Absent => return Ok(false),
                Found::Unclear { slot } => self.was_unclear(&learnt, view.leaf, slot).await?,
            }
            view = self.current(key, &learnt.attempts).await?;
        }
    }
}
