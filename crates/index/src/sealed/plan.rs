//! Which record goes into which slot: found in local memory, before anything is written.
//!
//! All of it takes a time proportional to records and slots, however many records a key has:
//! records are counted by home and laid out group by group (a counting sort), and those in order of
//! arrival find the next empty slot by a path that shortens as it is walked (Tarjan's disjoint
//! sets).

use super::layout::{SealedForm, SealedLayout, SlotOrder};
use super::mask::unused_word;
use super::perfect::{Function, FunctionBuilder, most_records};
use super::record;
use super::slots::place;
use crate::slot::{KeyRule, bad_option};
use crate::{IndexError, Result};
use std::ops::Range;

/// A key and its value.
pub(super) type Pair<'r> = (&'r [u8], &'r [u8]);

/// Marks a slot without a record.
const EMPTY: u32 = u32::MAX;

/// Where everything goes.
pub(super) struct Plan {
    /// By slot: a record's number, or [`EMPTY`].
    slots: Vec<u32>,
    /// By record: its key's hash.
    hashes: Vec<u64>,
    /// Of inline slots.
    pub(super) mask: u64,
    /// By record, where they have variable sizes: the unit of the heap where it starts.
    starts: Vec<u64>,
    /// Bytes of the heap that the records take.
    pub(super) heap_used: u64,
    /// Of a table with one slot for each key; the hashes are its.
    pub(super) function: Option<Function>,
}

impl Plan {
    /// Plans the table; the first thing that is wrong with the records is the error.
    pub(super) fn new(layout: &SealedLayout, records: &[Pair<'_>]) -> Result<Self> {
        layout.shape().check_all(records)?;
        let most = match layout.order {
            SlotOrder::Perfect => most_records(layout.slots),
            _ => layout.slots,
        };
        if records.len() as u64 > most {
            return Err(full(layout));
        }
        // A perfect hash function has hashes of its own.
        let hashed = match layout.order {
            SlotOrder::Perfect => &[],
            _ => records,
        };
        let mut hashes: Vec<u64> = hashed
            .iter()
            .map(|(key, _)| layout.hasher.hash(key))
            .collect();
        let mut function = None;
        let (starts, heap_used) = heap_places(layout, records)?;
        let mask = match layout.form {
            SealedForm::OutOfBand => 0,
            // Slots of variable size say the lengths.
            SealedForm::Inline if layout.record_bytes().is_none() => 0,
            SealedForm::Inline => {
                let keys = records.iter().map(|(key, _)| *key);
                unused_word(keys, layout.key.most(), layout.mask_seed)?
            }
        };
        let slots = match (layout.order, layout.keys) {
            (SlotOrder::ByHash, _) => {
                let groups = Groups::of(layout, records, &hashes)?;
                in_hash_order(layout, &groups)?
            }
            (SlotOrder::Arrival, KeyRule::Unique) => {
                // For the sake of the keys that stand twice.
                drop(Groups::of(layout, records, &hashes)?);
                in_order_of_arrival(layout, &hashes)?
            }
            (SlotOrder::Arrival, KeyRule::Multi) => in_order_of_arrival(layout, &hashes)?,
            (SlotOrder::Perfect, _) => {
                let of_function = perfect(layout, records)?;
                hashes = of_function.1;
                let slots = at_their_slots(layout, &of_function.0, &hashes)?;
                function = Some(of_function.0);
                slots
            }
        };
        Ok(Self {
            slots,
            hashes,
            mask,
            starts,
            heap_used,
            function,
        })
    }

    /// The records that stand in some of the slots: the slot, counted from the first of these, and
    /// the record's number.
    pub(super) fn in_slots(&self, slots: Range<u64>) -> impl Iterator<Item = (usize, usize)> {
        let slots = &self.slots[slots.start as usize..slots.end as usize];
        let used = slots
            .iter()
            .enumerate()
            .filter(|(_, record)| **record != EMPTY);
        used.map(|(slot, record)| (slot, *record as usize))
    }

    pub(super) fn hash(&self, record: usize) -> u64 {
        self.hashes[record]
    }

    /// A record's place in the heap: the record's number where all have the same size.
    pub(super) fn unit(&self, record: usize) -> u64 {
        self.starts.get(record).copied().unwrap_or(record as u64)
    }
}

fn full(layout: &SealedLayout) -> IndexError {
    IndexError::Full {
        probed: layout.slots,
        slots: layout.slots,
    }
}

/// Where the records out of band start, and how many bytes they take together.
fn heap_places(layout: &SealedLayout, records: &[Pair<'_>]) -> Result<(Vec<u64>, u64)> {
    let (mut starts, mut used) = (Vec::new(), 0);
    let mut longest = 0;
    match (layout.form, layout.record_bytes()) {
        (SealedForm::Inline, Some(_)) => {}
        (SealedForm::Inline, None) => {
            let sizes = records
                .iter()
                .map(|(key, value)| record::bytes(key.len(), value.len()));
            let (longest, room) = (sizes.max().unwrap_or(0), layout.slot_bytes());
            if longest > room {
                let limit = format!("at least {longest}, the longest record's");
                return Err(bad_option("slot bytes", room, limit));
            }
        }
        (SealedForm::OutOfBand, Some(bytes)) => {
            used = (records.len() * bytes) as u64;
            longest = bytes;
        }
        (SealedForm::OutOfBand, None) => {
            starts.reserve_exact(records.len());
            for (key, value) in records {
                let bytes = record::bytes(key.len(), value.len());
                starts.push(used / record::UNIT as u64);
                used += bytes as u64;
                longest = longest.max(bytes);
            }
        }
    }
    if used <= layout.heap_bytes {
        return Ok((starts, used));
    }
    Err(IndexError::HeapFull {
        record_bytes: longest,
        heap_bytes: layout.heap_bytes,
    })
}

/// The records, home by home, and in the order of their hashes within a home. Records of one hash
/// are in the order of their keys, those of one key in order of arrival.
struct Groups {
    records: Vec<u32>,
    /// By home: where its records end.
    ends: Vec<u32>,
}

impl Groups {
    fn of(layout: &SealedLayout, records: &[Pair<'_>], hashes: &[u64]) -> Result<Self> {
        let home = |record: usize| place(hashes[record], layout.homes).0 as usize;
        let mut ends = vec![0u32; layout.homes as usize];
        for record in 0..records.len() {
            ends[home(record)] += 1;
        }
        // From counts to starts, which move on to the ends as the records come.
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut sorted = vec![0u32; records.len()];
        for record in 0..records.len() {
            let next = &mut ends[home(record)];
            sorted[*next as usize] = record as u32;
            *next += 1;
        }
        let mut groups = Self {
            records: sorted,
            ends,
        };
        groups.sort_within(layout.keys, records, hashes)?;
        Ok(groups)
    }

    fn sort_within(&mut self, keys: KeyRule, records: &[Pair<'_>], hashes: &[u64]) -> Result<()> {
        let key = |record: u32| records[record as usize].0;
        let hash = |record: u32| hashes[record as usize];
        let mut start = 0;
        for end in &self.ends {
            let group = &mut self.records[start..*end as usize];
            start = *end as usize;
            if group.len() < 2 {
                continue;
            }
            // Stable, and linear where a key has all the records.
            group.sort_by(|&a, &b| hash(a).cmp(&hash(b)).then_with(|| key(a).cmp(key(b))));
            let twice =
                |pair: &&[u32]| hash(pair[0]) == hash(pair[1]) && key(pair[0]) == key(pair[1]);
            if keys == KeyRule::Unique
                && let Some(pair) = group.windows(2).find(twice)
            {
                return Err(IndexError::DuplicateKey {
                    record: u64::from(pair[1]),
                    first: u64::from(pair[0]),
                });
            }
        }
        Ok(())
    }
}

fn in_hash_order(layout: &SealedLayout, groups: &Groups) -> Result<Vec<u32>> {
    let mut slots = vec![EMPTY; layout.slots as usize];
    let (mut start, mut next) = (0, 0);
    for (home, end) in groups.ends.iter().enumerate() {
        let group = &groups.records[start..*end as usize];
        start = *end as usize;
        if group.is_empty() {
            continue;
        }
        let first = home.max(next);
        next = first + group.len();
        slots
            .get_mut(first..next)
            .ok_or_else(|| full(layout))?
            .copy_from_slice(group);
    }
    Ok(slots)
}

/// The function of a table with one slot for each key, and the keys' hashes by it.
fn perfect(layout: &SealedLayout, records: &[Pair<'_>]) -> Result<(Function, Vec<u64>)> {
    let builder = FunctionBuilder {
        shape: layout.perfect.ok_or_else(|| full(layout))?,
        slots: layout.slots,
        seed: layout.mask_seed,
    };
    builder.find(records.len(), |record| records[record].0)
}

fn at_their_slots(layout: &SealedLayout, function: &Function, hashes: &[u64]) -> Result<Vec<u32>> {
    let mut slots = vec![EMPTY; layout.slots as usize];
    for (record, hash) in (0u32..).zip(hashes) {
        let slot = function
            .slot(function.of_hash(*hash))
            .ok_or_else(|| full(layout))?;
        slots[slot as usize] = record;
    }
    Ok(slots)
}

fn in_order_of_arrival(layout: &SealedLayout, hashes: &[u64]) -> Result<Vec<u32>> {
    let mut slots = vec![EMPTY; layout.slots as usize];
    // By slot: itself if it is empty, else one behind it and no further than the next empty one.
    let mut onward: Vec<u32> = (0..=layout.slots as u32).collect();
    for (record, hash) in (0u32..).zip(hashes) {
        let mut at = place(*hash, layout.homes).0 as usize;
        while onward[at] as usize != at {
            let next = onward[at] as usize;
            onward[at] = onward[next];
            at = next;
        }
        *slots.get_mut(at).ok_or_else(|| full(layout))? = record;
        onward[at] = at as u32 + 1;
    }
    Ok(slots)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
