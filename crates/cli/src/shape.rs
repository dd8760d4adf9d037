//! What a table is, whatever its scheme: for people in a line, for machines as JSON.

use crate::output;
use farslot::{CuckooShape, FieldSize, KeyRule, Scheme, SealedForm, SlotKind, TableRecord};
use serde_json::{Value, json};

/// What a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The scheme's name.
    pub scheme: &'static str,
    /// Where a key of a cuckoo table may be.
    pub cuckoo: Option<CuckooShape>,
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
    /// Bytes for records that are not in slots.
    pub heap_bytes: u64,
    /// Bytes of remote memory in all.
    pub table_bytes: u64,
}

impl Shape {
    /// The shape of a table of this scheme.
    #[must_use]
    pub fn of(scheme: &Scheme) -> Self {
        let table_bytes = u64::try_from(scheme.table_bytes()).unwrap_or(u64::MAX);
        let multi_key = scheme.keys() == KeyRule::Multi;
        match scheme {
            Scheme::Linear(layout) => Self {
                scheme: scheme.name(),
                cuckoo: None,
                slot_kind: kind_name(layout.kind),
                slot_bytes: layout.slot_bytes(),
                slots: layout.slots,
                key: layout.key,
                value: layout.value,
                multi_key,
                heap_bytes: layout.heap_bytes,
                table_bytes,
            },
            Scheme::Sealed(layout) => Self {
                scheme: scheme.name(),
                cuckoo: None,
                slot_kind: match layout.form {
                    SealedForm::Inline => kind_name(SlotKind::Inline),
                    SealedForm::OutOfBand => kind_name(SlotKind::Heap),
                },
                slot_bytes: layout.slot_bytes(),
                slots: layout.slots,
                key: layout.key,
                value: layout.value,
                multi_key,
                heap_bytes: layout.heap_bytes,
                table_bytes,
            },
            Scheme::Cuckoo(layout) => Self {
                scheme: scheme.name(),
                cuckoo: Some(CuckooShape {
                    ways: layout.ways,
                    bucket_slots: layout.bucket_slots,
                }),
                slot_kind: kind_name(layout.kind),
                slot_bytes: layout.slot_words() * 8,
                slots: layout.slots(),
                key: layout.key,
                value: layout.value,
                multi_key,
                heap_bytes: layout.heap_bytes,
                table_bytes,
            },
        }
    }

    /// The scheme, with what is its own, for people.
    #[must_use]
    pub fn organisation(&self) -> String {
        match self.cuckoo {
            Some(CuckooShape { ways, bucket_slots }) => {
                format!("{}, {ways} ways x {bucket_slots}", self.scheme)
            }
            None => self.scheme.into(),
        }
    }

    /// For people, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        format!(
            "{} {} slots ({}), keys of {} bytes, values of {}; {}",
            output::grouped(self.slots),
            self.slot_kind,
            self.organisation(),
            self.key,
            self.value,
            output::sized(self.table_bytes),
        )
    }
}

/// A table for machines.
#[must_use]
pub fn described(record: &TableRecord) -> Value {
    let shape = Shape::of(&record.scheme);
    let mut object = json!({
        "table": record.name,
        "scheme": shape.scheme,
        "slots": shape.slots,
        "slot_kind": shape.slot_kind,
        "slot_bytes": shape.slot_bytes,
        "key_bytes": size(shape.key),
        "value_bytes": size(shape.value),
        "multi_key": shape.multi_key,
        "heap_bytes": shape.heap_bytes,
        "table_bytes": shape.table_bytes,
    });
    if let Some(CuckooShape { ways, bucket_slots }) = shape.cuckoo {
        object["ways"] = ways.into();
        object["bucket_slots"] = bucket_slots.into();
    }
    object
}

const fn kind_name(kind: SlotKind) -> &'static str {
    match kind {
        SlotKind::Word => "word",
        SlotKind::Pair => "pair",
        SlotKind::Inline => "inline",
        SlotKind::Heap => "heap",
    }
}

fn size(size: FieldSize) -> Value {
    match size {
        FieldSize::Fixed(bytes) => json!({ "exactly": bytes }),
        FieldSize::UpTo(bytes) => json!({ "at_most": bytes }),
    }
}
