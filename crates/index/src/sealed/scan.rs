//! Visiting every record once: inline ones slot by slot, those out of band from one end of the heap
//! to the other, without a look at the slots.

use super::client::{Built, Client};
use super::layout::SealedForm;
use super::record::UNIT;
use crate::client::scan;
use crate::{Cursor, Result};
use farslot_fabric::{Endpoint, EndpointExt};

impl<E: Endpoint> Client<E> {
    pub(super) async fn scan_piece(
        &self,
        Cursor(first): Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let built = self.built().await?;
        match (self.layout.form, self.layout.record_bytes()) {
            (SealedForm::Inline, Some(_)) => self.scan_slots(&built, (first, most), visit).await,
            (SealedForm::Inline, None) => self.scan_sized_slots((first, most), visit).await,
            (SealedForm::OutOfBand, Some(bytes)) => {
                let from = (first, most);
                self.scan_records(&built, from, bytes, visit).await
            }
            (SealedForm::OutOfBand, None) => {
                self.scan_sized_records(&built, (first, most), visit).await
            }
        }
    }

    /// The cursor is a slot's number.
    async fn scan_slots(
        &self,
        built: &Built,
        (first, most): (u64, u64),
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let format = self.inline_format(built.mask);
        let slots = scan::piece_of(first, self.layout.slots, format.slot, most);
        if slots == 0 {
            return Ok(None);
        }
        let from = self.layout.slot_at(self.table, first);
        let mut piece = self
            .endpoint
            .read(from, slots as usize * format.slot)
            .await?;
        for at in (0..piece.len()).step_by(format.slot) {
            if format.word_of_slot(&piece, at) != 0 {
                let slot = &mut piece[at..at + format.slot];
                format.mask_key(slot);
                visit(&slot[..format.key], &slot[format.key..]);
            }
        }
        Ok(scan::next(first + slots, self.layout.slots))
    }

    /// The cursor is a slot's number.
    async fn scan_sized_slots(
        &self,
        (first, most): (u64, u64),
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let bytes = self.layout.slot_bytes();
        let slots = scan::piece_of(first, self.layout.slots, bytes, most);
        if slots == 0 {
            return Ok(None);
        }
        let from = self.layout.slot_at(self.table, first);
        let piece = self.endpoint.read(from, slots as usize * bytes).await?;
        for (number, slot) in (first..).zip(piece.chunks_exact(bytes)) {
            if let Some(parts) = self.parts_in_slot(slot, number)? {
                visit(&slot[parts.key], &slot[parts.value]);
            }
        }
        Ok(scan::next(first + slots, self.layout.slots))
    }

    /// The cursor is a record's number.
    async fn scan_records(
        &self,
        built: &Built,
        (first, most): (u64, u64),
        bytes: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let records = scan::piece_of(first, built.records, bytes, most);
        if records == 0 {
            return Ok(None);
        }
        let from = self.layout.unit_at(self.table, first);
        let piece = self.endpoint.read(from, records as usize * bytes).await?;
        let key_len = self.layout.key.most();
        for record in piece.chunks_exact(bytes) {
            visit(&record[..key_len], &record[key_len..]);
        }
        Ok(scan::next(first + records, built.records))
    }

    /// The cursor is the number of the unit where a record starts.
    async fn scan_sized_records(
        &self,
        built: &Built,
        (first, most): (u64, u64),
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let end = built.heap_used / UNIT as u64;
        let mean = end.div_ceil(built.records.max(1));
        let units = scan::piece_of(first, end, UNIT, most.saturating_mul(mean));
        if units == 0 {
            return Ok(None);
        }
        let from = self.layout.unit_at(self.table, first);
        let mut piece = self.endpoint.read(from, units as usize * UNIT).await?;
        let longest = self.parts(&piece, first)?.bytes();
        if longest > piece.len() {
            piece = self.read_rest(piece, first, longest).await?;
        }
        let (mut at, mut met) = (0, 0);
        // The first one was read whole.
        while at < piece.len() && met < most.max(1) {
            let unit = first + (at / UNIT) as u64;
            let record = &piece[at..];
            let parts = self.parts(record, unit)?;
            if parts.bytes() > record.len() {
                return Ok(scan::next(unit, end));
            }
            at += parts.bytes();
            met += 1;
            visit(&record[parts.key], &record[parts.value]);
        }
        Ok(scan::next(first + (at / UNIT) as u64, end))
    }
}
