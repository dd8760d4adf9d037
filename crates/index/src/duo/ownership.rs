//! Who has the table: one client, named by a word of it.

use super::bytes::{MOVES_AT, NOTE_AT, OWNED_AT, OWNER_AT, TICKETS_AT};
use super::state::{DuoOwner, DuoTable};
use crate::{IndexError, Result, UPKEEP, writer_note};
use farslot_fabric::{Endpoint, EndpointExt};
use std::sync::atomic::Ordering;

impl<E: Endpoint> DuoTable<E> {
    /// Becomes the owner, unless another client is, and makes the index. Called by who is alone.
    pub(super) async fn become_owner(&self) -> Result<()> {
        if self.still_owns() {
            return Ok(());
        }
        let becoming = async {
            self.claim(0).await?;
            self.begin().await
        };
        self.endpoint.operation(UPKEEP, becoming).await
    }

    /// The mark of the client that is the owner now, if one is.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn owner(&self) -> Result<Option<u64>> {
        let word = self.endpoint.read(self.table.plus(OWNER_AT), 8);
        let word = self.endpoint.operation(UPKEEP, word).await?;
        Ok(Some(word.words()[0]).filter(|mark| *mark != 0))
    }

    /// Whether the index is that of the vault, but for what is under way.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.still_owns() && DuoOwner::is_settled(self)
    }

    /// Whether this client is the owner, as far as it knows. What it writes from then on is posted
    /// only while it is.
    #[inline]
    fn still_owns(&self) -> bool {
        if !self.owns.load(Ordering::Acquire) {
            return false;
        }
        let mark = self.mark.load(Ordering::Relaxed);
        let is_owner = self.endpoint.fence(self.table.plus(OWNER_AT), mark);
        if !is_owner {
            self.owns.store(false, Ordering::Release);
            self.forget_heap();
        }
        is_owner
    }

    /// Puts this client's mark into the owner's word.
    async fn claim(&self, from: u64) -> Result<()> {
        let mark = self.mark().await?;
        let word = self.table.plus(OWNER_AT);
        // Another thread's claim or resignation may still be under way.
        self.outlive_doubts().await;
        let doubt = self.doubt(Vec::new());
        self.endpoint.fence(word, 0);
        let (mut expected, mut seen) = (from, self.endpoint.compare_swap(word, from, mark).await?);
        if seen == 0 && from != 0 {
            // The resignation of the one before was still under way.
            (expected, seen) = (0, self.endpoint.compare_swap(word, 0, mark).await?);
        }
        doubt.resolve();
        // The mark is there already if an earlier answer was lost.
        if seen != expected && seen != mark {
            self.unsettled.store(false, Ordering::Relaxed);
            return Err(IndexError::WriterBusy { writer: seen });
        }
        self.endpoint.fence(word, mark);
        writer_note::leave(&*self.endpoint, self.table.plus(NOTE_AT), mark);
        Ok(())
    }

    /// This client's mark, of no other client.
    async fn mark(&self) -> Result<u64> {
        let mut mark = self.mark.load(Ordering::Relaxed);
        if mark == 0 {
            let tickets = self.table.plus(TICKETS_AT);
            mark = self.endpoint.fetch_add(tickets, 1).await?.saturating_add(1);
            self.mark.store(mark, Ordering::Relaxed);
        }
        Ok(mark)
    }

    /// Ends a claim: makes the index.
    async fn begin(&self) -> Result<()> {
        self.settle().await;
        self.forget_heap();
        let owned = self.table.plus(OWNED_AT);
        if self.endpoint.compare_swap(owned, 0, 1).await? == 0 {
            // An answer that was lost, the first time, only costs a look at an empty vault.
            self.forget();
            self.doubts.clear();
            self.journal.reset(&self.layout);
            self.moves.store(0, Ordering::Relaxed);
        } else {
            self.rebuild().await?;
            if let Some(heap) = self.current_heap() {
                heap.inherit().await?;
            }
            let moves = self.endpoint.read(self.table.plus(MOVES_AT), 8).await?;
            self.moves.store(moves.words()[0], Ordering::Relaxed);
            let live = self.index.borrow().live();
            self.counts.correct(&*self.endpoint, live).await?;
        }
        self.owns.store(true, Ordering::Release);
        Ok(())
    }

    /// Waits as long as verbs of an owner that was taken over from may still be under way, or verbs
    /// of this one's other threads that are in doubt.
    async fn settle(&self) {
        self.outlive_doubts().await;
        if self.unsettled.load(Ordering::Relaxed) {
            let longest = self.endpoint.core().limits.verb_timeout;
            let longest = longest.max(self.endpoint.fence_lasts());
            self.endpoint.sleep(longest).await;
            self.unsettled.store(false, Ordering::Relaxed);
        }
    }

    /// Becomes the owner in place of one that is known to be dead, and makes the index from the
    /// vault. What the other was in the middle of is finished or was never begun; nothing that it
    /// had acknowledged is lost.
    ///
    /// Where both map the table's memory, this is refused unless the other's process has ended or
    /// is this one. Otherwise nobody but the caller knows: over a network, from another PID
    /// namespace, or if the other was stopped between becoming the owner and saying which process
    /// it is.
    ///
    /// This waits as long as a verb of the other may still be under way, and as long as its
    /// endpoint may let it write without a look at the owner's word ([`Endpoint::fence_lasts`]).
    ///
    /// # Errors
    /// [`IndexError::WriterAlive`]; [`IndexError::WriterBusy`] if a third client was faster, or as
    /// [`DuoTable::start`].
    pub async fn take_over(&self) -> Result<()> {
        self.replace_owner(false).await
    }

    /// Takes over as [`DuoTable::take_over`] does, whether or not the other is dead.
    ///
    /// If it is alive, or was stopped and goes on, its writes are refused from then on
    /// ([`Endpoint::fence`]). A verb that it was about to post when it was stopped can still
    /// overwrite one slot, and with it a record that this client has acknowledged, unless the node
    /// looks at the owner's word too, as over TCP. Over an endpoint without fences it notices at
    /// its next write to a slot that this one has changed, and not before.
    ///
    /// # Errors
    /// As [`DuoTable::take_over`], without [`IndexError::WriterAlive`].
    pub async fn force_take_over(&self) -> Result<()> {
        self.replace_owner(true).await
    }

    async fn replace_owner(&self, by_force: bool) -> Result<()> {
        let _alone = self.locks.take_alone(&[]).await;
        let word = self.table.plus(OWNER_AT);
        let taking = async {
            let holder = self.endpoint.read(word, 8).await?.words()[0];
            let mark = self.mark().await?;
            if holder == mark && self.owns.load(Ordering::Acquire) {
                return Ok(());
            }
            if holder != 0 && holder != mark {
                if !by_force {
                    let note = self.table.plus(NOTE_AT);
                    writer_note::check_ended(&*self.endpoint, note, holder)?;
                }
                // Also if this is given up now: the mark may be there all the same.
                self.unsettled.store(true, Ordering::Relaxed);
            }
            self.owns.store(false, Ordering::Release);
            self.claim(holder).await?;
            self.begin().await
        };
        self.endpoint.operation(UPKEEP, taking).await
    }

    /// Reports the counts, and gives back what this thread holds of the heap. Called by who holds
    /// something, or is alone.
    pub(super) async fn hand_over(&self) -> Result<()> {
        if self.owns.load(Ordering::Acquire) && !self.still_owns() {
            // What is left to report is another owner's to count.
            return Ok(());
        }
        self.report().await.and(self.flush_heap().await)
    }

    /// Stops being the owner, so that another client may be: reports what this one has counted,
    /// waits for its operations that are under way, forgets its index, and takes its mark out of
    /// the owner's word. An operation that begins later makes it the owner again, if no other is. A
    /// client that never was has nothing to resign.
    ///
    /// Waits for ever if a write was begun and is neither polled nor dropped.
    ///
    /// # Errors
    /// What the fabric says. If the mark may still be there, resigning again takes it out; counts
    /// that could not be handed over are lost, which does no other harm.
    pub async fn resign(&self) -> Result<()> {
        let alone = self.locks.take_alone(&[]).await;
        let handed_over = self.hand_over().await;
        let mark = self.mark.load(Ordering::Relaxed);
        if mark == 0 {
            return handed_over;
        }
        self.settle().await;
        // The mark, not what this client takes itself for: a claim or an earlier resignation whose
        // answer was lost may have left it there, and no other client has it.
        self.owns.store(false, Ordering::Release);
        self.forget();
        let word = self.table.plus(OWNER_AT);
        let doubt = self.doubt(Vec::new());
        let resigning = self.endpoint.compare_swap(word, mark, 0);
        self.endpoint.operation(UPKEEP, resigning).await?;
        doubt.resolve();
        self.endpoint.fence(word, 0);
        drop(alone);
        handed_over
    }
}
