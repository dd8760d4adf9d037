//! Figures 7 to 9: insertions a second by occupancy, of each trace.

use super::{
    DROPPING, Job, KEYS_PER_SLOT, LOSSLESS, LOSSLESS_OF_FOUR, LocalDesign, TimedOperations,
    advantage, in_turns, keys, median, on_empty, rows_of,
};
use crate::scale::{Reproduction, Scale};
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result};
use farslot_local::{LocalTable, Words};
use std::hash::Hash;

/// Insertions up to each of these, since the one before, are timed together.
const OCCUPANCIES: [f64; 6] = [0.15, 0.3, LOSSLESS, 0.6, 0.75, DROPPING];
/// Where in them nothing has been dropped yet.
const LOSSLESS_STEPS: usize = 3;

/// A minute.
const SCALE: Scale = Scale {
    slots: 1 << 19,
    tables: 3,
    lookups: 1,
    seed: 0,
};

/// SmartCuckoo's rate divided by those of CHS, libcuckoo and BCHT, as the paper's text has them.
#[derive(Clone, Copy)]
enum InsertionRatios {
    /// The least and the most over the figure's occupancies.
    Between([[f64; 2]; 3]),
    /// At 0.9.
    AtEnd([f64; 3]),
}

/// RandomInteger.
pub(crate) const FIG7: Reproduction = Reproduction {
    id: "004-fig7",
    title: "paper 004, figure 7: insertions/s of random integers",
    scale: SCALE,
    run: |scale, progress| {
        let offered = (scale.slots as f64 * KEYS_PER_SLOT) as usize;
        let keys = keys::integers(offered, scale.seed);
        let paper = InsertionRatios::Between([[1.25, 1.75], [1.65, 1.75], [1.40, 1.50]]);
        run(FIG7.id, "RandomInteger", &keys, paper, scale, progress)
    },
};

/// MacOS, or fingerprints of other files.
pub(crate) const FIG8: Reproduction = Reproduction {
    id: "004-fig8",
    title: "paper 004, figure 8: insertions/s of fingerprints of files",
    scale: SCALE,
    run: |scale, progress| {
        let most = (scale.slots as f64 * KEYS_PER_SLOT) as usize;
        let keys = keys::fingerprints(keys::LEAST, most, progress)?;
        let paper = InsertionRatios::AtEnd([1.90, 1.75, 1.25]);
        run(FIG8.id, keys::FINGERPRINTS, &keys, paper, scale, progress)
    },
};

/// DocWords.
pub(crate) const FIG9: Reproduction = Reproduction {
    id: "004-fig9",
    title: "paper 004, figure 9: insertions/s of document-word pairs",
    scale: SCALE,
    run: |scale, progress| {
        let keys = keys::document_words(keys::LEAST, progress)?;
        let paper = InsertionRatios::Between([[1.33, 1.77], [1.60, 1.75], [1.35, 1.44]]);
        run(FIG9.id, keys::DOCUMENT_WORDS, &keys, paper, scale, progress)
    },
};

/// Inserts the keys, those without a place dropped, until each of [`OCCUPANCIES`] is reached.
struct OccupancyFilling<'a, K> {
    keys: &'a [K],
}

impl<K: Copy> Job<K, ()> for OccupancyFilling<'_, K> {
    type Output = Vec<TimedOperations>;

    fn on(&self, mut table: impl LocalTable<K, ()>) -> Vec<TimedOperations> {
        let slots = table.slots() as f64;
        let mut keys = self.keys.iter();
        let mut placed = 0;
        let steps = OCCUPANCIES.map(|occupancy| {
            let wanted = (slots * occupancy) as u64;
            TimedOperations::of(|| {
                let mut offered = 0;
                while placed < wanted {
                    let Some(&key) = keys.next() else { break };
                    offered += 1;
                    placed += u64::from(matches!(table.insert(key, ()), Ok(None)));
                }
                offered
            })
        });
        steps.into()
    }
}

fn run<K: Words + Eq + Hash>(
    id: &'static str,
    trace: &str,
    keys: &[K],
    paper: InsertionRatios,
    scale: &Scale,
    progress: Progress<'_>,
) -> Result<ReproReport> {
    let slots = scale.slots.min((keys.len() as f64 / KEYS_PER_SLOT) as u64) as usize;
    let filled = in_turns(scale, |design| {
        progress(design.name());
        on_empty(design, slots, &OccupancyFilling { keys })
    })?;
    // By step, then by design and round.
    let steps = std::array::from_fn::<_, { OCCUPANCIES.len() }, _>(|step| {
        LocalDesign::ALL.map(|design| {
            let rounds = filled[design as usize].iter();
            rounds
                .map(|paces| paces[step])
                .collect::<Vec<TimedOperations>>()
        })
    });
    let lossless = LocalDesign::ALL.map(|design| {
        let rounds = filled[design as usize].iter();
        let steps = match design.is_one_slot() {
            true => LOSSLESS_STEPS,
            false => OCCUPANCIES.len(),
        };
        let whole = |paces: &Vec<TimedOperations>| {
            let paces = paces[..steps].iter();
            paces.fold(TimedOperations::default(), |sum, pace| sum.and(*pace))
        };
        rounds.map(whole).collect::<Vec<TimedOperations>>()
    });
    let mut rows = Vec::new();
    for (step, occupancy) in OCCUPANCIES.into_iter().enumerate() {
        let at_end = match paper {
            InsertionRatios::AtEnd(ratios) if step + 1 == OCCUPANCIES.len() => ratios.map(Some),
            _ => [None; 3],
        };
        let label = format!("insertions up to {occupancy}");
        rows.extend(rows_of(&label, &steps[step], at_end));
    }
    if let InsertionRatios::Between(ranges) = paper {
        for (over, range) in LocalDesign::OTHERS.into_iter().zip(ranges) {
            let ratios = steps.each_ref().map(|paces| advantage(paces, over));
            let least = ratios.into_iter().fold(f64::INFINITY, f64::min);
            let most = ratios.into_iter().fold(0.0, f64::max);
            for (which, ours, paper) in [("least", least, range[0]), ("most", most, range[1])] {
                let cell = format!("SmartCuckoo / {}, {which} over occupancies", over.name());
                rows.push(ReproRow::new(cell, Some(paper), ours));
            }
        }
    }
    rows.extend(rows_of("insertions, nothing lost", &lossless, [None; 3]));
    let lines = LocalDesign::ALL.map(|design| {
        let points = OCCUPANCIES
            .into_iter()
            .zip(&steps)
            .map(|(occupancy, paces)| {
                let rounds = paces[design as usize].iter();
                (occupancy, median(rounds.map(|pace| pace.millions())))
            });
        Line::ours(design.name(), points.collect())
    });
    Ok(ReproReport {
        id,
        setup: format!(
            "{trace}, into tables of {slots} slots without a stash, insertions without a place dropped, as the paper \
             must have done: one-slot buckets hold half of their slots. Each row is of the insertions since the \
             occupancy of the row before; medians over {} rounds of the processor's time for one thread. Nothing lost: \
             all insertions up to {LOSSLESS} where a bucket is one slot, up to {LOSSLESS_OF_FOUR} where it is four. CHS \
             and BCHT give a walk up after 500 kick-outs and undo it, which the paper does not say of its own: so the \
             ratio at high occupancies is not its. Libcuckoo-like: its design, in Rust; the paper ran the C++ library.",
            scale.tables
        ),
        rows,
        plots: vec![Plot {
            title: "insertions by occupancy".into(),
            x: Axis::linear("occupancy"),
            y: Axis::logarithmic("million insertions/s"),
            lines: lines.into(),
        }],
    })
}
