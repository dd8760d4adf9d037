//! Growth by a whole ratio r, while everything else goes on (paper 001, section III-D, and beyond).
//!
//! **What it does.** A table of m buckets an array grows to rm at once: memory for the new buckets is taken, a word
//! of the table's header says so, and no key has moved. From then on buckets are *split* one by one: a bucket
//! is read, each of the r-1 new buckets that its keys may belong to is written, with the keys that are its own,
//! and the bucket again without them. A bucket is split before the first insertion into it (*lazily*), or when somebody
//! asks for it ([`DuoTable::sweep`], *actively*). [`placement`](super::placement) says why a bucket's keys
//! can go nowhere else.
//!
//! **Which side a key is written to.** Until its bucket is split, a key of that array is in the bucket that it had
//! before; from the moment that the split is acknowledged, in its own one of the r. Each of both arrays decides for
//! itself. Who splits a bucket holds it, as any operation that changes it does.
//!
//! **What it costs.** Starting takes 4 round trips, whatever the table's size. Splitting takes 2, and for every run of buckets
//! that lie side by side a READ, an atomic, and WRITEs of what has to be written (`images.rs`): the slots that go to new
//! buckets, the heads of those that have gone, and what lies in between if it is little. So large records cross the wire about one and
//! a half times, small ones up to r + 1 times, as there a message costs more than the bytes that it would save. A run is
//! one bucket lazily, up to 8 KiB in a sweep, which has up to six such pieces under way: enough for the network to be
//! busy, and no piece waits for long. With readers there are a message and three atomics more. An insertion does, besides
//! its own, one piece of this work at most. Lookups, updates and removals do none, and wait only where one of their
//! buckets is being split.
//!
//! **Bytes.** Where the table started, its header, stash and journal stay. Each growth adds an *extent*:
//!
//! ```text
//! header   3200  extents there are | 3264  for each: ratio | region | offset
//!          (the count is in the published index, where there is one)
//! extent   which buckets of those before it are split: a bit each, bucket b of the first array
//!          2b, of the second 2b + 1; to a multiple of 64 bytes
//!          what is published of these buckets, where the index is; to a multiple of 64 bytes
//!          first array: buckets m to rm | second array: buckets m to rm
//! ```
//! A growth begins when all buckets of the one before are split.
//!
//! **Readers** beside the owner go by the same count and the same bits, and see by themselves that they have changed (see
//! [`DuoReader`](super::DuoReader)). For them a split writes the new buckets' pages of the published index before the bit, and
//! the old bucket's behind it, in the same batch: no round trip more.
//!
//! **When things fail.** The three steps of a split are one batch: the new buckets, the bit, the bucket
//! itself. If the bit is not set, the new buckets are not in use, and whatever is in them is written over by the next
//! attempt. If it is set, they are whole; and what the bucket still has of theirs is recognised, for the head of
//! each slot has its key's hash, and *a slot that its key cannot be in is dead*. That is hereditary: buckets after
//! a growth only ever take keys from those that they come from. So a record which was left behind is never
//! taken for one at any later time, whoever rebuilds the index, and however often the table has grown meanwhile. An owner
//! makes such slots dead before it changes anything, so that no reader with an old copy takes one for its key's.
//!
//! **Why not as in the paper**, which copies the vault whole, r times, in the memory node, and then drops
//! fingerprints, at once or at the first access to a bucket. (a) Its copies look alive in the vault:
//! whoever reads that (a new owner, a reader with an old index) could take them for what they were. (b) Until the copy
//! is there, nothing may be inserted; here a growth can begin when the table is full. (c) Its lazy
//! cleaning reads each of the rm buckets once, in whose place the splits read each of m. (d) An insertion makes a slot live by
//! a swap from 0, by which an owner sees that it has lost the table: so copies of other keys' heads would have to be
//! written over all the same. What a copy in the memory node would save is the way of the records over the wire, if the node
//! left out what is not a bucket's own, for which it would have to know slots and hashes; for that,
//! `split_runs` is the one place to change. The node would have to return which of the r is each slot's, a byte or less,
//! for the owner's index. An owner in the process that lends the memory copies there already.
//!
//! **Where extents are.** In memory that the table shares with others ([`GrowthMemory`]), or in memory of its own behind
//! it ([`most_capacity`](super::DuoOptions::most_capacity)), one after the other in the order of the header's entries:
//! there nothing has to be taken, for what no entry that is counted names has not been touched.
//!
//! **Limits.** Extents are on the table's node. 34 growths, each of a ratio of 2 to 4096. The stash keeps its
//! size, and a heap its own. A new owner of a table that has grown lets readers read most of the index anew.
//! `scan` may meet a key twice if its bucket is split between two pieces.

mod entries;
mod extend;
mod images;
mod memory;
mod pages;
mod publish;
mod split;
mod step;
mod vault;

pub(super) use entries::{Entry, MOST_EXTENTS, read_entries};
pub(super) use extend::reserve_bytes;
pub use memory::GrowthMemory;
pub(super) use vault::{Vault, origins_of};

use super::client::DuoTable;
use crate::slot::bad_option;
use crate::{IndexError, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt};
use std::sync::atomic::Ordering;

/// The largest ratio that a table grows by at once.
const MOST_RATIO: u64 = 4096;
/// Keys per slot from which on a table grows, unless told otherwise.
const GROWS_AT: f64 = 0.85;
/// What is held by who takes a step of growth: no bucket has this number, and no slot.
pub(super) const GROWTH_LOCK: u64 = u64::MAX;

/// When a table grows by itself, by how much, and where.
#[derive(Clone, Copy, Debug)]
pub struct DuoGrowth {
    /// Where the table takes memory from.
    pub memory: GrowthMemory,
    /// How many times as large it is after each growth: 2 to 4096.
    pub ratio: u64,
    /// Keys per slot from which on an insertion lets it grow: above 0 and at most 1.
    pub at_load: f64,
}

/// Where extents are put.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Memory(GrowthMemory),
    /// Behind the table, in memory of its own.
    Reserve,
}

/// How a table grows by itself.
#[derive(Clone, Copy)]
pub(super) struct Growth {
    place: Place,
    ratio: u64,
    at_load: f64,
}

impl Growth {
    /// That of a table with memory of its own to grow into.
    pub(super) const IN_RESERVE: Self = Self {
        place: Place::Reserve,
        ratio: 2,
        at_load: GROWS_AT,
    };
}

impl DuoGrowth {
    /// To twice the size, when the table is 0.85 full: with 8 slots a bucket there is room for a tenth more.
    #[must_use]
    pub const fn from(memory: GrowthMemory) -> Self {
        Self {
            memory,
            ratio: 2,
            at_load: GROWS_AT,
        }
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Lets the table grow by itself: when it is so full, or when a key finds no slot. An insertion takes one step of it
    /// at most; if there is no memory, the table fills up and says [`IndexError::Full`]. A key that finds no slot in a table
    /// less than half so full is refused: its bucket is full of its like, and growth may not help.
    ///
    /// # Errors
    /// [`IndexError::BadOption`].
    pub fn with_growth(mut self, growth: DuoGrowth) -> Result<Self> {
        check_ratio(growth.ratio)?;
        if !(growth.at_load > 0.0 && growth.at_load <= 1.0) {
            let limit = "above 0 and at most 1";
            return Err(bad_option("load to grow at", growth.at_load, limit));
        }
        self.growth = Some(Growth {
            place: Place::Memory(growth.memory),
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

    /// Grows now, by a ratio of 2 to 4096: sweeps what is left of the growth before, and begins another. All other
    /// operations go on. If this fails or is dropped, what it has done is kept, and the growth may have begun: the next
    /// one asked for is then that one.
    ///
    /// # Errors
    /// [`IndexError::BadOption`] for a ratio or a size that is not possible, [`IndexError::OutOfMemory`],
    /// [`IndexError::WriterBusy`], or what the fabric says.
    pub async fn grow(&self, memory: &GrowthMemory, ratio: u64) -> Result<()> {
        check_ratio(ratio)?;
        let growing = async {
            self.start().await?;
            let slots = self.slots();
            self.grow_from(slots, &Place::Memory(*memory), ratio).await
        };
        self.endpoint.operation(UPKEEP, growing).await
    }

    /// Splits all buckets that are not, some pieces of 8 KiB side by side. All other operations go on.
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
    async fn grow_from(&self, slots: u64, place: &Place, ratio: u64) -> Result<()> {
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

    /// What an insertion does for growth when it is done: a step, if the table is so full and nobody else takes one. This
    /// cannot fail: the insertion is done, and the next one tries again.
    pub(super) async fn grow_a_step(&self) {
        let Some(growth) = self.growth else { return };
        let (slots, unsplit) = (self.slots(), self.first_unsplit());
        let idle = unsplit.is_none() && self.cannot_grow();
        if idle || !self.is_full_to(growth.at_load) || self.locks.is_held(GROWTH_LOCK) {
            return;
        }
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
    pub(super) async fn grow_instead_of(&self, full: IndexError) -> Result<()> {
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

fn check_ratio(ratio: u64) -> Result<()> {
    if (2..=MOST_RATIO).contains(&ratio) {
        return Ok(());
    }
    let limit = format!("a whole number of 2 to {MOST_RATIO}");
    Err(bad_option("growth ratio", ratio, limit))
}
