//! What paper 001's tables and figures share.

use crate::ReproRow;
use crate::paper001::designs::published::{
    BUCKET_SLOTS, CLIENT_MEMORY, COUNTED_SLOTS, FIELD_BYTES, FINGERPRINT_BITS, OPERATIONS_PER_SLOT,
    STASH,
};
use crate::paper001::designs::split::{Search, SlotPriority, SplitShape};
use crate::paper001::designs::trial::{Spent, TableTrial, Task, TrialOperation};
use crate::scale::Scale;
use farslot::index::duo::placement::Shape;

/// The operations that are timed, each by itself.
pub(crate) const OPERATIONS: [(&str, TrialOperation); 4] = [
    ("insertion", TrialOperation::PutNew),
    ("lookup", TrialOperation::Get),
    ("update", TrialOperation::Update),
    ("removal", TrialOperation::Remove),
];
/// Slots of the tables where bandwidth is limited, at most: of 2 KiB each.
pub(crate) const LIMITED_SLOTS: u64 = 1 << 14;
/// How far a figure may be off without a reason being given.
pub(crate) const NEAR: f64 = 0.15;
/// Standard errors that are put down to chance.
pub(crate) const CHANCE: f64 = 3.0;

/// A trial with the paper's sizes.
pub(crate) fn trial(scale: &Scale, stops: Vec<(f64, Vec<Task>)>) -> TableTrial {
    TableTrial {
        slots: scale.slots,
        bucket_slots: BUCKET_SLOTS,
        fingerprint_bits: FINGERPRINT_BITS,
        field_bytes: FIELD_BYTES,
        stands_for: COUNTED_SLOTS,
        stops,
        operations: operations(scale),
        width: 1,
        client_bytes: None,
        seed: scale.seed_of(0),
    }
}

/// Operations of a task: insertions are to leave the load factor as it is, nearly.
pub(crate) fn operations(scale: &Scale) -> u32 {
    scale
        .lookups
        .min((scale.slots as f64 * OPERATIONS_PER_SLOT) as u32)
}

/// Why batches of several verbs take less time here.
pub(crate) const FURTHER_VERBS: &str = "a lookup of RACE, two READs of 16 slots, is 0.8 us slower in Table I than one of TEA, one READ of 16; 2 KiB at 100 Gb/s are 0.16 of \
     it. The simulated NIC takes some nanoseconds for a further verb of a batch. The model's column has 0.64 us for each: fitted on these two cells, for \
     all others, also of MapEmbed's batches of sixteen, and laid on CuckooDuo's own verbs as well, where it does not fit: its update is 8.5 us by it, 6.2 in \
     the paper. So it describes two cells and explains none";
/// Why TEA's walks take fewer round trips here.
pub(crate) const WALKS: &str = "the published code writes a record of a walk before it reads for the next one, a READ and a WRITE for each, one after the other; here \
     a walk is written whole in one batch when it has ended, so that no record is ever in no slot. One after the other it is the model's column. \
     Most of the records that are displaced are those of walks that are given up, after 1000, and few of these are among so many insertions: \
     their number is chance";

/// The least bytes of it: an index of some thousand slots and a few sets of a cache.
pub(crate) const LEAST_CLIENT_MEMORY: u64 = 16 << 10;

/// Bytes of the client's memory for an index and a cache together.
pub(crate) fn client_bytes(scale: &Scale) -> u64 {
    let records = scale.slots as f64 * f64::from(2 * FIELD_BYTES);
    ((records * CLIENT_MEMORY) as u64).max(LEAST_CLIENT_MEMORY)
}

/// A trial that only fills a table, of small records.
pub(crate) fn filling(scale: &Scale, bucket_slots: u32) -> TableTrial {
    TableTrial {
        bucket_slots,
        field_bytes: 8,
        ..trial(scale, vec![(2.0, Vec::new())])
    }
}

/// The paper's index, as ours has it.
pub(crate) fn shape(slots: u64, bucket_slots: u32) -> Shape {
    Shape {
        buckets: slots.div_ceil(2 * u64::from(bucket_slots)),
        bucket_slots,
        fingerprint_bits: FINGERPRINT_BITS,
        longest_path: 3,
        stash: STASH,
        backups: true,
    }
}

/// The paper's index, as the paper has it: a quarter of the first array's slots for backup
/// fingerprints. The published code moves one record fewer than its L says.
pub(crate) fn split(slots: u64, bucket_slots: u32) -> SplitShape {
    SplitShape {
        buckets: slots.div_ceil(2 * u64::from(bucket_slots)),
        bucket_slots: bucket_slots as usize,
        backup_slots: bucket_slots as usize / 4,
        fingerprint_bits: FINGERPRINT_BITS,
        stash: STASH.into(),
        collisions_aside: false,
        order: SlotPriority::BackupFirst,
        search: Search::Breadth(2),
    }
}

/// The same with one fingerprint.
pub(crate) fn single(slots: u64) -> SplitShape {
    SplitShape {
        backup_slots: 0,
        order: SlotPriority::PrimaryFirst,
        ..split(slots, BUCKET_SLOTS)
    }
}

/// A row of microseconds, with what they were if a batch's further verbs took what they do on the
/// paper's testbed: for all designs alike.
pub(crate) fn us_row(cell: String, paper: Option<f64>, spent: &Spent) -> ReproRow {
    let has_more = spent.accesses > spent.round_trips + 0.5;
    ReproRow {
        model: has_more.then(|| spent.testbed_us()),
        ..ReproRow::new(cell, paper, spent.us())
    }
}

/// Round trips and microseconds of an insertion of TEA as the published code makes it: a READ and a
/// WRITE for each record of a walk, one after the other. `alone` is one that displaces nothing.
///
/// Here all that is displaced is written in one batch, so that there is a round trip more than
/// there are records.
pub(crate) fn one_record_after_the_other(walk: &Spent, alone: &Spent) -> (f64, f64) {
    let records = walk.round_trips - 1.0;
    (2.0 * records, records * alone.us())
}

/// Accesses, slots and moves of an insertion of MapEmbed as the published code counts them (its
/// `cpu/MapEmbed.h`): a READ of a bucket; then one move, or, if a cell gets another number, READs
/// of its sixteen buckets and sixteen moves. That a cell is given up costs nothing there. A move is
/// an access of a slot.
pub(crate) fn as_published_of_map_embed(spent: &Spent) -> [f64; 3] {
    let moves = 1.0 + 15.0 * spent.cells;
    let buckets = 1.0 + 16.0 * spent.cells;
    [
        buckets + moves,
        buckets * f64::from(BUCKET_SLOTS) + moves,
        moves,
    ]
}

/// Whether a row's cell is one of those that a reason is given for: it begins with the text before
/// the first `*`, and has what is between and behind others, in this order.
pub(crate) fn is_of(cell: &str, known: &str) -> bool {
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

/// Sentences on the rows that are off by more than 15 %.
pub(crate) fn reasons(rows: &[ReproRow], known: &[(&str, &str)]) -> String {
    reasons_beyond(NEAR, rows, known)
}

/// Sentences on the rows that are off by more than that part, and by more than chance explains
/// where that is known: from the reasons given, of which the first that is for a row's cell counts.
/// A row that is off without a reason says that.
pub(crate) fn reasons_beyond(near: f64, rows: &[ReproRow], known: &[(&str, &str)]) -> String {
    let is_off = |row: &&ReproRow| {
        let chance = row.standard_error.map_or(0.0, |error| CHANCE * error);
        let far = |paper: f64| (row.ours - paper).abs() > (near * paper).max(chance);
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
    format!(" Off by more than {:.0} %:{text}", near * 100.0)
}
