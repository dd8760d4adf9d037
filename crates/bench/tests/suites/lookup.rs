//! Lookups in tables of every scheme, small, over real memory and behind a simulated NIC.

use farslot::fabric::sim::NicProfile;
use farslot::{Cache, Server};
use farslot_bench::lookup::{LookupScheme, Options, Served, Simulated, memory, served, simulated};
use farslot_bench::{BenchError, BenchReport, BenchRow};
use std::time::Duration;

const SMALL: Served = Served {
    repetitions: 2,
    operations: 1 << 10,
    single_lookups: 1 << 10,
    writes: false,
    cache: None,
};

fn linear() -> Options {
    Options {
        seed: 3,
        ..Options::new(vec![LookupScheme::Linear], 1 << 14)
    }
}

fn all_schemes() -> Options {
    Options {
        schemes: LookupScheme::ALL.to_vec(),
        misses: true,
        ..linear()
    }
}

/// Measures in the memory of a server at this address.
fn at(address: &str, options: &Options, measure: &Served) -> BenchReport {
    let server = Server::start(address, memory(options).unwrap()).unwrap();
    let address = server.addresses()[0].to_string();
    served(&address, options, measure, &|_| {}).unwrap()
}

fn fresh_address(name: &str) -> String {
    format!("shm://bench-{name}-{}", std::process::id())
}

fn row<'r>(report: &'r BenchReport, name: &str) -> &'r BenchRow {
    let row = report.rows.iter().find(|row| row.name == name);
    row.unwrap_or_else(|| panic!("{name}: {report:?}"))
}

/// Rows of lookups by several threads: none on a machine with one processor.
fn of_threads(report: &BenchReport) -> usize {
    let is_of_them =
        |row: &&BenchRow| row.name.contains(", hits, ") && row.name.ends_with(" threads");
    report.rows.iter().filter(is_of_them).count()
}

/// How many such rows there are of so many tables.
fn rows_of_threads(tables: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    tables * usize::from(processors > 1)
}

fn near(value: Option<f64>, expected: f64) {
    let value = value.unwrap();
    assert!((value / expected - 1.0).abs() < 0.05, "{value} {expected}");
}

#[test]
fn every_figure_is_there_and_gets_are_one_read_or_little_more() {
    for (address, rows) in [(&*fresh_address("lookup"), 11), ("tcp://127.0.0.1:0", 8)] {
        let report = at(address, &linear(), &SMALL);
        let of_threads = of_threads(&report);
        assert_eq!(of_threads, rows_of_threads(2));
        assert_eq!(report.rows.len(), 2 * rows + of_threads, "{report:?}");
        for row in &report.rows {
            let is_of_client = row.name.ends_with("client's memory");
            assert!(row.value > 0.0 || is_of_client, "{row:?}");
            let compared = row.limit.map(|limit| row.value / limit);
            assert_eq!(row.ratio, compared, "{row:?}");
            if let Some(reads) = row.reads_per_lookup {
                assert!((1.0..3.0).contains(&reads), "{row:?}");
            }
        }
    }
}

#[test]
fn writes_are_measured_of_tables_that_are_not_built_whole() {
    let options = Options {
        schemes: vec![
            LookupScheme::Linear,
            LookupScheme::Race,
            LookupScheme::Cuckoo,
            LookupScheme::Sealed,
        ],
        loads: vec![0.5, 0.87],
        ..linear()
    };
    let measure = Served {
        writes: true,
        ..SMALL
    };
    let report = at(&fresh_address("writes"), &options, &measure);
    let of_writes = report.rows.iter().filter(|row| row.unit == "writes/s");
    assert!(of_writes.clone().all(|row| row.value > 0.0), "{report:?}");
    // Four kinds of three schemes at two load factors.
    assert_eq!(of_writes.count(), 24, "{report:?}");
    row(
        &report,
        "load 0.87, linear, put_many, keys that were removed",
    );
}

#[test]
fn schemes_are_measured_side_by_side() {
    let report = at(&fresh_address("schemes"), &all_schemes(), &SMALL);
    // A RACE table is measured at one load only.
    let left_out = "; race is full at 0.87, so not measured at 0.9";
    assert!(report.fabric.ends_with(left_out), "{}", report.fabric);
    // CuckooDuo's clients are measured alone, readers and the writer.
    let of_threads = of_threads(&report);
    assert_eq!(of_threads, rows_of_threads(2 * 5 - 1));
    let tables = 2 * 7 - 1;
    assert_eq!(report.rows.len(), tables * 14 + of_threads, "{report:?}");
    // READs, round trips and bytes of a hit.
    for (scheme, kind, reads, round_trips, bytes) in [
        ("cuckoo", "hits", 3.0, 1.0, 3.0 * 4.0 * 24.0),
        ("duo", "hits", 1.0, 1.0, 32.0),
        ("perfect", "hits", 1.0, 1.0, 16.0),
        ("perfect", "misses", 1.0, 1.0, 16.0),
    ] {
        let lookups = row(&report, &format!("load 0.9, {scheme}, {kind}"));
        near(lookups.reads_per_lookup, reads);
        near(lookups.round_trips_per_lookup, round_trips);
        near(lookups.bytes_per_lookup, bytes);
    }
    for (scheme, lines) in [("cuckoo", 6.0), ("duo", 1.0), ("perfect", 1.0)] {
        let name = format!("load 0.9, {scheme}, hits, cache lines of the READs");
        near(Some(row(&report, &name).value), lines);
    }
    // An absent key: the counts of what was moved meanwhile, once more.
    let absent = row(&report, "load 0.9, cuckoo, misses");
    near(absent.reads_per_lookup, 4.0);
    near(absent.round_trips_per_lookup, 2.0);
    let race = row(&report, "load 0.5, race, hits");
    near(race.round_trips_per_lookup, 2.0);
    // Some lookups read another's record as well.
    assert!(
        (3.0..3.3).contains(&race.reads_per_lookup.unwrap()),
        "{race:?}"
    );
    // A reader looks whether its copy of the index is still what the writer has.
    let absent = row(&report, "load 0.9, duo, misses");
    near(absent.round_trips_per_lookup, 1.0);
    // So small a table has other clusters with every seed of its hash: some 1.2 as a rule.
    for kind in ["hits", "misses"] {
        let sealed = row(&report, &format!("load 0.9, sealed, {kind}"));
        assert!(
            (1.0..3.0).contains(&sealed.reads_per_lookup.unwrap()),
            "{sealed:?}"
        );
    }
    // 16.5 bits a slot, and a word of 4 bytes a bucket.
    let of_client = |table: &str| row(&report, &format!("{table}, client's memory")).value;
    let index = (16.5 / 8.0 + 0.5) / 0.9;
    let duo = of_client("load 0.9, duo");
    assert!((index..1.3 * index).contains(&duo), "{duo}");
    let perfect = of_client("load 0.9, perfect");
    assert!((0.25..0.31).contains(&perfect), "{perfect}");
    assert!(of_client("load 0.9, cuckoo") == 0.0 && of_client("load 0.5, race") < 0.1);
}

#[test]
fn a_nearly_full_duo_table_still_takes_one_read() {
    let options = Options {
        schemes: vec![LookupScheme::DuoAlone],
        loads: vec![0.97],
        misses: true,
        ..linear()
    };
    let report = at(&fresh_address("full"), &options, &SMALL);
    let reads = |kind| {
        let row = row(&report, &format!("load 0.97, duo-alone, {kind}"));
        row.reads_per_lookup.unwrap()
    };
    let (hits, misses) = (reads("hits"), reads("misses"));
    // More only where fingerprints collide.
    assert!((1.0..1.01).contains(&hits), "{hits}");
    assert!(misses < 0.01, "{misses}");
}

#[test]
fn a_cache_saves_reads() {
    let cached = Served {
        cache: Some(Cache::new(1 << 20).stale_for(Duration::from_secs(3_600))),
        ..SMALL
    };
    let report = at("tcp://127.0.0.1:0", &linear(), &cached);
    // Without it at least one a lookup; nearly full tables take more than are saved, by chance.
    let half_full = row(&report, "load 0.5, linear, hits");
    assert!(half_full.reads_per_lookup.unwrap() < 0.95, "{report:?}");
    let hits = report.rows.iter().filter(|row| row.unit == "%");
    let hits: Vec<f64> = hits.map(|row| row.value).collect();
    assert_eq!(hits.len(), 2);
    // Each of 8,192 keys, then 14,746, is drawn with equal chances, 4,096 times.
    assert!((10.0..40.0).contains(&hits[0]), "{report:?}");
    assert!((5.0..25.0).contains(&hits[1]), "{report:?}");
}

#[test]
fn only_memory_of_a_process_will_do() {
    let error = served("sim://cx5-edr", &linear(), &SMALL, &|_| {}).unwrap_err();
    assert!(matches!(error, BenchError::NotReal { .. }));
    let none = Served {
        repetitions: 0,
        ..SMALL
    };
    let error = served("sim://cx5-edr", &linear(), &none, &|_| {}).unwrap_err();
    assert!(error.is_usage());
}

#[test]
fn options_without_a_measurement_are_named() {
    let duo = vec![LookupScheme::Duo, LookupScheme::Race];
    let with_loads = |loads: &[f64]| Options {
        loads: loads.to_vec(),
        ..linear()
    };
    for (named, options) in [
        ("number of schemes", Options::new(Vec::new(), 1 << 14)),
        ("slots", Options::new(duo.clone(), 1)),
        ("load factors", with_loads(&[])),
        ("load factors", with_loads(&[0.9, 0.5])),
        ("load factor", with_loads(&[0.0])),
        ("load factor", with_loads(&[0.99])),
        (
            "load factor",
            Options {
                schemes: duo,
                ..with_loads(&[0.95])
            },
        ),
    ] {
        match memory(&options) {
            Err(BenchError::BadOption { option, .. }) => assert_eq!(option, named),
            other => panic!("{named}: {other:?}"),
        }
    }
    assert!("chained".parse::<LookupScheme>().is_err());
}

fn nic() -> Simulated {
    Simulated {
        window: 400_000,
        ..Simulated::new(NicProfile::connectx5_edr())
    }
}

#[test]
fn the_simulated_nic_is_what_limits_lookups() {
    let options = Options {
        loads: vec![0.25, 0.5, 0.65, 0.8, 0.9],
        slots: 1 << 16,
        ..linear()
    };
    let report = simulated(&options, &nic(), &|_| {}).unwrap();
    let lookups = report.rows.iter().filter(|row| row.unit == "lookups/s");
    assert_eq!(lookups.count(), 5);
    for row in report.rows.iter().filter(|row| row.model.is_some()) {
        // One small table: the fuller, the more it differs from the mean of all.
        let is_full = ["0.8", "0.9"].iter().any(|load| row.name.contains(load));
        let tolerance = if is_full { 0.5 } else { 0.05 };
        let ratio = row.value / row.model.unwrap();
        assert!((ratio - 1.0).abs() < tolerance, "{ratio} {row:?}");
        // A lookup is at least one READ of that size, as good as the limit was measured.
        assert!(row.ratio.is_none_or(|ratio| ratio < 1.04), "{row:?}");
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn schemes_side_by_side_take_what_the_model_says() {
    let options = Options {
        loads: vec![0.5, 0.9],
        slots: 1 << 15,
        ..all_schemes()
    };
    // Few lookups under way, which end in waves: there are many of these in the window.
    let measure = Simulated { width: 8, ..nic() };
    let report = simulated(&options, &measure, &|_| {}).unwrap();
    let lookups = report.rows.iter().filter(|row| row.unit == "lookups/s");
    let lookups: Vec<_> = lookups.collect();
    // A RACE table is measured at one load only.
    assert_eq!(lookups.len(), (2 * 7 - 1) * 2);
    for row in lookups {
        // One small table with linear probing that is nearly full differs from the mean of all.
        let is_probed = ["linear", "sealed"]
            .iter()
            .any(|name| row.name.contains(name));
        let tolerance = if is_probed { 0.3 } else { 0.1 };
        let ratio = row.value / row.model.unwrap();
        assert!((ratio - 1.0).abs() < tolerance, "{ratio} {row:?}");
    }
    let hit = row(&report, "load 0.9, duo, hits");
    assert!(
        (1.0..1.01).contains(&hit.round_trips_per_lookup.unwrap()),
        "{hit:?}"
    );
    let value = |name: &str| row(&report, name).value;
    let p50 = |scheme| value(&format!("load 0.5, {scheme}, hits, one at a time, p50"));
    assert!(p50("duo") < p50("cuckoo") && p50("cuckoo") < p50("race"));
    assert!(value("load 0.9, duo, client's memory") > 2.5);
    assert_eq!(value("load 0.9, linear, client's memory"), 0.0);
}

#[test]
fn a_seed_gives_the_same_figures() {
    let options = Options {
        slots: 1 << 10,
        ..linear()
    };
    let measure = Simulated {
        window: 20_000,
        ..nic()
    };
    let report = || simulated(&options, &measure, &|_| {}).unwrap();
    assert_eq!(report(), report());
    for nothing in [
        Simulated { width: 0, ..nic() },
        Simulated { window: 0, ..nic() },
    ] {
        assert!(
            simulated(&options, &nothing, &|_| {})
                .unwrap_err()
                .is_usage()
        );
    }
}
