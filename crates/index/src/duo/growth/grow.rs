//! When a table grows, and who does a part of it.

use crate::duo::bytes::check_ratio;
use crate::duo::state::{DuoGrowth, DuoTable, ExtentSource, GrowthMemory, GrowthPolicy};
use crate::slot::bad_option;
use crate::{IndexError, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt};
use std::sync::atomic::Ordering;

/// What is held by who takes a step of growth: no bucket has this number, and no slot.
pub(in super::super) const GROWTH_LOCK: u64 = u64::MAX;

impl<E: Endpoint> DuoTable<E> {
    /// Lets the table grow by itself: when it is so full, or when a key finds no slot. An insertion
    /// takes one step of it at most; if there is no memory, the table fills up and says
    /// [`IndexError::Full`]. A key that finds no slot in a table less than half so full is refused:
    /// its bucket is full of its like, and growth may not help.
    ///
    /// # Errors
    /// [`IndexError::BadOption`].
    pub fn with_growth(mut self, growth: DuoGrowth) -> Result<Self> {
        check_ratio(growth.ratio)?;
        if !(growth.at_load > 0.0 && growth.at_load <= 1.0) {
            let limit = "above 0 and at most 1";
            return Err(bad_option("load to grow at", growth.at_load, limit));
        }
        self.growth = Some(GrowthPolicy {
            place: ExtentSource::Memory(growth.memory),
            ratio: growth.ratio,
            at_load: growth.at_load,
        });
        Ok(self)
    }

    /// Slots of both arrays, those that it is growing to included.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.index.borrow().shape().slots()
    }

    /// Buckets that a growth has left to be split; 0 if none is under way.
    #[must_use]
    pub fn unsplit(&self) -> u64 {
        self.index.borrow().unsplit()
    }

    /// Grows now, by a ratio of 2 to 4096: sweeps what is left of the growth before, and begins
    /// another. All other operations go on. If this fails or is dropped, what it has done is kept,
    /// and the growth may have begun: the next one asked for is then that one.
    ///
    /// # Errors
    /// [`IndexError::BadOption`] for a ratio or a size that is not possible,
    /// [`IndexError::OutOfMemory`], [`IndexError::WriterBusy`], or what the fabric says.
    pub async fn grow(&self, memory: &GrowthMemory, ratio: u64) -> Result<()> {
        check_ratio(ratio)?;
        let growing = async {
            self.start().await?;
            let slots = self.slots();
            self.grow_from(slots, &ExtentSource::Memory(*memory), ratio)
                .await
        };
        self.endpoint.operation(UPKEEP, growing).await
    }

    /// Splits all buckets that are not, some pieces of 8 KiB side by side. All other operations go
    /// on.
    ///
    /// # Errors
    /// [`IndexError::WriterBusy`], or what the fabric says. What was split is.
    pub async fn sweep(&self) -> Result<()> {
        let sweeping = async {
            self.start().await?;
            self.split_all().await
        };
        self.endpoint.operation(UPKEEP, sweeping).await
    }

    /// Grows, unless the table has meanwhile grown from this size.
    async fn grow_from(&self, slots: u64, place: &ExtentSource, ratio: u64) -> Result<()> {
        loop {
            self.split_all().await?;
            let held = self.locks.take(&[GROWTH_LOCK]).await;
            if self.slots() != slots {
                return Ok(());
            }
            if self.is_settled() {
                return self.extend(place, ratio).await;
            }
            drop(held);
            drop(self.hold_alone().await?);
        }
    }

    async fn split_all(&self) -> Result<()> {
        self.split_rest(self.pieces_at_once()).await
    }

    /// Whether the table is so full that it grows: so many keys per slot.
    fn is_full_to(&self, load: f64) -> bool {
        let index = self.index.borrow();
        index.live() as f64 >= load * index.shape().slots() as f64
    }

    /// The first bucket that a growth has left to be split, if there is one.
    fn first_unsplit(&self) -> Option<u64> {
        self.index.borrow().unsplit_from(0).next()
    }

    /// Whether an insertion is to take a step of growth when it is done, if the table is so full
    /// and nobody else takes one: how it grows, of how many slots, and what is to be split first.
    pub(in super::super) fn step_due(&self) -> Option<(GrowthPolicy, u64, Option<u64>)> {
        let growth = self.growth?;
        let (slots, unsplit) = (self.slots(), self.first_unsplit());
        let idle = unsplit.is_none() && self.cannot_grow();
        let is_due = !idle && self.is_full_to(growth.at_load) && !self.locks.is_held(GROWTH_LOCK);
        is_due.then_some((growth, slots, unsplit))
    }

    /// Takes that step. This cannot fail: the insertion is done, and the next one tries again.
    pub(in super::super) async fn grow_a_step(&self) {
        let Some((growth, slots, unsplit)) = self.step_due() else {
            return;
        };
        let held = self.locks.take(&[GROWTH_LOCK]).await;
        // Another thread may have taken the step in between, or have let the table grow.
        if !self.is_settled() || self.slots() != slots {
            return;
        }
        let _ = match (unsplit, self.first_unsplit()) {
            (Some(_), Some(bucket)) => self.split_piece(&held, bucket).await,
            (None, None) => self.noted(self.extend(&growth.place, growth.ratio).await),
            _ => Ok(()),
        };
    }

    /// Whether there is no memory to grow into: it does not come back.
    fn cannot_grow(&self) -> bool {
        self.vault.exhausted.load(Ordering::Relaxed)
    }

    /// Notes the outcome of a growth that was to begin, if none can ever begin.
    fn noted(&self, outcome: Result<()>) -> Result<()> {
        if let Err(IndexError::OutOfMemory { .. } | IndexError::BadOption { .. }) = outcome {
            self.vault.exhausted.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// Grows because a key has found no slot; gives the error back if it may not, or cannot.
    pub(in super::super) async fn grow_instead_of(&self, full: IndexError) -> Result<()> {
        let (Some(growth), IndexError::Full { slots, .. }) = (self.growth, &full) else {
            return Err(full);
        };
        let stays = !self.is_full_to(growth.at_load / 2.0)
            || self.first_unsplit().is_none() && self.cannot_grow();
        if stays {
            return Err(full);
        }
        let grown = self.grow_from(*slots, &growth.place, growth.ratio).await;
        match self.noted(grown) {
            Err(IndexError::OutOfMemory { .. } | IndexError::BadOption { .. }) => Err(full),
            other => other,
        }
    }
}
