//! `farslot-lab find-or-put` and `farslot-lab explore-against`, small, with real processes.

use crate::program::{assert_fails, error_of, lab, one_object};

#[test]
fn find_or_put_is_measured_beside_maps_and_the_limit() {
    let args = [
        "find-or-put",
        "--json",
        "--buckets",
        "8192",
        "--rounds",
        "1",
        "--found",
        "50,80",
    ];
    let output = lab(args).output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let report = one_object(&output);
    let rows = report["rows"].as_array().unwrap();
    // Four tables, two mixes, two numbers of workers, three bands of load.
    assert_eq!(rows.len(), 4 * 2 * 2 * 3);
    for row in rows {
        assert!(
            row["operations_per_second"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        let of_limit = row["of_limit"].as_f64().unwrap();
        assert!(of_limit == 1.0 || row["system"] != "CAS", "{row}");
    }
    // The same operations for all: those of a band differ by the mix and the number of workers only.
    for row in rows {
        let same = rows.iter().find(|other| {
            let equal = |of: &str| other[of] == row[of];
            equal("workers") && equal("found_percent") && equal("load") && other["system"] == "CAS"
        });
        assert_eq!(same.unwrap()["operations"], row["operations"], "{row}");
    }
    let output = lab(["find-or-put", "--buckets", "1"]).output().unwrap();
    assert_fails(&output, 2, &["from 1024"]);
}

#[test]
fn exploration_is_compared_where_spin_is_installed() {
    let models = "philosophers:6,peterson:3,2pc:3";
    let args = [
        "explore-against",
        "--json",
        "--rounds",
        "1",
        "--models",
        models,
    ];
    let output = lab(args).output().unwrap();
    if !output.status.success() {
        let said = error_of(&output);
        assert!(said.contains("is not installed"), "{said}");
        return;
    }
    let report = one_object(&output);
    let rows = report["rows"].as_array().unwrap();
    // Farslot, Stateright, and Spin twice with one worker; Farslot, Stateright, and Spin once with two.
    assert_eq!(rows.len(), 3 * (4 + 3));
    for (model, states) in [("philosophers:6", 198), ("2pc:3", 288)] {
        let of_model = rows.iter().filter(|row| row["model"] == model);
        assert!(
            of_model.clone().all(|row| row["states"] == states),
            "{report}"
        );
    }
    let output = lab(["explore-against", "--models", "puzzle:3x3"])
        .output()
        .unwrap();
    assert_fails(&output, 2, &["is none of"]);
}
