//! What the specifications imply, and what the generators draw.

use super::options::{Options, Rival, TransactionBenchmark};
use super::tatp::{self, Tatp};
use super::workload::{InsertedRow, Workload, WorkloadClient};
use crate::ycsb::Workload as Letter;
use std::collections::BTreeSet;

/// The part of GET_NEW_DESTINATION's draws that find one of an active facility's forwardings: a
/// count of all cases.
#[test]
fn a_count_of_all_cases_gives_the_rate_of_new_destinations() {
    let starts = [0, 8, 16];
    let mut all = 0.0;
    for mask in 0..8_u32 {
        // Each number of forwardings is as probable as any, and so is each set of that number.
        let sets = [1, 3, 3, 1][mask.count_ones() as usize];
        let probability = 0.25 / f64::from(sets);
        for start in starts {
            for end in 1..=24 {
                let misses = (0..3).filter(|bit| mask >> bit & 1 == 1 && starts[*bit] <= start);
                let misses = misses.map(|bit| {
                    let late = (1..=8).filter(|long| starts[bit] + long > end).count();
                    1.0 - late as f64 / 8.0
                });
                all += probability / 72.0 * (1.0 - misses.product::<f64>());
            }
        }
    }
    assert!((all - 0.2784).abs() < 1e-4, "{all}");
    let kinds = Tatp {
        subscribers: 1,
        seed: 0,
        evenly: false,
    }
    .kinds();
    let specified = kinds[tatp::GET_NEW_DESTINATION].succeeds.unwrap();
    assert!(
        (100.0 * 0.625 * 0.85 * all - specified).abs() < 0.01,
        "{all}"
    );
}

/// Draws from a million subscribers, and the first 8000 of each kind against what is loaded for
/// them.
#[test]
fn transactions_of_tatp_succeed_as_often_as_the_specification_implies() {
    let tatp = Tatp {
        subscribers: 1_000_000,
        seed: 3,
        evenly: false,
    };
    let mut client = WorkloadClient::new(5, 0, 1);
    const COMPARED: u32 = 8000;
    let mut counts = vec![(0_u32, 0_u32); tatp.kinds().len()];
    for _ in 0..400_000 {
        let call = tatp.draw(&mut client);
        counts[call.kind].0 += 1;
        if counts[call.kind].0 > COMPARED {
            continue;
        }
        let [subscriber, a, b, ..] = call.numbers;
        let mut keys = BTreeSet::new();
        let mut active = BTreeSet::new();
        let mut ends = Vec::new();
        tatp.load_subscriber(
            subscriber,
            &mut |InsertedRow {
                      table, key, value, ..
                  }| {
                if table == tatp::FACILITY && value[0] == 1 {
                    active.insert(i64::from(key[4]));
                }
                if table == tatp::FORWARDING {
                    ends.push((i64::from(key[4]), i64::from(key[5]), i64::from(value[0])));
                }
                keys.insert((table, key));
                Ok(())
            },
        )
        .unwrap();
        let has = |table, kind| keys.contains(&(table, tatp::typed_key(subscriber, kind).to_vec()));
        let forwards = |kind, start| {
            let key = tatp::forwarding_key(subscriber, kind, start);
            keys.contains(&(tatp::FORWARDING, key.to_vec()))
        };
        let succeeds = match call.kind {
            tatp::GET_NEW_DESTINATION => {
                let end = call.numbers[3];
                let mut ends = ends.iter();
                active.contains(&a)
                    && ends.any(|(kind, start, until)| *kind == a && *start <= b && *until > end)
            }
            tatp::GET_ACCESS_DATA => has(tatp::ACCESS, a),
            tatp::UPDATE_SUBSCRIBER_DATA => has(tatp::FACILITY, b),
            tatp::INSERT_CALL_FORWARDING => has(tatp::FACILITY, a) && !forwards(a, b),
            tatp::DELETE_CALL_FORWARDING => forwards(a, b),
            _ => true,
        };
        counts[call.kind].1 += u32::from(succeeds);
    }
    for (kind, (attempted, succeeded)) in tatp.kinds().iter().zip(counts) {
        let share = f64::from(attempted) / 4000.0;
        assert!(
            (share - f64::from(kind.share)).abs() < 0.3,
            "{}: {share}",
            kind.name
        );
        let rate = 100.0 * f64::from(succeeded) / f64::from(attempted.min(COMPARED));
        let specified = kind.succeeds.unwrap();
        // Of 8000 draws, one standard deviation is half a point; the seed is fixed.
        assert!((rate - specified).abs() < 1.0, "{}: {rate}", kind.name);
    }
}

#[test]
fn subscribers_are_drawn_unevenly() {
    let tatp = Tatp {
        subscribers: 1 << 16,
        seed: 0,
        evenly: false,
    };
    let mut client = WorkloadClient::new(1, 0, 1);
    let mut odd = 0;
    for _ in 0..10_000 {
        odd += tatp.draw(&mut client).numbers[0] % 2;
    }
    // Of two bits at random, one or the other is set three times of four.
    assert!((7300..7700).contains(&odd), "{odd}");
}

#[test]
fn ninety_of_a_hundred_transactions_are_on_hot_accounts() {
    let bank = TransactionBenchmark::SmallBank {
        accounts: 1000,
        hot: 40,
    }
    .workload(0);
    let mut client = WorkloadClient::new(1, 0, 1);
    let drawn = (0..10_000).map(|_| bank.draw(&mut client));
    let hot = drawn.filter(|call| call.numbers[0] < 40).count();
    assert!((8900..9100).contains(&hot), "{hot}");
    let shares: u32 = bank.kinds().iter().map(|kind| kind.share).sum();
    assert_eq!(shares, 100);
    let mut sum = 0;
    bank.load(&mut |row| {
        sum += i64::from_le_bytes(row.value.try_into().unwrap());
        Ok(())
    })
    .unwrap();
    assert_eq!(bank.total().unwrap().loaded, sum);
}

#[test]
fn rivals_are_named_with_or_without_an_address() {
    assert_eq!("redis".parse(), Ok(Rival::Redis(None)));
    assert_eq!("postgres".parse(), Ok(Rival::Postgres));
    assert!(matches!(
        "redis=127.0.0.1:6379".parse(),
        Ok(Rival::Redis(Some(_)))
    ));
    for text in ["", "memcached", "redis=", "postgres=127.0.0.1:1"] {
        assert!(text.parse::<Rival>().is_err(), "{text}");
    }
}

#[test]
fn options_that_nothing_can_be_measured_with_are_refused() {
    let small = |accounts, hot| Options::new(TransactionBenchmark::SmallBank { accounts, hot });
    assert!(small(100, 100).check().is_ok());
    assert!(small(102, 100).check().is_ok());
    for (letter, nodes) in [(Letter::E, 1), (Letter::A, 64)] {
        let of_nodes = |nodes, records| Options {
            nodes,
            ..Options::new(TransactionBenchmark::Ycsb { letter, records })
        };
        assert!(of_nodes(nodes, 16).check().is_ok());
        assert!(of_nodes(nodes + 1, 16).check().is_err());
        assert!(of_nodes(nodes, 15).check().is_err());
    }
    for (accounts, hot) in [(1, 2), (101, 100), (50, 100), (100, 1)] {
        assert!(small(accounts, hot).check().is_err(), "{accounts} {hot}");
    }
    let bench = TransactionBenchmark::Tatp { subscribers: 0 };
    assert!(Options::new(bench).check().is_err());
}
