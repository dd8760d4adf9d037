//! Removing a key, where slots have heads. Its slot stays its own, dead, until the key comes back.

use super::client::{Key, LinearTable};
use super::probe::Probe;
use super::walk::Spot;
use crate::slot::{Head, KeyRule};
use crate::{IndexError, Result};
use farslot_fabric::Endpoint;

impl<E: Endpoint> LinearTable<E> {
    pub(super) async fn remove_records(&self, key: &[u8]) -> Result<bool> {
        self.remove_if(key, None).await
    }

    /// Removes the key if its value is `expected`. The slot's word is swapped that was read with
    /// the value, so that no other value is removed.
    pub(super) async fn remove_value(&self, key: &[u8], expected: &[u8]) -> Result<bool> {
        if self.layout.keys == KeyRule::Multi {
            return Err(IndexError::MultiKey {
                operation: "removing a value",
            });
        }
        self.remove_if(key, Some(expected)).await
    }

    async fn remove_if(&self, key: &[u8], expected: Option<&[u8]>) -> Result<bool> {
        let key = self.checked_key(key)?;
        let mut removed = 0;
        let outcome = self.bury_all(&key, expected, &mut removed).await;
        // Of a key with several records some may be gone although the last could not be removed.
        if removed > 0 {
            self.entries_changed(-removed).await;
        }
        match outcome {
            Err(IndexError::TurnOver { .. }) if removed > 0 => {
                Err(IndexError::TurnOver { in_doubt: true })
            }
            outcome => outcome.map(|()| removed > 0),
        }
    }

    async fn bury_all(
        &self,
        key: &Key<'_>,
        expected: Option<&[u8]>,
        removed: &mut i64,
    ) -> Result<()> {
        let mut probe = Probe::new(key, self.until_all());
        while let Spot::Mine { word, value } = self.locate(key, &mut probe).await? {
            if let Some(value) = value {
                if expected.is_some_and(|expected| *value != *expected) {
                    break;
                }
                if !self.bury(key, &mut probe, word).await? {
                    continue;
                }
                *removed += 1;
            }
            if self.layout.keys == KeyRule::Unique {
                break;
            }
            probe.skip();
        }
        Ok(())
    }

    /// Makes the key's slot dead; false if another was faster.
    async fn bury<'t>(
        &'t self,
        key: &Key<'_>,
        probe: &mut Probe<'t, E>,
        seen: u64,
    ) -> Result<bool> {
        let since = self.heap().epoch();
        let buried = self.swap(probe, seen, Head::dead(key.hash)).await?;
        if buried {
            self.forget(key);
            self.free_block_of(seen, since).await;
        }
        Ok(buried)
    }
}
