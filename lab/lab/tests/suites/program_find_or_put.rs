//! `farslot-lab find-or-put`, small.

use crate::program::{assert_fails, error_of, lab, one_object};

#[test]
fn all_sets_are_measured_with_one_and_with_several_threads() {
    let small =
        "find-or-put --json --threads 1,3 --slots 4096 --load 0.25,0.9 --mix 80/20 --repetitions 2";
    let output = lab(small.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let report = one_object(&output);
    assert_eq!(report["bench"], "find-or-put");
    let mut rows = report["rows"].as_array().unwrap().iter();
    for threads in ["1 thread", "3 threads"] {
        for load in ["0.25", "0.9"] {
            for label in [
                "set",
                "papaya",
                "dashmap",
                "compare-and-swap of the mapping",
            ] {
                let row = rows.next().unwrap();
                assert_eq!(
                    row["name"],
                    format!("80/20, load {load}, {threads}, {label}")
                );
                assert!(row["value"].as_f64().unwrap() > 0.0, "{row}");
                assert_eq!(row["ratio"].is_number(), !label.contains("swap"), "{row}");
            }
        }
    }
    assert!(rows.next().is_none(), "{report}");
}

#[test]
fn measurements_that_cannot_be_made_are_refused() {
    let refused = lab(["find-or-put", "--threads", "0"]).output().unwrap();
    assert_fails(&refused, 2, &["threads is 0", "from 1 to 1024"]);
    let refused = lab(["find-or-put", "--threads", "2", "--load", "0.97"])
        .output()
        .unwrap();
    assert_fails(&refused, 2, &["load factor is 0.97"]);
}
