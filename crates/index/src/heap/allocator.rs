//! Getting and giving back blocks, from any client, without a lock.
//!
//! A client takes an extent of the heap by one compare-and-swap of the mark and carves it up alone.
//! Its first extent is the block it needs, or a few small ones; each later one is four times the
//! one before, up to a usual size. What it frees it keeps, and gives on to all when it has too
//! much: to a stack of free blocks for each class, whose head carries a tag that changes at every
//! turn. A client that flushes keeps nothing. One that dies takes its extent's rest, which is at
//! most some times what it has carved, and its free blocks with it, and nothing else.

use super::layout::{
    BlockRef, CLASSES, GRANULE, HeapPlace, LARGEST_RECORD, Record, block_bytes, class_for, seal,
    too_large,
};
use crate::{Result, UPKEEP};
use farslot_fabric::VerbFuture;
use farslot_fabric::{
    Buffer, Endpoint, EndpointCore, EndpointExt, NodeState, Piece, RemoteAddr, window,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Freed blocks that a client keeps of each class before it gives half of them to all.
const KEPT: usize = 256;
/// Freed blocks that wait before the first is used again, so that a generation lasts longer.
const RESTING: usize = 16;
/// Bytes of a client's first extent, if its first block needs no more: few, for many a client puts
/// one record and is gone.
const FIRST_EXTENT: u64 = 256;
/// Bits of a stack head below its tag.
const HEAD_BITS: u32 = 34;

/// One client's share of a heap.
pub struct Heap<E> {
    endpoint: Rc<E>,
    place: HeapPlace,
    /// The most bytes that have to be read of a block, a multiple of 8.
    longest: usize,
    /// Extents are multiples of this many bytes.
    unit: u64,
    /// The part of the client's extent that is still to be carved: bytes from the heap's start.
    extent: Cell<(u64, u64)>,
    /// How many bytes the next extent is to have.
    next_extent: Cell<u64>,
    /// The class of the block carved last: what the rest of an extent is likely to be wanted as.
    carved: Cell<usize>,
    /// The mark up to which the heap is handed out, as this client saw it last.
    mark: Cell<u64>,
    /// Taken by the coroutine that gets the next extent, so that the others do not get one each.
    extending: Turn,
    freed: RefCell<Vec<VecDeque<BlockRef>>>,
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
            next_extent: Cell::new(FIRST_EXTENT),
            carved: Cell::new(0),
            mark: Cell::new(0),
            extending: Turn::default(),
            freed: RefCell::new((0..CLASSES).map(|_| VecDeque::new()).collect()),
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
        let Piece { from, len } = self.piece(block);
        let read = self.endpoint.read(from, len);
        Ok(Record::decode(read.await?, block))
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

    /// Finds a block for an encoded record, and makes the record that of the block. It is still to
    /// be [written there](Self::write_at).
    ///
    /// # Errors
    /// [`HeapFull`](crate::IndexError::HeapFull), or what the fabric says.
    pub(crate) async fn assign(&self, record: &mut Buffer) -> Result<BlockRef> {
        let block = self.allocate(record.len()).await?;
        seal(record, block);
        Ok(block)
    }

    /// Writes the record that this block was assigned to.
    pub(crate) fn write_at(&self, block: BlockRef, record: Buffer) -> VerbFuture<'_, E, ()> {
        self.endpoint.write(self.at(block.granule), record)
    }

    /// Gives back a block that no slot names any more. This cannot fail: the operation that has
    /// replaced the block is done. Blocks that were to be given on to all and could not be are lost
    /// until the table is rebuilt.
    pub async fn free(&self, block: BlockRef) {
        let surplus: Vec<BlockRef> = {
            let freed = &mut self.freed.borrow_mut()[block.class];
            freed.push_back(block);
            if freed.len() <= KEPT {
                return;
            }
            freed.drain(..KEPT / 2).collect()
        };
        let _ = self.give_to_all(&surplus).await;
    }

    /// Gives back all that this client holds and does not use: the rest of its extent, and the
    /// blocks that it has freed. It may go on, or be dropped.
    ///
    /// # Errors
    /// What the fabric says; what was being given back may then be lost until the table is rebuilt.
    pub async fn flush(&self) -> Result<()> {
        let (next, end) = self.extent.get();
        if next == end && self.freed.borrow().iter().all(VecDeque::is_empty) {
            return Ok(());
        }
        self.endpoint.operation(UPKEEP, self.give_back()).await
    }

    async fn give_back(&self) -> Result<()> {
        let taken = self.turn().await;
        // The others carve nothing from now on, and wait for their turn.
        let (next, end) = self.extent.replace((0, 0));
        if next < end {
            let (mark, before) = (end - GRANULE, next - GRANULE);
            let seen = self
                .endpoint
                .compare_swap(self.place.header, mark, before)
                .await?;
            if seen == mark {
                self.mark.set(before);
            } else {
                self.mark.set(seen);
                self.extent.set((next, end));
                self.shelve_rest();
            }
        }
        drop(taken);
        for class in 0..CLASSES {
            let blocks: Vec<_> = self.freed.borrow_mut()[class].drain(..).collect();
            for blocks in blocks.chunks(KEPT / 2) {
                self.give_to_all(blocks).await?;
            }
        }
        Ok(())
    }

    pub(crate) fn at(&self, granule: u64) -> RemoteAddr {
        self.place.start.plus(granule * GRANULE)
    }

    fn head_at(&self, class: usize) -> RemoteAddr {
        self.place.header.plus(8 + class as u64 * 8)
    }

    /// A block for so many bytes, which nobody else writes until it is freed.
    pub(crate) async fn allocate(&self, bytes: usize) -> Result<BlockRef> {
        // What is written to a node that is down fails, and a block that a failed WRITE was for is
        // not used again: who tries on and on would use up the heap.
        if let NodeState::Down(error) = self.endpoint.node_state(self.place.header.node)? {
            return Err(error.into());
        }
        let full = || too_large(bytes, self.place.bytes);
        let class = class_for(bytes).ok_or_else(full)?;
        if let Some(block) = self.reuse(class, RESTING) {
            return Ok(block);
        }
        if let Some(block) = self.carve_or_extend(class).await? {
            return Ok(block);
        }
        if let Some(block) = self.take_from_all(class).await? {
            return Ok(block);
        }
        self.reuse(class, 0).ok_or_else(full)
    }

    fn reuse(&self, class: usize, resting: usize) -> Option<BlockRef> {
        let freed = &mut self.freed.borrow_mut()[class];
        (freed.len() > resting)
            .then(|| freed.pop_front())
            .flatten()
            .map(BlockRef::next_use)
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
            generation: 0,
            class,
        })
    }

    /// Carves a block from the extent, or from a new one; nothing if the heap is handed out.
    async fn carve_or_extend(&self, class: usize) -> Result<Option<BlockRef>> {
        if let Some(block) = self.carve(class) {
            return Ok(Some(block));
        }
        let _turn = self.turn().await;
        // Whoever had the turn before may have got what is needed.
        if let Some(block) = self.carve(class) {
            return Ok(Some(block));
        }
        let bytes = block_bytes(class) as u64;
        let usual = (self.place.bytes / 1024).clamp(4096, 1 << 20) / GRANULE * GRANULE;
        let wanted = self.next_extent.get().min(usual).max(bytes);
        let Some((start, end)) = self.take_bytes(wanted, bytes).await? else {
            return Ok(None);
        };
        if bytes < usual {
            self.next_extent.set(wanted * 4);
            let (next, old_end) = self.extent.get();
            if old_end == start {
                self.extent.set((next, end));
            } else {
                self.shelve_rest();
                self.extent.set((start, end));
            }
            return Ok(self.carve(class));
        }
        // A block as large as an extent is one: the extent in use stays as it is.
        Ok(Some(BlockRef {
            granule: start / GRANULE,
            generation: 0,
            class,
        }))
    }

    async fn turn(&self) -> Taken<'_> {
        self.extending.take(self.endpoint.core()).await
    }

    /// Takes `wanted` bytes of the heap, or as many as are left if that is at least `least`. What
    /// is refused leaves the mark where it is.
    async fn take_bytes(&self, wanted: u64, least: u64) -> Result<Option<(u64, u64)>> {
        let last = self.place.bytes / GRANULE * GRANULE;
        let fit = |mark: u64| {
            let start = mark.saturating_add(GRANULE);
            let room = last.saturating_sub(start).min(wanted);
            let room = room / self.unit * self.unit;
            (least <= room).then_some((start, start + room))
        };
        let mut mark = self.mark.get();
        if fit(mark).is_none() {
            // Others may have handed something back.
            mark = self.endpoint.read(self.place.header, 8).await?.words()[0];
        }
        loop {
            let Some((start, end)) = fit(mark) else {
                self.mark.set(mark);
                return Ok(None);
            };
            let new = end - GRANULE;
            let seen = self
                .endpoint
                .compare_swap(self.place.header, mark, new)
                .await?;
            if seen == mark {
                self.mark.set(new);
                return Ok(Some((start, end)));
            }
            mark = seen;
        }
    }

    /// Keeps the rest of an extent as free blocks: of the class carved last, and of those that fit
    /// into what then is left.
    fn shelve_rest(&self) {
        let usual = self.carved.get();
        for class in std::iter::once(usual).chain((0..CLASSES).rev()) {
            while let Some(block) = self.carve(class) {
                self.freed.borrow_mut()[class].push_back(block);
            }
        }
        self.carved.set(usual);
    }

    /// Puts blocks of one class on the common stack, as a chain, by one compare-and-swap.
    async fn give_to_all(&self, blocks: &[BlockRef]) -> Result<()> {
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
            return Ok(());
        };
        let links = blocks
            .windows(2)
            .map(|pair| self.write_link(pair[0], pair[1].granule));
        let mut failed = Ok(());
        window(blocks.len(), links, |_, written: Result<()>| {
            if let Err(error) = written {
                failed = Err(error);
            }
        })
        .await;
        failed?;
        let head_at = self.head_at(first.class);
        let mut head = self.endpoint.read(head_at, 8).await?.words()[0];
        loop {
            self.write_link(*last, head & ((1 << HEAD_BITS) - 1))
                .await?;
            let new = first.granule | next_tag(head);
            let seen = self.endpoint.compare_swap(head_at, head, new).await?;
            if seen == head {
                return Ok(());
            }
            head = seen;
        }
    }

    async fn write_link(&self, block: BlockRef, next: u64) -> Result<()> {
        let link = block.link(next).to_le_bytes();
        let link = self.endpoint.core().buffers.copy_of(&link)?;
        Ok(self.endpoint.write(self.at(block.granule), link).await?)
    }

    async fn take_from_all(&self, class: usize) -> Result<Option<BlockRef>> {
        let head_at = self.head_at(class);
        let mut head = self.endpoint.read(head_at, 8).await?.words()[0];
        loop {
            let granule = head & ((1 << HEAD_BITS) - 1);
            if granule == 0 {
                return Ok(None);
            }
            // If another client takes the block first, this is no link; but then the tag has
            // changed.
            let word = self.endpoint.read(self.at(granule), 8).await?.words()[0];
            let (next, generation) = BlockRef::unlink(word);
            let new = next | next_tag(head);
            let seen = self.endpoint.compare_swap(head_at, head, new).await?;
            if seen == head {
                let block = BlockRef {
                    granule,
                    generation,
                    class,
                };
                return Ok(Some(block.next_use()));
            }
            head = seen;
        }
    }
}

/// Lets the coroutines of a thread do something one after the other.
///
/// Those that a callback of a batch runs do not wait for those of the batch, which goes on only
/// behind the callback: they do it beside them.
#[derive(Default)]
struct Turn {
    /// Within how many calls that block the turn was taken; 0 while it is free.
    taken_within: Cell<u32>,
    waiting: RefCell<Vec<Waker>>,
}

/// A turn; nothing of one whose owner goes on beside that of the turn.
struct Taken<'t>(Option<&'t Turn>);

impl Turn {
    async fn take(&self, core: &EndpointCore) -> Taken<'_> {
        poll_fn(|cx| {
            // Whoever drives its futures by itself blocks nobody.
            let (taken, nesting) = (self.taken_within.get(), core.nesting().max(1));
            if taken == 0 {
                self.taken_within.set(nesting);
                return Poll::Ready(Taken(Some(self)));
            }
            if nesting <= taken {
                let mut waiting = self.waiting.borrow_mut();
                if !waiting
                    .last()
                    .is_some_and(|last| last.will_wake(cx.waker()))
                {
                    waiting.push(cx.waker().clone());
                }
                return Poll::Pending;
            }
            Poll::Ready(Taken(None))
        })
        .await
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.0 {
            turn.taken_within.set(0);
            turn.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}

const fn next_tag(head: u64) -> u64 {
    ((head >> HEAD_BITS) + 1) << HEAD_BITS
}
