//! Commits that are broken on purpose: the checker must notice each.

use crate::error::TxnError;
use crate::identity::TableId;
use crate::transaction::{Change, Transaction};
use farslot_fabric::{Endpoint, EndpointExt};
use farslot_remote::chained::{Chained, Observation};
use farslot_remote::{Lock, RemoteError};

/// What is left out, or done in the wrong order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProtocolBreach {
    /// No read is validated.
    NoValidation,
    /// Reads of absent keys are not validated.
    NoAbsence,
    /// Nothing is locked; changes are made one after the other at the commit.
    NoLock,
    /// Nothing is locked, and changes are made at once.
    WriteThrough,
    /// Locks are released, and then the changes are made.
    UnlockFirst,
    /// The witness of a read is taken after the value.
    LateVersion,
    /// Leaves that were scanned are not validated.
    NoRange,
    /// Owners commit and release without a look at the locks, as FORD does.
    BlindRelease,
    /// A home forgets that it has said of a transaction that it is aborted.
    NoNote,
}

impl ProtocolBreach {
    /// Whether it is the owners' doing, of whom nobody else knows.
    pub(crate) const fn is_of_owners(self) -> bool {
        matches!(self, Self::BlindRelease | Self::NoNote)
    }
}

pub(crate) struct BrokenProtocol<E> {
    pub(crate) breach: ProtocolBreach,
    /// For each table of the database, a client without transactions.
    pub(crate) tables: Vec<Chained<E>>,
}

impl<E: Endpoint> Transaction<'_, E> {
    fn breach(&self) -> Option<ProtocolBreach> {
        self.database.broken.as_ref().map(|broken| broken.breach)
    }

    pub(crate) fn is_validated(&self, is_there: bool) -> bool {
        match self.breach() {
            Some(ProtocolBreach::NoValidation | ProtocolBreach::WriteThrough) => false,
            Some(ProtocolBreach::NoAbsence) => is_there,
            _ => true,
        }
    }

    pub(crate) fn is_leaf_validated(&self, is_scanned: bool) -> bool {
        match self.breach() {
            Some(ProtocolBreach::NoRange) => !is_scanned,
            Some(ProtocolBreach::NoValidation | ProtocolBreach::WriteThrough) => false,
            _ => true,
        }
    }

    /// In place of a lock: what the key has; nothing if it is to be locked.
    pub(crate) async fn acquire_nothing(
        &self,
        table: TableId,
        key: &[u8],
    ) -> Result<Option<Option<Vec<u8>>>, TxnError> {
        if !matches!(
            self.breach(),
            Some(ProtocolBreach::NoLock | ProtocolBreach::WriteThrough)
        ) {
            return Ok(None);
        }
        let seen = self.database.look(table, key).await?;
        Ok(Some(seen.item.map(|item| item.value)))
    }

    pub(crate) async fn write_through(
        &self,
        table: TableId,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TxnError> {
        match self.breach() {
            Some(ProtocolBreach::WriteThrough) => self.put(table, key, value).await,
            _ => Ok(()),
        }
    }

    pub(crate) async fn look_again_later(
        &self,
        table: TableId,
        key: &[u8],
        seen: Observation,
    ) -> Result<Observation, TxnError> {
        if self.breach() != Some(ProtocolBreach::LateVersion) {
            return Ok(seen);
        }
        let later = self.database.look(table, key).await?;
        Ok(Observation {
            item: seen.item,
            ..later
        })
    }

    /// Makes the changes without the protocol; `false` if this is not broken.
    pub(crate) async fn commit_plainly(&self, lock: Lock, nodes: &[u8]) -> Result<bool, TxnError> {
        match self.breach() {
            Some(ProtocolBreach::WriteThrough) => return Ok(true),
            Some(ProtocolBreach::NoLock) => {}
            Some(ProtocolBreach::UnlockFirst) => {
                for node in nodes {
                    self.database.release(*node, lock).await?;
                }
            }
            _ => return Ok(false),
        }
        for entry in &self.entries {
            if let Some(Change::Set(value)) = &entry.change {
                self.put(entry.table, &entry.key, value).await?;
            }
        }
        Ok(true)
    }

    async fn put(&self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TxnError> {
        let Some(broken) = &self.database.broken else {
            return Ok(());
        };
        let table = &broken.tables[table.0 as usize];
        for _ in 0..1000 {
            match table.put(key, value).await {
                Err(RemoteError::Locked { .. }) => {
                    self.database.endpoint().sleep(2_000).await;
                }
                end => return Ok(end.map(drop)?),
            }
        }
        Ok(())
    }
}
