//! Changes of the catalog, one at a time.
//!
//! Whoever changes a catalog holds its lock, a word with a number of its own, and changes the
//! number every now and then to show that it is alive. It writes nothing unless it has shown that a
//! moment ago. So a client that has seen the same number for longer than what a holder may go on
//! for, and for what a verb may then still be under way, knows that the holder is gone, takes the
//! lock, and finds a catalog that is as a change has left it between two steps: each step leaves
//! one that is whole.
//!
//! Only changes of the catalog wait for one another, and for a client that died in one no longer
//! than that. Operations on tables wait for nobody.

use super::region::{Catalog, LEASE, LOCK_AT, PAUSE};
use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, RemoteAddr};
use std::cell::Cell;

/// How long a holder goes on without having shown that it is alive. It counts from when the holder
/// began to show it, so it is longer than the round trip of any link that tables are used over.
const HOLD: Nanos = LEASE + 500_000_000;
/// How long it may have been when it shows it.
const SHOWN_EVERY: Nanos = HOLD / 4;
/// After this a verb has taken effect, or never will, however long its client waits for the answer.
pub(super) const LONGEST_VERB: Nanos = 1_000_000_000;
/// How long a client waits for others that change the catalog, one after the other.
const PATIENCE: Nanos = 60_000_000_000;

/// A change of the catalog, for as long as this client holds its lock.
pub(super) struct Change<'c, 'e, E> {
    pub(super) catalog: &'c Catalog<'e, E>,
    number: Cell<u64>,
    /// When it was last shown that this client is alive.
    shown: Cell<Nanos>,
}

impl<'e, E: Endpoint> Catalog<'e, E> {
    /// Begins a change: waits until no other client is at one.
    pub(super) async fn begin(&self) -> Result<Change<'_, 'e, E>> {
        let number = rand::random::<u64>() | 1;
        let begun = self.endpoint.now();
        let mut holder = 0;
        let mut since = begun;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let now = self.endpoint.now();
            let expected = match now.saturating_sub(since) > HOLD + LONGEST_VERB {
                // It has not been seen to change: its client is gone.
                true => holder,
                false => 0,
            };
            let seen = self
                .endpoint
                .compare_swap(self.at(LOCK_AT), expected, number)
                .await?;
            if seen == expected {
                return Ok(Change {
                    catalog: self,
                    number: Cell::new(number),
                    shown: Cell::new(now),
                });
            }
            if seen != holder {
                // The holder may have shown the number as late as now, on a slow link.
                (holder, since) = (seen, self.endpoint.now());
            }
            if now.saturating_sub(begun) > PATIENCE {
                return Err(StoreError::CatalogContended { attempts });
            }
            self.endpoint.sleep(PAUSE).await;
        }
    }
}

impl<E: Endpoint> Change<'_, '_, E> {
    /// Shows that this client is alive, if it has not done so for a while.
    ///
    /// # Errors
    /// [`StoreError::CreationCancelled`] if another took it for dead: nothing may be written then.
    pub(super) async fn show(&self) -> Result<()> {
        let Catalog { endpoint, .. } = self.catalog;
        let now = endpoint.now();
        if now.saturating_sub(self.shown.get()) < SHOWN_EVERY {
            return Ok(());
        }
        let (number, next) = (self.number.get(), self.number.get().wrapping_add(2));
        let lock = self.catalog.at(LOCK_AT);
        let seen = endpoint.compare_swap(lock, number, next).await?;
        if seen != number {
            return Err(StoreError::ChangeCancelled);
        }
        self.number.set(next);
        self.shown.set(now);
        Ok(())
    }

    /// Refuses to go on without having shown that this client is alive.
    fn check(&self) -> Result<()> {
        let now = self.catalog.endpoint.now();
        match now.saturating_sub(self.shown.get()) < HOLD {
            true => Ok(()),
            false => Err(StoreError::ChangeCancelled),
        }
    }

    /// Writes bytes.
    pub(super) async fn write(&self, to: RemoteAddr, bytes: &[u8]) -> Result<()> {
        let endpoint = self.catalog.endpoint;
        self.show().await?;
        let bytes = endpoint.core().buffers.copy_of(bytes)?;
        self.check()?;
        Ok(endpoint.write(to, bytes).await?)
    }

    /// Replaces a word; whether it was the one expected.
    pub(super) async fn swap(&self, at: RemoteAddr, expected: u64, new: u64) -> Result<bool> {
        self.show().await?;
        self.check()?;
        let seen = self.catalog.endpoint.compare_swap(at, expected, new);
        Ok(seen.await? == expected)
    }

    /// Ends the change. What it has done stays done if that fails; the next client then waits a
    /// while.
    pub(super) async fn end(self) -> Result<()> {
        let lock = self.catalog.at(LOCK_AT);
        let freed = self
            .catalog
            .endpoint
            .compare_swap(lock, self.number.get(), 0);
        freed.await?;
        Ok(())
    }
}
