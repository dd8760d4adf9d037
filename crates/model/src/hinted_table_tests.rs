use super::*;
use crate::read_table::cell_load;
use crate::{HitPolicy, NicModel, Objective, TableLoad};

const SLOTS: u64 = 1 << 27;
const NIC: NicModel = NicModel::connectx5_edr();

struct Setting {
    model: ReadSizeModel,
    workload: Workload,
    oblivious: Arc<ReadSizeTable>,
}

impl Setting {
    fn new(objective: Objective, workload: Workload) -> Self {
        let model = ReadSizeModel::new(8, objective, NIC)
            .and_then(|model| model.with_max_read_bytes(16 << 10))
            .unwrap();
        let oblivious = Arc::new(ReadSizeTable::new(&model, SLOTS, workload).unwrap());
        Self {
            model,
            workload,
            oblivious,
        }
    }

    fn all() -> Vec<Self> {
        let hits = Workload::new(0.9, HitPolicy::AllMatches).unwrap();
        let objectives = [Objective::Latency, Objective::Throughput];
        let pairs =
            objectives.map(|objective| [(objective, hits), (objective, Workload::misses())]);
        let settings = pairs.into_iter().flatten();
        settings
            .map(|(objective, workload)| Self::new(objective, workload))
            .collect()
    }

    fn hinted(&self) -> HintedReadSizes {
        HintedReadSizes::new(
            Arc::clone(&self.oblivious),
            self.model,
            SLOTS,
            self.workload,
        )
        .unwrap()
    }

    fn distances(&self, load: f64) -> ProbeDistribution {
        let table = TableLoad::from_load(SLOTS, load).unwrap();
        ProbeDistribution::lookup(table, self.workload).unwrap()
    }
}

/// The middle of a load's cell, where nothing is rounded.
fn rounded(load: f64) -> f64 {
    cell_load(cell_of(load))
}

#[test]
fn remembered_sizes_are_those_of_eq_10() {
    for setting in Setting::all() {
        let hinted = setting.hinted();
        for load in [0.25, 0.65, 0.9].map(rounded) {
            let distances = setting.distances(load);
            let oblivious = setting.oblivious.read_size(load) as u64;
            // Twice, and more of them than are remembered.
            for _ in 0..2 {
                for ahead in 1..oblivious.min(40) {
                    for len in (1..200).step_by(5) {
                        let hint = Hint::Ahead { ahead, len };
                        let exact = setting.model.choose_hinted(&distances, hint);
                        let read_size = hinted.read_size(load, hint);
                        let cost = setting.model.cost_hinted(&distances, hint, read_size);
                        // What was left of the distribution's far end may decide a tie.
                        assert!(cost.cost_ns <= exact.cost_ns * (1.0 + 1e-7), "{hint:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn inside_and_far_away_nothing_is_worked_out() {
    let setting = &Setting::all()[0];
    let hinted = setting.hinted();
    for load in [0.0, 0.5, 0.9, 1.0, f64::NAN] {
        let oblivious = setting.oblivious.read_size(load);
        for left in [1, 10, 100_000] {
            assert_eq!(
                hinted.read_size(load, Hint::Inside { left }) as u64,
                left + 1
            );
        }
        for ahead in [REACH * oblivious as u64, 1 << 40, u64::MAX] {
            let hint = Hint::Ahead { ahead, len: 300 };
            assert_eq!(hinted.read_size(load, hint), oblivious);
        }
    }
    assert!(hinted.cells.iter().all(|cell| cell.get().is_none()));
    // Too long to be remembered.
    let long = Hint::Ahead {
        ahead: 2,
        len: u64::MAX,
    };
    assert!((1..=2048).contains(&hinted.read_size(0.5, long)));
}

#[test]
fn a_bad_capacity_is_refused() {
    let setting = &Setting::all()[0];
    let new = |capacity| {
        let oblivious = Arc::clone(&setting.oblivious);
        HintedReadSizes::new(oblivious, setting.model, capacity, setting.workload)
    };
    assert_eq!(new(0).unwrap_err(), ModelError::NoSlots);
    assert!(matches!(
        new(u64::MAX),
        Err(ModelError::TooManySlots { .. })
    ));
    assert!(
        new(1)
            .unwrap()
            .read_size(0.9, Hint::Ahead { ahead: 1, len: 1 })
            >= 1
    );
}

/// A lookup that asks for a hint before each of its READs.
struct Walk<'a, F> {
    model: &'a ReadSizeModel,
    distances: &'a ProbeDistribution,
    len: u64,
    read_size: F,
}

impl<F: Fn(Hint) -> usize> Walk<'_, F> {
    /// The mean cost of a walk that begins `ahead` slots in front of the cluster.
    fn cost(&self, ahead: u64) -> f64 {
        let one = |slots: u64| self.model.cost_of_one(slots as usize);
        let survival = |k| self.distances.survival(k);
        let (mut cost, mut passed) = (0.0, 0);
        loop {
            let (ahead, len) = (ahead - passed, self.len);
            let slots = (self.read_size)(Hint::Ahead { ahead, len }) as u64;
            cost += survival(passed) * one(slots);
            if slots > ahead {
                // The rest of the cluster, if there is some, is one READ.
                let rest = (ahead + len + 1).saturating_sub(slots);
                let last = if rest > 0 { one(rest) } else { 0.0 };
                return cost + survival(passed + ahead) * last;
            }
            passed += slots;
            if survival(passed) < 1e-12 {
                return cost;
            }
        }
    }
}

/// Leaving far clusters to the READs that follow is as good as Eq. 10 for all of them on average,
/// and nowhere much worse.
#[test]
fn clusters_out_of_reach_may_wait() {
    let mut losses = vec![];
    for setting in Setting::all() {
        for load in [0.25, 0.5, 0.65, 0.8, 0.9].map(rounded) {
            let distances = setting.distances(load);
            let (model, hinted) = (&setting.model, setting.hinted());
            let reach = setting.oblivious.read_size(load) as u64;
            for len in [1, 5, 20, 100, 400] {
                let ours = Walk {
                    model,
                    distances: &distances,
                    len,
                    read_size: |hint| hinted.read_size(load, hint),
                };
                let eq_10 = Walk {
                    model,
                    distances: &distances,
                    len,
                    read_size: |hint| model.choose_hinted(&distances, hint).read_size,
                };
                let loss = |ahead| ours.cost(ahead) / eq_10.cost(ahead) - 1.0;
                losses.extend((REACH * reach..6 * reach).map(loss));
            }
        }
    }
    let worst = losses.iter().copied().fold(f64::MIN, f64::max);
    let best = losses.iter().copied().fold(f64::MAX, f64::min);
    let mean = losses.iter().sum::<f64>() / losses.len() as f64;
    println!("against Eq. 10 everywhere: {worst:+.4} to {best:+.4}, mean {mean:+.6}");
    assert!(worst < 0.04 && best < -0.08 && mean < 1e-4);
}
