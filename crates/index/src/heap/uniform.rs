//! Blocks of one size, of a table that one client writes.
//!
//! Their names are numbers: block number `n` starts at granule 1 + `n` times the granules of a
//! block. Nothing has to be moved here to make room: any free block suits any record. The writer
//! keeps what it frees until it flushes: then the free blocks are a chain, in which each names the
//! next, for the writer after it. What a writer kept that was killed is found by a look at all
//! names, when there is no room any more.
//!
//! ```text
//! header     | bytes ever handed out | the chain's first block |
//! free block | the next one | ... |
//! a block: its generation, 11 bits, above its number + 1, 34
//! ```

use super::client::HeapUse;
use super::coroutine_lock::CoroutineLock;
use super::layout::{BlockRef, GRANULE, HeapPlace, block_bytes, too_large};
use crate::Result;
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Freed blocks that wait before the first is used again, so that a generation lasts longer.
const RESTING: usize = 16;
/// Bits of a block's number in a link of the chain.
const NUMBER_BITS: u32 = 34;
/// Blocks that are taken of the heap at a time, once some were.
const AT_ONCE: u64 = 64;
/// Blocks that a look at all names tells apart at a time: 32 MiB of bits.
pub(crate) const BLOCKS_AT_A_TIME: u64 = 256 << 20;

/// The blocks of a heap.
pub(crate) struct UniformBlocks<E> {
    endpoint: Rc<E>,
    place: HeapPlace,
    class: usize,
    /// Numbers of blocks that were taken of the heap and had no record yet.
    fresh: Cell<(u64, u64)>,
    freed: RefCell<VecDeque<BlockRef>>,
    /// Whether the chain may have a block.
    chained: Cell<bool>,
    taking: CoroutineLock,
}

impl<E: Endpoint> UniformBlocks<E> {
    pub(crate) fn new(endpoint: Rc<E>, place: HeapPlace, class: usize) -> Self {
        Self {
            endpoint,
            place,
            class,
            fresh: Cell::new((0, 0)),
            freed: RefCell::default(),
            chained: Cell::new(true),
            taking: CoroutineLock::default(),
        }
    }

    pub(crate) fn at(&self, granule: u64) -> RemoteAddr {
        self.place.start.plus(granule * GRANULE)
    }

    fn block_bytes(&self) -> u64 {
        block_bytes(self.class) as u64
    }

    fn block(&self, number: u64, generation: u64) -> BlockRef {
        BlockRef {
            granule: 1 + number * self.block_bytes() / GRANULE,
            generation,
            class: self.class,
        }
    }

    /// How many blocks there are.
    fn count(&self) -> u64 {
        self.place.bytes.saturating_sub(GRANULE) / self.block_bytes()
    }

    /// A block that no word names.
    ///
    /// # Errors
    /// [`HeapFull`](crate::IndexError::HeapFull), or what the fabric says.
    pub(crate) async fn allocate(&self) -> Result<BlockRef> {
        self.endpoint.check_not_down(self.place.header.node)?;
        let _guard = self.taking.take(self.endpoint.core()).await;
        if let Some(block) = self.reuse(RESTING) {
            return Ok(block);
        }
        if self.fresh.get().0 == self.fresh.get().1 {
            if let Some(block) = self.take_chained().await? {
                return Ok(next_use(block));
            }
            self.take_more().await?;
        }
        let (next, end) = self.fresh.get();
        if next < end {
            self.fresh.set((next + 1, end));
            return Ok(self.block(next, 0));
        }
        let full = || too_large(self.block_bytes() as usize, self.place.bytes);
        self.reuse(0).ok_or_else(full)
    }

    fn reuse(&self, resting: usize) -> Option<BlockRef> {
        let freed = &mut *self.freed.borrow_mut();
        let block = (freed.len() > resting).then(|| freed.pop_front());
        block.flatten().map(next_use)
    }

    fn chain_at(&self) -> RemoteAddr {
        self.place.header.plus(8)
    }

    /// The word that names a block in the chain.
    fn link(&self, block: BlockRef) -> u64 {
        (self.number_of(block) + 1) | block.generation << NUMBER_BITS
    }

    /// Takes the first block of the chain, if there is one.
    async fn take_chained(&self) -> Result<Option<BlockRef>> {
        if !self.chained.get() {
            return Ok(None);
        }
        let first = self.endpoint.read(self.chain_at(), 8).await?.words()[0];
        let number = first & ((1 << NUMBER_BITS) - 1);
        if number == 0 || number > self.count() {
            self.chained.set(false);
            return Ok(None);
        }
        let block = self.block(number - 1, first >> NUMBER_BITS & BlockRef::LAST_GENERATION);
        let next = self.endpoint.read(self.at(block.granule), 8).await?.words()[0];
        let swap = self.endpoint.compare_swap(self.chain_at(), first, next);
        Ok((swap.await? == first).then_some(block))
    }

    /// Empties the chain, for all that no word names is to be found.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn unchain(&self) -> Result<()> {
        let first = self.endpoint.read(self.chain_at(), 8).await?.words()[0];
        let swap = self.endpoint.compare_swap(self.chain_at(), first, 0);
        swap.await?;
        Ok(())
    }

    /// Makes free blocks the first of the chain.
    async fn chain(&self, blocks: Vec<BlockRef>) -> Result<()> {
        let first = self.endpoint.read(self.chain_at(), 8).await?.words()[0];
        let mut next = first;
        for block in blocks {
            let link = self.endpoint.core().buffers.copy_of(&next.to_le_bytes())?;
            self.endpoint.write(self.at(block.granule), link).await?;
            next = self.link(block);
        }
        let swap = self.endpoint.compare_swap(self.chain_at(), first, next);
        swap.await?;
        self.chained.set(true);
        Ok(())
    }

    /// Takes blocks that nobody had yet, if there are any.
    async fn take_more(&self) -> Result<()> {
        let header = self.place.header;
        let mut mark = self.endpoint.read(header, 8).await?.words()[0];
        loop {
            let first = mark / self.block_bytes();
            // A first one alone: many a client writes one record and is gone.
            let wanted = if self.fresh.get().1 == 0 { 1 } else { AT_ONCE };
            let end = (first + wanted).min(self.count());
            if first >= end {
                return Ok(());
            }
            let to = end * self.block_bytes();
            let seen = self.endpoint.compare_swap(header, mark, to).await?;
            if seen == mark {
                self.fresh.set((first, end));
                return Ok(());
            }
            mark = seen;
        }
    }

    /// Frees a block that no word names any more, or that no word came to name.
    pub(crate) fn free(&self, block: BlockRef) {
        self.freed.borrow_mut().push_back(block);
    }

    /// Forgets what this client holds.
    pub(crate) fn forget_all(&self) {
        self.chained.set(true);
        self.fresh.set((0, 0));
        self.freed.borrow_mut().clear();
    }

    /// Gives back what this client holds: the blocks that had no record yet, and those that are
    /// free.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn flush(&self) -> Result<()> {
        let (next, end) = self.fresh.replace((0, 0));
        if next < end {
            let (from, to) = (end * self.block_bytes(), next * self.block_bytes());
            let swap = self.endpoint.compare_swap(self.place.header, from, to);
            swap.await?;
        }
        let freed: Vec<_> = self.freed.borrow_mut().drain(..).collect();
        if !freed.is_empty() {
            self.chain(freed).await?;
        }
        Ok(())
    }

    /// How many blocks were ever taken.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn taken(&self) -> Result<u64> {
        let mark = self.endpoint.read(self.place.header, 8).await?.words()[0];
        Ok((mark / self.block_bytes()).min(self.count()))
    }

    /// How much of the heap is in use.
    pub(crate) async fn in_use(&self) -> Result<HeapUse> {
        Ok(HeapUse {
            used: self.taken().await? * self.block_bytes(),
            bytes: self.place.bytes,
            ..HeapUse::default()
        })
    }

    /// The number of a block.
    pub(crate) fn number_of(&self, block: BlockRef) -> u64 {
        block.granule.saturating_sub(1) * GRANULE / self.block_bytes()
    }

    /// Frees the blocks of these numbers that are in no word: what a client before this one kept.
    pub(crate) fn found(&self, numbers: impl Iterator<Item = u64>, draw: impl Fn(u64) -> u64) {
        let freed = &mut *self.freed.borrow_mut();
        for number in numbers {
            freed.push_back(self.block(number, draw(number) & BlockRef::LAST_GENERATION));
        }
    }
}

/// The next use of a free block.
const fn next_use(block: BlockRef) -> BlockRef {
    BlockRef {
        generation: (block.generation + 1) & BlockRef::LAST_GENERATION,
        ..block
    }
}
