//! What a client remembers of the clusters that its lookups have met (paper 000, section 4.4).
//!
//! A cluster is a run of slots in use with an empty slot behind it. A lookup that walked from its
//! home to an empty slot has seen one, or a part of one. [`ClusterHints`] keeps the largest of
//! them, so that later lookups know where to stop reading. Any scheme with linear probing may have
//! it.
//!
//! It is a memory, not the truth: others fill slots, and some schemes free them. Who acts on a hint
//! must get the right answer from a wrong one.

use std::collections::BTreeSet;

pub use farslot_model::Hint;

/// The largest clusters that a client has met, at most so many, none touching another.
///
/// What lookups see is noted first, which takes a few ns, and merged later, while there is time:
/// see [`ClusterHints::note`] and [`ClusterHints::merge`]. A later sight corrects an earlier one,
/// and all arithmetic goes round the table's end.
#[derive(Clone, Debug)]
pub struct ClusterHints {
    /// Slots of the table.
    slots: u64,
    /// Clusters to keep.
    most: usize,
    /// The empty slots behind the clusters, ascending; searched on every lookup, so on their own.
    ends: Vec<u64>,
    /// How many ends lie in front of each of equal parts of the table, and of its end: where to
    /// search.
    ends_before: Box<[u32]>,
    /// A part has 2^`part_bits` slots.
    part_bits: u32,
    /// The length of each cluster, in slots, at least 1.
    lens: Vec<u64>,
    /// Length and end of each cluster: the first one goes when there are too many.
    by_length: BTreeSet<(u64, u64)>,
    /// The first of these.
    smallest: Option<(u64, u64)>,
    notes: Vec<ClusterNote>,
}

/// A run that was seen: `len` slots in use from `start` on, then an empty one.
#[derive(Clone, Copy, Debug)]
struct ClusterNote {
    start: u64,
    len: u64,
}

/// Notes that wait to be merged; more are dropped. Twice what one batch of lookups may leave.
const MOST_NOTES: usize = 2 * crate::BATCH_WIDTH;
/// Parts of the table in which ends are counted: two for each cluster, but no more than this.
const MOST_PARTS: usize = 1 << 14;

impl ClusterHints {
    /// Hints for a table of `slots` slots: at most `most` clusters of it.
    #[must_use]
    pub fn new(slots: u64, most: usize) -> Self {
        let parts = most.saturating_mul(2).clamp(1, MOST_PARTS) as u64;
        let part_slots = slots.div_ceil(parts).max(1).next_power_of_two();
        let parts = slots.div_ceil(part_slots);
        Self {
            slots,
            most: most.min(u32::MAX as usize),
            ends: Vec::new(),
            ends_before: vec![0; parts as usize + 1].into(),
            part_bits: part_slots.ilog2(),
            lens: Vec::new(),
            by_length: BTreeSet::new(),
            smallest: None,
            notes: Vec::with_capacity(MOST_NOTES),
        }
    }

    /// Bytes that it may come to take, about: of all clusters that it may keep, each in two lists
    /// and a tree whose nodes are half full.
    #[must_use]
    pub fn most_bytes(&self) -> u64 {
        let a_cluster = 2 * size_of::<u64>() + 2 * size_of::<(u64, u64)>();
        let fixed = size_of_val(&*self.ends_before) + MOST_NOTES * size_of::<ClusterNote>();
        (self.most.saturating_mul(a_cluster) + fixed) as u64
    }

    /// Notes that the slots from `start` on were in use up to slot `empty`, which was not. Slots
    /// count from 0; where `empty` is below `start` the run goes round the table's end, and where
    /// it is `start` there is no run, and only that slot was seen to be empty.
    ///
    /// Nothing changes before [`ClusterHints::merge`]. A note is dropped if it says nothing new, if
    /// too many wait, or if the table has no such slot.
    #[inline]
    pub fn note(&mut self, start: u64, empty: u64) {
        if self.notes.len() < MOST_NOTES && start < self.slots && empty < self.slots {
            let len = self.distance(start, empty);
            let note = ClusterNote { start, len };
            if self.teaches(note) {
                self.notes.push(note);
            }
        }
    }

    /// Whether there is something to merge.
    #[inline]
    #[must_use]
    pub fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// Learns from what was noted, in the order in which it was seen. To be called while READs are
    /// under way and there is nothing else to do. Each note takes time in O(m), a move of at most
    /// 24 bytes a cluster; but few lookups leave one, once the largest clusters are known.
    pub fn merge(&mut self) {
        if self.notes.is_empty() {
            return;
        }
        let notes = std::mem::take(&mut self.notes);
        notes.iter().for_each(|&note| self.learn(note));
        self.notes = notes;
        self.notes.clear();
    }

    /// Where the cluster is that `slot` lies in, or the next one from there on, round the table's
    /// end; nothing where no cluster is known. In O(log m).
    #[inline]
    #[must_use]
    pub fn at(&self, slot: u64) -> Option<Hint> {
        if self.ends.is_empty() || slot >= self.slots {
            return None;
        }
        let next = self.ends_below(slot + 1);
        let next = if next < self.ends.len() { next } else { 0 };
        let (end, len) = (self.ends[next], self.lens[next]);
        // The only cluster's own end sees it a whole turn ahead.
        let to_end = match self.distance(slot, end) {
            0 => self.slots,
            to_end => to_end,
        };
        Some(if to_end <= len {
            Hint::Inside { left: to_end }
        } else {
            Hint::Ahead {
                ahead: to_end - len,
                len,
            }
        })
    }

    /// How many clusters are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The clusters, each as its first slot and its length in slots, in the order of their ends.
    /// The slot behind each is empty.
    pub fn clusters(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends_and_lens = self.ends.iter().zip(&self.lens);
        ends_and_lens.map(|(&end, &len)| (self.before(end, len), len))
    }

    /// Slots from `from` to `to`, round the table's end.
    #[inline]
    fn distance(&self, from: u64, to: u64) -> u64 {
        if to >= from {
            to - from
        } else {
            to + self.slots - from
        }
    }

    /// The slot `count` slots in front of `slot`, round the table's end; `count` is below all
    /// slots.
    fn before(&self, slot: u64, count: u64) -> u64 {
        self.distance(count, slot)
    }

    /// The slot `count` slots behind `slot`, round the table's end; `count` is at most all slots.
    fn behind(&self, slot: u64, count: u64) -> u64 {
        let to = slot + count;
        if to < self.slots { to } else { to - self.slots }
    }

    fn learn(&mut self, note: ClusterNote) {
        if !self.teaches(note) {
            return;
        }
        let ClusterNote { start, len } = note;
        let mut longer_by = 0;
        // Those that the run touches, in the order of their ends from its start on.
        while let Some(place) = self.first_end_from(start) {
            let (known_end, known_len) = (self.ends[place], self.lens[place]);
            let to_end = self.distance(start, known_end);
            if to_end > len + known_len {
                break;
            }
            self.forget(place);
            longer_by = longer_by.max(known_len.saturating_sub(to_end));
            if to_end > len {
                // The run's empty slot lies within it: what is behind that is a cluster of its own.
                self.keep(known_end, to_end - len - 1);
                break;
            }
        }
        // No cluster fills the table: one slot is empty.
        let len = (len + longer_by).min(self.slots - 1);
        self.keep(self.behind(start, note.len), len);
    }

    /// Whether a note changes what is known.
    #[inline]
    fn teaches(&self, ClusterNote { start, len }: ClusterNote) -> bool {
        let touched = self.first_end_from(start).and_then(|place| {
            let to_end = self.distance(start, self.ends[place]);
            let known_len = self.lens[place];
            (to_end <= len + known_len).then_some((to_end, known_len))
        });
        match touched {
            Some((to_end, known_len)) => to_end != len || known_len < len,
            None => len > 0 && self.would_keep(self.behind(start, len), len),
        }
    }

    /// Whether a cluster that touches no other is among the largest.
    #[inline]
    fn would_keep(&self, end: u64, len: u64) -> bool {
        self.ends.len() < self.most || self.smallest.is_some_and(|smallest| smallest < (len, end))
    }

    /// How many ends lie in front of a slot, or of the table's end.
    #[inline]
    fn ends_below(&self, slot: u64) -> usize {
        let part = (slot >> self.part_bits) as usize;
        let Some(&[from, to]) = self
            .ends_before
            .get(part..part + 2)
            .and_then(|ends| ends.first_chunk())
        else {
            return self.ends.len();
        };
        let (from, to) = (from as usize, to as usize);
        from + self.ends[from..to].partition_point(|&end| end < slot)
    }

    /// The counts of the ends in front of the parts behind a slot.
    fn ends_before_parts_behind(&mut self, slot: u64) -> impl Iterator<Item = &mut u32> {
        let part = (slot >> self.part_bits) as usize;
        self.ends_before.iter_mut().skip(part + 1)
    }

    /// The place of the first cluster that ends at `slot` or later, round the table's end.
    #[inline]
    fn first_end_from(&self, slot: u64) -> Option<usize> {
        let place = self.ends_below(slot);
        if place < self.ends.len() {
            Some(place)
        } else {
            (!self.ends.is_empty()).then_some(0)
        }
    }

    /// Adds a cluster that touches no other; the smallest goes if there are too many.
    fn keep(&mut self, end: u64, len: u64) {
        if len == 0 || !self.would_keep(end, len) {
            return;
        }
        if let (true, Some((_, other))) = (self.ends.len() >= self.most, self.smallest) {
            self.forget(self.ends_below(other));
        }
        let place = self.ends_below(end);
        self.ends.insert(place, end);
        self.lens.insert(place, len);
        self.ends_before_parts_behind(end)
            .for_each(|count| *count += 1);
        self.by_length.insert((len, end));
        self.smallest = self.by_length.first().copied();
    }

    fn forget(&mut self, place: usize) {
        let (end, len) = (self.ends.remove(place), self.lens.remove(place));
        self.ends_before_parts_behind(end)
            .for_each(|count| *count -= 1);
        self.by_length.remove(&(len, end));
        self.smallest = self.by_length.first().copied();
    }
}

#[cfg(test)]
#[path = "cluster_hints_tests.rs"]
mod tests;
