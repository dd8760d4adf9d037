//! The fast path of tables whose slots name records of a heap.
//!
//! Lookups, puts and updates of keys that are there take the same steps in nearly all cases: one
//! look at the key's slots, one at the record that a slot names, and of a write the record and the
//! swap. Where something is under way in the slots, where no record is the key's, or another client
//! is faster, the operation goes in steps, from the beginning.

use super::fast_path::{FastPath, FastPathResult, More};
use super::records::{has_key, record_in};
use super::scratch::Mapped;
use crate::heap::{BlockRef, Draft, Heap, Purpose, TableWrite};
use farslot_fabric::{Endpoint, InPlace, Steps};

/// A slot that names a record: the byte of the region at which it is, and its word.
pub(crate) type NamingSlot = (u64, u64);

/// A table whose slots name records.
pub(crate) trait RecordSlots {
    type Endpoint: Endpoint;
    /// Where a key's slots are.
    type Slots: Copy;

    fn heap_of_slots(&self) -> &Heap<Self::Endpoint>;

    /// Whether its records have such values.
    fn admits(&self, value: &[u8]) -> bool;

    /// Hashes a key, and has its slots fetched; nothing of keys that go in steps.
    fn slots_of(&self, key: &[u8], view: &InPlace<'_>) -> Option<Self::Slots>;

    /// Those that may name the key's record, and the READs that all of its slots take; nothing
    /// where something is under way in them.
    fn naming_slots(
        &self,
        slots: &Self::Slots,
        view: &InPlace<'_>,
    ) -> Option<([Option<NamingSlot>; 2], Steps)>;

    /// The block that such a slot's word names.
    fn block_in(word: u64) -> BlockRef;

    /// The word of such a slot once it names this block.
    fn renamed(word: u64, block: BlockRef) -> u64;
}

/// The usual steps in such a table.
pub(crate) struct RecordPath<'t, T> {
    table: &'t T,
    /// Whether blocks of the heap may be used, as far as is known since the last wait.
    may_use_blocks: bool,
}

/// A record that may be the key's.
#[derive(Clone, Copy)]
struct NamedRecord {
    slot: NamingSlot,
    block: BlockRef,
    /// The byte of the region at which it begins, and the most bytes that it has.
    start: u64,
    len: usize,
}

/// What was seen of a key's slots.
#[derive(Clone, Copy)]
pub(crate) struct RecordPlace<Asked> {
    asked: Asked,
    records: [Option<NamedRecord>; 2],
    steps: Steps,
}

impl<'t, T: RecordSlots> RecordPath<'t, T> {
    pub(crate) const fn new(table: &'t T, may_use_blocks: bool) -> Self {
        Self {
            table,
            may_use_blocks,
        }
    }

    /// Writes a record to a block of its own, and makes the slot name that.
    #[inline]
    fn replace(
        &self,
        NamedRecord { slot, block, .. }: &NamedRecord,
        record: (&[u8], &[u8]),
        (read, mut steps): (&mut Mapped<'_>, Steps),
    ) -> FastPathResult {
        let (heap, mut draft) = (self.table.heap_of_slots(), Draft::None);
        let uses = (self.may_use_blocks, Purpose::Write);
        let Some(new) = draft.hold(heap, record, uses) else {
            return FastPathResult::Undecided;
        };
        let Some(bytes) = read.write(&heap.new_record(new, record)) else {
            draft.take_back(heap);
            return FastPathResult::Undecided;
        };
        draft.is_written();
        let (at, word) = *slot;
        let seen = read.view.compare_swap(at, word, T::renamed(word, new));
        read.tally.swap();
        steps.add_to_step(1, bytes);
        steps.swap();
        if seen != word {
            draft.take_back(heap);
            read.tally.goes_on(steps);
            return FastPathResult::Undecided;
        }
        draft.is_named(heap);
        heap.free(*block);
        heap.note_replaced(true);
        read.tally.operation_ended(steps);
        FastPathResult::Written(Some(0), More::default())
    }
}

impl<'k, T: RecordSlots, A: Copy + Into<TableWrite<'k>>> FastPath<A> for RecordPath<'_, T> {
    const BOOKS: bool = true;

    type Prepared = Option<T::Slots>;
    type Place = RecordPlace<A>;

    #[inline(always)]
    fn prepare(&self, asked: A, view: &InPlace<'_>) -> Option<T::Slots> {
        let asked = asked.into();
        let value = asked.operation.value();
        let is_usual = match value {
            Some(value) => asked.replaces_any() && self.table.admits(value),
            None => asked.operation.is_lookup(),
        };
        is_usual.then(|| self.table.slots_of(asked.operation.key(), view))?
    }

    #[inline(always)]
    fn place(
        &self,
        asked: A,
        slots: Option<T::Slots>,
        view: &InPlace<'_>,
    ) -> Option<RecordPlace<A>> {
        let (named, mut steps) = self.table.naming_slots(&slots?, view)?;
        let (mut records, mut count, mut bytes) = ([None; 2], 0, 0);
        for (slot, record) in named.into_iter().zip(&mut records) {
            let Some(slot) = slot else { continue };
            let block = T::block_in(slot.1);
            let piece = self.table.heap_of_slots().piece(block);
            let (start, len) = (view.offset_of(piece)?, piece.len);
            (count, bytes) = (count + 1, bytes + len as u64);
            *record = Some(NamedRecord {
                slot,
                block,
                start,
                len,
            });
        }
        if count > 0 {
            steps.read(count, bytes);
        }
        Some(RecordPlace {
            asked,
            records,
            steps,
        })
    }

    #[inline(always)]
    fn fetch(&self, of: &RecordPlace<A>, view: &InPlace<'_>) {
        for record in of.records.iter().flatten() {
            view.prefetch(record.start, record.len);
        }
    }

    #[inline(always)]
    fn look_in(&self, of: &RecordPlace<A>, read: &mut Mapped<'_>) -> FastPathResult {
        let operation = of.asked.into().operation;
        for named in of.records.iter().flatten() {
            let NamedRecord { block, len, .. } = *named;
            read.set_start(0, named.start);
            if !operation.is_lookup() {
                if has_key(read, 0, block, len, operation.key()) {
                    return self.replace(named, operation.record(), (read, of.steps));
                }
            } else if let Some(record) = record_in(read, 0, block, len)
                && record.key == operation.key()
            {
                let (bytes, head) = (record.value_range(), record.head);
                let Some(kept) = read.keep(bytes) else {
                    return FastPathResult::Undecided;
                };
                self.table.heap_of_slots().was_read(block, head);
                read.tally.operation_ended(of.steps);
                return FastPathResult::Kept(kept);
            }
        }
        if !operation.is_lookup() {
            self.table.heap_of_slots().note_replaced(false);
        }
        match of.records {
            [None, None] if operation.is_lookup() => {
                read.tally.operation_ended(of.steps);
                FastPathResult::Absent(0)
            }
            _ => FastPathResult::Undecided,
        }
    }
}
