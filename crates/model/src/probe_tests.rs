//! The distributions against counting, against simulation, and against their limits.

use super::*;

const POLICIES: [HitPolicy; 2] = [HitPolicy::AllMatches, HitPolicy::StopAtMatch];

/// A linear-probing table, as plainly as it can be written.
struct Probed {
    home_of: Vec<Option<usize>>,
}

impl Probed {
    fn filled(slots: usize, homes: &[usize]) -> Self {
        let mut table = Self {
            home_of: vec![None; slots],
        };
        for &home in homes {
            let free = table.to_empty(home).expect("fewer keys than slots");
            table.home_of[(home + free) % slots] = Some(home);
        }
        table
    }

    fn to_empty(&self, from: usize) -> Option<usize> {
        let slots = self.home_of.len();
        (0..slots).find(|&d| self.home_of[(from + d) % slots].is_none())
    }

    fn distances(&self, kind: Option<HitPolicy>) -> Vec<usize> {
        let slots = self.home_of.len();
        let or_all = |distance: Option<usize>| distance.unwrap_or(slots - 1);
        let keys = self.home_of.iter().enumerate();
        let keys = keys.filter_map(|(at, home)| home.map(|home| (at, home)));
        match kind {
            None => (0..slots).map(|from| or_all(self.to_empty(from))).collect(),
            Some(HitPolicy::AllMatches) => {
                keys.map(|(_, home)| or_all(self.to_empty(home))).collect()
            }
            Some(HitPolicy::StopAtMatch) => {
                keys.map(|(at, home)| (at + slots - home) % slots).collect()
            }
        }
    }
}

fn distribution(table: TableLoad, kind: Option<HitPolicy>) -> ProbeDistribution {
    match kind {
        None => ProbeDistribution::miss(table),
        Some(HitPolicy::AllMatches) => ProbeDistribution::hit_all_matches(table).unwrap(),
        Some(HitPolicy::StopAtMatch) => ProbeDistribution::hit_stop_at_match(table).unwrap(),
    }
}

fn kinds() -> impl Iterator<Item = Option<HitPolicy>> {
    [None].into_iter().chain(POLICIES.map(Some))
}

/// P(distance >= k) over all M^N ways to hash N keys into M slots.
fn counted(slots: usize, keys: usize, kind: Option<HitPolicy>) -> Vec<f64> {
    let mut at_least = vec![0u64; slots];
    let mut lookups = 0;
    for code in 0..slots.pow(keys as u32) {
        let homes: Vec<_> = (0..keys as u32)
            .map(|key| code / slots.pow(key) % slots)
            .collect();
        for distance in Probed::filled(slots, &homes).distances(kind) {
            lookups += 1;
            for count in &mut at_least[..=distance] {
                *count += 1;
            }
        }
    }
    at_least
        .iter()
        .map(|&count| count as f64 / f64::from(lookups))
        .collect()
}

#[test]
fn tiny_tables_match_a_count_of_all_of_them() {
    for slots in 1..=6u64 {
        for keys in 0..=slots {
            let table = TableLoad::new(slots, keys).unwrap();
            for kind in kinds().filter(|kind| kind.is_none() || keys > 0) {
                let expected = counted(slots as usize, keys as usize, kind);
                let computed = distribution(table, kind);
                for (k, expected) in expected.iter().enumerate() {
                    let survival = computed.survival(k as u64);
                    assert!(
                        (survival - expected).abs() < 1e-13,
                        "{table:?} {kind:?} at {k}: {survival}, counted {expected}"
                    );
                }
                assert!(computed.survival(slots).abs() < 1e-13);
                let mean: f64 = expected[1..].iter().sum();
                assert!((computed.mean() - mean).abs() < 1e-12);
            }
        }
    }
}

/// A fixed xorshift64 sequence.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize * bound) >> 32
    }
}

#[test]
fn simulated_tables_take_as_many_reads() {
    let (slots, read_size) = (1024, 8);
    let mut random = Xorshift(0x9E37_79B9_7F4A_7C15);
    for keys in [256, 666, 870, 973, 1020] {
        let table = TableLoad::new(slots as u64, keys as u64).unwrap();
        let mut reads = [0usize; 3];
        let mut lookups = [0usize; 3];
        for _ in 0..600 {
            let homes: Vec<_> = (0..keys).map(|_| random.below(slots)).collect();
            let filled = Probed::filled(slots, &homes);
            for (index, kind) in kinds().enumerate() {
                let distances = filled.distances(kind);
                lookups[index] += distances.len();
                reads[index] += distances.iter().map(|d| d / read_size + 1).sum::<usize>();
            }
        }
        for (index, kind) in kinds().enumerate() {
            let simulated = reads[index] as f64 / lookups[index] as f64;
            let expected = distribution(table, kind).expected_reads(read_size);
            assert!(
                (simulated / expected - 1.0).abs() < 0.02,
                "{kind:?}, {keys} keys: simulated {simulated}, expected {expected}"
            );
        }
    }
}

/// Borel's probabilities e^(-an) (an)^(n-1) / n! for n = 1, 2, ...: cluster sizes of a large table.
fn borel(load: f64, len: usize) -> Vec<f64> {
    let mut log_factorial = 0.0;
    (1..=len)
        .map(|n| {
            let n = n as f64;
            log_factorial += n.ln();
            (-load * n + (n - 1.0) * (load * n).ln() - log_factorial).exp()
        })
        .collect()
}

fn tails(values: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let mut tails: Vec<_> = values
        .iter()
        .rev()
        .map(|value| {
            sum += value;
            sum
        })
        .collect();
    tails.reverse();
    tails
}

#[test]
fn huge_tables_have_the_poisson_limit() {
    // How far a table of 2^40 slots is from an infinite one, relatively, at distance k.
    let finite = |k: usize| 1e-10 + 4.0 * (k * k) as f64 / MAX as f64;
    for load in [0.05, 0.5, 0.8, 0.9] {
        let table = TableLoad::from_load(MAX, load).unwrap();
        let borel = borel(load, 40_000);
        let empty = 1.0 - load;
        // A run of k between two empty slots; then the same, averaged over the load from 0.
        let runs: Vec<_> = borel.iter().map(|b| empty * b).collect();
        let averaged: Vec<_> = borel
            .iter()
            .enumerate()
            .map(|(k, b)| b / (k + 1) as f64)
            .collect();
        // All matches: a miss's distance, the key's own slot, and a run behind it.
        let mass = tails(&runs);
        for k in [1, 2, 3, 10, 100, 400] {
            let all: f64 = (0..k).map(|d| mass[d] * borel[k - 1 - d]).sum();
            let computed = ProbeDistribution::hit_all_matches(table).unwrap();
            let p = computed.survival(k as u64) - computed.survival(k as u64 + 1);
            assert!(
                (p - all).abs() < finite(k) * all + 1e-15,
                "{load} {k}: {p} {all}"
            );
        }
        for (limit, kind) in [(runs, None), (averaged, Some(HitPolicy::StopAtMatch))] {
            let survival = tails(&tails(&limit));
            let computed = distribution(table, kind);
            for k in [0, 1, 5, 30, 200, 1000] {
                let difference = (computed.survival(k as u64) - survival[k]).abs();
                assert!(
                    difference < finite(k) * survival[k] + 1e-15,
                    "{load} {k} {difference}"
                );
            }
        }
    }
}

const MAX: u64 = crate::MAX_SLOTS;

#[test]
fn the_survival_function_is_one_and_falls_and_has_knuths_mean() {
    for slots in [100, 4096, 1 << 27, MAX] {
        let loads = [0.02, 0.3, 0.6, 0.9, 0.97, 0.99, 0.999, 1.0 - 1e-6];
        let loads = loads.map(|load| TableLoad::from_load(slots, load).unwrap());
        let nearly_full = [2, 1, 0].map(|empty| TableLoad::new(slots, slots - empty).unwrap());
        for table in loads.into_iter().chain(nearly_full) {
            for kind in kinds() {
                let computed = distribution(table, kind);
                assert!(
                    (computed.survival(0) - 1.0).abs() < 1e-10,
                    "{table:?} {kind:?}"
                );
                let tabulated = computed.tabulated();
                assert!(tabulated.is_sorted_by(|a, b| a >= b), "{table:?} {kind:?}");
                let mean = match kind {
                    None => mean::miss(table),
                    Some(HitPolicy::AllMatches) => mean::all_matches(table),
                    Some(HitPolicy::StopAtMatch) => mean::stop_at_match(table),
                };
                let summed =
                    tabulated[1..].iter().sum::<f64>() + computed.tail_sum(tabulated.len(), 1);
                assert!(
                    (summed - mean).abs() < 1e-9 * mean,
                    "{table:?} {kind:?}: {summed} {mean}"
                );
            }
        }
    }
}

#[test]
fn a_shorter_extent_keeps_the_expected_reads() {
    let short = DropExtent {
        max_len: 1 << 13,
        negligible: 1e-9,
    };
    for load in [0.5, 0.9, 0.96, 0.98, 0.99, 0.995] {
        let table = TableLoad::from_load(1 << 27, load).unwrap();
        for workload in [Workload::misses(), Workload::hits(HitPolicy::StopAtMatch)] {
            let exact = Builder::exact().lookup(table, workload).unwrap();
            let rough = Builder::to_extent(short).lookup(table, workload).unwrap();
            for read_size in [1, 17, 300, 2048] {
                let ratio = rough.expected_reads(read_size) / exact.expected_reads(read_size);
                assert!((ratio - 1.0).abs() < 1e-3, "{load} {read_size} {ratio}");
            }
        }
    }
}

#[test]
fn a_mix_is_between_its_parts() {
    let table = TableLoad::from_load(1 << 20, 0.9).unwrap();
    let miss = ProbeDistribution::miss(table);
    let hit = ProbeDistribution::hit_stop_at_match(table).unwrap();
    let workload = Workload::new(0.25, HitPolicy::StopAtMatch).unwrap();
    let mix = ProbeDistribution::lookup(table, workload).unwrap();
    for read_size in [1, 10, 100, 1000] {
        let [hit, miss, mix] = [&hit, &miss, &mix].map(|d| d.expected_reads(read_size));
        assert!((mix - 0.25 * hit - 0.75 * miss).abs() < 1e-12 * miss);
    }
    assert!((mix.mean() - 0.25 * hit.mean() - 0.75 * miss.mean()).abs() < 1e-9);
}

#[test]
fn an_empty_table_has_no_hits() {
    let table = TableLoad::new(16, 0).unwrap();
    assert_eq!(ProbeDistribution::miss(table).mean(), 0.0);
    for policy in POLICIES {
        let hits = ProbeDistribution::lookup(table, Workload::hits(policy));
        assert_eq!(hits.unwrap_err(), ModelError::NoKeys);
    }
    assert!(ProbeDistribution::lookup(table, Workload::misses()).is_ok());
}
