//! Options of a table like another.

use super::{HashKind, TableSpec};
use crate::OnRestart;
use crate::catalog::record::Scheme;
use crate::shapes::{CuckooShape, DuoShape, RaceShape};
use farslot_index::sealed::SlotOrder;
use farslot_index::{FieldSize, Hasher, KeyRule, SlotKind};

impl TableSpec {
    /// What a table of this scheme, on each of so many nodes, may have been asked for: its sizes,
    /// what only its scheme has, and a capacity that gives about as many slots, at the load factor
    /// that tables have without another.
    ///
    /// ```
    /// # use farslot::layout::{CuckooShape, TableSpec};
    /// # use farslot::TableOptions;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = TableOptions::new(1_000).cuckoo(CuckooShape { ways: 2, bucket_slots: 8 });
    /// let spec = TableSpec::of(&options.scheme()?, 1);
    /// assert_eq!((spec.ways, spec.bucket_slots), (Some(2), Some(8)));
    /// assert!(spec.capacity >= Some(1_000) && spec.capacity < Some(1_100));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn of(scheme: &Scheme, nodes: u64) -> Self {
        let (key, value) = scheme.record_sizes();
        let ((key_size, max_key), (value_size, max_value)) = (sizes(key), sizes(value));
        let keyed = scheme.kind().has_keys();
        let mut spec = Self {
            scheme: Some(scheme.kind()),
            key_size: key_size.filter(|_| keyed),
            max_key: max_key.filter(|_| keyed),
            value_size,
            max_value,
            multi_key: scheme.keys() == KeyRule::Multi,
            expiring: Some(scheme.is_expiring()),
            evict: scheme.evicting(),
            ..Self::default()
        };
        let (capacity, most) = spec.take_over(scheme);
        if scheme.is_pooled() {
            spec.reserve_bytes = spec.reserve_bytes.map(|bytes| bytes.saturating_mul(nodes));
            return spec;
        }
        spec.capacity = Some(capacity.saturating_mul(nodes).max(1));
        let most = most.map(|most| most.saturating_mul(nodes));
        spec.grow_to = most.filter(|most| Some(*most) > spec.capacity);
        spec.heap = spec.heap.filter(|bytes| *bytes > 0);
        spec.heap = spec.heap.map(|bytes| bytes.saturating_mul(nodes));
        spec
    }

    /// Has what only the scheme has; returns how many keys it has room for, and may grow to.
    fn take_over(&mut self, scheme: &Scheme) -> (u64, Option<u64>) {
        match scheme {
            Scheme::Linear(layout) => {
                let is_hybrid = layout.kind == SlotKind::Hybrid;
                self.inline_bytes = is_hybrid.then_some(layout.inline_bytes);
                (self.slots, self.heap) = (Some(layout.kind), Some(layout.heap_bytes));
                self.hash = hash_of(layout.hasher);
                (keys(layout.slots, 0.75), None)
            }
            Scheme::Sealed(layout) => {
                self.perfect = layout.order == SlotOrder::Perfect;
                self.filter = layout.perfect.is_some_and(|shape| shape.filter_bytes > 0);
                self.hash = hash_of(layout.hasher);
                (keys(layout.slots, 0.9), None)
            }
            Scheme::Set(layout) => {
                self.heap = Some(layout.heap_bytes());
                (keys(layout.buckets, 0.75), None)
            }
            Scheme::Chained(layout) => (layout.buckets.into(), Some(layout.most_buckets.into())),
            // Of keys that come in order leaves are half full; a ninth is for nodes above them, and
            // 64 leaves are there for a map of none.
            Scheme::Ordered(layout) => {
                let leaves = (u64::from(layout.nodes) / 9 * 8).saturating_sub(64);
                (leaves * u64::from(layout.leaf_pairs / 2), None)
            }
            Scheme::Queue(layout) => (layout.items.into(), None),
            Scheme::Cuckoo(_) | Scheme::Duo(_) | Scheme::Race(_) => self.take_over_buckets(scheme),
        }
    }

    /// The same of a scheme with buckets of a shape.
    fn take_over_buckets(&mut self, scheme: &Scheme) -> (u64, Option<u64>) {
        match scheme {
            Scheme::Cuckoo(layout) => {
                let (ways, bucket_slots) = (layout.ways, layout.bucket_slots);
                let load = CuckooShape { ways, bucket_slots }.load_factor();
                (self.ways, self.bucket_slots) = (Some(ways), Some(bucket_slots));
                (self.slots, self.heap) = (Some(layout.kind), Some(layout.heap_bytes));
                self.hash = hash_of(layout.hasher);
                (keys(layout.slots(), load), None)
            }
            Scheme::Duo(layout) => {
                let shape = DuoShape {
                    bucket_slots: layout.bucket_slots,
                    fingerprint_bits: layout.fingerprint_bits,
                    readers: layout.published,
                };
                self.bucket_slots = Some(shape.bucket_slots);
                self.fingerprint_bits = Some(shape.fingerprint_bits);
                self.writer_alone = !shape.readers;
                (self.slots, self.heap) = (Some(layout.kind), Some(layout.heap_bytes));
                self.hash = hash_of(layout.hasher);
                let keys = |slots| keys(slots, shape.load_factor());
                (keys(layout.slots()), Some(keys(layout.most_slots())))
            }
            Scheme::Race(layout) => {
                let bucket_slots = layout.bucket_slots;
                self.bucket_slots = Some(bucket_slots);
                let is_pooled = scheme.is_pooled();
                self.heap = layout
                    .most_heap
                    .or((!is_pooled).then_some(layout.heap_bytes));
                self.reserve_bytes = Some(layout.reserve).filter(|bytes| *bytes > 0);
                let load = RaceShape { bucket_slots }.load_factor();
                // One subtable, and a ninth of the others, are for those that split before others.
                let most = layout.most_slots() - layout.subtable_slots();
                let most = keys(most / 9 * 8, load);
                (keys(layout.slots(), load), Some(most))
            }
            _ => (0, None),
        }
    }

    /// The same, and where it says nothing what another says: the size of a field too, if it has
    /// none of its own.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let (has_key, has_value) = (self.key().is_some(), self.value().is_some());
        let or = |own: bool, of: Option<u32>| of.filter(|_| !own);
        Self {
            capacity: self.capacity.or(other.capacity),
            scheme: self.scheme.or(other.scheme),
            key_size: self.key_size.or(or(has_key, other.key_size)),
            max_key: self.max_key.or(or(has_key, other.max_key)),
            value_size: self.value_size.or(or(has_value, other.value_size)),
            max_value: self.max_value.or(or(has_value, other.max_value)),
            ways: self.ways.or(other.ways),
            bucket_slots: self.bucket_slots.or(other.bucket_slots),
            fingerprint_bits: self.fingerprint_bits.or(other.fingerprint_bits),
            writer_alone: self.writer_alone || other.writer_alone,
            perfect: self.perfect || other.perfect,
            filter: self.filter || other.filter,
            grow_to: self.grow_to.or(other.grow_to),
            load_factor: self.load_factor.or(other.load_factor),
            multi_key: self.multi_key || other.multi_key,
            expiring: self.expiring.or(other.expiring),
            evict: self.evict.or(other.evict),
            slots: self.slots.or(other.slots),
            inline_bytes: self.inline_bytes.or(other.inline_bytes),
            heap: self.heap.or(other.heap),
            reserve_bytes: self.reserve_bytes.or(other.reserve_bytes),
            hash: match self.hash {
                HashKind::Xxh3 => other.hash,
                hash => hash,
            },
            on_restart: match self.on_restart {
                OnRestart::Refuse => other.on_restart,
                on_restart => on_restart,
            },
        }
    }
}

/// Keys for which a table has so many slots at a load factor.
fn keys(slots: u64, load_factor: f64) -> u64 {
    (slots as f64 * load_factor) as u64
}

fn hash_of(hasher: Hasher) -> HashKind {
    match hasher {
        Hasher::Xxh3 { .. } => HashKind::Xxh3,
        Hasher::Knuth => HashKind::Knuth,
    }
}

/// The fixed size of a field, or the most.
const fn sizes(size: FieldSize) -> (Option<u32>, Option<u32>) {
    match size {
        FieldSize::Fixed(bytes) => (Some(bytes), None),
        FieldSize::UpTo(bytes) => (None, Some(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableOptions;

    /// Of each scheme, and with what only it has.
    #[test]
    fn what_a_table_was_asked_for_is_told_by_its_scheme() {
        for text in [
            "capacity=5000 scheme=linear multi_key=true key_size=8 slots=hybrid inline_bytes=64 heap=1MiB",
            "capacity=5000 scheme=linear key_size=8 value_size=8 expiring=true",
            "capacity=5000 scheme=linear key_size=8 value_size=8 hash=knuth slots=pair",
            "capacity=5000 scheme=cuckoo ways=3 bucket_slots=2 heap=1MiB",
            "capacity=5000 scheme=sealed perfect=true filter=true",
            "capacity=5000 scheme=duo bucket_slots=4 fingerprint_bits=12 writer_alone=true grow_to=90000",
            "capacity=5000 scheme=race evict=all heap=1MiB grow_to=90000",
            "capacity=5000 scheme=set key_size=8 value_size=0",
            "capacity=5000 scheme=chained grow_to=90000",
            "capacity=5000 scheme=ordered key_size=8 max_value=9",
            "capacity=5000 scheme=queue max_value=9",
            "heap=4MiB reserve_bytes=1MiB expiring=false",
            "max_key=20 evict=expiring",
        ] {
            let asked = TableOptions::named(pairs(text))
                .unwrap()
                .seeded(7)
                .scheme()
                .unwrap();
            let spec = TableSpec::of(&asked, 1);
            let again = spec.options().unwrap().seeded(7).scheme().unwrap();
            // The same slots or a few more or less, and all else the same.
            let told = TableSpec::of(&again, 1);
            let without = |spec: &TableSpec| TableSpec {
                capacity: None,
                grow_to: None,
                ..spec.clone()
            };
            assert_eq!(without(&told), without(&spec), "{text}");
            for (told, asked) in [(told.capacity, spec.capacity), (told.grow_to, spec.grow_to)] {
                let (told, asked) = (told.unwrap_or(0), asked.unwrap_or(0));
                assert!(
                    told.abs_diff(asked) <= asked / 8,
                    "{told} of {asked}: {text}"
                );
            }
            let (bytes, again) = (asked.table_bytes() as f64, again.table_bytes() as f64);
            assert!(
                (again / bytes - 1.0).abs() < 0.15,
                "{again} of {bytes}: {text}"
            );
        }
    }

    fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
        let pairs = text.split_whitespace();
        pairs.map(|pair| pair.split_once('=').unwrap())
    }
}
