//! Writing records out of band where the memory is mapped: what is common, without waiting.
//!
//! The words that are read, written and swapped are those of a scheme's protocol over verbs, in the
//! same order, and so is what is booked. A record that is there is believed by its checksum, as
//! there; of one that is to be replaced or removed whatever its value, the key and the generation
//! are enough ([`Work::has_key`]), so that a damaged one can be replaced here, and cannot over verbs.
//! Blocks come of what this client holds, and go back to it, by the heap's rules of epochs.
//!
//! Whatever is rare is left to that protocol, with nothing changed; a client without a block at
//! hand, or with a look at the heap's epoch due, for instance.

use crate::client::end_turns;
use crate::heap::{BlockRef, Heap, Held, RecordView, bytes_by_lengths, record_bytes};
use crate::{BATCH_WIDTH, Index, Operation, Outcome, Outcomes, Result, SchemeClient};
use farslot_fabric::{Endpoint, InPlace, OperationClass, Steps, Tally, window};
use smallvec::SmallVec;

/// Writes that are done in turns: the slots of all are prefetched, then the records that they name.
const RUN: usize = 32;
/// How often a write begins again because another was faster.
pub(crate) const MOST_TRIES: u32 = 8;
/// Bytes of a record that are prefetched: processors go on by themselves behind these.
pub(crate) const LIKELY: usize = 256;
/// Words of the longest buffer that a client keeps from one batch to the next: one client of many
/// tables shall not keep the longest record of each.
const KEPT: usize = 1 << 10;

/// A client of a scheme whose writes can be done at once.
pub(crate) trait WriteAtOnce: SchemeClient {
    /// A write's key, and what has come to be known of its slot.
    type Place<'k>;

    /// The heap of a table whose records lie out of band.
    fn of_heap(&self) -> Option<&Heap<Self::Endpoint>>;

    /// The table's memory, where it is mapped and this client may write records there.
    fn view_to_write(&self) -> Option<InPlace<'_>>;

    /// Begins a write: asks for its slot. Nothing of one that is left, or refused.
    fn begin<'k>(&self, view: InPlace<'_>, operation: &Operation<'k>) -> Option<Self::Place<'k>>;

    /// Looks for the write's slot; returns the block of the record that it names, if it names one.
    fn find_slot(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_, Self::Place<'_>>,
    ) -> Option<BlockRef>;

    /// Does a write whose slot was looked for; returns its outcome. Nothing if it is left, and then
    /// nothing has changed.
    fn finish(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_, Self::Place<'_>>,
        work: &mut Work,
    ) -> Option<Outcome>;

    /// Adds this client's share to the counts that all see.
    async fn report_counts(&self) -> Result<()>;
}

/// A write that is under way.
pub(crate) struct Write<'k, P> {
    number: usize,
    pub(crate) operation: Operation<'k>,
    pub(crate) place: P,
    /// What it has read and written. Of one that is left nothing is counted: the protocol counts
    /// all.
    pub(crate) counted: Counted,
    /// Bytes of its record.
    written: u64,
}

/// The verbs that a write stands for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) steps: Steps,
    swaps: u32,
    /// WRITEs of the record.
    writes: u32,
}

/// What the writes of a batch share.
#[derive(Default)]
pub(crate) struct Work {
    /// What has ended and is not counted yet: of one class.
    tally: Tally,
    class: Option<OperationClass>,
    /// Whether there is enough to report, and to give to all.
    pub(crate) reports: bool,
    surplus: bool,
    /// Bytes of a record that there was no block at hand for.
    lacking: Option<usize>,
    /// Whether this client has to look at the heap's epoch before it uses a block. Asked once for
    /// the writes between two waits, which take microseconds: a look at the clock costs as much as
    /// a swap.
    is_look_due: bool,
    /// The record that is there, and the one that is to be.
    there: Vec<u64>,
    draft: Vec<u64>,
}

/// Does many writes, each booked to its class: at once where that can be, the others side by side
/// by the protocol over verbs.
pub(crate) async fn write_many<T: WriteAtOnce>(
    table: &T,
    writes: &[Operation<'_>],
    mut done: impl FnMut(Outcomes<'_>),
) {
    let left = write_at_once(table, writes, &mut done).await;
    if left.is_empty() {
        return;
    }
    let all = left.iter().map(|number| table.run(writes[*number]));
    window(BATCH_WIDTH, all, |at, outcome| {
        done(Outcomes::One(left[at], outcome));
    })
    .await;
}

/// Does those of many writes that can be done at once; returns the numbers of the others.
async fn write_at_once<T: WriteAtOnce>(
    table: &T,
    writes: &[Operation<'_>],
    done: &mut impl FnMut(Outcomes<'_>),
) -> Vec<usize> {
    let mut left = Vec::new();
    if table.view_to_write().is_none() {
        left.extend(0..writes.len());
        return left;
    }
    let core = SchemeClient::endpoint(table).core();
    let mut work = Work::of(table.of_heap());
    let mut ended: SmallVec<[(usize, Outcome); 1]> = SmallVec::new();
    let mut refills = true;
    for (run, some) in writes.chunks(RUN).enumerate() {
        let first = run * RUN;
        let (Some(view), Some(heap)) = (table.view_to_write(), table.of_heap()) else {
            left.extend(first..writes.len());
            break;
        };
        // Most batches of one are single writes.
        let mut begun: SmallVec<[Write<'_, T::Place<'_>>; 1]> = SmallVec::new();
        begun.reserve(some.len());
        for (at, operation) in some.iter().enumerate() {
            match table.begin(view, operation) {
                Some(place) => begun.push(Write::begun(first + at, *operation, place)),
                None => left.push(first + at),
            }
        }
        for write in &mut begun {
            if let Some(block) = table.find_slot(view, write)
                && let piece = heap.piece(block)
                && let Some(at) = view.offset_of(piece)
            {
                let likely = match write.needs_key_alone() {
                    true => record_bytes(write.operation.key().len(), 0),
                    false => LIKELY,
                };
                view.prefetch(at, likely.min(piece.len));
            }
        }
        work.look(heap);
        for mut write in begun {
            let found = write.counted;
            let mut outcome = table.finish(view, &mut write, &mut work);
            if let Some(bytes) = work.lacking.take() {
                // Not once more for each of many: where that was of no use, all are left.
                refills = refills && heap.refill(bytes).await;
                work.look(heap);
                if refills {
                    write.counted = found;
                    outcome = table.finish(view, &mut write, &mut work);
                    refills = work.lacking.take().is_none();
                }
            }
            match outcome {
                Some(outcome) => {
                    work.book(&write, core);
                    ended.push((write.number, outcome));
                }
                None => left.push(write.number),
            }
            work.give_surplus(heap).await;
        }
        work.count(core);
        if std::mem::take(&mut work.reports) {
            // This cannot fail: the writes that are counted are done, and counts may lag.
            let _ = table.report_counts().await;
        }
        for (number, outcome) in ended.drain(..) {
            done(Outcomes::One(number, Ok(outcome)));
        }
        end_turns(core, some.len()).await;
    }
    work.end(table.of_heap());
    left
}

impl<'k, P> Write<'k, P> {
    fn begun(number: usize, operation: Operation<'k>, place: P) -> Self {
        Self {
            number,
            operation,
            place,
            counted: Counted::default(),
            written: 0,
        }
    }

    /// Swaps a slot's word, behind the record that it names then; false if another was faster. The
    /// block that nobody needs any more is kept: that of `was`, or the new one.
    pub(crate) fn swap<E: Endpoint>(
        &mut self,
        (view, at): (InPlace<'_>, u64),
        heap: &Heap<E>,
        (was, freed): (u64, Option<BlockRef>),
        (new, held): (u64, Option<Held>),
        work: &mut Work,
    ) -> bool {
        // The block was allocated at this epoch, and nothing was awaited since.
        let since = heap.epoch();
        let is_swapped = view.compare_swap(at, was, new) == was;
        let counted = &mut self.counted;
        counted.swaps += 1;
        counted.writes += u32::from(held.is_some());
        match held {
            Some(_) => counted.steps.write_and_swap(self.written),
            None => counted.steps.swap(),
        }
        let freed = match is_swapped {
            true => freed,
            false => held.map(|held| held.block),
        };
        if let Some(block) = freed {
            work.surplus |= heap.keep_since(block, since);
        }
        is_swapped
    }

    /// Writes the record of the write into a block that this client has.
    pub(crate) fn write_record<E: Endpoint>(
        &mut self,
        view: InPlace<'_>,
        heap: &Heap<E>,
        (key, value): (&[u8], &[u8]),
        work: &mut Work,
    ) -> Option<Held> {
        let (held, len) = work.write_record(view, heap, (key, value))?;
        self.written = len as u64;
        Some(held)
    }

    /// Whether it is decided by the key alone what becomes of a record that is there.
    pub(crate) const fn needs_key_alone(&self) -> bool {
        matches!(
            self.operation,
            Operation::Put(..) | Operation::Update(..) | Operation::Remove(_)
        )
    }

    /// Whether a record that is there is not the one that the write expects.
    pub(crate) fn is_refused_by(&self, record: &RecordView<'_>) -> bool {
        match self.operation {
            Operation::Replace(_, expected, _) | Operation::RemoveIf(_, expected) => {
                record.value != expected
            }
            _ => false,
        }
    }
}

impl Work {
    /// That of a batch; to be [ended](Work::end).
    pub(crate) fn of<E: Endpoint>(heap: Option<&Heap<E>>) -> Self {
        let [there, draft] = heap.map(|heap| heap.room.take()).unwrap_or_default();
        Self {
            there,
            draft,
            ..Self::default()
        }
    }

    /// Leaves what it has to the next batch.
    pub(crate) fn end<E: Endpoint>(self, heap: Option<&Heap<E>>) {
        let is_small = |room: &Vec<u64>| room.capacity() <= KEPT;
        if let Some(heap) = heap {
            heap.room.set(
                [self.there, self.draft]
                    .map(|room| if is_small(&room) { room } else { Vec::new() }),
            );
        }
    }

    /// Finds out whether blocks of the heap may be used: to be called behind each wait.
    pub(crate) fn look<E: Endpoint>(&mut self, heap: &Heap<E>) {
        self.is_look_due = heap.is_look_due();
    }

    /// Gives to all what this client keeps too much of: before it keeps more, so that no client
    /// ever holds more than it may.
    pub(crate) async fn give_surplus<E: Endpoint>(&mut self, heap: &Heap<E>) {
        if std::mem::take(&mut self.surplus) {
            heap.give_surplus().await;
            self.look(heap);
        }
    }

    /// Writes a record into a block that this client has; returns that, and the record's bytes.
    pub(crate) fn write_record<E: Endpoint>(
        &mut self,
        view: InPlace<'_>,
        heap: &Heap<E>,
        (key, value): (&[u8], &[u8]),
    ) -> Option<(Held, usize)> {
        let len = record_bytes(key.len(), value.len());
        let own = || heap.allocate_own(len);
        let Some(held) = (!self.is_look_due).then(own).flatten() else {
            self.lacking = Some(len);
            return None;
        };
        let record = heap.new_record(held.block, (key, value));
        // A block that is not in the memory is lost: nobody can use it.
        let at = view.offset_of(record.piece())?;
        let draft = room(&mut self.draft, len);
        record.encode_in(draft);
        view.write(at, len, draft);
        Some((held, len))
    }

    /// Whether the record in a block has this key, as far as can be told without its checksum:
    /// whoever then swaps the word that named the block knows that the block had this use all the
    /// while, and that what a word names was whole before. Its READ is for the caller to book.
    pub(crate) fn has_key<E: Endpoint>(
        view: InPlace<'_>,
        heap: &Heap<E>,
        block: BlockRef,
        key: &[u8],
    ) -> bool {
        let piece = heap.piece(block);
        piece.len >= record_bytes(key.len(), 0)
            && view.offset_of(piece).is_some_and(|at| {
                let [first, lengths] = [0, 1].map(view.words(at));
                let is_of_use = first >> 32 == block.generation;
                let is_there = is_of_use
                    && lengths as u32 as usize == key.len()
                    && view.has_bytes(at + record_bytes(0, 0) as u64, key);
                view.acquire();
                is_there
            })
    }

    /// The record in a block; nothing if it is not whole. Its READ is for the caller to book.
    pub(crate) fn record<E: Endpoint>(
        &mut self,
        view: InPlace<'_>,
        heap: &Heap<E>,
        block: BlockRef,
    ) -> Option<RecordView<'_>> {
        let piece = heap.piece(block);
        let at = view.offset_of(piece)?;
        let bytes = bytes_by_lengths(view.words(at)(1), piece.len);
        let there = room(&mut self.there, bytes);
        view.copy_out(at, bytes, there);
        RecordView::decode(&bytemuck::cast_slice(there)[..bytes], block)
    }

    /// Keeps a block that no slot names, or none any more: it was allocated, or freed, behind the
    /// last wait.
    pub(crate) fn keep<E: Endpoint>(&mut self, heap: &Heap<E>, block: BlockRef) {
        self.surplus |= heap.keep_since(block, heap.epoch());
    }

    /// Counts a write that has ended.
    fn book<P>(&mut self, write: &Write<'_, P>, core: &farslot_fabric::EndpointCore) {
        let class = write.operation.class();
        if self.class.is_some_and(|of| of != class) {
            self.count(core);
        }
        self.class = Some(class);
        for _ in 0..write.counted.swaps {
            self.tally.swap();
        }
        for _ in 0..write.counted.writes {
            self.tally.write(write.written);
        }
        self.tally.operation_ended(write.counted.steps);
    }

    /// Adds what was counted to the endpoint's counters.
    fn count(&mut self, core: &farslot_fabric::EndpointCore) {
        let tally = std::mem::take(&mut self.tally);
        if let Some(class) = self.class.take() {
            core.counters.add(class, &tally);
        }
    }
}

/// The first words of these that so many bytes need.
fn room(words: &mut Vec<u64>, bytes: usize) -> &mut [u64] {
    let needed = bytes.div_ceil(8);
    if words.len() < needed {
        words.resize(needed, 0);
    }
    &mut words[..needed]
}
