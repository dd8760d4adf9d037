//! Building the table: planned in local memory, written in large pieces, then sealed by one word.
//!
//! Nothing is written before everything about the records has been found right. What is written
//! then counts for nothing until the word `built` says so, which is swapped last: a builder that
//! stops half way leaves a table that is not built, and that no other may build over its late
//! writes.

use super::client::Client;
use super::layout::{BUILT_AT, CLAIMED_AT, SUMMARY_AT, SealedForm};
use super::plan::{Pair, Plan};
use super::record;
use super::slots::{Reference, place, signature_of};
use crate::{IndexError, PUT, Result};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, window};
use std::ops::Range;

/// Bytes that one WRITE places, unless a record is longer.
const PIECE: usize = 64 << 10;
/// WRITEs under way at once.
const WIDTH: usize = 16;

impl<E: Endpoint> Client<E> {
    /// See [`SealedTable::build`](super::SealedTable::build).
    pub(super) async fn build(&self, records: &[(&[u8], &[u8])]) -> Result<()> {
        self.endpoint.operation(PUT, self.build_all(records)).await
    }

    async fn build_all(&self, records: &[Pair<'_>]) -> Result<()> {
        if self.is_built() || self.learn().await?.is_some() {
            return Err(IndexError::Sealed { operation: "build" });
        }
        let plan = Plan::new(&self.layout, records)?;
        let pieces = self.heap_pieces(records)?;
        // What no buffer holds is refused now: a table that is claimed and not built never will be.
        let slots = self.slots_a_piece().min(self.layout.slots) as usize;
        let buffers = &self.endpoint.core().buffers;
        buffers.take(slots * self.layout.slot_bytes())?;
        self.claim().await?;
        self.write_heap(records, &plan, pieces).await?;
        self.write_slots(records, &plan).await?;
        self.write_function(&plan).await?;
        self.seal(records.len() as u64, plan).await
    }

    async fn claim(&self) -> Result<()> {
        let claimed_at = self.table.plus(CLAIMED_AT);
        match self.endpoint.compare_swap(claimed_at, 0, 1).await? {
            0 => Ok(()),
            writer => Err(IndexError::WriterBusy { writer }),
        }
    }

    /// Writes the function of a table with one slot for each key.
    async fn write_function(&self, plan: &Plan) -> Result<()> {
        let (Some(function), Some(shape)) = (&plan.function, &self.layout.perfect) else {
            return Ok(());
        };
        let bytes = function.encode(shape);
        let at = self.layout.function_at(self.table);
        let writes = (0..).zip(bytes.chunks(PIECE)).map(async |(number, piece)| {
            let copy = self.endpoint.core().buffers.copy_of(piece)?;
            let to = at.plus(number * PIECE as u64);
            Ok(self.endpoint.write(to, copy).await?)
        });
        all(writes).await
    }

    async fn seal(&self, records: u64, plan: Plan) -> Result<()> {
        let mut summary = self.endpoint.core().buffers.take(24)?;
        summary
            .words_mut()
            .copy_from_slice(&[records, plan.mask, plan.heap_used]);
        let summary_at = self.table.plus(SUMMARY_AT);
        self.endpoint.write(summary_at, summary).await?;
        // An atomic: whoever sees it sees all that was written before.
        let built_at = self.table.plus(BUILT_AT);
        self.endpoint.compare_swap(built_at, 0, 1).await?;
        self.has_been_built(records, plan.mask, plan.heap_used, plan.function)?;
        Ok(())
    }

    /// The records out of band that one WRITE each places. The longest must fit in a buffer.
    fn heap_pieces(&self, records: &[Pair<'_>]) -> Result<Vec<Range<usize>>> {
        let mut pieces = Vec::new();
        if self.layout.form == SealedForm::Inline {
            return Ok(pieces);
        }
        let (mut first, mut bytes, mut longest) = (0, 0, 0);
        for (number, record) in records.iter().enumerate() {
            let more = self.heap_bytes(record);
            if bytes + more > PIECE && bytes > 0 {
                pieces.push(first..number);
                (first, bytes) = (number, 0);
            }
            bytes += more;
            longest = longest.max(bytes);
        }
        if bytes > 0 {
            pieces.push(first..records.len());
        }
        self.endpoint.core().buffers.take(longest)?;
        Ok(pieces)
    }

    /// Bytes that a record takes out of band.
    fn heap_bytes(&self, (key, value): &Pair<'_>) -> usize {
        match self.layout.record_bytes() {
            Some(bytes) => bytes,
            None => record::bytes(key.len(), value.len()),
        }
    }

    async fn write_heap(
        &self,
        records: &[Pair<'_>],
        plan: &Plan,
        pieces: Vec<Range<usize>>,
    ) -> Result<()> {
        let writes = pieces.into_iter().map(async |piece| {
            let start = self.layout.unit_at(self.table, plan.unit(piece.start));
            let bytes = self.encode_records(&records[piece])?;
            Ok(self.endpoint.write(start, bytes).await?)
        });
        all(writes).await
    }

    fn encode_records(&self, records: &[Pair<'_>]) -> Result<Buffer> {
        let len = records.iter().map(|record| self.heap_bytes(record)).sum();
        let mut piece = self.endpoint.core().buffers.take(len)?;
        let mut rest = &mut piece[..];
        for (key, value) in records {
            let (of_record, behind) = rest.split_at_mut(self.heap_bytes(&(key, value)));
            rest = behind;
            if self.layout.record_bytes().is_some() {
                let (of_key, of_value) = of_record.split_at_mut(key.len());
                of_key.copy_from_slice(key);
                of_value.copy_from_slice(value);
            } else {
                record::encode(of_record, key, value);
            }
        }
        Ok(piece)
    }

    async fn write_slots(&self, records: &[Pair<'_>], plan: &Plan) -> Result<()> {
        let slots_a_piece = self.slots_a_piece();
        let pieces = (0..self.layout.slots).step_by(slots_a_piece as usize);
        let writes = pieces.map(async |first| {
            let slots = first..self.layout.slots.min(first + slots_a_piece);
            let bytes = self.encode_slots(records, plan, slots)?;
            let to = self.layout.slot_at(self.table, first);
            Ok(self.endpoint.write(to, bytes).await?)
        });
        all(writes).await
    }

    /// A multiple of 8 slots: no two WRITEs share a word.
    fn slots_a_piece(&self) -> u64 {
        (PIECE / self.layout.slot_bytes() / 8 * 8).max(8) as u64
    }

    fn encode_slots(&self, records: &[Pair<'_>], plan: &Plan, slots: Range<u64>) -> Result<Buffer> {
        let slot_bytes = self.layout.slot_bytes();
        let len = (slots.end - slots.start) as usize * slot_bytes;
        let mut piece = self.endpoint.core().buffers.take(len)?;
        piece.fill(0);
        let inline = self.inline_format(plan.mask);
        let out = self.layout.out_format();
        for (slot, number) in plan.in_slots(slots.clone()) {
            let (key, value) = records[number];
            let bytes = &mut piece[slot * slot_bytes..][..slot_bytes];
            match self.layout.form {
                SealedForm::Inline if self.layout.record_bytes().is_none() => {
                    record::encode(bytes, key, value);
                }
                SealedForm::Inline => inline.encode(bytes, key, value),
                SealedForm::OutOfBand => {
                    let hash = plan.hash(number);
                    let (far, signature) = match plan.function {
                        Some(_) => (0, signature_of(hash)),
                        None => {
                            let (home, signature) = place(hash, self.layout.homes);
                            (slots.start + slot as u64 - home, signature)
                        }
                    };
                    let reference = Reference {
                        offset: plan.unit(number) + 1,
                        span: record::span(record::bytes(key.len(), value.len())),
                    };
                    out.encode(bytes, signature, far, reference);
                }
            }
        }
        Ok(piece)
    }
}

/// Runs WRITEs to their ends, some at a time. After a failure no more are begun.
async fn all<F: Future<Output = Result<()>>>(writes: impl Iterator<Item = F>) -> Result<()> {
    let failure = std::cell::RefCell::new(None);
    let writes = writes.take_while(|_| failure.borrow().is_none());
    window(WIDTH, writes, |_, written| {
        if let Err(error) = written {
            failure.borrow_mut().get_or_insert(error);
        }
    })
    .await;
    failure.take().map_or(Ok(()), Err)
}
