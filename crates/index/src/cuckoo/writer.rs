//! Who may write: one client, named by a word of the table.

use super::client::CuckooTable;
use super::layout::{NOTE_AT, SEALED_AT, TICKETS_AT, WRITER_AT};
use crate::slot::KeyRule;
use crate::{IndexError, Result, UPKEEP, writer_note};
use farslot_fabric::{Endpoint, EndpointExt, FabricError};

impl<E: Endpoint> CuckooTable<E> {
    /// Becomes the writer of a table of unique keys, unless another client is. Whoever asks holds
    /// the buckets that it writes, so that it is the writer until it lets them go.
    pub(super) async fn become_writer(&self, operation: &'static str) -> Result<()> {
        if self.layout.keys == KeyRule::Multi {
            return Err(IndexError::MultiKey { operation });
        }
        self.become_writer_of_any(operation).await
    }

    /// Becomes the writer of a table of whatever keys.
    pub(super) async fn become_writer_of_any(&self, operation: &'static str) -> Result<()> {
        if !self.still_writes() && !self.sealed.get() {
            self.check_nothing_is_left_over()?;
            let becoming = async {
                let mark = self.claim(0).await?;
                self.write_from_now_on(mark).await
            };
            self.endpoint.operation(UPKEEP, becoming).await?;
        }
        if self.sealed.get() {
            return Err(IndexError::Sealed { operation });
        }
        Ok(())
    }

    /// Whether this client is the writer of a table that may be written, as far as it knows.
    #[inline]
    pub(super) fn is_writing(&self) -> bool {
        self.still_writes() && !self.sealed.get()
    }

    /// Whether this client is the writer, as far as it knows. What it writes from then on is posted
    /// only while it is.
    fn still_writes(&self) -> bool {
        let Some(mark) = self.writer.get() else {
            return false;
        };
        let is_writer = self.endpoint.fence(self.table.plus(WRITER_AT), mark);
        if !is_writer {
            self.note_deposed();
        }
        is_writer
    }

    /// Another client has become the writer: what this one knew and held as the writer is void.
    pub(super) fn note_deposed(&self) {
        self.writer.set(None);
        self.was_deposed.set(true);
        self.forget_graph();
        // The other may have found that no slot names it, and use it.
        self.forget_heap();
    }

    /// Refuses to become the writer again beside operations that began as an earlier one: what they
    /// have read is out of date, and must not be written by once the fence lets it through.
    fn check_nothing_is_left_over(&self) -> Result<()> {
        if self.was_deposed.get() && self.locks.holders() > 1 {
            let at = self.table.plus(WRITER_AT);
            return Err(FabricError::Deposed { at, sent: false }.into());
        }
        Ok(())
    }

    /// The mark of the client that is the writer now, if one is.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn writer(&self) -> Result<Option<u64>> {
        let word = self.endpoint.read(self.table.plus(WRITER_AT), 8);
        let word = self.endpoint.operation(UPKEEP, word).await?;
        Ok(Some(word.words()[0]).filter(|mark| *mark != 0))
    }

    /// Becomes the writer now, and not at the first write; with
    /// [predetermination](CuckooTable::with_predetermination), surveys the table now.
    ///
    /// # Errors
    /// [`IndexError::WriterBusy`], [`IndexError::Sealed`], or what the fabric says.
    pub async fn start_writing(&self) -> Result<()> {
        let held = self.locks.take(&[]).await;
        self.become_writer_of_any("writing").await?;
        drop(held);
        if self.layout.keys == KeyRule::Multi {
            return Ok(());
        }
        self.know_graph("writing").await
    }

    /// Puts this client's mark into the writer's word, in place of the mark `from` or of none.
    async fn claim(&self, from: u64) -> Result<u64> {
        let mark = self.mark().await?;
        let word = self.table.plus(WRITER_AT);
        self.endpoint.fence(word, 0);
        let mut from = from;
        let mut seen = self.endpoint.compare_swap(word, from, mark).await?;
        if seen == 0 && from != 0 {
            // The writer that this one takes over from has resigned meanwhile: there is none.
            from = 0;
            seen = self.endpoint.compare_swap(word, from, mark).await?;
        }
        // The mark is there already if another coroutine was faster, or an earlier answer was lost.
        if seen != from && seen != mark {
            self.unsettled.set(false);
            return Err(IndexError::WriterBusy { writer: seen });
        }
        self.endpoint.fence(word, mark);
        writer_note::leave(&*self.endpoint, self.table.plus(NOTE_AT), mark);
        Ok(mark)
    }

    /// This client's mark, of no other client.
    async fn mark(&self) -> Result<u64> {
        if self.mark.get() == 0 {
            let tickets = self.table.plus(TICKETS_AT);
            let mark = self.endpoint.fetch_add(tickets, 1).await?.saturating_add(1);
            // Of several coroutines that have come here, the first says.
            if self.mark.get() == 0 {
                self.mark.set(mark);
            }
        }
        Ok(self.mark.get())
    }

    /// Ends a claim. The writer before may have sealed the table, which no other client can any
    /// more.
    async fn write_from_now_on(&self, mark: u64) -> Result<()> {
        self.settle().await;
        let sealed = self.endpoint.read(self.table.plus(SEALED_AT), 8).await?;
        self.sealed.set(sealed.words()[0] != 0);
        if self.was_deposed.replace(false) {
            // What it has kept since then by operations that it had begun before.
            self.forget_heap();
        }
        self.inherits.set(true);
        self.writer.set(Some(mark));
        Ok(())
    }

    /// Waits as long as verbs of a writer that was taken over from may still be under way, those
    /// included that its endpoint posts without a look at the writer's word.
    async fn settle(&self) {
        if self.unsettled.get() {
            let longest = self.endpoint.core().limits.verb_timeout;
            let longest = longest.max(self.endpoint.fence_lasts());
            self.endpoint.sleep(longest).await;
            self.unsettled.set(false);
        }
    }

    /// Becomes the writer in place of one that is known to be dead. It may have died in the middle
    /// of an insertion: a key may then stand twice, with the same value, until it is next written.
    ///
    /// Where both map the table's memory, this is refused unless the other's process has ended or
    /// is this one. Otherwise nobody but the caller knows: over a network, from another PID
    /// namespace, or if the other was stopped between becoming the writer and saying which process
    /// it is.
    ///
    /// This waits as long as a verb of the other may still be under way: one that took effect
    /// behind a write of this client could undo it. If this is given up while it waits, the
    /// client's next write or [`CuckooTable::resign`] waits instead.
    ///
    /// # Errors
    /// [`IndexError::WriterAlive`], [`IndexError::WriterBusy`] if a third client was faster, or
    /// what the fabric says.
    pub async fn take_over(&self) -> Result<()> {
        self.replace_writer(false).await
    }

    /// Takes over as [`CuckooTable::take_over`] does, whether or not the other is dead.
    ///
    /// If it is alive, or was stopped and goes on, its writes are refused from then on
    /// ([`Endpoint::fence`]). A verb that it was about to post when it was stopped can still
    /// overwrite one slot, and with it a record that this client has acknowledged, unless the node
    /// looks at the writer's word too, as over TCP. Over an endpoint without fences it notices at
    /// its next write that touches what this one has changed, and not before.
    ///
    /// # Errors
    /// As [`CuckooTable::take_over`], without [`IndexError::WriterAlive`].
    pub async fn force_take_over(&self) -> Result<()> {
        self.replace_writer(true).await
    }

    async fn replace_writer(&self, by_force: bool) -> Result<()> {
        // No operation goes on as the writer that it was.
        let _alone = self.locks.take_alone(&[]).await;
        self.forget_graph();
        let word = self.table.plus(WRITER_AT);
        let taking = async {
            let holder = self.endpoint.read(word, 8).await?.words()[0];
            if holder != 0 && holder != self.mark().await? {
                if !by_force {
                    let note = self.table.plus(NOTE_AT);
                    writer_note::check_ended(&*self.endpoint, note, holder)?;
                }
                // Also if this is given up now: the mark may be there all the same.
                self.unsettled.set(true);
            }
            let mark = self.claim(holder).await?;
            self.write_from_now_on(mark).await
        };
        self.endpoint.operation(UPKEEP, taking).await
    }

    /// Reports the counts, and gives back what this client holds of the heap. Called by who holds
    /// something, or is alone.
    pub(super) async fn hand_over(&self) -> Result<()> {
        self.still_writes();
        if self.was_deposed.get() {
            // What it has left to report is another writer's to count.
            return Ok(());
        }
        let reported = self.report().await;
        match (&self.heap, &self.uniform) {
            (Some(heap), _) => reported.and(heap.flush().await),
            (_, Some(uniform)) => reported.and(uniform.flush().await),
            _ => reported,
        }
    }

    /// Stops being the writer, so that another client may be: reports what this one has counted,
    /// gives back what it holds of the heap, waits for its operations that are under way, and takes
    /// its mark out of the writer's word. An operation that begins later makes it the writer again,
    /// if no other is. A client that never wrote has nothing to resign.
    ///
    /// Waits for ever if an operation was begun and is neither polled nor dropped.
    ///
    /// # Errors
    /// What the fabric says. If the mark may still be there, resigning again takes it out; counts
    /// and memory that could not be handed over are lost, which does no other harm.
    pub async fn resign(&self) -> Result<()> {
        let alone = self.locks.take_alone(&[]).await;
        let handed_over = self.hand_over().await;
        let mark = self.mark.get();
        if mark == 0 {
            return handed_over;
        }
        self.settle().await;
        // The mark, not what this client takes itself for: a claim or an earlier resignation whose
        // answer was lost may have left it there, and no other client has it.
        self.writer.set(None);
        self.forget_graph();
        let word = self.table.plus(WRITER_AT);
        let resigning = self.endpoint.compare_swap(word, mark, 0);
        self.endpoint.operation(UPKEEP, resigning).await?;
        self.endpoint.fence(word, 0);
        drop(alone);
        handed_over
    }
}
