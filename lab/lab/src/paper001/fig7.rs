//! Paper 001, figure 7: what CuckooDuo's parameters and parts do.

use super::common::{reasons, shape, single, split, trial};
use crate::paper001::designs::cost::FillingCost;
use crate::paper001::designs::ours::Ours;
use crate::paper001::designs::published::{
    BUCKET_SIZES, BUCKET_SLOTS, LOADS_BY_SIZE, STASH, testbed,
};
use crate::paper001::designs::schemes::SCHEMES;
use crate::paper001::designs::split::{Search, SlotPriority, SplitIndex, SplitShape};
use crate::paper001::designs::trial::{Task, TrialFabric, TrialOperation};
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::index::duo::placement::Shape;

pub(crate) const ID: &str = "001-fig7";

/// A minute. The published counts are of as many slots.
pub(crate) const SCALE: Scale = Scale {
    slots: 3_000_000,
    tables: 1,
    lookups: 4_000,
    seed: 0,
};

/// Slots of the table behind the simulated NIC, at most: latencies do not depend on them.
const SIMULATED_SLOTS: u64 = 1 << 17;

const STASHES: [u32; 5] = [0, 8, 16, 32, 64];
/// The published code's load factors by L, 8 slots a bucket: it moves one record fewer than L.
const LOADS_BY_PATH: [f64; 4] = [0.785, 0.935, 0.983, 0.994];
/// Tables with one fingerprint.
const SINGLE_TABLES: usize = 20;
/// The most slots of a depth-first walk.
const WALK: u32 = 50;

/// A table to be filled: its name, the paper's load factor, and how.
struct Table {
    name: String,
    paper: Option<f64>,
    placing: PlacementRule,
}

enum PlacementRule {
    Ours(Shape),
    Papers(SplitShape),
}

impl Table {
    fn fill(&self, seed: u64) -> FillingCost {
        match self.placing {
            PlacementRule::Ours(shape) => FillingCost::of(&mut Ours::new(shape), 2.0, 0.01, seed),
            PlacementRule::Papers(shape) => {
                FillingCost::of(&mut SplitIndex::new(shape), 2.0, 0.01, seed)
            }
        }
    }
}

/// All that are filled.
fn tables(slots: u64) -> Vec<Table> {
    let mut tables = Vec::new();
    let mut add = |name: String, paper: Option<f64>, placing: PlacementRule| {
        tables.push(Table {
            name,
            paper,
            placing,
        });
    };
    for (size, paper) in BUCKET_SIZES.into_iter().zip(LOADS_BY_SIZE) {
        add(
            format!("ours, d = {size}"),
            Some(paper),
            PlacementRule::Ours(shape(slots, size)),
        );
        let placing = PlacementRule::Papers(split(slots, size));
        add(
            format!("backup slots first, d = {size}"),
            Some(paper),
            placing,
        );
    }
    let papers = split(slots, BUCKET_SLOTS);
    let last = SplitShape {
        order: SlotPriority::PrimaryFirst,
        ..papers
    };
    add(
        "primary slots first, d = 8".into(),
        Some(0.945),
        PlacementRule::Papers(last),
    );
    for (moves, paper) in (0..).zip(LOADS_BY_PATH) {
        let search = Search::Breadth(moves);
        let placing = PlacementRule::Papers(SplitShape { search, ..papers });
        add(
            format!("backup slots first, L = {}", moves + 1),
            Some(paper),
            placing,
        );
        let placing = PlacementRule::Ours(Shape {
            longest_path: moves,
            ..shape(slots, BUCKET_SLOTS)
        });
        add(format!("ours, at most {moves} moves"), None, placing);
    }
    let walk = SplitShape {
        search: Search::Depth(WALK),
        collisions_aside: true,
        ..single(slots)
    };
    add(
        format!("depth first, {WALK}"),
        Some(0.813),
        PlacementRule::Papers(walk),
    );
    for stash in STASHES {
        let placing = PlacementRule::Ours(Shape {
            stash,
            ..shape(slots, BUCKET_SLOTS)
        });
        let paper = match stash {
            0 => Some(0.901),
            STASH => Some(0.971),
            _ => None,
        };
        add(format!("ours, s = {stash}"), paper, placing);
    }
    tables
}

/// How full tables with one fingerprint get: by theorem IV.1 until as many keys collide as the
/// stash holds. Those are few, so that it is the mean of several tables.
///
/// The key that is refused is the collision after those in the stash. They come at a rate that
/// grows with the load, so that the square of the load has the Gamma distribution of s + 1 of them,
/// and its root a mean of that of s + 3/4.
fn one_fingerprint(scale: &Scale) -> Result<ReproRow> {
    let loads = threads::in_order(SINGLE_TABLES, |number| {
        let (mut table, seed) = (
            SplitIndex::new(single(scale.slots)),
            scale.seed_of(number as u32),
        );
        Ok(FillingCost::of(&mut table, 2.0, 0.01, seed).load)
    })?;
    let (m, d) = (scale.slots as f64 / 16.0, f64::from(BUCKET_SLOTS));
    let full_at = |collisions: f64| (collisions * 65536.0 / (2.0 * m * d * d)).sqrt();
    Ok(ReproRow {
        model: Some(full_at(f64::from(STASH) + 0.75)),
        ..Mean::of(loads).row(
            "load factor when full, one fingerprint",
            Some(full_at(f64::from(STASH))),
        )
    })
}

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let tables = tables(scale.slots);
    let seed = scale.seed_of(0);
    let filled = threads::in_order(tables.len(), |number| {
        progress(&tables[number].name);
        Ok(tables[number].fill(seed))
    })?;
    let named = |name: &str| {
        let number = tables.iter().position(|table| table.name == name);
        &filled[number.expect("a table of the list")]
    };
    let mut rows = Vec::new();
    for (table, filled) in tables.iter().zip(&filled) {
        let cell = format!("load factor when full, {}", table.name);
        rows.push(ReproRow::new(cell, table.paper, filled.load));
    }
    progress("one fingerprint");
    rows.push(one_fingerprint(scale)?);
    rows.extend(moves(
        named("backup slots first, d = 8"),
        named("depth first, 50"),
        named("ours, d = 8"),
    ));
    let adjusted = named("ours, d = 8").until(1.0);
    let per_million = adjusted.mean(|cost| cost.adjusted) * 1e6;
    rows.push(ReproRow::new(
        "keys adjusted of a million, ours, d = 8",
        None,
        per_million,
    ));
    rows.extend(latencies(scale, progress)?);
    let line = |name: &str, of: &str| {
        let loads =
            BUCKET_SIZES.map(|size| (f64::from(size), named(&format!("{of}, d = {size}")).load));
        Line::ours(name, loads.to_vec())
    };
    let papers = BUCKET_SIZES.into_iter().zip(LOADS_BY_SIZE);
    let papers = papers.map(|(size, load)| (f64::from(size), load)).collect();
    let stashes =
        STASHES.map(|stash| (f64::from(stash), named(&format!("ours, s = {stash}")).load));
    let plots = vec![
        Plot {
            title: "Load factor when full by bucket size".into(),
            x: Axis::linear("slots of a bucket"),
            y: Axis::linear("load factor"),
            lines: vec![
                line("ours", "ours"),
                line("backup slots first", "backup slots first"),
                Line::paper("CuckooDuo", papers),
            ],
        },
        Plot {
            title: "Load factor when full by stash".into(),
            x: Axis::linear("slots of the stash"),
            y: Axis::linear("load factor"),
            lines: vec![Line::ours("ours", stashes.to_vec())],
        },
    ];
    let reasons = reasons(&rows, &REASONS);
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots, 8 a bucket, f = 16, s = 32, at most 3 moves where nothing else is said; counted. With \
             \"backup slots first\" as the published code places keys, which moves one record fewer than its L says. The figure for \
             one fingerprint, of 20 tables, is beside theorem IV.1 for this many slots, as the paper's 0.40 is for some 1.6 million. Latencies \
             are the network's, behind a simulated NIC with 3.2 us a round trip.{reasons}",
            scale.slots
        ),
        rows,
        plots,
    })
}

const REASONS: [(&str, &str); 4] = [
    (
        "records moved an insertion when full, ours",
        "ours is fuller in the end, where paths are longer; and it moves a record more",
    ),
    (
        "load factor when full, depth first",
        "the walk that the published code takes is repeated; how many walks fail before it stops is not known",
    ),
    (
        "us, insertion at 0.9",
        "most insertions here take one round trip at this load factor, where the paper's take two",
    ),
    (
        "load factor when full, one fingerprint",
        "the table is too small for the theorem, which is for collisions before it is full",
    ),
];

/// Insertions that are enough for a mean.
const ENOUGH: u64 = 100;

/// Figure 7(c): what the last insertions have moved.
fn moves(papers: &FillingCost, walk: &FillingCost, ours: &FillingCost) -> Vec<ReproRow> {
    let tables = [
        ("backup slots first", papers, Some(1.14)),
        ("depth first", walk, Some(5.52)),
        ("ours", ours, Some(1.14)),
    ];
    let row = |(name, filled, paper): (&str, &FillingCost, Option<f64>)| {
        // The last step of the load factor, which is cut short, or the one before.
        let mut steps = filled.bands.iter().rev();
        let enough = steps.find(|band| band.cost.insertions >= ENOUGH);
        let cost = enough.map_or_else(Default::default, |band| band.cost);
        let moved = cost.mean(|cost| cost.moved);
        ReproRow::new(
            format!("records moved an insertion when full, {name}"),
            paper,
            moved,
        )
        .counted_by_its_code()
    };
    tables.map(row).to_vec()
}

/// Figures 7(e) and 7(f): what the network takes.
fn latencies(scale: &Scale, progress: Progress<'_>) -> Result<Vec<ReproRow>> {
    progress("latencies");
    let stops = vec![
        (0.5, vec![Task::only(TrialOperation::PutNew)]),
        (
            0.9,
            vec![
                Task::only(TrialOperation::Get),
                Task::only(TrialOperation::PutNew),
            ],
        ),
    ];
    let small = Scale {
        slots: scale.slots.min(SIMULATED_SLOTS),
        ..*scale
    };
    let outcome = (SCHEMES[0].run)(
        &trial(&small, stops),
        &TrialFabric::Simulated(Box::new(testbed())),
    )?;
    let cells = [
        ("us, insertion at 0.5", 3.55, (0, 0)),
        ("us, lookup at 0.9", 3.29, (1, 0)),
        ("us, insertion at 0.9", 6.98, (1, 1)),
    ];
    let rows = cells.into_iter().filter_map(|(cell, paper, (stop, task))| {
        let spent = outcome.spent(stop, task)?;
        Some(ReproRow::new(cell, Some(paper), spent.latency_ns / 1e3))
    });
    Ok(rows.collect())
}
