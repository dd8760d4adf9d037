//! Clearing a table takes three steps. The table is taken away: its record is published anew as for
//! renaming, under the same name, by a word that says that it is being cleared. From then on nobody
//! opens it, and clients that have it open notice when they next look. Then the one who clears it
//! waits as if it had been dropped. Then the table's bytes are made zeros, and it is open again:
//! that is the one moment at which it becomes empty. What was acknowledged before took effect
//! before, as no client's lease lasts so long; what is acknowledged later is in the table that is
//! open. A table whose client died half way is cleared by whoever opens it (`sharded::find`).

use super::change::{GRACE, is_short, named};
use super::entry::State;
use super::parsing::{Entry, Is};
use super::record::TableRecord;
use super::record::pooled;
use super::region::Catalog;
use crate::Result;
use farslot_fabric::Endpoint;

impl<E: Endpoint> Catalog<'_, E> {
    /// Takes a table away that is to be cleared: from now on nobody opens it, and it is gone for
    /// clients that have it open. Nothing if there is none, or it is not of that creation.
    pub(crate) async fn begin_clearing(
        &self,
        name: &str,
        creation: Option<u64>,
    ) -> Result<Option<TableRecord>> {
        let begin = async || {
            self.changing(async |change| {
                let snapshot = change.settled().await?;
                let Some((entry, record)) = named(&snapshot, name, creation)? else {
                    return Ok(None);
                };
                let clearing = TableRecord {
                    is_clearing: true,
                    ..record.clone()
                };
                Ok(Some(change.succeed(entry, clearing, &snapshot).await?))
            })
            .await
        };
        match begin().await {
            Err(error) if is_short(&error) && self.reclaim_left().await? => begin().await,
            begun => begun,
        }
    }

    /// Makes a table empty that was taken away for that, and opens it, unless that was done.
    /// Whoever has not waited since then waits here, for clients that had it open.
    pub(crate) async fn end_clearing(&self, record: &TableRecord, has_waited: bool) -> Result<()> {
        self.changing(async |change| {
            let snapshot = self.snapshot_with_pool().await?;
            let [.., phase, _] = snapshot.header;
            self.admit(phase, true)?;
            let mut entries = snapshot.entries.iter();
            let of_this =
                |entry: &&Entry| matches!(&entry.is, Is::Table(there) if there.id == record.id);
            let Some(entry) = entries.find(of_this) else {
                return Ok(());
            };
            if entry.words.state == State::opened(entry.words.state) {
                return Ok(());
            }
            for old in &snapshot.entries {
                match &old.is {
                    // Whoever began died before the old record was away.
                    Is::Table(of) if record.replaces == Some(of.id) => {
                        change.count_replaced(&snapshot).await?;
                        change.forget(old, of).await?;
                    }
                    Is::Retired(of) if record.replaces == Some(of.id) => change.reclaim(of).await?,
                    _ => {}
                }
            }
            if !has_waited {
                change.wait(GRACE).await?;
            }
            match pooled(&record.scheme) {
                Some(_) => change.empty_segments(record).await?,
                None => change.make_zeros(record, record.scheme_bytes()).await?,
            }
            if !change.attach_first(record).await? {
                return Err(change.no_segments(record).await?);
            }
            let at = self.entry_at(entry.number);
            let word = entry.words.state;
            change.must_swap(at, word, State::opened(word)).await
        })
        .await
    }
}
