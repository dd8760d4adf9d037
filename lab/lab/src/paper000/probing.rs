//! What figures 7 and 8 of paper 000 show: lookups in linear and cuckoo tables by load factor.

use super::cuckoo_tables::{CuckooAt, PAPERS, no_place};
use super::linear_tables::{LinearAt, WIDTH, at_each_load, for_throughput};
use super::published::by_load;
use super::published::{FIXED, LOADS, Probing, UNCONSTRAINED, VARIABLE};
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Line, Progress, Result, threads};
use farslot::fabric::sim::NicProfile;
use farslot::index::cuckoo::LookupOrder;
use farslot::index::linear::{KeyRule, ReadPolicy};
use farslot_bench::simulated::{Ask, Measured};

/// Three quarters of a minute of one core.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 20,
    tables: 4,
    lookups: 100_000,
    seed: 0,
};

/// Lookups of one kind at each of [`LOADS`].
pub(crate) struct LookupCurve {
    pub(crate) name: &'static str,
    /// By load factor: what each table gave.
    at: Vec<Vec<Measured>>,
}

impl LookupCurve {
    /// The mean over the tables at one of [`LOADS`].
    pub(crate) fn mean(&self, row: usize, of: impl Fn(&Measured) -> f64) -> Mean {
        Mean::of(self.at[row].iter().map(of))
    }

    /// The line of such means.
    pub(crate) fn line(&self, of: impl Fn(&Measured) -> f64 + Copy) -> Line {
        Line::ours(self.name, by_load(|row| self.mean(row, of).mean))
    }
}

/// The curves of all tables.
pub(crate) struct ProbingCurves {
    pub(crate) cuckoo: LookupCurve,
    pub(crate) fixed: LookupCurve,
    pub(crate) variable: LookupCurve,
    pub(crate) unconstrained: LookupCurve,
    /// Returning all matches too, with read sizes for the rate of a saturated NIC.
    pub(crate) throughput: LookupCurve,
    /// Of unique keys: a lookup ends at the match.
    pub(crate) stop_at_match: LookupCurve,
}

impl ProbingCurves {
    pub(crate) fn measure(scale: &Scale, progress: Progress<'_>) -> Result<Self> {
        let papers = [&FIXED, &VARIABLE, &UNCONSTRAINED];
        let multi = at_each_load(scale, KeyRule::Multi, &LOADS, progress, |table| {
            let mut measured = Vec::new();
            for probing in papers {
                measured.push(table.saturated(papers_size(probing, table))?);
            }
            measured.push(table.saturated(for_throughput(1.0))?);
            Ok(measured)
        })?;
        let unique = at_each_load(scale, KeyRule::Unique, &LOADS, progress, |table| {
            Ok(vec![table.saturated(for_throughput(1.0))?])
        })?;
        let curve = |name, tables: &[Vec<Vec<Measured>>], column: usize| LookupCurve {
            name,
            at: (0..LOADS.len())
                .map(|row| tables.iter().map(|at| at[row][column].clone()).collect())
                .collect(),
        };
        Ok(Self {
            cuckoo: cuckoo(scale, progress)?,
            fixed: curve(FIXED.name, &multi, 0),
            variable: curve(VARIABLE.name, &multi, 1),
            unconstrained: curve(UNCONSTRAINED.name, &multi, 2),
            throughput: curve("Throughput objective (ours)", &multi, 3),
            stop_at_match: curve("Unique keys, stop at match (ours)", &unique, 0),
        })
    }

    /// All of them, the paper's first.
    pub(crate) fn all(&self) -> [&LookupCurve; 6] {
        [
            &self.cuckoo,
            &self.fixed,
            &self.variable,
            &self.unconstrained,
            &self.throughput,
            &self.stop_at_match,
        ]
    }
}

/// The paper's read size for a table's load.
pub(crate) fn papers_size(probing: &Probing, table: &LinearAt<'_>) -> ReadPolicy {
    ReadPolicy::Fixed(probing.read_sizes[table.row])
}

/// Parallel lookups in 3-way tables with 4 slots a bucket.
fn cuckoo(scale: &Scale, progress: Progress<'_>) -> Result<LookupCurve> {
    let at = threads::in_order(LOADS.len(), |row| {
        let load = LOADS[row];
        progress(&format!("cuckoo table, load {load:.2}"));
        let table = CuckooAt::build(PAPERS, scale.slots, load, scale.seed_of(0))?;
        let table = table.ok_or_else(|| no_place(load))?;
        let parallel = LookupOrder::Parallel;
        let experiment = table.experiment(parallel, Ask::Hits, WIDTH, scale.lookups);
        Ok(vec![table.run(&experiment, NicProfile::connectx5_edr())?])
    })?;
    Ok(LookupCurve { name: "Cuckoo", at })
}

/// How these were measured.
pub(crate) fn setup(scale: &Scale) -> String {
    format!(
        "{} linear tables of {} slots of 8 bytes, cuckoo tables of at most 2^18; XXH3; hits by 28 client \
         threads with {WIDTH} lookups under way each, {} lookups a cell and table. The paper's lines return \
         all matches, with the paper's read sizes.",
        scale.tables, scale.slots, scale.lookups
    )
}
