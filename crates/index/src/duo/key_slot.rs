//! The key's own slot: looking for it among those that match, replacing its record, and removing
//! it.

use super::batch::Body;
use super::bytes::{head_in, second_in};
use super::changes::Change;
use super::write::{
    DuoWriteAim, DuoWriteSlowPath, DuoWriteState, RelocatedSlot, Stage, Write, Writes,
};
use crate::Operation;
use crate::step::{
    MOST_PIECES, NextStep, ReadPieces, Reads, ValueLocation, failed, has_key, record_in,
};
use farslot_fabric::{Endpoint, Piece};

impl<'t, E: Endpoint> Writes<'t, E> {
    /// Has the slots read that are still to be looked at, if there are any.
    #[inline]
    pub(super) fn read_slots(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
    ) -> NextStep<DuoWriteSlowPath> {
        of.stage = Stage::Slots;
        match of.slots.len() - of.looked {
            0 => self.read_record(write, of),
            left => NextStep::Read(Reads::apart(left.min(MOST_PIECES))),
        }
    }

    pub(super) fn look_at_slots(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        (read, most): (&mut impl ReadPieces, usize),
    ) -> NextStep<DuoWriteSlowPath> {
        let (table, layout) = (self.table, &self.table.layout);
        for piece in 0..(of.slots.len() - of.looked).min(most) {
            let slot = of.slots[of.looked];
            let bytes = read.bytes(piece, 0..layout.slot_bytes());
            let (head, second) = (head_in(bytes), second_in(bytes));
            let is_match = of.looked < of.matches;
            of.looked += 1;
            let (record, block) = match table.heap {
                Some(_) => (None, layout.block_of(second)),
                None => (layout.record_in(bytes), None),
            };
            if !is_match && head == 0 {
                return failed(table.lost(slot));
            }
            // Of another key its head says all.
            if record.is_none() && block.is_none() && (!is_match || head == write.key.head()) {
                return NextStep::SlowPath(DuoWriteSlowPath::ReadAgain(slot));
            }
            if !is_match {
                let body = match table.heap {
                    Some(_) => Ok(Body::Named(second)),
                    None => table.body_in(bytes),
                };
                match body {
                    Ok(body) => of.moved.push(RelocatedSlot { head, second, body }),
                    Err(error) => return failed(error),
                }
                continue;
            }
            of.heads.push(head);
            if head != write.key.head() {
                continue;
            }
            if write.only_in.is_some() {
                if write.only_in == block {
                    (of.key_slot, of.second) = (slot, second);
                    return self.at_own(write, of, ValueLocation::Word { word: 0, len: 0 });
                }
                continue;
            }
            if let Some(block) = block {
                of.named.push((slot, second, block));
            }
            if let Some(record) = record
                && record.key == write.key.bytes
            {
                let bytes = record.value_range();
                (of.key_slot, of.second) = (slot, second);
                return self.at_own(write, of, ValueLocation::Bytes { piece, bytes });
            }
        }
        self.read_slots(write, of)
    }

    /// Has the record read of the next slot with the key's head; without one the key is absent.
    fn read_record(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
    ) -> NextStep<DuoWriteSlowPath> {
        match of.named.pop() {
            Some((slot, second, block)) => {
                (of.stage, of.block) = (Stage::Record, Some(block));
                (of.key_slot, of.second) = (slot, second);
                NextStep::Read(Reads::ONE)
            }
            None => self.is_absent(write, of),
        }
    }

    pub(super) fn look_at_record(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        read: &mut impl ReadPieces,
    ) -> NextStep<DuoWriteSlowPath> {
        let (block, key) = (of.block(), write.key.bytes);
        let len = self.heap().piece(block).len;
        if write.operation.takes_any_value() && has_key(read, 0, block, len, key) {
            return self.at_own(write, of, ValueLocation::Word { word: 0, len: 0 });
        }
        match record_in(read, 0, block, len) {
            Some(record) if record.key == key => {
                let bytes = record.value_range();
                self.at_own(write, of, ValueLocation::Bytes { piece: 0, bytes })
            }
            Some(_) => self.read_record(write, of),
            None => NextStep::SlowPath(DuoWriteSlowPath::ReadAgain(of.key_slot)),
        }
    }

    /// The key has this value.
    #[inline]
    fn at_own(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        found: ValueLocation,
    ) -> NextStep<DuoWriteSlowPath> {
        match write.operation {
            Operation::Put(..) | Operation::Update(..) => {
                of.aim = DuoWriteAim::Replace;
                self.write_record(write, of)
            }
            _ => {
                of.held = None;
                NextStep::Found(found)
            }
        }
    }

    /// No slot is the key's.
    #[inline]
    fn is_absent(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
    ) -> NextStep<DuoWriteSlowPath> {
        match write.inserts() {
            true => self.find_place(write, of),
            false => {
                of.held = None;
                NextStep::Absent
            }
        }
    }

    /// Writes the record to where it is to be.
    #[inline]
    pub(super) fn write_record(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
    ) -> NextStep<DuoWriteSlowPath> {
        of.batch.clear();
        if let Err(error) = self.check_owner(of) {
            return failed(error);
        }
        let (table, record) = (self.table, write.operation.record());
        let body = match table.current_heap() {
            Some(heap) => {
                let Some(block) = of.record.hold(heap, record, self.uses(write)) else {
                    return NextStep::SlowPath(DuoWriteSlowPath::Block);
                };
                let new = heap.new_record(block, record);
                let Piece { from, len } = new.piece();
                new.encode_in(of.batch.record_of(len));
                of.batch.changes.push(Change::WriteRecord(from, 0));
                Body::Named(table.layout.reference_to(block))
            }
            None => {
                let (key, value) = record;
                let len = table.layout.body_len(key, value);
                let body = of.batch.record_of(len);
                (table.layout).fill_body(bytemuck::cast_slice_mut(body), key, value);
                Body::New
            }
        };
        match of.aim {
            DuoWriteAim::Insert => self.insert(write, of, body),
            _ => self.replace(write, of, body),
        }
    }

    /// Replaces the record of the key's slot.
    #[inline]
    fn replace(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        body: Body,
    ) -> NextStep<DuoWriteSlowPath> {
        let (table, head) = (self.table, write.key.head());
        if let Body::Named(reference) = body {
            table.refer(&mut of.batch, of.key_slot, of.second, reference);
            return NextStep::Change(Reads::NONE);
        }
        of.journal = of.journal.or_else(|| table.journal.try_take());
        let Some(journal) = of.journal else {
            return NextStep::SlowPath(DuoWriteSlowPath::Journal);
        };
        let publishing = of.batch.record[0];
        if let Err(error) = table.fill(&mut of.batch, journal, head, Body::New) {
            return failed(error);
        }
        table.overwrite(&mut of.batch, of.key_slot, Body::New);
        table.kill(&mut of.batch, journal, head, publishing);
        NextStep::Change(Reads::NONE)
    }

    /// Removes the record of the next slot that matches, if it is the key's.
    #[inline]
    pub(super) fn remove_next(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
    ) -> NextStep<DuoWriteSlowPath> {
        let Some(slot) = of.slots.get(of.looked) else {
            return self.is_absent(write, of);
        };
        (of.key_slot, of.second, of.is_unread) = (*slot, 0, false);
        if self.looks_first(write) {
            return NextStep::Read(Reads::ONE);
        }
        of.aim = DuoWriteAim::Remove;
        of.batch.clear();
        of.batch.is_attempt = true;
        let head = write.key.head();
        self.table.clear_head(&mut of.batch, of.key_slot, head);
        // Of a heap's table it is read which block the slot names.
        NextStep::Change(Reads::apart(usize::from(self.table.heap.is_some())))
    }

    pub(super) fn look_at_header(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        read: &mut impl ReadPieces,
    ) -> NextStep<DuoWriteSlowPath> {
        let [head, second] = [0, 1].map(read.words(0));
        let layout = &self.table.layout;
        let is_other = |block| layout.block_of(second) != Some(block);
        if head != write.key.head() || write.only_in.is_some_and(is_other) {
            of.looked += 1;
            return self.remove_next(write, of);
        }
        (of.aim, of.second) = (DuoWriteAim::Remove, second);
        of.batch.clear();
        self.table
            .take_out(&mut of.batch, of.key_slot, (head, second));
        NextStep::Change(Reads::NONE)
    }
}
