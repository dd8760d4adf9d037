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
/// The longest that it waits between two looks at the lock.
const LONGEST_PAUSE: Nanos = 64_000_000;
/// One that has waited for so long looks twice as often as that.
const OFTEN_AFTER: Nanos = 4_000_000_000;

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
            let pause = pause_after(now.saturating_sub(begun));
            self.endpoint.sleep(pause).await;
        }
    }
}

/// What a client that has waited for so long waits before it looks at the lock again: at first as
/// long again, so that many who wait do not keep the holder from its processor or its link; later
/// less and less, so that who has waited for the longest is the likeliest to be next.
fn pause_after(waited: Nanos) -> Nanos {
    let falling = LONGEST_PAUSE * OFTEN_AFTER / (OFTEN_AFTER + waited);
    waited.max(PAUSE).min(falling)
}

impl<E: Endpoint> Change<'_, '_, E> {
    /// Shows that this client is alive, if it has not done so for a while.
    ///
    /// # Errors
    /// [`StoreError::ChangeCancelled`] if another took it for dead: nothing may be written then.
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

    /// When it was last shown that this client is alive.
    pub(super) fn shown_at(&self) -> Nanos {
        self.shown.get()
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

    /// The same of a word that only who took this client for dead can have changed.
    ///
    /// # Errors
    /// [`StoreError::ChangeCancelled`] if somebody has.
    pub(super) async fn must_swap(&self, at: RemoteAddr, expected: u64, new: u64) -> Result<()> {
        match self.swap(at, expected, new).await? {
            true => Ok(()),
            false => Err(StoreError::ChangeCancelled),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use farslot_fabric::sim::{HostId, NicProfile, Simulation, World};
    use farslot_fabric::{Limits, NodeId, Rights};

    #[test]
    fn who_waits_for_the_lock_for_long_asks_for_it_seldom_and_gives_up_in_the_end() {
        let world = World::new(1, NicProfile::connectx5_edr());
        world.add_node(&[(8 << 20, Rights::ALL)]);
        let mut simulation = Simulation::new(world);
        let holder = simulation.add_client(HostId(0), Limits::default());
        let held = simulation.spawn(holder, async move |endpoint| {
            let catalog = Catalog::new(&*endpoint, NodeId(0)).unwrap();
            let change = catalog.begin().await.unwrap();
            while endpoint.now() < PATIENCE + 2 * HOLD {
                change.show().await.unwrap();
                endpoint.sleep(SHOWN_EVERY).await;
            }
            change.end().await.unwrap();
        });
        let waiting = simulation.add_client(HostId(0), Limits::default());
        let refused = simulation.spawn(waiting, async move |endpoint| {
            endpoint.sleep(PAUSE).await;
            let catalog = Catalog::new(&*endpoint, NodeId(0)).unwrap();
            let since = endpoint.now();
            let refused = catalog.begin().await.err().unwrap();
            (refused, endpoint.now() - since)
        });
        simulation.run();
        held.try_take().unwrap();
        let (refused, waited) = refused.try_take().unwrap();
        assert!(waited < PATIENCE + LONGEST_PAUSE + PAUSE, "{waited}");
        // Once a millisecond would be 60,000 times.
        let StoreError::CatalogContended { attempts } = refused else {
            panic!("{refused}")
        };
        assert!((500..10_000).contains(&attempts), "{attempts}");
    }

    #[test]
    fn pauses_grow_at_first_and_shrink_for_who_has_waited_for_long() {
        assert_eq!(pause_after(0), PAUSE);
        assert!(pause_after(20 * PAUSE) > pause_after(10 * PAUSE));
        assert!(pause_after(OFTEN_AFTER) >= LONGEST_PAUSE / 2);
        assert!(pause_after(PATIENCE) < LONGEST_PAUSE / 8);
        assert!((0..100).all(|part| pause_after(PATIENCE / 100 * part) >= PAUSE));
    }
}
