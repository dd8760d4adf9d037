//! Getting and giving back blocks, from any client, without a lock.
//!
//! A client takes an extent of the heap by one compare-and-swap of the mark and carves it up alone.
//! Its first extent is the block it needs, or a few small ones; each later one is four times the
//! one before, up to a usual size, which is 1/64 of the heap at most. What it frees it keeps, and
//! gives on to all when that is more than another 1/64 of the heap, or 1 MiB, and more than one
//! block: to a stack of free blocks for each class, whose head carries a tag that changes with
//! every push and pop. A client that flushes keeps nothing. A [sweep](super::sweep) finds what dead
//! clients held.
//!
//! **A client owns what it holds for a limited time only.** It must have looked at the heap's epoch
//! within [`LOOK_AFTER`](super::hold::LOOK_AFTER) when it uses a block or an extent, when it makes
//! a slot name a block, and when it gives blocks on; it forgets whatever the epoch
//! [revokes](Epoch::revokes).

use super::layout::{
    BlockRef, CLASSES, GRANULE, HeapPlace, LARGEST_RECORD, NewRecord, Record, block_bytes,
    class_for, seal, too_large,
};
use super::mark::{Epoch, HeapMark, Held, bytes_of};
use super::turn::{Taken, Turn};
use crate::{Result, UPKEEP};
use farslot_fabric::VerbFuture;
use farslot_fabric::{Buffer, Endpoint, EndpointExt, Fetched, Nanos, Piece, Pieces, RemoteAddr};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// Freed blocks that a client keeps of each class before it gives half of them to all.
const KEPT: usize = 256;
/// What a client keeps of freed blocks and takes as an extent is at most this part of the heap.
const SHARE: u64 = 64;
/// The most bytes of freed blocks that a client keeps, and of an extent.
const MOST_HELD: u64 = 1 << 20;
/// Freed blocks that wait before the first is used again, so that a generation lasts longer.
const RESTING: usize = 16;
/// Bytes of a client's first extent, if its first block needs no more: few, for many a client puts
/// one record and is gone.
const FIRST_EXTENT: u64 = 256;

/// One client's share of a heap.
pub struct Heap<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) place: HeapPlace,
    /// The most bytes that have to be read of a block, a multiple of 8.
    pub(super) longest: usize,
    /// Extents are multiples of this many bytes.
    pub(super) unit: u64,
    /// The part of the client's extent that is still to be carved: bytes from the heap's start.
    pub(super) extent: Cell<(u64, u64)>,
    /// The generation of the blocks that are carved from it.
    pub(super) extent_generation: Cell<u64>,
    /// How many bytes the next extent is to have.
    next_extent: Cell<u64>,
    /// The class of the block carved last: what the rest of an extent is likely to be wanted as.
    carved: Cell<usize>,
    /// The mark up to which the heap is handed out, and the epoch, as this client saw them last.
    pub(super) mark: Cell<HeapMark>,
    /// When it began to look at them, if it has.
    pub(super) looked_at: Cell<Option<Nanos>>,
    /// When it had seen the present epoch for the first time.
    pub(super) epoch_since: Cell<Nanos>,
    /// Taken by the coroutine that gets the next extent, so that the others do not get one each.
    extending: Turn,
    pub(super) freed: RefCell<Vec<VecDeque<BlockRef>>>,
    /// Bytes of the blocks in `freed`.
    pub(super) kept_bytes: Cell<u64>,
    /// A bit for each class of which this client has given blocks to all, and may find some there.
    gave: Cell<u64>,
    pub(super) sweeping: SweepState,
}

/// What a client remembers of its sweeps.
#[derive(Default)]
pub(super) struct SweepState {
    /// Whether one of its coroutines is at it.
    pub(super) at_it: Cell<bool>,
    /// When it may begin the next.
    pub(super) not_before: Cell<Nanos>,
    /// How often in a row there was too little to be had.
    pub(super) in_vain: Cell<u32>,
}

impl<E: Endpoint> Heap<E> {
    /// A client of the heap at `place`.
    #[must_use]
    pub fn new(endpoint: Rc<E>, place: HeapPlace) -> Self {
        Self {
            endpoint,
            place,
            longest: LARGEST_RECORD,
            unit: GRANULE,
            extent: Cell::new((0, 0)),
            extent_generation: Cell::new(0),
            next_extent: Cell::new(FIRST_EXTENT),
            carved: Cell::new(0),
            mark: Cell::default(),
            looked_at: Cell::new(None),
            epoch_since: Cell::new(0),
            extending: Turn::default(),
            freed: RefCell::new((0..CLASSES).map(|_| VecDeque::new()).collect()),
            kept_bytes: Cell::new(0),
            gave: Cell::new(0),
            sweeping: SweepState::default(),
        }
    }

    /// The same client, told that no record is longer than `bytes`, so that it reads no more of any
    /// block.
    #[must_use]
    pub fn of_records_up_to(self, bytes: usize) -> Self {
        Self {
            longest: bytes.min(LARGEST_RECORD).next_multiple_of(8),
            ..self
        }
    }

    /// A client of a heap whose blocks are all of one class: block number `n` starts at granule
    /// 1 + `n` times the granules of a block, whoever takes extents.
    pub(crate) fn of_one_class(endpoint: Rc<E>, place: HeapPlace, class: usize) -> Self {
        Self {
            unit: block_bytes(class) as u64,
            carved: Cell::new(class),
            ..Self::new(endpoint, place)
        }
    }

    /// Where the heap lies.
    #[must_use]
    pub fn place(&self) -> HeapPlace {
        self.place
    }

    /// Reads the record that a slot names; nothing if the block has had another use since, or is
    /// not yet visible whole.
    ///
    /// # Errors
    /// What the fabric says.
    #[inline]
    pub async fn read(&self, block: BlockRef) -> Result<Option<Record>> {
        let look = |fetched: &mut Fetched<'_>| Record::fetched(fetched, 0, block);
        self.endpoint
            .look(Pieces::from_elem(self.piece(block), 1), look)
            .await?
    }

    /// What has to be read of a block to have its record.
    #[inline]
    pub(crate) fn piece(&self, block: BlockRef) -> Piece {
        Piece {
            from: self.at(block.granule),
            len: block_bytes(block.class).min(self.longest),
        }
    }

    /// Writes an encoded record into a block of its own. No slot names it yet.
    ///
    /// # Errors
    /// [`HeapFull`](crate::IndexError::HeapFull), or what the fabric says.
    pub async fn write(&self, mut record: Buffer) -> Result<BlockRef> {
        let block = self.assign(&mut record).await?;
        // If this fails, the write may come yet: the block is not used again.
        self.write_at(block, record).await?;
        Ok(block)
    }

    /// A record that goes into this block.
    pub(crate) fn new_record<'k>(
        &self,
        block: BlockRef,
        (key, value): (&'k [u8], &'k [u8]),
    ) -> NewRecord<'k> {
        NewRecord {
            at: self.at(block.granule),
            block: Some(block),
            key,
            value,
        }
    }

    /// Finds a block for an encoded record, and makes the record that of the block. It is still to
    /// be [written there](Self::write_at).
    ///
    /// # Errors
    /// [`HeapFull`](crate::IndexError::HeapFull), or what the fabric says.
    pub(crate) async fn assign(&self, record: &mut Buffer) -> Result<BlockRef> {
        // What is written to a node that is down fails, and a block that a failed WRITE was for is
        // not used again: who tries on and on would use up the heap.
        self.endpoint.check_not_down(self.place.header.node)?;
        let own = || self.allocate_own(record.len());
        let block = match (!self.is_look_due()).then(own).flatten() {
            Some(held) => held.block,
            // Boxed, for it is rare: every write would be as large.
            None => Box::pin(self.allocate(record.len())).await?,
        };
        seal(record, block);
        Ok(block)
    }

    /// Writes the record that this block was assigned to.
    pub(crate) fn write_at(&self, block: BlockRef, record: Buffer) -> VerbFuture<'_, E, ()> {
        self.endpoint.write(self.at(block.granule), record)
    }

    /// Gives back a block that no slot names any more, where only one client allocates. This cannot
    /// fail: the operation that has replaced the block is done. Blocks that were to be given on to
    /// all and could not be are lost until they are looked for (see `heap::sweep`).
    pub async fn free(&self, block: BlockRef) {
        self.free_since(block, self.epoch()).await;
    }

    /// The same where others allocate too: `since` was the [epoch](Self::epoch) when the verb was
    /// posted that took the slot's name away. A sweep that has begun since then may have the block.
    pub(crate) async fn free_since(&self, block: BlockRef, since: Epoch) {
        if self.keep_since(block, since) {
            // Boxed, for it is rare: every write would be as large.
            Box::pin(self.give_surplus()).await;
        }
    }

    /// Keeps a block that is freed, as [`free_since`](Self::free_since) does; returns whether this
    /// client has too much now, and is to [give](Self::give_surplus) some of it to all before it
    /// keeps more.
    pub(crate) fn keep_since(&self, block: BlockRef, since: Epoch) -> bool {
        if self.is_revoked(block, since) {
            return false;
        }
        self.keep(block);
        self.kept_bytes.get() > self.most_held() || self.freed.borrow()[block.class].len() > KEPT
    }

    /// The same of a block that was allocated and that no slot has come to name.
    pub(crate) fn keep_held(&self, held: Held) -> bool {
        self.keep_since(held.block, held.since)
    }

    /// Gives to all what this client keeps too much of.
    pub(crate) async fn give_surplus(&self) {
        // Down to less than the limit, so that the next blocks do not each pass it again.
        let mut most = self.most_held();
        while let Some((surplus, since)) = self.surplus(most) {
            most = self.most_held() / 4 * 3;
            let _ = self.give_to_all(surplus, since).await;
        }
    }

    /// Most of the blocks of a class, the oldest, if this client keeps too many of them, or more
    /// than `most` bytes, of which that class has the largest part.
    fn surplus(&self, most: u64) -> Option<(Vec<BlockRef>, Epoch)> {
        let mut freed = self.freed.borrow_mut();
        let bytes_in =
            |class: usize, blocks: &VecDeque<BlockRef>| blocks.len() * block_bytes(class);
        // One is kept whatever its size, for the next record.
        let too_much =
            self.kept_bytes.get() > most && freed.iter().map(VecDeque::len).sum::<usize>() > 1;
        let (class, blocks) = (freed.iter_mut().enumerate())
            .filter(|(_, blocks)| too_much || blocks.len() > KEPT)
            .max_by_key(|(class, blocks)| bytes_in(*class, blocks))?;
        let given = (blocks.len() - blocks.len() / 4).min(KEPT / 2);
        let surplus: Vec<BlockRef> = blocks.drain(..given).collect();
        let left = (surplus.len() * block_bytes(class)) as u64;
        self.kept_bytes.set(self.kept_bytes.get() - left);
        self.gave.set(self.gave.get() | 1 << class);
        Some((surplus, self.epoch()))
    }

    /// The most bytes of free blocks that this client keeps, and of its usual extent.
    fn most_held(&self) -> u64 {
        (self.place.bytes / SHARE).min(MOST_HELD)
    }

    /// Bytes of an extent, once a client has had some.
    fn usual_extent(&self) -> u64 {
        let usual = (self.place.bytes / 1024).clamp(4096, MOST_HELD);
        usual.min(self.most_held()).max(FIRST_EXTENT) / GRANULE * GRANULE
    }

    fn keep(&self, block: BlockRef) {
        let bytes = block_bytes(block.class) as u64;
        self.kept_bytes.set(self.kept_bytes.get() + bytes);
        self.freed.borrow_mut()[block.class].push_back(block);
    }

    /// Gives back all that this client holds and does not use: the rest of its extent, and the
    /// blocks that it has freed. It may go on, or be dropped.
    ///
    /// # Errors
    /// What the fabric says; what was being given back may then be lost until it is looked for.
    pub async fn flush(&self) -> Result<()> {
        let (next, end) = self.extent.get();
        if next == end && self.freed.borrow().iter().all(VecDeque::is_empty) {
            return Ok(());
        }
        self.endpoint.operation(UPKEEP, self.give_back()).await
    }

    async fn give_back(&self) -> Result<()> {
        let taken = self.turn().await;
        self.look_if_due().await?;
        // The others carve nothing from now on, and wait for their turn.
        let (next, end) = self.extent.replace((0, 0));
        if next < end && self.extent_generation.get() > 0 {
            // Part of a block that was used before: bytes above the mark count as never used.
            self.extent.set((next, end));
            self.shelve_rest();
        } else if next < end {
            let mark = self.mark.get().at(end - GRANULE);
            let seen = self.swap_mark(mark, mark.at(next - GRANULE)).await?;
            if seen != mark && !self.revokes(&(next..end), mark.epoch) {
                self.extent.set((next, end));
                self.shelve_rest();
            }
        }
        drop(taken);
        for class in 0..CLASSES {
            let blocks: Vec<_> = self.freed.borrow_mut()[class].drain(..).collect();
            let left = (blocks.len() * block_bytes(class)) as u64;
            self.kept_bytes.set(self.kept_bytes.get() - left);
            let since = self.epoch();
            for blocks in blocks.chunks(KEPT / 2) {
                self.give_to_all(blocks.to_vec(), since).await?;
            }
        }
        Ok(())
    }

    /// Forgets what this client holds: nothing of it was used since the client took it.
    pub(crate) fn forget_all(&self) {
        self.extent.set((0, 0));
        self.freed.borrow_mut().iter_mut().for_each(VecDeque::clear);
        self.kept_bytes.set(0);
    }

    pub(crate) fn at(&self, granule: u64) -> RemoteAddr {
        self.place.start.plus(granule * GRANULE)
    }

    /// A block for so many bytes, which nobody else writes until it is freed.
    pub(crate) async fn allocate(&self, bytes: usize) -> Result<BlockRef> {
        // What is written to a node that is down fails, and a block that a failed WRITE was for is
        // not used again: who tries on and on would use up the heap.
        self.endpoint.check_not_down(self.place.header.node)?;
        let full = || too_large(bytes, self.place.bytes);
        let class = class_for(bytes).ok_or_else(full)?;
        loop {
            let held = self.find_block(class).await?.ok_or_else(full)?;
            // If a sweep of its zone has begun meanwhile, the block is left to that sweep.
            if self.still_holds(held).await? {
                return Ok(held.block);
            }
        }
    }

    /// A block for so many bytes, of those that this client has and may use without asking anybody:
    /// for a slot that is made to name it before anything is awaited. Nothing if there is none. To
    /// be called only while no [look](Heap::is_look_due) is due.
    pub(crate) fn allocate_own(&self, bytes: usize) -> Option<Held> {
        let class = class_for(bytes)?;
        let block = match self.reuse_rested(class) {
            Some(block) => block,
            None if self.goes_by_stacks(class) => return None,
            None => self.carve(class)?,
        };
        // If a sweep of its zone has begun, the block is left to that sweep.
        (!self.is_revoked(block, self.epoch())).then(|| self.held(block))
    }

    /// Whether the next block of a class is looked for where all give theirs: every large one would
    /// move the mark, although this client has given some back.
    fn goes_by_stacks(&self, class: usize) -> bool {
        block_bytes(class) as u64 >= self.usual_extent() && self.gave.get() >> class & 1 == 1
    }

    /// A block that this client has freed, long enough ago for its generation to last.
    fn reuse_rested(&self, class: usize) -> Option<BlockRef> {
        // As many classes as records usually have share what a client may keep.
        let resting = self.most_held() as usize / (32 * block_bytes(class));
        self.reuse(class, resting.min(RESTING))
    }

    async fn find_block(&self, class: usize) -> Result<Option<Held>> {
        let (next, end) = self.extent.get();
        if self.kept_bytes.get() > 0 || next < end {
            self.look_if_due().await?;
        }
        if let Some(block) = self.reuse_rested(class) {
            return Ok(Some(self.held(block)));
        }
        if self.goes_by_stacks(class) {
            if let Some(held) = self.take_in_turn(class).await? {
                return Ok(Some(held));
            }
            self.gave.set(self.gave.get() & !(1 << class));
        }
        if let Some(held) = self.carve_or_extend(class).await? {
            return Ok(Some(held));
        }
        if let Some(held) = self.take_in_turn(class).await? {
            return Ok(Some(held));
        }
        if let Some(block) = self.reuse(class, 0) {
            return Ok(Some(self.held(block)));
        }
        self.split_larger(class).await
    }

    /// A block of the common stack, for one coroutine after the other: of several that tried for
    /// its top at once, one would have it, and the others would have read in vain.
    async fn take_in_turn(&self, class: usize) -> Result<Option<Held>> {
        let _turn = self.turn().await;
        self.take_from_all(class).await
    }

    fn reuse(&self, class: usize, resting: usize) -> Option<BlockRef> {
        let freed = &mut self.freed.borrow_mut()[class];
        let block = (freed.len() > resting)
            .then(|| freed.pop_front())
            .flatten()?;
        let left = self.kept_bytes.get() - block_bytes(class) as u64;
        self.kept_bytes.set(left);
        Some(block.next_use())
    }

    fn carve(&self, class: usize) -> Option<BlockRef> {
        let (next, end) = self.extent.get();
        let after = next + block_bytes(class) as u64;
        if after > end {
            return None;
        }
        self.extent.set((after, end));
        self.carved.set(class);
        Some(BlockRef {
            granule: next / GRANULE,
            generation: self.extent_generation.get(),
            class,
        })
    }

    /// Carves a block from the extent, or from a new one; nothing if the heap is handed out.
    async fn carve_or_extend(&self, class: usize) -> Result<Option<Held>> {
        if let Some(block) = self.carve(class) {
            return Ok(Some(self.held(block)));
        }
        let _turn = self.turn().await;
        let bytes = block_bytes(class) as u64;
        let usual = self.usual_extent();
        loop {
            // Whoever had the turn before may have got what is needed.
            if let Some(block) = self.carve(class) {
                return Ok(Some(self.held(block)));
            }
            let wanted = self.next_extent.get().min(usual).max(bytes);
            let Some((taken, since)) = self.take_bytes(wanted, bytes).await? else {
                return Ok(None);
            };
            // Another coroutine may have seen a sweep of these bytes begin before this one went on.
            if self.revokes(&taken, since) {
                continue;
            }
            if bytes < usual {
                self.next_extent.set(wanted * 4);
                let (next, old_end) = self.extent.get();
                if old_end == taken.start && self.extent_generation.get() == 0 {
                    self.extent.set((next, taken.end));
                } else {
                    self.take_extent(taken, 0);
                }
                return Ok(self.carve(class).map(|block| self.held(block)));
            }
            // A block as large as an extent is one: the extent in use stays as it is.
            return Ok(Some(self.held(BlockRef {
                granule: taken.start / GRANULE,
                generation: 0,
                class,
            })));
        }
    }

    async fn turn(&self) -> Taken<'_> {
        self.extending.take(self.endpoint.core()).await
    }

    /// Takes `wanted` bytes of the heap, or as many as are left if that is at least `least`; with
    /// the epoch of that moment. What is refused leaves the mark where it is.
    async fn take_bytes(&self, wanted: u64, least: u64) -> Result<Option<(Range<u64>, Epoch)>> {
        let last = self.place.bytes / GRANULE * GRANULE;
        let fit = |mark: HeapMark| {
            let start = mark.bytes.saturating_add(GRANULE);
            let room = last.saturating_sub(start).min(wanted);
            let room = room / self.unit * self.unit;
            let taken = start..start.saturating_add(room);
            let swept = mark.epoch.revokes(mark.epoch, &taken, self.place.bytes);
            (least <= room && !swept).then_some(taken)
        };
        let mut mark = self.mark.get();
        if fit(mark).is_none() {
            // Others may have handed something back.
            mark = self.look().await?;
        }
        loop {
            let Some(taken) = fit(mark) else {
                return Ok(None);
            };
            let seen = self.swap_mark(mark, mark.at(taken.end - GRANULE)).await?;
            if seen == mark {
                return Ok(Some((taken, mark.epoch)));
            }
            mark = seen;
        }
    }

    /// Carves from these bytes of the heap from now on, blocks of that generation.
    fn take_extent(&self, bytes: Range<u64>, generation: u64) {
        self.shelve_rest();
        self.extent.set((bytes.start, bytes.end));
        self.extent_generation.set(generation);
    }

    /// A block of a class of which there is none, from a larger free block; nothing if there is no
    /// larger one either. What is too much of it for an extent is given to all.
    async fn split_larger(&self, class: usize) -> Result<Option<Held>> {
        if self.unit != GRANULE {
            return Ok(None);
        }
        let _turn = self.turn().await;
        if let Some(block) = self.carve(class) {
            return Ok(Some(self.held(block)));
        }
        for larger in self.larger_on_stacks(class).await? {
            let Some(Held { block, since }) = self.take_from_all(larger).await? else {
                continue;
            };
            let bytes = bytes_of(block);
            let first = self.most_held().max(block_bytes(class) as u64) / GRANULE * GRANULE;
            let first = bytes.start..bytes.end.min(bytes.start + first);
            let rest = first.end..bytes.end;
            self.take_extent(first, block.generation);
            let first = self.carve(class).map(|block| self.held(block));
            self.give_bytes_to_all(rest, block.generation, since)
                .await?;
            return Ok(first);
        }
        Ok(None)
    }

    /// Gives bytes of the heap to all, which are this client's since that epoch, as the largest
    /// blocks that fit; these have that generation already.
    pub(super) async fn give_bytes_to_all(
        &self,
        bytes: Range<u64>,
        generation: u64,
        since: Epoch,
    ) -> Result<()> {
        for block in largest_blocks(bytes, LARGEST_RECORD, generation) {
            self.give_to_all(vec![block], since).await?;
        }
        Ok(())
    }

    /// Keeps the rest of an extent as free blocks: of the class carved last, and of those that fit
    /// into what then is left.
    fn shelve_rest(&self) {
        let usual = self.carved.get();
        for class in std::iter::once(usual).chain((0..CLASSES).rev()) {
            while let Some(block) = self.carve(class) {
                self.keep(block);
            }
        }
        self.carved.set(usual);
    }
}

/// The largest blocks, each of at most so many bytes if that fills a block, that fit into these
/// bytes of a heap, one behind the other.
pub(super) fn largest_blocks(
    bytes: Range<u64>,
    most: usize,
    generation: u64,
) -> impl Iterator<Item = BlockRef> {
    let mut next = bytes.start;
    std::iter::from_fn(move || {
        let room = bytes.end.saturating_sub(next);
        let fits = |class: &usize| {
            let of_class = block_bytes(*class);
            of_class as u64 <= room && of_class <= most.max(block_bytes(0))
        };
        let class = (0..CLASSES).rev().find(fits)?;
        let block = BlockRef {
            granule: next / GRANULE,
            generation,
            class,
        };
        next += block_bytes(class) as u64;
        Some(block)
    })
}
