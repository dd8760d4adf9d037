//! Small tables like those that are advised: of the same slots and the same load factor, with
//! records of the same sizes.

use super::AdviceQuestion;
use super::candidates::Plan;
use crate::simulated::Records;
use farslot::index::cuckoo::CuckooLayout;
use farslot::index::duo::DuoLayout;
use farslot::index::linear::LinearLayout;
use farslot::index::race::RaceLayout;
use farslot::index::{FieldSize, Hasher, SlotKind};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How large a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Slots of the tables.
    pub slots: u64,
    /// Lookups of each measurement.
    pub lookups: u64,
    /// Updates, and puts of new keys, of each measurement, at most.
    pub writes: u32,
    /// What all chance derives from.
    pub seed: u64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            slots: 1 << 18,
            lookups: 40_000,
            writes: 4_000,
            seed: 0,
        }
    }
}

/// Bytes of the keys of the records that are simulated; values have the rest.
pub(super) const KEY_BYTES: usize = 4;
/// The most memory of a table that is simulated, and the fewest slots that mean anything.
const MOST_BYTES: f64 = (256 << 20) as f64;
const FEWEST_SLOTS: u64 = 1 << 12;

/// Slots of the table to simulate, or why it cannot be.
pub(super) fn slots_of_check(
    question: &AdviceQuestion,
    plan: &Plan,
    options: &CheckOptions,
) -> std::result::Result<u64, String> {
    let is_small = matches!(plan.kind, SlotKind::Word | SlotKind::Pair);
    for size in question.record_sizes() {
        let most = KEY_BYTES + usize::from(u16::MAX);
        if !(KEY_BYTES..=most).contains(&size.bytes) && !is_small {
            return Err(format!(
                "records of {KEY_BYTES} to {most} bytes are simulated"
            ));
        }
    }
    let slot_bytes = plan.reads.table_bytes() as f64 / plan.reads.most_slots() as f64;
    let mut slots = options.slots;
    while slots as f64 * slot_bytes > MOST_BYTES {
        slots /= 2;
        if slots < FEWEST_SLOTS {
            return Err("its records are too large for a table in memory".into());
        }
    }
    if (slots as f64 * plan.load).round() < 1.0 {
        return Err(format!("{slots} slots at its load hold no record"));
    }
    Ok(slots)
}

/// Records of the same sizes, so many.
pub(super) fn small_records(
    question: &AdviceQuestion,
    plan: &Plan,
    seed: u64,
    count: u32,
) -> Records {
    if matches!(plan.kind, SlotKind::Word | SlotKind::Pair) {
        // Any such record fills such a slot.
        return Records::distinct(seed, count, KEY_BYTES);
    }
    let sizes = question.record_sizes();
    if let [one] = &sizes[..] {
        return Records::distinct(seed, count, one.bytes - KEY_BYTES);
    }
    let total: f64 = sizes.iter().map(|size| size.weight).sum();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = || {
        let mut weight = random.random_range(0.0..total);
        let drawn = sizes.iter().find(|size| {
            weight -= size.weight;
            weight < 0.0
        });
        (drawn.unwrap_or(&sizes[0]).bytes - KEY_BYTES) as u16
    };
    Records::varied(seed, (0..count).map(|_| draw()))
}

/// What a small table has of the question and of the check, and not of the plan.
pub(super) struct Small {
    pub(super) slots: u64,
    pub(super) key: FieldSize,
    pub(super) value: FieldSize,
    pub(super) hasher: Hasher,
}

impl Small {
    pub(super) fn new(question: &AdviceQuestion, plan: &Plan, options: &CheckOptions) -> Self {
        let small = matches!(plan.kind, SlotKind::Word | SlotKind::Pair);
        let largest = question.record_sizes().iter().map(|size| size.bytes).max();
        let value = match largest {
            Some(bytes) if !small => (bytes - KEY_BYTES) as u32,
            _ => KEY_BYTES as u32,
        };
        Self {
            slots: options.slots,
            key: FieldSize::Fixed(KEY_BYTES as u32),
            value: match question.values.len() {
                1 => FieldSize::Fixed(value),
                _ => FieldSize::UpTo(value),
            },
            hasher: Hasher::Xxh3 { seed: options.seed },
        }
    }

    pub(super) fn linear(&self, kind: SlotKind, layout: &LinearLayout) -> LinearLayout {
        LinearLayout {
            slots: self.slots,
            key: self.key,
            value: self.value,
            hasher: self.hasher,
            longest_probe: layout.longest_probe.min(self.slots),
            heap_bytes: self.heap_bytes(kind, layout.heap_bytes, layout.slots),
            ..layout.clone()
        }
    }

    pub(super) fn cuckoo(&self, kind: SlotKind, layout: &CuckooLayout) -> CuckooLayout {
        CuckooLayout {
            buckets: self.slots / u64::from(layout.bucket_slots),
            key: self.key,
            value: self.value,
            hasher: self.hasher,
            heap_bytes: self.heap_bytes(kind, layout.heap_bytes, layout.slots()),
            ..layout.clone()
        }
    }

    /// One subtable, which does not split.
    pub(super) fn race(&self, layout: &RaceLayout) -> RaceLayout {
        RaceLayout {
            groups: self.slots / layout.group_slots(),
            roots: 1,
            most_subtables: 1,
            key: self.key,
            value: self.value,
            hasher: self.hasher,
            heap_bytes: self.heap_bytes(SlotKind::Heap, layout.heap_bytes, layout.most_slots()),
            ..layout.clone()
        }
    }

    /// One that does not grow.
    pub(super) fn duo(&self, layout: &DuoLayout) -> DuoLayout {
        DuoLayout {
            buckets: self.slots / (2 * u64::from(layout.bucket_slots)),
            key: self.key,
            value: self.value,
            hasher: self.hasher,
            reserve_bytes: 0,
            heap_bytes: match layout.kind {
                SlotKind::Heap => {
                    self.heap_bytes(SlotKind::Heap, layout.heap_bytes, layout.most_slots())
                }
                _ => 0,
            },
            ..layout.clone()
        }
    }

    /// A heap for a smaller table than one of so many slots, with room for what a client takes at a
    /// time.
    fn heap_bytes(&self, kind: SlotKind, bytes: u64, slots: u64) -> u64 {
        if matches!(kind, SlotKind::Word | SlotKind::Pair) {
            return 0;
        }
        let part = bytes as f64 * (self.slots as f64 / slots as f64);
        (part * 1.1 + f64::from(8 << 20)) as u64 / 64 * 64
    }
}
