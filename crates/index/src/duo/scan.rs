//! Visiting every record, a piece of the vault at a time: of its owner, which lets nobody write
//! while a piece is read.

use super::bytes::{DuoLayout, SlotNumber, VaultMap, hash_in, head_in};
use super::state::DuoTable;
use crate::client::{scan, side_by_side};
use crate::{BATCH_WIDTH, Cursor, Result};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, both};

/// Slots that were read: buckets of both arrays, or slots of the stash.
pub(super) struct Piece {
    parts: Vec<Part>,
    /// Where the next piece starts.
    pub(super) next: Option<Cursor>,
}

/// Slots whose bytes lie side by side.
struct Part {
    first: SlotNumber,
    /// Slots whose numbers follow one another.
    run: u64,
    /// From the first number of a run to that of the next.
    step: u64,
    bytes: Buffer,
}

impl Piece {
    /// Reads the piece that starts at a cursor, a bucket of either array or a slot of the stash: at
    /// most so many slots, but at least a bucket of each.
    pub(super) async fn read<E: Endpoint>(
        endpoint: &E,
        layout: &DuoLayout,
        vault: &VaultMap,
        Cursor(first): Cursor,
        most: u64,
    ) -> Result<Self> {
        if first >= SlotNumber::STASH.0 {
            return Self::read_stash(endpoint, layout, vault, (first, most)).await;
        }
        let stash = Some(Cursor(SlotNumber::STASH.0));
        let end = vault.buckets();
        let buckets = Self::buckets(layout, vault, first, most);
        if buckets == 0 {
            let parts = Vec::new();
            return Ok(Self { parts, next: stash });
        }
        let slots = u64::from(layout.bucket_slots);
        let read = async |array: u64| {
            let bucket = 2 * first + array;
            let len = buckets as usize * layout.bucket_bytes();
            let bytes = endpoint.read(vault.bucket_at(layout, bucket), len).await?;
            Ok::<_, crate::IndexError>(Part {
                first: SlotNumber(bucket * slots),
                run: slots,
                step: 2 * slots,
                bytes,
            })
        };
        let (of_first, of_second) = both(read(0), read(1)).await;
        Ok(Self {
            parts: vec![of_first?, of_second?],
            next: scan::next(first + buckets, end).or(stash),
        })
    }

    /// Buckets of either array that a piece of at most so many slots has which starts at this one:
    /// 0 behind the last.
    pub(super) fn buckets(layout: &DuoLayout, vault: &VaultMap, first: u64, most: u64) -> u64 {
        let most = most / (2 * u64::from(layout.bucket_slots));
        match scan::piece_of(first, vault.buckets(), 2 * layout.bytes_in_piece(), most) {
            0 => 0,
            buckets => buckets.min(vault.side_by_side(first)),
        }
    }

    async fn read_stash<E: Endpoint>(
        endpoint: &E,
        layout: &DuoLayout,
        vault: &VaultMap,
        (first, most): (u64, u64),
    ) -> Result<Self> {
        let slot_bytes = layout.slot_bytes();
        let end = layout.stash_pages().end;
        let slots = scan::piece_of(first, end, slot_bytes, most);
        if slots == 0 {
            let parts = Vec::new();
            return Ok(Self { parts, next: None });
        }
        let from = vault.slot_at(layout, SlotNumber(first));
        let bytes = endpoint.read(from, slots as usize * slot_bytes).await?;
        let part = Part {
            first: SlotNumber(first),
            run: slots,
            step: 0,
            bytes,
        };
        Ok(Self {
            parts: vec![part],
            next: scan::next(first + slots, end),
        })
    }

    /// The slots with their bytes.
    pub(super) fn slots(&self, layout: &DuoLayout) -> impl Iterator<Item = (SlotNumber, &[u8])> {
        let slot_bytes = layout.slot_bytes();
        self.parts.iter().flat_map(move |part| {
            let slots = (0..).zip(part.bytes.chunks_exact(slot_bytes));
            slots.map(|(index, bytes)| {
                let number = part.first.0 + index / part.run * part.step + index % part.run;
                (SlotNumber(number), bytes)
            })
        })
    }
}

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn scan_piece(
        &self,
        cursor: Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        // Who becomes the owner learns now how far the table has grown, and it may have grown until
        // now.
        let alone = self.hold_alone().await?;
        let piece = Piece::read(&*self.endpoint, &self.layout, &self.vault, cursor, most).await?;
        let live = self.live_in(&piece);
        let records = self.records_of(&live).await?;
        // Who is visited may write.
        drop(alone);
        if self.heap.is_none() {
            for (slot, bytes) in live {
                let record = self.layout.record_in(bytes);
                let record = record.ok_or_else(|| self.unreadable(slot))?;
                visit(record.key, record.value);
            }
        }
        for read in &records {
            if let Some(record) = self.layout.record_in(read) {
                visit(record.key, record.value);
            }
        }
        Ok(piece.next)
    }

    /// The live slots of a piece.
    fn live_in<'p>(&self, piece: &'p Piece) -> Vec<(SlotNumber, &'p [u8])> {
        let index = self.index.borrow();
        let live = piece.slots(&self.layout).filter(|(slot, bytes)| {
            let head = head_in(bytes);
            head != 0 && index.belongs(*slot, hash_in(head))
        });
        live.collect()
    }

    /// The records that live slots name, where these are in a heap.
    async fn records_of(&self, live: &[(SlotNumber, &[u8])]) -> Result<Vec<Buffer>> {
        let mut records = Vec::new();
        if self.heap.is_none() {
            return Ok(records);
        }
        let reads = live.iter().map(async |(slot, bytes)| {
            let read = self.resolved_of(bytes).await?.into_bytes();
            match self.layout.record_in(&read) {
                Some(_) => Ok(read),
                None => Err(self.unreadable(*slot)),
            }
        });
        side_by_side(BATCH_WIDTH, reads, |_, read| records.push(read)).await?;
        Ok(records)
    }
}
