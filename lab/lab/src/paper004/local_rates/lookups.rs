//! Figures 10 to 12: lookups a second of keys that are there and of ones that are not, of each
//! trace.

use super::{
    DROPPING, Job, KEYS_PER_SLOT, LOSSLESS, LOSSLESS_OF_FOUR, TimedOperations, in_turns, keys,
    on_empty, rows_of,
};
use crate::scale::{Reproduction, Scale};
use crate::{LabError, Progress, ReproReport, Result};
use farslot_local::{LocalTable, Words};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashSet;
use std::hash::Hash;

/// A minute. Lookups: the paper's.
const SCALE: Scale = Scale {
    slots: 1 << 19,
    tables: 3,
    lookups: 1_000_000,
    seed: 0,
};

/// One key of so many is never inserted.
const HELD_BACK: usize = 8;

/// SmartCuckoo's rate divided by those of CHS, libcuckoo and BCHT, for keys that are there and ones
/// that are not.
type LookupRatios = [[Option<f64>; 3]; 2];

/// RandomInteger.
pub(crate) const FIG10: Reproduction = Reproduction {
    id: "004-fig10",
    title: "paper 004, figure 10: lookups/s of random integers",
    scale: SCALE,
    run: |scale, progress| {
        let keys = keys::integers(keys_for(scale), scale.seed);
        let paper = [[Some(1.0), Some(1.30), Some(1.05)], [Some(1.0), None, None]];
        run(FIG10.id, "RandomInteger", keys, paper, scale, progress)
    },
};

/// MacOS, or fingerprints of other files.
pub(crate) const FIG11: Reproduction = Reproduction {
    id: "004-fig11",
    title: "paper 004, figure 11: lookups/s of fingerprints of files",
    scale: SCALE,
    run: |scale, progress| {
        let keys = keys::fingerprints(keys::LEAST, keys_for(scale), progress)?;
        let paper = [
            [None, Some(1.30), Some(1.06)],
            [None, Some(1.45), Some(1.10)],
        ];
        run(FIG11.id, keys::FINGERPRINTS, keys, paper, scale, progress)
    },
};

/// DocWords.
pub(crate) const FIG12: Reproduction = Reproduction {
    id: "004-fig12",
    title: "paper 004, figure 12: lookups/s of document-word pairs",
    scale: SCALE,
    run: |scale, progress| {
        let keys = keys::document_words(keys::LEAST, progress)?;
        let paper = [[None; 3]; 2];
        run(FIG12.id, keys::DOCUMENT_WORDS, keys, paper, scale, progress)
    },
};

/// Keys for a table of the scale, those that are held back included.
fn keys_for(scale: &Scale) -> usize {
    (scale.slots as f64 * KEYS_PER_SLOT) as usize * HELD_BACK / (HELD_BACK - 1) + HELD_BACK
}

/// Looks up keys that are there, and then keys that are not, in a table that was filled up to an
/// occupancy before.
struct Lookups<'a, K> {
    offered: &'a [K],
    absent: &'a [K],
    occupancy: f64,
    lookups: u32,
    seed: u64,
}

impl<K: Copy + Eq + Hash> Job<K, ()> for Lookups<'_, K> {
    /// The two paces, and how many answers were wrong.
    type Output = ([TimedOperations; 2], u64);

    fn on(&self, mut table: impl LocalTable<K, ()>) -> ([TimedOperations; 2], u64) {
        let wanted = (table.slots() as f64 * self.occupancy) as usize;
        let mut held = Vec::with_capacity(wanted);
        for &key in self.offered {
            if held.len() >= wanted {
                break;
            }
            if matches!(table.insert(key, ()), Ok(None)) {
                held.push(key);
            }
        }
        let mut wrong = 0;
        let paces = [(&held[..], true), (self.absent, false)].map(|(keys, is_there)| {
            let mut random = ChaCha8Rng::seed_from_u64(self.seed);
            let asked = (0..self.lookups).map(|_| keys[random.random_range(0..keys.len())]);
            let asked: Vec<K> = asked.collect();
            TimedOperations::of(|| {
                let answers = asked.iter().map(|key| table.get(key).is_some());
                wrong += answers.filter(|found| *found != is_there).count() as u64;
                asked.len() as u64
            })
        });
        (paces, wrong)
    }
}

fn run<K: Words + Eq + Hash>(
    id: &'static str,
    trace: &str,
    mut keys: Vec<K>,
    paper: LookupRatios,
    scale: &Scale,
    progress: Progress<'_>,
) -> Result<ReproReport> {
    // Random integers may repeat, and one that is held back must not have been inserted.
    let mut seen = HashSet::with_capacity(keys.len());
    keys.retain(|key| seen.insert(*key));
    let absent = keys.split_off(keys.len() - keys.len() / HELD_BACK);
    let slots = scale.slots.min((keys.len() as f64 / KEYS_PER_SLOT) as u64) as usize;
    let mut rows = Vec::new();
    for is_lossless in [false, true] {
        let rounds = in_turns(scale, |design| {
            progress(design.name());
            let (slots, occupancy) = match (is_lossless, design.is_one_slot()) {
                (false, _) => (slots, DROPPING),
                (true, true) => (slots, LOSSLESS),
                (true, false) => (slots / 2, LOSSLESS_OF_FOUR),
            };
            let lookups = Lookups {
                offered: &keys,
                absent: &absent,
                occupancy,
                lookups: scale.lookups,
                seed: scale.seed,
            };
            let (paces, wrong) = on_empty(design, slots, &lookups)?;
            match wrong {
                0 => Ok(paces),
                wrong => Err(LabError::wrong(wrong, 2 * u64::from(scale.lookups))),
            }
        })?;
        let [hits, misses] = [0, 1].map(|which| {
            rounds.each_ref().map(|paces| {
                paces
                    .iter()
                    .map(|pace| pace[which])
                    .collect::<Vec<TimedOperations>>()
            })
        });
        let [of_hits, of_misses] = if is_lossless { [[None; 3]; 2] } else { paper };
        let at = match is_lossless {
            true => "nothing lost".to_owned(),
            false => format!("all at {DROPPING}"),
        };
        rows.extend(rows_of(&format!("lookups that find, {at}"), &hits, of_hits));
        rows.extend(rows_of(
            &format!("lookups that find nothing, {at}"),
            &misses,
            of_misses,
        ));
    }
    Ok(ReproReport {
        id,
        setup: format!(
            "{trace}: {} lookups in tables of {slots} slots without a stash, medians over {} rounds of the processor's \
             time for one thread. All at {DROPPING}: keys without a place are dropped; the paper does not say at which \
             occupancy it looks up. Nothing lost: the same entries in all tables, {LOSSLESS} of the slots where a bucket \
             is one slot, {LOSSLESS_OF_FOUR} of half as many where it is four. Keys that are not there: one of {HELD_BACK} \
             of the trace's, never inserted. Libcuckoo-like: its design, in Rust; the paper ran the C++ library.",
            scale.lookups, scale.tables
        ),
        rows,
        plots: Vec::new(),
    })
}
