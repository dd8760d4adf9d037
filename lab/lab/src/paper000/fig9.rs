//! Paper 000, figure 9: how long one lookup takes, with nothing else under way on its queue pair.
//!
//! Our NIC's idle READ is the paper's c of Eq. 3, the latency of a 0-byte READ; its lookups take
//! more than twice as long. So there is a second set, in which one number is fitted: the idle READ
//! that gives variable linear probing at the lowest load the paper's 2.9 us. All else follows from
//! it.

use super::cuckoo_tables::{CuckooAt, PAPERS, no_place};
use super::linear_tables::{LinearAt, at_each_load};
use super::probing::papers_size;
use super::published::by_load;
use super::published::{FIXED, LOADS, Probing, UNCONSTRAINED, VARIABLE};
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::fabric::sim::NicProfile;
use farslot::index::cuckoo::LookupOrder;
use farslot::index::linear::KeyRule;
use farslot_bench::simulated::{Ask, Experiment, Measured};

pub(crate) const ID: &str = "000-fig9";

/// Half a minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 20,
    tables: 4,
    lookups: 20_000,
    seed: 0,
};

/// The paper's median latency of linear probing, in microseconds.
const LINEAR_US: f64 = 2.9;
/// That of parallel cuckoo hashing.
const CUCKOO_US: f64 = 4.7;

const LINEAR: [&Probing; 3] = [&FIXED, &VARIABLE, &UNCONSTRAINED];

/// The cuckoo lookups. The paper's sequential ones read all buckets (its algorithm 3), as ours do
/// where they find nothing.
const CUCKOO: [(&str, LookupOrder, Ask); 3] = [
    ("Parallel Cuckoo", LookupOrder::Parallel, Ask::Hits),
    ("Sequential Cuckoo", LookupOrder::Sequential, Ask::Misses),
    (
        "Sequential Cuckoo, stops at the match",
        LookupOrder::Sequential,
        Ask::Hits,
    ),
];

/// Half of the lookups take no longer; nine in ten.
const PERCENTILES: [(f64, &str); 2] = [(50.0, "median"), (90.0, "p90")];

/// Latencies in microseconds by way of probing and load factor, one for each of [`PERCENTILES`].
struct Set {
    curves: Vec<(&'static str, Vec<[Mean; 2]>)>,
}

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let profile = NicProfile::connectx5_edr();
    let fitted = fitted(scale, profile.clone(), progress)?;
    let idle_ns = fitted.read_latency_ns;
    let as_is = Set::measure(scale, &profile, progress)?;
    let fitted = Set::measure(scale, &fitted, progress)?;
    let mut rows = as_is.rows("");
    rows.push(ReproRow::new(
        "idle READ that was fitted, us",
        None,
        idle_ns / 1e3,
    ));
    rows.extend(fitted.rows(" (fitted)"));
    let plots = [(&as_is, "the NIC as it is"), (&fitted, "idle READ fitted")];
    let plots = plots.into_iter().flat_map(|(set, name)| set.plots(name));
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "{} linear tables of {} slots of 8 bytes, cuckoo tables of at most 2^18; hits by 28 client threads \
             with one lookup under way each, {} lookups a cell and table; the paper's read sizes. Two sets: with \
             the NIC's idle READ of {:.2} us, and with one of {:.2} us, fitted so that Variable Linear at load \
             0.25 has the paper's median.",
            scale.tables,
            scale.slots,
            scale.lookups,
            profile.read_latency_ns / 1e3,
            idle_ns / 1e3
        ),
        rows,
        plots: plots.collect(),
    })
}

/// The NIC with the one number fitted.
fn fitted(scale: &Scale, profile: NicProfile, progress: Progress<'_>) -> Result<NicProfile> {
    let one = Scale {
        tables: 1,
        ..*scale
    };
    let lowest = at_each_load(&one, KeyRule::Multi, &LOADS[..1], progress, |table| {
        table.run(&alone(table, &VARIABLE)?, profile.clone())
    })?;
    let missing = LINEAR_US * 1e3 - lowest[0][0].latency_ns(50.0);
    Ok(NicProfile {
        read_latency_ns: profile.read_latency_ns + missing,
        ..profile
    })
}

/// One lookup after the other.
fn alone(table: &LinearAt<'_>, probing: &Probing) -> Result<Experiment> {
    Ok(Experiment {
        width: 1,
        ..table.saturating(papers_size(probing, table))?
    })
}

fn latencies<'m>(tables: impl Iterator<Item = &'m Measured> + Clone) -> [Mean; 2] {
    PERCENTILES
        .map(|(percent, _)| Mean::of(tables.clone().map(|table| table.latency_ns(percent) / 1e3)))
}

impl Set {
    fn measure(scale: &Scale, profile: &NicProfile, progress: Progress<'_>) -> Result<Self> {
        let linear = at_each_load(scale, KeyRule::Multi, &LOADS, progress, |table| {
            let measure = |probing: &&Probing| table.run(&alone(table, probing)?, profile.clone());
            LINEAR.iter().map(measure).collect::<Result<Vec<_>>>()
        })?;
        let cuckoo = threads::in_order(LOADS.len(), |row| {
            let load = LOADS[row];
            progress(&format!("cuckoo table, load {load:.2}"));
            let table = CuckooAt::build(PAPERS, scale.slots, load, scale.seed_of(0))?;
            let table = table.ok_or_else(|| no_place(load))?;
            let measure = |(_, order, ask): &(&str, LookupOrder, Ask)| {
                let experiment = table.experiment(*order, ask.clone(), 1, scale.lookups);
                table.run(&experiment, profile.clone())
            };
            CUCKOO.iter().map(measure).collect::<Result<Vec<_>>>()
        })?;
        let rows = 0..LOADS.len();
        let of_cuckoo = CUCKOO.iter().enumerate().map(|(column, (name, ..))| {
            let at = |row: usize| latencies([&cuckoo[row][column]].into_iter());
            (*name, rows.clone().map(at).collect())
        });
        let of_linear = LINEAR.iter().enumerate().map(|(column, probing)| {
            let at = |row: usize| latencies(linear.iter().map(|table| &table[row][column]));
            (probing.name, rows.clone().map(at).collect())
        });
        Ok(Self {
            curves: of_cuckoo.chain(of_linear).collect(),
        })
    }

    fn curve(&self, name: &str) -> &[[Mean; 2]] {
        let found = self.curves.iter().find(|(known, _)| *known == name);
        &found.expect("a curve of that name was measured").1
    }

    fn rows(&self, set: &str) -> Vec<ReproRow> {
        let mut rows = Vec::new();
        for (name, curve) in &self.curves {
            for (load, latencies) in LOADS.into_iter().zip(curve) {
                for ((_, percentile), latency) in PERCENTILES.iter().zip(latencies) {
                    let cell = format!("{percentile} latency, us, {name}, load {load:.2}{set}");
                    rows.push(latency.row(cell, papers(name, load, percentile)));
                }
            }
        }
        let median = |name: &str| self.curve(name)[0][0].mean;
        let parallel = median("Parallel Cuckoo");
        let ratio = |cell: &str, paper: f64, ours: f64| {
            ReproRow::new(
                format!("{cell}, medians, load 0.25{set}"),
                Some(paper),
                ours,
            )
        };
        rows.extend([
            ratio(
                "Sequential / Parallel Cuckoo",
                1.7,
                median("Sequential Cuckoo") / parallel,
            ),
            ratio(
                "Sequential, stops at the match / Parallel Cuckoo",
                1.7,
                median("Sequential Cuckoo, stops at the match") / parallel,
            ),
            ratio(
                "Variable Linear / Parallel Cuckoo",
                LINEAR_US / CUCKOO_US,
                median(VARIABLE.name) / parallel,
            ),
        ]);
        rows
    }

    fn plots(&self, set: &str) -> Vec<Plot> {
        let plot = |(index, (_, percentile)): (usize, &(f64, &str))| Plot {
            title: format!("Latency of a lookup, {percentile}: {set}"),
            x: Axis::linear("load factor"),
            y: Axis::logarithmic("us"),
            lines: self
                .curves
                .iter()
                .map(|(name, curve)| Line::ours(*name, by_load(|row| curve[row][index].mean)))
                .collect(),
        };
        PERCENTILES.iter().enumerate().map(plot).collect()
    }
}

/// What the paper's text says, in microseconds.
fn papers(name: &str, load: f64, percentile: &str) -> Option<f64> {
    let is_linear = LINEAR.iter().any(|probing| probing.name == name);
    match (name, percentile) {
        (_, "median") if is_linear && load <= 0.8 => Some(LINEAR_US),
        ("Parallel Cuckoo", "median") if load <= 0.65 => Some(CUCKOO_US),
        ("Parallel Cuckoo", "p90") if load == 0.8 => Some(5.1),
        ("Fixed Linear", "p90") if load == 0.8 => Some(5.4),
        ("Variable Linear", "p90") if load == 0.8 => Some(6.2),
        _ => None,
    }
}
