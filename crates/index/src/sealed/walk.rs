//! Finding all records of a key: the steps of a lookup (`lookup.rs`), on to the end of the key's
//! probe.

use super::client::{Built, Client, Key};
use super::layout::SealedForm;
use super::lookup::InlineLook;
use super::record::{FIRST_READ, Parts, UNIT};
use super::slots::{Reference, ReferenceLook};
use crate::slot::KeyRule;
use crate::{BATCH_WIDTH, IndexError, Result};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, window};
use std::ops::Range;

/// What a lookup does with a record of its key.
enum RecordAction {
    Stop,
    GoOn,
}

/// A value in the buffer that its record was read into.
struct RecordValue {
    record: Buffer,
    value: Range<usize>,
}

impl<E: Endpoint> Client<E> {
    pub(super) async fn find_all(&self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<usize> {
        let key = self.checked_key(key)?;
        let built = self.built().await?;
        let mut count = 0;
        let mut give = |value: &[u8]| {
            found(value);
            count += 1;
            match self.layout.keys {
                KeyRule::Unique => RecordAction::Stop,
                KeyRule::Multi => RecordAction::GoOn,
            }
        };
        match self.layout.form {
            SealedForm::Inline => self.walk_inline(&key, &built, give).await?,
            SealedForm::OutOfBand => {
                let give = |found: RecordValue| give(&found.record[found.value]);
                self.walk_out_of_band(&key, &built, give).await?;
            }
        }
        Ok(count)
    }

    /// Gives the values of the key's inline records to `matched`.
    #[inline]
    async fn walk_inline(
        &self,
        key: &Key<'_>,
        built: &Built,
        mut matched: impl FnMut(&[u8]) -> RecordAction,
    ) -> Result<()> {
        let format = self.inline_format(built.mask);
        let mut distance = 0;
        while let Some(chunk) = self.read_chunk(built, key.home, distance).await? {
            let mut from = 0;
            loop {
                match self.scan_inline(key, format, &chunk, from) {
                    InlineLook::Match(at) => {
                        let slot = &chunk[at..at + format.slot];
                        if let RecordAction::Stop = matched(&slot[format.key..]) {
                            return Ok(());
                        }
                        from = at + format.slot;
                    }
                    InlineLook::GoOn => break,
                    InlineLook::End => return Ok(()),
                }
            }
            distance += (chunk.len() / format.slot) as u64;
        }
        Ok(())
    }

    /// Gives the key's records out of band to `matched`.
    async fn walk_out_of_band(
        &self,
        key: &Key<'_>,
        built: &Built,
        mut matched: impl FnMut(RecordValue) -> RecordAction,
    ) -> Result<()> {
        let format = self.layout.out_format();
        let mut candidates = Vec::new();
        let mut distance = 0;
        while let Some(chunk) = self.read_chunk(built, key.home, distance).await? {
            let mut end = false;
            candidates.clear();
            for at in (0..chunk.len()).step_by(format.bytes()) {
                match format.look(&chunk, at, distance, key.signature) {
                    ReferenceLook::Other => {}
                    ReferenceLook::Candidate(reference) => candidates.push(reference),
                    ReferenceLook::End => {
                        end = true;
                        break;
                    }
                }
                distance += 1;
            }
            drop(chunk);
            // Side by side, but not thousands for one record.
            for some in candidates.chunks(BATCH_WIDTH) {
                if let RecordAction::Stop = self.compare(key, some, &mut matched).await? {
                    return Ok(());
                }
            }
            if end {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads records whose signature is the key's, and compares their keys.
    async fn compare(
        &self,
        key: &Key<'_>,
        candidates: &[Reference],
        matched: &mut impl FnMut(RecordValue) -> RecordAction,
    ) -> Result<RecordAction> {
        let mut then = RecordAction::GoOn;
        let mut failed = Ok(());
        let mut look_at = |record: Result<Option<RecordValue>>| match (record, &then) {
            (Ok(Some(record)), RecordAction::GoOn) => then = matched(record),
            (Ok(_), _) => {}
            (Err(error), _) => failed = Err(error),
        };
        if let [one] = candidates {
            look_at(self.read_record(key, *one).await);
        } else {
            let reads = candidates
                .iter()
                .map(|reference| self.read_record(key, *reference));
            window(BATCH_WIDTH, reads, |_, record| look_at(record)).await;
        }
        match then {
            // What was found is right, whatever has become of the others.
            RecordAction::Stop => Ok(RecordAction::Stop),
            RecordAction::GoOn => failed.map(|()| RecordAction::GoOn),
        }
    }

    /// The record at a place, if it is the key's.
    async fn read_record(
        &self,
        key: &Key<'_>,
        reference: Reference,
    ) -> Result<Option<RecordValue>> {
        let unit = reference.offset - 1;
        let Some(bytes) = self.layout.record_bytes() else {
            return self.read_sized_record(key, reference).await;
        };
        let from = self.layout.unit_at(self.table, unit);
        let record = self.endpoint.read(from, bytes).await?;
        let (of_key, value) = (key.bytes.len(), key.bytes.len()..bytes);
        Ok((record[..of_key] == *key.bytes).then_some(RecordValue { record, value }))
    }

    /// The same for records of variable size.
    async fn read_sized_record(
        &self,
        key: &Key<'_>,
        reference: Reference,
    ) -> Result<Option<RecordValue>> {
        let unit = reference.offset - 1;
        let first = match reference.span {
            0 => FIRST_READ,
            span => usize::from(span) * UNIT,
        };
        let from = self.layout.unit_at(self.table, unit);
        let mut record = self.endpoint.read(from, first).await?;
        let parts = self.parts(&record, unit)?;
        if parts.key.len() != key.bytes.len() {
            return Ok(None);
        }
        // As much of the key as is here: the rest of another's record need not be read.
        let here = parts.key.end.min(first) - parts.key.start;
        if record[parts.key.start..][..here] != key.bytes[..here] {
            return Ok(None);
        }
        if parts.bytes() > first {
            record = self.read_rest(record, unit, parts.bytes()).await?;
        }
        let value = parts.value;
        Ok((record[parts.key] == *key.bytes).then_some(RecordValue { record, value }))
    }

    /// The parts of a record that was read, of its beginning at least.
    pub(super) fn parts(&self, record: &[u8], unit: u64) -> Result<Parts> {
        let allowed = |parts: &Parts| {
            let shape = self.layout.shape();
            shape.key.admits(parts.key.len()) && shape.value.admits(parts.value.len())
        };
        // No builder writes others: the memory was damaged, or is none of this table's.
        Parts::decode(record)
            .filter(allowed)
            .ok_or(IndexError::Unreadable {
                slot: unit,
                attempts: 1,
            })
    }

    /// The parts of the record of variable size in a slot; nothing if that is empty.
    pub(super) fn parts_in_slot(&self, bytes: &[u8], slot: u64) -> Result<Option<Parts>> {
        if Parts::decode(bytes).is_some_and(|parts| parts.key.is_empty()) {
            return Ok(None);
        }
        let parts = self.parts(bytes, slot)?;
        match parts.bytes() <= bytes.len() {
            true => Ok(Some(parts)),
            false => Err(IndexError::Unreadable { slot, attempts: 1 }),
        }
    }

    /// A whole record, of which the beginning is here.
    pub(super) async fn read_rest(&self, begun: Buffer, unit: u64, bytes: usize) -> Result<Buffer> {
        let from = self.layout.unit_at(self.table, unit);
        let rest = self
            .endpoint
            .read(from.plus(begun.len() as u64), bytes - begun.len())
            .await?;
        let mut joined = self.endpoint.core().buffers.take(bytes)?;
        let (front, back) = joined.split_at_mut(begun.len());
        front.copy_from_slice(&begun);
        back.copy_from_slice(&rest);
        Ok(joined)
    }
}
