//! The layout of a table: where its header, slots, published index and extents lie, counted from
//! its start.

use super::numbers::{MOST_BUCKET_SLOTS, SlotNumber};
use super::published::PageShape;
use crate::heap::HeapPlace;
use crate::slot::{RecordShape, SlotKind, bad_option, slots_for};
use crate::table_map::TableMap;
use crate::{BATCH_WIDTH, FieldSize, Hasher, Result};
use farslot_fabric::{NodeId, RegionId, RemoteAddr};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Byte of the count of owners that there were, from the table's start.
pub(in super::super) const TICKETS_AT: u64 = 3064;
/// Byte of the word that names the owner.
pub(in super::super) const OWNER_AT: u64 = 3072;
/// Byte of the word that is not 0 once there was an owner: a vault without one is empty.
pub(in super::super) const OWNED_AT: u64 = 3080;
/// Byte of the count that is another once records have moved.
pub(in super::super) const MOVES_AT: u64 = 3088;
/// Byte of the note that says which process the owner is: 4 words, beside the owner's word.
pub(in super::super) const NOTE_AT: u64 = 3096;
/// Byte of the count of extents, from the table's start, where the index is not published.
pub(in super::super) const EXTENTS_AT: u64 = 3200;
/// Byte of the first extent's entry; of the others one after the other.
pub(in super::super) const EXTENT_ENTRIES_AT: u64 = 3264;

/// How often a table can grow: as many entries as the header has room for.
pub(in super::super) const MOST_EXTENTS: u32 = 34;
/// Bytes of an extent's entry.
pub(in super::super) const ENTRY_BYTES: u64 = 24;
/// Extents in memory of the table's own start at multiples of this.
pub(in super::super) const RESERVE_ALIGNMENT: u64 = 64;

/// Counts of changes of the table, and of each extent.
pub(in super::super) const SEGMENTS: u64 = 512;
/// The segment of the stash: the table's last one. That of an extent is nobody's.
pub(in super::super) const STASH_SEGMENT: u64 = SEGMENTS - 1;

/// Bytes of a slot before its key.
pub(in super::super) const SLOT_HEADER: usize = 16;
/// The most bytes of a key, and of a value.
const LONGEST_FIELD: usize = u16::MAX as usize;
const MOST_STASH: u32 = 1024;
const LONGEST_PATH: u32 = 6;
/// Slots for records that are being replaced: no more updates than that are under way at once.
const JOURNAL: u64 = BATCH_WIDTH as u64;

/// Offsets from here are from a table's start.
const AT_START: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 0,
};

/// All that a client must know of a CuckooDuo table: kept in the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DuoLayout {
    /// Buckets of each of both arrays, before the table has grown: the paper's m.
    pub buckets: u64,
    /// Slots of a bucket.
    pub bucket_slots: u32,
    /// Bits of a fingerprint.
    pub fingerprint_bits: u32,
    /// The most records that an insertion moves.
    pub longest_path: u32,
    /// Slots of the stash.
    pub stash: u32,
    /// The size of the keys.
    pub key: FieldSize,
    /// The size of the values.
    pub value: FieldSize,
    /// Where the records are: in the slots, or in a heap.
    pub kind: SlotKind,
    /// Bytes of the heap; 0 without one.
    pub heap_bytes: u64,
    /// Whether the index is published, for readers beside the owner.
    pub published: bool,
    /// Bytes behind the table that it grows into by itself; 0 of one that does not.
    pub reserve_bytes: u64,
    /// From a key to the hash that its buckets and fingerprints derive from.
    pub hasher: Hasher,
    /// What the checksums derive from.
    pub checksum_seed: u64,
}

impl DuoLayout {
    /// Refuses a layout that no options give: one that was not made by this crate, or was damaged.
    /// Whoever takes a layout from remote memory calls this first: the sizes that derive from one
    /// that passes do not overflow.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the field, its value and what is possible.
    pub fn check(&self) -> Result<()> {
        self.hasher.check(self.key)?;
        if self.hasher == Hasher::Knuth {
            // Two keys could have the same 63 bits, by which a slot's head tells whose it is.
            return Err(bad_option("hash", "knuth", "only for Word and Pair slots"));
        }
        if self.key.most() == 0 {
            return Err(bad_option("key size", 0, "at least 1 byte"));
        }
        self.check_records()?;
        let numbers = [
            ("bucket slots", self.bucket_slots, 1, MOST_BUCKET_SLOTS),
            ("fingerprint bits", self.fingerprint_bits, 8, 32),
            ("longest path", self.longest_path, 0, LONGEST_PATH),
            ("stash", self.stash, 0, MOST_STASH),
        ];
        for (option, value, least, most) in numbers {
            if !(least..=most).contains(&value) {
                return Err(bad_option(option, value, format!("{least} to {most}")));
            }
        }
        // Once more for a layout whose number of buckets is not what a capacity asked for.
        let slots = self.buckets.checked_mul(2 * u64::from(self.bucket_slots));
        slots_for(slots.unwrap_or(u64::MAX), 1.0)?;
        Ok(())
    }

    /// Refuses records that no slot can hold, or no heap.
    fn check_records(&self) -> Result<()> {
        match self.kind {
            SlotKind::Inline => {
                for (option, size) in [("key size", self.key), ("value size", self.value)] {
                    if size.most() > LONGEST_FIELD {
                        let limit = format!("at most {LONGEST_FIELD} bytes");
                        return Err(bad_option(option, size.most(), limit));
                    }
                }
                Ok(())
            }
            SlotKind::Heap => {
                self.shape().check(self.kind)?;
                let asked = Some(self.heap_bytes);
                self.shape().heap_bytes(self.kind, 1, asked).map(drop)
            }
            other => {
                let limit = "Inline or Heap";
                Err(bad_option("slot", format!("{other:?}"), limit))
            }
        }
    }

    /// Slots of both arrays, before the table has grown.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        2 * self.buckets * self.bucket_slots as u64
    }

    /// Bytes of one slot, a multiple of 8.
    #[inline]
    #[must_use]
    pub const fn slot_bytes(&self) -> usize {
        match self.kind {
            SlotKind::Heap => SLOT_HEADER,
            _ => SLOT_HEADER + (self.key.most() + self.value.most()).next_multiple_of(8),
        }
    }

    /// Bytes of remote memory that the table takes, those included that it grows into by itself. A
    /// fresh table is all zeros.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        self.bytes_at_first() + u128::from(self.reserve_bytes)
    }

    fn bytes_at_first(&self) -> u128 {
        self.map().bytes() + self.published_bytes()
    }

    /// Where the memory starts that the table grows into by itself.
    pub(in super::super) fn reserve_at(&self, table: RemoteAddr) -> RemoteAddr {
        table.plus(self.bytes_at_first() as u64)
    }

    /// Bytes from the table's start that its clients may have written, where it has grown so often
    /// and the mark of its heap is `heap_mark`: what must be zeros again before another table can
    /// lie there. A growth that is being prepared is included.
    #[must_use]
    pub fn written(&self, growths: u64, heap_mark: u64) -> Vec<Range<u64>> {
        let [head, heap] = self.map().written(heap_mark);
        let published = self.map().bytes() as u64;
        let reserve = self.bytes_at_first() as u64;
        let growths = u32::try_from(growths)
            .unwrap_or(MOST_EXTENTS)
            .saturating_add(1);
        let grown = self.reserve_for(growths.min(MOST_EXTENTS));
        let grown = grown.unwrap_or(u64::MAX).min(self.reserve_bytes);
        vec![head, heap, published..reserve, reserve..reserve + grown]
    }

    /// The byte from the table's start at which the count of growths is.
    #[must_use]
    pub fn growths(&self) -> u64 {
        self.growths_at(AT_START).offset
    }

    /// Slots of both arrays when the table has grown by itself as far as it can.
    #[must_use]
    pub fn most_slots(&self) -> u64 {
        let fits = |growths: &u32| {
            self.reserve_for(*growths)
                .is_some_and(|bytes| bytes <= self.reserve_bytes)
        };
        let growths = (0..=MOST_EXTENTS).take_while(fits).last();
        self.slots() << growths.unwrap_or(0)
    }

    /// Bytes from the table's start at which the slots lie that it was made with, those of the
    /// stash and of the journal included.
    #[must_use]
    pub fn arrays(&self) -> Range<u64> {
        let map = self.map();
        let start = self.arrays_at(AT_START).offset;
        start..start + map.slots * map.slot_bytes as u64
    }

    /// Bytes from the table's start at which its heap lies: none, if it has none.
    #[must_use]
    pub fn heap(&self) -> Range<u64> {
        let start = self.heap_place(AT_START).start.offset;
        start..start + self.heap_bytes
    }

    /// Bytes of a READ of the published index for a key that a reader does not know: of the page of
    /// the stash, with the count of growths, and of the page of a bucket. A reader fetches one of
    /// the former and two of the latter.
    #[must_use]
    pub fn page_bytes_read(&self) -> (usize, usize) {
        let stash = 8 * (1 + self.stash as usize);
        (stash, 8 * self.bucket_page().words() as usize)
    }

    /// Bytes of local memory that the index takes, before the table has grown: the owner's, and a
    /// reader's once it has read all of it.
    #[must_use]
    pub fn index_bytes(&self) -> u64 {
        let fingerprints = u128::from(self.slots()) * u128::from(self.fingerprint_bits);
        let pages = 2 * self.buckets + u64::from(self.stash);
        let versions = if self.published { 4 * pages } else { 0 };
        ((fingerprints + u128::from(self.slots() / 2)) / 8) as u64 + versions
    }

    /// Bytes of local memory that the index takes when the table has grown by itself as far as it
    /// can.
    #[must_use]
    pub fn most_index_bytes(&self) -> u64 {
        let growth = self.most_slots() / self.slots().max(1);
        self.index_bytes().saturating_mul(growth)
    }

    /// The slots of the journal.
    pub(in super::super) fn journal(&self) -> impl Iterator<Item = SlotNumber> + use<> {
        let first = SlotNumber::JOURNAL.0;
        (first..first + JOURNAL).map(SlotNumber)
    }

    /// Bytes that a bucket counts for where buckets are read a piece at a time: with the records
    /// that its slots name, of which a piece is to have a MiB at most.
    pub(in super::super) fn bytes_in_piece(&self) -> usize {
        let records = match self.kind {
            SlotKind::Heap => self.shape().block_bytes(self.kind) * self.bucket_slots as usize,
            _ => 0,
        };
        self.bucket_bytes().max(records / 16)
    }

    /// Bytes of a bucket.
    pub(in super::super) const fn bucket_bytes(&self) -> usize {
        self.slot_bytes() * self.bucket_slots as usize
    }

    pub(in super::super) fn map(&self) -> TableMap {
        TableMap {
            slots: self.slots() + self.stash as u64 + JOURNAL,
            slot_bytes: self.slot_bytes(),
            heap_bytes: self.heap_bytes,
            segment: 0,
        }
    }

    /// Whether the records are in a heap.
    pub(in super::super) const fn has_heap(&self) -> bool {
        matches!(self.kind, SlotKind::Heap)
    }

    /// Where its heap lies: of no bytes, if it has none.
    pub(in super::super) fn heap_place(&self, table: RemoteAddr) -> HeapPlace {
        self.map().heap_place(table)
    }

    /// Where the arrays start that the table was made with.
    pub(in super::super) fn arrays_at(&self, table: RemoteAddr) -> RemoteAddr {
        self.map().slot_at(table, 0)
    }

    /// Where a slot of the journal is, counted from its first: behind the stash that the table was
    /// made with.
    #[inline]
    pub(in super::super) fn journal_at(&self, table: RemoteAddr, index: u64) -> RemoteAddr {
        let stash = u64::from(self.stash);
        self.map().slot_at(table, self.slots() + stash + index)
    }

    /// The sizes of the records.
    pub(in super::super) const fn shape(&self) -> RecordShape {
        RecordShape::new(self.key, self.value)
    }
}

/// The table's part of the published index, and what is where in it. What growths add lies with
/// their buckets.
impl DuoLayout {
    /// How the entries of a bucket's page lie in its words.
    pub(in super::super) const fn bucket_page(&self) -> PageShape {
        PageShape::of_bucket(self.bucket_slots, self.fingerprint_bits)
    }

    pub(in super::super) fn page_shape(&self, page: u64) -> PageShape {
        match SlotNumber(page).in_stash() {
            None => self.bucket_page(),
            Some(_) => PageShape::OF_STASH,
        }
    }

    /// Bytes of a bucket's page.
    pub(in super::super) const fn page_bytes(&self) -> u64 {
        self.bucket_page().words() as u64 * 8
    }

    /// The page of a slot, and the slot's number in it.
    pub(in super::super) const fn page_of(&self, slot: SlotNumber) -> (u64, u32) {
        match slot.in_stash() {
            Some(_) => (slot.0, 0),
            None => {
                let slots = self.bucket_slots as u64;
                (slot.0 / slots, (slot.0 % slots) as u32)
            }
        }
    }

    /// A page's first slot.
    pub(in super::super) const fn first_of_page(&self, page: u64) -> SlotNumber {
        match SlotNumber(page).in_stash() {
            Some(_) => SlotNumber(page),
            None => SlotNumber(page * self.bucket_slots as u64),
        }
    }

    /// The pages of the stash.
    pub(in super::super) const fn stash_pages(&self) -> Range<u64> {
        SlotNumber::STASH.0..SlotNumber::STASH.0 + self.stash as u64
    }

    /// Bytes of the published index, before the table has grown.
    pub(in super::super) fn published_bytes(&self) -> u128 {
        if !self.published {
            return 0;
        }
        let counts = u128::from(SEGMENTS) + 1;
        let pages = u128::from(self.page_bytes()) * u128::from(2 * self.buckets);
        ((counts + u128::from(self.stash)) * 8 + pages).next_multiple_of(64)
    }

    /// Bytes by which the published index grows with so many buckets in each array.
    pub(in super::super) fn published_growth(&self, buckets: u64) -> Option<u64> {
        if !self.published {
            return Some(0);
        }
        let pages = buckets.checked_mul(2 * self.page_bytes())?;
        let bytes = pages.checked_add(SEGMENTS * 8)?;
        bytes.checked_next_multiple_of(64)
    }

    /// Where the counts of changes are of the table's own buckets, and of the stash.
    pub(in super::super) fn counts_at(&self, table: RemoteAddr) -> RemoteAddr {
        table.plus(self.map().bytes() as u64)
    }

    /// Where the count of growths is: where the index is published, in front of the stash's pages,
    /// so that who reads those has it in the same piece.
    pub(in super::super) fn growths_at(&self, table: RemoteAddr) -> RemoteAddr {
        if self.published {
            self.counts_at(table).plus(SEGMENTS * 8)
        } else {
            table.plus(EXTENTS_AT)
        }
    }

    /// Where the stash's pages are: they follow one another, and then those of the buckets.
    pub(in super::super) fn stash_pages_at(&self, table: RemoteAddr) -> RemoteAddr {
        self.counts_at(table).plus((SEGMENTS + 1) * 8)
    }

    /// Where the pages of the table's own buckets are.
    pub(in super::super) fn pages_at(&self, table: RemoteAddr) -> RemoteAddr {
        self.stash_pages_at(table).plus(u64::from(self.stash) * 8)
    }
}

/// What the table grows by.
impl DuoLayout {
    /// Bytes that the bits take which say what is split.
    pub(super) const fn splits_bytes(before: u64) -> u64 {
        (2 * before).div_ceil(512) * 64
    }

    /// Bytes of the extent by which a table of so many buckets an array grows.
    pub(super) fn extent_bytes(&self, before: u64, ratio: u64) -> Option<u64> {
        let buckets = before.checked_mul(ratio - 1)?;
        let arrays = buckets.checked_mul(2)?;
        let arrays = arrays.checked_mul(self.bucket_bytes() as u64)?;
        let bytes = arrays.checked_add(self.published_growth(buckets)?)?;
        bytes.checked_add(Self::splits_bytes(before))
    }

    /// Bytes of the memory behind a table that doubles so often; nothing if there are no such
    /// sizes.
    pub(super) fn reserve_for(&self, growths: u32) -> Option<u64> {
        let mut all: u64 = 0;
        for growth in 0..growths {
            let before = self.buckets.checked_mul(1 << growth)?;
            let bytes = self.extent_bytes(before, 2)?;
            all = all.checked_add(bytes.checked_next_multiple_of(RESERVE_ALIGNMENT)?)?;
        }
        Some(all)
    }
}

// The header has room for all entries.
const _: () = assert!(EXTENT_ENTRIES_AT + MOST_EXTENTS as u64 * ENTRY_BYTES <= 4096);
