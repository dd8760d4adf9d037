//! `farslot bench`, small, with real processes; and where what it had once is now.

use crate::common::{assert_fails, error_of, farslot, one_object};

const RAW: [&str; 8] = [
    "--memory",
    "1MiB",
    "--repetitions",
    "1",
    "--operations",
    "2048",
    "--single-reads",
    "128",
];

#[test]
fn bare_reads_have_one_form_on_both_fabrics() {
    for (fabric, ceiling) in [("shm", "loads"), ("tcp", "echo")] {
        let args = ["bench", "raw", "--json", "--fabric", fabric];
        let args = args.iter().chain(&RAW);
        let output = farslot(args).output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
        let report = one_object(&output);
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 6);
        assert!(rows[0]["ratio"].as_f64().unwrap() > 0.0);
        assert!(
            rows[1]["name"].as_str().unwrap().starts_with(ceiling),
            "{report}"
        );
    }
}

#[test]
fn lookups_have_one_form_on_every_fabric() {
    for fabric in ["shm", "tcp", "sim"] {
        let args = ["bench", "lookup", "--json", "--misses", "--fabric", fabric];
        let small = ["--slots", "1024", "--scheme", "duo,linear,duo"];
        // The simulator measures for a time of its own.
        let (loads, few): (&[&str], &[&str]) = match fabric {
            "sim" => (&["0.25"], &["--load", "0.25"]),
            _ => (
                &["0.25", "0.5"],
                &["--load", "0.25,0.5", "--operations", "4k"],
            ),
        };
        let output = farslot(args.iter().chain(&small).chain(few))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
        let report = one_object(&output);
        assert_eq!(report["bench"], "lookup");
        let rows = report["rows"].as_array().unwrap();
        for load in loads {
            for scheme in ["linear", "duo"] {
                for kind in ["hits", "misses"] {
                    let name = format!("load {load}, {scheme}, {kind}");
                    let mut named = rows.iter().filter(|row| row["name"] == *name);
                    let row = named.next().unwrap_or_else(|| panic!("{name}: {report}"));
                    assert!(row["value"].as_f64().unwrap() > 0.0, "{row}");
                    assert!(row["reads_per_lookup"].is_number(), "{row}");
                    assert!(named.next().is_none(), "{name} twice");
                }
            }
        }
    }
}

#[test]
fn lookups_that_cannot_be_measured_are_refused() {
    let run = |args: &[&str]| {
        let all = ["bench", "lookup"].iter().chain(args);
        farslot(all).output().unwrap()
    };
    let cached = ["--fabric", "sim", "--cache", "1MiB", "--stale-for", "1s"];
    assert_fails(&run(&cached), 2, &["--fabric sim"]);
    assert_fails(&run(&["--profile", "cx5-edr"]), 2, &["--fabric sim"]);
    assert_fails(
        &run(&["--scheme", "chained"]),
        2,
        &["chained", "linear, sealed, perfect, cuckoo"],
    );
    let full = ["--scheme", "race", "--load", "0.95"];
    assert_fails(
        &run(&full),
        2,
        &["load factor is 0.95", "at most 0.87 for race"],
    );
}

#[test]
fn reproductions_are_in_the_laboratory() {
    let output = farslot(["repro", "000-table3", "--json"]).output().unwrap();
    let command = "cargo run --release -p farslot-lab -- repro 000-table3 --json";
    assert_fails(&output, 2, &[command]);
}

#[test]
fn find_or_puts_of_one_and_of_several_processes_stand_beside_swaps() {
    let args = ["bench", "find-or-put", "--json", "--processes", "1,3"];
    let small = [
        "--slots",
        "4096",
        "--load",
        "0.25,0.9",
        "--mix",
        "20/80,50/50",
        "--repetitions",
        "2",
    ];
    let output = farslot(args.iter().chain(&small)).output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let report = one_object(&output);
    assert_eq!(report["bench"], "find-or-put");
    let rows = report["rows"].as_array().unwrap();
    let mut rows = rows.iter();
    for processes in ["1 process", "3 processes"] {
        for mix in ["20/80", "50/50"] {
            for load in ["0.25", "0.9"] {
                for label in [
                    "set",
                    "store (linear), find_or_put_many",
                    "compare-and-swap of the mapping",
                ] {
                    let row = rows.next().unwrap();
                    assert_eq!(
                        row["name"],
                        format!("{mix}, load {load}, {processes}, {label}")
                    );
                    assert!(row["value"].as_f64().unwrap() > 0.0, "{row}");
                    assert_eq!(row["ratio"].is_number(), !label.contains("swap"), "{row}");
                }
            }
        }
    }
    assert!(rows.next().is_none(), "{report}");
    for (fabric, processes) in [("tcp", "2 processes"), ("sim", "4 machines")] {
        let count = &processes[..1];
        let args = [
            "bench",
            "find-or-put",
            "--json",
            "--fabric",
            fabric,
            "--processes",
            count,
        ];
        let output = farslot(args.iter().chain(&small)).output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
        let report = one_object(&output);
        let rows = report["rows"].as_array().unwrap();
        let of = |label: &str| {
            let name = format!("50/50, load 0.9, {processes}, {label}");
            let row = rows.iter().find(|row| row["name"] == *name);
            row.unwrap_or_else(|| panic!("{name}: {report}"))["value"]
                .as_f64()
                .unwrap()
        };
        assert!(of("set") > 0.0 && of("compare-and-swap of the same memory") > 0.0);
        // In virtual time a find-or-put takes no less than the swap that it may end with.
        assert!(fabric == "tcp" || of("set") < of("compare-and-swap of the same memory"));
    }
    let alone = farslot([
        "bench",
        "find-or-put",
        "--fabric",
        "sim",
        "--processes",
        "1",
    ]);
    let alone = { alone }.output().unwrap();
    assert_fails(&alone, 2, &["--processes 1 is not for --fabric sim"]);
    let full = farslot(["bench", "find-or-put", "--load", "0.99"])
        .output()
        .unwrap();
    assert_fails(&full, 2, &["load factor is 0.99", "at most 0.95"]);
    let mix = farslot(["bench", "find-or-put", "--mix", "80/30"])
        .output()
        .unwrap();
    assert_fails(&mix, 2, &["80/30", "such as 80/20"]);
}
