//! The stacks of free blocks that all clients share, one for each class. The tag of a stack's head
//! changes with every push and pop.

use super::allocator::Heap;
use super::layout::{BlockRef, CLASSES, GRANULE, block_bytes};
use super::mark::{Epoch, Held};
use crate::Result;
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr, window};

/// Bits of a stack head below its tag.
const HEAD_BITS: u32 = 34;

impl<E: Endpoint> Heap<E> {
    fn head_at(&self, class: usize) -> RemoteAddr {
        self.place.header.plus(8 + class as u64 * 8)
    }

    /// The classes above this one of which there are blocks.
    pub(super) async fn larger_on_stacks(&self, class: usize) -> Result<Vec<usize>> {
        let heads = self.endpoint.read(self.head_at(0), CLASSES * 8).await?;
        let is_there = |class: &usize| heads.words()[*class] & ((1 << HEAD_BITS) - 1) != 0;
        Ok((class + 1..CLASSES).filter(is_there).collect())
    }

    /// Puts blocks of one class on the common stack, as a chain, by one compare-and-swap; but for
    /// those that are not this client's any more, which had them at the epoch `since`.
    pub(super) async fn give_to_all(&self, blocks: Vec<BlockRef>, since: Epoch) -> Result<()> {
        let mut blocks = blocks;
        loop {
            self.look_if_due().await?;
            let epoch = self.epoch();
            blocks.retain(|block| !self.is_revoked(*block, since));
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
                let below = head & ((1 << HEAD_BITS) - 1);
                self.write_link(*last, below).await?;
                self.look_if_due().await?;
                if self.epoch() != epoch {
                    break;
                }
                let new = first.granule | next_tag(head);
                let seen = self.endpoint.compare_swap(head_at, head, new).await?;
                if seen == head {
                    return Ok(());
                }
                head = seen;
            }
        }
    }

    async fn write_link(&self, block: BlockRef, next: u64) -> Result<()> {
        let link = block.link(next).to_le_bytes();
        let link = self.endpoint.core().buffers.copy_of(&link)?;
        Ok(self.endpoint.write(self.at(block.granule), link).await?)
    }

    /// Takes all blocks of a class from the common stack, and the epoch in which they were there.
    ///
    /// The look at the epoch comes between the READ of the head and the swap. So the blocks were on
    /// the stack at the moment of the look: those in a zone that was swept before are what that
    /// sweep has found, for a sweep empties the stacks, which changes their heads.
    pub(super) async fn take_stack(&self, class: usize) -> Result<(Vec<BlockRef>, Epoch)> {
        let (mut granule, epoch) = self.detach_stack(class).await?;
        let mut taken = Vec::new();
        // Memory that was damaged may have links that lead anywhere, or round in a circle.
        let most = self.place.bytes / block_bytes(class) as u64;
        while granule != 0 && (taken.len() as u64) < most && granule < self.place.bytes / GRANULE {
            let word = self.endpoint.read(self.at(granule), 8).await?.words()[0];
            let (next, generation) = BlockRef::unlink(word);
            taken.push(BlockRef {
                granule,
                generation,
                class,
            });
            granule = next;
        }
        Ok((taken, epoch))
    }

    /// Empties the common stack of a class. Returns the first granule of its first block, 0 if
    /// there is none, and the epoch in which its blocks were there.
    pub(super) async fn detach_stack(&self, class: usize) -> Result<(u64, Epoch)> {
        let head_at = self.head_at(class);
        let mut head = self.endpoint.read(head_at, 8).await?.words()[0];
        loop {
            let granule = head & ((1 << HEAD_BITS) - 1);
            let epoch = self.look().await?.epoch;
            if granule == 0 {
                return Ok((0, epoch));
            }
            let emptying = self.endpoint.compare_swap(head_at, head, next_tag(head));
            let seen = emptying.await?;
            if seen == head {
                return Ok((granule, epoch));
            }
            head = seen;
        }
    }

    /// Takes a block of a class from the common stack.
    ///
    /// A block in the zone that is being swept is taken and dropped: the sweep finds it, since the
    /// swap succeeds only if the sweep has not emptied the stack yet (see
    /// [`take_stack`](Self::take_stack)).
    pub(super) async fn take_from_all(&self, class: usize) -> Result<Option<Held>> {
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
            let block = BlockRef {
                granule,
                generation,
                class,
            };
            self.look_if_due().await?;
            if self.is_revoked(block, self.epoch()) {
                // That sweep may be over, and the block may be one that it has found.
                self.look().await?;
            }
            let since = self.epoch();
            let new = next | next_tag(head);
            let seen = self.endpoint.compare_swap(head_at, head, new).await?;
            if seen != head {
                head = seen;
                continue;
            }
            if !self.is_revoked(block, since) {
                let block = block.next_use();
                return Ok(Some(Held { block, since }));
            }
            head = new;
        }
    }
}

const fn next_tag(head: u64) -> u64 {
    ((head >> HEAD_BITS) + 1) << HEAD_BITS
}
