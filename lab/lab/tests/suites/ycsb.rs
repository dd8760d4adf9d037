//! The workloads of YCSB over a store of this process, and beside the servers that are installed.

use farslot::{SlotKind, Store};
use farslot_lab::ycsb::{Options, PeerAddress, PeerKind, ServedStore, Workload, run};
use farslot_lab::{LabError, Result};
use std::time::Duration;

/// Tables have room for whatever the clients may insert beyond their share: of these, 12 slots for
/// each record. In a table that is as full as tables become, round trips depend on the hash's seed,
/// which is drawn: one popular key far from its home, and a lookup takes 3.1 in place of 1.8.
fn small() -> Options {
    Options {
        records: 500,
        value_bytes: 64,
        threads: 2,
        pipeline: 512,
        time: Duration::from_millis(20),
        rounds: 4,
        ..Options::default()
    }
}

fn embedded(bytes: u64) -> Result<ServedStore> {
    Ok(ServedStore {
        store: Store::embedded_with(bytes, farslot::OpenOptions::default())?,
        process: None,
        guard: Box::new(()),
    })
}

#[test]
fn every_workload_has_its_figures() {
    let report = run(&small(), embedded, &|_| {}).unwrap();
    assert_eq!(report.fabric, "embedded");
    let workloads: Vec<_> = report.rows.iter().map(|row| row.workload).collect();
    assert_eq!(workloads, Workload::ALL);
    for row in &report.rows {
        assert!(
            row.operations > 0 && row.operations_per_second > 0.0,
            "{row:?}"
        );
        assert!(row.p50_us > 0.0 && row.p50_us <= row.p99_us, "{row:?}");
        let round_trips = row.round_trips.unwrap();
        assert!((1.0..4.0).contains(&round_trips), "{row:?}");
        assert!(row.client_cpu_seconds_per_million > 0.0, "{row:?}");
        assert_eq!(
            (row.server_cpu_seconds_per_million, row.farslot_ratio),
            (None, None)
        );
    }
}

#[test]
fn what_is_read_from_a_cache_takes_no_round_trip() {
    let options = Options {
        workloads: vec![Workload::A, Workload::C],
        cache: Some(farslot::Cache::new(1 << 20).stale_for(Duration::from_secs(3_600))),
        // Each round begins with an empty cache: long enough that most reads find it full, on a
        // busy machine too.
        time: Duration::from_millis(400),
        ..small()
    };
    let cached = |bytes| -> Result<ServedStore> {
        let with_cache = farslot::OpenOptions {
            cache: options.cache,
            ..farslot::OpenOptions::default()
        };
        Ok(ServedStore {
            store: Store::embedded_with(bytes, with_cache)?,
            ..embedded(bytes)?
        })
    };
    let report = run(&options, cached, &|_| {}).unwrap();
    assert_eq!(report.cache_bytes, Some(1 << 20));
    for row in &report.rows {
        // All values that are read are checked by the run itself. How many of them the cache has
        // by then is the machine's matter.
        assert!(row.cache_hits.unwrap() > 0.0, "{row:?}");
    }
    assert!(report.notes.iter().any(|note| note.contains("in a cache")));
    let without = run(&small(), embedded, &|_| {}).unwrap();
    assert_eq!(
        (without.cache_bytes, without.rows[0].cache_hits),
        (None, None)
    );
}

#[test]
fn records_in_their_slots_take_one_round_trip() {
    for slots in [SlotKind::Inline, SlotKind::Hybrid] {
        let options = Options {
            slots: Some(slots),
            workloads: vec![Workload::C],
            ..small()
        };
        let report = run(&options, embedded, &|_| {}).unwrap();
        assert_eq!(report.slots, slots);
        let round_trips = report.rows[0].round_trips.unwrap();
        // Out of band it would be 2 and more.
        assert!((1.0..1.8).contains(&round_trips), "{report:?}");
    }
    let word = Options {
        slots: Some(SlotKind::Word),
        ..small()
    };
    assert!(run(&word, embedded, &|_| {}).is_err());
}

/// With the servers that are installed; without any, this says so and checks that the error does.
#[test]
fn peers_answer_the_same_and_end_with_the_run() {
    for kind in [PeerKind::Redis, PeerKind::Memcached] {
        let options = Options {
            against: vec![PeerAddress { kind, at: None }],
            ..small()
        };
        let outcome = run(&options, embedded, &|_| {});
        if !kind.is_installed() {
            eprintln!(
                "SKIPPED: {} is not installed (scripts/peers install)",
                kind.name()
            );
            assert!(matches!(outcome, Err(LabError::NotInstalled { .. })));
            continue;
        }
        let report = outcome.unwrap();
        assert_eq!(report.rows.len(), 2 * Workload::ALL.len());
        for pair in report.rows.chunks(2) {
            assert_eq!((pair[0].system, pair[1].system), ("farslot", kind.name()));
            assert!(pair[1].farslot_ratio.unwrap() > 0.0, "{pair:?}");
            assert!(pair[1].server_cpu_seconds_per_million.is_some(), "{pair:?}");
            assert!(!pair[1].version.is_empty() && pair[1].round_trips.is_none());
        }
    }
}

#[test]
fn options_that_nothing_can_be_measured_with_are_named() {
    let wrong = [
        Options {
            records: 0,
            ..small()
        },
        Options {
            value_bytes: 23,
            ..small()
        },
        Options {
            threads: 0,
            ..small()
        },
        Options {
            pipeline: 0,
            ..small()
        },
        Options {
            pipeline: 1024,
            value_bytes: 2048,
            ..small()
        },
        Options {
            rounds: 0,
            ..small()
        },
        Options {
            time: Duration::ZERO,
            ..small()
        },
        Options {
            server_threads: 0,
            ..small()
        },
    ];
    for options in wrong {
        let error: LabError = run(&options, embedded, &|_| {}).unwrap_err();
        assert!(error.is_usage(), "{error}");
    }
    assert!("g".parse::<Workload>().is_err());
    assert_eq!("e".parse(), Ok(Workload::E));
}
