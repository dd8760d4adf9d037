//! `farslot-lab tasks`, small.

use crate::program::{assert_fails, error_of, lab, one_object};

#[test]
fn tasks_are_measured_beside_threads() {
    let small =
        "tasks --json --tasks 30 --threads 2 --records 5000 --operations 20000 --repetitions 2";
    let output = lab(small.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let report = one_object(&output);
    assert_eq!(report["bench"], "tasks");
    let mut rows = report["rows"].as_array().unwrap().iter();
    for fabric in ["shm", "tcp"] {
        for (label, unit, is_compared) in [
            ("get_many, threads: 2", "lookups/s", false),
            ("30 tasks, workers: 2", "lookups/s", true),
            ("30 tasks that only take turns, threads: 2", "turns/s", true),
            ("30 tasks, p50", "µs", false),
            ("30 tasks, p99", "µs", false),
        ] {
            let row = rows.next().unwrap();
            assert_eq!(row["name"], format!("{fabric}, {label}"));
            assert_eq!(row["unit"], unit);
            assert!(row["value"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(row["ratio"].is_number(), is_compared, "{row}");
        }
    }
    assert!(rows.next().is_none(), "{report}");
}

#[test]
fn measurements_that_cannot_be_made_are_refused() {
    let refused = lab(["tasks", "--threads", "0"]).output().unwrap();
    assert_fails(&refused, 2, &["threads is 0", "from 1 to 1024"]);
}
