//! Figure 13: the paper's YCSB workloads.

use super::{
    DROPPING, Job, KEYS_PER_SLOT, LOSSLESS, LOSSLESS_OF_FOUR, LocalDesign, TimedOperations,
    advantage, in_turns, on_empty, rows_of,
};
use crate::scale::{Reproduction, Scale};
use crate::ycsb::{SKEW, scatter};
use crate::{LabError, Progress, ReproReport, ReproRow, Result};
use farslot_bench::simulated::Zipf;
use farslot_local::LocalTable;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Two minutes. The paper's 10 million pairs: 2^24 slots, and so much longer.
const SCALE: Scale = Scale {
    slots: 1 << 18,
    tables: 3,
    lookups: 1_000_000,
    seed: 0,
};

/// 16 bytes.
type Key = [u64; 2];
/// 32 bytes.
type ValueWords = [u64; 4];

/// Bytes of a key and its value.
const RECORD: f64 = (size_of::<Key>() + size_of::<ValueWords>()) as f64;

/// Table 1 of the paper: the part of the operations that insert, and of those that update; the rest
/// look up.
const WORKLOADS: [(&str, f64, f64); 5] = [
    ("YCSB-1", 1.0, 0.0),
    ("YCSB-2", 0.75, 0.0),
    ("YCSB-3", 0.5, 0.0),
    ("YCSB-4", 0.25, 0.0),
    ("YCSB-5", 0.0, 0.05),
];

/// SmartCuckoo's rate divided by those of CHS, libcuckoo and BCHT, over YCSB-1 to YCSB-4: the least
/// and the most.
const BETWEEN: [[f64; 2]; 3] = [[1.25, 1.70], [1.25, 1.55], [1.10, 1.50]];
/// The same of YCSB-5, as far as the paper's text says it.
const WITHOUT_INSERTIONS: [Option<f64>; 3] = [Some(1.0), None, None];
/// Memory beside the records', of theirs: the paper says that it is in line for all four.
const OVERHEAD: f64 = 0.2;

/// YCSB.
pub(crate) const FIG13: Reproduction = Reproduction {
    id: "004-fig13",
    title: "paper 004, figure 13: operations/s of YCSB workloads",
    scale: SCALE,
    run,
};

/// An operation on the record of a number.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert(u32),
    Lookup(u32),
    Update(u32),
}

/// A workload: operations on records, after so many have been inserted without being timed.
struct Workload<'a> {
    keys: &'a [Key],
    operations: &'a [Operation],
    /// Whether all is inserted before the clock starts.
    is_loaded: bool,
    /// The operations end where this is reached, if they insert.
    occupancy: f64,
}

impl Job<Key, ValueWords> for Workload<'_> {
    /// The pace, and the memory beside the records, of theirs.
    type Output = (TimedOperations, f64);

    fn on(&self, mut table: impl LocalTable<Key, ValueWords>) -> (TimedOperations, f64) {
        let wanted = (table.slots() as f64 * self.occupancy) as usize;
        let value = |number: u32| [number.into(); 4];
        let mut placed = 0;
        if self.is_loaded {
            for (number, &key) in (0..).zip(self.keys) {
                if placed == wanted {
                    break;
                }
                placed += usize::from(matches!(table.insert(key, value(number)), Ok(None)));
            }
        }
        let pace = TimedOperations::of(|| {
            let mut done = 0;
            for &operation in self.operations {
                if !self.is_loaded && placed == wanted {
                    break;
                }
                done += 1;
                match operation {
                    Operation::Insert(number) => {
                        let placing = table.insert(self.keys[number as usize], value(number));
                        placed += usize::from(matches!(placing, Ok(None)));
                    }
                    Operation::Lookup(number) => {
                        std::hint::black_box(table.get(&self.keys[number as usize]));
                    }
                    Operation::Update(number) => {
                        // Of a key that was dropped it is one more attempt to insert it, as the
                        // paper says.
                        let _ = table.insert(self.keys[number as usize], value(!number));
                    }
                }
            }
            done
        });
        let bytes = table.slots() as f64 * (RECORD + table.overhead_per_slot());
        (pace, bytes / (table.len() as f64 * RECORD) - 1.0)
    }
}

/// What is done in one workload, to tables whose insertions need up to so many keys. Lookups and
/// updates are of records that were inserted before, popular ones more often.
fn operations(inserts: f64, updates: f64, keys: u32, scale: &Scale) -> Vec<Operation> {
    let mut random = ChaCha8Rng::seed_from_u64(scale.seed);
    let popularity = Zipf::new(keys, SKEW);
    let mut inserted = 0;
    let mut operations = Vec::new();
    let is_done = |operations: &Vec<Operation>, inserted| match inserts > 0.0 {
        true => inserted == keys,
        false => operations.len() == scale.lookups as usize,
    };
    while !is_done(&operations, inserted) {
        let drawn: f64 = random.random();
        if drawn < inserts {
            operations.push(Operation::Insert(inserted));
            inserted += 1;
            continue;
        }
        let known = if inserts > 0.0 { inserted } else { keys };
        if known == 0 {
            continue;
        }
        let rank = popularity.draw(&mut random);
        let number = (scatter(rank.into()) % u64::from(known)) as u32;
        operations.push(match drawn < inserts + updates {
            true => Operation::Update(number),
            false => Operation::Lookup(number),
        });
    }
    operations
}

fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let count = (scale.slots as f64 * KEYS_PER_SLOT) as u64;
    let count =
        u32::try_from(count).map_err(|_| LabError::bad("slots", scale.slots, "at most 2^31"))?;
    let mut random = ChaCha8Rng::seed_from_u64(scale.seed);
    let keys: Vec<Key> = (0..count)
        .map(|_| [random.next_u64(), random.next_u64()])
        .collect();
    let mut rows = Vec::new();
    for is_lossless in [false, true] {
        let at = match is_lossless {
            true => "nothing lost".to_owned(),
            false => format!("all up to {DROPPING}"),
        };
        let mut of_inserting = Vec::new();
        let mut overhead = [0.0; LocalDesign::ALL.len()];
        for (name, inserts, updates) in WORKLOADS {
            // Of the tables that are loaded before, lookups ask for what was inserted then.
            let known = match inserts > 0.0 {
                true => count,
                false => (scale.slots as f64 * LOSSLESS) as u32,
            };
            let operations = operations(inserts, updates, known, scale);
            let rounds = in_turns(scale, |design| {
                progress(&format!("{name}, {}", design.name()));
                let slots = scale.slots as usize;
                let (slots, occupancy) = match (is_lossless, design.is_one_slot()) {
                    (false, _) => (slots, DROPPING),
                    (true, true) => (slots, LOSSLESS),
                    (true, false) => (slots / 2, LOSSLESS_OF_FOUR),
                };
                let workload = Workload {
                    keys: &keys,
                    operations: &operations,
                    is_loaded: inserts == 0.0,
                    occupancy,
                };
                let (pace, beside) = on_empty(design, slots, &workload)?;
                overhead[design as usize] = beside;
                Ok(pace)
            })?;
            let paper = match inserts > 0.0 || is_lossless {
                true => [None; 3],
                false => WITHOUT_INSERTIONS,
            };
            rows.extend(rows_of(
                &format!("operations of {name}, {at}"),
                &rounds,
                paper,
            ));
            if inserts > 0.0 {
                of_inserting.push(rounds);
            }
        }
        for (over, range) in LocalDesign::OTHERS.into_iter().zip(BETWEEN) {
            let ratios = of_inserting.iter().map(|rounds| advantage(rounds, over));
            let least = ratios.clone().fold(f64::INFINITY, f64::min);
            let most = ratios.fold(0.0, f64::max);
            for (which, ours, paper) in [("least", least, range[0]), ("most", most, range[1])] {
                let paper = (!is_lossless).then_some(paper);
                let cell = format!(
                    "SmartCuckoo / {}, {which} of YCSB-1 to 4, {at}",
                    over.name()
                );
                rows.push(ReproRow::new(cell, paper, ours));
            }
        }
        for design in LocalDesign::ALL {
            let cell = format!(
                "memory beside the records, of theirs, {}, {at}",
                design.name()
            );
            let paper = (!is_lossless).then_some(OVERHEAD);
            rows.push(ReproRow::new(cell, paper, overhead[design as usize]));
        }
    }
    Ok(ReproReport {
        id: FIG13.id,
        setup: format!(
            "16-byte keys, 32-byte values, Zipf's distribution of skew {SKEW}; tables of {} slots without a stash, \
             medians over {} rounds of the processor's time for one thread. YCSB-1 to 4 fill an empty table, YCSB-5 \
             does {} operations on a full one. All up to {DROPPING}: insertions without a place are dropped, and so some \
             lookups find nothing; the paper's memory of a fifth beside the records is possible only so. Nothing lost: \
             {LOSSLESS} of the slots where a bucket is one slot, {LOSSLESS_OF_FOUR} of half as many where it is four. The \
             paper has 10 million pairs (ours: --slots 16777216), and the C++ libcuckoo.",
            scale.slots, scale.tables, scale.lookups
        ),
        rows,
        plots: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_mixed_as_the_table_says_and_of_known_records() {
        for (name, inserts, updates) in WORKLOADS {
            let mut scale = SCALE;
            scale.lookups = 20_000;
            let all = operations(inserts, updates, 10_000, &scale);
            let mut known = if inserts > 0.0 { 0 } else { 10_000 };
            let (mut inserted, mut updated) = (0, 0);
            for operation in &all {
                match *operation {
                    Operation::Insert(number) => {
                        assert_eq!(number, known);
                        known += 1;
                        inserted += 1;
                    }
                    Operation::Update(number) => {
                        assert!(number < known);
                        updated += 1;
                    }
                    Operation::Lookup(number) => assert!(number < known),
                }
            }
            let part = |count: u32| f64::from(count) / all.len() as f64;
            assert!((part(inserted) - inserts).abs() < 0.02, "{name}");
            assert!((part(updated) - updates).abs() < 0.01, "{name}");
        }
    }
}
