//! Tables and figures of paper 001. Figures 11 and 12 are not here yet: what they measure, a client's cache
//! and growth, is in the index crate.

pub(super) mod fig10;
pub(super) mod fig6;
pub(super) mod fig7;
pub(super) mod fig8;
pub(super) mod fig9;
pub(super) mod table1;
pub(super) mod table3;

use crate::ReproRow;
use crate::paper001::published::{BUCKET_SLOTS, FIELD_BYTES, FINGERPRINT_BITS, STASH};
use crate::paper001::split::{Order, Search, SplitShape};
use crate::paper001::trial::{Task, Trial};
use crate::repro::Scale;
use farslot::index::duo::placement::Shape;

/// How far a figure may be off without a reason being given.
const NEAR: f64 = 0.15;

/// A trial with the paper's sizes.
fn trial(scale: &Scale, stops: Vec<(f64, Vec<Task>)>) -> Trial {
    Trial {
        slots: scale.slots,
        bucket_slots: BUCKET_SLOTS,
        fingerprint_bits: FINGERPRINT_BITS,
        field_bytes: FIELD_BYTES,
        stops,
        // Insertions are to leave the load factor as it is, nearly.
        operations: scale
            .lookups
            .min(u32::try_from(scale.slots / 100).unwrap_or(u32::MAX)),
        seed: scale.seed_of(0),
    }
}

/// A trial that only fills a table, of small records.
fn filling(scale: &Scale, bucket_slots: u32) -> Trial {
    Trial {
        bucket_slots,
        field_bytes: 8,
        ..trial(scale, vec![(2.0, Vec::new())])
    }
}

/// The paper's index, as ours has it.
fn shape(slots: u64, bucket_slots: u32) -> Shape {
    Shape {
        buckets: slots.div_ceil(2 * u64::from(bucket_slots)),
        bucket_slots,
        fingerprint_bits: FINGERPRINT_BITS,
        longest_path: 3,
        stash: STASH,
        backups: true,
    }
}

/// The paper's index, as the paper has it: a quarter of the first array's slots for backup fingerprints. The published
/// code moves one record fewer than its L says.
fn split(slots: u64, bucket_slots: u32) -> SplitShape {
    SplitShape {
        buckets: slots.div_ceil(2 * u64::from(bucket_slots)),
        bucket_slots: bucket_slots as usize,
        backup_slots: bucket_slots as usize / 4,
        fingerprint_bits: FINGERPRINT_BITS,
        stash: STASH.into(),
        collisions_aside: false,
        order: Order::BackupFirst,
        search: Search::Breadth(2),
    }
}

/// The same with one fingerprint.
fn single(slots: u64) -> SplitShape {
    SplitShape {
        backup_slots: 0,
        order: Order::PrimaryFirst,
        ..split(slots, BUCKET_SLOTS)
    }
}

/// Sentences on the rows that are off by more than 15 %, from the reasons given for rows whose cells begin so.
/// A row that is off without a reason says that.
fn reasons(rows: &[ReproRow], known: &[(&str, &str)]) -> String {
    let is_off = |row: &&ReproRow| row.ratio.is_some_and(|ratio| (ratio - 1.0).abs() > NEAR);
    let off: Vec<&ReproRow> = rows.iter().filter(is_off).collect();
    let mut text = String::new();
    for (cell, reason) in known {
        if off.iter().any(|row| row.cell.starts_with(cell)) {
            text.push_str(&format!(" {cell}: {reason}."));
        }
    }
    for row in off {
        if !known.iter().any(|(cell, _)| row.cell.starts_with(cell)) {
            text.push_str(&format!(" {}: off, and not explained.", row.cell));
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(" Off by more than 15 %:{text}")
}
