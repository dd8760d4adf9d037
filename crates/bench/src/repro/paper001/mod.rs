//! Tables and figures of paper 001, and results of its supplement.

pub(super) mod fig10;
pub(super) mod fig11;
pub(super) mod fig12;
pub(super) mod fig6;
pub(super) mod fig7;
pub(super) mod fig8;
pub(super) mod fig9;
pub(super) mod supplement;
pub(super) mod table1;
pub(super) mod table3;

use crate::ReproRow;
use crate::paper001::published::{
    BUCKET_SLOTS, CLIENT_MEMORY, FIELD_BYTES, FINGERPRINT_BITS, OPERATIONS_PER_SLOT, STASH,
};
use crate::paper001::split::{Order, Search, SplitShape};
use crate::paper001::trial::{Task, Trial};
use crate::repro::Scale;
use farslot::index::duo::placement::Shape;

/// How far a figure may be off without a reason being given.
const NEAR: f64 = 0.15;
/// Standard errors that are put down to chance.
const CHANCE: f64 = 3.0;

/// A trial with the paper's sizes.
fn trial(scale: &Scale, stops: Vec<(f64, Vec<Task>)>) -> Trial {
    Trial {
        slots: scale.slots,
        bucket_slots: BUCKET_SLOTS,
        fingerprint_bits: FINGERPRINT_BITS,
        field_bytes: FIELD_BYTES,
        stops,
        operations: operations(scale),
        width: 1,
        client_bytes: None,
        seed: scale.seed_of(0),
    }
}

/// Operations of a task: insertions are to leave the load factor as it is, nearly.
fn operations(scale: &Scale) -> u32 {
    scale
        .lookups
        .min((scale.slots as f64 * OPERATIONS_PER_SLOT) as u32)
}

/// The least bytes of it: an index of some thousand slots and a few sets of a cache.
const LEAST_CLIENT_MEMORY: u64 = 16 << 10;

/// Bytes of the client's memory for an index and a cache together.
fn client_bytes(scale: &Scale) -> u64 {
    let records = scale.slots as f64 * f64::from(2 * FIELD_BYTES);
    ((records * CLIENT_MEMORY) as u64).max(LEAST_CLIENT_MEMORY)
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

/// Whether a row's cell is one of those that a reason is given for: it begins with the text before the first `*`, and
/// has what is between and behind others, in this order.
fn is_of(cell: &str, known: &str) -> bool {
    let mut pieces = known.split('*');
    let first = pieces.next().unwrap_or("");
    let Some(mut rest) = cell.strip_prefix(first) else {
        return false;
    };
    pieces.all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// Sentences on the rows that are off by more than 15 %, and by more than chance explains where that is known: from the
/// reasons given, of which the first that is for a row's cell counts. A row that is off without a reason says that.
fn reasons(rows: &[ReproRow], known: &[(&str, &str)]) -> String {
    let is_off = |row: &&ReproRow| {
        let chance = row.standard_error.map_or(0.0, |error| CHANCE * error);
        let far = |paper: f64| (row.ours - paper).abs() > (NEAR * paper).max(chance);
        row.paper.is_some_and(far)
    };
    let mut given = vec![false; known.len()];
    let mut unexplained = String::new();
    for row in rows.iter().filter(is_off) {
        match known.iter().position(|(cell, _)| is_of(&row.cell, cell)) {
            Some(reason) => given[reason] = true,
            None => unexplained.push_str(&format!(" {}: off, and not explained.", row.cell)),
        }
    }
    let given = known.iter().zip(given).filter(|(_, given)| *given);
    let mut text = String::new();
    for ((cell, reason), _) in given {
        text.push_str(&format!(" {}: {reason}.", cell.replace('*', " ... ")));
    }
    text.push_str(&unexplained);
    if text.is_empty() {
        return text;
    }
    format!(" Off by more than 15 %:{text}")
}
