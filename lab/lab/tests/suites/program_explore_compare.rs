//! `farslot-lab explore-compare`, small, with real processes.

use crate::program::{assert_fails, error_of, lab, one_object};
use serde_json::Value;

/// The report, or nothing where a system is not installed.
fn report(args: &[&str]) -> Option<Value> {
    let models = "philosophers:7,peterson:3,2pc:3";
    let all = [
        "explore-compare",
        "--json",
        "--model",
        models,
        "--rounds",
        "2",
    ];
    let output = lab(all.iter().chain(args)).output().unwrap();
    let error = error_of(&output);
    if error.contains("is not installed") {
        eprintln!("SKIPPED: {error}");
        assert_fails(
            &output,
            1,
            &["spin", "apt-get install", "scripts/peers install"],
        );
        return None;
    }
    assert!(output.status.success(), "{error}");
    Some(one_object(&output))
}

fn check(report: &Value, workers: &[&str], systems: &[&str]) {
    let mut rows = report["rows"].as_array().unwrap().iter();
    for (model, states) in [("philosophers:7", 478), ("peterson:3", 288), ("2pc:3", 288)] {
        for workers in workers {
            for system in systems {
                let row = rows.next().unwrap();
                assert_eq!(
                    (&row["model"], &row["system"]),
                    (&model.into(), &(*system).into())
                );
                assert_eq!(row["workers"].to_string(), *workers);
                assert_eq!(row["states"], states, "{row}");
                assert!(row["states_per_second"].as_f64().unwrap() > 0.0, "{row}");
                let is_told = !system.starts_with("stateright");
                assert_eq!(row["bytes_per_state"].is_number(), is_told, "{row}");
                assert_eq!(
                    row["farslot_ratio"].is_number(),
                    *system != "farslot",
                    "{row}"
                );
            }
        }
    }
    assert!(rows.next().is_none(), "{report}");
    assert_eq!(report["failures"], Value::Array(Vec::new()));
}

#[test]
fn stateright_finds_the_same_states() {
    let against = [
        "--against",
        "stateright-bfs,stateright-dfs",
        "--workers",
        "1,2",
    ];
    let report = report(&against).unwrap();
    check(
        &report,
        &["1", "2"],
        &["farslot", "stateright-bfs", "stateright-dfs"],
    );
}

#[test]
#[ignore = "long: scripts/test --all"]
fn spin_finds_the_same_states_where_it_is_installed() {
    if let Some(report) = report(&["--against", "spin,spin-collapse", "--workers", "1"]) {
        check(&report, &["1"], &["farslot", "spin", "spin-collapse"]);
    }
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let run = |args: &[&str]| lab([&["explore-compare"], args].concat()).output().unwrap();
    assert_fails(
        &run(&["--model", "dekker"]),
        2,
        &["dekker", "philosophers:N"],
    );
    assert_fails(
        &run(&["--model", "2pc:11"]),
        2,
        &["resource managers is 11", "to 10"],
    );
    assert_fails(&run(&["--workers", "0"]), 2, &["workers is 0"]);
    assert_fails(&run(&["--against", "tlc"]), 2, &["tlc", "spin-collapse"]);
}
