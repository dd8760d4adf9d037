use super::*;

const SMALL: Scale = Scale {
    slots: 1 << 14,
    tables: 3,
    lookups: 2_000,
    seed: 5,
};

/// The cells of table 1, its read sizes, what these cost, and the caps.
#[test]
fn small_tables_agree_with_the_exact_model() {
    let report = run(&SMALL, &|_| {}).unwrap();
    assert_eq!(report.rows.len(), 7 * 3 + 7 * 2 * 2 + 3);
    let measured = report.rows.iter().filter(|row| row.model.is_some());
    assert_eq!(measured.clone().count(), 21);
    for row in measured {
        let (model, error) = (row.model.unwrap(), row.standard_error.unwrap());
        // Few small tables: at load 0.95 they differ much.
        let tolerance = 5.0 * error + 0.02 * model;
        assert!((row.ours - model).abs() < tolerance, "{row:?}");
        assert!(row.paper.is_some() && row.ratio.is_some());
    }
}

#[test]
fn our_read_sizes_cost_no_more_than_the_papers() {
    let rows = read_sizes().unwrap();
    let costs: Vec<_> = rows
        .iter()
        .filter(|row| row.cell.contains("cost"))
        .collect();
    assert_eq!(costs.len(), 14);
    for row in costs {
        assert!(row.ratio.unwrap() <= 1.0, "{row:?}");
    }
}

#[test]
fn caps_are_the_papers() {
    let ratios: Vec<_> = caps().iter().map(|row| row.ratio).collect();
    assert_eq!(ratios, [Some(1.0); 3]);
}

#[test]
fn a_seed_gives_the_same_figures_whatever_the_threads_do() {
    let options = Scale {
        slots: 1 << 10,
        lookups: 100,
        ..SMALL
    };
    let run = |options| run(&options, &|_| {}).unwrap();
    assert_eq!(run(options), run(options));
    assert_ne!(run(options), run(Scale { seed: 6, ..options }));
}
