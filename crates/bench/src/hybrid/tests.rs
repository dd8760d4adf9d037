use super::*;

fn small() -> Options {
    Options {
        records: 1 << 12,
        width: 8,
        window: 500_000,
        lookups: 2_000,
        ..Options::new(NicProfile::connectx5_edr())
    }
}

/// The figure of a mix, a load and slots, by its unit.
fn figure(report: &BenchReport, mix: &str, load: f64, slots: &str, what: &str) -> f64 {
    let begins = format!("{mix}, load {load:.2}, {slots} (");
    let mut rows = report.rows.iter().filter(|row| {
        let is_mean = row.unit != "ns" || row.name.ends_with("mean latency");
        row.name.starts_with(&begins) && row.unit == what && is_mean
    });
    let row = rows.next().expect("a row for each table");
    assert!(rows.next().is_none(), "{begins}");
    row.value
}

#[test]
fn hybrid_slots_are_as_fast_as_the_better_of_both_and_the_model_knows() {
    let report = run(&small(), &|_| {}).unwrap();
    // 2 mixes at 2 loads, 7 tables of each, 4 figures of each.
    assert_eq!(report.rows.len(), 2 * 2 * 7 * 4);
    for row in &report.rows {
        // One small table.
        let ratio = row.model.map_or(1.0, |model| row.value / model);
        assert!((ratio - 1.0).abs() < 0.04, "{ratio} {row:?}");
    }
    for mix in mixes() {
        for load in LOADS {
            let of = |slots, what| figure(&report, mix.name, load, slots, what);
            let rate = |slots| of(slots, "lookups/s");
            let better = rate("inline").max(rate("heap"));
            assert!(rate("hybrid") > better * 0.99, "{} {load}", mix.name);
            assert!(rate("hybrid, more memory") > rate("heap, more memory") * 1.01);
            let quick = of("hybrid, more memory, for latency", "ns");
            assert!(quick < of("heap, more memory", "ns") * 0.85);
            let memory = |slots| of(slots, "B/record");
            assert!((memory("hybrid, memory of heap") / memory("heap") - 1.0).abs() < 0.02);
            if mix.name == "mostly small" {
                assert!(rate("hybrid") > better * 1.2);
                assert!(rate("hybrid, memory of heap") > better * 1.2);
                assert!(of("hybrid", "ns") < of("heap", "ns") * 0.7);
                assert!(memory("hybrid") < memory("heap") * 1.15);
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_figures() {
    let options = Options {
        records: 1 << 8,
        window: 20_000,
        lookups: 50,
        ..small()
    };
    let report = |options| run(&options, &|_| {}).unwrap();
    assert_eq!(report(options.clone()), report(options));
}

#[test]
fn options_without_a_measurement_are_named() {
    let few = Options {
        records: 1,
        ..small()
    };
    let narrow = Options {
        width: 0,
        ..small()
    };
    let no_time = Options {
        window: 0,
        ..small()
    };
    let no_lookups = Options {
        lookups: 0,
        ..small()
    };
    for options in [few, narrow, no_time, no_lookups] {
        assert!(run(&options, &|_| {}).unwrap_err().is_usage());
    }
}
