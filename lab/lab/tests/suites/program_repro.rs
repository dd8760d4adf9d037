//! Tables and figures: for people, for machines, drawn, and all of a paper in one page.

use crate::program::{assert_fails, error_of, lab, one_object};
use std::fs;

/// Options that make any of them small.
const SMALL: [&str; 6] = ["--slots", "1024", "--tables", "1", "--lookups", "200"];

#[test]
fn a_table_is_for_people_and_for_machines() {
    let for_people = lab(["repro", "000-table3"]).output().unwrap();
    assert!(for_people.status.success(), "{}", error_of(&for_people));
    let text = String::from_utf8(for_people.stdout).unwrap();
    for part in ["paper |", "Variable Linear, 128 bytes inline", "Computed: "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let for_machines = lab(["repro", "000-table3", "--json"]).output().unwrap();
    let report = one_object(&for_machines);
    assert_eq!(report["id"], "000-table3");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16);
    assert!(
        rows.iter()
            .all(|row| row["paper"].is_number() && row["ratio"].is_number())
    );
}

#[test]
fn a_figure_is_drawn_and_a_table_without_a_plot_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figure.svg");
    let mut command = lab(["repro", "000-fig13", "--plot"]);
    assert!(command.arg(&file).output().unwrap().status.success());
    let svg = fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("Read size by offset"));
    let mut command = lab(["repro", "000-table3", "--plot"]);
    let none = folder.path().join("none.svg");
    assert_fails(
        &command.arg(&none).output().unwrap(),
        2,
        &["000-table3", "nothing to draw"],
    );
    assert!(!none.exists());
    let mut command = lab(["repro", "000-fig13", "--plot"]);
    let nowhere = folder.path().join("no").join("figure.svg");
    assert_fails(
        &command.arg(nowhere).output().unwrap(),
        1,
        &["figure.svg", "No such file"],
    );
}

#[test]
#[ignore = "long: scripts/test --all"]
fn a_paper_is_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let mut command = lab(["repro", "000"]);
    command.args(SMALL).arg("--json").arg("--output").arg(&file);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    let all = one_object(&output);
    let page = fs::read_to_string(&file).unwrap();
    let reports = all["reports"].as_array().unwrap();
    assert!(reports.len() >= 12);
    for report in reports {
        let id = report["id"].as_str().unwrap();
        assert!(page.contains(&format!("<h2 id=\"{id}\">")), "{id}");
    }
    let plots = reports
        .iter()
        .map(|report| report["plots"].as_array().unwrap().len());
    assert_eq!(page.matches("<svg").count(), plots.sum::<usize>());
}

#[test]
fn what_there_is_not_is_answered_with_what_there_is() {
    let parts = ["farslot-lab repro 000 ", "farslot-lab repro 000-fig7"];
    let unknown = lab(["repro", "000-table9"]).output().unwrap();
    assert_fails(&unknown, 2, &parts);
    let list = lab(["repro"]).output().unwrap();
    assert!(list.status.success(), "{}", error_of(&list));
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(parts.iter().all(|part| list.contains(part)), "{list}");
    let list = one_object(&lab(["repro", "--json"]).output().unwrap());
    assert_eq!(list["reproductions"][0]["id"], "000-table1");
    let output = lab(["repro", "000", "--plot", "x.svg"]).output().unwrap();
    assert_fails(&output, 2, &["--output"]);
}
