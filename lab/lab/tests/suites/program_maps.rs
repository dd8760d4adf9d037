//! `farslot-lab maps`, small.

use crate::program::{assert_fails, error_of, lab, one_object};

#[test]
fn all_maps_are_measured_and_answer_right() {
    let small = "maps --json --records 3000 --threads 2 --repetitions 1";
    let output = lab(small.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let report = one_object(&output);
    assert_eq!(report["bench"], "maps");
    let rows = report["rows"].as_array().unwrap();
    let mut names: Vec<_> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let singles = ["put, new keys", "put", "get"];
    for (map, has_batches) in [
        ("Farslot, default table", true),
        ("Farslot, linear", true),
        ("dashmap", false),
        ("papaya", false),
        ("moka", false),
    ] {
        let batches = ["put_many", "get_many"].into_iter().filter(|_| has_batches);
        let mut expected: Vec<_> = singles
            .into_iter()
            .chain(batches)
            .map(|phase| format!("{map}, {phase}, threads: 2"))
            .collect();
        expected.push(format!("{map}, resident memory"));
        for name in expected {
            let place = names.iter().position(|known| *known == name);
            names.remove(place.unwrap_or_else(|| panic!("{name}: {report}")));
        }
    }
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn measurements_that_cannot_be_made_are_refused() {
    let refused = lab(["maps", "--value-size", "7"]).output().unwrap();
    assert_fails(&refused, 2, &["value bytes is 7", "from 8 to 65536"]);
    let refused = lab(["maps", "--threads", "9", "--records", "8"])
        .output()
        .unwrap();
    assert_fails(&refused, 2, &["threads is 9", "at most records"]);
}
