//! Clearing the entries of a catalog that are damaged, so that their memory can be used again.
//!
//! Nobody knows where the table of such an entry lies: it may have any of the memory that was ever
//! taken and that no other table has. Clients may have it open still, by what stood there before.
//! So its id word becomes 0 first, which they notice when they next look; then the one who repairs
//! waits as if the table had been dropped; then all of that memory is made zeros; and last the
//! entries become empty. Who dies on the way leaves entries that are damaged still.
//!
//! A part of a table over several nodes may be among what is cleared, and nobody knows of which.
//! Repairs are counted in the header, before anybody waits: a table says how many there had been
//! when it was made, and a part of it that is not there after another is lost, as if the node had
//! come back empty.

use super::change::GRACE;
use super::entry::ID_AT;
use super::listing::CatalogSnapshot;
use super::lock::Change;
use super::parsing::{DamagedEntry, Entry, Is};
use super::pool::taken;
use super::region::{Catalog, MARK_AT, REPAIRS_AT};
use super::sizes::catalog_bytes;
use super::space;
use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, EndpointExt, FabricError, Rights, window};
use std::ops::Range;

/// Bytes that one READ looks at, and how many of these are under way at a time.
const PIECE: u64 = 256 << 10;
const PIECES: usize = 8;

/// What is damaged of one node's catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The node's address.
    pub address: String,
    /// Its entries that are damaged.
    pub entries: Vec<DamagedEntry>,
    /// Bytes that no other table has and that no new one can have, as long as these entries are
    /// there.
    pub bytes: u64,
}

impl CatalogSnapshot {
    /// The memory that may have been taken and that no table has whose entry can be read: up to the
    /// region's end, where the mark is none that a client has written beside these tables.
    fn unknown(&self) -> impl Iterator<Item = Range<u64>> {
        let marked = self.marked();
        let in_pieces = self.records().map(|record| record.extent().end);
        let end = match in_pieces.max() {
            Some(last) if last <= marked => marked,
            _ => self.region_bytes,
        };
        space::holes(self.extents(), catalog_bytes(self.region_bytes)..end)
    }

    fn damage(&self) -> Option<Damage> {
        let entries: Vec<_> = self.damaged().cloned().collect();
        let unknown = self.unknown();
        (!entries.is_empty()).then(|| Damage {
            address: String::new(),
            entries,
            bytes: unknown.map(|bytes| bytes.end - bytes.start).sum(),
        })
    }
}

impl<E: Endpoint> Catalog<'_, E> {
    /// What is damaged, if anything is.
    pub(crate) async fn damage(&self) -> Result<Option<Damage>> {
        let snapshot = self.snapshot_with_pool().await?;
        if !snapshot.is_whole {
            // Which memory other tables have is not told.
            return Err(StoreError::Fabric(FabricError::AccessDenied {
                at: self.at(0),
                needed: Rights::READ,
                granted: Rights::NONE,
            }));
        }
        Ok(snapshot.damage())
    }

    /// Clears the entries that are damaged; returns what they were.
    pub(crate) async fn repair(&self) -> Result<Option<Damage>> {
        self.changing(async |change| {
            let snapshot = change.settled().await?;
            let Some(damage) = snapshot.damage() else {
                return Ok(None);
            };
            let damaged = |entry: &&Entry| matches!(entry.is, Is::Damaged(_));
            let entries = || snapshot.entries.iter().filter(damaged);
            // Who reads an entry that is empty by then reads this word as well.
            let [.., repairs] = snapshot.header;
            let repairs = repairs.wrapping_add(1).to_le_bytes();
            change.write(self.at(REPAIRS_AT), &repairs).await?;
            for entry in entries() {
                change.take_away(entry).await?;
            }
            change.wait(GRACE).await?;
            // No table takes any of that meanwhile.
            for bytes in snapshot.unknown() {
                change.keep_out(&bytes).await?;
            }
            let words = self.pool().words().await?;
            for unknown in snapshot.unknown() {
                let taken = taken(&words, self.region_bytes);
                for bytes in space::holes(taken, unknown) {
                    change.clear(bytes).await?;
                }
            }
            for entry in entries() {
                let at = self.entry_at(entry.number);
                change.must_swap(at, entry.words.state, 0).await?;
            }
            // It may have been what was damaged, and counts what is there now.
            let end = snapshot.records().map(|record| record.extent().end).max();
            let start = catalog_bytes(self.region_bytes);
            let mark = end.unwrap_or(start) - start;
            change.write(self.at(MARK_AT), &mark.to_le_bytes()).await?;
            let snapshot = self.snapshot_with_pool().await?;
            change.free_what_nobody_has(&snapshot).await?;
            Ok(Some(damage))
        })
        .await
    }
}

impl<E: Endpoint> Change<'_, '_, E> {
    /// Takes what an entry was away from clients that have it open.
    async fn take_away(&self, entry: &Entry) -> Result<()> {
        let id_at = self.catalog.entry_at(entry.number).plus(ID_AT);
        self.write(id_at, &0u64.to_le_bytes()).await
    }

    /// Makes zeros of what is not zero already.
    async fn clear(&self, bytes: Range<u64>) -> Result<()> {
        let zeros = vec![0; PIECE as usize];
        let mut from = bytes.start;
        while from < bytes.end {
            let end = bytes.end.min(from + PIECE * PIECES as u64);
            self.show().await?;
            let pieces = (from..end).step_by(PIECE as usize);
            let reads = pieces.clone().map(async |at| {
                let len = PIECE.min(end - at) as usize;
                let read = self.catalog.endpoint.read(self.catalog.at(at), len).await?;
                Ok::<_, StoreError>(read.iter().any(|byte| *byte != 0))
            });
            let mut seen = vec![Ok(true); PIECES];
            window(PIECES, reads, |number, is_dirty| seen[number] = is_dirty).await;
            for (at, is_dirty) in pieces.zip(seen) {
                let len = PIECE.min(end - at) as usize;
                if is_dirty? {
                    self.write(self.catalog.at(at), &zeros[..len]).await?;
                }
            }
            from = end;
        }
        Ok(())
    }
}
