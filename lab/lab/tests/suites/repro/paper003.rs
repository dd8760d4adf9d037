//! Paper 003, small.

use super::{checked, ours};
use farslot_lab::repro::Options;
use farslot_lab::{Basis, ReproReport, ReproRow};

const FEW: Options = Options {
    slots: None,
    tables: None,
    lookups: Some(60_000),
    seed: 7,
};

/// A report with all figures that the paper's text states, each fitted, predicted, or following
/// from what is fitted, and those of the others named that are not within 15% of the paper's.
fn emulated(id: &str, beside_the_paper: usize) -> ReproReport {
    let report = checked(id, &FEW);
    let beside = report.rows.iter().filter(|row| row.ratio.is_some());
    assert_eq!(beside.clone().count(), beside_the_paper, "{id}");
    for row in beside {
        let error = (row.ratio.unwrap() - 1.0).abs();
        match row.basis {
            Some(Basis::Fitted) => assert!(error < 0.06, "{row:?}"),
            Some(Basis::Predicted | Basis::Follows) => {
                assert_eq!(error > 0.15, report.setup.contains(&row.cell), "{row:?}");
            }
            None => panic!("neither fitted nor predicted: {row:?}"),
        }
    }
    report
}

fn row<'r>(report: &'r ReproReport, cell: &str) -> &'r ReproRow {
    let row = report.rows.iter().find(|row| row.cell.starts_with(cell));
    row.unwrap_or_else(|| panic!("no {cell:?}"))
}

/// A figure within 15% of the paper's.
fn near(report: &ReproReport, cell: &str, basis: Basis) {
    let row = row(report, cell);
    assert_eq!(row.basis, Some(basis), "{row:?}");
    assert!((row.ratio.unwrap() - 1.0).abs() < 0.15, "{row:?}");
}

/// What the product's clients have posted for a lookup or a transaction of a figure.
fn posted(report: &ReproReport, label: &str, of: &str) -> f64 {
    ours(report, &format!("{label} of a {of}"))
}

#[test]
#[ignore = "long: scripts/test --all"]
fn reads_by_connections() {
    let report = emulated("003-fig1", 8);
    near(
        &report,
        "M READs/s, ConnectX-5, 10000 connections",
        Basis::Follows,
    );
    let cell = "connections at which READs are as slow";
    near(&report, cell, Basis::Predicted);
    assert_eq!(row(&report, cell).paper_range, Some([2500.0, 3800.0]));
    // Small pages cost a translation at any number of connections.
    let large = ours(&report, "M READs/s, ConnectX-5, 8 connections");
    let small = ours(&report, "M READs/s, ConnectX-5, pages of 4 KiB");
    assert!(small < 0.8 * large, "{small} {large}");
}

#[test]
#[ignore = "long: scripts/test --all"]
fn lookups_in_storm() {
    let report = emulated("003-fig4", 2);
    near(&report, "perfect / calls alone", Basis::Predicted);
    let of = |label: &str, system: &str| {
        posted(&report, label, &format!("lookup, Storm ({system}), 32"))
    };
    // A READ of a bucket or of a slot in a chain; a call each; a call where keys collide.
    assert!(of("calls", "perfect") == 0.0 && (of("READs", "perfect") - 1.0).abs() < 0.01);
    assert!(of("READs", "calls alone") == 0.0 && (of("calls", "calls alone") - 1.0).abs() < 0.01);
    assert!((120.0..=128.0).contains(&of("bytes", "perfect")));
    let missed = row(&report, "% of the keys that a READ does not find");
    assert_eq!(missed.basis, Some(Basis::Follows));
    assert!(
        (missed.ours / missed.model.unwrap() - 1.0).abs() < 0.1,
        "{missed:?}"
    );
    assert!((of("calls", "oversub") - missed.ours / 100.0).abs() < 1e-9);
    for machines in [4, 8, 16, 32] {
        for system in ["perfect", "oversub", "calls alone"] {
            let cell = format!("M lookups/s of a machine, Storm ({system}), {machines} machines");
            let row = row(&report, &cell);
            let model = row.model.unwrap();
            assert!((0.85..1.05).contains(&(row.ours / model)), "{row:?}");
        }
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn storm_and_what_it_is_compared_with() {
    let report = emulated("003-fig5", 5);
    for beside in ["eRPC, 16", "eRPC without", "FaRM, 16"] {
        near(&report, &format!("Storm / {beside}"), Basis::Predicted);
    }
    let reads = ours(&report, "READs of a lookup, FaRM");
    assert!((1.0..1.15).contains(&reads), "{reads}");
}

#[test]
#[ignore = "long: scripts/test --all"]
fn tatp_by_transactions() {
    let report = emulated("003-fig6", 1);
    near(&report, "oversub / calls alone", Basis::Predicted);
    let of = |label: &str, system: &str| {
        posted(
            &report,
            label,
            &format!("transaction, Storm ({system}), 32"),
        )
    };
    // Most rows are read; those that are written are locked by one call and written by another.
    let [oversub, calls] = ["oversub", "calls alone"].map(|system| of("calls", system));
    assert!((0.4..1.0).contains(&oversub), "{oversub}");
    assert!(calls > oversub + 0.8, "{calls}");
    // What is validated is READ in any case.
    assert!(of("READs", "oversub") > of("READs", "calls alone") + 0.8);
}

#[test]
#[ignore = "long: scripts/test --all"]
fn clusters_whose_connections_do_not_fit() {
    let report = emulated("003-fig7", 3);
    for cell in [
        "64 machines / 32 machines, 20 threads",
        "128 machines / 32 machines, 10 threads",
    ] {
        near(&report, cell, Basis::Follows);
    }
    let [at_96, at_128] = [96, 128].map(|machines| {
        ours(
            &report,
            &format!("M lookups/s of a machine, {machines} machines, 20"),
        )
    });
    assert!(at_128 < 0.9 * at_96, "{at_128} {at_96}");
}

#[test]
#[ignore = "long: scripts/test --all"]
fn a_physical_segment_saves_translations() {
    let report = emulated("003-segments", 2);
    near(&report, "% gained by a physical segment", Basis::Predicted);
}

#[test]
fn round_trips_of_an_idle_cluster() {
    let report = emulated("003-table5", 10);
    let predicted = report
        .rows
        .iter()
        .filter(|row| row.basis == Some(Basis::Predicted));
    assert_eq!(predicted.clone().count(), 5);
    predicted.for_each(|row| near(&report, &row.cell, Basis::Predicted));
    near(&report, "us, LITE, ConnectX-4 on RoCE", Basis::Follows);
}
