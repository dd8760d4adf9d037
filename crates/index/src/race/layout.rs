//! The bytes of a RACE table, and the options that decide them.

use super::buckets::{Buckets, MOST_BUCKET_SLOTS, Pair};
use super::directory::RaceDirectory;
use super::word::{LARGEST_HEAP, MOST_DEPTH};
use crate::Sizing;
use crate::hash::{derive, scale};
use crate::heap::{Evicting, Heap, HeapPlace, record_bytes};
use crate::slot::{RecordShape, SlotKind, bad_option, slots_for};
use crate::table_map::{HEADER_BYTES, TableMap};
use crate::{FieldSize, Hasher, Result};
use farslot_fabric::{Endpoint, NodeId, RegionId, RemoteAddr};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::rc::Rc;

/// Buckets of a group: two main ones, and between them the one that both overflow into.
const GROUP: u64 = 3;
/// The most subtables of a table: as many as a client's directory can number.
const MOST_SUBTABLES: u64 = 1 << 31;
/// A client's directory has so many entries for each subtable, at most, and so many in all where
/// that is less: powers of two. An entry has 4 bytes.
const SUFFIXES_A_SUBTABLE: u64 = 16;
const SUFFIXES_AT_LEAST: u64 = 1 << 16;
/// Slots of a subtable of a table that grows, unless told otherwise.
const SUBTABLE_SLOTS: u64 = 1024;
/// The purposes that a key's hash is derived for.
const SECOND_BUCKET: u64 = 1;
const ROUTE: u64 = 2;

/// Offsets from here are from a table's start.
const AT_START: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 0,
};

/// The load factor unless another is asked for.
const LOAD_FACTOR: f64 = 0.8;

/// What a RACE table shall be. Everything but the capacity and the sizes has a default.
#[derive(Clone, Debug, PartialEq)]
pub struct RaceOptions {
    /// How much it shall hold: at first 4/5 full unless told otherwise. Its keys are unique; by
    /// default its heap has room for `most_capacity` records of the largest size.
    pub sizing: Sizing,
    /// Keys that it has room for when it has grown; by default the capacity: it does not grow then.
    /// The memory for all of them belongs to the table from the start, but is not touched before it
    /// is needed.
    pub most_capacity: Option<u64>,
    /// Slots of a bucket, 1 to 32: the paper's d.
    pub bucket_slots: u32,
    /// Slots of a subtable, at least: whole groups of buckets. By default 1024 of a table that
    /// grows, and all slots of one that does not. Who finds a subtable full moves half of its
    /// records.
    pub subtable_slots: Option<u64>,
}

impl RaceOptions {
    /// Options for a table of that size, in buckets of 8 slots.
    #[must_use]
    pub const fn new(sizing: Sizing) -> Self {
        Self {
            sizing,
            most_capacity: None,
            bucket_slots: 8,
            subtable_slots: None,
        }
    }

    /// The layout that these options ask for.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the option, its value and what is
    /// possible.
    pub fn layout(&self) -> Result<RaceLayout> {
        let sizing = &self.sizing;
        sizing.unique_keys("RACE")?;
        let slots = sizing.slots_for(sizing.capacity, LOAD_FACTOR)?;
        let most = self.most_capacity.unwrap_or(sizing.capacity);
        if most < sizing.capacity {
            let limit = format!("at least the capacity, {}", sizing.capacity);
            return Err(bad_option("most capacity", most, limit));
        }
        let grows = most > sizing.capacity;
        let wanted = self
            .subtable_slots
            .unwrap_or(if grows { SUBTABLE_SLOTS } else { slots });
        let group_slots = GROUP * u64::from(self.bucket_slots.max(1));
        let groups = wanted
            .clamp(1, sizing.slots_for(most, LOAD_FACTOR)?)
            .div_ceil(group_slots);
        let subtable_slots = groups * group_slots;
        let roots = slots.div_ceil(subtable_slots).next_power_of_two();
        let most_subtables = if grows {
            let subtables = sizing
                .slots_for(most, LOAD_FACTOR)?
                .div_ceil(subtable_slots);
            // All split at about the same time, and some before the others.
            let subtables = subtables.next_power_of_two();
            (subtables + subtables / 8 + 1).max(roots)
        } else {
            roots
        };
        let shape = sizing.shape();
        shape.check(SlotKind::Heap)?;
        let layout = RaceLayout {
            bucket_slots: self.bucket_slots,
            groups,
            roots,
            most_subtables,
            key: sizing.key,
            value: sizing.value,
            hasher: sizing.hasher,
            heap_bytes: shape.heap_bytes(SlotKind::Heap, most, sizing.heap_bytes)?,
            expiring: false,
            evicting: None,
            segment: 0,
            most_heap: None,
            reserve: 0,
        };
        layout.check()?;
        Ok(layout)
    }
}

/// All that a client must know of a RACE table: kept in the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RaceLayout {
    /// Slots of a bucket.
    pub bucket_slots: u32,
    /// Groups of three buckets of a subtable.
    pub groups: u64,
    /// Subtables at first: a power of two.
    pub roots: u64,
    /// Subtables when it has grown.
    pub most_subtables: u64,
    /// The size of the keys.
    pub key: FieldSize,
    /// The size of the values.
    pub value: FieldSize,
    /// From a key to the hash that its subtable, its buckets and its tag derive from.
    pub hasher: Hasher,
    /// Bytes of heap.
    pub heap_bytes: u64,
    /// Whether each value begins with the moment at which its record expires: the layer above
    /// writes and reads that. The index has records that have ended make room for others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expiring: bool,
    /// Which records it forgets when its heap, or a new key's buckets, are full, if any: of a
    /// cache. Others refuse new ones then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evicting: Option<Evicting>,
    /// Bytes of the segments that its memory is made of, a power of two: it takes them as it grows,
    /// and gives back those that it does not need ([`RaceLayout::in_pool`]). 0 where all of its
    /// memory is its own from the start, in one piece.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub segment: u64,
    /// Bytes that its heap may have at most, of one that is made of segments, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_heap: Option<u64>,
    /// Bytes of memory that no other table takes, of one that is made of segments: whoever shares
    /// out the segments sees to that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserve: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Bytes that the smallest segments have, and what a key takes at least, its slot included: more
/// keys than this allows never fit into a pool.
pub const SMALLEST_SEGMENT: u64 = 64 << 10;
const LEAST_BYTES_A_KEY: u64 = 64;

impl RaceLayout {
    /// The same table in a pool of so many bytes, made of segments of so many, a power of two: it
    /// may come to have all of them, unless its heap was limited.
    #[must_use]
    pub fn in_pool(&self, segment: u64, bytes: u64) -> Self {
        let heap = self.most_heap.map_or(bytes, |most| most.min(bytes));
        let keys = (bytes / LEAST_BYTES_A_KEY).max(1);
        let slots = keys + keys / 4;
        // All split at about the same time, and some before the others.
        let subtables = slots.div_ceil(self.subtable_slots()).next_power_of_two();
        Self {
            most_subtables: (subtables + subtables / 8 + 1).max(self.roots),
            // The words of its pages take no more than two of them, and lie before these.
            heap_bytes: (heap.next_multiple_of(segment) + 2 * segment).min(LARGEST_HEAP),
            segment,
            ..self.clone()
        }
    }

    /// Bytes of addresses from the table's start that it needs before it has a key.
    #[must_use]
    pub fn first_bytes(&self) -> [Range<u64>; 2] {
        let subtables = self.subtables_at(AT_START).offset;
        let roots = subtables + self.roots * self.subtable_stride() * 8;
        [0..HEADER_BYTES, subtables..roots]
    }

    /// The heap of the table at this address, as who does not know keys sees it.
    #[must_use]
    pub fn heap<E: Endpoint>(&self, endpoint: Rc<E>, table: RemoteAddr) -> Heap<E> {
        let longest = record_bytes(self.key.most(), self.value.most());
        Heap::new(endpoint, self.heap_place(table), longest)
            .ending(self.expiring)
            .evicting(self.evicting)
            .of_segments(self.segment)
    }

    /// Refuses a layout that no options give: one that was not made by this crate, or was damaged.
    /// Whoever takes a layout from remote memory calls this first: the sizes that derive from one
    /// that passes do not overflow.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the field, its value and what is possible.
    pub fn check(&self) -> Result<()> {
        self.shape().check(SlotKind::Heap)?;
        self.hasher.check(self.key)?;
        if self.hasher == Hasher::Knuth {
            return Err(bad_option("hash", "knuth", "only for Word and Pair slots"));
        }
        if !(1..=MOST_BUCKET_SLOTS).contains(&self.bucket_slots) {
            let limit = format!("1 to {MOST_BUCKET_SLOTS}");
            return Err(bad_option("bucket slots", self.bucket_slots, limit));
        }
        if !self.roots.is_power_of_two()
            || !(self.roots..=MOST_SUBTABLES).contains(&self.most_subtables)
        {
            let limit =
                format!("a power of two of them at first, and up to {MOST_SUBTABLES} later");
            let value = format!("{} to {}", self.roots, self.most_subtables);
            return Err(bad_option("subtables", value, limit));
        }
        let slots = u128::from(self.groups)
            * u128::from(GROUP * u64::from(self.bucket_slots))
            * u128::from(self.most_subtables);
        slots_for(u64::try_from(slots).unwrap_or(u64::MAX), 1.0)?;
        if self.groups.leading_zeros() <= self.route_bits() {
            let limit = format!("below 2^{}", 63 - self.route_bits());
            return Err(bad_option("bucket groups", self.groups, limit));
        }
        if self.segment > 0 {
            let is_one = self.segment.is_power_of_two() && self.segment >= SMALLEST_SEGMENT;
            let holds = u128::from(self.subtable_stride()) * 8 <= u128::from(self.segment);
            if !is_one || !holds || self.most_splits() == 0 {
                let limit = format!(
                    "a power of two from {SMALLEST_SEGMENT} on that a subtable fits into, of a \
                     table that grows"
                );
                return Err(bad_option("segment bytes", self.segment, limit));
            }
        }
        if self.reserve > 0 && self.segment == 0 {
            let limit = "of a table that is made of segments";
            return Err(bad_option("reserve bytes", self.reserve, limit));
        }
        if self.heap_bytes > LARGEST_HEAP {
            let limit = format!("at most {LARGEST_HEAP}");
            return Err(bad_option("heap bytes", self.heap_bytes, limit));
        }
        Ok(())
    }

    /// Slots of a bucket group.
    #[must_use]
    pub const fn group_slots(&self) -> u64 {
        GROUP * self.bucket_slots as u64
    }

    /// Slots of a subtable.
    #[must_use]
    pub const fn subtable_slots(&self) -> u64 {
        self.groups * self.group_slots()
    }

    /// Slots from the start of a subtable to that of the next: of a table that is made of segments
    /// none lies in two.
    pub(super) const fn subtable_stride(&self) -> u64 {
        match self.segment {
            0 => self.subtable_slots(),
            _ => self.subtable_slots().next_power_of_two(),
        }
    }

    /// Slots of the table at first.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.roots * self.subtable_slots()
    }

    /// Slots of the table when it has grown as far as it can.
    #[must_use]
    pub const fn most_slots(&self) -> u64 {
        self.most_subtables * self.subtable_slots()
    }

    /// Bytes from the table's start that its clients may have written, where it was split so often
    /// and the mark of its heap is `heap_mark`: what must be zeros again before another table can
    /// lie there.
    #[must_use]
    pub fn written(&self, splits: u64, heap_mark: u64) -> Vec<Range<u64>> {
        let splits = splits.min(self.most_splits());
        let [head, heap] = self.map().written(heap_mark);
        let unused = (self.most_splits() - splits) * self.subtable_slots() * 8;
        vec![head.start..head.end - unused.min(head.end), heap]
    }

    /// Bytes from the table's start at which its directory lies: a word for each split, none behind
    /// the first 0.
    #[must_use]
    pub fn directory(&self) -> Range<u64> {
        let start = self.split_at(AT_START, 0).offset;
        start..start + self.most_splits() * 8
    }

    /// Bytes of remote memory that the whole table takes in one piece, those that it may grow into
    /// included; of one that is made of segments, their list. A fresh table is all zeros.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        match self.segment {
            0 => self.map().bytes(),
            segment => self.address_bytes().div_ceil(u128::from(segment)) * 8,
        }
    }

    /// Bytes of the table's addresses.
    #[must_use]
    pub fn address_bytes(&self) -> u128 {
        self.map().bytes()
    }

    /// Bytes of local memory that a client's directory takes, before the table has grown.
    #[must_use]
    pub const fn directory_bytes(&self) -> u64 {
        RaceDirectory::bytes_of(self.roots)
    }

    /// Bytes of local memory that a client's directory takes at most, when the table has grown as
    /// far as it can.
    #[must_use]
    pub const fn most_directory_bytes(&self) -> u64 {
        RaceDirectory::bytes_of(self.most_subtables)
            + (size_of::<u32>() as u64) * (1 << self.route_bits())
    }

    /// How often subtables can split.
    pub(super) const fn most_splits(&self) -> u64 {
        self.most_subtables - self.roots
    }

    /// How often a subtable can split along its line: so often that a client's directory, which has
    /// an entry for each suffix as long as the longest, has at most [`SUFFIXES_A_SUBTABLE`] times
    /// as many as there are subtables at last, rounded up to a power of two, or
    /// [`SUFFIXES_AT_LEAST`]. Hashes make lines of about equal lengths: only where a subtable has a
    /// handful of slots does a key find no room because of this.
    pub(super) const fn most_depth(&self) -> u32 {
        if self.most_splits() == 0 {
            return 0;
        }
        let suffixes = self.most_subtables.next_power_of_two() * SUFFIXES_A_SUBTABLE;
        let suffixes = if suffixes < SUFFIXES_AT_LEAST {
            SUFFIXES_AT_LEAST
        } else {
            suffixes
        };
        // There are no more roots than subtables at last.
        let depth = suffixes.trailing_zeros() - self.roots.trailing_zeros();
        if depth < MOST_DEPTH {
            depth
        } else {
            MOST_DEPTH
        }
    }

    /// Bits of a route that can matter.
    pub(super) const fn route_bits(&self) -> u32 {
        self.roots.trailing_zeros() + self.most_depth()
    }

    /// Words of the directory: an entry for each split, to whole cache lines; before subtables of
    /// which none lies in two segments, so many that the first does not.
    const fn directory_words(&self) -> u64 {
        let words = self.most_splits().next_multiple_of(8);
        match self.segment {
            0 => words,
            _ => {
                (words + HEADER_BYTES / 8).next_multiple_of(self.subtable_stride())
                    - HEADER_BYTES / 8
            }
        }
    }

    fn map(&self) -> TableMap {
        TableMap {
            slots: self.directory_words() + self.most_subtables * self.subtable_stride(),
            slot_bytes: 8,
            heap_bytes: self.heap_bytes,
            segment: self.segment,
        }
    }

    pub(super) fn heap_place(&self, table: RemoteAddr) -> HeapPlace {
        self.map().heap_place(table)
    }

    /// Where the directory's entry of a split is.
    pub(super) fn split_at(&self, table: RemoteAddr, split: u64) -> RemoteAddr {
        self.map().slot_at(table, split)
    }

    /// Where the first subtable begins.
    pub(super) fn subtables_at(&self, table: RemoteAddr) -> RemoteAddr {
        self.map().slot_at(table, self.directory_words())
    }

    /// The sizes of the records.
    pub(super) const fn shape(&self) -> RecordShape {
        RecordShape::new(self.key, self.value)
    }

    /// The buckets of the key with this hash, in whichever subtable.
    #[inline]
    pub(super) fn buckets_of(&self, hash: u64) -> Buckets {
        let [first, second] = self.mains_of(hash);
        let bucket = u64::from(self.bucket_slots);
        let pair_of = |main: u64| {
            let group = main / 2 * self.group_slots();
            Pair {
                main: group + main % 2 * 2 * bucket,
                overflow: group + bucket,
            }
        };
        Buckets {
            pairs: [pair_of(first), pair_of(second)],
            bucket,
        }
    }

    /// The main buckets of the key with this hash, of all main buckets of a subtable.
    #[inline(always)]
    fn mains_of(&self, hash: u64) -> [u64; 2] {
        let mains = 2 * self.groups;
        let first = scale(hash, mains);
        let other = scale(derive(hash, SECOND_BUCKET), mains - 1);
        [first, other + u64::from(other >= first)]
    }

    /// The bits by which subtables are told apart, the first of them the lowest.
    #[inline]
    pub(super) fn route_of(&self, hash: u64) -> u64 {
        derive(hash, ROUTE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IndexError;
    use crate::race::buckets::SlotSpan;
    use proptest::prelude::*;

    fn options(capacity: u64) -> RaceOptions {
        RaceOptions::new(Sizing::new(
            capacity,
            FieldSize::Fixed(8),
            FieldSize::Fixed(8),
            1,
        ))
    }

    #[test]
    fn options_that_no_table_can_have_are_named() {
        let cases: [(&str, RaceOptions); 10] = [
            ("capacity", options(0)),
            ("capacity", options(u64::MAX)),
            (
                "load factor",
                RaceOptions {
                    sizing: Sizing {
                        load_factor: Some(1.5),
                        ..options(9).sizing
                    },
                    ..options(9)
                },
            ),
            (
                "most capacity",
                RaceOptions {
                    most_capacity: Some(8),
                    ..options(9)
                },
            ),
            (
                "bucket slots",
                RaceOptions {
                    bucket_slots: 0,
                    ..options(9)
                },
            ),
            (
                "bucket slots",
                RaceOptions {
                    bucket_slots: 33,
                    ..options(9)
                },
            ),
            (
                "hash",
                RaceOptions {
                    sizing: Sizing {
                        hasher: Hasher::Knuth,
                        ..options(9).sizing
                    },
                    ..options(9)
                },
            ),
            (
                "key size",
                RaceOptions {
                    sizing: Sizing {
                        key: FieldSize::UpTo(0),
                        ..options(9).sizing
                    },
                    ..options(9)
                },
            ),
            (
                "heap bytes",
                RaceOptions {
                    sizing: Sizing {
                        heap_bytes: Some(0),
                        ..options(9).sizing
                    },
                    ..options(9)
                },
            ),
            (
                "heap bytes",
                RaceOptions {
                    sizing: Sizing {
                        heap_bytes: Some(1 << 37),
                        ..options(9).sizing
                    },
                    ..options(9)
                },
            ),
        ];
        for (named, options) in cases {
            match options.layout() {
                Err(IndexError::BadOption { option, .. }) => assert_eq!(option, named),
                other => panic!("{named}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_layout_has_the_room_that_was_asked_for() {
        let fixed = options(1_000_000).layout().unwrap();
        assert_eq!((fixed.roots, fixed.most_subtables), (1, 1));
        assert!(fixed.subtable_slots() >= 1_250_000 && fixed.subtable_slots() < 1_250_024);
        let growing = RaceOptions {
            most_capacity: Some(1_000_000),
            ..options(800)
        };
        let growing = growing.layout().unwrap();
        assert_eq!((growing.roots, growing.subtable_slots()), (1, 1032));
        assert!(growing.most_subtables * 1032 > 1_250_000);
    }

    proptest! {
        #[test]
        fn buckets_are_two_different_pairs_that_lie_together(
            hash: u64,
            groups in 1u64..50,
            bucket_slots in 1u32..=16,
        ) {
            let layout = RaceLayout { groups, bucket_slots, ..options(9).layout().unwrap() };
            let buckets = layout.buckets_of(hash);
            prop_assert_ne!(buckets.pairs[0].main, buckets.pairs[1].main);
            for pair in buckets.pairs {
                prop_assert_eq!(pair.main.abs_diff(pair.overflow), buckets.bucket);
                prop_assert!(pair.main.max(pair.overflow) < layout.subtable_slots());
            }
            let (first, second) = buckets.spans();
            let read = |slot: u64| {
                let inside = |span: SlotSpan| (span.first..span.first + span.slots).contains(&slot);
                inside(first) || second.is_some_and(inside)
            };
            for slot in 0..layout.subtable_slots() {
                prop_assert_eq!(read(slot), buckets.contain(slot));
            }
            prop_assert_eq!(second.is_none(), buckets.pairs[0].overflow == buckets.pairs[1].overflow);
        }
    }
}
