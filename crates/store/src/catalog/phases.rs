//! Phases of a node: what its clients may do, and what its tables say of that.

use super::entry::{ID_AT, closed};
use super::region::{Catalog, PHASE_AT, Phase};
use crate::Result;
use farslot_fabric::{Endpoint, EndpointExt};

impl<E: Endpoint> Catalog<'_, E> {
    /// Refuses while the node takes no changes.
    pub(crate) async fn check_phase(&self) -> Result<()> {
        let phase = self.endpoint.read(self.at(PHASE_AT), 8).await?;
        self.admit(phase.words()[0], true)
    }

    /// Begins a phase of the node. When it ends, all tables that there are say so too: what clients
    /// write to them is refused [`GRACE`] later at the latest.
    pub(crate) async fn begin_phase(&self, phase: Phase) -> Result<()> {
        self.changing(async |change| {
            let snapshot = change.settled().await?;
            let word = (phase as u64).to_le_bytes();
            change.write(self.at(PHASE_AT), &word).await?;
            if phase != Phase::Ending {
                return Ok(());
            }
            for (entry, record) in snapshot.tables() {
                let id_at = self.entry_at(entry.number).plus(ID_AT);
                change.swap(id_at, record.id, closed(record.id)).await?;
            }
            Ok(())
        })
        .await
    }

    /// Begins to serve, where the node has ended: all tables that took no writes take them again.
    pub(crate) async fn reopen(&self) -> Result<()> {
        let phase = self.endpoint.read(self.at(PHASE_AT), 8).await?;
        if phase.words()[0] == Phase::Serving as u64 {
            return Ok(());
        }
        self.changing(async |change| {
            let snapshot = change.settled().await?;
            for (entry, record) in snapshot.tables().filter(|(_, record)| record.is_closed) {
                let id_at = self.entry_at(entry.number).plus(ID_AT);
                change.swap(id_at, closed(record.id), record.id).await?;
            }
            // Last: who is killed before begins again.
            let word = (Phase::Serving as u64).to_le_bytes();
            change.write(self.at(PHASE_AT), &word).await
        })
        .await
    }
}
