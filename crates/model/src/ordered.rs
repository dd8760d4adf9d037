//! How far a lookup has to look in an *ordered* table: one whose keys stand in the order of their
//! hashes, so that a miss ends at the first key that comes after the one it looks for.
//!
//! Let A be the number of keys at home in a slot, and L the number of slots from a home on that
//! keys of earlier homes have taken. Each slot takes one key, so L passes on to the next slot as L'
//! = max(L + A - 1, 0). A key goes behind the L earlier ones and the B keys of its own home that
//! come before it, so its distance is D = L + B; and a miss ends where its key would stand.
//!
//! In a large table of load a, A is Poisson with mean a, and L has the stationary law p_j of that
//! queue. What crosses the level j upwards must come down again, and it comes down by one slot at a
//! time, where A = 0:
//!
//! ```text
//! p_0 = (1 - a) e^a,    p_(j+1) e^-a = sum over i = 0..j of p_i P(A >= j + 2 - i)
//! ```
//!
//! which has only positive terms, so that the far tail keeps its relative precision. The key's
//! place among those of its home is uniform, so P(B = b) = P(A > b) / a; put into D = L + B, the
//! sum is the one above again, and what remains is
//!
//! ```text
//! P(D = 0) = p_0 (1 - e^-a) / a,    P(D = d) = p_d / a  for d > 0,    mean D = (1/(1-a) - 1) / 2.
//! ```
//!
//! The mean is that of any linear probing: the order of the keys moves none of the occupied slots.
//! The variance is the least that any order has.
//!
//! A finite table of M slots in which a key meets N others has a mean displacement that is known
//! exactly (Knuth's Q_0). Its law is taken to be that of the large table with the same mean, that
//! is of load 1 - 1/Q_0(M, N): no correction where the table is large against 1/(1-a)^2 slots, and
//! a bounded law where it is full. The tests compare it with tables that were filled.

use crate::{HitPolicy, ModelError, ProbeDistribution, TableLoad, Workload, mean};

/// More keys than this at home in one slot are less probable than any f64 is precise: 1 / 48!.
const MOST_AT_HOME: usize = 48;
/// What is left out sums to less than the rounding error of what is kept.
const NEGLIGIBLE: f64 = 1e-18;

impl ProbeDistribution {
    /// A miss in an ordered table: the distance at which its key would stand.
    pub fn ordered_miss(table: TableLoad) -> Self {
        law(mean::displacement(table.slots(), table.occupied()), 0)
    }

    /// A hit on a unique key of an ordered table: the displacement of a random key. It is the law
    /// of a miss in a table with one key less.
    ///
    /// # Errors
    /// [`ModelError::NoKeys`] if the table is empty.
    pub fn ordered_hit(table: TableLoad) -> Result<Self, ModelError> {
        ordered_hit(table, HitPolicy::StopAtMatch)
    }

    /// A lookup of an ordered table that hits with the workload's hit ratio. A hit that returns all
    /// matches of a key that has one reads up to the slot behind it.
    ///
    /// # Errors
    /// [`ModelError::NoKeys`] if the table is empty and the workload has hits.
    pub fn ordered(table: TableLoad, workload: Workload) -> Result<Self, ModelError> {
        let share = workload.hit_ratio();
        if share == 0.0 {
            return Ok(Self::ordered_miss(table));
        }
        let hit = ordered_hit(table, workload.hit_policy())?;
        if share == 1.0 {
            return Ok(hit);
        }
        Ok(hit.mixed(share, &Self::ordered_miss(table)))
    }
}

fn ordered_hit(table: TableLoad, policy: HitPolicy) -> Result<ProbeDistribution, ModelError> {
    let Some(occupied) = table.occupied().checked_sub(1) else {
        return Err(ModelError::NoKeys);
    };
    let behind = match policy {
        HitPolicy::StopAtMatch => 0,
        HitPolicy::AllMatches => 1,
    };
    Ok(law(mean::displacement(table.slots(), occupied), behind))
}

/// The law of D that has this mean, moved on by so many slots.
fn law(mean: f64, behind: usize) -> ProbeDistribution {
    let load = 1.0 - 1.0 / (2.0 * mean + 1.0);
    let mut masses = vec![0.0; behind];
    let complete = if load > 0.0 {
        follow_queue(load, &mut masses)
    } else {
        masses.push(1.0);
        true
    };
    ProbeDistribution::of_masses(masses, complete, mean + behind as f64)
}

/// Appends P(D = 0), P(D = 1), ...; true if what is left out is negligible.
fn follow_queue(load: f64, masses: &mut Vec<f64>) -> bool {
    let none_at_home = (-load).exp();
    let at_least = at_home_at_least(load);
    let mut queue = vec![(1.0 - load) / none_at_home];
    masses.push(queue[0] * -(-load).exp_m1() / load);
    while masses.len() < crate::MAX_TABULATED {
        // P(A >= 2) goes with the last of the queue, P(A >= 3) with the one before, and so on.
        let up = queue.iter().rev().zip(&at_least[2..]);
        let next = up.map(|(waiting, home)| waiting * home).sum::<f64>() / none_at_home;
        masses.push(next / load);
        let fall = 1.0 - next / queue[queue.len() - 1];
        queue.push(next);
        // Two sums separate a mass from the sum of the survival function, each adding 1 / fall.
        if fall > 0.0 && next < NEGLIGIBLE * fall * fall {
            return true;
        }
    }
    false
}

/// P(A >= k) for k = 0, 1, ...
fn at_home_at_least(load: f64) -> [f64; MOST_AT_HOME] {
    let mut masses = [(-load).exp(); MOST_AT_HOME];
    for k in 1..MOST_AT_HOME {
        masses[k] = masses[k - 1] * load / k as f64;
    }
    for k in (1..MOST_AT_HOME).rev() {
        masses[k - 1] += masses[k];
    }
    masses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_SLOTS, NicModel, Objective, ReadSizeModel};

    fn table(slots: u64, load: f64) -> TableLoad {
        TableLoad::from_load(slots, load).unwrap()
    }

    #[test]
    fn the_mean_is_that_of_any_linear_probing() {
        for load in [0.0, 0.01, 0.3, 0.5, 0.9, 0.95, 0.99, 0.9999] {
            for slots in [64, 1 << 20, MAX_SLOTS] {
                let table = table(slots, load);
                let miss = ProbeDistribution::ordered_miss(table);
                let expected = mean::displacement(slots, table.occupied());
                assert!(
                    (miss.mean() - expected).abs() <= 1e-9 * expected.max(1.0),
                    "{table:?}: {} for {expected}",
                    miss.mean()
                );
                let Ok(hit) = ProbeDistribution::ordered_hit(table) else {
                    assert_eq!(table.occupied(), 0);
                    continue;
                };
                let plain = ProbeDistribution::hit_stop_at_match(table).unwrap();
                assert!((hit.mean() / plain.mean() - 1.0).abs() < 1e-9 || plain.mean() == 0.0);
            }
        }
        let limit = ProbeDistribution::ordered_miss(table(MAX_SLOTS, 0.9)).mean();
        assert!((limit - 4.5).abs() < 1e-6, "{limit}");
    }

    #[test]
    fn the_masses_sum_to_one_and_the_queue_is_where_it_stays() {
        for load in [0.05, 0.5, 0.9, 0.98] {
            let mut masses = Vec::new();
            assert!(follow_queue(load, &mut masses));
            let total: f64 = masses.iter().sum();
            assert!((total - 1.0).abs() < 1e-12, "{load}: {total}");
            // One step of the queue leaves its law as it is.
            let queue: Vec<f64> = std::iter::once((1.0 - load) * load.exp())
                .chain(masses[1..].iter().map(|mass| mass * load))
                .collect();
            let at_least = at_home_at_least(load);
            let exactly = |k: usize| at_least[k] - at_least[k + 1];
            let mut stepped = vec![0.0; 30];
            for (waiting, share) in queue.iter().enumerate().take(40) {
                for home in 0..MOST_AT_HOME - 1 {
                    let left = (waiting + home).saturating_sub(1);
                    if let Some(to) = stepped.get_mut(left) {
                        *to += share * exactly(home);
                    }
                }
            }
            for (level, (now, before)) in stepped.iter().zip(&queue).take(12).enumerate() {
                assert!(
                    (now - before).abs() < 1e-12,
                    "{load} at {level}: {now}, {before}"
                );
            }
        }
    }

    /// The distances of misses at random in tables that were filled in order, and of all their
    /// hits: counts of distances, and the sum of all.
    fn simulated(slots: usize, keys: usize, rounds: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut misses, mut hits) = (vec![0u64; slots + keys], vec![0u64; slots + keys]);
        for round in 1..=rounds {
            let mut seed = round.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut random = || {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                seed
            };
            let home = |hash: u64| ((u128::from(hash) * slots as u128) >> 64) as usize;
            let mut hashes: Vec<u64> = (0..keys).map(|_| random()).collect();
            hashes.sort_unstable();
            // Round the end: what overflows the last slot is in the first slots' way.
            let (mut places, mut next) = (Vec::new(), 0);
            for _ in 0..2 {
                places.clear();
                next = usize::saturating_sub(next, slots);
                for hash in &hashes {
                    let at = home(*hash).max(next);
                    places.push(at);
                    next = at + 1;
                }
            }
            for (hash, at) in hashes.iter().zip(&places) {
                hits[at - home(*hash)] += 1;
            }
            for _ in 0..keys {
                let hash = random();
                let before = hashes.partition_point(|other| *other < hash);
                let free = match before {
                    0 => next.saturating_sub(slots),
                    _ => places[before - 1] + 1,
                };
                misses[free.saturating_sub(home(hash))] += 1;
            }
        }
        (misses, hits)
    }

    #[test]
    fn simulated_tables_have_this_law() {
        let slots = 1 << 15;
        for (load, rounds) in [(0.5, 4), (0.9, 16), (0.95, 32)] {
            let table = table(slots, load);
            let (misses, hits) = simulated(slots as usize, table.occupied() as usize, rounds);
            let miss = ProbeDistribution::ordered_miss(table);
            let hit = ProbeDistribution::ordered_hit(table).unwrap();
            for (counted, law) in [(misses, miss), (hits, hit)] {
                let total: u64 = counted.iter().sum();
                // Lookups of one cluster are not independent of each other: take it that what
                // counts as one is a run of about 1 / (1 - a)^2 slots.
                let independent = total as f64 * (1.0 - load) * (1.0 - load);
                for distance in [1, 2, 4, 8, 16, 32, 64] {
                    let at_least: u64 = counted[distance..].iter().sum();
                    let (seen, expected) = (
                        at_least as f64 / total as f64,
                        law.survival(distance as u64),
                    );
                    let sigma = (expected * (1.0 - expected) / independent).sqrt();
                    assert!(
                        (seen - expected).abs() < 4.0 * sigma + 1e-4,
                        "{load} at {distance}: {seen}, expected {expected} +- {sigma}"
                    );
                }
            }
        }
    }

    #[test]
    fn small_and_full_tables_have_bounded_reads() {
        for slots in 1..40 {
            let full = TableLoad::new(slots, slots).unwrap();
            let hit = ProbeDistribution::ordered_hit(full).unwrap();
            assert!(hit.mean() < slots as f64 && hit.expected_reads(1 << 20) <= 1.0 + 1e-9);
        }
        // A full table of M slots: keys are displaced by sqrt(pi M / 8) slots on average.
        let full = ProbeDistribution::ordered_hit(table(1 << 24, 1.0)).unwrap();
        let expected = (std::f64::consts::PI * f64::from(1 << 24) / 8.0).sqrt();
        assert!(
            (full.mean() / expected - 1.0).abs() < 0.01,
            "{}",
            full.mean()
        );
    }

    #[test]
    fn all_matches_read_one_slot_more_and_mixtures_mix() {
        let table = table(1 << 20, 0.9);
        let with = |ratio, policy| {
            let workload = Workload::new(ratio, policy).unwrap();
            ProbeDistribution::ordered(table, workload).unwrap()
        };
        let hit = with(1.0, HitPolicy::StopAtMatch);
        let all = with(1.0, HitPolicy::AllMatches);
        assert!((all.survival(1) - 1.0).abs() < 1e-12);
        for distance in [1, 5, 30] {
            assert!((all.survival(distance + 1) - hit.survival(distance)).abs() < 1e-15);
        }
        let miss = with(0.0, HitPolicy::StopAtMatch);
        let half = with(0.5, HitPolicy::StopAtMatch);
        let middle = 0.5 * (miss.survival(7) + hit.survival(7));
        assert!((half.survival(7) - middle).abs() < 1e-15);
        let empty = TableLoad::new(8, 0).unwrap();
        assert_eq!(
            ProbeDistribution::ordered_hit(empty).unwrap_err(),
            ModelError::NoKeys
        );
        assert_eq!(
            ProbeDistribution::ordered_miss(empty).expected_reads(1),
            1.0
        );
    }

    #[test]
    fn misses_in_order_take_fewer_and_smaller_reads() {
        let model = ReadSizeModel::new(8, Objective::Throughput, NicModel::connectx5_edr())
            .and_then(|model| model.with_max_read_bytes(16 << 10))
            .unwrap();
        for load in [0.9, 0.95] {
            let table = table(1 << 24, load);
            let plain = model.choose(&ProbeDistribution::miss(table));
            let ordered = model.choose(&ProbeDistribution::ordered_miss(table));
            println!("{load}: {plain:?}, in order {ordered:?}");
            assert!(ordered.cost_ns < plain.cost_ns && ordered.read_size < plain.read_size);
        }
    }
}
