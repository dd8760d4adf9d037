//! Replacing the value of a key that is present, where slots have heads.

use super::client::{Key, LinearTable};
use super::cluster_hints::Until;
use super::insert::Draft;
use super::probe::Probe;
use super::walk::Spot;
use crate::heap::NamedBlocks;
use crate::slot::KeyRule;
use crate::{IndexError, Result};
use farslot_fabric::Endpoint;

impl<E: Endpoint> LinearTable<E> {
    pub(super) async fn update_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.layout.keys == KeyRule::Multi {
            return Err(IndexError::MultiKey {
                operation: "update",
            });
        }
        let key = self.checked_key(key)?;
        loop {
            let mut draft = self.draft(&key, value)?;
            let outcome = self.update_draft(&key, &mut draft).await;
            let outcome = self.settle(draft, outcome).await;
            if !self.has_room_again(&outcome).await {
                return outcome;
            }
        }
    }

    /// Replaces the key's value if it is `expected`. The slot's word is replaced that was read with
    /// the value, so that no other value is.
    pub(super) async fn replace_value(
        &self,
        key: &[u8],
        expected: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        if self.layout.keys == KeyRule::Multi {
            return Err(IndexError::MultiKey {
                operation: "replacing a value",
            });
        }
        let key = self.checked_key(key)?;
        loop {
            let mut draft = self.draft(&key, value)?;
            let outcome = self.replace_expected(&key, expected, &mut draft).await;
            let outcome = self.settle(draft, outcome).await;
            if !self.has_room_again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn replace_expected(
        &self,
        key: &Key<'_>,
        expected: &[u8],
        draft: &mut Draft<'_>,
    ) -> Result<bool> {
        let mut probe = Probe::new(key, Until::Match);
        loop {
            let spot = self.locate(key, &mut probe).await?;
            let Spot::Mine {
                word,
                value: Some(there),
            } = spot
            else {
                return Ok(false);
            };
            if *there != *expected {
                return Ok(false);
            }
            if self.replace(key, &mut probe, word, draft).await? {
                return Ok(true);
            }
        }
    }

    async fn update_draft(&self, key: &Key<'_>, draft: &mut Draft<'_>) -> Result<bool> {
        if self.replace_at_location(key, draft).await? {
            return Ok(true);
        }
        let mut probe = Probe::new(key, Until::Match);
        loop {
            let spot = self.locate(key, &mut probe).await?;
            let Spot::Mine {
                word,
                value: Some(_),
            } = spot
            else {
                return Ok(false);
            };
            if self.replace(key, &mut probe, word, draft).await? {
                return Ok(true);
            }
        }
    }
}
