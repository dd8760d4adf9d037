//! How far a lookup has to look: the distribution of the distance to its terminating slot.

use crate::drops::{self, DropExtent, Drops, EulerPowers};
use crate::sum::CompensatedSum;
use crate::{HitPolicy, ModelError, TableLoad, Workload, mean};

/// Distances beyond this many slots are not tabulated one by one.
pub const MAX_TABULATED: usize = 1 << 20;

/// Full precision: what is left out sums to less than the rounding error of what is kept.
const EXACT: DropExtent = DropExtent {
    max_len: MAX_TABULATED,
    negligible: 1e-18,
};

/// The distribution of the distance from a key's home slot to the slot that ends its lookup.
///
/// The distance counts the slots *before* the terminating one: a lookup at distance d examines d +
/// 1 slots. It terminates at the first empty slot, or at the match where a hit may stop there. A
/// table without an empty slot is read whole, so its misses end at distance M - 1.
///
/// The survival function is tabulated up to where the rest no longer matters, or to
/// [`MAX_TABULATED`] slots. The few tables (load above about 0.99) with mass beyond that get an
/// exponential tail there, with the true remaining mass and the true mean.
///
/// Source: paper 000, section 3.3 for misses; the module `drops` derives hits.
#[derive(Debug, Clone)]
pub struct ProbeDistribution {
    /// P(distance >= k), for k = 0, 1, ...
    survival: Vec<f64>,
    tail: Option<Tail>,
    mean: f64,
}

/// P(distance >= end + x) = mass x exp(-x / scale), where `end` is the length of the tabulated
/// part.
#[derive(Debug, Clone, Copy)]
struct Tail {
    mass: f64,
    scale: f64,
}

impl ProbeDistribution {
    /// A miss: the distance from a random slot to the first empty one (Knuth; paper 000, Eqs. 6-9).
    pub fn miss(table: TableLoad) -> Self {
        Builder::exact().miss(table)
    }

    /// A hit that returns all matching records, and so reads on to the first empty slot.
    ///
    /// This is what paper 000 measures (section 4.2): a random *key's* home slot lies in longer
    /// clusters than a random slot does, so it is not the distribution of a miss.
    ///
    /// # Errors
    /// [`ModelError::NoKeys`] if the table is empty.
    pub fn hit_all_matches(table: TableLoad) -> Result<Self, ModelError> {
        Builder::exact().hit(table, HitPolicy::AllMatches)
    }

    /// A hit on a unique key that stops at its match: the displacement of a random key of the
    /// table.
    ///
    /// For a table filled by insertions alone, first come first served.
    ///
    /// # Errors
    /// [`ModelError::NoKeys`] if the table is empty.
    pub fn hit_stop_at_match(table: TableLoad) -> Result<Self, ModelError> {
        Builder::exact().hit(table, HitPolicy::StopAtMatch)
    }

    /// A lookup that hits with the workload's hit ratio.
    ///
    /// # Errors
    /// [`ModelError::NoKeys`] if the table is empty and the workload has hits.
    pub fn lookup(table: TableLoad, workload: Workload) -> Result<Self, ModelError> {
        Builder::exact().lookup(table, workload)
    }

    /// P(distance >= k): 1 at k = 0, falling.
    pub fn survival(&self, k: u64) -> f64 {
        let end = self.survival.len() as u64;
        if k < end {
            return self.survival[k as usize];
        }
        self.tail
            .map_or(0.0, |tail| tail.survival((k - end) as f64))
    }

    /// C_k of paper 000, Eq. 6: the probability that the first k slots contain the terminating one.
    pub fn found_within(&self, k: u64) -> f64 {
        1.0 - self.survival(k)
    }

    /// The mean distance, in slots; one less than the mean number of probes.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The survival function where it is tabulated, from distance 0.
    pub(crate) fn tabulated(&self) -> &[f64] {
        &self.survival
    }

    /// The sum of P(distance >= k) over k = first, first + step, ..., all beyond the tabulated
    /// part.
    pub(crate) fn tail_sum(&self, first: usize, step: usize) -> f64 {
        let offset = first.saturating_sub(self.survival.len()) as f64;
        self.tail.map_or(0.0, |tail| {
            tail.survival(offset) / -(-(step as f64) / tail.scale).exp_m1()
        })
    }

    /// From P(distance = k) for k = 0, 1, ..., as far as they are known. If they do not reach to
    /// the end of the distribution, the rest is a tail with what is left of the mass and of the
    /// mean.
    pub(crate) fn of_masses(mut masses: Vec<f64>, complete: bool, mean: f64) -> Self {
        let end = if complete {
            0.0
        } else {
            let mut left = CompensatedSum::starting_at(1.0);
            masses.iter().for_each(|mass| left.add(-mass));
            left.value().max(0.0)
        };
        let mut survival = CompensatedSum::starting_at(end);
        let mut total = CompensatedSum::default();
        for mass in masses.iter_mut().rev() {
            survival.add(*mass);
            *mass = survival.value().min(1.0);
            total.add(*mass);
        }
        let tabulated = total.value() - masses.first().copied().unwrap_or(0.0);
        Self {
            survival: masses,
            tail: Tail::new(end, mean - tabulated),
            mean: if complete { tabulated } else { mean },
        }
    }

    /// The mixture that takes `self` with probability `share`, and `other` otherwise.
    pub(crate) fn mixed(&self, share: f64, other: &Self) -> Self {
        let rest = 1.0 - share;
        let len = self.survival.len().max(other.survival.len()) as u64;
        let survival = (0..len)
            .map(|k| share * self.survival(k) + rest * other.survival(k))
            .collect();
        let mass = share * self.survival(len) + rest * other.survival(len);
        let sum = share * self.tail_sum(len as usize, 1) + rest * other.tail_sum(len as usize, 1);
        Self {
            survival,
            tail: Tail::new(mass, sum),
            mean: share * self.mean + rest * other.mean,
        }
    }
}

impl Tail {
    /// The tail with this survival probability at its start, and this sum over all its slots.
    fn new(mass: f64, sum: f64) -> Option<Self> {
        if mass <= 0.0 {
            return None;
        }
        // A sum of at least two slots' worth: rounding must not turn the tail into a wall.
        let drop = mass / sum.max(2.0 * mass);
        Some(Self {
            mass,
            scale: -1.0 / (-drop).ln_1p(),
        })
    }

    fn survival(self, offset: f64) -> f64 {
        self.mass * (-offset / self.scale).exp()
    }
}

/// Builds distributions to one precision, sharing what does not depend on the table.
pub(crate) struct Builder {
    extent: DropExtent,
    powers: EulerPowers,
}

impl Builder {
    pub(crate) fn exact() -> Self {
        Self::to_extent(EXACT)
    }

    pub(crate) fn to_extent(extent: DropExtent) -> Self {
        Self {
            extent,
            powers: EulerPowers::default(),
        }
    }

    pub(crate) fn set_extent(&mut self, extent: DropExtent) {
        self.extent = extent;
    }

    pub(crate) fn lookup(
        &mut self,
        table: TableLoad,
        workload: Workload,
    ) -> Result<ProbeDistribution, ModelError> {
        let share = workload.hit_ratio();
        if share == 0.0 {
            return Ok(self.miss(table));
        }
        let hit = self.hit(table, workload.hit_policy())?;
        if share == 1.0 {
            return Ok(hit);
        }
        Ok(hit.mixed(share, &self.miss(table)))
    }

    fn miss(&mut self, table: TableLoad) -> ProbeDistribution {
        let drops = drops::miss(table, self.extent, &mut self.powers);
        let first = match (table.empty(), table.slots()) {
            (0, 1) => 1.0,
            (empty, slots) => empty as f64 / slots as f64,
        };
        integrate(drops, first, || mean::miss(table))
    }

    fn hit(
        &mut self,
        table: TableLoad,
        policy: HitPolicy,
    ) -> Result<ProbeDistribution, ModelError> {
        if table.occupied() == 0 {
            return Err(ModelError::NoKeys);
        }
        Ok(match policy {
            HitPolicy::AllMatches => self.all_matches(table),
            HitPolicy::StopAtMatch => self.stop_at_match(table),
        })
    }

    fn all_matches(&mut self, table: TableLoad) -> ProbeDistribution {
        let drops = drops::all_matches(table, self.extent, &mut self.powers);
        // The home slot is occupied, so distance 0 happens only in a table that is one full slot.
        let first = if table.slots() == 1 { 1.0 } else { 0.0 };
        integrate(drops, first, || mean::all_matches(table))
    }

    fn stop_at_match(&mut self, table: TableLoad) -> ProbeDistribution {
        let drops = drops::stop_at_match(table, self.extent, &mut self.powers);
        // The k-th key finds its home slot empty with probability 1 - (k - 1) / M.
        let first = 1.0 - (table.occupied() - 1) as f64 / (2.0 * table.slots() as f64);
        integrate(drops, first, || mean::stop_at_match(table))
    }
}

/// From the drops of the probability mass to the survival function.
///
/// The sums run from the far end, over terms of one sign: the tail keeps its relative precision,
/// where 1 - C_k would cancel. `first` is P(distance = 0); `mean` is asked for only if the drops
/// do not reach to the end of the distribution.
fn integrate(drops: Drops, first: f64, mean: impl FnOnce() -> f64) -> ProbeDistribution {
    let Drops {
        mut values,
        complete,
    } = drops;
    let (end_mass, end_survival) = if complete {
        (0.0, 0.0)
    } else {
        beyond(&values, first)
    };
    let mut mass = CompensatedSum::starting_at(end_mass);
    let mut survival = CompensatedSum::starting_at(end_survival);
    let mut total = CompensatedSum::default();
    for value in values.iter_mut().rev() {
        mass.add(*value);
        // Hits have no mass at distance 0: rounding must not make it negative.
        survival.add(mass.value().max(0.0));
        *value = survival.value().min(1.0);
        total.add(*value);
    }
    // The survival function summed from k = 1 is the mean.
    let tabulated = total.value() - values.first().copied().unwrap_or(0.0);
    if complete {
        return ProbeDistribution {
            survival: values,
            tail: None,
            mean: tabulated,
        };
    }
    let mean = mean();
    ProbeDistribution {
        survival: values,
        tail: Tail::new(end_survival, mean - tabulated),
        mean,
    }
}

/// P(distance = K) and P(distance >= K) for K = the number of drops, from the near end.
fn beyond(drops: &[f64], first: f64) -> (f64, f64) {
    let mut mass = CompensatedSum::starting_at(first);
    let mut survival = CompensatedSum::starting_at(1.0);
    for drop in drops {
        survival.add(-mass.value());
        mass.add(-drop);
    }
    (mass.value().max(0.0), survival.value().max(0.0))
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
