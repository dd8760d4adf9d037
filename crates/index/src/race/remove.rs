//! Removing a key. Its slot is empty then, for whichever key comes next.

use super::client::RaceTable;
use super::search::{Found, Learnt};
use super::word::Word;
use crate::Result;
use farslot_fabric::Endpoint;

impl<E: Endpoint> RaceTable<E> {
    /// Removes the key; with an `expected` value only if it has that. The slot's word is emptied
    /// that named the record with the value, so that no other value is removed.
    pub(super) async fn remove_record(&self, key: &[u8], expected: Option<&[u8]>) -> Result<bool> {
        let key = self.checked_key(key)?;
        let learnt = Learnt::default();
        loop {
            let view = self.current(&key, &learnt.attempts).await?;
            match self.search(&key, &view, &learnt).await? {
                Found::Present { slot, word, value } => {
                    if expected.is_some_and(|expected| *value != *expected) {
                        return Ok(false);
                    }
                    drop(value);
                    let empty = Word::empty(word.depth());
                    let since = self.heap.epoch();
                    let found = self.swap(view.leaf.subtable, slot, word, empty).await?;
                    if found == word {
                        self.heap.free_since(word.block(), since).await;
                        self.entries_changed(-1).await;
                        return Ok(true);
                    }
                    self.lost_race(&learnt, view.leaf, slot).await?;
                }
                Found::Absent => return Ok(false),
                Found::Unclear { slot } => self.was_unclear(&learnt, view.leaf, slot).await?,
            }
        }
    }
}
