//! Visiting every record, a piece of the table at a time, without stopping anybody.
//!
//! A key that is present all along keeps its slot's number, and the end of its route, while it goes
//! from subtable to subtable. So a scan goes by these: row by row, which is a group of buckets in
//! all subtables, and in a row in the order of the routes' ends, in which a subtable that splits
//! stays one interval.

use super::buckets::SlotSpan;
use super::client::RaceTable;
use super::directory::{RaceDirectory, SubtableLeaf};
use super::search::Learnt;
use super::word::{State, Word};
use crate::client::scan;
use crate::client::side_by_side;
use crate::heap::Record;
use crate::{BATCH_WIDTH, Cursor, Result};
use farslot_fabric::Endpoint;

/// Slots that the keys of a leaf are visited in.
#[derive(Clone, Copy)]
struct ScanArea {
    leaf: SubtableLeaf,
    span: SlotSpan,
}

/// What has become of a slot's record.
enum ScanOutcome {
    Record(Record),
    /// It is not the leaf's.
    OtherLeaf,
    /// To be looked at again.
    Unclear(ScanArea),
}

impl<E: Endpoint> RaceTable<E> {
    pub(super) async fn scan_piece(
        &self,
        Cursor(at): Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        if at == 0 {
            self.read_directory().await?;
        }
        let Some((mut areas, next)) = self.piece(at, most) else {
            return Ok(None);
        };
        let learnt = Learnt::default();
        while !areas.is_empty() {
            let mut words = Vec::new();
            let mut again = Vec::new();
            let looks = areas.drain(..).map(|area| self.look_over(area));
            side_by_side(BATCH_WIDTH, looks, |_, (seen, unclear)| {
                words.extend(seen);
                again.extend(unclear);
            })
            .await?;
            let records = words.into_iter().map(|(leaf, of)| self.meet(leaf, of));
            side_by_side(BATCH_WIDTH, records, |_, met| match met {
                ScanOutcome::Record(record) => visit(record.key(), record.value()),
                ScanOutcome::OtherLeaf => {}
                ScanOutcome::Unclear(area) => again.push(area),
            })
            .await?;
            if let Some(area) = again.first() {
                let slot = self.number_of(area.leaf.subtable, area.span.first);
                learnt.attempts.unreadable(&*self.endpoint, slot).await?;
            }
            areas = again;
        }
        Ok(next)
    }

    /// What the piece at a cursor has, of at most so many slots or one leaf's in a row, and where
    /// the next one starts; nothing behind the last.
    fn piece(&self, at: u64, most: u64) -> Option<(Vec<ScanArea>, Option<Cursor>)> {
        let bits = self.layout.route_bits();
        let (row, from) = (at >> bits, at & ((1 << bits) - 1));
        if row >= self.layout.groups {
            return None;
        }
        let directory = self.directory.borrow();
        let row_bytes = self.layout.group_slots() as usize * 8;
        let in_all = directory.subtables() as usize * row_bytes;
        let most_leaves = most / self.layout.group_slots();
        let whole_rows = if from == 0 {
            let most_rows = most_leaves / directory.subtables();
            scan::piece_of(row, self.layout.groups, in_all, most_rows)
        } else {
            1
        };
        let leaves = match whole_rows {
            1 => scan::piece_of(0, directory.subtables(), row_bytes, most_leaves),
            _ => directory.subtables(),
        };
        let span = SlotSpan {
            first: row * self.layout.group_slots(),
            slots: whole_rows * self.layout.group_slots(),
        };
        let mut areas = Vec::new();
        let mut place = from;
        while place < 1 << bits && (areas.len() as u64) < leaves {
            let leaf = directory.leaf_of(reversed(place, bits));
            areas.push(ScanArea { leaf, span });
            place = end_of(&directory, leaf, bits);
        }
        let next = if place < 1 << bits {
            row << bits | place
        } else {
            (row + whole_rows) << bits
        };
        Some((areas, scan::next(next, self.layout.groups << bits)))
    }

    /// The words with records of an area, each with its leaf; and what of it has to be looked at
    /// again.
    async fn look_over(
        &self,
        area: ScanArea,
    ) -> Result<(Vec<(SubtableLeaf, (u64, Word))>, Vec<ScanArea>)> {
        let leaves = self.leaves_of(area.leaf);
        if leaves != [area.leaf] {
            let span = area.span;
            let again = leaves.into_iter().map(|leaf| ScanArea { leaf, span });
            return Ok((Vec::new(), again.collect()));
        }
        let Some(view) = self.view(area.leaf, (area.span, None)).await? else {
            return Ok((Vec::new(), vec![area]));
        };
        let live = view.words().filter(|(_, word)| word.state() == State::Live);
        Ok((live.map(|of| (area.leaf, of)).collect(), Vec::new()))
    }

    /// The leaves that a leaf has become.
    fn leaves_of(&self, leaf: SubtableLeaf) -> Vec<SubtableLeaf> {
        let directory = self.directory.borrow();
        if directory.leaf(leaf.subtable) == leaf {
            return vec![leaf];
        }
        let bits = self.layout.route_bits();
        let mut leaves = Vec::new();
        let mut place = reversed(leaf.suffix, bits);
        let end = end_of(&directory, leaf, bits);
        while place < end {
            let leaf = directory.leaf_of(reversed(place, bits));
            place = end_of(&directory, leaf, bits);
            leaves.push(leaf);
        }
        leaves
    }

    async fn meet(&self, leaf: SubtableLeaf, (slot, word): (u64, Word)) -> Result<ScanOutcome> {
        let Some(record) = self.record_of(slot, word).await? else {
            let span = SlotSpan {
                first: slot,
                slots: 1,
            };
            return Ok(ScanOutcome::Unclear(ScanArea { leaf, span }));
        };
        // While a subtable is split, a slot may still have what will be its child's.
        let hash = self.layout.hasher.hash(record.key());
        let is_its = self
            .directory
            .borrow()
            .belongs(self.layout.route_of(hash), leaf);
        Ok(if is_its {
            ScanOutcome::Record(record)
        } else {
            ScanOutcome::OtherLeaf
        })
    }
}

/// So many low bits the other way round: routes that end alike become neighbours.
const fn reversed(route: u64, bits: u32) -> u64 {
    match bits {
        0 => 0,
        _ => route.reverse_bits() >> (64 - bits),
    }
}

/// The first place behind a leaf's, in the order of the routes' ends.
fn end_of(directory: &RaceDirectory, leaf: SubtableLeaf, bits: u32) -> u64 {
    reversed(leaf.suffix, bits) + (1 << (bits - directory.bits(leaf)))
}
