//! Finding blocks that no slot names and no live client holds: what killed clients have left
//! behind.
//!
//! When a heap refuses a record although the table names few of its bytes, the client that was
//! refused begins a sweep of one zone of it. No operation waits for a sweep: one operation begins
//! it, and a later one of any client ends it.
//!
//! 1. One compare-and-swap of the heap's first word makes its [epoch](super::mark) odd. As soon as
//!    a client sees that, it neither allocates nor gives on what overlaps the zone, and forgets
//!    what it holds there.
//! 2. A client that has known the odd epoch for [`SWEEP_AFTER`] empties the stacks of free blocks,
//!    and puts blocks outside the zone back.
//! 3. It reads every slot. What slots name in the zone is in use; everything between is free.
//! 4. A second compare-and-swap makes the epoch even. If several clients have read the slots, the
//!    one whose swap succeeds owns what was found, and gives it to all.
//!
//! **Why a sweep takes nothing that is in use.** A client works for at most
//! [`LOOK_AFTER`](super::hold::LOOK_AFTER) between two looks at the epoch, and a verb that it posts
//! takes effect within the rest of [`SWEEP_AFTER`], or never. So at step 2 every live client knows
//! the odd epoch, and no verb is in flight that was posted by one that did not. From then on no
//! block of the zone enters a slot, an extent, a private list or a stack: blocks of the zone only
//! leave slots. So step 3 sees every block that a slot still names when it ends. A client that
//! removes a block's name from a slot has no claim to the block if an epoch of its zone has passed
//! since it posted the swap. Then either the sweep has the block, or no client has until the next
//! sweep.
//!
//! **What it relies on.** No client decides that another one is dead: a client whose last look is
//! too old by its own clock may no longer use what it holds. The clocks need not agree; they must
//! run at about the same rate. A verb that takes effect more than 20 s after its client looked at
//! its clock could do harm: one of a process that was stopped just then (by a signal, a debugger, a
//! suspended machine), or one that waited in front of a node that was stopped. For the latter a
//! sweep lets the node run for [`RUN_ON`] before it reads the slots. Such a late WRITE may
//! overwrite the record of another key. The checksum and the generation reveal it, so lookups of
//! that key fail with an error and return nothing wrong; but the record is lost. So a process must
//! not be continued after a stop of 20 s or more if it was writing to a table whose heap is full.
//!
//! **Tables that one client writes** need no epochs: their writer keeps its own operations away and
//! [reclaims](Heap::reclaim) all that no slot names at once, when the heap refuses it a record.
//!
//! **Generations.** A sweep does not know what the blocks of a zone were. The blocks that it finds
//! get a generation drawn from the epoch and their place: a reader that has slept through the whole
//! sweep takes another use of a block for its own with a probability of 2^-11, if that use holds a
//! record of the same key.

use super::allocator::{Heap, largest_blocks};
use super::hold::LOOK_AFTER;
use super::layout::{BlockRef, CLASSES, GRANULE, block_bytes, class_for};
use super::mark::{Epoch, HeapMark, bytes_of};
use crate::{IndexError, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, Nanos};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

/// How long a client has to have known of a sweep before it takes what it finds: clients work for
/// [`LOOK_AFTER`] without a look, and their verbs take effect within the rest.
pub(super) const SWEEP_AFTER: Nanos = 3 * LOOK_AFTER;
/// How long the node has to run before the slots are read: verbs that waited in front of one that
/// was stopped have taken effect then.
const RUN_ON: Nanos = 1_000_000_000;
/// A heap is not swept unless slots leave at least this part of it unnamed, and room for two of the
/// records that it has refused: a zone that is swept is withheld meanwhile.
const LEAST_UNNAMED: u64 = 32;
/// A zone is carved into blocks of at most so many bytes, or the longest record: others need not
/// split them so often.
const USUAL_BLOCK: usize = 64 << 10;
/// Slots that are read to learn how much of the heap is named, at most.
const SAMPLE: u64 = 32 << 10;
/// Slots of one READ of a sample.
const SAMPLE_PIECE: u64 = 1 << 10;

/// The blocks that a table's slots name.
pub(crate) trait NamedBlocks {
    /// How many slots there are by now. They only become more.
    async fn slots(&self) -> Result<u64>;

    /// Visits the blocks that these slots name, and perhaps some more. A block that moves to
    /// another slot meanwhile moves to one of a higher number, which is read later.
    async fn visit(&self, slots: Range<u64>, visit: impl FnMut(BlockRef)) -> Result<()>;

    /// Looks for blocks that no slot names, for the heap has refused a record of so many bytes;
    /// true if it may have room now.
    async fn make_room(&self, refused: usize) -> Result<bool>;

    /// Whether an operation that has ended so can be tried again: the heap was full, and may have
    /// room now.
    async fn has_room_again<T>(&self, outcome: &Result<T>) -> bool {
        let Err(IndexError::HeapFull { record_bytes, .. }) = outcome else {
            return false;
        };
        // What the operation says is that the heap is full, whatever has become of this.
        let made = Box::pin(self.make_room(*record_bytes)).await;
        made.unwrap_or(false)
    }
}

impl<E: Endpoint> Heap<E> {
    /// Takes the next step of a sweep of a heap that has refused a record of so many bytes; true if
    /// the heap may have room now. A step that ends a sweep waits [`RUN_ON`]; no other step waits.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn sweep(&self, table: &impl NamedBlocks, refused: usize) -> Result<bool> {
        // A sweep takes longer than a call's turn: clients do it that reach the memory by verbs.
        if !self.endpoint.core().may_wait() || self.sweeping.at_it.replace(true) {
            return Ok(false);
        }
        let _done = Done(&self.sweeping.at_it);
        let step = self.next_step(table, refused);
        self.endpoint.operation(UPKEEP, step).await
    }

    async fn next_step(&self, table: &impl NamedBlocks, refused: usize) -> Result<bool> {
        let mark = self.look().await?;
        let now = self.endpoint.now();
        if let Some(zone) = mark.epoch.swept_zone(self.place.bytes) {
            // Clients with slower verbs than this one's have to allow for that themselves.
            let wait = SWEEP_AFTER.max(LOOK_AFTER + 2 * self.endpoint.core().limits.verb_timeout);
            return match now.saturating_sub(self.epoch_since.get()) >= wait {
                true => {
                    self.endpoint.sleep(RUN_ON).await;
                    self.sweep_zone(mark.epoch, zone, table).await
                }
                false => Ok(false),
            };
        }
        // Of a heap that is not handed out the zones would only be withheld.
        let handed_out = mark.bytes + GRANULE + self.place.bytes / LEAST_UNNAMED;
        if now < self.sweeping.not_before.get() || handed_out < self.place.bytes {
            return Ok(false);
        }
        if !self.leaves_much_unnamed(table, refused).await? {
            return Ok(false);
        }
        let begun = HeapMark {
            epoch: mark.epoch.next(),
            ..mark
        };
        self.swap_mark(mark, begun).await?;
        Ok(false)
    }

    /// Notes that a look for free memory would find, or has found, too little: the next one begins
    /// later.
    pub(crate) fn was_in_vain(&self) {
        let times = self.sweeping.in_vain.get();
        self.sweeping.in_vain.set(times + 1);
        let wait = SWEEP_AFTER << times.min(6);
        self.sweeping.not_before.set(self.endpoint.now() + wait);
    }

    /// About how many bytes of the heap are named: by all slots, or as a sample of them has it.
    async fn named_bytes(&self, table: &impl NamedBlocks) -> Result<u64> {
        let slots = table.slots().await?;
        let pieces = (SAMPLE / SAMPLE_PIECE)
            .min(slots.div_ceil(SAMPLE_PIECE))
            .max(1);
        let (mut named, mut seen) = (0, 0);
        for piece in 0..pieces {
            let first = (u128::from(slots) * u128::from(piece) / u128::from(pieces)) as u64;
            let piece = first..slots.min(first + SAMPLE_PIECE);
            seen += piece.end - piece.start;
            let visit = |block| named += length(&bytes_of(block));
            table.visit(piece, visit).await?;
        }
        let all = u128::from(named) * u128::from(slots) / u128::from(seen.max(1));
        Ok(u64::try_from(all).unwrap_or(u64::MAX))
    }

    async fn sweep_zone(
        &self,
        epoch: Epoch,
        zone: Range<u64>,
        table: &impl NamedBlocks,
    ) -> Result<bool> {
        if !self.empty_stacks(epoch).await? {
            return Ok(true);
        }
        let mut used = UsedGranules::of(zone.clone());
        let mut first = 0;
        loop {
            let slots = table.slots().await?;
            if first >= slots {
                break;
            }
            table
                .visit(first..slots, |block| used.add(bytes_of(block)))
                .await?;
            first = slots;
        }
        let mark = loop {
            let mark = self.look().await?;
            if mark.epoch != epoch {
                return Ok(true);
            }
            let ended = HeapMark {
                epoch: epoch.next(),
                ..mark
            };
            if self.swap_mark(mark, ended).await? == mark {
                break ended;
            }
        };
        // What is not handed out yet is no gap.
        let end = zone.end.min(mark.bytes + GRANULE);
        let bytes = self.give_gaps(&used, end, mark.epoch).await?;
        if bytes < length(&zone) / LEAST_UNNAMED {
            self.was_in_vain();
        } else {
            self.sweeping.in_vain.set(0);
        }
        Ok(bytes > 0)
    }

    /// Gives the gaps up to `end` to all, as blocks; returns their bytes.
    async fn give_gaps(&self, used: &UsedGranules, end: u64, epoch: Epoch) -> Result<u64> {
        let mut found: BTreeMap<usize, Vec<BlockRef>> = BTreeMap::new();
        let mut bytes = 0;
        let (most, unit) = match self.unit {
            GRANULE => (self.longest.max(USUAL_BLOCK), GRANULE),
            // All blocks are of one class.
            unit => (unit as usize, unit),
        };
        for gap in used.gaps(end) {
            for block in largest_blocks(gap, most, 0) {
                let of_block = length(&bytes_of(block));
                if of_block.is_multiple_of(unit) {
                    bytes += of_block;
                    let generation = drawn_generation(epoch, block.granule);
                    let block = BlockRef {
                        generation,
                        ..block
                    };
                    found.entry(block.class).or_default().push(block);
                }
            }
        }
        for blocks in found.into_values() {
            for blocks in blocks.chunks(CHAIN) {
                self.give_to_all(blocks.to_vec(), epoch).await?;
            }
        }
        Ok(bytes)
    }

    /// Whether [`reclaim`](Self::reclaim) may find something for a record of so many bytes.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn may_reclaim(
        &self,
        table: &impl NamedBlocks,
        refused: usize,
    ) -> Result<bool> {
        let is_early = self.endpoint.now() < self.sweeping.not_before.get();
        Ok(!is_early
            && self.endpoint.core().may_wait()
            && self.leaves_much_unnamed(table, refused).await?)
    }

    /// Whether the slots leave much of the heap unnamed: more than the remainders that no such
    /// record fits into.
    async fn leaves_much_unnamed(&self, table: &impl NamedBlocks, refused: usize) -> Result<bool> {
        let unnamed = (self.place.bytes).saturating_sub(self.named_bytes(table).await?);
        let block = class_for(refused).map_or(refused, block_bytes) as u64;
        let is_much = unnamed >= (self.place.bytes / LEAST_UNNAMED).max(2 * block);
        if !is_much {
            self.was_in_vain();
        }
        Ok(is_much)
    }

    /// Finds all free memory at once, in a table that one client allocates from; true if there is
    /// some. No epoch and no time is needed, for the caller keeps its other operations away, those
    /// of its other threads too: until this ends none of them holds a block, gives one back, or
    /// moves a name from slot to slot, and what they hold for later they forget.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn reclaim(&self, table: &impl NamedBlocks) -> Result<bool> {
        // A verb of an operation that failed or was dropped may still name a block, or write one.
        self.endpoint
            .sleep(self.endpoint.core().limits.verb_timeout)
            .await;
        self.forget_all();
        let mark = self.look().await?;
        for class in 0..CLASSES {
            self.detach_stack(class).await?;
        }
        let end = (mark.bytes + GRANULE).min(self.place.bytes);
        // As many bytes at a time as have 32 MiB of bits, and whole blocks of the one class.
        let part = (4 << 30) / self.unit * self.unit;
        let mut bytes = 0;
        for start in (GRANULE..end).step_by(part as usize) {
            let mut used = UsedGranules::of(start..(start + part).min(end));
            let slots = table.slots().await?;
            table
                .visit(0..slots, |block| used.add(bytes_of(block)))
                .await?;
            bytes += self.give_gaps(&used, end, mark.epoch).await?;
        }
        if bytes < self.place.bytes / LEAST_UNNAMED {
            self.was_in_vain();
        } else {
            self.sweeping.in_vain.set(0);
        }
        Ok(bytes > 0)
    }

    /// Takes all free blocks, and gives those back that are not in the zone that is being swept;
    /// false if another client has ended that sweep meanwhile.
    async fn empty_stacks(&self, epoch: Epoch) -> Result<bool> {
        for class in 0..CLASSES {
            let (blocks, since) = self.take_stack(class).await?;
            for blocks in blocks.chunks(CHAIN) {
                self.give_to_all(blocks.to_vec(), since).await?;
            }
            if since != epoch {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Blocks that are put on a stack by one swap.
const CHAIN: usize = 128;

/// Clears the flag when a step ends, in whatever way.
struct Done<'c>(&'c Cell<bool>);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Which granules of a zone are in use, a bit for each.
struct UsedGranules {
    zone: Range<u64>,
    bits: Vec<u64>,
}

impl UsedGranules {
    /// Of a zone in which nothing is used but the heap's first granule.
    fn of(zone: Range<u64>) -> Self {
        let words = (length(&zone) / GRANULE).div_ceil(64) as usize;
        let mut used = Self {
            zone,
            bits: vec![0; words],
        };
        used.add(0..GRANULE);
        used
    }

    fn add(&mut self, bytes: Range<u64>) {
        let (start, end) = (self.zone.start, self.zone.end);
        let within = bytes.start.clamp(start, end)..bytes.end.clamp(start, end);
        for granule in (within.start - start) / GRANULE..(within.end - start) / GRANULE {
            self.bits[granule as usize / 64] |= 1 << (granule % 64);
        }
    }

    fn is_used(&self, at: u64) -> bool {
        let granule = (at - self.zone.start) / GRANULE;
        self.bits[granule as usize / 64] >> (granule % 64) & 1 == 1
    }

    /// The bytes between what is used, up to `end`.
    fn gaps(&self, end: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let end = end.min(self.zone.end) / GRANULE * GRANULE;
        let mut at = self.zone.start;
        std::iter::from_fn(move || {
            while at < end && self.is_used(at) {
                at += GRANULE;
            }
            let start = at;
            while at < end && !self.is_used(at) {
                at += GRANULE;
            }
            (start < at).then_some(start..at)
        })
    }
}

const fn length(bytes: &Range<u64>) -> u64 {
    bytes.end - bytes.start
}

/// The generation of a block that a sweep has found.
fn drawn_generation(epoch: Epoch, granule: u64) -> u64 {
    let drawn = crate::hash::checksum(&granule.to_le_bytes(), epoch.number());
    u64::from(drawn) & BlockRef::LAST_GENERATION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_lie_between_what_is_used() {
        let mut used = UsedGranules::of(0..512);
        used.add(48..96);
        used.add(96..128);
        used.add(496..560);
        let gaps = |end| used.gaps(end).collect::<Vec<_>>();
        assert_eq!(gaps(512), [16..48, 128..496]);
        assert_eq!(gaps(200), [16..48, 128..192]);
        assert!(gaps(0).is_empty());

        let mut used = UsedGranules::of(512..1024);
        used.add(500..528);
        used.add(2_000..3_000);
        assert!(used.gaps(1024).eq(std::iter::once(528..1024)));
    }

    #[test]
    fn gaps_become_the_largest_blocks_that_fit() {
        let sizes = |bytes: Range<u64>, most| {
            let mut end = bytes.start;
            let blocks = largest_blocks(bytes, most, 0);
            let sizes = blocks.map(|block| {
                let bytes = bytes_of(block);
                assert_eq!(bytes.start, end);
                end = bytes.end;
                length(&bytes)
            });
            sizes.collect::<Vec<u64>>()
        };
        assert_eq!(sizes(16..16 + 352, 1 << 10), [320, 32]);
        assert_eq!(sizes(16..16 + 352, 100), [96, 96, 96, 64]);
        assert_eq!(sizes(16..32, 100), [0_u64; 0]);
    }
}
