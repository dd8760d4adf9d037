//! Results of paper 001's supplement: accesses and moves, the index's size, several operations
//! under way, limited bandwidth, and large tables.

use super::common::{
    LIMITED_SLOTS, OPERATIONS, as_published_of_map_embed, filling, reasons, shape, trial,
};
use crate::paper001::designs::cost::FillingCost;
use crate::paper001::designs::ours::Ours;
use crate::paper001::designs::published::{
    BUCKET_SLOTS, GAIN_OF_DOUBLED_THREADS, LIMITED_FIELD_BYTES, STASH, TABLE_1, bandwidth_limited,
    testbed,
};
use crate::paper001::designs::race::Race;
use crate::paper001::designs::schemes::{ComparedDesign, SCHEMES};
use crate::paper001::designs::trial::{
    Draw, Outcome, Spent, TableTrial, Task, TrialFabric, TrialOperation,
};
use crate::scale::Scale;
use crate::{Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "001-supplement";

/// Five minutes, and 1 GB of memory.
pub(crate) const SCALE: Scale = Scale {
    slots: 3_000_000,
    tables: 1,
    lookups: 20_000,
    seed: 0,
};

/// Slots of the tables behind the simulated NIC, at most: latencies do not depend on them.
const SIMULATED_SLOTS: u64 = 1 << 18;
/// How many times as many slots the tables have that are only counted: 30 million and 10^8 for the
/// scale above.
const COUNTED_TIMES: [u64; 2] = [10, 32];
/// The load factors of CuckooDuo and RACE with 30 million slots (section V-A; the published code).
const LARGE_LOADS: [[Option<f64>; 2]; 2] = [[Some(0.98), Some(0.91)], [None; 2]];
/// The paper's threads, each with one operation under way.
const THREADS: usize = 16;
/// Load factors of the throughputs: the paper's, and, where all designs are compared, what TEA can
/// have.
const LOAD: f64 = 0.7;
const COMMON_LOAD: f64 = 0.65;
/// Load factors of the throughputs where bandwidth is limited. TEA's highest is 0.68.
const LIMITED_LOADS: [f64; 4] = [0.1, 0.5, 0.68, 0.9];

/// Accesses an insertion, and records moved, at 0.9: CuckooDuo, MapEmbed.
const AT_HIGH_LOAD: [(f64, f64); 2] = [(3.0, 1.1), (27.0, 13.0)];
/// Bits of index a key by the bits of a fingerprint: the ends of the range.
const BITS_PER_KEY: [(u32, Option<f64>); 4] =
    [(10, Some(12.5)), (12, None), (14, None), (16, Some(16.9))];
/// Microseconds with 1G slots, in the order of the operations, by load factor.
const LARGE_US: [(f64, [f64; 4]); 2] = [
    (0.3, [4.09, 3.80, 6.96, 3.87]),
    (0.9, [8.01, 3.90, 6.79, 3.90]),
];
/// Microseconds that an operation on so large a table takes longer: what a lookup does.
const FAR_US: f64 = LARGE_US[0].1[1] - TABLE_1[0].lookup.us;
/// CuckooDuo's million operations/s of 16 threads at 0.7, in their order.
const RATES: [f64; 4] = [2.92, 3.31, 1.90, 3.25];
/// Million operations/s of 16 threads, one lookup to nine insertions: CuckooDuo, MapEmbed, RACE,
/// TEA.
const HYBRID: [f64; 4] = [3.25, 1.08, 1.64, 0.47];
/// The least and the most of what the others' throughputs are behind CuckooDuo's where bandwidth is
/// limited.
const LIMITED_RATIOS: [(&str, f64, f64); 3] = [
    ("insertion", 8.0, 25.0),
    ("lookup", 8.0, 32.0),
    ("update", 7.6, 30.0),
];

const REASONS: [(&str, &str); 12] = [
    (
        "bits of index",
        "with fingerprints as short as 10 bits the table is fuller here when it refuses its first key, so that there are \
         fewer bits for each",
    ),
    (
        "accesses an insertion at 0.9, MapEmbed",
        "the published code counts sixteen READs and sixteen moves for every cell that gets another number (the model's column); here the bucket that was \
         read is not read again, and only what moves is written",
    ),
    (
        "records moved an insertion at 0.9, CuckooDuo",
        "the paper's is that of its highest load; at 0.9 hardly an insertion here has to move anything",
    ),
    (
        "records moved an insertion at 0.9, MapEmbed",
        "the published code counts sixteen moves for every cell that gets another number, one for each of its buckets (the model's column); a cell has \
         1.6 keys, and those are what is counted here",
    ),
    (
        "us, insertion*0.90",
        "at a load of 0.9 most insertions take one round trip here, and the paper's two",
    ),
    (
        "us",
        "a lookup in the paper's table of 128 GiB takes 0.6 us longer than in its own of 30M slots, 3.80 for 3.2 us: probably the NIC's translations do not \
         reach so far; here they do. The 0.6 us is fitted on the lookup. An update takes 0.7 us longer and not 1.2, for its WRITE finds the translation of its READ: so with 0.6 us for each \
         operation they are the model's column",
    ),
    ("million", RATES_OF_THREADS),
    ("10 Gb/s: least ratio, update", SLOTS_EACH_WAY),
    ("10 Gb/s: most ratio, update", SLOTS_EACH_WAY),
    (
        "10 Gb/s: most ratio, insertion",
        "an insertion of CuckooDuo moves 1.4 slots at 0.9 here, and 6.7 in the paper; and one of MapEmbed or TEA that makes room keeps all others \
         waiting. By Table I's slots the most is what RACE reads for a key at a low load, 32 slots (the model's column)",
    ),
    ("10 Gb/s: most ratio, lookup", SLOTS_EACH_WAY),
    ("10 Gb/s: least ratio", SLOTS_EACH_WAY),
];

const RATES_OF_THREADS: &str = "sixteen operations of one client share its processor and its queue pair here, of sixteen READs at once, and those of MapEmbed and TEA \
     that make room have the others wait. The paper's threads have a processor and a queue pair each, and gain 1.6 to 1.8 times with each \
     doubling (section V-B). From one operation alone, as on the testbed (0.64 us for each verb of a batch beside the first), and 1.8 times for each of four \
     doublings they do what the model's column has, but that an update of CuckooDuo writes its record twice here. At which load factor the mixed operations are, which for MapEmbed and TEA decides, the paper does not say";

const SLOTS_EACH_WAY: &str = "READs and WRITEs go different ways, so that the ratio is that of the slots on the busier way: of a lookup and an update 8, 16 and 32 \
     for one (the model's column). An update here writes its record twice, one of them to the journal, which more than \
     halves its ratio; and the first and the last of so few operations do not fill the link";

/// Measures all of it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let mut rows = at_high_load(scale, progress)?;
    rows.extend(index_sizes(scale, progress)?);
    rows.extend(large(scale, progress)?);
    let simulated = Scale {
        slots: scale.slots.min(SIMULATED_SLOTS),
        ..*scale
    };
    rows.extend(latencies(&simulated, progress)?);
    rows.extend(rates(&simulated, progress)?);
    rows.extend(limited(&simulated, progress)?);
    let reasons = reasons(&rows, &REASONS);
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Counted in tables of {} slots with records of 16 bytes, and as placements alone in up to {}; times are behind a simulated NIC with 3.2 us \
             a round trip, in tables of {} slots with keys and values of 64 bytes, without the client's processor; {THREADS} operations of one client are \
             under way in place of the paper's {THREADS} threads. Where bandwidth is limited: 10 Gb/s, keys and values of 1 KiB, at most {LIMITED_SLOTS} slots. The paper's 1G slots would \
             be 10 GiB of hashes and fingerprints as a placement, and 136 GiB of records.{reasons}",
            scale.slots,
            COUNTED_TIMES[1] * scale.slots,
            simulated.slots
        ),
        rows,
        plots: Vec::new(),
    })
}

/// Accesses and moves of CuckooDuo and MapEmbed.
fn at_high_load(scale: &Scale, progress: Progress<'_>) -> Result<Vec<ReproRow>> {
    let spent = threads::in_order(AT_HIGH_LOAD.len(), |number| {
        let scheme = &SCHEMES[number];
        progress(scheme.name);
        let stops = vec![(scheme.high_load, vec![Task::only(TrialOperation::PutNew)])];
        let trial = TableTrial {
            field_bytes: 8,
            ..trial(scale, stops)
        };
        Ok((scheme.run)(&trial, &TrialFabric::Memory)?.spent(0, 0))
    })?;
    let mut rows = Vec::new();
    for ((scheme, spent), (accesses, moved)) in SCHEMES.iter().zip(spent).zip(AT_HIGH_LOAD) {
        let Some(spent) = spent else { continue };
        let model = (scheme.name == "MapEmbed").then(|| as_published_of_map_embed(&spent));
        for (label, paper, model, ours) in [
            (
                "accesses",
                accesses,
                model.map(|model| model[0]),
                spent.accesses,
            ),
            (
                "records moved",
                moved,
                model.map(|model| model[2]),
                spent.moved,
            ),
        ] {
            let cell = format!("{label} an insertion at 0.9, {}", scheme.name);
            rows.push(ReproRow {
                model,
                ..ReproRow::new(cell, Some(paper), ours)
            });
        }
    }
    Ok(rows)
}

/// Bits of the index for each key of a full table.
fn index_sizes(scale: &Scale, progress: Progress<'_>) -> Result<Vec<ReproRow>> {
    threads::in_order(BITS_PER_KEY.len(), |number| {
        let (bits, paper) = BITS_PER_KEY[number];
        progress(&format!("f = {bits}"));
        let trial = TableTrial {
            fingerprint_bits: bits,
            ..filling(scale, BUCKET_SLOTS)
        };
        let full = (SCHEMES[0].run)(&trial, &TrialFabric::Memory)?;
        let cell = format!("bits of index a key when full, f = {bits}");
        Ok(ReproRow::new(cell, paper, full.bits_per_key))
    })
}

/// Tables that are large for their records, as far as they can be counted.
fn large(scale: &Scale, progress: Progress<'_>) -> Result<Vec<ReproRow>> {
    let mut rows = Vec::new();
    for (times, papers) in COUNTED_TIMES.into_iter().zip(LARGE_LOADS) {
        let slots = times * scale.slots;
        progress(&format!("{slots} slots"));
        let seed = scale.seed_of(0);
        let ours = FillingCost::of(&mut Ours::new(shape(slots, BUCKET_SLOTS)), 2.0, 0.01, seed);
        let mut race = Race::new(slots, BUCKET_SLOTS as u8, STASH.into());
        let race = FillingCost::of(&mut race, 2.0, 0.01, seed);
        for (name, paper, filled) in [("CuckooDuo", papers[0], &ours), ("RACE", papers[1], &race)] {
            let cell = format!("load factor when full, {name}, {slots} slots");
            rows.push(ReproRow::new(cell, paper, filled.load));
        }
        let low = ours.until(LOAD).mean(|cost| cost.round_trips);
        let cell = format!("round trips an insertion below {LOAD}, CuckooDuo, {slots} slots");
        rows.push(ReproRow::new(cell, Some(1.0), low));
    }
    Ok(rows)
}

/// CuckooDuo's latencies.
fn latencies(scale: &Scale, progress: Progress<'_>) -> Result<Vec<ReproRow>> {
    progress("latencies");
    let tasks = || OPERATIONS.map(|(_, op)| Task::only(op)).to_vec();
    let stops = LARGE_US.map(|(load, _)| (load, tasks()));
    let outcome = (SCHEMES[0].run)(
        &trial(scale, stops.to_vec()),
        &TrialFabric::Simulated(Box::new(testbed())),
    )?;
    let mut rows = Vec::new();
    for (stop, (load, papers)) in LARGE_US.into_iter().enumerate() {
        for (task, ((operation, _), paper)) in OPERATIONS.into_iter().zip(papers).enumerate() {
            let Some(spent) = outcome.spent(stop, task) else {
                continue;
            };
            let cell = format!("us, {operation}, CuckooDuo, load {load:.2}");
            rows.push(ReproRow {
                // What it is fitted on shows nothing.
                model: (operation != "lookup").then(|| spent.us() + FAR_US),
                ..ReproRow::new(cell, Some(paper), spent.us())
            });
        }
    }
    Ok(rows)
}

/// Throughputs with several operations under way.
fn rates(scale: &Scale, progress: Progress<'_>) -> Result<Vec<ReproRow>> {
    let hybrid = Task {
        parts: vec![(TrialOperation::Get, 0.1), (TrialOperation::PutNew, 0.9)],
        draw: Draw::Uniform,
    };
    let outcomes = threads::in_order(SCHEMES.len(), |number| {
        let scheme = &SCHEMES[number];
        progress(scheme.name);
        let of_width = |width| {
            let common = (COMMON_LOAD, vec![hybrid.clone()]);
            let papers = (LOAD, OPERATIONS.map(|(_, op)| Task::only(op)).to_vec());
            let trial = TableTrial {
                width,
                ..trial(scale, vec![common, papers])
            };
            (scheme.run)(&trial, &TrialFabric::Simulated(Box::new(testbed())))
        };
        Ok((of_width(THREADS)?, of_width(1)?))
    })?;
    let mut rows = Vec::new();
    for (scheme, (together, alone)) in SCHEMES.iter().zip(&outcomes) {
        let mut row = |cell: String, paper: Option<f64>, (stop, task): (usize, usize)| {
            let spent = together.spent(stop, task);
            if let (Some(spent), Some(alone)) = (spent, alone.spent(stop, task)) {
                rows.push(ReproRow {
                    model: Some(of_threads(scheme, &alone)),
                    ..ReproRow::new(cell, paper, spent.per_second / 1e6)
                });
            }
        };
        let cell = format!(
            "million operations/s, one lookup to nine insertions, {}",
            scheme.name
        );
        row(cell, Some(HYBRID[scheme.published]), (0, 0));
        for (task, (operation, _)) in OPERATIONS.into_iter().enumerate() {
            let cell = format!("million/s, {operation} at {LOAD}, {}", scheme.name);
            let is_duo = scheme.published == 0;
            row(cell, is_duo.then_some(RATES[task]), (1, task));
        }
    }
    Ok(rows)
}

/// Million operations/s of the paper's threads, from what one operation takes alone.
fn of_threads(scheme: &ComparedDesign, alone: &Spent) -> f64 {
    let us = match scheme.has_published_verbs {
        true => alone.testbed_us(),
        false => alone.us(),
    };
    GAIN_OF_DOUBLED_THREADS.powf((THREADS as f64).log2()) / us
}

/// How much less the others do in a second where bandwidth is limited.
fn limited(scale: &Scale, progress: Progress<'_>) -> Result<Vec<ReproRow>> {
    let of_paper: Vec<&ComparedDesign> = SCHEMES
        .iter()
        .filter(|scheme| !scheme.name.contains("out of band"))
        .collect();
    let outcomes = threads::in_order(of_paper.len(), |number| {
        progress(&format!("{}, 10 Gb/s", of_paper[number].name));
        let tasks = || OPERATIONS[..LIMITED_RATIOS.len()].iter();
        let stops =
            LIMITED_LOADS.map(|load| (load, tasks().map(|(_, op)| Task::only(*op)).collect()));
        let trial = TableTrial {
            slots: scale.slots.min(LIMITED_SLOTS),
            field_bytes: LIMITED_FIELD_BYTES,
            operations: scale.lookups.min(200),
            width: THREADS,
            ..trial(scale, stops.to_vec())
        };
        (of_paper[number].run)(
            &trial,
            &TrialFabric::Simulated(Box::new(bandwidth_limited())),
        )
    })?;
    let mut rows = Vec::new();
    for (task, (operation, least, most)) in LIMITED_RATIOS.into_iter().enumerate() {
        let mut ratios = Vec::new();
        for (scheme, outcome) in of_paper.iter().zip(&outcomes).skip(1) {
            for (stop, load) in LIMITED_LOADS.into_iter().enumerate() {
                let rate = |of: &Outcome| of.spent(stop, task).map(|spent| spent.per_second);
                let (Some(theirs), Some(ours)) = (rate(outcome), rate(&outcomes[0])) else {
                    continue;
                };
                let cell = format!(
                    "10 Gb/s: {operation}/s of CuckooDuo / of {}, load {load:.2}",
                    scheme.name
                );
                rows.push(ReproRow::new(cell, None, ours / theirs));
                ratios.push(ours / theirs);
            }
        }
        // Slots that a lookup of MapEmbed and of RACE reads for one of CuckooDuo.
        let slots = [1, 2].map(|of| TABLE_1[of].lookup.items / TABLE_1[0].lookup.items);
        let ends = [
            (
                "least",
                least,
                slots[0],
                ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ),
            (
                "most",
                most,
                slots[1],
                ratios.iter().copied().fold(0.0, f64::max),
            ),
        ];
        for (end, paper, model, ours) in ends {
            let cell = format!("10 Gb/s: {end} ratio, {operation}");
            rows.push(ReproRow {
                model: Some(model),
                ..ReproRow::new(cell, Some(paper), ours)
            });
        }
    }
    Ok(rows)
}
