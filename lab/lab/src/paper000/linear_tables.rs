//! Linear tables of paper 000's smallest records, at one load factor after the other.

use super::published;
use crate::scale::Scale;
use crate::{Progress, Result, threads};
use farslot::fabric::sim::NicProfile;
use farslot::index::linear::{KeyRule, ReadPolicy};
use farslot::layout::Scheme;
use farslot::model::{NicModel, Objective};
use farslot_bench::simulated::CLIENT_THREADS;
use farslot_bench::simulated::{
    Answer, Ask, Experiment, Filling, Measured, Records, RunLimit, SimulatedTable, WARM_UP,
};

/// Lookups that each client thread has under way where throughput is measured: enough for the NIC
/// of the table to be busy all the time.
pub(crate) const WIDTH: usize = 24;

/// A table at a load factor.
pub(crate) struct LinearAt<'t> {
    filling: &'t Filling,
    pub(crate) records: &'t Records,
    /// The number of the load factor.
    pub(crate) row: usize,
    lookups: u32,
    seed: u64,
}

/// Measures each of the scale's tables at each of these load factors, which rise. What the tables
/// gave: for each of them, what was measured at each load.
pub(crate) fn at_each_load<T: Send>(
    scale: &Scale,
    rule: KeyRule,
    loads: &[f64],
    progress: Progress<'_>,
    measure: impl Fn(&LinearAt<'_>) -> Result<T> + Sync,
) -> Result<Vec<Vec<T>>> {
    threads::in_order(scale.tables as usize, |number| {
        let seed = scale.seed_of(number as u32);
        let mut filling = Filling::new(published::layout(scale.slots, rule, seed)?)?;
        let mut measured = Vec::new();
        for (row, load) in loads.iter().enumerate() {
            let tables = scale.tables;
            progress(&format!(
                "linear table {} of {tables}, load {load:.2}",
                number + 1
            ));
            let records = published::distinct_records(seed, filling.records_at(*load));
            filling.fill_with(&records)?;
            measured.push(measure(&LinearAt {
                filling: &filling,
                records: &records,
                row,
                lookups: scale.lookups,
                seed,
            })?);
        }
        Ok(measured)
    })
}

impl LinearAt<'_> {
    /// Random hits by as many clients as keep the NIC busy. Where keys may have several records, a
    /// lookup returns all of them, as the paper's do; else it stops at the match.
    pub(crate) fn saturating(&self, policy: ReadPolicy) -> Result<Experiment> {
        let layout = self.filling.layout().clone();
        let answer = match layout.keys {
            KeyRule::Unique => Answer::Value,
            KeyRule::Multi => Answer::AllRecords,
        };
        Ok(Experiment {
            table: SimulatedTable::by_policy(Scheme::Linear(layout), policy),
            records: self.records.clone(),
            ask: Ask::Hits,
            answer,
            threads: CLIENT_THREADS,
            width: WIDTH,
            warm_up: WARM_UP,
            until: RunLimit::Lookups(self.lookups.into()),
            seed: self.seed,
        })
    }

    /// Runs an experiment in the table as it is now.
    pub(crate) fn run(&self, experiment: &Experiment, profile: NicProfile) -> Result<Measured> {
        Ok(experiment.run(self.filling.memory().world(self.seed, profile)?)?)
    }

    /// Random hits, with the paper's NIC.
    pub(crate) fn saturated(&self, policy: ReadPolicy) -> Result<Measured> {
        self.run(&self.saturating(policy)?, NicProfile::connectx5_edr())
    }
}

/// The model's choice of read size by the rate of a saturated NIC, for lookups of which this share
/// hits.
pub(crate) fn for_throughput(hit_ratio: f64) -> ReadPolicy {
    ReadPolicy::Modelled {
        nic: NicModel::connectx5_edr(),
        objective: Objective::Throughput,
        hit_ratio,
        capped: false,
    }
}
