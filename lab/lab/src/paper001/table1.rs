//! Paper 001, Table I: what the designs cost.

use super::common::{
    FURTHER_VERBS, WALKS, filling, one_record_after_the_other, reasons, trial, us_row,
};
use crate::paper001::designs::published::{TABLE_1, TABLE_SLOTS, Took, testbed};
use crate::paper001::designs::schemes::{ComparedDesign, SCHEMES};
use crate::paper001::designs::trial::{Spent, TableTrial, Task, TrialFabric, TrialOperation};
use crate::scale::Scale;
use crate::{Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "001-table1";

/// A minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 18,
    tables: 1,
    lookups: 4_000,
    seed: 0,
};

/// The load factor of what is not an insertion at the highest.
const LOW_LOAD: f64 = 0.3;

const TASKS: [TrialOperation; 4] = [
    TrialOperation::PutNew,
    TrialOperation::Get,
    TrialOperation::Update,
    TrialOperation::Remove,
];

const REASONS: [(&str, &str); 14] = [
    (
        "slots accessed*RACE out of band",
        "a slot is a word here, and the records are out of band: each is as many words as it has bytes by 8",
    ),
    (
        "*RACE out of band",
        "a hit reads its record in a second round trip; an insertion is begun by one swap and made live by another, with a look at the key's \
         slots in between, in three; an update reads the record that it replaces beside writing the new one. A slot is a word here, so that 32 \
         of them are 256 bytes",
    ),
    ("us*RACE", FURTHER_VERBS),
    (
        "slots accessed, insertion at the highest load, CuckooDuo",
        "any slot of the first array may hold a backup fingerprint here, so that hardly an insertion reads a bucket: it reads and \
         writes the records that it moves",
    ),
    (
        "round trips, insertion at the highest load, CuckooDuo",
        "two is what those take that move a record, which few do at this load; the paper's read a bucket for a backup slot",
    ),
    (
        "us, insertion at the highest load, CuckooDuo",
        "by the same round trips",
    ),
    (
        "slots accessed, update, CuckooDuo",
        "the new record is written to the journal and to its slot, so that an owner that dies leaves one of both whole",
    ),
    (
        "slots accessed, removal, CuckooDuo",
        "a slot's head is swapped, 8 of its bytes; the paper's reads the slot whole",
    ),
    (
        "slots accessed, insertion at the highest load",
        "the published code reads and writes all sixteen buckets whenever a cell of MapEmbed changes; here only what changes is written. Of \
         TEA's walks those that are given up, after 1000 records, are most of the slots, and few in so many insertions: their number is chance",
    ),
    ("round trips, insertion at the highest load, TEA", WALKS),
    ("us, insertion at the highest load, TEA", WALKS),
    ("us, insertion at the highest load, MapEmbed", FURTHER_VERBS),
    (
        "bits of index a key, MapEmbed",
        "13 cells of 4 bits for two buckets are 3.25 bits a slot; the paper's 4 is the end of a range",
    ),
    (
        "us",
        "how many keys there are is told to the table after every so many insertions and removals, in a round trip of its own: of so small a table \
         after every few",
    ),
];

/// Measures the table.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let outcomes = threads::in_order(SCHEMES.len(), |number| {
        let scheme = &SCHEMES[number];
        progress(scheme.name);
        let low = (LOW_LOAD, TASKS.map(Task::only).to_vec());
        let high = (scheme.high_load, vec![Task::only(TrialOperation::PutNew)]);
        let costs = (scheme.run)(
            &trial(scale, vec![low, high]),
            &TrialFabric::Simulated(Box::new(testbed())),
        )?;
        let filling = TableTrial {
            stands_for: TABLE_SLOTS,
            ..filling(scale, 8)
        };
        let full = (scheme.run)(&filling, &TrialFabric::Memory)?;
        Ok((costs, full))
    })?;
    let mut rows = Vec::new();
    for (scheme, (costs, full)) in SCHEMES.iter().zip(&outcomes) {
        let (name, published) = (scheme.name, TABLE_1[scheme.published]);
        let mut row = |label: &str, paper: Option<f64>, ours: f64| {
            rows.push(ReproRow::new(format!("{label}, {name}"), paper, ours));
        };
        row("load factor when full", Some(published.load), full.load);
        row(
            "bits of index a key",
            published.bits_per_key,
            full.bits_per_key,
        );
        let at = |stop: usize, task: usize| costs.spent(stop, task);
        let operations = [
            ("lookup", published.lookup, at(0, 1)),
            ("insertion at a load of 0.3", published.insert[0], at(0, 0)),
            (
                "insertion at the highest load",
                published.insert[1],
                at(1, 0),
            ),
            ("update", published.update, at(0, 2)),
            ("removal", published.remove, at(0, 3)),
        ];
        for (operation, took, spent) in operations {
            let first = rows.len();
            rows.extend(costs_of(operation, scheme, took, spent));
            if let (true, Some(walk), Some(alone)) = (
                name == "TEA" && operation.ends_with("highest load"),
                spent,
                at(0, 0),
            ) {
                let (round_trips, us) = one_record_after_the_other(&walk, &alone);
                rows[first + 1].model = Some(round_trips);
                rows[first + 2].model = Some(us);
            }
        }
    }
    let setup = format!(
        "Tables of {} slots, 8 a bucket; keys and values of 64 bytes; one client, one operation after the other, {} of each \
         kind, behind a simulated NIC with 3.2 us a round trip: the network's time, without the client's. The highest load is \
         0.9, for TEA 0.69. Slots are payload bytes by the bytes of a slot. RACE is as in the paper, its records in the slots; \
         out of band it is this project's. TEA is full with a stash of 4096 keys for 30 million slots, the published code's, with which \
         it has the paper's load factor; the 8192 of the paper's text would give it 0.72.{}",
        scale.slots,
        scale.lookups,
        reasons(&rows, &REASONS)
    );
    Ok(ReproReport {
        id: ID,
        setup,
        rows,
        plots: Vec::new(),
    })
}

fn costs_of(
    operation: &str,
    scheme: &ComparedDesign,
    took: Took,
    spent: Option<Spent>,
) -> Vec<ReproRow> {
    let Some(spent) = spent else {
        return Vec::new();
    };
    let cell = |label: &str| format!("{label}, {operation}, {}", scheme.name);
    vec![
        ReproRow::new(cell("slots accessed"), Some(took.items), spent.items).counted_by_its_code(),
        ReproRow::new(
            cell("round trips"),
            Some(took.round_trips),
            spent.round_trips,
        )
        .counted_by_its_code(),
        us_row(cell("us"), Some(took.us), &spent),
    ]
}
