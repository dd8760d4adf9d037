//! What a table is, whatever its scheme: for people in a line, for machines as JSON.

use farslot::health::PartitionReport;
use farslot::layout::{CuckooShape, KeyRule, Scheme, SealedForm};
use farslot::{Evicting, FieldSize, Occupancy, SlotKind, TableRecord};
use farslot_terminal::output;
use serde_json::{Value, json};

/// A word that names the record's block.
const RACE_SLOT_BYTES: usize = 8;

/// A word, of a set.
const BUCKET_BYTES: usize = 8;

/// What only tables of one scheme have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeDetail {
    /// Nothing.
    Nothing,
    /// Items without keys, of a queue.
    Items,
    /// Where a key of a cuckoo table may be.
    Cuckoo(CuckooShape),
    /// The buckets of a CuckooDuo table, and who looks keys up.
    Duo {
        /// Slots of a bucket.
        bucket_slots: u32,
        /// Bits of a fingerprint.
        fingerprint_bits: u32,
        /// Whether others do beside the writer.
        readers: bool,
        /// Slots when it has grown as far as it can.
        most_slots: u64,
    },
    /// The buckets of a RACE table, and how far it grows.
    Race {
        /// Slots of a bucket.
        bucket_slots: u32,
        /// Slots when it has grown as far as it can.
        most_slots: u64,
    },
    /// How far a chained table grows.
    Growing {
        /// Slots when it has grown as far as it can.
        most_slots: u64,
    },
}

impl SchemeDetail {
    /// The same of a table over so many nodes, whose partitions are alike.
    const fn of_partitions(mut self, partitions: u64) -> Self {
        if let Self::Race { most_slots, .. }
        | Self::Duo { most_slots, .. }
        | Self::Growing { most_slots } = &mut self
        {
            *most_slots = most_slots.saturating_mul(partitions);
        }
        self
    }
}

/// What a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeShape {
    /// The scheme's name.
    pub scheme: &'static str,
    /// What only tables of its scheme have.
    pub detail: SchemeDetail,
    /// What a slot holds.
    pub slot_kind: &'static str,
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// How many slots there are.
    pub slots: u64,
    /// The size of the keys.
    pub key: FieldSize,
    /// The size of the values.
    pub value: FieldSize,
    /// Whether a key may have several records.
    pub multi_key: bool,
    /// Whether records may have a time to live.
    pub expiring: bool,
    /// Which records it forgets when it is full, if any.
    pub evicting: Option<Evicting>,
    /// Bytes for records that are not in slots.
    pub heap_bytes: u64,
    /// Bytes of remote memory in all.
    pub table_bytes: u64,
    /// Whether its memory comes from the pool of its node, as it grows.
    pub pooled: bool,
    /// Bytes of that memory that no other table takes.
    pub reserve_bytes: u64,
}

impl SchemeShape {
    /// The shape of a table of this scheme.
    #[must_use]
    pub fn of(scheme: &Scheme) -> Self {
        let (detail, kind, slot_bytes, slots, heap_bytes) = match scheme {
            Scheme::Linear(layout) => (
                SchemeDetail::Nothing,
                layout.kind,
                layout.slot_bytes(),
                layout.slots,
                layout.heap_bytes,
            ),
            Scheme::Sealed(layout) => (
                SchemeDetail::Nothing,
                match layout.form {
                    SealedForm::Inline => SlotKind::Inline,
                    SealedForm::OutOfBand => SlotKind::Heap,
                },
                layout.slot_bytes(),
                layout.slots,
                layout.heap_bytes,
            ),
            Scheme::Cuckoo(layout) => (
                SchemeDetail::Cuckoo(CuckooShape {
                    ways: layout.ways,
                    bucket_slots: layout.bucket_slots,
                }),
                layout.kind,
                layout.bucket_bytes() / layout.bucket_slots as usize,
                layout.slots(),
                layout.heap_bytes,
            ),
            Scheme::Duo(layout) => (
                SchemeDetail::Duo {
                    bucket_slots: layout.bucket_slots,
                    fingerprint_bits: layout.fingerprint_bits,
                    readers: layout.published,
                    most_slots: layout.most_slots(),
                },
                layout.kind,
                layout.slot_bytes(),
                layout.slots(),
                layout.heap_bytes,
            ),
            Scheme::Race(layout) => (
                SchemeDetail::Race {
                    bucket_slots: layout.bucket_slots,
                    most_slots: layout.most_slots(),
                },
                SlotKind::Heap,
                RACE_SLOT_BYTES,
                layout.slots(),
                layout.heap_bytes,
            ),
            Scheme::Set(layout) => (
                SchemeDetail::Nothing,
                match layout.element_words {
                    0 => SlotKind::Word,
                    _ => SlotKind::Heap,
                },
                BUCKET_BYTES,
                layout.buckets,
                layout.heap_bytes(),
            ),
            Scheme::Chained(layout) => (
                SchemeDetail::Growing {
                    most_slots: layout.most_slots(),
                },
                SlotKind::Inline,
                layout.slot_bytes(),
                layout.slots(),
                0,
            ),
            Scheme::Ordered(layout) => (
                SchemeDetail::Nothing,
                SlotKind::Inline,
                layout.slot_bytes(),
                layout.slots(),
                0,
            ),
            Scheme::Queue(layout) => (
                SchemeDetail::Items,
                SlotKind::Inline,
                layout.slot_bytes(),
                layout.items.into(),
                0,
            ),
        };
        let (key, value) = scheme.record_sizes();
        Self {
            scheme: scheme.name(),
            detail,
            slot_kind: kind.name(),
            slot_bytes,
            slots,
            key,
            value,
            multi_key: scheme.keys() == KeyRule::Multi,
            expiring: scheme.is_expiring(),
            evicting: scheme.evicting(),
            heap_bytes,
            table_bytes: u64::try_from(scheme.table_bytes()).unwrap_or(u64::MAX),
            pooled: scheme.is_pooled(),
            reserve_bytes: scheme.reserve_bytes(),
        }
    }

    /// The same as it was counted: it may have grown since it was made. Of a table over several
    /// nodes, of all the `parts` together.
    #[must_use]
    pub fn as_counted(
        self,
        scheme: &Scheme,
        counts: &Occupancy,
        parts: &[PartitionReport],
    ) -> Self {
        let slots = counts.slots;
        if parts.is_empty() {
            return Self {
                slots,
                heap_bytes: match self.pooled {
                    true => counts.heap_bytes,
                    false => self.heap_bytes,
                },
                table_bytes: scheme.bytes_with(counts),
                ..self
            };
        }
        Self {
            slots,
            heap_bytes: counts.heap_bytes,
            table_bytes: parts.iter().map(|part| part.table_bytes).sum(),
            reserve_bytes: self.reserve_bytes.saturating_mul(parts.len() as u64),
            detail: self.detail.of_partitions(parts.len() as u64),
            ..self
        }
    }

    /// The same of a table that was just made: over several nodes, of all its partitions together,
    /// which are alike.
    #[must_use]
    pub fn of_new(record: &TableRecord, nodes: u64) -> Self {
        let shape = Self::of(&record.scheme);
        if record.partition.is_none() {
            return shape;
        }
        Self {
            slots: shape.slots.saturating_mul(nodes),
            heap_bytes: shape.heap_bytes.saturating_mul(nodes),
            table_bytes: shape.table_bytes.saturating_mul(nodes),
            reserve_bytes: shape.reserve_bytes.saturating_mul(nodes),
            detail: shape.detail.of_partitions(nodes),
            ..shape
        }
    }

    /// The scheme, with what is its own, for people.
    #[must_use]
    pub fn organisation(&self) -> String {
        let scheme = self.scheme;
        match self.detail {
            SchemeDetail::Nothing | SchemeDetail::Items => scheme.into(),
            SchemeDetail::Growing { most_slots } => {
                format!("{scheme}{}", growth_to(most_slots, self.slots))
            }
            SchemeDetail::Cuckoo(CuckooShape { ways, bucket_slots }) => {
                format!("{scheme}, {ways} ways x {bucket_slots}")
            }
            SchemeDetail::Race {
                bucket_slots,
                most_slots,
            } => {
                let growth = growth_to(most_slots, self.slots);
                format!("{scheme}, buckets of {bucket_slots}{growth}")
            }
            SchemeDetail::Duo {
                bucket_slots,
                fingerprint_bits,
                readers,
                most_slots,
            } => {
                let readers_note = if readers {
                    ""
                } else {
                    ", for its writer alone"
                };
                let growth = growth_to(most_slots, self.slots);
                format!(
                    "{scheme}, buckets of {bucket_slots}, fingerprints of {fingerprint_bits} bits{readers_note}{growth}"
                )
            }
        }
    }

    /// For people, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        format!(
            "{} {} slots ({}), {} of {}{}{}; {}",
            output::grouped(self.slots),
            self.slot_kind,
            self.organisation(),
            match self.detail {
                SchemeDetail::Items => "items".into(),
                _ => format!("keys of {}, values", self.key),
            },
            self.value,
            if self.expiring {
                ", which may expire"
            } else {
                ""
            },
            match self.evicting {
                Some(Evicting::All) => "; a cache, which evicts any",
                Some(Evicting::Expiring) => "; a cache, which evicts what may expire",
                None => "",
            },
            match self.pooled {
                true if self.reserve_bytes > 0 => format!(
                    "memory of its node's as it grows, of which {} are kept for it",
                    output::sized(self.reserve_bytes)
                ),
                true => "memory of its node's as it grows".into(),
                false => output::sized(self.table_bytes),
            },
        )
    }
}

/// A table for machines.
#[must_use]
pub fn described(name: &str, shape: &SchemeShape) -> Value {
    let mut object = json!({
        "table": name,
        "scheme": shape.scheme,
        "slots": shape.slots,
        "slot_kind": shape.slot_kind,
        "slot_bytes": shape.slot_bytes,
        "key_bytes": size(shape.key),
        "value_bytes": size(shape.value),
        "multi_key": shape.multi_key,
        "expiring": shape.expiring,
        "heap_bytes": shape.heap_bytes,
        "table_bytes": shape.table_bytes,
    });
    if let Some(evicting) = shape.evicting {
        object["evict"] = evicting.name().into();
    }
    if shape.pooled {
        object["reserve_bytes"] = shape.reserve_bytes.into();
    }
    match shape.detail {
        SchemeDetail::Nothing => {}
        SchemeDetail::Items => object["key_bytes"] = Value::Null,
        SchemeDetail::Growing { most_slots } => object["most_slots"] = most_slots.into(),
        SchemeDetail::Cuckoo(CuckooShape { ways, bucket_slots }) => {
            object["ways"] = ways.into();
            object["bucket_slots"] = bucket_slots.into();
        }
        SchemeDetail::Race {
            bucket_slots,
            most_slots,
        } => {
            object["bucket_slots"] = bucket_slots.into();
            object["most_slots"] = most_slots.into();
        }
        SchemeDetail::Duo {
            bucket_slots,
            fingerprint_bits,
            readers,
            most_slots,
        } => {
            object["bucket_slots"] = bucket_slots.into();
            object["fingerprint_bits"] = fingerprint_bits.into();
            object["writer_alone"] = (!readers).into();
            object["most_slots"] = most_slots.into();
        }
    }
    object
}

/// How far a table may grow that has so many slots, for people.
fn growth_to(most_slots: u64, slots: u64) -> String {
    if most_slots <= slots {
        return String::new();
    }
    format!(", growing to {} slots", output::grouped(most_slots))
}

fn size(size: FieldSize) -> Value {
    match size {
        FieldSize::Fixed(bytes) => json!({ "exactly": bytes }),
        FieldSize::UpTo(bytes) => json!({ "at_most": bytes }),
    }
}
