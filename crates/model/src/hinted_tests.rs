use super::*;
use crate::{HitPolicy, NicModel, Objective, TableLoad, Workload};
use proptest::prelude::*;

const NIC: NicModel = NicModel::connectx5_edr();

fn ahead(ahead: u64, len: u64) -> Hint {
    Hint::Ahead { ahead, len }
}

/// Section 5.1 of the paper: 120 x 2^20 records; lookups that miss, as its model has it.
fn papers(load: f64) -> ProbeDistribution {
    let records = 120u64 << 20;
    let slots = (records as f64 / load).round() as u64;
    ProbeDistribution::miss(TableLoad::new(slots, records).unwrap())
}

/// C_k as Eq. 10 has it.
fn c(distances: &ProbeDistribution, k: u64, ahead: u64, len: u64) -> f64 {
    if k <= ahead {
        distances.found_within(k)
    } else if k <= ahead + len {
        distances.found_within(ahead)
    } else {
        1.0
    }
}

/// E[X(R)] as Eqs. 4, 5 and 10 have it.
fn expected_reads(distances: &ProbeDistribution, read_size: u64, ahead: u64, len: u64) -> f64 {
    let reads = (ahead + len) / read_size + 1;
    let c = |i: u64| c(distances, i * read_size, ahead, len);
    (1..=reads).map(|i| i as f64 * (c(i) - c(i - 1))).sum()
}

/// Figure 13: a cluster from x = 0 to x = 9, loads 0.25 and 0.65, slots of 8 bytes.
#[test]
fn figure_13() {
    let model = ReadSizeModel::new(8, Objective::Latency, NIC)
        .unwrap()
        .with_bandwidth_cap();
    for (load, to_the_end_from) in [(0.25, -5), (0.65, -12)] {
        let distances = papers(load);
        let oblivious = model.choose(&distances).read_size as i64;
        assert_eq!(oblivious, if load < 0.5 { 8 } else { 23 });
        let chosen = |x: i64| match x {
            10.. => model.choose(&distances).read_size as i64,
            0..10 => {
                model
                    .choose_hinted(
                        &distances,
                        Hint::Inside {
                            left: (10 - x) as u64,
                        },
                    )
                    .read_size as i64
            }
            _ => {
                model
                    .choose_hinted(&distances, ahead(-x as u64, 10))
                    .read_size as i64
            }
        };
        let all: Vec<_> = (-40..=15).map(|x| (x, chosen(x))).collect();
        println!("load {load}: {all:?}");
        for (x, read_size) in all {
            let to_the_end = 10 - x + 1;
            match x {
                // Past the cluster, and far from it: as if there were none.
                10.. => assert_eq!(read_size, oblivious),
                _ if -x >= oblivious + 5 => assert_eq!(read_size, oblivious, "x = {x}"),
                // Close to it, and inside: exactly to its end.
                _ if x >= to_the_end_from => assert_eq!(read_size, to_the_end, "x = {x}"),
                // In between it is not worth reading into it, or not all of it.
                _ => assert!(read_size <= to_the_end.min(oblivious + 4), "x = {x}"),
            }
        }
    }
    // "at x = -20 for the 65% load factor [...] reading fewer slots"; "at x = -4 [...] until the
    // end of the cluster, which may be less than (65%) or greater than (25%)" without the hint.
    let at = |load, x| model.choose_hinted(&papers(load), ahead(x, 10)).read_size;
    assert_eq!([at(0.65, 30), at(0.65, 20), at(0.65, 4)], [23, 20, 15]);
    assert_eq!([at(0.25, 30), at(0.25, 4)], [8, 15]);
}

#[test]
fn within_a_cluster_all_of_the_rest_is_read() {
    let model = ReadSizeModel::new(8, Objective::Throughput, NIC).unwrap();
    let distances = papers(0.8);
    for left in [1, 7, 300, 70_000] {
        let best = model.choose_hinted(&distances, Hint::Inside { left });
        assert_eq!(best.read_size as u64, left + 1);
        assert!((best.reads - 1.0).abs() < 1e-12);
        let right_ahead = model.choose_hinted(&distances, ahead(0, left));
        assert_eq!(best, right_ahead);
        for read_size in [1, left / 2, left, left + 2] {
            let other = model.cost_hinted(&distances, Hint::Inside { left }, read_size as usize);
            assert!(other.cost_ns > best.cost_ns);
        }
    }
}

#[test]
fn beyond_what_is_tabulated_the_sum_stays_exact() {
    // One empty slot in a million, so that the distribution has a tail.
    let table = TableLoad::new(1 << 40, (1 << 40) - (1 << 20)).unwrap();
    let distances = ProbeDistribution::miss(table);
    let end = distances.tabulated().len() as u64;
    for (far, len, read_size) in [(end + 5_000, 700, 13), (end - 1, 5, 4), (end, 3, 1_000)] {
        let steps = (0..=far).step_by(read_size as usize);
        let sum: f64 = steps.map(|k| distances.survival(k)).sum();
        let within = (far + len) / read_size - far / read_size;
        let sum = sum + within as f64 * distances.survival(far);
        let ours = distances.expected_reads_hinted(read_size as usize, ahead(far, len));
        assert!((ours / sum - 1.0).abs() < 1e-9, "{ours} {sum}");
    }
    // Further than any lookup goes there is no difference.
    let short = papers(0.5);
    let oblivious = short.expected_reads(7);
    let hinted = short.expected_reads_hinted(7, ahead(u64::MAX, u64::MAX));
    assert!((hinted / oblivious - 1.0).abs() < 1e-12);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The pruned search over sums of survival functions finds what trying everything finds, by
    /// the definition.
    #[test]
    fn eq_10_is_minimised(
        slots in 100u64..3000,
        load in 0.05f64..0.95,
        hit_ratio in 0.0f64..=1.0,
        near in 0u64..60,
        len in 1u64..120,
        slot_bytes in 1usize..200,
        throughput: bool,
        capped: bool,
    ) {
        let table = TableLoad::from_load(slots, load).unwrap();
        let workload = Workload::new(hit_ratio, HitPolicy::AllMatches).unwrap();
        let distances = ProbeDistribution::lookup(table, workload).unwrap();
        let objective = if throughput { Objective::Throughput } else { Objective::Latency };
        let mut model = ReadSizeModel::new(slot_bytes, objective, NIC).unwrap();
        if capped {
            model = model.with_bandwidth_cap();
        }
        let best = model.choose_hinted(&distances, ahead(near, len));
        if near == 0 {
            prop_assert_eq!(best.read_size as u64, len + 1);
        } else {
            prop_assert!(best.read_size <= model.max_read_slots());
        }
        for read_size in 1..=(near + len + 5).min(model.max_read_slots() as u64) {
            let by_definition = expected_reads(&distances, read_size, near, len);
            let cost = model.cost_hinted(&distances, ahead(near, len), read_size as usize);
            prop_assert!((cost.reads - by_definition).abs() < 1e-9 * by_definition);
            prop_assert!(cost.cost_ns >= best.cost_ns);
        }
    }
}
